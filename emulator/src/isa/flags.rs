//! What the forms of a vector ALU row allow, as bits of [`super::Row::flags`]. Formats outside VOP1, VOP2, VOPC and VOP3 have their own.

use super::Ty;
use crate::execute::soft_float::FP16_OVFL;

/// MODE bits that the row's arithmetic depends on, at their places in MODE.
pub const MODE: u32 = MODE_F32 | MODE_F16_F64 | MODE_OVERFLOW;
/// f32 rounding and denormals.
pub const MODE_F32: u32 = 0x33;
/// f16 and f64 rounding and denormals.
pub const MODE_F16_F64: u32 = 0xcc;
/// FP16_OVFL, where an f16 result could overflow.
pub const MODE_OVERFLOW: u32 = FP16_OVFL;

/// Source 0 takes abs and neg; sources 1 and 2 are the next bits.
pub const MOD_0: u32 = 1 << 8;
/// Source 1 takes abs and neg.
pub const MOD_1: u32 = 1 << 9;
/// Source 2 takes abs and neg.
pub const MOD_2: u32 = 1 << 10;
/// First of the four op_sel bits that a row may set.
pub const OPSEL_0: u32 = 1 << 11;
/// op_sel of source 1.
pub const OPSEL_1: u32 = 1 << 12;
/// op_sel of source 2.
pub const OPSEL_2: u32 = 1 << 13;
/// op_sel of the destination.
pub const OPSEL_D: u32 = 1 << 14;
/// Takes clamp.
pub const CLAMP: u32 = 1 << 15;
/// Takes omod.
pub const OMOD: u32 = 1 << 16;
/// No DPP form, although no operand has 64 bits.
pub const NO_DPP: u32 = 1 << 17;
/// Only one encoding: printed without suffix, no VOP3 form.
pub const ONLY: u32 = 1 << 18;
/// The destination is a further source.
pub const ACCUMULATES: u32 = 1 << 19;
/// Source 0 must be a vector register.
pub const VECTOR_0: u32 = 1 << 20;
/// Source 1 must be a vector register.
pub const VECTOR_1: u32 = 1 << 21;
/// Source 0 must be a scalar or a constant.
pub const SCALAR_0: u32 = 1 << 22;
/// Source 1 must be a scalar or a constant.
pub const SCALAR_1: u32 = 1 << 24;
/// Source 2 must be a scalar or a constant.
pub const SCALAR_2: u32 = 1 << 25;
/// The destination is a scalar register.
pub const SCALAR_D: u32 = 1 << 26;
/// VOP3SD: a second, scalar destination.
pub const SD: u32 = 1 << 27;
/// A constant always follows (`fmamk`, `fmaak`).
pub const CONSTANT: u32 = 1 << 28;
/// op_sel is printed as `byte_sel`.
pub const BYTE_SEL: u32 = 1 << 29;
/// Constants fill both halves.
pub const SPLAT: u32 = 1 << 30;
/// Independent of MODE although it names floats.
pub const EXACT: u32 = 1 << 31;

/// No modifiers.
pub const PLAIN: u32 = 0;
/// Float result of one modified source.
pub const FLOAT_1: u32 = MOD_0 | CLAMP | OMOD;
/// Float result of two modified sources.
pub const FLOAT_2: u32 = FLOAT_1 | MOD_1;
/// Float result of three modified sources.
pub const FLOAT_3: u32 = FLOAT_2 | MOD_2;
/// Float result of an integer.
pub const FROM_INT: u32 = CLAMP | OMOD;
/// Comparison of floats.
pub const COMPARE: u32 = MOD_0 | MOD_1 | CLAMP;
/// Halves of two sources and the destination.
pub const HALVES_2: u32 = OPSEL_0 | OPSEL_1 | OPSEL_D;
/// Halves of three sources and the destination.
pub const HALVES_3: u32 = HALVES_2 | OPSEL_2;

/// A row's flags with the MODE bits that follow from its types.
pub const fn of(d: Ty, s: [Ty; 3], given: u32) -> u32 {
    let all = [d, s[0], s[1], s[2]];
    let mut out = given;
    if given & EXACT != 0 {
        return out;
    }
    let mut i = 0;
    while i < 4 {
        out |= match all[i] {
            Ty::F32 => MODE_F32,
            Ty::F16 | Ty::F64 | Ty::PkF16 | Ty::Bf16 | Ty::PkBf16 => MODE_F16_F64,
            _ => 0,
        };
        i += 1;
    }
    if matches!(d, Ty::F16 | Ty::PkF16) {
        out |= MODE_OVERFLOW;
    }
    out
}
