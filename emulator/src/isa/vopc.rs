//! The VOPC format: comparisons into VCC, and `v_cmpx` into EXEC. Their VOP3 forms (same opcodes) are decoded by [`super::vop3`].
#![allow(
    clippy::double_comparisons,
    clippy::nonminimal_bool,
    reason = "`a < b || a > b` is false for NaN, `a != b` is not"
)]

use super::vop::{self, Fields, rows};
use super::{DecodeError, Format, Inst, Row};
use crate::execute::float;
use crate::execute::lanes::{B16, Mask, map2};
use crate::wave::{Cx, EXEC, Step, VCC};

/// First opcode of the forms that write EXEC.
pub const FIRST_CMPX: u16 = 128;

/// Its instructions.
#[rustfmt::skip]
#[allow(clippy::neg_cmp_op_on_partial_ord, clippy::nonminimal_bool, reason = "`nlt` is not `ge`: with NaN it is true")]
pub static ROWS: &[Row] = rows! {
    1 v_cmp_lt_f16 Mask (F16 F16) [COMPARE] { |a, b| a < b }
    2 v_cmp_eq_f16 Mask (F16 F16) [COMPARE] { |a, b| a == b }
    3 v_cmp_le_f16 Mask (F16 F16) [COMPARE] { |a, b| a <= b }
    4 v_cmp_gt_f16 Mask (F16 F16) [COMPARE] { |a, b| a > b }
    5 v_cmp_lg_f16 Mask (F16 F16) [COMPARE] { |a, b| a < b || a > b }
    6 v_cmp_ge_f16 Mask (F16 F16) [COMPARE] { |a, b| a >= b }
    7 v_cmp_o_f16 Mask (F16 F16) [COMPARE] { |a, b| !a.is_nan() && !b.is_nan() }
    8 v_cmp_u_f16 Mask (F16 F16) [COMPARE] { |a, b| a.is_nan() || b.is_nan() }
    9 v_cmp_nge_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a >= b) }
    10 v_cmp_nlg_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a < b || a > b) }
    11 v_cmp_ngt_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a > b) }
    12 v_cmp_nle_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a <= b) }
    13 v_cmp_neq_f16 Mask (F16 F16) [COMPARE] { |a, b| a != b }
    14 v_cmp_nlt_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a < b) }
    17 v_cmp_lt_f32 Mask (F32 F32) [COMPARE] { |a, b| a < b }
    18 v_cmp_eq_f32 Mask (F32 F32) [COMPARE] { |a, b| a == b }
    19 v_cmp_le_f32 Mask (F32 F32) [COMPARE] { |a, b| a <= b }
    20 v_cmp_gt_f32 Mask (F32 F32) [COMPARE] { |a, b| a > b }
    21 v_cmp_lg_f32 Mask (F32 F32) [COMPARE] { |a, b| a < b || a > b }
    22 v_cmp_ge_f32 Mask (F32 F32) [COMPARE] { |a, b| a >= b }
    23 v_cmp_o_f32 Mask (F32 F32) [COMPARE] { |a, b| !a.is_nan() && !b.is_nan() }
    24 v_cmp_u_f32 Mask (F32 F32) [COMPARE] { |a, b| a.is_nan() || b.is_nan() }
    25 v_cmp_nge_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a >= b) }
    26 v_cmp_nlg_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a < b || a > b) }
    27 v_cmp_ngt_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a > b) }
    28 v_cmp_nle_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a <= b) }
    29 v_cmp_neq_f32 Mask (F32 F32) [COMPARE] { |a, b| a != b }
    30 v_cmp_nlt_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a < b) }
    33 v_cmp_lt_f64 Mask (F64 F64) [COMPARE] { |a, b| a < b }
    34 v_cmp_eq_f64 Mask (F64 F64) [COMPARE] { |a, b| a == b }
    35 v_cmp_le_f64 Mask (F64 F64) [COMPARE] { |a, b| a <= b }
    36 v_cmp_gt_f64 Mask (F64 F64) [COMPARE] { |a, b| a > b }
    37 v_cmp_lg_f64 Mask (F64 F64) [COMPARE] { |a, b| a < b || a > b }
    38 v_cmp_ge_f64 Mask (F64 F64) [COMPARE] { |a, b| a >= b }
    39 v_cmp_o_f64 Mask (F64 F64) [COMPARE] { |a, b| !a.is_nan() && !b.is_nan() }
    40 v_cmp_u_f64 Mask (F64 F64) [COMPARE] { |a, b| a.is_nan() || b.is_nan() }
    41 v_cmp_nge_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a >= b) }
    42 v_cmp_nlg_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a < b || a > b) }
    43 v_cmp_ngt_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a > b) }
    44 v_cmp_nle_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a <= b) }
    45 v_cmp_neq_f64 Mask (F64 F64) [COMPARE] { |a, b| a != b }
    46 v_cmp_nlt_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a < b) }
    49 v_cmp_lt_i16 Mask (I16 I16) [PLAIN] { |a, b| a < b }
    50 v_cmp_eq_i16 Mask (I16 I16) [PLAIN] { |a, b| a == b }
    51 v_cmp_le_i16 Mask (I16 I16) [PLAIN] { |a, b| a <= b }
    52 v_cmp_gt_i16 Mask (I16 I16) [PLAIN] { |a, b| a > b }
    53 v_cmp_ne_i16 Mask (I16 I16) [PLAIN] { |a, b| a != b }
    54 v_cmp_ge_i16 Mask (I16 I16) [PLAIN] { |a, b| a >= b }
    57 v_cmp_lt_u16 Mask (U16 U16) [PLAIN] { |a, b| a < b }
    58 v_cmp_eq_u16 Mask (U16 U16) [PLAIN] { |a, b| a == b }
    59 v_cmp_le_u16 Mask (U16 U16) [PLAIN] { |a, b| a <= b }
    60 v_cmp_gt_u16 Mask (U16 U16) [PLAIN] { |a, b| a > b }
    61 v_cmp_ne_u16 Mask (U16 U16) [PLAIN] { |a, b| a != b }
    62 v_cmp_ge_u16 Mask (U16 U16) [PLAIN] { |a, b| a >= b }
    65 v_cmp_lt_i32 Mask (I32 I32) [PLAIN] { |a, b| a < b }
    66 v_cmp_eq_i32 Mask (I32 I32) [PLAIN] { |a, b| a == b }
    67 v_cmp_le_i32 Mask (I32 I32) [PLAIN] { |a, b| a <= b }
    68 v_cmp_gt_i32 Mask (I32 I32) [PLAIN] { |a, b| a > b }
    69 v_cmp_ne_i32 Mask (I32 I32) [PLAIN] { |a, b| a != b }
    70 v_cmp_ge_i32 Mask (I32 I32) [PLAIN] { |a, b| a >= b }
    73 v_cmp_lt_u32 Mask (U32 U32) [PLAIN] { |a, b| a < b }
    74 v_cmp_eq_u32 Mask (U32 U32) [PLAIN] { |a, b| a == b }
    75 v_cmp_le_u32 Mask (U32 U32) [PLAIN] { |a, b| a <= b }
    76 v_cmp_gt_u32 Mask (U32 U32) [PLAIN] { |a, b| a > b }
    77 v_cmp_ne_u32 Mask (U32 U32) [PLAIN] { |a, b| a != b }
    78 v_cmp_ge_u32 Mask (U32 U32) [PLAIN] { |a, b| a >= b }
    81 v_cmp_lt_i64 Mask (I64 I64) [PLAIN] { |a, b| a < b }
    82 v_cmp_eq_i64 Mask (I64 I64) [PLAIN] { |a, b| a == b }
    83 v_cmp_le_i64 Mask (I64 I64) [PLAIN] { |a, b| a <= b }
    84 v_cmp_gt_i64 Mask (I64 I64) [PLAIN] { |a, b| a > b }
    85 v_cmp_ne_i64 Mask (I64 I64) [PLAIN] { |a, b| a != b }
    86 v_cmp_ge_i64 Mask (I64 I64) [PLAIN] { |a, b| a >= b }
    89 v_cmp_lt_u64 Mask (U64 U64) [PLAIN] { |a, b| a < b }
    90 v_cmp_eq_u64 Mask (U64 U64) [PLAIN] { |a, b| a == b }
    91 v_cmp_le_u64 Mask (U64 U64) [PLAIN] { |a, b| a <= b }
    92 v_cmp_gt_u64 Mask (U64 U64) [PLAIN] { |a, b| a > b }
    93 v_cmp_ne_u64 Mask (U64 U64) [PLAIN] { |a, b| a != b }
    94 v_cmp_ge_u64 Mask (U64 U64) [PLAIN] { |a, b| a >= b }
    125 v_cmp_class_f16 Mask (F16 F16) [MOD_0 MOD_1 EXACT] { = class_f16 }
    126 v_cmp_class_f32 Mask (F32 B32) [MOD_0 EXACT] { |a, b| float::class32(a.to_bits(), b) }
    127 v_cmp_class_f64 Mask (F64 B32) [MOD_0 EXACT] { |a, b| float::class64(a.to_bits(), b) }
    129 v_cmpx_lt_f16 Mask (F16 F16) [COMPARE] { |a, b| a < b }
    130 v_cmpx_eq_f16 Mask (F16 F16) [COMPARE] { |a, b| a == b }
    131 v_cmpx_le_f16 Mask (F16 F16) [COMPARE] { |a, b| a <= b }
    132 v_cmpx_gt_f16 Mask (F16 F16) [COMPARE] { |a, b| a > b }
    133 v_cmpx_lg_f16 Mask (F16 F16) [COMPARE] { |a, b| a < b || a > b }
    134 v_cmpx_ge_f16 Mask (F16 F16) [COMPARE] { |a, b| a >= b }
    135 v_cmpx_o_f16 Mask (F16 F16) [COMPARE] { |a, b| !a.is_nan() && !b.is_nan() }
    136 v_cmpx_u_f16 Mask (F16 F16) [COMPARE] { |a, b| a.is_nan() || b.is_nan() }
    137 v_cmpx_nge_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a >= b) }
    138 v_cmpx_nlg_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a < b || a > b) }
    139 v_cmpx_ngt_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a > b) }
    140 v_cmpx_nle_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a <= b) }
    141 v_cmpx_neq_f16 Mask (F16 F16) [COMPARE] { |a, b| a != b }
    142 v_cmpx_nlt_f16 Mask (F16 F16) [COMPARE] { |a, b| !(a < b) }
    145 v_cmpx_lt_f32 Mask (F32 F32) [COMPARE] { |a, b| a < b }
    146 v_cmpx_eq_f32 Mask (F32 F32) [COMPARE] { |a, b| a == b }
    147 v_cmpx_le_f32 Mask (F32 F32) [COMPARE] { |a, b| a <= b }
    148 v_cmpx_gt_f32 Mask (F32 F32) [COMPARE] { |a, b| a > b }
    149 v_cmpx_lg_f32 Mask (F32 F32) [COMPARE] { |a, b| a < b || a > b }
    150 v_cmpx_ge_f32 Mask (F32 F32) [COMPARE] { |a, b| a >= b }
    151 v_cmpx_o_f32 Mask (F32 F32) [COMPARE] { |a, b| !a.is_nan() && !b.is_nan() }
    152 v_cmpx_u_f32 Mask (F32 F32) [COMPARE] { |a, b| a.is_nan() || b.is_nan() }
    153 v_cmpx_nge_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a >= b) }
    154 v_cmpx_nlg_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a < b || a > b) }
    155 v_cmpx_ngt_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a > b) }
    156 v_cmpx_nle_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a <= b) }
    157 v_cmpx_neq_f32 Mask (F32 F32) [COMPARE] { |a, b| a != b }
    158 v_cmpx_nlt_f32 Mask (F32 F32) [COMPARE] { |a, b| !(a < b) }
    161 v_cmpx_lt_f64 Mask (F64 F64) [COMPARE] { |a, b| a < b }
    162 v_cmpx_eq_f64 Mask (F64 F64) [COMPARE] { |a, b| a == b }
    163 v_cmpx_le_f64 Mask (F64 F64) [COMPARE] { |a, b| a <= b }
    164 v_cmpx_gt_f64 Mask (F64 F64) [COMPARE] { |a, b| a > b }
    165 v_cmpx_lg_f64 Mask (F64 F64) [COMPARE] { |a, b| a < b || a > b }
    166 v_cmpx_ge_f64 Mask (F64 F64) [COMPARE] { |a, b| a >= b }
    167 v_cmpx_o_f64 Mask (F64 F64) [COMPARE] { |a, b| !a.is_nan() && !b.is_nan() }
    168 v_cmpx_u_f64 Mask (F64 F64) [COMPARE] { |a, b| a.is_nan() || b.is_nan() }
    169 v_cmpx_nge_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a >= b) }
    170 v_cmpx_nlg_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a < b || a > b) }
    171 v_cmpx_ngt_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a > b) }
    172 v_cmpx_nle_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a <= b) }
    173 v_cmpx_neq_f64 Mask (F64 F64) [COMPARE] { |a, b| a != b }
    174 v_cmpx_nlt_f64 Mask (F64 F64) [COMPARE] { |a, b| !(a < b) }
    177 v_cmpx_lt_i16 Mask (I16 I16) [PLAIN] { |a, b| a < b }
    178 v_cmpx_eq_i16 Mask (I16 I16) [PLAIN] { |a, b| a == b }
    179 v_cmpx_le_i16 Mask (I16 I16) [PLAIN] { |a, b| a <= b }
    180 v_cmpx_gt_i16 Mask (I16 I16) [PLAIN] { |a, b| a > b }
    181 v_cmpx_ne_i16 Mask (I16 I16) [PLAIN] { |a, b| a != b }
    182 v_cmpx_ge_i16 Mask (I16 I16) [PLAIN] { |a, b| a >= b }
    185 v_cmpx_lt_u16 Mask (U16 U16) [PLAIN] { |a, b| a < b }
    186 v_cmpx_eq_u16 Mask (U16 U16) [PLAIN] { |a, b| a == b }
    187 v_cmpx_le_u16 Mask (U16 U16) [PLAIN] { |a, b| a <= b }
    188 v_cmpx_gt_u16 Mask (U16 U16) [PLAIN] { |a, b| a > b }
    189 v_cmpx_ne_u16 Mask (U16 U16) [PLAIN] { |a, b| a != b }
    190 v_cmpx_ge_u16 Mask (U16 U16) [PLAIN] { |a, b| a >= b }
    193 v_cmpx_lt_i32 Mask (I32 I32) [PLAIN] { |a, b| a < b }
    194 v_cmpx_eq_i32 Mask (I32 I32) [PLAIN] { |a, b| a == b }
    195 v_cmpx_le_i32 Mask (I32 I32) [PLAIN] { |a, b| a <= b }
    196 v_cmpx_gt_i32 Mask (I32 I32) [PLAIN] { |a, b| a > b }
    197 v_cmpx_ne_i32 Mask (I32 I32) [PLAIN] { |a, b| a != b }
    198 v_cmpx_ge_i32 Mask (I32 I32) [PLAIN] { |a, b| a >= b }
    201 v_cmpx_lt_u32 Mask (U32 U32) [PLAIN] { |a, b| a < b }
    202 v_cmpx_eq_u32 Mask (U32 U32) [PLAIN] { |a, b| a == b }
    203 v_cmpx_le_u32 Mask (U32 U32) [PLAIN] { |a, b| a <= b }
    204 v_cmpx_gt_u32 Mask (U32 U32) [PLAIN] { |a, b| a > b }
    205 v_cmpx_ne_u32 Mask (U32 U32) [PLAIN] { |a, b| a != b }
    206 v_cmpx_ge_u32 Mask (U32 U32) [PLAIN] { |a, b| a >= b }
    209 v_cmpx_lt_i64 Mask (I64 I64) [PLAIN] { |a, b| a < b }
    210 v_cmpx_eq_i64 Mask (I64 I64) [PLAIN] { |a, b| a == b }
    211 v_cmpx_le_i64 Mask (I64 I64) [PLAIN] { |a, b| a <= b }
    212 v_cmpx_gt_i64 Mask (I64 I64) [PLAIN] { |a, b| a > b }
    213 v_cmpx_ne_i64 Mask (I64 I64) [PLAIN] { |a, b| a != b }
    214 v_cmpx_ge_i64 Mask (I64 I64) [PLAIN] { |a, b| a >= b }
    217 v_cmpx_lt_u64 Mask (U64 U64) [PLAIN] { |a, b| a < b }
    218 v_cmpx_eq_u64 Mask (U64 U64) [PLAIN] { |a, b| a == b }
    219 v_cmpx_le_u64 Mask (U64 U64) [PLAIN] { |a, b| a <= b }
    220 v_cmpx_gt_u64 Mask (U64 U64) [PLAIN] { |a, b| a > b }
    221 v_cmpx_ne_u64 Mask (U64 U64) [PLAIN] { |a, b| a != b }
    222 v_cmpx_ge_u64 Mask (U64 U64) [PLAIN] { |a, b| a >= b }
    253 v_cmpx_class_f16 Mask (F16 F16) [MOD_0 MOD_1 EXACT] { = class_f16 }
    254 v_cmpx_class_f32 Mask (F32 B32) [MOD_0 EXACT] { |a, b| float::class32(a.to_bits(), b) }
    255 v_cmpx_class_f64 Mask (F64 B32) [MOD_0 EXACT] { |a, b| float::class64(a.to_bits(), b) }
};

/// The source is an f16, but its class is read off its bits.
fn class_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    map2::<Mask, B16, B16>(cx, inst, |a, b| float::class16(a, b as u32))
}

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = super::row(ROWS, (word >> 17 & 0xff) as u16, word)?;
    let dst = if row.op >= FIRST_CMPX { EXEC } else { VCC };
    let codes = [(word & 511) as u16, 256 + (word >> 9 & 255) as u16, 0];
    vop::decode(row, Format::Vopc, Fields { codes, dst }, words)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let suffix = if inst.dpp.is_some() { "" } else { "_e32" };
    vop::text(inst, format!("{}{suffix}", inst.row.name))
}
