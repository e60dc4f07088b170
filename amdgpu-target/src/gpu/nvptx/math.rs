//! Arithmetic that is one instruction on the other machine and plain Rust here.

use crate::number::fp8_to_f32;

/// The four f32 of a dword of e4m3, lowest byte first.
#[inline(always)]
pub fn unpack_fp8(word: u32) -> [f32; 4] {
    word.to_le_bytes().map(fp8_to_f32)
}
