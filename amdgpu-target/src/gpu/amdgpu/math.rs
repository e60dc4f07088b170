//! Arithmetic that is plain Rust on this machine and one instruction elsewhere.

use super::intrinsics::cvt_pk_f32_fp8;
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

/// The four f32 of a dword of e4m3, lowest byte first.
#[inline(always)]
pub fn unpack_fp8(word: u32) -> [f32; 4] {
    let [a, b] = cvt_pk_f32_fp8(word, false).to_array();
    let [c, d] = cvt_pk_f32_fp8(word, true).to_array();
    [a, b, c, d]
}
