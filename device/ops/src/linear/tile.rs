//! Shapes of a workgroup's tile, and which is taken. No kernel: those are in `tiles.rs`, `qkv.rs` and `gated.rs`.

use amdgpu_target::Geometry;

/// Waves of a workgroup, whatever the shape: two along W's rows, two along tokens.
pub(crate) const WAVES: u32 = 4;

/// Workgroups from which on a larger tile pays: two and more for each of a few dozen WGPs (or 132 multiprocessors), so that one loads
/// while another multiplies and the last round is not half empty.
const ENOUGH: u32 = 256;

/// Rows of W × tokens of a workgroup's tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tile {
    /// 64 × 64, 64 of K per step: the most workgroups.
    N64T64,
    /// 128 × 64, 32 of K per step.
    N128T64,
    /// 128 × 128, 32 of K per step: the fewest bytes from LDS per product.
    N128T128,
}

impl Tile {
    /// Rows of W.
    pub const fn n(self) -> u32 {
        match self {
            Self::N64T64 => 64,
            Self::N128T64 | Self::N128T128 => 128,
        }
    }

    /// Tokens.
    pub const fn t(self) -> u32 {
        match self {
            Self::N64T64 | Self::N128T64 => 64,
            Self::N128T128 => 128,
        }
    }

    /// Depth of one step.
    pub const fn k(self) -> u32 {
        match self {
            Self::N64T64 => 64,
            Self::N128T64 | Self::N128T128 => 32,
        }
    }

    /// LDS of a workgroup: two stages of both tiles.
    pub const fn lds_bytes(self) -> u32 {
        2 * (self.n() + self.t()) * self.k() * 2
    }

    /// The largest tile of those at hand that still gives [`ENOUGH`] workgroups for `n` rows of W, else the smallest.
    pub const fn choose(tokens: u32, n: u32) -> Self {
        if workgroups(Self::N128T128, tokens, n) >= ENOUGH as u64 {
            Self::N128T128
        } else if workgroups(Self::N128T64, tokens, n) >= ENOUGH as u64 {
            Self::N128T64
        } else {
            Self::N64T64
        }
    }

    /// The grid for `tiles` tiles along W's rows.
    pub(super) const fn geometry(self, tokens: u32, tiles: u32) -> Geometry {
        Geometry { workgroups: [tiles, tokens.div_ceil(self.t()), 1], waves: WAVES, lds_bytes: self.lds_bytes() }
    }
}

const fn workgroups(tile: Tile, tokens: u32, n: u32) -> u64 {
    n.div_ceil(tile.n()) as u64 * tokens.div_ceil(tile.t()) as u64
}

#[cfg(test)]
mod tests {
    use super::Tile::{self, N64T64, N128T64, N128T128};

    /// Qwen3-0.6B: q, k and v 4096 rows, o and down 1024, gate and up 6144.
    #[test]
    fn shapes_by_arithmetic() {
        let rows = [
            (512, 4096, N128T64),   // 32 × 8 = 256; of 128 × 128 there would be 128
            (512, 6144, N128T64),   // 48 × 8 = 384; 192
            (512, 1024, N64T64),    // 16 × 8 = 128, and there are no more
            (2048, 4096, N128T128), // 32 × 16 = 512
            (2048, 6144, N128T128), // 48 × 16 = 768
            (2048, 1024, N128T64),  // 8 × 32 = 256; 128
            (2, 1024, N64T64),
            (2, 151_936, N128T128), // 1187 × 1
            (65_535, u32::MAX, N128T128),
        ];
        for (tokens, n, tile) in rows {
            assert_eq!(Tile::choose(tokens, n), tile, "T {tokens} N {n}");
        }
        for tile in [N64T64, N128T64, N128T128] {
            assert!(tile.lds_bytes() <= 32 << 10, "four workgroups on a WGP");
        }
    }
}
