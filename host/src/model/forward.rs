//! One forward pass as straight code over [`Ops`]: what is computed, in order, with the shape on every line. How and where it is
//! computed is the backend's; which token follows is the engine's. Families differ in what a layer has between its projections and
//! attention: biases, norms of heads, or neither.
//!
//! Letters as in [`super::ops`]: `T` tokens of this call, `H` hidden_size, `Q` heads × head_dim, `K` kv heads × head_dim,
//! `I` intermediate_size, `V` vocab_size. Cost per token is one read of every weight for `T = 1`, shared by all `T` otherwise.

use super::{
    ops::{Act, OpResult, Ops},
    weights::Weights,
};

/// Runs `ids` at positions `position ..`, appends their keys and values to the cache, and leaves the logits of the last `rows`
/// tokens in [`Act::Logits`]; `rows = 0` computes none (a prompt's chunk before its last).
///
/// The caller keeps `0 < ids.len() ≤ max_chunk`, `position + ids.len() ≤ context_len` and `rows ≤ min(ids.len(), max_logits_rows)`;
/// a backend refuses what breaks them.
pub fn forward(ops: &mut dyn Ops, w: &Weights, ids: &[u32], position: usize, rows: usize) -> OpResult {
    forward_observed(ops, w, ids, position, rows, &mut |_, _| Ok(()))
}

/// [`forward`], calling `observe(n, ops)` when Hidden holds the residual stream after `n` layers (0: the embedding), for tests and
/// for explaining a token. The observer may read; it must not start another pass.
pub fn forward_observed(
    ops: &mut dyn Ops,
    w: &Weights,
    ids: &[u32],
    position: usize,
    rows: usize,
    observe: &mut dyn FnMut(usize, &mut dyn Ops) -> OpResult,
) -> OpResult {
    // 1. The residual stream starts as the embedding.
    ops.embed(w.embed_tokens, ids, position)?; //                  Hidden[T, H]
    observe(0, ops)?;

    for (layer, lw) in w.layers.iter().enumerate() {
        // 2. Attention: every token looks at itself and everything before it.
        ops.rmsnorm(lw.input_layernorm, Act::Hidden, Act::Normed)?; // Normed[T, H]
        ops.qkv([lw.q_proj, lw.k_proj, lw.v_proj], lw.qkv_bias, Act::Normed)?; // Query[T, Q], Key[T, K], Value[T, K]
        ops.prepare_heads(lw.qk_norm, layer)?; //                   Query and Key: norm of each head, rotated by position;
        //                                                          cache[layer][position .. position + T] = Key, Value
        ops.attention(layer)?; //                                   Attn[T, Q]
        ops.linear_residual(lw.o_proj, Act::Attn)?; //              Hidden[T, H] += o_proj of Attn

        // 3. MLP: every token by itself.
        ops.rmsnorm(lw.post_attention_layernorm, Act::Hidden, Act::Normed)?; // Normed[T, H]
        ops.gated(lw.gate_proj, lw.up_proj, Act::Normed)?; //       Mlp[T, I] = silu(gate) ∘ up
        ops.linear_residual(lw.down_proj, Act::Mlp)?; //            Hidden[T, H] += down_proj of Mlp
        observe(layer + 1, ops)?;
    }

    // 4. What comes next: final norm and lm_head, for the rows that are asked for only.
    if rows > 0 {
        ops.logits(w.norm, w.lm_head, rows)?; //                    Logits[rows, V]
    }
    Ok(())
}
