//! How fast the emulator executes. `wave_instructions`: single kernels on one thread, in wave-instructions per second (criterion's
//! `elem/s`). `all_cores`: parts of a forward pass on every core, the decode mix in wave-instructions, the others in matrix instructions
//! per second. `tokens`: whole decode steps through the HIP library, in tokens per second of wall time, which say nothing about a card.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emulator::launch::Class;
use emulator::{Options, Schedule, Stats};
use std::hint::black_box;
use zynfer::artifact::{Artifact, LoadMode};
use zynfer::engine::{Engine, Flow, NoText, Request};
use zynfer::gpu::{self, GpuKind, code_object::IMAGE};
use zynfer::model::config::ModelConfig;
use zynfer::model::random::RandomModel;
use zynfer::model::weights::{TensorSource, Weights};
use zynfer_benches::kernel_workloads::WORKLOADS;
use zynfer_benches::passes::{self, Workload};

/// Context of the models whose tokens are timed, and the most tokens generated before it is cleared.
const CONTEXT: usize = 128;

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

fn print(name: &str, stats: &Stats) {
    let counts: Vec<String> = Class::ALL.map(|class| format!("{} {}", class.name(), stats.count(class))).into();
    println!("{name}: {} wave-instructions: {}", stats.total(), counts.join(", "));
}

fn kernels(c: &mut Criterion) {
    let mut group = c.benchmark_group("wave_instructions");
    group.sample_size(10);
    for work in &WORKLOADS {
        let ready = work.ready();
        let options = Options { schedule: Schedule::Forward, ..Options::default() };
        let stats = work.launch(&ready, options.clone());
        print(work.name, &stats);
        group.throughput(Throughput::Elements(stats.total()));
        group.bench_function(work.name, |b| b.iter(|| black_box(work.launch(&ready, options.clone()))));
    }
    group.finish();
}

fn all_cores(c: &mut Criterion) {
    let mut group = c.benchmark_group("all_cores");
    group.sample_size(10);
    let gemm = std::fs::read(fixtures().join("kernels/rk.hsaco")).expect("a fixture");
    type Count = fn(&Stats) -> u64;
    let matrices: Count = |stats| stats.count(Class::Wmma);
    let works: [(Workload, Count); 4] = [
        (passes::decode_mix(IMAGE), Stats::total),
        (passes::prefill_layer(IMAGE), matrices),
        (passes::linear("linear_wmma_128x1024x1024", IMAGE, [128, 1024, 1024]), matrices),
        (passes::gemm_f16("gemm_f16_wmma_x8", &gemm), matrices),
    ];
    let options = Options::default();
    for (work, count) in &works {
        let stats = work.run(&options).expect("it runs");
        print(work.name, &stats);
        group.throughput(Throughput::Elements(count(&stats)));
        group.bench_function(work.name, |b| b.iter(|| black_box(work.run(&options).expect("it runs"))));
    }
    group.finish();
}

/// A model on the emulator.
fn engine(config: &ModelConfig, source: &dyn TensorSource) -> Engine {
    let weights = Weights::new(config);
    let options = gpu::Options::new(CONTEXT).expect("no variable says otherwise");
    let opened = gpu::open(GpuKind::Emulator, "auto", config, &weights, source, &options).expect("the emulator opens");
    Engine::new(opened.ops, weights, config, []).expect("a context within the model")
}

/// Time of `tokens` decode steps after a prompt of one token.
fn decode(engine: &mut Engine, tokens: u64) -> Duration {
    let (mut left, mut sum) = (tokens as usize, Duration::ZERO);
    while left > 0 {
        let steps = left.min(CONTEXT - 2);
        engine.clear_cache();
        let max_tokens = Some(steps as i64 + 1);
        let request = Request { prompt: vec![7], max_tokens, ignore_eos: true, ..Request::default() };
        let outcome = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).expect("tokens");
        sum += outcome.timings.decode;
        left -= steps;
    }
    sum
}

fn tokens(c: &mut Criterion) {
    let mut group = c.benchmark_group("tokens");
    group.sample_size(10).throughput(Throughput::Elements(1));
    let tiny = Artifact::open(&fixtures().join("tiny-qwen3"), LoadMode::Mmap).expect("the tiny checkpoint");
    let mut small = engine(tiny.config(), &tiny);
    group.bench_function("tiny_qwen3_decode", |b| b.iter_custom(|tokens| decode(&mut small, tokens)));
    drop(small);

    let config = ModelConfig::published("qwen3-0.6b").expect("a published shape");
    let model: Arc<dyn TensorSource> = Arc::new(RandomModel::new(&Weights::new(&config), 1));
    let mut large = engine(&config, model.as_ref());
    drop(model); // the device holds a copy
    group.bench_function("qwen3_0_6b_shape_decode", |b| b.iter_custom(|tokens| decode(&mut large, tokens)));
    group.finish();
}

criterion_group!(benches, kernels, all_cores, tokens);
criterion_main!(benches);
