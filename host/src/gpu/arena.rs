//! One block of device memory for all weights: which tensor lies where. Layers lie at equal distances, so that a kernel finds a layer's
//! tensors by its number, and biases of q, k and v one behind the other, so that it reads them as one. Where matrices are stored in ways that
//! have no kernels in common, that holds for vectors, and matrices lie behind them. Knows no addresses and copies nothing.

use device_ops::decode::has_own;

use crate::hip::decode::{Heads, LayerPlaces, Matrices, Place, WeightPlaces};
use crate::hip::kernels::stored;
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
    schemes: Vec<Scheme>,
    /// What all matrices are stored as, if they are alike and have resident kernels of their own.
    alike: Option<Scheme>,
}

impl Arena {
    /// Tensors in the order of [`Weights::specs`], stored as `schemes` says in the same order; `None` if they do not fit this computer's
    /// addresses, or a scheme does not take the shape.
    pub fn new(weights: &Weights, schemes: &[Scheme]) -> Option<Self> {
        assert_eq!(weights.specs().len(), schemes.len(), "a scheme for each tensor");
        let alike = weights.one_scheme(schemes).filter(|scheme| has_own(stored(*scheme)));
        let is_matrix = |index: &usize| weights.specs()[*index].shape.len() == 2;
        let mut order: Vec<usize> = (0..schemes.len()).collect();
        if alike.is_none() {
            order.sort_by_key(is_matrix);
        }
        let mut offsets = vec![0; schemes.len()];
        let mut end = 0usize;
        for index in order {
            let start = end.checked_next_multiple_of(if joined(weights, index) { BIAS_ALIGN } else { ALIGN })?;
            offsets[index] = start;
            end = start.checked_add(Dtype::from(schemes[index]).stored_bytes(&weights.specs()[index].shape).ok()?)?;
        }
        Some(Self { offsets, bytes: end.checked_next_multiple_of(ALIGN)?, schemes: schemes.to_vec(), alike })
    }

    /// All of it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a tensor begins.
    pub fn offset(&self, id: TensorId) -> usize {
        self.offsets[id.0]
    }

    /// Where decode's kernels find everything; `None` if what has to lie at equal distances, or side by side, does not.
    pub fn places(&self, weights: &Weights) -> Option<WeightPlaces> {
        let first = weights.layers.first()?;
        let at = |id| self.offset(id);
        let stride = weights.layers.get(1).map_or(0, |second| at(second.input_layernorm) - at(first.input_layernorm));
        // A quantized matrix begins where a line does.
        let size = |id: TensorId| {
            let bytes = Dtype::from(self.schemes[id.0]).stored_bytes(&weights.spec(id).shape).ok()?;
            Some(if self.schemes[id.0] == Scheme::Bf16 { bytes } else { bytes.next_multiple_of(ALIGN) })
        };
        let behind = |[q, k, v]: [TensorId; 3]| {
            Some(at(k)) == size(q).map(|q_bytes| at(q) + q_bytes)
                && Some(at(v)) == size(k).map(|k_bytes| at(k) + k_bytes)
        };
        for (index, layer) in weights.layers.iter().enumerate() {
            let moved = |id: TensorId, of_first: TensorId| at(id) == at(of_first) + index * stride;
            let all_moved = |ids: &[TensorId], of_first: &[TensorId]| {
                ids.len() == of_first.len() && ids.iter().zip(of_first).all(|(id, first)| moved(*id, *first))
            };
            let vectors = moved(layer.input_layernorm, first.input_layernorm)
                && all_moved(layer.qk_norm.as_slice().as_flattened(), first.qk_norm.as_slice().as_flattened())
                && all_moved(layer.qkv_bias.as_slice().as_flattened(), first.qkv_bias.as_slice().as_flattened())
                && moved(layer.post_attention_layernorm, first.post_attention_layernorm)
                && layer.qkv_bias.is_none_or(behind);
            let matrices = self.alike.is_none()
                || moved(layer.q_proj, first.q_proj)
                    && moved(layer.o_proj, first.o_proj)
                    && moved(layer.gate_proj, first.gate_proj)
                    && moved(layer.up_proj, first.up_proj)
                    && moved(layer.down_proj, first.down_proj)
                    && behind([layer.q_proj, layer.k_proj, layer.v_proj]);
            if !vectors || !matrices {
                return None;
            }
        }
        let place = |id: TensorId| Place { offset: at(id), scheme: self.schemes[id.0] };
        let matrices = match self.alike {
            Some(scheme) => Matrices::Alike {
                scheme,
                embed: at(weights.embed_tokens),
                qkv: at(first.q_proj),
                o: at(first.o_proj),
                gate: at(first.gate_proj),
                up: at(first.up_proj),
                down: at(first.down_proj),
                head: at(weights.lm_head),
            },
            None => Matrices::Each {
                embed: place(weights.embed_tokens),
                layers: (weights.layers.iter())
                    .map(|layer| LayerPlaces {
                        qkv: [layer.q_proj, layer.k_proj, layer.v_proj].map(place),
                        o: place(layer.o_proj),
                        gated: [layer.gate_proj, layer.up_proj].map(place),
                        down: place(layer.down_proj),
                    })
                    .collect(),
                head: place(weights.lm_head),
            },
        };
        Some(WeightPlaces {
            matrices,
            layer_stride: stride,
            input_norm: at(first.input_layernorm),
            heads: match (first.qk_norm, first.qkv_bias) {
                (Some([q, k]), None) => Heads::Normed { q: at(q), k: at(k) },
                (None, bias) => Heads::Rotated { bias: bias.map(|[q, ..]| at(q)) },
                (Some(_), Some(_)) => return None, // no family has both
            },
            post_norm: at(first.post_attention_layernorm),
            norm: at(weights.norm),
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
            let Matrices::Alike { scheme: Scheme::Bf16, down, .. } = places.matrices else { panic!("{places:?}") };
            assert_eq!(down + (layers - 1) * places.layer_stride, arena.offset(last.down_proj), "{name}");
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
        let Matrices::Alike { scheme: Scheme::Int4(32), qkv, .. } = places.matrices else { panic!("{places:?}") };
        assert_eq!(arena.offset(k) - qkv, 2048 * 1024 / 2 + 2048 * 32 * 2);
        // Half a byte per weight and 2 bytes per 32 of them; norms of 1024 and 128 elements are whole lines.
        let matrices: usize = 151_936 * 1024 + 28 * 1024 * (2048 * 2 + 1024 * 2 + 3072 * 3);
        let norms = (28 * (2 * 1024 + 2 * 128) + 1024) * 2;
        assert_eq!(arena.bytes(), matrices / 2 + matrices / 16 + norms);
    }

    /// A table says where each matrix is, whatever it is; vectors are found by the layer's number.
    #[test]
    fn matrices_of_several_schemes_lie_behind_the_vectors_and_apart() {
        let config = ModelConfig::published("qwen2.5-0.5b").expect("a published shape");
        let weights = Weights::new(&config);
        let mut schemes = vec![Scheme::Bf16; weights.specs().len()];
        let kept = [Scheme::Int4(32), Scheme::Int8Row, Scheme::Bf16, Scheme::Int4Min(64), Scheme::Int8(32)];
        for (index, spec) in weights.specs().iter().enumerate().filter(|(_, spec)| spec.shape.len() == 2) {
            schemes[index] = kept[index % kept.len()].of_tensor(&spec.shape);
        }
        let arena = Arena::new(&weights, &schemes).expect("it fits");
        let places = arena.places(&weights).expect("places");
        let Matrices::Each { layers, head, .. } = &places.matrices else { panic!("{places:?}") };
        assert_eq!((head.offset, head.scheme), (arena.offset(weights.lm_head), schemes[weights.lm_head.0]));
        for (index, (layer, found)) in weights.layers.iter().zip(layers).enumerate() {
            assert_eq!(arena.offset(layer.input_layernorm), places.input_norm + index * places.layer_stride);
            assert_eq!(arena.offset(layer.post_attention_layernorm), places.post_norm + index * places.layer_stride);
            assert_eq!(found.down, Place { offset: arena.offset(layer.down_proj), scheme: schemes[layer.down_proj.0] });
        }
        let mut all: Vec<[usize; 2]> = (weights.specs().iter().zip(&schemes).enumerate())
            .map(|(index, (spec, scheme))| {
                let at = arena.offset(TensorId(index));
                [at, at + Dtype::from(*scheme).stored_bytes(&spec.shape).expect("a shape it takes")]
            })
            .collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0][1] <= pair[1][0]) && all[all.len() - 1][1] <= arena.bytes());
    }
}
