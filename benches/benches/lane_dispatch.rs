//! EXP-0001: what a 32-lane fused multiply-add costs compiled for the baseline x86-64, through `pulp`'s run-time dispatch of a closure,
//! and through its dispatch of a struct. It measures the loop alone, not an emulated instruction.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

type Lanes = [f32; 32];

#[inline(always)]
fn fma(a: &Lanes, b: &Lanes, c: &mut Lanes) {
    for lane in 0..32 {
        c[lane] = a[lane].mul_add(b[lane], c[lane]);
    }
}

/// The body as a struct: its `call` is inlined into the function that has AVX2 and FMA.
struct Fma<'a>(&'a Lanes, &'a Lanes, &'a mut Lanes);

impl pulp::NullaryFnOnce for Fma<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        fma(self.0, self.1, self.2);
    }
}

fn bench(criterion: &mut Criterion) {
    let arch = pulp::Arch::new();
    let (a, b) = ([1.25f32; 32], [0.5f32; 32]);
    let mut c = [0f32; 32];
    let mut group = criterion.benchmark_group("lane_dispatch");
    group.bench_function("fma baseline", |bencher| {
        bencher.iter(|| fma(black_box(&a), black_box(&b), black_box(&mut c)))
    });
    group.bench_function("fma closure", |bencher| {
        bencher.iter(|| {
            let (a, b, c) = (black_box(&a), black_box(&b), black_box(&mut c));
            arch.dispatch(|| fma(a, b, c));
        });
    });
    group.bench_function("fma struct", |bencher| {
        bencher.iter(|| arch.dispatch(Fma(black_box(&a), black_box(&b), black_box(&mut c))));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
