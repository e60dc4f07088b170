//! Attention against an f64 softmax written from the formula, over block, split and tile edges, and its promise of equal bits.

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

/// Runs `total` tokens in passes of the given lengths and compares the last pass with the oracle.
fn check(shape: Shape, passes: &[usize]) -> Vec<f32> {
    let Shape { kv_heads, group, head_dim, .. } = shape;
    let total: usize = passes.iter().sum();
    let (kv, q) = (kv_heads * head_dim, kv_heads * group * head_dim);
    let (keys, values) = (numbers(total, kv, 1, 3.0), numbers(total, kv, 2, 1.0));
    let queries = numbers(total, q, 3, 3.0);
    // Layer 1 of 2, so that a wrong layer offset shows.
    let mut cache = KvCache::new(shape, 2, *passes.iter().max().unwrap()).unwrap();
    let mut out = vec![f32::NAN; total * q];
    let mut position = 0;
    for tokens in passes {
        let range = |width: usize| position * width..(position + tokens) * width;
        cache.append(1, position, &keys[range(kv)], &values[range(kv)]);
        cache.attention(Arch::new(), 1, position, &queries[range(q)], &mut out[range(q)]);
        position += tokens;
    }
    let last = total - passes[passes.len() - 1];
    let exact = oracle(shape, last, &queries[last * q..], &keys, &values);
    for (i, (value, exact)) in out[last * q..].iter().zip(&exact).enumerate() {
        assert!((f64::from(*value) - exact).abs() < 2e-5, "{shape:?} {passes:?} element {i}: {value} for {exact}");
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
fn bits_do_not_depend_on_chunks_or_threads() {
    let s = shape(2, 2, 64, 2 * SPLIT);
    let total = SPLIT + 200;
    let run = |threads: usize, passes: &[usize]| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| check(s, passes))
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
    let huge = shape(8, 2, 128, usize::MAX / 1000);
    assert_eq!(huge.cache_bytes(28), None);
    assert_eq!(shape(8, 2, 128, usize::MAX).cache_bytes(28), None);
    assert_eq!(shape(8, 2, 128, 40_960).cache_bytes(28), Some(28 * 8 * 40_960 * 128 * 4 * 2));
    assert_eq!(shape(8, 2, 128, 65).cache_bytes(1), Some(8 * 128 * 128 * 4 * 2));
}
