//! Blocks of plain numbers and of 32 elements to f32. The order of multiplications and additions is the format's: any other would round
//! differently. All take whole blocks and a place for each of their elements.
//!
//! Written below: `d` the block's scale, `m` its offset (both f16), `q` an element's code. Of 32 codes of 4 bits, byte `j` of 16 has
//! code `j` in its low half and code `j + 16` in its high half.

use half::{bf16, f16};

/// Values that the 16 codes of IQ4_NL and IQ4_XS stand for.
pub(super) const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The blocks of `bytes` beside the elements they become.
pub(super) fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let ((blocks, rest), (places, left)) = (bytes.as_chunks::<BYTES>(), out.as_chunks_mut::<ELEMENTS>());
    assert!(blocks.len() == places.len() && rest.is_empty() && left.is_empty(), "blocks and elements do not agree");
    blocks.iter().zip(places).for_each(|(block, place)| decode(block, place));
}

/// The f16 at byte `at` of a block.
pub(super) fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Code `i` of 32, packed as above into the 16 bytes `codes`.
pub(super) fn nibble(codes: &[u8], i: usize) -> u8 {
    codes[i % 16] >> (i / 16 * 4) & 15
}

/// Bit `i` of the 4 bytes at `bits`, as the fifth bit of a code.
pub(super) fn fifth_bit(bits: &[u8], i: usize) -> u8 {
    (bits[i / 8] >> (i % 8) & 1) << 4
}

pub(super) fn f32(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 4], out: &mut [f32; 1]| out[0] = f32::from_le_bytes(*block));
}

pub(super) fn f16(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 2], out: &mut [f32; 1]| out[0] = half_at(block, 0));
}

pub(super) fn bf16(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 2], out: &mut [f32; 1]| out[0] = bf16::from_le_bytes(*block).to_f32());
}

/// `d`, 16 bytes of codes: `d · (q − 8)`.
pub(super) fn q4_0(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 18], out: &mut [f32; 32]| {
        let d = half_at(block, 0);
        for (i, y) in out.iter_mut().enumerate() {
            *y = d * f32::from(nibble(&block[2..], i) as i8 - 8);
        }
    });
}

/// `d`, `m`, 16 bytes of codes: `d · q + m`.
pub(super) fn q4_1(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 20], out: &mut [f32; 32]| {
        let (d, m) = (half_at(block, 0), half_at(block, 2));
        for (i, y) in out.iter_mut().enumerate() {
            *y = d * f32::from(nibble(&block[4..], i)) + m;
        }
    });
}

/// `d`, 32 fifth bits, 16 bytes of lower four: `d · (q − 16)`.
pub(super) fn q5_0(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 22], out: &mut [f32; 32]| {
        let d = half_at(block, 0);
        for (i, y) in out.iter_mut().enumerate() {
            let q = nibble(&block[6..], i) | fifth_bit(&block[2..6], i);
            *y = d * f32::from(q as i8 - 16);
        }
    });
}

/// `d`, `m`, 32 fifth bits, 16 bytes of lower four: `d · q + m`.
pub(super) fn q5_1(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 24], out: &mut [f32; 32]| {
        let (d, m) = (half_at(block, 0), half_at(block, 2));
        for (i, y) in out.iter_mut().enumerate() {
            let q = nibble(&block[8..], i) | fifth_bit(&block[4..8], i);
            *y = d * f32::from(q) + m;
        }
    });
}

/// `d`, 32 signed bytes: `q · d`.
pub(super) fn q8_0(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 34], out: &mut [f32; 32]| {
        let d = half_at(block, 0);
        for (y, q) in out.iter_mut().zip(&block[2..]) {
            *y = f32::from(*q as i8) * d;
        }
    });
}

/// `d`, 16 bytes of codes: `d · value[q]`.
pub(super) fn iq4_nl(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 18], out: &mut [f32; 32]| {
        let d = half_at(block, 0);
        for (i, y) in out.iter_mut().enumerate() {
            *y = d * f32::from(IQ4_VALUES[usize::from(nibble(&block[2..], i))]);
        }
    });
}
