//! Matrix products `y[t,n] = Σ_k x[t,k] · w[n,k]` with quantized weights read where they lie, for one token and several; f32 activations, or
//! activations rounded to 8 bits. It unpacks nothing to memory but the scales of a few rows.
//!
//! How it is quick. A `u32` holds eight nibbles or four bytes; with a mask and the exponent of 2²³ set above them, each is an f32 after
//! one subtraction, and where a code stands in the word is a power of two that its activation is divided by beforehand. So a vector of words
//! becomes four or eight vectors of codes by three operations each, without a shuffle: the activations are put into the order of the codes
//! (`planes`) once per call instead. The codes' sum is multiplied with the scale of its group once per word.
//!
//! One order of sums for all, as in [`super`]: a word's products in the order of its codes, then the words of a lane in rising order, then the
//! lanes. So a prompt gives the same bits in one chunk, in many, and token by token.
//!
//! Activations of 8 bits: each token's groups of 32 are rounded to −127 … 127 times their largest / 127. The products of such a group are
//! whole numbers below 2²³, which f32 adds exactly: what is computed is the integer dot product, times both scales.

use half::{f16, slice::HalfFloatSliceExt};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{Scratch, TASK_ROWS, TASK_TOKENS};
use crate::quant::{Matrix, Scheme};

/// Words of a row whose scales are unpacked at a time.
const SPAN: usize = 256;
/// Elements of an activation's group.
const ACTIVATION_GROUP: usize = 32;

/// What the activations are multiplied as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activations {
    /// f32, as they are.
    #[default]
    F32,
    /// 8 bits with a scale per token and 32 elements.
    Int8,
}

/// f32 that a token's activations take in the scratch, for inputs of `k` elements: their planes, the sums of each word's, a scale for each
/// word.
pub fn token_elements(k: usize) -> usize {
    k + 2 * k.div_ceil(4)
}

/// How the codes of a word become vectors of f32.
trait Codes {
    /// Codes in a word.
    const PLANES: usize;
    /// Element of its block of `32` (nibbles) or word (bytes) that code `plane` of word `word` of a row is.
    fn element(word: usize, plane: usize) -> usize;
    /// What the activation of a plane is multiplied with beforehand.
    fn factor(plane: usize) -> f32;
    /// A vector of words as [`Codes::code`] wants it: what the lower and what the upper half of the planes are taken from.
    fn halves<S: Simd>(simd: S, words: S::u32s) -> [S::u32s; 2];
    /// The codes of a plane.
    fn code<S: Simd>(simd: S, halves: [S::u32s; 2], plane: usize) -> S::f32s;
}

/// 2²³ as bits: a whole number below it set into the low bits is added to it.
const MAGIC: u32 = 0x4b00_0000;

/// Whole numbers of `BITS` bits; with the bits `FLIP` of a word turned over, `BIAS` is what a code has too much.
struct Whole<const BITS: u32, const BIAS: u32, const FLIP: u32>;

impl<const BITS: u32, const BIAS: u32, const FLIP: u32> Whole<BITS, BIAS, FLIP> {
    /// Planes of half a word: each is taken from its 16 low bits, which 2²³ leaves room for.
    const HALF: usize = 16 / BITS as usize;

    /// Where a plane's codes begin in their half.
    #[inline(always)]
    fn at(plane: usize) -> u32 {
        BITS * (plane % Self::HALF) as u32
    }
}

impl<const BITS: u32, const BIAS: u32, const FLIP: u32> Codes for Whole<BITS, BIAS, FLIP> {
    const PLANES: usize = 2 * Self::HALF;
    #[inline(always)]
    fn element(word: usize, plane: usize) -> usize {
        match BITS {
            // Byte j of a block of 16 has element j below and element j + 16 above.
            4 => word / 4 * 32 + word % 4 * 4 + plane / 2 + plane % 2 * 16,
            _ => byte(word, plane),
        }
    }
    #[inline(always)]
    fn factor(plane: usize) -> f32 {
        1.0 / (1u32 << Self::at(plane)) as f32
    }
    #[inline(always)]
    fn halves<S: Simd>(simd: S, words: S::u32s) -> [S::u32s; 2] {
        let words = if FLIP == 0 { words } else { simd.xor_u32s(words, simd.splat_u32s(FLIP)) };
        [words, simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(16))]
    }
    #[inline(always)]
    fn code<S: Simd>(simd: S, halves: [S::u32s; 2], plane: usize) -> S::f32s {
        let at = Self::at(plane);
        let bits = simd.and_u32s(halves[plane / Self::HALF], simd.splat_u32s(((1 << BITS) - 1) << at));
        let bits = simd.or_u32s(bits, simd.splat_u32s(MAGIC));
        simd.sub_f32s(simd.transmute_f32s_u32s(bits), simd.splat_f32s((0x80_0000 + (BIAS << at)) as f32))
    }
}

/// Nibbles around zero.
type Signed4 = Whole<4, 8, 0>;
/// Nibbles from a minimum upwards.
type Unsigned4 = Whole<4, 0, 0>;
/// Signed bytes: with its sign turned over a code is 128 too much, and not negative.
type Signed8 = Whole<8, 128, 0x8080_8080>;

/// The element of a row that byte `plane` of word `word` is.
#[inline(always)]
fn byte(word: usize, plane: usize) -> usize {
    4 * word + plane
}

/// e4m3 bytes.
struct Floats;

impl Codes for Floats {
    const PLANES: usize = 4;
    #[inline(always)]
    fn element(word: usize, plane: usize) -> usize {
        byte(word, plane)
    }
    #[inline(always)]
    fn factor(_: usize) -> f32 {
        1.0
    }
    #[inline(always)]
    fn halves<S: Simd>(_: S, words: S::u32s) -> [S::u32s; 2] {
        [words, words]
    }
    #[inline(always)]
    fn code<S: Simd>(simd: S, halves: [S::u32s; 2], plane: usize) -> S::f32s {
        let top = simd.wrapping_dyn_shl_u32s(halves[0], simd.splat_u32s(24 - 8 * plane as u32));
        let sign = simd.and_u32s(top, simd.splat_u32s(0x8000_0000));
        let rest = simd.and_u32s(top, simd.splat_u32s(0x7f00_0000));
        let bits = simd.or_u32s(sign, simd.wrapping_dyn_shr_u32s(rest, simd.splat_u32s(4)));
        // Exact: it moves the exponent's bias from 7 to 127.
        simd.mul_f32s(simd.transmute_f32s_u32s(bits), simd.splat_f32s(f32::from_bits(0x7b80_0000)))
    }
}

/// `y[t,n] = Σ_k x[t,k] · w[n,k]` on the current rayon pool; `x` is `[T, K]`, `y` `[T, N]`. `w` is no bf16, its codes at a multiple of 4.
pub fn linear(arch: Arch, w: &Matrix, activations: Activations, x: &[f32], y: &mut [f32], scratch: &mut Scratch) {
    match w.scheme() {
        Scheme::Int4(_) => run::<Signed4>(arch, w, activations, x, y, scratch),
        Scheme::Int4Min(_) => run::<Unsigned4>(arch, w, activations, x, y, scratch),
        Scheme::Int8(_) | Scheme::Int8Row => run::<Signed8>(arch, w, activations, x, y, scratch),
        Scheme::Fp8 => run::<Floats>(arch, w, Activations::F32, x, y, scratch),
        Scheme::Bf16 => unreachable!("bf16 has a product of its own"),
    }
}

fn run<C: Codes>(arch: Arch, w: &Matrix, activations: Activations, x: &[f32], y: &mut [f32], scratch: &mut Scratch) {
    let (n, k) = (w.n(), w.k());
    let tokens = x.len() / k;
    let words = k / C::PLANES;
    assert!(x.len() == tokens * k && y.len() == tokens * n && k.is_multiple_of(ACTIVATION_GROUP));
    let stride = k + 2 * words;
    let planes = &mut scratch.split[..tokens * stride];
    planes
        .par_chunks_exact_mut(stride)
        .zip(x.par_chunks_exact(k))
        .for_each(|(out, x)| arrange::<C>(activations, x, out));
    let x = Inputs { planes: &*planes, stride, words, scaled: activations == Activations::Int8 };
    let codes: &[u32] = bytemuck::cast_slice(w.codes());
    let rows = |(index, out): (usize, &mut [f32])| {
        let first = index * TASK_ROWS;
        arch.dispatch(Task::<C> { w: *w, codes, first, x, tokens, out, kind: std::marker::PhantomData });
    };
    if tokens == 1 {
        y.par_chunks_mut(TASK_ROWS).enumerate().for_each(rows);
        return;
    }
    let by_row = &mut scratch.by_row[..n * tokens];
    by_row.par_chunks_mut(TASK_ROWS * tokens).enumerate().for_each(rows);
    super::transpose(by_row, tokens, y);
}

/// Puts one token's activations into the order of the codes: `PLANES` planes of a value per word, then per word their sum and their scale.
/// Sums and scales are those of what is multiplied, so rounded activations give rounded sums.
fn arrange<C: Codes>(activations: Activations, x: &[f32], out: &mut [f32]) {
    let words = x.len() / C::PLANES;
    let (planes, rest) = out.split_at_mut(x.len());
    let (sums, scales) = rest.split_at_mut(words);
    scales.fill(1.0);
    if activations == Activations::Int8 {
        let per_group = ACTIVATION_GROUP / C::PLANES;
        for (scales, x) in scales.chunks_exact_mut(per_group).zip(x.chunks_exact(ACTIVATION_GROUP)) {
            scales.fill(x.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0);
        }
    }
    sums.fill(0.0);
    for (plane, values) in planes.chunks_exact_mut(words).enumerate() {
        let factor = C::factor(plane);
        for (word, value) in values.iter_mut().enumerate() {
            let x = x[C::element(word, plane)];
            let x = match activations {
                Activations::F32 => x,
                Activations::Int8 if scales[word] > 0.0 => (x / scales[word]).round_ties_even().clamp(-127.0, 127.0),
                Activations::Int8 => 0.0,
            };
            sums[word] += x;
            *value = x * factor;
        }
    }
}

/// Activations of all tokens as [`arrange`] leaves them.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    planes: &'a [f32],
    stride: usize,
    words: usize,
    /// Whether the scales say anything.
    scaled: bool,
}

/// Some rows of `w` against all tokens: `out[n, t]`.
struct Task<'a, C> {
    w: Matrix<'a>,
    codes: &'a [u32],
    /// First row.
    first: usize,
    x: Inputs<'a>,
    tokens: usize,
    out: &'a mut [f32],
    kind: std::marker::PhantomData<C>,
}

impl<C: Codes> WithSimd for Task<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let rows = self.out.len() / self.tokens;
        if self.tokens == 1 {
            let mut n = 0;
            while n + 4 <= rows {
                tile::<S, C, 4, 1>(simd, &mut self, n, 0);
                n += 4;
            }
            for n in n..rows {
                tile::<S, C, 1, 1>(simd, &mut self, n, 0);
            }
            return;
        }
        for first in (0..self.tokens).step_by(TASK_TOKENS) {
            let last = (first + TASK_TOKENS).min(self.tokens);
            let mut n = 0;
            while n + 2 <= rows {
                let mut t = first;
                while t + 2 <= last {
                    tile::<S, C, 2, 2>(simd, &mut self, n, t);
                    t += 2;
                }
                if t < last {
                    tile::<S, C, 2, 1>(simd, &mut self, n, t);
                }
                n += 2;
            }
            if n < rows {
                for t in first..last {
                    tile::<S, C, 1, 1>(simd, &mut self, n, t);
                }
            }
        }
    }
}

/// One value for each word of `span`, from a table of one per `words` words.
#[inline(always)]
fn unpack_table(table: &[f16], words: usize, out: &mut [f32]) {
    let mut values = [0f32; SPAN / 4];
    let values = &mut values[..table.len()];
    table.convert_to_f32_slice(values);
    match words {
        4 => out.as_chunks_mut::<4>().0.iter_mut().zip(values).for_each(|(out, value)| *out = [*value; 4]),
        8 => out.as_chunks_mut::<8>().0.iter_mut().zip(values).for_each(|(out, value)| *out = [*value; 8]),
        16 => out.as_chunks_mut::<16>().0.iter_mut().zip(values).for_each(|(out, value)| *out = [*value; 16]),
        _ => out.chunks_exact_mut(words).zip(values).for_each(|(out, value)| out.fill(*value)),
    }
}

/// A vector of words; what is missing of it is 0.
#[inline(always)]
fn words_at<S: Simd>(simd: S, words: &[u32]) -> S::u32s {
    match S::as_simd_u32s(words).0 {
        [whole] => *whole,
        _ => simd.partial_load_u32s(words),
    }
}

/// A vector of f32; what is missing of it is 0.
#[inline(always)]
fn floats_at<S: Simd>(simd: S, values: &[f32]) -> S::f32s {
    match S::as_simd_f32s(values).0 {
        [whole] => *whole,
        _ => simd.partial_load_f32s(values),
    }
}

/// `R` rows from `n` against `M` tokens from `t`.
#[inline(always)]
fn tile<S: Simd, C: Codes, const R: usize, const M: usize>(simd: S, task: &mut Task<C>, n: usize, t: usize) {
    let Inputs { planes, stride, words, scaled } = task.x;
    let k = words * C::PLANES;
    let row = task.first + n;
    let codes: [&[u32]; R] = std::array::from_fn(|r| &task.codes[(row + r) * words..][..words]);
    let x: [&[f32]; M] = std::array::from_fn(|m| &planes[(t + m) * stride..][..stride]);
    let group = task.w.scheme().group();
    let (scales, minimums) = (task.w.group_scales(), task.w.minimums());
    let mut total = [[simd.splat_f32s(0.0); M]; R];
    let mut scale_of = [[1f32; SPAN]; R];
    let mut minimum_of = [[0f32; SPAN]; R];
    for start in (0..words).step_by(SPAN) {
        let span = SPAN.min(words - start);
        if let Some(group) = group {
            let (per_row, per_group) = (k / group, group / C::PLANES);
            let part = start / per_group..(start + span) / per_group;
            for r in 0..R {
                let table = |all: &'_ [f16]| -> [usize; 2] {
                    [(row + r) * per_row + part.start, ((row + r) * per_row + part.end).min(all.len())]
                };
                let [from, to] = table(scales);
                unpack_table(&scales[from..to], per_group, &mut scale_of[r][..span]);
                if !minimums.is_empty() {
                    unpack_table(&minimums[from..to], per_group, &mut minimum_of[r][..span]);
                }
            }
        }
        for at in (0..span).step_by(S::U32_LANES) {
            let end = (at + S::U32_LANES).min(span);
            let (from, to) = (start + at, start + end);
            let mut sum = [[simd.splat_f32s(0.0); M]; R];
            // Plain loops: a closure would not be inlined (EXP-0001).
            let mut halves = [[simd.splat_u32s(0); 2]; R];
            for (halves, codes) in halves.iter_mut().zip(&codes) {
                *halves = C::halves(simd, words_at(simd, &codes[from..to]));
            }
            for plane in 0..C::PLANES {
                let mut inputs = [simd.splat_f32s(0.0); M];
                for (input, x) in inputs.iter_mut().zip(&x) {
                    *input = floats_at(simd, &x[plane * words + from..plane * words + to]);
                }
                for r in 0..R {
                    let code = C::code(simd, halves[r], plane);
                    for m in 0..M {
                        sum[r][m] = simd.mul_add_e_f32s(code, inputs[m], sum[r][m]);
                    }
                }
            }
            for m in 0..M {
                for r in 0..R {
                    if group.is_some() {
                        let scale = floats_at(simd, &scale_of[r][at..end]);
                        sum[r][m] = simd.mul_f32s(sum[r][m], scale);
                    }
                    if !minimums.is_empty() {
                        let minimum = floats_at(simd, &minimum_of[r][at..end]);
                        let x = floats_at(simd, &x[m][k + from..k + to]);
                        sum[r][m] = simd.mul_add_e_f32s(minimum, x, sum[r][m]);
                    }
                    if scaled {
                        let scale = floats_at(simd, &x[m][k + words + from..k + words + to]);
                        total[r][m] = simd.mul_add_e_f32s(sum[r][m], scale, total[r][m]);
                    } else {
                        total[r][m] = simd.add_f32s(total[r][m], sum[r][m]);
                    }
                }
            }
        }
    }
    for (r, total) in total.iter().enumerate() {
        let scale = task.w.row_scales().get(row + r).copied().unwrap_or(1.0);
        for (m, total) in total.iter().enumerate() {
            task.out[(n + r) * task.tokens + t + m] = simd.reduce_sum_f32s(*total) * scale;
        }
    }
}
