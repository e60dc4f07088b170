//! Adds a projection's output to the residual stream.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// f32 += f32.
pub const NAME: &str = "residual_add_f32";

pub(crate) const WAVES: u32 = 8;
/// Elements one workgroup changes: 4 per lane.
const SPAN: u64 = WAVES as u64 * 32 * 4;

args! {
    /// Arguments of [`NAME`].
    pub struct Args {
        /// `[T·H]` f32, changed in place.
        pub hidden: Address,
        /// `[T·H]` f32.
        pub proj: Address,
        /// T·H, a multiple of 4.
        pub count: u64,
    }
}

/// One lane per 4 elements; `count` below 2⁴¹.
pub const fn geometry(count: u64) -> Geometry {
    Geometry { workgroups: [count.div_ceil(SPAN) as u32, 1, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{item_idx, load_f32x4, store_f32x4, workgroup_x};

    /// Residual add: hidden[i] ← hidden[i] + proj[i]
    ///
    /// Input      hidden, proj `[count]` f32; count a multiple of 4
    /// Output     hidden, in place, every element written; must not overlap proj
    /// Numerics   one f32 addition, exact against oracle::residual_add rounded to f32
    /// Workgroup  8 waves × 32 lanes; 4 elements per lane; grid = ceil(count / 1024)
    /// Wave       wave32; lanes past the end leave
    /// LDS        0 B
    /// Registers  budget 24 VGPR, 0 spills
    /// Memory     16 B per lane and access, consecutive; bytes = 12·count
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b128`, `global_store_b128`
    /// Why        plain; fusing it into the projection is a later rung
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* says, 16-byte aligned.  2. Launched with `geometry(count)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn residual_add_f32(hidden: *mut f32, proj: *const f32, count: u64) {
        let i = u64::from(workgroup_x()) * super::SPAN + u64::from(item_idx() * 4);
        if i >= count {
            return;
        }
        // SAFETY: i + 4 ≤ count, both being multiples of 4: point 1.
        let h = unsafe { load_f32x4(hidden, i as usize) };
        // SAFETY: as above.
        let p = unsafe { load_f32x4(proj, i as usize) };
        // SAFETY: as above; each element belongs to one lane.
        unsafe { store_f32x4(hidden, i as usize, [h[0] + p[0], h[1] + p[1], h[2] + p[2], h[3] + p[3]]) };
    }
}
