//! What becomes of several tokens' q, k and v before attention, with a cache in formats that are arguments: [`crate::prepare_heads`] for all of
//! them, with norms or without by an argument too.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// head_dim 64.
pub const NAME_D64: &str = "prepare_heads_formats_d64";
/// head_dim 128.
pub const NAME_D128: &str = "prepare_heads_formats_d128";

pub(crate) const WAVES: u32 = 4;

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[T, heads, D]` f32, normalised and rotated in place.
        pub q: Address,
        /// `[T, kv_heads, D]` f32, read.
        pub k: Address,
        /// `[T, kv_heads, D]` f32, read.
        pub v: Address,
        /// `[D]` bf16, q's norm; not read without norms.
        pub wq: Address,
        /// `[D]` bf16, k's norm; likewise.
        pub wk: Address,
        /// `[positions, D]` f32, as `rope` reads it.
        pub table: Address,
        /// Codes `[kv_heads, capacity, D]`.
        pub k_cache: Address,
        /// Codes `[kv_heads, D, capacity]`.
        pub v_cache: Address,
        /// f32 `[kv_heads, capacity]`; not touched where k's format has none.
        pub k_scales: Address,
        /// f32 `[kv_heads, capacity]`; likewise.
        pub v_scales: Address,
        /// [`super::KvFormat`] of keys.
        pub k_format: u32,
        /// [`super::KvFormat`] of values.
        pub v_format: u32,
        /// 1 with norms, 0 without.
        pub normed: u32,
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
    pad pad
}

/// The kernel for `head_dim`, if there is one.
pub const fn name(head_dim: u32) -> Option<&'static str> {
    match head_dim {
        64 => Some(NAME_D64),
        128 => Some(NAME_D128),
        _ => None,
    }
}

/// A wave per head of q, k and v.
pub const fn geometry(tokens: u32, heads: u32, kv_heads: u32) -> Geometry {
    let waves = tokens * (heads + 2 * kv_heads);
    Geometry { workgroups: [waves.div_ceil(WAVES), 1, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{divide, lane_idx, store_f32x2, wave_idx, wave_uniform, workgroup_x};

    use super::super::Sink;
    use super::super::append::head as value_of;
    use crate::prepare_heads::rotated;

    /// What is read and written in place.
    struct Task {
        q: *mut f32,
        k: *const f32,
        v: *const f32,
        wq: *const u16,
        wk: *const u16,
        table: *const f32,
        normed: u32,
        tokens: u32,
        heads: u32,
        kv_heads: u32,
        position: u32,
        eps: f32,
    }

    /// This wave's head.
    ///
    /// # Safety
    /// 1. As the kernels.
    #[inline(always)]
    unsafe fn prepare<const PAIRS: usize>(task: &Task, keys: Sink, values: Sink) {
        let &Task { tokens, heads, kv_heads, eps, .. } = task;
        let all = heads + 2 * kv_heads;
        let row = workgroup_x() * super::WAVES + wave_idx();
        if row >= tokens * all {
            return;
        }
        // SAFETY: heads is at least 1.
        let t = wave_uniform(unsafe { divide(row, all) });
        let head = wave_uniform(row - t * all);
        let at = (task.position + t) as usize;
        if head >= heads + kv_heads {
            let head = (head - heads - kv_heads) as usize;
            // SAFETY: t < T and head < kv_heads: point 1; one wave for each; only whole waves have left.
            unsafe { values.value(head, at, value_of::<PAIRS>(task.v, t as usize * kv_heads as usize + head)) };
            return;
        }
        let is_query = head < heads;
        let (x, w) = if is_query {
            let row = t as usize * heads as usize + head as usize;
            (task.q.cast_const().wrapping_add(row * (64 * PAIRS)), task.wq)
        } else {
            let row = t as usize * kv_heads as usize + (head - heads) as usize;
            (task.k.wrapping_add(row * (64 * PAIRS)), task.wk)
        };
        let angles = task.table.wrapping_add(at * (64 * PAIRS));
        let out = if task.normed != 0 {
            // SAFETY: the head's D elements, the norm's, and the angles of a position inside the table: point 1; all lanes are live.
            unsafe { rotated::<PAIRS, true>(x, w, angles, eps) }
        } else {
            // SAFETY: as above, without a norm.
            unsafe { rotated::<PAIRS, false>(x, w, angles, eps) }
        };
        if is_query {
            let row = (t as usize * heads as usize + head as usize) * (64 * PAIRS);
            for p in 0..PAIRS {
                // SAFETY: as the load of x; each element belongs to one lane.
                unsafe { store_f32x2(task.q, row + p * 64 + lane_idx() as usize * 2, out[p]) };
            }
        } else {
            // SAFETY: as the values.
            unsafe { keys.key((head - heads) as usize, at, out) };
        }
    }

    /// Defines a kernel: name, D / 64.
    macro_rules! kernel {
        ($(#[$doc:meta])* $name:ident: $pairs:literal) => {
            $(#[$doc])*
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "the operation's own")]
            pub unsafe extern "gpu-kernel" fn $name(
                q: *mut f32,
                k: *const f32,
                v: *const f32,
                wq: *const u16,
                wk: *const u16,
                table: *const f32,
                k_cache: *mut u8,
                v_cache: *mut u8,
                k_scales: *mut f32,
                v_scales: *mut f32,
                k_format: u32,
                v_format: u32,
                normed: u32,
                tokens: u32,
                heads: u32,
                kv_heads: u32,
                position: u32,
                capacity: u32,
                eps: f32,
            ) {
                let capacity = capacity as usize;
                let keys = Sink { codes: k_cache, scales: k_scales, format: k_format, capacity };
                let values = Sink { codes: v_cache, scales: v_scales, format: v_format, capacity };
                let task = Task { q, k, v, wq, wk, table, normed, tokens, heads, kv_heads, position, eps };
                // SAFETY: points 1 and 2.
                unsafe { prepare::<$pairs>(&task, keys, values) };
            }
        };
    }

    kernel! {
        /// Heads made ready for attention: q = rope(norm(q)); codes and scales of rope(norm(k)) and of v into the cache
        ///
        /// Input      q `[T, heads, 64]`, k, v `[T, kv_heads, 64]`, table `[positions, D]` f32; wq, wk `[D]` bf16; eps > 0 finite; formats as
        ///            in `KvFormat`; normed 0 leaves the norms out
        /// Output     q in place; positions position … position + T of the cache, codes and scales; overlap nothing
        /// Numerics   the bits of `head_norm_f32_d64`, `rope_f32_d64` and `kv_append_formats_d64` one after the other
        /// Workgroup  4 waves × 32 lanes; a wave per head of q, k and v; grid = ceil(T·(heads + 2·kv_heads) / 4)
        /// Wave       wave32; waves past the last head leave as a whole; all lanes live at the reductions
        /// LDS        0 B
        /// Registers  budget 48 VGPR, 0 spills
        /// Memory     8 B per lane; q read and written, k and v read once; cache as `kv_append_formats_d64`
        /// Sync       none
        /// Target     gfx1201; expects `global_load_b64`, `v_rsq_f32`, `global_store_b8`, `v_permlanex16_b32`
        /// Why        as `prepare_heads_bf16_d64`; a scale needs its whole head, so values have a wave for each too
        ///
        /// # Safety
        /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(T, heads, kv_heads)`.
        prepare_heads_formats_d64: 1
    }

    kernel! {
        /// As `prepare_heads_formats_d64`, head_dim 128: the bits of `head_norm_f32_d128`, `rope_f32_d128` and `kv_append_formats_d128`.
        ///
        /// # Safety
        /// 1. and 2. as `prepare_heads_formats_d64` with 128 for 64.
        prepare_heads_formats_d128: 2
    }
}
