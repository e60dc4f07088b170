//! Which tensors a checkpoint has, under its own names, and what shape each must have. Holds no bytes and no dtype rules
//! beyond their names: a [`TensorSource`] (artifact or folder) holds the bytes, a backend decides what it accepts.

use super::{config::ModelConfig, ops::TensorId};
use crate::{artifact, quant};

/// Element type of a stored tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// bfloat16, two bytes.
    Bf16,
    /// IEEE half, two bytes.
    F16,
    /// IEEE single, four bytes.
    F32,
    /// A matrix of this scheme, one object with its scales ([`quant::Scheme::layout`]).
    Quantized(quant::Scheme),
}

impl Dtype {
    /// Bytes of a tensor of this shape.
    ///
    /// # Errors
    /// A shape that a quantized tensor cannot have, or of more bytes than can be counted.
    pub fn stored_bytes(self, shape: &[usize]) -> Result<usize, quant::SchemeError> {
        let each = match self {
            Self::Bf16 | Self::F16 => 2usize,
            Self::F32 => 4,
            Self::Quantized(scheme) => return Ok(scheme.layout(shape)?.bytes),
        };
        let bytes = shape.iter().try_fold(each, |product, &size| product.checked_mul(size));
        bytes.ok_or_else(|| quant::SchemeError::Shape { scheme: quant::Scheme::Bf16, shape: shape.to_vec() })
    }

    /// The name configurations and messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Quantized(scheme) => scheme.word(),
        }
    }
}

impl From<quant::Scheme> for Dtype {
    fn from(scheme: quant::Scheme) -> Self {
        if scheme == quant::Scheme::Bf16 { Self::Bf16 } else { Self::Quantized(scheme) }
    }
}

/// One tensor as stored: row-major, little-endian, `bytes.len() = dtype.stored_bytes(shape)`.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: Dtype,
    /// Outermost dimension first.
    pub shape: &'a [usize],
    /// The elements, wherever the source keeps them (usually a mapped file).
    pub bytes: &'a [u8],
}

/// Where tensors come from. A backend that reads weights in place keeps the source alive and asks again by name.
pub trait TensorSource: Send + Sync {
    /// The tensor of this checkpoint name, or `None` where there is none.
    fn tensor(&self, name: &str) -> Option<TensorView<'_>>;
}

impl TensorSource for artifact::Artifact {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let tensor = artifact::Artifact::tensor(self, name)?;
        Some(TensorView { dtype: tensor.scheme.into(), shape: tensor.shape, bytes: tensor.bytes })
    }
}

/// Name and required shape of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// As in the checkpoint, for example `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// `[N, K]` of a projection, `[N]` of its bias, `[H]` of a norm.
    pub shape: Vec<usize>,
}

/// A tensor that is missing or is not what the configuration says.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WeightError {
    /// The source has no tensor of this name.
    #[error("tensor {name}: missing, shape {expected:?} expected")]
    Missing {
        /// Checkpoint name.
        name: String,
        /// Shape the configuration asks for.
        expected: Vec<usize>,
    },
    /// The stored shape contradicts the configuration.
    #[error("tensor {name}: shape {found:?} found, {expected:?} expected by the configuration")]
    Shape {
        /// Checkpoint name.
        name: String,
        /// Stored shape.
        found: Vec<usize>,
        /// Shape the configuration asks for.
        expected: Vec<usize>,
    },
    /// The scheme cannot have this shape.
    #[error("tensor {name}: {error}")]
    Scheme {
        /// Checkpoint name.
        name: String,
        /// Why not.
        error: quant::SchemeError,
    },
    /// The byte count contradicts shape and dtype.
    #[error("tensor {name}: {found} bytes found, {expected} expected for {dtype} {shape:?}")]
    Bytes {
        /// Checkpoint name.
        name: String,
        /// Stored dtype.
        dtype: &'static str,
        /// Stored shape.
        shape: Vec<usize>,
        /// Bytes stored.
        found: usize,
        /// Bytes that dtype and shape need.
        expected: usize,
    },
}

/// Weights of one decoder layer, in the order a token meets them.
#[derive(Debug, Clone, Copy)]
pub struct LayerWeights {
    /// RMSNorm before attention, `[H]`.
    pub input_layernorm: TensorId,
    /// `[Q, H]`.
    pub q_proj: TensorId,
    /// `[K, H]`.
    pub k_proj: TensorId,
    /// `[K, H]`.
    pub v_proj: TensorId,
    /// Biases of the three, `[Q]`, `[K]` and `[K]`, in families that have them.
    pub qkv_bias: Option<[TensorId; 3]>,
    /// RMSNorm of each query head and of each key head, `[head_dim]` each, in families that have them.
    pub qk_norm: Option<[TensorId; 2]>,
    /// `[H, Q]`.
    pub o_proj: TensorId,
    /// RMSNorm before the MLP, `[H]`.
    pub post_attention_layernorm: TensorId,
    /// `[I, H]`.
    pub gate_proj: TensorId,
    /// `[I, H]`.
    pub up_proj: TensorId,
    /// `[H, I]`.
    pub down_proj: TensorId,
}

/// All weights of a model. [`TensorId`] indexes [`Weights::specs`], which is in order of first use.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Embedding `[V, H]`.
    pub embed_tokens: TensorId,
    /// One entry per decoder layer.
    pub layers: Vec<LayerWeights>,
    /// Final RMSNorm `[H]`.
    pub norm: TensorId,
    /// Output projection `[V, H]`; equals `embed_tokens` when tied.
    pub lm_head: TensorId,
    specs: Vec<TensorSpec>,
}

impl Weights {
    /// The tensors a model of this configuration has. Looks at no bytes; [`Weights::check`] does.
    pub fn new(config: &ModelConfig) -> Self {
        let (h, i, v) = (config.hidden_size, config.intermediate_size, config.vocab_size);
        let (q, k, d) = (config.q_size(), config.kv_size(), config.head_dim);
        let mut specs = Vec::with_capacity(3 + 12 * config.num_hidden_layers);
        let mut add = |name: String, shape: &[usize]| {
            specs.push(TensorSpec { name, shape: shape.to_vec() });
            TensorId(specs.len() - 1)
        };
        let embed_tokens = add("model.embed_tokens.weight".into(), &[v, h]);
        let layers = (0..config.num_hidden_layers)
            .map(|layer| {
                let mut at = |part: &str, shape: &[usize]| add(format!("model.layers.{layer}.{part}"), shape);
                LayerWeights {
                    input_layernorm: at("input_layernorm.weight", &[h]),
                    q_proj: at("self_attn.q_proj.weight", &[q, h]),
                    k_proj: at("self_attn.k_proj.weight", &[k, h]),
                    v_proj: at("self_attn.v_proj.weight", &[k, h]),
                    // Behind all three matrices: decode reads those as one.
                    qkv_bias: config.family.qkv_bias().then(|| {
                        [("q_proj", q), ("k_proj", k), ("v_proj", k)]
                            .map(|(part, rows)| at(&format!("self_attn.{part}.bias"), &[rows]))
                    }),
                    qk_norm: (config.family.qk_norm())
                        .then(|| ["q_norm", "k_norm"].map(|part| at(&format!("self_attn.{part}.weight"), &[d]))),
                    o_proj: at("self_attn.o_proj.weight", &[h, q]),
                    post_attention_layernorm: at("post_attention_layernorm.weight", &[h]),
                    gate_proj: at("mlp.gate_proj.weight", &[i, h]),
                    up_proj: at("mlp.up_proj.weight", &[i, h]),
                    down_proj: at("mlp.down_proj.weight", &[h, i]),
                }
            })
            .collect();
        let norm = add("model.norm.weight".into(), &[h]);
        let lm_head = if config.tie_word_embeddings { embed_tokens } else { add("lm_head.weight".into(), &[v, h]) };
        Self { embed_tokens, layers, norm, lm_head, specs }
    }

    /// Name and shape of every tensor; a [`TensorId`] is an index into it.
    pub fn specs(&self) -> &[TensorSpec] {
        &self.specs
    }

    /// Name and shape of one tensor.
    pub fn spec(&self, id: TensorId) -> &TensorSpec {
        &self.specs[id.0]
    }

    /// Checks that `source` has every tensor with the right shape and as many bytes as shape and dtype need.
    pub fn check(&self, source: &dyn TensorSource) -> Result<(), WeightError> {
        for TensorSpec { name, shape } in &self.specs {
            let name = name.clone();
            let Some(tensor) = source.tensor(&name) else {
                return Err(WeightError::Missing { name, expected: shape.clone() });
            };
            if tensor.shape != shape.as_slice() {
                return Err(WeightError::Shape { name, found: tensor.shape.to_vec(), expected: shape.clone() });
            }
            let expected =
                tensor.dtype.stored_bytes(shape).map_err(|error| WeightError::Scheme { name: name.clone(), error })?;
            if tensor.bytes.len() != expected {
                let (dtype, found) = (tensor.dtype.name(), tensor.bytes.len());
                return Err(WeightError::Bytes { name, dtype, shape: shape.clone(), found, expected });
            }
        }
        Ok(())
    }

    /// What all matrices are stored as, if they are alike, where `schemes` has the scheme of each of [`Weights::specs`].
    pub fn one_scheme(&self, schemes: &[quant::Scheme]) -> Option<quant::Scheme> {
        let mut matrices = self.specs.iter().zip(schemes).filter(|(spec, _)| spec.shape.len() == 2);
        let first = matrices.next().map_or(quant::Scheme::Bf16, |(_, scheme)| *scheme);
        matrices.all(|(_, scheme)| *scheme == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::family::Family;

    fn config(tied: bool) -> ModelConfig {
        ModelConfig {
            family: Family::Qwen3,
            hidden_size: 64,
            intermediate_size: 192,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 128,
            vocab_size: 10,
            max_position_embeddings: 32,
            rms_norm_eps: 1e-6,
            rope_theta: 1e6,
            tie_word_embeddings: tied,
        }
    }

    struct One(&'static str, Vec<usize>, Vec<u8>);
    impl TensorSource for One {
        fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
            (name == self.0).then_some(TensorView { dtype: Dtype::Bf16, shape: &self.1, bytes: &self.2 })
        }
    }

    #[test]
    fn head_dim_is_explicit_and_not_hidden_over_heads() {
        let w = Weights::new(&config(true));
        assert_eq!(w.spec(w.layers[1].q_proj).shape, [512, 64]);
        assert_eq!(w.spec(w.layers[1].k_proj).shape, [256, 64]);
        assert_eq!(w.spec(w.layers[1].o_proj).shape, [64, 512]);
        assert_eq!(w.spec(w.layers[1].q_proj).name, "model.layers.1.self_attn.q_proj.weight");
    }

    #[test]
    fn tied_lm_head_is_the_embedding_and_untied_its_own_tensor() {
        let (tied, untied) = (Weights::new(&config(true)), Weights::new(&config(false)));
        assert_eq!(tied.lm_head, tied.embed_tokens);
        assert_eq!(untied.spec(untied.lm_head).name, "lm_head.weight");
        assert_eq!(untied.specs().len(), tied.specs().len() + 1);
    }

    #[test]
    fn families_differ_in_norms_of_heads_and_biases() {
        let between = |family| {
            let weights = Weights::new(&ModelConfig { family, ..config(true) });
            let layer = weights.layers[1];
            let names = weights.specs()[layer.v_proj.0 + 1..layer.o_proj.0].iter();
            names.map(|spec| (spec.name["model.layers.1.self_attn.".len()..].to_owned(), spec.shape[0])).collect()
        };
        let named = |list: &[(&str, usize)]| list.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
        let cases: [(Family, Vec<(String, usize)>); 3] = [
            (Family::Qwen3, named(&[("q_norm.weight", 128), ("k_norm.weight", 128)])),
            (Family::Qwen2, named(&[("q_proj.bias", 512), ("k_proj.bias", 256), ("v_proj.bias", 256)])),
            (Family::Llama, Vec::new()),
        ];
        for (family, expected) in cases {
            let found: Vec<(String, usize)> = between(family);
            assert_eq!(found, expected, "{family:?}");
        }
    }

    #[test]
    fn refusals_name_the_tensor_and_both_sides() {
        let w = Weights::new(&config(true));
        let name = "model.embed_tokens.weight";
        let text =
            |shape: &[usize], bytes| w.check(&One(name, shape.to_vec(), vec![0; bytes])).unwrap_err().to_string();
        assert_eq!(
            text(&[10, 63], 1260),
            format!("tensor {name}: shape [10, 63] found, [10, 64] expected by the configuration")
        );
        assert_eq!(text(&[10, 64], 1279), format!("tensor {name}: 1279 bytes found, 1280 expected for bf16 [10, 64]"));
        assert_eq!(text(&[10, 64], 1280), "tensor model.layers.0.input_layernorm.weight: missing, shape [64] expected");
    }
}
