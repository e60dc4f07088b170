//! One forward pass of Qwen3 as straight code over [`Ops`]: what is computed, in order, with the shape on every line. How and where
//! it is computed is the backend's; which token follows is the engine's.
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
        ops.linear(lw.q_proj, Act::Normed, Act::Query)?; //         Query[T, Q]
        ops.linear(lw.k_proj, Act::Normed, Act::Key)?; //           Key[T, K]
        ops.linear(lw.v_proj, Act::Normed, Act::Value)?; //         Value[T, K]
        ops.head_norm(lw.q_norm, Act::Query)?; //                   Query[T, heads, head_dim], each head
        ops.head_norm(lw.k_norm, Act::Key)?; //                     Key[T, kv heads, head_dim], each head
        ops.rope(Act::Query)?; //                                   Query[T, Q], rotated by position
        ops.rope(Act::Key)?; //                                     Key[T, K], rotated by position
        ops.kv_append(layer)?; //                                   cache[layer][position .. position + T] = Key, Value
        ops.attention(layer)?; //                                   Attn[T, Q]
        ops.linear(lw.o_proj, Act::Attn, Act::Proj)?; //            Proj[T, H]
        ops.residual_add()?; //                                     Hidden[T, H] += Proj

        // 3. MLP: every token by itself.
        ops.rmsnorm(lw.post_attention_layernorm, Act::Hidden, Act::Normed)?; // Normed[T, H]
        ops.linear(lw.gate_proj, Act::Normed, Act::Gate)?; //       Gate[T, I]
        ops.linear(lw.up_proj, Act::Normed, Act::Up)?; //           Up[T, I]
        ops.swiglu()?; //                                           Mlp[T, I] = silu(Gate) ∘ Up
        ops.linear(lw.down_proj, Act::Mlp, Act::Proj)?; //          Proj[T, H]
        ops.residual_add()?; //                                     Hidden[T, H] += Proj
        observe(layer + 1, ops)?;
    }

    // 4. What comes next: final norm and lm_head, for the rows that are asked for only.
    if rows > 0 {
        ops.logits(w.norm, w.lm_head, rows)?; //                    Logits[rows, V]
    }
    Ok(())
}
