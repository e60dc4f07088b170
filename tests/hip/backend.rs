//! Opening the GPU backend on the emulator: what is refused and with which numbers. What it computes is judged in tests/model.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use zynfer::artifact::{Artifact, LoadMode};
use zynfer::cpu::{CpuBackend, CpuOptions};
use zynfer::engine::{Engine, Flow, NoText, Request, SamplingParams};
use zynfer::gpu::{self, GpuKind, OpenError, Options, Rung};
use zynfer::hip::decode::DecodePlan;
use zynfer::hip::kernels::Gemm;
use zynfer::model::config::ModelConfig;
use zynfer::model::family::Family;
use zynfer::model::forward::forward;
use zynfer::model::memory::NoRoom;
use zynfer::model::ops::{Act, Ops, TensorId};
use zynfer::model::weights::{Dtype, TensorSource, TensorSpec, TensorView, Weights};
use zynfer::quant::{Activations, Scheme};

fn config() -> ModelConfig {
    ModelConfig {
        family: Family::Qwen3,
        hidden_size: 64,
        intermediate_size: 128,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        head_dim: 64,
        vocab_size: 16,
        max_position_embeddings: i32::MAX as usize,
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        tie_word_embeddings: true,
    }
}

/// Every tensor a model needs, all zero, one of them of another type where asked.
struct Zeros {
    weights: Weights,
    bytes: Vec<u8>,
    odd: Option<(&'static str, Dtype)>,
}

impl TensorSource for Zeros {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let spec = self.weights.specs().iter().find(|spec| spec.name == name)?;
        let dtype = self.odd.filter(|(odd, _)| *odd == name).map_or(Dtype::Bf16, |(_, dtype)| dtype);
        let bytes = dtype.stored_bytes(&spec.shape).expect("no scheme to refuse a shape");
        Some(TensorView { dtype, shape: &spec.shape, bytes: &self.bytes[..bytes] })
    }
}

fn zeros(odd: Option<(&'static str, Dtype)>) -> Zeros {
    Zeros { weights: Weights::new(&config()), bytes: vec![0; 1 << 16], odd }
}

fn options(context_len: usize) -> Options {
    Options {
        context_len,
        max_chunk: 8,
        kv: gpu::plan::KV,
        activations: Activations::AsTheyAre,
        gemm: Gemm::Fast,
        attention: Rung::Fast,
        hip_library: None,
        decode: None,
        workgroups: None,
    }
}

fn open_on(device: &str, source: &Zeros, options: &Options) -> Result<gpu::Opened, OpenError> {
    gpu::open(GpuKind::Emulator, device, &config(), &source.weights, source, options)
}

fn refusal(device: &str, source: &Zeros, options: &Options) -> String {
    match open_on(device, source, options) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    }
}

fn opened() -> Box<dyn Ops> {
    open_on("auto", &zeros(None), &options(40)).unwrap_or_else(|error| panic!("{error}")).ops
}

#[test]
fn it_opens_and_says_through_what() {
    let opened = open_on("GPU-7a796e6665720001", &zeros(None), &options(40)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((opened.ops.name(), opened.ops.context_len(), opened.ops.max_chunk()), ("emulator", 40, 8));
    let [note] = opened.notes.as_slice() else { panic!("{:?}", opened.notes) };
    assert!(note.starts_with("emulator: device 0") && note.contains("libamdhip64_emulator.so"), "{note}");
}

#[test]
fn devices_that_are_not_there_are_named() {
    let text = refusal("1", &zeros(None), &options(40));
    assert!(text.contains("device 1 was asked for") && text.contains("1 device"), "{text}");
    let text = refusal("GPU-00", &zeros(None), &options(40));
    assert!(text.contains("GPU-00") && text.contains("GPU-7a796e6665720001"), "{text}");
    assert!(matches!(open_on("gpu", &zeros(None), &options(40)), Err(OpenError::Selector(_))));
}

#[test]
fn a_context_that_does_not_fit_is_refused_with_both_numbers_and_one_that_would() {
    // 2²⁸ positions: keys and values 2 · 64 · 2 bytes each, the table 64 · 4: 137 GB.
    let error = match open_on("auto", &zeros(None), &options(1 << 28)) {
        Err(OpenError::Memory(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    };
    let text = error.to_string();
    let NoRoom { needed, free, longest: fits, .. } = error;
    assert!(needed > (1 << 28) * 512 && free < needed);
    assert!(text.contains(&needed.to_string()) && text.contains(&free.to_string()), "{text}");
    assert!(text.ends_with(&format!("; a context of {fits} tokens would fit")), "{text}");
    // The plan that refuses is the plan that `inspect --plan` prints.
    let bf16 = vec![Scheme::Bf16; zeros(None).weights.specs().len()];
    let bytes = |context| {
        let fit = gpu::fit(&config(), &zeros(None).weights, &bf16, &options(context), Some(free));
        fit.expect("it can be counted").needed
    };
    assert!(bytes(fits) <= free && bytes(fits + 32) > free, "{fits} tokens, {free} bytes");
    assert_eq!(bytes(1 << 28), needed);
}

#[test]
fn formats_without_kernels_are_refused_by_name() {
    let with = |kv: &str, decode| Options { kv: kv.parse().expect("a format"), decode, ..options(40) };
    let text = refusal("auto", &zeros(None), &with("k=bf16,v=f32", None));
    assert!(text.contains("--kv k=bf16,v=f32") && text.contains("bf16, f16, int8 or fp8"), "{text}");
    for plan in [DecodePlan::Fused, DecodePlan::Graph, DecodePlan::Persistent] {
        let text = refusal("auto", &zeros(None), &with("int8", Some(plan)));
        assert!(text.contains("--kv int8: fused decode") && text.contains("--plan unfused"), "{text}");
    }
    let opened = open_on("auto", &zeros(None), &with("int8", None)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(opened.ops.kv_formats().to_string(), "int8");
}

#[test]
fn activations_are_not_rounded_for_products_that_are_there_to_be_compared() {
    for gemm in [Gemm::Plain, Gemm::SingleStage] {
        let options = Options { gemm, activations: Activations::Int8, ..options(40) };
        assert_eq!(
            refusal("auto", &zeros(None), &options),
            "--activations int8: only ZYNFER_GEMM=fast rounds activations"
        );
    }
}

#[test]
fn a_context_past_the_model_s_is_refused() {
    let text = refusal("auto", &zeros(None), &options(i32::MAX as usize + 1));
    assert!(text.contains("2147483648") && text.contains("2147483647"), "{text}");
}

#[test]
fn weights_of_another_type_are_refused_by_name() {
    let name = "model.layers.0.mlp.up_proj.weight";
    let text = refusal("auto", &zeros(Some((name, Dtype::F16))), &options(40));
    assert!(text.contains(name) && text.contains("f16") && text.contains("bf16"), "{text}");
}

#[test]
fn a_library_that_is_not_there_lists_what_was_tried() {
    let options = Options { hip_library: Some("/nowhere/libamdhip64.so".into()), ..options(40) };
    let source = zeros(None);
    let error = gpu::open(GpuKind::AmdHip, "auto", &config(), &source.weights, &source, &options);
    let Err(OpenError::Library { backend, source }) = error else { panic!("there is no such library") };
    assert_eq!(backend, "amd-hip");
    assert!(source.to_string().contains("/nowhere/libamdhip64.so"), "{source}");
}

#[test]
fn debian_s_library_without_a_card_is_a_clear_error() {
    let options = Options { hip_library: Some("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5".into()), ..options(40) };
    let source = zeros(None);
    let Err(error) = gpu::open(GpuKind::AmdHip, "auto", &config(), &source.weights, &source, &options) else {
        panic!("HIP 5.2 knows no gfx1201")
    };
    let text = error.to_string();
    assert!(text.contains("amd-hip") && text.contains("HIP 5.2") && text.contains("6.4"), "{text}");
    assert!(!text.contains('\n'), "one line: {text}");
}

#[test]
fn rungs_are_chosen_by_word_and_another_word_is_an_error() {
    for (value, rung) in
        [(None, Rung::Fast), (Some(""), Rung::Fast), (Some("fast"), Rung::Fast), (Some("plain"), Rung::Plain)]
    {
        assert_eq!(Rung::parse("ZYNFER_ATTENTION", value).expect("a rung"), rung);
    }
    let gemms = [(None, Gemm::Fast), (Some(""), Gemm::Fast), (Some("fast"), Gemm::Fast), (Some("plain"), Gemm::Plain)];
    for (value, gemm) in gemms.into_iter().chain([(Some("single-stage"), Gemm::SingleStage)]) {
        assert_eq!(gpu::parse_gemm("ZYNFER_GEMM", value).expect("a rung"), gemm);
    }
    let text = Rung::parse("ZYNFER_ATTENTION", Some("slow")).expect_err("no rung").to_string();
    assert_eq!(text, "ZYNFER_ATTENTION=`slow` is neither `plain` nor `fast`");
    let text = gpu::parse_gemm("ZYNFER_GEMM", Some("slow")).expect_err("no rung").to_string();
    assert_eq!(text, "ZYNFER_GEMM=`slow` is neither `plain`, `single-stage` nor `fast`");
}

#[test]
fn a_pass_keeps_to_chunk_context_and_vocabulary() {
    let mut ops = opened();
    let table = TensorId(0);
    let cases: [(&[u32], usize, &[&str]); 5] = [
        (&[], 0, &["0 tokens", "8"]),
        (&[1; 9], 0, &["9 tokens", "8"]),
        (&[1; 8], 33, &["8 tokens from position 33", "40"]),
        (&[1], usize::MAX, &["40"]),
        (&[1, 16], 0, &["id 16 of token 1", "16"]),
    ];
    for (ids, position, parts) in cases {
        let text = ops.embed(table, ids, position).expect_err("outside").to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in {text}");
        // A refused embed begins no pass.
        assert!(ops.swiglu().is_err_and(|error| error.to_string().contains("before embed")));
    }
    assert!(ops.embed(TensorId(99), &[1], 0).is_err_and(|error| error.to_string().contains("tensor 99")));
    assert!(ops.read_logits(&mut Vec::new()).is_err_and(|error| error.to_string().contains("before logits")));
    assert!(ops.argmax().is_err_and(|error| error.to_string().contains("before logits")));
    assert!(ops.rmsnorm(TensorId(1), Act::Hidden, Act::Normed).is_err());
}

/// A model whose norms and embedding are ones and whose other weights are zeros, so that every logit is 64; the embedding of id 3,
/// which is its row of the tied lm_head too, is `odd` instead.
struct Ones {
    weights: Weights,
    tensors: HashMap<String, Vec<u8>>,
}

impl Ones {
    fn new(odd: f32) -> Self {
        let weights = Weights::new(&config());
        let bytes = |value: f32, count: usize| half::bf16::from_f32(value).to_le_bytes().repeat(count);
        let tensor = |spec: &TensorSpec| {
            let (one, count) = (spec.name.contains("norm") || spec.name.contains("embed"), spec.shape.iter().product());
            let mut tensor = bytes(if one { 1.0 } else { 0.0 }, count);
            if spec.name.contains("embed") {
                tensor[3 * 128..4 * 128].copy_from_slice(&bytes(odd, 64));
            }
            (spec.name.clone(), tensor)
        };
        let tensors = weights.specs().iter().map(tensor).collect();
        Self { weights, tensors }
    }
}

impl TensorSource for Ones {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let spec = self.weights.specs().iter().find(|spec| spec.name == name)?;
        Some(TensorView { dtype: Dtype::Bf16, shape: &spec.shape, bytes: &self.tensors[name] })
    }
}

/// Such a model on this backend and on `cpu`.
fn both(source: &Arc<Ones>) -> [Box<dyn Ops>; 2] {
    let opened = gpu::open(GpuKind::Emulator, "auto", &config(), &source.weights, source.as_ref(), &options(40));
    let cpu = CpuBackend::new(&config(), &source.weights, source.clone(), CpuOptions::new(40));
    [opened.unwrap_or_else(|error| panic!("{error}")).ops, Box::new(cpu.unwrap_or_else(|error| panic!("{error}")))]
}

/// The largest logit, chosen by each.
fn chosen(odd: f32) -> [Result<u32, String>; 2] {
    let source = Arc::new(Ones::new(odd));
    both(&source).map(|mut ops| {
        forward(ops.as_mut(), &source.weights, &[1, 2], 0, 1).unwrap_or_else(|error| panic!("{error}"));
        ops.argmax().map_err(|error| error.to_string())
    })
}

#[test]
fn a_largest_logit_that_is_no_number_is_refused_on_every_backend() {
    assert_eq!(chosen(2.0), [Ok(3), Ok(3)]);
    assert_eq!(chosen(1.0), [Ok(0), Ok(0)], "of equal ones the lowest id");
    assert_eq!(chosen(f32::NEG_INFINITY), [Ok(0), Ok(0)], "one choice fewer");
    for text in chosen(f32::INFINITY).map(|choice| choice.expect_err("infinite")) {
        assert!(text.contains("logit of token 3 is inf"), "{text}");
    }
    for text in chosen(f32::NAN).map(|choice| choice.expect_err("no number")) {
        assert!(text.contains("NaN"), "{text}");
    }
}

/// A token sampled by each, or why there is none. The vocabulary of 16 is smaller than k.
fn sampled(odd: f32, top_k: i64) -> [Result<Vec<u32>, String>; 2] {
    let source = Arc::new(Ones::new(odd));
    both(&source).map(|ops| {
        let mut engine = Engine::new(ops, Weights::new(&config()), &config(), []).expect("one configuration");
        // Weights of e^1 and less for a difference of 64: every token has a chance.
        let sampling = SamplingParams { temperature: 64.0, top_k, seed: Some(3), ..SamplingParams::default() };
        let request = Request { prompt: vec![1, 2], max_tokens: Some(12), sampling, ..Request::default() };
        let outcome = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue);
        outcome.map(|outcome| outcome.tokens).map_err(|error| error.to_string())
    })
}

#[test]
fn sampling_says_and_chooses_the_same_on_every_backend() {
    for odd in [2.0, 1.0, f32::NEG_INFINITY] {
        for top_k in [1, 5, 20, 64, 65] {
            let [gpu, cpu] = sampled(odd, top_k);
            assert_eq!(gpu, cpu, "{odd}, top_k {top_k}");
            let ids = gpu.unwrap_or_else(|error| panic!("{odd}, top_k {top_k}: {error}"));
            assert_eq!(ids.iter().any(|id| *id != ids[0]), top_k > 1, "{odd}, top_k {top_k}: {ids:?}");
        }
    }
    for (odd, text) in [(f32::INFINITY, "logit of token 3 is inf"), (f32::NAN, "logit of token 3 is NaN")] {
        let [gpu, cpu] = sampled(odd, 20).map(|choice| choice.expect_err("no number"));
        assert!(gpu == cpu && gpu.starts_with(text), "{gpu} and {cpu}");
    }
}

#[test]
fn the_largest_are_given_where_there_are_such_and_the_largest_is_a_number() {
    for (odd, there) in [(2.0, true), (f32::NEG_INFINITY, true), (f32::INFINITY, false), (f32::NAN, false)] {
        let source = Arc::new(Ones::new(odd));
        let [mut gpu, mut cpu] = both(&source);
        let mut largest = Vec::new();
        assert!(gpu.top_k(4, &mut largest).is_err_and(|error| error.to_string().contains("before logits")));
        for ops in [&mut gpu, &mut cpu] {
            forward(ops.as_mut(), &source.weights, &[1, 2], 0, 1).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(gpu.top_k(4, &mut largest).expect("launched"), there, "{odd}");
        if odd == 2.0 {
            let pairs: Vec<(u32, f32)> = largest.iter().map(|candidate| (candidate.id, candidate.logit)).collect();
            assert_eq!(pairs, [(3, 128.0), (0, 64.0), (1, 64.0), (2, 64.0)]);
        }
        for k in [0, 65, usize::MAX] {
            assert!(!gpu.top_k(k, &mut largest).expect("nothing to do"), "{k}");
        }
        assert!(!cpu.top_k(4, &mut largest).expect("it gives rows alone"));
    }
}

/// Logits after `ids`, of the trained checkpoint with these options.
fn trained(ids: &[u32], options: &Options) -> Vec<f32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-qwen3");
    let artifact = Artifact::open(&path, LoadMode::Mmap).unwrap_or_else(|error| panic!("{error}"));
    let (config, weights) = (artifact.config(), Weights::new(artifact.config()));
    let opened = gpu::open(GpuKind::Emulator, "auto", config, &weights, &artifact, options);
    let ops = opened.unwrap_or_else(|error| panic!("{error}")).ops;
    let mut engine = Engine::new(ops, weights, config, artifact.end_ids().iter().copied()).expect("one configuration");
    engine.last_logits(ids).unwrap_or_else(|error| panic!("{error}")).to_vec()
}

#[test]
fn rungs_and_chunks_agree_and_a_repeat_gives_the_same_bits() {
    // 19 tokens: prefill and decode attention, tiles that are not full, and a cache block that is not full.
    let ids: Vec<u32> = (0..19).map(|index| (index * 97 + 5) % 4000).collect();
    let fast = Options {
        context_len: 40,
        kv: gpu::plan::KV,
        activations: Activations::AsTheyAre,
        max_chunk: 64,
        gemm: Gemm::Fast,
        attention: Rung::Fast,
        hip_library: None,
        decode: None,
        workgroups: None,
    };
    let expected = trained(&ids, &fast);
    assert!(expected == trained(&ids, &fast), "the same input twice, the same bits");
    // Tiles of any shape sum in the same order, and what is fused rounds as its parts do.
    assert!(
        expected == trained(&ids, &Options { gemm: Gemm::SingleStage, ..fast.clone() }),
        "one stage, the same bits"
    );
    let others = [
        Options { gemm: Gemm::Plain, ..fast.clone() },
        Options { attention: Rung::Plain, ..fast.clone() },
        Options { max_chunk: 16, ..fast.clone() },
        Options { max_chunk: 5, ..fast.clone() },
        Options { context_len: 19, max_chunk: 1, ..fast },
    ];
    let argmax = |logits: &[f32]| (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    let norm = |logits: &[f32]| logits.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    for options in others {
        let logits = trained(&ids, &options);
        let dot: f64 = logits.iter().zip(&expected).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        let cosine = dot / (norm(&logits) * norm(&expected));
        assert!(cosine >= zynfer_tests::tolerances::GPU_LOGIT_COSINE, "{options:?}: cosine {cosine}");
        assert_eq!(argmax(&logits), argmax(&expected), "{options:?}");
    }
}

#[test]
fn facts_name_what_is_there_and_what_is_not() {
    let facts = gpu::facts(Some(&"/nowhere.so".into()));
    assert!(facts.amd_hip.library.is_none() && facts.amd_hip.error.is_some_and(|error| error.contains("/nowhere.so")));
    assert_eq!(facts.emulator.devices.len(), 1);
    assert!(facts.emulator.devices[0].chosen && facts.emulator.error.is_none());
    assert_eq!(facts.code_object_architectures, ["gfx1201"]);
}
