//! Codes of quantized weights as f32. Plain loops, which the compiler turns into vector conversions where the caller may use those: of a
//! length it does not know, because it would unroll one of 32 before it looks for vectors (EXP-0035).

use super::quantized::{GROUP, SPAN};
use crate::quant::fp8;

/// Room for a span of a row.
pub struct Unpacked {
    /// Elements.
    pub values: [f32; SPAN],
    /// Nibbles on their way there, a byte each.
    nibbles: [u32; SPAN / 4],
}

impl Unpacked {
    /// Zeros.
    pub const NEW: Self = Self { values: [0.0; SPAN], nibbles: [0; SPAN / 4] };
}

/// How elements are stored: two to a byte or one, with minimums or without, and what a code stands for.
pub trait Codes {
    /// Bytes of 32 elements: 16 or 32.
    const BYTES: usize;
    /// Whether groups have minimums.
    const MINIMUMS: bool = false;

    /// What a code, alone in its byte, stands for before its scale.
    fn value(code: u8) -> f32;
}

/// The elements of `codes`, at most [`SPAN`]: every `group` of them times its scale, plus its minimum where there are any.
#[inline(always)]
pub fn unpack<C: Codes>(codes: &[u8], group: usize, scales: &[f32], minimums: &[f32], out: &mut Unpacked) {
    let codes = if C::BYTES == GROUP { codes } else { nibbles(codes, &mut out.nibbles) };
    let groups = codes.chunks_exact(group).zip(out.values.chunks_exact_mut(group));
    for ((codes, out), (scale, minimum)) in groups.zip(scales.iter().zip(minimums)) {
        for (code, out) in codes.iter().zip(out) {
            let value = C::value(*code) * scale;
            *out = if C::MINIMUMS { value + minimum } else { value };
        }
    }
}

/// Nibbles to bytes in the order of elements: byte `j` of 16 has element `j` low and element `j + 16` high.
#[inline(always)]
fn nibbles<'a>(codes: &[u8], out: &'a mut [u32; SPAN / 4]) -> &'a [u8] {
    const LOW: u32 = 0x0f0f_0f0f;
    for (codes, out) in codes.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        let words: [u32; 4] = bytemuck::cast(*codes);
        let (low, high) = (words.map(|word| word & LOW), words.map(|word| word >> 4 & LOW));
        *out = bytemuck::cast([low, high]);
    }
    &bytemuck::cast_slice(out)[..codes.len() * 2]
}

/// Signed bytes, or with `MINIMUMS` from a minimum upwards.
pub struct Bytes<const MINIMUMS: bool>;

impl<const MINIMUMS: bool> Codes for Bytes<MINIMUMS> {
    const BYTES: usize = GROUP;
    const MINIMUMS: bool = MINIMUMS;

    #[inline(always)]
    fn value(code: u8) -> f32 {
        f32::from(code as i8)
    }
}

/// Nibbles around zero.
pub struct Signed4;

impl Codes for Signed4 {
    const BYTES: usize = GROUP / 2;

    #[inline(always)]
    fn value(code: u8) -> f32 {
        f32::from(code as i8 - 8)
    }
}

/// Nibbles from a minimum upwards.
pub struct Unsigned4;

impl Codes for Unsigned4 {
    const BYTES: usize = GROUP / 2;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn value(code: u8) -> f32 {
        f32::from(code)
    }
}

/// e4m3 bytes.
pub struct Floats;

impl Codes for Floats {
    const BYTES: usize = GROUP;

    #[inline(always)]
    fn value(code: u8) -> f32 {
        fp8::to_f32(code)
    }
}
