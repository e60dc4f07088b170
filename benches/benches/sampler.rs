//! What a choice costs on the host at Qwen3's vocabulary and sampling defaults: from the whole row, and from the largest logits.

use criterion::{Criterion, criterion_group, criterion_main};
use zynfer::engine::{SamplingParams, sampler::Sampler};
use zynfer::model::ops::Candidate;

const VOCAB: usize = 151_936;

fn choices(c: &mut Criterion) {
    let params =
        SamplingParams { temperature: 0.6, top_k: 20, top_p: 0.95, seed: Some(1), ..SamplingParams::default() };
    // Bell-shaped, as logits are: the sum of four numbers of a multiplicative sequence.
    let mut state = 1u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 24) as f32
    };
    let mut row: Vec<f32> = (0..VOCAB).map(|_| 8.0 * (number() + number() + number() + number())).collect();
    let mut largest: Vec<Candidate> = row.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit }).collect();
    largest.sort_by(|a, b| b.logit.total_cmp(&a.logit));
    largest.truncate(20);
    let mut sampler = Sampler::new(params, &[]).expect("in range");
    c.bench_function("sample/row", |b| b.iter(|| sampler.sample(&mut row).expect("numbers")));
    c.bench_function("sample/largest", |b| b.iter(|| sampler.sample_from(&largest).expect("numbers")));
}

criterion_group!(benches, choices);
criterion_main!(benches);
