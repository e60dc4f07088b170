//! Times each operation of the host on the card by itself, at the shapes of Qwen3-0.6B, for one token and for a prompt of 512: microseconds
//! of a launch, and what that is in bytes and operations per second. Launches are recorded in a graph, so that the host's part does not
//! count, and rotate over copies of what they read, so that no cache holds it from one to the next. It judges nothing. Writes JSON.

use std::process::ExitCode;
use std::sync::Arc;

use device_ops::linear::w8a8;
use zynfer::gpu::code_object;
use zynfer::hip::kernels::{Gemm, Kernels, KvCache, LaunchError, Matrix};
use zynfer::hip::{Buffer, Context, Event, HipError, Search, Selector, Span, Stream, choose, devices};
use zynfer::quant::Scheme;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const HIDDEN: usize = 1024;
const INTERMEDIATE: usize = 3072;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const VOCAB: usize = 151_936;
/// Positions in the cache before the measured token.
const CONTEXT: usize = 512;
const EPS: f32 = 1e-6;
/// What rotates is at least this large: more than any cache of the card.
const ROTATE_BYTES: usize = 512 << 20;
/// Launches in a graph, and measured launches of the graph.
const LAUNCHES: usize = 100;
const RUNS: usize = 7;

/// An operation at one shape.
struct Case<'a> {
    name: String,
    /// Bytes that have to be read and written, and floating-point operations.
    bytes: f64,
    operations: f64,
    launch: Box<dyn Fn(usize) -> std::result::Result<(), LaunchError> + 'a>,
}

struct Card {
    context: Arc<Context>,
    stream: Stream,
    kernels: Kernels,
}

impl Card {
    fn open() -> Result<Self> {
        let library = Search::amd(None).open()?;
        let choice = choose(&devices(&library)?, &Selector::Auto, code_object::ARCHITECTURES)?;
        let context = Context::new(&library, choice.device)?;
        let kernels = Kernels::load(&context, code_object::IMAGE)?;
        Ok(Self { stream: Stream::new(&context)?, context, kernels })
    }

    /// A buffer of small positive bf16 (or f32) numbers.
    fn buffer(&self, bytes: usize) -> Result<Span> {
        let span = Buffer::new(&self.context, bytes)?.span();
        self.stream.fill(&span, 0x3c)?;
        Ok(span)
    }

    /// Enough copies of a buffer to go past every cache.
    fn rotating(&self, bytes: usize) -> Result<Vec<Span>> {
        (0..ROTATE_BYTES.div_ceil(bytes).clamp(1, LAUNCHES)).map(|_| self.buffer(bytes)).collect()
    }

    /// Microseconds of one launch, in each run, in order of size.
    fn time(&self, case: &Case<'_>) -> Result<Vec<f64>> {
        let graph = self.stream.capture(|| (0..LAUNCHES).try_for_each(|index| (case.launch)(index)))?.instantiate()?;
        let (start, stop) = (Event::new(&self.context)?, Event::new(&self.context)?);
        let mut micros = Vec::new();
        for run in 0..=RUNS {
            start.record(&self.stream)?;
            graph.launch(&self.stream)?;
            stop.record(&self.stream)?;
            stop.synchronize()?;
            if run > 0 {
                micros.push(f64::from(stop.elapsed_ms(&start)?) * 1000.0 / LAUNCHES as f64);
            }
        }
        micros.sort_by(f64::total_cmp);
        Ok(micros)
    }
}

fn linear<'a>(card: &'a Card, scheme: Scheme, t: usize, n: usize, k: usize) -> Result<Case<'a>> {
    let bytes = scheme.layout(&[n, k])?.bytes;
    let (w, x, y) = (card.rotating(bytes)?, card.buffer(t * k * 2)?, card.buffer(t * n * 4)?);
    let stored = if scheme == Scheme::Bf16 { String::new() } else { format!("{scheme} ") };
    Ok(Case {
        name: format!("linear {stored}T {t} N {n} K {k}"),
        bytes: (bytes + 2 * t * k + 4 * t * n) as f64,
        operations: 2.0 * (t * n * k) as f64,
        launch: Box::new(move |i| {
            let w = Matrix { span: &w[i % w.len()], scheme };
            card.kernels.linear(&card.stream, w, &x, &y, [t, n, k], Gemm::Fast)
        }),
    })
}

/// Bytes of activations of 8 bits with their scales.
fn rounded_bytes(t: usize, k: usize) -> usize {
    w8a8::bytes(t as u64, k as u64).iter().sum::<u64>() as usize
}

fn quantize<'a>(card: &'a Card, t: usize, k: usize) -> Result<Case<'a>> {
    let bytes = rounded_bytes(t, k);
    let (x, out) = (card.buffer(t * k * 2)?, card.buffer(bytes)?);
    Ok(Case {
        name: format!("quantize T {t} K {k}"),
        bytes: (2 * t * k + bytes) as f64,
        operations: 3.0 * (t * k) as f64,
        launch: Box::new(move |_| card.kernels.quantize(&card.stream, &x, &out, [t, k])),
    })
}

fn linear_w8a8<'a>(card: &'a Card, t: usize, n: usize, k: usize) -> Result<Case<'a>> {
    let scheme = Scheme::Int8Row;
    let (stored, rounded) = (scheme.layout(&[n, k])?.bytes, rounded_bytes(t, k));
    let (w, x, y) = (card.rotating(stored)?, card.buffer(rounded)?, card.buffer(t * n * 4)?);
    Ok(Case {
        name: format!("linear w8a8 T {t} N {n} K {k}"),
        bytes: (stored + rounded + 4 * t * n) as f64,
        operations: 2.0 * (t * n * k) as f64,
        launch: Box::new(move |i| {
            let w = Matrix { span: &w[i % w.len()], scheme };
            card.kernels.linear_w8a8(&card.stream, w, &x, &y, [t, n, k])
        }),
    })
}

fn rmsnorm<'a>(card: &'a Card, t: usize) -> Result<Case<'a>> {
    let (x, w, y) = (card.buffer(t * HIDDEN * 4)?, card.buffer(HIDDEN * 2)?, card.buffer(t * HIDDEN * 2)?);
    Ok(Case {
        name: format!("rmsnorm T {t}"),
        bytes: (6 * t * HIDDEN) as f64,
        operations: 4.0 * (t * HIDDEN) as f64,
        launch: Box::new(move |_| card.kernels.rmsnorm(&card.stream, &x, &w, &y, [t, HIDDEN], EPS)),
    })
}

fn head_norm<'a>(card: &'a Card, t: usize) -> Result<Case<'a>> {
    let rows = t * HEADS;
    let (x, w) = (card.buffer(rows * HEAD_DIM * 4)?, card.buffer(HEAD_DIM * 2)?);
    Ok(Case {
        name: format!("head_norm T {t}"),
        bytes: (8 * rows * HEAD_DIM) as f64,
        operations: 4.0 * (rows * HEAD_DIM) as f64,
        launch: Box::new(move |_| card.kernels.head_norm(&card.stream, &x, &w, [rows, HEAD_DIM], EPS)),
    })
}

fn rope<'a>(card: &'a Card, t: usize) -> Result<Case<'a>> {
    let (x, table) = (card.buffer(t * HEADS * HEAD_DIM * 4)?, card.buffer((CONTEXT + t) * HEAD_DIM * 4)?);
    Ok(Case {
        name: format!("rope T {t}"),
        bytes: (8 * t * HEADS * HEAD_DIM) as f64,
        operations: 3.0 * (t * HEADS * HEAD_DIM) as f64,
        launch: Box::new(move |_| card.kernels.rope(&card.stream, &x, &table, [t, HEADS, HEAD_DIM], CONTEXT)),
    })
}

fn attention<'a>(card: &'a Card, t: usize, before: usize) -> Result<Case<'a>> {
    let capacity = (before + t).next_multiple_of(32);
    let width = HEADS * HEAD_DIM;
    let (q, out) = (card.buffer(t * width * 4)?, card.buffer(t * width * 2)?);
    let bytes = KV_HEADS * capacity * HEAD_DIM * 2;
    let (keys, values) = (card.rotating(2 * bytes)?, bytes);
    let positions = (before + t / 2) as f64;
    Ok(Case {
        name: format!("attention T {t} behind {before}"),
        bytes: (2 * 2 * KV_HEADS * HEAD_DIM * (before + t) + 6 * t * width) as f64,
        operations: 4.0 * positions * (t * width) as f64,
        launch: Box::new(move |i| {
            let both = &keys[i % keys.len()];
            let part = |offset| {
                both.part(offset, values).map_err(|error| HipError {
                    call: "part",
                    status: 0,
                    detail: error.to_string(),
                })
            };
            let (keys, values) = (part(0)?, part(values)?);
            let cache = KvCache { keys: &keys, values: &values, kv_heads: KV_HEADS, head_dim: HEAD_DIM, capacity };
            card.kernels.attention(&card.stream, &q, &cache, &out, [t, HEADS / KV_HEADS], before, false)
        }),
    })
}

fn swiglu<'a>(card: &'a Card, t: usize) -> Result<Case<'a>> {
    let count = t * INTERMEDIATE;
    let (gate, up, out) = (card.buffer(count * 4)?, card.buffer(count * 4)?, card.buffer(count * 2)?);
    Ok(Case {
        name: format!("swiglu T {t}"),
        bytes: (10 * count) as f64,
        operations: 5.0 * count as f64,
        launch: Box::new(move |_| card.kernels.swiglu(&card.stream, &gate, &up, &out, count)),
    })
}

fn residual_add<'a>(card: &'a Card, t: usize) -> Result<Case<'a>> {
    let count = t * HIDDEN;
    let (hidden, projected) = (card.buffer(count * 4)?, card.buffer(count * 4)?);
    Ok(Case {
        name: format!("residual_add T {t}"),
        bytes: (12 * count) as f64,
        operations: count as f64,
        launch: Box::new(move |_| card.kernels.residual_add(&card.stream, &hidden, &projected, count)),
    })
}

fn argmax<'a>(card: &'a Card) -> Result<Case<'a>> {
    let (logits, ids) = (card.buffer(VOCAB * 4)?, card.buffer(4)?);
    Ok(Case {
        name: "argmax".into(),
        bytes: (4 * VOCAB) as f64,
        operations: VOCAB as f64,
        launch: Box::new(move |_| card.kernels.argmax(&card.stream, &logits, &ids, [1, VOCAB])),
    })
}

fn top_k<'a>(card: &'a Card, k: usize) -> Result<Case<'a>> {
    let (vocab, most) = (VOCAB as u32, device_ops::top_k::MAX);
    let logits = card.buffer(VOCAB * 4)?;
    let (keys, best) = (card.buffer(device_ops::top_k::keys_bytes(vocab, most))?, card.buffer(most as usize * 8)?);
    Ok(Case {
        name: format!("top_k K {k}"),
        bytes: (4 * VOCAB) as f64,
        operations: VOCAB as f64,
        launch: Box::new(move |_| card.kernels.top_k(&card.stream, &logits, &keys, &best, VOCAB, k)),
    })
}

fn run() -> Result<()> {
    let card = Card::open()?;
    let width = HEADS * HEAD_DIM;
    let mut rows = Vec::new();
    let mut measure = |case: Result<Case<'_>>| -> Result<()> {
        let case = case?;
        let micros = card.time(&case)?;
        let median = micros[micros.len() / 2];
        eprintln!(
            "{:32} {median:9.2} us ({:.2} to {:.2})  {:8.1} GB/s  {:8.2} TFLOP/s",
            case.name,
            micros[0],
            micros[micros.len() - 1],
            case.bytes / median / 1e3,
            case.operations / median / 1e6
        );
        rows.push(format!(
            "{{\"case\": \"{}\", \"micros\": {micros:?}, \"bytes\": {}, \"operations\": {}}}",
            case.name, case.bytes, case.operations
        ));
        Ok(())
    };
    for t in [1, CONTEXT] {
        for (n, k) in
            [(width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, width), (INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE)]
        {
            measure(linear(&card, Scheme::Bf16, t, n, k))?;
        }
        measure(rmsnorm(&card, t))?;
        measure(head_norm(&card, t))?;
        measure(rope(&card, t))?;
        measure(swiglu(&card, t))?;
        measure(residual_add(&card, t))?;
    }
    measure(linear(&card, Scheme::Bf16, 1, VOCAB, HIDDEN))?;
    let encoded =
        [Scheme::Int8Row, Scheme::Int8(32), Scheme::Int4(32), Scheme::Int4(128), Scheme::Int4Min(32), Scheme::Fp8];
    // What a file's Q4_K, Q6_K, Q5_K and Q5_1 are kept as.
    let kept = [Scheme::Int4MinK(32), Scheme::Int8K(16), Scheme::Int8MinK(32), Scheme::Int8Min(32)];
    for scheme in encoded.into_iter().chain(kept) {
        measure(linear(&card, scheme, 1, INTERMEDIATE, HIDDEN))?;
        measure(linear(&card, scheme, 1, VOCAB, HIDDEN))?;
        measure(linear(&card, scheme, CONTEXT, INTERMEDIATE, HIDDEN))?;
    }
    // Both sides in 8 bits beside codes that become bf16, at all shapes of a layer, and what rounding costs.
    for (n, k) in [(width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, width), (INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE)] {
        measure(linear(&card, Scheme::Int8Row, CONTEXT, n, k))?;
        measure(linear_w8a8(&card, CONTEXT, n, k))?;
    }
    measure(quantize(&card, CONTEXT, HIDDEN))?;
    measure(quantize(&card, CONTEXT, INTERMEDIATE))?;
    measure(attention(&card, 1, CONTEXT))?;
    measure(attention(&card, CONTEXT, 0))?;
    measure(argmax(&card))?;
    measure(top_k(&card, 20))?;
    measure(top_k(&card, 64))?;
    println!("[{}]", rows.join(",\n"));
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}
