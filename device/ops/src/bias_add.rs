//! Adds a bias to each row of a projection's output.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// f32 += bf16.
pub const NAME: &str = "bias_add_f32";

pub(crate) const WAVES: u32 = 4;
/// Elements of a row that one workgroup changes: 4 per lane.
const SPAN: u32 = WAVES * 32 * 4;

/// N is a multiple of it.
pub const N_MULTIPLE: u32 = 4;

args! {
    /// Arguments of [`NAME`].
    pub struct Args {
        /// `[T, N]` f32, changed in place.
        pub y: Address,
        /// `[N]` bf16.
        pub bias: Address,
        /// N, a multiple of 4, at least 4.
        pub n: u32,
    }
    pad pad
}

/// One lane per 4 elements of a row; at most 65 535 tokens.
pub const fn geometry(tokens: u32, n: u32) -> Geometry {
    Geometry { workgroups: [n.div_ceil(SPAN), tokens, 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{B64, item_idx, load, load_f32x4, store_f32x4, unpack_bf16, workgroup_x, workgroup_y};

    /// Bias add: y[t,n] ← y[t,n] + bias[n]
    ///
    /// Input      y `[T, N]` f32; bias `[N]` bf16; N a multiple of 4
    /// Output     y, in place, every element written; must not overlap bias
    /// Numerics   one f32 addition, exact against oracle::bias_add rounded to f32
    /// Workgroup  4 waves × 32 lanes; 4 elements of a row per lane; grid = [ceil(N / 512), T]
    /// Wave       wave32; lanes past N leave
    /// LDS        0 B
    /// Registers  budget 24 VGPR, 0 spills
    /// Memory     16 B per lane of y, 8 B of the bias, consecutive; bytes = 8·T·N + 2·N
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b128`, `global_load_b64`, `global_store_b128`
    /// Why        the baseline of every family with biases; a bias is far smaller than what it is added to
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* says, 16-byte aligned.  2. Launched with `geometry(T, N)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn bias_add_f32(y: *mut f32, bias: *const u16, n: u32) {
        let i = (workgroup_x() * super::SPAN + item_idx() * 4) as usize;
        if i >= n as usize {
            return;
        }
        let row = y.wrapping_add(workgroup_y() as usize * n as usize);
        // SAFETY: t < T by point 2 and i + 4 ≤ N, both being multiples of 4: point 1.
        let x = unsafe { load_f32x4(row, i) };
        // SAFETY: as above, in fours.
        let [ab, cd] = unsafe { load(bias.cast::<B64>(), i / 4) }.words().map(unpack_bf16);
        // SAFETY: as the load of x; each element belongs to one lane.
        unsafe { store_f32x4(row, i, [x[0] + ab[0], x[1] + ab[1], x[2] + cd[0], x[3] + cd[1]]) };
    }
}
