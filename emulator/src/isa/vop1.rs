//! The VOP1 format: one source. Its VOP3 forms (opcode + 384) are decoded by [`super::vop3`].

use super::vop::{self, Fields, rows};
use super::{DecodeError, Format, Inst, Row, flags};
use crate::execute::lanes::{B16, B64, map1};
use crate::execute::transcendental::{self, half};
use crate::execute::{convert, cross_lane, float, fp8, integer, soft_float};
use crate::wave::{Cx, Step};

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = rows! {
    0 v_nop None () [ONLY] { = cross_lane::nothing }
    1 v_mov_b32 B32 (B32) [PLAIN] { |a| a }
    2 v_readfirstlane_b32 B32 (B32) [ONLY VECTOR_0 SCALAR_D NO_DPP] { = cross_lane::read_first_lane }
    3 v_cvt_i32_f64 I32 (F64) [FLOAT_1] { |a| a as i32 }
    4 v_cvt_f64_i32 F64 (I32) [FROM_INT] { |a| a as f64 }
    5 v_cvt_f32_i32 F32 (I32) [FROM_INT] { |a| a as f32, soft |m, a| soft_float::from_int(m, a as i64) }
    6 v_cvt_f32_u32 F32 (U32) [FROM_INT] { |a| a as f32, soft |m, a| soft_float::from_int(m, a as i64) }
    7 v_cvt_u32_f32 U32 (F32) [FLOAT_1] { |a| a as u32 }
    8 v_cvt_i32_f32 I32 (F32) [FLOAT_1] { |a| a as i32 }
    10 v_cvt_f16_f32 F16 (F32) [FLOAT_1] { |a| a, soft soft_float::convert }
    11 v_cvt_f32_f16 F32 (F16) [FLOAT_1] { |a| float::quiet(a), soft soft_float::convert }
    12 v_cvt_nearest_i32_f32 I32 (F32) [MOD_0 CLAMP] { |a| convert::nearest_i32(a) }
    13 v_cvt_floor_i32_f32 I32 (F32) [MOD_0 CLAMP] { |a| convert::floor_i32(a) }
    14 v_cvt_off_f32_i4 F32 (U32) [FROM_INT] { |a| ((a << 28) as i32 >> 28) as f32 / 16.0 }
    15 v_cvt_f32_f64 F32 (F64) [FLOAT_1] { |a| a as f32, soft soft_float::convert }
    16 v_cvt_f64_f32 F64 (F32) [FLOAT_1] { |a| a as f64, soft soft_float::convert }
    17 v_cvt_f32_ubyte0 F32 (U32) [FROM_INT] { |a| (a & 0xff) as f32 }
    18 v_cvt_f32_ubyte1 F32 (U32) [FROM_INT] { |a| (a >> 8 & 0xff) as f32 }
    19 v_cvt_f32_ubyte2 F32 (U32) [FROM_INT] { |a| (a >> 16 & 0xff) as f32 }
    20 v_cvt_f32_ubyte3 F32 (U32) [FROM_INT] { |a| (a >> 24) as f32 }
    21 v_cvt_u32_f64 U32 (F64) [FLOAT_1] { |a| a as u32 }
    22 v_cvt_f64_u32 F64 (U32) [FROM_INT] { |a| a as f64 }
    23 v_trunc_f64 F64 (F64) [FLOAT_1] { |a| float::quiet64(a.trunc()) }
    24 v_ceil_f64 F64 (F64) [FLOAT_1] { |a| float::quiet64(a.ceil()) }
    25 v_rndne_f64 F64 (F64) [FLOAT_1] { |a| float::quiet64(a.round_ties_even()) }
    26 v_floor_f64 F64 (F64) [FLOAT_1] { |a| float::quiet64(a.floor()) }
    27 v_pipeflush None () [ONLY] { = cross_lane::nothing }
    32 v_fract_f32 F32 (F32) [FLOAT_1] { |a| float::fract32(a), soft soft_float::fract }
    33 v_trunc_f32 F32 (F32) [FLOAT_1] { |a| float::quiet(a.trunc()) }
    34 v_ceil_f32 F32 (F32) [FLOAT_1] { |a| float::quiet(a.ceil()) }
    35 v_rndne_f32 F32 (F32) [FLOAT_1] { |a| float::quiet(a.round_ties_even()) }
    36 v_floor_f32 F32 (F32) [FLOAT_1] { |a| float::quiet(a.floor()) }
    37 v_exp_f32 F32 (F32) [FLOAT_1 EXACT] { |a| transcendental::exp2(a) }
    39 v_log_f32 F32 (F32) [FLOAT_1 EXACT] { |a| transcendental::log2(a) }
    42 v_rcp_f32 F32 (F32) [FLOAT_1 EXACT] { |a| transcendental::rcp(a) }
    43 v_rcp_iflag_f32 F32 (F32) [FLOAT_1 EXACT] { |a| transcendental::rcp(a) }
    46 v_rsq_f32 F32 (F32) [FLOAT_1 EXACT] { |a| transcendental::rsq(a) }
    47 v_rcp_f64 F64 (F64) [FLOAT_1] { |a| 1.0 / a }
    49 v_rsq_f64 F64 (F64) [FLOAT_1] { |a| if a == 0.0 { 1.0 / a } else { 1.0 / a.sqrt() } }
    51 v_sqrt_f32 F32 (F32) [FLOAT_1 EXACT] { |a| transcendental::sqrt(a) }
    52 v_sqrt_f64 F64 (F64) [FLOAT_1] { |a| a.sqrt() }
    53 v_sin_f32 F32 (F32) [FLOAT_1] { |a| transcendental::sin(a) }
    54 v_cos_f32 F32 (F32) [FLOAT_1] { |a| transcendental::cos(a) }
    55 v_not_b32 B32 (B32) [PLAIN] { |a| !a }
    56 v_bfrev_b32 B32 (B32) [PLAIN] { |a| a.reverse_bits() }
    57 v_clz_i32_u32 I32 (U32) [PLAIN] { |a| integer::clz(a) }
    58 v_ctz_i32_b32 I32 (B32) [PLAIN] { |a| integer::ctz(a) }
    59 v_cls_i32 I32 (I32) [PLAIN] { |a| integer::cls(a) }
    60 v_frexp_exp_i32_f64 I32 (F64) [FLOAT_1] { |a| float::frexp_exp64(a) }
    61 v_frexp_mant_f64 F64 (F64) [FLOAT_1] { |a| float::frexp_mant64(a) }
    62 v_fract_f64 F64 (F64) [FLOAT_1] { |a| float::fract64(a), soft soft_float::fract }
    63 v_frexp_exp_i32_f32 I32 (F32) [MOD_0 CLAMP] { |a| float::frexp_exp64(a as f64) }
    64 v_frexp_mant_f32 F32 (F32) [FLOAT_1] { |a| float::frexp_mant64(a as f64) as f32 }
    66 v_movreld_b32 B32 (B32) [PLAIN] { = cross_lane::movreld }
    67 v_movrels_b32 B32 (B32) [VECTOR_0] { = cross_lane::movrels }
    68 v_movrelsd_b32 B32 (B32) [VECTOR_0] { = cross_lane::movrelsd }
    72 v_movrelsd_2_b32 B32 (B32) [VECTOR_0] { = cross_lane::movrelsd_2 }
    80 v_cvt_f16_u16 F16 (U16) [FROM_INT] { |a| a as f32, soft |m, a| soft_float::from_int(m, a as i64) }
    81 v_cvt_f16_i16 F16 (I16) [FROM_INT] { |a| a as f32, soft |m, a| soft_float::from_int(m, a as i64) }
    82 v_cvt_u16_f16 U16 (F16) [FLOAT_1] { |a| a as u16 }
    83 v_cvt_i16_f16 I16 (F16) [FLOAT_1] { |a| a as i16 }
    84 v_rcp_f16 F16 (F16) [FLOAT_1] { |a| half::rcp(a), soft |m, a| half::in_mode(m, a, half::rcp) }
    85 v_sqrt_f16 F16 (F16) [FLOAT_1] { |a| half::sqrt(a), soft |m, a| half::in_mode(m, a, half::sqrt) }
    86 v_rsq_f16 F16 (F16) [FLOAT_1] { |a| half::rsq(a), soft |m, a| half::in_mode(m, a, half::rsq) }
    87 v_log_f16 F16 (F16) [FLOAT_1] { |a| half::log2(a), soft |m, a| half::in_mode(m, a, half::log2) }
    88 v_exp_f16 F16 (F16) [FLOAT_1] { |a| half::exp2(a), soft |m, a| half::in_mode(m, a, half::exp2) }
    89 v_frexp_mant_f16 F16 (F16) [FLOAT_1] { |a| float::frexp_mant64(a as f64) as f32 }
    90 v_frexp_exp_i16_f16 I16 (F16) [FLOAT_1] { |a| float::frexp_exp64(a as f64) as i16 }
    91 v_floor_f16 F16 (F16) [FLOAT_1] { |a| float::quiet(a.floor()) }
    92 v_ceil_f16 F16 (F16) [FLOAT_1] { |a| float::quiet(a.ceil()) }
    93 v_trunc_f16 F16 (F16) [FLOAT_1] { |a| float::quiet(a.trunc()) }
    94 v_rndne_f16 F16 (F16) [FLOAT_1] { |a| float::quiet(a.round_ties_even()) }
    95 v_fract_f16 F16 (F16) [FLOAT_1] { |a| float::fract16(a), soft soft_float::fract }
    96 v_sin_f16 F16 (F16) [FLOAT_1] { |a| half::sin(a), soft |m, a| half::in_mode(m, a, half::sin) }
    97 v_cos_f16 F16 (F16) [FLOAT_1] { |a| half::cos(a), soft |m, a| half::in_mode(m, a, half::cos) }
    98 v_sat_pk_u8_i16 B16 (B32) [PLAIN] { |a| integer::sat_pk_u8_i16(a) }
    99 v_cvt_norm_i16_f16 I16 (F16) [FLOAT_1] { |a| convert::to_snorm16(a) }
    100 v_cvt_norm_u16_f16 U16 (F16) [FLOAT_1] { |a| convert::to_unorm16(a) }
    101 v_swap_b32 B32 (B32) [ONLY VECTOR_0 NO_DPP] { = cross_lane::swap }
    103 v_permlane64_b32 B32 (B32) [ONLY VECTOR_0 NO_DPP] { = cross_lane::nothing }
    104 v_swaprel_b32 B32 (B32) [ONLY VECTOR_0 NO_DPP] { = cross_lane::swap_relative }
    105 v_not_b16 B16 (B16) [PLAIN] { |a| !a }
    106 v_cvt_i32_i16 I32 (I16) [PLAIN] { |a| a as i32 }
    107 v_cvt_u32_u16 U32 (U16) [PLAIN] { |a| a as u32 }
    108 v_cvt_f32_fp8 F32 (B32) [OPSEL_0 OPSEL_1 BYTE_SEL EXACT] { = fp8::cvt_f32_fp8 }
    109 v_cvt_f32_bf8 F32 (B32) [OPSEL_0 OPSEL_1 BYTE_SEL EXACT] { = fp8::cvt_f32_bf8 }
    110 v_cvt_pk_f32_fp8 B64 (F16) [OPSEL_0 OPSEL_D EXACT] { = cvt_pk_f32_fp8 }
    111 v_cvt_pk_f32_bf8 B64 (F16) [OPSEL_0 OPSEL_D EXACT] { = cvt_pk_f32_bf8 }
};

/// Two 8-bit floats of a half as two f32.
fn float8_pair(half: u16, format: convert::Float8) -> u64 {
    let value = |shift: u32| convert::f8_to_f32(half as u32 >> shift & 0xff, format).to_bits() as u64;
    value(0) | value(8) << 32
}

fn cvt_pk_f32_fp8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    map1::<B64, B16>(cx, inst, |half| float8_pair(half, convert::FP8))
}

fn cvt_pk_f32_bf8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    map1::<B64, B16>(cx, inst, |half| float8_pair(half, convert::BF8))
}

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = super::row(ROWS, (word >> 9 & 0xff) as u16, word)?;
    let fields = Fields { codes: [(word & 511) as u16, 0, 0], dst: (word >> 17 & 255) as u8 };
    let unused = word & !(0x7e00_0000 | 0xff << 9);
    if row.d == super::Ty::None && unused != 0 {
        return Err(DecodeError::Invalid { word, reason: format!("{} has no operands", row.name) });
    }
    vop::decode(row, Format::Vop1, fields, words)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    vop::text(inst, format!("{}{}", inst.row.name, suffix(inst)))
}

/// The ending of a VOP1 or VOP2 mnemonic.
pub fn suffix(inst: &Inst) -> &'static str {
    match (inst.dpp.is_some(), inst.row.flags & (flags::ONLY | flags::CONSTANT) != 0) {
        (true, _) => "_dpp",
        (false, true) => "",
        (false, false) => "_e32",
    }
}
