//! How fast the emulator executes: wave-instructions per second on one thread (criterion's `elem/s`), on the kernels of
//! `zynfer_benches::kernel_workloads`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emulator::launch::Class;
use emulator::{Options, Schedule};
use std::hint::black_box;
use zynfer_benches::kernel_workloads::WORKLOADS;

fn emulator(c: &mut Criterion) {
    let mut group = c.benchmark_group("wave_instructions");
    group.sample_size(10);
    for work in &WORKLOADS {
        let ready = work.ready();
        let options = Options { schedule: Schedule::Forward, ..Options::default() };
        let stats = work.launch(&ready, options.clone());
        let counts: Vec<String> = Class::ALL.map(|class| format!("{} {}", class.name(), stats.count(class))).into();
        println!("{}: {} wave-instructions: {}", work.name, stats.total(), counts.join(", "));
        group.throughput(Throughput::Elements(stats.total()));
        group.bench_function(work.name, |b| b.iter(|| black_box(work.launch(&ready, options.clone()))));
    }
    group.finish();
}

criterion_group!(benches, emulator);
criterion_main!(benches);
