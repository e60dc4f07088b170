//! Attention over a cache in the formats of [`crate::kv_formats`], which are arguments: the kernels of bf16 with another way of reading. Scores are
//! multiplied with the scales of keys before the maximum is taken, weights with those of values after they are summed.

#[cfg(gpu)]
mod codes;
#[cfg(gpu)]
mod flash;
#[cfg(gpu)]
mod plain;

use crate::contract::{Address, args};

/// First rung, head_dim 64.
pub const NAME_PLAIN_D64: &str = "attention_plain_formats_d64";
/// First rung, head_dim 128.
pub const NAME_PLAIN_D128: &str = "attention_plain_formats_d128";
/// 16 queries per wave, head_dim 64.
pub const NAME_PREFILL_D64: &str = "attention_prefill_formats_d64";
/// 16 queries per wave, head_dim 128.
pub const NAME_PREFILL_D128: &str = "attention_prefill_formats_d128";
/// Positions split over eight waves, head_dim 64.
pub const NAME_DECODE_D64: &str = "attention_decode_formats_d64";
/// Positions split over eight waves, head_dim 128.
pub const NAME_DECODE_D128: &str = "attention_decode_formats_d128";

args! {
    /// Arguments of all kernels.
    pub struct Args {
        /// `[T, heads, D]` f32, after norm and rotation; heads = group · kv_heads.
        pub q: Address,
        /// Codes `[kv_heads, capacity, D]`, positions 0 … position + T appended.
        pub k_cache: Address,
        /// Codes `[kv_heads, D, capacity]`, likewise.
        pub v_cache: Address,
        /// f32 `[kv_heads, capacity]`; not read where k's format has none.
        pub k_scales: Address,
        /// f32 `[kv_heads, capacity]`; likewise.
        pub v_scales: Address,
        /// `[T, heads, D]` bf16.
        pub out: Address,
        /// [`crate::kv_formats::KvFormat`] of keys.
        pub k_format: u32,
        /// [`crate::kv_formats::KvFormat`] of values.
        pub v_format: u32,
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

/// The kernel for `tokens` tokens and `head_dim`, if there is one; geometry as [`super::geometry`].
pub const fn name(tokens: u32, head_dim: u32) -> Option<&'static str> {
    match (tokens < super::PREFILL_FROM_TOKENS, head_dim) {
        (true, 64) => Some(NAME_DECODE_D64),
        (true, 128) => Some(NAME_DECODE_D128),
        (false, 64) => Some(NAME_PREFILL_D64),
        (false, 128) => Some(NAME_PREFILL_D128),
        _ => None,
    }
}

/// The first rung for `head_dim`, if there is one; geometry as [`super::geometry_plain`].
pub const fn name_plain(head_dim: u32) -> Option<&'static str> {
    match head_dim {
        64 => Some(NAME_PLAIN_D64),
        128 => Some(NAME_PLAIN_D128),
        _ => None,
    }
}

/// One of keys and values. Its format is equal in all lanes, so a wave takes one branch.
#[cfg(gpu)]
#[derive(Clone, Copy)]
struct Part {
    codes: *const u8,
    scales: *const f32,
    format: u32,
}

#[cfg(gpu)]
impl Part {
    #[inline(always)]
    fn has_scales(self) -> bool {
        self.format >= crate::kv_formats::INT8
    }

    /// Bytes of a code.
    #[inline(always)]
    fn code_bytes(self) -> usize {
        if self.has_scales() { 1 } else { 2 }
    }
}

/// Writes one kernel: the expression is its body, with the parameters of `Args`; keys and values as [`Part`]s.
#[cfg(gpu)]
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, |$q:ident, $k:ident, $v:ident, $out:ident, $numbers:ident, $scale:ident| $body:expr) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the operation's own")]
        pub unsafe extern "gpu-kernel" fn $name(
            $q: *const f32,
            k_cache: *const u8,
            v_cache: *const u8,
            k_scales: *const f32,
            v_scales: *const f32,
            $out: *mut u16,
            k_format: u32,
            v_format: u32,
            tokens: u32,
            position: u32,
            group: u32,
            kv_heads: u32,
            capacity: u32,
            $scale: f32,
        ) {
            let $k = super::Part { codes: k_cache, scales: k_scales, format: k_format };
            let $v = super::Part { codes: v_cache, scales: v_scales, format: v_format };
            let $numbers = [tokens, position, group, kv_heads, capacity];
            $body
        }
    };
}
#[cfg(gpu)]
use kernel;
