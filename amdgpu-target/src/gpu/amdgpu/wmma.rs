//! Matrix fragments and the matrix instructions of bf16 and of signed bytes: D = A·B + C on 16×16×16, spread over the 32 lanes of a wave.
//!
//! Lane `l`, `r = l mod 16`, `h = l div 16`. A: row `r`; B: column `r`; each lane holds 8 of the 16 values along k. D and C, element
//! `e`: row `8h + e`, column `r`. The manual gives the 8 values an interleaved order of k; ours is *linear*, k = 8h … 8h+7, which is
//! one 16-byte load from row-major memory. The sum over k does not mind a permutation, so linear A with linear B is exact; never mix
//! it with fragments from elsewhere. Of bytes the same 16 are two instructions' worth of k: their first halves, then their second ones.

use super::super::memory::{B64, B128, bf16x8, load, store, store_f32x4};
use super::intrinsics;
use super::lane::{lane_idx, other_half};

/// Eight bf16 of A or B, or sixteen signed bytes.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct Fragment([i16; 8]);

/// Eight f32 of C or D.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct Acc([f32; 8]);

/// Eight i32 of C or D of [`wmma_i8`], of the same rows and columns as those of an [`Acc`].
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct IntAcc([i32; 8]);

impl Fragment {
    /// From 16 bytes as loaded.
    #[inline(always)]
    fn from_b128(x: B128) -> Self {
        // SAFETY: both are 16 bytes of plain integers.
        unsafe { core::mem::transmute(x) }
    }

    /// The fragment whose rows are the columns of an accumulator, from its elements rounded to bf16 and packed in order.
    #[inline(always)]
    pub fn from_acc(x: B128) -> Self {
        Self::from_b128(x)
    }

    /// Two fragments that cover 32 of k, from the chunks that [`pair_chunk`] tells. In which order k goes through them is the machine's
    /// own: a pair meets only pairs, or accumulators of [`pair_row`]'s rows.
    #[inline(always)]
    pub fn pair(chunks: [B128; 2]) -> [Self; 2] {
        chunks.map(Self::from_b128)
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

/// Where chunk `i` of a pair lies, eight bf16 or the eight numbers they are made of: in which of this lane's rows, [`acc_column`] of the
/// first number, and from which of 32 values of k on, the sum of the other two: the lane's own part, and one equal in all lanes.
#[inline(always)]
pub fn pair_chunk(i: usize) -> (usize, u32, usize) {
    (0, (lane_idx() >> 4) * 8, i * 16)
}

/// Two products whose accumulators become a pair share 32 rows of the first operand: row [`acc_column`]`(i)` of the `half`-th is the
/// sum of this and `pair_operand_row(i)`.
#[inline(always)]
pub fn pair_half_rows(half: u32) -> u32 {
    half * 16
}

/// See [`pair_half_rows`].
#[inline(always)]
pub fn pair_operand_row(i: usize) -> u32 {
    acc_column(i)
}

/// Which of 32 rows element `e` of the `half`-th of two such accumulators belongs to.
#[inline(always)]
pub fn pair_row(half: u32, e: usize) -> u32 {
    acc_row(e) + half * 16
}

impl Fragment {
    /// As [`Fragment::load_lds`] for what will be A, with the address of [`lds_place_a`]: on a machine whose two operands want their
    /// words in different orders, the one that costs no moves.
    ///
    /// # Safety
    /// 1. As [`Fragment::load_lds`].
    #[inline(always)]
    pub unsafe fn load_lds_a(at: *const B128) -> Self {
        // SAFETY: point 1 is the caller's.
        unsafe { Self::load_lds(at) }
    }
}

/// Row and 16-byte half of it whose address this lane gives to [`Fragment::load_lds_a`].
#[inline(always)]
pub fn lds_place_a() -> [u32; 2] {
    [lane_idx() & 15, lane_idx() >> 4]
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

impl IntAcc {
    /// All `x`.
    #[inline(always)]
    pub fn all(x: i32) -> Self {
        Self([x; 8])
    }
}

/// This lane's elements.
#[inline(always)]
pub fn int_acc_to_array(x: IntAcc) -> [i32; 8] {
    // SAFETY: a vector of eight i32 has the size and bytes of an array of eight i32.
    unsafe { core::mem::transmute(x) }
}

/// A·B + C of fragments whose rows are 32 signed bytes: exact, modulo 2³².
///
/// # Safety
/// 1. As [`wmma_bf16`].
#[inline(always)]
pub unsafe fn wmma_i8(a: Fragment, b: Fragment, c: IntAcc) -> IntAcc {
    // SAFETY: both are 16 bytes of plain integers.
    let [a, b]: [[B64; 2]; 2] = unsafe { core::mem::transmute([a, b]) };
    // SAFETY: point 1 is the caller's.
    let half = unsafe { intrinsics::wmma_i32_16x16x16_iu8(true, a[0], true, b[0], c, false) };
    // SAFETY: as above.
    unsafe { intrinsics::wmma_i32_16x16x16_iu8(true, a[1], true, b[1], half, false) }
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
