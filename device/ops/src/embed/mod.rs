//! Embedding gather: the first operation of a pass. It does not check ids; the host has. [`quantized`] has the kernels of tables that are
//! not bf16.

pub mod quantized;

use amdgpu_target::Geometry;

use crate::contract::{Address, args};
use crate::format::Stored;

/// bf16 table to f32 residual stream.
pub const NAME: &str = "embed_bf16";

/// Waves of a workgroup.
pub(crate) const WAVES: u32 = 4;

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
    geometry_of(Stored::Bf16, tokens, hidden)
}

/// One workgroup per token and as much of its row as 128 lanes read at 16 bytes each.
const fn geometry_of(stored: Stored, tokens: u32, hidden: u32) -> Geometry {
    Geometry { workgroups: [tokens, hidden.div_ceil(WAVES * 32 * stored.elements()), 1], waves: WAVES, lds_bytes: 0 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{item_idx, load, store_f32x4, workgroup_x, workgroup_y};

    use crate::format::{Format, Matrix, meant};

    /// Row `ids[workgroup x]` of the table, as much of it as this workgroup writes.
    ///
    /// # Safety
    /// 1. `table` holds what [`Matrix`] says; `ids` and `out` as the kernels' contracts say, and every id is a row of the table.
    /// 2. Launched with `geometry_of` the format, T, H.
    #[inline(always)]
    pub(super) unsafe fn gather<F: Format>(ids: *const u32, table: Matrix<F>, out: *mut f32) {
        let t = workgroup_x() as usize;
        let i = (workgroup_y() * super::WAVES * 32 + item_idx()) * F::ELEMENTS;
        if i >= table.k {
            return;
        }
        // SAFETY: t < T by point 2.
        let id = unsafe { load(ids, t) };
        let row = table.row(id);
        // SAFETY: the id is a row and i + ELEMENTS ≤ H, because H is a multiple of 64 and i one of ELEMENTS: point 1.
        let codes = unsafe { row.codes(i) };
        // SAFETY: as above.
        let group = unsafe { row.group(i) };
        // SAFETY: as above.
        let of_row = unsafe { row.scale() };
        let out = out.wrapping_add(t * table.k as usize);
        for piece in 0..F::PIECES {
            let [a, b, c, d, e, f, g, h] = meant::<F>(F::piece(codes, piece), group, of_row);
            let at = i as usize + 8 * piece;
            // SAFETY: as the codes, for the row of out; each element belongs to one lane.
            unsafe { store_f32x4(out, at, [a, b, c, d]) };
            // SAFETY: as above.
            unsafe { store_f32x4(out, at + 4, [e, f, g, h]) };
        }
    }

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
        let table = Matrix::bf16(table, hidden);
        // SAFETY: points 1 and 2.
        unsafe { gather(ids, table, out) };
    }
}
