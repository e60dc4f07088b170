//! The families of decoders that are computed here, and all in which they differ: two properties of attention, and the keys their
//! configurations have. Everything else about a model is a number in [`super::config::ModelConfig`].

use serde_json::Value;

/// A family, spelled as `model_type` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Each head of queries and keys is normalised before it is rotated; no biases.
    #[default]
    Qwen3,
    /// Qwen2 and Qwen2.5: biases of queries, keys and values; no norm of heads.
    Qwen2,
    /// The Llama shape, SmolLM2's for one: neither.
    Llama,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Qwen3, Self::Qwen2, Self::Llama];

    /// The family of this `model_type`.
    pub fn named(model_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == model_type)
    }

    /// Its `model_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen2 => "qwen2",
            Self::Llama => "llama",
        }
    }

    /// The class that `architectures` names.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    /// Whether each head of queries and keys has an RMSNorm.
    pub fn qk_norm(self) -> bool {
        self == Self::Qwen3
    }

    /// Whether the projections of queries, keys and values add a bias. No other projection has one.
    pub fn qkv_bias(self) -> bool {
        self == Self::Qwen2
    }

    /// Keys of its configurations that change nothing that is computed.
    pub(super) fn harmless_keys(self) -> &'static [&'static str] {
        match self {
            // What a window would be like, and which layers would have it, were one used.
            Self::Qwen3 | Self::Qwen2 => &["max_window_layers", "sliding_window"],
            // The mark of one conversion, into how many parts training cut its matrices, and settings of a port to JavaScript.
            Self::Llama => &["is_llama_config", "pretraining_tp", "transformers.js_config"],
        }
    }

    /// Keys of its configurations with the one value that changes nothing.
    pub(super) fn neutral_keys(self) -> &'static [(&'static str, Value)] {
        const NO: Value = Value::Bool(false);
        const QWEN3: &[(&str, Value)] = &[("attention_bias", NO), ("mlp_bias", NO), ("use_sliding_window", NO)];
        // Without attention_bias: these biases are there whatever it says.
        const QWEN2: &[(&str, Value)] = &[("use_mrope", NO), ("use_sliding_window", NO)];
        const LLAMA: &[(&str, Value)] = &[("attention_bias", NO), ("mlp_bias", NO), ("rope_interleaved", NO)];
        match self {
            Self::Qwen3 => QWEN3,
            Self::Qwen2 => QWEN2,
            Self::Llama => LLAMA,
        }
    }
}
