//! Matrix products `y[t,n] = Σ_k x[t,k] · w[n,k]` with f32 activations and bf16 weights read where they lie: GEMV for one token, GEMM
//! for several. No second copy of the weights; quantized ones are `quantized`'s.
//!
//! How it is quick. A `u32` holds two neighbouring bf16 weights; shifted left by 16 it is the even one as f32, with the low half
//! masked the odd one, so a vector of weights becomes two of f32 without a shuffle. The activations are split into their even and odd
//! elements once per call to match. Several rows are in flight at once, which hides the latency of the fused multiply-add.
//!
//! One order of sums for all: each `y[t,n]` is one chain over `k`, however many rows, tokens or threads share the call. So a
//! prompt gives the same bits in one chunk, in many, and token by token.

mod codes;
pub mod quantized;
#[cfg(test)]
mod quantized_tests;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Rows of `w` one task takes: long enough to be worth a thread, short enough to share out evenly.
const TASK_ROWS: usize = 32;
/// Tokens a task goes through before the next rows: their activations stay in the second-level cache.
const TASK_TOKENS: usize = 16;

/// Scratch of [`linear`], allocated once for the largest call.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Activations, each row as its even, then its odd elements: `[T, 2, K/2]`; for quantized weights as they are, with two numbers per group.
    split: Vec<f32>,
    /// Results by row of `w`: `[N, T]`.
    by_row: Vec<f32>,
}

impl Scratch {
    /// Room for `tokens` tokens, inputs of at most `max_in` and outputs of at most `max_out` elements.
    pub fn new(tokens: usize, max_in: usize, max_out: usize) -> Self {
        let [split, by_row] = Self::parts(tokens, max_in, max_out);
        Self { split: vec![0.0; split], by_row: vec![0.0; by_row] }
    }

    /// Elements of such a scratch.
    pub fn elements(tokens: usize, max_in: usize, max_out: usize) -> usize {
        Self::parts(tokens, max_in, max_out).iter().sum()
    }

    fn parts(tokens: usize, max_in: usize, max_out: usize) -> [usize; 2] {
        [tokens * quantized::token_elements(max_in), if tokens > 1 { tokens * max_out } else { 0 }]
    }
}

/// `y[t,n] = Σ_k x[t,k] · w[n,k]` on the current rayon pool.
///
/// `w` holds `[N, K]` bf16 as pairs, the even element in the low half; `x` is `[T, K]`, `y` `[T, N]`; `K` is even.
pub fn linear(arch: Arch, w: &[u32], k: usize, x: &[f32], y: &mut [f32], scratch: &mut Scratch) {
    let (tokens, n) = (x.len() / k, w.len() / (k / 2));
    assert!(k.is_multiple_of(2) && x.len() == tokens * k && y.len() == tokens * n && w.len() == n * k / 2);
    let split = &mut scratch.split[..tokens * k];
    for (row, out) in x.chunks_exact(k).zip(split.chunks_exact_mut(k)) {
        let (even, odd) = out.split_at_mut(k / 2);
        for ((pair, even), odd) in row.as_chunks::<2>().0.iter().zip(even).zip(odd) {
            [*even, *odd] = *pair;
        }
    }
    let split = &*split;
    let task = |(w, out): (&[u32], &mut [f32])| arch.dispatch(Task { w, x: split, k, out });
    if tokens == 1 {
        y.par_chunks_mut(TASK_ROWS).zip(w.par_chunks(TASK_ROWS * k / 2)).for_each(|(out, w)| task((w, out)));
        return;
    }
    let by_row = &mut scratch.by_row[..n * tokens];
    by_row.par_chunks_mut(TASK_ROWS * tokens).zip(w.par_chunks(TASK_ROWS * k / 2)).for_each(|(out, w)| task((w, out)));
    transpose(by_row, tokens, y);
}

/// `y[t, n] = by_row[n, t]`.
fn transpose(by_row: &[f32], tokens: usize, y: &mut [f32]) {
    y.par_chunks_exact_mut(by_row.len() / tokens).enumerate().for_each(|(t, row)| {
        for (out, value) in row.iter_mut().zip(by_row.iter().skip(t).step_by(tokens)) {
            *out = *value;
        }
    });
}

/// Some rows of `w` against all tokens: `out[n, t]`.
struct Task<'a> {
    w: &'a [u32],
    x: &'a [f32],
    k: usize,
    out: &'a mut [f32],
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { w, x, k, out } = self;
        let (tokens, rows) = (x.len() / k, w.len() / (k / 2));
        if tokens == 1 {
            let mut n = 0;
            while n + 8 <= rows {
                tile::<S, 8, 1>(simd, w, x, k, (n, 0), out);
                n += 8;
            }
            while n < rows {
                tile::<S, 1, 1>(simd, w, x, k, (n, 0), out);
                n += 1;
            }
            return;
        }
        for first in (0..tokens).step_by(TASK_TOKENS) {
            let last = (first + TASK_TOKENS).min(tokens);
            let mut n = 0;
            while n + 4 <= rows {
                let mut t = first;
                while t + 2 <= last {
                    tile::<S, 4, 2>(simd, w, x, k, (n, t), out);
                    t += 2;
                }
                if t < last {
                    tile::<S, 4, 1>(simd, w, x, k, (n, t), out);
                }
                n += 4;
            }
            while n < rows {
                for t in first..last {
                    tile::<S, 1, 1>(simd, w, x, k, (n, t), out);
                }
                n += 1;
            }
        }
    }
}

/// `R` rows from `n` against `M` tokens from `t`, all in registers.
#[inline(always)]
fn tile<S: Simd, const R: usize, const M: usize>(
    simd: S,
    w: &[u32],
    x: &[f32],
    k: usize,
    (n, t): (usize, usize),
    out: &mut [f32],
) {
    let (half, tokens) = (k / 2, x.len() / k);
    let w: [&[u32]; R] = std::array::from_fn(|r| &w[(n + r) * half..][..half]);
    let even: [&[f32]; M] = std::array::from_fn(|m| &x[(t + m) * k..][..half]);
    let odd: [&[f32]; M] = std::array::from_fn(|m| &x[(t + m) * k + half..][..half]);
    let (sixteen, high) = (simd.splat_u32s(16), simd.splat_u32s(0xffff_0000));

    let vectors = half / S::F32_LANES;
    let wv: [&[S::u32s]; R] = w.map(|w| &S::as_simd_u32s(w).0[..vectors]);
    let ev: [&[S::f32s]; M] = even.map(|x| &S::as_simd_f32s(x).0[..vectors]);
    let ov: [&[S::f32s]; M] = odd.map(|x| &S::as_simd_f32s(x).0[..vectors]);
    let mut sum = [[simd.splat_f32s(0.0); M]; R];
    for i in 0..vectors {
        for r in 0..R {
            let pair = wv[r][i];
            let low = simd.transmute_f32s_u32s(simd.wrapping_dyn_shl_u32s(pair, sixteen));
            let high = simd.transmute_f32s_u32s(simd.and_u32s(pair, high));
            for m in 0..M {
                sum[r][m] = simd.mul_add_e_f32s(low, ev[m][i], sum[r][m]);
                sum[r][m] = simd.mul_add_e_f32s(high, ov[m][i], sum[r][m]);
            }
        }
    }
    for r in 0..R {
        for m in 0..M {
            let mut total = simd.reduce_sum_f32s(sum[r][m]);
            // What is left of a row that is no multiple of the vector.
            for i in vectors * S::F32_LANES..half {
                total += f32::from_bits(w[r][i] << 16) * even[m][i];
                total += f32::from_bits(w[r][i] & 0xffff_0000) * odd[m][i];
            }
            out[(n + r) * tokens + t + m] = total;
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    /// Numbers that vary in sign, size and last bits, from an integer mix.
    fn number(i: usize) -> f32 {
        let mixed = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (mixed as f32 / 8_388_608.0 - 1.0) * [1.0, 0.01, 30.0][i % 3]
    }

    fn case(tokens: usize, n: usize, k: usize) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
        let w: Vec<bf16> = (0..n * k).map(|i| bf16::from_f32(number(i))).collect();
        let x: Vec<f32> = (0..tokens * k).map(|i| number(i + 77)).collect();
        let pair = |p: &[bf16]| u32::from(p[0].to_bits()) | u32::from(p[1].to_bits()) << 16;
        let pairs: Vec<u32> = w.chunks_exact(2).map(pair).collect();
        let mut y = vec![f32::NAN; tokens * n];
        let mut scratch = Scratch::new(tokens, k, n);
        linear(Arch::new(), &pairs, k, &x, &mut y, &mut scratch);
        for t in 0..tokens {
            for i in 0..n {
                let terms = (0..k).map(|j| f64::from(x[t * k + j]) * f64::from(w[i * k + j].to_f32()));
                let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                // The bound of any order of summation: each term meets at most k + 1 roundings of half a unit.
                let error = (f64::from(y[t * n + i]) - exact).abs();
                assert!(
                    error <= size * 2f64.powi(-24) * (k + 1) as f64,
                    "y[{t},{i}] of {tokens}×{n}×{k}: off by {error}"
                );
            }
        }
        (pairs, x, y)
    }

    #[test]
    fn every_route_and_its_edges_agree_with_f64() {
        for tokens in [1, 2, 3, 15, 16, 17, 33] {
            for n in [1, 3, 4, 7, 8, 9, 31, 32, 33, 65] {
                case(tokens, n, 64);
            }
        }
        for k in [2, 6, 14, 16, 18, 30, 62, 64, 66, 192, 1024] {
            case(1, 9, k);
            case(3, 9, k);
        }
    }

    #[test]
    fn a_token_gets_the_same_bits_alone_and_among_others() {
        let (n, k) = (37, 320);
        let (w, x, y) = case(19, n, k);
        let mut scratch = Scratch::new(1, k, n);
        for (x, expected) in x.chunks_exact(k).zip(y.chunks_exact(n)) {
            let mut alone = vec![0.0; n];
            linear(Arch::new(), &w, k, x, &mut alone, &mut scratch);
            assert_eq!(alone, expected);
        }
    }
}
