//! Appends a pass's keys and values to one layer's cache, rounded to bf16. The cache's layout is decided here: keys `[kv_heads,
//! capacity, D]`, values *transposed*, `[kv_heads, D, capacity]`, so that attention reads both as matrix operands with 16-byte loads.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// f32 keys and values to a bf16 cache.
pub const NAME: &str = "kv_append_bf16";
/// The cache's capacity in positions is a multiple of this: what attention reads at once.
pub const CAPACITY_MULTIPLE: u32 = 32;

pub(crate) const WAVES: u32 = 4;

args! {
    /// Arguments of [`NAME`].
    pub struct Args {
        /// `[T, kv_heads, D]` f32.
        pub k: Address,
        /// `[T, kv_heads, D]` f32.
        pub v: Address,
        /// `[kv_heads, capacity, D]` bf16.
        pub k_cache: Address,
        /// `[kv_heads, D, capacity]` bf16.
        pub v_cache: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// Key/value heads, at least 1.
        pub kv_heads: u32,
        /// log2 of D: 6 or 7.
        pub head_dim_log2: u32,
        /// Position of the first token; position + T ≤ capacity.
        pub position: u32,
        /// Positions the cache holds, a multiple of [`CAPACITY_MULTIPLE`].
        pub capacity: u32,
    }
    pad pad
}

/// Workgroups along y: 0 appends keys, 1 values.
pub const fn geometry(tokens: u32, kv_heads: u32, head_dim: u32) -> Geometry {
    let quads = tokens * kv_heads * (head_dim / 4);
    Geometry { workgroups: [quads.div_ceil(WAVES * 32), 2, 1], waves: WAVES, lds_bytes: 0 }
}

/// Positions a cache for `context_len` tokens must hold.
pub const fn capacity(context_len: u32) -> u32 {
    context_len.div_ceil(CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::f32_to_bf16;
    use amdgpu_target::gpu::{B64, bf16x4, divide, item_idx, load_f32x4, store, workgroup_x, workgroup_y};

    /// KV append: k_cache[g,position+t,d] = bf16(k[t,g,d]); v_cache[g,d,position+t] = bf16(v[t,g,d])
    ///
    /// Input      k, v `[T, kv_heads, D]` f32; D 64 or 128; position + T ≤ capacity; T·kv_heads·D/4 < 2³²
    /// Output     k_cache `[kv_heads, capacity, D]`, v_cache `[kv_heads, D, capacity]` bf16: the T positions, no other byte
    /// Numerics   one rounding to bf16, ties to even; exact against oracle::kv_append
    /// Workgroup  4 waves × 32 lanes; 4 elements per lane; grid = [ceil(T·kv_heads·D / 512), 2], y = 0 keys, 1 values
    /// Wave       wave32; lanes past the end leave; y is uniform
    /// LDS        0 B
    /// Registers  budget 32 VGPR, 0 spills
    /// Memory     keys: lanes along d, 16 B read and 8 B written each. Values: lanes along t, so the 2-byte stores of a row are
    ///            consecutive; with T = 1 they are scattered, 2·kv_heads·D bytes in all
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b128`, `global_store_b64`
    /// Why        transposing once at the append is cheaper than at every read by attention
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned, no two overlapping.
    /// 2. Launched with `geometry(T, kv_heads, D)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn kv_append_bf16(
        k: *const f32,
        v: *const f32,
        k_cache: *mut u16,
        v_cache: *mut u16,
        tokens: u32,
        kv_heads: u32,
        head_dim_log2: u32,
        position: u32,
        capacity: u32,
    ) {
        let width_quads = kv_heads << (head_dim_log2 - 2);
        let quad = workgroup_x() * (super::WAVES * 32) + item_idx();
        if quad >= tokens * width_quads {
            return;
        }
        let capacity = capacity as usize;
        if workgroup_y() == 0 {
            // SAFETY: kv_heads is at least 1.
            let t = unsafe { divide(quad, width_quads) };
            let c = (quad - t * width_quads) * 4;
            let (head, d) = (c >> head_dim_log2, c & ((1 << head_dim_log2) - 1));
            // SAFETY: t < T and c + 4 ≤ kv_heads·D: point 1.
            let x = unsafe { load_f32x4(k, quad as usize * 4) };
            let row = ((head as usize * capacity + (position + t) as usize) << head_dim_log2) + d as usize;
            // SAFETY: head < kv_heads and position + t < capacity: point 1; d is a multiple of 4; one lane per element.
            unsafe { store(k_cache.cast::<B64>(), row / 4, bf16x4(x)) };
        } else {
            // SAFETY: tokens is at least 1.
            let row_quad = unsafe { divide(quad, tokens) };
            let (c, t) = (row_quad * 4, quad - row_quad * tokens);
            // SAFETY: as above.
            let x = unsafe { load_f32x4(v, t as usize * width_quads as usize * 4 + c as usize) };
            // c = head·D + d, so the cache's row is c itself.
            let at = c as usize * capacity + (position + t) as usize;
            for (e, &value) in x.iter().enumerate() {
                // SAFETY: c + e < kv_heads·D and position + t < capacity: point 1; one lane per element.
                unsafe { store(v_cache, at + e * capacity, f32_to_bf16(value)) };
            }
        }
    }
}
