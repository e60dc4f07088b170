//! Causal grouped-query attention over one layer's cache, for head_dim 64 and 128. Three kernels with one set of arguments: a plain
//! one (the baseline), and two by matrix instructions that differ in who shares the positions: in prefill each wave has 16 queries
//! to itself, in decode the eight waves of a workgroup split the positions of 16 queries and merge. The cache is `kv_append`'s.

#[cfg(gpu)]
mod flash;
pub mod formats;
#[cfg(gpu)]
mod plain;
#[cfg(gpu)]
mod tile;

use amdgpu_target::Geometry;
#[cfg(gpu)]
use amdgpu_target::gpu::B128;

use crate::contract::{Address, args};

/// First rung, head_dim 64: one wave per query, position by position.
pub const NAME_PLAIN_D64: &str = "attention_plain_bf16_d64";
/// First rung, head_dim 128.
pub const NAME_PLAIN_D128: &str = "attention_plain_bf16_d128";
/// 16 queries per wave, head_dim 64.
pub const NAME_PREFILL_D64: &str = "attention_prefill_bf16_d64";
/// 16 queries per wave, head_dim 128.
pub const NAME_PREFILL_D128: &str = "attention_prefill_bf16_d128";
/// Positions split over eight waves, head_dim 64.
pub const NAME_DECODE_D64: &str = "attention_decode_bf16_d64";
/// Positions split over eight waves, head_dim 128.
pub const NAME_DECODE_D128: &str = "attention_decode_bf16_d128";

/// From this many tokens on [`name`] chooses prefill: with fewer there are too few queries to give each wave its own.
pub const PREFILL_FROM_TOKENS: u32 = 16;

/// Queries, that is (token, head of the group), of one tile.
const QUERIES: u32 = 16;
pub(crate) const PLAIN_WAVES: u32 = 4;
pub(crate) const PREFILL_WAVES: u32 = 4;
pub(crate) const DECODE_WAVES: u32 = 8;

args! {
    /// Arguments of all kernels.
    pub struct Args {
        /// `[T, heads, D]` f32, after norm and rotation; heads = group · kv_heads.
        pub q: Address,
        /// `[kv_heads, capacity, D]` bf16, positions 0 … position + T appended.
        pub k_cache: Address,
        /// `[kv_heads, D, capacity]` bf16, likewise.
        pub v_cache: Address,
        /// `[T, heads, D]` bf16.
        pub out: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// Position of the first token; position + T ≤ capacity.
        pub position: u32,
        /// Query heads per key/value head, at least 1.
        pub group: u32,
        /// Key/value heads, at least 1.
        pub kv_heads: u32,
        /// Positions the cache holds, a multiple of 32; below 2²³.
        pub capacity: u32,
        /// 1/√D.
        pub scale: f32,
    }
}

/// The kernel for `tokens` tokens and `head_dim`, if there is one.
pub const fn name(tokens: u32, head_dim: u32) -> Option<&'static str> {
    match (tokens < PREFILL_FROM_TOKENS, head_dim) {
        (true, 64) => Some(NAME_DECODE_D64),
        (true, 128) => Some(NAME_DECODE_D128),
        (false, 64) => Some(NAME_PREFILL_D64),
        (false, 128) => Some(NAME_PREFILL_D128),
        _ => None,
    }
}

/// Geometry of [`name`]`(tokens, head_dim)`.
pub const fn geometry(tokens: u32, group: u32, kv_heads: u32, head_dim: u32) -> Geometry {
    if tokens < PREFILL_FROM_TOKENS {
        geometry_decode(tokens, group, kv_heads, head_dim)
    } else {
        geometry_prefill(tokens, group, kv_heads)
    }
}

/// Geometry of the plain kernels; at most 65 535 tokens.
pub const fn geometry_plain(tokens: u32, group: u32, kv_heads: u32) -> Geometry {
    Geometry { workgroups: [(group * kv_heads).div_ceil(PLAIN_WAVES), tokens, 1], waves: PLAIN_WAVES, lds_bytes: 0 }
}

/// Geometry of the prefill kernels: one tile of 16 queries per wave.
pub const fn geometry_prefill(tokens: u32, group: u32, kv_heads: u32) -> Geometry {
    let tiles = (tokens * group).div_ceil(QUERIES);
    Geometry { workgroups: [tiles.div_ceil(PREFILL_WAVES), kv_heads, 1], waves: PREFILL_WAVES, lds_bytes: 0 }
}

/// Geometry of the decode kernels: one tile of 16 queries per workgroup; any T.
pub const fn geometry_decode(tokens: u32, group: u32, kv_heads: u32, head_dim: u32) -> Geometry {
    let tiles = (tokens * group).div_ceil(QUERIES);
    // A running maximum and sum per wave and query, and one output tile for each of the waves that hand theirs over first.
    let lds_bytes = DECODE_WAVES * QUERIES * 8 + DECODE_WAVES / 2 * QUERIES * head_dim * 4;
    Geometry { workgroups: [tiles, kv_heads, 1], waves: DECODE_WAVES, lds_bytes }
}

/// Below every score, yet finite: where a running maximum starts.
#[cfg(gpu)]
pub(crate) const FLOOR: f32 = -1e30;

/// `x` with the bf16 of positions `first` … `first` + 7 that are not below `end` set to 0.
#[cfg(gpu)]
#[inline(always)]
pub(crate) fn keep_below(x: B128, first: u32, end: u32) -> B128 {
    let keep = |word: u32, position: u32| {
        let lo = if position < end { 0xffff } else { 0 };
        let hi = if position + 1 < end { 0xffff_0000 } else { 0 };
        word & (lo | hi)
    };
    let [a, b, c, d] = x.words();
    B128::new([keep(a, first), keep(b, first + 2), keep(c, first + 4), keep(d, first + 6)])
}
