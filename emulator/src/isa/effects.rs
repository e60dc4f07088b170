//! Which registers an instruction reads and writes, as far as its encoding tells: explicit operands and the implied ones (VCC, EXEC,
//! M0, SCC). EXEC as the mask of vector instructions goes without saying and is left out. Registers found only at run time (relative
//! addressing by M0) are not seen here, and nothing is said about memory.

use super::{Format, Inst, Src, Ty, flags};
use crate::watch::wait::{self, Kind};
use crate::wave::{EXEC, M0, NULL, VCC};

/// A register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum File {
    /// v0–v255.
    Vector,
    /// By operand code: s0–s105, VCC, TTMP, M0, EXEC.
    Scalar,
}

/// Consecutive registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Their file.
    pub file: File,
    /// The first one.
    pub first: u8,
    /// How many, at least 1.
    pub count: u8,
}

impl Span {
    /// One past the last register.
    pub fn end(self) -> u16 {
        self.first as u16 + self.count as u16
    }
}

/// What an instruction does with registers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Read, with repetitions.
    pub reads: Vec<Span>,
    /// Written, in whole or in part (lanes that are off, halves and conditional moves keep what was there).
    pub writes: Vec<Span>,
    /// Whether it reads the scalar condition code.
    pub reads_scc: bool,
    /// Whether it writes the scalar condition code.
    pub writes_scc: bool,
    /// Whether a vector instruction computes each lane from that lane of its sources alone, under EXEC.
    pub lane_wise: bool,
    /// What it asks of the counters that say when registers are filled.
    pub kind: Kind,
    /// [`Effects::reads`] as sets.
    pub read_set: Set,
    /// [`Effects::writes`] as sets.
    pub write_set: Set,
}

/// A set of registers of both files, a bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Set {
    /// Of the vector file.
    pub vector: [u64; 4],
    /// Of the scalar file, by operand code.
    pub scalar: u128,
}

impl Set {
    /// Adds consecutive registers; `null` is none.
    fn add(&mut self, span: Span) {
        for index in span.first as u16..span.end() {
            match span.file {
                File::Vector => self.vector[(index >> 6 & 3) as usize] |= 1 << (index & 63),
                File::Scalar => self.scalar |= 1 << (index & 127),
            }
        }
        self.scalar &= !(1 << NULL);
    }

    /// The registers of both.
    pub fn with(mut self, other: &Set) -> Set {
        for (mine, theirs) in self.vector.iter_mut().zip(&other.vector) {
            *mine |= theirs;
        }
        self.scalar |= other.scalar;
        self
    }

    /// Its vector registers, in order.
    pub fn vectors(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&index| self.vector[(index >> 6) as usize] >> (index & 63) & 1 != 0)
    }

    /// Whether a register is in it.
    pub fn has(&self, file: File, register: u16) -> bool {
        match file {
            File::Vector => self.vector[(register >> 6 & 3) as usize] >> (register & 63) & 1 != 0,
            File::Scalar => self.scalar >> (register & 127) & 1 != 0,
        }
    }

    /// Whether two sets share a register.
    #[inline(always)]
    pub fn meets(&self, other: &Set) -> bool {
        let mut common = 0;
        for (a, b) in self.vector.iter().zip(&other.vector) {
            common |= a & b;
        }
        common != 0 || self.scalar & other.scalar != 0
    }
}

impl Effects {
    /// Those of `inst`; for a pair of vector operations, of both.
    pub fn of(inst: &Inst) -> Effects {
        let mut out = Self::named(inst);
        out.lane_wise = lane_wise(inst);
        out.kind = wait::kind(inst, &out);
        for (spans, set) in [(&out.reads, &mut out.read_set), (&out.writes, &mut out.write_set)] {
            spans.iter().for_each(|&span| set.add(span));
        }
        out
    }

    /// One past the highest vector register that an instruction names, 0 if there is none: [`Effects::of`] without what that takes no part in.
    pub fn vgprs_of(inst: &Inst) -> u16 {
        let out = Self::named(inst);
        let spans = out.reads.iter().chain(&out.writes);
        spans.filter(|span| span.file == File::Vector).map(|span| span.end()).max().unwrap_or(0)
    }

    /// The registers alone.
    fn named(inst: &Inst) -> Effects {
        let mut out = Effects::default();
        out.add(inst);
        if let Some(second) = &inst.second {
            out.add(second);
        }
        out
    }

    fn read(&mut self, src: Src, dwords: u8) {
        let count = dwords.max(1);
        match src {
            Src::Vgpr(first) => self.reads.push(Span { file: File::Vector, first, count }),
            Src::Sgpr(first) if first != NULL => self.reads.push(Span { file: File::Scalar, first, count }),
            Src::Sgpr(_) | Src::Const(_) => {}
            Src::Scc => self.reads_scc = true,
        }
    }

    fn write(&mut self, file: File, first: u8, dwords: u8) {
        if file == File::Vector || first != NULL {
            self.writes.push(Span { file, first, count: dwords.max(1) });
        }
    }

    fn add(&mut self, inst: &Inst) {
        match inst.format {
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => self.scalar(inst),
            Format::Smem => {
                let base = if inst.row.name.contains("_buffer_") { 4 } else { 2 };
                self.read(inst.src[0], base);
                self.read(inst.src[1], 1);
                if inst.row.d != Ty::None {
                    self.write(File::Scalar, inst.dst, inst.row.d.dwords());
                }
            }
            Format::Ds => {
                for (src, ty) in inst.src.into_iter().zip(inst.row.s) {
                    self.read(src, ty.dwords());
                }
                let by_m0 = ["ds_append", "ds_consume"].contains(&inst.row.name) || inst.row.name.contains("addtid");
                if by_m0 {
                    self.read(Src::Sgpr(M0), 1);
                }
                if inst.row.d != Ty::None {
                    self.write(File::Vector, inst.dst, inst.row.d.dwords());
                }
            }
            Format::Flat | Format::Global | Format::Scratch | Format::Buffer => self.memory(inst),
            _ => self.vector(inst),
        }
    }

    fn scalar(&mut self, inst: &Inst) {
        let name = inst.row.name;
        if inst.format == Format::Sopp {
            match name {
                "s_cbranch_scc0" | "s_cbranch_scc1" => self.reads_scc = true,
                "s_cbranch_vccz" | "s_cbranch_vccnz" => self.read(Src::Sgpr(VCC), 1),
                "s_cbranch_execz" | "s_cbranch_execnz" => self.read(Src::Sgpr(EXEC), 1),
                _ => {}
            }
            return;
        }
        for (src, ty) in inst.src.into_iter().zip(inst.row.s) {
            self.read(src, ty.dwords());
        }
        let keeps = ["s_bitset", "s_cmov", "s_fmac", "s_addk", "s_mulk"].iter().any(|start| name.starts_with(start));
        if keeps || name == "s_setreg_b32" {
            self.read(Src::Sgpr(inst.dst), inst.row.d.dwords());
        }
        if inst.row.d != Ty::None && name != "s_setreg_b32" {
            self.write(File::Scalar, inst.dst, inst.row.d.dwords());
        }
        if name.contains("_saveexec_") || name.contains("_wrexec_") {
            self.read(Src::Sgpr(EXEC), inst.row.d.dwords());
            self.write(File::Scalar, EXEC, inst.row.d.dwords());
        }
        if name.starts_with("s_movrel") {
            self.read(Src::Sgpr(M0), 1);
        }
        self.reads_scc |=
            ["s_cmov", "s_cselect"].iter().any(|start| name.starts_with(start)) || name.contains("_co_ci_");
        self.writes_scc = match inst.format {
            Format::Sopc => true,
            Format::Sopk => name.starts_with("s_addk"),
            _ => sets_scc(name),
        };
    }

    fn memory(&mut self, inst: &Inst) {
        let row = inst.row;
        // A block of registers has the type of an immediate.
        let dwords = |ty: Ty| if ty == Ty::Imm { 32 } else { ty.dwords() };
        let both = |bits: u32| inst.words[1] >> 30 & bits == bits;
        let address = match inst.format {
            Format::Buffer => 1 + both(3) as u8,
            Format::Global => 1 + (inst.src[2] == Src::Const(0)) as u8,
            Format::Flat => 2,
            _ => 1,
        };
        self.read(inst.src[0], address);
        self.read(inst.src[1], dwords(row.s[1]));
        self.read(inst.src[2], if matches!(inst.format, Format::Global | Format::Flat) { 2 } else { 1 });
        if inst.format == Format::Buffer {
            self.read(Src::Sgpr(inst.sdst), 4);
        }
        if row.s[1] == Ty::Imm || row.d == Ty::Imm {
            self.read(Src::Sgpr(M0), 1);
        }
        // Bit 0 of an atomic's hint: the old value comes back.
        let returns = !row.name.contains("atomic") || inst.words[1] >> 20 & 1 != 0;
        if row.d != Ty::None && returns {
            // Bit 22 of a buffer load, tfe, adds a register that says how it went.
            let tfe = inst.format == Format::Buffer && inst.words[0] >> 22 & 1 != 0;
            self.write(File::Vector, inst.dst, dwords(row.d) + tfe as u8);
        }
    }

    fn vector(&mut self, inst: &Inst) {
        let (row, name) = (inst.row, inst.row.name);
        for (i, (src, ty)) in inst.src.into_iter().zip(row.s).enumerate() {
            // The accumulator of a dense matrix product is as wide as the destination.
            let dwords = if i == 2 && name.starts_with("v_wmma") { row.d.dwords() } else { ty.dwords() };
            self.read(src, dwords);
        }
        if name.contains("swmmac") || name.starts_with("v_swap") {
            self.read(Src::Vgpr(inst.dst), row.d.dwords());
        }
        if name.starts_with("v_div_fmas") || name == "v_dual_cndmask_b32" {
            self.read(Src::Sgpr(VCC), 1);
        }
        if name.starts_with("v_movrel") || name.starts_with("v_swaprel") {
            self.read(Src::Sgpr(M0), 1);
        }
        let alu = matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd);
        match row.d {
            Ty::None => {}
            Ty::Mask => self.write(File::Scalar, inst.dst, 1),
            _ if alu && row.flags & flags::SCALAR_D != 0 => self.write(File::Scalar, inst.dst, 1),
            _ => self.write(File::Vector, inst.dst, row.d.dwords()),
        }
        if alu {
            self.write(File::Scalar, inst.sdst, 1);
        }
        if let (true, Src::Vgpr(other)) = (name.starts_with("v_swap"), inst.src[0]) {
            self.write(File::Vector, other, 1);
        }
    }
}

/// Whether lanes do not see each other. DPP, permutations, matrices and relative registers let them.
fn lane_wise(inst: &Inst) -> bool {
    let alu = matches!(
        inst.format,
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd | Format::Vop3p | Format::Vopd
    );
    let crosses = ["lane", "wmma", "swmmac", "rel", "swap"];
    alu && inst.dpp.is_none() && !crosses.iter().any(|part| inst.row.name.contains(part))
}

/// Whether a SOP1 or SOP2 instruction sets SCC. Moves, counts from one end, multiplications, selections and floats leave it.
fn sets_scc(name: &str) -> bool {
    let leaves = [
        "s_mov",
        "s_cmov",
        "s_brev",
        "s_ctz",
        "s_clz",
        "s_cls",
        "s_sext",
        "s_bitset",
        "s_bitreplicate",
        "s_getpc",
        "s_setpc",
        "s_swappc",
        "s_rfe",
        "s_sendmsg",
        "s_barrier_init",
        "s_barrier_join",
        "s_get_barrier",
        "s_alloc",
        "s_sleep",
        "s_bfm",
        "s_mul",
        "s_cselect",
        "s_pack",
        "s_cvt",
    ];
    if name == "s_barrier_signal" || leaves.iter().any(|start| name.starts_with(start)) {
        return false;
    }
    !name.contains("_nc_") && !name.ends_with("_f32") && !name.ends_with("_f16")
}
