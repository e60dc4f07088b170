//! The undefined bits of what an instruction computes, and where they go: by the rule of its kind, or exactly by trying it
//! ([`super::evaluate`]). Memory is not here.

use super::evaluate::{Bench, Outcome, writes_scalar};
use super::rule::{Rule, rule};
use super::shadow::Shadow;
use super::{Class, Use, need_scalar};
use crate::execute::dpp;
use crate::execute::lanes::write_mask;
use crate::isa::{Format, Inst, Src, Ty};
use crate::wave::{EXEC, Lanes, M0, VCC, Wave};

/// Lanes of the destination that an instruction writes.
pub(super) fn lanes_written(wave: &Wave, inst: &Inst) -> u32 {
    match inst.row.name {
        "v_writelane_b32" => 1 << (wave.scalar(inst.src[1]) & 31),
        _ if rule(inst) == Rule::Matrix => u32::MAX,
        _ if matches!(inst.format, Format::Ds | Format::Vopd) => wave.exec(),
        _ => write_mask(wave, inst),
    }
}

/// Bits of the destination that an instruction writes: 16-bit results leave the other half.
pub(super) fn bits_written(inst: &Inst) -> u32 {
    match (inst.row.d, inst.row.name) {
        (_, "v_fma_mixlo_f16") => 0xffff,
        (_, "v_fma_mixhi_f16") => 0xffff_0000,
        (Ty::B16 | Ty::I16 | Ty::U16 | Ty::F16 | Ty::Bf16, _) if !writes_scalar(inst) => {
            if inst.mods.opsel & 8 != 0 {
                0xffff_0000
            } else {
                0xffff
            }
        }
        _ => u32::MAX,
    }
}

/// Undefined bits of source `i` as the instruction reads them: after DPP and op_sel, all dwords or-ed, narrow ones cut out.
fn source(shadow: &Shadow, wave: &Wave, inst: &Inst, i: usize) -> Lanes {
    let ty = inst.row.s[i];
    let mut out = shadow.lanes(inst.src[i], 0);
    for k in 1..ty.dwords() {
        let more = shadow.lanes(inst.src[i], k);
        for lane in 0..32 {
            out[lane] |= more[lane];
        }
    }
    if let (Some(control), 0) = (inst.dpp, i) {
        out = dpp::fetch(wave.exec(), &out, control);
    }
    let mix = inst.row.name.starts_with("v_fma_mix");
    let narrow = matches!(ty, Ty::B16 | Ty::I16 | Ty::U16 | Ty::F16 | Ty::Bf16);
    if narrow && (!mix || inst.mods.opsel_hi >> i & 1 != 0) {
        let shift = if inst.mods.opsel >> i & 1 != 0 { 16 } else { 0 };
        out = out.map(|bits| bits >> shift & 0xffff);
    }
    if ty == Ty::Mask {
        let bits = shadow.scalar(inst.src[i], 0);
        out = std::array::from_fn(|lane| if bits >> lane & 1 != 0 { u32::MAX } else { 0 });
    }
    out
}

fn all_if(undefined: bool) -> u32 {
    if undefined { u32::MAX } else { 0 }
}

/// Undefined bits of what an instruction computes, and where they come from.
pub(super) fn outcome(bench: &mut Bench, shadow: &Shadow, wave: &Wave, inst: &Inst) -> (Outcome, Class) {
    let count = inst.row.s.iter().filter(|&&ty| ty != Ty::None).count();
    let accumulates = count < 3 && matches!(inst.src[2], Src::Vgpr(_));
    let mut sources = [[0; 32]; 3];
    let mut origin = Class::UninitializedRegisterRead;
    for i in 0..3 {
        if inst.row.s[i] != Ty::None || i == 2 && accumulates {
            sources[i] = source(shadow, wave, inst, i);
            if sources[i].iter().any(|&bits| bits != 0) {
                origin = shadow.origin(inst.src[i]);
            }
        }
    }
    let scalar = writes_scalar(inst);
    // What chooses without being an operand.
    let chosen: Lanes = match inst.row.name {
        "v_dual_cndmask_b32" => std::array::from_fn(|lane| all_if(shadow.sgpr[VCC as usize] >> lane & 1 != 0)),
        name if name.starts_with("v_div_fmas") => {
            std::array::from_fn(|lane| all_if(shadow.sgpr[VCC as usize] >> lane & 1 != 0))
        }
        name if scalar && shadow.scc && (name.starts_with("s_cselect") || name.starts_with("s_cmov")) => [u32::MAX; 32],
        _ => [0; 32],
    };
    let carry = scalar && shadow.scc && inst.row.name.contains("_co_ci_");
    let any: Lanes = std::array::from_fn(|lane| {
        all_if(sources.iter().any(|source| source[lane] != 0) || chosen[lane] != 0 || carry)
    });
    let whole = Outcome { dst: [any; 2], sdst: mask_of(&any), exec: 0, scc: any[0] != 0 };
    let result = match rule(inst) {
        Rule::Bits { control } => {
            let steering: Lanes = std::array::from_fn(|lane| {
                all_if((0..3).any(|i| control >> i & 1 != 0 && sources[i][lane] != 0) || chosen[lane] != 0)
            });
            match bench.bits(wave, shadow, inst, scalar) {
                Some(mut exact) => {
                    for dst in &mut exact.dst {
                        for lane in 0..32 {
                            dst[lane] |= steering[if scalar { 0 } else { lane }];
                        }
                    }
                    exact.scc |= steering[0] != 0;
                    exact
                }
                None => whole,
            }
        }
        Rule::Upward => upward(wave, shadow, inst, &sources, carry, &any),
        Rule::Compare { equality } => {
            let certain = |lane: usize| {
                equality && {
                    let value = |src: Src, k: u8| wave.lanes(offset(src, k))[lane];
                    (0..inst.row.s[0].dwords().max(1)).any(|k| {
                        let undefined = shadow.lanes(inst.src[0], k)[lane] | shadow.lanes(inst.src[1], k)[lane];
                        (value(inst.src[0], k) ^ value(inst.src[1], k)) & !undefined != 0
                    }) && inst.row.s[0].dwords() == 1
                        && inst.dpp.is_none()
                }
            };
            let unsure: Lanes = std::array::from_fn(|lane| all_if(any[lane] != 0 && !certain(lane)));
            let bits = mask_of(&unsure) & write_mask(wave, inst);
            Outcome { dst: [[bits; 32]; 2], sdst: 0, exec: 0, scc: unsure[0] != 0 }
        }
        Rule::Halves => {
            let half = |high: bool| -> Lanes {
                let choose = if high { inst.mods.opsel_hi } else { inst.mods.opsel };
                std::array::from_fn(|lane| {
                    (0..3).any(|i| {
                        inst.row.s[i] != Ty::None
                            && shadow.lanes(inst.src[i], 0)[lane] >> (16 * (choose as u32 >> i & 1)) & 0xffff != 0
                    }) as u32
                })
            };
            let (low, high) = (half(false), half(true));
            let dst = std::array::from_fn(|lane| low[lane] * 0xffff | high[lane] * 0xffff_0000);
            Outcome { dst: [dst; 2], ..Outcome::NONE }
        }
        _ => whole,
    };
    (result, origin)
}

/// A source `k` registers further on; a constant's upper half is left to be equal.
fn offset(src: Src, k: u8) -> Src {
    match src {
        Src::Vgpr(first) => Src::Vgpr(first.wrapping_add(k)),
        Src::Sgpr(first) => Src::Sgpr(first.wrapping_add(k)),
        other => other,
    }
}

fn mask_of(lanes: &Lanes) -> u32 {
    lanes.iter().enumerate().fold(0, |mask, (lane, &bits)| mask | ((bits != 0) as u32) << lane)
}

/// Sums and products: from the lowest undefined bit up.
fn upward(wave: &Wave, shadow: &Shadow, inst: &Inst, sources: &[Lanes; 3], carry: bool, any: &Lanes) -> Outcome {
    let name = inst.row.name;
    let wide = inst.row.d.dwords() == 2;
    let pair = |i: usize, lane: usize| -> u64 {
        let low = shadow.lanes(inst.src[i], 0)[lane] as u64;
        let high = if inst.row.s[i].dwords() == 2 { shadow.lanes(inst.src[i], 1)[lane] as u64 } else { 0 };
        low | high << 32
    };
    let mut dst = [[0; 32]; 2];
    for lane in 0..32 {
        let bits = if wide {
            (0..3).filter(|&i| inst.row.s[i] != Ty::None).fold(carry as u64, |bits, i| bits | pair(i, lane))
        } else {
            let [a, b, c] = [sources[0][lane], sources[1][lane], sources[2][lane]];
            let bits = match name {
                "v_lshl_add_u32" if b == 0 => a << (wave.lanes(inst.src[1])[lane] & 31) | c,
                "v_lshl_add_u32" => u32::MAX,
                "v_mul_u32_u24" | "v_mad_u32_u24" => (a | b) & 0xff_ffff | c,
                _ if inst.row.s[2] == Ty::Mask => a | b | c & 1,
                _ => a | b | c,
            };
            (bits | carry as u32) as u64
        };
        let up = bits | bits.wrapping_neg();
        (dst[0][lane], dst[1][lane]) = (up as u32, (up >> 32) as u32);
    }
    Outcome { dst, sdst: mask_of(any), exec: 0, scc: any[0] != 0 }
}

/// Writes a result under EXEC and the DPP masks.
pub(super) fn write(shadow: &mut Shadow, wave: &Wave, inst: &Inst, result: &Outcome, origin: Class) {
    let dwords = inst.row.d.dwords();
    if writes_scalar(inst) {
        for k in 0..dwords.min(2) {
            if !(inst.dst == EXEC) {
                shadow.set_scalar(inst.dst.wrapping_add(k), result.dst[k as usize][0], origin);
            }
        }
        return;
    }
    if inst.row.d != Ty::None {
        let (lanes, bits) = (lanes_written(wave, inst), bits_written(inst));
        let shift = if bits == 0xffff_0000 { 16 } else { 0 };
        for k in 0..dwords.max(1) {
            let value = result.dst[k.min(1) as usize];
            // A result in the upper half was computed at the bottom, unless all bits are one.
            let whole = inst.format == Format::Vop3p || shift == 0;
            let value =
                if whole { value } else { value.map(|bits| if bits & 0xffff == 0 { bits } else { bits | bits << 16 }) };
            shadow.set_vector(inst.dst.wrapping_add(k), lanes, bits, &value, origin);
        }
    }
    if inst.sdst != crate::wave::NULL {
        shadow.set_scalar(inst.sdst, result.sdst & wave.exec(), origin);
    }
}

/// D (row, column) depends on a row of A, a column of B and its own C; all lanes take part.
pub(super) fn matrix(shadow: &mut Shadow, inst: &Inst) {
    let sparse = inst.row.name.contains("swmmac");
    let operand = |i: usize| -> ([bool; 16], Class) {
        let mut out = [false; 16];
        let mut origin = Class::UninitializedRegisterRead;
        for k in 0..inst.row.s[i].dwords().max(1) {
            for (lane, &bits) in shadow.lanes(inst.src[i], k).iter().enumerate() {
                if bits != 0 {
                    out[lane % 16] = true;
                    origin = shadow.origin(offset(inst.src[i], k));
                }
            }
        }
        (out, origin)
    };
    let ((mut rows, from_a), (columns, from_b)) = (operand(0), operand(1));
    if sparse {
        let (index, _) = operand(2);
        for (row, index) in rows.iter_mut().zip(index) {
            *row |= index;
        }
    }
    let dwords = inst.row.d.dwords();
    let origin = if rows.contains(&true) { from_a } else { from_b };
    let results: Vec<(Lanes, Class)> = (0..dwords)
        .map(|k| {
            let c = if sparse { Src::Vgpr(inst.dst) } else { inst.src[2] };
            let c_bits = shadow.lanes(c, if matches!(c, Src::Vgpr(_)) { k } else { 0 });
            let value = std::array::from_fn(|lane| {
                let (half, column) = (lane / 16, lane % 16);
                // Eight f32 or i32 elements, or four pairs of 16 bits: rows from 8 · half on.
                let elements = if dwords == 8 { 1 } else { 2 };
                (0..elements).fold(0, |bits, e| {
                    let row = 8 * half + elements * k as usize + e;
                    let own = if elements == 1 { u32::MAX } else { 0xffff << (16 * e) };
                    let undefined = rows[row] || columns[column] || c_bits[lane] & own != 0;
                    bits | if undefined { own } else { 0 }
                })
            });
            let from_c = shadow.origin(offset(c, k));
            (value, if rows.contains(&true) || columns.contains(&true) { origin } else { from_c })
        })
        .collect();
    for (k, (value, origin)) in results.into_iter().enumerate() {
        shadow.set_vector(inst.dst.wrapping_add(k as u8), u32::MAX, u32::MAX, &value, origin);
    }
}

/// Moves with a register number from M0: what is read and written is known now.
pub(super) fn relative(shadow: &mut Shadow, wave: &Wave, inst: &Inst, found: &mut Vec<Use>) {
    need_scalar(shadow, Src::Sgpr(M0), 1, "it names registers", found);
    let m0 = wave.sgpr[M0 as usize];
    let name = inst.row.name;
    let (to, from) = match name {
        _ if name.contains("sd_2") || name.contains("swaprel") => (m0 >> 16 & 0x3ff, m0 & 0x3ff),
        _ if name.contains("movrelsd") => (m0, m0),
        _ if name.contains("movrels") => (0, m0),
        _ => (m0, 0),
    };
    let moved = |register: u8, by: u32| register.wrapping_add(by as u8);
    let source = match inst.src[0] {
        Src::Vgpr(first) => Src::Vgpr(moved(first, from)),
        Src::Sgpr(first) => Src::Sgpr(moved(first, from)),
        other => other,
    };
    if name.starts_with('s') {
        for k in 0..inst.row.d.dwords() {
            let (bits, origin) = (shadow.scalar(source, k), shadow.origin(offset(source, k)));
            shadow.set_scalar(moved(inst.dst, to).wrapping_add(k), bits, origin);
        }
        return;
    }
    let mut value = shadow.lanes(source, 0);
    if let Some(control) = inst.dpp {
        value = dpp::fetch(wave.exec(), &value, control);
    }
    let origin = shadow.origin(source);
    let dst = moved(inst.dst, to);
    if let (true, Src::Vgpr(other)) = (name.contains("swaprel"), source) {
        let (back, back_origin) = (shadow.vgpr[dst as usize], shadow.vector_origin[dst as usize]);
        shadow.set_vector(other, wave.exec(), u32::MAX, &back, back_origin);
    }
    shadow.set_vector(dst, write_mask(wave, inst), u32::MAX, &value, origin);
}
