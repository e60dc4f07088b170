//! The instruction set: one file per encoding format, one [`Row`] per instruction, and a row is the only place where an opcode
//! number stands. Decoder, disassembler and executor all read the rows.
//!
//! Each format's file offers `ROWS`, `decode(words) -> Result<Inst, DecodeError>` and `text(&Inst, pc) -> String` (as
//! `llvm-objdump` prints it). Opcodes of VOPC, VOP2 and VOP1 serve their VOP3 forms too (+0, +256, +384).

pub mod dpp;
pub mod ds;
pub mod effects;
pub mod flags;
pub mod graphics;
pub mod operand;
pub mod smem;
pub mod sop1;
pub mod sop2;
pub mod sopc;
pub mod sopk;
pub mod sopp;
pub mod vbuffer;
pub mod vflat;
pub mod vop;
pub mod vop1;
pub mod vop2;
pub mod vop3;
pub mod vop3_rows;
pub mod vop3p;
pub mod vopc;
pub mod vopd;

use crate::wave::Exec;

/// Encoding format of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the manual's names")]
pub enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3Sd,
    Vop3p,
    Vopd,
    Ds,
    Flat,
    Global,
    Scratch,
    Buffer,
    /// Images, sampling, exports, interpolation, parameter loads: known by name only.
    Graphics,
}

/// Type of an operand: how many registers it takes and how constants are expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "letters and bits are the manual's")]
pub enum Ty {
    /// No operand.
    None,
    B16,
    I16,
    U16,
    F16,
    Bf16,
    /// Two packed halves of the type in one register.
    PkB16,
    PkF16,
    PkBf16,
    B32,
    I32,
    U32,
    F32,
    B64,
    I64,
    U64,
    F64,
    B96,
    B128,
    B256,
    B512,
    /// A bit per lane in one scalar register (wave32).
    Mask,
    /// Operand printed and decoded by the format itself (`simm16`, message ids, …).
    Imm,
}

impl Ty {
    /// Registers of 32 bits that a value takes.
    pub const fn dwords(self) -> u8 {
        match self {
            Ty::None | Ty::Imm => 0,
            Ty::B64 | Ty::I64 | Ty::U64 | Ty::F64 => 2,
            Ty::B96 => 3,
            Ty::B128 => 4,
            Ty::B256 => 8,
            Ty::B512 => 16,
            _ => 1,
        }
    }
}

/// One instruction of one format.
pub struct Row {
    /// Opcode in the row's own format (VOP1/VOP2/VOPC: without the VOP3 offset).
    pub op: u16,
    /// Mnemonic without `_e32`, `_e64`, `_dpp`.
    pub name: &'static str,
    /// Destination.
    pub d: Ty,
    /// Sources.
    pub s: [Ty; 3],
    /// Format-specific bits (constants of the format's module).
    pub flags: u32,
    /// What it does.
    pub exec: Exec,
}

/// A source operand, ready to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Src {
    /// First vector register.
    Vgpr(u8),
    /// First scalar register by operand code 0–127.
    Sgpr(u8),
    /// Inline constant or literal, expanded to the operand's type.
    Const(u64),
    /// The scalar condition code.
    Scc,
}

/// Modifiers of VOP3 and VOP3P; bit n belongs to source n.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mods {
    /// Negate (VOP3P: low half).
    pub neg: u8,
    /// Absolute value (VOP3P: negate the high half).
    pub abs: u8,
    /// op_sel; bit 3 is the destination's.
    pub opsel: u8,
    /// op_sel_hi (VOP3P).
    pub opsel_hi: u8,
    /// Clamp the result.
    pub clamp: bool,
    /// Output modifier: 1 ×2, 2 ×4, 3 ÷2.
    pub omod: u8,
}

/// DPP word of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dpp {
    /// DPP16: control, masks, fetch-inactive, bound control.
    Row {
        /// ctrl field.
        ctrl: u16,
        /// Rows written.
        row_mask: u8,
        /// Banks written.
        bank_mask: u8,
        /// Fetch inactive lanes.
        fi: bool,
        /// bound_ctrl.
        bc: bool,
    },
    /// DPP8: eight 3-bit selectors, fetch-inactive.
    Eight {
        /// Selectors, 24 bits.
        sel: u32,
        /// Fetch inactive lanes.
        fi: bool,
    },
}

/// One decoded instruction.
pub struct Inst {
    /// Its row.
    pub row: &'static Row,
    /// Its format as encoded (a VOP2 row in VOP3 form says `Vop3`).
    pub format: Format,
    /// Dwords it occupies, 1–4.
    pub dwords: u8,
    /// The encoding (unused words 0).
    pub words: [u32; 4],
    /// Destination register: vector, or scalar by operand code where the row writes scalars.
    pub dst: u8,
    /// Second destination: carry, comparison mask of VOP3SD; NULL where there is none.
    pub sdst: u8,
    /// Sources. Memory formats: 0 address, 1 data, 2 scalar address (each format's file says).
    pub src: [Src; 3],
    /// simm16, offset, or offset0 | offset1 << 16.
    pub imm: i32,
    /// VOP3/VOP3P modifiers.
    pub mods: Mods,
    /// DPP of source 0.
    pub dpp: Option<Dpp>,
    /// VOPD's second half.
    pub second: Option<Box<Inst>>,
    /// Its operands as the short way of [`crate::execute::plain`] wants them.
    pub short: Short,
}

/// The sources of an instruction once more, ready for the short way, and whether it may go there. [`Inst::settle`] keeps it true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Short {
    /// Bit i: source i is a vector register. [`Short::PLAIN`], [`Short::CONSTANT`].
    pub kinds: u8,
    /// Registers of the destination and the sources; source 0's may be a scalar one.
    pub registers: [u8; 4],
    /// The value of source 0, where that is a constant.
    pub constant: u32,
}

impl Short {
    /// Neither modifiers nor DPP, no source 0 that is SCC, and no half of VOPD that must hold its result back.
    pub const PLAIN: u8 = 1 << 7;
    /// Source 0 is a constant.
    pub const CONSTANT: u8 = 1 << 6;
}

/// Why words are not an instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No row has this opcode, or no format this word.
    #[error("unknown instruction word {word:#010x}")]
    Unknown {
        /// First word.
        word: u32,
    },
    /// The code ends inside the instruction.
    #[error("instruction {word:#010x} needs {need} dwords, {have} are left")]
    Truncated {
        /// First word.
        word: u32,
        /// Needed.
        need: u8,
        /// There.
        have: u8,
    },
    /// A field has a value that the architecture or this emulator does not allow.
    #[error("instruction {word:#010x}: {reason}")]
    Invalid {
        /// First word.
        word: u32,
        /// What is wrong.
        reason: String,
    },
}

/// Decodes the instruction at the start of `words` (at least one word; later ones as far as the code goes).
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let mut inst = decode_format(words)?;
    inst.settle();
    Ok(inst)
}

fn decode_format(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    match format_of(word) {
        Some(Format::Sop1) => sop1::decode(words),
        Some(Format::Sop2) => sop2::decode(words),
        Some(Format::Sopc) => sopc::decode(words),
        Some(Format::Sopk) => sopk::decode(words),
        Some(Format::Sopp) => sopp::decode(words),
        Some(Format::Smem) => smem::decode(words),
        Some(Format::Vop1) => vop1::decode(words),
        Some(Format::Vop2) => vop2::decode(words),
        Some(Format::Vopc) => vopc::decode(words),
        Some(Format::Vop3 | Format::Vop3Sd) => vop3::decode(words),
        Some(Format::Vop3p) => vop3p::decode(words),
        Some(Format::Vopd) => vopd::decode(words),
        Some(Format::Ds) => ds::decode(words),
        Some(Format::Flat | Format::Global | Format::Scratch) => vflat::decode(words),
        Some(Format::Buffer) => vbuffer::decode(words),
        Some(Format::Graphics) => graphics::decode(words),
        None => Err(DecodeError::Unknown { word }),
    }
}

/// The format that the first word announces (GFX1201.md §4.1; specific patterns before catch-alls).
pub fn format_of(word: u32) -> Option<Format> {
    if word >> 31 == 0 {
        return Some(match word >> 25 {
            0b0111110 => Format::Vopc,
            0b0111111 => Format::Vop1,
            _ => Format::Vop2,
        });
    }
    if word >> 30 == 0b10 {
        return Some(match word >> 23 {
            0b101111101 => Format::Sop1,
            0b101111110 => Format::Sopc,
            0b101111111 => Format::Sopp,
            _ if word >> 28 == 0b1011 => Format::Sopk,
            _ => Format::Sop2,
        });
    }
    match word >> 24 {
        0xcc => return Some(Format::Vop3p),
        0xec => return Some(Format::Flat),
        0xed => return Some(Format::Scratch),
        0xee => return Some(Format::Global),
        _ => {}
    }
    match word >> 26 {
        0b110101 => Some(Format::Vop3),
        0b110010 => Some(Format::Vopd),
        0b110110 => Some(Format::Ds),
        0b111101 => Some(Format::Smem),
        0b110001 => Some(Format::Buffer),
        _ if graphics::is_graphics(word) => Some(Format::Graphics),
        _ => None,
    }
}

/// The instruction as `llvm-objdump -d --mcpu=gfx1201` prints it; `pc` is its address (branches print targets relative to it).
pub fn text(inst: &Inst, pc: u64) -> String {
    match inst.format {
        Format::Sop1 => sop1::text(inst, pc),
        Format::Sop2 => sop2::text(inst, pc),
        Format::Sopc => sopc::text(inst, pc),
        Format::Sopk => sopk::text(inst, pc),
        Format::Sopp => sopp::text(inst, pc),
        Format::Smem => smem::text(inst, pc),
        Format::Vop1 => vop1::text(inst, pc),
        Format::Vop2 => vop2::text(inst, pc),
        Format::Vopc => vopc::text(inst, pc),
        Format::Vop3 | Format::Vop3Sd => vop3::text(inst, pc),
        Format::Vop3p => vop3p::text(inst, pc),
        Format::Vopd => vopd::text(inst, pc),
        Format::Ds => ds::text(inst, pc),
        Format::Flat | Format::Global | Format::Scratch => vflat::text(inst, pc),
        Format::Buffer => vbuffer::text(inst, pc),
        Format::Graphics => graphics::text(inst, pc),
    }
}

impl Inst {
    /// An instruction with nothing set but its row and encoding; each decoder fills in what its format has.
    pub fn new(row: &'static Row, format: Format, dwords: u8, code: &[u32]) -> Result<Inst, DecodeError> {
        let have = code.len().min(255) as u8;
        if have < dwords {
            return Err(DecodeError::Truncated { word: code[0], need: dwords, have });
        }
        let mut words = [0; 4];
        words[..dwords as usize].copy_from_slice(&code[..dwords as usize]);
        Ok(Inst {
            row,
            format,
            dwords,
            words,
            dst: 0,
            sdst: crate::wave::NULL,
            src: [Src::Const(0); 3],
            imm: 0,
            mods: Mods::default(),
            dpp: None,
            second: None,
            short: Short::default(),
        })
    }

    /// Derives [`Inst::short`] from the rest. Whoever changes operands calls it last.
    pub fn settle(&mut self) {
        let waits = self.second.as_ref().is_some_and(|second| second.src.contains(&Src::Vgpr(self.dst)));
        let mut short = Short { registers: [self.dst, 0, 0, 0], ..Short::default() };
        for (i, (src, register)) in self.src.iter().zip(&mut short.registers[1..]).enumerate() {
            if let Src::Vgpr(index) | Src::Sgpr(index) = *src {
                *register = index;
            }
            short.kinds |= (matches!(src, Src::Vgpr(_)) as u8) << i;
        }
        if let Src::Const(value) = self.src[0] {
            short.kinds |= Short::CONSTANT;
            short.constant = value as u32;
        }
        if !waits && self.dpp.is_none() && self.mods == Mods::default() && self.src[0] != Src::Scc {
            short.kinds |= Short::PLAIN;
        }
        self.short = short;
        if let Some(second) = &mut self.second {
            second.settle();
        }
    }
}

/// The row of `rows` with opcode `op`. Rows need not be sorted; decoding happens once per code object.
pub fn row(rows: &'static [Row], op: u16, word: u32) -> Result<&'static Row, DecodeError> {
    rows.iter().find(|row| row.op == op).ok_or(DecodeError::Unknown { word })
}
