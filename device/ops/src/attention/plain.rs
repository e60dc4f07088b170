//! Attention, first rung: one wave per query, one position after the other, running softmax. Queries and probabilities stay f32.

use amdgpu_target::bf16_to_f32;
use amdgpu_target::gpu::{
    LOG2_E, divide, exp2, fma, lane_idx, load, load_f32x2, max, pack_bf16, rcp, store, unpack_bf16, wave_idx, wave_sum,
    workgroup_x, workgroup_y,
};

/// Both kernels; a lane holds the pairs at 64·p + 2·lane, `PAIRS` = D / 64.
///
/// # Safety
/// As the kernels.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a kernel's parameters are its arguments, one by one")]
unsafe fn attend<const PAIRS: usize>(
    q: *const f32,
    k_cache: *const u16,
    v_cache: *const u16,
    out: *mut u16,
    position: u32,
    group: u32,
    kv_heads: u32,
    capacity: u32,
    scale: f32,
) {
    let d_count = 64 * PAIRS;
    let heads = group * kv_heads;
    let (head, t) = (workgroup_x() * super::PLAIN_WAVES + wave_idx(), workgroup_y());
    if head >= heads {
        return;
    }
    // SAFETY: group is at least 1 by the contract of `Args`.
    let kv_head = unsafe { divide(head, group) } as usize;
    let row = (t as usize * heads as usize + head as usize) * d_count;
    let k = k_cache.wrapping_add(kv_head * capacity as usize * d_count).cast::<u32>();
    let v = v_cache.wrapping_add(kv_head * d_count * capacity as usize);
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
            let key = unpack_bf16(unsafe { load(k, (pos * d_count + at(p)) / 2) });
            score = fma(query[p][1], key[1], fma(query[p][0], key[0], score));
        }
        let score = wave_sum(score);
        let new_top = max(top, score);
        let (keep, weight) = (exp2(top - new_top), exp2(score - new_top));
        (top, total) = (new_top, fma(total, keep, weight));
        for p in 0..PAIRS {
            for e in 0..2 {
                // SAFETY: row at(p) + e < D of this head's values, position as above: point 1.
                let value = bf16_to_f32(unsafe { load(v, (at(p) + e) * capacity as usize + pos) });
                sum[p][e] = fma(sum[p][e], keep, weight * value);
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

/// Attention, plain: with g = h / group, out[t,h,·] = Σ_p softmax_p(scale · q[t,h]·k[g,p]) · v[g,p,·] over p ≤ position + t
///
/// Input      q `[T, heads, 64]` f32; k_cache `[kv_heads, capacity, 64]`, v_cache `[kv_heads, 64, capacity]` bf16
/// Output     out `[T, heads, 64]` bf16, every element written; overlaps nothing
/// Numerics   f32 throughout, one rounding at the store; oracle::attention, Tolerance ATTENTION
/// Workgroup  4 waves × 32 lanes; one wave per (t, h); grid = [ceil(heads / 4), T]
/// Wave       wave32; heads past the end leave as a whole wave; all lanes live at the reductions
/// LDS        0 B
/// Registers  budget 48 VGPR, 0 spills
/// Memory     keys 4 B per lane, consecutive; values 2 B per lane, capacity·2 B apart: one line per element
/// Sync       none
/// Target     gfx1201; expects `v_exp_f32`, `v_permlanex16_b32`
/// Why        the definition, with a running softmax because a context does not fit in registers; never chosen by `name`
///
/// # Safety
/// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned; positions up to position + T are appended.
/// 2. Launched with `geometry_plain(T, group, kv_heads)`.
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn attention_plain_bf16_d64(
    q: *const f32,
    k_cache: *const u16,
    v_cache: *const u16,
    out: *mut u16,
    _tokens: u32,
    position: u32,
    group: u32,
    kv_heads: u32,
    capacity: u32,
    scale: f32,
) {
    // SAFETY: points 1 and 2 are the same.
    unsafe { attend::<1>(q, k_cache, v_cache, out, position, group, kv_heads, capacity, scale) };
}

/// Attention, plain, for head_dim 128: as `attention_plain_bf16_d64`, two pairs per lane.
///
/// # Safety
/// 1. and 2. as `attention_plain_bf16_d64` with 128 for 64.
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn attention_plain_bf16_d128(
    q: *const f32,
    k_cache: *const u16,
    v_cache: *const u16,
    out: *mut u16,
    _tokens: u32,
    position: u32,
    group: u32,
    kv_heads: u32,
    capacity: u32,
    scale: f32,
) {
    // SAFETY: points 1 and 2 are the same.
    unsafe { attend::<2>(q, k_cache, v_cache, out, position, group, kv_heads, capacity, scale) };
}
