//! The attention phase of decode: one token's queries of one key/value head over one piece of the context, by a workgroup.
//!
//! 1. Each wave takes a query, or the new key, or the new value: norm, rotation, into LDS; the last piece's workgroup appends key and
//!    value to the cache. The new position is not read back from there: it starts the sums, from LDS.
//! 2. For each 256 positions: scores, a key row per 8 or 16 lanes; then weights, a query per wave, by the running maximum; then values,
//!    a few rows of the transposed cache per wave, 16 lanes side by side along the positions.
//! 3. The weighted sum of the piece and its maximum and sum of weights go to memory; o_proj's phase merges the pieces.
//!
//! Plain multiply-adds: a token has `group` queries per key/value head, and reading the cache is what takes the time.

use amdgpu_target::gpu::{
    B128, LOG2_E, Shared, barrier, exp2, fma, group_sum, lane_idx, load, load_f32x4, max, other_half, rsq, store,
    store_f32x4, unpack_bf16, wave_idx, wave_max, wave_sum,
};
use amdgpu_target::{bf16_to_f32, f32_to_bf16};

use super::{SCORES, WAVES, Work};
use crate::attention::{FLOOR, keep_below};

/// Keys that a lane loads at once.
const KEYS: usize = 4;
/// Positions of values that a wave takes at once, 8 to a lane of 16.
const PASS: u32 = 128;

/// What the phase reads and writes.
pub struct Attend {
    /// The work memory: q, k, v go in, pieces go out.
    pub work: Shared,
    /// Where what lies in it.
    pub at: Work,
    /// q_norm and k_norm `[D]` bf16.
    pub norms: [*const u16; 2],
    /// Row of the rotary table `[D]`.
    pub rope: *const f32,
    /// Keys of this layer and head `[capacity, D]`.
    pub keys: Shared,
    /// Values of this layer and head `[D, capacity]`.
    pub values: Shared,
    /// Query heads.
    pub heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Query heads of a key/value head.
    pub group: u32,
    /// Positions the cache holds.
    pub capacity: u32,
    /// The token's position.
    pub position: u32,
    /// ε of the norms.
    pub eps: f32,
    /// Scale of scores.
    pub scale: f32,
    /// This phase's LDS.
    pub lds: *mut f32,
}

impl Attend {
    /// This lane's D / 32 elements of a head of q, k or v that starts at `element`.
    ///
    /// # Safety
    /// 1. D elements from `element` on are there.
    #[inline(always)]
    unsafe fn head_part<const D: usize>(&self, element: u32) -> [f32; 4] {
        if D == 128 {
            // SAFETY: the caller's.
            unsafe { self.work.load_f32x4(self.at.qkv + (element + lane_idx() * 4) * 4) }
        } else {
            // SAFETY: the caller's.
            let [a, b] = unsafe { self.work.load_f32x2(self.at.qkv + (element + lane_idx() * 2) * 4) };
            [a, b, 0.0, 0.0]
        }
    }

    /// Query `q` of those from `first` on; past the group its last one.
    #[inline(always)]
    fn query(&self, first: u32, q: usize) -> u32 {
        (first + q as u32).min(self.group - 1)
    }
    /// LDS: queries `[group, D]`, scores `[group, SCORES]`, key `[D]`, value `[D]`, numbers `[group, 4]`.
    #[inline(always)]
    fn scores<const D: usize>(&self) -> *mut f32 {
        self.lds.wrapping_add((self.group as usize).next_multiple_of(4) * D)
    }
    #[inline(always)]
    fn key<const D: usize>(&self) -> *mut f32 {
        self.scores::<D>().wrapping_add((self.group as usize).next_multiple_of(4) * SCORES as usize)
    }
    #[inline(always)]
    fn value<const D: usize>(&self) -> *mut f32 {
        self.key::<D>().wrapping_add(D)
    }
    /// Per query: the factor of what was summed before, and the new position's weight.
    #[inline(always)]
    fn numbers<const D: usize>(&self) -> *mut f32 {
        self.value::<D>().wrapping_add(D)
    }

    /// RMSNorm and rotation of a head whose elements the wave holds.
    ///
    /// # Safety
    /// 1. `norm` and the table's row hold D elements.  2. All lanes are live.
    #[inline(always)]
    unsafe fn turn<const D: usize>(&self, x: [f32; 4], norm: *const u16) -> [f32; 4] {
        let per = D / 32;
        let mut sum = 0.0;
        for e in 0..per {
            sum = fma(x[e], x[e], sum);
        }
        let scale = rsq(fma(wave_sum(sum), 1.0 / D as f32, self.eps));
        let lower = lane_idx() < 16;
        let mut out = [0.0; 4];
        for e in 0..per {
            let i = lane_idx() as usize * per + e;
            // SAFETY: i < D.
            let mine = x[e] * scale * bf16_to_f32(unsafe { load(norm, i) });
            // Element i ± D/2 lies in the lane 16 further.
            let other = f32::from_bits(other_half(mine.to_bits()));
            let angle = if lower { i } else { i - D / 2 };
            // SAFETY: angle < D / 2: the row holds that many cosines, then as many sines.
            let cos = unsafe { load(self.rope, angle) };
            // SAFETY: as above.
            let sin = unsafe { load(self.rope, angle + D / 2) };
            out[e] = fma(mine, cos, if lower { -(other * sin) } else { other * sin });
        }
        out
    }

    /// Step 1: `head` is the key/value head, `owner` whether this workgroup has the new position.
    ///
    /// # Safety
    /// As [`Attend::run`].
    #[inline(always)]
    unsafe fn prepare<const D: usize>(&self, head: u32, owner: bool) {
        let per = D / 32;
        let count = if owner { self.group + 2 } else { self.group };
        let mut job = wave_idx();
        while job < count {
            let q = self.heads * D as u32;
            let kv = self.kv_heads * D as u32;
            let lane = lane_idx() as usize * per;
            if job < self.group {
                // SAFETY: a query head of the token.
                let x = unsafe { self.head_part::<D>((head * self.group + job) * D as u32) };
                // SAFETY: q_norm; all lanes are live.
                let x = unsafe { self.turn::<D>(x, self.norms[0]) };
                for e in 0..per {
                    // SAFETY: the query's place in LDS; one lane per element.
                    unsafe { store(self.lds, job as usize * D + lane + e, x[e] * (self.scale * LOG2_E)) };
                }
            } else if job == self.group {
                // SAFETY: a key head of the token.
                let x = unsafe { self.head_part::<D>(q + head * D as u32) };
                // SAFETY: k_norm; all lanes are live.
                let x = unsafe { self.turn::<D>(x, self.norms[1]) }.map(f32_to_bf16);
                for e in 0..per {
                    // SAFETY: the key's place in LDS.
                    unsafe { store(self.key::<D>(), lane + e, bf16_to_f32(x[e])) };
                }
                let at = (self.position * D as u32 + lane as u32) * 2;
                let pair = |i: usize| u32::from(x[i]) | u32::from(x[i + 1]) << 16;
                // SAFETY: the position is below the capacity, and its row is this workgroup's alone.
                unsafe { self.keys.store_b32(at, pair(0)) };
                if D == 128 {
                    // SAFETY: as above.
                    unsafe { self.keys.store_b32(at + 4, pair(2)) };
                }
            } else {
                // SAFETY: a value head of the token.
                let x = unsafe { self.head_part::<D>(q + kv + head * D as u32) }.map(f32_to_bf16);
                for e in 0..per {
                    // SAFETY: the value's place in LDS.
                    unsafe { store(self.value::<D>(), lane + e, bf16_to_f32(x[e])) };
                    let at = ((lane + e) as u32 * self.capacity + self.position) * 2;
                    // SAFETY: as for the key; one element per lane.
                    unsafe { self.values.store_b16(at, x[e]) };
                }
            }
            job += WAVES;
        }
    }

    /// Scores of the positions `base` … `base` + 255 below `end`, −∞ for the others.
    ///
    /// # Safety
    /// As [`Attend::run`]; `base` < `end`, both uniform.
    #[inline(always)]
    unsafe fn score<const D: usize>(&self, base: u32, end: u32) {
        let lanes = D as u32 / 8;
        let part = lane_idx() & (lanes - 1);
        let place = |step: u32| (step * WAVES + wave_idx()) * (32 / lanes) + lane_idx() / lanes;
        let mut first = 0;
        while first < D as u32 / 16 {
            let mut keys = [B128::new([0; 4]); KEYS];
            for i in 0..KEYS {
                let position = (base + place(first + i as u32)).min(end - 1);
                // SAFETY: a position that is appended, below the capacity.
                keys[i] = unsafe { self.keys.load_b128(position * (D as u32 * 2) + part * 16) };
            }
            let mut query = 0;
            while query < self.group {
                let at = query as usize * D + part as usize * 8;
                // SAFETY: queries were written before the last barrier; at + 8 ≤ group · D.
                let lo = unsafe { load_f32x4(self.lds, at) };
                // SAFETY: as above.
                let hi = unsafe { load_f32x4(self.lds, at + 4) };
                let mut mine = 0.0;
                for i in 0..KEYS {
                    let k = keys[i].words().map(unpack_bf16);
                    let mut sum = fma(k[0][1], lo[1], k[0][0] * lo[0]);
                    sum = fma(k[1][1], lo[3], fma(k[1][0], lo[2], sum));
                    sum = fma(k[2][1], hi[1], fma(k[2][0], hi[0], sum));
                    sum = fma(k[3][1], hi[3], fma(k[3][0], hi[2], sum));
                    let sum = if D == 128 { group_sum::<16>(sum) } else { group_sum::<8>(sum) };
                    mine = if part == i as u32 { sum } else { mine };
                }
                // Every lane of a row has all of its sums: of the row's lanes, lane i stores that of step i, all at once.
                if part < KEYS as u32 {
                    let place = place(first + part);
                    let score = if base + place < end { mine } else { f32::NEG_INFINITY };
                    // SAFETY: place < SCORES; one lane per position.
                    unsafe { store(self.scores::<D>(), (query * SCORES + place) as usize, score) };
                }
                query += 1;
            }
            first += KEYS as u32;
        }
    }

    /// Weights of the scores in LDS, a query per wave; `top` and `total` are the query's so far.
    ///
    /// # Safety
    /// As [`Attend::run`].
    #[inline(always)]
    unsafe fn weigh<const D: usize>(&self, query: u32, top: &mut f32, total: &mut f32) {
        let at = (query * SCORES + lane_idx() * 8) as usize;
        let scores = self.scores::<D>();
        // SAFETY: written before the last barrier.
        let lo = unsafe { load_f32x4(scores, at) };
        // SAFETY: as above.
        let hi = unsafe { load_f32x4(scores, at + 4) };
        let most = max(max(max(lo[0], lo[1]), max(lo[2], lo[3])), max(max(hi[0], hi[1]), max(hi[2], hi[3])));
        let new = max(*top, wave_max(most));
        let keep = exp2(*top - new);
        let (lo, hi) = (lo.map(|x| exp2(x - new)), hi.map(|x| exp2(x - new)));
        let sum = ((lo[0] + lo[1]) + (lo[2] + lo[3])) + ((hi[0] + hi[1]) + (hi[2] + hi[3]));
        *total = fma(*total, keep, wave_sum(sum));
        *top = new;
        // SAFETY: this lane's eight scores.
        unsafe { store_f32x4(scores, at, lo) };
        // SAFETY: as above.
        unsafe { store_f32x4(scores, at + 4, hi) };
        if lane_idx() == 0 {
            // SAFETY: the query's number.
            unsafe { store(self.numbers::<D>(), query as usize * 4, keep) };
        }
    }

    /// One piece of one key/value head: positions `begin` … of `each`. A workgroup's work; it ends with a barrier.
    ///
    /// `GROUP` (2 or 4) queries are summed at a time; a larger group reads the piece again.
    ///
    /// # Safety
    /// 1. The fields hold what they say; the position is below the capacity, those below it are appended.
    /// 2. All waves of the workgroup come here, all lanes live, with the same arguments.
    #[inline(always)]
    pub unsafe fn run<const D: usize, const GROUP: usize>(&self, head: u32, piece: u32, each: u32) {
        let begin = piece * each;
        let owner = begin + each > self.position;
        let end = if owner { self.position } else { begin + each };
        // SAFETY: the caller's.
        unsafe { self.prepare::<D>(head, owner) };
        // SAFETY: all waves come here.
        unsafe { barrier() };
        let mut first = 0;
        while first < self.group {
            // SAFETY: the caller's.
            unsafe { self.queries::<D, GROUP>(head, piece, begin, end, owner, first) };
            first += GROUP as u32;
        }
    }

    /// [`Attend::run`] for the queries `first` … `first` + `GROUP` − 1; those past the group repeat its last one and are not stored.
    ///
    /// # Safety
    /// As [`Attend::run`], after its first barrier.
    #[inline(always)]
    unsafe fn queries<const D: usize, const GROUP: usize>(
        &self,
        head: u32,
        piece: u32,
        begin: u32,
        end: u32,
        owner: bool,
        first: u32,
    ) {
        /// Pairs of value rows of a wave: D / 32.
        const PAIRS: usize = 4;
        let pairs = D / 32;
        let wave = wave_idx();
        let weighs = wave < GROUP as u32 && first + wave < self.group;
        let (mut top, mut total, mut new) = (FLOOR, 0.0, FLOOR);
        if weighs && owner {
            let mut sum = 0.0;
            for e in 0..D / 32 {
                let i = lane_idx() as usize * (D / 32) + e;
                // SAFETY: written before the last barrier.
                let q = unsafe { load(self.lds, (first + wave) as usize * D + i) };
                // SAFETY: as above.
                sum = fma(q, unsafe { load(self.key::<D>(), i) }, sum);
            }
            new = wave_sum(sum);
            (top, total) = (new, 1.0);
        }
        let mut sums = [[0.0f32; GROUP]; PAIRS];
        let half = lane_idx() / 16;
        let row = wave * (2 * pairs as u32) + half;
        let mut base = begin;
        while base < end {
            // SAFETY: base < end; the rest is the caller's.
            unsafe { self.score::<D>(base, end) };
            // SAFETY: all waves come here.
            unsafe { barrier() };
            if weighs {
                // SAFETY: the scores are written.
                unsafe { self.weigh::<D>(first + wave, &mut top, &mut total) };
            }
            // SAFETY: all waves come here.
            unsafe { barrier() };
            for q in 0..GROUP {
                let query = self.query(first, q);
                // SAFETY: written before the barrier.
                let keep = unsafe { load(self.numbers::<D>(), query as usize * 4) };
                for pair in 0..pairs {
                    sums[pair][q] *= keep;
                }
            }
            let mut pass = 0;
            while pass < SCORES && base + pass < end {
                let place = pass + lane_idx() % 16 * 8;
                let position = base + place;
                let mut values = [B128::new([0; 4]); PAIRS];
                for pair in 0..pairs {
                    let at = (row + 2 * pair as u32) * self.capacity + position.min(self.capacity - 8);
                    // SAFETY: row < D, and eight positions below the capacity.
                    values[pair] = unsafe { self.values.load_b128(at * 2) };
                }
                for pair in 0..pairs {
                    // Positions that are not appended may hold anything, and 0 · NaN is NaN.
                    values[pair] = keep_below(values[pair], position, end);
                }
                for q in 0..GROUP {
                    let query = self.query(first, q);
                    let at = (query * SCORES + place) as usize;
                    // SAFETY: weights, written before the barrier; place + 8 ≤ SCORES.
                    let lo = unsafe { load_f32x4(self.scores::<D>(), at) };
                    // SAFETY: as above.
                    let hi = unsafe { load_f32x4(self.scores::<D>(), at + 4) };
                    for pair in 0..pairs {
                        let v = values[pair].words().map(unpack_bf16);
                        let sum = fma(v[0][1], lo[1], fma(v[0][0], lo[0], sums[pair][q]));
                        let sum = fma(v[1][1], lo[3], fma(v[1][0], lo[2], sum));
                        let sum = fma(v[2][1], hi[1], fma(v[2][0], hi[0], sum));
                        sums[pair][q] = fma(v[3][1], hi[3], fma(v[3][0], hi[2], sum));
                    }
                }
                pass += PASS;
            }
            // SAFETY: all waves come here; scores are written again only after it.
            unsafe { barrier() };
            base += SCORES;
        }
        // Each query's maximum, sum, and weight of the new position.
        if weighs && lane_idx() == 0 {
            let query = first + wave;
            let weight = if owner { exp2(new - top) } else { 0.0 };
            // SAFETY: the query's number.
            unsafe { store(self.numbers::<D>(), query as usize * 4 + 1, weight) };
            let at = self.at.stats + (piece * self.heads + head * self.group + query) * 8;
            // SAFETY: this piece's numbers of this query; one lane of the launch writes them.
            unsafe { self.work.store_f32(at, top) };
            // SAFETY: as above.
            unsafe { self.work.store_f32(at + 4, total) };
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
        for q in 0..GROUP {
            let query = first + q as u32;
            for pair in 0..pairs {
                let sum = group_sum::<16>(sums[pair][q]);
                if lane_idx() % 16 == 0 && query < self.group {
                    let d = row + 2 * pair as u32;
                    let mut out = sum;
                    if owner {
                        // SAFETY: written before the barriers.
                        let weight = unsafe { load(self.numbers::<D>(), query as usize * 4 + 1) };
                        // SAFETY: as above; d < D.
                        out = fma(weight, unsafe { load(self.value::<D>(), d as usize) }, out);
                    }
                    let at = self.at.partial + ((piece * self.heads + head * self.group + query) * D as u32 + d) * 4;
                    // SAFETY: this piece's element of this query; one lane of the launch writes it.
                    unsafe { self.work.store_f32(at, out) };
                }
            }
        }
        // SAFETY: all waves come here; LDS is written again only after it.
        unsafe { barrier() };
    }
}
