//! A model of some shape with random bf16 weights in memory, so that speed can be measured without a checkpoint. Its text means
//! nothing; its bytes, shapes and operations are the real ones. Nothing is written to a file.

use std::collections::HashMap;

use half::bf16;
use rayon::prelude::*;

use super::weights::{Dtype, TensorSource, TensorSpec, TensorView, Weights};
use crate::quant::{self, Scheme, SchemeError, Search};

/// Weights of a configuration: matrices and biases near ±0.02, norms 1, the same for the same seed. Each tensor has memory of its own, so nothing
/// is in a cache that would not be there in earnest.
pub struct RandomModel(HashMap<String, (Vec<usize>, Dtype, Vec<u32>)>);

impl RandomModel {
    /// Fills every tensor that `weights` lists.
    pub fn new(weights: &Weights, seed: u64) -> Self {
        let specs = weights.specs().par_iter().enumerate();
        let tensors = specs.map(|(index, spec)| {
            let words = words(spec, seed.wrapping_mul(1_000_003).wrapping_add(index as u64));
            (spec.name.clone(), (spec.shape.clone(), Dtype::Bf16, words))
        });
        Self(tensors.collect())
    }

    /// Elements of all tensors.
    pub fn parameters(weights: &Weights) -> u64 {
        weights.specs().iter().map(|spec| spec.shape.iter().product::<usize>() as u64).sum()
    }

    /// Encodes every matrix as `scheme` says of its name, one after the other.
    ///
    /// # Errors
    /// A matrix that its scheme does not take.
    pub fn quantize(&mut self, scheme: impl Fn(&str) -> Scheme) -> Result<(), SchemeError> {
        for (name, (shape, dtype, words)) in &mut self.0 {
            let scheme = scheme(name).of_tensor(shape);
            if scheme == Scheme::Bf16 {
                continue;
            }
            let layout = scheme.layout(shape)?;
            let values: Vec<f32> = bytemuck::cast_slice::<u32, bf16>(words).iter().map(|w| w.to_f32()).collect();
            let encoded = quant::encode(scheme, Search::Nearest, &values, shape[1])?;
            (*dtype, *words) = (Dtype::Quantized(scheme), encoded.object(&layout));
        }
        Ok(())
    }

    /// Bytes of all weights.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|(.., words)| words.len() * 4).sum()
    }
}

/// Pairs of elements of one tensor; every width of a validated configuration is even.
fn words(spec: &TensorSpec, seed: u64) -> Vec<u32> {
    let pairs = spec.shape.iter().product::<usize>() / 2;
    if spec.name.ends_with("norm.weight") {
        return vec![0x3f80_3f80; pairs];
    }
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    // Sign and 7 bits of mantissa are random, the exponent is that of 2^−6 … 2^−5.
    (0..pairs).map(|_| (random() as u32 & 0x807f_807f) | 0x3c80_3c80).collect()
}

impl TensorSource for RandomModel {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let (shape, dtype, words) = self.0.get(name)?;
        let bytes = dtype.stored_bytes(shape).ok()?;
        Some(TensorView { dtype: *dtype, shape, bytes: &bytemuck::cast_slice(words)[..bytes] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::ModelConfig;

    #[test]
    fn every_tensor_is_there_and_finite_and_the_seed_decides() {
        let shape = ModelConfig::published("qwen3-0.6b").expect("a published shape");
        let config =
            ModelConfig { hidden_size: 64, intermediate_size: 64, num_hidden_layers: 1, vocab_size: 128, ..shape };
        let weights = Weights::new(&config);
        let [a, same, other] = [3, 3, 4].map(|seed| RandomModel::new(&weights, seed));
        weights.check(&a).expect("as the configuration says");
        assert_eq!(a.bytes() as u64, 2 * RandomModel::parameters(&weights));
        let mut differs = false;
        for spec in weights.specs() {
            let bytes = |model: &RandomModel| model.tensor(&spec.name).expect("there").bytes.to_vec();
            assert_eq!(bytes(&a), bytes(&same));
            differs |= bytes(&a) != bytes(&other);
            for pair in bytes(&a).chunks_exact(2) {
                let value = f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
                assert!(
                    value == 1.0 || (2f32.powi(-6)..2f32.powi(-5)).contains(&value.abs()),
                    "{}: {value}",
                    spec.name
                );
            }
        }
        assert!(differs);
    }
}
