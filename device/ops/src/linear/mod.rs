//! Matrix product with a weight as the checkpoint stores it: y = x·Wᵀ, bf16 in, f32 out. Kernels with one set of arguments: a plain
//! one (the baseline), GEMV for one token, matrix instructions for several: a first one of one tile shape, and those that are taken, of
//! three shapes, which can also add to what is there. It is also lm_head. [`qkv`] and [`gated`] are several matrices in one launch,
//! [`quantized`] has the kernels of weights that are not bf16, [`w8a8`] those that round activations to 8 bits too. No bias.

#[cfg(gpu)]
mod gemv;
#[cfg(gpu)]
mod multiply;
#[cfg(gpu)]
mod outputs;
#[cfg(gpu)]
mod plain;
mod tile;
#[cfg(gpu)]
mod tiles;
#[cfg(gpu)]
mod wmma;

pub mod gated;
pub mod qkv;
pub mod quantized;
pub mod w8a8;

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

pub use tile::Tile;
pub(crate) use tile::WAVES as TILE_WAVES;

/// First rung, any T: one lane per output.
pub const NAME_PLAIN: &str = "linear_bf16_plain";
/// One token: four rows of W per wave, streamed at 16 bytes per lane.
pub const NAME_GEMV: &str = "linear_bf16_gemv";
/// Several tokens: tiles of 64 × 64 by bf16 matrix instructions, one LDS stage; the rung below [`name_tile`].
pub const NAME_WMMA: &str = "linear_bf16_wmma";
/// Several tokens, by [`Tile::N64T64`], [`Tile::N128T64`], [`Tile::N128T128`].
pub const NAMES_TILE: [&str; 3] = ["linear_bf16_n64_t64", "linear_bf16_n128_t64", "linear_bf16_n128_t128"];
/// The same, added to y.
pub const NAMES_ADD: [&str; 3] = ["linear_add_bf16_n64_t64", "linear_add_bf16_n128_t64", "linear_add_bf16_n128_t128"];

/// From this many tokens on [`name`] chooses a tile: it reads W once for 64 tokens or more, GEMV once per token.
pub const WMMA_FROM_TOKENS: u32 = 2;

/// K is a multiple of this.
pub const K_MULTIPLE: u32 = 64;

pub(crate) const PLAIN_WAVES: u32 = 4;
pub(crate) const GEMV_WAVES: u32 = 4;
/// Rows of W one wave of the GEMV takes.
const GEMV_ROWS: u32 = 4;
/// Rows of W and tokens of one workgroup's tile.
const TILE_N: u32 = 64;
const TILE_T: u32 = 64;
/// Depth of one step in LDS.
const TILE_K: u32 = 64;
pub(crate) const WMMA_WAVES: u32 = 4;
/// Bytes from one row of a tile to the next in LDS: 16 more than the row, so that the 16 rows a wave reads at once lie in all banks.
const PITCH_BYTES: u32 = TILE_K * 2 + 16;

args! {
    /// Arguments of all kernels of this file.
    pub struct Args {
        /// `[N, K]` bf16, row-major.
        pub w: Address,
        /// `[T, K]` bf16, row-major.
        pub x: Address,
        /// `[T, N]` f32, row-major; those of [`NAMES_ADD`] read it as well.
        pub y: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// N, at least 1; not a multiple of anything.
        pub n: u32,
        /// K, a multiple of 64, at least 64.
        pub k: u32,
    }
    pad pad
}

/// Which kernel takes `tokens` tokens and a weight of `n` rows.
pub const fn name(tokens: u32, n: u32) -> &'static str {
    if tokens < WMMA_FROM_TOKENS { NAME_GEMV } else { name_tile(Tile::choose(tokens, n)) }
}

/// Geometry of [`name`]`(tokens, n)`.
pub const fn geometry(tokens: u32, n: u32) -> Geometry {
    if tokens < WMMA_FROM_TOKENS { geometry_gemv(tokens, n) } else { geometry_tile(Tile::choose(tokens, n), tokens, n) }
}

/// The kernel of a tile.
pub const fn name_tile(tile: Tile) -> &'static str {
    NAMES_TILE[tile as usize]
}

/// The kernel of a tile that adds to y.
pub const fn name_add(tile: Tile) -> &'static str {
    NAMES_ADD[tile as usize]
}

/// Geometry of [`name_tile`]`(tile)` and of [`name_add`]`(tile)`.
pub const fn geometry_tile(tile: Tile, tokens: u32, n: u32) -> Geometry {
    tile.geometry(tokens, n.div_ceil(tile.n()))
}

/// Geometry of [`NAME_PLAIN`]; T at most 65 535.
pub const fn geometry_plain(tokens: u32, n: u32) -> Geometry {
    Geometry { workgroups: [n.div_ceil(PLAIN_WAVES * 32), tokens, 1], waves: PLAIN_WAVES, lds_bytes: 0 }
}

/// Geometry of [`NAME_GEMV`]; any T up to 65 535, each token reads W again.
pub const fn geometry_gemv(tokens: u32, n: u32) -> Geometry {
    Geometry { workgroups: [n.div_ceil(GEMV_WAVES * GEMV_ROWS), tokens, 1], waves: GEMV_WAVES, lds_bytes: 0 }
}

/// Geometry of [`NAME_WMMA`].
pub const fn geometry_wmma(tokens: u32, n: u32) -> Geometry {
    Geometry {
        workgroups: [n.div_ceil(TILE_N), tokens.div_ceil(TILE_T), 1],
        waves: WMMA_WAVES,
        lds_bytes: (TILE_N + TILE_T) * PITCH_BYTES,
    }
}
