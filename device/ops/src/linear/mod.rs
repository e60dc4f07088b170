//! Matrix product with a weight as the checkpoint stores it: y = x·Wᵀ, bf16 in, f32 out. Three kernels with one set of arguments:
//! a plain one (the baseline), GEMV for one token, matrix instructions for several. It is also lm_head. No bias, no quantized weights.

#[cfg(gpu)]
mod gemv;
#[cfg(gpu)]
mod plain;
#[cfg(gpu)]
mod wmma;

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// First rung, any T: one lane per output.
pub const NAME_PLAIN: &str = "linear_bf16_plain";
/// One token: four rows of W per wave, streamed at 16 bytes per lane.
pub const NAME_GEMV: &str = "linear_bf16_gemv";
/// Several tokens: tiles of 64 × 64 by bf16 matrix instructions.
pub const NAME_WMMA: &str = "linear_bf16_wmma";

/// From this many tokens on [`name`] chooses [`NAME_WMMA`]: it reads W once for 64 tokens, GEMV once per token.
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
    /// Arguments of the three kernels.
    pub struct Args {
        /// `[N, K]` bf16, row-major.
        pub w: Address,
        /// `[T, K]` bf16, row-major.
        pub x: Address,
        /// `[T, N]` f32, row-major.
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

/// Which kernel takes `tokens` tokens.
pub const fn name(tokens: u32) -> &'static str {
    if tokens < WMMA_FROM_TOKENS { NAME_GEMV } else { NAME_WMMA }
}

/// Geometry of [`name`]`(tokens)`.
pub const fn geometry(tokens: u32, n: u32) -> Geometry {
    if tokens < WMMA_FROM_TOKENS { geometry_gemv(tokens, n) } else { geometry_wmma(tokens, n) }
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
