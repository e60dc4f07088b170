//! Quantized checkpoints on the GPU path, executed by the emulator, and with `HW=1` by the card too: the same artifact as the `cpu` backend
//! runs, which is judged by itself (tests/quant, host/src/cpu/linear). Every scheme, and classes of matrices with schemes of their own.

use zynfer::{
    artifact::{Artifact, LoadMode, compile_quantized},
    cpu::CpuOptions,
    engine::{Engine, Flow, NoText, Request},
    gpu::{self, GpuKind, Options},
    hip::decode::DecodePlan,
    model::weights::Weights,
    quant::{Recipe, Scheme},
};
use zynfer_tests::card_too;
use zynfer_tests::tolerances::{GPU_LOGIT_COSINE, GPU_TOP1_GAP, cosine};

use crate::{cpu, golden};

/// What each class of matrices may be, none of them alike.
const MIXED: &str =
    "embed=int8,attn_q=int4m:64,attn_k=fp8-e4m3,attn_v=bf16,attn_o=int8:32,gate=int4:128,up=int4:32,down=int8:128";

fn kinds() -> Vec<GpuKind> {
    if card_too() { vec![GpuKind::Emulator, GpuKind::AmdHip] } else { vec![GpuKind::Emulator] }
}

fn gpu_engine(kind: GpuKind, artifact: &Artifact) -> Engine {
    let config = artifact.config();
    let weights = Weights::new(config);
    let opened = gpu::open(kind, "auto", config, &weights, artifact, &Options::new(256).unwrap()).unwrap();
    Engine::new(opened.ops, weights, config, artifact.end_ids().iter().copied()).unwrap()
}

fn greedy(engine: &mut Engine, prompt: &[u32], count: i64) -> Vec<u32> {
    let request = Request { prompt: prompt.to_vec(), max_tokens: Some(count), ignore_eos: true, ..Default::default() };
    engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap().tokens
}

fn lead(logits: &[f32]) -> f32 {
    let mut logits = logits.to_vec();
    logits.sort_by(|a, b| b.total_cmp(a));
    logits[0] - logits[1]
}

fn quantized(recipe: &Recipe) -> Artifact {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("quantized.zynfer");
    compile_quantized(&cpu::fixture(cpu::TINY), &file, recipe, &mut |_, _| {}).unwrap();
    Artifact::open(&file, LoadMode::Mmap).unwrap()
}

fn check(recipe: &Recipe, what: &str) {
    let artifact = quantized(recipe);
    let mut reference = cpu::engine(&artifact, CpuOptions::new(256));
    let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    for kind in kinds() {
        let mut engine = gpu_engine(kind, &artifact);
        for case in cases.iter().filter(|case| case.ids.len() > 1).take(2) {
            let prompt = &case.ids;
            let expected = reference.last_logits(prompt).unwrap().to_vec();
            let found = cosine(engine.last_logits(prompt).unwrap(), &expected);
            assert!(found >= GPU_LOGIT_COSINE, "{what}, {}: cosine {found}", kind.name());
            let expected = greedy(&mut reference, prompt, 4);
            let tokens = greedy(&mut engine, prompt, 4);
            let Some(step) = tokens.iter().zip(&expected).position(|(a, b)| a != b) else { continue };
            let context = [prompt, &expected[..step]].concat();
            let lead = lead(reference.last_logits(&context).unwrap());
            assert!(lead <= GPU_TOP1_GAP, "{what}, {}: step {step}: {tokens:?}, {expected:?} expected", kind.name());
        }
    }
}

#[test]
fn each_scheme_says_what_the_cpu_says() {
    let groups = [32, 64, 128].into_iter();
    let by_groups = groups.flat_map(|group| [Scheme::Int8(group), Scheme::Int4(group), Scheme::Int4Min(group)]);
    for scheme in by_groups.chain([Scheme::Int8Row, Scheme::Fp8]) {
        check(&Recipe::new(scheme), &scheme.to_string());
    }
}

#[test]
fn classes_of_matrices_may_have_schemes_of_their_own() {
    check(&Recipe::new(Scheme::Int8Row).keep(MIXED).unwrap(), MIXED);
}

/// Fused decode reads bf16: it says which matrix is not, and what to do.
#[test]
fn fused_decode_is_refused_by_name() {
    let artifact = quantized(&Recipe::new(Scheme::Bf16).keep("attn_o=int4:64").unwrap());
    let weights = Weights::new(artifact.config());
    for decode in [DecodePlan::Fused, DecodePlan::Graph, DecodePlan::Persistent] {
        let options = Options { decode: Some(decode), ..Options::new(64).unwrap() };
        let opened = gpu::open(GpuKind::Emulator, "auto", artifact.config(), &weights, &artifact, &options);
        let Err(error) = opened.map(|opened| opened.notes) else { panic!("it opened") };
        assert_eq!(
            error.to_string(),
            "tensor model.layers.0.self_attn.o_proj.weight: int4:64, fused decode reads bf16; --plan unfused runs it"
        );
    }
}
