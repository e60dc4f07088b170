//! Rotary embedding of each head, in place, rotate-half. The angles come from a table the host makes in f64: no sine on the device.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// head_dim 64.
pub const NAME_D64: &str = "rope_f32_d64";
/// head_dim 128.
pub const NAME_D128: &str = "rope_f32_d128";

pub(crate) const WAVES: u32 = 4;

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[T, heads, D]` f32, changed in place.
        pub x: Address,
        /// `[positions, D]` f32: row `p` holds cos(p·θᵢ) for i in 0 … D/2, then sin(p·θᵢ); θᵢ = rope_theta^(−2i/D).
        pub table: Address,
        /// Heads of one token.
        pub heads: u32,
        /// Position of the first token; position + T ≤ positions of the table.
        pub position: u32,
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

/// One wave per token and head.
pub const fn geometry(tokens: u32, heads: u32) -> Geometry {
    Geometry { workgroups: [tokens, heads.div_ceil(WAVES), 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{fma, lane_idx, load, store, wave_idx, workgroup_x, workgroup_y};

    /// Both kernels; a lane turns the pairs (i, i + D/2) for i = lane + 32·p, `PAIRS` = D / 64.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn rope<const PAIRS: usize>(x: *mut f32, table: *const f32, heads: u32, position: u32) {
        let half = 32 * PAIRS;
        let t = workgroup_x();
        let head = workgroup_y() * super::WAVES + wave_idx();
        if head >= heads {
            return;
        }
        let x = x.wrapping_add((t as usize * heads as usize + head as usize) * 2 * half);
        let row = table.wrapping_add((position as usize + t as usize) * 2 * half);
        for p in 0..PAIRS {
            let i = lane_idx() as usize + 32 * p;
            // SAFETY: i < D/2 and position + t is a row of the table: points 1 and 2.
            let cos = unsafe { load(row, i) };
            // SAFETY: as above.
            let sin = unsafe { load(row, i + half) };
            // SAFETY: t < T and head < heads, so x holds D elements from here on.
            let a = unsafe { load(x, i) };
            // SAFETY: as above.
            let b = unsafe { load(x, i + half) };
            // SAFETY: as above; each element belongs to one lane.
            unsafe { store(x, i, fma(a, cos, -(b * sin))) };
            // SAFETY: as above.
            unsafe { store(x, i + half, fma(b, cos, a * sin)) };
        }
    }

    /// Rotary embedding: with (a, b) = (x[t,h,i], x[t,h,i+D/2]), θ the angle of position + t:
    /// x[t,h,i] ← a·cos θᵢ − b·sin θᵢ, x[t,h,i+D/2] ← b·cos θᵢ + a·sin θᵢ
    ///
    /// Input      x `[T, heads, 64]` f32; table `[positions, 64]` f32, cosines then sines; position + T ≤ positions
    /// Output     x, in place, every element written; must not overlap the table
    /// Numerics   f32, one product and one fused step each; oracle::rope, Tolerance F32_ROTATE
    /// Workgroup  4 waves × 32 lanes; one wave per (t, head); grid = [T, ceil(heads / 4)]
    /// Wave       wave32; heads past the end leave as a whole wave
    /// LDS        0 B
    /// Registers  budget 24 VGPR, 0 spills
    /// Memory     4 B per lane, consecutive lanes consecutive; x read and written once, the table row shared by all heads
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b32`, `global_store_b32`
    /// Why        a table costs D·4 B per position and is exact at any position; `v_sin_f32` is not past a few turns
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* says, 16-byte aligned.  2. Launched with `geometry(T, heads)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn rope_f32_d64(x: *mut f32, table: *const f32, heads: u32, position: u32) {
        // SAFETY: points 1 and 2 are the same.
        unsafe { rope::<1>(x, table, heads, position) };
    }

    /// Rotary embedding for head_dim 128: as `rope_f32_d64`, two pairs per lane.
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* says with 128 for 64, 16-byte aligned.  2. Launched with `geometry(T, heads)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn rope_f32_d128(x: *mut f32, table: *const f32, heads: u32, position: u32) {
        // SAFETY: points 1 and 2 are the same.
        unsafe { rope::<2>(x, table, heads, position) };
    }
}
