//! Arithmetic that is plain Rust on this machine and one instruction elsewhere.

use crate::number::number_to_bf16;

/// The larger of two; of a NaN and a number the number.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    a.max(b)
}

/// Two f32 rounded to bf16 in a dword, `lo` in its low half; a NaN may come out as any value.
#[inline(always)]
pub fn pack_bf16_number(lo: f32, hi: f32) -> u32 {
    u32::from(number_to_bf16(lo)) | u32::from(number_to_bf16(hi)) << 16
}
