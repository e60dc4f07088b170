//! Attention over a cache in formats against the f64 oracle, whose own decoding reads codes and scales: every pair, the edges of blocks and tiles,
//! and what is not appended being no number, where there is such a code.

use device_ops::Geometry;
use device_ops::attention::{self, formats};
use half::f16;
use zynfer::hip::kernels::{CodedCache, KvCache};
use zynfer_tests::oracle::attention::attention as reference;
use zynfer_tests::oracle::kv_append::Cache;
use zynfer_tests::oracle::kv_formats::{FORMATS, Format};
use zynfer_tests::tolerances::{ATTENTION_BF16, ATTENTION_F32, Tolerance};

use crate::data::{Numbers, from_bf16, rounded, wide};
use crate::hip;
use crate::kv_formats::stored;
use crate::machine::{Machine, compare};

#[derive(Debug, Clone, Copy)]
struct Shape {
    tokens: usize,
    position: usize,
    group: usize,
    kv_heads: usize,
    capacity: usize,
}

fn shape(tokens: usize, position: usize, group: usize, kv_heads: usize) -> Shape {
    Shape { tokens, position, group, kv_heads, capacity: (position + tokens).next_multiple_of(32) }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rung {
    Plain,
    Prefill,
    Decode,
}
use Rung::{Decode, Plain, Prefill};

const ALL: &[Rung] = &[Plain, Prefill, Decode];

impl Rung {
    fn kernel(self, head_dim: usize, shape: Shape) -> (&'static str, Geometry, Tolerance) {
        let (t, group, kv_heads) = (shape.tokens as u32, shape.group as u32, shape.kv_heads as u32);
        let either = |d64, d128| if head_dim == 64 { d64 } else { d128 };
        match self {
            Plain => (
                formats::name_plain(head_dim as u32).expect("64 or 128"),
                attention::geometry_plain(t, group, kv_heads),
                ATTENTION_F32,
            ),
            Prefill => (
                either(formats::NAME_PREFILL_D64, formats::NAME_PREFILL_D128),
                attention::geometry_prefill(t, group, kv_heads),
                ATTENTION_BF16,
            ),
            Decode => (
                either(formats::NAME_DECODE_D64, formats::NAME_DECODE_D128),
                attention::geometry_decode(t, group, kv_heads, head_dim as u32),
                ATTENTION_BF16,
            ),
        }
    }
}

/// A cache of random codes and scales such that numbers are up to about 3; what is not appended is no number, where there is such a code.
fn codes(
    format: Format,
    cache: Cache,
    place: impl Fn(usize, usize, usize) -> usize,
    positions: usize,
    seed: u64,
) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let nothing: &[u8] = match format {
        Format::Bf16 => &[0xc0, 0x7f],
        Format::F16 => &[0x00, 0x7e],
        Format::Int8 => &[0x80],
        Format::Fp8 => &[0x7f],
    };
    let mut bytes = nothing.repeat(cache.elements());
    bytes.resize(format.cache_bytes(cache), 0xff);
    for head in 0..cache.kv_heads {
        for p in 0..positions {
            if let Some(at) = format.scale_at(cache, head, p) {
                let largest = if format == Format::Int8 { 127.0 } else { 448.0 };
                let scale = (2.0 + numbers.unit()) / largest;
                bytes[at..at + 4].copy_from_slice(&scale.to_le_bytes());
            }
            for d in 0..cache.head_dim {
                let x = numbers.unit() * 2.0;
                let code = match format {
                    Format::Bf16 => half::bf16::from_f32(x).to_bits().to_le_bytes().to_vec(),
                    Format::F16 => f16::from_f32(x).to_bits().to_le_bytes().to_vec(),
                    Format::Int8 => vec![((x * 63.5) as i8) as u8],
                    // Any code but those that are no numbers.
                    Format::Fp8 => vec![(numbers.bits() % 0x7f) as u8 | if x < 0.0 { 0x80 } else { 0 }],
                };
                let at = place(head, p, d) * format.bytes();
                bytes[at..at + format.bytes()].copy_from_slice(&code);
            }
        }
    }
    bytes
}

/// Queries, and keys and values in their formats.
struct Input {
    q: Vec<f32>,
    formats: [Format; 2],
    keys: Vec<u8>,
    values: Vec<u8>,
}

fn input(shape: Shape, head_dim: usize, formats: [Format; 2]) -> Input {
    let cache = Cache { kv_heads: shape.kv_heads, head_dim, capacity: shape.capacity };
    let seed = (shape.tokens * 7919 + shape.position * 31 + shape.group) as u64;
    let positions = shape.position + shape.tokens;
    let q = Numbers::new(seed).vector(shape.tokens * shape.group * shape.kv_heads * head_dim, 1.0);
    let keys = codes(formats[0], cache, |g, p, d| cache.key(g, p, d), positions, seed + 1);
    let values = codes(formats[1], cache, |g, p, d| cache.value(g, p, d), positions, seed + 2);
    Input { q, formats, keys, values }
}

#[track_caller]
fn run(rung: Rung, shape: Shape, head_dim: usize, input: &Input) {
    let cache = Cache { kv_heads: shape.kv_heads, head_dim, capacity: shape.capacity };
    let (kernel, geometry, tolerance) = rung.kernel(head_dim, shape);
    let [k_format, v_format] = input.formats;
    let positions = shape.position + shape.tokens;
    let keys = k_format.decode(cache, &input.keys, |g, p, d| cache.key(g, p, d), positions);
    let values = v_format.decode(cache, &input.values, |g, p, d| cache.value(g, p, d), positions);
    // The matrix kernels round queries to bf16 (docs/NUMERICS.md); the oracle starts from what they multiply with.
    let q = if rung == Plain { wide(&input.q) } else { wide(&rounded(&input.q)) };
    let want = reference(cache, &q, &keys, &values, shape.group, shape.position);
    let what = format!("{kernel} {shape:?} {k_format:?} {v_format:?}");

    let mut machine = Machine::new();
    let out = machine.output::<u16>(input.q.len());
    let (k_cache, v_cache) = (machine.input(&input.keys), machine.input(&input.values));
    let scales = |base: u64, format: Format| if format.is_scaled() { base + cache.elements() as u64 } else { 0 };
    let args = formats::Args {
        q: machine.input(&input.q),
        k_cache,
        v_cache,
        k_scales: scales(k_cache, k_format),
        v_scales: scales(v_cache, v_format),
        out: out.address,
        k_format: stored(k_format) as u32,
        v_format: stored(v_format) as u32,
        tokens: shape.tokens as u32,
        position: shape.position as u32,
        group: shape.group as u32,
        kv_heads: shape.kv_heads as u32,
        capacity: shape.capacity as u32,
        scale: 1.0 / (head_dim as f32).sqrt(),
    };
    machine.run(kernel, geometry, &args);
    compare(&what, &from_bf16(&machine.read(&out)), &want, tolerance);

    let plain = rung == Plain;
    if plain || Some(kernel) == formats::name(shape.tokens as u32, head_dim as u32) {
        hip::each(|device| {
            let (q, out) = (device.buffer(&input.q), device.output::<u16>(input.q.len()));
            let (keys, values) = (device.buffer(&input.keys), device.buffer(&input.values));
            let Cache { kv_heads, head_dim, capacity } = cache;
            let place = KvCache { keys: &keys.span, values: &values.span, kv_heads, head_dim, capacity };
            let coded = CodedCache { cache: place, k: stored(k_format), v: stored(v_format) };
            let (stream, queries) = (&device.stream, [shape.tokens, shape.group]);
            let kernels = &device.kernels;
            let launched =
                kernels.attention_formats(stream, &q.span, &coded, &out.span, queries, shape.position, plain);
            launched.expect("a right launch");
            let got: Vec<f64> = from_bf16(&device.read(&out));
            compare(&format!("{}: {what}", device.name), &got, &want, tolerance);
        });
    }
}

#[track_caller]
fn check(rungs: &[Rung], shape: Shape, formats: &[[Format; 2]]) {
    for head_dim in [64, 128] {
        for &formats in formats {
            let input = input(shape, head_dim, formats);
            for &rung in rungs {
                run(rung, shape, head_dim, &input);
            }
        }
    }
}

/// Each format for both, and two that mix.
const SOME: &[[Format; 2]] = &[
    [Format::Bf16; 2],
    [Format::F16; 2],
    [Format::Int8; 2],
    [Format::Fp8; 2],
    [Format::Bf16, Format::Int8],
    [Format::Int8, Format::F16],
];

#[test]
fn every_pair_of_formats() {
    for k in FORMATS {
        for v in FORMATS {
            check(ALL, shape(3, 40, 2, 2), &[[k, v]]);
        }
    }
}

/// One token at the edges of a block of 32 positions and of the eight waves' 256.
#[test]
fn one_token() {
    for position in [0, 1, 30, 31, 32, 63, 255, 256, 300] {
        check(ALL, shape(1, position, 2, 2), SOME);
    }
}

/// Queries around a tile of 16, with groups that divide it and that do not; chunks at position 0 and later.
#[test]
fn tiles_and_groups() {
    for (tokens, group, kv_heads) in [(15, 1, 2), (16, 1, 1), (17, 1, 1), (3, 3, 2), (9, 2, 3), (1, 17, 1), (33, 4, 1)]
    {
        for position in [0, 31, 70] {
            check(ALL, shape(tokens, position, group, kv_heads), &SOME[2..5]);
        }
    }
    check(&[Prefill, Decode], shape(65, 700, 2, 1), SOME);
    check(ALL, Shape { capacity: 1024, ..shape(20, 50, 2, 2) }, SOME);
}

/// A head with a number that is none has such a scale: whoever sees it gets no number, the others theirs.
#[test]
fn scales_that_are_no_numbers_spoil_what_sees_them() {
    let shape = shape(20, 40, 2, 2);
    for head_dim in [64, 128] {
        let cache = Cache { kv_heads: 2, head_dim, capacity: shape.capacity };
        for format in [Format::Int8, Format::Fp8] {
            let at = format.scale_at(cache, 1, 51).expect("a scale");
            let with = |in_keys: bool| {
                let mut input = input(shape, head_dim, [format; 2]);
                let bytes = if in_keys { &mut input.keys } else { &mut input.values };
                bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
                input
            };
            for input in [with(true), with(false)] {
                for &rung in ALL {
                    run(rung, shape, head_dim, &input);
                }
            }
        }
    }
}

#[test]
fn longest_context() {
    check(&[Decode, Prefill], shape(1, 40_959, 2, 1), &[[Format::Int8; 2]]);
}

#[test]
fn routes() {
    let b = attention::PREFILL_FROM_TOKENS;
    assert_eq!(formats::name(b - 1, 64), Some(formats::NAME_DECODE_D64));
    assert_eq!(formats::name(b, 128), Some(formats::NAME_PREFILL_D128));
    assert_eq!((formats::name(b, 96), formats::name_plain(96)), (None, None));
}
