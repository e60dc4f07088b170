//! One block of device memory for all weights: which tensor lies where. Layers lie at equal distances, so that a kernel finds a layer's
//! tensors by its number. Knows no addresses and copies nothing.

use crate::hip::decode::WeightPlaces;
use crate::model::ops::TensorId;
use crate::model::weights::Weights;

/// Each tensor begins at a multiple of this: a cache line as the driver lists it.
const ALIGN: usize = amdgpu_target::CACHE_LINE_BYTES as usize;

/// Offsets of all tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arena {
    offsets: Vec<usize>,
    bytes: usize,
}

impl Arena {
    /// bf16 tensors in the order of [`Weights::specs`]; `None` if they do not fit this computer's addresses.
    pub fn new(weights: &Weights) -> Option<Self> {
        let mut offsets = Vec::with_capacity(weights.specs().len());
        let mut end = 0usize;
        for spec in weights.specs() {
            let start = end.checked_next_multiple_of(ALIGN)?;
            let bytes = spec.shape.iter().try_fold(2usize, |product, &size| product.checked_mul(size))?;
            offsets.push(start);
            end = start.checked_add(bytes)?;
        }
        Some(Self { offsets, bytes: end.checked_next_multiple_of(ALIGN)? })
    }

    /// All of it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a tensor begins.
    pub fn offset(&self, id: TensorId) -> usize {
        self.offsets[id.0]
    }

    /// Where decode's kernels find everything; `None` if layers are not at equal distances, q, k, v are not neighbours, or heads have no
    /// norms.
    pub fn places(&self, weights: &Weights) -> Option<WeightPlaces> {
        let first = weights.layers.first()?;
        let [q_norm, k_norm] = first.qk_norm?;
        let at = |id| self.offset(id);
        let stride = weights.layers.get(1).map_or(0, |second| at(second.input_layernorm) - at(first.input_layernorm));
        let size = |id: TensorId| 2 * weights.spec(id).shape.iter().product::<usize>();
        for (index, layer) in weights.layers.iter().enumerate() {
            let moved = |id: TensorId, of_first: TensorId| at(id) == at(of_first) + index * stride;
            let equal = moved(layer.input_layernorm, first.input_layernorm)
                && moved(layer.q_proj, first.q_proj)
                && layer.qk_norm.is_some_and(|[q, k]| moved(q, q_norm) && moved(k, k_norm))
                && moved(layer.o_proj, first.o_proj)
                && moved(layer.post_attention_layernorm, first.post_attention_layernorm)
                && moved(layer.gate_proj, first.gate_proj)
                && moved(layer.up_proj, first.up_proj)
                && moved(layer.down_proj, first.down_proj);
            let neighbours = at(layer.k_proj) == at(layer.q_proj) + size(layer.q_proj)
                && at(layer.v_proj) == at(layer.k_proj) + size(layer.k_proj);
            if !equal || !neighbours {
                return None;
            }
        }
        Some(WeightPlaces {
            layer_stride: stride,
            embed: at(weights.embed_tokens),
            input_norm: at(first.input_layernorm),
            qkv: at(first.q_proj),
            q_norm: at(q_norm),
            k_norm: at(k_norm),
            o: at(first.o_proj),
            post_norm: at(first.post_attention_layernorm),
            gate: at(first.gate_proj),
            up: at(first.up_proj),
            down: at(first.down_proj),
            norm: at(weights.norm),
            head: at(weights.lm_head),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::registry::MODELS;

    #[test]
    fn tensors_of_published_models_lie_apart_and_layers_at_equal_distances() {
        for model in MODELS {
            let (name, config) = (model.name, &model.architecture);
            let weights = Weights::new(config);
            let arena = Arena::new(&weights).expect("it fits");
            let places = arena.places(&weights);
            let mut end = 0;
            for (index, spec) in weights.specs().iter().enumerate() {
                let at = arena.offset(TensorId(index));
                assert!(at >= end && at < end + ALIGN && at.is_multiple_of(ALIGN), "{name}: {}", spec.name);
                end = at + 2 * spec.shape.iter().product::<usize>();
            }
            assert!(arena.bytes() >= end && arena.bytes() < end + ALIGN, "{name}");
            // Decode's kernels are for heads with norms.
            assert_eq!(places.is_some(), config.family.qk_norm(), "{name}");
            let Some(places) = places else { continue };
            let last = weights.layers.last().expect("a layer");
            let layers = config.num_hidden_layers;
            assert_eq!(places.down + (layers - 1) * places.layer_stride, arena.offset(last.down_proj), "{name}");
        }
    }
}
