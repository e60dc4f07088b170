//! Error compensation by a text: the model runs over it layer after layer on the CPU backend, each matrix sees what its inputs are with all
//! matrices before it encoded already, and its codes are chosen by their second moments ([`crate::quant::compensate`]). It reads no files and
//! writes none: `artifact` asks for each matrix in the order of the payload, which is the order of first use.
//!
//! It holds the residual stream of every token, the inputs of one matrix, the moments and the factor of those (two squares of doubles), and the
//! encoded matrices of one layer. The text is run once: what a stage computed is kept for the next one.

use std::sync::Arc;

use crate::{
    artifact::{Artifact, MatrixEncoder},
    cpu::{CpuBackend, CpuOptions},
    model::{
        ops::{Act, BackendError, OpResult, Ops, TensorId},
        weights::Weights,
    },
    quant::{
        self, Encoded, Scheme, SchemeError, Search,
        compensate::{Factor, Moments, compensate, is_compensated},
    },
};

/// Tokens of a window: each is a pass of its own, from an empty context.
pub const WINDOW: usize = 512;
/// Most windows that are used; more text changes little and costs as much again.
pub const MOST_WINDOWS: usize = 128;
/// What is added to the diagonal of the moments as a part of its mean. A text of tens of thousands of tokens knows the directions in which inputs
/// are large, and exaggerates how quiet the others are; EXP-0034 has what other values give.
pub const DAMPING: f64 = 0.1;

/// Why a text cannot calibrate a model.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// Fewer tokens than the widest matrix has inputs: the moments would say nothing about some directions.
    #[error(
        "calibration: {found} tokens in windows of {window}, at least {needed} expected: as many as the widest matrix has inputs"
    )]
    TooShort {
        /// Tokens in whole windows.
        found: usize,
        /// Tokens of a window.
        window: usize,
        /// Elements of the longest row.
        needed: usize,
    },
    /// Ids of another vocabulary.
    #[error("calibration: id {id} at {index}, ids below {vocab_size} expected: is it another model's?")]
    Vocabulary {
        /// The id.
        id: u32,
        /// Its index.
        index: usize,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// The model does not load or run.
    #[error("calibration: {0}")]
    Backend(#[from] BackendError),
}

/// Matrices that share their inputs, in the order of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// q_proj, k_proj, v_proj of a layer.
    Attention(usize),
    /// o_proj.
    Output(usize),
    /// gate_proj, up_proj.
    Gated(usize),
    /// down_proj.
    Down(usize),
    /// An lm_head of its own.
    Head,
}

/// A model on its way through a text.
pub struct Calibration {
    backend: CpuBackend,
    weights: Weights,
    tokens: usize,
    window: usize,
    /// Residual stream of all tokens, `[T, H]`.
    hidden: Vec<f32>,
    /// Attn or Mlp of all tokens, which the next stage takes up.
    inner: Vec<f32>,
    stages: Vec<Stage>,
    /// Stages that were run.
    done: usize,
    factor: Option<Factor>,
    ids: Vec<u32>,
}

impl Calibration {
    /// Loads the folder `artifact` and takes whole windows of `ids`.
    ///
    /// # Errors
    /// [`CalibrationError`].
    pub fn new(artifact: Artifact, ids: &[u32]) -> Result<Self, CalibrationError> {
        let config = artifact.config().clone();
        let window = WINDOW.min(config.max_position_embeddings);
        let tokens = (ids.len() / window).min(MOST_WINDOWS) * window;
        let needed = config.hidden_size.max(config.intermediate_size).max(config.q_size());
        if tokens < needed {
            return Err(CalibrationError::TooShort { found: tokens, window, needed });
        }
        let vocab_size = config.vocab_size;
        if let Some((index, &id)) = ids[..tokens].iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
            return Err(CalibrationError::Vocabulary { id, index, vocab_size });
        }
        let weights = Weights::new(&config);
        let options = CpuOptions { max_chunk: window, ..CpuOptions::new(window) };
        let backend = CpuBackend::new(&config, &weights, Arc::new(artifact), options)?;
        let layer = |l| [Stage::Attention(l), Stage::Output(l), Stage::Gated(l), Stage::Down(l)];
        let head = (!config.tie_word_embeddings).then_some(Stage::Head);
        let stages = (0..config.num_hidden_layers).flat_map(layer).chain(head).collect();
        Ok(Self {
            backend,
            weights,
            tokens,
            window,
            hidden: Vec::new(),
            inner: Vec::new(),
            stages,
            done: 0,
            factor: None,
            ids: ids[..tokens].to_vec(),
        })
    }

    /// Tokens that are used.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The stage of a tensor; `None` for the embedding and for vectors.
    fn stage_of(&self, id: TensorId) -> Option<usize> {
        let is = |stage: &Stage| match *stage {
            Stage::Attention(layer) => {
                let l = &self.weights.layers[layer];
                [l.q_proj, l.k_proj, l.v_proj].contains(&id)
            }
            Stage::Output(layer) => self.weights.layers[layer].o_proj == id,
            Stage::Gated(layer) => {
                let l = &self.weights.layers[layer];
                [l.gate_proj, l.up_proj].contains(&id)
            }
            Stage::Down(layer) => self.weights.layers[layer].down_proj == id,
            Stage::Head => self.weights.lm_head == id,
        };
        self.stages.iter().position(is)
    }

    /// Runs every stage up to `stage`; the factor is the last one's.
    fn run_to(&mut self, stage: usize) -> OpResult {
        while self.done <= stage {
            let moments = self.run(self.stages[self.done])?;
            self.factor = (self.done == stage).then(|| moments.factor(DAMPING));
            self.done += 1;
        }
        Ok(())
    }

    /// Runs one stage over all windows: the moments of its matrices' inputs.
    fn run(&mut self, stage: Stage) -> Result<Moments, BackendError> {
        let observed = match stage {
            Stage::Attention(_) | Stage::Gated(_) | Stage::Head => Act::Normed,
            Stage::Output(_) => Act::Attn,
            Stage::Down(_) => Act::Mlp,
        };
        let mut moments: Option<Moments> = None;
        let (mut hidden, mut inner) = (Vec::new(), Vec::new());
        for first in (0..self.tokens).step_by(self.window) {
            self.run_window(stage, first)?;
            let inputs = self.backend.activation(observed);
            moments.get_or_insert_with(|| Moments::new(inputs.len() / self.window)).add(inputs);
            hidden.extend_from_slice(self.backend.activation(Act::Hidden));
            if observed != Act::Normed {
                inner.extend_from_slice(inputs);
            }
        }
        (self.hidden, self.inner) = (hidden, inner);
        // What the stage before the last one read is not read again.
        if let Stage::Attention(layer) = stage
            && layer > 0
        {
            let l = self.weights.layers[layer - 1];
            let all = [l.q_proj, l.k_proj, l.v_proj, l.o_proj, l.gate_proj, l.up_proj, l.down_proj];
            all.into_iter().for_each(|id| self.backend.forget(id));
        }
        moments.ok_or_else(|| BackendError("no windows".into()))
    }

    /// One window, from where the stage before left it to the inputs of this stage's matrices.
    fn run_window(&mut self, stage: Stage, first: usize) -> OpResult {
        let (b, window) = (&mut self.backend, first..first + self.window);
        let width = |all: &[f32]| all.len() / self.tokens;
        let rows = |all: &[f32]| window.start * width(all)..window.end * width(all);
        if stage == Stage::Attention(0) {
            b.embed(self.weights.embed_tokens, &self.ids[window.clone()], 0)?;
        } else {
            b.put_activation(Act::Hidden, &self.hidden[rows(&self.hidden)])?;
        }
        let take_up = |b: &mut CpuBackend, act, w| {
            b.put_activation(act, &self.inner[rows(&self.inner)])?;
            b.linear_residual(w, act)
        };
        match stage {
            Stage::Attention(layer) => {
                if let Some(before) = layer.checked_sub(1) {
                    take_up(b, Act::Mlp, self.weights.layers[before].down_proj)?;
                }
                b.rmsnorm(self.weights.layers[layer].input_layernorm, Act::Hidden, Act::Normed)
            }
            Stage::Output(layer) => {
                let l = &self.weights.layers[layer];
                b.rmsnorm(l.input_layernorm, Act::Hidden, Act::Normed)?;
                b.qkv([l.q_proj, l.k_proj, l.v_proj], l.qkv_bias, Act::Normed)?;
                b.prepare_heads(l.qk_norm, layer)?;
                b.attention(layer)
            }
            Stage::Gated(layer) => {
                let l = &self.weights.layers[layer];
                take_up(b, Act::Attn, l.o_proj)?;
                b.rmsnorm(l.post_attention_layernorm, Act::Hidden, Act::Normed)
            }
            Stage::Down(layer) => {
                let l = &self.weights.layers[layer];
                b.rmsnorm(l.post_attention_layernorm, Act::Hidden, Act::Normed)?;
                b.gated(l.gate_proj, l.up_proj, Act::Normed)
            }
            Stage::Head => {
                if let Some(last) = self.weights.layers.last() {
                    take_up(b, Act::Mlp, last.down_proj)?;
                }
                b.rmsnorm(self.weights.norm, Act::Hidden, Act::Normed)
            }
        }
    }
}

impl MatrixEncoder for Calibration {
    fn encode(
        &mut self,
        tensor: usize,
        scheme: Scheme,
        rows: &[f32],
        k: usize,
    ) -> Result<Encoded, Box<dyn std::error::Error>> {
        let mut encoded = quant::encode(scheme, Search::LeastSquares, rows, k)?;
        if let Some(stage) = self.stage_of(TensorId(tensor)).filter(|_| is_compensated(scheme)) {
            self.run_to(stage)?;
            if let Some(factor) = &self.factor {
                compensate(scheme, factor, rows, &mut encoded);
            }
        }
        Ok(encoded)
    }

    fn finished(
        &mut self,
        tensor: usize,
        scheme: Scheme,
        shape: &[usize],
        encoded: Encoded,
    ) -> Result<(), SchemeError> {
        let layout = scheme.layout(shape)?;
        let mut object = vec![0u32; layout.bytes.div_ceil(4)];
        encoded.copy_to(&layout, bytemuck::cast_slice_mut(&mut object));
        let replaced = self.backend.replace(TensorId(tensor), scheme, object.into(), layout.bytes);
        assert!(replaced.is_ok(), "an object as its layout has it");
        Ok(())
    }
}
