//! Kernels to measure the emulator with: our own linear kernels at shapes of Qwen3-0.6B and tiny-qwen3, then a bf16 GEMV, a matrix
//! product by WMMA and a softmax through LDS of `tests/fixtures/kernels`, which are compiled by others. Buffers are zero: values do not
//! matter here, results are judged in `tests/kernels` and `tests/ops`.

use device_ops::{Geometry, linear};
use emulator::{CodeObject, Launch, LoadedModule, Memory, Options, Stats, launch};
use std::borrow::Cow;
use std::path::Path;
use zynfer::gpu::code_object::IMAGE;

/// A kernel and what it is launched with.
pub struct Workload {
    /// How a bench calls it.
    pub name: &'static str,
    /// A file of `tests/fixtures/kernels`, or our own code object.
    object: Option<&'static str>,
    kernel: &'static str,
    grid: [u32; 3],
    block: u32,
    lds: u32,
    /// Bytes of the pointer arguments.
    buffers: [u64; 3],
    /// Scalar arguments behind them.
    scalars: &'static [u32],
}

/// One of our linear kernels: scalars are tokens, N and K.
const fn ours(name: &'static str, kernel: &'static str, geometry: Geometry, scalars: &'static [u32; 3]) -> Workload {
    let [tokens, n, k] = [scalars[0] as u64, scalars[1] as u64, scalars[2] as u64];
    Workload {
        name,
        object: None,
        kernel,
        grid: geometry.workgroups,
        block: geometry.workgroup_size(),
        lds: geometry.lds_bytes,
        buffers: [2 * n * k, 2 * tokens * k, 4 * tokens * n],
        scalars,
    }
}

/// All of them.
pub const WORKLOADS: [Workload; 6] = [
    ours("linear_gemv_1024x1024", linear::NAME_GEMV, linear::geometry_gemv(1, 1024), &[1, 1024, 1024]),
    ours("linear_gemv_256x128", linear::NAME_GEMV, linear::geometry_gemv(1, 256), &[1, 256, 128]),
    ours("linear_wmma_64x256x1024", linear::NAME_WMMA, linear::geometry_wmma(64, 256), &[64, 256, 1024]),
    Workload {
        name: "gemv_bf16",
        object: Some("hk.hsaco"),
        kernel: "gemv_bf16_xmask",
        grid: [256, 1, 1],
        block: 256,
        lds: 0,
        buffers: [2048 * 2048 * 2, 2048 * 4, 2048 * 4],
        scalars: &[2048, 2048],
    },
    Workload {
        name: "gemm_f16_wmma",
        object: Some("rk.hsaco"),
        kernel: "k_gemm",
        grid: [1, 1, 1],
        block: 32,
        lds: 0,
        buffers: [512 * 20_000, 512 * 20_000, 1024],
        scalars: &[20_000],
    },
    Workload {
        name: "softmax_row",
        object: Some("hk.hsaco"),
        kernel: "softmax_row",
        grid: [64, 1, 1],
        block: 256,
        lds: 32,
        buffers: [64 * 4099 * 4, 64 * 4099 * 4, 0],
        scalars: &[4099, 0x3f80_0000],
    },
];

/// A workload in memory, ready to be launched again and again.
pub struct Ready {
    memory: Memory,
    module: LoadedModule,
    kernarg: Vec<u8>,
}

impl Workload {
    /// Allocates its buffers, all bytes of them written.
    pub fn ready(&self) -> Ready {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/kernels");
        let mut memory = Memory::new(1 << 30);
        memory.follow_writes();
        let bytes = match self.object {
            Some(file) => Cow::from(std::fs::read(folder.join(file)).expect("a fixture")),
            None => Cow::from(IMAGE),
        };
        let object = CodeObject::parse(&bytes).expect("a code object");
        let module = LoadedModule::load(object, &mut memory).expect("room");
        let mut kernarg = Vec::new();
        for bytes in self.buffers.into_iter().filter(|&bytes| bytes > 0) {
            let address = memory.alloc(bytes).expect("room");
            memory.mark_written(address, bytes).expect("just allocated");
            kernarg.extend(address.to_le_bytes());
        }
        kernarg.extend(self.scalars.iter().flat_map(|s| s.to_le_bytes()));
        Ready { memory, module, kernarg }
    }

    /// Runs it once.
    pub fn launch(&self, ready: &Ready, options: Options) -> Stats {
        let plan = Launch {
            kernel: self.kernel,
            grid: self.grid,
            block: [self.block, 1, 1],
            dynamic_lds: self.lds,
            kernarg: &ready.kernarg,
            options,
        };
        launch(&ready.memory, &ready.module, &plan).expect("it runs")
    }
}
