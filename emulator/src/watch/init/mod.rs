//! Use of what nothing wrote: undefined bits are followed through registers, LDS and scratch one by one and reported where they decide
//! something: an address, EXEC, a branch, a stored value. Copying them is harmless, and compilers do it; where they come from is kept
//! with them, through LDS and scratch as well, and is the class of the report. LDS that no wave of the
//! workgroup wrote is reported when it is read. After a report the bits count as defined, so that one defect is one finding.

mod accesses;
mod evaluate;
mod result;
mod rule;
mod shadow;

use super::finding::Class;
use super::{Accessed, Moved, Space, Start, Watch};
use crate::execute::memory_ops::lanes_of;
use crate::execute::transpose;
use crate::isa::effects::{Effects, File};
use crate::isa::{Format, Inst, Src, Ty};
use crate::wave::{EXEC, M0, VCC, Wave};
use evaluate::{Bench, writes_scalar};
use result::{bits_written, lanes_written, matrix, outcome, relative, write};
use rule::{Rule, rule};
use shadow::{Origins, Shadow};

/// Undefined bits of one workgroup.
#[derive(Debug)]
pub struct Init {
    waves: Vec<Shadow>,
    /// Undefined bits of LDS.
    lds: Vec<u32>,
    /// Whether any undefined bits were ever stored in LDS.
    lds_dirty: bool,
    /// Where they come from.
    lds_origins: Origins,
    /// Bytes of LDS that were written, a bit each.
    lds_written: Vec<u32>,
    bench: Bench,
}

/// A use of undefined bits, to be reported.
#[derive(Debug)]
pub(super) struct Use {
    pub class: Class,
    pub lane: Option<u32>,
    pub message: String,
}

/// What is done with a value that must be defined.
struct Purpose<'a> {
    what: &'a str,
    lanes: u32,
    bits: u32,
}

impl Default for Init {
    fn default() -> Init {
        let (waves, lds, lds_written) = (Vec::new(), Vec::new(), Vec::new());
        Init { waves, lds, lds_dirty: false, lds_origins: Origins::default(), lds_written, bench: Bench::new() }
    }
}

fn register_text(src: Src, dword: u8) -> String {
    match src {
        Src::Vgpr(first) => format!("v{}", first.wrapping_add(dword)),
        Src::Sgpr(first) => match first.wrapping_add(dword) {
            VCC => "vcc_lo".into(),
            M0 => "m0".into(),
            EXEC => "exec_lo".into(),
            index => format!("s{index}"),
        },
        Src::Scc => "scc".into(),
        Src::Const(_) => "a constant".into(),
    }
}

fn origin_text(class: Class) -> &'static str {
    match class {
        Class::UninitializedGlobalRead => "come from memory that nothing wrote",
        Class::UninitializedScratchRead => "come from scratch that nothing wrote",
        _ => "were never written",
    }
}

impl Init {
    pub(super) fn started(&mut self, start: &Start) {
        while self.waves.len() < start.waves as usize {
            self.waves.push(Shadow::new());
        }
        for shadow in &mut self.waves[..start.waves as usize] {
            shadow.start(start.user_sgprs, start.vgprs, start.scratch_bytes as usize / 4 * 32);
        }
        self.lds_dirty = false;
        self.lds_origins.clear();
        self.lds.clear();
        self.lds.resize(start.lds_bytes.div_ceil(4) as usize, 0);
        self.lds_written.clear();
        self.lds_written.resize(start.lds_bytes.div_ceil(32) as usize, 0);
    }

    /// Gives back the shadow of scratch, which may be much more than the next launch needs.
    pub(super) fn drop_scratch(&mut self) {
        for shadow in &mut self.waves {
            shadow.scratch = Vec::new();
        }
    }

    /// Follows an instruction; what it does with memory comes through [`Init::accessed`].
    #[inline]
    pub(super) fn before(&mut self, wave: &Wave, inst: &Inst, effects: &Effects, found: &mut Vec<Use>) {
        let shadow = &mut self.waves[wave.index as usize];
        let mut dirty = shadow.dirty.meets(&effects.read_set) || effects.reads_scc && shadow.scc;
        if dirty && effects.lane_wise && shadow.dirty.scalar & effects.read_set.scalar == 0 {
            // Lanes that are off keep undefined bits for long, and nobody reads them.
            dirty = shadow.dirty_in(&effects.read_set, wave.exec());
        }
        let memory =
            matches!(inst.format, Format::Smem | Format::Flat | Format::Global | Format::Scratch | Format::Buffer)
                || inst.format == Format::Ds && !exchanges(inst);
        if memory {
            return addresses(shadow, wave, inst, dirty, found);
        }
        if dirty {
            return self.dirty(wave, inst, effects, found);
        }
        // All sources are defined, and so is what is written.
        if effects.writes_scc {
            shadow.scc = false;
        }
        if !shadow.dirty.meets(&effects.write_set) {
            return;
        }
        for span in &effects.writes {
            for index in span.first..=span.first.wrapping_add(span.count - 1) {
                match span.file {
                    File::Scalar => {
                        if shadow.sgpr[(index & 127) as usize] != 0 {
                            shadow.set_scalar(index, 0, Class::UninitializedRegisterRead);
                        }
                    }
                    File::Vector if shadow.dirty_vector(index) => {
                        shadow.clear_vector(index, lanes_written(wave, inst), bits_written(inst));
                    }
                    File::Vector => {}
                }
            }
        }
    }

    /// After a transposing load: what was loaded lane by lane is exchanged as the values were.
    #[inline]
    pub(super) fn after(&mut self, wave: &Wave, inst: &Inst) {
        if inst.format == Format::Global && inst.row.name == "global_load_tr_b128" {
            let shadow = &mut self.waves[wave.index as usize];
            transpose::halves(&mut shadow.vgpr, inst.dst);
            for k in 0..4 {
                shadow.settle(inst.dst.wrapping_add(k));
            }
        }
    }

    /// An instruction with undefined bits among its sources.
    #[cold]
    fn dirty(&mut self, wave: &Wave, inst: &Inst, effects: &Effects, found: &mut Vec<Use>) {
        let Init { waves, bench, .. } = self;
        let shadow = &mut waves[wave.index as usize];
        let name = inst.row.name;
        match inst.format {
            Format::Sopp => return branch(shadow, wave, name, found),
            Format::Vopd => {
                let second = inst.second.as_deref();
                let results = [Some(inst), second].map(|half| half.map(|half| outcome(bench, shadow, wave, half)));
                for (half, result) in [Some(inst), second].into_iter().zip(results) {
                    if let (Some(half), Some((result, origin))) = (half, result) {
                        write(shadow, wave, half, &result, origin);
                    }
                }
                return;
            }
            _ => {}
        }
        if matches!(name, "s_setpc_b64" | "s_swappc_b64") {
            need_scalar(shadow, inst.src[0], 2, "it is where the wave jumps", found);
        }
        match rule(inst) {
            Rule::Matrix => return matrix(shadow, inst),
            Rule::Relative => return relative(shadow, wave, inst, found),
            Rule::WriteLane => {
                need_scalar(shadow, inst.src[1], 1, "it is the lane that is written", found);
                let lane = wave.scalar(inst.src[1]) & 31;
                let value = [shadow.scalar(inst.src[0], 0); 32];
                let origin = shadow.origin(inst.src[0]);
                return shadow.set_vector(inst.dst, 1 << lane, u32::MAX, &value, origin);
            }
            Rule::Swap => {
                let Src::Vgpr(other) = inst.src[0] else { return };
                let (a, b) = (shadow.vgpr[inst.dst as usize], shadow.vgpr[other as usize]);
                let (from_a, from_b) = (shadow.vector_origin[inst.dst as usize], shadow.vector_origin[other as usize]);
                shadow.set_vector(inst.dst, wave.exec(), u32::MAX, &b, from_b);
                return shadow.set_vector(other, wave.exec(), u32::MAX, &a, from_a);
            }
            _ => {}
        }
        let selects_lane = name.starts_with("v_readlane") || name.starts_with("v_permlane") && !name.contains("var");
        if selects_lane {
            for src in &inst.src[1..] {
                need_scalar(shadow, *src, 1, "it selects lanes", found);
            }
        }
        let (result, origin) = outcome(bench, shadow, wave, inst);
        write(shadow, wave, inst, &result, origin);
        if writes_scalar(inst) && inst.format as u32 <= Format::Sopp as u32 && effects.writes_scc {
            (shadow.scc, shadow.scc_origin) = (result.scc, origin);
        }
        let exec = if effects.writes.iter().any(|span| span.file == File::Scalar && span.first == EXEC) {
            result.exec | if inst.dst == EXEC { result.dst[0][0] } else { 0 }
        } else {
            0
        };
        if exec != 0 {
            let message =
                format!("bits {exec:#010x} of the new exec_lo {}: they decide which lanes run", origin_text(origin));
            found.push(Use { class: origin, lane: Some(exec.trailing_zeros()), message });
            shadow.set_scalar(EXEC, 0, origin);
        }
    }
}

impl Watch {
    /// Reports uses at the wave's instruction.
    pub(super) fn report_uses(&self, wave: &Wave, found: Vec<Use>) {
        for Use { class, lane, message } in found {
            self.report(class, wave, lane, message);
        }
    }
}

/// Lane exchanges that only go through the LDS hardware.
fn exchanges(inst: &Inst) -> bool {
    matches!(inst.row.name, "ds_swizzle_b32" | "ds_permute_b32" | "ds_bpermute_b32" | "ds_bpermute_fi_b32")
}

/// A scalar value that must be defined.
fn need_scalar(shadow: &mut Shadow, src: Src, dwords: u8, why: &str, found: &mut Vec<Use>) {
    for k in 0..dwords {
        let bits = shadow.scalar(src, k);
        if bits != 0 {
            let class = shadow.origin(src);
            let register = register_text(src, k);
            let message = format!("bits {bits:#010x} of {register} {}, and {why}", origin_text(class));
            found.push(Use { class, lane: None, message });
            if let Src::Sgpr(first) = src {
                shadow.set_scalar(first.wrapping_add(k), 0, class);
            }
        }
    }
}

/// A vector register that must be defined.
fn need_vector(shadow: &mut Shadow, register: u8, purpose: &Purpose, found: &mut Vec<Use>) {
    if !shadow.dirty_vector(register) {
        return;
    }
    let undefined = &shadow.vgpr[register as usize];
    let lane = lanes_of(purpose.lanes).find(|&lane| undefined[lane] & purpose.bits != 0);
    let Some(lane) = lane else { return };
    let class = shadow.vector_origin[register as usize];
    let bits = undefined[lane] & purpose.bits;
    let message = format!("bits {bits:#010x} of v{register} {}, and {}", origin_text(class), purpose.what);
    found.push(Use { class, lane: Some(lane as u32), message });
    shadow.clear_vector(register, purpose.lanes, purpose.bits);
}

/// The registers that address memory must be defined.
fn addresses(shadow: &mut Shadow, wave: &Wave, inst: &Inst, dirty: bool, found: &mut Vec<Use>) {
    if dirty {
        let why = "it addresses memory";
        let wide = match inst.format {
            Format::Smem => {
                let dwords = if inst.row.name.contains("_buffer_") { 3 } else { 2 };
                let prefetch = inst.row.d == Ty::None;
                if !prefetch {
                    need_scalar(shadow, inst.src[0], dwords, why, found);
                    need_scalar(shadow, inst.src[1], 1, why, found);
                }
                0
            }
            Format::Buffer => {
                need_scalar(shadow, Src::Sgpr(inst.sdst), 4, why, found);
                1 + (inst.words[1] >> 30 == 3) as u8
            }
            Format::Flat => 2,
            Format::Global => 1 + (inst.src[2] == Src::Const(0)) as u8,
            _ => 1,
        };
        if inst.format != Format::Smem {
            if let Src::Vgpr(first) = inst.src[0] {
                for k in 0..wide {
                    let purpose = Purpose { what: why, lanes: wave.exec(), bits: u32::MAX };
                    need_vector(shadow, first.wrapping_add(k), &purpose, found);
                }
            }
            if let Src::Sgpr(_) = inst.src[2] {
                need_scalar(shadow, inst.src[2], if inst.format == Format::Global { 2 } else { 1 }, why, found);
            }
            let by_m0 = inst.format == Format::Ds;
            if by_m0 && (inst.row.name.contains("addtid") || matches!(inst.row.name, "ds_append" | "ds_consume")) {
                need_scalar(shadow, Src::Sgpr(M0), 1, why, found);
            }
        }
    }
    // Loads outside a buffer's bounds give 0, counters are written by the unit itself: defined unless the access says otherwise.
    let fills = inst.format == Format::Buffer && !inst.row.name.contains("d16") && inst.row.d != Ty::None
        || matches!(inst.row.name, "ds_append" | "ds_consume");
    if fills && !inst.row.name.contains("atomic") {
        for k in 0..inst.row.d.dwords().max(1) {
            shadow.clear_vector(inst.dst.wrapping_add(k), wave.exec(), u32::MAX);
        }
    }
    if inst.format == Format::Smem {
        for k in 0..inst.row.d.dwords() {
            shadow.set_scalar(inst.dst.wrapping_add(k), 0, Class::UninitializedRegisterRead);
        }
    }
}

/// A branch decides, so what it looks at must be defined.
fn branch(shadow: &mut Shadow, wave: &Wave, name: &str, found: &mut Vec<Use>) {
    match name {
        "s_cbranch_scc0" | "s_cbranch_scc1" if shadow.scc => {
            let class = shadow.scc_origin;
            let message = format!("bits that decide scc {}, and the branch depends on it", origin_text(class));
            found.push(Use { class, lane: None, message });
            shadow.scc = false;
        }
        // A bit that is surely set makes VCC surely not zero.
        "s_cbranch_vccz" | "s_cbranch_vccnz" if wave.vcc() & !shadow.sgpr[VCC as usize] == 0 => {
            need_scalar(shadow, Src::Sgpr(VCC), 1, "the branch depends on it", found);
        }
        _ => {}
    }
}
