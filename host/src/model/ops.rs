//! The operations of a forward pass, as a backend offers them. Shapes: `T` tokens of this call, `H` hidden_size, `Q` heads ×
//! head_dim, `K` kv heads × head_dim, `I` intermediate_size, `V` vocab_size. A backend owns the activations, the KV cache and the
//! weights; the forward pass only names them, so it holds no unsafe, no dtype and no geometry.

use std::fmt;

use super::kv::KvFormats;
use crate::quant::Activations;

/// An activation buffer of the backend, by its role; each holds the rows of the current chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Residual stream `[T, H]`, f32.
    Hidden,
    /// Normalised stream `[T, H]`, what q/k/v, gate/up and lm_head read.
    Normed,
    /// Queries `[T, Q]`.
    Query,
    /// Keys `[T, K]`.
    Key,
    /// Values `[T, K]`.
    Value,
    /// Attention output `[T, Q]`, what o_proj reads.
    Attn,
    /// Output of o_proj or down_proj `[T, H]`, before it is added to the residual stream.
    Proj,
    /// gate_proj output `[T, I]`.
    Gate,
    /// up_proj output `[T, I]`.
    Up,
    /// silu(gate) ∘ up `[T, I]`, what down_proj reads.
    Mlp,
    /// Logits `[rows asked, V]`, f32.
    Logits,
}

/// A weight of the loaded model, by its place in [`crate::model::weights::Weights`]; `0 ≤ index < tensor count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorId(pub usize);

/// A token that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its id, below V.
    pub id: u32,
    /// Its logit.
    pub logit: f32,
}

/// Why a backend could not do an operation. The engine passes it on; the command line prints it.
#[derive(Debug)]
pub struct BackendError(pub String);

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BackendError {}

/// Result of one operation.
pub type OpResult = Result<(), BackendError>;

/// What a backend does. Operations are queued in order; only those that bring something to the host wait:
/// [`Ops::read_logits`], [`Ops::argmax`], [`Ops::top_k`], [`Ops::read_hidden`] and [`Ops::decode_greedy`].
pub trait Ops: Send {
    /// `cpu`, `amd-hip` or `emulator`: what the user asked for and what statistics print.
    fn name(&self) -> &'static str;
    /// Longest context in tokens this instance was loaded for.
    fn context_len(&self) -> usize;
    /// How this instance stores keys and values.
    fn kv_formats(&self) -> KvFormats;
    /// What this instance multiplies quantized matrices with, those that it can multiply so.
    fn activations(&self) -> Activations {
        Activations::AsTheyAre
    }
    /// Largest `T` of one forward pass.
    fn max_chunk(&self) -> usize;
    /// Most rows one [`Ops::logits`] call may ask for; at least 1. Logits are `V` wide, so a backend may hold fewer than a chunk.
    fn max_logits_rows(&self) -> usize {
        self.max_chunk()
    }

    /// Hidden`[t]` = embedding row of `ids[t]`. Starts a pass: `T = ids.len()`, the first token stands at `position`.
    fn embed(&mut self, table: TensorId, ids: &[u32], position: usize) -> OpResult;
    /// `y[t,i] = x[t,i] / sqrt(mean_i(x[t,i]²) + eps) · w[i]` over rows of `H`.
    fn rmsnorm(&mut self, w: TensorId, x: Act, y: Act) -> OpResult;
    /// `y[t,n] = Σ_k x[t,k] · w[n,k]`; `w` is `[N, K]` row-major as in the checkpoint.
    fn linear(&mut self, w: TensorId, x: Act, y: Act) -> OpResult;
    /// Query, Key and Value from `x` by three weights, and their biases where the family has such.
    fn qkv(&mut self, w: [TensorId; 3], bias: Option<[TensorId; 3]>, x: Act) -> OpResult {
        plain::qkv(self, w, bias, x)
    }
    /// What stands between projections and attention: the norms of q's and k's heads where the family has such, rotation of Query and
    /// Key, and Key and Value appended to `layer`'s cache. Key and Value hold nothing of use afterwards.
    fn prepare_heads(&mut self, qk_norm: Option<[TensorId; 2]>, layer: usize) -> OpResult {
        plain::prepare_heads(self, qk_norm, layer)
    }
    /// `Hidden[t,n] += Σ_k x[t,k] · w[n,k]`; Proj may be used in between.
    fn linear_residual(&mut self, w: TensorId, x: Act) -> OpResult {
        plain::linear_residual(self, w, x)
    }
    /// Mlp = silu(x·gateᵀ) ∘ (x·upᵀ); Gate and Up may be used in between.
    fn gated(&mut self, gate: TensorId, up: TensorId, x: Act) -> OpResult {
        plain::gated(self, gate, up, x)
    }
    /// `y[t,n] += b[n]` (Qwen2's biases of q, k and v).
    fn bias_add(&mut self, b: TensorId, y: Act) -> OpResult;
    /// RMSNorm of each head of `x` over head_dim, in place (Qwen3's q_norm and k_norm).
    fn head_norm(&mut self, w: TensorId, x: Act) -> OpResult;
    /// Rotary embedding of each head of `x` in place, rotate-half, at this pass's positions.
    fn rope(&mut self, x: Act) -> OpResult;
    /// Appends Key and Value to `layer`'s cache at this pass's positions.
    fn kv_append(&mut self, layer: usize) -> OpResult;
    /// Causal grouped-query attention of Query over `layer`'s cache: Attn`[t]` sees positions `0 ..= position + t`.
    fn attention(&mut self, layer: usize) -> OpResult;
    /// Mlp = silu(Gate) ∘ Up.
    fn swiglu(&mut self) -> OpResult;
    /// Hidden += Proj.
    fn residual_add(&mut self) -> OpResult;
    /// Final norm and lm_head over the last `rows` tokens of this pass: Logits `[rows, V]`.
    fn logits(&mut self, norm: TensorId, lm_head: TensorId, rows: usize) -> OpResult;

    /// Most tokens of one [`Ops::decode_greedy`]; 0 where the backend takes operations one by one only.
    fn decode_block(&self) -> usize {
        0
    }
    /// Evaluates `id` at `position`, then each id that the largest logit chooses, and waits: the chosen ids, `count` of them or up to one of
    /// `ends`. The cache holds every evaluated token after; the activations hold nothing.
    fn decode_greedy(
        &mut self,
        id: u32,
        position: usize,
        count: usize,
        ends: &[u32],
    ) -> Result<Vec<u32>, BackendError> {
        let _ = (id, position, count, ends);
        Err(BackendError("this backend takes operations one by one".into()))
    }
    /// Evaluates `id` at `position`: Logits `[1, V]`.
    fn decode_logits(&mut self, id: u32, position: usize) -> OpResult {
        let _ = (id, position);
        Err(BackendError("this backend takes operations one by one".into()))
    }

    /// Wave-instructions that this process has executed so far, where the backend counts them: the emulator does.
    fn wave_instructions(&self) -> Option<u64> {
        None
    }

    /// Waits, then copies Logits of the last `logits` call into `out`, `[rows, V]` f32.
    fn read_logits(&mut self, out: &mut Vec<f32>) -> OpResult;
    /// Waits, then the id of the largest logit of the last row; of equal ones the lowest id. A NaN anywhere is an error, and so
    /// is a largest logit that is infinite.
    fn argmax(&mut self) -> Result<u32, BackendError>;
    /// Waits, then the `k` largest logits of the last row (all V if there are fewer) in `out`, largest first, of equal ones the lower id first,
    /// in the place of what it held. `false`, and `out` holds nothing of use, where the whole row has to be read instead: this backend
    /// does not choose among its logits, or not so many of them, or the largest of them is not finite and the row says which it is.
    fn top_k(&mut self, k: usize, out: &mut Vec<Candidate>) -> Result<bool, BackendError> {
        let _ = (k, out);
        Ok(false)
    }
    /// Waits, then copies the last token's Hidden, `[H]` f32: for golden tests and for explaining a token.
    fn read_hidden(&mut self, out: &mut Vec<f32>) -> OpResult;
}

/// The combined operations as a row of single ones: what a backend does that has no kernel of its own for them, or not for this pass.
pub mod plain {
    use super::{Act, OpResult, Ops, TensorId};

    /// [`Ops::qkv`].
    pub fn qkv<O: Ops + ?Sized>(ops: &mut O, w: [TensorId; 3], bias: Option<[TensorId; 3]>, x: Act) -> OpResult {
        for (w, y) in w.into_iter().zip([Act::Query, Act::Key, Act::Value]) {
            ops.linear(w, x, y)?;
        }
        qkv_bias(ops, bias)
    }

    /// The biases of Query, Key and Value, where there are such.
    pub fn qkv_bias<O: Ops + ?Sized>(ops: &mut O, bias: Option<[TensorId; 3]>) -> OpResult {
        let biases = bias.into_iter().flatten();
        biases.zip([Act::Query, Act::Key, Act::Value]).try_for_each(|(b, y)| ops.bias_add(b, y))
    }

    /// [`Ops::prepare_heads`].
    pub fn prepare_heads<O: Ops + ?Sized>(ops: &mut O, qk_norm: Option<[TensorId; 2]>, layer: usize) -> OpResult {
        if let Some([q_norm, k_norm]) = qk_norm {
            ops.head_norm(q_norm, Act::Query)?;
            ops.head_norm(k_norm, Act::Key)?;
        }
        ops.rope(Act::Query)?;
        ops.rope(Act::Key)?;
        ops.kv_append(layer)
    }

    /// [`Ops::linear_residual`].
    pub fn linear_residual<O: Ops + ?Sized>(ops: &mut O, w: TensorId, x: Act) -> OpResult {
        ops.linear(w, x, Act::Proj)?;
        ops.residual_add()
    }

    /// [`Ops::gated`].
    pub fn gated<O: Ops + ?Sized>(ops: &mut O, gate: TensorId, up: TensorId, x: Act) -> OpResult {
        ops.linear(gate, x, Act::Gate)?;
        ops.linear(up, x, Act::Up)?;
        ops.swiglu()
    }
}
