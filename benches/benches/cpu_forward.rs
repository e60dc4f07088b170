//! One forward pass of the `cpu` backend on Qwen3-0.6B's shape with random weights: decode of one token near the start and far into a
//! context, and prefill of a chunk. Needs about 2.5 GB of memory. A rate is the inverse of a time shown here; `cpu_speed`, the example
//! beside it, reports what users see.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zynfer::{
    cpu::{CpuBackend, CpuOptions},
    model::{config::ModelConfig, forward::forward, ops::Ops, random::RandomModel, weights::Weights},
};

const CONTEXT: usize = 4096 + 64;

fn passes(criterion: &mut Criterion) {
    let config = ModelConfig::published("qwen3-0.6b").expect("a published shape");
    let weights = Weights::new(&config);
    let model = Arc::new(RandomModel::new(&weights, 1));
    let bytes = model.bytes() as u64;
    let mut backend = CpuBackend::new(&config, &weights, model, CpuOptions::new(CONTEXT)).expect("the model loads");
    // Unwritten pages of the cache would all be the one page of zeros: write every position, with whatever the keys are.
    let ids: Vec<u32> = (0..128).map(|i| i * 997 % 151_936).collect();
    forward(&mut backend, &weights, &ids, 0, 0).expect("a pass");
    for position in (0..4096).step_by(ids.len()) {
        backend.embed(weights.embed_tokens, &ids, position).expect("within the context");
        for layer in 0..config.num_hidden_layers {
            backend.kv_append(layer).expect("within the context");
        }
    }

    let mut group = criterion.benchmark_group("cpu_forward_qwen3_0_6b");
    group.sample_size(10).measurement_time(Duration::from_secs(10));
    group.throughput(Throughput::Bytes(bytes));
    for position in [16, 4096] {
        group.bench_function(format!("decode_at_{position}"), |b| {
            b.iter(|| {
                forward(&mut backend, &weights, black_box(&[7]), position, 1).expect("a pass");
                black_box(backend.argmax().expect("a token"))
            });
        });
    }
    group.throughput(Throughput::Elements(ids.len() as u64));
    group.bench_function("prefill_128", |b| {
        b.iter(|| forward(&mut backend, &weights, black_box(&ids), 0, 1).expect("a pass"));
    });
    group.finish();
}

criterion_group!(benches, passes);
criterion_main!(benches);
