//! Packed 16-bit arithmetic, mixed-precision fma and integer dot products, as VOP3P has them. Packed arithmetic and mixed fma follow MODE:
//! where it is as at a launch and no NaN comes out, by the host's own arithmetic, else by [`super::soft_float`]. Modifiers that the manual
//! gives no meaning are faults, not guesses; clamp is ignored where it says so. Dot products of floats stand in [`super::dot`].

use super::convert::{f16_to_f32, f32_to_f16};
use super::{lanes, soft_float as soft};
use crate::fault::Fault;
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Lanes, Step};
use half::f16;

/// Rounding to nearest even, all denormals kept, f16 overflow to infinity: these bits of MODE at a launch.
pub(super) const DEFAULT_MODE: u32 = 0xf0;
/// Rounding, denormals, FP16_OVFL.
pub(super) const MODE_FIELDS: u32 = soft::FP16_OVFL | 0xff;

fn unsupported<T>(inst: &Inst, what: impl std::fmt::Display) -> Result<T, Box<Fault>> {
    Err(Box::new(Fault::Unsupported(format!("{} {what}", inst.row.name))))
}

/// The sources of all lanes, the first one through DPP.
#[inline(always)]
fn sources(cx: &Cx, inst: &Inst) -> [Lanes; 3] {
    [0, 1, 2].map(|n| lanes::raw(cx.wave, inst, n))
}

/// The halves that op_sel and op_sel_hi pick: a value for the low and one for the high result.
#[inline(always)]
pub(super) fn halves(value: u32, inst: &Inst, n: usize) -> (u32, u32) {
    let pick = |high: bool| if high { value >> 16 } else { value & 0xffff };
    (pick(inst.mods.opsel >> n & 1 != 0), pick(inst.mods.opsel_hi >> n & 1 != 0))
}

/// Applies `f` to low and high halves and packs the results.
#[inline(always)]
fn pairs(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32, u32, usize) -> u32) -> Step {
    let sources = sources(cx, inst);
    let result: Lanes = cx.arch.dispatch(lanes::EachLane(|lane: usize| {
        let [a, b, c] = [0, 1, 2].map(|n| halves(sources[n][lane], inst, n));
        f(a.0, b.0, c.0, 0) & 0xffff | f(a.1, b.1, c.1, 1) << 16
    }));
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}

fn no_float_modifiers(inst: &Inst) -> Result<(), Box<Fault>> {
    if inst.mods.neg | inst.mods.abs != 0 {
        return unsupported(inst, "with neg_lo or neg_hi on integers");
    }
    Ok(())
}

/// Signed operations; clamp saturates.
#[inline(always)]
pub fn signed(cx: &mut Cx, inst: &Inst, f: impl Fn(i32, i32, i32) -> i32) -> Step {
    no_float_modifiers(inst)?;
    let clamp = inst.mods.clamp;
    pairs(cx, inst, |a, b, c, _| {
        let value = f(a as i16 as i32, b as i16 as i32, c as i16 as i32);
        (if clamp { value.clamp(i16::MIN as i32, i16::MAX as i32) } else { value }) as u32
    })
}

/// Unsigned operations; clamp saturates.
#[inline(always)]
pub fn unsigned(cx: &mut Cx, inst: &Inst, f: impl Fn(i64, i64, i64) -> i64) -> Step {
    no_float_modifiers(inst)?;
    let clamp = inst.mods.clamp;
    pairs(cx, inst, |a, b, c, _| {
        let value = f(a as i64, b as i64, c as i64);
        (if clamp { value.clamp(0, u16::MAX as i64) } else { value }) as u32
    })
}

/// Bitwise operations and shifts, which ignore clamp.
#[inline(always)]
pub fn wrapping(cx: &mut Cx, inst: &Inst, f: impl Fn(u16, u16) -> u16) -> Step {
    no_float_modifiers(inst)?;
    pairs(cx, inst, |a, b, _, _| f(a as u16, b as u16) as u32)
}

/// The bits of MODE that concern f16, and their value where f32 arithmetic gives the same.
const F16_FIELDS: u32 = soft::FP16_OVFL | 0xcc;
const F16_LAUNCH: u32 = 0xc0;

/// f16 operations. `host` computes in f32, to be rounded once more: for sums, products, minima and maxima of two f16 the second rounding
/// is harmless (24 bits are at least 2 · 11 + 2); [`super::float::fma_f16`] makes it so for an fma. `exact` follows MODE.
#[inline(always)]
pub fn float(
    cx: &mut Cx,
    inst: &Inst,
    host: impl Fn(f32, f32, f32) -> f32,
    exact: impl Fn(u32, f16, f16, f16) -> f16,
) -> Step {
    let sources = sources(cx, inst);
    let (signs, clamp, mode) = ([inst.mods.neg, inst.mods.abs], inst.mods.clamp, cx.wave.mode);
    let operands = |lane: usize, half: usize| {
        [0, 1, 2].map(|n| {
            let (low, high) = halves(sources[n][lane], inst, n);
            (if half == 0 { low } else { high }) ^ (signs[half] as u32 >> n & 1) << 15
        })
    };
    let by_mode = |lane: usize| {
        let [low, high] = [0, 1].map(|half| {
            let [a, b, c] = operands(lane, half).map(|bits| f16::from_bits(bits as u16));
            soft::modify(mode, 0, clamp, exact(mode, a, b, c)).to_bits() as u32
        });
        low | high << 16
    };
    let result: Lanes = if mode & F16_FIELDS == F16_LAUNCH {
        let mut result: Lanes = cx.arch.dispatch(lanes::EachLane(|lane: usize| {
            let [low, high] = [0, 1].map(|half| {
                let [a, b, c] = operands(lane, half).map(f16_to_f32);
                let value = host(a, b, c);
                f32_to_f16(if clamp { clamp01(value) } else { value }) & 0xffff
            });
            low | high << 16
        }));
        // Which NaN it is only `exact` knows.
        let is_nan = |bits: u32| bits & 0x7fff > 0x7c00;
        for (lane, value) in result.iter_mut().enumerate() {
            if is_nan(*value) || is_nan(*value >> 16) {
                *value = by_mode(lane);
            }
        }
        result
    } else {
        std::array::from_fn(by_mode)
    };
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}

/// Selection of one of two f16, which MODE only flushes: by f32 values, and exactly.
#[inline(always)]
pub fn select(cx: &mut Cx, inst: &Inst, host: impl Fn(f32, f32) -> f32, exact: impl Fn(f16, f16) -> f16) -> Step {
    float(
        cx,
        inst,
        |a, b, _| host(a, b),
        |mode, a, b, _| soft::output(mode, exact(soft::input(mode, a), soft::input(mode, b))),
    )
}

/// [0, 1], NaN to 0.
#[inline(always)]
fn clamp01(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// What a mixed-precision fma writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixTo {
    /// The f32.
    Whole,
    /// f16 into the low half.
    Low,
    /// f16 into the high half.
    High,
}

/// fma of sources that are f32, or f16 halves where op_sel_hi says so, in f32. A half as result is that f32 rounded again.
#[inline(always)]
pub fn mix(cx: &mut Cx, inst: &Inst, to: MixTo) -> Step {
    let (m, mode) = (inst.mods, cx.wave.mode);
    let sources = sources(cx, inst);
    let old = cx.wave.vgpr[inst.dst as usize];
    let is_half = |n: usize| m.opsel_hi >> n & 1 != 0;
    let half_bits = |n: usize, bits: u32| if m.opsel >> n & 1 != 0 { bits >> 16 } else { bits & 0xffff };
    let signed = |n: usize, value: f32| {
        let value = if m.abs >> n & 1 != 0 { value.abs() } else { value };
        if m.neg >> n & 1 != 0 { -value } else { value }
    };
    let merge = |lane: usize, half: u32| match to {
        MixTo::Whole => half,
        MixTo::Low => old[lane] & 0xffff_0000 | half & 0xffff,
        MixTo::High => old[lane] & 0xffff | half << 16,
    };
    let by_mode = |lane: usize| {
        let [a, b, c] = [0, 1, 2].map(|n| {
            let bits = sources[n][lane];
            let value = match is_half(n) {
                false => f32::from_bits(bits),
                true => soft::convert(mode, f16::from_bits(half_bits(n, bits) as u16)),
            };
            signed(n, value)
        });
        let value = soft::fma(mode, a, b, c);
        if to == MixTo::Whole {
            return soft::modify(mode, 0, m.clamp, value).to_bits();
        }
        let half: f16 = soft::convert(mode, value);
        merge(lane, soft::modify(mode, 0, m.clamp, half).to_bits() as u32)
    };
    let result: Lanes = if mode & MODE_FIELDS == DEFAULT_MODE {
        let values: Lanes = cx.arch.dispatch(lanes::EachLane(|lane: usize| {
            let [a, b, c] = [0, 1, 2].map(|n| {
                let bits = sources[n][lane];
                signed(n, if is_half(n) { f16_to_f32(half_bits(n, bits)) } else { f32::from_bits(bits) })
            });
            let value = a.mul_add(b, c);
            (if m.clamp { clamp01(value) } else { value }).to_bits()
        }));
        std::array::from_fn(|lane| match (f32::from_bits(values[lane]), to) {
            (value, _) if value.is_nan() => by_mode(lane),
            (_, MixTo::Whole) => values[lane],
            (value, _) => merge(lane, f32_to_f16(value)),
        })
    } else {
        std::array::from_fn(by_mode)
    };
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}

/// Element `n` of `bits` bits, sign- or zero-extended.
#[inline(always)]
fn element(value: u32, n: u32, bits: u32, signed: bool) -> i64 {
    let field = value << (32 - bits * (n + 1));
    if signed { ((field as i32) >> (32 - bits)) as i64 } else { (field >> (32 - bits)) as i64 }
}

/// Integer dot product of 8-bit or 4-bit elements. The `iu` forms say by neg_lo which operand is signed and have an i32 result, the
/// others are all unsigned. Clamp saturates the one sum, as LLVM has it (the manual says that two of them ignore it); else it wraps.
#[inline(always)]
pub fn dot_int(cx: &mut Cx, inst: &Inst, bits: u32, unsigned: bool) -> Step {
    let m = inst.mods;
    if m.abs != 0 || m.neg & if unsigned { 7 } else { 4 } != 0 {
        return unsupported(inst, "with neg_hi, or neg_lo of an operand without a sign");
    }
    let (signed_a, signed_b) = (m.neg & 1 != 0, m.neg & 2 != 0);
    let sources = sources(cx, inst);
    let result: Lanes = cx.arch.dispatch(lanes::EachLane(|lane: usize| {
        let [a, b, c] = [0, 1, 2].map(|n| sources[n][lane]);
        let mut sum = if unsigned { c as i64 } else { c as i32 as i64 };
        for n in 0..32 / bits {
            sum += element(a, n, bits, signed_a) * element(b, n, bits, signed_b);
        }
        let (low, high) = if unsigned { (0, u32::MAX as i64) } else { (i32::MIN as i64, i32::MAX as i64) };
        (if m.clamp { sum.clamp(low, high) } else { sum }) as u32
    }));
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}

/// C of an fp8 operation, or of a float matrix: neg_hi is its absolute value, neg_lo its sign.
#[inline(always)]
pub fn modified_c(c: f32, inst: &Inst) -> f32 {
    let c = if inst.mods.abs & 4 != 0 { c.abs() } else { c };
    if inst.mods.neg & 4 != 0 { -c } else { c }
}
