//! The usual vector instruction: 32-bit operands without modifiers, no DPP, all lanes on. Its sources are read where they stand and its
//! result goes straight to its register; the general way ([`super::lanes`]) copies each source to apply what is not there. Both compute
//! with the same function of one lane, and a test compares them. It decides nothing about MODE: that was checked before.

use super::lanes::Kind;
use crate::isa::{Inst, Mods, Src};
use crate::wave::{Cx, Lanes, Wave};
use std::marker::PhantomData;

/// Operand types whose value in a lane is a register's 32 bits, or nothing at all.
pub trait Bits: Copy {
    /// From a register. Called only where the kind says [`Kind::PLAIN`].
    fn from_bits(bits: u32) -> Self;
    /// To a register, likewise.
    fn to_bits(self) -> u32;
}

macro_rules! bits {
    ($($ty:ty: |$bits:ident| $from:expr, |$value:ident| $to:expr;)*) => {$(
        impl Bits for $ty {
            #[inline(always)]
            fn from_bits($bits: u32) -> Self {
                $from
            }
            #[inline(always)]
            fn to_bits(self) -> u32 {
                let $value = self;
                $to
            }
        }
    )*};
}
bits! {
    u32: |bits| bits, |value| value;
    i32: |bits| bits as i32, |value| value as u32;
    f32: |bits| f32::from_bits(bits), |value| value.to_bits();
    (): |_bits| (), |_value| 0;
    // Never plain; they need the trait because every kind has a value type.
    u16: |bits| bits as u16, |value| value as u32;
    i16: |bits| bits as i16, |value| value as u16 as u32;
    u64: |bits| bits as u64, |value| value as u32;
    i64: |bits| bits as i64, |value| value as u32;
    f64: |bits| f32::from_bits(bits) as f64, |value| (value as f32).to_bits();
    bool: |bits| bits != 0, |value| value as u32;
}

/// Whether the instruction is as usual as this file wants it.
#[inline(always)]
pub fn is_plain(wave: &Wave, inst: &Inst) -> bool {
    const NONE: Mods = Mods { neg: 0, abs: 0, opsel: 0, opsel_hi: 0, clamp: false, omod: 0 };
    inst.dpp.is_none() & (inst.mods == NONE) & (wave.exec() == u32::MAX)
}

/// Runs a plain instruction. Source 0 is often a scalar or a constant, so there is a loop with a register and one with a value in its
/// place. They are two functions because in one the compiler joins their ends before it has vectorised them, and spoils both.
#[inline(always)]
pub fn run<D: Kind, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
) {
    let (arch, kinds) = (cx.arch, PhantomData::<(D, A, B, C)>);
    let wave = &mut *cx.wave;
    match inst.src[0] {
        Src::Vgpr(first) => arch.dispatch(OfVectors { wave, first, inst, operation, kinds }),
        other => {
            let first = wave.scalar(other);
            arch.dispatch(OfScalar { wave, first, inst, operation, kinds });
        }
    }
}

/// One instruction for `pulp`, as [`super::lanes`] has them, whose source 0 is a vector register.
struct OfVectors<'x, D, A, B, C, F> {
    wave: &'x mut Wave,
    first: u8,
    inst: &'x Inst,
    operation: F,
    kinds: PhantomData<(D, A, B, C)>,
}

/// The same with a source 0 that is equal in all lanes.
struct OfScalar<'x, D, A, B, C, F> {
    wave: &'x mut Wave,
    first: u32,
    inst: &'x Inst,
    operation: F,
    kinds: PhantomData<(D, A, B, C)>,
}

impl<D: Kind, A: Kind, B: Kind, C: Kind, F: Fn(A::V, B::V, C::V) -> D::V> pulp::NullaryFnOnce
    for OfVectors<'_, D, A, B, C, F>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let OfVectors { wave, first, inst, operation, .. } = self;
        let a = &wave.vgpr[first as usize];
        let out = lanes::<D, A, B, C>(wave, inst, operation, |lane| a[lane]);
        wave.vgpr[inst.dst as usize] = out;
    }
}

impl<D: Kind, A: Kind, B: Kind, C: Kind, F: Fn(A::V, B::V, C::V) -> D::V> pulp::NullaryFnOnce
    for OfScalar<'_, D, A, B, C, F>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let OfScalar { wave, first, inst, operation, .. } = self;
        let out = lanes::<D, A, B, C>(wave, inst, operation, |_| first);
        wave.vgpr[inst.dst as usize] = out;
    }
}

/// The loop over lanes, eight at a time: a loop of 32 is unrolled before it is vectorised, and what is found then is uneven.
#[inline(always)]
fn lanes<D: Kind, A: Kind, B: Kind, C: Kind>(
    wave: &Wave,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
    a: impl Fn(usize) -> u32,
) -> Lanes {
    let (spread_b, spread_c);
    let b = match inst.src[1] {
        _ if !B::IS_THERE => &[0; 32],
        Src::Vgpr(index) => &wave.vgpr[index as usize],
        other => {
            spread_b = spread(wave, other);
            &spread_b
        }
    };
    let c = match inst.src[2] {
        _ if !C::IS_THERE => &[0; 32],
        Src::Vgpr(index) => &wave.vgpr[index as usize],
        other => {
            spread_c = spread(wave, other);
            &spread_c
        }
    };
    let mut out = [0; 32];
    for (eight, out) in out.chunks_exact_mut(8).enumerate() {
        for (lane, out) in out.iter_mut().enumerate() {
            let lane = 8 * eight + lane;
            let (a, b, c) = (A::V::from_bits(a(lane)), B::V::from_bits(b[lane]), C::V::from_bits(c[lane]));
            *out = operation(a, b, c).to_bits();
        }
    }
    out
}

/// A scalar or a constant in every lane. Not inlined: sources 1 and 2 are seldom any.
#[inline(never)]
fn spread(wave: &Wave, src: Src) -> Lanes {
    [wave.scalar(src); 32]
}
