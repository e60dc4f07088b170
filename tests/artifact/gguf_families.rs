//! GGUF files of the other architectures: biases of qwen2 kept as f32, rows of llama in pairs of the rotation. Compiled they are the folder.

use half::bf16;

use crate::gguf_models::{Written, assert_same_model};
use crate::support::Checkpoint;
use zynfer_tests::gguf_model::{BF16, gguf_name, with_architecture};
use zynfer_tests::gguf_writer::GgufFile;

/// Rows of `[heads, 2, head_dim / 2]` reordered to `[heads, head_dim / 2, 2]`, as files of llama have those of q and k.
pub fn in_pairs(bytes: &[u8], rows: usize, head_dim: usize) -> Vec<u8> {
    let row_bytes = bytes.len() / rows;
    let half = head_dim / 2;
    let mut pairs = Vec::new();
    for head in bytes.chunks_exact(head_dim * row_bytes) {
        let (first, second) = head.split_at(half * row_bytes);
        for (a, b) in first.chunks_exact(row_bytes).zip(second.chunks_exact(row_bytes)) {
            pairs.extend_from_slice(a);
            pairs.extend_from_slice(b);
        }
    }
    pairs
}

#[test]
fn other_architectures_are_their_folders() {
    for (name, family) in [("qwen2-d64", "qwen2"), ("qwen2-d128-untied", "qwen2"), ("llama-d64-untied", "llama")] {
        let checkpoint = Checkpoint::weights_of(name);
        let config = checkpoint.json("config.json");
        let number = |key: &str| config[key].as_u64().unwrap() as usize;
        let head_dim =
            config["head_dim"].as_u64().map_or(number("hidden_size") / number("num_attention_heads"), |d| d as usize);
        let mut file = with_architecture(GgufFile::default(), &config, family);
        let mut biases = 0;
        for (name, shape, bytes) in checkpoint.weights() {
            let dims: Vec<u64> = shape.iter().rev().map(|extent| *extent as u64).collect();
            let rotated = name.contains("q_proj") || name.contains("k_proj");
            let bytes = if family == "llama" && rotated { in_pairs(&bytes, shape[0], head_dim) } else { bytes };
            file = if name.ends_with(".bias") {
                biases += 1;
                let values = bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32());
                file.tensor(&gguf_name(&name), &dims, 0, values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
            } else {
                file.tensor(&gguf_name(&name), &dims, BF16, bytes)
            };
        }
        assert_eq!(biases > 0, family == "qwen2");
        let written = Written::new(checkpoint, &file);
        let artifact = written.compile(false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_same_model(&artifact, &written.checkpoint.open());
        assert_eq!(artifact.directory_json()["model"]["family"], family);
    }
}
