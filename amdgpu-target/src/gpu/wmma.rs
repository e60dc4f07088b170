//! Matrix fragments and the bf16 matrix instruction: D = A·B + C on 16×16×16, spread over the 32 lanes of a wave.
//!
//! Lane `l`, `r = l mod 16`, `h = l div 16`. A: row `r`; B: column `r`; each lane holds 8 of the 16 values along k. D and C, element
//! `e`: row `8h + e`, column `r`. The manual gives the 8 values an interleaved order of k; ours is *linear*, k = 8h … 8h+7, which is
//! one 16-byte load from row-major memory. The sum over k does not mind a permutation, so linear A with linear B is exact; never mix
//! it with fragments from elsewhere.

use super::intrinsics;
use super::memory::B128;

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
}

impl Acc {
    /// All zero.
    #[inline(always)]
    pub fn zero() -> Self {
        Self([0.0; 8])
    }
    /// From its elements in order.
    #[inline(always)]
    pub fn new(x: [f32; 8]) -> Self {
        Self(x)
    }
}

/// The elements in order.
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
