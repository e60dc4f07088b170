//! A checkpoint folder as test data: `config.json` fields and one `model.safetensors` read whole. It trusts its fixtures; refusing
//! bad files is the artifact's work and tested there.

use std::{collections::HashMap, fs, path::Path};

use serde_json::Value;
use zynfer::model::{
    config::ModelConfig,
    weights::{Dtype, TensorSource, TensorView},
};

struct Entry {
    dtype: Dtype,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

/// All tensors of a folder.
pub struct Checkpoint {
    pub config: ModelConfig,
    entries: HashMap<String, Entry>,
    data: Vec<u8>,
}

impl Checkpoint {
    pub fn open(folder: &Path) -> Self {
        let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        let file = fs::read(folder.join("model.safetensors")).unwrap();
        let header_bytes = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let header: serde_json::Map<String, Value> = serde_json::from_slice(&file[8..8 + header_bytes]).unwrap();
        let entry = |value: &Value| Entry {
            dtype: match value["dtype"].as_str() {
                Some("BF16") => Dtype::Bf16,
                Some("F32") => Dtype::F32,
                other => panic!("dtype {other:?} in a fixture"),
            },
            shape: value["shape"].as_array().unwrap().iter().map(size).collect(),
            start: size(&value["data_offsets"][0]),
            end: size(&value["data_offsets"][1]),
        };
        let entries =
            header.iter().filter(|(name, _)| *name != "__metadata__").map(|(n, v)| (n.clone(), entry(v))).collect();
        let data = file[8 + header_bytes..].to_vec();
        Self { config: read_config(&config), entries, data }
    }
}

impl Checkpoint {
    /// A vector as f32.
    pub fn vector(&self, name: &str) -> Vec<f32> {
        let view = self.tensor(name).unwrap();
        assert_eq!(view.dtype, Dtype::Bf16);
        view.bytes.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect()
    }
}

fn size(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn read_config(c: &Value) -> ModelConfig {
    let theta = c["rope_parameters"]["rope_theta"].as_f64().or(c["rope_theta"].as_f64());
    ModelConfig {
        hidden_size: size(&c["hidden_size"]),
        intermediate_size: size(&c["intermediate_size"]),
        num_hidden_layers: size(&c["num_hidden_layers"]),
        num_attention_heads: size(&c["num_attention_heads"]),
        num_key_value_heads: size(&c["num_key_value_heads"]),
        head_dim: size(&c["head_dim"]),
        vocab_size: size(&c["vocab_size"]),
        max_position_embeddings: size(&c["max_position_embeddings"]),
        rms_norm_eps: c["rms_norm_eps"].as_f64().unwrap(),
        rope_theta: theta.unwrap(),
        tie_word_embeddings: c["tie_word_embeddings"].as_bool().unwrap(),
    }
}

impl TensorSource for Checkpoint {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let Entry { dtype, shape, start, end } = self.entries.get(name)?;
        Some(TensorView { dtype: *dtype, shape, bytes: &self.data[*start..*end] })
    }
}
