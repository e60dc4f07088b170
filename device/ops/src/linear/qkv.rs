//! q, k and v of several tokens in one launch: three matrices with the same input. Each product is that of `tiles.rs`.

use amdgpu_target::Geometry;

use super::tile::Tile;
use crate::contract::{Address, args};

/// By tiles of 128 × 64.
pub const NAME_N128_T64: &str = "linear_qkv_bf16_n128_t64";
/// By tiles of 128 × 128.
pub const NAME_N128_T128: &str = "linear_qkv_bf16_n128_t128";

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[N, K]` bf16, row-major.
        pub wq: Address,
        /// `[NKV, K]` bf16, row-major.
        pub wk: Address,
        /// `[NKV, K]` bf16, row-major.
        pub wv: Address,
        /// `[T, K]` bf16, row-major.
        pub x: Address,
        /// `[T, N]` f32, row-major.
        pub q: Address,
        /// `[T, NKV]` f32, row-major.
        pub key: Address,
        /// `[T, NKV]` f32, row-major.
        pub value: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// Rows of wq, at least 1.
        pub n: u32,
        /// Rows of wk and of wv, at least 1.
        pub n_kv: u32,
        /// K, a multiple of 64, at least 64.
        pub k: u32,
    }
}

/// The tile for these rows: 128 × 128 where that gives enough workgroups, else 128 × 64.
pub const fn tile(tokens: u32, n: u32, n_kv: u32) -> Tile {
    match Tile::choose(tokens, n.saturating_add(n_kv).saturating_add(n_kv)) {
        Tile::N128T128 => Tile::N128T128,
        _ => Tile::N128T64,
    }
}

/// The kernel of a tile; none for 64 × 64.
pub const fn name(tile: Tile) -> Option<&'static str> {
    match tile {
        Tile::N64T64 => None,
        Tile::N128T64 => Some(NAME_N128_T64),
        Tile::N128T128 => Some(NAME_N128_T128),
    }
}

/// Geometry of [`name`]`(tile)`: q's tiles, then k's, then v's.
pub const fn geometry(tile: Tile, tokens: u32, n: u32, n_kv: u32) -> Geometry {
    tile.geometry(tokens, n.div_ceil(tile.n()) + 2 * n_kv.div_ceil(tile.n()))
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{B128, workgroup_x, workgroup_y};

    use super::super::multiply::Floats;
    use super::super::outputs::write;
    use super::super::tiles::product;
    use crate::format::{Bf16, Matrix};

    /// The tile of workgroup (x, y): which matrix is decided by x, for all lanes the same.
    ///
    /// # Safety
    /// 1. As the kernels below.
    #[inline(always)]
    unsafe fn tile<const FT: usize, const PX: usize, const AHEAD: u32>(
        [wq, wk, wv]: [*const u16; 3],
        x: *const u16,
        [q, key, value]: [*mut f32; 3],
        [tokens, n, n_kv, k]: [u32; 4],
    ) {
        let (q_tiles, kv_tiles) = (n.div_ceil(128), n_kv.div_ceil(128));
        let at = workgroup_x();
        let (w, y, rows, at) = if at < q_tiles {
            (wq, q, n, at)
        } else if at < q_tiles + kv_tiles {
            (wk, key, n_kv, at - q_tiles)
        } else {
            (wv, value, n_kv, at - q_tiles - kv_tiles)
        };
        let (n0, t0) = (at * 128, workgroup_y() * FT as u32 * 32);
        let w = Matrix::bf16(w, k).from_row(n0);
        let x = x.cast::<B128>().wrapping_add(t0 as usize * (k as usize / 8));
        // SAFETY: n0 is below the matrix's rows and t0 < T by the grid, what is left of both is passed on: point 1.
        let acc = unsafe {
            product::<Bf16, Floats, 4, FT, 4, 4, PX, AHEAD, false>([w, w], rows - n0, x, tokens - t0, Floats)
        };
        let y = y.wrapping_add(t0 as usize * rows as usize + n0 as usize);
        // SAFETY: the same corner of the matrix's output; tiles do not overlap.
        unsafe { write::<4, FT>(&acc, y, tokens - t0, rows - n0, rows) };
    }

    /// Three matrix products by tiles of 128 × 64: q[t,n] = Σ_k x[t,k] · wq[n,k], key and value from wk and wv
    ///
    /// Input      wq `[N, K]`, wk, wv `[NKV, K]`, x `[T, K]` bf16 row-major; K a multiple of 64; N, NKV, T ≥ 1
    /// Output     q `[T, N]`, key, value `[T, NKV]` f32, every element written; overlap nothing
    /// Numerics   the bits of `linear_bf16_n128_t64` on each
    /// Workgroup  4 waves × 32 lanes; grid = [ceil(N / 128) + 2 · ceil(NKV / 128), ceil(T / 64)]
    /// Wave, LDS, Registers, Memory, Sync, Target   as `linear_bf16_n128_t64`
    /// Why        q, k and v alone have 128, 64 and 64 tiles at T = 512 of Qwen3-0.6B: half a machine each. Together 256
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(Tile::N128T64, T, N, NKV)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn linear_qkv_bf16_n128_t64(
        wq: *const u16,
        wk: *const u16,
        wv: *const u16,
        x: *const u16,
        q: *mut f32,
        key: *mut f32,
        value: *mut f32,
        tokens: u32,
        n: u32,
        n_kv: u32,
        k: u32,
    ) {
        // SAFETY: points 1 and 2.
        unsafe { tile::<2, 2, 2>([wq, wk, wv], x, [q, key, value], [tokens, n, n_kv, k]) };
    }

    /// As `linear_qkv_bf16_n128_t64` by tiles of 128 × 128, otherwise as `linear_bf16_n128_t128`.
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(Tile::N128T128, T, N, NKV)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn linear_qkv_bf16_n128_t128(
        wq: *const u16,
        wk: *const u16,
        wv: *const u16,
        x: *const u16,
        q: *mut f32,
        key: *mut f32,
        value: *mut f32,
        tokens: u32,
        n: u32,
        n_kv: u32,
        k: u32,
    ) {
        // SAFETY: points 1 and 2.
        unsafe { tile::<4, 4, 1>([wq, wk, wv], x, [q, key, value], [tokens, n, n_kv, k]) };
    }
}
