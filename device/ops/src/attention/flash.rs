//! Attention by matrix instructions, for prefill and for decode.
//!
//! The simple idea, for one tile of 16 queries (token, head of the group; all of one key/value head): for each block of 32 positions,
//! S = K·Qᵀ; P = exp(S − running maximum); Oᵀ = Oᵀ·correction + Vᵀ·P; at the end divide by the sum of P.
//! What was done to it:
//! 1. Queries are the *columns* of every product: a lane holds S for one query and eight positions (`ACC_COLUMNS` is 1; the proof
//!    vehicle's lane has two and four), so maxima and sums are eight register operations and one exchange with the other half of the
//!    wave, and the correction is one number per lane.
//! 2. The D layout of S is the B layout of P: P goes from one product to the next inside its lane, rounded to bf16, through no memory
//!    at all.
//! 3. K `[position, D]` and the transposed V `[D, position]` are A operands by plain 16-byte loads: nothing goes through LDS.
//! 4. Heads of a group are columns of the same tile: in decode K and V are read once per key/value head, not per query head.
//! 5. Only the last block of the cache is masked in V (its positions past the end may hold anything, and 0 · NaN is NaN); masks in S are
//!    always applied, they cost little beside the products.
//! 6. The running maximum starts at a large negative number instead of −∞, so that a column with nothing visible yet has no ∞ − ∞.

use amdgpu_target::gpu::{
    ACC_COLUMNS, Acc, B128, Fragment, acc_across_rows, acc_column, acc_column_of, acc_column_sums, acc_to_array,
    bf16x8_number, exp2, fma, load_offset, max, pair_chunk, pair_half_rows, pair_operand_row, pair_row, rcp,
    schedule_fence, wave_idx, wmma_bf16, workgroup_x, workgroup_y,
};

use super::keep_below;
use super::tile::{BLOCK, PerQuery, Span, Tile, scaled};

/// What all queries of a launch share.
#[derive(Clone, Copy)]
struct Shared {
    /// This key/value head's keys, in 16-byte pieces.
    k: *const B128,
    /// This key/value head's values.
    v: *const u16,
    span: Span,
}

impl<const STEPS: usize, const PAIRS: usize> Tile<STEPS, PAIRS> {
    /// Takes in the positions `first` … `first` + 31. `MASKED`: some of them are not appended.
    ///
    /// # Safety
    /// 1. `first` is a multiple of 32 below `shared.span.appended`, uniform; all lanes are live.
    /// 2. `shared` describes this key/value head's cache as the kernels' contract says.
    #[inline(always)]
    unsafe fn block<const MASKED: bool>(&mut self, shared: &Shared, first: u32) {
        let d_count = STEPS as u32 * 16;
        // Scores of 2 × 16 positions.
        let mut scores = [[0.0f32; 8]; 2];
        for i in 0..2u32 {
            let mut acc = Acc::zero();
            let keys = shared.k.wrapping_add((first + pair_half_rows(i)) as usize * (d_count as usize / 8));
            for s in 0..PAIRS {
                let chunks = [0, 1].map(|chunk| {
                    let (c, lane_k, k) = pair_chunk(chunk);
                    let at = pair_operand_row(c) * (d_count * 2) + lane_k * 2;
                    let keys = keys.wrapping_add(s * 4 + k / 8);
                    // SAFETY: capacity is a multiple of 32, so the 32 rows lie inside the cache: points 1 and 2.
                    unsafe { load_offset(keys, at) }
                });
                let keys = Fragment::pair(chunks);
                for half in 0..2 {
                    // SAFETY: all lanes are live: point 1.
                    acc = unsafe { wmma_bf16(keys[half], self.queries[s][half], acc) };
                }
            }
            scores[i as usize] = acc_to_array(acc);
            schedule_fence();
        }
        // Positions a query does not see, then the new maximum of its column.
        let last = self.query.map(|query| shared.span.position + query.t);
        let mut top = self.top;
        for i in 0..2 {
            for e in 0..8 {
                let column = acc_column_of(e);
                let position = first + pair_row(i as u32, e);
                let score = scores[i][e] * shared.span.scale;
                scores[i][e] = if position <= last[column] { score } else { f32::NEG_INFINITY };
                top[column] = max(top[column], scores[i][e]);
            }
        }
        let top = top.map(|top| acc_across_rows(top, max));
        let keep: PerQuery<f32> = core::array::from_fn(|c| exp2(self.top[c] - top[c]));
        let mut total = [0.0; ACC_COLUMNS];
        let weights = scores.map(|tile| {
            let weights: [f32; 8] = core::array::from_fn(|e| exp2(tile[e] - top[acc_column_of(e)]));
            let sums = acc_column_sums(weights);
            for c in 0..ACC_COLUMNS {
                total[c] += sums[c];
            }
            // A NaN may be lost in this packing; it is in `total` as well, which divides the result.
            Fragment::from_acc(bf16x8_number(weights))
        });
        for c in 0..ACC_COLUMNS {
            self.total[c] = fma(self.total[c], keep[c], total[c]);
        }
        self.top = top;
        // Outputs.
        for j in 0..STEPS {
            let mut acc = scaled(self.sum[j], keep);
            let values = shared.v.wrapping_add(j * 16 * shared.span.capacity as usize + first as usize);
            let chunks = [0, 1].map(|chunk| {
                let (c, lane_k, k) = pair_chunk(chunk);
                let at = (acc_column(c) * shared.span.capacity + lane_k) * 2;
                let values = values.wrapping_add(k).cast::<B128>();
                // SAFETY: rows d < D of this head, columns below the capacity; capacity and `first` are multiples of 8: point 2.
                let chunk = unsafe { load_offset(values, at) };
                if MASKED { keep_below(chunk, first + k as u32 + lane_k, shared.span.appended) } else { chunk }
            });
            let values = Fragment::pair(chunks);
            for half in 0..2 {
                // SAFETY: all lanes are live: point 1.
                acc = unsafe { wmma_bf16(values[half], weights[half], acc) };
            }
            self.sum[j] = acc;
            if j % 4 == 3 {
                schedule_fence();
            }
        }
    }

    /// Takes in the blocks `start`, `start` + `stride`, … that the tile's queries see.
    ///
    /// # Safety
    /// 1. `start` and `stride` are uniform; all lanes are live.  2. As [`Tile::block`].
    #[inline(always)]
    unsafe fn walk(&mut self, shared: &Shared, start: u32, stride: u32) {
        // One condition, so that the loop has one exit: with two, the compiler keeps a second copy of all sums.
        let whole = self.len.min(shared.span.appended.saturating_sub(BLOCK - 1));
        let mut first = start * BLOCK;
        while first < whole {
            // SAFETY: first < len ≤ appended, uniform like start, stride and len.
            unsafe { self.block::<false>(shared, first) };
            first += stride * BLOCK;
        }
        // Only the cache's last block reaches past what is appended.
        if first < self.len {
            // SAFETY: as above.
            unsafe { self.block::<true>(shared, first) };
        }
    }
}

/// The cache of the key/value head this workgroup works on.
#[inline(always)]
fn shared<const STEPS: usize>(k_cache: *const u16, v_cache: *const u16, numbers: [u32; 3], scale: f32) -> Shared {
    let start = workgroup_y() as usize * numbers[2] as usize * STEPS * 16;
    Shared { k: k_cache.wrapping_add(start).cast(), v: v_cache.wrapping_add(start), span: Span::new(numbers, scale) }
}

/// The prefill kernels.
///
/// # Safety
/// As the kernels.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a kernel's parameters are its arguments, one by one")]
unsafe fn prefill<const STEPS: usize, const PAIRS: usize>(
    q: *const f32,
    k_cache: *const u16,
    v_cache: *const u16,
    out: *mut u16,
    tokens: u32,
    position: u32,
    group: u32,
    kv_heads: u32,
    capacity: u32,
    scale: f32,
) {
    let index = workgroup_x() * super::PREFILL_WAVES + wave_idx();
    if index * super::QUERIES >= tokens * group {
        return;
    }
    let shared = shared::<STEPS>(k_cache, v_cache, [tokens, position, capacity], scale);
    // SAFETY: checked above; the rest is the kernel's contract.
    let mut tile = unsafe { Tile::<STEPS, PAIRS>::new(q, index, tokens, position, group, kv_heads) };
    // SAFETY: only whole waves have left.
    unsafe { tile.walk(&shared, 0, 1) };
    let total = tile.total.map(|total| acc_across_rows(total, |a, b| a + b));
    // SAFETY: one wave per tile.
    unsafe { tile.store(out, total.map(rcp)) };
}

/// The decode kernels.
///
/// # Safety
/// As the kernels.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a kernel's parameters are its arguments, one by one")]
unsafe fn decode<const STEPS: usize, const PAIRS: usize>(
    q: *const f32,
    k_cache: *const u16,
    v_cache: *const u16,
    out: *mut u16,
    tokens: u32,
    position: u32,
    group: u32,
    kv_heads: u32,
    capacity: u32,
    scale: f32,
) {
    const WAVES: u32 = super::DECODE_WAVES;
    let wave = wave_idx();
    let shared = shared::<STEPS>(k_cache, v_cache, [tokens, position, capacity], scale);
    // SAFETY: the grid has one workgroup per tile.
    let mut tile = unsafe { Tile::<STEPS, PAIRS>::new(q, workgroup_x(), tokens, position, group, kv_heads) };
    // SAFETY: nobody has left.
    unsafe { tile.walk(&shared, wave, WAVES) };

    // SAFETY: every wave of the workgroup comes here once, with the LDS of the launch.
    let tile = unsafe { tile.merged(wave) };
    if wave == 0 {
        // SAFETY: one wave of one workgroup per tile.
        unsafe { tile.store(out, [1.0; ACC_COLUMNS]) };
    }
}

/// Writes one kernel over one of the bodies above, so that all have the parameters of `Args`.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $body:ident::<$steps:literal, $pairs:literal>) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "gpu-kernel" fn $name(
            q: *const f32,
            k_cache: *const u16,
            v_cache: *const u16,
            out: *mut u16,
            tokens: u32,
            position: u32,
            group: u32,
            kv_heads: u32,
            capacity: u32,
            scale: f32,
        ) {
            // SAFETY: the body's contract is the kernel's.
            unsafe { $body::<$steps, $pairs>(q, k_cache, v_cache, out, tokens, position, group, kv_heads, capacity, scale) };
        }
    };
}

kernel! {
    /// Attention, prefill: with g = h / group, out[t,h,·] = Σ_p softmax_p(scale · q[t,h]·k[g,p]) · v[g,p,·] over p ≤ position + t
    ///
    /// Input      q `[T, heads, 128]` f32; k_cache `[kv_heads, capacity, 128]`, v_cache `[kv_heads, 128, capacity]` bf16, zeroed once
    ///            when allocated: the last block reads up to 31 positions past the appended ones and discards them
    /// Output     out `[T, heads, 128]` bf16, every element written; overlaps nothing
    /// Numerics   q and the probabilities rounded to bf16, products exact, f32 accumulate, one rounding at the store; the sum that
    ///            divides is of unrounded probabilities; oracle::attention, Tolerance ATTENTION
    /// Workgroup  4 waves × 32 lanes; 16 queries of one kv head per wave; grid = [ceil(T·group / 64), kv_heads]
    /// Wave       wave32; tiles past the end leave as a whole wave, queries past the end repeat the last; all lanes live
    /// LDS        0 B
    /// Registers  budget 168 VGPR (9 waves per SIMD), 0 spills: 64 of outputs, 32 of queries, 16 of scores, loads
    /// Memory     16 B per lane; a key row is 256 consecutive bytes over 8 loads, a value row 64 B per block; K and V read once per
    ///            16 queries, from cache for neighbours
    /// Sync       none: nothing crosses waves
    /// Target     gfx1201; expects `v_wmma_f32_16x16x16_bf16`, `v_exp_f32`, `v_permlanex16_b32`, `global_load_b128`
    /// Why        see the head of this file
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned; positions up to position + T are appended.
    /// 2. Launched with `geometry_prefill(T, group, kv_heads)`; T · group < 2³².
    attention_prefill_bf16_d128, prefill::<8, 4>
}

kernel! {
    /// Attention, prefill, for head_dim 64: as `attention_prefill_bf16_d128`; budget 120 VGPR.
    ///
    /// # Safety
    /// 1. and 2. as `attention_prefill_bf16_d128` with 64 for 128.
    attention_prefill_bf16_d64, prefill::<4, 2>
}

kernel! {
    /// Attention, decode: the formula of `attention_prefill_bf16_d128`
    ///
    /// Input, Output   as `attention_prefill_bf16_d128`; any T
    /// Numerics   as there; the order of the sum over positions depends on nothing but the position
    /// Workgroup  8 waves × 32 lanes share 16 queries of one kv head; wave w takes the blocks w, w + 8, … of 32 positions;
    ///            grid = [ceil(T·group / 16), kv_heads]
    /// Wave       wave32; nobody leaves before the last barrier
    /// LDS        33 792 B: maxima and sums of 8 waves × 16 queries, then the output tiles of 4 waves
    /// Registers  budget 168 VGPR, 0 spills
    /// Memory     as prefill; K and V read once per kv head; bytes = 4·positions·D per kv head and 16 queries
    /// Sync       one barrier for maxima and sums, then two per halving of the waves (6)
    /// Target     gfx1201; expects `v_wmma_f32_16x16x16_bf16`, `v_exp_f32`, `ds_store_b128`, `ds_load_b128`, `s_barrier_signal`
    /// Why        one token has `group` queries per kv head, far too few to fill the machine: the positions are what is left to split.
    ///            The merge is exact up to rounding because each part carries its own maximum. Splitting over workgroups, for few kv
    ///            heads and long contexts, is a later rung
    ///
    /// # Safety
    /// 1. as `attention_prefill_bf16_d128`.  2. Launched with `geometry_decode(T, group, kv_heads, 128)`; T · group < 2³².
    attention_decode_bf16_d128, decode::<8, 4>
}

kernel! {
    /// Attention, decode, for head_dim 64: as `attention_decode_bf16_d128`; 17 408 B of LDS, budget 120 VGPR.
    ///
    /// # Safety
    /// 1. and 2. as `attention_decode_bf16_d128` with 64 for 128.
    attention_decode_bf16_d64, decode::<4, 2>
}
