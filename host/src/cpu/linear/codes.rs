//! Codes of quantized weights as f32. Plain loops, which the compiler turns into vector conversions where the caller may use those: of a
//! length it does not know, because it would unroll one of 32 before it looks for vectors (EXP-0035).

use super::quantized::{GROUP, SPAN};

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

/// How elements are stored.
pub trait Codes {
    /// Bytes of 32 elements.
    const BYTES: usize;

    /// The elements of `codes`, at most [`SPAN`]: every `group` of them times its scale, plus its minimum where there are any.
    fn unpack(codes: &[u8], group: usize, scales: &[f32], minimums: &[f32], out: &mut Unpacked);
}

/// Signed bytes.
pub struct Bytes;

impl Codes for Bytes {
    const BYTES: usize = GROUP;

    #[inline(always)]
    fn unpack(codes: &[u8], group: usize, scales: &[f32], _: &[f32], out: &mut Unpacked) {
        for ((codes, out), scale) in codes.chunks_exact(group).zip(out.values.chunks_exact_mut(group)).zip(scales) {
            for (code, out) in codes.iter().zip(out) {
                *out = f32::from(*code as i8) * scale;
            }
        }
    }
}

/// Signed bytes from a minimum upwards.
pub struct BytesMin;

impl Codes for BytesMin {
    const BYTES: usize = GROUP;

    #[inline(always)]
    fn unpack(codes: &[u8], group: usize, scales: &[f32], minimums: &[f32], out: &mut Unpacked) {
        let groups = codes.chunks_exact(group).zip(out.values.chunks_exact_mut(group));
        for ((codes, out), (scale, minimum)) in groups.zip(scales.iter().zip(minimums)) {
            for (code, out) in codes.iter().zip(out) {
                *out = f32::from(*code as i8) * scale + minimum;
            }
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

/// Nibbles around zero.
pub struct Signed4;

impl Codes for Signed4 {
    const BYTES: usize = GROUP / 2;

    #[inline(always)]
    fn unpack(codes: &[u8], group: usize, scales: &[f32], _: &[f32], out: &mut Unpacked) {
        let codes = nibbles(codes, &mut out.nibbles);
        for ((codes, out), scale) in codes.chunks_exact(group).zip(out.values.chunks_exact_mut(group)).zip(scales) {
            for (code, out) in codes.iter().zip(out) {
                *out = f32::from(*code as i8 - 8) * scale;
            }
        }
    }
}

/// Nibbles from a minimum upwards.
pub struct Unsigned4;

impl Codes for Unsigned4 {
    const BYTES: usize = GROUP / 2;

    #[inline(always)]
    fn unpack(codes: &[u8], group: usize, scales: &[f32], minimums: &[f32], out: &mut Unpacked) {
        let codes = nibbles(codes, &mut out.nibbles);
        let groups = codes.chunks_exact(group).zip(out.values.chunks_exact_mut(group));
        for ((codes, out), (scale, minimum)) in groups.zip(scales.iter().zip(minimums)) {
            for (code, out) in codes.iter().zip(out) {
                *out = f32::from(*code) * scale + minimum;
            }
        }
    }
}

/// e4m3 bytes, each a number.
pub struct Floats;

impl Codes for Floats {
    const BYTES: usize = GROUP;

    #[inline(always)]
    fn unpack(codes: &[u8], group: usize, scales: &[f32], _: &[f32], out: &mut Unpacked) {
        for ((codes, out), scale) in codes.chunks_exact(group).zip(out.values.chunks_exact_mut(group)).zip(scales) {
            for (code, out) in codes.iter().zip(out) {
                let code = u32::from(*code);
                // Exponents have a bias of 7 there and of 127 here. One of 0 means 2⁻⁶ · mantissa / 8: what is made first is
                // 2⁻⁷ · (1 + mantissa / 8). No subnormal f32 is made on the way: those take a hundred times as long.
                let normal = f32::from_bits(((code & 0x7f) << 20) + (120 << 23));
                let value = if code & 0x78 == 0 { 2.0 * normal - 0.015_625 } else { normal };
                *out = f32::from_bits(value.to_bits() | (code & 0x80) << 24) * scale;
            }
        }
    }
}
