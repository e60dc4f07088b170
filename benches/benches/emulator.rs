//! How fast the emulator executes: wave-instructions per second on one thread, for a bf16 GEMV, a matrix product by WMMA and a softmax
//! through LDS (kernels of `tests/fixtures/kernels`, larger inputs). Values do not matter here, results are judged in `tests/kernels`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emulator::{CodeObject, Launch, LoadedModule, Memory, Options, Schedule, launch};
use std::hint::black_box;
use std::path::Path;

struct Workload {
    name: &'static str,
    object: &'static str,
    kernel: &'static str,
    grid: u32,
    block: u32,
    lds: u32,
    /// Bytes of the pointer arguments.
    buffers: &'static [u64],
    /// Scalar arguments behind them.
    scalars: &'static [u32],
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "gemv_bf16",
        object: "hk.hsaco",
        kernel: "gemv_bf16_xmask",
        grid: 256,
        block: 256,
        lds: 0,
        buffers: &[2048 * 2048 * 2, 2048 * 4, 2048 * 4],
        scalars: &[2048, 2048],
    },
    Workload {
        name: "gemm_f16_wmma",
        object: "rk.hsaco",
        kernel: "k_gemm",
        grid: 1,
        block: 32,
        lds: 0,
        buffers: &[512 * 20_000, 512 * 20_000, 1024],
        scalars: &[20_000],
    },
    Workload {
        name: "softmax_row",
        object: "hk.hsaco",
        kernel: "softmax_row",
        grid: 64,
        block: 256,
        lds: 32,
        buffers: &[64 * 4099 * 4, 64 * 4099 * 4],
        scalars: &[4099, 0x3f80_0000],
    },
];

fn emulator(c: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/kernels");
    let mut group = c.benchmark_group("wave_instructions");
    group.sample_size(10);
    for work in &WORKLOADS {
        let mut memory = Memory::new(1 << 30);
        let bytes = std::fs::read(folder.join(work.object)).expect("a fixture");
        let object = CodeObject::parse(&bytes).expect("a code object");
        let module = LoadedModule::load(object, &mut memory).expect("room");
        let mut kernarg = Vec::new();
        for &bytes in work.buffers {
            kernarg.extend(memory.alloc(bytes).expect("room").to_le_bytes());
        }
        kernarg.extend(work.scalars.iter().flat_map(|s| s.to_le_bytes()));
        let plan = Launch {
            kernel: work.kernel,
            grid: [work.grid, 1, 1],
            block: [work.block, 1, 1],
            dynamic_lds: work.lds,
            kernarg: &kernarg,
            options: Options { schedule: Schedule::Forward, ..Options::default() },
        };
        let stats = launch(&memory, &module, &plan).expect("it runs");
        group.throughput(Throughput::Elements(stats.total()));
        group.bench_function(work.name, |b| b.iter(|| black_box(launch(&memory, &module, &plan).expect("it runs"))));
    }
    group.finish();
}

criterion_group!(benches, emulator);
criterion_main!(benches);
