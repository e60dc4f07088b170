//! The K largest logits of one row, largest first, so that a host that samples from few tokens reads few bytes. No softmax and no random
//! number here; those are the host's.
//!
//! Two launches. In [`NAME_SLICES`] each workgroup leaves the K best of its slice of the row, in [`NAME_MERGE`] one workgroup takes the K
//! best of those. Both do the same thing (`select`) and differ in where its keys come from and go to.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// f32 logits to each slice's best.
pub const NAME_SLICES: &str = "top_k_f32_slices";
/// The slices' best to logits and ids.
pub const NAME_MERGE: &str = "top_k_f32_merge";
/// Most K: half of a workgroup's lanes, so that the K best of their maxima are a sharp bound.
pub const MAX: u32 = 64;
/// Most slices: what bounds the merge, whatever the vocabulary.
pub const MAX_SLICES: u32 = 128;

pub(crate) const WAVES: u32 = 4;
const ITEMS: u32 = WAVES * 32;
/// Keys that one lane holds of what is looked at together.
const KEYS: usize = 16;
/// Keys looked at together.
const CHUNK: u32 = ITEMS * KEYS as u32;

// Workgroup memory, in bytes from its start: what each lane brings, ranks of it, the best so far, candidates.
const LDS_MAXIMA: u32 = 0;
const LDS_EXTRA: u32 = LDS_MAXIMA + ITEMS * 8;
const LDS_BEST: u32 = LDS_EXTRA + ITEMS * 4;
const LDS_LIST: u32 = LDS_BEST + MAX * 8;
/// Every key of K lanes (one of them a best so far), and one or two that fill up the last 16 bytes.
const LDS_BYTES: u32 = LDS_LIST + (MAX * (KEYS as u32 + 1) + 2) * 8;

args! {
    /// Arguments of both kernels; [`Args::new`] makes them.
    pub struct Args {
        /// `[V]` f32; 4-byte aligned.
        pub logits: Address,
        /// `[K, slices]` u64, what the first launch leaves for the second: of each slice its best, rank by rank; 8-byte aligned.
        pub keys: Address,
        /// `[K]` pairs of an f32 logit and its u32 id; 8-byte aligned.
        pub best: Address,
        /// V, at least 1, below 2³² − 1024; not a multiple of anything.
        pub vocab: u32,
        /// Logits of a slice: [`slice`]`(V)`.
        pub slice: u32,
        /// [`slices`]`(V)`.
        pub slices: u32,
        /// K, 1 to [`MAX`].
        pub k: u32,
    }
}

impl Args {
    /// For `vocab` logits and the `k` largest of them.
    pub const fn new(logits: Address, keys: Address, best: Address, vocab: u32, k: u32) -> Self {
        Self { logits, keys, best, vocab, slice: slice(vocab), slices: slices(vocab), k }
    }
}

/// Logits of each workgroup's slice but the last's, which may be shorter: whole chunks, as few as [`MAX_SLICES`] allow.
pub const fn slice(vocab: u32) -> u32 {
    vocab.div_ceil(CHUNK).div_ceil(MAX_SLICES) * CHUNK
}

/// Slices of a row: none is empty.
pub const fn slices(vocab: u32) -> u32 {
    vocab.div_ceil(slice(vocab))
}

/// Bytes of `keys` for `vocab` logits and the `k` largest of them.
pub const fn keys_bytes(vocab: u32, k: u32) -> usize {
    slices(vocab) as usize * k as usize * 8
}

/// Bytes of `best` for the `k` largest.
pub const fn best_bytes(k: u32) -> usize {
    k as usize * 8
}

/// One workgroup per slice.
pub const fn geometry_slices(vocab: u32) -> Geometry {
    Geometry { workgroups: [slices(vocab), 1, 1], waves: WAVES, lds_bytes: LDS_BYTES }
}

/// One workgroup.
pub const fn geometry_merge() -> Geometry {
    Geometry { workgroups: [1, 1, 1], waves: WAVES, lds_bytes: LDS_BYTES }
}

#[cfg(gpu)]
mod kernel {
    use super::{CHUNK, ITEMS, KEYS, LDS_BEST, LDS_EXTRA, LDS_LIST, LDS_MAXIMA};
    use crate::argmax::{key, value};
    use amdgpu_target::gpu::{
        B64, B128, barrier, item_idx, lds, load, load_offset, schedule_fence, store, wave_uniform, workgroup_x,
    };

    /// What stands at a place without a key: below every key, and different from every other place's. The lanes' best so far begin as the
    /// lowest of these.
    #[inline(always)]
    fn nothing(place: u32) -> u64 {
        u64::from(ITEMS + place)
    }

    #[inline(always)]
    fn is_nothing(key: u64) -> bool {
        key >> 32 == 0
    }

    /// How many of `count` keys in workgroup memory are above `key`. All lanes read the same 16 bytes; an odd count reads one more.
    ///
    /// # Safety
    /// 1. `keys` holds `count` keys rounded up to 2, 16-byte aligned, not written meanwhile.
    #[inline(always)]
    unsafe fn above(key: u64, keys: *const u64, count: u32) -> u32 {
        let mut rank = 0;
        let mut i = 0;
        while i < count {
            // SAFETY: point 1 is the caller's.
            let [a_lo, a_hi, b_lo, b_hi] = unsafe { load(keys.cast::<B128>(), i as usize / 2) }.words();
            rank += u32::from(u64::from(a_hi) << 32 | u64::from(a_lo) > key);
            rank += u32::from(u64::from(b_hi) << 32 | u64::from(b_lo) > key);
            i += 2;
        }
        rank
    }

    /// The K largest of `count` keys, which are all different: item r < K gets the one of rank r, or [`is_nothing`] where there are fewer.
    /// `fetch(i)` loads what `key` makes the i-th of.
    ///
    /// The simple idea: every lane brings the largest of its keys; the K-th of those is a floor, for K keys are not below it; what is
    /// not below the floor, some more than K keys, is ranked by counting. What was done to it:
    /// 1. keys are looked at in chunks, so that they stay in registers and the list has a bound: K lanes hold all that is not below
    ///    the floor. The best so far are one more key of the first K lanes;
    /// 2. a lane's rank among the maxima says where it writes, so nothing is moved by atomics: maxima become the sorted head of the
    ///    list, and what a lane has beside its maximum goes behind it, after what lanes of a lower rank have;
    /// 3. ranks are counts, not steps of a sort: no lane waits for another but at five barriers a chunk.
    ///
    /// # Safety
    /// 1. All waves of the workgroup come here, once, with the same `k`, 1 to `MAX`, and the same `count`, 1 to 2³² − 2¹².
    /// 2. `fetch` may be called for every place below `count`; what `key` gives is a key of [`crate::argmax`], or [`nothing`] of its place.
    /// 3. Workgroup memory has `LDS_BYTES`, 16-byte aligned.
    #[inline(always)]
    unsafe fn select<T: Copy>(k: u32, count: u32, fetch: impl Fn(u32) -> T, key: impl Fn(T, u32) -> u64) -> u64 {
        let item = item_idx();
        let memory = lds::<B128>();
        let maxima = memory.wrapping_byte_add(LDS_MAXIMA as usize).cast::<u64>();
        let extra = memory.wrapping_byte_add(LDS_EXTRA as usize).cast::<u32>();
        let best = memory.wrapping_byte_add(LDS_BEST as usize).cast::<u64>();
        let list = memory.wrapping_byte_add(LDS_LIST as usize).cast::<u64>();
        // Below what stands for any place, of which a chunk has more than K: it is never among the best.
        let mut own = u64::from(item);
        let mut done = 0;
        while done < count {
            let place = |j: usize| done + j as u32 * ITEMS + item;
            // Behind the end the last one once more, so that no load stands in a branch.
            let fetched: [T; KEYS] = core::array::from_fn(|j| fetch(place(j).min(count - 1)));
            schedule_fence();
            let mut keys = [own; KEYS + 1];
            for j in 0..KEYS {
                let key = key(fetched[j], place(j));
                keys[j] = if place(j) < count { key } else { nothing(place(j)) };
            }
            let mut top = own;
            for j in 0..KEYS {
                top = top.max(keys[j]);
            }
            // SAFETY: each lane its own; point 3. Whoever read the one before has come past a barrier since.
            unsafe { store(maxima, item as usize, top) };
            // SAFETY: all waves come here: point 1.
            unsafe { barrier() };
            // SAFETY: every lane has written one.
            let rank = unsafe { above(top, maxima, ITEMS) };
            // SAFETY: keys differ, so ranks do, and each lane writes its own place. Nobody reads the list before the next barrier.
            unsafe { store(list, rank as usize, top) };
            // SAFETY: as above.
            unsafe { barrier() };
            // SAFETY: k is 1 at least and at most `MAX`, of `ITEMS` written.
            let floor = unsafe { load(list, k as usize - 1) };
            let mut kept = 0;
            for j in 0..KEYS + 1 {
                kept += u32::from(keys[j] >= floor);
            }
            // Beside the maximum, which is in the list; a lane of rank K or more has kept none.
            let beside = kept.saturating_sub(1);
            // SAFETY: each lane its own, by its rank.
            unsafe { store(extra, rank as usize, beside) };
            // SAFETY: as above.
            unsafe { barrier() };
            let (mut before, mut total) = (0, 0);
            let mut i = 0;
            while i < k {
                // SAFETY: ranks up to a multiple of 4 behind k, all written; those from k on have none.
                let counts = unsafe { load(extra.cast::<B128>(), i as usize / 4) }.words();
                for e in 0..4 {
                    total += counts[e];
                    before += if i + (e as u32) < rank { counts[e] } else { 0 };
                }
                i += 4;
            }
            let total = wave_uniform(total);
            if beside > 0 {
                let mut at = k + before;
                for j in 0..KEYS + 1 {
                    if keys[j] >= floor && keys[j] != top {
                        // SAFETY: behind the K maxima, each lane its own places; K lanes have KEYS + 1 keys at most: point 3. The
                        // maxima that stood there are below the floor, and nobody reads them.
                        unsafe { store(list, at as usize, keys[j]) };
                        at += 1;
                    }
                }
            }
            let candidates = k + total;
            if item == 0 {
                // SAFETY: behind the list, where 16 bytes are read and 8 may be there.
                unsafe { store(list, candidates as usize, 0) };
            }
            // SAFETY: as above.
            unsafe { barrier() };
            let mut i = item;
            while i < candidates {
                // SAFETY: written before the barrier.
                let key = unsafe { load(list, i as usize) };
                // SAFETY: as above, with the one that ends it.
                let rank = unsafe { above(key, list, candidates) };
                if rank < k {
                    // SAFETY: keys differ, so ranks do.
                    unsafe { store(best, rank as usize, key) };
                }
                i += ITEMS;
            }
            // SAFETY: as above.
            unsafe { barrier() };
            if item < k {
                // SAFETY: there are K candidates at least, so every rank below K was written.
                own = unsafe { load(best, item as usize) };
            }
            done += CHUNK;
        }
        own
    }

    /// The K largest of each slice: keys[r, s] = the key of rank r among logits[s·slice …], in the order of `argmax_f32`
    ///
    /// Input      logits `[V]` f32, V ≥ 1, infinities allowed; 1 ≤ K ≤ 64
    /// Output     keys `[K, slices]` u64, every element written, below 2³² where a slice has fewer than K; must not overlap logits
    /// Numerics   exact: comparison only; against a sort
    /// Workgroup  4 waves × 32 lanes share a slice; grid = slices
    /// Wave       wave32; all lanes live; uniform but for the few that write candidates; lanes past V contribute nothing
    /// LDS        10 768 B: maxima, their ranks' counts, the best, candidates; read by broadcast, so without a conflict
    /// Registers  budget 72 VGPR, 0 spills: 17 keys of 64 bits, and the logits on their way
    /// Memory     4 B per lane, consecutive, 16 loads in flight; V need not be a multiple of 4; bytes = 4·V + 8·K·slices
    /// Sync       five barriers per 2 048 logits: maxima, ranks, counts, candidates, best
    /// Target     gfx1201; expects `s_barrier_signal`, `ds_load_b128`
    /// Why        a slice of one chunk where V allows, several otherwise; alternatives and numbers in EXP-0027
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, logits 4-byte aligned, keys 8-byte.  2. The arguments are those of `Args::new`, launched
    ///    with `geometry_slices(V)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn top_k_f32_slices(
        logits: *const f32,
        keys: *mut u64,
        _best: *mut B64,
        vocab: u32,
        slice: u32,
        slices: u32,
        k: u32,
    ) {
        let index = workgroup_x();
        let start = index * slice;
        let logits = logits.wrapping_add(start as usize);
        let count = slice.min(vocab - start);
        // SAFETY: all waves come here; the slice lies in the row by points 1 and 2, and is 2²⁵ long at most; the geometry's memory.
        let best = unsafe {
            select(k, count, |place| load_offset(logits, place * 4), |logit, place| key(logit, start + place))
        };
        let item = item_idx();
        if item < k {
            // SAFETY: point 1; one lane writes it.
            unsafe { store(keys, (item * slices + index) as usize, best) };
        }
    }

    /// The K largest of all: best[r] = (logits[i], i) of rank r, larger first, of equal ones the lower i; a NaN above all
    ///
    /// Input      keys `[K, slices]` u64 of `top_k_f32_slices`; 1 ≤ K ≤ 64
    /// Output     best `[K]` of f32 and u32, the first min(K, V) written; any NaN is one NaN, −0 is +0; must not overlap keys
    /// Numerics   exact, as `top_k_f32_slices`
    /// Workgroup  4 waves × 32 lanes; grid = 1
    /// Wave       wave32; all lanes live; lanes past the keys contribute nothing
    /// LDS        10 768 B, as `top_k_f32_slices`
    /// Registers  budget 96 VGPR, 0 spills: 17 keys of 64 bits and 16 on their way
    /// Memory     8 B per lane, consecutive: rank by rank, so that the best of all slices lie in different lanes; bytes = 8·K·(slices + 1)
    /// Sync       five barriers per 2 048 keys
    /// Target     gfx1201; expects `s_barrier_signal`, `ds_load_b128`, `global_load_b64`
    /// Why        a launch of its own orders it behind all slices without an atomic
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 8-byte aligned.  2. The arguments are those of `Args::new`, launched with `geometry_merge()`
    ///    behind `top_k_f32_slices`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn top_k_f32_merge(
        _logits: *const f32,
        keys: *const u64,
        best: *mut B64,
        _vocab: u32,
        _slice: u32,
        slices: u32,
        k: u32,
    ) {
        // SAFETY: all waves come here; K · slices keys by point 1, 2¹³ at most, of different ids; the geometry's memory.
        let key = unsafe {
            select(
                k,
                slices * k,
                |place| load_offset(keys, place * 8),
                |key, place| if is_nothing(key) { nothing(place) } else { key },
            )
        };
        let item = item_idx();
        if item < k && !is_nothing(key) {
            let (logit, id) = value(key);
            // SAFETY: point 1; one lane writes it.
            unsafe { store(best, item as usize, B64::new([logit.to_bits(), id])) };
        }
    }
}
