//! The attention phase of decode: one token's queries of one key/value head over one piece of the context, by a workgroup.
//!
//! 1. Before q, k, v are there: the first 128 positions of the piece, norm weights and the rotary row begin to move into registers.
//! 2. Each wave takes a query, or the new key, or the new value: norm if heads have one, rotation, into LDS; the last piece's workgroup appends key and
//!    value to the cache. The new position is not read back from there: it starts the sums, from LDS.
//! 3. For each 128 positions: scores, a key row per 8 or 16 lanes; then weights, a query per wave, by the running maximum; then values,
//!    a few rows of the transposed cache per wave, 16 lanes side by side along the positions.
//! 4. The weighted sum of the piece and its maximum and sum of weights go to memory; o_proj's phase merges the pieces.
//!
//! Plain multiply-adds: a token has `group` queries per key/value head, and reading the cache is what takes the time.

use amdgpu_target::gpu::{
    B64, B128, GridBarrier, LOG2_E, Shared, barrier, exp2, fma, group_sum, lane_idx, load, load_f32x4, max, other_half,
    rsq, store, store_f32x4, unpack_bf16, wave_idx, wave_max, wave_sum,
};
use amdgpu_target::{bf16_to_f32, f32_to_bf16};

use super::{SCORES, WAVES, Work};
use crate::attention::{FLOOR, keep_below};

/// Loads of 16 bytes of a lane for the keys of a block of [`SCORES`] positions, and as many for its values: D / 32, at most this.
const LOADS: usize = 4;

// A load of keys is of 256 / D positions in each of 16 waves, one of values of 8 in each of 16 lanes: D / 32 of the first, or one of the
// second for each row, cover a block.
const _: () = assert!(SCORES == WAVES * 8 && SCORES == 16 * 8);

/// D / 32 loads, each written out: an array filled in a loop would not stay in registers, nor would a struct that `load` borrows.
#[inline(always)]
fn loads<const D: usize>(load: impl Fn(u32) -> B128) -> [B128; LOADS] {
    let none = B128::ZERO;
    if D == 128 { [load(0), load(1), load(2), load(3)] } else { [load(0), load(1), none, none] }
}

/// What the phase reads and writes; `NORMED`: whether heads have norms.
pub struct Attend<const NORMED: bool> {
    /// The work memory: q, k, v go in, pieces go out.
    pub work: Shared,
    /// Where what lies in it.
    pub at: Work,
    /// q_norm and k_norm `[D]` bf16; not read if there are none.
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
    /// The key/value head.
    pub head: u32,
    /// The piece of the context, and the positions of each piece but the last.
    pub piece: u32,
    /// See `piece`.
    pub each: u32,
}

/// Norm weights, cosines and sines of this lane's D / 32 elements of a head.
#[derive(Clone, Copy)]
struct Turn {
    norm: [f32; 4],
    cos: [f32; 4],
    sin: [f32; 4],
}

impl<const NORMED: bool> Attend<NORMED> {
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

    /// Positions of the piece in the cache: from here to below there; and whether this workgroup has the token's own, behind them.
    #[inline(always)]
    fn span(&self) -> (u32, u32, bool) {
        let begin = self.piece * self.each;
        let owner = begin + self.each > self.position;
        (begin, if owner { self.position } else { begin + self.each }, owner)
    }

    /// What the head of `job` is turned by, if it is a query or the key.
    ///
    /// # Safety
    /// 1. The fields hold what they say.
    #[inline(always)]
    unsafe fn turn<const D: usize>(&self, job: u32) -> Turn {
        if job > self.group {
            return Turn { norm: [0.0; 4], cos: [0.0; 4], sin: [0.0; 4] };
        }
        let norm = if job < self.group { self.norms[0] } else { self.norms[1] };
        let (lane, angle) = (lane_idx() as usize, lane_idx() as usize % 16);
        if D == 128 {
            let mut weights = [0; 2];
            if NORMED {
                // SAFETY: four of D weights.
                weights = unsafe { load(norm.cast::<B64>(), lane) }.words();
            }
            let [ab, cd] = weights.map(unpack_bf16);
            // SAFETY: the row holds D / 2 cosines, then as many sines.
            let cos = unsafe { load_f32x4(self.rope, angle * 4) };
            // SAFETY: as above.
            let sin = unsafe { load_f32x4(self.rope, D / 2 + angle * 4) };
            Turn { norm: [ab[0], ab[1], cd[0], cd[1]], cos, sin }
        } else {
            // SAFETY: two of D weights.
            let [a, b] = unpack_bf16(if NORMED { unsafe { load(norm.cast::<u32>(), lane) } } else { 0 });
            // SAFETY: as above.
            let [c, d] = unsafe { load(self.rope.cast::<B64>(), angle) }.words().map(f32::from_bits);
            // SAFETY: as above.
            let [s, t] = unsafe { load(self.rope.cast::<B64>(), D / 4 + angle) }.words().map(f32::from_bits);
            Turn { norm: [a, b, 0.0, 0.0], cos: [c, d, 0.0, 0.0], sin: [s, t, 0.0, 0.0] }
        }
    }

    /// Which of a block's positions load `i` of this lane's keys is of.
    #[inline(always)]
    fn place<const D: usize>(i: u32) -> u32 {
        let lanes = D as u32 / 8;
        (i * WAVES + wave_idx()) * (32 / lanes) + lane_idx() / lanes
    }

    /// This lane's part of the keys of positions `base` …; past `end` the last one before it.
    ///
    /// # Safety
    /// 1. `base` and `end` are at most the token's position.
    #[inline(always)]
    unsafe fn load_keys<const D: usize>(&self, base: u32, end: u32) -> [B128; LOADS] {
        let part = lane_idx() & (D as u32 / 8 - 1);
        let (keys, last) = (self.keys, end.saturating_sub(1));
        loads::<D>(move |i| {
            let position = (base + Self::place::<D>(i)).min(last);
            // SAFETY: a position below the capacity.
            unsafe { keys.load_b128(position * (D as u32 * 2) + part * 16) }
        })
    }

    /// Eight positions, from `base` + 8 · (lane mod 16) on, of each of this half wave's rows of values.
    ///
    /// # Safety
    /// 1. `base` is at most the token's position.
    #[inline(always)]
    unsafe fn load_values<const D: usize>(&self, base: u32) -> [B128; LOADS] {
        let (values, capacity) = (self.values, self.capacity);
        let position = (base + lane_idx() % 16 * 8).min(capacity - 8);
        loads::<D>(move |pair| {
            // SAFETY: a row below D, and eight positions below the capacity.
            unsafe { values.load_b128((Self::row::<D>(pair) * capacity + position) * 2) }
        })
    }

    /// Row of values, which is an element of the head, of this half wave's load `pair`.
    #[inline(always)]
    fn row<const D: usize>(pair: u32) -> u32 {
        wave_idx() * (D as u32 / 16) + lane_idx() / 16 + 2 * pair
    }

    /// RMSNorm, if heads have one, and rotation of a head whose elements the wave holds.
    ///
    /// # Safety
    /// 1. All lanes are live.
    #[inline(always)]
    unsafe fn turned<const D: usize>(&self, x: [f32; 4], turn: Turn) -> [f32; 4] {
        let per = D / 32;
        let mut scale = 1.0;
        if NORMED {
            let mut sum = 0.0;
            for e in 0..per {
                sum = fma(x[e], x[e], sum);
            }
            scale = rsq(fma(wave_sum(sum), 1.0 / D as f32, self.eps));
        }
        let lower = lane_idx() < 16;
        let mut out = [0.0; 4];
        for e in 0..per {
            let mine = if NORMED { x[e] * scale * turn.norm[e] } else { x[e] };
            // Element i ± D/2 lies in the lane 16 further.
            let other = f32::from_bits(other_half(mine.to_bits())) * turn.sin[e];
            out[e] = fma(mine, turn.cos[e], if lower { -other } else { other });
        }
        out
    }

    /// Zeros in place of the queries past the group that [`Attend::score`] reads: groups of heads with norms are 1, 2 or 4 in all models
    /// there are, where others have 3, 6 and 7. What comes of them is not used, but it is not noise either.
    ///
    /// # Safety
    /// As [`Attend::run`].
    #[inline(always)]
    unsafe fn clear_rest<const D: usize>(&self) {
        let query = self.group + wave_idx();
        if query < self.group.next_multiple_of(4) {
            for e in 0..D / 32 {
                // SAFETY: LDS has room for a multiple of four queries; one lane per element.
                unsafe { store(self.lds, query as usize * D + lane_idx() as usize * (D / 32) + e, 0.0f32) };
            }
        }
    }

    /// Step 2; `owner` is whether this workgroup has the new position, `turn` that of the wave's first job.
    ///
    /// # Safety
    /// As [`Attend::run`].
    #[inline(always)]
    unsafe fn prepare<const D: usize>(&self, owner: bool, mut turn: Turn) {
        let per = D / 32;
        let head = self.head;
        if !NORMED {
            // SAFETY: as this function.
            unsafe { self.clear_rest::<D>() };
        }
        let count = if owner { self.group + 2 } else { self.group };
        let mut job = wave_idx();
        while job < count {
            let q = self.heads * D as u32;
            let kv = self.kv_heads * D as u32;
            let lane = lane_idx() as usize * per;
            if job < self.group {
                // SAFETY: a query head of the token.
                let x = unsafe { self.head_part::<D>((head * self.group + job) * D as u32) };
                // SAFETY: all lanes are live.
                let x = unsafe { self.turned::<D>(x, turn) };
                for e in 0..per {
                    // SAFETY: the query's place in LDS; one lane per element.
                    unsafe { store(self.lds, job as usize * D + lane + e, x[e] * (self.scale * LOG2_E)) };
                }
            } else if job == self.group {
                // SAFETY: a key head of the token.
                let x = unsafe { self.head_part::<D>(q + head * D as u32) };
                // SAFETY: all lanes are live.
                let x = rounded(unsafe { self.turned::<D>(x, turn) });
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
                let x = rounded(unsafe { self.head_part::<D>(q + kv + head * D as u32) });
                for e in 0..per {
                    // SAFETY: the value's place in LDS.
                    unsafe { store(self.value::<D>(), lane + e, bf16_to_f32(x[e])) };
                    let at = ((lane + e) as u32 * self.capacity + self.position) * 2;
                    // SAFETY: as for the key; one element per lane.
                    unsafe { self.values.store_b16(at, x[e]) };
                }
            }
            job += WAVES;
            if job < count {
                // SAFETY: the caller's.
                turn = unsafe { self.turn::<D>(job) };
            }
        }
    }

    /// Scores of `GROUP` queries from `first` on (those past the group have room in LDS, and nobody reads them) at the positions `base` … `base` + 127 below `end`, −∞ at the others.
    ///
    /// # Safety
    /// As [`Attend::run`]; `keys` are [`Attend::load_keys`]'s of `base`; all uniform.
    #[inline(always)]
    unsafe fn score<const D: usize, const GROUP: usize>(&self, keys: [B128; LOADS], first: u32, base: u32, end: u32) {
        let part = lane_idx() & (D as u32 / 8 - 1);
        for q in 0..GROUP {
            let query = first + q as u32;
            let at = query as usize * D + part as usize * 8;
            // SAFETY: queries were written before the last barrier; at + 8 ≤ group · D.
            let lo = unsafe { load_f32x4(self.lds, at) };
            // SAFETY: as above.
            let hi = unsafe { load_f32x4(self.lds, at + 4) };
            let dot = |key: B128| {
                let k = key.words().map(unpack_bf16);
                let mut sum = fma(k[0][1], lo[1], k[0][0] * lo[0]);
                sum = fma(k[1][1], lo[3], fma(k[1][0], lo[2], sum));
                sum = fma(k[2][1], hi[1], fma(k[2][0], hi[0], sum));
                sum = fma(k[3][1], hi[3], fma(k[3][0], hi[2], sum));
                if D == 128 { group_sum::<16>(sum) } else { group_sum::<8>(sum) }
            };
            let [a, b, c, d] = keys;
            let (a, b) = (dot(a), dot(b));
            let mut mine = if part == 0 { a } else { b };
            if D == 128 {
                let (c, d) = (dot(c), dot(d));
                mine = if part < 2 {
                    mine
                } else if part == 2 {
                    c
                } else {
                    d
                };
            }
            // Every lane of a row has all of its sums: of the row's lanes, lane i stores that of load i, all at once.
            if part < D as u32 / 32 {
                let place = Self::place::<D>(part);
                let score = if base + place < end { mine } else { f32::NEG_INFINITY };
                // SAFETY: place < SCORES; one lane per position.
                unsafe { store(self.scores::<D>(), (query * SCORES + place) as usize, score) };
            }
        }
    }

    /// Weights of the scores in LDS, a query per wave; `top` and `total` are the query's so far.
    ///
    /// # Safety
    /// As [`Attend::run`].
    #[inline(always)]
    unsafe fn weigh<const D: usize>(&self, query: u32, top: &mut f32, total: &mut f32) {
        let at = (query * SCORES + lane_idx() * 4) as usize;
        let scores = self.scores::<D>();
        // SAFETY: written before the last barrier.
        let x = unsafe { load_f32x4(scores, at) };
        let new = max(*top, wave_max(max(max(x[0], x[1]), max(x[2], x[3]))));
        let keep = exp2(*top - new);
        let x = x.map(|x| exp2(x - new));
        *total = fma(*total, keep, wave_sum((x[0] + x[1]) + (x[2] + x[3])));
        *top = new;
        // SAFETY: this lane's four scores.
        unsafe { store_f32x4(scores, at, x) };
        if lane_idx() == 0 {
            // SAFETY: the query's number.
            unsafe { store(self.numbers::<D>(), query as usize * 4, keep) };
        }
    }

    /// The piece, after a wait for the grid if `waits`: the first keys and values are on their way before it. A workgroup's work; it ends
    /// with a barrier. A piece of the token alone, one position in 128, loads a block for nobody.
    ///
    /// `GROUP` (2 or 4) queries are summed at a time; a larger group reads the piece again.
    ///
    /// # Safety
    /// 1. The fields hold what they say; the position is below the capacity, those below it are appended; q, k, v of the token are there
    ///    after the wait.  2. All waves of the workgroup come here, all lanes live, with the same arguments.
    #[inline(always)]
    pub unsafe fn run<const D: usize, const GROUP: usize>(&self, grid: &GridBarrier, waits: bool) {
        let mut first = 0;
        while first < self.group {
            // SAFETY: the caller's.
            unsafe { self.queries::<D, GROUP>(first, grid, waits) };
            first += GROUP as u32;
        }
    }

    /// [`Attend::run`] for the queries `first` … `first` + `GROUP` − 1; those past the group repeat its last one and are not stored. With
    /// the first of them everything is prepared.
    ///
    /// # Safety
    /// As [`Attend::run`].
    #[inline(always)]
    unsafe fn queries<const D: usize, const GROUP: usize>(&self, first: u32, grid: &GridBarrier, waits: bool) {
        let (begin, end, owner) = self.span();
        let pairs = D / 32;
        let wave = wave_idx();
        let weighs = wave < GROUP as u32 && first + wave < self.group;
        // SAFETY: the piece begins at the token's position or before.
        let mut keys = unsafe { self.load_keys::<D>(begin, end) };
        // SAFETY: as above.
        let mut values = unsafe { self.load_values::<D>(begin) };
        if first == 0 {
            // SAFETY: the caller's.
            let turn = unsafe { self.turn::<D>(wave) };
            if waits {
                // SAFETY: all waves come here.
                unsafe { grid.wait() };
            }
            // SAFETY: q, k, v are there.
            unsafe { self.prepare::<D>(owner, turn) };
            // SAFETY: all waves come here.
            unsafe { barrier() };
        }
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
        let mut sums = [[0.0f32; GROUP]; LOADS];
        let mut base = begin;
        while base < end {
            let next = base + SCORES;
            // SAFETY: base < end; the rest is the caller's.
            unsafe { self.score::<D, GROUP>(keys, first, base, end) };
            // SAFETY: all waves come here.
            unsafe { barrier() };
            if weighs {
                // SAFETY: the scores are written.
                unsafe { self.weigh::<D>(first + wave, &mut top, &mut total) };
            } else if !NORMED && wave < GROUP as u32 && lane_idx() == 0 {
                // SAFETY: the number of a query past the group, which has its place.
                unsafe { store(self.numbers::<D>(), (first + wave) as usize * 4, 0.0) };
            }
            // SAFETY: all waves come here.
            unsafe { barrier() };
            for q in 0..GROUP {
                let query = first + q as u32;
                // SAFETY: written before the barrier.
                let keep = unsafe { load(self.numbers::<D>(), query as usize * 4) };
                for pair in 0..pairs {
                    sums[pair][q] *= keep;
                }
            }
            let place = lane_idx() % 16 * 8;
            // Positions that are not appended may hold anything, and 0 · NaN is NaN.
            let known = values.map(|values| keep_below(values, base + place, end));
            let mut weights = [[[0.0f32; 4]; 2]; GROUP];
            for q in 0..GROUP {
                let at = ((first + q as u32) * SCORES + place) as usize;
                // SAFETY: weights, written before the barrier; place + 8 ≤ SCORES.
                weights[q][0] = unsafe { load_f32x4(self.scores::<D>(), at) };
                // SAFETY: as above.
                weights[q][1] = unsafe { load_f32x4(self.scores::<D>(), at + 4) };
            }
            for pair in 0..pairs {
                let v = known[pair].words().map(unpack_bf16);
                for q in 0..GROUP {
                    let [lo, hi] = weights[q];
                    let sum = fma(v[0][1], lo[1], fma(v[0][0], lo[0], sums[pair][q]));
                    let sum = fma(v[1][1], lo[3], fma(v[1][0], lo[2], sum));
                    let sum = fma(v[2][1], hi[1], fma(v[2][0], hi[0], sum));
                    sums[pair][q] = fma(v[3][1], hi[3], fma(v[3][0], hi[2], sum));
                }
            }
            if next < end {
                // SAFETY: next < end.
                keys = unsafe { self.load_keys::<D>(next, end) };
                // SAFETY: as above.
                values = unsafe { self.load_values::<D>(next) };
            }
            // SAFETY: all waves come here; scores are written again only after it.
            unsafe { barrier() };
            base = next;
        }
        // Each query's maximum, sum, and weight of the new position.
        if weighs && lane_idx() == 0 {
            let query = first + wave;
            let weight = if owner { exp2(new - top) } else { 0.0 };
            // SAFETY: the query's number.
            unsafe { store(self.numbers::<D>(), query as usize * 4 + 1, weight) };
            let at = self.at.stats + (self.piece * self.heads + self.head * self.group + query) * 8;
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
                    let d = Self::row::<D>(pair as u32);
                    let mut out = sum;
                    if owner {
                        // SAFETY: written before the barriers.
                        let weight = unsafe { load(self.numbers::<D>(), query as usize * 4 + 1) };
                        // SAFETY: as above; d < D.
                        out = fma(weight, unsafe { load(self.value::<D>(), d as usize) }, out);
                    }
                    let row = self.piece * self.heads + self.head * self.group + query;
                    let at = self.at.partial + (row * D as u32 + d) * 4;
                    // SAFETY: this piece's element of this query; one lane of the launch writes it.
                    unsafe { self.work.store_f32(at, out) };
                }
            }
        }
        // SAFETY: all waves come here; LDS is written again only after it.
        unsafe { barrier() };
    }
}

/// As bf16. Written out: `map` of a function is a call where a kernel is large.
#[inline(always)]
fn rounded(x: [f32; 4]) -> [u16; 4] {
    [f32_to_bf16(x[0]), f32_to_bf16(x[1]), f32_to_bf16(x[2]), f32_to_bf16(x[3])]
}
