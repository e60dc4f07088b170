//! Names and rows of tensors: what GGUF calls `blk.0.attn_q.weight` is `model.layers.0.self_attn.q_proj.weight` in a checkpoint.
//!
//! **Rows in pairs.** In files of architecture `llama` the rows of a head of q_proj and k_proj are ordered for a rotation that turns
//! neighbours: rows `2i` and `2i + 1` are the checkpoint's rows `i` and `i + head_dim/2`, which rotate together here.

use super::super::tensors::{EMBEDDING, LM_HEAD};
use crate::model::family::Family;

/// Parts of a layer: GGUF's name, the checkpoint's.
const PARTS: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The checkpoint's name of a tensor; `None` for one that no architecture read here has.
pub(super) fn checkpoint_name(name: &str) -> Option<String> {
    match name {
        "token_embd.weight" => return Some(EMBEDDING.to_owned()),
        "output_norm.weight" => return Some("model.norm.weight".to_owned()),
        "output.weight" => return Some(LM_HEAD.to_owned()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (part, kind) = rest.split_once('.')?;
    // One spelling of a number: 0 and 00 would be the same layer.
    let layer = layer.parse::<usize>().ok().filter(|number| number.to_string() == layer)?;
    let (_, part) = PARTS.iter().find(|(name, _)| *name == part)?;
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{part}.{kind}"))
}

/// Whether files of this family have rows in pairs.
pub(super) fn has_rows_in_pairs(family: Family) -> bool {
    family == Family::Llama
}

/// Whether a tensor of this name in the checkpoint has rows in pairs where the architecture does.
pub(super) fn is_rotated(name: &str) -> bool {
    [".q_proj.weight", ".k_proj.weight", ".q_proj.bias", ".k_proj.bias"].iter().any(|end| name.ends_with(end))
}

/// Which row of a file with rows in pairs is the checkpoint's `row`.
pub(in crate::artifact) fn row_in_pairs(row: usize, head_dim: usize) -> usize {
    let (head, inside, half) = (row / head_dim * head_dim, row % head_dim, head_dim / 2);
    head + inside % half * 2 + inside / half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_pairs_are_those_of_a_reshape_and_a_swap() {
        // The layout's definition: [heads, 2, head_dim / 2] with the last two axes swapped is what the file has.
        let (heads, half) = (3, 4);
        let mut file = Vec::new();
        for head in 0..heads {
            for i in 0..half {
                file.extend([0, 1].map(|which| head * 2 * half + which * half + i));
            }
        }
        for row in 0..heads * 2 * half {
            assert_eq!(file[row_in_pairs(row, 2 * half)], row);
        }
    }

    #[test]
    fn names_have_one_spelling() {
        let name = |name| checkpoint_name(name);
        assert_eq!(name("blk.12.attn_q.bias").as_deref(), Some("model.layers.12.self_attn.q_proj.bias"));
        assert_eq!(name("blk.0.ffn_down.weight").as_deref(), Some("model.layers.0.mlp.down_proj.weight"));
        for other in
            ["blk.00.attn_q.weight", "blk.+1.attn_q.weight", "blk.0.attn_q.scale", "blk.0.attn_q", "rope_freqs.weight"]
        {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
