//! Which bits of a result are undefined, found by executing the instruction itself on values that differ in the undefined bits. No
//! operation is written a second time here.

use super::shadow::Shadow;
use crate::arch::Arch;
use crate::isa::{Format, Inst, Row, Src, Ty};
use crate::memory::Memory;
use crate::wave::{Cx, Lanes, LaunchInfo, Lds, NULL, Wave};

/// Scalar registers that stand for the sources, four for each.
const SCALAR_SOURCES: u8 = 16;
/// Scalar register that stands for the destination.
const SCALAR_DST: u8 = 40;
/// Scalar register that stands for the second destination.
const SCALAR_SDST: u8 = 48;
/// Vector registers that stand for the sources, four for each; behind them the destination.
const VECTOR_DST: u8 = 16;

/// A wave to try instructions on.
pub(super) struct Bench {
    wave: Wave,
    lds: Lds,
    memory: Memory,
    launch: LaunchInfo,
    arch: Arch,
}

/// What an instruction writes: its values, or their undefined bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Destination, by dword; a scalar one is the same in all lanes.
    pub dst: [Lanes; 2],
    /// Second destination.
    pub sdst: u32,
    /// EXEC, where the instruction writes it besides its destination.
    pub exec: u32,
    /// SCC.
    pub scc: bool,
}

impl Outcome {
    pub const NONE: Outcome = Outcome { dst: [[0; 32]; 2], sdst: 0, exec: 0, scc: false };
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bench")
    }
}

/// Where operands of the tried instruction stand.
fn stand_in(inst: &Inst, scalar_dst: bool) -> Inst {
    let mut src = inst.src;
    for (i, src) in src.iter_mut().enumerate() {
        *src = match *src {
            Src::Vgpr(_) => Src::Vgpr(4 * i as u8),
            Src::Sgpr(NULL) => Src::Sgpr(NULL),
            Src::Sgpr(_) => Src::Sgpr(SCALAR_SOURCES + 4 * i as u8),
            other => other,
        };
    }
    let dst = match scalar_dst {
        _ if inst.row.d == Ty::None => inst.dst,
        true if inst.dst == NULL => NULL,
        true => SCALAR_DST,
        false => VECTOR_DST,
    };
    let sdst = if inst.sdst == NULL { NULL } else { SCALAR_SDST };
    let mut inst = Inst { src, dst, sdst, second: None, ..*inst };
    inst.settle();
    inst
}

fn width(row: &Row, i: usize) -> u8 {
    row.s[i].dwords().clamp(1, 2)
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            wave: Wave::new(),
            lds: Lds { words: Vec::new(), bytes: 0 },
            memory: Memory::new(0),
            launch: LaunchInfo { grid: [1; 3], block: [32, 1, 1], code_start: 0, code_end: 0 },
            arch: Arch::new(),
        }
    }

    /// Undefined bits of the result, where each bit of it depends on at most one bit of each source. Every source with undefined bits
    /// is tried with zeros and with ones in their place.
    pub fn bits(&mut self, wave: &Wave, shadow: &Shadow, inst: &Inst, scalar_dst: bool) -> Option<Outcome> {
        let tried = stand_in(inst, scalar_dst);
        let dirty: Vec<usize> = (0..4).filter(|&i| self.dirty(shadow, inst, scalar_dst, i)).collect();
        let mut first: Option<Outcome> = None;
        let mut out = Outcome::NONE;
        for choice in 0..1u32 << dirty.len() {
            self.prepare(wave, shadow, inst, scalar_dst, |i| {
                dirty.iter().position(|&d| d == i).is_some_and(|place| choice >> place & 1 != 0)
            });
            let result = self.run(&tried, scalar_dst)?;
            match &first {
                None => first = Some(result),
                Some(first) => {
                    for k in 0..2 {
                        for lane in 0..32 {
                            out.dst[k][lane] |= first.dst[k][lane] ^ result.dst[k][lane];
                        }
                    }
                    out.sdst |= first.sdst ^ result.sdst;
                    out.exec |= first.exec ^ result.exec;
                    out.scc |= first.scc != result.scc;
                }
            }
        }
        Some(out)
    }

    /// Whether source `i` (3: a scalar destination that is kept in part) has undefined bits.
    fn dirty(&self, shadow: &Shadow, inst: &Inst, scalar_dst: bool, i: usize) -> bool {
        if i == 3 {
            return scalar_dst && inst.row.d != Ty::None && {
                let dst = Src::Sgpr(inst.dst);
                shadow.scalar(dst, 0) | if inst.row.d.dwords() == 2 { shadow.scalar(dst, 1) } else { 0 } != 0
            };
        }
        inst.row.s[i] != Ty::None
            && (0..width(inst.row, i)).any(|k| shadow.lanes(inst.src[i], k).iter().any(|&bits| bits != 0))
    }

    fn prepare(&mut self, wave: &Wave, shadow: &Shadow, inst: &Inst, scalar_dst: bool, ones: impl Fn(usize) -> bool) {
        let tried = &mut self.wave;
        (tried.pc, tried.sgpr, tried.scc, tried.mode) = (wave.pc, wave.sgpr, wave.scc, wave.mode);
        let fill = |value: u32, undefined: u32, ones: bool| value & !undefined | if ones { undefined } else { 0 };
        for i in 0..3 {
            for k in 0..width(inst.row, i) {
                match inst.src[i] {
                    Src::Vgpr(first) => {
                        let from = first.wrapping_add(k) as usize;
                        for lane in 0..32 {
                            let (value, undefined) = (wave.vgpr[from][lane], shadow.vgpr[from][lane]);
                            tried.vgpr[4 * i + k as usize][lane] = fill(value, undefined, ones(i));
                        }
                    }
                    Src::Sgpr(first) if first != NULL => {
                        let from = (first.wrapping_add(k) & 127) as usize;
                        let to = (SCALAR_SOURCES + 4 * i as u8 + k) as usize;
                        tried.sgpr[to] = fill(wave.sgpr[from], shadow.sgpr[from], ones(i));
                    }
                    _ => {}
                }
            }
        }
        if inst.row.d == Ty::None {
            return;
        }
        for k in 0..2u8 {
            let from = inst.dst.wrapping_add(k);
            if scalar_dst {
                let from = (from & 127) as usize;
                tried.sgpr[(SCALAR_DST + k) as usize] = fill(wave.sgpr[from], shadow.sgpr[from], ones(3));
            } else {
                tried.vgpr[(VECTOR_DST + k) as usize] = wave.vgpr[from as usize];
            }
        }
    }

    fn run(&mut self, tried: &Inst, scalar_dst: bool) -> Option<Outcome> {
        let mut cx = Cx {
            wave: &mut self.wave,
            lds: &mut self.lds,
            memory: &self.memory,
            launch: &self.launch,
            workgroup: [0; 3],
            arch: self.arch,
            watch: None,
        };
        (tried.row.exec)(&mut cx, tried).ok()?;
        let after = &self.wave;
        let dst = [0, 1].map(|k| match scalar_dst {
            true => [after.sgpr[(SCALAR_DST + k) as usize]; 32],
            false => after.vgpr[(VECTOR_DST + k) as usize],
        });
        Some(Outcome { dst, sdst: after.sgpr[SCALAR_SDST as usize], exec: after.exec(), scc: after.scc })
    }
}

/// Whether an instruction writes scalars as its destination.
pub(super) fn writes_scalar(inst: &Inst) -> bool {
    match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem => true,
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd => {
            inst.row.d == Ty::Mask || inst.row.flags & crate::isa::flags::SCALAR_D != 0
        }
        _ => false,
    }
}
