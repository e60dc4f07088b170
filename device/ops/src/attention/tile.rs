//! A wave's tile of 16 queries, whatever keys and values are stored as: its queries, what it has summed up, how the tiles of a workgroup's waves
//! become one, and how it is written. No cache, no product with one.

use amdgpu_target::gpu::{
    ACC_COLUMNS, ACC_RUN, Acc, B128, Fragment, LOG2_E, acc_across_rows, acc_column, acc_column_of, acc_row,
    acc_to_array, barrier, bf16x8, divide, exp2, fma, lane_idx, lane_value, lds, load, load_f32x4, max, pair_chunk,
    rcp, schedule_fence, store, store_f32x4, store_run_bf16, wave_uniform, workgroup_y,
};

use super::FLOOR;

/// Positions of one block: two matrix tiles.
pub(super) const BLOCK: u32 = 32;

/// One number for each query of which this lane holds scores and outputs.
pub(super) type PerQuery<T> = [T; ACC_COLUMNS];

/// One wave's tile: which queries, what it has summed up. `STEPS` = D / 16, `PAIRS` = D / 32.
pub(super) struct Tile<const STEPS: usize, const PAIRS: usize> {
    /// Queries as B fragments, in pairs.
    pub queries: [[Fragment; 2]; PAIRS],
    /// Outputs, transposed: row `r` of tile j is d = 16j + r.
    pub sum: [Acc; STEPS],
    /// Running maxima, in units of log2.
    pub top: PerQuery<f32>,
    /// Running sums over this lane's part of the positions.
    pub total: PerQuery<f32>,
    /// Where the queries are.
    pub query: PerQuery<Query>,
    /// Positions the tile's last query sees.
    pub len: u32,
}

/// One query of a launch.
#[derive(Clone, Copy)]
pub(super) struct Query {
    /// Whether it exists; others repeat the last one and are not stored.
    live: bool,
    /// Its token.
    pub t: u32,
    /// Its first element in q and out.
    row: usize,
}

impl Query {
    /// Query `wanted`, or the last one; a row has `width` elements.
    ///
    /// # Safety
    /// 1. `group` is not 0.
    #[inline(always)]
    unsafe fn new(wanted: u32, tokens: u32, group: u32, kv_heads: u32, width: usize) -> Self {
        let live = wanted < tokens * group;
        let query = if live { wanted } else { tokens * group - 1 };
        // SAFETY: point 1 is the caller's.
        let t = unsafe { divide(query, group) };
        let head = workgroup_y() * group + (query - t * group);
        let row = (t as usize * (group * kv_heads) as usize + head as usize) * width;
        Self { live, t, row }
    }
}

/// Which positions there are, whatever they are stored as.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Positions the cache holds.
    pub capacity: u32,
    /// Position of the first token.
    pub position: u32,
    /// Positions appended: position + T.
    pub appended: u32,
    /// Scale of scores in units of log2.
    pub scale: f32,
}

impl Span {
    /// Of a launch.
    #[inline(always)]
    pub fn new([tokens, position, capacity]: [u32; 3], scale: f32) -> Self {
        Self { capacity, position, appended: position + tokens, scale: scale * LOG2_E }
    }
}

impl<const STEPS: usize, const PAIRS: usize> Tile<STEPS, PAIRS> {
    /// Reads the queries of tile `index`.
    ///
    /// # Safety
    /// 1. As the kernels; 16 · `index` < tokens · group.
    #[inline(always)]
    pub unsafe fn new(q: *const f32, index: u32, tokens: u32, position: u32, group: u32, kv_heads: u32) -> Self {
        let query = |column: u32| {
            // SAFETY: group is at least 1 by the contract of `Args`.
            unsafe { Query::new(index * super::QUERIES + column, tokens, group, kv_heads, STEPS * 16) }
        };
        let last = query(lane_idx() & 15);
        let query: PerQuery<Query> = core::array::from_fn(|c| query(acc_column(c)));
        let queries = core::array::from_fn(|s| {
            let chunks = [0, 1].map(|i| {
                let (c, lane_k, k) = pair_chunk(i);
                let at = query[c].row + s * 32 + k + lane_k as usize;
                // SAFETY: t < T and head < heads: q holds D elements from the row on, of which these are eight.
                let lo = unsafe { load_f32x4(q, at) };
                // SAFETY: as above.
                let hi = unsafe { load_f32x4(q, at + 4) };
                bf16x8([lo[0], lo[1], lo[2], lo[3], hi[0], hi[1], hi[2], hi[3]])
            });
            if s % 2 == 1 {
                schedule_fence();
            }
            Fragment::pair(chunks)
        });
        schedule_fence();
        let len = position + lane_value::<15>(last.t) + 1;
        Self { queries, sum: [Acc::zero(); STEPS], top: [FLOOR; _], total: [0.0; _], query, len }
    }

    /// Leaves in wave 0 the outputs of all eight waves of the workgroup, divided by their sum.
    ///
    /// # Safety
    /// 1. The launch gives LDS for it (`geometry_decode`), which nothing else uses; every wave of the workgroup comes here once, all lanes live.
    #[inline(always)]
    pub unsafe fn merged(mut self, wave: u32) -> Self {
        const WAVES: u32 = super::DECODE_WAVES;
        // Every wave learns every wave's maximum and sum, and brings its own part to the common scale, divided by the common sum.
        let total = self.total.map(|total| acc_across_rows(total, |a, b| a + b));
        let (tops, totals) = (lds::<f32>(), lds::<f32>().wrapping_add((WAVES * super::QUERIES) as usize));
        if acc_row(0) == 0 {
            for c in 0..ACC_COLUMNS {
                let at = (wave * super::QUERIES + acc_column(c)) as usize;
                // SAFETY: the launch gives WAVES × 16 f32 twice; the lane with a column's row 0 writes its element.
                unsafe { store(tops, at, self.top[c]) };
                // SAFETY: as above.
                unsafe { store(totals, at, total[c]) };
            }
        }
        // SAFETY: point 1.
        unsafe { barrier() };
        let factor = core::array::from_fn(|c| {
            let at = |w: u32| (w * super::QUERIES + acc_column(c)) as usize;
            let (mut top, mut all_tops) = (FLOOR, [0.0f32; WAVES as usize]);
            for w in 0..WAVES {
                // SAFETY: written before the barrier, not written after.
                all_tops[w as usize] = unsafe { load(tops, at(w)) };
                top = max(top, all_tops[w as usize]);
            }
            let mut sum = 0.0;
            for w in 0..WAVES {
                // SAFETY: as above.
                let total = unsafe { load(totals, at(w)) };
                sum = fma(exp2(all_tops[w as usize] - top), total, sum);
            }
            exp2(self.top[c] - top) * rcp(sum)
        });
        for j in 0..STEPS {
            self.sum[j] = scaled(self.sum[j], factor);
        }

        // The upper half of the waves hands its tiles to the lower half, until one wave has the sum.
        let tiles = lds::<B128>().wrapping_add((WAVES * super::QUERIES) as usize * 8 / 16).cast::<f32>();
        let tile_elements = STEPS * 256;
        let mut givers = WAVES / 2;
        while givers > 0 {
            if wave >= givers && wave < 2 * givers {
                let slot = tiles.wrapping_add((wave - givers) as usize * tile_elements);
                for j in 0..STEPS {
                    let x = acc_to_array(self.sum[j]);
                    let at = j * 256 + lane_idx() as usize * 4;
                    // SAFETY: slot < WAVES / 2 tiles of D · 16 f32, which the launch gives; one lane per element.
                    unsafe { store_f32x4(slot, at, [x[0], x[1], x[2], x[3]]) };
                    // SAFETY: as above.
                    unsafe { store_f32x4(slot, at + 128, [x[4], x[5], x[6], x[7]]) };
                }
            }
            // SAFETY: `givers` is the same in every wave, so all come here equally often.
            unsafe { barrier() };
            if wave < givers {
                let slot = tiles.wrapping_add(wave as usize * tile_elements);
                for j in 0..STEPS {
                    let x = acc_to_array(self.sum[j]);
                    let at = j * 256 + lane_idx() as usize * 4;
                    // SAFETY: written by wave `wave` + `givers` before the barrier.
                    let lo = unsafe { load_f32x4(slot, at) };
                    // SAFETY: as above.
                    let hi = unsafe { load_f32x4(slot, at + 128) };
                    let other = [lo[0], lo[1], lo[2], lo[3], hi[0], hi[1], hi[2], hi[3]];
                    self.sum[j] = Acc::new(core::array::from_fn(|e| x[e] + other[e]));
                }
            }
            givers = wave_uniform(givers / 2);
            // SAFETY: as above; the slots are written again only after it.
            unsafe { barrier() };
        }
        self
    }

    /// Writes the outputs, times `factor`.
    ///
    /// # Safety
    /// 1. `out` is the kernel's; no other wave writes this tile.
    #[inline(always)]
    pub unsafe fn store(&self, out: *mut u16, factor: PerQuery<f32>) {
        for j in 0..STEPS {
            let x = acc_to_array(scaled(self.sum[j], factor));
            for run in (0..8).step_by(ACC_RUN) {
                let query = self.query[acc_column_of(run)];
                if query.live {
                    let at = query.row + j * 16 + acc_row(run) as usize;
                    // SAFETY: out holds D elements from the query's row on; this run of them belongs to this lane alone.
                    unsafe { store_run_bf16(out, at, core::array::from_fn(|e| x[run + e])) };
                }
            }
        }
    }
}

/// Each column of `acc` times its query's number.
#[inline(always)]
pub(super) fn scaled(acc: Acc, by: PerQuery<f32>) -> Acc {
    let x = acc_to_array(acc);
    Acc::new(core::array::from_fn(|e| x[e] * by[acc_column_of(e)]))
}
