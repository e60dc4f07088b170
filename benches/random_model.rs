//! A model of a published shape with random bf16 weights in memory, so that speed can be measured without a checkpoint. Its text means
//! nothing; its bytes, shapes and operations are the real ones.

use std::collections::HashMap;

use zynfer::model::{
    config::ModelConfig,
    weights::{Dtype, TensorSource, TensorView, Weights},
};

/// Qwen3-0.6B's shape: 596 M parameters, 1.19 GB of bf16 read per decoded token.
pub fn qwen3_0_6b() -> ModelConfig {
    ModelConfig {
        hidden_size: 1024,
        intermediate_size: 3072,
        num_hidden_layers: 28,
        num_attention_heads: 16,
        num_key_value_heads: 8,
        head_dim: 128,
        vocab_size: 151_936,
        max_position_embeddings: 40_960,
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        tie_word_embeddings: true,
    }
}

/// Weights of a configuration: matrices uniform with a deviation near 0.02, norms 1.
pub struct RandomModel(HashMap<String, (Vec<usize>, Vec<u32>)>);

impl RandomModel {
    /// Fills every tensor; each has memory of its own, so nothing is in a cache that would not be there in earnest.
    pub fn new(config: &ModelConfig) -> Self {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 32
        };
        // Sign and 7 bits of mantissa are random, the exponent is that of 2^−6 … 2^−5.
        let mut pair = || (random() as u32 & 0x807f_807f) | 0x3c80_3c80;
        let weights = Weights::new(config);
        let tensors = weights.specs().iter().map(|spec| {
            let pairs = spec.shape.iter().product::<usize>() / 2;
            let ones = spec.shape.len() == 1;
            let words = (0..pairs).map(|_| if ones { 0x3f80_3f80 } else { pair() }).collect();
            (spec.name.clone(), (spec.shape.clone(), words))
        });
        Self(tensors.collect())
    }

    /// Bytes of all weights.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|(_, words)| words.len() * 4).sum()
    }
}

impl TensorSource for RandomModel {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let (shape, words) = self.0.get(name)?;
        Some(TensorView { dtype: Dtype::Bf16, shape, bytes: bytemuck::cast_slice(words) })
    }
}
