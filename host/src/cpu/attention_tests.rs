//! Attention against an f64 softmax written from the formula, over block, split and tile edges and the formats of the cache, and its promise
//! of equal bits.

use super::*;

/// Numbers between −1 and 1 from an integer mix.
fn number(i: usize) -> f32 {
    ((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / 8_388_608.0 - 1.0
}

/// Keys, values or queries of `tokens` tokens, `salt` telling them apart; keys large enough for a peaked softmax.
fn numbers(tokens: usize, width: usize, salt: usize, size: f32) -> Vec<f32> {
    (0..tokens * width).map(|i| number(i + salt * 1_000_003) * size).collect()
}

fn oracle(shape: Shape, position: usize, queries: &[f32], keys: &[f32], values: &[f32]) -> Vec<f64> {
    let Shape { kv_heads, group, head_dim, .. } = shape;
    let mut out = Vec::new();
    for (row, query) in queries.chunks_exact(head_dim).enumerate() {
        let (t, head) = (row / (kv_heads * group), row % (kv_heads * group) / group);
        let at = |j: usize| (j * kv_heads + head) * head_dim..(j * kv_heads + head + 1) * head_dim;
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let scores: Vec<f64> =
            (0..=position + t).map(|j| dot(query, &keys[at(j)]) / (head_dim as f64).sqrt()).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let sum: f64 = weights.iter().sum();
        out.extend(
            (0..head_dim)
                .map(|d| weights.iter().enumerate().map(|(j, w)| w * f64::from(values[at(j)][d])).sum::<f64>() / sum),
        );
    }
    out
}

/// `x` as a binary float of `digits` digits, exponents from `least` upwards and no end, of two as near the one whose last digit is even.
fn rounded(x: f64, digits: i32, least: i32) -> f64 {
    let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
    let step = 2f64.powi(exponent - digits + 1);
    (x / step).round_ties_even() * step
}

/// What a head reads back as, from the format's rule.
fn stored(format: KvFormat, head: &[f32]) -> Vec<f32> {
    let largest = head.iter().fold(0f32, |a, b| a.max(b.abs()));
    let each = |f: &dyn Fn(f32) -> f64| head.iter().map(|x| f(*x) as f32).collect();
    match format {
        KvFormat::F32 => head.to_vec(),
        KvFormat::Bf16 => each(&|x| rounded(x.into(), 8, -126)),
        KvFormat::F16 => each(&|x| rounded(f64::from(x).clamp(-65504.0, 65504.0), 11, -14)),
        KvFormat::Int8 => {
            each(&|x| f64::from((x * (127.0 / largest)).round_ties_even()) * f64::from(largest * (1.0 / 127.0)))
        }
        KvFormat::Fp8 => each(&|x| {
            rounded((x * (448.0 / largest)).into(), 4, -6).clamp(-448.0, 448.0) * f64::from(largest * (1.0 / 448.0))
        }),
    }
}

/// Runs `total` tokens in passes of the given lengths and compares the last pass with the oracle.
fn check(shape: Shape, passes: &[usize]) -> Vec<f32> {
    check_stored(shape, KvFormats::both(KvFormat::F32), passes)
}

fn check_stored(shape: Shape, kv: KvFormats, passes: &[usize]) -> Vec<f32> {
    let Shape { kv_heads, group, head_dim, .. } = shape;
    let total: usize = passes.iter().sum();
    let (width, q) = (kv_heads * head_dim, kv_heads * group * head_dim);
    let (keys, values) = (numbers(total, width, 1, 3.0), numbers(total, width, 2, 1.0));
    let queries = numbers(total, q, 3, 3.0);
    // Layer 1 of 2, so that a wrong layer offset shows.
    let mut cache = KvCache::new(shape, kv, 2, *passes.iter().max().unwrap()).unwrap();
    let mut out = vec![f32::NAN; total * q];
    let mut position = 0;
    for tokens in passes {
        let range = |row: usize| position * row..(position + tokens) * row;
        cache.append(1, position, &keys[range(width)], &values[range(width)]);
        cache.attention(Arch::new(), 1, position, &queries[range(q)], &mut out[range(q)]);
        position += tokens;
    }
    let last = total - passes[passes.len() - 1];
    let all = |format, x: &[f32]| x.chunks_exact(head_dim).flat_map(|head| stored(format, head)).collect::<Vec<f32>>();
    let exact = oracle(shape, last, &queries[last * q..], &all(kv.k, &keys), &all(kv.v, &values));
    for (i, (value, exact)) in out[last * q..].iter().zip(&exact).enumerate() {
        assert!((f64::from(*value) - exact).abs() < 2e-5, "{shape:?} {kv} {passes:?} element {i}: {value} for {exact}");
    }
    out
}

fn shape(kv_heads: usize, group: usize, head_dim: usize, context_len: usize) -> Shape {
    Shape { kv_heads, group, head_dim, context_len }
}

#[test]
fn prompts_at_block_tile_and_split_edges() {
    for tokens in [1, 2, 7, 8, 9, 63, 64, 65, 127, 129] {
        check(shape(2, 2, 128, tokens), &[tokens]);
    }
    for tokens in [SPLIT - 1, SPLIT, SPLIT + 1, 2 * SPLIT + 3] {
        check(shape(1, 2, 64, tokens), &[tokens - 5, 5]);
    }
}

#[test]
fn decode_at_block_and_split_edges() {
    for before in [0, 1, 62, 63, 64, 65, SPLIT - 2, SPLIT - 1, SPLIT, 2 * SPLIT, 2 * SPLIT + 70] {
        let passes: Vec<usize> = [before, 1].into_iter().filter(|n| *n > 0).collect();
        check(shape(2, 3, 64, before + 1), &passes);
    }
}

#[test]
fn any_group_and_head_dim() {
    for (kv_heads, group) in [(1, 1), (3, 1), (2, 5), (1, 16), (1, 40)] {
        for head_dim in [2, 8, 20, 64, 96, 128, 256] {
            check(shape(kv_heads, group, head_dim, 70), &[66, 3]);
            check(shape(kv_heads, group, head_dim, 70), &[66, 1]);
        }
    }
}

#[test]
fn every_pair_of_formats_at_block_and_split_edges() {
    for k in KvFormat::ALL {
        for v in KvFormat::ALL {
            let kv = KvFormats { k, v };
            for passes in [&[1][..], &[63, 1], &[64, 1], &[60, 9], &[130]] {
                check_stored(shape(2, 2, 64, passes.iter().sum()), kv, passes);
            }
            check_stored(shape(1, 3, 20, SPLIT + 7), kv, &[SPLIT - 1, 5, 1]);
        }
    }
}

/// Reads one position back: the softmax over a single position is 1.
fn read_back(format: KvFormat, value: &[f32]) -> Vec<f32> {
    let shape = shape(1, 1, value.len(), 1);
    let mut cache = KvCache::new(shape, KvFormats { k: KvFormat::F32, v: format }, 1, 1).unwrap();
    let (zeros, mut out) = (vec![0.0; value.len()], vec![f32::NAN; value.len()]);
    cache.append(0, 0, &zeros, value);
    cache.attention(Arch::new(), 0, 0, &zeros, &mut out);
    out
}

#[test]
fn what_no_format_holds_is_saturated_or_stays_not_finite() {
    use KvFormat::{Bf16, F16, Fp8, Int8};
    assert_eq!(read_back(F16, &[70_000.0, -1e30, 65_504.0, 65_519.0]), [65_504.0, -65_504.0, 65_504.0, 65_504.0]);
    assert_eq!(read_back(F16, &[f32::INFINITY, 1.0])[..], [f32::INFINITY, 1.0]);
    for format in [Bf16, F16, Int8, Fp8] {
        assert!(read_back(format, &[f32::NAN, 1.0])[0].is_nan(), "{format}");
        assert_eq!(read_back(format, &[0.0; 6]), [0.0; 6], "{format}");
    }
    for format in [Int8, Fp8] {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(read_back(format, &[1.0, bad, 2.0, 3.0]).iter().all(|x| !x.is_finite()), "{format} {bad}");
        }
        // The largest keeps its place whatever its size; a head of next to nothing becomes nothing.
        for largest in [f32::MAX, 65_504.0, 3.0, 1e-30] {
            let head = read_back(format, &[largest, -largest, largest / 4.0, 0.0]);
            assert!((head[0] / largest - 1.0).abs() < 1e-6 && head[1] == -head[0] && head[3] == 0.0, "{head:?}");
            assert!((head[2] / largest - 0.25).abs() < 0.005, "{head:?}");
        }
        assert_eq!(read_back(format, &[1e-40, -1e-41]), [0.0; 2]);
    }
}

#[test]
fn bits_do_not_depend_on_chunks_or_threads() {
    for kv in [KvFormat::F32, KvFormat::Int8].map(KvFormats::both) {
        bits_depend_on_positions_alone(kv);
    }
}

fn bits_depend_on_positions_alone(kv: KvFormats) {
    let s = shape(2, 2, 64, 2 * SPLIT);
    let total = SPLIT + 200;
    let run = |threads: usize, passes: &[usize]| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| check_stored(s, kv, passes))
    };
    let whole = run(1, &[total]);
    assert!(whole == run(3, &[total]));
    assert!(whole == run(2, &[900, 223, 101]));
    let mut singly = vec![SPLIT - 3];
    singly.resize(1 + total - singly[0], 1);
    assert!(whole == run(2, &singly));
}

#[test]
fn sizes_that_cannot_be_counted_are_none() {
    // 28 layers of 8 heads, and one of them.
    let (f32, int8, layer) = (28 * 8 * 128 * 4 * 2, 28 * 8 * (128 + 4) * 2, 8 * 128 * 4 * 2);
    let huge = shape(8, 2, 128, usize::MAX / 1000);
    assert_eq!(huge.cache_bytes(f32), None);
    assert_eq!(shape(8, 2, 128, usize::MAX).cache_bytes(int8), None);
    assert_eq!(shape(8, 2, 128, 40_960).cache_bytes(f32), Some(28 * 8 * 40_960 * 128 * 4 * 2));
    assert_eq!(shape(8, 2, 128, 40_960).cache_bytes(int8), Some(28 * 8 * 40_960 * (128 + 4) * 2));
    assert_eq!(shape(8, 2, 128, 65).cache_bytes(layer), Some(8 * 128 * 128 * 4 * 2));
}
