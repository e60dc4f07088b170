//! Blocks of GGUF types into the parts of our schemes: the same codes and the same scales in another order, so that every value stays what it
//! was, bit by bit. Which type becomes which scheme stands in `types`; what a block's bytes are, in `blocks` and `k_blocks`.

use super::{
    blocks::{IQ4_VALUES, fifth_bit, nibble},
    k_blocks::{four_bits, iq4_scale, iq4_value, q3_code, q3_scale, q5_code, q6_code, scales_and_offsets, two_bits},
};
use crate::quant::{Encoded, Scheme};

/// A scheme that holds the same values as a type of GGUF.
#[derive(Debug, Clone, Copy)]
pub struct Regrouped {
    /// The scheme.
    pub scheme: Scheme,
    /// Appends whole blocks, one row after the other, to the parts of a matrix of that scheme.
    pub append: fn(&[u8], &mut Encoded),
}

/// Each block of `blocks`.
fn each<const BYTES: usize>(blocks: &[u8], append: impl FnMut(&[u8; BYTES])) {
    let (blocks, rest) = blocks.as_chunks::<BYTES>();
    assert!(rest.is_empty(), "whole blocks");
    blocks.iter().for_each(append);
}

/// The codes of a block, one in a byte.
fn put_codes(out: &mut Encoded, elements: usize, code: impl Fn(usize) -> i8) {
    out.codes.extend((0..elements).map(|i| code(i) as u8));
}

/// A record of two levels: the f16 at byte `at` of the block, then a byte for each group.
fn put_levels(out: &mut Vec<u8>, block: &[u8], at: usize, lower: impl Iterator<Item = i8>) {
    out.extend([block[at], block[at + 1]]);
    out.extend(lower.map(|lower| lower as u8));
}

/// The same of what is subtracted: a minimum is its negative, which the f16 has in its sign.
fn put_offsets(out: &mut Vec<u8>, block: &[u8], at: usize, lower: impl Iterator<Item = i8>) {
    put_levels(out, &[block[at], block[at + 1] ^ 0x80], 0, lower);
}

/// Blocks that are a scale and then codes as ours are: those of Q4_0 and of Q8_0.
pub(super) fn scale_then_codes<const BYTES: usize>(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; BYTES]| {
        out.scales.extend(&block[..2]);
        out.codes.extend(&block[2..]);
    });
}

pub(super) fn q4_1(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 20]| {
        out.scales.extend(&block[..2]);
        out.minimums.extend(&block[2..4]);
        out.codes.extend(&block[4..]);
    });
}

pub(super) fn q5_0(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 22]| {
        out.scales.extend(&block[..2]);
        put_codes(out, 32, |i| (nibble(&block[6..], i) | fifth_bit(&block[2..6], i)) as i8 - 16);
    });
}

pub(super) fn q5_1(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 24]| {
        out.scales.extend(&block[..2]);
        out.minimums.extend(&block[2..4]);
        put_codes(out, 32, |i| (nibble(&block[8..], i) | fifth_bit(&block[4..8], i)) as i8);
    });
}

pub(super) fn iq4_nl(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 18]| {
        out.scales.extend(&block[..2]);
        put_codes(out, 32, |i| IQ4_VALUES[usize::from(nibble(&block[2..], i))]);
    });
}

pub(super) fn q2_k(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 84]| {
        put_levels(&mut out.scales, block, 80, block[..16].iter().map(|packed| (packed & 15) as i8));
        put_offsets(&mut out.minimums, block, 82, block[..16].iter().map(|packed| (packed >> 4) as i8));
        put_codes(out, 256, |i| two_bits(&block[16..80], i) as i8);
    });
}

pub(super) fn q3_k(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 110]| {
        put_levels(&mut out.scales, block, 108, (0..16).map(|group| q3_scale(block, group)));
        put_codes(out, 256, |i| q3_code(block, i));
    });
}

pub(super) fn q4_k(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 144]| {
        let groups = scales_and_offsets(&block[4..16]);
        put_levels(&mut out.scales, block, 0, groups.iter().map(|(scale, _)| *scale as i8));
        put_offsets(&mut out.minimums, block, 2, groups.iter().map(|(_, offset)| *offset as i8));
        let code = |i| four_bits(&block[16..], i);
        for group in (0..256).step_by(32) {
            out.codes.extend((group..group + 16).map(|i| code(i) | code(i + 16) << 4));
        }
    });
}

pub(super) fn q5_k(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 176]| {
        let groups = scales_and_offsets(&block[4..16]);
        put_levels(&mut out.scales, block, 0, groups.iter().map(|(scale, _)| *scale as i8));
        put_offsets(&mut out.minimums, block, 2, groups.iter().map(|(_, offset)| *offset as i8));
        put_codes(out, 256, |i| q5_code(block, i) as i8);
    });
}

pub(super) fn q6_k(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 210]| {
        put_levels(&mut out.scales, block, 208, block[192..208].iter().map(|scale| *scale as i8));
        put_codes(out, 256, |i| q6_code(block, i));
    });
}

pub(super) fn iq4_xs(blocks: &[u8], out: &mut Encoded) {
    each(blocks, |block: &[u8; 136]| {
        put_levels(&mut out.scales, block, 0, (0..8).map(|group| iq4_scale(block, group)));
        put_codes(out, 256, |i| iq4_value(block, i));
    });
}
