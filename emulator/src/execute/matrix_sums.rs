//! WMMA and SWMMAC of floats in the machine's own sums ([`super::sums`]): steps of four products in increasing k, each rounded to the
//! format of the result. That is how 16-bit dense operations were measured; that sparse and 8-bit ones step likewise (a sparse one through
//! what is kept) is assumed. Forms with f32 results come here only where MODE is not as at a launch; else [`super::matrix`] has a faster
//! way.

use super::sums::{Bf16, F16, Factor, Sum, ToBf16, ToF16, ToF32, step};
use super::tiles::{
    Kept, Operand, Tile, base_linear, base16, k_dense16, k_linear, k_sparse_b16, kept, number, operand, put16, put32,
    signs, tile16, tile32,
};
use crate::isa::{Inst, Src};
use crate::wave::{Cx, Step};

/// Factors of 16 bits, signs applied.
fn halves<const K: usize>(cx: &Cx, inst: &Inst, n: usize, k: impl Fn(usize, usize) -> usize) -> Operand<u32, K> {
    let signs = signs(inst, n);
    operand(&cx.wave.vgpr, number(inst.src[n]), 16, 0, k, |bits, s| (bits ^ signs[s % 2]) & 0xffff)
}

/// Factors of 8 bits.
fn bytes<const K: usize>(cx: &Cx, inst: &Inst, n: usize) -> Operand<u32, K> {
    operand(&cx.wave.vgpr, number(inst.src[n]), 8, 0, k_linear::<K>, |bits, _| bits & 0xff)
}

/// C of a dense operation: neg_hi is its absolute value, neg_lo its sign, the bit `sign`.
fn modified(mut tile: Tile<u32>, inst: &Inst, sign: u32) -> Tile<u32> {
    for value in tile.as_flattened_mut() {
        *value &= if inst.mods.abs & 4 != 0 { !sign } else { u32::MAX };
        *value ^= if inst.mods.neg & 4 != 0 { sign } else { 0 };
    }
    tile
}

fn dense<A: Factor, B: Factor, R: Sum>(mode: u32, a: &Operand<u32, 16>, b: &Operand<u32, 16>, c: &mut Tile<u32>) {
    for (m, row) in c.iter_mut().enumerate() {
        for (n, sum) in row.iter_mut().enumerate() {
            for k in (0..16).step_by(4) {
                let [left, right] = [(a, m), (b, n)].map(|(operand, i)| std::array::from_fn(|j| operand[k + j][i]));
                *sum = step::<A, B, R, 4>(mode, left, right, *sum);
            }
        }
    }
}

fn sparse<A: Factor, B: Factor, R: Sum>(
    mode: u32,
    a: &Operand<u32, 16>,
    kept: &Kept<16>,
    b: &Operand<u32, 32>,
    c: &mut Tile<u32>,
) {
    for (m, row) in c.iter_mut().enumerate() {
        for (n, sum) in row.iter_mut().enumerate() {
            for first in (0..16).step_by(4) {
                let left = std::array::from_fn(|j| a[kept.slot[first + j]][m]);
                let right = std::array::from_fn(|j| b[kept.k[first + j][m] as usize % 32][n]);
                *sum = step::<A, B, R, 4>(mode, left, right, *sum);
            }
        }
    }
}

fn dense_to_half<A: Factor, R: Sum>(cx: &mut Cx, inst: &Inst) -> Step {
    let mut c = modified(tile16(cx, inst.src[2]), inst, 0x8000);
    let [a, b] = [0, 1].map(|n| halves(cx, inst, n, k_dense16));
    dense::<A, A, R>(cx.wave.mode, &a, &b, &mut c);
    put16(cx, inst.dst, &c)
}

fn sparse_to_half<A: Factor, R: Sum>(cx: &mut Cx, inst: &Inst) -> Step {
    let mut c = tile16(cx, Src::Vgpr(inst.dst));
    let a = halves(cx, inst, 0, k_linear::<16>);
    let b = halves(cx, inst, 1, k_sparse_b16);
    sparse::<A, A, R>(cx.wave.mode, &a, &kept(cx, inst, base16), &b, &mut c);
    put16(cx, inst.dst, &c)
}

/// `v_wmma_f16_16x16x16_f16`.
pub fn f16_f16(cx: &mut Cx, inst: &Inst) -> Step {
    dense_to_half::<F16, ToF16>(cx, inst)
}
/// `v_wmma_bf16_16x16x16_bf16`.
pub fn bf16_bf16(cx: &mut Cx, inst: &Inst) -> Step {
    dense_to_half::<Bf16, ToBf16>(cx, inst)
}
/// `v_swmmac_f16_16x16x32_f16`.
pub fn sparse_f16_f16(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_to_half::<F16, ToF16>(cx, inst)
}
/// `v_swmmac_bf16_16x16x32_bf16`.
pub fn sparse_bf16_bf16(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_to_half::<Bf16, ToBf16>(cx, inst)
}

/// A dense operation of 16-bit factors into f32.
pub fn half_to_f32<A: Factor>(cx: &mut Cx, inst: &Inst) -> Step {
    let mut c = modified(tile32(cx, inst.src[2]), inst, 1 << 31);
    let [a, b] = [0, 1].map(|n| halves(cx, inst, n, k_dense16));
    dense::<A, A, ToF32>(0, &a, &b, &mut c);
    put32(cx, inst.dst, &c)
}

/// A dense operation of 8-bit factors into f32.
pub fn byte_to_f32<A: Factor, B: Factor>(cx: &mut Cx, inst: &Inst) -> Step {
    let mut c = modified(tile32(cx, inst.src[2]), inst, 1 << 31);
    let [a, b] = [0, 1].map(|n| bytes(cx, inst, n));
    dense::<A, B, ToF32>(0, &a, &b, &mut c);
    put32(cx, inst.dst, &c)
}

/// A sparse operation of 16-bit factors into f32.
pub fn sparse_half_to_f32<A: Factor>(cx: &mut Cx, inst: &Inst) -> Step {
    let mut c = tile32(cx, Src::Vgpr(inst.dst));
    let a = halves(cx, inst, 0, k_linear::<16>);
    let b = halves(cx, inst, 1, k_sparse_b16);
    sparse::<A, A, ToF32>(0, &a, &kept(cx, inst, base16), &b, &mut c);
    put32(cx, inst.dst, &c)
}

/// A sparse operation of 8-bit factors into f32.
pub fn sparse_byte_to_f32<A: Factor, B: Factor>(cx: &mut Cx, inst: &Inst) -> Step {
    let mut c = tile32(cx, Src::Vgpr(inst.dst));
    let (a, b) = (bytes(cx, inst, 0), bytes(cx, inst, 1));
    sparse::<A, B, ToF32>(0, &a, &kept(cx, inst, base_linear::<32>), &b, &mut c);
    put32(cx, inst.dst, &c)
}
