//! The KV cache and causal grouped-query attention over it, streaming: memory does not grow with the context, scores are never held
//! beyond one block. f32 arithmetic over keys and values in the formats of [`crate::model::kv`]; keys arrive normed and rotated, positions are
//! the caller's.
//!
//! The idea: `out = Σ_j softmax(q·k_j / √d)_j · v_j`. What was done to it:
//! 1. The sum is cut into blocks of [`BLOCK`] positions with a running maximum and a running sum (online softmax).
//! 2. Keys lie transposed within a block, `[head_dim, BLOCK]`: a vector holds the same element of neighbouring positions, so scores
//!    need no horizontal sum. Values lie by position, so the output needs none either.
//! 3. Two query rows share each load of keys and values; all query heads of a group and several tokens share a block in cache.
//! 4. A row's positions are cut at fixed multiples of [`SPLIT`] whose results are merged in order. One token's splits are spread over
//!    threads; several tokens go through theirs in turn. The cuts depend on positions only, so the bits do not depend on
//!    chunking or threads.
//! 5. Blocks of another format than f32 are decoded once for all rows of a task, into a buffer that stays in cache; scales of keys multiply
//!    scores, those of values multiply weights.

use std::cell::RefCell;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::exp::{exp, exp_in_place};
use super::kv_store::{Order, Store};
use crate::model::config::ModelConfig;
use crate::model::kv::{KvFormat, KvFormats};

/// Positions of a block.
pub const BLOCK: usize = 64;
/// Positions of a split, a multiple of [`BLOCK`].
pub const SPLIT: usize = 1024;
/// Query rows (tokens × heads of a group) a task handles beside each other, at least.
const TASK_ROWS: usize = 16;

/// Shape of the attention of one model.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Key/value heads.
    pub kv_heads: usize,
    /// Query heads per key/value head.
    pub group: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Longest context in tokens.
    pub context_len: usize,
}

impl Shape {
    /// That of a model.
    pub fn new(config: &ModelConfig, context_len: usize) -> Self {
        let (kv_heads, group) = (config.num_key_value_heads, config.group_size());
        Self { kv_heads, group, head_dim: config.head_dim, context_len }
    }

    /// Bytes of a cache of whole blocks with `token_bytes` per position ([`KvFormats::token_bytes`]); `None` if that cannot be counted.
    pub fn cache_bytes(&self, token_bytes: usize) -> Option<usize> {
        self.context_len.checked_next_multiple_of(BLOCK)?.checked_mul(token_bytes)
    }

    /// Elements of the buffer that each thread decodes blocks into: one of keys and one of values, or none where all is f32.
    pub fn buffer_elements(&self, kv: KvFormats) -> usize {
        if kv == KvFormats::both(KvFormat::F32) { 0 } else { 2 * BLOCK * self.head_dim }
    }

    fn task_tokens(&self) -> usize {
        TASK_ROWS.div_ceil(self.group)
    }

    fn splits(&self) -> usize {
        self.context_len.div_ceil(SPLIT)
    }
}

thread_local! {
    /// Decoded blocks of the task that a thread is at; see [`Shape::buffer_elements`].
    static BUFFER: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Keys and values of all layers. The memory is reserved at load and becomes resident as positions are written.
pub struct KvCache {
    shape: Shape,
    keys: Store,
    values: Store,
    /// Partial results; see [`KvCache::attention`].
    scratch: Vec<f32>,
}

impl KvCache {
    /// A cache for `layers` layers and passes of at most `max_tokens`; `None` where the memory cannot be had.
    pub fn new(shape: Shape, kv: KvFormats, layers: usize, max_tokens: usize) -> Option<Self> {
        let positions = shape.context_len.checked_next_multiple_of(BLOCK)?;
        let heads = layers.checked_mul(shape.kv_heads)?;
        let keys = Store::new(kv.k, Order::ByElement, heads, positions, shape.head_dim)?;
        let values = Store::new(kv.v, Order::ByPosition, heads, positions, shape.head_dim)?;
        Some(Self { shape, keys, values, scratch: vec![0.0; Self::scratch_elements(shape, max_tokens)] })
    }

    /// Partial results of one token over its splits, or of the tiles of a chunk.
    pub fn scratch_elements(shape: Shape, max_tokens: usize) -> usize {
        let one = shape.kv_heads * shape.splits() * State::elements(shape.group, shape.head_dim);
        let tokens = shape.task_tokens();
        let tiles = max_tokens.div_ceil(tokens) * shape.kv_heads;
        let many = tiles * 2 * State::elements(tokens * shape.group, shape.head_dim);
        one.max(many)
    }

    /// Stores keys and values `[T, kv heads, head_dim]` of `layer` at `position ..`.
    pub fn append(&mut self, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let Shape { kv_heads, head_dim, context_len, .. } = self.shape;
        let tokens = keys.len() / (kv_heads * head_dim);
        assert!(keys.len() == values.len() && position + tokens <= context_len);
        let rows = keys.chunks_exact(head_dim).zip(values.chunks_exact(head_dim));
        for (row, (key, value)) in rows.enumerate() {
            let (t, head) = (row / kv_heads, layer * kv_heads + row % kv_heads);
            self.keys.put(head, position + t, key);
            self.values.put(head, position + t, value);
        }
    }

    /// Attention of queries `[T, kv heads, group, head_dim]` standing at `position ..`; token `t` sees `0 ..= position + t`.
    /// Writes `out`, shaped as `queries`, on the current rayon pool.
    pub fn attention(&mut self, arch: Arch, layer: usize, position: usize, queries: &[f32], out: &mut [f32]) {
        let shape = self.shape;
        let Shape { kv_heads, group, head_dim, context_len } = shape;
        let tokens = queries.len() / (kv_heads * group * head_dim);
        assert!(queries.len() == out.len() && position + tokens <= context_len);
        let (keys, values) = (&self.keys, &self.values);
        let pass = |head: usize, first: usize, tokens: usize| Rows {
            queries,
            kv_heads,
            group,
            head_dim,
            head,
            position,
            first,
            tokens,
            keys,
            values,
            stored: layer * kv_heads + head,
        };

        if tokens == 1 {
            // One task per head and split; then the splits of each head are merged in order.
            let (splits, state) = ((position + 1).div_ceil(SPLIT), State::elements(group, head_dim));
            let scratch = &mut self.scratch[..kv_heads * splits * state];
            scratch.par_chunks_exact_mut(state).enumerate().for_each(|(task, state)| {
                let rows = pass(task / splits, 0, 1);
                arch.dispatch(AttendSplit { rows, split: task % splits, state: State::new(state, group, head_dim) });
            });
            for (head, out) in out.chunks_exact_mut(group * head_dim).enumerate() {
                let of_head = &mut scratch[head * splits * state..][..splits * state];
                let (first, rest) = of_head.split_at_mut(state);
                let mut total = State::new(first, group, head_dim);
                for partial in rest.chunks_exact_mut(state) {
                    total.merge(&State::new(partial, group, head_dim), 0..group);
                }
                total.finish(|row, value| out[row * head_dim..][..head_dim].copy_from_slice(value));
            }
            return;
        }

        // One task per head and tile of tokens, each with its total and its partial result.
        let tile = shape.task_tokens();
        let (tiles, rows) = (tokens.div_ceil(tile), tile * group);
        let state = State::elements(rows, head_dim);
        let scratch = &mut self.scratch[..kv_heads * tiles * 2 * state];
        scratch.par_chunks_exact_mut(2 * state).enumerate().for_each(|(task, scratch)| {
            let first = task % tiles * tile;
            let rows_of_task = pass(task / tiles, first, tile.min(tokens - first));
            let (total, partial) = scratch.split_at_mut(state);
            let splits = (position + first + rows_of_task.tokens).div_ceil(SPLIT);
            arch.dispatch(AttendSplit { rows: rows_of_task, split: 0, state: State::new(total, rows, head_dim) });
            for split in 1..splits {
                arch.dispatch(AttendSplit { rows: rows_of_task, split, state: State::new(partial, rows, head_dim) });
                // Only rows that reach into this split have anything to merge.
                let reaching = (0..rows_of_task.count()).filter(|&row| rows_of_task.limit(row) > split * SPLIT);
                State::new(total, rows, head_dim).merge(&State::new(partial, rows, head_dim), reaching);
            }
        });
        let scratch = &mut *scratch;
        for (task, scratch) in scratch.chunks_exact_mut(2 * state).enumerate() {
            let (head, first) = (task / tiles, task % tiles * tile);
            let count = tile.min(tokens - first) * group;
            State::new(&mut scratch[..state], rows, head_dim).finish(|row, value| {
                if row < count {
                    let (t, g) = (first + row / group, row % group);
                    let at = ((t * kv_heads + head) * group + g) * head_dim;
                    out[at..at + head_dim].copy_from_slice(value);
                }
            });
        }
    }
}

/// The query rows of a task: `tokens` tokens from `first` of the pass, all heads of one group; row = token · group + head of group.
#[derive(Clone, Copy)]
struct Rows<'a> {
    queries: &'a [f32],
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    head: usize,
    position: usize,
    first: usize,
    tokens: usize,
    keys: &'a Store,
    values: &'a Store,
    /// The head's number in both.
    stored: usize,
}

impl<'a> Rows<'a> {
    fn count(&self) -> usize {
        self.tokens * self.group
    }

    fn query(&self, row: usize) -> &'a [f32] {
        let (t, g) = (self.first + row / self.group, row % self.group);
        &self.queries[((t * self.kv_heads + self.head) * self.group + g) * self.head_dim..][..self.head_dim]
    }

    /// Positions the row sees.
    fn limit(&self, row: usize) -> usize {
        self.position + self.first + row / self.group + 1
    }
}

/// Running softmax of some rows: unnormalised output, maximum and sum of each.
struct State<'a> {
    /// `[rows, head_dim]`.
    out: &'a mut [f32],
    max: &'a mut [f32],
    sum: &'a mut [f32],
}

impl<'a> State<'a> {
    fn elements(rows: usize, head_dim: usize) -> usize {
        rows * (head_dim + 2)
    }

    fn new(memory: &'a mut [f32], rows: usize, head_dim: usize) -> Self {
        let (out, rest) = memory.split_at_mut(rows * head_dim);
        let (max, sum) = rest.split_at_mut(rows);
        Self { out, max, sum }
    }

    /// Adds what `other` saw to `rows` of `self`.
    fn merge(&mut self, other: &State<'_>, rows: impl IntoIterator<Item = usize>) {
        let head_dim = self.out.len() / self.max.len();
        for row in rows {
            let max = self.max[row].max(other.max[row]);
            let (a, b) = (exp(self.max[row] - max), exp(other.max[row] - max));
            self.max[row] = max;
            self.sum[row] = self.sum[row] * a + other.sum[row] * b;
            let at = row * head_dim..(row + 1) * head_dim;
            for (x, y) in self.out[at.clone()].iter_mut().zip(&other.out[at]) {
                *x = *x * a + *y * b;
            }
        }
    }

    /// Divides by the sums and hands out each row.
    fn finish(&mut self, mut give: impl FnMut(usize, &[f32])) {
        let head_dim = self.out.len() / self.max.len();
        for (row, out) in self.out.chunks_exact_mut(head_dim).enumerate() {
            let sum = self.sum[row];
            out.iter_mut().for_each(|x| *x /= sum);
            give(row, out);
        }
    }
}

/// Softmax of `rows` over the positions of one split, from nothing.
struct AttendSplit<'a> {
    rows: Rows<'a>,
    split: usize,
    state: State<'a>,
}

impl WithSimd for AttendSplit<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, split, mut state } = self;
        state.out.fill(0.0);
        state.max.fill(f32::NEG_INFINITY);
        state.sum.fill(0.0);
        if rows.keys.is_coded() || rows.values.is_coded() {
            BUFFER.with_borrow_mut(|buffer| {
                buffer.resize(2 * BLOCK * rows.head_dim, 0.0);
                attend_split(simd, &rows, split, &mut state, buffer.split_at_mut(BLOCK * rows.head_dim));
            });
        } else {
            attend_split(simd, &rows, split, &mut state, (&mut [], &mut []));
        }
    }
}

/// The blocks of a split, through `buffers` for keys and values where they are coded.
#[inline(always)]
fn attend_split<S: Simd>(
    simd: S,
    rows: &Rows<'_>,
    split: usize,
    state: &mut State<'_>,
    buffers: (&mut [f32], &mut [f32]),
) {
    let count = rows.count();
    let end = ((split + 1) * SPLIT).min(rows.limit(count - 1));
    for position in (split * SPLIT..end).step_by(BLOCK) {
        let most = (end - position).min(BLOCK);
        let block = Block {
            position,
            keys: rows.keys.block(rows.stored, position, most, buffers.0),
            key_scales: rows.keys.scales(rows.stored, position),
            values: rows.values.block(rows.stored, position, most, buffers.1),
            value_scales: rows.values.scales(rows.stored, position),
        };
        let mut row = 0;
        while row + 2 <= count {
            attend_block::<S, 2>(simd, rows, row, &block, state);
            row += 2;
        }
        if row < count {
            attend_block::<S, 1>(simd, rows, row, &block, state);
        }
    }
}

/// Some positions' keys and values as f32.
struct Block<'a> {
    /// The first.
    position: usize,
    /// `[head_dim, BLOCK]`.
    keys: &'a [f32],
    key_scales: Option<&'a [f32; BLOCK]>,
    /// `[positions, head_dim]`, as many as any row sees.
    values: &'a [f32],
    value_scales: Option<&'a [f32; BLOCK]>,
}

/// Vectors of one result row that are in registers together.
const VECTORS: usize = 4;

/// `R` rows over one block.
#[inline(always)]
fn attend_block<S: Simd, const R: usize>(
    simd: S,
    rows: &Rows<'_>,
    first: usize,
    block: &Block<'_>,
    state: &mut State<'_>,
) {
    let head_dim = rows.head_dim;
    let seen: [usize; R] = std::array::from_fn(|r| rows.limit(first + r).saturating_sub(block.position).min(BLOCK));
    let most = seen.into_iter().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let queries: [&[f32]; R] = std::array::from_fn(|r| rows.query(first + r));
    let mut weights = [[0.0f32; BLOCK]; R];
    scores(simd, &queries, block.keys, &mut weights);

    let scale = 1.0 / (head_dim as f32).sqrt();
    let mut decay = [1.0f32; R];
    for r in 0..R {
        let (weights, row) = (&mut weights[r], first + r);
        if seen[r] == 0 {
            weights.fill(0.0);
            continue;
        }
        weights.iter_mut().for_each(|w| *w *= scale);
        if let Some(scales) = block.key_scales {
            weights.iter_mut().zip(scales).for_each(|(w, scale)| *w *= scale);
        }
        weights[seen[r]..].fill(f32::NEG_INFINITY);
        let max = fold(weights, state.max[row], |a, b| if b > a { b } else { a });
        weights.iter_mut().for_each(|w| *w -= max);
        exp_in_place(weights);
        decay[r] = exp(state.max[row] - max);
        state.max[row] = max;
        state.sum[row] = state.sum[row] * decay[r] + fold(weights, 0.0, |a, b| a + b);
        if let Some(scales) = block.value_scales {
            // Behind those that are seen lie scales of whatever was there before.
            weights[..seen[r]].iter_mut().zip(scales).for_each(|(w, scale)| *w *= scale);
        }
    }

    let values = &block.values[..most * head_dim];
    let mut at = 0;
    while at + VECTORS * S::F32_LANES <= head_dim {
        accumulate::<S, R, VECTORS>(simd, &weights, &decay, values, head_dim, (first, at), state.out);
        at += VECTORS * S::F32_LANES;
    }
    while at + S::F32_LANES <= head_dim {
        accumulate::<S, R, 1>(simd, &weights, &decay, values, head_dim, (first, at), state.out);
        at += S::F32_LANES;
    }
    for d in at..head_dim {
        for r in 0..R {
            let out = &mut state.out[(first + r) * head_dim + d];
            *out =
                values.iter().skip(d).step_by(head_dim).zip(&weights[r]).fold(*out * decay[r], |a, (v, w)| a + v * w);
        }
    }
}

/// Folds a block in sixteen chains side by side, then those into `start` in order.
#[inline(always)]
fn fold(values: &[f32; BLOCK], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let (chunks, _) = values.as_chunks::<16>();
    let mut lanes = chunks[0];
    for chunk in &chunks[1..] {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, *value);
        }
    }
    lanes.into_iter().fold(start, f)
}

/// `scores[r][j] = q_r · k_j` for all positions of a block, keys `[head_dim, BLOCK]`. Positions not written yet give numbers that
/// nobody reads.
#[inline(always)]
fn scores<S: Simd, const R: usize>(simd: S, queries: &[&[f32]; R], keys: &[f32], scores: &mut [[f32; BLOCK]; R]) {
    let width = VECTORS * S::F32_LANES;
    const { assert!(BLOCK.is_multiple_of(VECTORS * 16)) };
    for at in (0..BLOCK).step_by(width) {
        let mut sum = [[simd.splat_f32s(0.0); VECTORS]; R];
        for (d, keys) in keys.as_chunks::<BLOCK>().0.iter().enumerate() {
            let keys = S::as_simd_f32s(&keys[at..at + width]).0;
            for r in 0..R {
                let q = simd.splat_f32s(queries[r][d]);
                for v in 0..VECTORS {
                    sum[r][v] = simd.mul_add_e_f32s(q, keys[v], sum[r][v]);
                }
            }
        }
        for r in 0..R {
            S::as_mut_simd_f32s(&mut scores[r][at..at + width]).0.copy_from_slice(&sum[r]);
        }
    }
}

/// `out[r, at ..] = out · decay_r + Σ_j weights[r][j] · values[j, at ..]`, `V` vectors wide.
#[inline(always)]
fn accumulate<S: Simd, const R: usize, const V: usize>(
    simd: S,
    weights: &[[f32; BLOCK]; R],
    decay: &[f32; R],
    values: &[f32],
    head_dim: usize,
    (first, at): (usize, usize),
    out: &mut [f32],
) {
    let width = V * S::F32_LANES;
    let mut sum = [[simd.splat_f32s(0.0); V]; R];
    for r in 0..R {
        let old = S::as_simd_f32s(&out[(first + r) * head_dim + at..][..width]).0;
        let decay = simd.splat_f32s(decay[r]);
        for v in 0..V {
            sum[r][v] = simd.mul_f32s(old[v], decay);
        }
    }
    for (j, value) in values.chunks_exact(head_dim).enumerate() {
        let value = S::as_simd_f32s(&value[at..at + width]).0;
        for r in 0..R {
            let weight = simd.splat_f32s(weights[r][j]);
            for v in 0..V {
                sum[r][v] = simd.mul_add_e_f32s(weight, value[v], sum[r][v]);
            }
        }
    }
    for r in 0..R {
        S::as_mut_simd_f32s(&mut out[(first + r) * head_dim + at..][..width]).0.copy_from_slice(&sum[r]);
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
