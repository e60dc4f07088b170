//! A published GGUF file from end to end: its blocks as the `gguf` package decodes them, its prompts' ids as llama.cpp has them, its greedy
//! tokens as `transformers` and llama.cpp have them, on the CPU and on the emulator. Needs the fetched file, so `./x test --all` alone builds
//! it (feature `long`).

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use zynfer::{
    artifact::{
        Artifact, LoadMode, compile, compile_quantized,
        gguf::{Gguf, refusals},
    },
    cpu::{CpuBackend, CpuOptions},
    engine::{Engine, Flow, NoText, Request},
    gpu::{self, GpuKind, Options},
    model::weights::Weights,
    quant::{Choice, Recipe, Scheme},
    text::{Special, Tokenizer},
};
use zynfer_tests::{
    fixtures::{read_json, smollm2},
    tolerances::GPU_TOP1_GAP,
};

/// `transformers` with the same bf16 weights: both compute in float32 and only add in another order, so its choice is ours but in a tie.
const SAME_WEIGHTS_GAP: f64 = 0.001;
/// `transformers` with the file's weights: rounding them to bf16 moves a lead by 0.019 rms, by 0.065 at most in 234 steps (README.md beside
/// the fixtures).
const EXACT_GAP: f64 = 0.07;
/// llama.cpp rounds activations to 8 bits, which moves a lead by 0.15 rms.
const LLAMA_CPP_GAP: f64 = 0.15;
/// Prompt and step where llama.cpp leads by more with a token that the exact product puts behind: 8-bit activations turn it (README.md).
const LLAMA_CPP_TURNS: &[(usize, usize)] = &[(0, 5)];
/// Prompts that the emulator goes through: the one with that step, and the one without a gap below [`LLAMA_CPP_GAP`].
const EMULATED: [usize; 2] = [0, 5];

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// The steps at which greedy decoding chooses another token than `expected`; each goes on from the expected tokens, so all are judged.
fn other_choices(engine: &mut Engine, prompt: &[u32], expected: &[u32]) -> Vec<usize> {
    let (mut others, mut step) = (Vec::new(), 0);
    while step < expected.len() {
        let request = Request {
            prompt: [prompt, &expected[..step]].concat(),
            max_tokens: Some((expected.len() - step) as i64),
            ignore_eos: true,
            ..Default::default()
        };
        let tokens = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).expect("generates").tokens;
        assert_eq!(tokens.len(), expected.len() - step);
        let equal = tokens.iter().zip(&expected[step..]).take_while(|(a, b)| a == b).count();
        step += equal;
        if step < expected.len() {
            others.push(step);
        }
        step += 1;
    }
    others
}

#[test]
fn tensors_decode_to_the_bits_of_the_gguf_package() {
    let gguf = Gguf::open(&smollm2(), LoadMode::Mmap).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(gguf.tensors().count(), 272);
    let golden = read_json("smollm2/tensors.json");
    let golden = golden.as_object().expect("an object");
    let mut found = 0;
    for (file, tensor) in gguf.tensors() {
        let Some(expected) = golden.get(&tensor.name) else { continue };
        assert_eq!(expected[0], tensor.kind.name(), "{}", tensor.name);
        let mut values = vec![0f32; tensor.shape.iter().product()];
        tensor.kind.decoder().expect("a type that is read")(gguf.bytes((file, tensor)), &mut values);
        let mut hasher = Sha256::new();
        values.iter().for_each(|value| hasher.update(value.to_le_bytes()));
        let hash: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(expected[1], hash, "{}", tensor.name);
        found += 1;
    }
    assert_eq!(found, golden.len());
}

/// One of the recorded prompts.
struct Example {
    number: usize,
    text: String,
    prompt: Vec<u32>,
    /// llama.cpp's.
    golden: Value,
    /// transformers'.
    exact: Value,
}

/// The recorded prompts, whose ids are llama.cpp's and the tokenizer's of the artifact.
fn examples(artifact: &Artifact) -> Vec<Example> {
    let tokenizer = Tokenizer::from_bytes(artifact.tokenizer_json().expect("a tokenizer")).expect("byte-level BPE");
    let (golden, reference) = (read_json("smollm2/golden.json"), read_json("smollm2/reference.json"));
    let (golden, reference) = (golden.as_array().expect("examples"), reference.as_array().expect("examples"));
    assert_eq!((golden.len(), reference.len()), (10, 10));
    assert!(golden[0]["text"].as_str().expect("a text").starts_with(" Paris"));
    let pairs = golden.iter().cloned().zip(reference.iter().cloned()).enumerate();
    let example = |(number, (golden, exact)): (usize, (Value, Value))| {
        let text = golden["prompt"].as_str().expect("a prompt").to_string();
        assert_eq!(exact["prompt"], text);
        let prompt = tokenizer.encode(&text, Special::Parse).expect("encodes");
        assert_eq!(prompt, ids(&golden["ids"]), "{text}");
        Example { number, text, prompt, golden, exact }
    };
    pairs.map(example).collect()
}

impl Example {
    /// Against transformers with `weights` ("bf16" or "exact"): other choices only where its gap is below `close`.
    fn check_transformers(&self, engine: &mut Engine, weights: &str, close: f64) {
        let gaps = numbers(&self.exact[weights]["gaps"]);
        for step in other_choices(engine, &self.prompt, &ids(&self.exact[weights]["greedy"])) {
            assert!(gaps[step] < close, "{}: step {step}, {weights} weights, gap {}", self.text, gaps[step]);
        }
    }

    /// Against llama.cpp: other choices only where its gap is small, and at the steps that are named.
    fn check_llama_cpp(&self, engine: &mut Engine) {
        let gaps = numbers(&self.golden["top2_logprob_gaps"]);
        for step in other_choices(engine, &self.prompt, &ids(&self.golden["greedy"])) {
            let named = LLAMA_CPP_TURNS.contains(&(self.number, step));
            assert!(gaps[step] < LLAMA_CPP_GAP || named, "{}: step {step}, llama.cpp's gap {}", self.text, gaps[step]);
        }
    }

    /// The steps where transformers contradicts llama.cpp's clear choice.
    fn turned(&self) -> Vec<(usize, usize)> {
        let gaps = numbers(&self.golden["top2_logprob_gaps"]);
        let leads = numbers(&self.exact["on_golden_path"]);
        let is_turned = |step: &usize| gaps[*step] >= LLAMA_CPP_GAP && leads[*step] < 0.0;
        (0..gaps.len()).filter(is_turned).map(|step| (self.number, step)).collect()
    }
}

/// The file compiled, in a folder that goes with the test.
fn compiled(recipe: &Recipe) -> (tempfile::TempDir, Artifact) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("smollm2.zynfer");
    compile_quantized(&smollm2(), &out, recipe, &mut |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    let artifact = Artifact::open(&out, LoadMode::Mmap).unwrap_or_else(|error| panic!("{error}"));
    assert!(artifact.config().tie_word_embeddings);
    (folder, artifact)
}

#[test]
fn rounding_is_done_only_when_asked_for() {
    let gguf = Gguf::open(&smollm2(), LoadMode::Mmap).unwrap_or_else(|error| panic!("{error}"));
    let (refused, rounded) = refusals(&gguf);
    assert!(refused.is_empty(), "{refused:?}");
    assert!(rounded.is_some(), "Q4_1 would be rounded");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("smollm2.zynfer");
    let unasked = compile(&smollm2(), &out, &mut |_, _| {}).expect_err("rounds unasked");
    assert!(unasked.to_string().contains("only when asked for (--quant bf16;"), "{unasked}");
}

/// Blocks as the file has them are its exact weights: the judge is transformers with those.
#[test]
fn kept_blocks_choose_as_the_exact_weights_do() {
    let (_folder, artifact) = compiled(&Choice::Source.into());
    // As many bits as the file's blocks have; nothing is added but what fills up to 256 bytes.
    let bits = 8.0 * artifact.weight_bytes() as f64 / artifact.parameter_count() as f64;
    assert!((5.72..5.76).contains(&bits), "{bits} bits per weight");
    let mut engine = engine(&artifact);
    for example in examples(&artifact) {
        example.check_transformers(&mut engine, "exact", SAME_WEIGHTS_GAP);
        example.check_llama_cpp(&mut engine);
    }
}

fn engine(artifact: &Artifact) -> Engine {
    let (config, weights) = (artifact.config(), Weights::new(artifact.config()));
    let backend = CpuBackend::new(config, &weights, Arc::new(artifact.clone()), CpuOptions::new(128)).expect("memory");
    Engine::new(Box::new(backend), weights, config, artifact.end_ids().iter().copied()).expect("fits")
}

#[test]
fn prompts_and_greedy_tokens_are_those_of_transformers_and_llama_cpp() {
    let (_folder, artifact) = compiled(&Recipe::new(Scheme::Bf16));
    let mut engine = engine(&artifact);
    let mut turned = Vec::new();
    for example in examples(&artifact) {
        example.check_transformers(&mut engine, "bf16", SAME_WEIGHTS_GAP);
        example.check_transformers(&mut engine, "exact", EXACT_GAP);
        example.check_llama_cpp(&mut engine);
        turned.extend(example.turned());
    }
    assert_eq!(turned, LLAMA_CPP_TURNS, "where transformers contradicts llama.cpp");
}

/// The same by gfx1201 machine code, whose matrix products take activations rounded to bf16.
#[test]
fn greedy_tokens_on_the_emulator_are_those_of_transformers_and_llama_cpp() {
    let (_folder, artifact) = compiled(&Recipe::new(Scheme::Bf16));
    let (config, weights) = (artifact.config(), Weights::new(artifact.config()));
    let options = Options::new(64).expect("an environment without switches");
    let opened = gpu::open(GpuKind::Emulator, "auto", config, &weights, &artifact, &options);
    let ops = opened.unwrap_or_else(|error| panic!("{error}")).ops;
    let mut engine = Engine::new(ops, weights, config, artifact.end_ids().iter().copied()).expect("fits");
    assert_eq!(engine.backend(), "emulator");
    for example in examples(&artifact).iter().filter(|example| EMULATED.contains(&example.number)) {
        example.check_transformers(&mut engine, "bf16", f64::from(GPU_TOP1_GAP));
        example.check_llama_cpp(&mut engine);
    }
}
