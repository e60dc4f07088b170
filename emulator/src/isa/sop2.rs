//! SOP2: two scalar sources, one scalar destination.

use super::operand::{LITERAL, scalar_text, sgpr, sgpr_text, src};
use super::{DecodeError, Format, Inst, Row, Src, Ty, row};
use crate::execute::scalar::*;
use crate::execute::soft_float as soft;
use crate::wave::Exec;

/// The literal is the second operand of `s_fmamk_f32`.
const MIDDLE_LITERAL: u32 = 1;
/// The literal is the third operand of `s_fmaak_f32`.
const LAST_LITERAL: u32 = 2;

const fn r(op: u16, name: &'static str, d: Ty, a: Ty, b: Ty, exec: Exec) -> Row {
    Row { op, name, d, s: [a, b, Ty::None], flags: 0, exec }
}
const fn r32(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B32, Ty::B32, Ty::B32, exec)
}
const fn r64(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B64, Ty::B64, Ty::B64, exec)
}
const fn shift(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B64, Ty::B64, Ty::B32, exec)
}
const fn f32x(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::F32, Ty::F32, Ty::F32, exec)
}
const fn f16x(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::F16, Ty::F16, Ty::F16, exec)
}

fn lshl_add(a: u32, b: u32, by: u32) -> (u32, bool) {
    let wide = ((a as u64) << by) + b as u64;
    (wide as u32, wide >> 32 != 0)
}
/// Offset `[4:0]` and width `[22:16]` of a 32-bit field.
fn bfe_u32(a: u32, b: u32) -> u32 {
    bfe_u64(a as u64, b & !0x20) as u32
}
fn bfe_i32(a: u32, b: u32) -> u32 {
    let (offset, width) = (b & 31, b >> 16 & 127);
    if width == 0 {
        return 0;
    }
    let kept = width.min(32 - offset);
    (((a >> offset) << (32 - kept)) as i32 >> (32 - kept)) as u32
}
/// Offset `[5:0]` and width `[22:16]` of a 64-bit field.
fn bfe_u64(a: u64, b: u32) -> u64 {
    let (offset, width) = (b & 63, b >> 16 & 127);
    let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    a >> offset & mask
}
fn bfe_i64(a: u64, b: u32) -> u64 {
    let (offset, width) = (b & 63, b >> 16 & 127);
    if width == 0 {
        return 0;
    }
    let kept = width.min(64 - offset);
    (((a >> offset) << (64 - kept)) as i64 >> (64 - kept)) as u64
}

/// Its instructions.
pub static ROWS: &[Row] = &[
    r32(0, "s_add_co_u32", |cx, i| bin_scc(cx, i, |a, b| a.overflowing_add(b))),
    r32(1, "s_sub_co_u32", |cx, i| bin_scc(cx, i, |a, b| a.overflowing_sub(b))),
    r32(2, "s_add_co_i32", |cx, i| {
        bin_scc(cx, i, |a, b| {
            let (sum, over) = (a as i32).overflowing_add(b as i32);
            (sum as u32, over)
        })
    }),
    r32(3, "s_sub_co_i32", |cx, i| {
        bin_scc(cx, i, |a, b| {
            let (difference, over) = (a as i32).overflowing_sub(b as i32);
            (difference as u32, over)
        })
    }),
    r32(4, "s_add_co_ci_u32", |cx, i| bin_carry(cx, i, |a, b, c| a.carrying_add(b, c))),
    r32(5, "s_sub_co_ci_u32", |cx, i| bin_carry(cx, i, |a, b, c| a.borrowing_sub(b, c))),
    r32(6, "s_absdiff_i32", |cx, i| bin_nz(cx, i, |a, b| (a as i32).wrapping_sub(b as i32).wrapping_abs() as u32)),
    r32(8, "s_lshl_b32", |cx, i| bin_nz(cx, i, |a, b| a << (b & 31))),
    shift(9, "s_lshl_b64", |cx, i| shift64(cx, i, |a, b| a << (b & 63))),
    r32(10, "s_lshr_b32", |cx, i| bin_nz(cx, i, |a, b| a >> (b & 31))),
    shift(11, "s_lshr_b64", |cx, i| shift64(cx, i, |a, b| a >> (b & 63))),
    r32(12, "s_ashr_i32", |cx, i| bin_nz(cx, i, |a, b| (a as i32 >> (b & 31)) as u32)),
    r(13, "s_ashr_i64", Ty::B64, Ty::I64, Ty::B32, |cx, i| shift64(cx, i, |a, b| (a as i64 >> (b & 63)) as u64)),
    r32(14, "s_lshl1_add_u32", |cx, i| bin_scc(cx, i, |a, b| lshl_add(a, b, 1))),
    r32(15, "s_lshl2_add_u32", |cx, i| bin_scc(cx, i, |a, b| lshl_add(a, b, 2))),
    r32(16, "s_lshl3_add_u32", |cx, i| bin_scc(cx, i, |a, b| lshl_add(a, b, 3))),
    r32(17, "s_lshl4_add_u32", |cx, i| bin_scc(cx, i, |a, b| lshl_add(a, b, 4))),
    r32(18, "s_min_i32", |cx, i| bin_scc(cx, i, |a, b| ((a as i32).min(b as i32) as u32, (a as i32) < b as i32))),
    r32(19, "s_min_u32", |cx, i| bin_scc(cx, i, |a, b| (a.min(b), a < b))),
    r32(20, "s_max_i32", |cx, i| bin_scc(cx, i, |a, b| ((a as i32).max(b as i32) as u32, a as i32 >= b as i32))),
    r32(21, "s_max_u32", |cx, i| bin_scc(cx, i, |a, b| (a.max(b), a >= b))),
    r32(22, "s_and_b32", |cx, i| bin_nz(cx, i, |a, b| a & b)),
    r64(23, "s_and_b64", |cx, i| bin64_nz(cx, i, |a, b| a & b)),
    r32(24, "s_or_b32", |cx, i| bin_nz(cx, i, |a, b| a | b)),
    r64(25, "s_or_b64", |cx, i| bin64_nz(cx, i, |a, b| a | b)),
    r32(26, "s_xor_b32", |cx, i| bin_nz(cx, i, |a, b| a ^ b)),
    r64(27, "s_xor_b64", |cx, i| bin64_nz(cx, i, |a, b| a ^ b)),
    r32(28, "s_nand_b32", |cx, i| bin_nz(cx, i, |a, b| !(a & b))),
    r64(29, "s_nand_b64", |cx, i| bin64_nz(cx, i, |a, b| !(a & b))),
    r32(30, "s_nor_b32", |cx, i| bin_nz(cx, i, |a, b| !(a | b))),
    r64(31, "s_nor_b64", |cx, i| bin64_nz(cx, i, |a, b| !(a | b))),
    r32(32, "s_xnor_b32", |cx, i| bin_nz(cx, i, |a, b| !(a ^ b))),
    r64(33, "s_xnor_b64", |cx, i| bin64_nz(cx, i, |a, b| !(a ^ b))),
    r32(34, "s_and_not1_b32", |cx, i| bin_nz(cx, i, |a, b| a & !b)),
    r64(35, "s_and_not1_b64", |cx, i| bin64_nz(cx, i, |a, b| a & !b)),
    r32(36, "s_or_not1_b32", |cx, i| bin_nz(cx, i, |a, b| a | !b)),
    r64(37, "s_or_not1_b64", |cx, i| bin64_nz(cx, i, |a, b| a | !b)),
    r32(38, "s_bfe_u32", |cx, i| bin_nz(cx, i, bfe_u32)),
    r32(39, "s_bfe_i32", |cx, i| bin_nz(cx, i, bfe_i32)),
    shift(40, "s_bfe_u64", |cx, i| shift64(cx, i, bfe_u64)),
    r(41, "s_bfe_i64", Ty::B64, Ty::I64, Ty::B32, |cx, i| shift64(cx, i, bfe_i64)),
    r32(42, "s_bfm_b32", |cx, i| bin(cx, i, |a, b| ((1u32 << (a & 31)) - 1) << (b & 31))),
    r(43, "s_bfm_b64", Ty::B64, Ty::B32, Ty::B32, |cx, i| {
        bin_widen(cx, i, |a, b| ((1u64 << (a & 63)) - 1) << (b & 63))
    }),
    r32(44, "s_mul_i32", |cx, i| bin(cx, i, u32::wrapping_mul)),
    r32(45, "s_mul_hi_u32", |cx, i| bin(cx, i, |a, b| ((a as u64 * b as u64) >> 32) as u32)),
    r32(46, "s_mul_hi_i32", |cx, i| bin(cx, i, |a, b| ((a as i32 as i64 * b as i32 as i64) >> 32) as u32)),
    r32(48, "s_cselect_b32", |cx, i| {
        let scc = cx.wave.scc;
        bin(cx, i, |a, b| if scc { a } else { b })
    }),
    r64(49, "s_cselect_b64", |cx, i| {
        let scc = cx.wave.scc;
        bin64(cx, i, |a, b| if scc { a } else { b })
    }),
    r(50, "s_pack_ll_b32_b16", Ty::B32, Ty::B16, Ty::B16, |cx, i| bin(cx, i, |a, b| a & 0xffff | b << 16)),
    r(51, "s_pack_lh_b32_b16", Ty::B32, Ty::B16, Ty::B32, |cx, i| bin(cx, i, |a, b| a & 0xffff | b & 0xffff_0000)),
    r(52, "s_pack_hh_b32_b16", Ty::B32, Ty::B32, Ty::B32, |cx, i| bin(cx, i, |a, b| a >> 16 | b & 0xffff_0000)),
    r(53, "s_pack_hl_b32_b16", Ty::B32, Ty::B32, Ty::B16, |cx, i| bin(cx, i, |a, b| a >> 16 | b << 16)),
    f32x(64, "s_add_f32", |cx, i| float2(cx, i, |a, b| a + b, soft::add)),
    f32x(65, "s_sub_f32", |cx, i| float2(cx, i, |a, b| a - b, soft::sub)),
    f32x(66, "s_min_num_f32", |cx, i| pick32(cx, i, min_num)),
    f32x(67, "s_max_num_f32", |cx, i| pick32(cx, i, max_num)),
    f32x(68, "s_mul_f32", |cx, i| float2(cx, i, |a, b| a * b, soft::mul)),
    Row {
        op: 69,
        name: "s_fmaak_f32",
        d: Ty::F32,
        s: [Ty::F32, Ty::F32, Ty::F32],
        flags: LAST_LITERAL,
        exec: |cx, i| fma32(cx, i, i.src[0], i.src[1], i.src[2]),
    },
    Row {
        op: 70,
        name: "s_fmamk_f32",
        d: Ty::F32,
        s: [Ty::F32, Ty::F32, Ty::F32],
        flags: MIDDLE_LITERAL,
        exec: |cx, i| fma32(cx, i, i.src[0], i.src[2], i.src[1]),
    },
    f32x(71, "s_fmac_f32", |cx, i| fma32(cx, i, i.src[0], i.src[1], Src::Sgpr(i.dst))),
    r(72, "s_cvt_pk_rtz_f16_f32", Ty::PkF16, Ty::F32, Ty::F32, pack_rtz),
    f16x(73, "s_add_f16", |cx, i| half2(cx, i, soft::add)),
    f16x(74, "s_sub_f16", |cx, i| half2(cx, i, soft::sub)),
    f16x(75, "s_min_num_f16", |cx, i| pick16(cx, i, min_num)),
    f16x(76, "s_max_num_f16", |cx, i| pick16(cx, i, max_num)),
    f16x(77, "s_mul_f16", |cx, i| half2(cx, i, soft::mul)),
    f16x(78, "s_fmac_f16", fmac16),
    f32x(79, "s_minimum_f32", |cx, i| pick32(cx, i, minimum)),
    f32x(80, "s_maximum_f32", |cx, i| pick32(cx, i, maximum)),
    f16x(81, "s_minimum_f16", |cx, i| pick16(cx, i, minimum)),
    f16x(82, "s_maximum_f16", |cx, i| pick16(cx, i, maximum)),
    r64(83, "s_add_nc_u64", |cx, i| bin64(cx, i, u64::wrapping_add)),
    r64(84, "s_sub_nc_u64", |cx, i| bin64(cx, i, u64::wrapping_sub)),
    r64(85, "s_mul_u64", |cx, i| bin64(cx, i, u64::wrapping_mul)),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 23 & 127) as u16, word)?;
    let codes = [(word & 255) as u16, (word >> 8 & 255) as u16];
    let has_literal = row.flags != 0 || codes.contains(&LITERAL);
    let mut inst = Inst::new(row, Format::Sop2, 1 + has_literal as u8, words)?;
    let literal = has_literal.then_some(inst.words[1]);
    inst.dst = sgpr((word >> 16 & 127) as u8, row.d, word)?;
    inst.src[0] = src(codes[0], row.s[0], literal, word)?;
    inst.src[1] = src(codes[1], row.s[1], literal, word)?;
    if row.flags != 0 {
        inst.src[2] = src(LITERAL, Ty::F32, literal, word)?;
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let (row, word, literal) = (inst.row, inst.words[0], inst.words[1]);
    let d = sgpr_text((word >> 16 & 127) as u8, row.d.dwords());
    let a = scalar_text((word & 255) as u16, row.s[0], literal);
    let b = scalar_text((word >> 8 & 255) as u16, row.s[1], literal);
    let name = row.name;
    match row.flags {
        MIDDLE_LITERAL => format!("{name} {d}, {a}, {literal:#x}, {b}"),
        LAST_LITERAL => format!("{name} {d}, {a}, {b}, {literal:#x}"),
        _ => format!("{name} {d}, {a}, {b}"),
    }
}
