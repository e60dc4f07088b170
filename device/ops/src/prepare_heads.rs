//! What becomes of several tokens' q, k and v between their projections and attention, in one launch: norm (where the heads have one) and
//! rotation of each head of q and k, and the KV cache's new positions. The parts alone are [`crate::head_norm`], [`crate::rope`] and [`crate::kv_append`], whose
//! layout of the cache this keeps.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// head_dim 64.
pub const NAME_D64: &str = "prepare_heads_bf16_d64";
/// head_dim 128.
pub const NAME_D128: &str = "prepare_heads_bf16_d128";
/// Without norms, head_dim 64.
pub const NAME_ROTATE_D64: &str = "rotate_heads_bf16_d64";
/// Without norms, head_dim 128.
pub const NAME_ROTATE_D128: &str = "rotate_heads_bf16_d128";

pub(crate) const WAVES: u32 = 4;

args! {
    /// Arguments of all kernels.
    pub struct Args {
        /// `[T, heads, D]` f32, normalised and rotated in place.
        pub q: Address,
        /// `[T, kv_heads, D]` f32, read.
        pub k: Address,
        /// `[T, kv_heads, D]` f32, read.
        pub v: Address,
        /// `[D]` bf16, q's norm; not read by the kernels without.
        pub wq: Address,
        /// `[D]` bf16, k's norm; likewise.
        pub wk: Address,
        /// `[positions, D]` f32, as `rope` reads it.
        pub table: Address,
        /// `[kv_heads, capacity, D]` bf16.
        pub k_cache: Address,
        /// `[kv_heads, D, capacity]` bf16.
        pub v_cache: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// Heads of q, at least 1.
        pub heads: u32,
        /// Heads of k and v, at least 1.
        pub kv_heads: u32,
        /// Position of the first token; position + T ≤ capacity and ≤ the table's rows.
        pub position: u32,
        /// Positions the cache holds.
        pub capacity: u32,
        /// Of both norms.
        pub eps: f32,
    }
}

/// The kernel for `head_dim`, with norms or without, if there is one.
pub const fn name(head_dim: u32, normed: bool) -> Option<&'static str> {
    match (head_dim, normed) {
        (64, true) => Some(NAME_D64),
        (128, true) => Some(NAME_D128),
        (64, false) => Some(NAME_ROTATE_D64),
        (128, false) => Some(NAME_ROTATE_D128),
        _ => None,
    }
}

/// Workgroups that take a wave per head of q and k.
const fn head_groups(tokens: u32, heads: u32, kv_heads: u32) -> u32 {
    (tokens * (heads + kv_heads)).div_ceil(WAVES)
}

/// A wave per head of q and k, then a lane per four elements of v; T·(heads + 2·kv_heads)·D below 2³².
pub const fn geometry(tokens: u32, heads: u32, kv_heads: u32, head_dim: u32) -> Geometry {
    let values = (tokens * kv_heads * (head_dim / 4)).div_ceil(WAVES * 32);
    Geometry { workgroups: [head_groups(tokens, heads, kv_heads) + values, 1, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::f32_to_bf16;
    use amdgpu_target::gpu::{
        divide, fma, item_idx, lane_idx, load, load_f32x2, load_f32x4, other_half, pack_bf16, rsq, store, store_f32x2,
        unpack_bf16, wave_idx, wave_sum, wave_uniform, workgroup_x,
    };

    use super::{WAVES, head_groups};

    /// The arguments, for all kernels.
    struct Task {
        q: *mut f32,
        k: *const f32,
        v: *const f32,
        wq: *const u16,
        wk: *const u16,
        table: *const f32,
        k_cache: *mut u16,
        v_cache: *mut u16,
        tokens: u32,
        heads: u32,
        kv_heads: u32,
        position: u32,
        capacity: u32,
        eps: f32,
    }

    /// Norm, if `NORM`, and rotation of a head: this lane's elements 2·lane, 2·lane + 1, and 64 further on if `PAIRS` is 2, with the sums
    /// and roundings of `head_norm` and `rope`.
    ///
    /// # Safety
    /// 1. `x` holds 64 · `PAIRS` f32, `w` as many bf16 if `NORM`, `row` the cosines and then the sines of a position.  2. All lanes are live.
    #[inline(always)]
    pub unsafe fn rotated<const PAIRS: usize, const NORM: bool>(
        x: *const f32,
        w: *const u16,
        row: *const f32,
        eps: f32,
    ) -> [[f32; 2]; PAIRS] {
        let lane = lane_idx() as usize;
        let mut v = [[0.0f32; 2]; PAIRS];
        let mut sum = 0.0;
        for p in 0..PAIRS {
            // SAFETY: p · 64 + lane · 2 + 2 ≤ D: point 1.
            v[p] = unsafe { load_f32x2(x, p * 64 + lane * 2) };
            sum = fma(v[p][1], v[p][1], fma(v[p][0], v[p][0], sum));
        }
        if NORM {
            let scale = rsq(fma(wave_sum(sum), 1.0 / (64 * PAIRS) as f32, eps));
            for p in 0..PAIRS {
                // SAFETY: as above, in pairs.
                let [a, b] = unpack_bf16(unsafe { load(w.cast::<u32>(), p * 32 + lane) });
                v[p] = [v[p][0] * scale * a, v[p][1] * scale * b];
            }
        }
        // Element i turns with i + D/2: the same lane's other pair, or with D = 64 the pair of the lane 16 on.
        let half = 32 * PAIRS;
        let i = if PAIRS == 2 { lane * 2 } else { lane % 16 * 2 };
        // SAFETY: i + 2 ≤ D/2: point 1.
        let cos = unsafe { load_f32x2(row, i) };
        // SAFETY: as above.
        let sin = unsafe { load_f32x2(row, i + half) };
        let low = |a: f32, b: f32, e: usize| fma(a, cos[e], -(b * sin[e]));
        let high = |a: f32, b: f32, e: usize| fma(b, cos[e], a * sin[e]);
        if PAIRS == 2 {
            let (a, b) = (v[0], v[PAIRS - 1]);
            v[0] = [low(a[0], b[0], 0), low(a[1], b[1], 1)];
            v[PAIRS - 1] = [high(a[0], b[0], 0), high(a[1], b[1], 1)];
        } else {
            let mine = v[0];
            let other = mine.map(|x| f32::from_bits(other_half(x.to_bits())));
            let is_low = lane < 16;
            for e in 0..2 {
                v[0][e] = if is_low { low(mine[e], other[e], e) } else { high(other[e], mine[e], e) };
            }
        }
        v
    }

    /// This workgroup's part.
    ///
    /// # Safety
    /// 1. As the kernels below.
    #[inline(always)]
    unsafe fn prepare<const PAIRS: usize, const NORM: bool>(task: &Task) {
        let head_dim = 64 * PAIRS;
        let &Task { tokens, heads, kv_heads, position, .. } = task;
        let capacity = task.capacity as usize;
        let groups = head_groups(tokens, heads, kv_heads);
        if workgroup_x() < groups {
            let all = heads + kv_heads;
            let row = workgroup_x() * WAVES + wave_idx();
            if row >= tokens * all {
                return;
            }
            // SAFETY: heads is at least 1.
            let t = wave_uniform(unsafe { divide(row, all) });
            let head = row - t * all;
            let (lane, at) = (lane_idx() as usize, (position + t) as usize);
            let angles = task.table.wrapping_add(at * head_dim);
            if head < heads {
                let x = task.q.wrapping_add((t as usize * heads as usize + head as usize) * head_dim);
                // SAFETY: t < T and head < heads, position + t is a row of the table: point 1.
                let out = unsafe { rotated::<PAIRS, NORM>(x.cast_const(), task.wq, angles, task.eps) };
                for p in 0..PAIRS {
                    // SAFETY: as the load of x; each element belongs to one lane.
                    unsafe { store_f32x2(x, p * 64 + lane * 2, out[p]) };
                }
            } else {
                let head = (head - heads) as usize;
                let x = task.k.wrapping_add((t as usize * kv_heads as usize + head) * head_dim);
                // SAFETY: as above.
                let out = unsafe { rotated::<PAIRS, NORM>(x, task.wk, angles, task.eps) };
                let cache = task.k_cache.wrapping_add((head * capacity + at) * head_dim).cast::<u32>();
                for p in 0..PAIRS {
                    // SAFETY: head < kv_heads and position + t < capacity: point 1; each element belongs to one lane.
                    unsafe { store(cache, p * 32 + lane, pack_bf16(out[p][0], out[p][1])) };
                }
            }
        } else {
            // As `kv_append`: consecutive lanes take consecutive tokens of the same four rows of the cache.
            let width_quads = kv_heads * (head_dim as u32 / 4);
            let quad = (workgroup_x() - groups) * (WAVES * 32) + item_idx();
            if quad >= tokens * width_quads {
                return;
            }
            // SAFETY: tokens is at least 1.
            let row_quad = unsafe { divide(quad, tokens) };
            let (c, t) = (row_quad as usize * 4, quad - row_quad * tokens);
            // SAFETY: t < T and c + 4 ≤ kv_heads·D: point 1.
            let x = unsafe { load_f32x4(task.v, t as usize * width_quads as usize * 4 + c) };
            let at = c * capacity + (position + t) as usize;
            for (e, &value) in x.iter().enumerate() {
                // SAFETY: c + e < kv_heads·D and position + t < capacity: point 1; one lane per element.
                unsafe { store(task.v_cache, at + e * capacity, f32_to_bf16(value)) };
            }
        }
    }

    /// Defines the kernels: name, D / 64, whether there are norms.
    macro_rules! kernels {
        ($($(#[$doc:meta])* $name:ident: $pairs:literal, $norm:literal;)*) => {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(T, heads, kv_heads, D)`.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "the operation's own")]
            pub unsafe extern "gpu-kernel" fn $name(
                q: *mut f32,
                k: *const f32,
                v: *const f32,
                wq: *const u16,
                wk: *const u16,
                table: *const f32,
                k_cache: *mut u16,
                v_cache: *mut u16,
                tokens: u32,
                heads: u32,
                kv_heads: u32,
                position: u32,
                capacity: u32,
                eps: f32,
            ) {
                let task =
                    Task { q, k, v, wq, wk, table, k_cache, v_cache, tokens, heads, kv_heads, position, capacity, eps };
                // SAFETY: points 1 and 2.
                unsafe { prepare::<$pairs, $norm>(&task) };
            }
        )*};
    }

    kernels! {
        /// Heads made ready for attention, head_dim 64: q = rope(norm(q)), k_cache[.., position + t, ..] = rope(norm(k)), v_cache = v
        ///
        /// Input      q `[T, heads, D]`, k, v `[T, kv_heads, D]`, table `[positions, D]` f32; wq, wk `[D]` bf16; eps > 0 finite
        /// Output     q in place; positions position … position + T of both caches in bf16; overlap nothing
        /// Numerics   the bits of `head_norm_f32_d64`, `rope_f32_d64` and `kv_append_bf16` one after the other
        /// Workgroup  4 waves × 32 lanes; a wave per head of q and k, a lane per four elements of v; grid = their workgroups one after the other
        /// Wave       wave32; waves past the last head and lanes past the last element leave; all lanes live at the reduction
        /// LDS        0 B
        /// Registers  budget 48 VGPR, 0 spills
        /// Memory     8 B per lane of q and k, 16 B of v; q read and written, k and v read once; v's cache by 2 B, lanes along positions
        /// Sync       none
        /// Target     gfx1201; expects `global_load_b64`, `v_rsq_f32`, `v_permlanex16_b32`
        /// Why        five launches of a few µs each become one; k is not written back in f32
        prepare_heads_bf16_d64: 1, true;

        /// As `prepare_heads_bf16_d64`, head_dim 128: the bits of `head_norm_f32_d128` and `rope_f32_d128`.
        prepare_heads_bf16_d128: 2, true;

        /// As `prepare_heads_bf16_d64` without norms: q = rope(q), k_cache[.., position + t, ..] = rope(k), v_cache = v
        ///
        /// Input      q, k, v and table as there; wq, wk and eps are not read
        /// Numerics   the bits of `rope_f32_d64` and `kv_append_bf16` one after the other
        /// Target     gfx1201; expects `global_load_b64`, `v_permlanex16_b32`
        rotate_heads_bf16_d64: 1, false;

        /// As `rotate_heads_bf16_d64`, head_dim 128: expects no `v_permlanex16_b32`, both halves of a turn are one lane's.
        rotate_heads_bf16_d128: 2, false;
    }
}

#[cfg(gpu)]
pub(crate) use kernel::rotated;
