//! Semantics of the scalar unit: reading operands, writing results and SCC, and the scalar float operations. No opcodes.
//!
//! A `null` destination drops the result and leaves SCC alone, as the manual says. Float operations follow MODE as those of the vector
//! unit do: where it is as at a launch and no NaN comes out, by the host's own arithmetic, else by [`super::soft_float`]. An f16 result
//! fills the low half of the register, its high half becomes 0.

use super::soft_float::{self as soft, Soft};
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

/// The bits of MODE that concern f32, and their value where the host's arithmetic is the same.
const F32_FIELDS: u32 = 0x33;
const F32_LAUNCH: u32 = 0x30;

#[inline(always)]
fn read32(cx: &Cx, src: Src) -> f32 {
    f32::from_bits(cx.wave.scalar(src))
}
#[inline(always)]
fn read16(cx: &Cx, src: Src) -> f16 {
    f16::from_bits(cx.wave.scalar(src) as u16)
}

/// The host's result where it is certainly right, else that of `exact`.
#[inline(always)]
fn host_or(mode: u32, host: f32, exact: impl FnOnce() -> f32) -> u32 {
    if mode & F32_FIELDS == F32_LAUNCH && !host.is_nan() { host.to_bits() } else { exact().to_bits() }
}

/// f32 operation with two sources: as the host has it, and by MODE.
#[inline(always)]
pub fn float2(cx: &mut Cx, inst: &Inst, host: impl Fn(f32, f32) -> f32, exact: impl Fn(u32, f32, f32) -> f32) -> Step {
    let (mode, a, b) = (cx.wave.mode, read32(cx, inst.src[0]), read32(cx, inst.src[1]));
    put(cx, inst, host_or(mode, host(a, b), || exact(mode, a, b)))
}
/// Fused a · b + c of f32 sources given in place.
#[inline(always)]
pub fn fma32(cx: &mut Cx, inst: &Inst, a: Src, b: Src, c: Src) -> Step {
    let mode = cx.wave.mode;
    let [a, b, c] = [a, b, c].map(|src| read32(cx, src));
    put(cx, inst, host_or(mode, a.mul_add(b, c), || soft::fma(mode, a, b, c)))
}
/// Selection of one of two f32, which MODE only flushes.
#[inline(always)]
pub fn pick32(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32) -> f32) -> Step {
    let mode = cx.wave.mode;
    let [a, b] = [0, 1].map(|n| soft::input(mode, read32(cx, inst.src[n])));
    let value = soft::output(mode, f(a, b)).to_bits();
    put(cx, inst, value)
}
/// [`pick32`] of f16, chosen as f32 would be.
pub fn pick16(cx: &mut Cx, inst: &Inst, f: impl Fn(f16, f16) -> f16) -> Step {
    let mode = cx.wave.mode;
    let [a, b] = [0, 1].map(|n| soft::input(mode, read16(cx, inst.src[n])));
    let value = soft::output(mode, f(a, b)).to_bits() as u32;
    put(cx, inst, value)
}
/// f32 to an integral f32.
pub fn integral32(cx: &mut Cx, inst: &Inst, f: impl Fn(f32) -> f32) -> Step {
    let a = soft::input(cx.wave.mode, read32(cx, inst.src[0]));
    let value = if a.is_nan() { soft::quiet(a) } else { f(a) };
    put(cx, inst, value.to_bits())
}
/// f16 to an integral f16, by f32, which holds every f16.
pub fn integral16(cx: &mut Cx, inst: &Inst, f: impl Fn(f32) -> f32) -> Step {
    let a = soft::input(cx.wave.mode, read16(cx, inst.src[0]));
    let value = if a.is_nan() { soft::quiet(a) } else { f16::from_f32(f(a.to_f32())) };
    put(cx, inst, value.to_bits() as u32)
}
/// Conversion of an f32 to an integer, which truncates whatever MODE says.
pub fn to_integer(cx: &mut Cx, inst: &Inst, f: impl Fn(f32) -> u32) -> Step {
    let value = f(read32(cx, inst.src[0]));
    put(cx, inst, value)
}
/// Conversion of an integer to f32.
pub fn from_integer(cx: &mut Cx, inst: &Inst, widen: impl Fn(u32) -> i64) -> Step {
    let value: f32 = soft::from_int(cx.wave.mode, widen(cx.wave.scalar(inst.src[0])));
    put(cx, inst, value.to_bits())
}
/// f32 to f16.
pub fn narrow16(cx: &mut Cx, inst: &Inst) -> Step {
    let value: f16 = soft::convert(cx.wave.mode, read32(cx, inst.src[0]));
    put(cx, inst, value.to_bits() as u32)
}
/// Two f32 to f16 towards zero, packed.
pub fn pack_rtz(cx: &mut Cx, inst: &Inst) -> Step {
    let mode = soft::towards_zero(cx.wave.mode);
    let [low, high] = [0, 1].map(|n| {
        let value: f16 = soft::convert(mode, read32(cx, inst.src[n]));
        value.to_bits() as u32
    });
    put(cx, inst, low | high << 16)
}
/// f16 to f32; `half` takes its bits out of the source.
pub fn widen32(cx: &mut Cx, inst: &Inst, half: impl Fn(u32) -> u32) -> Step {
    let half = f16::from_bits(half(cx.wave.scalar(inst.src[0])) as u16);
    let value: f32 = soft::convert(cx.wave.mode, half);
    put(cx, inst, value.to_bits())
}
/// SCC = f(a, b) on f32.
#[inline(always)]
pub fn compare_float(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32) -> bool) -> Step {
    let [a, b] = [0, 1].map(|n| soft::input(cx.wave.mode, read32(cx, inst.src[n])));
    cx.wave.scc = f(a, b);
    Ok(Flow::Next)
}
/// SCC = f(a, b) on f16, compared as f32, which holds every f16.
#[inline(always)]
pub fn compare_half(cx: &mut Cx, inst: &Inst, f: impl Fn(f32, f32) -> bool) -> Step {
    let [a, b] = [0, 1].map(|n| soft::input(cx.wave.mode, read16(cx, inst.src[n])));
    cx.wave.scc = f(a.to_f32(), b.to_f32());
    Ok(Flow::Next)
}
/// f16 operation with two sources.
pub fn half2(cx: &mut Cx, inst: &Inst, exact: impl Fn(u32, f16, f16) -> f16) -> Step {
    let value = exact(cx.wave.mode, read16(cx, inst.src[0]), read16(cx, inst.src[1]));
    put(cx, inst, value.to_bits() as u32)
}
/// Fused a · b + d of f16, d being the destination's old value.
pub fn fmac16(cx: &mut Cx, inst: &Inst) -> Step {
    let [a, b, c] = [inst.src[0], inst.src[1], Src::Sgpr(inst.dst)].map(|src| read16(cx, src));
    let value = soft::fma(cx.wave.mode, a, b, c);
    put(cx, inst, value.to_bits() as u32)
}

/// Order of numbers, with −0 below +0.
fn below<T: Soft + PartialOrd>(a: T, b: T) -> bool {
    a < b || a == b && a.bits() > b.bits()
}
/// The smaller or the larger of two: a number wins over NaN, the first of two NaN is quieted.
fn number_first<T: Soft + PartialOrd>(a: T, b: T, larger: bool) -> T {
    match (soft::is_nan(a), soft::is_nan(b)) {
        (true, true) => soft::quiet(a),
        (true, false) => b,
        (false, true) => a,
        _ if below(a, b) == larger => b,
        _ => a,
    }
}
/// As [`number_first`], but NaN wins, and a signalling one over a quiet one.
fn nan_first<T: Soft + PartialOrd>(a: T, b: T, larger: bool) -> T {
    let signals = |x: T| soft::is_nan(x) && soft::quiet(x).bits() != x.bits();
    match (soft::is_nan(a), soft::is_nan(b)) {
        (true, true) if signals(b) && !signals(a) => soft::quiet(b),
        (true, _) => soft::quiet(a),
        (_, true) => soft::quiet(b),
        _ => number_first(a, b, larger),
    }
}
/// minNum: a number wins over NaN, −0 is less than +0.
pub fn min_num<T: Soft + PartialOrd>(a: T, b: T) -> T {
    number_first(a, b, false)
}
/// maxNum: a number wins over NaN, −0 is less than +0.
pub fn max_num<T: Soft + PartialOrd>(a: T, b: T) -> T {
    number_first(a, b, true)
}
/// minimum: NaN wins, −0 is less than +0.
pub fn minimum<T: Soft + PartialOrd>(a: T, b: T) -> T {
    nan_first(a, b, false)
}
/// maximum: NaN wins, −0 is less than +0.
pub fn maximum<T: Soft + PartialOrd>(a: T, b: T) -> T {
    nan_first(a, b, true)
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
