//! Attention: each kernel at each shape, head_dim 64 and 128. Positions that are not appended hold NaN: reading them into a result
//! shows at once.

use device_ops::{Geometry, attention};
use half::bf16;
use zynfer::hip::kernels::KvCache;
use zynfer_tests::oracle;
use zynfer_tests::oracle::kv_append::Cache;
use zynfer_tests::tolerances::{ATTENTION_BF16, ATTENTION_F32, Tolerance};

use crate::data::{Numbers, from_bf16, rounded, wide};
use crate::hip;
use crate::machine::{Machine, compare};

#[derive(Debug, Clone, Copy)]
struct Shape {
    tokens: usize,
    position: usize,
    group: usize,
    kv_heads: usize,
    capacity: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rung {
    Plain,
    Prefill,
    Decode,
}
use Rung::{Decode, Plain, Prefill};

impl Rung {
    fn kernel(self, head_dim: usize, shape: Shape) -> (&'static str, Geometry, Tolerance) {
        let (tokens, group, kv_heads) = (shape.tokens as u32, shape.group as u32, shape.kv_heads as u32);
        let d64 = head_dim == 64;
        match self {
            Plain => (
                if d64 { attention::NAME_PLAIN_D64 } else { attention::NAME_PLAIN_D128 },
                attention::geometry_plain(tokens, group, kv_heads),
                ATTENTION_F32,
            ),
            Prefill => (
                if d64 { attention::NAME_PREFILL_D64 } else { attention::NAME_PREFILL_D128 },
                attention::geometry_prefill(tokens, group, kv_heads),
                ATTENTION_BF16,
            ),
            Decode => (
                if d64 { attention::NAME_DECODE_D64 } else { attention::NAME_DECODE_D128 },
                attention::geometry_decode(tokens, group, kv_heads, head_dim as u32),
                ATTENTION_BF16,
            ),
        }
    }
}

/// Queries, keys and values in their layouts.
struct Input {
    q: Vec<f32>,
    keys: Vec<u16>,
    values: Vec<u16>,
}

fn input(shape: Shape, head_dim: usize, q_scale: f32) -> Input {
    let cache = Cache { kv_heads: shape.kv_heads, head_dim, capacity: shape.capacity };
    let mut numbers = Numbers::new((shape.tokens * 7919 + shape.position * 31 + shape.group) as u64);
    let q = numbers.vector(shape.tokens * shape.group * shape.kv_heads * head_dim, q_scale);
    let nan = bf16::NAN.to_bits();
    let (mut keys, mut values) = (vec![nan; cache.elements()], vec![nan; cache.elements()]);
    for head in 0..shape.kv_heads {
        for p in 0..shape.position + shape.tokens {
            for d in 0..head_dim {
                keys[cache.key(head, p, d)] = bf16::from_f32(numbers.unit() * 2.0).to_bits();
                values[cache.value(head, p, d)] = bf16::from_f32(numbers.unit()).to_bits();
            }
        }
    }
    Input { q, keys, values }
}

/// Runs one kernel; the output's bits.
#[track_caller]
fn launch(rung: Rung, shape: Shape, head_dim: usize, input: &Input) -> Vec<u16> {
    let (kernel, geometry, _) = rung.kernel(head_dim, shape);
    let mut machine = Machine::new();
    let out = machine.output::<u16>(input.q.len());
    let args = attention::Args {
        q: machine.input(&input.q),
        k_cache: machine.input(&input.keys),
        v_cache: machine.input(&input.values),
        out: out.address,
        tokens: shape.tokens as u32,
        position: shape.position as u32,
        group: shape.group as u32,
        kv_heads: shape.kv_heads as u32,
        capacity: shape.capacity as u32,
        scale: 1.0 / (head_dim as f32).sqrt(),
    };
    machine.run(kernel, geometry, &args);
    machine.read(&out)
}

#[track_caller]
fn run(rung: Rung, shape: Shape, head_dim: usize, input: &Input) {
    let cache = Cache { kv_heads: shape.kv_heads, head_dim, capacity: shape.capacity };
    let (kernel, _, tolerance) = rung.kernel(head_dim, shape);
    // The matrix kernels round queries to bf16 (docs/NUMERICS.md); the oracle starts from what they multiply with.
    let q = if rung == Plain { wide(&input.q) } else { wide(&rounded(&input.q)) };
    let want = oracle::attention::attention(
        cache,
        &q,
        &from_bf16(&input.keys),
        &from_bf16(&input.values),
        shape.group,
        shape.position,
    );
    let got: Vec<f64> = from_bf16(&launch(rung, shape, head_dim, input));
    compare(&format!("{kernel} {shape:?}"), &got, &want, tolerance);
    let plain = rung == Plain;
    if plain || Some(kernel) == attention::name(shape.tokens as u32, head_dim as u32) {
        hip::each(|device| {
            let (q, out) = (device.buffer(&input.q), device.output::<u16>(input.q.len()));
            let (keys, values) = (device.buffer(&input.keys), device.buffer(&input.values));
            let cache = KvCache {
                keys: &keys.span,
                values: &values.span,
                kv_heads: shape.kv_heads,
                head_dim,
                capacity: shape.capacity,
            };
            let (stream, queries) = (&device.stream, [shape.tokens, shape.group]);
            let launched = device.kernels.attention(stream, &q.span, &cache, &out.span, queries, shape.position, plain);
            launched.expect("a right launch");
            let got: Vec<f64> = from_bf16(&device.read(&out));
            compare(&format!("{}: {kernel} {shape:?}", device.name), &got, &want, tolerance);
        });
    }
}

#[track_caller]
fn check(rungs: &[Rung], shape: Shape) {
    for head_dim in [64, 128] {
        let input = input(shape, head_dim, 1.0);
        for &rung in rungs {
            run(rung, shape, head_dim, &input);
        }
    }
}

const ALL: &[Rung] = &[Plain, Prefill, Decode];

fn shape(tokens: usize, position: usize, group: usize, kv_heads: usize) -> Shape {
    Shape { tokens, position, group, kv_heads, capacity: (position + tokens).next_multiple_of(32) }
}

/// One token at each edge of a block of 32 positions and of the eight waves' 256.
#[test]
fn one_token() {
    for position in [0, 1, 15, 16, 30, 31, 32, 33, 63, 64, 254, 255, 256, 257, 300] {
        check(ALL, shape(1, position, 2, 2));
    }
}

/// Queries around a tile of 16, with groups that divide it and that do not; chunks at position 0 and later.
#[test]
fn tiles_and_groups() {
    for (tokens, group, kv_heads) in [
        (2, 1, 1),
        (15, 1, 2),
        (16, 1, 1),
        (17, 1, 1),
        (3, 3, 2),
        (5, 5, 1),
        (8, 2, 1),
        (9, 2, 3),
        (2, 8, 1),
        (1, 16, 1),
        (1, 17, 1),
        (33, 4, 1),
    ] {
        for position in [0, 31, 70] {
            check(ALL, shape(tokens, position, group, kv_heads));
        }
    }
}

/// A chunk in the middle of a long prompt, and a cache much larger than what is appended.
#[test]
fn chunks_of_long_prompts() {
    check(&[Prefill, Decode], shape(65, 700, 2, 1));
    check(ALL, Shape { capacity: 1024, ..shape(20, 50, 2, 2) });
}

#[test]
fn longest_context() {
    check(&[Decode, Prefill], shape(1, 40_959, 2, 1));
    check(&[Decode], shape(2, 40_000, 1, 1));
}

/// Softmax at its ends: equal scores, one key far above all others (early, late, alone in its wave), all values equal.
#[test]
fn awkward_scores() {
    for head_dim in [64, 128] {
        let shape = shape(1, 290, 2, 1);
        let cache = Cache { kv_heads: 1, head_dim, capacity: shape.capacity };
        for &rung in ALL {
            let mut equal = input(shape, head_dim, 1.0);
            equal.q.fill(0.0);
            run(rung, shape, head_dim, &equal);
            for peak in [0, 31, 100, 290] {
                let mut peaked = input(shape, head_dim, 1.0);
                for d in 0..head_dim {
                    peaked.q[d] = 4.0;
                    peaked.q[head_dim + d] = -4.0;
                    peaked.keys[cache.key(0, peak, d)] = bf16::from_f32(6.0).to_bits();
                }
                run(rung, shape, head_dim, &peaked);
            }
        }
    }
}

#[test]
fn routes() {
    let b = attention::PREFILL_FROM_TOKENS;
    for head_dim in [64u32, 128] {
        let d64 = head_dim == 64;
        let (decode, prefill) = if d64 {
            (attention::NAME_DECODE_D64, attention::NAME_PREFILL_D64)
        } else {
            (attention::NAME_DECODE_D128, attention::NAME_PREFILL_D128)
        };
        assert_eq!(attention::name(b - 1, head_dim), Some(decode));
        assert_eq!(attention::name(b, head_dim), Some(prefill));
        assert_eq!(attention::geometry(b - 1, 2, 3, head_dim), attention::geometry_decode(b - 1, 2, 3, head_dim));
        assert_eq!(attention::geometry(b, 2, 3, head_dim), attention::geometry_prefill(b, 2, 3));
    }
    assert_eq!(attention::name(1, 96), None);
    for tokens in [b - 1, b, b + 1] {
        check(&[if tokens < b { Decode } else { Prefill }], shape(tokens as usize, 100, 2, 2));
    }
}

/// The last of eight heads of a cache whose keys and values take 5 GiB each: offsets past 2³² bytes. Only what is appended is touched.
#[test]
fn heads_past_four_gigabytes() {
    let (head_dim, tokens, group) = (128, 20, 1);
    let small = Cache { kv_heads: 8, head_dim, capacity: 32 };
    let large = Cache { capacity: 2_621_440, ..small };
    let shape = Shape { tokens, position: 0, group, kv_heads: 8, capacity: small.capacity };
    let Input { q, keys, values } = input(shape, head_dim, 1.0);
    let want =
        oracle::attention::attention(small, &wide(&rounded(&q)), &from_bf16(&keys), &from_bf16(&values), group, 0);
    for rung in [Prefill, Decode] {
        let (kernel, geometry, tolerance) = rung.kernel(head_dim, shape);
        let mut machine = Machine::new();
        let bytes = large.elements() as u64 * 2;
        let (k_cache, v_cache) = (machine.zeroes(bytes), machine.zeroes(bytes));
        for head in 0..8 {
            let run = &keys[small.key(head, 0, 0)..][..tokens * head_dim];
            machine.write(k_cache + large.key(head, 0, 0) as u64 * 2, run);
            for d in 0..head_dim {
                let run = &values[small.value(head, 0, d)..][..tokens];
                machine.write(v_cache + large.value(head, 0, d) as u64 * 2, run);
            }
        }
        let out = machine.output::<u16>(q.len());
        let args = attention::Args {
            q: machine.input(&q),
            k_cache,
            v_cache,
            out: out.address,
            tokens: tokens as u32,
            position: 0,
            group: group as u32,
            kv_heads: 8,
            capacity: large.capacity as u32,
            scale: 1.0 / (head_dim as f32).sqrt(),
        };
        machine.run(kernel, geometry, &args);
        let got: Vec<f64> = from_bf16(&machine.read(&out));
        compare(kernel, &got, &want, tolerance);
    }
}

/// A query's bits depend on nothing in its tile: not on the other queries, not even on one that is not a number.
#[test]
fn neighbours_do_not_matter() {
    for head_dim in [64, 128] {
        for rung in [Prefill, Decode] {
            let shape = shape(20, 40, 2, 2);
            let base = input(shape, head_dim, 1.0);
            let mut other = input(shape, head_dim, 1.0);
            // Every query but those of token 7 is another one.
            let row = 4 * head_dim;
            for (i, q) in other.q.iter_mut().enumerate().filter(|(i, _)| i / row != 7) {
                *q = if i % 5 == 0 { f32::NAN } else { -*q };
            }
            let [a, b] = [&base, &other].map(|input| launch(rung, shape, head_dim, input));
            assert_eq!(a[7 * row..8 * row], b[7 * row..8 * row], "{rung:?}, head_dim {head_dim}");
            assert_ne!(a[8 * row..9 * row], b[8 * row..9 * row], "the neighbours were meant to differ");
        }
    }
}
