//! Matrix products `y[t,n] = Σ_k x[t,k] · w[n,k]` with quantized weights read where they lie, for one token and several; f32 activations, or
//! activations rounded to 8 bits. Only the codes of a few hundred elements of a few rows are ever unpacked at a time.
//!
//! How it is quick. [`SPAN`] elements of some rows become f32 in the first-level cache ([`super::codes`]), and from there they are
//! multiplied with every token of the call, so a prompt pays for them once in sixteen tokens. What the next rows hold there is asked for
//! meanwhile ([`crate::cpu::prefetch`]): unpacking takes so many instructions that the processor does not look far enough ahead by itself.
//!
//! What is multiplied is exactly what [`Matrix::decode_row`] gives. One order of sums for all, as in [`super`]: the products of a lane in rising
//! order, then the lanes. So a prompt gives the same bits in one chunk, in many, and token by token.
//!
//! Activations of 8 bits: each token's groups of 64 are rounded to −127 … 127 times their largest / 127, and weights stay codes. The products
//! of 32 are whole numbers below 2²³, which f32 adds exactly: what is computed is the integer dot product, times both scales.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::codes::{self, Bytes, Codes, Floats, Signed4, Unpacked, Unsigned4};
use super::{Scratch, TASK_ROWS, TASK_TOKENS};
use crate::cpu::prefetch;
use crate::quant::{ACTIVATION_GROUP, Activations, LEVEL_GROUPS, Matrix, Scheme};

/// Elements of a row that are unpacked at a time; every group divides it.
pub(super) const SPAN: usize = 512;
/// Elements whose products are summed before anything is scaled: the smallest groups but of weights of two levels.
pub(super) const GROUP: usize = 32;
/// Groups of a span.
const GROUPS: usize = SPAN / GROUP;
/// Most groups of weights of a span.
const MOST_GROUPS: usize = SPAN / LEVEL_GROUPS[0];
/// Rows that are unpacked at once.
const ROWS: usize = 4;
/// How many rows ahead memory is asked for.
const AHEAD: usize = 2 * ROWS;

/// f32 that a token's activations take in the scratch, for inputs of `k` elements: themselves, and the sum and the scale of each group.
pub fn token_elements(k: usize) -> usize {
    k + 2 * k.div_ceil(GROUP)
}

/// `y[t,n] = Σ_k x[t,k] · w[n,k]` on the current rayon pool; `x` is `[T, K]`, `y` `[T, N]`. `w` is no bf16, its codes at a multiple of 4.
pub fn linear(arch: Arch, w: &Matrix, activations: Activations, x: &[f32], y: &mut [f32], scratch: &mut Scratch) {
    match w.scheme() {
        Scheme::Int4(_) => run::<Signed4>(arch, w, activations, x, y, scratch),
        Scheme::Int4Min(_) | Scheme::Int4MinK(_) => run::<Unsigned4>(arch, w, activations, x, y, scratch),
        Scheme::Int8(_) | Scheme::Int8Row | Scheme::Int8K(_) => {
            run::<Bytes<false>>(arch, w, activations, x, y, scratch)
        }
        Scheme::Int8Min(_) | Scheme::Int8MinK(_) => run::<Bytes<true>>(arch, w, activations, x, y, scratch),
        Scheme::Fp8 => run::<Floats>(arch, w, Activations::AsTheyAre, x, y, scratch),
        Scheme::Bf16 => unreachable!("bf16 has a product of its own"),
    }
}

fn run<C: Codes>(arch: Arch, w: &Matrix, activations: Activations, x: &[f32], y: &mut [f32], scratch: &mut Scratch) {
    let (n, k) = (w.n(), w.k());
    let tokens = x.len() / k;
    assert!(x.len() == tokens * k && y.len() == tokens * n && k.is_multiple_of(GROUP));
    let stride = token_elements(k);
    // A sum of whole numbers needs one scale of weights for each of activations; elsewhere rounded activations are f32 like others.
    let whole = activations == Activations::Int8 && w.scheme().group().is_none_or(|group| group >= GROUP);
    let arranged = &mut scratch.split[..tokens * stride];
    let inputs = arranged.par_chunks_exact_mut(stride).zip(x.par_chunks_exact(k));
    inputs.for_each(|(out, x)| arrange(activations, whole, x, out));
    let arranged = &*arranged;
    let rows = |(index, out): (usize, &mut [f32])| {
        let first = index * TASK_ROWS;
        if whole {
            arch.dispatch(Task::<C, true> { w: *w, first, x: arranged, tokens, out, kind: PhantomData });
        } else {
            arch.dispatch(Task::<C, false> { w: *w, first, x: arranged, tokens, out, kind: PhantomData });
        }
    };
    if tokens == 1 {
        y.par_chunks_mut(TASK_ROWS).enumerate().for_each(rows);
        return;
    }
    let by_row = &mut scratch.by_row[..n * tokens];
    by_row.par_chunks_mut(TASK_ROWS * tokens).enumerate().for_each(rows);
    super::transpose(by_row, tokens, y);
}

/// One token's activations as they are multiplied, then of each group their sum and their scale, so that activation = value · scale. `whole`:
/// rounded ones are multiplied as whole numbers.
fn arrange(activations: Activations, whole: bool, x: &[f32], out: &mut [f32]) {
    let (values, rest) = out.split_at_mut(x.len());
    let (sums, scales) = rest.split_at_mut(x.len() / GROUP);
    values.copy_from_slice(x);
    let groups = values.as_chunks_mut::<GROUP>().0.iter_mut();
    let shared = x.chunks(ACTIVATION_GROUP).flat_map(|x| std::iter::repeat_n(x, x.len() / GROUP));
    for (((values, sum), scale), shared) in groups.zip(sums).zip(scales).zip(shared) {
        *scale = 1.0;
        if activations == Activations::Int8 {
            // As whole numbers magnitudes are in order, NaN behind all: it is not passed over, and its group's products are NaN.
            let most = shared.iter().fold(0, |most, x| x.abs().to_bits().max(most));
            *scale = f32::from_bits(most) / 127.0;
            for value in values.iter_mut() {
                // A group of zeros has a scale of 0, one with a NaN one that is none: nothing to divide by.
                let code = (*value / *scale).round_ties_even().clamp(-127.0, 127.0);
                *value = if *scale > 0.0 { code } else { 0.0 };
            }
            if !whole {
                values.iter_mut().for_each(|value| *value *= *scale);
                *scale = 1.0;
            }
        }
        *sum = values.iter().sum();
    }
}

/// Some rows of `w` against all tokens: `out[n, t]`. `WHOLE`: activations are whole numbers with scales, and weights stay codes.
struct Task<'a, C, const WHOLE: bool> {
    w: Matrix<'a>,
    /// First row.
    first: usize,
    /// Activations of all tokens as [`arrange`] leaves them.
    x: &'a [f32],
    tokens: usize,
    out: &'a mut [f32],
    kind: PhantomData<C>,
}

impl<C: Codes, const WHOLE: bool> WithSimd for Task<'_, C, WHOLE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let rows = self.out.len() / self.tokens;
        for first in (0..self.tokens).step_by(TASK_TOKENS) {
            let tokens = [first, (first + TASK_TOKENS).min(self.tokens)];
            let mut n = 0;
            while n + ROWS <= rows {
                block::<S, C, ROWS, WHOLE>(simd, &mut self, n, tokens);
                n += ROWS;
            }
            for n in n..rows {
                block::<S, C, 1, WHOLE>(simd, &mut self, n, tokens);
            }
        }
    }
}

/// A span of a row as f32, and the numbers of its groups of 32.
struct Span {
    elements: Unpacked,
    scales: [f32; GROUPS],
    minimums: [f32; GROUPS],
}

/// `R` rows from `n` against the tokens from `first` to `last`.
#[inline(always)]
fn block<S: Simd, C: Codes, const R: usize, const WHOLE: bool>(
    simd: S,
    task: &mut Task<C, WHOLE>,
    n: usize,
    [first, last]: [usize; 2],
) {
    let (k, row) = (task.w.k(), task.first + n);
    let mut spans = [const { Span { elements: Unpacked::NEW, scales: [1.0; GROUPS], minimums: [0.0; GROUPS] } }; R];
    let mut sums = [[simd.splat_f32s(0.0); R]; TASK_TOKENS];
    let mut extra = [[0f32; R]; TASK_TOKENS];
    for start in (0..k).step_by(SPAN) {
        let elements = SPAN.min(k - start);
        for (r, span) in spans.iter_mut().enumerate() {
            unpack::<C, WHOLE>(&task.w, row + r, start, elements, span);
        }
        let mut t = first;
        while t + 2 <= last {
            let at = t - first;
            tile::<S, C, R, 2, WHOLE>(simd, task, &spans, [t, start, elements], &mut sums[at..], &mut extra[at..]);
            t += 2;
        }
        if t < last {
            let at = t - first;
            tile::<S, C, R, 1, WHOLE>(simd, task, &spans, [t, start, elements], &mut sums[at..], &mut extra[at..]);
        }
    }
    for t in first..last {
        for r in 0..R {
            task.out[(n + r) * task.tokens + t] = simd.reduce_sum_f32s(sums[t - first][r]) + extra[t - first][r];
        }
    }
}

/// Elements `start..start + elements` of a row: as what they stand for, or as codes beside scales and minimums.
#[inline(always)]
fn unpack<C: Codes, const WHOLE: bool>(w: &Matrix, row: usize, start: usize, elements: usize, span: &mut Span) {
    let bytes = w.scheme().row_bytes(w.k());
    let group = w.scheme().group().unwrap_or(elements);
    let count = elements / group;
    let (mut scales, mut minimums) = ([1f32; MOST_GROUPS], [0f32; MOST_GROUPS]);
    let groups = start / group..start / group + count;
    w.scales().read(row, groups.clone(), &mut scales[..count]);
    if !w.minimums().is_empty() {
        w.minimums().read(row, groups, &mut minimums[..count]);
    }
    let codes = row * bytes + start * C::BYTES / GROUP..row * bytes + (start + elements) * C::BYTES / GROUP;
    let ahead = AHEAD * bytes;
    if let Some(ahead) = w.codes().get(codes.start + ahead..codes.end + ahead) {
        prefetch(ahead);
    }
    let codes = &w.codes()[codes];
    if WHOLE {
        codes::unpack::<C>(codes, elements, &[1.0], &[0.0], &mut span.elements);
        for i in 0..elements / GROUP {
            (span.scales[i], span.minimums[i]) = (scales[i * GROUP / group], minimums[i * GROUP / group]);
        }
    } else {
        codes::unpack::<C>(codes, group, &scales[..count], &minimums[..count], &mut span.elements);
    }
}

/// Adds a span of `R` rows times `M` tokens from `t` to their sums; what minimums add to whole numbers goes to `extra`.
#[inline(always)]
fn tile<S: Simd, C: Codes, const R: usize, const M: usize, const WHOLE: bool>(
    simd: S,
    task: &Task<C, WHOLE>,
    spans: &[Span; R],
    [t, start, elements]: [usize; 3],
    sums: &mut [[S::f32s; R]],
    extra: &mut [[f32; R]],
) {
    let (k, groups) = (task.w.k(), elements / GROUP);
    let stride = token_elements(k);
    let x: [&[f32]; M] = std::array::from_fn(|m| &task.x[(t + m) * stride..][..stride]);
    let values: [&[[f32; GROUP]]; M] = x.map(|x| &x[start..start + elements].as_chunks().0[..groups]);
    let rest: [[&[f32]; 2]; M] = x.map(|x| [k, k + k / GROUP].map(|at| &x[at + start / GROUP..][..groups]));
    let mut total: [[S::f32s; R]; M] = std::array::from_fn(|m| sums[m]);
    for g in 0..groups {
        let x: [&[S::f32s]; M] = values.map(|x| S::as_simd_f32s(&x[g]).0);
        let w: [&[S::f32s]; R] =
            std::array::from_fn(|r| S::as_simd_f32s(&spans[r].elements.values.as_chunks::<GROUP>().0[g]).0);
        let mut sum = if WHOLE { [[simd.splat_f32s(0.0); R]; M] } else { total };
        for i in 0..GROUP / S::F32_LANES {
            for m in 0..M {
                for r in 0..R {
                    sum[m][r] = simd.mul_add_e_f32s(w[r][i], x[m][i], sum[m][r]);
                }
            }
        }
        if !WHOLE {
            total = sum;
            continue;
        }
        for m in 0..M {
            let [of_group, scale] = rest[m].map(|table| table[g]);
            for r in 0..R {
                let factor = simd.splat_f32s(spans[r].scales[g] * scale);
                total[m][r] = simd.mul_add_e_f32s(sum[m][r], factor, total[m][r]);
                extra[m][r] += spans[r].minimums[g] * scale * of_group;
            }
        }
    }
    sums[..M].copy_from_slice(&total);
}
