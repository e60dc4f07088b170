//! Damaged GGUF files: a whole small model, with a few bytes changed where its header stands, its counts and lengths most of all.

#[path = "../../fuzz/gguf.rs"]
mod target;

use zynfer_tests::gguf_writer::GgufFile;
use zynfer_tests::random::Random;

use super::{EDGES, seeds};

/// One layer of 64, tensors of several types, and a tokenizer of the 256 bytes.
fn model() -> Vec<u8> {
    // The characters of bytes: printable Latin-1 stands for itself, the rest is counted on from U+0100.
    let printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..256).filter(|byte| !printable(*byte)).zip(0x100..).map(|(_, code)| code);
    let mut tokens: Vec<String> = (0..256)
        .filter(|byte| printable(*byte))
        .chain(others)
        .map(|c| char::from_u32(c).unwrap().to_string())
        .collect();
    tokens.push("th".into());
    tokens.push("<|im_end|>".into());
    let mut types = vec![1; 257];
    types.push(3);
    types.push(5);
    tokens.push("[PAD]".into());
    let rows = tokens.len() as u64;
    let ones = |count: usize| 1f32.to_le_bytes().repeat(count);
    let (q8, q4) = ([0x00, 0x20].into_iter().chain([7; 32]), [0x00, 0x20, 0, 0].into_iter().chain([0x53; 16]));
    let q8 = |blocks| q8.clone().collect::<Vec<u8>>().repeat(blocks);
    let q4 = |blocks| q4.clone().collect::<Vec<u8>>().repeat(blocks);
    let mut file = GgufFile::default()
        .text("general.architecture", "qwen3")
        .u32("general.alignment", 32)
        .u32("qwen3.block_count", 1)
        .u32("qwen3.context_length", 128)
        .u32("qwen3.embedding_length", 64)
        .u32("qwen3.feed_forward_length", 256)
        .u32("qwen3.attention.head_count", 1)
        .u32("qwen3.attention.head_count_kv", 1)
        .u32("qwen3.attention.key_length", 64)
        .f32("qwen3.rope.freq_base", 1e6)
        .f32("qwen3.attention.layer_norm_rms_epsilon", 1e-6)
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "qwen2")
        .texts("tokenizer.ggml.tokens", tokens.iter().map(String::as_str))
        .i32s("tokenizer.ggml.token_type", &types)
        .texts("tokenizer.ggml.merges", ["t h"].into_iter())
        .u32("tokenizer.ggml.eos_token_id", 257)
        .text("tokenizer.chat_template", "{{ messages }}")
        .tensor("token_embd.weight", &[64, rows], 8, q8(2 * rows as usize))
        .tensor("output_norm.weight", &[64], 0, ones(64));
    for name in ["attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"] {
        file = file.tensor(&format!("blk.0.{name}.weight"), &[64], 0, ones(64));
    }
    for name in ["attn_q", "attn_k", "attn_v"] {
        file = file.tensor(&format!("blk.0.{name}.weight"), &[64, 64], 3, q4(128));
    }
    // Q4_K, which has scales of two levels, needs rows of 256.
    let q4_k = [0x00, 0x20, 0x00, 0x1c].into_iter().chain([0x55; 12]).chain([0x53; 128]).collect::<Vec<u8>>();
    file.tensor("blk.0.attn_output.weight", &[64, 64], 1, [0, 0x3c].repeat(4096))
        .tensor("blk.0.ffn_gate.weight", &[64, 256], 3, q4(512))
        .tensor("blk.0.ffn_up.weight", &[64, 256], 3, q4(512))
        .tensor("blk.0.ffn_down.weight", &[256, 64], 12, q4_k.repeat(64))
        .bytes()
}

fn damage(random: &mut Random, good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..1 + random.below(3) {
        let at = match random.below(4) {
            0 => random.below(24),
            1 => random.below(900),
            2 => random.below(bytes.len()),
            // The list of tensors, which lies behind the vocabulary.
            _ => 4600 + random.below(1200),
        };
        let value = match random.below(3) {
            0 => random.one_of(EDGES),
            1 => random.one_of(EDGES).wrapping_neg(),
            _ => random.wide(),
        };
        let width = random.one_of(&[1, 1, 1, 2, 4, 8]);
        let at = at.min(bytes.len() - width);
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
    if random.one_in(12) {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}

#[test]
fn the_undamaged_file_compiles() {
    assert_eq!(target::gguf(&model()), target::Read { tensors: 13, compiled: true });
}

#[test]
fn damaged_gguf_files_end_in_artifacts_or_errors() {
    let good = model();
    seeds("GGUF files", 3_000, |random| damage(random, &good), target::gguf, 20, |read| read.tensors > 0);
}
