//! The phases of a token and the kernels over them. A phase begins with loads that need nothing of other workgroups (weights), waits for
//! the grid, and ends by arriving. Rows of a product belong to the same workgroup in every layer, so its part of the residual stream
//! stays in its LDS; memory has a copy for the others.

use amdgpu_target::bf16_to_f32;
use amdgpu_target::gpu::{
    B64, B128, GridBarrier, Shared, barrier, bf16x4, end_wave, exp2, fma, item_idx, lane_idx, lds, load, load_f32x4,
    max, pack_bf16, rcp, rsq, silu, store, unpack_bf16, wave_idx, wave_max_u64, wave_sum, wave_uniform, workgroup_x,
};

use super::attend::{Attend, memory};
use super::stream::{Rows, Stream};
use super::{
    CHUNK, INFINITE_ID, ITEMS, LDS_NUMBERS, LDS_OWN, LDS_WAVES, NAN_ID, UNIT, WAVES, Work, ceil, mlp_rows, quotient,
    splits,
};
use crate::argmax::key;

/// Below every score, yet finite.
const FLOOR: f32 = -1e30;
/// Pieces of a context that are merged at once.
const MERGED: usize = 4;
/// Quads of the residual stream that an item holds at most.
const QUADS: usize = (super::MAX_HIDDEN / ITEMS / 4) as usize;

/// A launch: the kernel's arguments, with pointers as pointers.
#[derive(Clone, Copy)]
struct Launch {
    weights: *const u8,
    cache: *const u8,
    rope: *const f32,
    work: *mut u8,
    ids: *mut u32,
    logits: *mut f32,
    layer_stride: u32,
    embed: u32,
    input_norm: u32,
    qkv: u32,
    q_norm: u32,
    k_norm: u32,
    o: u32,
    post_norm: u32,
    gate: u32,
    up: u32,
    down: u32,
    norm: u32,
    head: u32,
    hidden: u32,
    heads: u32,
    kv_heads: u32,
    intermediate: u32,
    vocab: u32,
    capacity: u32,
    layers: u32,
    tokens: u32,
    keep_logits: u32,
    grid: u32,
    lds_sums: u32,
    lds_x: u32,
    eps: f32,
    scale: f32,
}

/// Everything of a launch that is no pointer, by way of LDS and back.
macro_rules! numbers {
    ($($index:literal $field:ident)*) => {
        impl Launch {
            /// Leaves the numbers in LDS; a barrier comes before they are read.
            ///
            /// # Safety
            /// 1. One item calls it.
            #[inline(always)]
            unsafe fn leave(&self) {
                let place = memory(LDS_NUMBERS).cast::<u32>();
                // SAFETY: the launch gives 128 bytes there.
                unsafe { $(store(place, $index, self.$field);)* }
            }

            /// The launch with its numbers as LDS has them. To the compiler they are news: what it would keep in scalar registers for all
            /// phases of all layers, more than there are, it makes anew in each.
            ///
            /// # Safety
            /// 1. After [`Launch::leave`] and a barrier.
            #[inline(always)]
            unsafe fn again(self) -> Self {
                let place = memory(LDS_NUMBERS).cast::<u32>();
                // SAFETY: written before the barrier and never again.
                unsafe { Self { $($field: wave_uniform(load(place, $index)),)* ..self } }
            }
        }
    };
}
numbers! {
    0 layer_stride 1 embed 2 input_norm 3 qkv 4 q_norm 5 k_norm
    6 o 7 post_norm 8 gate 9 up 10 down 11 norm
    12 head 13 hidden 14 heads 15 kv_heads 16 intermediate 17 vocab
    18 capacity 19 layers 20 tokens 21 keep_logits 22 grid 23 lds_sums
    24 lds_x
}

/// Where a norm finds its row.
#[derive(Clone, Copy)]
enum Row {
    /// The embedding of a token.
    Embedding(*const u16),
    /// The residual stream in memory.
    Stream,
}

/// A launch at work. `D` is head_dim.
struct Step<const D: usize> {
    launch: Launch,
    /// Where what lies in the work memory.
    at: Work,
    /// The work memory.
    work: Shared,
    grid: GridBarrier,
}

/// This workgroup's rows of `n`, `each` to a workgroup.
#[inline(always)]
fn share(n: u32, each: u32) -> (u32, u32) {
    let start = (workgroup_x() * each).min(n);
    (start, (n - start).min(each))
}

impl<const D: usize> Step<D> {
    /// # Safety
    /// 1. The launch's pointers and numbers are what `Args` says.
    #[inline(always)]
    unsafe fn new(launch: Launch) -> Self {
        if item_idx() == 0 {
            // SAFETY: one item.
            unsafe { launch.leave() };
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
        let at = Self::places(&launch);
        // SAFETY: the work memory is one allocation.
        let work = unsafe { Shared::new(launch.work, at.bytes) };
        // SAFETY: the counter is the barrier's alone and 0; the host launches no more workgroups than run at once.
        let grid = unsafe { GridBarrier::new(work, launch.grid) };
        Self { launch, at, work, grid }
    }

    /// Where what lies in the work memory.
    #[inline(always)]
    fn places(launch: &Launch) -> Work {
        let (q, kv) = (launch.heads * D as u32, launch.kv_heads * D as u32);
        Work::new(launch.hidden, q, kv, launch.intermediate, launch.heads)
    }

    /// Begins a phase: see [`Launch::again`].
    ///
    /// # Safety
    /// 1. All waves come here.
    #[inline(always)]
    unsafe fn refresh(&mut self) {
        // SAFETY: `new` left the numbers and passed a barrier.
        self.launch = unsafe { self.launch.again() };
        self.at = Self::places(&self.launch);
    }

    /// A tensor of `layer`, `offset` being the first layer's.
    #[inline(always)]
    fn tensor(&self, offset: u32, layer: u32) -> *const u8 {
        // Units are counted in 32 bits: a terabyte.
        let units = offset.wrapping_add(layer.wrapping_mul(self.launch.layer_stride));
        self.launch.weights.wrapping_add(units as usize * UNIT as usize)
    }

    #[inline(always)]
    fn lds_f32(&self, offset: u32) -> *mut f32 {
        memory(offset)
    }

    #[inline(always)]
    fn x(&self) -> *mut B128 {
        lds::<B128>().wrapping_byte_add(self.launch.lds_x as usize)
    }

    /// A number of each wave's, to all: the LDS is read after a barrier.
    ///
    /// # Safety
    /// 1. All waves come here.
    #[inline(always)]
    unsafe fn sum_of_waves(&self, x: f32) -> f32 {
        let waves = self.lds_f32(LDS_WAVES);
        if lane_idx() == 0 {
            // SAFETY: each wave its own.
            unsafe { store(waves, wave_idx() as usize, x) };
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
        let mut total = 0.0;
        for quad in 0..WAVES as usize / 4 {
            // SAFETY: written before the barrier.
            let x = unsafe { load_f32x4(waves, quad * 4) };
            total += (x[0] + x[1]) + (x[2] + x[3]);
        }
        total
    }

    /// This item's norm weights, before anybody is waited for.
    ///
    /// # Safety
    /// 1. `w` holds H bf16.
    #[inline(always)]
    unsafe fn norm_weights(&self, w: *const u8) -> [B64; QUADS] {
        core::array::from_fn(|j| {
            let quad = item_idx() + j as u32 * ITEMS;
            if quad * 4 < self.launch.hidden {
                // SAFETY: below H.
                unsafe { load(w.cast::<B64>(), quad as usize) }
            } else {
                B64::new([0; 2])
            }
        })
    }

    /// x in LDS = bf16(row / sqrt(mean(row²) + eps) · w), zeros up to a multiple of [`CHUNK`]. Ends with a barrier.
    ///
    /// # Safety
    /// 1. All waves come here; nobody reads x any more.  2. `row` is there: for the stream, after the grid's wait.
    #[inline(always)]
    unsafe fn normalise(&self, row: Row, w: [B64; QUADS]) {
        let hidden = self.launch.hidden;
        let mut values = [[0.0f32; 4]; QUADS];
        for j in 0..QUADS {
            let quad = item_idx() + j as u32 * ITEMS;
            if quad * 4 < hidden {
                values[j] = match row {
                    // SAFETY: below H.
                    Row::Stream => unsafe { self.work.load_f32x4(self.at.hidden + quad * 16) },
                    Row::Embedding(row) => {
                        // SAFETY: below H.
                        let [ab, cd] = unsafe { load(row.cast::<B64>(), quad as usize) }.words().map(unpack_bf16);
                        [ab[0], ab[1], cd[0], cd[1]]
                    }
                };
            }
        }
        let mut sum = [0.0f32; 4];
        for j in 0..QUADS {
            for e in 0..4 {
                sum[e] = fma(values[j][e], values[j][e], sum[e]);
            }
        }
        let sum = wave_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
        // SAFETY: all waves come here.
        let total = unsafe { self.sum_of_waves(sum) };
        let scale = rsq(fma(total, rcp(hidden as f32), self.launch.eps));
        for j in 0..QUADS {
            let value = values[j];
            let quad = item_idx() + j as u32 * ITEMS;
            if quad * 4 < hidden.next_multiple_of(CHUNK) {
                let [ab, cd] = w[j].words().map(unpack_bf16);
                let y = [
                    value[0] * scale * ab[0],
                    value[1] * scale * ab[1],
                    value[2] * scale * cd[0],
                    value[3] * scale * cd[1],
                ];
                // SAFETY: the launch gives x for H rounded up; past H value and weight are 0.
                unsafe { store(self.x().cast::<B64>(), quad as usize, bf16x4(y)) };
            }
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// Streams `stream` over x into the sums in LDS. Ends with a barrier.
    ///
    /// # Safety
    /// 1. All waves come here; x is there; `ahead` is this stream's.
    #[inline(always)]
    unsafe fn multiply(&self, stream: &Stream, ahead: super::stream::Ahead, part: u32) {
        let sums = self.lds_f32(self.launch.lds_sums);
        let log2 = stream.parts_log2;
        // SAFETY: the caller's.
        unsafe {
            stream.run(ahead, self.x(), |row, sum| {
                if lane_idx() == 0 {
                    store(sums, ((row << log2) + part) as usize, sum);
                }
            });
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// The sum of a row's parts.
    ///
    /// # Safety
    /// 1. After [`Step::multiply`]; the row was one of its.
    #[inline(always)]
    unsafe fn row_sum(&self, row: u32, parts_log2: u32) -> f32 {
        let sums = self.lds_f32(self.launch.lds_sums);
        let mut total = 0.0;
        let mut part = 0;
        while part < 1 << parts_log2 {
            // SAFETY: written before the barrier.
            total += unsafe { load(sums, ((row << parts_log2) + part) as usize) };
            part += 1;
        }
        total
    }

    /// This workgroup's rows of the residual stream.
    #[inline(always)]
    fn own_rows(&self) -> (u32, u32) {
        share(self.launch.hidden, ceil(self.launch.hidden, self.launch.grid))
    }

    /// Fetches this workgroup's part of the residual stream into LDS.
    ///
    /// # Safety
    /// 1. All waves come here; `row` is there.
    #[inline(always)]
    unsafe fn fetch_own(&self, row: Row) {
        let (start, rows) = self.own_rows();
        let mut i = item_idx();
        while i < rows {
            let value = match row {
                // SAFETY: below H.
                Row::Stream => f32::from_bits(unsafe { self.work.load_b32(self.at.hidden + (start + i) * 4) }),
                // SAFETY: below H.
                Row::Embedding(row) => bf16_to_f32(unsafe { load(row, (start + i) as usize) }),
            };
            // SAFETY: the launch gives a number per row.
            unsafe { store(self.lds_f32(LDS_OWN), i as usize, value) };
            i += ITEMS;
        }
    }

    /// Rows `n` of a matrix `[n, k]` of `layer`, this workgroup's share.
    #[inline(always)]
    fn product(&self, offset: u32, layer: u32, k: u32, start: u32, rows: u32) -> Stream {
        let base = self.tensor(offset, layer).wrapping_add(start as usize * (k as usize * 2));
        Stream::new(Rows { base, rows, k, split: u32::MAX, jump: 0 })
    }

    /// o_proj or down_proj: rows are added to the residual stream, after `stage` has put x into LDS. Ends by arriving.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups; `stage` puts x into LDS and ends with a barrier.
    #[inline(always)]
    unsafe fn add<const DOWN: bool>(&mut self, layer: u32, stage: impl FnOnce(&Self)) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = &self.launch;
        let (offset, k) = if DOWN { (l.down, l.intermediate) } else { (l.o, l.heads * D as u32) };
        let (start, rows) = self.own_rows();
        let stream = self.product(offset, layer, k, start, rows);
        // SAFETY: `[H, k]` of this layer.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: in turn.
        unsafe { self.grid.wait() };
        stage(self);
        // SAFETY: x is there.
        unsafe { self.multiply(&stream, ahead, wave_idx() & ((1 << stream.parts_log2) - 1)) };
        let own = self.lds_f32(LDS_OWN);
        let mut i = item_idx();
        while i < rows {
            // SAFETY: one of this workgroup's rows, and its own item's; the sums are there.
            let value = unsafe { load(own, i as usize) + self.row_sum(i, stream.parts_log2) };
            // SAFETY: as above.
            unsafe { store(own, i as usize, value) };
            // SAFETY: as above; nobody reads it before the grid's next wait.
            unsafe { self.work.store_f32(self.at.hidden + (start + i) * 4, value) };
            i += ITEMS;
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
    }

    /// Phase 1: q, k, v of the normalised stream. `waits`: whether other workgroups made the stream.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    unsafe fn project(&mut self, layer: u32, row: Row, waits: bool) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let n = (self.launch.heads + 2 * self.launch.kv_heads) * D as u32;
        let (start, rows) = share(n, ceil(n, self.launch.grid));
        let stream = self.product(self.launch.qkv, layer, self.launch.hidden, start, rows);
        // SAFETY: `[Q + 2K, H]` of this layer.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: `[H]` of this layer.
        let norm = unsafe { self.norm_weights(self.tensor(self.launch.input_norm, layer)) };
        if waits {
            // SAFETY: in turn.
            unsafe { self.grid.wait() };
        }
        // SAFETY: the stream is there.
        unsafe { self.normalise(row, norm) };
        // SAFETY: x is there.
        unsafe { self.multiply(&stream, ahead, wave_idx() & ((1 << stream.parts_log2) - 1)) };
        let mut i = item_idx();
        while i < rows {
            // SAFETY: one of this workgroup's rows.
            unsafe { self.work.store_f32(self.at.qkv + (start + i) * 4, self.row_sum(i, stream.parts_log2)) };
            i += ITEMS;
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
    }

    /// Phase 2: attention over pieces of the context.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    unsafe fn attend(&mut self, layer: u32, position: u32) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = self.launch;
        let cache_elements = l.kv_heads as usize * l.capacity as usize * D;
        let keys = l.cache.wrapping_add(layer as usize * cache_elements * 4);
        let values = keys.wrapping_add(cache_elements * 2);
        let head_bytes = l.capacity * D as u32 * 2;
        let group = quotient(l.heads, l.kv_heads);
        let (pieces, each) = splits(position + 1, l.kv_heads, l.grid);
        // SAFETY: in turn.
        unsafe { self.grid.wait() };
        let mut item = workgroup_x();
        while item < l.kv_heads * pieces {
            let head = wave_uniform(quotient(item, pieces));
            let piece = item - head * pieces;
            let start = head as usize * head_bytes as usize;
            // SAFETY: the work memory and the cache hold what `Args` says.
            let phase = unsafe {
                Attend {
                    work: self.work,
                    at: self.at,
                    norms: [self.tensor(l.q_norm, layer).cast(), self.tensor(l.k_norm, layer).cast()],
                    rope: l.rope.wrapping_add(position as usize * D),
                    keys: Shared::new(keys.wrapping_add(start), head_bytes),
                    values: Shared::new(values.wrapping_add(start), head_bytes),
                    heads: l.heads,
                    kv_heads: l.kv_heads,
                    group,
                    capacity: l.capacity,
                    position,
                    eps: l.eps,
                    scale: l.scale,
                    lds: memory(l.lds_x),
                }
            };
            if group <= 2 {
                // SAFETY: all waves come here; the position is below the capacity.
                unsafe { phase.run::<D, 2>(head, piece, each) };
            } else {
                // SAFETY: as above.
                unsafe { phase.run::<D, 4>(head, piece, each) };
            }
            item += l.grid;
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
    }

    /// Phase 3's x: the pieces of every query, merged, as bf16.
    ///
    /// # Safety
    /// 1. All waves come here, after the grid's wait.
    #[inline(always)]
    unsafe fn merge(&self, position: u32) {
        let l = &self.launch;
        let q = l.heads * D as u32;
        let (pieces, _) = splits(position + 1, l.kv_heads, l.grid);
        let mut quad = item_idx();
        while quad * 4 < q.next_multiple_of(CHUNK) {
            let mut out = [0.0f32; 4];
            if quad * 4 < q {
                let head = quad * 4 / D as u32;
                let (mut top, mut total) = (FLOOR, 0.0);
                let mut first = 0;
                while first < pieces {
                    // Several pieces' loads at once; past the end the last one's again, with a weight of 0.
                    let (mut m, mut s, mut x) = ([0.0f32; MERGED], [0.0f32; MERGED], [[0.0f32; 4]; MERGED]);
                    for i in 0..MERGED {
                        let piece = (first + i as u32).min(pieces - 1);
                        // SAFETY: a piece of this query.
                        [m[i], s[i]] = unsafe { self.work.load_f32x2(self.at.stats + (piece * l.heads + head) * 8) };
                        // SAFETY: as above.
                        x[i] = unsafe { self.work.load_f32x4(self.at.partial + (piece * q + quad * 4) * 4) };
                    }
                    for i in 0..MERGED {
                        let new = max(top, m[i]);
                        let keep = exp2(top - new);
                        let weight = if first + (i as u32) < pieces { exp2(m[i] - new) } else { 0.0 };
                        total = fma(total, keep, s[i] * weight);
                        for e in 0..4 {
                            out[e] = fma(out[e], keep, x[i][e] * weight);
                        }
                        top = new;
                    }
                    first += MERGED as u32;
                }
                let factor = rcp(total);
                out = out.map(|x| x * factor);
            }
            // SAFETY: the launch gives x for Q rounded up.
            unsafe { store(self.x().cast::<B64>(), quad as usize, bf16x4(out)) };
            quad += ITEMS;
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// Phase 4: gate and up of the normalised stream, SwiGLU.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    unsafe fn gate_up(&mut self, layer: u32, waits: bool) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = self.launch;
        let (start, rows) = share(l.intermediate, mlp_rows(l.intermediate, l.grid));
        let row_bytes = l.hidden as usize * 2;
        let gate = self.tensor(l.gate, layer).wrapping_add(start as usize * row_bytes);
        let up = self.tensor(l.up, layer).wrapping_add(start as usize * row_bytes);
        // Row `rows` + i of the stream is row i of up.
        let jump = (up as usize).wrapping_sub(gate as usize).wrapping_sub(rows as usize * row_bytes);
        let stream = Stream::new(Rows { base: gate, rows: 2 * rows, k: l.hidden, split: rows, jump });
        // SAFETY: `[I, H]` twice, of this layer.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: `[H]` of this layer.
        let norm = unsafe { self.norm_weights(self.tensor(l.post_norm, layer)) };
        if waits {
            // SAFETY: in turn.
            unsafe { self.grid.wait() };
        }
        // SAFETY: the stream is there.
        unsafe { self.normalise(Row::Stream, norm) };
        // SAFETY: x is there.
        unsafe { self.multiply(&stream, ahead, wave_idx() & ((1 << stream.parts_log2) - 1)) };
        let mut i = item_idx() * 2;
        while i < rows {
            // SAFETY: two of this workgroup's rows: I and a workgroup's share are even.
            let first = unsafe { self.swiglu(i, rows, stream.parts_log2) };
            // SAFETY: as above.
            let second = unsafe { self.swiglu(i + 1, rows, stream.parts_log2) };
            // SAFETY: as above.
            unsafe { self.work.store_b32(self.at.mlp + (start + i) * 2, pack_bf16(first, second)) };
            i += 2 * ITEMS;
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
    }

    /// silu(gate) · up of row `i` of a workgroup's `rows`.
    ///
    /// # Safety
    /// 1. After [`Step::multiply`] over gate and up; i < rows.
    #[inline(always)]
    unsafe fn swiglu(&self, i: u32, rows: u32, parts_log2: u32) -> f32 {
        // SAFETY: the caller's.
        unsafe { silu(self.row_sum(i, parts_log2)) * self.row_sum(rows + i, parts_log2) }
    }

    /// Phase 5's x: the SwiGLU's result.
    ///
    /// # Safety
    /// 1. All waves come here, after the grid's wait.
    #[inline(always)]
    unsafe fn copy_mlp(&self) {
        let n = self.launch.intermediate;
        let mut oct = item_idx();
        while oct * 8 < n.next_multiple_of(CHUNK) {
            let mut x = B128::new([0; 4]);
            if oct * 8 < n {
                // SAFETY: below I, a multiple of 64.
                x = unsafe { self.work.load_b128(self.at.mlp + oct * 16) };
            }
            // SAFETY: the launch gives x for I rounded up.
            unsafe { store(self.x(), oct as usize, x) };
            oct += ITEMS;
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// After the layers: lm_head and the largest logit, or [`NAN_ID`] or [`INFINITE_ID`]. All lanes of all workgroups get it.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    unsafe fn choose(&mut self, waits: bool) -> u32 {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = self.launch;
        let (start, rows) = share(l.vocab, ceil(l.vocab, l.grid));
        let base = self.tensor(l.head, 0).wrapping_add(start as usize * (l.hidden as usize * 2));
        let stream = Stream::whole_rows(Rows { base, rows, k: l.hidden, split: u32::MAX, jump: 0 });
        // SAFETY: `[V, H]`.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: `[H]`.
        let norm = unsafe { self.norm_weights(self.tensor(l.norm, 0)) };
        if waits {
            // SAFETY: in turn.
            unsafe { self.grid.wait() };
        }
        // SAFETY: the stream is there.
        unsafe { self.normalise(Row::Stream, norm) };
        let mut best = 0u64;
        // SAFETY: x is there.
        unsafe {
            stream.run(ahead, self.x(), |row, logit| {
                best = best.max(key(logit, start + row));
                if l.keep_logits != 0 && lane_idx() == 0 {
                    store(l.logits, (start + row) as usize, logit);
                }
            });
        }
        // SAFETY: all waves come here.
        let best = unsafe { self.best_of_waves(wave_max_u64(best)) };
        if item_idx() == 0 {
            // SAFETY: this workgroup's own.
            unsafe {
                self.work.store_b64(Work::BEST + workgroup_x() * 8, B64::new([best as u32, (best >> 32) as u32]))
            };
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
        // SAFETY: in turn.
        unsafe { self.grid.wait() };
        let mut best = 0u64;
        let mut i = item_idx();
        while i < l.grid {
            // SAFETY: one of the workgroups', stored before it arrived.
            let [lo, hi] = unsafe { self.work.load_b64(Work::BEST + i * 8) }.words();
            best = best.max(u64::from(hi) << 32 | u64::from(lo));
            i += ITEMS;
        }
        // SAFETY: all waves come here.
        let best = unsafe { self.best_of_waves(wave_max_u64(best)) };
        let id = !(best as u32);
        // The order of key: what is not a number is above everything, then the infinities at both ends.
        let id = match (best >> 32) as u32 {
            u32::MAX => NAN_ID,
            0xff80_0000 | 0x007f_ffff => INFINITE_ID,
            _ => id,
        };
        wave_uniform(id)
    }

    /// The largest of every wave's number.
    ///
    /// # Safety
    /// 1. All waves come here.
    #[inline(always)]
    unsafe fn best_of_waves(&self, x: u64) -> u64 {
        let keys = lds::<u64>().wrapping_byte_add(LDS_WAVES as usize);
        if lane_idx() == 0 {
            // SAFETY: each wave its own.
            unsafe { store(keys, wave_idx() as usize, x) };
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
        // SAFETY: written before the barrier.
        let best = wave_max_u64(unsafe { load(keys, (lane_idx() % WAVES) as usize) });
        // SAFETY: all waves come here; the next number is stored only after it.
        unsafe { barrier() };
        best
    }

    /// A state's word, as it was when the launch began.
    ///
    /// # Safety
    /// 1. `word` is one of the state's, and nobody writes it meanwhile.
    #[inline(always)]
    unsafe fn state(&self, word: u32) -> u32 {
        let state = self.launch.work.wrapping_add(Work::STATE as usize).cast::<u32>();
        // SAFETY: the caller's.
        wave_uniform(unsafe { load(state, word as usize) })
    }

    /// Where the next token stands, and which it is.
    ///
    /// # Safety
    /// 1. One item of the launch calls it, after all have read the state.
    #[inline(always)]
    unsafe fn set_state(&self, position: u32, id: u32) {
        let state = self.launch.work.wrapping_add(Work::STATE as usize).cast::<u32>();
        // SAFETY: the caller's.
        unsafe {
            store(state, 0, position);
            store(state, 1, id);
        }
    }

    /// The row of the embedding.
    #[inline(always)]
    fn embedding(&self, id: u32) -> Row {
        let row = id as usize * (self.launch.hidden as usize * 2);
        Row::Embedding(self.tensor(self.launch.embed, 0).wrapping_add(row).cast())
    }
}

/// First half of a layer.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn attention<const D: usize>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<D>::new(launch);
        let (position, id) = (step.state(0), step.state(1));
        let layer = launch.layers;
        let row = if layer == 0 { step.embedding(id) } else { Row::Stream };
        step.fetch_own(row);
        step.project(layer, row, false);
        step.attend(layer, position);
        step.add::<false>(layer, |step| step.merge(position));
        step.grid.leave();
    }
}

/// Second half of a layer.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn mlp<const D: usize>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<D>::new(launch);
        step.fetch_own(Row::Stream);
        step.gate_up(launch.layers, false);
        step.add::<true>(launch.layers, |step| step.copy_mlp());
        step.grid.leave();
    }
}

/// After the layers.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn head<const D: usize>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<D>::new(launch);
        let position = step.state(0);
        let id = step.choose(false);
        if workgroup_x() == 0 && item_idx() == 0 {
            store(launch.ids, 0, id);
            step.set_state(position + 1, id);
        }
        step.grid.leave();
    }
}

/// Whole tokens.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn persistent<const D: usize>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<D>::new(launch);
        let (mut position, mut id) = (step.state(0), step.state(1));
        let mut token = 0;
        while token < step.launch.tokens {
            let mut layer = 0;
            step.fetch_own(step.embedding(id));
            while layer < step.launch.layers {
                let row = if layer == 0 { step.embedding(id) } else { Row::Stream };
                step.project(layer, row, layer > 0);
                step.attend(layer, position);
                step.add::<false>(layer, |step| step.merge(position));
                step.gate_up(layer, true);
                step.add::<true>(layer, |step| step.copy_mlp());
                layer += 1;
            }
            id = step.choose(true);
            position += 1;
            if workgroup_x() == 0 && item_idx() == 0 {
                store(launch.ids, token as usize, id);
            }
            token += 1;
            let mut stop = id >= INFINITE_ID;
            let (mut end, ends) = (0, step.state(2));
            while end < ends {
                stop |= step.state(4 + end) == id;
                end += 1;
            }
            if stop {
                break;
            }
        }
        if workgroup_x() == 0 && item_idx() == 0 {
            step.set_state(position, id);
        }
        step.grid.leave();
        end_wave()
    }
}

/// Writes one kernel over one of the bodies above, so that all have the parameters of `Args`.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $body:ident::<$d:literal>) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "gpu-kernel" fn $name(
            weights: *const u8,
            cache: *const u8,
            rope: *const f32,
            work: *mut u8,
            ids: *mut u32,
            logits: *mut f32,
            layer_stride: u32,
            embed: u32,
            input_norm: u32,
            qkv: u32,
            q_norm: u32,
            k_norm: u32,
            o: u32,
            post_norm: u32,
            gate: u32,
            up: u32,
            down: u32,
            norm: u32,
            head: u32,
            hidden: u32,
            heads: u32,
            kv_heads: u32,
            intermediate: u32,
            vocab: u32,
            capacity: u32,
            layers: u32,
            tokens: u32,
            keep_logits: u32,
            grid: u32,
            lds_sums: u32,
            lds_x: u32,
            eps: f32,
            scale: f32,
        ) {
            let launch = Launch {
                weights, cache, rope, work, ids, logits, layer_stride, embed, input_norm, qkv, q_norm, k_norm, o, post_norm, gate,
                up, down, norm, head, hidden, heads, kv_heads, intermediate, vocab, capacity, layers, tokens, keep_logits, grid,
                lds_sums, lds_x, eps, scale,
            };
            // SAFETY: the body's contract is the kernel's.
            unsafe { $body::<$d>(launch) };
        }
    };
}

kernel! {
    /// First half of a decode step's layer: hidden += o_proj(attention(q, k, v of RMSNorm(hidden))), and the token's key and value appended
    ///
    /// Input      [`super::Args`]; layer 0 reads the token's embedding, others the residual stream `[H]` f32 in `work`
    /// Output     the residual stream; key and value of the token's position in the cache; nothing of `ids` and `logits`
    /// Numerics   as the unfused kernels: inputs of products rounded to bf16, f32 sums; queries and weights of attention stay f32;
    ///            oracle::model, Tolerance of logits
    /// Workgroup  16 waves × 32 lanes; grid = any number that runs at once, at most 1024
    /// Wave       wave32; nobody leaves before the end; all lanes live at reductions
    /// LDS        [`super::Shape::geometry`]: residual rows, sums, the activation as bf16 or attention's queries and scores
    /// Registers  budget 192 VGPR, 0 spills: three steps of weights in flight (48), their vector, addresses
    /// Memory     weights 16 B per lane, consecutive lanes consecutive, each byte once; activations from L2 by every workgroup;
    ///            bytes = 2·(Q+2K)·H + 2·H·Q + 4·K·positions
    /// Sync       three grid barriers, workgroup barriers between stages
    /// Target     gfx1201; expects `global_load_b128`, `buffer_load_b128`, `buffer_atomic_add_u32`, `v_exp_f32`, `s_sleep`
    /// Why        a layer as one launch of 9 has 9 tails and 9 heads in which memory idles; a grid barrier costs about a microsecond,
    ///            and the next phase's weights are on their way while it is waited for
    ///
    /// # Safety
    /// 1. The arguments are what `Args` says.  2. Launched with `Shape::geometry(grid)`, all workgroups at once; `work` was zeroed before
    ///    the first launch and is used by one launch at a time.  3. Positions below the state's are appended.
    decode_attention_d128, attention::<128>
}
kernel! {
    /// First half of a decode step's layer, for head_dim 64: as `decode_attention_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_attention_d64, attention::<64>
}
kernel! {
    /// Second half of a decode step's layer: hidden += down_proj(silu(gate_proj(y)) ∘ up_proj(y)), y = RMSNorm(hidden)
    ///
    /// Input, Output, Numerics, Workgroup, Wave, LDS, Registers, Target, Why   as `decode_attention_d128`, without the cache
    /// Memory     bytes = 6·H·I
    /// Sync       two grid barriers
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_mlp_d128, mlp::<128>
}
kernel! {
    /// Second half of a decode step's layer, for head_dim 64: as `decode_mlp_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_mlp_d64, mlp::<64>
}
kernel! {
    /// End of a decode step: ids[0] = argmax(lm_head(RMSNorm(hidden))), and the state is the next token's
    ///
    /// Input      as `decode_attention_d128`
    /// Output     one id, or `NAN_ID`, or `INFINITE_ID`; logits `[V]` f32 if `keep_logits`; position + 1 and the id in the state
    /// Numerics   as `linear_bf16_gemv` and `argmax_f32`
    /// Workgroup, Wave, LDS, Registers, Target   as `decode_attention_d128`
    /// Memory     bytes = 2·V·H
    /// Sync       one grid barrier
    /// Why        the largest logit is known where the logits are made: four bytes go back instead of 4·V
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_head_d128, head::<128>
}
kernel! {
    /// End of a decode step, for head_dim 64: as `decode_head_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_head_d64, head::<64>
}
kernel! {
    /// Whole decode steps: `tokens` times all layers and the end, each step's id the next one's token; an id that ends the text, or is
    /// none, ends the launch
    ///
    /// Input, Output, Numerics, Workgroup, Wave, LDS, Registers, Target   as the three kernels it stands for; ids `[tokens]`
    /// Memory     per token what the three read, once
    /// Sync       5 grid barriers per layer and one per token
    /// Why        no launch at all between tokens
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_d128, persistent::<128>
}
kernel! {
    /// Whole decode steps, for head_dim 64: as `decode_persistent_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_d64, persistent::<64>
}
