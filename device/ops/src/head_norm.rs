//! RMSNorm of each head over head_dim, in place: Qwen3's q_norm and k_norm.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// head_dim 64.
pub const NAME_D64: &str = "head_norm_f32_d64";
/// head_dim 128.
pub const NAME_D128: &str = "head_norm_f32_d128";

pub(crate) const WAVES: u32 = 4;

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[T·heads, D]` f32, changed in place.
        pub x: Address,
        /// `[D]` bf16.
        pub w: Address,
        /// T · heads.
        pub rows: u32,
        /// Added to the mean square; positive, finite.
        pub eps: f32,
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

/// One wave per row.
pub const fn geometry(rows: u32) -> Geometry {
    Geometry { workgroups: [rows.div_ceil(WAVES), 1, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{
        fma, lane_idx, load, load_f32x2, rsq, store_f32x2, unpack_bf16, wave_idx, wave_sum, workgroup_x,
    };

    /// Both kernels; `PAIRS` = D / 64 pairs per lane, pair `p` at element 64·p + 2·lane.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn head_norm<const PAIRS: usize>(x: *mut f32, w: *const u16, rows: u32, eps: f32) {
        let row = workgroup_x() * super::WAVES + wave_idx();
        if row >= rows {
            return;
        }
        let x = x.wrapping_add(row as usize * 64 * PAIRS);
        let at = |p: usize| p * 64 + lane_idx() as usize * 2;
        let mut v = [[0.0f32; 2]; PAIRS];
        let mut sum = 0.0;
        for p in 0..PAIRS {
            // SAFETY: row < rows, so x holds D elements from here on, and at(p) + 2 ≤ D: point 1.
            v[p] = unsafe { load_f32x2(x, at(p)) };
            sum = fma(v[p][1], v[p][1], fma(v[p][0], v[p][0], sum));
        }
        let scale = rsq(fma(wave_sum(sum), 1.0 / (64 * PAIRS) as f32, eps));
        for p in 0..PAIRS {
            // SAFETY: at(p) is even and w holds D bf16: point 1.
            let [a, b] = unpack_bf16(unsafe { load(w.cast::<u32>(), at(p) / 2) });
            // SAFETY: as the load of x; each element belongs to one lane.
            unsafe { store_f32x2(x, at(p), [v[p][0] * scale * a, v[p][1] * scale * b]) };
        }
    }

    /// Head RMSNorm: x[r,i] ← x[r,i] / sqrt(mean_i(x[r,i]²) + eps) · w[i], r over T·heads, i over head_dim
    ///
    /// Input      x `[T·heads, 64]` f32; w `[64]` bf16; eps > 0 finite
    /// Output     x, in place, every element written; must not overlap w
    /// Numerics   f32 sums, `v_rsq_f32`; oracle::head_norm, Tolerance F32_NORM
    /// Workgroup  4 waves × 32 lanes; one wave per row; grid = ceil(rows / 4)
    /// Wave       wave32; rows past the end leave as a whole wave; all lanes live at the reduction
    /// LDS        0 B
    /// Registers  budget 24 VGPR, 0 spills: the row is kept in registers
    /// Memory     8 B per lane, consecutive lanes consecutive; x read and written once; bytes = 8·rows·D + 2·D
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b64`, `v_rsq_f32`
    /// Why        64 elements are one pair per lane: wider loads would idle lanes
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* says, 16-byte aligned.  2. Launched with `geometry(rows)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn head_norm_f32_d64(x: *mut f32, w: *const u16, rows: u32, eps: f32) {
        // SAFETY: points 1 and 2 are the same.
        unsafe { head_norm::<1>(x, w, rows, eps) };
    }

    /// Head RMSNorm for head_dim 128: as `head_norm_f32_d64`, two pairs per lane.
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* says with 128 for 64, 16-byte aligned.  2. Launched with `geometry(rows)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn head_norm_f32_d128(x: *mut f32, w: *const u16, rows: u32, eps: f32) {
        // SAFETY: points 1 and 2 are the same.
        unsafe { head_norm::<2>(x, w, rows, eps) };
    }
}
