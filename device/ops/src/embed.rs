//! Embedding gather: the first operation of a pass. It does not check ids; the host has.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// bf16 table to f32 residual stream.
pub const NAME: &str = "embed_bf16";

/// Waves of a workgroup.
pub(crate) const WAVES: u32 = 4;
/// Elements one workgroup writes: 8 per lane.
const SPAN: u32 = WAVES * 32 * 8;

args! {
    /// Arguments of [`NAME`].
    pub struct Args {
        /// `[T]` u32, each below the table's rows; 4-byte aligned.
        pub ids: Address,
        /// `[V, H]` bf16.
        pub table: Address,
        /// `[T, H]` f32.
        pub out: Address,
        /// H, a multiple of 64.
        pub hidden: u32,
    }
    pad pad
}

/// One workgroup per token and 1024 elements of its row.
pub const fn geometry(tokens: u32, hidden: u32) -> Geometry {
    Geometry { workgroups: [tokens, hidden.div_ceil(SPAN), 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{B128, item_idx, load, store_f32x4, unpack_bf16, workgroup_x, workgroup_y};

    /// Embedding gather: out[t,i] = table[ids[t],i]
    ///
    /// Input      ids `[T]` u32 < V; table `[V, H]` bf16 row-major, H a multiple of 64
    /// Output     out `[T, H]` f32, every element written; overlaps nothing
    /// Numerics   exact: bf16 widened to f32
    /// Workgroup  4 waves × 32 lanes; grid = [T, ceil(H / 1024)]; x carries T because it may pass 65 535
    /// Wave       wave32; lanes past H leave
    /// LDS        0 B
    /// Registers  budget 24 VGPR, 0 spills: 8 values and two addresses
    /// Memory     16 B read and 32 B written per lane, consecutive lanes consecutive; bytes = 6·T·H + 4·T
    /// Sync       none: no data crosses lanes
    /// Target     gfx1201; expects `global_load_b128`, `global_store_b128`
    /// Why        plain; a pass spends well under 1 % here
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned (ids: 4), and every id is below V.
    /// 2. Launched with `geometry(T, H)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn embed_bf16(ids: *const u32, table: *const u16, out: *mut f32, hidden: u32) {
        let t = workgroup_x() as usize;
        let i = workgroup_y() * super::SPAN + item_idx() * 8;
        if i >= hidden {
            return;
        }
        // SAFETY: t < T by point 2.
        let id = unsafe { load(ids, t) } as usize;
        let row = table.wrapping_add(id * hidden as usize);
        // SAFETY: id < V and i + 8 ≤ H, because H and i are multiples of 8: point 1.
        let x = unsafe { load(row.cast::<B128>(), i as usize / 8) }.words();
        let [a, b, c, d] = x.map(unpack_bf16);
        let row = out.wrapping_add(t * hidden as usize);
        // SAFETY: as above, for the row of out; each element belongs to one lane.
        unsafe { store_f32x4(row, i as usize, [a[0], a[1], b[0], b[1]]) };
        // SAFETY: as above.
        unsafe { store_f32x4(row, i as usize + 4, [c[0], c[1], d[0], d[1]]) };
    }
}
