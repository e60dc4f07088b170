//! The gate of the MLP: silu(gate) ∘ up, f32 in, bf16 out for down_proj.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// f32 gate and up to bf16.
pub const NAME: &str = "swiglu_f32_bf16";

pub(crate) const WAVES: u32 = 8;
/// Elements one workgroup writes: 4 per lane.
const SPAN: u64 = WAVES as u64 * 32 * 4;

args! {
    /// Arguments of [`NAME`].
    pub struct Args {
        /// `[T·I]` f32.
        pub gate: Address,
        /// `[T·I]` f32.
        pub up: Address,
        /// `[T·I]` bf16.
        pub out: Address,
        /// T·I, a multiple of 4.
        pub count: u64,
    }
}

/// One lane per 4 elements; `count` below 2⁴¹.
pub const fn geometry(count: u64) -> Geometry {
    Geometry { workgroups: [count.div_ceil(SPAN) as u32, 1, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{B64, bf16x4, item_idx, load_f32x4, silu, store, workgroup_x};

    /// SwiGLU: out[i] = gate[i] / (1 + e^−gate[i]) · up[i]
    ///
    /// Input      gate, up `[count]` f32; count a multiple of 4
    /// Output     out `[count]` bf16, every element written; must not overlap gate or up
    /// Numerics   `v_exp_f32`, `v_rcp_f32`, one rounding at the store; oracle::swiglu, Tolerance BF16_STORE
    /// Workgroup  8 waves × 32 lanes; 4 elements per lane; grid = ceil(count / 1024)
    /// Wave       wave32; lanes past the end leave
    /// LDS        0 B
    /// Registers  budget 32 VGPR, 0 spills
    /// Memory     16 B per lane and input, 8 B written, consecutive; bytes = 10·count
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b128`, `v_exp_f32`, `v_rcp_f32`
    /// Why        plain; fusing it into gate/up is a later rung
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(count)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn swiglu_f32_bf16(gate: *const f32, up: *const f32, out: *mut u16, count: u64) {
        let i = u64::from(workgroup_x()) * super::SPAN + u64::from(item_idx() * 4);
        if i >= count {
            return;
        }
        // SAFETY: i + 4 ≤ count, both being multiples of 4: point 1.
        let g = unsafe { load_f32x4(gate, i as usize) };
        // SAFETY: as above.
        let u = unsafe { load_f32x4(up, i as usize) };
        let y = [silu(g[0]) * u[0], silu(g[1]) * u[1], silu(g[2]) * u[2], silu(g[3]) * u[3]];
        // SAFETY: as above; each element belongs to one lane.
        unsafe { store(out.cast::<B64>(), i as usize / 4, bf16x4(y)) };
    }
}
