//! The CPU backend: f32 arithmetic straight from the checkpoint's bf16 or quantized weights, which stay where their source keeps them
//! (usually a mapped file). It uses all cores through rayon and the best vector instructions through `pulp`'s run-time dispatch; it has no
//! unsafe code but one prefetch, and no kernels for other dtypes.
//!
//! Memory is reserved at load: activations of one chunk, the KV cache of the whole context, the rotary table, and f32 copies
//! of the norms' and biases' vectors only. Nothing is allocated per token but each thread's buffer
//! of decoded blocks, at its first where the cache is not f32. The same input gives the same bits whatever the number of threads and
//! however the prompt is cut into chunks; another instruction set may round differently.

mod attention;
mod exp;
mod kv_store;
mod layers;
mod linear;
mod memory;
mod prefetch;
mod rows;

pub use memory::{available as available_memory, fit};
use prefetch::prefetch;

use std::sync::Arc;

use pulp::Arch;
use rayon::{ThreadPool, ThreadPoolBuilder};

use self::attention::{KvCache, Shape};
use crate::{
    engine::sampler::argmax,
    model::{
        config::ModelConfig,
        kv::{KvFormat, KvFormats},
        ops::{Act, BackendError, OpResult, Ops, TensorId},
        rope::RopeTable,
        weights::{Dtype, TensorSource, TensorView, Weights},
    },
    quant::{self, Activations},
};

#[cfg(target_endian = "big")]
compile_error!("weights are little-endian and read in place: this backend needs a little-endian machine");

/// How to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuOptions {
    /// Longest context in tokens, at least 1: length of the rotary table and of the KV cache.
    pub context_len: usize,
    /// Tokens of the largest pass, at least 1; no more than the context is used.
    pub max_chunk: usize,
    /// Threads, at most 1024; 0 takes every core the process may use.
    pub threads: usize,
    /// What activations are multiplied as, where the weights are quantized.
    pub activations: Activations,
    /// How keys and values are stored.
    pub kv: KvFormats,
}

impl CpuOptions {
    /// The usual values for a context of this length.
    pub fn new(context_len: usize) -> Self {
        Self { context_len, max_chunk: 512, threads: 0, activations: Activations::AsTheyAre, kv: Self::KV }
    }

    /// The cache unless the user says otherwise: the reference computes in f32, and a rounded key would be the largest error of the backend.
    pub const KV: KvFormats = KvFormats::both(KvFormat::F32);
}

/// The vector instructions used: AVX2 with FMA where the machine has them, NEON, or none. `pulp` would take AVX-512 in builds that have
/// the emulator in them, and results must not depend on what was built together.
pub(crate) fn arch() -> Arch {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return Arch::V3(simd);
    }
    Arch::new()
}

/// Most threads: more than any machine this is for has cores, and few enough that starting them takes no time worth the name.
const MAX_THREADS: usize = 1024;
/// Most rows of logits held at a time: `V` is large, and only perplexity asks for more than one.
const MAX_LOGITS_ROWS: usize = 64;

/// A model loaded for the CPU.
pub struct CpuBackend {
    arch: Arch,
    pool: ThreadPool,
    config: ModelConfig,
    options: CpuOptions,
    source: Arc<dyn TensorSource>,
    tensors: Vec<Tensor>,
    rope: RopeTable,
    cache: KvCache,
    acts: [Vec<f32>; 11],
    scratch: linear::Scratch,
    /// First position and number of tokens of the current pass.
    position: usize,
    tokens: usize,
    logits_rows: usize,
}

/// What is kept of a tensor beside its source.
struct Tensor {
    name: String,
    shape: Vec<usize>,
    held: Held,
}

/// A matrix where it lies.
enum Weights2d<'a> {
    /// bf16, the even element of a pair in the low half.
    Pairs(&'a [u32]),
    Quantized(quant::Matrix<'a>),
}

enum Held {
    /// Nothing: its bytes are read in place, as pairs of bf16 or as the scheme says.
    InPlace,
    /// An aligned copy, where the source's bytes do not lie at a multiple of four.
    Aligned(Box<[u32]>),
    /// A vector as f32.
    Vector(Vec<f32>),
    /// A matrix that replaces the source's: its object, so many bytes of it.
    Quantized { scheme: quant::Scheme, object: Box<[u32]>, bytes: usize },
    /// Nothing any more: such a matrix was there, and is not read again.
    Forgotten,
}

fn weight_bytes(weights: &Weights, source: &dyn TensorSource) -> usize {
    weights.specs().iter().filter_map(|spec| source.tensor(&spec.name)).map(|tensor| tensor.bytes.len()).sum()
}

fn error<T>(text: impl Into<String>) -> Result<T, BackendError> {
    Err(BackendError(text.into()))
}

impl CpuBackend {
    /// Loads `weights` from `source`, which is kept and read from at every token.
    ///
    /// # Errors
    /// A shape this backend cannot compute; a context beyond the model's positions, or larger than the machine's memory; a tensor
    /// missing, of another shape or not bf16; threads that the machine does not give.
    pub fn new(
        config: &ModelConfig,
        weights: &Weights,
        source: Arc<dyn TensorSource>,
        options: CpuOptions,
    ) -> Result<Self, BackendError> {
        let options = CpuOptions { max_chunk: options.max_chunk.min(options.context_len), ..options };
        check_shapes(config, &options)?;
        let room = memory::fit(config, weight_bytes(weights, source.as_ref()), &options, memory::available())?;
        room.check("this computer").map_err(|error| BackendError(error.to_string()))?;
        weights.check(source.as_ref()).map_err(|e| BackendError(e.to_string()))?;
        let tensors = weights.specs().iter().map(|spec| hold(source.as_ref(), &spec.name)).collect::<Result<_, _>>()?;
        let pool = ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|index| format!("zynfer-cpu-{index}"))
            .build()
            .map_err(|e| BackendError(format!("threads: {} asked for: {e}", options.threads)))?;

        let shape = Shape::new(config, options.context_len);
        let Some(cache) = KvCache::new(shape, options.kv, config.num_hidden_layers, options.max_chunk) else {
            let bytes = options.kv.token_bytes(config).and_then(|bytes| shape.cache_bytes(bytes));
            let bytes = bytes.map_or("too many".into(), |bytes| bytes.to_string());
            return error(format!("kv cache: {bytes} bytes for {} tokens, not available", options.context_len));
        };
        let max_rows = options.max_chunk.min(MAX_LOGITS_ROWS);
        let [max_in, max_out] = memory::scratch_widths(config, options.max_chunk);
        let mut backend = Self {
            arch: arch(),
            pool,
            config: config.clone(),
            options,
            source,
            tensors,
            rope: RopeTable::new(config.head_dim, config.rope_theta, options.context_len),
            cache,
            acts: Default::default(),
            scratch: linear::Scratch::new(options.max_chunk, max_in, max_out),
            position: 0,
            tokens: 0,
            logits_rows: 0,
        };
        for act in [Act::Hidden, Act::Normed, Act::Query, Act::Key, Act::Value, Act::Attn, Act::Proj] {
            backend.acts[act as usize] = vec![0.0; options.max_chunk * backend.width(act)];
        }
        for act in [Act::Gate, Act::Up, Act::Mlp] {
            backend.acts[act as usize] = vec![0.0; options.max_chunk * backend.width(act)];
        }
        backend.acts[Act::Logits as usize] = vec![0.0; max_rows * config.vocab_size];
        Ok(backend)
    }

    /// Threads in use.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Elements of one row of an activation.
    fn width(&self, act: Act) -> usize {
        let c = &self.config;
        match act {
            Act::Hidden | Act::Normed | Act::Proj => c.hidden_size,
            Act::Query | Act::Attn => c.q_size(),
            Act::Key | Act::Value => c.kv_size(),
            Act::Gate | Act::Up | Act::Mlp => c.intermediate_size,
            Act::Logits => c.vocab_size,
        }
    }

    /// The rows of this pass.
    fn rows(&self, act: Act) -> &[f32] {
        &self.acts[act as usize][..self.tokens * self.width(act)]
    }

    /// Runs `f` on the pool, or at once where there is one row: waking a thread would take longer than the row.
    fn on_pool(&self, f: impl FnOnce() + Send) {
        if self.tokens == 1 { f() } else { self.pool.install(f) }
    }

    /// Runs `f` with the rows of `act` of this pass to write, and the rest of the backend to read. `f` must not touch `act`.
    fn write<T>(&mut self, act: Act, f: impl FnOnce(&Self, &mut [f32]) -> T) -> T {
        let mut buffer = std::mem::take(&mut self.acts[act as usize]);
        let rows = self.tokens * self.width(act);
        let result = f(self, &mut buffer[..rows]);
        self.acts[act as usize] = buffer;
        result
    }

    /// A norm's or a bias's vector of `width` elements.
    fn vector(&self, id: TensorId, width: usize) -> Result<&[f32], BackendError> {
        let tensor = &self.tensors[id.0];
        match &tensor.held {
            Held::Vector(v) if v.len() == width => Ok(v),
            _ => error(format!("tensor {}: shape {:?} found, a vector of {width} expected", tensor.name, tensor.shape)),
        }
    }

    /// A matrix `[n, k]`.
    fn matrix(&self, id: TensorId, n: usize, k: usize) -> Result<Weights2d<'_>, BackendError> {
        let tensor = &self.tensors[id.0];
        if tensor.shape != [n, k] {
            return error(format!("tensor {}: shape {:?} found, [{n}, {k}] expected", tensor.name, tensor.shape));
        }
        let of_scheme = |e: quant::SchemeError| BackendError(format!("tensor {}: {e}", tensor.name));
        match &tensor.held {
            Held::Aligned(words) => Ok(Weights2d::Pairs(words)),
            Held::Quantized { scheme, object, bytes } => {
                let bytes = &bytemuck::cast_slice(object)[..*bytes];
                quant::Matrix::new(*scheme, &[n, k], bytes).map(Weights2d::Quantized).map_err(of_scheme)
            }
            Held::Forgotten => error(format!("tensor {}: forgotten, as layers are gone through once", tensor.name)),
            _ => {
                let view = self.source.tensor(&tensor.name);
                if let Some(TensorView { dtype: Dtype::Quantized(scheme), bytes, .. }) = view {
                    return quant::Matrix::new(scheme, &[n, k], bytes).map(Weights2d::Quantized).map_err(of_scheme);
                }
                let words = view.and_then(|view| bytemuck::try_cast_slice(view.bytes).ok());
                match words {
                    Some(words) if words.len() == n * k / 2 => Ok(Weights2d::Pairs(words)),
                    _ => error(format!("tensor {}: its source no longer gives {} bytes", tensor.name, n * k * 2)),
                }
            }
        }
    }

    /// `to[rows] = from[rows] · wᵀ` for `rows` rows from `first` of `from`; `to` starts at its first row.
    fn product(&mut self, w: TensorId, from: Act, first: usize, rows: usize, to: Act) -> OpResult {
        let (n, k) = (self.width(to), self.width(from));
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut y = std::mem::take(&mut self.acts[to as usize]);
        let done = self.matrix(w, n, k).map(|w| {
            let x = &self.acts[from as usize][first * k..(first + rows) * k];
            let y = &mut y[..rows * n];
            self.pool.install(|| match w {
                Weights2d::Pairs(w) => linear::linear(self.arch, w, k, x, y, &mut scratch),
                Weights2d::Quantized(w) => {
                    linear::quantized::linear(self.arch, &w, self.options.activations, x, y, &mut scratch);
                }
            });
        });
        self.acts[to as usize] = y;
        self.scratch = scratch;
        done
    }
}

/// Refuses what the kernels cannot compute, before anything is allocated.
fn check_shapes(config: &ModelConfig, options: &CpuOptions) -> OpResult {
    let (context, positions) = (options.context_len, config.max_position_embeddings);
    if context == 0 || context > positions {
        return error(format!("context: {context} tokens asked for, 1 to {positions} expected"));
    }
    if options.max_chunk == 0 {
        return error("chunk: 0 tokens asked for, 1 or more expected");
    }
    if options.threads > MAX_THREADS {
        return error(format!("threads: {} asked for, 0 to {MAX_THREADS} expected", options.threads));
    }
    let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
    if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) {
        return error(format!("num_attention_heads: {heads}, a multiple of num_key_value_heads {kv_heads} expected"));
    }
    let even = [
        ("hidden_size", config.hidden_size),
        ("intermediate_size", config.intermediate_size),
        ("head_dim", config.head_dim),
    ];
    for (name, value) in even {
        if value == 0 || !value.is_multiple_of(2) {
            return error(format!("{name}: {value}, an even number above 0 expected"));
        }
    }
    Ok(())
}

/// Looks at a tensor once: vectors become f32, matrices stay.
fn hold(source: &dyn TensorSource, name: &str) -> Result<Tensor, BackendError> {
    let Some(view) = source.tensor(name) else {
        return error(format!("tensor {name}: missing"));
    };
    if let Dtype::Quantized(scheme) = view.dtype {
        // Sizes and alignment, once, where a refusal can still name the tensor.
        quant::Matrix::new(scheme, view.shape, view.bytes).map_err(|e| BackendError(format!("tensor {name}: {e}")))?;
        return Ok(Tensor { name: name.to_owned(), shape: view.shape.to_vec(), held: Held::InPlace });
    }
    if view.dtype != Dtype::Bf16 {
        return error(format!(
            "tensor {name}: dtype {}, the cpu backend reads bf16 and our schemes",
            view.dtype.name()
        ));
    }
    let element = |pair: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16);
    let held = if view.shape.len() == 1 {
        Held::Vector(view.bytes.as_chunks().0.iter().map(element).collect())
    } else if bytemuck::try_cast_slice::<u8, u32>(view.bytes).is_ok() {
        Held::InPlace
    } else {
        Held::Aligned(view.bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    };
    Ok(Tensor { name: name.to_owned(), shape: view.shape.to_vec(), held })
}

impl Ops for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn context_len(&self) -> usize {
        self.options.context_len
    }

    fn kv_formats(&self) -> KvFormats {
        self.options.kv
    }

    fn activations(&self) -> Activations {
        self.options.activations
    }

    fn max_chunk(&self) -> usize {
        self.options.max_chunk
    }

    fn max_logits_rows(&self) -> usize {
        self.options.max_chunk.min(MAX_LOGITS_ROWS)
    }

    fn embed(&mut self, table: TensorId, ids: &[u32], position: usize) -> OpResult {
        let (tokens, chunk, context) = (ids.len(), self.options.max_chunk, self.options.context_len);
        if tokens == 0 || tokens > chunk {
            return error(format!("pass: {tokens} tokens given, 1 to {chunk} expected"));
        }
        if position.checked_add(tokens).is_none_or(|end| end > context) {
            return error(format!("pass: {tokens} tokens at position {position}, the context holds {context}"));
        }
        let (v, h) = (self.config.vocab_size, self.config.hidden_size);
        if let Some(id) = ids.iter().find(|id| **id as usize >= v) {
            return error(format!("pass: token id {id}, the vocabulary holds {v}"));
        }
        (self.position, self.tokens, self.logits_rows) = (position, tokens, 0);
        self.write(Act::Hidden, |b, hidden| {
            let rows = ids.iter().zip(hidden.chunks_exact_mut(h));
            match b.matrix(table, v, h)? {
                Weights2d::Quantized(table) => rows.for_each(|(id, row)| table.decode_row(*id as usize, row)),
                Weights2d::Pairs(table) => rows.for_each(|(id, row)| {
                    let words = &table[*id as usize * h / 2..][..h / 2];
                    for (pair, word) in row.as_chunks_mut::<2>().0.iter_mut().zip(words) {
                        *pair = [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)];
                    }
                }),
            }
            Ok(())
        })
    }

    fn rmsnorm(&mut self, w: TensorId, x: Act, y: Act) -> OpResult {
        self.write(y, |b, out| {
            let w = b.vector(w, b.width(x))?;
            b.on_pool(|| rows::rmsnorm(b.arch, w, b.config.rms_norm_eps, b.rows(x), out));
            Ok(())
        })
    }

    fn linear(&mut self, w: TensorId, x: Act, y: Act) -> OpResult {
        self.product(w, x, 0, self.tokens, y)
    }

    fn bias_add(&mut self, b: TensorId, y: Act) -> OpResult {
        self.write(y, |backend, out| {
            let bias = backend.vector(b, backend.width(y))?;
            backend.on_pool(|| rows::bias_add(backend.arch, bias, out));
            Ok(())
        })
    }

    fn head_norm(&mut self, w: TensorId, x: Act) -> OpResult {
        let width = self.width(x);
        self.write(x, |b, out| {
            let w = b.vector(w, b.config.head_dim)?;
            b.on_pool(|| rows::head_norm(b.arch, w, b.config.rms_norm_eps, width, out));
            Ok(())
        })
    }

    fn rope(&mut self, x: Act) -> OpResult {
        let width = self.width(x);
        self.write(x, |b, out| {
            b.on_pool(|| rows::rope(b.arch, &b.rope, b.position, width, out));
        });
        Ok(())
    }

    fn kv_append(&mut self, layer: usize) -> OpResult {
        let rows = self.tokens * self.config.kv_size();
        let (keys, values) = (&self.acts[Act::Key as usize][..rows], &self.acts[Act::Value as usize][..rows]);
        self.cache.append(layer, self.position, keys, values);
        Ok(())
    }

    fn attention(&mut self, layer: usize) -> OpResult {
        let rows = self.tokens * self.config.q_size();
        let mut out = std::mem::take(&mut self.acts[Act::Attn as usize]);
        let (query, cache, position) = (&self.acts[Act::Query as usize][..rows], &mut self.cache, self.position);
        self.pool.install(|| cache.attention(self.arch, layer, position, query, &mut out[..rows]));
        self.acts[Act::Attn as usize] = out;
        Ok(())
    }

    fn swiglu(&mut self) -> OpResult {
        let width = self.config.intermediate_size;
        self.write(Act::Mlp, |b, out| {
            b.on_pool(|| rows::swiglu(b.arch, width, b.rows(Act::Gate), b.rows(Act::Up), out));
        });
        Ok(())
    }

    fn residual_add(&mut self) -> OpResult {
        let width = self.config.hidden_size;
        self.write(Act::Hidden, |b, out| b.on_pool(|| rows::add(b.arch, width, b.rows(Act::Proj), out)));
        Ok(())
    }

    fn logits(&mut self, norm: TensorId, lm_head: TensorId, rows: usize) -> OpResult {
        let most = self.tokens.min(self.max_logits_rows());
        if rows == 0 || rows > most {
            return error(format!("logits: {rows} rows asked for, 1 to {most} expected"));
        }
        self.rmsnorm(norm, Act::Hidden, Act::Normed)?;
        self.product(lm_head, Act::Normed, self.tokens - rows, rows, Act::Logits)?;
        self.logits_rows = rows;
        Ok(())
    }

    fn read_logits(&mut self, out: &mut Vec<f32>) -> OpResult {
        if self.logits_rows == 0 {
            return error("logits: read before any were computed");
        }
        out.clear();
        out.extend_from_slice(&self.acts[Act::Logits as usize][..self.logits_rows * self.config.vocab_size]);
        Ok(())
    }

    fn argmax(&mut self) -> Result<u32, BackendError> {
        let Some(last) = self.logits_rows.checked_sub(1) else {
            return error("logits: read before any were computed");
        };
        let v = self.config.vocab_size;
        argmax(&self.acts[Act::Logits as usize][last * v..(last + 1) * v]).map_err(|e| BackendError(e.to_string()))
    }

    fn read_hidden(&mut self, out: &mut Vec<f32>) -> OpResult {
        let h = self.config.hidden_size;
        let Some(last) = self.tokens.checked_sub(1) else {
            return error("hidden: read before any pass");
        };
        out.clear();
        out.extend_from_slice(&self.acts[Act::Hidden as usize][last * h..(last + 1) * h]);
        Ok(())
    }
}
