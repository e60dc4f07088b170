//! Which vector registers an instruction names, so that a kernel can be held to those it declared. Registers found only at run time
//! (relative addressing by M0) are not seen here.

use super::{Format, Inst, Src, Ty, flags};

/// One past the highest vector register among the operands, 0 if there is none.
pub fn vgprs(inst: &Inst) -> u16 {
    let sources = (0..3).filter_map(|i| match inst.src[i] {
        Src::Vgpr(first) => Some(first as u16 + source_dwords(inst, i)),
        _ => None,
    });
    let destination = writes_vector(inst).then(|| inst.dst as u16 + inst.row.d.dwords().max(1) as u16);
    let second = inst.second.as_deref().map(vgprs);
    sources.chain(destination).chain(second).max().unwrap_or(0)
}

fn source_dwords(inst: &Inst, i: usize) -> u16 {
    let wide_address = match inst.format {
        Format::Flat => true,
        Format::Global => inst.src[2] == Src::Const(0),
        _ => false,
    };
    match inst.format {
        Format::Flat | Format::Global | Format::Scratch | Format::Buffer if i == 0 => 1 + wide_address as u16,
        // The accumulator of a dense matrix product is as wide as the destination.
        Format::Vop3p if i == 2 && inst.row.name.starts_with("v_wmma") => inst.row.d.dwords() as u16,
        _ => inst.row.s[i].dwords().max(1) as u16,
    }
}

fn writes_vector(inst: &Inst) -> bool {
    match (inst.format, inst.row.d) {
        (_, Ty::None | Ty::Mask) => false,
        (Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd, _) => {
            inst.row.flags & flags::SCALAR_D == 0
        }
        (Format::Vop3p | Format::Vopd | Format::Ds, _) => true,
        // An atomic that returns nothing leaves the field unused.
        (Format::Flat | Format::Global | Format::Scratch | Format::Buffer, _) => !inst.row.name.contains("atomic"),
        _ => false,
    }
}
