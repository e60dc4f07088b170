//! SOPK: scalar operations with a 16-bit immediate, hardware registers and relative calls.

use super::operand::{sgpr, sgpr_text, value_text};
use super::{DecodeError, Format, Inst, Row, Ty, row};
use crate::execute::scalar::unsupported;
use crate::fault::Fault;
use crate::wave::{Cx, Flow, NULL, Step};

/// The immediate is a hardware register, read.
const GET: u32 = 1;
/// The immediate is a hardware register, written.
const SET: u32 = 2;
/// As SET, from a literal.
const SET_LITERAL: u32 = 3;
/// The immediate is a distance in dwords.
const CALL: u32 = 4;

/// The immediate is a note for readers of the code.
const VERSION: u32 = 5;

/// Bits of MODE that exist: rounding, denormals, FP16_OVFL, and two that touch no result (scalar prefetch, performance counting).
const MODE_WRITABLE: u32 = 0x0980_00ff;
/// Bits of STATE_PRIV that are not modelled: round-robin arbitration, wake-up credit, a barrier's completion, priorities.
const STATE_UNKNOWN: u32 = 0x0000_3c07;

fn field(inst: &Inst) -> (u16, u32, u32) {
    let imm = inst.imm as u16;
    (imm & 63, (imm >> 6 & 31) as u32, (imm >> 11) as u32 + 1)
}
fn mask(width: u32) -> u32 {
    if width == 32 { u32::MAX } else { (1 << width) - 1 }
}

/// STATUS: no trap handler, no exports; the wave is valid, EXEC and VCC may be zero, the workgroup may have more waves.
fn status(cx: &Cx) -> u32 {
    let items: u64 = cx.launch.block.iter().map(|&n| n as u64).product();
    ((cx.wave.exec() == 0) as u32) << 9 | ((cx.wave.vcc() == 0) as u32) << 10 | ((items > 32) as u32) << 11 | 1 << 16
}

fn read_register(cx: &Cx, inst: &Inst) -> Result<u32, Box<Fault>> {
    let (id, offset, width) = field(inst);
    let refused = |reason: String| Err(Box::new(Fault::Unsupported(reason)));
    Ok(match id {
        1 => cx.wave.mode,
        2 => status(cx),
        4 if mask(width) << offset & STATE_UNKNOWN != 0 => {
            return refused(format!("bits {offset} to {} of STATE_PRIV are not modelled", offset + width - 1));
        }
        4 => (cx.wave.scc as u32) << 9 | ((cx.wave.scratch_bytes > 0) as u32) << 18,
        10..=12 | 15..=16 => 0, // no snapshot was taken
        17..=19 => 0,           // no exception was raised, none is enabled
        20 => 0,                // scratch starts at its aperture
        21 => crate::wave::PRIVATE_APERTURE,
        23 => cx.wave.index & 31, // wave slot; everything runs on one WGP
        24 => 0,
        29 => cx.wave.executed as u32,
        30 => (cx.wave.executed >> 32) as u32,
        _ => return refused(format!("hardware register {id} ({}) is not readable here", register_name(id))),
    })
}

fn write_register(cx: &mut Cx, inst: &Inst, value: u32) -> Step {
    let (id, offset, width) = field(inst);
    let bits = mask(width) << offset;
    match id {
        1 => {
            let new = cx.wave.mode & !bits | value << offset & bits;
            let changed = new ^ cx.wave.mode;
            if changed & !MODE_WRITABLE != 0 {
                return unsupported(format!("MODE bits {:#x} cannot be changed here", changed & !MODE_WRITABLE));
            }
            cx.wave.mode = new;
            Ok(Flow::Next)
        }
        // Exception flags are always clear here, so clearing them changes nothing.
        18 if value << offset & bits == 0 => Ok(Flow::Next),
        // How the hardware schedules what software has made safe: no result depends on it.
        26 => Ok(Flow::Next),
        _ => unsupported(format!("hardware register {id} ({}) is not writable here", register_name(id))),
    }
}

const fn r(op: u16, name: &'static str, d: Ty, flags: u32, exec: crate::wave::Exec) -> Row {
    Row { op, name, d, s: [Ty::Imm, Ty::None, Ty::None], flags, exec }
}

/// Its instructions.
pub static ROWS: &[Row] = &[
    r(0, "s_movk_i32", Ty::B32, 0, |cx, i| {
        cx.wave.set_sgpr(i.dst, i.imm as u32);
        Ok(Flow::Next)
    }),
    r(1, "s_version", Ty::None, VERSION, |_, _| Ok(Flow::Next)),
    r(2, "s_cmovk_i32", Ty::B32, 0, |cx, i| {
        if cx.wave.scc {
            cx.wave.set_sgpr(i.dst, i.imm as u32);
        }
        Ok(Flow::Next)
    }),
    r(15, "s_addk_co_i32", Ty::B32, 0, |cx, i| {
        let (sum, over) = (cx.wave.sgpr[i.dst as usize & 127] as i32).overflowing_add(i.imm);
        if i.dst != NULL {
            cx.wave.set_sgpr(i.dst, sum as u32);
            cx.wave.scc = over;
        }
        Ok(Flow::Next)
    }),
    r(16, "s_mulk_i32", Ty::B32, 0, |cx, i| {
        let product = cx.wave.sgpr[i.dst as usize & 127].wrapping_mul(i.imm as u32);
        cx.wave.set_sgpr(i.dst, product);
        Ok(Flow::Next)
    }),
    r(17, "s_getreg_b32", Ty::B32, GET, |cx, i| {
        let (_, offset, width) = field(i);
        let value = read_register(cx, i)? >> offset & mask(width);
        cx.wave.set_sgpr(i.dst, value);
        Ok(Flow::Next)
    }),
    r(18, "s_setreg_b32", Ty::B32, SET, |cx, i| {
        let value = cx.wave.sgpr[i.dst as usize & 127];
        write_register(cx, i, value)
    }),
    r(19, "s_setreg_imm32_b32", Ty::None, SET_LITERAL, |cx, i| write_register(cx, i, i.words[1])),
    r(20, "s_call_b64", Ty::B64, CALL, |cx, i| {
        let next = cx.wave.pc + 4;
        cx.wave.set_sgpr64(i.dst, next);
        Ok(Flow::Jump(next.wrapping_add_signed(i.imm as i64 * 4)))
    }),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 23 & 31) as u16, word)?;
    let mut inst = Inst::new(row, Format::Sopk, if row.flags == SET_LITERAL { 2 } else { 1 }, words)?;
    inst.imm = word as u16 as i16 as i32;
    if !matches!(row.flags, SET_LITERAL | VERSION) {
        inst.dst = sgpr((word >> 16 & 127) as u8, row.d, word)?;
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let (name, imm) = (inst.row.name, inst.words[0] as u16);
    let d = sgpr_text((inst.words[0] >> 16 & 127) as u8, inst.row.d.dwords());
    match inst.row.flags {
        GET => format!("{name} {d}, {}", register_text(imm)),
        SET => format!("{name} {}, {d}", register_text(imm)),
        SET_LITERAL => format!("{name} {}, {}", register_text(imm), value_text(inst.words[1])),
        VERSION => format!("{name} {}", version_text(imm)),
        CALL => format!("{name} {d}, {imm}"),
        _ => format!("{name} {d}, {imm:#x}"),
    }
}

fn version_text(imm: u16) -> String {
    if imm & 0x1f00 != 0 {
        return format!("{imm:#x}");
    }
    let mut text = match imm & 0xff {
        0 => "UC_VERSION_GFX7".into(),
        4 => "UC_VERSION_GFX10".into(),
        6 => "UC_VERSION_GFX11".into(),
        9 => "UC_VERSION_GFX12".into(),
        other => other.to_string(),
    };
    let flags = [(0x2000, "UC_VERSION_W64_BIT"), (0x4000, "UC_VERSION_W32_BIT"), (0x8000, "UC_VERSION_MDP_BIT")];
    let mut nested = false;
    for (_, flag) in flags.into_iter().filter(|(bit, _)| imm & bit != 0) {
        text = if nested { format!("({text})|{flag}") } else { format!("{text}|{flag}") };
        nested = true;
    }
    text
}

/// LLVM's name of a hardware register, or nothing.
fn register_name(id: u16) -> &'static str {
    match id {
        1 => "HW_REG_WAVE_MODE",
        2 => "HW_REG_WAVE_STATUS",
        4 => "HW_REG_WAVE_STATE_PRIV",
        5 => "HW_REG_WAVE_GPR_ALLOC",
        6 => "HW_REG_WAVE_LDS_ALLOC",
        7 => "HW_REG_IB_STS",
        10 => "HW_REG_PERF_SNAPSHOT_DATA",
        11 => "HW_REG_PERF_SNAPSHOT_PC_LO",
        12 => "HW_REG_PERF_SNAPSHOT_PC_HI",
        15 => "HW_REG_PERF_SNAPSHOT_DATA1",
        16 => "HW_REG_PERF_SNAPSHOT_DATA2",
        17 => "HW_REG_WAVE_EXCP_FLAG_PRIV",
        18 => "HW_REG_WAVE_EXCP_FLAG_USER",
        19 => "HW_REG_WAVE_TRAP_CTRL",
        20 => "HW_REG_WAVE_SCRATCH_BASE_LO",
        21 => "HW_REG_WAVE_SCRATCH_BASE_HI",
        23 => "HW_REG_WAVE_HW_ID1",
        24 => "HW_REG_WAVE_HW_ID2",
        26 => "HW_REG_WAVE_SCHED_MODE",
        29 => "HW_REG_SHADER_CYCLES_LO",
        30 => "HW_REG_SHADER_CYCLES_HI",
        31 => "HW_REG_WAVE_DVGPR_ALLOC_LO",
        32 => "HW_REG_WAVE_DVGPR_ALLOC_HI",
        _ => "",
    }
}

fn register_text(imm: u16) -> String {
    let name = match register_name(imm & 63) {
        "" => (imm & 63).to_string(),
        name => name.into(),
    };
    let (offset, width) = (imm >> 6 & 31, (imm >> 11) + 1);
    if offset == 0 && width == 32 { format!("hwreg({name})") } else { format!("hwreg({name}, {offset}, {width})") }
}
