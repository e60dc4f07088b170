//! A code object in device memory, its code decoded once, however often it is loaded. Words that are no instruction trap when they are
//! executed, not before: there may be data between functions.

use super::group::Group;
use super::poll::Poll;
use crate::code_object::{CodeObject, Kernel, RelocationKind};
use crate::fault::Fault;
use crate::isa::effects::Effects;
use crate::isa::{self, DecodeError, Format, Inst, Row, Src, Ty};
use crate::memory::{Memory, MemoryError};
use crate::wave::{Cx, Exec, Step};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// Instructions from one on that run through to the last.
#[derive(Clone, Copy, Default)]
pub(super) struct Straight {
    /// How many, with this one; 0 where this one may do otherwise than go on behind itself, or looks at the program counter.
    pub count: u32,
    /// One past the highest vector register they name.
    pub vgprs: u16,
    /// From this one to the next of them that does anything.
    pub step: u16,
}

/// One instruction, ready to run.
pub(super) struct Op {
    pub exec: Exec,
    pub next: u32,
    pub bytes: u8,
    /// Where it stands, in dwords from the start of the code.
    pub at: u32,
    pub class: u8,
    /// One past the highest vector register it names.
    pub vgprs: u16,
    pub straight: Straight,
    /// A jump back of a loop that waits: one more than its place in [`Code::polls`], else 0.
    pub poll: u32,
    pub inst: Inst,
}

/// Instructions by class.
pub(super) type Counts = [u64; Class::COUNT];

/// Decoded code, where it lies.
pub(super) struct Code {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    decoded: Arc<Decoded>,
}

impl Deref for Code {
    type Target = Decoded;

    #[inline(always)]
    fn deref(&self) -> &Decoded {
        &self.decoded
    }
}

/// Decoded code, wherever it lies.
pub(super) struct Decoded {
    /// Position in `ops` by dword.
    index: Vec<u32>,
    /// In order of address, then what starts inside another instruction, then one that stands for everything behind the code.
    pub ops: Vec<Op>,
    /// What each of `ops` does with registers, once somebody looks on.
    effects: OnceLock<Vec<Effects>>,
    /// Instructions by class before each of `ops`.
    before: Vec<Counts>,
    /// Loops that wait for others.
    pub polls: Vec<Poll>,
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
        short: Default::default(),
    };
    Op {
        exec: row.exec,
        next: 0,
        bytes: 4,
        at: 0,
        class: Class::Wait as u8,
        vgprs: 0,
        straight: Straight::default(),
        poll: 0,
        inst,
    }
}

fn op(code: &[u32]) -> Op {
    match isa::decode(code) {
        Ok(inst) => Op {
            exec: inst.row.exec,
            next: 0,
            bytes: inst.dwords * 4,
            at: 0,
            class: Class::of(&inst) as u8,
            vgprs: Effects::vgprs_of(&inst),
            straight: Straight::default(),
            poll: 0,
            inst,
        },
        Err(_) => stand_in(&BAD, code),
    }
}

/// What an instruction does with registers; nothing for words that are none.
pub(super) fn effects(inst: &Inst) -> Effects {
    if inst.row.name == "?" { Effects::default() } else { Effects::of(inst) }
}

/// Whether an instruction always goes on behind itself and looks at neither the program counter nor the number of instructions.
fn is_straight(inst: &Inst) -> bool {
    match inst.format {
        Format::Sopp => is_nothing(inst) || inst.row.name.starts_with("s_wait_"),
        Format::Sop1 => !["pc_b64", "barrier", "sleep"].iter().any(|part| inst.row.name.contains(part)),
        Format::Sopk => !matches!(inst.row.name, "s_call_b64" | "s_getreg_b32"),
        _ => true,
    }
}

/// Whether an instruction only counts: hints to hardware that this machine has no use for.
fn is_nothing(inst: &Inst) -> bool {
    matches!(inst.row.name, "s_nop" | "s_delay_alu" | "s_clause" | "s_wait_alu")
}

/// Says of each instruction what runs through from it on.
fn straighten(ops: &mut [Op]) {
    let mut after = Straight::default();
    for position in (0..ops.len()).rev() {
        let op = &ops[position];
        let straight = op.inst.row.name != "?" && op.next as usize == position + 1 && is_straight(&op.inst);
        after = match (straight, ops.get(position + 1)) {
            (false, _) => Straight::default(),
            (true, next) => {
                let skips = next.is_some_and(|next| next.straight.count > 0 && is_nothing(&next.inst));
                let step = if skips { after.step.saturating_add(1) } else { 1 };
                Straight { count: after.count + 1, vgprs: op.vgprs.max(after.vgprs), step }
            }
        };
        ops[position].straight = after;
    }
}

/// Finds the loops that wait, and tells their jumps back. `index` is the position in `ops` by dword.
fn find_polls(ops: &mut [Op], index: &[u32]) -> Vec<Poll> {
    let mut polls = Vec::new();
    for position in 0..ops.len() {
        let op = &ops[position];
        if !isa::sopp::is_branch(&op.inst) || op.inst.imm >= 0 {
            continue;
        }
        let target = (op.at as i64 + 1 + op.inst.imm as i64).try_into().ok().and_then(|at: usize| index.get(at));
        let body = target.and_then(|&first| ops.get(first as usize..=position));
        if let Some(poll) = body.and_then(Poll::of) {
            polls.push(poll);
            ops[position].poll = polls.len() as u32;
        }
    }
    polls
}

impl Decoded {
    /// Decodes `words`. Instructions begin again at every symbol, whose distances in bytes `symbols` are.
    fn new(words: &[u32], symbols: impl Iterator<Item = u64>) -> Self {
        let count = words.len();
        let mut boundary = vec![false; count + 1];
        boundary[count] = true;
        for symbol in symbols {
            if let Some(flag) = boundary.get_mut((symbol / 4) as usize) {
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
            op.at = at as u32;
        }
        ops.push(Op { at: count as u32, ..stand_in(&BEHIND, &[]) });
        straighten(&mut ops);
        let polls = find_polls(&mut ops, &index[..count]);
        let mut before = Vec::with_capacity(ops.len());
        let mut counts = [0; Class::COUNT];
        for op in &ops {
            before.push(counts);
            counts[op.class as usize] += 1;
        }
        Self { index, ops, effects: OnceLock::new(), before, polls }
    }

    /// What each of `ops` does with registers.
    pub fn effects(&self) -> &[Effects] {
        self.effects.get_or_init(|| self.ops.iter().map(|op| effects(&op.inst)).collect())
    }

    /// Adds the instructions from `position` on, `count` of them, to `counts`.
    #[inline(always)]
    pub fn count(&self, position: usize, count: usize, counts: &mut Counts) {
        if let (Some(from), Some(to)) = (self.before.get(position), self.before.get(position + count)) {
            for (sum, (to, from)) in counts.iter_mut().zip(to.iter().zip(from)) {
                *sum += to - from;
            }
        }
    }
}

impl Code {
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

/// A code object whose code is decoded by the first load, for it and its clones: loading again costs a copy of the image.
#[derive(Clone)]
pub struct Program(Arc<Parts>);

struct Parts {
    object: CodeObject,
    decoded: OnceLock<Arc<Decoded>>,
}

impl From<CodeObject> for Program {
    fn from(object: CodeObject) -> Self {
        Self(Arc::new(Parts { object, decoded: OnceLock::new() }))
    }
}

/// A code object in device memory.
pub struct LoadedModule {
    program: Program,
    base: u64,
    pub(super) code: Code,
    /// Workgroups of launches that are over, for their memory.
    spare: Mutex<Vec<Group>>,
}

/// Workgroups kept between launches. One of 32 waves has a megabyte of registers.
const MOST_SPARE: usize = 8;

impl LoadedModule {
    /// Copies the segments into one allocation, keeping their distances, applies the relocations and decodes the code unless that was done.
    pub fn load(program: impl Into<Program>, memory: &mut Memory) -> Result<LoadedModule, MemoryError> {
        let program = program.into();
        let base = memory.alloc(program.0.object.image_bytes())?;
        match fill(&program.0, memory, base) {
            Ok(code) => Ok(LoadedModule { program, base, code, spare: Mutex::default() }),
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
    /// A workgroup that is over, if one is kept.
    pub(super) fn take_spare(&self) -> Option<Group> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
    /// Keeps a workgroup that is over.
    pub(super) fn keep_spare(&self, group: Group) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(group);
        }
    }
    /// What was loaded.
    pub fn object(&self) -> &CodeObject {
        &self.program.0.object
    }
    /// Address of the image.
    pub fn base(&self) -> u64 {
        self.base
    }
    /// The kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.object().kernel(name)
    }
    /// Address and bytes of the exported variable called `name`.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.object().global(name).map(|g| (self.base + g.address, g.size))
    }
}

fn fill(parts: &Parts, memory: &Memory, base: u64) -> Result<Code, MemoryError> {
    let object = &parts.object;
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
    // Code that a relocation changes depends on where it lies: such is decoded by each load.
    let moves = object.relocations().iter().any(|r| r.offset < range.end && r.offset + 8 > range.start);
    let decoded = match parts.decoded.get() {
        Some(decoded) if !moves => Arc::clone(decoded),
        _ => {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            memory.read(base + range.start, &mut bytes)?;
            let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            let entries = object.kernels().iter().map(|k| k.entry);
            let symbols = object.functions().iter().map(|f| f.address).chain(entries);
            let decoded = Arc::new(Decoded::new(&words, symbols.map(|address| address.wrapping_sub(range.start))));
            if !moves { Arc::clone(parts.decoded.get_or_init(|| decoded)) } else { decoded }
        }
    };
    let start = base + range.start;
    Ok(Code { start, end: start + (decoded.index.len() as u64 - 1) * 4, decoded })
}
