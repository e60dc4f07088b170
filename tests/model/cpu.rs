//! The `cpu` backend on whole checkpoints: transformers' float32 numbers, an f64 oracle where those do not reach, and the backend's
//! own promises about chunks, cache and threads.

use std::{path::PathBuf, sync::Arc};

use zynfer::{
    artifact::{Artifact, LoadMode},
    cpu::{CpuBackend, CpuOptions},
    engine::{Engine, Flow, NoText, Outcome, Request, SamplingParams},
    model::weights::Weights,
    text::{Detokenizer, Tokenizer},
};
use zynfer_tests::tolerances::logit_close;

use crate::{
    golden::{self, Bar},
    oracle::Oracle,
};

pub const TINY: &str = "tiny-qwen3";
pub const UNTIED: &str = "qwen3-d64-untied";
/// Other families than Qwen3, all with a vocabulary of [`OTHERS_VOCAB`]: biases; biases and heads of 128; neither biases nor norms.
pub const OTHERS: [&str; 3] = ["qwen2-d64", "qwen2-d128-untied", "llama-d64-untied"];
pub const OTHERS_VOCAB: usize = 300;

pub fn fixture(name: &str) -> PathBuf {
    zynfer_tests::fixtures::fixture(name)
}

pub fn artifact(name: &str) -> Artifact {
    Artifact::open(&fixture(name), LoadMode::Mmap).unwrap()
}

pub fn engine(artifact: &Artifact, options: CpuOptions) -> Engine {
    let config = artifact.config();
    let weights = Weights::new(config);
    let backend = CpuBackend::new(config, &weights, Arc::new(artifact.clone()), options).unwrap();
    Engine::new(Box::new(backend), weights, config, artifact.end_ids().iter().copied()).unwrap()
}

/// Ids of the held-out text.
pub fn validation() -> Vec<u32> {
    let bytes = std::fs::read(fixture(TINY).join("validation.u16")).unwrap();
    bytes.as_chunks().0.iter().map(|b| u32::from(u16::from_le_bytes(*b))).collect()
}

fn vector(artifact: &Artifact, name: &str) -> Vec<f32> {
    artifact.tensor(name).unwrap().as_bf16().unwrap().iter().map(|w| w.to_f32()).collect()
}

fn generate(engine: &mut Engine, prompt: &[u32], tokens: i64) -> Outcome {
    let request = Request { prompt: prompt.to_vec(), max_tokens: Some(tokens), ignore_eos: true, ..Default::default() };
    engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap()
}

#[test]
fn tiny_checkpoint_meets_the_float32_reference() {
    let artifact = artifact(TINY);
    let tokenizer = Tokenizer::from_bytes(artifact.tokenizer_json().unwrap()).unwrap();
    let norm = vector(&artifact, "model.norm.weight");
    let mut engine = engine(&artifact, CpuOptions::new(256));
    let (cases, _) = golden::read(&fixture(TINY), artifact.config().vocab_size);
    assert_eq!(cases.len(), 12);
    for case in &cases {
        golden::check_logits(&mut engine, case, Bar::Float32);
        golden::check_hidden(&mut engine, case, &norm, artifact.config().rms_norm_eps);
        assert_eq!(case.greedy.len(), 48);
        let tokens = golden::check_greedy(&mut engine, case, Bar::Float32, |_| unreachable!("float32 is exact"));
        let mut text = Detokenizer::new(&tokenizer, true);
        let shown: String = tokens.iter().map(|id| text.push(*id)).collect();
        assert_eq!(Some(shown + &text.finish()), case.text);
    }
}

fn meets_the_float32_reference(name: &str) {
    let artifact = artifact(name);
    let mut engine = engine(&artifact, CpuOptions::new(256));
    let (cases, _) = golden::read(&fixture(name), artifact.config().vocab_size);
    assert_eq!(cases.iter().map(|c| c.ids.len()).collect::<Vec<_>>(), [1, 2, 17, 64, 129]);
    for case in &cases {
        golden::check_logits(&mut engine, case, Bar::Float32);
        golden::check_greedy(&mut engine, case, Bar::Float32, |_| unreachable!("float32 is exact"));
    }
}

#[test]
fn untied_checkpoint_of_other_shapes_meets_the_float32_reference() {
    meets_the_float32_reference(UNTIED);
}

#[test]
fn checkpoints_of_other_families_meet_the_float32_reference() {
    for name in OTHERS {
        meets_the_float32_reference(name);
    }
}

#[test]
fn perplexity_of_the_validation_windows_is_the_references() {
    let artifact = artifact(TINY);
    let (_, golden) = golden::read(&fixture(TINY), artifact.config().vocab_size);
    let mut engine = engine(&artifact, CpuOptions::new(512));
    golden::check_validation(&mut engine, &validation(), &golden, 16, Bar::Float32);
}

#[test]
fn prompts_across_chunk_block_split_and_table_edges_agree_with_the_oracle() {
    let artifact = artifact(UNTIED);
    let oracle = Oracle::new(&artifact);
    let ids: Vec<u32> = validation().into_iter().map(|id| id % 1000).take(1100).collect();
    for length in [1, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025] {
        // The table is exactly as long as the context, and that as the prompt: its last row is used, and none past it.
        let mut engine = engine(&artifact, CpuOptions { max_chunk: 32, ..CpuOptions::new(length) });
        let logits = engine.last_logits(&ids[..length]).unwrap();
        for (id, (value, exact)) in logits.iter().zip(oracle.last_logits(&ids[..length])).enumerate() {
            assert!(logit_close(*value, exact as f32), "{length} ids: logit {id} is {value}, {exact} expected");
        }
    }
}

#[test]
fn long_prompts_of_other_families_agree_with_the_oracle() {
    for name in OTHERS {
        let artifact = artifact(name);
        let oracle = Oracle::new(&artifact);
        let ids: Vec<u32> = validation().into_iter().map(|id| id % OTHERS_VOCAB as u32).take(513).collect();
        let mut engine = engine(&artifact, CpuOptions { max_chunk: 64, ..CpuOptions::new(513) });
        let logits = engine.last_logits(&ids).unwrap();
        for (id, (value, exact)) in logits.iter().zip(oracle.last_logits(&ids)).enumerate() {
            assert!(logit_close(*value, exact as f32), "{name}: logit {id} is {value}, {exact} expected");
        }
    }
}

#[test]
fn chunks_and_threads_do_not_change_a_bit() {
    let artifact = artifact(TINY);
    let ids = &validation()[..300];
    let mut whole = engine(&artifact, CpuOptions { threads: 1, ..CpuOptions::new(300) });
    let expected = whole.last_logits(ids).unwrap().to_vec();
    for (max_chunk, threads) in [(300, 2), (512, 3), (299, 2), (64, 2), (63, 1), (7, 2), (1, 2)] {
        let options = CpuOptions { max_chunk, threads, ..CpuOptions::new(300) };
        let mut engine = engine(&artifact, options);
        assert!(engine.last_logits(ids).unwrap() == expected, "{options:?}");
    }
}

#[test]
fn a_reused_cache_gives_what_a_fresh_one_gives() {
    let artifact = artifact(TINY);
    let ids = validation();
    let mut used = engine(&artifact, CpuOptions::new(256));
    let first = generate(&mut used, &ids[..40], 10);
    assert_eq!(first.timings.cached_tokens, 0);
    // The next turn: the first prompt, what was generated but for its last token (shown, never evaluated), and more.
    let mut next = [&ids[..40], &first.tokens].concat();
    next.extend(&ids[100..120]);
    // A branch: parts ways in the middle of the first prompt.
    let mut branch = ids[..25].to_vec();
    branch.extend(&ids[200..230]);
    for (prompt, cached) in [(&next, 49), (&branch, 25), (&branch, 54), (&ids[..1].to_vec(), 0)] {
        let again = generate(&mut used, prompt, 12);
        assert_eq!(again.timings.cached_tokens, cached);
        let fresh = generate(&mut engine(&artifact, CpuOptions::new(256)), prompt, 12);
        assert_eq!(again.tokens, fresh.tokens);
        assert_eq!(fresh.timings.cached_tokens, 0);
    }
}

#[test]
fn the_context_binds_and_says_so() {
    let artifact = artifact(TINY);
    let ids = validation();
    let mut engine = engine(&artifact, CpuOptions::new(64));
    let one = generate(&mut engine, &ids[..63], 10);
    assert_eq!((one.tokens.len(), one.finish_reason.name()), (1, "length"));
    // Exactly as many as fit: evaluated, but there is no room for a token.
    assert!(generate(&mut engine, &ids[..64], 0).tokens.is_empty());
    for (length, tokens, room) in [(64, 1, 63), (65, 1, 63), (65, 0, 64)] {
        let request = Request { prompt: ids[..length].to_vec(), max_tokens: Some(tokens), ..Default::default() };
        let error = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap_err().to_string();
        let expected =
            format!("prompt: {length} tokens given, the context of 64 holds {room} beside {tokens} to generate");
        assert_eq!(error, expected);
    }
    assert_eq!(engine.last_logits(&ids[..64]).unwrap().len(), 4096);
    assert!(engine.last_logits(&ids[..65]).is_err());
}

#[test]
fn seeded_sampling_repeats_and_reports_its_seed() {
    let artifact = artifact(TINY);
    let ids = &validation()[..12];
    let mut engine = engine(&artifact, CpuOptions::new(128));
    let mut sample = |seed| {
        let sampling = SamplingParams { temperature: 0.8, top_k: 40, top_p: 0.95, seed, ..Default::default() };
        let request = Request { prompt: ids.to_vec(), max_tokens: Some(24), sampling, ..Default::default() };
        engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap()
    };
    let (a, b, c) = (sample(Some(5)), sample(Some(5)), sample(Some(6)));
    assert_eq!(a.tokens, b.tokens);
    assert_ne!(a.tokens, c.tokens);
    assert_eq!(a.seed, Some(5));
    // What an unseeded run reports repeats it.
    let unseeded = sample(None);
    assert_eq!(sample(unseeded.seed).tokens, unseeded.tokens);
}

#[test]
fn what_cannot_be_loaded_is_refused_with_both_numbers() {
    let artifact = artifact(TINY);
    let weights = Weights::new(artifact.config());
    let refuse = |options: CpuOptions| {
        CpuBackend::new(artifact.config(), &weights, Arc::new(artifact.clone()), options).err().unwrap().to_string()
    };
    assert_eq!(refuse(CpuOptions::new(2049)), "context: 2049 tokens asked for, 1 to 2048 expected");
    assert_eq!(refuse(CpuOptions::new(0)), "context: 0 tokens asked for, 1 to 2048 expected");
    let threads = |threads| refuse(CpuOptions { threads, ..CpuOptions::new(8) });
    assert_eq!(threads(1025), "threads: 1025 asked for, 0 to 1024 expected");
    assert_eq!(threads(usize::MAX), format!("threads: {} asked for, 0 to 1024 expected", usize::MAX));
    let mut other = artifact.config().clone();
    other.intermediate_size = 832;
    let error = CpuBackend::new(&other, &Weights::new(&other), Arc::new(artifact.clone()), CpuOptions::new(8));
    assert_eq!(
        error.err().unwrap().to_string(),
        "tensor model.layers.0.mlp.gate_proj.weight: shape [768, 256] found, [832, 256] expected by the configuration"
    );
    // More cache than any machine has: told before anything is reserved, with a context that fits.
    let mut long = artifact.config().clone();
    long.max_position_embeddings = 1 << 40;
    let error = CpuBackend::new(&long, &weights, Arc::new(artifact.clone()), CpuOptions::new(1 << 40));
    let text = error.err().unwrap().to_string();
    let cache = (1u64 << 40) * 6 * 2 * 128 * 2 * 4;
    assert!(text.contains(&format!("KV cache (f32) for {} tokens {cache} ", 1u64 << 40)), "{text}");
    assert!(text.contains(" free on this computer; a context of ") && text.ends_with(" tokens would fit"), "{text}");
}
