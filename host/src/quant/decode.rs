//! A stored matrix seen through its layout, and its rows as f32. Products are the backends'.

use half::bf16;

use super::{NIBBLES, Scheme, SchemeError, Table, fp8};

/// A matrix `[N, K]` where it is stored; nothing is copied.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    scheme: Scheme,
    n: usize,
    k: usize,
    codes: &'a [u8],
    scales: &'a [u8],
    minimums: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// Sees `bytes` as a matrix of this scheme and shape.
    ///
    /// # Errors
    /// A shape the scheme does not take, another length, bytes at no multiple of 4 in memory.
    pub fn new(scheme: Scheme, shape: &[usize], bytes: &'a [u8]) -> Result<Self, SchemeError> {
        let layout = scheme.layout(shape)?;
        if bytes.len() != layout.bytes {
            let (found, expected) = (bytes.len(), layout.bytes);
            return Err(SchemeError::Bytes { scheme, shape: shape.to_vec(), found, expected });
        }
        if bytes.as_ptr().align_offset(4) != 0 {
            return Err(SchemeError::Alignment { scheme, shape: shape.to_vec() });
        }
        Ok(Self {
            scheme,
            n: shape[0],
            k: shape[1],
            codes: &bytes[layout.codes],
            scales: &bytes[layout.scales],
            minimums: &bytes[layout.minimums],
        })
    }

    /// How it is stored.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Rows.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Elements of a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// All codes.
    pub fn codes(&self) -> &'a [u8] {
        self.codes
    }

    /// Its scales.
    #[inline(always)]
    pub fn scales(&self) -> Table<'a> {
        Table::new(self.scheme, self.k, self.scales)
    }

    /// Its minimums; empty where the scheme has none.
    #[inline(always)]
    pub fn minimums(&self) -> Table<'a> {
        Table::new(self.scheme, self.k, self.minimums)
    }

    /// Looks at every element of bf16, every scale and minimum, and the codes of fp8.
    ///
    /// # Errors
    /// The first that is infinite or no number.
    pub fn check_finite(&self) -> Result<(), SchemeError> {
        let elements: Option<(usize, f32)> = match self.scheme {
            Scheme::Bf16 => {
                let elements = bytemuck::cast_slice::<u8, bf16>(self.codes).iter().map(|element| element.to_f32());
                elements.enumerate().find(|(_, value)| !value.is_finite())
            }
            Scheme::Fp8 => {
                self.codes.iter().map(|code| fp8::to_f32(*code)).enumerate().find(|(_, value)| !value.is_finite())
            }
            _ => None,
        };
        let found = [
            ("element", elements),
            ("scale", self.scales().first_not_finite()),
            ("minimum", self.minimums().first_not_finite()),
        ];
        match found.into_iter().find_map(|(what, found)| found.map(|(index, value)| (what, index, value))) {
            None => Ok(()),
            Some((what, index, value)) => Err(SchemeError::NotFinite { what, index, value: value.to_string() }),
        }
    }

    /// Row `row` as f32 in `out`, `[K]`.
    pub fn decode_row(&self, row: usize, out: &mut [f32]) {
        let k = self.k;
        assert!(row < self.n && out.len() == k, "row {row} of {}, {} of {k} elements", self.n, out.len());
        let bytes = self.scheme.row_bytes(k);
        let codes = &self.codes[row * bytes..][..bytes];
        let (scales, minimums) = (self.scales(), self.minimums());
        let scale = |group: usize| scales.value(row, group);
        let minimum = |group: usize| minimums.value(row, group);
        let size = self.scheme.group().unwrap_or(k);
        let groups = out.chunks_exact_mut(size).zip(codes.chunks_exact(self.scheme.row_bytes(size))).enumerate();
        match self.scheme {
            Scheme::Bf16 => {
                for (out, pair) in out.iter_mut().zip(codes.as_chunks::<2>().0) {
                    *out = bf16::from_le_bytes(*pair).to_f32();
                }
            }
            Scheme::Fp8 => {
                let scale = scale(0);
                out.iter_mut().zip(codes).for_each(|(out, code)| *out = fp8::to_f32(*code) * scale);
            }
            Scheme::Int8Row | Scheme::Int8(_) | Scheme::Int8K(_) => {
                for (index, (out, codes)) in groups {
                    let scale = scale(index);
                    out.iter_mut().zip(codes).for_each(|(out, code)| *out = f32::from(*code as i8) * scale);
                }
            }
            Scheme::Int8Min(_) | Scheme::Int8MinK(_) => {
                for (index, (out, codes)) in groups {
                    let (scale, minimum) = (scale(index), minimum(index));
                    out.iter_mut().zip(codes).for_each(|(out, code)| *out = f32::from(*code as i8) * scale + minimum);
                }
            }
            Scheme::Int4(_) => {
                for (index, (out, codes)) in groups {
                    let scale = scale(index);
                    each_nibble(codes, out, |q| (q - 8.0) * scale);
                }
            }
            Scheme::Int4Min(_) | Scheme::Int4MinK(_) => {
                for (index, (out, codes)) in groups {
                    let (scale, minimum) = (scale(index), minimum(index));
                    each_nibble(codes, out, |q| q * scale + minimum);
                }
            }
        }
    }
}

/// Unpacks 16 bytes into 32 elements.
fn each_nibble(codes: &[u8], out: &mut [f32], value: impl Fn(f32) -> f32) {
    for (out, bytes) in out.as_chunks_mut::<NIBBLES>().0.iter_mut().zip(codes.as_chunks::<16>().0) {
        for j in 0..16 {
            out[j] = value(f32::from(bytes[j] & 15));
            out[j + 16] = value(f32::from(bytes[j] >> 4));
        }
    }
}
