//! Attention over a cache in formats, first rung: [`super::super::plain`] with numbers made of codes one by one.

use amdgpu_target::gpu::{
    LOG2_E, divide, exp2, f16_to_f32, fma, lane_idx, load, load_f32x2, max, pack_bf16, rcp, store, unpack_bf16,
    unpack_fp8, wave_idx, wave_sum, workgroup_x, workgroup_y,
};

use super::{Part, kernel};
use crate::kv_formats::{F16, INT8};

/// Two codes of a key, neighbours, as numbers. `pair` counts pairs.
///
/// # Safety
/// 1. The pair is inside `codes`.
#[inline(always)]
unsafe fn key_pair(codes: *const u8, format: u32, pair: usize) -> [f32; 2] {
    if format < INT8 {
        // SAFETY: point 1 is the caller's.
        let word = unsafe { load(codes.cast::<u32>(), pair) };
        let halves = [f16_to_f32(word as u16), f16_to_f32((word >> 16) as u16)];
        return if format == F16 { halves } else { unpack_bf16(word) };
    }
    // SAFETY: as above.
    let word = u32::from(unsafe { load(codes.cast::<u16>(), pair) });
    let floats = unpack_fp8(word);
    let signed = [(word as i8) as f32, ((word >> 8) as i8) as f32];
    if format == INT8 { signed } else { [floats[0], floats[1]] }
}

/// One code as a number.
///
/// # Safety
/// 1. The code is inside `codes`.
#[inline(always)]
unsafe fn value(codes: *const u8, format: u32, at: usize) -> f32 {
    if format < INT8 {
        // SAFETY: point 1 is the caller's.
        let code = unsafe { load(codes.cast::<u16>(), at) };
        return if format == F16 { f16_to_f32(code) } else { f32::from_bits(u32::from(code) << 16) };
    }
    // SAFETY: as above.
    let code = unsafe { load(codes, at) };
    if format == INT8 { f32::from(code as i8) } else { unpack_fp8(u32::from(code))[0] }
}

/// The first rung; a lane holds the pairs at 64·p + 2·lane, `PAIRS` = D / 64.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn plain<const PAIRS: usize>(
    q: *const f32,
    [k, v]: [Part; 2],
    out: *mut u16,
    [position, group, kv_heads, capacity]: [u32; 4],
    scale: f32,
) {
    let d_count = 64 * PAIRS;
    let heads = group * kv_heads;
    let (head, t) = (workgroup_x() * super::super::PLAIN_WAVES + wave_idx(), workgroup_y());
    if head >= heads {
        return;
    }
    // SAFETY: group is at least 1 by the contract of `Args`.
    let kv_head = unsafe { divide(head, group) } as usize;
    let row = (t as usize * heads as usize + head as usize) * d_count;
    let (positions, capacity) = (kv_head * capacity as usize, capacity as usize);
    let at = |p: usize| p * 64 + lane_idx() as usize * 2;
    let mut query = [[0.0f32; 2]; PAIRS];
    for p in 0..PAIRS {
        // SAFETY: t < T and head < heads: point 1 makes q hold D elements from `row` on.
        let x = unsafe { load_f32x2(q, row + at(p)) };
        query[p] = [x[0] * (scale * LOG2_E), x[1] * (scale * LOG2_E)];
    }
    let (mut top, mut total, mut sum) = (f32::NEG_INFINITY, 0.0f32, [[0.0f32; 2]; PAIRS]);
    for pos in 0..=(position + t) as usize {
        let mut score = 0.0;
        for p in 0..PAIRS {
            // SAFETY: pos ≤ position + t < capacity, appended: point 1.
            let key = unsafe { key_pair(k.codes, k.format, ((positions + pos) * d_count + at(p)) / 2) };
            score = fma(query[p][1], key[1], fma(query[p][0], key[0], score));
        }
        // SAFETY: as above.
        let key_scale = if k.has_scales() { unsafe { load(k.scales, positions + pos) } } else { 1.0 };
        // SAFETY: as above.
        let value_scale = if v.has_scales() { unsafe { load(v.scales, positions + pos) } } else { 1.0 };
        let score = wave_sum(score) * key_scale;
        let new_top = max(top, score);
        let (keep, weight) = (exp2(top - new_top), exp2(score - new_top));
        (top, total) = (new_top, fma(total, keep, weight));
        let weight = weight * value_scale;
        for p in 0..PAIRS {
            for e in 0..2 {
                let at = (kv_head * d_count + at(p) + e) * capacity + pos;
                // SAFETY: row at(p) + e < D of this head's values, position as above: point 1.
                sum[p][e] = fma(sum[p][e], keep, weight * unsafe { value(v.codes, v.format, at) });
            }
        }
    }
    let inverse = rcp(total);
    for p in 0..PAIRS {
        let pair = pack_bf16(sum[p][0] * inverse, sum[p][1] * inverse);
        // SAFETY: as the load of q, for out; at(p) and row are even, one lane per pair.
        unsafe { store(out.cast::<u32>(), (row + at(p)) / 2, pair) };
    }
}

/// A kernel of this rung.
macro_rules! first_rung {
    ($(#[$doc:meta])* $name:ident, $pairs:literal) => {
        kernel! {
            $(#[$doc])*
            $name, |q, k, v, out, numbers, scale| {
                let [_, position, group, kv_heads, capacity] = numbers;
                // SAFETY: the body's contract is the kernel's.
                unsafe { plain::<$pairs>(q, [k, v], out, [position, group, kv_heads, capacity], scale) };
            }
        }
    };
}

first_rung! {
    /// Attention, plain, in formats: the formula of `attention_plain_bf16_d64`, k[g,p] and v[g,p] a code times its scale
    ///
    /// Input      q `[T, heads, 64]` f32; cache and formats as `kv_append_formats_d64` leaves them
    /// Output     out `[T, heads, 64]` bf16, every element written; overlaps nothing
    /// Numerics   as `attention_plain_bf16_d64`; codes are exact, a scale multiplies a score or a weight; Tolerance ATTENTION_F32
    /// Workgroup  4 waves × 32 lanes; one wave per (t, h); grid = [ceil(heads / 4), T]
    /// Wave       wave32; heads past the end leave as a whole wave; all lanes live at the reductions
    /// LDS        0 B
    /// Registers  budget 48 VGPR, 0 spills
    /// Memory     keys 4 or 2 B per lane, consecutive; values 2 or 1 B per lane, capacity apart; scales 4 B per wave
    /// Sync       none
    /// Target     gfx1201; expects `v_exp_f32`, `v_permlanex16_b32`, `v_cvt_f32_f16`
    /// Why        the definition, for what the kernels below are compared with; never chosen by `name`
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned; positions up to position + T are appended.
    /// 2. Launched with `geometry_plain(T, group, kv_heads)`.
    attention_plain_formats_d64, 1
}

first_rung! {
    /// Attention, plain, in formats, for head_dim 128: as `attention_plain_formats_d64`, two pairs per lane.
    ///
    /// # Safety
    /// 1. and 2. as `attention_plain_formats_d64` with 128 for 64.
    attention_plain_formats_d128, 2
}
