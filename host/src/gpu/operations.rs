//! A loaded model on a card as [`Ops`]: each operation finds its buffers, says its shape, and calls one kernel. What a pass is (how
//! many tokens, from which position) is set by `embed` and read by all that follow it.

use std::collections::HashMap;

use device_ops::top_k;

use crate::hip::decode::{DecodeError, Decoder};
use crate::hip::kernels::{CodedCache, Gemm, Kernels, KvCache, LaunchError, Matrix, Qkv};
use crate::hip::{HipError, Span, SpanError, Stream};
use crate::model::config::ModelConfig;
use crate::model::kv::KvFormats;
use crate::model::ops::{Act, BackendError, Candidate, OpResult, Ops, TensorId, plain};
use crate::model::weights::Weights;
use crate::quant::{Activations, Scheme};

use super::load::{GpuKind, Options, Rung};
use super::plan::{KV, Plan, row, stored};

/// The backend. Made by [`super::open`].
pub struct Gpu {
    // Declared, so dropped, before the buffers its launches use.
    stream: Stream,
    kernels: Kernels,
    kind: GpuKind,
    config: ModelConfig,
    weights: Weights,
    /// Where each lies and how it is stored.
    tensors: Vec<(Span, Scheme)>,
    caches: Vec<(Span, Span)>,
    rope: Span,
    acts: HashMap<Act, Span>,
    /// Where activations lie that are rounded to 8 bits, if they are.
    rounded: Option<Span>,
    ids: Span,
    top_k: TopK,
    plan: Plan,
    gemm: Gemm,
    attention: Rung,
    pass: Option<Pass>,
    logits_rows: usize,
    decoder: Option<Decoder>,
}

/// Memory for the largest logits.
pub(super) struct TopK {
    /// What passes between the kernel's launches.
    pub keys: Span,
    /// Up to [`top_k::MAX`] logits and ids.
    pub best: Span,
}

/// What `embed` began.
#[derive(Debug, Clone, Copy)]
struct Pass {
    tokens: usize,
    position: usize,
}

impl From<LaunchError> for BackendError {
    fn from(error: LaunchError) -> Self {
        Self(error.to_string())
    }
}
impl From<HipError> for BackendError {
    fn from(error: HipError) -> Self {
        Self(error.to_string())
    }
}
impl From<DecodeError> for BackendError {
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}
impl From<SpanError> for BackendError {
    fn from(error: SpanError) -> Self {
        Self(error.to_string())
    }
}

fn refuse<T>(text: String) -> Result<T, BackendError> {
    Err(BackendError(text))
}

impl Gpu {
    #[allow(clippy::too_many_arguments, reason = "everything a loaded model is made of, once")]
    pub(super) fn new(
        kind: GpuKind,
        stream: Stream,
        kernels: Kernels,
        config: ModelConfig,
        weights: Weights,
        tensors: Vec<(Span, Scheme)>,
        caches: Vec<(Span, Span)>,
        rope: Span,
        acts: Vec<(Act, Span)>,
        rounded: Option<Span>,
        ids: Span,
        top_k: TopK,
        plan: Plan,
        options: &Options,
        decoder: Option<Decoder>,
    ) -> Self {
        Self {
            stream,
            kernels,
            kind,
            config,
            weights,
            tensors,
            caches,
            rope,
            acts: acts.into_iter().collect(),
            rounded,
            ids,
            top_k,
            plan,
            gemm: options.gemm,
            attention: options.attention,
            pass: None,
            logits_rows: 0,
            decoder,
        }
    }

    fn pass(&self) -> Result<Pass, BackendError> {
        self.pass.ok_or_else(|| BackendError("an operation before embed: no pass has begun".into()))
    }

    fn act(&self, act: Act) -> Result<&Span, BackendError> {
        self.acts.get(&act).ok_or_else(|| BackendError(format!("no buffer for {act:?}")))
    }

    fn matrix(&self, id: TensorId) -> Result<Matrix<'_>, BackendError> {
        let count = self.tensors.len();
        let found = self.tensors.get(id.0);
        let (span, scheme) = found.ok_or_else(|| BackendError(format!("tensor {} of a model with {count}", id.0)))?;
        Ok(Matrix { span, scheme: *scheme })
    }

    /// A tensor of bf16.
    fn tensor(&self, id: TensorId) -> Result<&Span, BackendError> {
        match self.matrix(id)? {
            Matrix { span, scheme: Scheme::Bf16 } => Ok(span),
            Matrix { scheme, .. } => {
                refuse(format!("tensor {} is {scheme}, bf16 is needed", self.weights.spec(id).name))
            }
        }
    }

    /// The activation's width, which must be of `element_bytes`.
    fn width(&self, op: &str, act: Act, element_bytes: usize) -> Result<usize, BackendError> {
        let (width, bytes) = row(&self.config, act);
        if bytes != element_bytes {
            return refuse(format!("{op}: {act:?} holds {bytes}-byte elements, {element_bytes}-byte ones are needed"));
        }
        Ok(width)
    }

    fn shape_is(&self, op: &str, id: TensorId, needed: &[usize]) -> Result<(), BackendError> {
        self.matrix(id)?;
        let spec = self.weights.spec(id);
        if spec.shape == needed {
            return Ok(());
        }
        refuse(format!("{op}: tensor {} has shape {:?}, {needed:?} is needed", spec.name, spec.shape))
    }

    /// Heads of Query or Key.
    fn heads(&self, op: &str, act: Act) -> Result<usize, BackendError> {
        match act {
            Act::Query => Ok(self.config.num_attention_heads),
            Act::Key => Ok(self.config.num_key_value_heads),
            other => refuse(format!("{op}: {other:?} has no heads to work on, Query and Key have")),
        }
    }

    fn cache(&self, layer: usize) -> Result<KvCache<'_>, BackendError> {
        let layers = self.caches.len();
        let (keys, values) =
            self.caches.get(layer).ok_or_else(|| BackendError(format!("layer {layer} of a model with {layers}")))?;
        Ok(KvCache {
            keys,
            values,
            kv_heads: self.config.num_key_value_heads,
            head_dim: self.config.head_dim,
            capacity: self.plan.capacity,
        })
    }

    /// The cache of a layer, where it is in other formats than bf16.
    fn coded(&self, layer: usize) -> Result<Option<CodedCache<'_>>, BackendError> {
        match stored(self.plan.kv).filter(|_| self.plan.kv != KV) {
            None => Ok(None),
            Some([k, v]) => Ok(Some(CodedCache { cache: self.cache(layer)?, k, v })),
        }
    }

    /// The last row of Logits `[V]`.
    fn last_logits(&self, op: &str) -> Result<Span, BackendError> {
        let Some(row) = self.logits_rows.checked_sub(1) else { return refuse(format!("{op} before logits")) };
        let bytes = self.config.vocab_size * 4;
        Ok(self.act(Act::Logits)?.part(row * bytes, bytes)?)
    }

    /// An id that a kernel chose.
    fn known(&self, op: &str, id: u32) -> Result<u32, BackendError> {
        let vocab = self.config.vocab_size;
        if (id as usize) < vocab { Ok(id) } else { refuse(format!("{op}: id {id}, the vocabulary has {vocab}")) }
    }

    fn eps(&self) -> f32 {
        self.config.rms_norm_eps as f32
    }

    /// Matrix product of `tokens` rows; a lower rung only where it stands for the matrix instructions' one.
    fn product(&self, w: TensorId, x: &Span, y: &Span, shape: [usize; 3]) -> OpResult {
        let gemm = if shape[0] > 1 { self.gemm } else { Gemm::Fast };
        Ok(self.kernels.linear(&self.stream, self.matrix(w)?, x, y, shape, gemm)?)
    }

    /// Products with int8 matrices of `tokens` rows of `x`, rounded to 8 bits once for all; `false`, and nothing is done, where they are to be
    /// multiplied as they are.
    fn rounded(&self, weights: &[TensorId], x: Act, outs: &[Act], tokens: usize) -> Result<bool, BackendError> {
        let int8 = |id: &TensorId| self.matrix(*id).is_ok_and(|matrix| matrix.scheme == Scheme::Int8Row);
        let Some(rounded) = self.rounded.as_ref().filter(|_| tokens > 1 && weights.iter().all(int8)) else {
            return Ok(false);
        };
        let k = self.width("linear", x, 2)?;
        self.kernels.quantize(&self.stream, self.act(x)?, rounded, [tokens, k])?;
        for (&w, &y) in weights.iter().zip(outs) {
            let n = self.width("linear", y, 4)?;
            self.shape_is("linear", w, &[n, k])?;
            self.kernels.linear_w8a8(&self.stream, self.matrix(w)?, rounded, self.act(y)?, [tokens, n, k])?;
        }
        Ok(true)
    }

    /// Whether a pass of `tokens` takes the kernels that do several products, or what follows one, in one launch. Decode's plan has no say:
    /// plans are compared from the same cache, and the emulator, whose plan is another than a card's, evaluates prompts as a card does.
    fn fused(&self, tokens: usize) -> bool {
        tokens > 1 && self.gemm == Gemm::Fast
    }

    /// As [`Gpu::fused`], of products with `weights`: those kernels read bf16.
    fn fused_products(&self, tokens: usize, weights: &[TensorId]) -> bool {
        let bf16 = |id: &TensorId| self.matrix(*id).is_ok_and(|matrix| matrix.scheme == Scheme::Bf16);
        self.fused(tokens) && weights.iter().all(bf16)
    }
}

impl Ops for Gpu {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn context_len(&self) -> usize {
        self.plan.context_len
    }

    fn kv_formats(&self) -> KvFormats {
        self.plan.kv
    }

    fn activations(&self) -> Activations {
        if self.rounded.is_some() { Activations::Int8 } else { Activations::AsTheyAre }
    }

    fn wave_instructions(&self) -> Option<u64> {
        self.stream.emulator_instructions()
    }

    fn max_chunk(&self) -> usize {
        self.plan.max_chunk
    }

    fn max_logits_rows(&self) -> usize {
        self.plan.max_logits_rows
    }

    fn embed(&mut self, table: TensorId, ids: &[u32], position: usize) -> OpResult {
        self.pass = None;
        self.logits_rows = 0;
        let (most, context) = (self.plan.max_chunk, self.plan.context_len);
        if ids.is_empty() || ids.len() > most {
            return refuse(format!("a pass of {} tokens, 1 to {most} are possible", ids.len()));
        }
        if position.checked_add(ids.len()).is_none_or(|end| end > context) {
            return refuse(format!("{} tokens from position {position} on, the context holds {context}", ids.len()));
        }
        let shape = [self.config.vocab_size, self.config.hidden_size];
        self.shape_is("embed", table, &shape)?;
        let slot = self.ids.part(0, self.plan.max_chunk * 4)?;
        self.kernels.embed(&self.stream, ids, &slot, self.matrix(table)?, self.act(Act::Hidden)?, shape)?;
        self.pass = Some(Pass { tokens: ids.len(), position });
        Ok(())
    }

    fn rmsnorm(&mut self, w: TensorId, x: Act, y: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let width = self.width("rmsnorm", x, 4)?;
        if self.width("rmsnorm", y, 2)? != width {
            return refuse(format!("rmsnorm: {x:?} and {y:?} differ in width"));
        }
        self.shape_is("rmsnorm", w, &[width])?;
        let (x, w, y) = (self.act(x)?, self.tensor(w)?, self.act(y)?);
        Ok(self.kernels.rmsnorm(&self.stream, x, w, y, [tokens, width], self.eps())?)
    }

    fn linear(&mut self, w: TensorId, x: Act, y: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        if y == Act::Logits {
            return refuse("linear: Logits are made by `logits`".into());
        }
        if self.rounded(&[w], x, &[y], tokens)? {
            return Ok(());
        }
        let (k, n) = (self.width("linear", x, 2)?, self.width("linear", y, 4)?);
        self.shape_is("linear", w, &[n, k])?;
        self.product(w, self.act(x)?, self.act(y)?, [tokens, n, k])
    }

    fn qkv(&mut self, w: [TensorId; 3], bias: Option<[TensorId; 3]>, x: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        if self.rounded(&w, x, &[Act::Query, Act::Key, Act::Value], tokens)? {
            return plain::qkv_bias(self, bias);
        }
        if !self.fused_products(tokens, &w) {
            return plain::qkv(self, w, bias, x);
        }
        let (depth, n) = (self.width("qkv", x, 2)?, self.width("qkv", Act::Query, 4)?);
        let n_kv = self.width("qkv", Act::Key, 4)?;
        for (id, rows) in w.into_iter().zip([n, n_kv, n_kv]) {
            self.shape_is("qkv", id, &[rows, depth])?;
        }
        let [q, k, v] = w;
        let weights = Qkv { q: self.tensor(q)?, k: self.tensor(k)?, v: self.tensor(v)? };
        let out = Qkv { q: self.act(Act::Query)?, k: self.act(Act::Key)?, v: self.act(Act::Value)? };
        self.kernels.linear_qkv(&self.stream, weights, self.act(x)?, out, [tokens, n, n_kv, depth])?;
        plain::qkv_bias(self, bias)
    }

    fn prepare_heads(&mut self, qk_norm: Option<[TensorId; 2]>, layer: usize) -> OpResult {
        let Pass { tokens, position } = self.pass()?;
        if !self.fused(tokens) {
            return plain::prepare_heads(self, qk_norm, layer);
        }
        let norms = match qk_norm {
            None => None,
            Some([q_norm, k_norm]) => {
                for id in [q_norm, k_norm] {
                    self.shape_is("prepare_heads", id, &[self.config.head_dim])?;
                }
                Some([self.tensor(q_norm)?, self.tensor(k_norm)?])
            }
        };
        let rows = Qkv { q: self.act(Act::Query)?, k: self.act(Act::Key)?, v: self.act(Act::Value)? };
        let shape = [tokens, self.config.num_attention_heads];
        let eps = self.eps();
        if let Some(coded) = self.coded(layer)? {
            let (kernels, stream) = (&self.kernels, &self.stream);
            return Ok(kernels.prepare_heads_formats(stream, rows, norms, &self.rope, &coded, shape, position, eps)?);
        }
        let cache = self.cache(layer)?;
        Ok(self.kernels.prepare_heads(&self.stream, rows, norms, &self.rope, &cache, shape, position, eps)?)
    }

    fn linear_residual(&mut self, w: TensorId, x: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        if !self.fused_products(tokens, &[w]) {
            return plain::linear_residual(self, w, x);
        }
        let (k, n) = (self.width("linear_residual", x, 2)?, self.config.hidden_size);
        self.shape_is("linear_residual", w, &[n, k])?;
        let (w, x, hidden) = (self.tensor(w)?, self.act(x)?, self.act(Act::Hidden)?);
        Ok(self.kernels.linear_add(&self.stream, w, x, hidden, [tokens, n, k])?)
    }

    fn gated(&mut self, gate: TensorId, up: TensorId, x: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        if self.rounded(&[gate, up], x, &[Act::Gate, Act::Up], tokens)? {
            return self.swiglu();
        }
        if !self.fused_products(tokens, &[gate, up]) {
            return plain::gated(self, gate, up, x);
        }
        let (k, n) = (self.width("gated", x, 2)?, self.width("gated", Act::Mlp, 2)?);
        self.shape_is("gated", gate, &[n, k])?;
        self.shape_is("gated", up, &[n, k])?;
        let (weights, x, out) = ([self.tensor(gate)?, self.tensor(up)?], self.act(x)?, self.act(Act::Mlp)?);
        Ok(self.kernels.linear_gated(&self.stream, weights, x, out, [tokens, n, k])?)
    }

    fn bias_add(&mut self, b: TensorId, y: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let n = self.width("bias_add", y, 4)?;
        self.shape_is("bias_add", b, &[n])?;
        let (y, b) = (self.act(y)?, self.tensor(b)?);
        Ok(self.kernels.bias_add(&self.stream, y, b, [tokens, n])?)
    }

    fn head_norm(&mut self, w: TensorId, x: Act) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let heads = self.heads("head_norm", x)?;
        let head_dim = self.config.head_dim;
        self.shape_is("head_norm", w, &[head_dim])?;
        let (x, w) = (self.act(x)?, self.tensor(w)?);
        Ok(self.kernels.head_norm(&self.stream, x, w, [tokens * heads, head_dim], self.eps())?)
    }

    fn rope(&mut self, x: Act) -> OpResult {
        let Pass { tokens, position } = self.pass()?;
        let heads = self.heads("rope", x)?;
        let shape = [tokens, heads, self.config.head_dim];
        Ok(self.kernels.rope(&self.stream, self.act(x)?, &self.rope, shape, position)?)
    }

    fn kv_append(&mut self, layer: usize) -> OpResult {
        let Pass { tokens, position } = self.pass()?;
        let (k, v) = (self.act(Act::Key)?, self.act(Act::Value)?);
        if let Some(coded) = self.coded(layer)? {
            return Ok(self.kernels.kv_append_formats(&self.stream, k, v, &coded, tokens, position)?);
        }
        Ok(self.kernels.kv_append(&self.stream, k, v, &self.cache(layer)?, tokens, position)?)
    }

    fn attention(&mut self, layer: usize) -> OpResult {
        let Pass { tokens, position } = self.pass()?;
        let (q, out, group) = (self.act(Act::Query)?, self.act(Act::Attn)?, self.config.group_size());
        let plain = self.attention == Rung::Plain;
        if let Some(coded) = self.coded(layer)? {
            let (kernels, stream) = (&self.kernels, &self.stream);
            return Ok(kernels.attention_formats(stream, q, &coded, out, [tokens, group], position, plain)?);
        }
        Ok(self.kernels.attention(&self.stream, q, &self.cache(layer)?, out, [tokens, group], position, plain)?)
    }

    fn swiglu(&mut self) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let (gate, up, out) = (self.act(Act::Gate)?, self.act(Act::Up)?, self.act(Act::Mlp)?);
        Ok(self.kernels.swiglu(&self.stream, gate, up, out, tokens * self.config.intermediate_size)?)
    }

    fn residual_add(&mut self) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let (hidden, proj) = (self.act(Act::Hidden)?, self.act(Act::Proj)?);
        Ok(self.kernels.residual_add(&self.stream, hidden, proj, tokens * self.config.hidden_size)?)
    }

    fn logits(&mut self, norm: TensorId, lm_head: TensorId, rows: usize) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let most = tokens.min(self.plan.max_logits_rows);
        if rows == 0 || rows > most {
            return refuse(format!("logits of {rows} rows, 1 to {most} are possible in a pass of {tokens} tokens"));
        }
        let (hidden_size, vocab) = (self.config.hidden_size, self.config.vocab_size);
        self.shape_is("logits", norm, &[hidden_size])?;
        self.shape_is("logits", lm_head, &[vocab, hidden_size])?;
        let row_bytes = hidden_size * 4;
        let last = self.act(Act::Hidden)?.part((tokens - rows) * row_bytes, rows * row_bytes)?;
        let (norm, normed) = (self.tensor(norm)?, self.act(Act::Normed)?);
        self.kernels.rmsnorm(&self.stream, &last, norm, normed, [rows, hidden_size], self.eps())?;
        if !self.rounded(&[lm_head], Act::Normed, &[Act::Logits], rows)? {
            self.product(lm_head, normed, self.act(Act::Logits)?, [rows, vocab, hidden_size])?;
        }
        self.logits_rows = rows;
        Ok(())
    }

    fn read_logits(&mut self, out: &mut Vec<f32>) -> OpResult {
        let elements = self.logits_rows * self.config.vocab_size;
        if elements == 0 {
            return refuse("read_logits before logits".into());
        }
        out.clear();
        out.resize(elements, 0.0);
        let logits = self.act(Act::Logits)?.part(0, elements * 4)?;
        Ok(self.stream.read(&logits, bytemuck::cast_slice_mut(out))?)
    }

    fn argmax(&mut self) -> Result<u32, BackendError> {
        let vocab = self.config.vocab_size;
        let logits = self.last_logits("argmax")?;
        let chosen = self.ids.part(self.plan.max_chunk * 4, 4)?;
        self.kernels.argmax(&self.stream, &logits, &chosen, [1, vocab])?;
        let mut id = [0u8; 4];
        self.stream.read(&chosen, &mut id)?;
        let id = match u32::from_le_bytes(id) {
            device_ops::argmax::NAN_ID => return refuse("argmax: the logits hold a NaN".into()),
            id => self.known("argmax", id)?,
        };
        // The kernel orders infinities like numbers; as the largest logit one is the model's or a kernel's fault, on every backend.
        let mut largest = [0u8; 4];
        self.stream.read(&logits.part(id as usize * 4, 4)?, &mut largest)?;
        match f32::from_le_bytes(largest) {
            value if value.is_finite() => Ok(id),
            value => refuse(format!("argmax: logit of token {id} is {value}, a finite number expected")),
        }
    }

    fn top_k(&mut self, k: usize, out: &mut Vec<Candidate>) -> Result<bool, BackendError> {
        if !(1..=top_k::MAX as usize).contains(&k) {
            return Ok(false);
        }
        let vocab = self.config.vocab_size;
        let logits = self.last_logits("top_k")?;
        let TopK { keys, best } = &self.top_k;
        self.kernels.top_k(&self.stream, &logits, keys, best, vocab, k)?;
        let mut pairs = [[0u32; 2]; top_k::MAX as usize];
        let pairs = &mut pairs[..k.min(vocab)];
        self.stream.read(&best.part(0, size_of_val(pairs))?, bytemuck::cast_slice_mut(pairs))?;
        out.clear();
        for &[logit, id] in pairs.iter() {
            out.push(Candidate { id: self.known("top_k", id)?, logit: f32::from_bits(logit) });
        }
        Ok(out.first().is_some_and(|largest| largest.logit.is_finite()))
    }

    fn decode_block(&self) -> usize {
        self.decoder.as_ref().map_or(0, |decoder| decoder.plan().block())
    }

    fn decode_greedy(
        &mut self,
        id: u32,
        position: usize,
        count: usize,
        ends: &[u32],
    ) -> Result<Vec<u32>, BackendError> {
        (self.pass, self.logits_rows) = (None, 0);
        let Some(decoder) = &mut self.decoder else {
            return refuse("decode: the operations are taken one by one".into());
        };
        Ok(decoder.greedy(&self.stream, &self.kernels, id, position, count, ends)?)
    }

    fn decode_logits(&mut self, id: u32, position: usize) -> OpResult {
        (self.pass, self.logits_rows) = (None, 0);
        let Some(decoder) = &mut self.decoder else {
            return refuse("decode: the operations are taken one by one".into());
        };
        decoder.logits(&self.stream, &self.kernels, id, position)?;
        self.logits_rows = 1;
        Ok(())
    }

    fn read_hidden(&mut self, out: &mut Vec<f32>) -> OpResult {
        let Pass { tokens, .. } = self.pass()?;
        let hidden_size = self.config.hidden_size;
        out.clear();
        out.resize(hidden_size, 0.0);
        let last = self.act(Act::Hidden)?.part((tokens - 1) * hidden_size * 4, hidden_size * 4)?;
        Ok(self.stream.read(&last, bytemuck::cast_slice_mut(out))?)
    }
}
