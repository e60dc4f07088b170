//! SOPP: control flow, waits, hints and messages with a 16-bit immediate.
//!
//! Memory operations finish when they execute, so the waits have nothing to wait for; they are host fences, so that what a kernel may
//! conclude from a wait holds for dwords shared with other threads (relaxed atomics).

use super::{DecodeError, Format, Inst, Row, Ty, row};
use crate::execute::scalar::unsupported;
use crate::wave::{Barrier, Cx, Exec, Flow, Step};
use std::sync::atomic::{Ordering, fence};

/// How the immediate is printed.
mod print {
    /// Not at all.
    pub const NONE: u32 = 0;
    /// Decimal up to 64, hexadecimal beyond.
    pub const SMALL: u32 = 1;
    /// Hexadecimal.
    pub const HEX: u32 = 2;
    /// Decimal.
    pub const DECIMAL: u32 = 3;
    /// Decimal, nothing if 0.
    pub const CODE: u32 = 4;
    pub const MESSAGE: u32 = 5;
    pub const DELAY: u32 = 6;
    pub const ALU: u32 = 7;
    pub const WAITCNT: u32 = 8;
}
use print::*;

const fn r(op: u16, name: &'static str, flags: u32, exec: Exec) -> Row {
    Row { op, name, d: Ty::None, s: [Ty::Imm, Ty::None, Ty::None], flags, exec }
}
/// No architectural effect.
fn nop(_: &mut Cx, _: &Inst) -> Step {
    Ok(Flow::Next)
}
/// A wait for loads: none that follows may take effect before those that were waited for. That is an acquire fence, which pairs with
/// the writer's wait for stores and is free on x86.
fn wait_loads(_: &mut Cx, _: &Inst) -> Step {
    fence(Ordering::Acquire);
    Ok(Flow::Next)
}
/// A wait for LDS or scalar loads. LDS belongs to one thread; scalar loads are as other loads.
fn wait_local(_: &mut Cx, _: &Inst) -> Step {
    fence(Ordering::Acquire);
    Ok(Flow::Next)
}
/// A wait for stores. A release fence would do for message passing. But what was waited for has reached memory, so of two waves that
/// each store, wait and then load what the other stored, one sees the store; a host core may still hold its store back when it loads,
/// and only a sequentially consistent fence forbids that.
fn wait_stores(_: &mut Cx, _: &Inst) -> Step {
    fence(Ordering::SeqCst);
    Ok(Flow::Next)
}
#[inline(always)]
fn branch(cx: &mut Cx, inst: &Inst, taken: bool) -> Step {
    if taken {
        return Ok(Flow::Jump(target(inst, cx.wave.pc)));
    }
    Ok(Flow::Next)
}
#[inline(always)]
fn target(inst: &Inst, pc: u64) -> u64 {
    pc.wrapping_add(4).wrapping_add_signed(inst.imm as i64 * 4)
}
/// Whether it is a branch to a fixed place.
pub fn is_branch(inst: &Inst) -> bool {
    inst.format == Format::Sopp && matches!(inst.row.op, 32..=38)
}
/// Bit 0 ends the wave.
fn set_kill(_: &mut Cx, inst: &Inst) -> Step {
    Ok(if inst.imm & 1 != 0 { Flow::End } else { Flow::Next })
}
/// Bit 0 halts the wave, until a debugger clears what it set. There is none, so that would be a hang.
fn set_halt(_: &mut Cx, inst: &Inst) -> Step {
    if inst.imm & 1 != 0 {
        return unsupported(format!("{}: nobody would let the halted wave go on", inst.row.name));
    }
    Ok(Flow::Next)
}
/// What AMD's trap handler makes of it (LLVM's AMDGPUUsage, trap handler ABI): 3 is `llvm.debugtrap`, which goes on where no debugger
/// is; 2 is `llvm.trap`, which ends the queue.
fn trap(_: &mut Cx, inst: &Inst) -> Step {
    match inst.imm as u16 {
        3 => Ok(Flow::Next),
        2 => unsupported("s_trap 2: the kernel gave up (llvm.trap)"),
        id => unsupported(format!("s_trap {id} is the debugger's")),
    }
}
/// Bit 15 asks for a sleep that only `s_wakeup` ends; going on without one would hide a hang.
fn sleep(_: &mut Cx, inst: &Inst) -> Step {
    if inst.imm & 0x8000 != 0 {
        return unsupported("s_sleep until s_wakeup");
    }
    Ok(Flow::Yield)
}
fn sendmsg(_: &mut Cx, inst: &Inst) -> Step {
    match inst.imm & 0xff {
        1 | 3 => Ok(Flow::Next), // interrupt, and freeing VGPRs before the end
        id => unsupported(format!("message {id} belongs to graphics")),
    }
}

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    r(0, "s_nop", SMALL, nop),
    r(1, "s_setkill", SMALL, set_kill),
    r(2, "s_sethalt", SMALL, set_halt),
    r(3, "s_sleep", SMALL, sleep),
    r(5, "s_clause", HEX, nop),
    r(7, "s_delay_alu", DELAY, nop),
    r(8, "s_wait_alu", ALU, nop),
    r(9, "s_waitcnt", WAITCNT, wait_stores),
    r(10, "s_wait_idle", NONE, wait_stores),
    r(11, "s_wait_event", HEX, nop),
    r(16, "s_trap", SMALL, trap),
    r(17, "s_round_mode", HEX, |cx, i| { cx.wave.mode = cx.wave.mode & !0x0f | i.imm as u32 & 15; Ok(Flow::Next) }),
    r(18, "s_denorm_mode", SMALL, |cx, i| { cx.wave.mode = cx.wave.mode & !0xf0 | (i.imm as u32 & 15) << 4; Ok(Flow::Next) }),
    r(20, "s_barrier_wait", SMALL, |_, i| match i.imm as i16 {
        -1 => Ok(Flow::Barrier(Barrier::Wait)),
        -2 => Ok(Flow::Next),
        id => unsupported(format!("barrier {id} does not exist, only the workgroup's -1")),
    }),
    r(21, "s_barrier_leave", NONE, |_, _| unsupported("named barriers do not exist on gfx1201")),
    r(31, "s_code_end", NONE, |_, _| unsupported("the padding behind the code was executed")),
    r(32, "s_branch", DECIMAL, |cx, i| branch(cx, i, true)),
    r(33, "s_cbranch_scc0", DECIMAL, |cx, i| branch(cx, i, !cx.wave.scc)),
    r(34, "s_cbranch_scc1", DECIMAL, |cx, i| branch(cx, i, cx.wave.scc)),
    r(35, "s_cbranch_vccz", DECIMAL, |cx, i| branch(cx, i, cx.wave.vcc() == 0)),
    r(36, "s_cbranch_vccnz", DECIMAL, |cx, i| branch(cx, i, cx.wave.vcc() != 0)),
    r(37, "s_cbranch_execz", DECIMAL, |cx, i| branch(cx, i, cx.wave.exec() == 0)),
    r(38, "s_cbranch_execnz", DECIMAL, |cx, i| branch(cx, i, cx.wave.exec() != 0)),
    r(48, "s_endpgm", CODE, |_, _| Ok(Flow::End)),
    r(49, "s_endpgm_saved", NONE, |_, _| Ok(Flow::End)),
    r(52, "s_wakeup", NONE, nop),
    r(53, "s_setprio", SMALL, nop),
    r(54, "s_sendmsg", MESSAGE, sendmsg),
    r(55, "s_sendmsghalt", MESSAGE, |_, i| unsupported(format!("{}: nobody would let the halted wave go on", i.row.name))),
    r(56, "s_incperflevel", SMALL, nop),
    r(57, "s_decperflevel", SMALL, nop),
    r(58, "s_ttracedata", NONE, nop),
    r(59, "s_ttracedata_imm", HEX, nop),
    r(60, "s_icache_inv", NONE, nop),
    r(64, "s_wait_loadcnt", HEX, wait_loads),
    r(65, "s_wait_storecnt", HEX, wait_stores),
    r(66, "s_wait_samplecnt", HEX, nop),
    r(67, "s_wait_bvhcnt", HEX, nop),
    r(68, "s_wait_expcnt", HEX, nop),
    r(70, "s_wait_dscnt", HEX, wait_local),
    r(71, "s_wait_kmcnt", HEX, wait_local),
    r(72, "s_wait_loadcnt_dscnt", HEX, wait_loads),
    r(73, "s_wait_storecnt_dscnt", HEX, wait_stores),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 16 & 127) as u16, word)?;
    let mut inst = Inst::new(row, Format::Sopp, 1, words)?;
    inst.imm = word as u16 as i16 as i32;
    if row.flags == NONE && inst.imm != 0 {
        let reason = format!("{} takes no immediate, its field holds {:#x}", row.name, word as u16);
        return Err(DecodeError::Invalid { word, reason });
    }
    let imm = word as u16;
    if row.flags == DELAY && (imm & 15 > 11 || imm >> 4 & 7 > 5 || imm >> 7 & 15 > 11) {
        return Err(DecodeError::Invalid { word, reason: format!("{} has no meaning for {imm:#x}", row.name) });
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let imm = inst.words[0] as u16;
    let name = inst.row.name;
    match inst.row.flags {
        NONE => name.into(),
        CODE if imm == 0 => name.into(),
        SMALL if imm <= 64 => format!("{name} {imm}"),
        SMALL | HEX => format!("{name} {imm:#x}"),
        DECIMAL | CODE => format!("{name} {imm}"),
        WAITCNT => format!("{name} {}", waitcnt_text(imm)),
        MESSAGE => format!("{name} {}", message_text(imm)),
        DELAY => format!("{name} {}", delay_text(imm)),
        _ => format!("{name} {}", alu_text(imm)),
    }
}

/// `sendmsg(…)` of `s_sendmsg` and `s_sendmsg_rtn_*`.
pub fn message_text(value: u16) -> String {
    let name = match value & 0xff {
        1 => "MSG_INTERRUPT",
        2 => "MSG_HS_TESSFACTOR",
        3 => "MSG_DEALLOC_VGPRS",
        9 => "MSG_GS_ALLOC_REQ",
        0x80 => "MSG_RTN_GET_DOORBELL",
        0x81 => "MSG_RTN_GET_DDID",
        0x82 => "MSG_RTN_GET_TMA",
        0x83 => "MSG_RTN_GET_REALTIME",
        0x84 => "MSG_RTN_SAVE_WAVE",
        0x85 => "MSG_RTN_GET_TBA",
        0x86 => "MSG_RTN_GET_TBA_TO_PC",
        0x87 => "MSG_RTN_GET_SE_AID_ID",
        id if id == value => return format!("sendmsg({id}, 0, 0)"),
        _ => return value.to_string(),
    };
    format!("sendmsg({name})")
}

fn delay_text(imm: u16) -> String {
    const IDS: [&str; 12] = [
        "NO_DEP",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let id = |v: u16| IDS.get(v as usize).copied().unwrap_or("?"); // refused by the decoder
    let (first, skip, second) = (imm & 15, imm >> 4 & 7, imm >> 7 & 15);
    let mut parts = Vec::new();
    if first != 0 {
        parts.push(format!("instid0({})", id(first)));
    }
    if skip != 0 {
        parts.push(format!("instskip({})", SKIPS.get(skip as usize).unwrap_or(&"?")));
    }
    if second != 0 {
        parts.push(format!("instid1({})", id(second)));
    }
    if parts.is_empty() { "0".into() } else { parts.join(" | ") }
}

/// The wait of older chips, which LLVM still reads.
fn waitcnt_text(imm: u16) -> String {
    let fields = [("vmcnt", imm >> 10, 63), ("expcnt", imm & 7, 7), ("lgkmcnt", imm >> 4 & 63, 63)];
    let all = fields.iter().all(|(_, value, most)| value == most);
    let shown = fields.iter().filter(|(_, value, most)| all || value != most);
    shown.map(|(name, value, _)| format!("{name}({value})")).collect::<Vec<_>>().join(" ")
}

fn alu_text(imm: u16) -> String {
    /// Name, shift, width, in the order of printing.
    const FIELDS: [(&str, u16, u16); 7] = [
        ("hold_cnt", 7, 1),
        ("sa_sdst", 0, 1),
        ("va_vdst", 12, 4),
        ("va_sdst", 9, 3),
        ("va_ssrc", 8, 1),
        ("va_vcc", 1, 1),
        ("vm_vsrc", 2, 3),
    ];
    if imm & 0x60 != 0 {
        return format!("{imm:#x}");
    }
    let all = imm == 0xff9f;
    let value = |shift: u16, width: u16| (imm >> shift & ((1 << width) - 1), (1 << width) - 1);
    let shown = FIELDS.iter().filter_map(|&(name, shift, width)| {
        let (value, default) = value(shift, width);
        (all || value != default).then(|| format!("depctr_{name}({value})"))
    });
    shown.collect::<Vec<_>>().join(" ")
}
