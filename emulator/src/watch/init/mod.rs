//! Use of what nothing wrote: undefined bits are followed through registers, LDS and scratch one by one and reported where they decide
//! something: an address, EXEC, a branch, a stored value. Copying them is harmless, and compilers do it. LDS that no wave of the
//! workgroup wrote is reported when it is read. After a report the bits count as defined, so that one defect is one finding.

mod evaluate;
mod rule;
mod shadow;

use super::finding::Class;
use super::{Accessed, Moved, Space, Start, Watch};
use crate::execute::lanes::write_mask;
use crate::execute::memory_ops::{LaneOp, LoadTo, Place, StoreFrom, Words, lanes_of};
use crate::execute::{dpp, transpose};
use crate::fault::Access;
use crate::isa::effects::{Effects, File};
use crate::isa::{Format, Inst, Src, Ty};
use crate::memory::{Memory, Region};
use crate::wave::{EXEC, Lanes, M0, VCC, Wave};
use evaluate::{Bench, Outcome, writes_scalar};
use rule::{Rule, rule};
use shadow::Shadow;

/// Undefined bits of one workgroup.
#[derive(Debug)]
pub struct Init {
    waves: Vec<Shadow>,
    /// Undefined bits of LDS.
    lds: Vec<u32>,
    /// Whether any undefined bits were ever stored in LDS.
    lds_dirty: bool,
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
        Init { waves: Vec::new(), lds: Vec::new(), lds_dirty: false, lds_written: Vec::new(), bench: Bench::new() }
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
        self.lds.clear();
        self.lds.resize(start.lds_bytes.div_ceil(4) as usize, 0);
        self.lds_written.clear();
        self.lds_written.resize(start.lds_bytes.div_ceil(32) as usize, 0);
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
        let whole = matches!(rule_of_lanes(inst), Written::All);
        for span in &effects.writes {
            for index in span.first..=span.first.wrapping_add(span.count - 1) {
                match span.file {
                    File::Scalar => {
                        if shadow.sgpr[(index & 127) as usize] != 0 {
                            shadow.set_scalar(index, 0, Class::UninitializedRegisterRead);
                        }
                    }
                    File::Vector if shadow.dirty_vector(index) => {
                        let lanes = if whole { u32::MAX } else { lanes_written(wave, inst) };
                        shadow.clear_vector(index, lanes, bits_written(inst));
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

    /// An access that is about to happen.
    pub(super) fn accessed(&mut self, memory: &Memory, wave: &Wave, accessed: &Accessed, found: &mut Vec<Use>) {
        let Init { waves, lds, lds_dirty, lds_written, .. } = self;
        let shadow = &mut waves[wave.index as usize];
        let (mask, bytes) = (accessed.mask, accessed.bytes);
        match accessed.space {
            Space::Global => global(shadow, memory, wave, accessed, found),
            Space::Lds => {
                let place = &mut Words { words: lds, stride: 1, first: 0 };
                match accessed.moved {
                    Moved::Load { load, dst } if !*lds_dirty => {
                        unwritten(lds_written, accessed, found);
                        for k in 0..bytes.div_ceil(4) as u8 {
                            shadow.clear_vector(dst.wrapping_add(k), mask, load.bits());
                        }
                    }
                    Moved::Load { load, dst } => {
                        unwritten(lds_written, accessed, found);
                        move_lanes(shadow, place, accessed, &LoadTo { load, dst });
                        settle_load(shadow, dst, bytes, Class::UninitializedRegisterRead);
                    }
                    Moved::Store { store, data } => {
                        let dirty = (0..bytes.div_ceil(4) as u8).any(|k| shadow.dirty_vector(data.wrapping_add(k)));
                        *lds_dirty |= dirty;
                        if *lds_dirty {
                            move_lanes(shadow, place, accessed, &StoreFrom { store, data });
                        }
                        for lane in lanes_of(mask) {
                            note_written(lds_written, accessed.addresses[lane], bytes);
                        }
                    }
                    Moved::Atomic { data, second, dst } => {
                        unwritten(lds_written, accessed, found);
                        operands(shadow, wave, accessed, [data, second], found);
                        for lane in lanes_of(mask) {
                            note_written(lds_written, accessed.addresses[lane], bytes);
                        }
                        settle_atomic(shadow, mask, bytes, dst);
                    }
                    Moved::Scalar { .. } => {}
                }
            }
            Space::Scratch => {
                let mut scratch = std::mem::take(&mut shadow.scratch);
                for lane in lanes_of(mask) {
                    let place = &mut Words { words: &mut scratch, stride: 32, first: lane };
                    match accessed.moved {
                        Moved::Load { load, dst } => {
                            LoadTo { load, dst }.run(place, accessed.addresses[lane], lane, &mut shadow.vgpr);
                        }
                        Moved::Store { store, data } => {
                            StoreFrom { store, data }.run(place, accessed.addresses[lane], lane, &mut shadow.vgpr);
                        }
                        _ => {}
                    }
                }
                shadow.scratch = scratch;
                match accessed.moved {
                    Moved::Load { dst, .. } => settle_load(shadow, dst, bytes, Class::UninitializedScratchRead),
                    Moved::Atomic { dst, .. } => settle_atomic(shadow, mask, bytes, dst),
                    _ => {}
                }
            }
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

/// Which lanes an instruction writes.
enum Written {
    All,
    ByExec,
}

fn rule_of_lanes(inst: &Inst) -> Written {
    match inst.format {
        Format::Vop3p if rule(inst) == Rule::Matrix => Written::All,
        _ => Written::ByExec,
    }
}

fn lanes_written(wave: &Wave, inst: &Inst) -> u32 {
    match inst.row.name {
        "v_writelane_b32" => 1 << (wave.scalar(inst.src[1]) & 31),
        _ if matches!(inst.format, Format::Ds | Format::Vopd) => wave.exec(),
        _ => write_mask(wave, inst),
    }
}

/// Bits of the destination that an instruction writes: 16-bit results leave the other half.
fn bits_written(inst: &Inst) -> u32 {
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
fn outcome(bench: &mut Bench, shadow: &Shadow, wave: &Wave, inst: &Inst) -> (Outcome, Class) {
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
fn write(shadow: &mut Shadow, wave: &Wave, inst: &Inst, result: &Outcome, origin: Class) {
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
fn matrix(shadow: &mut Shadow, inst: &Inst) {
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
fn relative(shadow: &mut Shadow, wave: &Wave, inst: &Inst, found: &mut Vec<Use>) {
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

/// Runs a load or store on shadows instead of values.
fn move_lanes<O: LaneOp, P: Place>(shadow: &mut Shadow, place: &mut P, accessed: &Accessed, op: &O) {
    for lane in lanes_of(accessed.mask) {
        op.run(place, accessed.addresses[lane], lane, &mut shadow.vgpr);
    }
}

fn settle_load(shadow: &mut Shadow, dst: u8, bytes: u32, origin: Class) {
    for k in 0..bytes.div_ceil(4) as u8 {
        let register = dst.wrapping_add(k);
        shadow.settle(register);
        if shadow.dirty_vector(register) && origin != Class::UninitializedRegisterRead {
            shadow.vector_origin[register as usize] = origin;
        }
    }
}

fn settle_atomic(shadow: &mut Shadow, mask: u32, bytes: u32, dst: Option<u8>) {
    if let Some(dst) = dst {
        for k in 0..bytes.div_ceil(4) as u8 {
            shadow.clear_vector(dst.wrapping_add(k), mask, u32::MAX);
        }
    }
}

/// The operands of an atomic become memory, so they must be defined.
fn operands(shadow: &mut Shadow, wave: &Wave, accessed: &Accessed, registers: [u8; 2], found: &mut Vec<Use>) {
    debug_assert_eq!(accessed.access, Access::Atomic);
    let _ = wave;
    for first in registers {
        for k in 0..accessed.bytes.div_ceil(4) as u8 {
            let purpose = Purpose { what: "it is an atomic's operand", lanes: accessed.mask, bits: u32::MAX };
            need_vector(shadow, first.wrapping_add(k), &purpose, found);
        }
    }
}

/// Runs `each` on the words of a byte set and the bits in them that stand for `bytes` bytes from `address` on.
#[inline(always)]
fn byte_set(address: u64, bytes: u32, mut each: impl FnMut(usize, u32)) {
    let (word, shift) = ((address >> 5) as usize, (address & 31) as u32);
    let bits = (1u64 << bytes) - 1 << shift;
    each(word, bits as u32);
    if bits >> 32 != 0 {
        each(word + 1, (bits >> 32) as u32);
    }
}

fn note_written(written: &mut [u32], address: u64, bytes: u32) {
    byte_set(address, bytes, |word, bits| written[word] |= bits);
}

/// LDS bytes that are read and were never written; they count as written afterwards.
fn unwritten(written: &mut [u32], accessed: &Accessed, found: &mut Vec<Use>) {
    for lane in lanes_of(accessed.mask) {
        let address = accessed.addresses[lane];
        let mut missing = None;
        byte_set(address, accessed.bytes, |word, bits| {
            let absent = bits & !written[word];
            if absent != 0 {
                missing.get_or_insert(32 * word as u32 + absent.trailing_zeros());
            }
        });
        if let Some(byte) = missing {
            let message = format!(
                "{} of {} bytes at LDS {address:#x}: nothing in this workgroup wrote byte {byte:#x}",
                accessed.access, accessed.bytes
            );
            found.push(Use { class: Class::UninitializedLdsRead, lane: Some(lane as u32), message });
            note_written(written, address, accessed.bytes);
        }
    }
}

/// Bytes of an allocation as undefined bits: all ones where nothing wrote.
struct Unwritten<'a>(&'a Region);

impl Place for Unwritten<'_> {
    fn load8(&self, at: u64) -> u32 {
        if self.0.written(at, 1) { 0 } else { 0xff }
    }
    fn load16(&self, at: u64) -> u32 {
        self.load8(at) | self.load8(at + 1) << 8
    }
    fn load32(&self, at: u64) -> u32 {
        if self.0.written(at, 4) { 0 } else { self.load16(at) | self.load16(at + 2) << 16 }
    }
    fn store8(&mut self, _: u64, _: u32) {}
    fn store16(&mut self, _: u64, _: u32) {}
    fn store32(&mut self, _: u64, _: u32) {}
    fn modify32(&mut self, _: u64, _: impl FnMut(u32) -> u32) -> u32 {
        0
    }
    fn modify64(&mut self, _: u64, _: impl FnOnce(u64) -> u64) -> u64 {
        0
    }
}

fn global(shadow: &mut Shadow, memory: &Memory, wave: &Wave, accessed: &Accessed, found: &mut Vec<Use>) {
    let (mask, bytes) = (accessed.mask, accessed.bytes);
    match accessed.moved {
        Moved::Load { load, dst } if whole(memory, accessed) => {
            for k in 0..bytes.div_ceil(4) as u8 {
                shadow.clear_vector(dst.wrapping_add(k), mask, load.bits());
            }
        }
        Moved::Load { load, dst } => {
            for lane in lanes_of(mask) {
                let address = accessed.addresses[lane];
                if let Some(region) = memory.region(address) {
                    LoadTo { load, dst }.run(&mut Unwritten(region), address - region.base(), lane, &mut shadow.vgpr);
                }
            }
            settle_load(shadow, dst, bytes, Class::UninitializedGlobalRead);
        }
        Moved::Scalar { dst, dwords } => {
            let address = accessed.addresses[0];
            let Some(region) = memory.region(address) else { return };
            let at = address - region.base();
            if region.written(at, bytes) {
                return;
            }
            for k in 0..dwords {
                let here = bytes.min(4);
                let bits = (0..here).fold(0, |bits, byte| {
                    bits | Unwritten(region).load8(at + 4 * k as u64 + byte as u64) << (8 * byte)
                });
                let bits = if here < 4 && bits != 0 { u32::MAX } else { bits };
                shadow.set_scalar(dst.wrapping_add(k), bits, Class::UninitializedGlobalRead);
            }
        }
        Moved::Store { store, data } => {
            let narrow = if bytes >= 4 { u32::MAX } else { (1 << (8 * bytes)) - 1 };
            let bits = if store.high() { narrow << 16 } else { narrow };
            for k in 0..bytes.div_ceil(4) as u8 {
                let purpose = Purpose { what: "it is stored", lanes: mask, bits };
                need_vector(shadow, data.wrapping_add(k), &purpose, found);
            }
            mark(memory, accessed);
        }
        Moved::Atomic { data, second, dst } => {
            operands(shadow, wave, accessed, [data, second], found);
            for lane in lanes_of(mask) {
                let address = accessed.addresses[lane];
                let Some(region) = memory.region(address) else { continue };
                if !region.written(address - region.base(), bytes) {
                    let message = format!("atomic of {bytes} bytes at {address:#x}, which nothing wrote before");
                    found.push(Use { class: Class::UninitializedGlobalRead, lane: Some(lane as u32), message });
                }
            }
            mark(memory, accessed);
            settle_atomic(shadow, mask, bytes, dst);
        }
    }
}

/// Whether all lanes are in one allocation of which every byte has been written: the usual case, told without a look at each lane's
/// bytes.
fn whole(memory: &Memory, accessed: &Accessed) -> bool {
    let Some(region) = memory.region(accessed.addresses[accessed.mask.trailing_zeros() as usize & 31]) else {
        return false;
    };
    region.all_written()
        && lanes_of(accessed.mask).all(|lane| region.contains(accessed.addresses[lane], accessed.bytes as u64))
}

fn mark(memory: &Memory, accessed: &Accessed) {
    if whole(memory, accessed) {
        return;
    }
    for lane in lanes_of(accessed.mask) {
        let address = accessed.addresses[lane];
        if let Some(region) = memory.region(address) {
            region.mark_written(address - region.base(), accessed.bytes as u64);
        }
    }
}
