//! Appends a pass's keys and values to one layer's cache in formats that are arguments: [`crate::kv_append`] for all of them.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// head_dim 64.
pub const NAME_D64: &str = "kv_append_formats_d64";
/// head_dim 128.
pub const NAME_D128: &str = "kv_append_formats_d128";

pub(crate) const WAVES: u32 = 4;

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[T, kv_heads, D]` f32.
        pub k: Address,
        /// `[T, kv_heads, D]` f32.
        pub v: Address,
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
        /// T, at least 1.
        pub tokens: u32,
        /// Key/value heads, at least 1.
        pub kv_heads: u32,
        /// Position of the first token; position + T ≤ capacity.
        pub position: u32,
        /// Positions the cache holds, a multiple of 32.
        pub capacity: u32,
    }
}

/// The kernel for `head_dim`, if there is one.
pub const fn name(head_dim: u32) -> Option<&'static str> {
    match head_dim {
        64 => Some(NAME_D64),
        128 => Some(NAME_D128),
        _ => None,
    }
}

/// A wave per token and head; along y 0 appends keys, 1 values.
pub const fn geometry(tokens: u32, kv_heads: u32) -> Geometry {
    Geometry { workgroups: [(tokens * kv_heads).div_ceil(WAVES), 2, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{divide, lane_idx, load_f32x2, wave_idx, wave_uniform, workgroup_x, workgroup_y};

    use super::super::Sink;

    /// This wave's head of `x`, `[T, kv_heads, 64 · PAIRS]`: this lane's elements 64·p + 2·lane and the one after.
    ///
    /// # Safety
    /// 1. `row` is below T · kv_heads.
    #[inline(always)]
    pub unsafe fn head<const PAIRS: usize>(x: *const f32, row: usize) -> [[f32; 2]; PAIRS] {
        core::array::from_fn(|p| {
            let at = row * (64 * PAIRS) + p * 64 + lane_idx() as usize * 2;
            // SAFETY: point 1: the row's D elements are inside.
            unsafe { load_f32x2(x, at) }
        })
    }

    /// Both kernels.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn append<const PAIRS: usize>(
        [k, v]: [*const f32; 2],
        [keys, values]: [Sink; 2],
        [tokens, kv_heads, position]: [u32; 3],
    ) {
        let row = workgroup_x() * super::WAVES + wave_idx();
        if row >= tokens * kv_heads {
            return;
        }
        // SAFETY: kv_heads is at least 1.
        let t = wave_uniform(unsafe { divide(row, kv_heads) });
        let (kv_head, at) = ((row - t * kv_heads) as usize, (position + t) as usize);
        if workgroup_y() == 0 {
            // SAFETY: checked above; head and position are inside the cache, one wave for each; only whole waves have left.
            unsafe { keys.key(kv_head, at, head::<PAIRS>(k, row as usize)) };
        } else {
            // SAFETY: as above.
            unsafe { values.value(kv_head, at, head::<PAIRS>(v, row as usize)) };
        }
    }

    /// Defines a kernel: name, D / 64.
    macro_rules! kernel {
        ($(#[$doc:meta])* $name:ident: $pairs:literal) => {
            $(#[$doc])*
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "the operation's own")]
            pub unsafe extern "gpu-kernel" fn $name(
                k: *const f32,
                v: *const f32,
                k_cache: *mut u8,
                v_cache: *mut u8,
                k_scales: *mut f32,
                v_scales: *mut f32,
                k_format: u32,
                v_format: u32,
                tokens: u32,
                kv_heads: u32,
                position: u32,
                capacity: u32,
            ) {
                let capacity = capacity as usize;
                let keys = Sink { codes: k_cache, scales: k_scales, format: k_format, capacity };
                let values = Sink { codes: v_cache, scales: v_scales, format: v_format, capacity };
                // SAFETY: points 1 and 2.
                unsafe { append::<$pairs>([k, v], [keys, values], [tokens, kv_heads, position]) };
            }
        };
    }

    kernel! {
        /// KV append: codes and scale of each head of k at k_cache[g, position + t, ·], of v at v_cache[g, ·, position + t]
        ///
        /// Input      k, v `[T, kv_heads, 64]` f32; position + T ≤ capacity; T·kv_heads·D < 2³²; formats as in `KvFormat`
        /// Output     k_cache `[kv_heads, capacity, D]`, v_cache `[kv_heads, D, capacity]` codes, scales f32 `[kv_heads, capacity]`: the T
        ///            positions, no other byte
        /// Numerics   bf16, f16: one rounding, ties to even, f16 saturating; int8, fp8: half a step of the head's scale, which is one product;
        ///            the factor of codes is a division's but for its last bit; judged by oracle::kv_formats
        /// Workgroup  4 waves × 32 lanes; a wave per (t, kv head), 2 elements per lane; grid = [ceil(T·kv_heads / 4), 2], y = 0 keys, 1 values
        /// Wave       wave32; waves past the end leave as a whole; all lanes live at the reduction
        /// LDS        0 B
        /// Registers  budget 32 VGPR, 0 spills
        /// Memory     8 B read per lane; keys written side by side, values 1 or 2 B per element and capacity apart: one line each
        /// Sync       none
        /// Target     gfx1201; expects `global_load_b64`, `global_store_b16`, `global_store_b8`, `v_permlanex16_b32`
        /// Why        a scale needs its whole head, so a wave has one; formats are arguments because branches that a wave takes as one cost
        ///            little here, and sixteen pairs of kernels much
        ///
        /// # Safety
        /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned, no two overlapping.
        /// 2. Launched with `geometry(T, kv_heads)`.
        kv_append_formats_d64: 1
    }

    kernel! {
        /// KV append in formats, head_dim 128: as `kv_append_formats_d64`, 4 elements per lane.
        ///
        /// # Safety
        /// 1. and 2. as `kv_append_formats_d64` with 128 for 64.
        kv_append_formats_d128: 2
    }
}

#[cfg(gpu)]
pub(super) use kernel::head;
