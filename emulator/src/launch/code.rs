//! A code object in device memory, its code decoded once. Words that are no instruction trap when they are executed, not before: there
//! may be data between functions.

use crate::code_object::{CodeObject, Kernel, RelocationKind};
use crate::fault::Fault;
use crate::isa::effects::Effects;
use crate::isa::{self, DecodeError, Format, Inst, Row, Src, Ty};
use crate::memory::{Memory, MemoryError};
use crate::wave::{Cx, Exec, Step};

/// What kind of work an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Scalar arithmetic and moves.
    Salu,
    /// Scalar loads.
    Smem,
    /// Vector arithmetic.
    Valu,
    /// Pairs of vector operations.
    Vopd,
    /// Matrix multiplications.
    Wmma,
    /// Loads from global, flat, scratch or buffer.
    Load,
    /// Stores to them.
    Store,
    /// Atomics on them.
    Atomic,
    /// LDS and lane permutations through it.
    Lds,
    /// Jumps, taken or not.
    Branch,
    /// Barrier halves.
    Barrier,
    /// Waits, hints and cache control, which do nothing here.
    Wait,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 12;
    /// All of them, in order.
    pub const ALL: [Class; Class::COUNT] = [
        Class::Salu,
        Class::Smem,
        Class::Valu,
        Class::Vopd,
        Class::Wmma,
        Class::Load,
        Class::Store,
        Class::Atomic,
        Class::Lds,
        Class::Branch,
        Class::Barrier,
        Class::Wait,
    ];
    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Class::Salu => "salu",
            Class::Smem => "smem",
            Class::Valu => "valu",
            Class::Vopd => "vopd",
            Class::Wmma => "wmma",
            Class::Load => "load",
            Class::Store => "store",
            Class::Atomic => "atomic",
            Class::Lds => "lds",
            Class::Branch => "branch",
            Class::Barrier => "barrier",
            Class::Wait => "wait",
        }
    }
    fn of(inst: &Inst) -> Class {
        let name = inst.row.name;
        match inst.format {
            Format::Sopp if isa::sopp::is_branch(inst) => Class::Branch,
            _ if name.starts_with("s_barrier") => Class::Barrier,
            Format::Sopp | Format::Graphics => Class::Wait,
            Format::Sop1 if matches!(name, "s_setpc_b64" | "s_swappc_b64") => Class::Branch,
            Format::Sopk if name == "s_call_b64" => Class::Branch,
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk => Class::Salu,
            Format::Smem => Class::Smem,
            Format::Vopd => Class::Vopd,
            Format::Vop3p if name.contains("wmma") || name.contains("swmmac") => Class::Wmma,
            Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd | Format::Vop3p => Class::Valu,
            Format::Ds => Class::Lds,
            Format::Flat | Format::Global | Format::Scratch | Format::Buffer => match name {
                _ if name.contains("atomic") => Class::Atomic,
                _ if name.contains("store") => Class::Store,
                _ if name.contains("load") => Class::Load,
                _ => Class::Wait,
            },
        }
    }
}

/// One instruction, ready to run.
pub(super) struct Op {
    pub exec: Exec,
    pub next: u32,
    pub bytes: u8,
    pub class: u8,
    /// One past the highest vector register it names.
    pub vgprs: u16,
    pub inst: Inst,
    pub effects: Effects,
}

/// Decoded code.
pub(super) struct Code {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Position in `ops` by dword.
    index: Vec<u32>,
    /// In order of address, then what starts inside another instruction, then one that stands for everything behind the code.
    pub ops: Vec<Op>,
}

static BAD: Row = Row { op: 0, name: "?", d: Ty::None, s: [Ty::None; 3], flags: 0, exec: unknown };
static BEHIND: Row = Row { op: 0, name: "?", d: Ty::None, s: [Ty::None; 3], flags: 0, exec: behind };

fn unknown(_: &mut Cx, inst: &Inst) -> Step {
    Err(Box::new(match isa::decode(&inst.words) {
        Err(DecodeError::Invalid { reason, .. }) => Fault::Unsupported(reason),
        _ => Fault::Unknown,
    }))
}
fn behind(cx: &mut Cx, _: &Inst) -> Step {
    Err(Box::new(Fault::Fetch { pc: cx.wave.pc, start: cx.launch.code_start, end: cx.launch.code_end }))
}

/// A stand-in that traps when it is executed; it keeps the words so that the trap can say why.
fn stand_in(row: &'static Row, code: &[u32]) -> Op {
    let mut words = [0; 4];
    let count = code.len().min(4);
    words[..count].copy_from_slice(&code[..count]);
    let inst = Inst {
        row,
        format: Format::Sopp,
        dwords: 1,
        words,
        dst: 0,
        sdst: crate::wave::NULL,
        src: [Src::Const(0); 3],
        imm: 0,
        mods: Default::default(),
        dpp: None,
        second: None,
    };
    Op { exec: row.exec, next: 0, bytes: 4, class: Class::Wait as u8, vgprs: 0, inst, effects: Effects::default() }
}

fn op(code: &[u32]) -> Op {
    match isa::decode(code) {
        Ok(inst) => {
            let effects = Effects::of(&inst);
            Op {
                exec: inst.row.exec,
                next: 0,
                bytes: inst.dwords * 4,
                class: Class::of(&inst) as u8,
                vgprs: effects.vgprs(),
                inst,
                effects,
            }
        }
        Err(_) => stand_in(&BAD, code),
    }
}

impl Code {
    /// Decodes `words` at `start`. Instructions begin again at every address of `symbols`.
    fn new(start: u64, words: &[u32], symbols: &[u64]) -> Code {
        let count = words.len();
        let mut boundary = vec![false; count + 1];
        boundary[count] = true;
        for symbol in symbols {
            if let Some(flag) = boundary.get_mut((symbol.wrapping_sub(start) / 4) as usize) {
                *flag = true;
            }
        }
        let mut index = vec![u32::MAX; count + 1];
        let mut ops = Vec::with_capacity(count);
        let mut starts = Vec::with_capacity(count);
        let mut at = 0;
        while at < count {
            let mut next = op(&words[at..]);
            let length = next.bytes as usize / 4;
            if (at + 1..at + length).any(|inside| boundary[inside]) {
                next = stand_in(&BAD, &words[at..at + 1]);
            }
            index[at] = ops.len() as u32;
            starts.push(at);
            at += next.bytes as usize / 4;
            ops.push(next);
        }
        for at in 0..count {
            if index[at] == u32::MAX {
                index[at] = ops.len() as u32;
                starts.push(at);
                ops.push(op(&words[at..]));
            }
        }
        index[count] = ops.len() as u32;
        for (op, at) in ops.iter_mut().zip(starts) {
            op.next = index[(at + op.bytes as usize / 4).min(count)];
        }
        ops.push(stand_in(&BEHIND, &[]));
        Code { start, end: start + count as u64 * 4, index, ops }
    }

    /// Position of the instruction at `pc`.
    #[inline(always)]
    pub fn position(&self, pc: u64) -> Result<u32, Box<Fault>> {
        let offset = pc.wrapping_sub(self.start);
        match self.index.get((offset >> 2) as usize) {
            Some(&position) if offset & 3 == 0 => Ok(position),
            _ => Err(Box::new(Fault::Fetch { pc, start: self.start, end: self.end })),
        }
    }
}

/// A code object in device memory.
pub struct LoadedModule {
    object: CodeObject,
    base: u64,
    pub(super) code: Code,
}

impl LoadedModule {
    /// Copies the segments into one allocation, keeping their distances, applies the relocations and decodes the code.
    pub fn load(object: CodeObject, memory: &mut Memory) -> Result<LoadedModule, MemoryError> {
        let base = memory.alloc(object.image_bytes())?;
        match fill(&object, memory, base) {
            Ok(code) => Ok(LoadedModule { object, base, code }),
            Err(error) => {
                memory.free(base)?;
                Err(error)
            }
        }
    }
    /// Frees the image.
    pub fn unload(self, memory: &mut Memory) -> Result<(), MemoryError> {
        memory.free(self.base)
    }
    /// Disassembly of the instruction at `pc`, if there is one.
    pub fn text_at(&self, pc: u64) -> Option<String> {
        let position = self.code.position(pc).ok()?;
        let inst = &self.code.ops[position as usize].inst;
        (inst.row.name != "?").then(|| isa::text(inst, pc))
    }
    /// What was loaded.
    pub fn object(&self) -> &CodeObject {
        &self.object
    }
    /// Address of the image.
    pub fn base(&self) -> u64 {
        self.base
    }
    /// The kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.object.kernel(name)
    }
    /// Address and bytes of the exported variable called `name`.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.object.global(name).map(|g| (self.base + g.address, g.size))
    }
}

fn fill(object: &CodeObject, memory: &Memory, base: u64) -> Result<Code, MemoryError> {
    memory.mark_written(base, object.image_bytes())?; // what a segment leaves out is zero
    for segment in object.segments() {
        memory.write(base + segment.address, &segment.bytes)?;
    }
    for relocation in object.relocations() {
        let place = base + relocation.offset;
        let target = base.wrapping_add(relocation.target);
        match relocation.kind {
            RelocationKind::Abs64 => memory.write(place, &target.to_le_bytes())?,
            RelocationKind::Low32 | RelocationKind::Abs32 => memory.write(place, &(target as u32).to_le_bytes())?,
            RelocationKind::High32 => memory.write(place, &((target >> 32) as u32).to_le_bytes())?,
            RelocationKind::Rel32 => memory.write(place, &(target.wrapping_sub(place) as u32).to_le_bytes())?,
        }
    }
    let range = object.code_range();
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory.read(base + range.start, &mut bytes)?;
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let entries = object.kernels().iter().map(|k| k.entry);
    let symbols: Vec<u64> = object.functions().iter().map(|f| f.address).chain(entries).map(|a| base + a).collect();
    Ok(Code::new(base + range.start, &words, &symbols))
}
