//! The VOP2 format: two sources. Its VOP3 forms (opcode + 256) are decoded by [`super::vop3`].

use super::vop::{self, Fields, rows};
use super::{DecodeError, Format, Inst, Row, vop1};
use crate::execute::integer::{i24, u24};
use crate::execute::lanes::{self, F16, F32, PkF16};
use crate::execute::{convert, cross_lane, float, soft_float};
use crate::wave::{Cx, Step};
use half::f16;

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = rows! {
    1 v_cndmask_b32 F32 (F32 F32 Mask) [MOD_0 MOD_1 EXACT] { |a, b, c| if c { b } else { a } }
    2 v_add_f64 F64 (F64 F64) [FLOAT_2] { |a, b| a + b, soft soft_float::add }
    3 v_add_f32 F32 (F32 F32) [FLOAT_2] { |a, b| a + b, soft soft_float::add }
    4 v_sub_f32 F32 (F32 F32) [FLOAT_2] { |a, b| a - b, soft soft_float::sub }
    5 v_subrev_f32 F32 (F32 F32) [FLOAT_2] { |a, b| b - a, soft |m, a, b| soft_float::sub(m, b, a) }
    6 v_mul_f64 F64 (F64 F64) [FLOAT_2] { |a, b| a * b, soft soft_float::mul }
    7 v_mul_dx9_zero_f32 F32 (F32 F32) [FLOAT_2] { |a, b| float::mul_dx9(a, b), soft float::soft_mul_dx9 }
    8 v_mul_f32 F32 (F32 F32) [FLOAT_2] { |a, b| a * b, soft soft_float::mul }
    9 v_mul_i32_i24 I32 (I32 I32) [CLAMP] { |a, b| i24(a).wrapping_mul(i24(b)), saturating i24(a).saturating_mul(i24(b)) }
    10 v_mul_hi_i32_i24 I32 (I32 I32) [PLAIN] { |a, b| ((i24(a) as i64 * i24(b) as i64) >> 32) as i32 }
    11 v_mul_u32_u24 U32 (U32 U32) [CLAMP] { |a, b| u24(a).wrapping_mul(u24(b)), saturating u24(a).saturating_mul(u24(b)) }
    12 v_mul_hi_u32_u24 U32 (U32 U32) [PLAIN] { |a, b| ((u24(a) as u64 * u24(b) as u64) >> 32) as u32 }
    13 v_min_num_f64 F64 (F64 F64) [FLOAT_2] { |a, b| float::min_num64(a, b), selecting }
    14 v_max_num_f64 F64 (F64 F64) [FLOAT_2] { |a, b| float::max_num64(a, b), selecting }
    17 v_min_i32 I32 (I32 I32) [PLAIN] { |a, b| a.min(b) }
    18 v_max_i32 I32 (I32 I32) [PLAIN] { |a, b| a.max(b) }
    19 v_min_u32 U32 (U32 U32) [PLAIN] { |a, b| a.min(b) }
    20 v_max_u32 U32 (U32 U32) [PLAIN] { |a, b| a.max(b) }
    21 v_min_num_f32 F32 (F32 F32) [FLOAT_2] { |a, b| float::min_num(a, b), selecting }
    22 v_max_num_f32 F32 (F32 F32) [FLOAT_2] { |a, b| float::max_num(a, b), selecting }
    24 v_lshlrev_b32 B32 (B32 B32) [PLAIN] { |a, b| b << (a & 31) }
    25 v_lshrrev_b32 B32 (B32 B32) [PLAIN] { |a, b| b >> (a & 31) }
    26 v_ashrrev_i32 I32 (B32 I32) [PLAIN] { |a, b| b >> (a & 31) }
    27 v_and_b32 B32 (B32 B32) [PLAIN] { |a, b| a & b }
    28 v_or_b32 B32 (B32 B32) [PLAIN] { |a, b| a | b }
    29 v_xor_b32 B32 (B32 B32) [PLAIN] { |a, b| a ^ b }
    30 v_xnor_b32 B32 (B32 B32) [PLAIN] { |a, b| !(a ^ b) }
    31 v_lshlrev_b64 B64 (B32 B64) [PLAIN] { |a, b| b << (a & 63) }
    32 v_add_co_ci_u32 B32 (B32 B32 Mask) [SD CLAMP] { = cross_lane::add_with_carry }
    33 v_sub_co_ci_u32 B32 (B32 B32 Mask) [SD CLAMP] { = cross_lane::sub_with_carry }
    34 v_subrev_co_ci_u32 B32 (B32 B32 Mask) [SD CLAMP] { = cross_lane::subrev_with_carry }
    37 v_add_nc_u32 U32 (U32 U32) [CLAMP] { |a, b| a.wrapping_add(b), saturating a.saturating_add(b) }
    38 v_sub_nc_u32 U32 (U32 U32) [CLAMP] { |a, b| a.wrapping_sub(b), saturating a.saturating_sub(b) }
    39 v_subrev_nc_u32 U32 (U32 U32) [CLAMP] { |a, b| b.wrapping_sub(a), saturating b.saturating_sub(a) }
    43 v_fmac_f32 F32 (F32 F32) [FLOAT_2 ACCUMULATES] { = fma_f32 }
    44 v_fmamk_f32 F32 (F32 F32) [CONSTANT] { = fma_f32 }
    45 v_fmaak_f32 F32 (F32 F32) [CONSTANT] { = fma_f32 }
    47 v_cvt_pk_rtz_f16_f32 PkF16 (F32 F32) [FLOAT_2] { |a, b| convert::pack(convert::f32_to_f16_rtz(a), convert::f32_to_f16_rtz(b)), soft convert::soft_pack_rtz }
    48 v_min_num_f16 F16 (F16 F16) [FLOAT_2] { |a, b| float::min_num(a, b), selecting }
    49 v_max_num_f16 F16 (F16 F16) [FLOAT_2] { |a, b| float::max_num(a, b), selecting }
    50 v_add_f16 F16 (F16 F16) [FLOAT_2] { |a, b| a + b, soft soft_float::add }
    51 v_sub_f16 F16 (F16 F16) [FLOAT_2] { |a, b| a - b, soft soft_float::sub }
    52 v_subrev_f16 F16 (F16 F16) [FLOAT_2] { |a, b| b - a, soft |m, a, b| soft_float::sub(m, b, a) }
    53 v_mul_f16 F16 (F16 F16) [FLOAT_2] { |a, b| a * b, soft soft_float::mul }
    54 v_fmac_f16 F16 (F16 F16) [FLOAT_2 ACCUMULATES] { = fma_f16 }
    55 v_fmamk_f16 F16 (F16 F16) [CONSTANT] { = fma_f16 }
    56 v_fmaak_f16 F16 (F16 F16) [CONSTANT] { = fma_f16 }
    59 v_ldexp_f16 F16 (F16 F16) [MOD_0 CLAMP OMOD] { |a, b| float::ldexp32(a, convert::f32_to_f16(b) as i16 as i32), soft ldexp_f16 }
    60 v_pk_fmac_f16 PkF16 (PkF16 PkF16) [ONLY NO_DPP SPLAT ACCUMULATES] { = pk_fmac_f16 }
};

/// Sources 0 · 1 + 2, where the third is the destination or the constant.
fn fma_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    lanes::rounding::<F32, F32, F32, F32>(cx, inst, |a, b, c| a.mul_add(b, c), soft_float::fma)
}

/// The same in f16.
fn fma_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    lanes::rounding::<F16, F16, F16, F16>(cx, inst, float::fma_f16, soft_float::fma)
}

/// Both halves of packed words.
fn halves(words: [u32; 3], operation: impl Fn([u32; 3]) -> u32) -> u32 {
    convert::pack(operation(words.map(|word| word & 0xffff)), operation(words.map(|word| word >> 16)))
}

/// Two f16 fused multiply-adds into the destination.
fn pk_fmac_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let fast = |a, b, c| {
        halves([a, b, c], |[a, b, c]| {
            convert::f32_to_f16(float::fma_f16(convert::f16_to_f32(a), convert::f16_to_f32(b), convert::f16_to_f32(c)))
        })
    };
    let soft = |mode, a, b, c| {
        halves([a, b, c], |words| {
            let [a, b, c] = words.map(|word| f16::from_bits(word as u16));
            soft_float::fma(mode, a, b, c).to_bits() as u32
        })
    };
    lanes::rounding::<PkF16, PkF16, PkF16, PkF16>(cx, inst, fast, soft)
}

/// The second source is an integer although the row calls it f16, so that constants are expanded as LLVM does.
fn ldexp_f16(mode: u32, a: f16, b: f16) -> f16 {
    soft_float::ldexp(mode, a, b.to_bits() as i16 as i32)
}

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = super::row(ROWS, (word >> 25 & 0x3f) as u16, word)?;
    let codes = [(word & 511) as u16, 256 + (word >> 9 & 255) as u16, 0];
    vop::decode(row, Format::Vop2, Fields { codes, dst: (word >> 17 & 255) as u8 }, words)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    vop::text(inst, format!("{}{}", inst.row.name, vop1::suffix(inst)))
}
