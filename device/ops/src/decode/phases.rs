//! The phases of a token, in the order of a layer. Each begins with loads that need nothing of other workgroups (weights), waits for the
//! grid, and ends by arriving. Which follow each other in a launch is the kernels'.

use amdgpu_target::bf16_to_f32;
use amdgpu_target::gpu::{
    B64, B128, Shared, barrier, bf16x4, exp2, fma, item_idx, lane_idx, lds, load, max, pack_bf16, rcp, silu, store,
    wave_idx, wave_max_u64, wave_uniform, workgroup_x,
};

use super::attend::Attend;
use super::launch::memory;
use super::step::{Row, Step, share};
use super::stream::Stream;
use super::weights::{Shape, Share, Weights, Which};
use super::{
    CHUNK, INFINITE_ID, ITEMS, LDS_OWN, LDS_WAVES, NAN_ID, NO_BIAS, WAVES, Work, ceil, mlp_rows, quotient, splits,
};
use crate::argmax::key;
use crate::attention::FLOOR;

/// Pieces of a context that are merged at once.
const MERGED: usize = 4;

impl<W: Weights, const D: usize, const NORMED: bool> Step<W, D, NORMED> {
    /// Phase 1: q, k, v of the normalised stream, with their biases where heads have no norms and there are such. `waits`: whether other
    /// workgroups made the stream.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    pub unsafe fn project(&mut self, layer: u32, row: Row<W::Embedding>, waits: bool) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        // SAFETY: all waves come here, and the phase before has multiplied.
        unsafe { W::enter(&self.launch, layer, self.at) };
        let (q, kv) = (self.launch.heads * D as u32, self.launch.kv_heads * D as u32);
        let n = q + 2 * kv;
        let (start, rows) = share(n, ceil(n, self.launch.grid));
        let shape = Shape { n: q, k: self.launch.hidden };
        let stream = Stream::new(W::three(&self.launch, layer, shape, kv, Share { start, rows }));
        // SAFETY: `[Q + 2K, H]` of this layer.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: `[H]` of this layer.
        let norm = unsafe { self.norm_weights(self.launch.tensor(self.launch.input_norm, layer)) };
        // The first of this item's biases is on its way before the wait, too.
        let biases = self.launch.tensor(self.launch.q_norm, layer).cast::<u16>();
        let biased = !NORMED && self.launch.q_norm != NO_BIAS;
        let mut bias = 0;
        if biased && item_idx() < rows {
            // SAFETY: one of Q + 2K rows.
            bias = unsafe { load(biases, (start + item_idx()) as usize) };
        }
        if waits {
            // SAFETY: in turn.
            unsafe { self.grid.wait() };
        }
        // SAFETY: the stream is there.
        unsafe { self.normalise(row, norm) };
        // SAFETY: x is there.
        unsafe { self.multiply(&stream, ahead) };
        let mut i = item_idx();
        while i < rows {
            // SAFETY: one of this workgroup's rows.
            let mut sum = unsafe { self.row_sum(i, stream.parts_log2) };
            if biased {
                sum += bf16_to_f32(bias);
                if i + ITEMS < rows {
                    // SAFETY: as above.
                    bias = unsafe { load(biases, (start + i + ITEMS) as usize) };
                }
            }
            // SAFETY: as above.
            unsafe { self.work.store_f32(self.at.qkv + (start + i) * 4, sum) };
            i += ITEMS;
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
    }

    /// Piece `item` of all heads', `pieces` to a head.
    ///
    /// # Safety
    /// 1. item < kv_heads · pieces; the position is below the capacity.
    #[inline(always)]
    unsafe fn piece(&self, layer: u32, position: u32, item: u32, pieces: u32, each: u32) -> Attend<NORMED> {
        let l = &self.launch;
        let cache_elements = l.kv_heads as usize * l.capacity as usize * D;
        let head_bytes = l.capacity * D as u32 * 2;
        let head = wave_uniform(quotient(item, pieces));
        let keys = l.cache.wrapping_add(layer as usize * cache_elements * 4 + head as usize * head_bytes as usize);
        Attend {
            work: self.work,
            at: self.at,
            norms: [l.tensor(l.q_norm, layer).cast(), l.tensor(l.k_norm, layer).cast()],
            rope: l.rope.wrapping_add(position as usize * D),
            // SAFETY: the cache holds what `Args` says.
            keys: unsafe { Shared::new(keys, head_bytes) },
            // SAFETY: as above: a layer's values lie behind its keys.
            values: unsafe { Shared::new(keys.wrapping_add(cache_elements * 2), head_bytes) },
            heads: l.heads,
            kv_heads: l.kv_heads,
            group: quotient(l.heads, l.kv_heads),
            capacity: l.capacity,
            position,
            eps: l.eps,
            scale: l.scale,
            lds: memory(l.lds_x),
            head,
            piece: item - head * pieces,
            each,
        }
    }

    /// Phase 2: attention over pieces of the context.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    pub unsafe fn attend(&mut self, layer: u32, position: u32) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let (pieces, each) = splits(position + 1, self.launch.kv_heads, self.launch.grid);
        let items = self.launch.kv_heads * pieces;
        let mut item = workgroup_x();
        let mut waits = true;
        while item < items {
            // SAFETY: item < items.
            let piece = unsafe { self.piece(layer, position, item, pieces, each) };
            if piece.group <= 2 {
                // SAFETY: all waves come here; the position is below the capacity.
                unsafe { piece.run::<D, 2>(&self.grid, waits) };
            } else {
                // SAFETY: as above.
                unsafe { piece.run::<D, 4>(&self.grid, waits) };
            }
            item += self.launch.grid;
            waits = false;
        }
        if waits {
            // SAFETY: in turn.
            unsafe { self.grid.wait() };
        }
        // SAFETY: in turn.
        unsafe { self.grid.arrive() };
    }

    /// Phase 3's x: the pieces of every query, merged, as bf16.
    ///
    /// # Safety
    /// 1. All waves come here, after the grid's wait.
    #[inline(always)]
    pub unsafe fn merge(&self, position: u32) {
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
                    // Several pieces' loads at once.
                    let (mut m, mut s, mut x) = ([FLOOR; MERGED], [0.0f32; MERGED], [[0.0f32; 4]; MERGED]);
                    for i in 0..MERGED {
                        let piece = first + i as u32;
                        if piece < pieces {
                            // SAFETY: a piece of this query.
                            [m[i], s[i]] =
                                unsafe { self.work.load_f32x2(self.at.stats + (piece * l.heads + head) * 8) };
                            // SAFETY: as above.
                            x[i] = unsafe { self.work.load_f32x4(self.at.partial + (piece * q + quad * 4) * 4) };
                        }
                    }
                    for i in 0..MERGED {
                        let new = max(top, m[i]);
                        let keep = exp2(top - new);
                        let weight = exp2(m[i] - new);
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

    /// Phases 3 and 5, o_proj and down_proj: rows are added to the residual stream, after `stage` has put x into LDS. Ends by arriving.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups; `stage` puts x into LDS and ends with a barrier.
    #[inline(always)]
    pub unsafe fn add<const DOWN: bool>(&mut self, layer: u32, stage: impl FnOnce(&Self)) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = &self.launch;
        let (which, k) = if DOWN { (Which::Down, l.intermediate) } else { (Which::O, l.heads * D as u32) };
        let (start, rows) = self.own_rows();
        let shape = Shape { n: l.hidden, k };
        let stream = Stream::new(W::one(l, which, layer, shape, Share { start, rows }));
        // SAFETY: `[H, k]` of this layer.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: in turn.
        unsafe { self.grid.wait() };
        stage(self);
        // SAFETY: x is there.
        unsafe { self.multiply(&stream, ahead) };
        let own = memory(LDS_OWN);
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

    /// Phase 4: gate and up of the normalised stream, SwiGLU.
    ///
    /// # Safety
    /// 1. All waves come here in turn with the other workgroups.
    #[inline(always)]
    pub unsafe fn gate_up(&mut self, layer: u32, waits: bool) {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = self.launch;
        let (start, rows) = share(l.intermediate, mlp_rows(l.intermediate, l.grid));
        let shape = Shape { n: l.intermediate, k: l.hidden };
        let stream = Stream::new(W::pair(&l, layer, shape, Share { start, rows }));
        // SAFETY: `[I, H]` twice, of this layer.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: `[H]` of this layer.
        let norm = unsafe { self.norm_weights(l.tensor(l.post_norm, layer)) };
        if waits {
            // SAFETY: in turn.
            unsafe { self.grid.wait() };
        }
        // SAFETY: the stream is there.
        unsafe { self.normalise(Row::Stream, norm) };
        // SAFETY: x is there.
        unsafe { self.multiply(&stream, ahead) };
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
    pub unsafe fn copy_mlp(&self) {
        let n = self.launch.intermediate;
        let mut oct = item_idx();
        while oct * 8 < n.next_multiple_of(CHUNK) {
            let mut x = B128::ZERO;
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
    pub unsafe fn choose(&mut self, waits: bool) -> u32 {
        // SAFETY: all waves come here.
        unsafe { self.refresh() };
        let l = self.launch;
        let (start, rows) = share(l.vocab, ceil(l.vocab, l.grid));
        let shape = Shape { n: l.vocab, k: l.hidden };
        let stream = Stream::whole_rows(W::one(&l, Which::Head, 0, shape, Share { start, rows }));
        // SAFETY: `[V, H]`.
        let ahead = unsafe { stream.prefetch() };
        // SAFETY: `[H]`.
        let norm = unsafe { self.norm_weights(l.tensor(l.norm, 0)) };
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
}
