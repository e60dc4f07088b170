//! SOPC: scalar comparisons into SCC.
#![allow(
    clippy::double_comparisons,
    clippy::nonminimal_bool,
    reason = "`a < b || a > b` is false for NaN, `a != b` is not"
)]

use super::operand::{LITERAL, constant, is_inline, scalar_text, src, value_text};
use super::{DecodeError, Format, Inst, Row, Ty, row};
use crate::execute::scalar::{compare, compare_bit64, compare_float, compare_half, compare64};
use crate::wave::Exec;

const fn r(op: u16, name: &'static str, a: Ty, b: Ty, exec: Exec) -> Row {
    Row { op, name, d: Ty::None, s: [a, b, Ty::None], flags: 0, exec }
}
const fn i32x(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B32, Ty::B32, exec)
}
const fn f32x(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::F32, Ty::F32, exec)
}
const fn f16x(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::F16, Ty::F16, exec)
}

/// Less or greater: false when unordered.
fn lg(a: f32, b: f32) -> bool {
    a < b || a > b
}
fn unordered(a: f32, b: f32) -> bool {
    a.is_nan() || b.is_nan()
}

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    i32x(0, "s_cmp_eq_i32", |cx, i| compare(cx, i, |a, b| a == b)),
    i32x(1, "s_cmp_lg_i32", |cx, i| compare(cx, i, |a, b| a != b)),
    i32x(2, "s_cmp_gt_i32", |cx, i| compare(cx, i, |a, b| a as i32 > b as i32)),
    i32x(3, "s_cmp_ge_i32", |cx, i| compare(cx, i, |a, b| a as i32 >= b as i32)),
    i32x(4, "s_cmp_lt_i32", |cx, i| compare(cx, i, |a, b| (a as i32) < b as i32)),
    i32x(5, "s_cmp_le_i32", |cx, i| compare(cx, i, |a, b| a as i32 <= b as i32)),
    i32x(6, "s_cmp_eq_u32", |cx, i| compare(cx, i, |a, b| a == b)),
    i32x(7, "s_cmp_lg_u32", |cx, i| compare(cx, i, |a, b| a != b)),
    i32x(8, "s_cmp_gt_u32", |cx, i| compare(cx, i, |a, b| a > b)),
    i32x(9, "s_cmp_ge_u32", |cx, i| compare(cx, i, |a, b| a >= b)),
    i32x(10, "s_cmp_lt_u32", |cx, i| compare(cx, i, |a, b| a < b)),
    i32x(11, "s_cmp_le_u32", |cx, i| compare(cx, i, |a, b| a <= b)),
    i32x(12, "s_bitcmp0_b32", |cx, i| compare(cx, i, |a, b| a >> (b & 31) & 1 == 0)),
    i32x(13, "s_bitcmp1_b32", |cx, i| compare(cx, i, |a, b| a >> (b & 31) & 1 != 0)),
    r(14, "s_bitcmp0_b64", Ty::B64, Ty::B32, |cx, i| compare_bit64(cx, i, |a, b| a >> (b & 63) & 1 == 0)),
    r(15, "s_bitcmp1_b64", Ty::B64, Ty::B32, |cx, i| compare_bit64(cx, i, |a, b| a >> (b & 63) & 1 != 0)),
    r(16, "s_cmp_eq_u64", Ty::B64, Ty::B64, |cx, i| compare64(cx, i, |a, b| a == b)),
    r(17, "s_cmp_lg_u64", Ty::B64, Ty::B64, |cx, i| compare64(cx, i, |a, b| a != b)),
    f32x(65, "s_cmp_lt_f32", |cx, i| compare_float(cx, i, |a, b| a < b)),
    f32x(66, "s_cmp_eq_f32", |cx, i| compare_float(cx, i, |a, b| a == b)),
    f32x(67, "s_cmp_le_f32", |cx, i| compare_float(cx, i, |a, b| a <= b)),
    f32x(68, "s_cmp_gt_f32", |cx, i| compare_float(cx, i, |a, b| a > b)),
    f32x(69, "s_cmp_lg_f32", |cx, i| compare_float(cx, i, lg)),
    f32x(70, "s_cmp_ge_f32", |cx, i| compare_float(cx, i, |a, b| a >= b)),
    f32x(71, "s_cmp_o_f32", |cx, i| compare_float(cx, i, |a, b| !unordered(a, b))),
    f32x(72, "s_cmp_u_f32", |cx, i| compare_float(cx, i, unordered)),
    f32x(73, "s_cmp_nge_f32", |cx, i| compare_float(cx, i, |a, b| unordered(a, b) || a < b)),
    f32x(74, "s_cmp_nlg_f32", |cx, i| compare_float(cx, i, |a, b| !lg(a, b))),
    f32x(75, "s_cmp_ngt_f32", |cx, i| compare_float(cx, i, |a, b| unordered(a, b) || a <= b)),
    f32x(76, "s_cmp_nle_f32", |cx, i| compare_float(cx, i, |a, b| unordered(a, b) || a > b)),
    f32x(77, "s_cmp_neq_f32", |cx, i| compare_float(cx, i, |a, b| a != b)),
    f32x(78, "s_cmp_nlt_f32", |cx, i| compare_float(cx, i, |a, b| unordered(a, b) || a >= b)),
    f16x(81, "s_cmp_lt_f16", |cx, i| compare_half(cx, i, |a, b| a < b)),
    f16x(82, "s_cmp_eq_f16", |cx, i| compare_half(cx, i, |a, b| a == b)),
    f16x(83, "s_cmp_le_f16", |cx, i| compare_half(cx, i, |a, b| a <= b)),
    f16x(84, "s_cmp_gt_f16", |cx, i| compare_half(cx, i, |a, b| a > b)),
    f16x(85, "s_cmp_lg_f16", |cx, i| compare_half(cx, i, lg)),
    f16x(86, "s_cmp_ge_f16", |cx, i| compare_half(cx, i, |a, b| a >= b)),
    f16x(87, "s_cmp_o_f16", |cx, i| compare_half(cx, i, |a, b| !unordered(a, b))),
    f16x(88, "s_cmp_u_f16", |cx, i| compare_half(cx, i, unordered)),
    f16x(89, "s_cmp_nge_f16", |cx, i| compare_half(cx, i, |a, b| unordered(a, b) || a < b)),
    f16x(90, "s_cmp_nlg_f16", |cx, i| compare_half(cx, i, |a, b| !lg(a, b))),
    f16x(91, "s_cmp_ngt_f16", |cx, i| compare_half(cx, i, |a, b| unordered(a, b) || a <= b)),
    f16x(92, "s_cmp_nle_f16", |cx, i| compare_half(cx, i, |a, b| unordered(a, b) || a > b)),
    f16x(93, "s_cmp_neq_f16", |cx, i| compare_half(cx, i, |a, b| a != b)),
    f16x(94, "s_cmp_nlt_f16", |cx, i| compare_half(cx, i, |a, b| unordered(a, b) || a >= b)),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 16 & 127) as u16, word)?;
    let codes = [(word & 255) as u16, (word >> 8 & 255) as u16];
    let has_literal = codes.contains(&LITERAL);
    let mut inst = Inst::new(row, Format::Sopc, 1 + has_literal as u8, words)?;
    let literal = has_literal.then_some(inst.words[1]);
    inst.src[0] = src(codes[0], row.s[0], literal, word)?;
    inst.src[1] = src(codes[1], row.s[1], literal, word)?;
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let (row, word, literal) = (inst.row, inst.words[0], inst.words[1]);
    let source = |code: u16, ty: Ty| match code {
        // LLVM prints f16 constants of this format by their bits.
        240..=248 if ty == Ty::F16 => value_text(constant(code, ty)),
        LITERAL if ty == Ty::F16 && !is_inline(literal, Ty::B32) => format!("{:#x}", literal as u16),
        LITERAL if ty == Ty::F16 => format!("lit({literal:#x})"),
        _ => scalar_text(code, ty, literal),
    };
    let a = source((word & 255) as u16, row.s[0]);
    let b = source((word >> 8 & 255) as u16, row.s[1]);
    format!("{} {a}, {b}", row.name)
}
