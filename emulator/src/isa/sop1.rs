//! SOP1: one scalar source. Also jumps through registers, messages that return and the signalling half of barriers.

use super::operand::{LITERAL, scalar_text, sgpr, sgpr_text, src};
use super::sopp::message_text;
use super::{DecodeError, Format, Inst, Row, Src, Ty, row};
use crate::execute::scalar::*;
use crate::fault::Fault;
use crate::wave::{Barrier, Cx, Exec, Flow, M0, Step};

/// The source is a message number.
const MESSAGE: u32 = 1;
/// There is no destination.
const NO_DST: u32 = 2;
/// There is no source.
const NO_SRC: u32 = 4;
/// The source is a register, not a constant.
const REGISTER: u32 = 8;

const fn r(op: u16, name: &'static str, d: Ty, a: Ty, exec: Exec) -> Row {
    Row { op, name, d, s: [a, Ty::None, Ty::None], flags: 0, exec }
}
const fn flagged(op: u16, name: &'static str, d: Ty, a: Ty, flags: u32, exec: Exec) -> Row {
    Row { op, name, d, s: [a, Ty::None, Ty::None], flags, exec }
}
const fn r32(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B32, Ty::B32, exec)
}
const fn r64(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B64, Ty::B64, exec)
}
const fn narrowing(op: u16, name: &'static str, exec: Exec) -> Row {
    r(op, name, Ty::B32, Ty::B64, exec)
}

/// Position of the first bit from the top that differs from the sign, or −1.
fn cls(x: i32) -> u32 {
    if x == 0 || x == -1 { u32::MAX } else { (if x < 0 { !x } else { x }).leading_zeros() }
}
fn cls64(x: i64) -> u32 {
    if x == 0 || x == -1 { u32::MAX } else { (if x < 0 { !x } else { x }).leading_zeros() }
}
fn or_minus_one(count: u32, bits: u32) -> u32 {
    if count == bits { u32::MAX } else { count }
}
/// Rust's float-to-int casts saturate and send NaN to 0, as the hardware does.
fn to_i32(x: f32) -> u32 {
    x as i32 as u32
}
fn to_u32(x: f32) -> u32 {
    x as u32
}

/// The workgroup barrier (−1). Number 0 is none, −2 the trap handler's and ignored outside it: nobody comes first to either. Others do
/// not exist on this chip.
fn barrier(cx: &mut Cx, inst: &Inst, op: Barrier) -> Step {
    let number = cx.wave.scalar(inst.src[0]);
    // M0 can only name barriers that are not negative.
    let number = if inst.src[0] == Src::Sgpr(M0) { number & 31 } else { number };
    match (number as i32, op) {
        (-1, _) => Ok(Flow::Barrier(op)),
        (-2 | 0, Barrier::Signal) => Ok(Flow::Next),
        (-2 | 0, Barrier::SignalIsFirst) => {
            cx.wave.scc = false;
            Ok(Flow::Next)
        }
        (id, _) => Err(Box::new(Fault::Barrier(format!("barrier {id} does not exist, only the workgroup's -1")))),
    }
}

/// Register `base + M0` for the relative moves.
fn relative(base: u8, by: u32, dwords: u32) -> Result<u8, Box<Fault>> {
    let index = base as u64 + by as u64;
    if base <= 105 && index + dwords as u64 <= 106 && (dwords == 1 || index.is_multiple_of(2)) {
        return Ok(index as u8);
    }
    Err(Box::new(Fault::Unsupported(format!("relative register s{index} is outside s0..s105"))))
}
fn source_register(inst: &Inst) -> Result<u8, Box<Fault>> {
    match inst.src[0] {
        Src::Sgpr(base) => Ok(base),
        _ => Err(Box::new(Fault::Unsupported("a relative move needs a register as its source".into()))),
    }
}

fn sendmsg_rtn(cx: &mut Cx, inst: &Inst) -> Step {
    let value = match inst.imm {
        0x80 => 0,          // doorbell: no queue of ours has one
        0x83 => realtime(), // 100 MHz
        0x87 => 0,          // shader engine 0
        0x82 | 0x85 => 0,   // no trap handler is installed
        id => return unsupported(format!("message {id:#x} has no answer here")),
    };
    if inst.row.d.dwords() == 2 {
        cx.wave.set_sgpr64(inst.dst, value);
    } else {
        cx.wave.set_sgpr(inst.dst, value as u32);
    }
    Ok(Flow::Next)
}

/// Steady counter at 100 MHz since the first question.
fn realtime() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    (START.get_or_init(std::time::Instant::now).elapsed().as_nanos() / 10) as u64
}

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    r32(0, "s_mov_b32", |cx, i| un(cx, i, |a| a)),
    r64(1, "s_mov_b64", |cx, i| un64(cx, i, |a| a)),
    r32(2, "s_cmov_b32", |cx, i| if cx.wave.scc { un(cx, i, |a| a) } else { Ok(Flow::Next) }),
    r64(3, "s_cmov_b64", |cx, i| if cx.wave.scc { un64(cx, i, |a| a) } else { Ok(Flow::Next) }),
    r32(4, "s_brev_b32", |cx, i| un(cx, i, u32::reverse_bits)),
    r64(5, "s_brev_b64", |cx, i| un64(cx, i, u64::reverse_bits)),
    r32(8, "s_ctz_i32_b32", |cx, i| un(cx, i, |a| or_minus_one(a.trailing_zeros(), 32))),
    narrowing(9, "s_ctz_i32_b64", |cx, i| narrow(cx, i, |a| or_minus_one(a.trailing_zeros(), 64))),
    r32(10, "s_clz_i32_u32", |cx, i| un(cx, i, |a| or_minus_one(a.leading_zeros(), 32))),
    narrowing(11, "s_clz_i32_u64", |cx, i| narrow(cx, i, |a| or_minus_one(a.leading_zeros(), 64))),
    r32(12, "s_cls_i32", |cx, i| un(cx, i, |a| cls(a as i32))),
    narrowing(13, "s_cls_i32_i64", |cx, i| narrow(cx, i, |a| cls64(a as i64))),
    r(14, "s_sext_i32_i8", Ty::B32, Ty::B16, |cx, i| un(cx, i, |a| a as i8 as u32)),
    r(15, "s_sext_i32_i16", Ty::B32, Ty::B16, |cx, i| un(cx, i, |a| a as i16 as u32)),
    r32(16, "s_bitset0_b32", |cx, i| { let d = cx.wave.scalar(Src::Sgpr(i.dst)); un(cx, i, |a| d & !(1 << (a & 31))) }),
    r(17, "s_bitset0_b64", Ty::B64, Ty::B32, |cx, i| { let d = cx.wave.sgpr64(i.dst); widen(cx, i, |a| d & !(1 << (a & 63))) }),
    r32(18, "s_bitset1_b32", |cx, i| { let d = cx.wave.scalar(Src::Sgpr(i.dst)); un(cx, i, |a| d | 1 << (a & 31)) }),
    r(19, "s_bitset1_b64", Ty::B64, Ty::B32, |cx, i| { let d = cx.wave.sgpr64(i.dst); widen(cx, i, |a| d | 1 << (a & 63)) }),
    r(20, "s_bitreplicate_b64_b32", Ty::B64, Ty::B32, |cx, i| widen(cx, i, bitreplicate)),
    r32(21, "s_abs_i32", |cx, i| un_nz(cx, i, |a| (a as i32).wrapping_abs() as u32)),
    r32(22, "s_bcnt0_i32_b32", |cx, i| un_nz(cx, i, u32::count_zeros)),
    narrowing(23, "s_bcnt0_i32_b64", |cx, i| narrow_nz(cx, i, u64::count_zeros)),
    r32(24, "s_bcnt1_i32_b32", |cx, i| un_nz(cx, i, u32::count_ones)),
    narrowing(25, "s_bcnt1_i32_b64", |cx, i| narrow_nz(cx, i, u64::count_ones)),
    r32(26, "s_quadmask_b32", |cx, i| un_nz(cx, i, |a| quadmask(a as u64) as u32)),
    r64(27, "s_quadmask_b64", |cx, i| un64_nz(cx, i, quadmask)),
    r32(28, "s_wqm_b32", |cx, i| un_nz(cx, i, |a| whole_quads(a as u64) as u32)),
    r64(29, "s_wqm_b64", |cx, i| un64_nz(cx, i, whole_quads)),
    r32(30, "s_not_b32", |cx, i| un_nz(cx, i, |a| !a)),
    r64(31, "s_not_b64", |cx, i| un64_nz(cx, i, |a| !a)),
    r32(32, "s_and_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| a & e)),
    r64(33, "s_and_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| a & e)),
    r32(34, "s_or_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| a | e)),
    r64(35, "s_or_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| a | e)),
    r32(36, "s_xor_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| a ^ e)),
    r64(37, "s_xor_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| a ^ e)),
    r32(38, "s_nand_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| !(a & e))),
    r64(39, "s_nand_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| !(a & e))),
    r32(40, "s_nor_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| !(a | e))),
    r64(41, "s_nor_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| !(a | e))),
    r32(42, "s_xnor_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| !(a ^ e))),
    r64(43, "s_xnor_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| !(a ^ e))),
    r32(44, "s_and_not0_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| !a & e)),
    r64(45, "s_and_not0_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| !a & e)),
    r32(46, "s_or_not0_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| !a | e)),
    r64(47, "s_or_not0_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| !a | e)),
    r32(48, "s_and_not1_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| a & !e)),
    r64(49, "s_and_not1_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| a & !e)),
    r32(50, "s_or_not1_saveexec_b32", |cx, i| saveexec(cx, i, |a, e| a | !e)),
    r64(51, "s_or_not1_saveexec_b64", |cx, i| saveexec64(cx, i, |a, e| a | !e)),
    r32(52, "s_and_not0_wrexec_b32", |cx, i| wrexec(cx, i, |a, e| !a & e)),
    r64(53, "s_and_not0_wrexec_b64", |cx, i| wrexec64(cx, i, |a, e| !a & e)),
    r32(54, "s_and_not1_wrexec_b32", |cx, i| wrexec(cx, i, |a, e| a & !e)),
    r64(55, "s_and_not1_wrexec_b64", |cx, i| wrexec64(cx, i, |a, e| a & !e)),
    flagged(64, "s_movrels_b32", Ty::B32, Ty::B32, REGISTER, |cx, i| {
        let from = relative(source_register(i)?, cx.wave.sgpr[M0 as usize], 1)?;
        let value = cx.wave.scalar(Src::Sgpr(from));
        cx.wave.set_sgpr(i.dst, value);
        Ok(Flow::Next)
    }),
    flagged(65, "s_movrels_b64", Ty::B64, Ty::B64, REGISTER, |cx, i| {
        let from = relative(source_register(i)?, cx.wave.sgpr[M0 as usize], 2)?;
        let value = cx.wave.sgpr64(from);
        cx.wave.set_sgpr64(i.dst, value);
        Ok(Flow::Next)
    }),
    r32(66, "s_movreld_b32", |cx, i| {
        let to = relative(i.dst, cx.wave.sgpr[M0 as usize], 1)?;
        let value = cx.wave.scalar(i.src[0]);
        cx.wave.set_sgpr(to, value);
        Ok(Flow::Next)
    }),
    r64(67, "s_movreld_b64", |cx, i| {
        let to = relative(i.dst, cx.wave.sgpr[M0 as usize], 2)?;
        let value = cx.wave.scalar64(i.src[0]);
        cx.wave.set_sgpr64(to, value);
        Ok(Flow::Next)
    }),
    r32(68, "s_movrelsd_2_b32", |cx, i| {
        let m0 = cx.wave.sgpr[M0 as usize];
        let from = relative(source_register(i)?, m0 & 0x3ff, 1)?;
        let to = relative(i.dst, m0 >> 16 & 0x3ff, 1)?;
        let value = cx.wave.scalar(Src::Sgpr(from));
        cx.wave.set_sgpr(to, value);
        Ok(Flow::Next)
    }),
    flagged(71, "s_getpc_b64", Ty::B64, Ty::None, NO_SRC, |cx, i| {
        let next = cx.wave.pc + 4;
        cx.wave.set_sgpr64(i.dst, next);
        Ok(Flow::Next)
    }),
    flagged(72, "s_setpc_b64", Ty::None, Ty::B64, NO_DST | REGISTER, |cx, i| Ok(Flow::Jump(cx.wave.scalar64(i.src[0])))),
    r64(73, "s_swappc_b64", |cx, i| {
        let target = cx.wave.scalar64(i.src[0]);
        let next = cx.wave.pc + 4;
        cx.wave.set_sgpr64(i.dst, next);
        Ok(Flow::Jump(target))
    }),
    flagged(74, "s_rfe_b64", Ty::None, Ty::B64, NO_DST | REGISTER, |_, _| unsupported("return from a trap handler: none is installed")),
    flagged(76, "s_sendmsg_rtn_b32", Ty::B32, Ty::Imm, MESSAGE, sendmsg_rtn),
    flagged(77, "s_sendmsg_rtn_b64", Ty::B64, Ty::Imm, MESSAGE, sendmsg_rtn),
    flagged(78, "s_barrier_signal", Ty::None, Ty::B32, NO_DST, |cx, i| barrier(cx, i, Barrier::Signal)),
    flagged(79, "s_barrier_signal_isfirst", Ty::None, Ty::B32, NO_DST, |cx, i| barrier(cx, i, Barrier::SignalIsFirst)),
    r32(80, "s_get_barrier_state", |cx, i| barrier(cx, i, Barrier::State(i.dst))),
    flagged(81, "s_barrier_init", Ty::None, Ty::B32, NO_DST, |_, _| unsupported("named barriers do not exist on gfx1201")),
    flagged(82, "s_barrier_join", Ty::None, Ty::B32, NO_DST, |_, _| unsupported("named barriers do not exist on gfx1201")),
    flagged(83, "s_alloc_vgpr", Ty::None, Ty::B32, NO_DST, |_, _| unsupported("dynamic VGPRs")),
    flagged(88, "s_sleep_var", Ty::None, Ty::B32, NO_DST, |_, _| Ok(Flow::Yield)),
    r(96, "s_ceil_f32", Ty::F32, Ty::F32, |cx, i| integral32(cx, i, f32::ceil)),
    r(97, "s_floor_f32", Ty::F32, Ty::F32, |cx, i| integral32(cx, i, f32::floor)),
    r(98, "s_trunc_f32", Ty::F32, Ty::F32, |cx, i| integral32(cx, i, f32::trunc)),
    r(99, "s_rndne_f32", Ty::F32, Ty::F32, |cx, i| integral32(cx, i, f32::round_ties_even)),
    r(100, "s_cvt_f32_i32", Ty::F32, Ty::B32, |cx, i| from_integer(cx, i, |a| a as i32 as i64)),
    r(101, "s_cvt_f32_u32", Ty::F32, Ty::B32, |cx, i| from_integer(cx, i, |a| a as i64)),
    r(102, "s_cvt_i32_f32", Ty::B32, Ty::F32, |cx, i| to_integer(cx, i, to_i32)),
    r(103, "s_cvt_u32_f32", Ty::B32, Ty::F32, |cx, i| to_integer(cx, i, to_u32)),
    r(104, "s_cvt_f16_f32", Ty::F16, Ty::F32, narrow16),
    r(105, "s_cvt_f32_f16", Ty::F32, Ty::F16, |cx, i| widen32(cx, i, |a| a)),
    r(106, "s_cvt_hi_f32_f16", Ty::F32, Ty::B32, |cx, i| widen32(cx, i, |a| a >> 16)),
    r(107, "s_ceil_f16", Ty::F16, Ty::F16, |cx, i| integral16(cx, i, f32::ceil)),
    r(108, "s_floor_f16", Ty::F16, Ty::F16, |cx, i| integral16(cx, i, f32::floor)),
    r(109, "s_trunc_f16", Ty::F16, Ty::F16, |cx, i| integral16(cx, i, f32::trunc)),
    r(110, "s_rndne_f16", Ty::F16, Ty::F16, |cx, i| integral16(cx, i, f32::round_ties_even)),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 8 & 255) as u16, word)?;
    let code = (word & 255) as u16;
    if row.flags & MESSAGE != 0 {
        let mut inst = Inst::new(row, Format::Sop1, 1, words)?;
        inst.dst = sgpr((word >> 16 & 127) as u8, row.d, word)?;
        inst.imm = code as i32;
        return Ok(inst);
    }
    let has_literal = code == LITERAL && row.flags & NO_SRC == 0;
    if has_literal && matches!(row.op, 78..=83) {
        return Err(DecodeError::Invalid { word, reason: format!("{} does not take a literal", row.name) });
    }
    let mut inst = Inst::new(row, Format::Sop1, 1 + has_literal as u8, words)?;
    if row.flags & NO_DST == 0 {
        inst.dst = sgpr((word >> 16 & 127) as u8, row.d, word)?;
    }
    if row.flags & REGISTER != 0 && !matches!(code, 0..=127 | 235..=238 | 253) {
        return Err(DecodeError::Invalid { word, reason: format!("{} takes a register, not code {code}", row.name) });
    }
    if row.flags & NO_SRC == 0 {
        inst.src[0] = src(code, row.s[0], has_literal.then_some(inst.words[1]), word)?;
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let (row, word) = (inst.row, inst.words[0]);
    let d = sgpr_text((word >> 16 & 127) as u8, row.d.dwords());
    let code = (word & 255) as u16;
    if row.flags & MESSAGE != 0 {
        return format!("{} {d}, {}", row.name, message_text(code));
    }
    if row.flags & NO_SRC != 0 {
        return format!("{} {d}", row.name);
    }
    // LLVM prints f16 literals of this format with all their bits.
    let ty = if row.s[0] == Ty::F16 { Ty::B32 } else { row.s[0] };
    let a = scalar_text(code, ty, inst.words[1]);
    if row.flags & NO_DST != 0 { format!("{} {a}", row.name) } else { format!("{} {d}, {a}", row.name) }
}
