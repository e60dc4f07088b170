//! A stored matrix seen through its layout, and its rows as f32. Products are the backends'.

use half::{bf16, f16};

use super::{NIBBLES, Scheme, SchemeError, fp8};

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

    /// Scales of schemes by groups, `[N, K/G]`; empty for others.
    pub fn group_scales(&self) -> &'a [f16] {
        if self.scheme.scale_bytes() == 2 { bytemuck::cast_slice(self.scales) } else { &[] }
    }

    /// Scales of schemes by rows, `[N]`; empty for others.
    pub fn row_scales(&self) -> &'a [f32] {
        if self.scheme.scale_bytes() == 4 { bytemuck::cast_slice(self.scales) } else { &[] }
    }

    /// Minimums, `[N, K/G]`; empty but for [`Scheme::Int4Min`].
    pub fn minimums(&self) -> &'a [f16] {
        bytemuck::cast_slice(self.minimums)
    }

    /// Looks at every element of bf16, every scale and minimum, and the codes of fp8.
    ///
    /// # Errors
    /// The first that is infinite or no number.
    pub fn check_finite(&self) -> Result<(), SchemeError> {
        fn check(what: &'static str, values: impl Iterator<Item = f32>) -> Result<(), SchemeError> {
            let found = values.enumerate().find(|(_, value)| !value.is_finite());
            found.map_or(Ok(()), |(index, value)| Err(SchemeError::NotFinite { what, index, value: value.to_string() }))
        }
        match self.scheme {
            Scheme::Bf16 => check("element", bytemuck::cast_slice::<u8, bf16>(self.codes).iter().map(|w| w.to_f32()))?,
            Scheme::Fp8 => check("element", self.codes.iter().map(|code| fp8::to_f32(*code)))?,
            _ => {}
        }
        check("scale", self.row_scales().iter().copied())?;
        check("scale", self.group_scales().iter().map(|scale| scale.to_f32()))?;
        check("minimum", self.minimums().iter().map(|minimum| minimum.to_f32()))
    }

    /// Row `row` as f32 in `out`, `[K]`.
    pub fn decode_row(&self, row: usize, out: &mut [f32]) {
        let k = self.k;
        assert!(row < self.n && out.len() == k, "row {row} of {}, {} of {k} elements", self.n, out.len());
        let bytes = self.scheme.row_bytes(k);
        let codes = &self.codes[row * bytes..][..bytes];
        let per_row = self.scheme.scales_per_row(k);
        let scale = |group: usize| self.group_scales()[row * per_row + group].to_f32();
        match self.scheme {
            Scheme::Bf16 => {
                for (out, pair) in out.iter_mut().zip(codes.as_chunks::<2>().0) {
                    *out = bf16::from_le_bytes(*pair).to_f32();
                }
            }
            Scheme::Int8Row => {
                let scale = self.row_scales()[row];
                out.iter_mut().zip(codes).for_each(|(out, code)| *out = f32::from(*code as i8) * scale);
            }
            Scheme::Fp8 => {
                let scale = self.row_scales()[row];
                out.iter_mut().zip(codes).for_each(|(out, code)| *out = fp8::to_f32(*code) * scale);
            }
            Scheme::Int8(size) => {
                for (index, (out, codes)) in out.chunks_exact_mut(size).zip(codes.chunks_exact(size)).enumerate() {
                    let scale = scale(index);
                    out.iter_mut().zip(codes).for_each(|(out, code)| *out = f32::from(*code as i8) * scale);
                }
            }
            Scheme::Int4(size) => {
                for (index, (out, codes)) in out.chunks_exact_mut(size).zip(codes.chunks_exact(size / 2)).enumerate() {
                    let scale = scale(index);
                    each_nibble(codes, out, |q| (q - 8.0) * scale);
                }
            }
            Scheme::Int4Min(size) => {
                for (index, (out, codes)) in out.chunks_exact_mut(size).zip(codes.chunks_exact(size / 2)).enumerate() {
                    let (scale, minimum) = (scale(index), self.minimums()[row * per_row + index].to_f32());
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
