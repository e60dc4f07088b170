//! Parts of a forward pass as launches, ready to run: what the emulator's speed is measured on as a whole, as
//! [`super::kernel_workloads`] are single kernels. Our own kernels with the host's own geometry. Results are not looked at here: they
//! are judged in `tests/ops` and `tests/model`.

use bytemuck::{NoUninit, bytes_of};
use device_ops::{Geometry, attention, head_norm, kv_append, linear, residual_add, rmsnorm, rope, swiglu};
use emulator::memory::MemoryError;
use emulator::{CodeObject, Launch, LaunchError, LoadedModule, Memory, Options, Stats, launch};

/// Hidden size of Qwen3-0.6B.
const HIDDEN: u32 = 1024;
/// Its MLP's width.
const INTERMEDIATE: u32 = 3072;
/// Query heads.
const HEADS: u32 = 16;
/// Key/value heads.
const KV_HEADS: u32 = 8;
/// Elements of a head.
const HEAD_DIM: u32 = 128;
/// Rows of lm_head that fall to one of the 28 layers, in whole workgroups: 151 936 / 28 = 5426.
const LM_HEAD_ROWS: u32 = 5424;
/// Where the decoded token stands.
const POSITION: u32 = 512;
/// Tokens of a prefill chunk.
const CHUNK: u32 = 128;
/// Positions of the cache.
const CAPACITY: u32 = 1024;
/// Bytes of device memory a workload may take.
const MEMORY: u64 = 1 << 30;
/// What buffers are filled with: 0.0115 as bf16 and as f32, so that no sum overflows and every page is a page of its own.
const FILL: u8 = 0x3c;

/// One kernel launch.
struct Call {
    kernel: &'static str,
    grid: [u32; 3],
    block: u32,
    lds: u32,
    arguments: Vec<u8>,
}

/// Launches that run one after the other, with the memory they need.
pub struct Workload {
    /// What it is called in a record.
    pub name: &'static str,
    memory: Memory,
    module: LoadedModule,
    calls: Vec<Call>,
}

impl Workload {
    /// Runs all launches once.
    ///
    /// # Errors
    /// What the emulator refuses or traps on.
    pub fn run(&self, options: &Options) -> Result<Stats, LaunchError> {
        let mut sum = Stats::default();
        for call in &self.calls {
            let one = Launch {
                kernel: call.kernel,
                grid: call.grid,
                block: [call.block, 1, 1],
                dynamic_lds: call.lds,
                kernarg: &call.arguments,
                options: options.clone(),
            };
            sum.add(&launch(&self.memory, &self.module, &one)?);
        }
        Ok(sum)
    }
}

/// Makes a [`Workload`].
struct Builder {
    memory: Memory,
    module: LoadedModule,
    calls: Vec<Call>,
}

impl Builder {
    fn new(image: &[u8]) -> Self {
        let mut memory = Memory::new(MEMORY);
        let object = CodeObject::parse(image).expect("a code object");
        let module = LoadedModule::load(object, &mut memory).expect("room for the code");
        Self { memory, module, calls: Vec::new() }
    }

    fn buffer(&mut self, bytes: u64) -> u64 {
        let filled = |memory: &mut Memory| -> Result<u64, MemoryError> {
            let address = memory.alloc(bytes)?;
            memory.fill(address, bytes, FILL)?;
            Ok(address)
        };
        filled(&mut self.memory).expect("room for a buffer")
    }

    /// `elements` of `bytes` each.
    fn elements(&mut self, elements: u32, bytes: u64) -> u64 {
        self.buffer(u64::from(elements) * bytes)
    }

    fn ours(&mut self, kernel: &'static str, geometry: Geometry, arguments: &impl NoUninit) {
        // The struct is padded to its alignment, the kernel's arguments are not.
        let explicit = self.module.kernel(kernel).expect("a kernel of ours").explicit_bytes() as usize;
        self.calls.push(Call {
            kernel,
            grid: geometry.workgroups,
            block: geometry.workgroup_size(),
            lds: geometry.lds_bytes,
            arguments: bytes_of(arguments)[..explicit].to_vec(),
        });
    }

    fn linear(&mut self, x: u64, [tokens, n, k]: [u32; 3]) -> u64 {
        let w = self.elements(n * k, 2);
        let y = self.elements(tokens * n, 4);
        let arguments = linear::Args { w, x, y, tokens, n, k, pad: 0 };
        self.ours(linear::name(tokens, n), linear::geometry(tokens, n), &arguments);
        y
    }

    fn rmsnorm(&mut self, x: u64, rows: u32) -> u64 {
        let w = self.elements(HIDDEN, 2);
        let y = self.elements(rows * HIDDEN, 2);
        let arguments = rmsnorm::Args::new(x, w, y, rows, HIDDEN, 1e-6);
        self.ours(rmsnorm::name(rows), rmsnorm::geometry(rows), &arguments);
        y
    }

    /// head_norm and rope of the heads at `x`.
    fn rotate(&mut self, x: u64, tokens: u32, heads: u32, position: u32, table: u64) {
        let w = self.elements(HEAD_DIM, 2);
        let rows = tokens * heads;
        let name = head_norm::name(HEAD_DIM).expect("a head size with a kernel");
        self.ours(name, head_norm::geometry(rows), &head_norm::Args { x, w, rows, eps: 1e-6 });
        let name = rope::name(HEAD_DIM).expect("a head size with a kernel");
        self.ours(name, rope::geometry(tokens, heads), &rope::Args { x, table, heads, position });
    }

    fn residual_add(&mut self, hidden: u64, proj: u64, count: u64) {
        self.ours(residual_add::NAME, residual_add::geometry(count), &residual_add::Args { hidden, proj, count });
    }

    /// One layer of Qwen3-0.6B for `tokens` tokens from `position` on; gives the residual stream.
    fn layer(&mut self, tokens: u32, position: u32) -> u64 {
        let hidden = self.elements(tokens * HIDDEN, 4);
        let table = self.elements(CAPACITY * HEAD_DIM, 4);
        let cache = KV_HEADS * CAPACITY * HEAD_DIM;
        let (k_cache, v_cache) = (self.elements(cache, 2), self.elements(cache, 2));
        let (heads, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);

        let normed = self.rmsnorm(hidden, tokens);
        let q = self.linear(normed, [tokens, heads, HIDDEN]);
        let k = self.linear(normed, [tokens, kv, HIDDEN]);
        let v = self.linear(normed, [tokens, kv, HIDDEN]);
        self.rotate(q, tokens, HEADS, position, table);
        self.rotate(k, tokens, KV_HEADS, position, table);
        let arguments = kv_append::Args {
            k,
            v,
            k_cache,
            v_cache,
            tokens,
            kv_heads: KV_HEADS,
            head_dim_log2: HEAD_DIM.ilog2(),
            position,
            capacity: CAPACITY,
            pad: 0,
        };
        self.ours(kv_append::NAME, kv_append::geometry(tokens, KV_HEADS, HEAD_DIM), &arguments);
        let out = self.elements(tokens * heads, 2);
        let group = HEADS / KV_HEADS;
        let scale = 1.0 / (HEAD_DIM as f32).sqrt();
        let arguments = attention::Args {
            q,
            k_cache,
            v_cache,
            out,
            tokens,
            position,
            group,
            kv_heads: KV_HEADS,
            capacity: CAPACITY,
            scale,
        };
        let name = attention::name(tokens, HEAD_DIM).expect("a head size with a kernel");
        self.ours(name, attention::geometry(tokens, group, KV_HEADS, HEAD_DIM), &arguments);
        let proj = self.linear(out, [tokens, HIDDEN, heads]);
        self.residual_add(hidden, proj, u64::from(tokens * HIDDEN));

        let normed = self.rmsnorm(hidden, tokens);
        let gate = self.linear(normed, [tokens, INTERMEDIATE, HIDDEN]);
        let up = self.linear(normed, [tokens, INTERMEDIATE, HIDDEN]);
        let count = u64::from(tokens * INTERMEDIATE);
        let out = self.elements(tokens * INTERMEDIATE, 2);
        self.ours(swiglu::NAME, swiglu::geometry(count), &swiglu::Args { gate, up, out, count });
        let proj = self.linear(out, [tokens, HIDDEN, INTERMEDIATE]);
        self.residual_add(hidden, proj, u64::from(tokens * HIDDEN));
        hidden
    }

    fn done(self, name: &'static str) -> Workload {
        Workload { name, memory: self.memory, module: self.module, calls: self.calls }
    }
}

/// A 28th of one decoded token of Qwen3-0.6B at position 512: the launches of one layer, the last norm, and a 28th of lm_head's rows.
/// Left out are the embedding of one row and the choice of the largest logit. This is the mix of vector and memory instructions.
pub fn decode_mix(image: &[u8]) -> Workload {
    let mut builder = Builder::new(image);
    let hidden = builder.layer(1, POSITION);
    let normed = builder.rmsnorm(hidden, 1);
    builder.linear(normed, [1, LM_HEAD_ROWS, HIDDEN]);
    builder.done("decode_mix")
}

/// One layer of Qwen3-0.6B for a prompt of 128 tokens: our matrix kernel, and attention by matrix instructions.
pub fn prefill_layer(image: &[u8]) -> Workload {
    let mut builder = Builder::new(image);
    builder.layer(CHUNK, 0);
    builder.done("prefill_layer")
}

/// Our linear kernel for a shape `[tokens, n, k]`.
pub fn linear(name: &'static str, image: &[u8], shape: [u32; 3]) -> Workload {
    let mut builder = Builder::new(image);
    let x = builder.elements(shape[0] * shape[2], 2);
    builder.linear(x, shape);
    builder.done(name)
}

/// `k_gemm` of `tests/fixtures/kernels`, which loads both operands of every matrix instruction from memory: one in 14 instructions is a
/// WMMA. Every workgroup computes the same tile; what counts is that there is one for each core.
pub fn gemm_f16(name: &'static str, image: &[u8]) -> Workload {
    const STEPS: u32 = 2500;
    const WORKGROUPS: u32 = 8;
    let mut builder = Builder::new(image);
    let mut arguments = Vec::new();
    for bytes in [512 * STEPS, 512 * STEPS, 1024] {
        arguments.extend(builder.elements(bytes, 1).to_le_bytes());
    }
    arguments.extend(STEPS.to_le_bytes());
    builder.calls.push(Call { kernel: "k_gemm", grid: [WORKGROUPS, 1, 1], block: 32, lds: 0, arguments });
    builder.done(name)
}
