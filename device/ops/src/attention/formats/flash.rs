//! Attention over a cache in formats by matrix instructions: the tiles of [`super::super::tile`] as [`super::super::flash`] walks them, whose keys and values become bf16 between memory
//! and the product.
//!
//! What differs from there:
//! 1. A format is a branch around all of a block's keys, and around the loads and decoding of two tiles of values, which a wave takes as one. The
//!    products with values stand behind it: sums that leave four branches would be in registers twice.
//! 2. Codes of one byte are bf16 exactly. A half is two bf16, its first eight digits and the rest, and is multiplied twice.
//! 3. Scales of keys multiply scores, those of values weights, in f32: one number for each position, in the lanes that have the position's score.

use amdgpu_target::gpu::{
    ACC_COLUMNS, ACC_RUN, Acc, B128, Fragment, acc_across_rows, acc_column, acc_column_of, acc_column_sums,
    acc_to_array, bf16x8_number, exp2, fma, load, load_f32x4, load_offset, max, pair_chunk, pair_half_rows,
    pair_operand_row, pair_row, rcp, schedule_fence, wave_idx, wmma_bf16, workgroup_x, workgroup_y,
};

use super::codes::{Code, F16};
use super::{Part, kernel};
use crate::attention::tile::{BLOCK, PerQuery, Span, Tile, scaled};
use crate::attention::{DECODE_WAVES, PREFILL_WAVES, QUERIES, keep_below};
use crate::format::{Bf16, Fp8, Int8};
use crate::kv_formats::{F16 as FORMAT_F16, FP8 as FORMAT_FP8, INT8 as FORMAT_INT8};

/// `$body` for each `$j` below `$n`, at most 4, written out: a loop of this size would be left as one, with its arrays in memory.
macro_rules! unrolled {
    ($j:ident < $n:expr, $body:block) => { unrolled!(@ $j, $n, $body, 0 1 2 3) };
    (@ $j:ident, $n:expr, $body:block, $($i:literal)*) => {$(
        {
            let $j: usize = $i;
            if $j < $n $body
        }
    )*};
}

/// Keys and values of one head.
#[derive(Clone, Copy)]
struct Coded {
    k: Part,
    v: Part,
    span: Span,
}

impl Coded {
    /// Of the head that is this workgroup's `y`-th, with `d` numbers a position.
    #[inline(always)]
    fn of_workgroup(k: Part, v: Part, d: usize, span: Span) -> Self {
        let positions = workgroup_y() as usize * span.capacity as usize;
        let head = |part: Part| {
            let codes = part.codes.wrapping_add(positions * d * part.code_bytes());
            Part { codes, scales: part.scales.wrapping_add(positions), ..part }
        };
        Self { k: head(k), v: head(v), span }
    }
}

/// Pairs of steps of keys, and tiles of values, whose codes are loaded together: with four, head_dim 128 takes more than 192 registers.
const TOGETHER: usize = 2;

impl Part {
    /// Numbers of a block's `half`-th sixteen positions times their scales.
    ///
    /// # Safety
    /// 1. and 2. as [`Tile::coded_block`], and there are scales.
    #[inline(always)]
    unsafe fn scaled(self, x: [f32; 8], first: u32, half: u32) -> [f32; 8] {
        let at = |e| (first + pair_row(half, e)) as usize;
        if ACC_RUN == 8 {
            // SAFETY: capacity is a multiple of 32, so all positions of the block are inside the scales; these eight are consecutive.
            let lo = unsafe { load_f32x4(self.scales, at(0)) };
            // SAFETY: as above.
            let hi = unsafe { load_f32x4(self.scales, at(4)) };
            return core::array::from_fn(|e| x[e] * if e < 4 { lo[e] } else { hi[e - 4] });
        }
        // SAFETY: as above, one by one.
        core::array::from_fn(|e| x[e] * unsafe { load(self.scales, at(e)) })
    }
}

impl<const STEPS: usize, const PAIRS: usize> Tile<STEPS, PAIRS> {
    /// Products of the queries and the keys of the positions `first` … `first` + 31, without scales.
    ///
    /// # Safety
    /// 1. and 2. as [`Tile::coded_block`], for `keys`, stored as `F`.
    #[inline(always)]
    unsafe fn products<F: Code>(&self, keys: *const F::Raw, first: u32) -> [[f32; 8]; 2] {
        let d_count = STEPS as u32 * 16;
        let mut scores = [[0.0f32; 8]; 2];
        unrolled!(i < 2, {
            let keys = keys.wrapping_add((first + pair_half_rows(i as u32)) as usize * (d_count as usize / 8));
            let mut acc = Acc::zero();
            unrolled!(part < PAIRS / TOGETHER, {
                let mut raw = [[F::none(); 2]; TOGETHER];
                unrolled!(i < TOGETHER, {
                    raw[i] = [0, 1].map(|chunk| {
                        let (c, lane_k, k) = pair_chunk(chunk);
                        let at = pair_operand_row(c) * (d_count * F::BYTES) + lane_k * F::BYTES;
                        let keys = keys.wrapping_add((part * TOGETHER + i) * 4 + k / 8);
                        // SAFETY: capacity is a multiple of 32, so the 32 rows lie inside the cache: points 1 and 2.
                        unsafe { load_offset(keys, at) }
                    });
                });
                schedule_fence();
                unrolled!(i < TOGETHER, {
                    // SAFETY: all lanes are live: point 1.
                    acc = unsafe { multiplied::<F>(raw[i], self.queries[part * TOGETHER + i], acc) };
                    schedule_fence();
                });
            });
            scores[i] = acc_to_array(acc);
            schedule_fence();
        });
        scores
    }

    /// Values of the positions `first` … `first` + 31 and of the tiles from `tile` on, as `F` makes them bf16. `MASKED`: some of the positions are
    /// not appended, and 0.
    ///
    /// # Safety
    /// 1. and 2. as [`Tile::coded_block`], for `values`, stored as `F`.
    #[inline(always)]
    unsafe fn values<F: Code, const MASKED: bool>(
        values: *const F::Unit,
        span: &Span,
        first: u32,
        tile: usize,
    ) -> [[B128; 2]; TOGETHER] {
        let mut raw = [[F::none(); 2]; TOGETHER];
        unrolled!(i < TOGETHER, {
            let values = values.wrapping_add((tile + i) * 16 * span.capacity as usize + first as usize);
            raw[i] = [0, 1].map(|chunk| {
                let (c, lane_k, k) = pair_chunk(chunk);
                let at = (acc_column(c) * span.capacity + lane_k) * F::BYTES;
                // SAFETY: rows d < D of this head, columns below the capacity; capacity and `first` are multiples of 8: point 2.
                unsafe { load_offset(values.wrapping_add(k).cast::<F::Raw>(), at) }
            });
        });
        schedule_fence();
        let known = |chunk: usize, x: B128| {
            let (_, lane_k, k) = pair_chunk(chunk);
            if MASKED { keep_below(x, first + k as u32 + lane_k, span.appended) } else { x }
        };
        raw.map(|raw| [known(0, F::high(raw[0])), known(1, F::high(raw[1]))])
    }

    /// Takes in the scores of the positions `first` … `first` + 31: gives the factor of what was summed before and the weights of the codes of
    /// values, which are the probabilities times the values' scales.
    ///
    /// # Safety
    /// 1. and 2. as [`Tile::coded_block`]; `v` are the values.
    #[inline(always)]
    unsafe fn weigh(
        &mut self,
        span: &Span,
        v: Part,
        first: u32,
        mut scores: [[f32; 8]; 2],
    ) -> (PerQuery<f32>, [Fragment; 2]) {
        // Positions a query does not see, then the new maximum of its column.
        let last = self.query.map(|query| span.position + query.t);
        let mut top = self.top;
        for i in 0..2 {
            for e in 0..8 {
                let column = acc_column_of(e);
                let position = first + pair_row(i as u32, e);
                let score = scores[i][e] * span.scale;
                scores[i][e] = if position <= last[column] { score } else { f32::NEG_INFINITY };
                top[column] = max(top[column], scores[i][e]);
            }
        }
        let top = top.map(|top| acc_across_rows(top, max));
        let keep: PerQuery<f32> = core::array::from_fn(|c| exp2(self.top[c] - top[c]));
        let mut total = [0.0; ACC_COLUMNS];
        let mut weights = scores.map(|tile| {
            let weights: [f32; 8] = core::array::from_fn(|e| exp2(tile[e] - top[acc_column_of(e)]));
            let sums = acc_column_sums(weights);
            for c in 0..ACC_COLUMNS {
                total[c] += sums[c];
            }
            weights
        });
        for c in 0..ACC_COLUMNS {
            self.total[c] = fma(self.total[c], keep[c], total[c]);
        }
        self.top = top;
        if v.has_scales() {
            unrolled!(i < 2, {
                // SAFETY: points 1 and 2.
                let scaled = unsafe { v.scaled(weights[i], first, i as u32) };
                // What is not seen has no weight, and a scale of whatever was there before.
                let seen = |e| first + pair_row(i as u32, e) <= last[acc_column_of(e)];
                weights[i] = core::array::from_fn(|e| if seen(e) { scaled[e] } else { 0.0 });
            });
        }
        // A score that is no number may be lost in this packing; it is in `total` as well, which divides the result. A scale that is none has bits
        // that are not.
        (keep, weights.map(|weights| Fragment::from_acc(bf16x8_number(weights))))
    }

    /// Takes in the positions `first` … `first` + 31. `MASKED`: some of them are not appended.
    ///
    /// # Safety
    /// 1. `first` is a multiple of 32 below what is appended, uniform; all lanes are live.
    /// 2. `cache` describes this key/value head's cache as the kernels' contract says.
    #[inline(always)]
    unsafe fn coded_block<const MASKED: bool>(&mut self, cache: &Coded, first: u32) {
        let &Coded { k, v, span } = cache;
        let mut scores = match k.format {
            // SAFETY: points 1 and 2, for codes of this format.
            FORMAT_F16 => unsafe { self.products::<F16>(k.codes.cast(), first) },
            // SAFETY: as above.
            FORMAT_INT8 => unsafe { self.products::<Int8>(k.codes.cast(), first) },
            // SAFETY: as above.
            FORMAT_FP8 => unsafe { self.products::<Fp8>(k.codes.cast(), first) },
            // SAFETY: as above.
            _ => unsafe { self.products::<Bf16>(k.codes.cast(), first) },
        };
        if k.has_scales() {
            unrolled!(i < 2, {
                // SAFETY: points 1 and 2.
                scores[i] = unsafe { k.scaled(scores[i], first, i as u32) };
            });
        }
        // SAFETY: points 1 and 2.
        let (keep, weights) = unsafe { self.weigh(&span, v, first, scores) };
        unrolled!(part < STEPS / TOGETHER, {
            let tile = part * TOGETHER;
            let values = match v.format {
                // SAFETY: points 1 and 2, for codes of this format.
                FORMAT_INT8 => unsafe { Self::values::<Int8, MASKED>(v.codes.cast(), &span, first, tile) },
                // SAFETY: as above.
                FORMAT_FP8 => unsafe { Self::values::<Fp8, MASKED>(v.codes.cast(), &span, first, tile) },
                // SAFETY: as above; halves as they are.
                _ => unsafe { Self::values::<Bf16, MASKED>(v.codes.cast(), &span, first, tile) },
            };
            schedule_fence();
            unrolled!(i < TOGETHER, {
                let sum = scaled(self.sum[tile + i], keep);
                self.sum[tile + i] = if v.format == FORMAT_F16 {
                    // SAFETY: all lanes are live: point 1.
                    unsafe { multiplied::<F16>(values[i], weights, sum) }
                } else {
                    // SAFETY: as above.
                    unsafe { multiplied::<Bf16>(values[i], weights, sum) }
                };
            });
            schedule_fence();
        });
    }

    /// Takes in the blocks `start`, `start` + `stride`, … that the tile's queries see.
    ///
    /// # Safety
    /// 1. `start` and `stride` are uniform; all lanes are live.  2. As [`Tile::coded_block`].
    #[inline(always)]
    unsafe fn walk_coded(&mut self, cache: &Coded, start: u32, stride: u32) {
        // One condition, as in the walk over bf16.
        let whole = self.len.min(cache.span.appended.saturating_sub(BLOCK - 1));
        let mut first = start * BLOCK;
        while first < whole {
            // SAFETY: first < len ≤ appended, uniform like start, stride and len.
            unsafe { self.coded_block::<false>(cache, first) };
            first += stride * BLOCK;
        }
        if first < self.len {
            // SAFETY: as above.
            unsafe { self.coded_block::<true>(cache, first) };
        }
    }
}

/// `acc` and the product of what `raw` holds with `b`.
///
/// # Safety
/// 1. All lanes are live.
#[inline(always)]
unsafe fn multiplied<F: Code>(raw: [F::Raw; 2], b: [Fragment; 2], mut acc: Acc) -> Acc {
    let high = Fragment::pair(raw.map(F::high));
    for half in 0..2 {
        // SAFETY: point 1.
        acc = unsafe { wmma_bf16(high[half], b[half], acc) };
    }
    if F::SPLIT {
        let low = Fragment::pair(raw.map(F::low));
        for half in 0..2 {
            // SAFETY: point 1.
            acc = unsafe { wmma_bf16(low[half], b[half], acc) };
        }
    }
    acc
}

/// The prefill kernels.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn prefill<const STEPS: usize, const PAIRS: usize>(
    q: *const f32,
    [k, v]: [Part; 2],
    out: *mut u16,
    [tokens, position, group, kv_heads, capacity]: [u32; 5],
    scale: f32,
) {
    let index = workgroup_x() * PREFILL_WAVES + wave_idx();
    if index * QUERIES >= tokens * group {
        return;
    }
    let cache = Coded::of_workgroup(k, v, STEPS * 16, Span::new([tokens, position, capacity], scale));
    // SAFETY: checked above; the rest is the kernel's contract.
    let mut tile = unsafe { Tile::<STEPS, PAIRS>::new(q, index, tokens, position, group, kv_heads) };
    // SAFETY: only whole waves have left.
    unsafe { tile.walk_coded(&cache, 0, 1) };
    let total = tile.total.map(|total| acc_across_rows(total, |a, b| a + b));
    // SAFETY: one wave per tile.
    unsafe { tile.store(out, total.map(rcp)) };
}

/// The decode kernels.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn decode<const STEPS: usize, const PAIRS: usize>(
    q: *const f32,
    [k, v]: [Part; 2],
    out: *mut u16,
    [tokens, position, group, kv_heads, capacity]: [u32; 5],
    scale: f32,
) {
    let cache = Coded::of_workgroup(k, v, STEPS * 16, Span::new([tokens, position, capacity], scale));
    let wave = wave_idx();
    // SAFETY: the grid has one workgroup per tile.
    let mut tile = unsafe { Tile::<STEPS, PAIRS>::new(q, workgroup_x(), tokens, position, group, kv_heads) };
    // SAFETY: nobody has left.
    unsafe { tile.walk_coded(&cache, wave, DECODE_WAVES) };
    // SAFETY: every wave of the workgroup comes here once, with the LDS of the launch.
    let tile = unsafe { tile.merged(wave) };
    if wave == 0 {
        // SAFETY: one wave of one workgroup per tile.
        unsafe { tile.store(out, [1.0; _]) };
    }
}

/// A kernel over one of the bodies above.
macro_rules! flash {
    ($(#[$doc:meta])* $name:ident, $body:ident::<$steps:literal, $pairs:literal>) => {
        kernel! {
            $(#[$doc])*
            $name, |q, k, v, out, numbers, scale| {
                // SAFETY: the body's contract is the kernel's.
                unsafe { $body::<$steps, $pairs>(q, [k, v], out, numbers, scale) };
            }
        }
    };
}

flash! {
    /// Attention, prefill, in formats: `attention_prefill_bf16_d128` over codes and scales
    ///
    /// Input      q `[T, heads, 128]` f32; cache and formats as `kv_append_formats_d128` leaves them, zeroed once when allocated
    /// Output     as there
    /// Numerics   as there; one-byte codes are bf16 exactly, a half is the sum of two and is multiplied twice; scores times the scales of
    ///            keys and weights times those of values in f32, before the weights are rounded to bf16; Tolerance ATTENTION_BF16
    /// Workgroup, Wave, LDS, Sync   as there
    /// Registers  budget 192 VGPR (8 waves per SIMD), 0 spills: 64 of outputs, 32 of queries, 16 of scores, codes and what they become
    /// Memory     codes 16 or 8 B per lane where bf16's kernel has 16, each asked for once; scales 16 B per lane, the same in 16 lanes: a line
    ///            of a block's keys and one of its values
    /// Target     gfx1201; expects `v_wmma_f32_16x16x16_bf16`, `v_exp_f32`, `global_load_b128`, `global_load_b64`, `v_cvt_f32_i32`,
    ///            `v_cvt_f32_f16`, `v_cvt_pk_f32_fp8`
    /// Why        formats are arguments, so that sixteen pairs are one kernel; a branch that all lanes take alike is a scalar instruction. Four
    ///            loads of codes wait at a time and not all of a block's: see `TOGETHER`
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned; positions up to position + T are appended.
    /// 2. Launched with `geometry_prefill(T, group, kv_heads)`; T · group < 2³².
    attention_prefill_formats_d128, prefill::<8, 4>
}

flash! {
    /// Attention, prefill, in formats, for head_dim 64: as `attention_prefill_formats_d128`; budget 144 VGPR.
    ///
    /// # Safety
    /// 1. and 2. as `attention_prefill_formats_d128` with 64 for 128.
    attention_prefill_formats_d64, prefill::<4, 2>
}

flash! {
    /// Attention, decode, in formats: `attention_decode_bf16_d128` over codes and scales
    ///
    /// Input, Output, Numerics, Registers, Memory   as `attention_prefill_formats_d128`; any T
    /// Workgroup, Wave, LDS, Sync   as `attention_decode_bf16_d128`: eight waves split the positions and merge
    /// Target     gfx1201; expects what `attention_prefill_formats_d128` does, `ds_store_b128`, `ds_load_b128`, `s_barrier_signal`
    /// Why        as both
    ///
    /// # Safety
    /// 1. as `attention_prefill_formats_d128`.  2. Launched with `geometry_decode(T, group, kv_heads, 128)`; T · group < 2³².
    attention_decode_formats_d128, decode::<8, 4>
}

flash! {
    /// Attention, decode, in formats, for head_dim 64: as `attention_decode_formats_d128`; budget 144 VGPR.
    ///
    /// # Safety
    /// 1. and 2. as `attention_decode_formats_d128` with 64 for 128.
    attention_decode_formats_d64, decode::<4, 2>
}
