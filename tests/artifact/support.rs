//! Checkpoints to damage: copies of the fixtures in temporary folders, and changes to their files. It asserts nothing but that the
//! changes could be made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use safetensors::{SafeTensors, tensor::TensorView};
use serde_json::Value;
use tempfile::TempDir;
use zynfer::artifact::{Artifact, LoadError, LoadMode, compile};

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A checkpoint in a temporary folder of its own, which may be damaged.
pub struct Checkpoint {
    root: TempDir,
}

impl Checkpoint {
    /// A copy of the small fixture with an lm_head of its own and without tokenizer.
    pub fn untied() -> Self {
        Self::weights_of("qwen3-d64-untied")
    }

    /// A copy of the trained fixture: tied, with tokenizer.
    pub fn tied() -> Self {
        let files =
            ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
        Self::copy_of("tiny-qwen3", &files)
    }

    /// A copy of a fixture without tokenizer.
    pub fn weights_of(name: &str) -> Self {
        Self::copy_of(name, &["config.json", "generation_config.json", "model.safetensors"])
    }

    /// A model of one layer and a hundred kilobytes with tokenizer and template, so that thousands of damaged copies are quick.
    pub fn small() -> Self {
        let checkpoint = Self::untied();
        checkpoint.edit("config.json", |map| {
            for (key, value) in [
                ("hidden_size", 64),
                ("intermediate_size", 64),
                ("num_hidden_layers", 1),
                ("num_attention_heads", 1),
                ("num_key_value_heads", 1),
                ("head_dim", 64),
                ("vocab_size", 3),
            ] {
                map.insert(key.into(), value.into());
            }
            map.insert("layer_types".into(), serde_json::Value::Null);
        });
        let config = zynfer::model::config::CheckpointConfig::from_json(&checkpoint.json("config.json")).unwrap().model;
        checkpoint.edit_weights(|weights| {
            let expected = zynfer::artifact::expected_tensors(&config).into_iter();
            *weights = expected
                .map(|(name, shape)| {
                    let ones = half::bf16::ONE.to_le_bytes().repeat(shape.iter().product());
                    (name, shape, ones)
                })
                .collect();
        });
        checkpoint.write("tokenizer.json", r#"{"added_tokens":[{"id":1,"content":"<e>"}],"model":{"vocab":{}}}"#);
        checkpoint.write("tokenizer_config.json", r#"{"eos_token":"<e>","chat_template":"{{ x }}"}"#);
        checkpoint
    }

    fn copy_of(name: &str, files: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let this = Self { root };
        fs::create_dir(this.folder()).unwrap();
        for file in files {
            fs::copy(fixture(name).join(file), this.path(file)).unwrap();
        }
        this
    }

    /// The model's folder.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join("model")
    }

    /// A file of the model.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// A place beside the model's folder, not in it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Changes a JSON file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
        let mut json = self.json(name);
        change(json.as_object_mut().unwrap());
        self.write(name, json.to_string());
    }

    /// Sets one key of config.json.
    pub fn config(self, key: &str, value: Value) -> Self {
        self.edit("config.json", |map| drop(map.insert(key.to_owned(), value)));
        self
    }

    /// Takes one key out of config.json.
    pub fn without(self, key: &str) -> Self {
        self.edit("config.json", |map| assert!(map.remove(key).is_some(), "{key} is not in config.json"));
        self
    }

    /// The weights: name, shape, bytes, in file order.
    pub fn weights(&self) -> Vec<(String, Vec<usize>, Vec<u8>)> {
        let file = fs::read(self.path("model.safetensors")).unwrap();
        let parsed = SafeTensors::deserialize(&file).unwrap();
        let mut list: Vec<_> =
            parsed.iter().map(|(name, t)| (name.to_owned(), t.shape().to_vec(), t.data().to_vec())).collect();
        list.sort();
        list
    }

    /// Changes the weights and writes them back with the reference implementation of the format.
    pub fn edit_weights(&self, change: impl FnOnce(&mut Vec<(String, Vec<usize>, Vec<u8>)>)) {
        let mut weights = self.weights();
        change(&mut weights);
        self.write("model.safetensors", safetensors_bytes(&weights));
    }

    /// Replaces the single file by `count` shards and their index; gives the shards' names.
    pub fn shard(&self, count: usize) -> Vec<String> {
        let weights = self.weights();
        fs::remove_file(self.path("model.safetensors")).unwrap();
        let names: Vec<String> = (1..=count).map(|n| format!("model-{n:05}-of-{count:05}.safetensors")).collect();
        let mut map = serde_json::Map::new();
        for (shard, name) in names.iter().enumerate() {
            let part: Vec<_> =
                weights.iter().enumerate().filter(|(i, _)| i % count == shard).map(|(_, w)| w.clone()).collect();
            part.iter().for_each(|(tensor, ..)| drop(map.insert(tensor.clone(), name.clone().into())));
            self.write(name, safetensors_bytes(&part));
        }
        let total: usize = weights.iter().map(|(_, _, bytes)| bytes.len()).sum();
        self.write(INDEX, serde_json::json!({"metadata": {"total_size": total}, "weight_map": map}).to_string());
        names
    }

    /// Sets or adds one entry of the index's weight_map.
    pub fn map_weight(&self, tensor: &str, shard: &str) {
        self.edit(INDEX, |index| {
            index["weight_map"].as_object_mut().unwrap().insert(tensor.to_owned(), shard.into());
        });
    }

    /// Opening must fail, as a folder and when compiled; the message without the temporary folder's path.
    pub fn refusal(&self) -> String {
        let message =
            self.text_of(Artifact::open(&self.folder(), LoadMode::Mmap).err().expect("the folder was accepted"));
        let out = self.beside("refused.zynfer");
        let compiled = self.text_of(compile(&self.folder(), &out, &mut |_, _| {}).expect_err("compiling accepted it"));
        assert_eq!(message, compiled);
        self.assert_nothing_left(&out);
        message
    }

    pub fn open(&self) -> Artifact {
        Artifact::open(&self.folder(), LoadMode::Mmap).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Compiles to a file beside the folder.
    pub fn compiled(&self, name: &str) -> PathBuf {
        let out = self.beside(name);
        compile(&self.folder(), &out, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
        out
    }

    /// An error as the user reads it, one line, without the temporary folder's path.
    pub fn text_of(&self, error: LoadError) -> String {
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
        text.replace(&format!("{}/", self.root.path().display()), "")
    }

    /// Neither `out` nor a temporary file of it exists.
    pub fn assert_nothing_left(&self, out: &Path) {
        assert!(!out.exists(), "{} was left behind", out.display());
        let left: Vec<_> = fs::read_dir(out.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().contains("partial")), "{left:?}");
    }
}

pub const INDEX: &str = "model.safetensors.index.json";

/// A safetensors file of bf16 tensors as the reference implementation writes it.
pub fn safetensors_bytes(weights: &[(String, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let views = weights.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(safetensors::Dtype::BF16, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

/// A safetensors file from a header as text and the data, with no rule of the format obeyed.
pub fn raw_safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// The message must be exactly this.
#[track_caller]
pub fn assert_message(found: &str, expected: &str) {
    assert_eq!(found, expected, "\n   found: {found}\nexpected: {expected}\n");
}
