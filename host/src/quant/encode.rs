//! Rows of f32 into codes and scales. Each group is encoded by itself, so the same row gives the same bytes wherever it stands and on
//! however many threads. Which scheme a matrix gets, and where its bytes go, is decided elsewhere.
//!
//! The default search minimises the squared error of a group: a grid of scales around the largest element's; for the codes that each of them
//! gives, the best scale in closed form; the best of these, rounded to f16; and codes and scale once more from each other while that helps.

use half::f16;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{Layout, Scheme, SchemeError, Table, fp8};
use crate::cpu::arch;

/// How scales are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Search {
    /// The largest element of a group is its largest code: the plain baseline.
    Nearest,
    /// The least squared error.
    #[default]
    LeastSquares,
}

/// Some rows of a matrix, encoded; parts as in [`super::Layout`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Codes of all rows.
    pub codes: Vec<u8>,
    /// Scales of all rows.
    pub scales: Vec<u8>,
    /// Minimums of all rows; empty where the scheme has none.
    pub minimums: Vec<u8>,
}

impl Encoded {
    /// Looks at every scale and minimum; the first row here is the matrix's row `first`.
    ///
    /// # Errors
    /// The first that is infinite or no number, by its index in the whole matrix.
    pub fn check_finite(&self, scheme: Scheme, k: usize, first: usize) -> Result<(), SchemeError> {
        for (what, bytes) in [("scale", &self.scales), ("minimum", &self.minimums)] {
            if let Some((at, value)) = Table::new(scheme, k, bytes).first_not_finite() {
                let index = first * scheme.scales_per_row(k) + at;
                return Err(SchemeError::NotFinite { what, index, value: value.to_string() });
            }
        }
        Ok(())
    }

    /// The parts of a whole matrix where its layout has them, zeros between: the first [`Layout::bytes`] bytes of whole words.
    pub fn object(&self, layout: &Layout) -> Vec<u32> {
        let mut words = vec![0u32; layout.bytes.div_ceil(4)];
        let object: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        for (range, part) in
            [(&layout.codes, &self.codes), (&layout.scales, &self.scales), (&layout.minimums, &self.minimums)]
        {
            object[range.clone()].copy_from_slice(part);
        }
        words
    }
}

/// Encodes `rows`, `[R, K]` row-major, on the current rayon pool. [`Scheme::Bf16`] rounds to bfloat16 and has no scales. A scale that its type
/// cannot hold comes out infinite: [`Encoded::check_finite`] finds it.
///
/// # Errors
/// A scheme that has no encoder; a K that it does not take; an element that is not finite, by its index in `rows`.
pub fn encode(scheme: Scheme, search: Search, rows: &[f32], k: usize) -> Result<Encoded, SchemeError> {
    let n = rows.len() / k.max(1);
    if scheme.is_only_kept() {
        return Err(SchemeError::Kept { scheme });
    }
    let layout = scheme.layout(&[n, k])?;
    assert!(rows.len() == n * k, "whole rows");
    let mut encoded = Encoded {
        codes: vec![0; layout.codes.len()],
        scales: vec![0; layout.scales.len()],
        minimums: vec![0; layout.minimums.len()],
    };
    let scale_bytes = scheme.scale_row_bytes(k).max(1);
    // Schemes without scales or minimums still need as many empty slices as there are rows.
    let mut no_scales: Vec<&mut [u8]> = encoded.scales.chunks_exact_mut(scale_bytes).collect();
    no_scales.resize_with(n, Default::default);
    let mut no_minimums: Vec<&mut [u8]> = encoded.minimums.chunks_exact_mut(scale_bytes).collect();
    no_minimums.resize_with(n, Default::default);
    let codes = encoded.codes.par_chunks_exact_mut(scheme.row_bytes(k));
    let tables = no_scales.into_par_iter().zip(no_minimums);
    codes.zip(tables).zip(rows.par_chunks_exact(k)).enumerate().try_for_each(
        |(row, ((codes, (scales, minimums)), x))| {
            if let Some(at) = x.iter().position(|x| !x.is_finite()) {
                return Err(SchemeError::NotFinite { what: "element", index: row * k + at, value: x[at].to_string() });
            }
            arch().dispatch(Row { scheme, search, x, codes, scales, minimums });
            Ok(())
        },
    )?;
    Ok(encoded)
}

/// One row.
struct Row<'a> {
    scheme: Scheme,
    search: Search,
    x: &'a [f32],
    codes: &'a mut [u8],
    scales: &'a mut [u8],
    minimums: &'a mut [u8],
}

impl WithSimd for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { scheme, search, x, codes, scales, minimums } = self;
        match scheme {
            Scheme::Bf16 => {
                for (pair, x) in codes.as_chunks_mut::<2>().0.iter_mut().zip(x) {
                    *pair = half::bf16::from_f32(*x).to_le_bytes();
                }
            }
            Scheme::Fp8 => {
                let scale = fp8_scale(x, search);
                let inverse = inverse(scale);
                codes.iter_mut().zip(x).for_each(|(code, x)| *code = fp8::from_f32(x * inverse));
                scales.copy_from_slice(&scale.to_le_bytes());
            }
            Scheme::Int8Row => {
                let scale = signed_scale(x, &INT8, search, |scale| scale);
                put_int8(codes, x, scale);
                scales.copy_from_slice(&scale.to_le_bytes());
            }
            Scheme::Int8(group) => {
                let groups = x.chunks_exact(group).zip(codes.chunks_exact_mut(group));
                for (index, (x, codes)) in groups.enumerate() {
                    let scale = signed_scale(x, &INT8, search, to_f16);
                    put_int8(codes, x, scale);
                    put_f16(scales, index, scale);
                }
            }
            Scheme::Int4(group) => {
                let groups = x.chunks_exact(group);
                for (index, (x, codes)) in groups.zip(codes.chunks_exact_mut(group / 2)).enumerate() {
                    let scale = signed_scale(x, &INT4, search, to_f16);
                    let inverse = inverse(scale);
                    put_nibbles(codes, x, |x| INT4.code(x * inverse) + 8.0);
                    put_f16(scales, index, scale);
                }
            }
            Scheme::Int4Min(group) => {
                let groups = x.chunks_exact(group);
                for (index, (x, codes)) in groups.zip(codes.chunks_exact_mut(group / 2)).enumerate() {
                    let (scale, minimum) = scale_and_minimum(x, search);
                    let inverse = inverse(scale);
                    put_nibbles(codes, x, |x| nibble((x - minimum) * inverse));
                    put_f16(scales, index, scale);
                    put_f16(minimums, index, minimum);
                }
            }
            Scheme::Int8Min(_) | Scheme::Int8K(_) | Scheme::Int8MinK(_) | Scheme::Int4MinK(_) => {
                unreachable!("refused before")
            }
        }
    }
}

/// Range of the codes around zero, and the grid of the search: what the largest element is divided by.
struct Signed {
    low: f32,
    high: f32,
    /// Divisors of the largest element; a negative scale puts it at `low`.
    grid: &'static [f32],
}

const INT8: Signed = Signed { low: -127.0, high: 127.0, grid: &[127.0, 126.0, 124.0, 122.0, 128.0, 130.0] };
const INT4: Signed = Signed {
    low: -8.0,
    high: 7.0,
    grid: &[
        7.0, -8.0, 5.0, 5.5, 6.0, 6.25, 6.5, 6.75, 7.25, 7.5, 7.75, 8.0, 8.5, 9.0, 10.0, 11.5, 14.0, 18.0, -5.5, -6.0,
        -6.5, -6.75, -7.0, -7.25, -7.5, -7.75, -8.25, -8.5, -9.0, -9.5, -10.5, -12.0, -14.0, -18.0,
    ],
};

impl Signed {
    #[inline(always)]
    fn code(&self, scaled: f32) -> f32 {
        // Compared, not `max` and `min`: those take three instructions each for what is no number.
        let code = scaled.round_ties_even();
        let code = if code > self.low { code } else { self.low };
        if code < self.high { code } else { self.high }
    }
}

/// `1 / scale`, or 0 where the scale is: then every code is that of 0.
#[inline(always)]
fn inverse(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { 0.0 }
}

fn to_f16(scale: f32) -> f32 {
    f16::from_f32(scale).to_f32()
}

/// Lanes of the sums below: independent chains that the compiler can put into vectors.
const LANES: usize = 16;

/// `Σ f(i)` over pairs of sums, in lanes.
#[inline(always)]
fn sums<const N: usize>(x: &[f32], f: impl Fn(f32) -> [f32; N]) -> [f32; N] {
    let mut lanes = [[0f32; LANES]; N];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for x in chunks {
        for lane in 0..LANES {
            let terms = f(x[lane]);
            for (sum, term) in lanes.iter_mut().zip(terms) {
                sum[lane] += term;
            }
        }
    }
    let mut total = lanes.map(tree);
    for x in rest {
        for (total, term) in total.iter_mut().zip(f(*x)) {
            *total += term;
        }
    }
    total
}

/// Their sum by halves: in a row, each addition would wait for the one before.
#[inline(always)]
fn tree(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(&high[..half]).for_each(|(low, high)| *low += *high);
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0f32, |most, x| if x.abs() > most.abs() { *x } else { most })
}

/// The scale of a group whose codes lie around zero, as its type holds it: `round` rounds it so.
#[inline(always)]
fn signed_scale(x: &[f32], codes: &Signed, search: Search, round: impl Fn(f32) -> f32) -> f32 {
    let most = largest(x);
    if most == 0.0 {
        return 0.0;
    }
    let plain = round(most.abs() / codes.high);
    if search == Search::Nearest || !plain.is_finite() {
        return plain;
    }
    // For given codes q the best scale is Σxq / Σq², and it takes (Σxq)² / Σq² off the error.
    let fit = |inverse: f32| {
        let [xq, qq] = sums(x, |x| {
            let q = codes.code(x * inverse);
            [x * q, q * q]
        });
        if qq > 0.0 { (xq * xq / qq, xq / qq) } else { (0.0, 0.0) }
    };
    let mut best = (0.0, plain);
    for divisor in codes.grid {
        let found = fit(divisor / most);
        if found.0 > best.0 {
            best = found;
        }
    }
    // Codes and scale from each other, with the scale as it will be stored.
    let error = |scale: f32| {
        let inverse = inverse(scale);
        let [error] = sums(x, |x| {
            let difference = x - codes.code(x * inverse) * scale;
            [difference * difference]
        });
        error
    };
    let mut scale = round(best.1);
    let mut least = error(scale);
    for _ in 0..3 {
        let next = round(fit(inverse(scale)).1);
        if next == scale {
            break;
        }
        let found = error(next);
        if found >= least {
            break;
        }
        (scale, least) = (next, found);
    }
    if error(plain) < least { plain } else { scale }
}

#[inline(always)]
fn nibble(scaled: f32) -> f32 {
    scaled.round_ties_even().clamp(0.0, 15.0)
}

/// How far the first guess of a group's range moves in from each end, in parts of the range.
const INWARD: [f32; 6] = [0.0, 0.03, 0.07, 0.12, 0.18, 0.25];

/// Scale and minimum of a group, both as f16 holds them.
#[inline(always)]
fn scale_and_minimum(x: &[f32], search: Search) -> (f32, f32) {
    let low = x.iter().fold(f32::INFINITY, |low, x| low.min(*x));
    let high = x.iter().fold(f32::NEG_INFINITY, |high, x| high.max(*x));
    let plain = (to_f16((high - low) / 15.0), to_f16(low));
    if search == Search::Nearest || high == low || !(plain.0.is_finite() && plain.1.is_finite()) {
        return plain;
    }
    let range = high - low;
    // Two unknowns for given codes: the normal equations of x ≈ q · scale + minimum.
    let fit = |scale: f32, minimum: f32| {
        let inverse = inverse(scale);
        let [sx, sq, sqq, sxq] = sums(x, |x| {
            let q = nibble((x - minimum) * inverse);
            [x - low, q, q * q, (x - low) * q]
        });
        let count = x.len() as f32;
        let determinant = count * sqq - sq * sq;
        if determinant <= 0.0 {
            return (0.0, scale, minimum);
        }
        let scale = (count * sxq - sx * sq) / determinant;
        let offset = (sx - scale * sq) / count;
        (scale * sxq + offset * sx, scale, low + offset)
    };
    let mut best = (0.0, plain.0, plain.1);
    for below in INWARD {
        for above in INWARD {
            let found = fit(range * (1.0 - below - above) / 15.0, low + below * range);
            if found.0 > best.0 {
                best = found;
            }
        }
    }
    let error = |(scale, minimum): (f32, f32)| {
        let inverse = inverse(scale);
        let [error] = sums(x, |x| {
            let difference = x - (nibble((x - minimum) * inverse) * scale + minimum);
            [difference * difference]
        });
        error
    };
    let rounded = |(_, scale, minimum): (f32, f32, f32)| (to_f16(scale), to_f16(minimum));
    let mut pair = rounded(best);
    let mut least = error(pair);
    for _ in 0..3 {
        let next = rounded(fit(pair.0, pair.1));
        let found = error(next);
        if found >= least {
            break;
        }
        (pair, least) = (next, found);
    }
    if error(plain) < least { plain } else { pair }
}

/// Scales between the one that uses the largest value and half of it: beyond, the same steps come again one exponent lower.
const FP8_STEPS: usize = 8;

#[inline(always)]
fn fp8_scale(x: &[f32], search: Search) -> f32 {
    let plain = largest(x).abs() / fp8::MAX;
    if search == Search::Nearest || plain == 0.0 {
        return plain;
    }
    let mut best = (f32::INFINITY, plain);
    for step in 0..FP8_STEPS {
        let scale = plain * (1.0 + step as f32 / FP8_STEPS as f32);
        let inverse = inverse(scale);
        let [error] = sums(x, |x| {
            let difference = x - fp8::to_f32(fp8::from_f32(x * inverse)) * scale;
            [difference * difference]
        });
        if error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}

#[inline(always)]
fn put_int8(codes: &mut [u8], x: &[f32], scale: f32) {
    let inverse = inverse(scale);
    codes.iter_mut().zip(x).for_each(|(code, x)| *code = INT8.code(x * inverse) as i8 as u8);
}

/// Packs nibbles: 32 elements into 16 bytes, the second half of them above the first.
#[inline(always)]
fn put_nibbles(codes: &mut [u8], x: &[f32], code: impl Fn(f32) -> f32) {
    for (bytes, x) in codes.as_chunks_mut::<16>().0.iter_mut().zip(x.as_chunks::<32>().0) {
        for j in 0..16 {
            bytes[j] = code(x[j]) as u8 | (code(x[j + 16]) as u8) << 4;
        }
    }
}

fn put_f16(table: &mut [u8], index: usize, value: f32) {
    table[2 * index..][..2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}
