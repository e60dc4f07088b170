//! Quantized checkpoints on the GPU path, executed by the emulator, and with `HW=1` by the card too: the same artifact as the `cpu` backend
//! runs, which is judged by itself (tests/quant, host/src/cpu/linear). Every scheme, and classes of matrices with schemes of their own.

use std::collections::HashSet;
use std::sync::Arc;

use zynfer::{
    artifact::{Artifact, LoadMode, compile_quantized},
    cpu::{CpuBackend, CpuOptions},
    engine::{Engine, Flow, NoText, Request},
    gpu::{self, GpuKind, Options},
    hip::decode::DecodePlan,
    model::{
        config::ModelConfig,
        random::RandomModel,
        weights::{TensorSource, TensorSpec, Weights},
    },
    quant::{Activations, Recipe, Scheme},
};
use zynfer_tests::card_too;
use zynfer_tests::tolerances::{GPU_LOGIT_COSINE, GPU_TOP1_GAP, cosine};

use crate::{cpu, golden};

/// What each class of matrices may be, none of them alike.
const MIXED: &str =
    "embed=int8,attn_q=int4m:64,attn_k=fp8-e4m3,attn_v=bf16,attn_o=int8:32,gate=int4:128,up=int4:32,down=int8:128";

pub fn kinds() -> Vec<GpuKind> {
    if card_too() { vec![GpuKind::Emulator, GpuKind::AmdHip] } else { vec![GpuKind::Emulator] }
}

/// Operation by operation, or by one launch for several tokens on few workgroups, a number that divides nothing.
fn gpu_engine(kind: GpuKind, artifact: &Artifact, decode: Option<DecodePlan>) -> Engine {
    let config = artifact.config();
    let weights = Weights::new(config);
    let options = Options { decode, workgroups: decode.map(|_| 3), ..Options::new(256).unwrap() };
    let opened = gpu::open(kind, "auto", config, &weights, artifact, &options).unwrap();
    Engine::new(opened.ops, weights, config, artifact.end_ids().iter().copied()).unwrap()
}

fn greedy(engine: &mut Engine, prompt: &[u32], count: i64) -> Vec<u32> {
    let request = Request { prompt: prompt.to_vec(), max_tokens: Some(count), ignore_eos: true, ..Default::default() };
    engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap().tokens
}

/// Logits behind `prompt`: evaluated at once where decode is operation by operation, else token by token, so that decode's kernels alone make
/// them.
pub fn last_logits(engine: &mut Engine, decode: Option<DecodePlan>, prompt: &[u32]) -> Vec<f32> {
    if decode.is_none() {
        return engine.last_logits(prompt).unwrap().to_vec();
    }
    let (ops, _) = engine.parts();
    for (position, id) in prompt.iter().enumerate() {
        ops.decode_logits(*id, position).unwrap();
    }
    let mut logits = Vec::new();
    ops.read_logits(&mut logits).unwrap();
    logits
}

fn lead(logits: &[f32]) -> f32 {
    let mut logits = logits.to_vec();
    logits.sort_by(|a, b| b.total_cmp(a));
    logits[0] - logits[1]
}

fn quantized(checkpoint: &str, recipe: &Recipe) -> Artifact {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("quantized.zynfer");
    compile_quantized(&cpu::fixture(checkpoint), &file, recipe, &mut |_, _| {}).unwrap();
    Artifact::open(&file, LoadMode::Mmap).unwrap()
}

fn check(checkpoint: &str, recipe: &Recipe, plans: &[Option<DecodePlan>], what: &str) {
    compare(checkpoint, &quantized(checkpoint, recipe), plans, what);
}

/// What the GPU path makes of an artifact of a checkpoint's tensors, against the CPU.
pub fn compare(checkpoint: &str, artifact: &Artifact, plans: &[Option<DecodePlan>], what: &str) {
    let mut reference = cpu::engine(artifact, CpuOptions::new(256));
    let (cases, _) = golden::read(&cpu::fixture(checkpoint), artifact.config().vocab_size);
    for (kind, plan) in kinds().into_iter().flat_map(|kind| plans.iter().map(move |plan| (kind, *plan))) {
        let mut engine = gpu_engine(kind, artifact, plan);
        for case in cases.iter().filter(|case| case.ids.len() > 1).take(2) {
            let prompt = &case.ids;
            let expected = reference.last_logits(prompt).unwrap().to_vec();
            let found = cosine(&last_logits(&mut engine, plan, prompt), &expected);
            assert!(found >= GPU_LOGIT_COSINE, "{what}, {} {plan:?}: cosine {found}", kind.name());
            // With random weights, what the tiles round of a prompt decides about the next token: from one token on decode's kernels are alone.
            let prompt = if checkpoint == cpu::TINY { &prompt[..] } else { &prompt[..1] };
            let expected = greedy(&mut reference, prompt, 4);
            let tokens = greedy(&mut engine, prompt, 4);
            assert_eq!(tokens.len(), expected.len(), "{what}, {} {plan:?}", kind.name());
            let Some(step) = tokens.iter().zip(&expected).position(|(a, b)| a != b) else { continue };
            let context = [prompt, &expected[..step]].concat();
            let lead = lead(reference.last_logits(&context).unwrap());
            assert!(
                lead <= GPU_TOP1_GAP,
                "{what}, {} {plan:?}: step {step}: {tokens:?}, {expected:?} expected",
                kind.name()
            );
        }
    }
}

/// Operation by operation, and by the resident kernels.
pub const BOTH: [Option<DecodePlan>; 2] = [None, Some(DecodePlan::Persistent)];

/// Every scheme with every group.
fn schemes() -> impl Iterator<Item = Scheme> {
    let groups = [32, 64, 128].into_iter();
    let by_groups = groups.flat_map(|group| [Scheme::Int8(group), Scheme::Int4(group), Scheme::Int4Min(group)]);
    by_groups.chain([Scheme::Int8Row, Scheme::Fp8])
}

#[test]
fn each_scheme_says_what_the_cpu_says() {
    for scheme in schemes() {
        check(cpu::TINY, &Recipe::new(scheme), &BOTH, &scheme.to_string());
    }
}

/// Heads of 128 elements with norms, of 64 without, biases, lm_head apart from the embedding: the other resident kernels.
#[test]
fn each_format_says_what_the_cpu_says_for_other_shapes() {
    for checkpoint in [cpu::UNTIED].into_iter().chain(cpu::OTHERS) {
        for scheme in [Scheme::Int8Row, Scheme::Int8(32), Scheme::Int4(32), Scheme::Int4Min(32), Scheme::Fp8] {
            // Prompts round weights of groups once more, which random weights amplify (docs/NUMERICS.md); rows with one scale keep their codes.
            let plans = if scheme.group().is_none() { &BOTH[..] } else { &BOTH[1..] };
            check(checkpoint, &Recipe::new(scheme), plans, &format!("{checkpoint}, {scheme}"));
        }
    }
}

/// Rows of several steps of a wave, which no checkpoint here has: all of q, k, v, o, gate, up and down on few workgroups, and o and down on so many
/// that waves share a row.
#[test]
fn rows_longer_than_a_step_are_whole_in_every_format() {
    for (hidden_size, workgroups) in [(1152, 3), (512, 64)] {
        let config = ModelConfig {
            hidden_size,
            intermediate_size: 2176,
            num_hidden_layers: 1,
            num_attention_heads: 10,
            num_key_value_heads: 2,
            vocab_size: 96,
            ..ModelConfig::published("qwen3-0.6b").expect("a published shape")
        };
        let weights = Weights::new(&config);
        let all = [Scheme::Bf16, Scheme::Int8Row, Scheme::Int8(32), Scheme::Int4(32), Scheme::Int4Min(32), Scheme::Fp8];
        // The last: those of all in turn, by the kernels that read a table.
        for scheme in all.into_iter().map(Some).chain([None]) {
            let mut source = RandomModel::new(&weights, 7);
            let index = |name: &str| weights.specs().iter().position(|spec| spec.name == name).unwrap();
            source.quantize(|name| scheme.unwrap_or(all[index(name) % all.len()])).unwrap();
            let stored = |spec: &TensorSpec| source.tensor(&spec.name).unwrap().dtype;
            let used: HashSet<String> = weights.specs().iter().map(|spec| format!("{:?}", stored(spec))).collect();
            assert_eq!(
                used.len(),
                scheme.map_or(all.len(), |scheme| if scheme == Scheme::Bf16 { 1 } else { 2 }),
                "{used:?}"
            );
            let source = Arc::new(source);
            let backend = CpuBackend::new(&config, &weights, source.clone(), CpuOptions::new(64)).unwrap();
            let mut reference = Engine::new(Box::new(backend), weights.clone(), &config, []).unwrap();
            let prompt = [5, 90, 17, 33];
            let expected = reference.last_logits(&prompt).unwrap().to_vec();
            for kind in kinds() {
                let plan = Some(DecodePlan::Persistent);
                let options = Options { decode: plan, workgroups: Some(workgroups), ..Options::new(64).unwrap() };
                let opened = gpu::open(kind, "auto", &config, &weights, source.as_ref(), &options).unwrap();
                let mut engine = Engine::new(opened.ops, weights.clone(), &config, []).unwrap();
                let found = cosine(&last_logits(&mut engine, plan, &prompt), &expected);
                let what = format!("{scheme:?}, H {hidden_size}, {workgroups} workgroups, {}", kind.name());
                assert!(found >= GPU_LOGIT_COSINE, "{what}: cosine {found}");
            }
        }
    }
}

/// Prompts with activations rounded to 8 bits, of a model of int8 and of one that has other matrices beside: not what the same card makes of them as
/// they are, and what the CPU makes of rounded ones.
#[test]
fn rounded_activations_say_what_the_cpu_says() {
    let int8 = Recipe::new(Scheme::Int8Row);
    let mixed = Recipe::new(Scheme::Int8Row).keep("attn_v=bf16,up=int4:64").unwrap();
    for recipe in [&int8, &mixed] {
        let artifact = quantized(cpu::TINY, recipe);
        let (config, weights) = (artifact.config(), Weights::new(artifact.config()));
        let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), config.vocab_size);
        let rounded = CpuOptions { activations: Activations::Int8, ..CpuOptions::new(256) };
        let mut reference = cpu::engine(&artifact, rounded);
        for kind in kinds() {
            let options = Options { activations: Activations::Int8, ..Options::new(256).unwrap() };
            let opened = gpu::open(kind, "auto", config, &weights, &artifact, &options).unwrap();
            let mut engine = Engine::new(opened.ops, weights.clone(), config, []).unwrap();
            let mut plain = gpu_engine(kind, &artifact, None);
            assert_eq!(engine.activations(), Activations::Int8);
            for case in cases.iter().filter(|case| case.ids.len() > 1).take(3) {
                let [found, expected, as_they_are] = [&mut engine, &mut reference, &mut plain]
                    .map(|engine| engine.last_logits(&case.ids).unwrap().to_vec());
                let what = format!("{} ids, {}", case.ids.len(), kind.name());
                let cosine = cosine(&found, &expected);
                println!("{what}: cosine {cosine:.6}");
                assert!(cosine >= GPU_LOGIT_COSINE, "{what}: cosine {cosine}");
                assert!(found != as_they_are, "{what}: nothing is rounded");
            }
        }
    }
}

/// The same of rows that are an odd number of groups, of one layer: random weights amplify a code that is rounded the other way.
#[test]
fn rounded_activations_of_an_odd_number_of_groups_say_what_the_cpu_says() {
    let config = ModelConfig {
        hidden_size: 576,
        intermediate_size: 1600,
        num_hidden_layers: 1,
        num_attention_heads: 9,
        num_key_value_heads: 3,
        head_dim: 64,
        vocab_size: 200,
        ..ModelConfig::published("qwen3-0.6b").expect("a published shape")
    };
    let weights = Weights::new(&config);
    let mut source = RandomModel::new(&weights, 11);
    source.quantize(|_| Scheme::Int8Row).unwrap();
    let source = Arc::new(source);
    let rounded = CpuOptions { activations: Activations::Int8, ..CpuOptions::new(128) };
    let backend = CpuBackend::new(&config, &weights, source.clone(), rounded).unwrap();
    let mut reference = Engine::new(Box::new(backend), weights.clone(), &config, []).unwrap();
    let prompt: Vec<u32> = (0..70).map(|i| i * 31 % 200).collect();
    let expected = reference.last_logits(&prompt).unwrap().to_vec();
    for kind in kinds() {
        let options = Options { activations: Activations::Int8, ..Options::new(128).unwrap() };
        let opened = gpu::open(kind, "auto", &config, &weights, source.as_ref(), &options).unwrap();
        let mut engine = Engine::new(opened.ops, weights.clone(), &config, []).unwrap();
        let cosine = cosine(engine.last_logits(&prompt).unwrap(), &expected);
        println!("{}: cosine {cosine:.6}", kind.name());
        assert!(cosine >= GPU_LOGIT_COSINE, "{}: cosine {cosine}", kind.name());
    }
}

/// Where no matrix is int8 with a scale per row, nothing is rounded, and the backend says so.
#[test]
fn rounded_activations_without_an_int8_matrix_are_as_they_are() {
    for scheme in [Scheme::Int8(32), Scheme::Fp8] {
        let artifact = quantized(cpu::TINY, &Recipe::new(scheme));
        let weights = Weights::new(artifact.config());
        let options = Options { activations: Activations::Int8, ..Options::new(64).unwrap() };
        let opened = gpu::open(GpuKind::Emulator, "auto", artifact.config(), &weights, &artifact, &options).unwrap();
        assert_eq!(opened.ops.activations(), Activations::AsTheyAre, "{scheme}");
    }
}

#[test]
fn classes_of_matrices_may_have_schemes_of_their_own() {
    check(cpu::TINY, &Recipe::new(Scheme::Int8Row).keep(MIXED).unwrap(), &BOTH, MIXED);
}

/// The resident kernels that read a table, for heads of 128 elements with norms, of 64 without, biases, lm_head apart from the embedding, and bf16
/// beside what is quantized.
#[test]
fn matrices_of_several_schemes_say_what_the_cpu_says_for_other_shapes() {
    let recipes = [
        Recipe::new(Scheme::Int8Row).keep("embed=bf16,lm_head=bf16,attn_v=int8:32,down=fp8-e4m3").unwrap(),
        Recipe::new(Scheme::Int4(32))
            .keep("embed=int8,lm_head=int8:64,attn_q=bf16,attn_v=int4m:64,up=fp8-e4m3")
            .unwrap(),
    ];
    for checkpoint in [cpu::UNTIED].into_iter().chain(cpu::OTHERS) {
        for (index, recipe) in recipes.iter().enumerate() {
            check(checkpoint, recipe, &BOTH[1..], &format!("{checkpoint}, recipe {index}"));
        }
    }
}

/// Half a layer's launches read bf16 only: they say which tensor is stored otherwise, and what to do.
#[test]
fn what_fused_decode_does_not_read_is_refused_by_name() {
    let refusal = |artifact: &Artifact, decode| {
        let weights = Weights::new(artifact.config());
        let options = Options { decode: Some(decode), ..Options::new(64).unwrap() };
        let opened = gpu::open(GpuKind::Emulator, "auto", artifact.config(), &weights, artifact, &options);
        opened.map(|opened| opened.notes).expect_err("it opened").to_string()
    };
    let mixed = quantized(cpu::TINY, &Recipe::new(Scheme::Bf16).keep("attn_o=int4:64").unwrap());
    let int8 = quantized(cpu::TINY, &Recipe::new(Scheme::Int8Row));
    for decode in [DecodePlan::Fused, DecodePlan::Graph] {
        for (artifact, first, scheme) in
            [(&mixed, "layers.0.self_attn.o_proj", "int4:64"), (&int8, "embed_tokens", "int8")]
        {
            assert_eq!(
                refusal(artifact, decode),
                format!(
                    "tensor model.{first}.weight: decode: {scheme} weights, the plans fused and graph read bf16; \
                     persistent and unfused read all"
                )
            );
        }
    }
}
