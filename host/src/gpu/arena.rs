//! One block of device memory for all weights: which tensor lies where. Layers lie at equal distances, so that a kernel finds a layer's
//! tensors by its number, and biases of q, k and v one behind the other, so that it reads them as one. Knows no addresses and copies
//! nothing.

use crate::hip::decode::{Heads, WeightPlaces};
use crate::model::ops::TensorId;
use crate::model::weights::{Dtype, Weights};
use crate::quant::Scheme;

/// Each tensor but biases of k and v begins at a multiple of this: a cache line as the driver lists it.
const ALIGN: usize = amdgpu_target::CACHE_LINE_BYTES as usize;
/// Those begin where the one before ends, at a multiple of this: a head has 64 elements at least.
const BIAS_ALIGN: usize = 128;

/// Offsets of all tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arena {
    offsets: Vec<usize>,
    bytes: usize,
    /// What all matrices are stored as, if they are alike.
    scheme: Option<Scheme>,
}

impl Arena {
    /// Tensors in the order of [`Weights::specs`], stored as `schemes` says in the same order; `None` if they do not fit this computer's
    /// addresses, or a scheme does not take the shape.
    pub fn new(weights: &Weights, schemes: &[Scheme]) -> Option<Self> {
        assert_eq!(weights.specs().len(), schemes.len(), "a scheme for each tensor");
        let mut offsets = Vec::with_capacity(weights.specs().len());
        let mut end = 0usize;
        for (index, (spec, scheme)) in weights.specs().iter().zip(schemes).enumerate() {
            let start = end.checked_next_multiple_of(if joined(weights, index) { BIAS_ALIGN } else { ALIGN })?;
            offsets.push(start);
            end = start.checked_add(Dtype::from(*scheme).stored_bytes(&spec.shape).ok()?)?;
        }
        let scheme = weights.one_scheme(schemes).ok();
        Some(Self { offsets, bytes: end.checked_next_multiple_of(ALIGN)?, scheme })
    }

    /// All of it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a tensor begins.
    pub fn offset(&self, id: TensorId) -> usize {
        self.offsets[id.0]
    }

    /// Where decode's kernels find everything; `None` if layers are not at equal distances, q, k, v or their biases not neighbours, or
    /// matrices not stored alike.
    pub fn places(&self, weights: &Weights) -> Option<WeightPlaces> {
        let scheme = self.scheme?;
        let first = weights.layers.first()?;
        let at = |id| self.offset(id);
        let stride = weights.layers.get(1).map_or(0, |second| at(second.input_layernorm) - at(first.input_layernorm));
        // A quantized matrix begins where a line does.
        let size = |id: TensorId| {
            let shape = &weights.spec(id).shape;
            let stored = scheme.of_tensor(shape);
            let bytes = Dtype::from(stored).stored_bytes(shape).ok()?;
            Some(if stored == Scheme::Bf16 { bytes } else { bytes.next_multiple_of(ALIGN) })
        };
        for (index, layer) in weights.layers.iter().enumerate() {
            let moved = |id: TensorId, of_first: TensorId| at(id) == at(of_first) + index * stride;
            let all_moved = |ids: &[TensorId], of_first: &[TensorId]| {
                ids.len() == of_first.len() && ids.iter().zip(of_first).all(|(id, first)| moved(*id, *first))
            };
            let equal = moved(layer.input_layernorm, first.input_layernorm)
                && moved(layer.q_proj, first.q_proj)
                && all_moved(layer.qk_norm.as_slice().as_flattened(), first.qk_norm.as_slice().as_flattened())
                && all_moved(layer.qkv_bias.as_slice().as_flattened(), first.qkv_bias.as_slice().as_flattened())
                && moved(layer.o_proj, first.o_proj)
                && moved(layer.post_attention_layernorm, first.post_attention_layernorm)
                && moved(layer.gate_proj, first.gate_proj)
                && moved(layer.up_proj, first.up_proj)
                && moved(layer.down_proj, first.down_proj);
            let behind = |[q, k, v]: [TensorId; 3]| {
                Some(at(k)) == size(q).map(|q_bytes| at(q) + q_bytes)
                    && Some(at(v)) == size(k).map(|k_bytes| at(k) + k_bytes)
            };
            let neighbours = behind([layer.q_proj, layer.k_proj, layer.v_proj]) && layer.qkv_bias.is_none_or(behind);
            if !equal || !neighbours {
                return None;
            }
        }
        Some(WeightPlaces {
            scheme,
            layer_stride: stride,
            embed: at(weights.embed_tokens),
            input_norm: at(first.input_layernorm),
            qkv: at(first.q_proj),
            heads: match (first.qk_norm, first.qkv_bias) {
                (Some([q, k]), None) => Heads::Normed { q: at(q), k: at(k) },
                (None, bias) => Heads::Rotated { bias: bias.map(|[q, ..]| at(q)) },
                (Some(_), Some(_)) => return None, // no family has both
            },
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

/// Whether this tensor is a bias of k or v: it lies where the one before it ends.
fn joined(weights: &Weights, index: usize) -> bool {
    weights.layers.iter().any(|layer| layer.qkv_bias.is_some_and(|[_, k, v]| [k.0, v.0].contains(&index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::ModelConfig;
    use crate::model::registry::MODELS;

    #[test]
    fn tensors_of_published_models_lie_apart_and_layers_at_equal_distances() {
        for model in MODELS {
            let (name, config) = (model.name, &model.architecture);
            let weights = Weights::new(config);
            let arena = Arena::new(&weights, &vec![Scheme::Bf16; weights.specs().len()]).expect("it fits");
            let places = arena.places(&weights).expect(name);
            let mut end = 0;
            for (index, spec) in weights.specs().iter().enumerate() {
                let at = arena.offset(TensorId(index));
                let joined = spec.name.ends_with("k_proj.bias") || spec.name.ends_with("v_proj.bias");
                let aligned = if joined { at == end } else { at.is_multiple_of(ALIGN) };
                assert!(at >= end && at < end + ALIGN && aligned, "{name}: {}", spec.name);
                end = at + 2 * spec.shape.iter().product::<usize>();
            }
            assert!(arena.bytes() >= end && arena.bytes() < end + ALIGN, "{name}");
            let last = weights.layers.last().expect("a layer");
            let layers = config.num_hidden_layers;
            assert_eq!(places.down + (layers - 1) * places.layer_stride, arena.offset(last.down_proj), "{name}");
        }
    }

    #[test]
    fn quantized_matrices_take_what_their_layout_says_and_stand_where_vectors_do_not() {
        let config = ModelConfig::published("qwen3-0.6b").expect("a published shape");
        let weights = Weights::new(&config);
        let schemes: Vec<Scheme> = (weights.specs().iter())
            .map(|spec| if spec.shape.len() == 2 { Scheme::Int4(32) } else { Scheme::Bf16 })
            .collect();
        let arena = Arena::new(&weights, &schemes).expect("it fits");
        let places = arena.places(&weights).expect("one scheme");
        // q is 2048 × 1024, half a byte each, and an f16 for 32 of them; k lies behind it.
        let k = weights.layers[0].k_proj;
        assert_eq!((places.scheme, arena.offset(k) - places.qkv), (Scheme::Int4(32), 2048 * 1024 / 2 + 2048 * 32 * 2));
        let mut mixed = schemes.clone();
        mixed[weights.lm_head.0] = Scheme::Int8Row;
        assert_eq!(
            Arena::new(&weights, &mixed).expect("it fits").places(&weights),
            None,
            "lm_head is stored otherwise"
        );
        // Half a byte per weight and 2 bytes per 32 of them; norms of 1024 and 128 elements are whole lines.
        let matrices: usize = 151_936 * 1024 + 28 * 1024 * (2048 * 2 + 1024 * 2 + 3072 * 3);
        let norms = (28 * (2 * 1024 + 2 * 128) + 1024) * 2;
        assert_eq!(arena.bytes(), matrices / 2 + matrices / 16 + norms);
    }
}
