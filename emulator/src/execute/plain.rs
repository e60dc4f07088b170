//! The usual vector instruction: 32-bit operands without modifiers, no DPP, all lanes on, MODE as at a launch, sources 1 and 2 in vector
//! registers. Its sources are read where they stand and its result goes straight to its register; the general way ([`super::lanes`])
//! copies each source to apply what is not there. Both compute with the same function of one lane, and a test compares them. What the
//! general way asks one after the other, this one asks at once: four fifths of all vector instructions come through here.

use super::lanes::{Kind, MODE_DEFAULT};
use crate::isa::{Inst, Short, flags};
use crate::wave::{Cx, Lanes};
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

/// Runs the instruction if it is as usual as this file wants it; false, and nothing done, if not. Sources 1 and 2 must be vector
/// registers where there are any; source 0 is often a scalar or a constant, so there is a loop with a register and one with a value in
/// its place. They are two functions because in one the compiler joins their ends before it has vectorised them, and spoils both.
#[inline(always)]
pub fn run<D: Kind, A: Kind, B: Kind, C: Kind>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    operation: impl Fn(A::V, B::V, C::V) -> D::V + Copy,
) -> bool {
    let (kinds, wave, short) = (PhantomData::<(D, A, B, C)>, &mut *cx.wave, &inst.short);
    let wanted = Short::PLAIN | (B::IS_THERE as u8) << 1 | (C::IS_THERE as u8) << 2;
    let unusual = (wave.exec() ^ u32::MAX) | (wave.mode ^ MODE_DEFAULT) & flags::MODE;
    if short.kinds & wanted != wanted || unusual != 0 {
        return false;
    }
    let (registers, vgpr) = (short.registers, &mut *wave.vgpr);
    if short.kinds & 1 != 0 {
        cx.arch.dispatch_made(|| OfVectors { vgpr, registers, operation, kinds });
        return true;
    }
    let scalar = wave.sgpr[(registers[1] & 127) as usize];
    let first = if short.kinds & Short::CONSTANT != 0 { short.constant } else { scalar };
    cx.arch.dispatch_made(|| OfScalar { vgpr, first, registers, operation, kinds });
    true
}

/// One instruction for `pulp`, as [`super::lanes`] has them, whose source 0 is a vector register. Registers: destination, sources.
struct OfVectors<'x, D, A, B, C, F> {
    vgpr: &'x mut [Lanes; 256],
    registers: [u8; 4],
    operation: F,
    kinds: PhantomData<(D, A, B, C)>,
}

/// The same with a source 0 that is equal in all lanes.
struct OfScalar<'x, D, A, B, C, F> {
    vgpr: &'x mut [Lanes; 256],
    first: u32,
    registers: [u8; 4],
    operation: F,
    kinds: PhantomData<(D, A, B, C)>,
}

impl<D: Kind, A: Kind, B: Kind, C: Kind, F: Fn(A::V, B::V, C::V) -> D::V> pulp::NullaryFnOnce
    for OfVectors<'_, D, A, B, C, F>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let OfVectors { vgpr, registers, operation, .. } = self;
        let [dst, a, b, c] = registers.map(usize::from);
        vgpr[dst] = lanes::<D, A, B, C>(operation, |lane| vgpr[a][lane], &vgpr[b], &vgpr[c]);
    }
}

impl<D: Kind, A: Kind, B: Kind, C: Kind, F: Fn(A::V, B::V, C::V) -> D::V> pulp::NullaryFnOnce
    for OfScalar<'_, D, A, B, C, F>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let OfScalar { vgpr, first, registers, operation, .. } = self;
        let [dst, _, b, c] = registers.map(usize::from);
        vgpr[dst] = lanes::<D, A, B, C>(operation, |_| first, &vgpr[b], &vgpr[c]);
    }
}

/// The loop over lanes, eight at a time: a loop of 32 is unrolled before it is vectorised, and what is found then is uneven.
#[inline(always)]
fn lanes<D: Kind, A: Kind, B: Kind, C: Kind>(
    operation: impl Fn(A::V, B::V, C::V) -> D::V,
    a: impl Fn(usize) -> u32,
    b: &Lanes,
    c: &Lanes,
) -> Lanes {
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
