//! Packed 16-bit arithmetic, mixed-precision fma and dot products, as VOP3P has them. Sums of dot products go by increasing k in f32
//! with fused steps (f16, bf16 and fp8 products are exact in f32): hardware's inner precision is not published, so a comparison has to
//! allow for it. Modifiers that the manual gives no meaning are faults, not guesses.

use super::convert::{f16_to_f32, f32_to_f16};
use super::{dpp, fp8, lanes};
use crate::fault::Fault;
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Lanes, Step};

/// Rounding to nearest even, all denormals kept, f16 overflow to infinity: these bits of MODE at a launch.
const DEFAULT_MODE: u32 = 0xf0;
/// Rounding, denormals, FP16_OVFL.
const MODE_FIELDS: u32 = 1 << 23 | 0xff;

/// Passes on the context where MODE has the rounding and the denormals that are implemented.
pub fn default_mode<'x, 'c>(cx: &'x mut Cx<'c>, inst: &Inst) -> Result<&'x mut Cx<'c>, Box<Fault>> {
    match cx.wave.mode & MODE_FIELDS {
        DEFAULT_MODE => Ok(cx),
        mode => unsupported(inst, format!("with float mode {mode:#x}, not {DEFAULT_MODE:#x}")),
    }
}

fn unsupported<T>(inst: &Inst, what: impl std::fmt::Display) -> Result<T, Box<Fault>> {
    Err(Box::new(Fault::Unsupported(format!("{} {what}", inst.row.name))))
}

/// The sources of all lanes, the first one through DPP.
#[inline(always)]
fn sources(cx: &Cx, inst: &Inst) -> Result<[Lanes; 3], Box<Fault>> {
    if inst.dpp.is_some() {
        dpp::check(cx.wave, inst)?;
    }
    Ok([0, 1, 2].map(|n| lanes::raw(cx.wave, inst, n)))
}

/// The halves that op_sel and op_sel_hi pick: a value for the low and one for the high result.
#[inline(always)]
fn halves(value: u32, inst: &Inst, n: usize) -> (u32, u32) {
    let pick = |high: bool| if high { value >> 16 } else { value & 0xffff };
    (pick(inst.mods.opsel >> n & 1 != 0), pick(inst.mods.opsel_hi >> n & 1 != 0))
}

/// Applies `f` to low and high halves and packs the results.
#[inline(always)]
fn pairs(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32, u32, usize) -> u32) -> Step {
    let sources = sources(cx, inst)?;
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

/// Operations for which the manual defines no saturation.
#[inline(always)]
pub fn wrapping(cx: &mut Cx, inst: &Inst, f: impl Fn(u16, u16) -> u16) -> Step {
    no_float_modifiers(inst)?;
    if inst.mods.clamp {
        return unsupported(inst, "with clamp");
    }
    pairs(cx, inst, |a, b, _, _| f(a as u16, b as u16) as u32)
}

/// f16 operations, computed in f32 and rounded once more. For sums, products, minima and maxima of two f16 the second rounding is
/// harmless (24 bits are at least 2 · 11 + 2); [`super::float::fma_f16`] makes it so for an fma.
#[inline(always)]
pub fn float(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32, f32) -> f32) -> Step {
    default_mode(cx, inst)?;
    let signs = [inst.mods.neg, inst.mods.abs];
    let clamp = inst.mods.clamp;
    pairs(cx, inst, |a, b, c, half| {
        let [a, b, c] =
            [(a, 0), (b, 1), (c, 2)].map(|(bits, n)| f16_to_f32(bits ^ (signs[half] as u32 >> n & 1) << 15));
        let value = f(a, b, c);
        f32_to_f16(if clamp { clamp01(value) } else { value })
    })
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

/// fma of sources that are f32, or f16 halves where op_sel_hi says so.
#[inline(always)]
pub fn mix(cx: &mut Cx, inst: &Inst, to: MixTo) -> Step {
    default_mode(cx, inst)?;
    let m = inst.mods;
    let sources = sources(cx, inst)?;
    let old = cx.wave.vgpr[inst.dst as usize];
    let result: Lanes = cx.arch.dispatch(lanes::EachLane(|lane: usize| {
        let [a, b, c] = [0, 1, 2].map(|n| {
            let bits = sources[n][lane];
            let value = match (m.opsel_hi >> n & 1 != 0, m.opsel >> n & 1 != 0) {
                (false, _) => f32::from_bits(bits),
                (true, high) => f16_to_f32(if high { bits >> 16 } else { bits }),
            };
            let value = if m.abs >> n & 1 != 0 { value.abs() } else { value };
            if m.neg >> n & 1 != 0 { -value } else { value }
        });
        let value = a.mul_add(b, c);
        let value = if m.clamp { clamp01(value) } else { value };
        match to {
            MixTo::Whole => value.to_bits(),
            MixTo::Low => old[lane] & 0xffff_0000 | f32_to_f16(value),
            MixTo::High => old[lane] & 0xffff | f32_to_f16(value) << 16,
        }
    }));
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}

/// c + a.lo·b.lo + a.hi·b.hi of f16 pairs.
pub fn dot2_f16(a: u32, b: u32, c: u32) -> u32 {
    let sum = f16_to_f32(a).mul_add(f16_to_f32(b), f32::from_bits(c));
    f16_to_f32(a >> 16).mul_add(f16_to_f32(b >> 16), sum).to_bits()
}

/// c + a.lo·b.lo + a.hi·b.hi of bf16 pairs.
pub fn dot2_bf16(a: u32, b: u32, c: u32) -> u32 {
    let sum = f32::from_bits(a << 16).mul_add(f32::from_bits(b << 16), f32::from_bits(c));
    f32::from_bits(a & 0xffff_0000).mul_add(f32::from_bits(b & 0xffff_0000), sum).to_bits()
}

/// A dot product of pairs with its modifiers: halves by op_sel, signs of the halves by neg_lo and neg_hi, the sign of C by neg_lo.
#[inline(always)]
pub fn dot2(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32, u32) -> u32) -> Step {
    default_mode(cx, inst)?;
    let m = inst.mods;
    if m.clamp || m.abs & 4 != 0 || m.opsel & 4 != 0 || m.opsel_hi & 4 == 0 {
        return unsupported(inst, "with clamp, neg_hi or op_sel of C");
    }
    let sources = sources(cx, inst)?;
    let result: Lanes = cx.arch.dispatch(lanes::EachLane(|lane: usize| {
        let [a, b] = [0, 1].map(|n| {
            let (low, high) = halves(sources[n][lane], inst, n);
            low ^ (m.neg as u32 >> n & 1) << 15 | (high ^ (m.abs as u32 >> n & 1) << 15) << 16
        });
        f(a, b, sources[2][lane] ^ (m.neg as u32 >> 2) << 31)
    }));
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
/// others are all unsigned. Clamp saturates the one sum; else it wraps.
#[inline(always)]
pub fn dot_int(cx: &mut Cx, inst: &Inst, bits: u32, unsigned: bool) -> Step {
    let m = inst.mods;
    if m.abs != 0 || m.neg & if unsigned { 7 } else { 4 } != 0 {
        return unsupported(inst, "with neg_hi, or neg_lo of an operand without a sign");
    }
    let (signed_a, signed_b) = (m.neg & 1 != 0, m.neg & 2 != 0);
    let sources = sources(cx, inst)?;
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

/// Dot product of four fp8 (false) or bf8 (true) elements.
pub fn dot4_fp8(cx: &mut Cx, inst: &Inst, bf8: [bool; 2]) -> Step {
    default_mode(cx, inst)?;
    let tables = bf8.map(fp8::table);
    let sources = sources(cx, inst)?;
    let result: Lanes = std::array::from_fn(|lane| {
        let [a, b, c] = [0, 1, 2].map(|n| sources[n][lane]);
        let mut sum = modified_c(f32::from_bits(c), inst);
        for n in 0..4 {
            let value = |x: u32, table: &[f32; 256]| table[(x >> (8 * n) & 0xff) as usize];
            sum = value(a, tables[0]).mul_add(value(b, tables[1]), sum);
        }
        sum.to_bits()
    });
    cx.wave.set_lanes(inst.dst, lanes::write_mask(cx.wave, inst), &result);
    Ok(Flow::Next)
}
