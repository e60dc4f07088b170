//! Semantics of the scalar unit: reading operands, writing results and SCC, and the scalar float operations. No opcodes.
//!
//! A `null` destination drops the result and leaves SCC alone, as the manual says. Float operations round to nearest even; another
//! rounding mode in MODE traps by name instead of giving a wrong bit.

use crate::fault::Fault;
use crate::isa::{Inst, Src};
use crate::wave::{Cx, EXEC, Flow, NULL, Step};
use half::f16;

/// Stores a result, leaving SCC alone.
#[inline(always)]
fn put(cx: &mut Cx, inst: &Inst, value: u32) -> Step {
    cx.wave.set_sgpr(inst.dst, value);
    Ok(Flow::Next)
}

/// Stores a result and SCC, neither if the destination is `null`.
#[inline(always)]
fn put_scc(cx: &mut Cx, inst: &Inst, (value, scc): (u32, bool)) -> Step {
    if inst.dst != NULL {
        cx.wave.set_sgpr(inst.dst, value);
        cx.wave.scc = scc;
    }
    Ok(Flow::Next)
}

/// [`put`] of 64 bits.
#[inline(always)]
fn put64(cx: &mut Cx, inst: &Inst, value: u64) -> Step {
    cx.wave.set_sgpr64(inst.dst, value);
    Ok(Flow::Next)
}

/// [`put_scc`] of 64 bits.
#[inline(always)]
fn put64_scc(cx: &mut Cx, inst: &Inst, (value, scc): (u64, bool)) -> Step {
    if inst.dst != NULL {
        cx.wave.set_sgpr64(inst.dst, value);
        cx.wave.scc = scc;
    }
    Ok(Flow::Next)
}

/// d = f(a), SCC unchanged.
#[inline(always)]
pub fn un(cx: &mut Cx, inst: &Inst, f: impl Fn(u32) -> u32) -> Step {
    let value = f(cx.wave.scalar(inst.src[0]));
    put(cx, inst, value)
}
/// d = f(a), SCC = d ≠ 0.
#[inline(always)]
pub fn un_nz(cx: &mut Cx, inst: &Inst, f: impl Fn(u32) -> u32) -> Step {
    let value = f(cx.wave.scalar(inst.src[0]));
    put_scc(cx, inst, (value, value != 0))
}
/// 64-bit d = f(64-bit a), SCC unchanged.
#[inline(always)]
pub fn un64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64) -> u64) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]));
    put64(cx, inst, value)
}
/// 64-bit d = f(64-bit a), SCC = d ≠ 0.
#[inline(always)]
pub fn un64_nz(cx: &mut Cx, inst: &Inst, f: impl Fn(u64) -> u64) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]));
    put64_scc(cx, inst, (value, value != 0))
}
/// 32-bit d = f(64-bit a), SCC unchanged.
#[inline(always)]
pub fn narrow(cx: &mut Cx, inst: &Inst, f: impl Fn(u64) -> u32) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]));
    put(cx, inst, value)
}
/// 32-bit d = f(64-bit a), SCC = d ≠ 0.
#[inline(always)]
pub fn narrow_nz(cx: &mut Cx, inst: &Inst, f: impl Fn(u64) -> u32) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]));
    put_scc(cx, inst, (value, value != 0))
}
/// 64-bit d = f(32-bit a).
#[inline(always)]
pub fn widen(cx: &mut Cx, inst: &Inst, f: impl Fn(u32) -> u64) -> Step {
    let value = f(cx.wave.scalar(inst.src[0]));
    put64(cx, inst, value)
}
/// d = f(a, b), SCC unchanged.
#[inline(always)]
pub fn bin(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> u32) -> Step {
    let value = f(cx.wave.scalar(inst.src[0]), cx.wave.scalar(inst.src[1]));
    put(cx, inst, value)
}
/// d = f(a, b), SCC = d ≠ 0.
#[inline(always)]
pub fn bin_nz(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> u32) -> Step {
    let value = f(cx.wave.scalar(inst.src[0]), cx.wave.scalar(inst.src[1]));
    put_scc(cx, inst, (value, value != 0))
}
/// (d, SCC) = f(a, b).
#[inline(always)]
pub fn bin_scc(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> (u32, bool)) -> Step {
    let result = f(cx.wave.scalar(inst.src[0]), cx.wave.scalar(inst.src[1]));
    put_scc(cx, inst, result)
}
/// (d, SCC) = f(a, b, old SCC).
#[inline(always)]
pub fn bin_carry(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32, bool) -> (u32, bool)) -> Step {
    let result = f(cx.wave.scalar(inst.src[0]), cx.wave.scalar(inst.src[1]), cx.wave.scc);
    put_scc(cx, inst, result)
}
/// 64-bit d = f(a, b), SCC unchanged.
#[inline(always)]
pub fn bin64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u64) -> u64) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]), cx.wave.scalar64(inst.src[1]));
    put64(cx, inst, value)
}
/// 64-bit d = f(a, b), SCC = d ≠ 0.
#[inline(always)]
pub fn bin64_nz(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u64) -> u64) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]), cx.wave.scalar64(inst.src[1]));
    put64_scc(cx, inst, (value, value != 0))
}
/// 64-bit d = f(64-bit a, 32-bit b), SCC = d ≠ 0.
#[inline(always)]
pub fn shift64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u32) -> u64) -> Step {
    let value = f(cx.wave.scalar64(inst.src[0]), cx.wave.scalar(inst.src[1]));
    put64_scc(cx, inst, (value, value != 0))
}
/// 64-bit d = f(32-bit a, 32-bit b), SCC unchanged.
#[inline(always)]
pub fn bin_widen(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> u64) -> Step {
    let value = f(cx.wave.scalar(inst.src[0]), cx.wave.scalar(inst.src[1]));
    put64(cx, inst, value)
}
/// SCC = f(a, b).
#[inline(always)]
pub fn compare(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> bool) -> Step {
    cx.wave.scc = f(cx.wave.scalar(inst.src[0]), cx.wave.scalar(inst.src[1]));
    Ok(Flow::Next)
}
/// SCC = f(64-bit a, 64-bit b).
#[inline(always)]
pub fn compare64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u64) -> bool) -> Step {
    cx.wave.scc = f(cx.wave.scalar64(inst.src[0]), cx.wave.scalar64(inst.src[1]));
    Ok(Flow::Next)
}
/// SCC = f(64-bit a, 32-bit b).
#[inline(always)]
pub fn compare_bit64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u32) -> bool) -> Step {
    cx.wave.scc = f(cx.wave.scalar64(inst.src[0]), cx.wave.scalar(inst.src[1]));
    Ok(Flow::Next)
}

/// d = old EXEC, EXEC = f(a, EXEC), SCC = new EXEC ≠ 0; 32-bit forms touch EXEC_LO only.
#[inline(always)]
pub fn saveexec(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> u32) -> Step {
    let old = cx.wave.exec();
    let new = f(cx.wave.scalar(inst.src[0]), old);
    cx.wave.set_sgpr(inst.dst, old);
    cx.wave.sgpr[EXEC as usize] = new;
    cx.wave.scc = new != 0;
    Ok(Flow::Next)
}
/// [`saveexec`] of 64 bits.
#[inline(always)]
pub fn saveexec64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u64) -> u64) -> Step {
    let old = cx.wave.sgpr64(EXEC);
    let new = f(cx.wave.scalar64(inst.src[0]), old);
    cx.wave.set_sgpr64(inst.dst, old);
    cx.wave.set_sgpr64(EXEC, new);
    cx.wave.scc = new != 0;
    Ok(Flow::Next)
}
/// d = EXEC = f(a, EXEC), SCC = d ≠ 0.
#[inline(always)]
pub fn wrexec(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32) -> u32) -> Step {
    let new = f(cx.wave.scalar(inst.src[0]), cx.wave.exec());
    cx.wave.sgpr[EXEC as usize] = new;
    cx.wave.set_sgpr(inst.dst, new);
    cx.wave.scc = new != 0;
    Ok(Flow::Next)
}
/// [`wrexec`] of 64 bits.
#[inline(always)]
pub fn wrexec64(cx: &mut Cx, inst: &Inst, f: impl Fn(u64, u64) -> u64) -> Step {
    let new = f(cx.wave.scalar64(inst.src[0]), cx.wave.sgpr64(EXEC));
    cx.wave.set_sgpr64(EXEC, new);
    cx.wave.set_sgpr64(inst.dst, new);
    cx.wave.scc = new != 0;
    Ok(Flow::Next)
}

/// A fault for something known to the architecture and not executed here.
#[cold]
pub fn unsupported(what: impl Into<String>) -> Step {
    Err(Box::new(Fault::Unsupported(what.into())))
}

/// Float class whose rounding and denormal fields of MODE apply.
#[derive(Clone, Copy)]
enum Class {
    Single,
    Half,
}

/// Denormal bits of MODE for a class (bit 0 keeps inputs, bit 1 keeps outputs); a fault unless it rounds to nearest even.
#[inline(always)]
fn mode(cx: &Cx, class: Class) -> Result<u32, Box<Fault>> {
    let shift = match class {
        Class::Single => 0,
        Class::Half => 2,
    };
    if cx.wave.mode >> shift & 3 != 0 {
        return Err(rounding(cx.wave.mode >> shift & 3));
    }
    Ok(cx.wave.mode >> (4 + shift) & 3)
}

#[cold]
fn rounding(mode: u32) -> Box<Fault> {
    Box::new(Fault::Unsupported(format!("float rounding mode {mode} (0, nearest even, is executed)")))
}

#[inline(always)]
fn flush32(x: f32, keep: bool) -> f32 {
    if keep || !x.is_subnormal() { x } else { 0f32.copysign(x) }
}
#[inline(always)]
fn flush16(x: f16, keep: bool) -> f16 {
    if keep || x.to_bits() & 0x7c00 != 0 { x } else { f16::from_bits(x.to_bits() & 0x8000) }
}

/// f32 operation with two sources.
#[inline(always)]
pub fn float2(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32) -> f32) -> Step {
    let denorm = mode(cx, Class::Single)?;
    let a = flush32(f32::from_bits(cx.wave.scalar(inst.src[0])), denorm & 1 != 0);
    let b = flush32(f32::from_bits(cx.wave.scalar(inst.src[1])), denorm & 1 != 0);
    let value = flush32(f(a, b), denorm & 2 != 0).to_bits();
    put(cx, inst, value)
}
/// f32 operation with one source.
#[inline(always)]
pub fn float1(cx: &mut Cx, inst: &Inst, f: impl Fn(f32) -> f32) -> Step {
    let denorm = mode(cx, Class::Single)?;
    let a = flush32(f32::from_bits(cx.wave.scalar(inst.src[0])), denorm & 1 != 0);
    let value = flush32(f(a), denorm & 2 != 0).to_bits();
    put(cx, inst, value)
}
/// Fused a · b + c of f32 sources given in place.
#[inline(always)]
pub fn fma32(cx: &mut Cx, inst: &Inst, a: Src, b: Src, c: Src) -> Step {
    let denorm = mode(cx, Class::Single)?;
    let read = |s: Src| flush32(f32::from_bits(cx.wave.scalar(s)), denorm & 1 != 0);
    let value = flush32(read(a).mul_add(read(b), read(c)), denorm & 2 != 0).to_bits();
    put(cx, inst, value)
}
/// Conversion of an f32 source.
#[inline(always)]
pub fn from_float(cx: &mut Cx, inst: &Inst, f: impl Fn(f32) -> u32) -> Step {
    let denorm = mode(cx, Class::Single)?;
    let value = f(flush32(f32::from_bits(cx.wave.scalar(inst.src[0])), denorm & 1 != 0));
    put(cx, inst, value)
}
/// Conversion to f32.
#[inline(always)]
pub fn to_float(cx: &mut Cx, inst: &Inst, f: impl Fn(u32) -> f32) -> Step {
    mode(cx, Class::Single)?;
    let value = f(cx.wave.scalar(inst.src[0])).to_bits();
    put(cx, inst, value)
}
/// SCC = f(a, b) on f32.
#[inline(always)]
pub fn compare_float(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32) -> bool) -> Step {
    let keep = cx.wave.mode >> 4 & 1 != 0;
    let a = flush32(f32::from_bits(cx.wave.scalar(inst.src[0])), keep);
    let b = flush32(f32::from_bits(cx.wave.scalar(inst.src[1])), keep);
    cx.wave.scc = f(a, b);
    Ok(Flow::Next)
}
/// SCC = f(a, b) on f16, compared as f32, which holds every f16.
#[inline(always)]
pub fn compare_half(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32) -> bool) -> Step {
    let keep = cx.wave.mode >> 6 & 1 != 0;
    let a = flush16(f16::from_bits(cx.wave.scalar(inst.src[0]) as u16), keep);
    let b = flush16(f16::from_bits(cx.wave.scalar(inst.src[1]) as u16), keep);
    cx.wave.scc = f(a.to_f32(), b.to_f32());
    Ok(Flow::Next)
}
/// f16 operation with two sources; the result fills the low half, the high half is 0.
#[inline(always)]
pub fn half2(cx: &mut Cx, inst: &Inst, f: impl Fn(f16, f16) -> f16) -> Step {
    let denorm = mode(cx, Class::Half)?;
    let a = flush16(f16::from_bits(cx.wave.scalar(inst.src[0]) as u16), denorm & 1 != 0);
    let b = flush16(f16::from_bits(cx.wave.scalar(inst.src[1]) as u16), denorm & 1 != 0);
    let value = flush16(f(a, b), denorm & 2 != 0).to_bits() as u32;
    put(cx, inst, value)
}
/// f16 operation with one source.
#[inline(always)]
pub fn half1(cx: &mut Cx, inst: &Inst, f: impl Fn(f16) -> f16) -> Step {
    let denorm = mode(cx, Class::Half)?;
    let a = flush16(f16::from_bits(cx.wave.scalar(inst.src[0]) as u16), denorm & 1 != 0);
    let value = flush16(f(a), denorm & 2 != 0).to_bits() as u32;
    put(cx, inst, value)
}
/// Fused a · b + d of f16, d being the destination's old value.
#[inline(always)]
pub fn fmac16(cx: &mut Cx, inst: &Inst) -> Step {
    let denorm = mode(cx, Class::Half)?;
    let read = |s: Src| flush16(f16::from_bits(cx.wave.scalar(s) as u16), denorm & 1 != 0);
    let value = fma16(read(inst.src[0]), read(inst.src[1]), read(Src::Sgpr(inst.dst)));
    let value = flush16(value, denorm & 2 != 0).to_bits() as u32;
    put(cx, inst, value)
}

/// Sum, difference or product of f16: exact enough in f32 (24 ≥ 2·11 + 2 bits) that the second rounding never shows.
#[inline(always)]
pub fn via_f32(f: impl Fn(f32, f32) -> f32) -> impl Fn(f16, f16) -> f16 {
    move |a, b| f16::from_f32(f(a.to_f32(), b.to_f32()))
}

/// a · b + c of f16 with one rounding. The f64 sum is rounded to odd, so that narrowing it cannot round twice.
pub fn fma16(a: f16, b: f16, c: f16) -> f16 {
    let product = a.to_f64() * b.to_f64(); // 22 bits: exact
    let c = c.to_f64();
    let sum = product + c;
    if !sum.is_finite() {
        return f16::from_f32(sum as f32);
    }
    // TwoSum: what the rounding of `sum` lost, exactly.
    let virtual_c = sum - product;
    let error = (product - (sum - virtual_c)) + (c - virtual_c);
    let odd = to_odd(sum, error);
    let single = odd as f32;
    let lost = odd - single as f64;
    let single = if lost == 0.0 || single.to_bits() & 1 != 0 || !single.is_finite() {
        single
    } else {
        f32::from_bits(nudge(single.to_bits() as u64, (lost > 0.0) == (single > 0.0)) as u32)
    };
    f16::from_f32(single)
}

fn to_odd(sum: f64, error: f64) -> f64 {
    if error == 0.0 || sum.to_bits() & 1 != 0 {
        return sum;
    }
    f64::from_bits(nudge(sum.to_bits(), (error > 0.0) == (sum > 0.0)))
}

fn nudge(bits: u64, away_from_zero: bool) -> u64 {
    if away_from_zero { bits + 1 } else { bits - 1 }
}

fn quiet(x: f32) -> f32 {
    f32::from_bits(x.to_bits() | 0x0040_0000)
}
/// minNum: a number wins over NaN, −0 is less than +0.
pub fn min_num(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => quiet(a),
        (true, false) => b,
        (false, true) => a,
        _ if a < b || a == b && a.is_sign_negative() => a,
        _ => b,
    }
}
/// maxNum: a number wins over NaN, −0 is less than +0.
pub fn max_num(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => quiet(a),
        (true, false) => b,
        (false, true) => a,
        _ if a > b || a == b && b.is_sign_negative() => a,
        _ => b,
    }
}
/// minimum: NaN wins, −0 is less than +0.
pub fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        quiet(a)
    } else if b.is_nan() {
        quiet(b)
    } else {
        min_num(a, b)
    }
}
/// maximum: NaN wins, −0 is less than +0.
pub fn maximum(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        quiet(a)
    } else if b.is_nan() {
        quiet(b)
    } else {
        max_num(a, b)
    }
}

/// f32 to f16 rounding toward zero: overflow gives the largest finite number.
pub fn f16_toward_zero(x: f32) -> u16 {
    let nearest = f16::from_f32(x);
    let too_big = nearest.to_f32().abs() > x.abs();
    nearest.to_bits() - too_big as u16
}

/// 16 quads of two bits each, or 8 of 32: a bit per quad that has any bit set.
pub fn quadmask(x: u64) -> u64 {
    let any = (x | x >> 1 | x >> 2 | x >> 3) & 0x1111_1111_1111_1111;
    (0..16).fold(0, |out, quad| out | (any >> (quad * 4) & 1) << quad)
}
/// Every quad that has a bit set becomes all ones.
pub fn whole_quads(x: u64) -> u64 {
    let any = (x | x >> 1 | x >> 2 | x >> 3) & 0x1111_1111_1111_1111;
    any * 15
}
/// Each bit doubled.
pub fn bitreplicate(x: u32) -> u64 {
    (0..32).fold(0, |out, bit| out | (x as u64 >> bit & 1) * 3 << (bit * 2))
}
