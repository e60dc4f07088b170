//! Names of decode's kernels, and which are taken.

use crate::format::Stored;

/// First half of a layer, head_dim 64.
pub const NAME_ATTENTION_D64: &str = "decode_attention_d64";
/// First half of a layer, head_dim 128.
pub const NAME_ATTENTION_D128: &str = "decode_attention_d128";
/// Second half of a layer, head_dim 64.
pub const NAME_MLP_D64: &str = "decode_mlp_d64";
/// Second half of a layer, head_dim 128.
pub const NAME_MLP_D128: &str = "decode_mlp_d128";
/// After the layers, head_dim 64.
pub const NAME_HEAD_D64: &str = "decode_head_d64";
/// After the layers, head_dim 128.
pub const NAME_HEAD_D128: &str = "decode_head_d128";
/// Whole tokens, head_dim 64.
pub const NAME_PERSISTENT_D64: &str = "decode_persistent_d64";
/// Whole tokens, head_dim 128.
pub const NAME_PERSISTENT_D128: &str = "decode_persistent_d128";

/// First half of a layer whose heads have no norms, head_dim 64.
pub const NAME_ROTATED_ATTENTION_D64: &str = "decode_rotated_attention_d64";
/// First half of a layer whose heads have no norms, head_dim 128.
pub const NAME_ROTATED_ATTENTION_D128: &str = "decode_rotated_attention_d128";
/// Whole tokens, heads without norms, head_dim 64.
pub const NAME_ROTATED_PERSISTENT_D64: &str = "decode_rotated_persistent_d64";
/// Whole tokens, heads without norms, head_dim 128.
pub const NAME_ROTATED_PERSISTENT_D128: &str = "decode_rotated_persistent_d128";

/// The four kernels of one head_dim and kind of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// First half of a layer.
    pub attention: &'static str,
    /// Second half of a layer.
    pub mlp: &'static str,
    /// After the layers.
    pub head: &'static str,
    /// Whole tokens.
    pub persistent: &'static str,
}

/// Whether matrices that are all stored so have resident kernels of their own. Others have those that read [`super::Table`].
pub fn has_own(stored: Stored) -> bool {
    stored == Stored::Bf16 || NAMES_QUANTIZED.iter().any(|(format, _)| *format == stored)
}

/// The kernels for `head_dim`, if there are any; `stored`: how all matrices are, if there are kernels of their own for that ([`has_own`]), else the
/// table says how each is; `normed`: whether heads have norms. The second half of a layer and the end know no heads, and the launches of half
/// a layer read bf16 whatever is asked for.
pub fn names(stored: Option<Stored>, head_dim: u32, normed: bool) -> Option<Names> {
    let (mlp, head) = match head_dim {
        64 => (NAME_MLP_D64, NAME_HEAD_D64),
        128 => (NAME_MLP_D128, NAME_HEAD_D128),
        _ => return None,
    };
    let (attention, persistent) = match (head_dim, normed) {
        (64, true) => (NAME_ATTENTION_D64, NAME_PERSISTENT_D64),
        (_, true) => (NAME_ATTENTION_D128, NAME_PERSISTENT_D128),
        (64, false) => (NAME_ROTATED_ATTENTION_D64, NAME_ROTATED_PERSISTENT_D64),
        (_, false) => (NAME_ROTATED_ATTENTION_D128, NAME_ROTATED_PERSISTENT_D128),
    };
    let persistent = match stored {
        Some(Stored::Bf16) => persistent,
        stored => {
            let own = NAMES_QUANTIZED.iter().find(|(format, _)| Some(*format) == stored);
            own.map_or(&NAMES_MIXED, |(_, names)| names)[usize::from(head_dim == 128) + 2 * usize::from(!normed)]
        }
    };
    Some(Names { attention, mlp, head, persistent })
}

/// Whole tokens with matrices that are stored in any way, each in its own: in the order of [`NAMES_QUANTIZED`]'s.
pub const NAMES_MIXED: [&str; 4] = [
    "decode_persistent_mixed_d64",
    "decode_persistent_mixed_d128",
    "decode_rotated_persistent_mixed_d64",
    "decode_rotated_persistent_mixed_d128",
];

/// Whole tokens with quantized matrices, by format: heads with norms of 64 and of 128 elements, then heads without norms.
pub const NAMES_QUANTIZED: [(Stored, [&str; 4]); 5] = [
    (
        Stored::Int8,
        [
            "decode_persistent_int8_d64",
            "decode_persistent_int8_d128",
            "decode_rotated_persistent_int8_d64",
            "decode_rotated_persistent_int8_d128",
        ],
    ),
    (
        Stored::Int8Group,
        [
            "decode_persistent_int8g_d64",
            "decode_persistent_int8g_d128",
            "decode_rotated_persistent_int8g_d64",
            "decode_rotated_persistent_int8g_d128",
        ],
    ),
    (
        Stored::Int4,
        [
            "decode_persistent_int4_d64",
            "decode_persistent_int4_d128",
            "decode_rotated_persistent_int4_d64",
            "decode_rotated_persistent_int4_d128",
        ],
    ),
    (
        Stored::Int4Minimum,
        [
            "decode_persistent_int4m_d64",
            "decode_persistent_int4m_d128",
            "decode_rotated_persistent_int4m_d64",
            "decode_rotated_persistent_int4m_d128",
        ],
    ),
    (
        Stored::Fp8,
        [
            "decode_persistent_fp8_d64",
            "decode_persistent_fp8_d128",
            "decode_rotated_persistent_fp8_d64",
            "decode_rotated_persistent_fp8_d128",
        ],
    ),
];
