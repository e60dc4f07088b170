//! Dot products of floats: which lanes, halves and signs they take. How two or four products and an addend are summed stands in
//! [`super::sums`]; integers stand in [`super::packed`].

use super::lanes::{self, B16, EachLane, Kind, Out, raw, unsupported};
use super::packed;
use super::sums::{self, Bf8, Bf16, F16, Factor, Fp8, Sum, ToBf16, ToF16, ToF32};
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Lanes, Step};

fn halves(word: u32) -> [u32; 2] {
    [word & 0xffff, word >> 16]
}

fn bytes(word: u32) -> [u32; 4] {
    word.to_le_bytes().map(u32::from)
}

/// c + a.lo·b.lo + a.hi·b.hi of f16 pairs, in f32.
pub fn pair_f16(a: u32, b: u32, c: u32) -> u32 {
    sums::step::<F16, F16, ToF32, 2>(0, halves(a), halves(b), c)
}

/// c + a.lo·b.lo + a.hi·b.hi of bf16 pairs, in f32.
pub fn pair_bf16(a: u32, b: u32, c: u32) -> u32 {
    sums::step::<Bf16, Bf16, ToF32, 2>(0, halves(a), halves(b), c)
}

/// A dot product into f32 of factors that `split` finds in a word.
#[inline(always)]
fn to_f32<A: Factor, B: Factor, const N: usize>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    [a, b, c]: &[Lanes; 3],
    split: fn(u32) -> [u32; N],
) -> Step {
    let mut result =
        cx.arch.dispatch(EachLane(|lane: usize| sums::plain::<A, B, N>(split(a[lane]), split(b[lane]), c[lane])));
    let special = cx
        .arch
        .dispatch(EachLane(|lane: usize| sums::is_special::<A, B, N>(split(a[lane]), split(b[lane]), c[lane]) as u32));
    for (lane, _) in special.iter().enumerate().filter(|(_, special)| **special != 0) {
        result[lane] = sums::step::<A, B, ToF32, N>(0, split(a[lane]), split(b[lane]), c[lane]);
    }
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}

/// Pairs into f32: halves by op_sel, signs of the halves by neg_lo and neg_hi, the sign of C by neg_lo. C has 32 bits, so op_sel does not
/// concern it; clamp is ignored.
#[inline(always)]
fn pairs_to_f32<A: Factor>(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let m = inst.mods;
    if m.abs & 4 != 0 {
        return Err(unsupported(format!("{} with neg_hi of C, which has no halves", inst.row.name)));
    }
    let [mut a, mut b, mut c] = [0, 1, 2].map(|n| raw(cx.wave, inst, n));
    for (n, words) in [&mut a, &mut b].into_iter().enumerate() {
        for word in words {
            let (low, high) = packed::halves(*word, inst, n);
            *word = low ^ (m.neg as u32 >> n & 1) << 15 | (high ^ (m.abs as u32 >> n & 1) << 15) << 16;
        }
    }
    for word in &mut c {
        *word ^= (m.neg as u32 >> 2) << 31;
    }
    to_f32::<A, A, 2>(cx, inst, &[a, b, c], halves)
}

/// `v_dot2_f32_f16`.
pub fn dot2_f32_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    pairs_to_f32::<F16>(cx, inst)
}

/// `v_dot2_f32_bf16`.
pub fn dot2_f32_bf16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    pairs_to_f32::<Bf16>(cx, inst)
}

/// Four 8-bit products into f32; neg_lo and neg_hi of C are its sign and absolute value.
#[inline(always)]
fn bytes_to_f32<A: Factor, B: Factor>(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let [a, b, c] = [0, 1, 2].map(|n| raw(cx.wave, inst, n));
    let c = c.map(|bits| packed::modified_c(f32::from_bits(bits), inst).to_bits());
    to_f32::<A, B, 4>(cx, inst, &[a, b, c], bytes)
}

/// `v_dot4_f32_fp8_fp8`.
pub fn dot4_fp8_fp8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    bytes_to_f32::<Fp8, Fp8>(cx, inst)
}
/// `v_dot4_f32_fp8_bf8`.
pub fn dot4_fp8_bf8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    bytes_to_f32::<Fp8, Bf8>(cx, inst)
}
/// `v_dot4_f32_bf8_fp8`.
pub fn dot4_bf8_fp8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    bytes_to_f32::<Bf8, Fp8>(cx, inst)
}
/// `v_dot4_f32_bf8_bf8`.
pub fn dot4_bf8_bf8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    bytes_to_f32::<Bf8, Bf8>(cx, inst)
}

/// Pairs into a half.
fn pairs_to_half<A: Factor, R: Sum>(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    if (inst.mods.abs | inst.mods.neg) & 3 != 0 {
        return Err(unsupported(format!("{} with abs or neg on a packed source", inst.row.name)));
    }
    let mode = cx.wave.mode;
    let (a, b, c) = (raw(cx.wave, inst, 0), raw(cx.wave, inst, 1), B16::read(cx.wave, inst, 2));
    let operation = |lane| sums::step::<A, A, R, 2>(mode, halves(a[lane]), halves(b[lane]), c[lane] as u32) as u16;
    let out = std::array::from_fn(operation);
    B16::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// `v_dot2_f16_f16`.
pub fn dot2_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    pairs_to_half::<F16, ToF16>(cx, inst)
}
/// `v_dot2_bf16_bf16`.
pub fn dot2_bf16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    pairs_to_half::<Bf16, ToBf16>(cx, inst)
}
