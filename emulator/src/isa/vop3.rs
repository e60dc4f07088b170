//! The VOP3 and VOP3SD formats: three sources, any register, modifiers. VOPC, VOP2 and VOP1 rows appear here too, at opcodes 0, 256 and
//! 384. Rows without a short form stand in [`super::vop3_rows`].

use super::vop::{self, Fields};
use super::{DecodeError, Format, Inst, Row, Ty, flags, vop1, vop2, vop3_rows, vopc};
use crate::wave::EXEC;

/// The instructions that have no other encoding.
pub use super::vop3_rows::ROWS;

/// First VOP3 opcode of the VOP2 rows.
const VOP2: u16 = 256;
/// First VOP3 opcode of the VOP1 rows.
const VOP1: u16 = 384;
/// First opcode past them.
const OWN: u16 = 512;

fn find(op: u16, word: u32) -> Result<&'static Row, DecodeError> {
    let row = match op {
        0..VOP2 => super::row(vopc::ROWS, op, word),
        VOP2..VOP1 => super::row(vop2::ROWS, op - VOP2, word),
        VOP1..OWN => super::row(vop1::ROWS, op - VOP1, word),
        _ => super::row(vop3_rows::ROWS, op, word),
    }?;
    if row.flags & (flags::ONLY | flags::CONSTANT) != 0 {
        return Err(DecodeError::Unknown { word });
    }
    Ok(row)
}

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = find((word >> 16 & 0x3ff) as u16, word)?;
    let second = *words.get(1).ok_or(DecodeError::Truncated { word, need: 2, have: 1 })?;
    let invalid = |reason: String| Err(DecodeError::Invalid { word, reason });
    let codes = [(second & 511) as u16, (second >> 9 & 511) as u16, (second >> 18 & 511) as u16];
    let sd = row.flags & flags::SD != 0;
    let format = if sd { Format::Vop3Sd } else { Format::Vop3 };
    let mut inst = vop::decode(row, format, Fields { codes, dst: word as u8 }, words)?;
    if codes[vop::explicit(row, format)..].iter().any(|&code| code != 0) {
        return invalid(format!("{} does not have that many sources", row.name));
    }
    if row.name.starts_with("v_cmpx") && inst.dst != EXEC {
        return invalid(format!("{} with a destination other than exec", row.name));
    }
    inst.mods.neg = (second >> 29) as u8;
    inst.mods.clamp = word >> 15 & 1 != 0;
    inst.mods.omod = (second >> 27 & 3) as u8;
    if sd {
        inst.sdst = super::operand::sgpr((word >> 8 & 127) as u8, Ty::B32, word)?;
    } else {
        inst.mods.abs = (word >> 8 & 7) as u8;
        inst.mods.opsel = (word >> 11 & 15) as u8;
    }
    vop::check_source_modifiers(&inst, word)?;
    if inst.mods.opsel as u32 & !(row.flags / flags::OPSEL_0) & 15 != 0 {
        return invalid(format!("{} does not take op_sel {:#x}", row.name, inst.mods.opsel));
    }
    if inst.mods.clamp && row.flags & flags::CLAMP == 0 || inst.mods.omod != 0 && row.flags & flags::OMOD == 0 {
        return invalid(format!("{} takes no clamp or no output modifier", row.name));
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let op = (inst.words[0] >> 16 & 0x3ff) as u16;
    let suffix = match (inst.dpp.is_some(), op < OWN) {
        (true, _) => "_e64_dpp",
        (false, true) => "_e64",
        (false, false) => "",
    };
    vop::text(inst, format!("{}{suffix}", inst.row.name))
}
