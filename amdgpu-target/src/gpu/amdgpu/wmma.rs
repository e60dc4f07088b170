//! Matrix fragments and the bf16 matrix instruction: D = A·B + C on 16×16×16, spread over the 32 lanes of a wave.
//!
//! Lane `l`, `r = l mod 16`, `h = l div 16`. A: row `r`; B: column `r`; each lane holds 8 of the 16 values along k. D and C, element
//! `e`: row `8h + e`, column `r`. The manual gives the 8 values an interleaved order of k; ours is *linear*, k = 8h … 8h+7, which is
//! one 16-byte load from row-major memory. The sum over k does not mind a permutation, so linear A with linear B is exact; never mix
//! it with fragments from elsewhere.

use super::super::memory::{B128, bf16x8, keep_pair_below, load, load_offset, store, store_f32x4};
use super::intrinsics;
use super::lane::{lane_idx, other_half};

/// Eight bf16 of A or B.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct Fragment([i16; 8]);

/// Eight f32 of C or D.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct Acc([f32; 8]);

impl Fragment {
    /// From 16 bytes as loaded.
    #[inline(always)]
    pub fn from_b128(x: B128) -> Self {
        // SAFETY: both are 16 bytes of plain integers.
        unsafe { core::mem::transmute(x) }
    }

    /// The fragment whose rows are the columns of an accumulator, from its elements rounded to bf16 and packed in order.
    #[inline(always)]
    pub fn from_acc(x: B128) -> Self {
        Self::from_b128(x)
    }

    /// With 0 where `base` + k is not below `end`.
    #[inline(always)]
    pub fn keep_below(self, base: u32, end: u32) -> Self {
        // SAFETY: both are 16 bytes of plain integers.
        let words: B128 = unsafe { core::mem::transmute(self) };
        let first = base + (lane_idx() >> 4) * 8;
        let [a, b, c, d] = words.words();
        let keep = |word, k| keep_pair_below(word, first + k, end);
        Self::from_b128(B128::new([keep(a, 0), keep(b, 2), keep(c, 4), keep(d, 6)]))
    }

    /// From memory: row `r` starts `r · row_bytes` past `base`.
    ///
    /// # Safety
    /// 1. The 16 rows hold 16 bf16 each, 16-byte aligned, not written meanwhile.
    #[inline(always)]
    pub unsafe fn load(base: *const B128, row_bytes: u32) -> Self {
        let at = (lane_idx() & 15) * row_bytes + (lane_idx() >> 4) * 16;
        // SAFETY: row l mod 16, half l div 16: point 1.
        Self::from_b128(unsafe { load_offset(base, at) })
    }

    /// From workgroup memory: `at` is *this lane's* address, of row `l mod 16` and the 16-byte half `l div 16` of it.
    ///
    /// # Safety
    /// 1. `at` is 16 bytes of workgroup memory in every lane, 16-byte aligned, not written meanwhile; all lanes are live.
    #[inline(always)]
    pub unsafe fn load_lds(at: *const B128) -> Self {
        // SAFETY: point 1 is the caller's.
        Self::from_b128(unsafe { load(at, 0) })
    }
}

/// Columns of an accumulator of which one lane holds elements.
pub const ACC_COLUMNS: usize = 1;
/// Elements in order that lie in consecutive rows of one column.
pub const ACC_RUN: usize = 8;

/// Which of its [`ACC_COLUMNS`] columns element `e` of a lane belongs to.
#[inline(always)]
pub const fn acc_column_of(_e: usize) -> usize {
    0
}

/// The column, 0 to 15, that is this lane's `i`-th.
#[inline(always)]
pub fn acc_column(_i: usize) -> u32 {
    lane_idx() & 15
}

/// The row, 0 to 15, of this lane's element `e`.
#[inline(always)]
pub fn acc_row(e: usize) -> u32 {
    (lane_idx() >> 4) * 8 + e as u32
}

/// The sums of this lane's elements of each column, in a fixed tree.
#[inline(always)]
pub fn acc_column_sums(x: [f32; 8]) -> [f32; ACC_COLUMNS] {
    [((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))]
}

/// Combines a number of each lane with those of the lanes that hold the rest of the same column; all get it.
#[inline(always)]
pub fn acc_across_rows(x: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    combine(x, f32::from_bits(other_half(x.to_bits())))
}

impl Acc {
    /// All zero.
    #[inline(always)]
    pub fn zero() -> Self {
        Self([0.0; 8])
    }
    /// From this lane's elements: [`acc_row`] and [`acc_column_of`] say which they are.
    #[inline(always)]
    pub fn new(x: [f32; 8]) -> Self {
        Self(x)
    }
}

/// This lane's elements.
#[inline(always)]
pub fn acc_to_array(x: Acc) -> [f32; 8] {
    // SAFETY: a vector of eight f32 has the size and bytes of an array of eight f32.
    unsafe { core::mem::transmute(x) }
}

/// A·B + C.
///
/// # Safety
/// 1. All 32 lanes are live: the instruction reads every lane whatever the execution mask says.
#[inline(always)]
pub unsafe fn wmma_bf16(a: Fragment, b: Fragment, c: Acc) -> Acc {
    // SAFETY: point 1 is the caller's.
    unsafe { intrinsics::wmma_f32_16x16x16_bf16(a, b, c) }
}

/// Writes a run of elements from `base + index` on; `index` is a multiple of [`ACC_RUN`].
///
/// # Safety
/// 1. As `store`, for the elements; `base` is 16-byte aligned.
#[inline(always)]
pub unsafe fn store_run(base: *mut f32, index: usize, x: [f32; ACC_RUN]) {
    // SAFETY: point 1 is the caller's.
    unsafe { store_f32x4(base, index, [x[0], x[1], x[2], x[3]]) };
    // SAFETY: as above.
    unsafe { store_f32x4(base, index + 4, [x[4], x[5], x[6], x[7]]) };
}

/// As [`store_run`], rounded to bf16.
///
/// # Safety
/// 1. As `store`, for the elements; `base` is 16-byte aligned.
#[inline(always)]
pub unsafe fn store_run_bf16(base: *mut u16, index: usize, x: [f32; ACC_RUN]) {
    // SAFETY: point 1 is the caller's; index / 8 counts 16-byte elements.
    unsafe { store(base.cast::<B128>(), index / 8, bf16x8(x)) };
}
