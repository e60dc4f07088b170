//! Single-instruction arithmetic. Rust's own division, square root and exponential are ten to forty instructions here (they round
//! correctly and mind every range); kernels use these, about 1 ulp each, and their tolerances allow for it.

use super::machine;

/// 1.5 · 2²³, where one unit is the last bit: a number below 2²² in magnitude added to it is rounded to a whole one, ties to even, which then stands
/// in the lowest bits; and a whole one added to its bits gives the bits of their sum.
pub const INTEGERS: f32 = 12_582_912.0;

/// log2(e), to turn `exp(x)` into `exp2(x · LOG2_E)`.
pub const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// 2^x; results below the smallest normal number become 0, or may where the machine keeps them.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    machine::exp2(x)
}

/// 1/x.
#[inline(always)]
pub fn rcp(x: f32) -> f32 {
    machine::rcp(x)
}

/// 1/√x.
#[inline(always)]
pub fn rsq(x: f32) -> f32 {
    machine::rsq(x)
}

/// √x.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    machine::sqrt(x)
}

/// a · b + c with one rounding: the compiler contracts nothing by itself.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    core::intrinsics::fmaf32(a, b, c)
}

/// The larger of two; of a NaN and a number the number.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    machine::max(a, b)
}

/// x / (1 + e⁻ˣ). For x ≤ −88.8 the exponential is infinite and the result −0, as it rounds to.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * rcp(1.0 + exp2(-LOG2_E * x))
}

/// a / b, rounded down, without the check that Rust's own division carries into the listing.
///
/// # Safety
/// 1. `b` is not 0.
#[inline(always)]
pub unsafe fn divide(a: u32, b: u32) -> u32 {
    // SAFETY: point 1 is the caller's.
    let b = unsafe { core::num::NonZeroU32::new_unchecked(b) };
    a / b
}
