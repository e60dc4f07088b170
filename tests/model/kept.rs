//! Models out of GGUF files whose blocks are kept, on the GPU path: the same artifact as the `cpu` backend runs, of types that have no encoder here
//! and of several types in one file, as files of the kind Q4_K_M are.

use std::fs;

use half::bf16;
use safetensors::SafeTensors;
use serde_json::Value as Json;
use zynfer::artifact::{Artifact, LoadMode, compile_quantized};
use zynfer::cpu::CpuOptions;
use zynfer::engine::Engine;
use zynfer::gpu::{self, Options};
use zynfer::hip::decode::DecodePlan;
use zynfer::model::config::ModelConfig;
use zynfer::model::random::RandomModel;
use zynfer::model::weights::{TensorSource, Weights};
use zynfer::quant::{Choice, Scheme};
use zynfer_tests::fixtures::read_json;
use zynfer_tests::gguf_model::{BF16, Block, gguf_name, with_architecture};
use zynfer_tests::gguf_writer::GgufFile;
use zynfer_tests::tolerances::{GPU_LOGIT_COSINE, cosine};

use crate::cpu;
use crate::golden;
use crate::quantized::{BOTH, compare, kinds, last_logits};

/// tiny-qwen3 with each matrix in the blocks that `block` names, compiled with those kept.
fn kept(block: impl Fn(&str) -> Block) -> Artifact {
    let bytes = fs::read(cpu::fixture(cpu::TINY).join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensors =
        tensors.tensors().into_iter().map(|(name, tensor)| (name, tensor.shape().to_vec(), tensor.data().to_vec()));
    in_blocks(&read_json("tiny-qwen3/config.json"), tensors, block)
}

/// Tensors of bf16 as an artifact whose matrices are kept blocks.
fn in_blocks(
    config: &Json,
    tensors: impl Iterator<Item = (String, Vec<usize>, Vec<u8>)>,
    block: impl Fn(&str) -> Block,
) -> Artifact {
    let mut file = with_architecture(GgufFile::default(), config, "qwen3");
    for (name, shape, bytes) in tensors {
        let dims: Vec<u64> = shape.iter().rev().map(|extent| *extent as u64).collect();
        let name = gguf_name(&name);
        file = if dims.len() == 1 {
            file.tensor(&name, &dims, BF16, bytes)
        } else {
            let elements = bytes.as_chunks::<2>().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32());
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
    assert_still_the_model(&artifact);
    compare(cpu::TINY, &artifact, &BOTH, "like Q4_K_M");
}

/// What the blocks lose is little: against transformers' logits of the checkpoint.
fn assert_still_the_model(artifact: &Artifact) {
    let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), artifact.config().vocab_size);
    let mut engine = cpu::engine(artifact, CpuOptions::new(256));
    for case in &cases {
        let found = cosine(engine.last_logits(&case.ids).unwrap(), &case.logits);
        assert!(found > 0.99, "{} ids: cosine {found} with the checkpoint's logits", case.ids.len());
    }
}

/// Each type alone, all matrices of it: also the resident kernels that read a table.
#[test]
fn each_kept_type_says_what_the_cpu_says() {
    for block in [Block::Q5_1, Block::Q4K, Block::Q5K, Block::Q6K] {
        let artifact = kept(|_| block);
        assert_still_the_model(&artifact);
        compare(cpu::TINY, &artifact, &BOTH, &format!("{block:?}"));
    }
}

/// Rows of several steps of a wave, and on many workgroups of waves that share one: scales of two levels behind the first step.
#[test]
fn rows_longer_than_a_step_have_their_scales() {
    let config = ModelConfig {
        hidden_size: 1280,
        intermediate_size: 2304,
        num_hidden_layers: 1,
        num_attention_heads: 10,
        num_key_value_heads: 2,
        vocab_size: 96,
        max_position_embeddings: 64,
        tie_word_embeddings: true,
        ..ModelConfig::published("qwen3-0.6b").expect("a published shape")
    };
    let json = serde_json::json!({
        "num_hidden_layers": 1, "max_position_embeddings": 64, "hidden_size": 1280, "intermediate_size": 2304,
        "num_attention_heads": 10, "num_key_value_heads": 2, "head_dim": 128, "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_norm_eps,
    });
    let weights = Weights::new(&config);
    let random = RandomModel::new(&weights, 5);
    let all = [Block::Q4K, Block::Q6K, Block::Q5K, Block::Q5_1];
    for shift in 0..all.len() {
        let tensors = weights.specs().iter().map(|spec| {
            let tensor = random.tensor(&spec.name).unwrap();
            (spec.name.clone(), spec.shape.clone(), tensor.bytes.to_vec())
        });
        // Each class of matrices meets each type.
        let number = |name: &str| weights.specs().iter().position(|spec| gguf_name(&spec.name) == name).unwrap();
        let artifact = in_blocks(&json, tensors, |name| all[(number(name) + shift) % all.len()]);
        let prompt = [5, 90, 17, 33];
        let expected = cpu::engine(&artifact, CpuOptions::new(64)).last_logits(&prompt).unwrap().to_vec();
        for (kind, workgroups) in kinds().into_iter().flat_map(|kind| [3, 64].map(|workgroups| (kind, workgroups))) {
            let plan = Some(DecodePlan::Persistent);
            let options = Options { decode: plan, workgroups: Some(workgroups), ..Options::new(64).unwrap() };
            let opened = gpu::open(kind, "auto", &config, &weights, &artifact, &options).unwrap();
            let mut engine = Engine::new(opened.ops, weights.clone(), &config, []).unwrap();
            let found = cosine(&last_logits(&mut engine, plan, &prompt), &expected);
            assert!(
                found >= GPU_LOGIT_COSINE,
                "{}, {workgroups} workgroups, shift {shift}: cosine {found}",
                kind.name()
            );
        }
    }
}
