//! A checkpoint as a GGUF file: names, metadata, and blocks of some types encoded by the format's description, the nearest code for each element.
//! It shares nothing with the reader, nor with our encoders.

use half::f16;
use serde_json::Value as Json;

use crate::gguf_writer::GgufFile;

/// GGUF's name of a checkpoint's tensor, from the format's description.
pub fn gguf_name(name: &str) -> String {
    let table = [
        ("model.layers.", "blk."),
        ("model.embed_tokens.", "token_embd."),
        ("model.norm.", "output_norm."),
        ("lm_head.", "output."),
        ("self_attn.q_proj.", "attn_q."),
        ("self_attn.k_proj.", "attn_k."),
        ("self_attn.v_proj.", "attn_v."),
        ("self_attn.o_proj.", "attn_output."),
        ("self_attn.q_norm.", "attn_q_norm."),
        ("self_attn.k_norm.", "attn_k_norm."),
        ("input_layernorm.", "attn_norm."),
        ("post_attention_layernorm.", "ffn_norm."),
        ("mlp.gate_proj.", "ffn_gate."),
        ("mlp.up_proj.", "ffn_up."),
        ("mlp.down_proj.", "ffn_down."),
    ];
    table.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Number of the type BF16.
pub const BF16: u32 = 30;

/// Metadata of a checkpoint's architecture, as the format's converter writes it.
pub fn with_architecture(file: GgufFile, config: &Json, family: &str) -> GgufFile {
    let number = |key: &str| u32::try_from(config[key].as_u64().unwrap()).unwrap();
    let key = |key: &str| format!("{family}.{key}");
    let theta = config["rope_parameters"]["rope_theta"].as_f64().or(config["rope_theta"].as_f64()).unwrap();
    file.text("general.architecture", family)
        .text("general.name", "A model")
        .u32(&key("block_count"), number("num_hidden_layers"))
        .u32(&key("context_length"), number("max_position_embeddings"))
        .u32(&key("embedding_length"), number("hidden_size"))
        .u32(&key("feed_forward_length"), number("intermediate_size"))
        .u32(&key("attention.head_count"), number("num_attention_heads"))
        .u32(&key("attention.head_count_kv"), number("num_key_value_heads"))
        .u32(&key("attention.key_length"), number("head_dim"))
        .u32(&key("attention.value_length"), number("head_dim"))
        .f32(&key("rope.freq_base"), theta as f32)
        .f32(&key("attention.layer_norm_rms_epsilon"), config["rms_norm_eps"].as_f64().unwrap() as f32)
        .u32("general.file_type", 32)
}

/// Types of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// 32 elements: a half, a minimum, 5 bits each.
    Q5_1,
    /// 256 elements in groups of 32: halves of scales and minimums, 6 bits of each by group, 4 bits an element.
    Q4K,
    /// The same with 5 bits an element.
    Q5K,
    /// 256 elements in groups of 16: a half, a signed byte by group, 6 bits an element.
    Q6K,
}

impl Block {
    /// The type's number in a file.
    pub fn number(self) -> u32 {
        match self {
            Self::Q5_1 => 7,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
        }
    }

    /// Rows of elements, whole blocks, encoded.
    pub fn encode(self, elements: &[f32]) -> Vec<u8> {
        match self {
            Self::Q5_1 => elements.as_chunks::<32>().0.iter().flat_map(q5_1).collect(),
            Self::Q4K => elements.as_chunks::<256>().0.iter().flat_map(|block| q45_k(block, 4)).collect(),
            Self::Q5K => elements.as_chunks::<256>().0.iter().flat_map(|block| q45_k(block, 5)).collect(),
            Self::Q6K => elements.as_chunks::<256>().0.iter().flat_map(q6_k).collect(),
        }
    }
}

fn half_of(x: f32) -> (f32, [u8; 2]) {
    let half = f16::from_f32(x);
    (half.to_f32(), half.to_le_bytes())
}

/// The code nearest to `x`, 0 … `most`, in steps of `step` from `from` on.
fn code(x: f32, from: f32, step: f32, most: f32) -> u8 {
    if step == 0.0 { 0 } else { ((x - from) / step).round().clamp(0.0, most) as u8 }
}

fn q5_1(x: &[f32; 32]) -> Vec<u8> {
    let (least, most) = x.iter().fold((f32::MAX, f32::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    let (d, d_bytes) = half_of((most - least) / 31.0);
    let (m, m_bytes) = half_of(least);
    let q = x.map(|x| code(x, m, d, 31.0));
    let high = (0..32).fold(0u32, |bits, i| bits | u32::from(q[i] >> 4) << i);
    let low = (0..16).map(|i| q[i] & 15 | (q[i + 16] & 15) << 4);
    d_bytes.into_iter().chain(m_bytes).chain(high.to_le_bytes()).chain(low).collect()
}

/// Q4_K and Q5_K: value = d · scale · q − dmin · minimum.
fn q45_k(x: &[f32; 256], bits: u32) -> Vec<u8> {
    let top = (1u32 << bits) as f32 - 1.0;
    let groups = x.as_chunks::<32>().0;
    let range = |group: &[f32; 32]| group.iter().fold((0.0f32, 0.0f32), |(a, b), x| (a.min(*x), b.max(*x)));
    let largest = |of: &dyn Fn(&[f32; 32]) -> f32| groups.iter().map(of).fold(0.0, f32::max);
    let (d, d_bytes) = half_of(largest(&|group| (range(group).1 - range(group).0) / top) / 63.0);
    let (dmin, dmin_bytes) = half_of(largest(&|group| -range(group).0) / 63.0);
    let scales: Vec<u8> =
        groups.iter().map(|group| code((range(group).1 - range(group).0) / top, 0.0, d, 63.0)).collect();
    let minimums: Vec<u8> = groups.iter().map(|group| code(-range(group).0, 0.0, dmin, 63.0)).collect();
    // Six bits each: the first four of both whole, of the last four the low halves together and two bits above each of the first.
    let mut packed = [0u8; 12];
    for j in 0..4 {
        packed[j] = scales[j] | (scales[j + 4] >> 4) << 6;
        packed[j + 4] = minimums[j] | (minimums[j + 4] >> 4) << 6;
        packed[j + 8] = scales[j + 4] & 15 | (minimums[j + 4] & 15) << 4;
    }
    let q: Vec<u8> = (0..256)
        .map(|i| {
            let (scale, minimum) = (d * f32::from(scales[i / 32]), dmin * f32::from(minimums[i / 32]));
            code(x[i], -minimum, scale, top)
        })
        .collect();
    let mut bytes = [&d_bytes[..], &dmin_bytes, &packed].concat();
    if bits == 5 {
        // Bit g of byte l is the fifth bit of element l of group g.
        bytes.extend((0..32).map(|l| (0..8).fold(0, |byte, g| byte | (q[32 * g + l] >> 4) << g)));
    }
    // Two groups share 32 bytes: the first in the low halves, the second in the high ones.
    for pair in q.chunks_exact(64) {
        bytes.extend((0..32).map(|l| pair[l] & 15 | (pair[l + 32] & 15) << 4));
    }
    bytes
}

/// Q6_K: value = d · scale · (q − 32).
fn q6_k(x: &[f32; 256]) -> Vec<u8> {
    let of_group = |group: &[f32; 16]| group.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 31.0;
    let groups = x.as_chunks::<16>().0;
    let (d, d_bytes) = half_of(groups.iter().map(of_group).fold(0.0, f32::max) / 127.0);
    let scales: Vec<u8> = groups.iter().map(|group| code(of_group(group), 0.0, d, 127.0)).collect();
    let q: Vec<u8> = (0..256)
        .map(|i| {
            let scale = d * f32::from(scales[i / 16]);
            code(x[i], -32.0 * scale, scale, 63.0)
        })
        .collect();
    let (mut low, mut high) = (Vec::new(), Vec::new());
    // Of 128 elements each byte has two that lie 64 apart, and a byte of high bits four that lie 32 apart.
    for half in q.chunks_exact(128) {
        low.extend((0..64).map(|l| half[l] & 15 | (half[l + 64] & 15) << 4));
        high.extend((0..32).map(|l| (0..4).fold(0, |byte, j| byte | (half[32 * j + l] >> 4) << (2 * j))));
    }
    [&low[..], &high, &scales, &d_bytes].concat()
}
