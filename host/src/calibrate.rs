//! Error compensation by a text: the model runs over it layer after layer on the CPU backend, each matrix sees what its inputs are with all
//! matrices before it encoded already, and its codes are chosen by their second moments ([`crate::quant::compensate`]). It reads no files and
//! writes none: `artifact` asks for each matrix in the order of the payload, which is the order of first use.
//!
//! It holds the residual stream of every token, Attn or Mlp of every token, the moments and the factor of one stage (two squares of doubles, the
//! factor before is gone by then), and the encoded matrices of one layer; what does not fit is refused before the text is run. The text is run once:
//! the residual stream, Attn and Mlp are kept for the next stage. The norms ahead of q, k, v and of gate, up are computed again in the next one:
//! they cost less than their memory.

use std::sync::Arc;

use crate::{
    artifact::{Artifact, MatrixEncoder},
    cpu::{self, CpuBackend, CpuOptions},
    model::{
        config::ModelConfig,
        ops::{Act, BackendError, OpResult, Ops, TensorId},
        weights::Weights,
    },
    quant::{
        self, Encoded, Scheme, SchemeError, Search,
        compensate::{Factor, MomentNotFinite, Moments, compensate, is_compensated},
    },
};

/// Tokens of a window: each is a pass of its own, from an empty context.
pub const WINDOW: usize = 512;
/// Most windows that are used. A bound on time and memory; EXP-0034 has 16 and 67 windows.
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
    /// More inputs than tokens are ever used.
    #[error(
        "calibration: the widest matrix has {width} inputs, at most {most} expected: as many as tokens are used at most"
    )]
    TooWide {
        /// Elements of the longest row.
        width: usize,
        /// Tokens of the most windows.
        most: usize,
    },
    /// Less memory than the text and the moments take.
    #[error("calibration: {needed} bytes needed beside the model for {tokens} tokens, {available} free")]
    Memory {
        /// Bytes needed.
        needed: u64,
        /// Tokens that would be used.
        tokens: usize,
        /// Bytes that are free.
        available: u64,
    },
    /// Inputs that are no numbers, or too large for sums of their squares.
    #[error("calibration: inputs of {matrices}: {moment}")]
    Inputs {
        /// The matrices.
        matrices: String,
        /// Which input.
        moment: MomentNotFinite,
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

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Attention(layer) => write!(f, "q_proj, k_proj and v_proj of layer {layer}"),
            Self::Output(layer) => write!(f, "o_proj of layer {layer}"),
            Self::Gated(layer) => write!(f, "gate_proj and up_proj of layer {layer}"),
            Self::Down(layer) => write!(f, "down_proj of layer {layer}"),
            Self::Head => f.write_str("lm_head"),
        }
    }
}

/// A model on its way through a text.
pub struct Calibration {
    backend: CpuBackend,
    weights: Weights,
    tokens: usize,
    window: usize,
    /// Residual stream of all tokens, `[T, H]`.
    hidden: Vec<f32>,
    /// Attn or Mlp of all tokens, which the next stage takes up; its memory is for the wider of them.
    inner: Vec<f32>,
    stages: Vec<Stage>,
    /// Stages that were run.
    done: usize,
    /// Of the last stage that was run, if a matrix of it was asked for.
    factor: Option<Factor>,
    ids: Vec<u32>,
}

/// Refuses a text of `tokens` tokens where `available` bytes are too few for what this file's head lists beside the model; the encoded matrices of
/// one layer are not counted. `None` where the system does not say.
fn check_memory(config: &ModelConfig, tokens: usize, available: Option<u64>) -> Result<(), CalibrationError> {
    let bytes =
        |factors: [usize; 3]| factors.into_iter().fold(1u64, |bytes, factor| bytes.saturating_mul(factor as u64));
    let (k, row) = (config.widest_input(), config.hidden_size + config.intermediate_size.max(config.q_size()));
    let needed = bytes([2 * size_of::<f64>(), k, k]).saturating_add(bytes([size_of::<f32>(), tokens, row]));
    match available {
        Some(available) if available < needed => Err(CalibrationError::Memory { needed, tokens, available }),
        _ => Ok(()),
    }
}

impl Calibration {
    /// Tokens of `ids` that are used: whole windows.
    ///
    /// # Errors
    /// [`CalibrationError`]: too few of them for this shape, ids of another vocabulary, too little memory.
    pub fn tokens_of(config: &ModelConfig, ids: &[u32]) -> Result<usize, CalibrationError> {
        let window = WINDOW.min(config.max_position_embeddings);
        let tokens = (ids.len() / window).min(MOST_WINDOWS) * window;
        let (needed, most) = (config.widest_input(), MOST_WINDOWS * window);
        if needed > most {
            return Err(CalibrationError::TooWide { width: needed, most });
        }
        if tokens < needed {
            return Err(CalibrationError::TooShort { found: tokens, window, needed });
        }
        let vocab_size = config.vocab_size;
        if let Some((index, &id)) = ids[..tokens].iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
            return Err(CalibrationError::Vocabulary { id, index, vocab_size });
        }
        check_memory(config, tokens, cpu::available_memory())?;
        Ok(tokens)
    }

    /// Loads the folder `artifact` and takes whole windows of `ids`.
    ///
    /// # Errors
    /// [`CalibrationError`].
    pub fn new(artifact: Artifact, ids: &[u32]) -> Result<Self, CalibrationError> {
        let config = artifact.config().clone();
        let (window, tokens) = (WINDOW.min(config.max_position_embeddings), Self::tokens_of(&config, ids)?);
        let weights = Weights::new(&config);
        // What `stage_of` relies on, and `artifact` checks.
        let same =
            artifact.tensors().map(|tensor| tensor.name).eq(weights.specs().iter().map(|spec| spec.name.as_str()));
        assert!(same, "tensors in the order of first use");
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
            hidden: vec![0.0; tokens * config.hidden_size],
            inner: Vec::with_capacity(tokens * config.intermediate_size.max(config.q_size())),
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

    /// Runs every stage up to `stage`: its factor.
    fn run_to(&mut self, stage: usize) -> Result<&Factor, CalibrationError> {
        assert!(stage + 1 >= self.done, "matrices in the order of a pass: stage {stage} after {} stages", self.done);
        while self.done <= stage {
            // Gone before the next moments are there.
            self.factor = None;
            let name = self.stages[self.done];
            let moments = self.run(name)?;
            if self.done == stage {
                let inputs = |moment| CalibrationError::Inputs { matrices: name.to_string(), moment };
                self.factor = Some(moments.factor(DAMPING).map_err(inputs)?);
            }
            self.done += 1;
        }
        Ok(self.factor.as_ref().expect("the last stage's factor"))
    }

    /// Runs one stage over all windows: the moments of its matrices' inputs.
    fn run(&mut self, stage: Stage) -> Result<Moments, BackendError> {
        let observed = match stage {
            Stage::Attention(_) | Stage::Gated(_) | Stage::Head => Act::Normed,
            Stage::Output(_) => Act::Attn,
            Stage::Down(_) => Act::Mlp,
        };
        let mut moments: Option<Moments> = None;
        if observed != Act::Normed {
            self.inner.clear();
        }
        for first in (0..self.tokens).step_by(self.window) {
            self.run_window(stage, first)?;
            let inputs = self.backend.activation(observed);
            moments.get_or_insert_with(|| Moments::new(inputs.len() / self.window)).add(inputs);
            if observed != Act::Normed {
                self.inner.extend_from_slice(inputs);
            }
            // The window's own rows, which it has read.
            let hidden = self.backend.activation(Act::Hidden);
            let width = hidden.len() / self.window;
            self.hidden[first * width..][..hidden.len()].copy_from_slice(hidden);
        }
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
            compensate(scheme, self.run_to(stage)?, rows, &mut encoded);
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
        let replaced = self.backend.replace(TensorId(tensor), scheme, encoded.object(&layout).into(), layout.bytes);
        assert!(replaced.is_ok(), "an object as its layout has it");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_before_the_text_is_run() {
        let config = ModelConfig::published("qwen3-0.6b").expect("a published shape");
        // Two squares of 3072 doubles; 4096 tokens of 1024 and of 3072 f32.
        let needed = 2 * 3072 * 3072 * 8 + 4096 * (1024 + 3072) * 4;
        for enough in [Some(needed), None] {
            assert!(check_memory(&config, 4096, enough).is_ok());
        }
        let refused = check_memory(&config, 4096, Some(needed - 1)).expect_err("one byte less");
        assert_eq!(
            refused.to_string(),
            "calibration: 218103808 bytes needed beside the model for 4096 tokens, 218103807 free"
        );
    }

    #[test]
    fn more_inputs_than_tokens_are_ever_used_are_refused_whatever_the_text() {
        let published = ModelConfig::published("qwen3-0.6b").expect("a published shape");
        let config = ModelConfig { intermediate_size: 65_600, ..published };
        let refused = Calibration::tokens_of(&config, &[0; 70_000]).expect_err("65 536 tokens at most").to_string();
        assert!(refused.contains("65600 inputs, at most 65536"), "{refused}");
    }
}
