//! Models out of GGUF files whose blocks are kept, on the GPU path: the same artifact as the `cpu` backend runs, of types that have no encoder here
//! and of several types in one file, as files of the kind Q4_K_M are.

use std::fs;

use half::bf16;
use safetensors::SafeTensors;
use zynfer::artifact::{Artifact, LoadMode, compile_quantized};
use zynfer::quant::{Choice, Scheme};
use zynfer_tests::fixtures::read_json;
use zynfer_tests::gguf_model::{BF16, Block, gguf_name, with_architecture};
use zynfer_tests::gguf_writer::GgufFile;
use zynfer_tests::tolerances::cosine;

use crate::cpu;
use crate::golden;
use crate::quantized::{BOTH, compare};

/// tiny-qwen3 with each matrix in the blocks that `block` names, compiled with those kept.
fn kept(block: impl Fn(&str) -> Block) -> Artifact {
    let folder = cpu::fixture(cpu::TINY);
    let bytes = fs::read(folder.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut file = with_architecture(GgufFile::default(), &read_json("tiny-qwen3/config.json"), "qwen3");
    for (name, tensor) in tensors.tensors() {
        let dims: Vec<u64> = tensor.shape().iter().rev().map(|extent| *extent as u64).collect();
        let name = gguf_name(&name);
        file = if dims.len() == 1 {
            file.tensor(&name, &dims, BF16, tensor.data())
        } else {
            let elements = tensor.data().as_chunks::<2>().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32());
            let block = block(&name);
            file.tensor(&name, &dims, block.number(), block.encode(&elements.collect::<Vec<f32>>()))
        };
    }
    let scratch = tempfile::tempdir().unwrap();
    let (source, out) = (scratch.path().join("model.gguf"), scratch.path().join("model.zynfer"));
    fs::write(&source, file.bytes()).unwrap();
    compile_quantized(&source, &out, &Choice::Source.into(), &mut |_, _| {}).unwrap();
    Artifact::open(&out, LoadMode::Mmap).unwrap()
}

/// The layer of a tensor's name in a file.
fn layer(name: &str) -> usize {
    name.split('.').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// As llama.cpp mixes them: most in Q4_K, the embedding and of some layers v and down in Q6_K. What its blocks lose is little: the artifact is still
/// the model.
#[test]
fn a_file_like_q4_k_m_says_what_the_cpu_says() {
    let artifact = kept(|name| {
        let more = name.contains("attn_v") || name.contains("ffn_down");
        if name.contains("token_embd") || more && layer(name).is_multiple_of(2) { Block::Q6K } else { Block::Q4K }
    });
    let scheme = |name: &str| artifact.tensor(name).unwrap().scheme;
    assert_eq!(scheme("model.embed_tokens.weight"), Scheme::Int8K(16));
    assert_eq!(scheme("model.layers.0.mlp.down_proj.weight"), Scheme::Int8K(16));
    assert_eq!(scheme("model.layers.1.mlp.down_proj.weight"), Scheme::Int4MinK(32));
    let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), artifact.config().vocab_size);
    let mut engine = cpu::engine(&artifact, zynfer::cpu::CpuOptions::new(256));
    for case in &cases {
        let found = cosine(engine.last_logits(&case.ids).unwrap(), &case.logits);
        assert!(found > 0.99, "{} ids: cosine {found} with the checkpoint's logits", case.ids.len());
    }
    compare(cpu::TINY, &artifact, &BOTH, "like Q4_K_M");
}

/// Each type alone, all matrices of it: also the resident kernels that read a table.
#[test]
fn each_kept_type_says_what_the_cpu_says() {
    for block in [Block::Q5_1, Block::Q4K, Block::Q5K, Block::Q6K] {
        compare(cpu::TINY, &kept(|_| block), &BOTH, &format!("{block:?}"));
    }
}
