//! What the checks report. A [`Finding`] is a defect of the kernel with its place: the instruction, the access, the allocation, the
//! other access of a race, the source line where the code object has line tables. Defects that execution survives are collected;
//! one that it does not survive is a [`crate::Fault`], and [`Finding::of_trap`] says which class that is.

use crate::code_object::Kernel;
use crate::fault::{Access, Fault, Trap};
use crate::launch::LoadedModule;
use crate::lines::SourceLine;
use crate::watch::Space;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Most findings of one launch that are kept; there is one for each class and instruction, so this bounds broken code only.
const MOST: usize = 1024;

/// Most findings that [`text`] writes out.
pub const SHOWN: usize = 32;

/// Kinds of defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A load, store or atomic touches a byte outside every allocation.
    OutOfBoundsGlobal,
    /// An LDS access past the exact bytes of the launch.
    OutOfBoundsLds,
    /// A scratch access past the bytes of the lane.
    OutOfBoundsScratch,
    /// Memory of the runtime behind or before this launch's arguments is read.
    OutOfBoundsArguments,
    /// An allocation is used that has been freed.
    UseAfterFree,
    /// A register, or a lane of it, that nothing wrote decides an address, EXEC, a branch or a stored value.
    UninitializedRegisterRead,
    /// A byte of LDS is read that nothing wrote in this workgroup.
    UninitializedLdsRead,
    /// A byte of an allocation is used that neither host nor kernel wrote.
    UninitializedGlobalRead,
    /// A byte of scratch is used that nothing wrote.
    UninitializedScratchRead,
    /// Two waves touch the same LDS byte, one of them writing, and no barrier or atomic orders them.
    LdsRaceMissingBarrier,
    /// The same in global memory, within a workgroup or between two.
    GlobalRace,
    /// Lanes of one store write different values to the same byte.
    LaneStoreConflict,
    /// A register is used or overwritten before the wait for the vector load that fills it.
    MissingWaitLoadcnt,
    /// A register is used or overwritten before the wait for the LDS operation that fills it.
    MissingWaitDscnt,
    /// A scalar register is used or overwritten before the wait for the scalar load or message that fills it.
    MissingWaitKmcnt,
    /// A wave signals a barrier with LDS operations outstanding: `s_barrier_signal` does not wait for them.
    MissingWaitDscntBeforeBarrier,
    /// What a wave stored to global memory is used behind a barrier that it signalled with the store outstanding.
    MissingWaitStorecntBeforeBarrier,
    /// Waves meet at different barriers, or a wave takes one without lanes that go on behind it.
    BarrierDivergence,
    /// A barrier half too many: signalled twice, waited for unsignalled, or left in between.
    BarrierMisuse,
    /// An atomic that is not aligned to its size, or a scalar load that is not aligned.
    MisalignedAccess,
    /// No wave makes progress.
    Hang,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 21] = [
        Class::OutOfBoundsGlobal,
        Class::OutOfBoundsLds,
        Class::OutOfBoundsScratch,
        Class::OutOfBoundsArguments,
        Class::UseAfterFree,
        Class::UninitializedRegisterRead,
        Class::UninitializedLdsRead,
        Class::UninitializedGlobalRead,
        Class::UninitializedScratchRead,
        Class::LdsRaceMissingBarrier,
        Class::GlobalRace,
        Class::LaneStoreConflict,
        Class::MissingWaitLoadcnt,
        Class::MissingWaitDscnt,
        Class::MissingWaitKmcnt,
        Class::MissingWaitDscntBeforeBarrier,
        Class::MissingWaitStorecntBeforeBarrier,
        Class::BarrierDivergence,
        Class::BarrierMisuse,
        Class::MisalignedAccess,
        Class::Hang,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::OutOfBoundsGlobal => "out_of_bounds_global",
            Class::OutOfBoundsLds => "out_of_bounds_lds",
            Class::OutOfBoundsScratch => "out_of_bounds_scratch",
            Class::OutOfBoundsArguments => "out_of_bounds_arguments",
            Class::UseAfterFree => "use_after_free",
            Class::UninitializedRegisterRead => "uninitialized_register_read",
            Class::UninitializedLdsRead => "uninitialized_lds_read",
            Class::UninitializedGlobalRead => "uninitialized_global_read",
            Class::UninitializedScratchRead => "uninitialized_scratch_read",
            Class::LdsRaceMissingBarrier => "lds_race_missing_barrier",
            Class::GlobalRace => "global_race",
            Class::LaneStoreConflict => "lane_store_conflict",
            Class::MissingWaitLoadcnt => "missing_wait_loadcnt",
            Class::MissingWaitDscnt => "missing_wait_dscnt",
            Class::MissingWaitKmcnt => "missing_wait_kmcnt",
            Class::MissingWaitDscntBeforeBarrier => "missing_wait_dscnt_before_barrier",
            Class::MissingWaitStorecntBeforeBarrier => "missing_wait_storecnt_before_barrier",
            Class::BarrierDivergence => "barrier_divergence",
            Class::BarrierMisuse => "barrier_misuse",
            Class::MisalignedAccess => "misaligned_access",
            Class::Hang => "hang",
        }
    }

    /// The word of `--check` that finds it. Bounds, alignment, barrier faults and hangs end every launch, asked for or not.
    pub fn check(self) -> &'static str {
        match self {
            Class::OutOfBoundsGlobal
            | Class::OutOfBoundsLds
            | Class::OutOfBoundsScratch
            | Class::OutOfBoundsArguments
            | Class::UseAfterFree => "memory",
            Class::UninitializedRegisterRead
            | Class::UninitializedLdsRead
            | Class::UninitializedGlobalRead
            | Class::UninitializedScratchRead => "init",
            Class::LdsRaceMissingBarrier | Class::GlobalRace | Class::LaneStoreConflict => "race",
            Class::MissingWaitLoadcnt
            | Class::MissingWaitDscnt
            | Class::MissingWaitKmcnt
            | Class::MissingWaitDscntBeforeBarrier
            | Class::MissingWaitStorecntBeforeBarrier => "wait",
            Class::BarrierDivergence | Class::BarrierMisuse | Class::Hang => "barrier",
            Class::MisalignedAccess => "align",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Address in the loaded code object.
    pub pc: u64,
    /// Bytes from the kernel's entry.
    pub offset: i64,
    /// Disassembly.
    pub text: String,
    /// Where it stands in the source.
    pub source: Option<SourceLine>,
}

impl Place {
    /// The place at `pc`; what else is known of it comes with `Finding::complete`.
    pub fn at(pc: u64) -> Place {
        Place { pc, ..Place::default() }
    }

    fn complete(&mut self, module: &LoadedModule, entry: u64) {
        self.offset = self.pc.wrapping_sub(entry) as i64;
        self.text = module.text_at(self.pc).unwrap_or_else(|| "?".into());
        self.source = module.object().lines().find(self.pc.wrapping_sub(module.base()));
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, offset) =
            if self.offset < 0 { ('-', self.offset.unsigned_abs()) } else { ('+', self.offset as u64) };
        write!(f, "{sign}{offset:#x} (pc {:#x}): {}", self.pc, self.text)?;
        match &self.source {
            Some(source) => write!(f, " at {source}"),
            None => Ok(()),
        }
    }
}

/// An allocation, live or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether it has not been freed.
    pub live: bool,
}

/// What a lane touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Where.
    pub space: Space,
    /// First byte: an address, or bytes from the start of LDS or scratch.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
    /// What it did.
    pub access: Access,
    /// The allocation that holds or held it, else the last one before it.
    pub allocation: Option<Allocation>,
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Touched { address, bytes, access, .. } = self;
        match self.space {
            Space::Global => write!(f, "{access} of {bytes} bytes at {address:#x}")?,
            Space::Lds => write!(f, "{access} of {bytes} bytes at LDS byte {address:#x}")?,
            Space::Scratch => write!(f, "{access} of {bytes} bytes at scratch byte {address:#x}")?,
        }
        let Some(Allocation { base, bytes, live }) = self.allocation else { return Ok(()) };
        let kind = if live { "live" } else { "freed" };
        match address.wrapping_sub(base) {
            offset if offset < bytes => {
                write!(f, ", byte {offset} of the {kind} allocation of {bytes} bytes at {base:#x}")
            }
            offset => {
                let past = offset - bytes;
                write!(f, ", {past} bytes past the end of the {kind} allocation of {bytes} bytes at {base:#x}")
            }
        }
    }
}

/// The earlier access of a race, or the operation that was not waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// What it did, in words.
    pub what: &'static str,
    /// Number of its workgroup in the launch, x fastest.
    pub number: u64,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// Its instruction.
    pub place: Place,
}

/// One defect with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Kind.
    pub class: Class,
    /// Kernel name.
    pub kernel: String,
    /// The instruction.
    pub place: Place,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// Lane, where one is to blame.
    pub lane: Option<u32>,
    /// The access, where it is about one.
    pub touched: Option<Touched>,
    /// What happened, in words.
    pub message: String,
    /// The other side of a race or of a missing wait.
    pub other: Option<Other>,
    /// How often it was seen at this instruction.
    pub count: u64,
}

impl Finding {
    /// A defect at the instruction at `pc`.
    pub fn new(class: Class, pc: u64, workgroup: [u32; 3], wave: u32, lane: Option<u32>, message: String) -> Finding {
        let (kernel, touched, other) = (String::new(), None, None);
        Finding { class, kernel, place: Place::at(pc), workgroup, wave, lane, touched, message, other, count: 1 }
    }

    /// The defect that a fault is, if it is one that checks look for.
    pub fn of_trap(trap: &Trap) -> Option<Finding> {
        let class = match &trap.fault {
            Fault::OutOfBounds { freed: Some(_), .. } => Class::UseAfterFree,
            Fault::OutOfBounds { .. } => Class::OutOfBoundsGlobal,
            Fault::LocalOutOfBounds { space: "LDS", .. } => Class::OutOfBoundsLds,
            Fault::LocalOutOfBounds { .. } => Class::OutOfBoundsScratch,
            Fault::Misaligned { .. } => Class::MisalignedAccess,
            Fault::Barrier(text) if text.starts_with("divergence") => Class::BarrierDivergence,
            Fault::Barrier(_) => Class::BarrierMisuse,
            Fault::Hang(_) => Class::Hang,
            Fault::Unknown | Fault::Unsupported(_) | Fault::Fetch { .. } | Fault::Register { .. } => return None,
        };
        let lane = match trap.fault {
            Fault::OutOfBounds { lane, .. } | Fault::LocalOutOfBounds { lane, .. } | Fault::Misaligned { lane, .. } => {
                Some(lane)
            }
            _ => None,
        };
        let mut finding = Finding::new(class, trap.pc, trap.workgroup, trap.wave, lane, trap.fault.to_string());
        finding.kernel.clone_from(&trap.kernel);
        finding.place.offset = trap.offset;
        finding.place.text.clone_from(&trap.text);
        finding.place.source.clone_from(&trap.source);
        finding.touched = touched(&trap.fault);
        Some(finding)
    }

    /// Adds what only the launch knows: kernel, disassembly, source lines, workgroup ids.
    pub(crate) fn complete(&mut self, module: &LoadedModule, kernel: &Kernel, grid: [u32; 3]) {
        let entry = module.base() + kernel.entry;
        self.kernel.clone_from(&kernel.name);
        self.place.complete(module, entry);
        if let Some(other) = &mut self.other {
            let [gx, gy, _] = grid.map(u64::from);
            other.workgroup =
                [other.number % gx, other.number / gx % gy, other.number / gx / gy].map(|value| value as u32);
            other.place.complete(module, entry);
        }
    }
}

fn touched(fault: &Fault) -> Option<Touched> {
    match *fault {
        Fault::OutOfBounds { access, address, bytes, freed: Some((base, size)), .. } => {
            let allocation = Some(Allocation { base, bytes: size, live: false });
            Some(Touched { space: Space::Global, address, bytes, access, allocation })
        }
        Fault::OutOfBounds { access, address, bytes, .. } => {
            Some(Touched { space: Space::Global, address, bytes, access, allocation: None })
        }
        Fault::LocalOutOfBounds { space, access, address, bytes, size, .. } => {
            let space = if space == "LDS" { Space::Lds } else { Space::Scratch };
            let allocation = Some(Allocation { base: 0, bytes: u64::from(size), live: true });
            Some(Touched { space, address, bytes, access, allocation })
        }
        _ => None,
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        writeln!(f, "{} ({}): {}", self.class, self.class.check(), self.message)?;
        write!(f, "  kernel {} {}\n  workgroup {x},{y},{z} wave {}", self.kernel, self.place, self.wave)?;
        if let Some(lane) = self.lane {
            write!(f, " lane {lane}")?;
        }
        if let Some(touched) = &self.touched {
            write!(f, "\n  {touched}")?;
        }
        if let Some(other) = &self.other {
            let [x, y, z] = other.workgroup;
            write!(f, "\n  {}: workgroup {x},{y},{z} wave {} {}", other.what, other.wave, other.place)?;
        }
        if self.count > 1 {
            write!(f, "\n  seen {} times at this instruction", self.count)?;
        }
        Ok(())
    }
}

/// Findings as a report: the first [`SHOWN`] in full, then how many are left out.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings.iter().take(SHOWN) {
        text += &format!("{finding}\n");
    }
    if findings.len() > SHOWN {
        text += &format!("and {} more findings\n", findings.len() - SHOWN);
    }
    text
}

/// The findings of a launch while it runs: one for each instruction and class.
#[derive(Debug, Default)]
pub struct Findings(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    list: Vec<Finding>,
    index: HashMap<(Class, u64), usize>,
}

impl Findings {
    /// Notes one; where its instruction is known for it already, it is only counted.
    pub fn report(&self, finding: Finding) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (finding.class, finding.place.pc);
        match known.index.get(&key) {
            Some(&at) => known.list[at].count += 1,
            None if known.list.len() < MOST => {
                let at = known.list.len();
                known.index.insert(key, at);
                known.list.push(finding);
            }
            None => {}
        }
    }

    /// Counts one more of `class` at `pc`, if one is known there: then there is nothing else to say.
    pub fn again(&self, class: Class, pc: u64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&at) = known.index.get(&(class, pc)) else { return false };
        known.list[at].count += 1;
        true
    }

    /// All of them, in the order they came.
    pub fn take(&self) -> Vec<Finding> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.index.clear();
        std::mem::take(&mut known.list)
    }
}
