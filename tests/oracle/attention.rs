//! out[t,h,·] = Σ_p softmax_p(q[t,h]·k[g,p] / √D) · v[g,p,·] over p ≤ position + t, with g = h / group.

use super::Expected;
use super::kv_append::Cache;

/// `q` is `[T, group · kv_heads, D]`; keys and values lie as [`Cache`] says.
pub fn attention(
    cache: Cache,
    q: &[f64],
    keys: &[f64],
    values: &[f64],
    group: usize,
    position: usize,
) -> Vec<Expected> {
    let (d_count, heads) = (cache.head_dim, group * cache.kv_heads);
    let mut out = Vec::with_capacity(q.len());
    for t in 0..q.len() / (heads * d_count) {
        for head in 0..heads {
            let kv_head = head / group;
            let query = &q[(t * heads + head) * d_count..][..d_count];
            let visible = position + t + 1;
            let mut scores = Vec::with_capacity(visible);
            for p in 0..visible {
                let mut dot = 0.0;
                for d in 0..d_count {
                    dot += query[d] * keys[cache.key(kv_head, p, d)];
                }
                scores.push(dot / (d_count as f64).sqrt());
            }
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..d_count {
                let mut sum = Expected { value: 0.0, magnitude: 0.0 };
                for (p, weight) in weights.iter().enumerate() {
                    let term = weight / total * values[cache.value(kv_head, p, d)];
                    sum.value += term;
                    sum.magnitude += term.abs();
                }
                out.push(sum);
            }
        }
    }
    out
}
