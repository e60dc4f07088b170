//! The `cpu` backend on whole checkpoints: transformers' float32 numbers, and its own promises about chunks, caches and threads.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use zynfer::{
    cpu::{CpuBackend, CpuOptions},
    engine::{Engine, Flow},
    model::weights::Weights,
};
use zynfer_tests::tolerances::PERPLEXITY_REL;

use crate::{
    checkpoint::Checkpoint,
    golden::{self, Bar},
};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn tiny() -> Arc<Checkpoint> {
    static TINY: OnceLock<Arc<Checkpoint>> = OnceLock::new();
    TINY.get_or_init(|| Arc::new(Checkpoint::open(&fixture("tiny-qwen3")))).clone()
}

fn engine(checkpoint: &Arc<Checkpoint>, options: CpuOptions) -> Engine {
    let weights = Weights::new(&checkpoint.config);
    let backend = CpuBackend::new(&checkpoint.config, &weights, checkpoint.clone(), options).unwrap();
    Engine::new(Box::new(backend), weights, &checkpoint.config, [4072, 4070]).unwrap()
}

/// Ids of the held-out text.
fn validation() -> Vec<u32> {
    let bytes = std::fs::read(fixture("tiny-qwen3").join("validation.u16")).unwrap();
    bytes.as_chunks().0.iter().map(|b| u32::from(u16::from_le_bytes(*b))).collect()
}

#[test]
fn tiny_checkpoint_meets_the_float32_reference() {
    let checkpoint = tiny();
    let mut engine = engine(&checkpoint, CpuOptions::new(256));
    let (cases, _) = golden::read(&fixture("tiny-qwen3"), checkpoint.config.vocab_size);
    assert_eq!(cases.len(), 12);
    let norm = checkpoint.vector("model.norm.weight");
    for case in &cases {
        golden::check_logits(&mut engine, case, Bar::Float32);
        golden::check_hidden(&mut engine, case, &norm, checkpoint.config.rms_norm_eps);
        assert_eq!(case.greedy.len(), 48);
        golden::check_greedy(&mut engine, case, Bar::Float32, |_| unreachable!("float32 is exact"));
    }
}

#[test]
fn perplexity_of_the_validation_windows_is_the_references() {
    let checkpoint = tiny();
    let (_, golden) = golden::read(&fixture("tiny-qwen3"), checkpoint.config.vocab_size);
    let expected = &golden["val"];
    let (window, windows) =
        (expected["window"].as_u64().unwrap() as usize, expected["windows"].as_u64().unwrap() as usize);
    let mut engine = engine(&checkpoint, CpuOptions::new(window));
    let result = engine.perplexity(&validation(), window, Some(windows), &mut |_| Flow::Continue).unwrap();
    let close = |value: f64, reference: f64| (value - reference).abs() <= PERPLEXITY_REL * reference;
    assert_eq!(result.tokens_scored as u64, expected["tokens_scored"].as_u64().unwrap());
    let reference = expected["per_window_mean_nll"].as_array().unwrap();
    assert_eq!(result.window_mean_nll.len(), reference.len());
    for (index, (value, reference)) in result.window_mean_nll.iter().zip(reference).enumerate() {
        assert!(close(*value, reference.as_f64().unwrap()), "window {index}: {value}, {reference} expected");
    }
    let reference = expected["ppl"].as_f64().unwrap();
    assert!(close(result.perplexity, reference), "perplexity {}, {reference} expected", result.perplexity);
}
