//! Matrix fragments and the products D = A·B + C on 16×16×16 bf16, by two `mma.m16n8k16`, and 16×16×32 signed bytes, by two
//! `mma.m16n8k32`, spread over the 32 lanes of a warp.
//!
//! The instruction's D has pairs of one *row* in a lane; kernels want what one lane holds to run down a *column*, as on the machine
//! they are written for. So the product is computed transposed, Dᵀ = Bᵀ·Aᵀ: our B is the instruction's first operand and each half
//! of our A (8 rows) its second. Lane `l`, `g = l div 4`, `t = l mod 4`:
//!
//! | of a fragment | row | k |
//! | --- | --- | --- |
//! | word 0, 1 | g, g + 8 | 2t, 2t + 1 |
//! | word 2, 3 | g, g + 8 | 2t + 8, 2t + 9 |
//!
//! (row of A, column of B; of bytes, k is twice as much and each word holds four.) D and C, element `e`: column `g + 8·(e div 2 mod 2)`, row `2t + e mod 2 + 8·(e div 4)`: the two tables
//! are one, so an accumulator rounded to bf16 in order is the fragment whose rows are its columns.

use super::super::memory::{B128, pack_bf16, store, store_f32x2};
use super::intrinsics::{self, IntQuad, Quad};
use super::lane::{lane_idx, lane_value_at, lane_xor};

/// Sixteen rows of 16 bf16, or of 32 signed bytes, A or B.
#[derive(Clone, Copy)]
pub struct Fragment([u32; 4]);

/// Eight f32 of C or D.
#[derive(Clone, Copy)]
pub struct Acc([f32; 8]);

/// Eight i32 of C or D of [`wmma_i8`], of the same rows and columns as those of an [`Acc`].
#[derive(Clone, Copy)]
pub struct IntAcc([i32; 8]);

impl Fragment {
    /// The fragment whose rows are the columns of an accumulator, from its elements rounded to bf16 and packed in order.
    #[inline(always)]
    pub fn from_acc(x: B128) -> Self {
        Self(x.words())
    }

    /// Two fragments that cover 32 of k, from the chunks that [`pair_chunk`] tells: 16 bytes of row g and of row g + 8, of whose four
    /// words each fragment takes two.
    #[inline(always)]
    pub fn pair(chunks: [B128; 2]) -> [Self; 2] {
        let [a, b] = chunks.map(B128::words);
        [Self([a[0], b[0], a[1], b[1]]), Self([a[2], b[2], a[3], b[3]])]
    }

    /// From workgroup memory: `at` is *this lane's* address, of row `l mod 16` and the 16-byte half `l div 16` of it.
    ///
    /// # Safety
    /// 1. `at` is 16 bytes of workgroup memory in every lane, 16-byte aligned, not written meanwhile; all lanes are live.
    #[inline(always)]
    pub unsafe fn load_lds(at: *const B128) -> Self {
        // The conversion of the start is one instruction per kernel; from it on, offsets are 32-bit arithmetic.
        let start = super::super::lds::<B128>();
        let offset = (at as u64).wrapping_sub(start as u64) as u32;
        let address = intrinsics::shared_address(start as u64).wrapping_add(offset);
        // SAFETY: point 1.
        Self(unsafe { intrinsics::ldmatrix_x4(address) })
    }
}

/// Where chunk `i` of a pair lies, eight bf16 or the eight numbers they are made of: in which of this lane's rows, [`acc_column`] of the
/// first number, and from which of 32 values of k on, the sum of the other two: the lane's own part, and one equal in all lanes.
#[inline(always)]
pub fn pair_chunk(i: usize) -> (usize, u32, usize) {
    (i, (lane_idx() & 3) * 8, 0)
}

/// Two products whose accumulators become a pair share 32 rows of the first operand: row [`acc_column`]`(i)` of the `half`-th is the
/// sum of this and `pair_operand_row(i)`. Chosen so that the eight rows a lane then has of the two are consecutive, as a chunk is.
#[inline(always)]
pub fn pair_half_rows(half: u32) -> u32 {
    half * 4
}

/// See [`pair_half_rows`].
#[inline(always)]
pub fn pair_operand_row(i: usize) -> u32 {
    let group = lane_idx() >> 2;
    (group >> 1) * 8 + (group & 1) + i as u32 * 2
}

/// Which of 32 rows element `e` of the `half`-th of two such accumulators belongs to.
#[inline(always)]
pub fn pair_row(half: u32, e: usize) -> u32 {
    (lane_idx() & 3) * 8 + half * 4 + (e / 4 * 2 + e % 2) as u32
}

impl Fragment {
    /// As [`Fragment::load_lds`] for what will be A, with the address of [`lds_place_a`]. The instruction takes words 0 and 2 of it as one
    /// register pair and words 1 and 3 as another; loaded as B is, they would have to be moved together for each product.
    ///
    /// # Safety
    /// 1. As [`Fragment::load_lds`].
    #[inline(always)]
    pub unsafe fn load_lds_a(at: *const B128) -> Self {
        // SAFETY: point 1 is the caller's.
        let [a, b, c, d] = unsafe { Self::load_lds(at) }.0;
        Self([a, c, b, d])
    }
}

/// Row and 16-byte half of it whose address this lane gives to [`Fragment::load_lds_a`]: the four 8×8 matrices are rows 0 … 7 with both
/// halves, then rows 8 … 15 with both.
#[inline(always)]
pub fn lds_place_a() -> [u32; 2] {
    [(lane_idx() & 7) + (lane_idx() >> 4) * 8, (lane_idx() >> 3) & 1]
}

/// Columns of an accumulator of which one lane holds elements.
pub const ACC_COLUMNS: usize = 2;

/// Which of its [`ACC_COLUMNS`] columns element `e` of a lane belongs to.
#[inline(always)]
pub const fn acc_column_of(e: usize) -> usize {
    e / 2 % 2
}

/// The column, 0 to 15, that is this lane's `i`-th.
#[inline(always)]
pub fn acc_column(i: usize) -> u32 {
    (lane_idx() >> 2) + 8 * i as u32
}

/// Elements in order that lie in consecutive rows of one column.
pub const ACC_RUN: usize = 2;

/// The row, 0 to 15, of this lane's element `e`.
#[inline(always)]
pub fn acc_row(e: usize) -> u32 {
    (lane_idx() & 3) * 2 + (e % 2) as u32 + 8 * (e / 4) as u32
}

/// The sums of this lane's elements of each column, in a fixed tree.
#[inline(always)]
pub fn acc_column_sums(x: [f32; 8]) -> [f32; ACC_COLUMNS] {
    [(x[0] + x[1]) + (x[4] + x[5]), (x[2] + x[3]) + (x[6] + x[7])]
}

/// Combines a number of each lane with those of the lanes that hold the rest of the same column; all get it.
#[inline(always)]
pub fn acc_across_rows(x: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let x = combine(x, f32::from_bits(lane_xor(x.to_bits(), 1)));
    combine(x, f32::from_bits(lane_xor(x.to_bits(), 2)))
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
    x.0
}

/// A·B + C.
///
/// # Safety
/// 1. All 32 lanes are live and call it together.
#[inline(always)]
pub unsafe fn wmma_bf16(a: Fragment, b: Fragment, c: Acc) -> Acc {
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.0, b.0);
    let [c0, c1, c2, c3, c4, c5, c6, c7] = c.0;
    // SAFETY: point 1 is the caller's.
    let Quad(d0, d1, d2, d3) = unsafe { intrinsics::mma_m16n8k16_bf16(b0, b1, b2, b3, a0, a2, c0, c1, c2, c3) };
    // SAFETY: as above.
    let Quad(d4, d5, d6, d7) = unsafe { intrinsics::mma_m16n8k16_bf16(b0, b1, b2, b3, a1, a3, c4, c5, c6, c7) };
    Acc([d0, d1, d2, d3, d4, d5, d6, d7])
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
    x.0
}

/// A·B + C of fragments whose rows are 32 signed bytes: exact, modulo 2³².
///
/// # Safety
/// 1. As [`wmma_bf16`].
#[inline(always)]
pub unsafe fn wmma_i8(a: Fragment, b: Fragment, c: IntAcc) -> IntAcc {
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.0, b.0);
    let [c0, c1, c2, c3, c4, c5, c6, c7] = c.0;
    // SAFETY: point 1 is the caller's.
    let IntQuad(d0, d1, d2, d3) = unsafe { intrinsics::mma_m16n8k32_s8(b0, b1, b2, b3, a0, a2, c0, c1, c2, c3) };
    // SAFETY: as above.
    let IntQuad(d4, d5, d6, d7) = unsafe { intrinsics::mma_m16n8k32_s8(b0, b1, b2, b3, a1, a3, c4, c5, c6, c7) };
    IntAcc([d0, d1, d2, d3, d4, d5, d6, d7])
}

/// Writes a run of elements from `base + index` on; `index` is a multiple of [`ACC_RUN`].
///
/// # Safety
/// 1. As `store`, for the elements; `base` is 16-byte aligned.
#[inline(always)]
pub unsafe fn store_run(base: *mut f32, index: usize, x: [f32; ACC_RUN]) {
    // SAFETY: point 1 is the caller's.
    unsafe { store_f32x2(base, index, x) };
}

/// As [`store_run`], rounded to bf16.
///
/// # Safety
/// 1. As `store`, for the elements; `base` is 16-byte aligned.
#[inline(always)]
pub unsafe fn store_run_bf16(base: *mut u16, index: usize, x: [f32; ACC_RUN]) {
    // SAFETY: point 1 is the caller's; index / 2 counts 4-byte elements.
    unsafe { store(base.cast::<u32>(), index / 2, pack_bf16(x[0], x[1])) };
}
