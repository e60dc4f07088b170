//! Blocks of 256 elements to f32: groups of 16 or 32 elements have small scales of their own, in units of the block's. As in `blocks`,
//! the order of operations is the format's.
//!
//! Written below: `d` and `dmin` the block's scales (f16), `s[g]` and `m[g]` scale and offset of the group `g` that an element is in, `q`
//! its code.

use super::blocks::{IQ4_VALUES, each, half_at};

/// 16 bytes of `m << 4 | s`, codes, `d`, `dmin`: `(d · s) · q − dmin · m`, groups of 16.
pub(super) fn q2_k(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 84], out: &mut [f32; 256]| {
        let (scales, codes) = (&block[..16], &block[16..80]);
        let (d, dmin) = (half_at(block, 80), half_at(block, 82));
        for (i, y) in out.iter_mut().enumerate() {
            let scale = scales[i / 16];
            let (dl, ml) = (d * f32::from(scale & 15), dmin * f32::from(scale >> 4));
            *y = dl * f32::from(two_bits(codes, i)) - ml;
        }
    });
}

/// 256 third bits, lower two bits, 16 scales of 6 bits, `d`: `(d · (s − 32)) · (q − 4)`, groups of 16.
pub(super) fn q3_k(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 110], out: &mut [f32; 256]| {
        let d = half_at(block, 108);
        for (i, y) in out.iter_mut().enumerate() {
            let dl = d * f32::from(q3_scale(block, i / 16));
            *y = dl * f32::from(q3_code(block, i));
        }
    });
}

/// `d`, `dmin`, 12 bytes of scales and offsets, codes: `(d · s) · q − dmin · m`, groups of 32.
pub(super) fn q4_k(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 144], out: &mut [f32; 256]| {
        let groups = products(block);
        for (i, y) in out.iter_mut().enumerate() {
            let (ds, dm) = groups[i / 32];
            *y = ds * f32::from(four_bits(&block[16..], i)) - dm;
        }
    });
}

/// `d`, `dmin`, 12 bytes of scales and offsets, 256 fifth bits, lower four: `(d · s) · q − dmin · m`, groups of 32.
pub(super) fn q5_k(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 176], out: &mut [f32; 256]| {
        let groups = products(block);
        for (i, y) in out.iter_mut().enumerate() {
            let (ds, dm) = groups[i / 32];
            *y = ds * f32::from(q5_code(block, i)) - dm;
        }
    });
}

/// Lower four bits, upper two, 16 signed scales, `d`: `(d · s) · (q − 32)`, groups of 16.
pub(super) fn q6_k(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 210], out: &mut [f32; 256]| {
        let d = half_at(block, 208);
        for (i, y) in out.iter_mut().enumerate() {
            let ds = d * f32::from(block[192 + i / 16] as i8);
            *y = ds * f32::from(q6_code(block, i));
        }
    });
}

/// `d`, upper two bits of 8 scales, lower four, codes: `(d · (s − 32)) · value[q]`, groups of 32.
pub(super) fn iq4_xs(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |block: &[u8; 136], out: &mut [f32; 256]| {
        let d = half_at(block, 0);
        for (i, y) in out.iter_mut().enumerate() {
            let dl = d * f32::from(iq4_scale(block, i / 32));
            *y = dl * f32::from(iq4_value(block, i));
        }
    });
}

/// `s − 32` of a group of Q3_K.
pub(super) fn q3_scale(block: &[u8; 110], group: usize) -> i8 {
    let scales = &block[96..108];
    let low = scales[group % 8] >> (group / 8 * 4) & 15;
    let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    (low | high << 4) as i8 - 32
}

/// `q − 4` of an element of Q3_K.
pub(super) fn q3_code(block: &[u8; 110], i: usize) -> i8 {
    let third = block[i % 32] >> (i / 32) & 1;
    (two_bits(&block[32..96], i) | third << 2) as i8 - 4
}

/// `q` of an element of Q5_K.
pub(super) fn q5_code(block: &[u8; 176], i: usize) -> u8 {
    let fifth = block[16 + i % 32] >> (i / 32) & 1;
    four_bits(&block[48..], i) | fifth << 4
}

/// `q − 32` of an element of Q6_K.
pub(super) fn q6_code(block: &[u8; 210], i: usize) -> i8 {
    // Of each 128 elements, 64 bytes have the lower bits of element j low and of j + 64 high.
    let low = block[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
    (low | two_bits(&block[128..192], i) << 4) as i8 - 32
}

/// `s − 32` of a group of IQ4_XS.
pub(super) fn iq4_scale(block: &[u8; 136], group: usize) -> i8 {
    let low = block[4 + group / 2] >> (group % 2 * 4) & 15;
    let high = (u16::from_le_bytes([block[2], block[3]]) >> (group * 2) & 3) as u8;
    (low | high << 4) as i8 - 32
}

/// `value[q]` of an element of IQ4_XS.
pub(super) fn iq4_value(block: &[u8; 136], i: usize) -> i8 {
    let code = block[8 + i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4) & 15;
    IQ4_VALUES[usize::from(code)]
}

/// Code `i` of 256 of two bits each: of each 128, byte `j` of 32 has those of `j`, `j + 32`, `j + 64` and `j + 96`, lowest first.
pub(super) fn two_bits(codes: &[u8], i: usize) -> u8 {
    codes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3
}

/// Code `i` of 256 of four bits each: of each 64, byte `j` of 32 has code `j` low and code `j + 32` high.
pub(super) fn four_bits(codes: &[u8], i: usize) -> u8 {
    codes[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15
}

/// `d · s` and `dmin · m` of the 8 groups of Q4_K and Q5_K.
fn products<const BYTES: usize>(block: &[u8; BYTES]) -> [(f32, f32); 8] {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    scales_and_offsets(&block[4..16]).map(|(s, m)| (d * f32::from(s), dmin * f32::from(m)))
}

/// `s` and `m` of the 8 groups, from 12 bytes: 4 have the lower 6 bits of the first scales, 4 those of the first offsets,
/// 4 the lower 4 bits of the last scales (low half) and offsets (high half), whose upper 2 bits are above the first ones'.
pub(super) fn scales_and_offsets(packed: &[u8]) -> [(u8, u8); 8] {
    std::array::from_fn(|group| {
        let (scales, offsets, rest) = (packed[group % 4], packed[4 + group % 4], packed[8 + group % 4]);
        match group {
            0..4 => (scales & 63, offsets & 63),
            _ => (rest & 15 | scales >> 2 & 48, rest >> 4 | offsets >> 2 & 48),
        }
    })
}
