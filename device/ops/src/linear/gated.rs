//! gate and up of several tokens with SwiGLU in one launch: two matrices whose outputs meet in the lane that holds both. The product is
//! that of `tiles.rs`.

use amdgpu_target::Geometry;

use super::tile::Tile;
use crate::contract::{Address, args};

/// By tiles of 64 outputs (128 rows of W) × 64 tokens.
pub const NAME_N128_T64: &str = "linear_gated_bf16_n128_t64";
/// By tiles of 64 outputs (128 rows of W) × 128 tokens.
pub const NAME_N128_T128: &str = "linear_gated_bf16_n128_t128";

/// N is a multiple of this: runs of outputs are stored 16 bytes wide.
pub const N_MULTIPLE: u32 = 8;

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[N, K]` bf16, row-major.
        pub gate: Address,
        /// `[N, K]` bf16, row-major.
        pub up: Address,
        /// `[T, K]` bf16, row-major.
        pub x: Address,
        /// `[T, N]` bf16, row-major.
        pub out: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// N, a multiple of 8, at least 8.
        pub n: u32,
        /// K, a multiple of 64, at least 64.
        pub k: u32,
    }
    pad pad
}

/// The tile for these rows: 128 × 128 where that gives enough workgroups, else 128 × 64.
pub const fn tile(tokens: u32, n: u32) -> Tile {
    match Tile::choose(tokens, n.saturating_mul(2)) {
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

/// Geometry of [`name`]`(tile)`.
pub const fn geometry(tile: Tile, tokens: u32, n: u32) -> Geometry {
    tile.geometry(tokens, n.div_ceil(tile.n() / 2))
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{ACC_RUN, B128, silu, store_run_bf16, workgroup_x, workgroup_y};

    use super::super::multiply::Floats;
    use super::super::outputs::{each_run, run_of};
    use super::super::tiles::product;
    use crate::format::{Bf16, Matrix};

    /// The tile of workgroup (x, y).
    ///
    /// # Safety
    /// 1. As the kernels below.
    #[inline(always)]
    unsafe fn tile<const FT: usize, const PX: usize, const AHEAD: u32>(
        gate: *const u16,
        up: *const u16,
        x: *const u16,
        out: *mut u16,
        [tokens, n, k]: [u32; 3],
    ) {
        let (n0, t0) = (workgroup_x() * 64, workgroup_y() * FT as u32 * 32);
        let w = [gate, up].map(|w| Matrix::bf16(w, k).from_row(n0));
        let x = x.cast::<B128>().wrapping_add(t0 as usize * (k as usize / 8));
        // SAFETY: n0 < N and t0 < T by the grid, what is left of both is passed on: point 1.
        let acc = unsafe { product::<Bf16, Floats, 4, FT, 4, 4, PX, AHEAD, true>(w, n - n0, x, tokens - t0, Floats) };
        // A wave's fragments 0 and 1 are 32 outputs of gate, 2 and 3 the same of up.
        each_run::<2, FT>(|t, at, [i, j, run]| {
            let (g, u) = (run_of(acc[i][j], run), run_of(acc[i + 2][j], run));
            let y: [f32; ACC_RUN] = core::array::from_fn(|e| silu(g[e]) * u[e]);
            if t0 + t < tokens && n0 + at < n {
                let row = out.wrapping_add((t0 + t) as usize * n as usize);
                // SAFETY: t0 + t < T, and a run that begins below N ends there, N being a multiple of 8; one lane per element.
                unsafe { store_run_bf16(row, (n0 + at) as usize, y) };
            }
        });
    }

    /// Gate of the MLP: out[t,n] = silu(Σ_k x[t,k] · gate[n,k]) · Σ_k x[t,k] · up[n,k], by tiles of 128 rows of W × 64 tokens
    ///
    /// Input      gate, up `[N, K]`, x `[T, K]` bf16 row-major; N a multiple of 8, K of 64; N ≥ 8, T ≥ 1
    /// Output     out `[T, N]` bf16, every element written; overlaps nothing
    /// Numerics   the bits of two `linear_bf16_n128_t64` and `swiglu_f32_bf16`
    /// Workgroup  4 waves × 32 lanes, 64 outputs × 64 tokens; grid = [ceil(N / 64), ceil(T / 64)]
    /// Wave, LDS, Registers, Memory, Sync, Target   as `linear_bf16_n128_t64`; `v_exp_f32`, `v_rcp_f32`
    /// Why        saves two launches and 16·T·N bytes: neither product is written or read
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(Tile::N128T64, T, N)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn linear_gated_bf16_n128_t64(
        gate: *const u16,
        up: *const u16,
        x: *const u16,
        out: *mut u16,
        tokens: u32,
        n: u32,
        k: u32,
    ) {
        // SAFETY: points 1 and 2.
        unsafe { tile::<2, 2, 2>(gate, up, x, out, [tokens, n, k]) };
    }

    /// As `linear_gated_bf16_n128_t64` by tiles of 128 rows of W × 128 tokens, otherwise as `linear_bf16_n128_t128`.
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry(Tile::N128T128, T, N)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn linear_gated_bf16_n128_t128(
        gate: *const u16,
        up: *const u16,
        x: *const u16,
        out: *mut u16,
        tokens: u32,
        n: u32,
        k: u32,
    ) {
        // SAFETY: points 1 and 2.
        unsafe { tile::<4, 4, 1>(gate, up, x, out, [tokens, n, k]) };
    }
}
