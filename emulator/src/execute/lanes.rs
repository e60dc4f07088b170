//! One vector instruction over 32 lanes: read the sources as typed lanes (modifiers, DPP and halves applied), run the operation in a
//! loop that the compiler vectorises, write the result under EXEC. A [`Kind`] per operand type does reading and writing; the
//! operation itself is a plain function of one lane. It knows no opcodes.
//!
//! The loops know one float mode: nearest even with denormals kept, as kernels start. Where MODE differs in a way that matters to the
//! row, or an output modifier is set, a second, slower loop runs over the same operands in their own formats ([`Kind::Exact`]).

#![allow(clippy::needless_range_loop, reason = "a lane number indexes several arrays and shifts masks")]

use crate::execute::plain::{self, Bits};
use crate::execute::{convert, dpp, soft_float};
use crate::fault::Fault;
use crate::isa::{Inst, Src, flags};
use crate::wave::{Cx, Flow, Lanes, Step, Wave};
use half::f16;
use std::marker::PhantomData;

/// MODE at a launch: round to nearest even, denormals kept, for all float types.
pub const MODE_DEFAULT: u32 = 0xf0;

/// How operands of one type are read.
pub trait Kind {
    /// A lane's value as the fast loop computes with it.
    type V: Bits;
    /// A lane's value in the operand's own format.
    type Exact: Copy;
    /// Whether the value is a register's 32 bits and nothing else.
    const PLAIN: bool = false;
    /// Whether there is a value at all.
    const IS_THERE: bool = true;
    /// Source `i`, all lanes.
    fn read(wave: &Wave, inst: &Inst, i: usize) -> [Self::V; 32];
    /// Source `i`, all lanes, in the operand's own format.
    fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [Self::Exact; 32];
    /// An operand for an operation that rounds nothing: a denormal as MODE lets it in.
    fn enter(mode: u32, value: Self::Exact) -> Self::V;
}

/// How results of one type are written.
pub trait Out: Kind {
    /// What the lane loop starts from; every lane is overwritten.
    const ZERO: Self::V;
    /// Whether the output modifier and clamp act on the type as on a float.
    const MODIFIED: bool = false;
    /// Writes the destination under EXEC and the DPP masks, after omod and clamp.
    fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[Self::V; 32]);
    /// A result in the destination's format, a denormal as MODE lets it out.
    fn leave(mode: u32, value: Self::V) -> Self::Exact;
    /// A float result after omod and clamp.
    fn modify(_mode: u32, _inst: &Inst, value: Self::Exact) -> Self::Exact {
        value
    }
    /// Writes the destination under EXEC and the DPP masks.
    fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[Self::Exact; 32]);
}

/// A fault for a form that is known but not executed.
pub fn unsupported(text: impl Into<String>) -> Box<Fault> {
    Box::new(Fault::Unsupported(text.into()))
}

/// Whether the fast loop would give something else than MODE and the output modifier ask for.
#[inline(always)]
pub fn needs_mode(cx: &Cx<'_>, inst: &Inst) -> bool {
    (cx.wave.mode ^ MODE_DEFAULT) & inst.row.flags & flags::MODE != 0 || inst.mods.omod != 0
}

/// MODE as the row obeys it. With an output modifier, denormal results become zero whatever MODE says.
pub fn mode_of(cx: &Cx<'_>, inst: &Inst, modified: bool) -> u32 {
    let mode = if inst.row.flags & flags::EXACT != 0 { MODE_DEFAULT } else { cx.wave.mode };
    if modified && inst.mods.omod != 0 { soft_float::flushing_outputs(mode) } else { mode }
}

/// Lanes that the instruction writes.
#[inline(always)]
pub fn write_mask(wave: &Wave, inst: &Inst) -> u32 {
    match inst.dpp {
        None => wave.exec(),
        Some(control) => dpp::written(wave.exec(), control),
    }
}

/// The 32-bit register of source `i`, after DPP, before modifiers.
#[inline(always)]
pub fn raw(wave: &Wave, inst: &Inst, i: usize) -> Lanes {
    match inst.dpp {
        Some(control) if i == 0 => dpp::fetch(wave.exec(), &wave.lanes(inst.src[0]), control),
        _ => wave.lanes(inst.src[i]),
    }
}

#[inline(always)]
fn sign_bits(inst: &Inst, i: usize) -> (bool, bool) {
    (inst.mods.abs >> i & 1 != 0, inst.mods.neg >> i & 1 != 0)
}

/// abs then neg on the sign bit `sign`.
#[inline(always)]
fn modify(lanes: &mut Lanes, inst: &Inst, i: usize, sign: u32) {
    if inst.mods.abs | inst.mods.neg == 0 {
        return;
    }
    let (abs, neg) = sign_bits(inst, i);
    let clear = if abs { !sign } else { u32::MAX };
    let flip = if neg { sign } else { 0 };
    for lane in lanes.iter_mut() {
        *lane = (*lane & clear) ^ flip;
    }
}

/// A conversion in every lane. `array::map` would not be inlined into code for AVX2.
#[inline(always)]
fn each<A: Copy, B: Copy>(lanes: &[A; 32], zero: B, convert: impl Fn(A) -> B) -> [B; 32] {
    let mut out = [zero; 32];
    for lane in 0..32 {
        out[lane] = convert(lanes[lane]);
    }
    out
}

/// Source `i` as 32 bits.
#[inline(always)]
fn read32(wave: &Wave, inst: &Inst, i: usize) -> Lanes {
    let mut lanes = raw(wave, inst, i);
    modify(&mut lanes, inst, i, 0x8000_0000);
    lanes
}

/// Source `i` as 16 bits in the low half.
#[inline(always)]
fn read16(wave: &Wave, inst: &Inst, i: usize) -> Lanes {
    let mut lanes = raw(wave, inst, i);
    // Constants have no high half to choose.
    let high = inst.mods.opsel >> i & 1 != 0 && !matches!(inst.src[i], Src::Const(_));
    let shift = if high { 16 } else { 0 };
    for lane in lanes.iter_mut() {
        *lane = (*lane >> shift) & 0xffff;
    }
    modify(&mut lanes, inst, i, 0x8000);
    lanes
}

/// Source `i` as 64 bits.
#[inline(always)]
fn read64(wave: &Wave, inst: &Inst, i: usize) -> [u64; 32] {
    let (low, high) = wave.lanes64(inst.src[i]);
    let (abs, neg) = sign_bits(inst, i);
    let clear = if abs { !(1 << 63) } else { u64::MAX };
    let flip = if neg { 1 << 63 } else { 0 };
    let mut out = [0; 32];
    for lane in 0..32 {
        let value = low[lane] as u64 | (high[lane] as u64) << 32;
        out[lane] = (value & clear) ^ flip;
    }
    out
}

#[inline(always)]
fn write32(cx: &mut Cx<'_>, inst: &Inst, out: &Lanes) {
    let mask = write_mask(cx.wave, inst);
    cx.wave.set_lanes(inst.dst, mask, out);
}

/// Writes one half of the register and keeps the other.
#[inline(always)]
fn write16(cx: &mut Cx<'_>, inst: &Inst, out: &Lanes) {
    let mask = write_mask(cx.wave, inst);
    let (shift, keep) = if inst.mods.opsel & 8 != 0 { (16, 0x0000_ffff) } else { (0, 0xffff_0000) };
    let mut whole = cx.wave.vgpr[inst.dst as usize];
    for lane in 0..32 {
        whole[lane] = (whole[lane] & keep) | (out[lane] & 0xffff) << shift;
    }
    cx.wave.set_lanes(inst.dst, mask, &whole);
}

#[inline(always)]
fn write64(cx: &mut Cx<'_>, inst: &Inst, out: &[u64; 32]) {
    let mask = write_mask(cx.wave, inst);
    let (mut low, mut high) = ([0; 32], [0; 32]);
    for lane in 0..32 {
        low[lane] = out[lane] as u32;
        high[lane] = (out[lane] >> 32) as u32;
    }
    cx.wave.set_lanes(inst.dst, mask, &low);
    cx.wave.set_lanes(inst.dst.wrapping_add(1), mask, &high);
}

/// Writes a lane mask: 0 for lanes that are off. The destination EXEC is what `v_cmpx` names.
#[inline(always)]
pub fn write_lane_mask(cx: &mut Cx<'_>, inst: &Inst, register: u8, bits: u32) {
    let mask = write_mask(cx.wave, inst);
    cx.wave.set_sgpr(register, bits & mask);
}

/// Clamp of a float result in the fast loop: NaN and −0 become +0.
macro_rules! clamp_float {
    ($name:ident, $float:ty) => {
        #[cold]
        fn $name(out: &mut [$float; 32]) {
            for value in out.iter_mut() {
                // Adding +0 makes −0 positive.
                *value = if value.is_nan() { 0.0 } else { value.max(0.0).min(1.0) + 0.0 };
            }
        }
    };
}
clamp_float!(clamp_f32, f32);
clamp_float!(clamp_f64, f64);

macro_rules! kinds32 {
    ($($(#[$doc:meta])* $name:ident $value:ty;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Kind for $name {
            type V = $value;
            type Exact = $value;
            const PLAIN: bool = true;
            #[inline(always)]
            fn read(wave: &Wave, inst: &Inst, i: usize) -> [$value; 32] {
                bytemuck::cast(read32(wave, inst, i))
            }
            fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [$value; 32] {
                Self::read(wave, inst, i)
            }
            fn enter(_: u32, value: $value) -> $value {
                value
            }
        }
        impl Out for $name {
            const ZERO: $value = 0;
            #[inline(always)]
            fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[$value; 32]) {
                write32(cx, inst, bytemuck::cast_ref(out));
            }
            fn leave(_: u32, value: $value) -> $value {
                value
            }
            fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[$value; 32]) {
                Self::write(cx, inst, out);
            }
        }
    )*};
}
kinds32! {
    /// 32 bits.
    B32 u32;
    /// Unsigned 32 bits.
    U32 u32;
    /// Signed 32 bits.
    I32 i32;
    /// Two halves as one word.
    PkB16 u32;
    /// Two f16 as one word.
    PkF16 u32;
    /// Two bf16 as one word.
    PkBf16 u32;
}

macro_rules! kinds16 {
    ($($(#[$doc:meta])* $name:ident $value:ty;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Kind for $name {
            type V = $value;
            type Exact = $value;
            #[inline(always)]
            fn read(wave: &Wave, inst: &Inst, i: usize) -> [$value; 32] {
                each(&read16(wave, inst, i), 0, |bits| bits as u16 as $value)
            }
            fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [$value; 32] {
                Self::read(wave, inst, i)
            }
            fn enter(_: u32, value: $value) -> $value {
                value
            }
        }
        impl Out for $name {
            const ZERO: $value = 0;
            #[inline(always)]
            fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[$value; 32]) {
                write16(cx, inst, &each(out, 0, |value| value as u16 as u32));
            }
            fn leave(_: u32, value: $value) -> $value {
                value
            }
            fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[$value; 32]) {
                Self::write(cx, inst, out);
            }
        }
    )*};
}
kinds16! {
    /// 16 bits.
    B16 u16;
    /// Unsigned 16 bits.
    U16 u16;
    /// Signed 16 bits.
    I16 i16;
    /// bf16 bits.
    Bf16 u16;
}

macro_rules! kinds64 {
    ($($(#[$doc:meta])* $name:ident $value:ty;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Kind for $name {
            type V = $value;
            type Exact = $value;
            #[inline(always)]
            fn read(wave: &Wave, inst: &Inst, i: usize) -> [$value; 32] {
                bytemuck::cast(read64(wave, inst, i))
            }
            fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [$value; 32] {
                Self::read(wave, inst, i)
            }
            fn enter(_: u32, value: $value) -> $value {
                value
            }
        }
        impl Out for $name {
            const ZERO: $value = 0;
            #[inline(always)]
            fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[$value; 32]) {
                write64(cx, inst, bytemuck::cast_ref(out));
            }
            fn leave(_: u32, value: $value) -> $value {
                value
            }
            fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[$value; 32]) {
                Self::write(cx, inst, out);
            }
        }
    )*};
}
kinds64! {
    /// 64 bits.
    B64 u64;
    /// Unsigned 64 bits.
    U64 u64;
    /// Signed 64 bits.
    I64 i64;
}

/// f32.
pub struct F32;
impl Kind for F32 {
    type V = f32;
    type Exact = f32;
    const PLAIN: bool = true;
    #[inline(always)]
    fn read(wave: &Wave, inst: &Inst, i: usize) -> [f32; 32] {
        bytemuck::cast(read32(wave, inst, i))
    }
    fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [f32; 32] {
        Self::read(wave, inst, i)
    }
    fn enter(mode: u32, value: f32) -> f32 {
        soft_float::input(mode, value)
    }
}
impl Out for F32 {
    const ZERO: f32 = 0.0;
    const MODIFIED: bool = true;
    #[inline(always)]
    fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[f32; 32]) {
        if inst.mods.clamp {
            let mut out = *out;
            clamp_f32(&mut out);
            return write32(cx, inst, bytemuck::cast_ref(&out));
        }
        write32(cx, inst, bytemuck::cast_ref(out));
    }
    fn leave(mode: u32, value: f32) -> f32 {
        soft_float::output(mode, value)
    }
    fn modify(mode: u32, inst: &Inst, value: f32) -> f32 {
        soft_float::modify(mode, inst.mods.omod, inst.mods.clamp, value)
    }
    fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[f32; 32]) {
        write32(cx, inst, bytemuck::cast_ref(out));
    }
}

/// f64.
pub struct F64;
impl Kind for F64 {
    type V = f64;
    type Exact = f64;
    #[inline(always)]
    fn read(wave: &Wave, inst: &Inst, i: usize) -> [f64; 32] {
        bytemuck::cast(read64(wave, inst, i))
    }
    fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [f64; 32] {
        Self::read(wave, inst, i)
    }
    fn enter(mode: u32, value: f64) -> f64 {
        soft_float::input(mode, value)
    }
}
impl Out for F64 {
    const ZERO: f64 = 0.0;
    const MODIFIED: bool = true;
    #[inline(always)]
    fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[f64; 32]) {
        if inst.mods.clamp {
            let mut out = *out;
            clamp_f64(&mut out);
            return write64(cx, inst, bytemuck::cast_ref(&out));
        }
        write64(cx, inst, bytemuck::cast_ref(out));
    }
    fn leave(mode: u32, value: f64) -> f64 {
        soft_float::output(mode, value)
    }
    fn modify(mode: u32, inst: &Inst, value: f64) -> f64 {
        soft_float::modify(mode, inst.mods.omod, inst.mods.clamp, value)
    }
    fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[f64; 32]) {
        write64(cx, inst, bytemuck::cast_ref(out));
    }
}

/// f16, computed as f32: reading is exact, and writing rounds once. +, −, ·, ÷ and √ of f16 values come out correctly rounded that way
/// (f32 has more than twice the digits); fused operations bring their own rounding ([`crate::execute::float::fma_f16`]).
pub struct F16;
impl Kind for F16 {
    type V = f32;
    type Exact = f16;
    #[inline(always)]
    fn read(wave: &Wave, inst: &Inst, i: usize) -> [f32; 32] {
        each(&read16(wave, inst, i), 0.0, convert::f16_to_f32)
    }
    fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [f16; 32] {
        read16(wave, inst, i).map(|bits| f16::from_bits(bits as u16))
    }
    fn enter(mode: u32, value: f16) -> f32 {
        convert::f16_to_f32(soft_float::input(mode, value).to_bits() as u32)
    }
}
impl Out for F16 {
    const ZERO: f32 = 0.0;
    const MODIFIED: bool = true;
    #[inline(always)]
    fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[f32; 32]) {
        if inst.mods.clamp {
            // Clamp acts on the rounded result; its bounds are f16 values, so the order does not show.
            let mut out = *out;
            clamp_f32(&mut out);
            return write16(cx, inst, &each(&out, 0, convert::f32_to_f16));
        }
        write16(cx, inst, &each(out, 0, convert::f32_to_f16));
    }
    /// Rounds to nearest even: what comes here is exact, or an approximation whose direction of rounding is not MODE's.
    fn leave(mode: u32, value: f32) -> f16 {
        const KEEP_F32: u32 = 0x10;
        soft_float::convert(soft_float::to_nearest(mode) | KEEP_F32, value)
    }
    fn modify(mode: u32, inst: &Inst, value: f16) -> f16 {
        soft_float::modify(mode, inst.mods.omod, inst.mods.clamp, value)
    }
    fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[f16; 32]) {
        write16(cx, inst, &out.map(|value| value.to_bits() as u32));
    }
}

/// A bit per lane.
pub struct Mask;
impl Kind for Mask {
    type V = bool;
    type Exact = bool;
    #[inline(always)]
    fn read(wave: &Wave, inst: &Inst, i: usize) -> [bool; 32] {
        let bits = wave.scalar(inst.src[i]);
        let mut out = [false; 32];
        for lane in 0..32 {
            out[lane] = bits >> lane & 1 != 0;
        }
        out
    }
    fn read_exact(wave: &Wave, inst: &Inst, i: usize) -> [bool; 32] {
        Self::read(wave, inst, i)
    }
    fn enter(_: u32, value: bool) -> bool {
        value
    }
}
impl Out for Mask {
    const ZERO: bool = false;
    #[inline(always)]
    fn write(cx: &mut Cx<'_>, inst: &Inst, out: &[bool; 32]) {
        write_lane_mask(cx, inst, inst.dst, bits(out));
    }
    fn leave(_: u32, value: bool) -> bool {
        value
    }
    fn write_exact(cx: &mut Cx<'_>, inst: &Inst, out: &[bool; 32]) {
        Self::write(cx, inst, out);
    }
}

/// Lane masks from booleans.
#[inline(always)]
pub fn bits(lanes: &[bool; 32]) -> u32 {
    let mut out = 0;
    for (lane, &value) in lanes.iter().enumerate() {
        out |= (value as u32) << lane;
    }
    out
}

/// One instruction for `pulp`: reading, the lane loop and writing, all compiled for AVX2. A struct and not a closure, because only a
/// method can be `inline(always)` on the way into the function that is compiled so.
struct Map<'x, 'c, D, A, B, C, F> {
    cx: &'x mut Cx<'c>,
    inst: &'x Inst,
    operation: F,
    kinds: PhantomData<(D, A, B, C)>,
}

impl<D: Out, A: Kind, B: Kind, C: Kind, F: Fn(A::V, B::V, C::V) -> D::V> pulp::NullaryFnOnce
    for Map<'_, '_, D, A, B, C, F>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Map { cx, inst, operation, .. } = self;
        let (a, b, c) = (A::read(cx.wave, inst, 0), B::read(cx.wave, inst, 1), C::read(cx.wave, inst, 2));
        let mut out = [D::ZERO; 32];
        for lane in 0..32 {
            out[lane] = operation(a[lane], b[lane], c[lane]);
        }
        D::write(cx, inst, &out);
    }
}

/// A source that an operation does not have.
pub struct Nothing;
impl Kind for Nothing {
    type V = ();
    type Exact = ();
    const PLAIN: bool = true;
    const IS_THERE: bool = false;
    #[inline(always)]
    fn read(_: &Wave, _: &Inst, _: usize) -> [(); 32] {
        [(); 32]
    }
    fn read_exact(_: &Wave, _: &Inst, _: usize) -> [(); 32] {
        [(); 32]
    }
    fn enter(_: u32, (): ()) {}
}

/// A lane loop whose body picks its own operands.
pub struct EachLane<F>(pub F);

impl<F: Fn(usize) -> u32> pulp::NullaryFnOnce for EachLane<F> {
    type Output = Lanes;
    #[inline(always)]
    fn call(self) -> Lanes {
        let mut out = [0; 32];
        for (lane, out) in out.iter_mut().enumerate() {
            *out = (self.0)(lane);
        }
        out
    }
}

/// D = operation(source 0) in every lane.
#[inline(always)]
pub fn map1<D: Out, A: Kind>(cx: &mut Cx<'_>, inst: &Inst, operation: impl Fn(A::V) -> D::V + Copy) -> Step {
    map::<D, A, Nothing, Nothing>(cx, inst, |a, (), ()| operation(a))
}

/// D = operation(source 0, source 1) in every lane.
#[inline(always)]
pub fn map2<D: Out, A: Kind, B: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V) -> D::V + Copy,
) -> Step {
    map::<D, A, B, Nothing>(cx, inst, |a, b, ()| operation(a, b))
}

/// D = operation(sources) in every lane. Operands and results are flushed as MODE says; the operation itself rounds nothing, or not
/// as MODE says.
#[inline(always)]
pub fn map<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V + Copy,
) -> Step {
    flushing::<D, A, B, C>(cx, inst, true, operation)
}

/// [`map`] of an operation that gives on one of its operands: a denormal that came in goes out.
#[inline(always)]
pub fn selecting<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V + Copy,
) -> Step {
    flushing::<D, A, B, C>(cx, inst, false, operation)
}

/// D = operation(sources); in a MODE that asks for it operands are flushed, and results if `results` says so.
#[inline(always)]
fn flushing<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    results: bool,
    operation: impl Fn(A::V, B::V, C::V) -> D::V + Copy,
) -> Step {
    if plainly::<D, A, B, C>(cx, inst, operation) {
        return Ok(Flow::Next);
    }
    generally_flushing::<D, A, B, C>(cx, inst, results, operation)
}

/// [`map`] of an operation that rounds: `soft` does it, flushing included, as its first argument (MODE) says.
#[inline(always)]
pub fn rounding<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V + Copy,
    soft: impl Fn(u32, A::Exact, B::Exact, C::Exact) -> D::Exact,
) -> Step {
    if plainly::<D, A, B, C>(cx, inst, operation) {
        return Ok(Flow::Next);
    }
    generally_rounding::<D, A, B, C>(cx, inst, operation, soft)
}

/// D = `soft`(MODE, sources) in every lane, whatever MODE is: for operations that no vector loop would make faster.
pub fn softly<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    soft: impl Fn(u32, A::Exact, B::Exact, C::Exact) -> D::Exact,
) -> Step {
    soft_in_mode::<D, A, B, C>(cx, inst, soft)
}

/// The short way, where the types and the instruction allow it; false, and nothing done, where they do not.
#[inline(always)]
fn plainly<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V + Copy,
) -> bool {
    D::PLAIN && A::PLAIN && B::PLAIN && C::PLAIN && plain::run::<D, A, B, C>(cx, inst, operation)
}

/// [`flushing`] for what does not go the short way. A function of its own, so that the short way does not save registers for it.
#[inline(never)]
fn generally_flushing<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    results: bool,
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
) -> Step {
    if needs_mode(cx, inst) {
        return in_mode::<D, A, B, C>(cx, inst, results, operation);
    }
    mapped::<D, A, B, C>(cx, inst, operation)
}

/// [`rounding`] likewise.
#[inline(never)]
fn generally_rounding<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
    soft: impl Fn(u32, A::Exact, B::Exact, C::Exact) -> D::Exact,
) -> Step {
    if needs_mode(cx, inst) {
        return soft_in_mode::<D, A, B, C>(cx, inst, soft);
    }
    mapped::<D, A, B, C>(cx, inst, operation)
}

#[inline(always)]
fn mapped<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
) -> Step {
    let arch = cx.arch;
    arch.dispatch_made(|| Map { cx, inst, operation, kinds: PhantomData::<(D, A, B, C)> });
    Ok(Flow::Next)
}

#[cold]
fn in_mode<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    flushed: bool,
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
) -> Step {
    let mode = mode_of(cx, inst, D::MODIFIED);
    let out_mode = if flushed { mode } else { mode | MODE_DEFAULT };
    soft_in_mode::<D, A, B, C>(cx, inst, |_, a, b, c| {
        D::leave(out_mode, operation(A::enter(mode, a), B::enter(mode, b), C::enter(mode, c)))
    })
}

#[cold]
fn soft_in_mode<D: Out, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    soft: impl Fn(u32, A::Exact, B::Exact, C::Exact) -> D::Exact,
) -> Step {
    let mode = mode_of(cx, inst, D::MODIFIED);
    let wave = &*cx.wave;
    let (a, b, c) = (A::read_exact(wave, inst, 0), B::read_exact(wave, inst, 1), C::read_exact(wave, inst, 2));
    let out = std::array::from_fn(|lane| D::modify(mode, inst, soft(mode, a[lane], b[lane], c[lane])));
    D::write_exact(cx, inst, &out);
    Ok(Flow::Next)
}
