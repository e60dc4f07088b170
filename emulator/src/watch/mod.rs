//! What looks on while waves run: checks, counters, traces. A [`Watch`] belongs to a resident workgroup and is told of every
//! instruction before and after it executes, of every access to memory with the addresses of all lanes, and of barriers. It never
//! changes what the instruction does, and a launch that is not watched pays one test per memory instruction for it.

pub mod barrier;
pub mod counters;
pub mod finding;
mod init;
mod judge;
pub mod order;
pub mod race;
pub mod sanitizer;
pub mod shadow;
pub mod trace;
pub mod wait;

use crate::execute::memory_ops::{Load, Store};
use crate::fault::{Access, Fault};
use crate::isa::Inst;
use crate::isa::effects::Effects;
use crate::memory::Memory;
use crate::wave::Wave;
use finding::{Class, Finding, Findings};
use sanitizer::Sanitizer;
use std::str::FromStr;
use std::sync::Arc;

/// Where an access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Allocations of the device.
    Global,
    /// The workgroup's.
    Lds,
    /// The lane's private memory.
    Scratch,
}

/// Which registers go to memory or come from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Memory to vector registers from `dst` on.
    Load {
        /// Size, extension, half.
        load: Load,
        /// First destination.
        dst: u8,
    },
    /// Vector registers from `data` on to memory.
    Store {
        /// Size and half.
        store: Store,
        /// First source.
        data: u8,
    },
    /// A read-modify-write of [`Accessed::bytes`] bytes.
    Atomic {
        /// First register of the operand.
        data: u8,
        /// First register of the second operand; `data` where there is none.
        second: u8,
        /// Where the old value goes.
        dst: Option<u8>,
    },
    /// Memory to scalar registers; bytes and halves are extended to a dword.
    Scalar {
        /// First destination by operand code.
        dst: u8,
        /// Registers written.
        dwords: u8,
    },
}

/// One access of a wave, about to happen; its bytes exist and atomics are aligned.
#[derive(Debug)]
pub struct Accessed<'a> {
    /// Where.
    pub space: Space,
    /// What it does.
    pub access: Access,
    /// Bytes of each lane.
    pub bytes: u32,
    /// Address of each lane: 64 bits in global memory, bytes from 0 in LDS and scratch.
    pub addresses: &'a [u64; 32],
    /// Lanes that take part; lane 0 alone for scalar loads.
    pub mask: u32,
    /// Registers.
    pub moved: Moved,
}

/// What a launch is checked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checks {
    /// Freed allocations and the exact ends of arguments. (Bounds are always checked.)
    pub memory: bool,
    /// Use of registers, LDS, scratch or global memory that nothing wrote.
    pub init: bool,
    /// Conflicting accesses of two waves that nothing orders.
    pub race: bool,
    /// Registers used before the wait for what fills them, barriers signalled with LDS operations outstanding.
    pub wait: bool,
    /// Barriers that waves meet differently.
    pub barrier: bool,
    /// Atomics and scalar loads that are not aligned.
    pub align: bool,
}

impl Checks {
    /// All of them.
    pub const ALL: Checks = Checks { memory: true, init: true, race: true, wait: true, barrier: true, align: true };

    /// Whether any is on.
    pub fn any(self) -> bool {
        self != Checks::default()
    }
}

/// A list of checks that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no check; all, or a list of memory, init, race, wait, barrier, align is needed")]
pub struct ChecksError {
    /// The word that is none.
    pub word: String,
}

impl FromStr for Checks {
    type Err = ChecksError;

    /// Names with commas between, or `all`.
    fn from_str(text: &str) -> Result<Checks, ChecksError> {
        let mut checks = Checks::default();
        for word in text.split(',').map(str::trim) {
            match word {
                "all" => checks = Checks::ALL,
                "memory" => checks.memory = true,
                "init" => checks.init = true,
                "race" => checks.race = true,
                "wait" => checks.wait = true,
                "barrier" => checks.barrier = true,
                "align" => checks.align = true,
                _ => return Err(ChecksError { word: word.into() }),
            }
        }
        Ok(checks)
    }
}

/// What all workgroups of a launch share.
#[derive(Debug, Default)]
pub struct Shared {
    /// What is checked.
    pub checks: Checks,
    /// What was found.
    pub findings: Findings,
    /// Who touched which dword of global memory.
    pub shadow: Arc<shadow::Shadow>,
    /// What is counted, if anything is.
    pub counting: Option<counters::Shared>,
    /// What is traced, if anything is.
    pub tracing: Option<trace::Tracing>,
}

/// What a workgroup starts with, as far as a watch wants to know.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Its id.
    pub workgroup: [u32; 3],
    /// Its number in the launch, x fastest.
    pub number: u64,
    /// Waves.
    pub waves: u32,
    /// Work-items.
    pub items: u32,
    /// Scalar registers from s0 that hold values at the start.
    pub user_sgprs: u8,
    /// Vector registers of a wave.
    pub vgprs: u16,
    /// Bytes of LDS.
    pub lds_bytes: u32,
    /// Scratch bytes of a lane.
    pub scratch_bytes: u32,
    /// Whether the waves may be spread over the two compute units of a WGP.
    pub wgp_mode: bool,
    /// First address of the code.
    pub code_start: u64,
    /// First address of the arguments, and one past the last that the launch may read with them.
    pub arguments: (u64, u64),
}

/// What a watch leaves to the one of another launch: memory, and nothing that was noted in it.
#[derive(Debug, Default)]
pub struct Rest {
    init: Option<Box<init::Init>>,
    lds: shadow::Shade,
}

/// Looks on at one workgroup.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    workgroup: [u32; 3],
    init: Option<Box<init::Init>>,
    sanitizer: Option<Box<Sanitizer>>,
    counting: Option<Box<counters::Counting>>,
    tracer: Option<Box<trace::Tracer>>,
}

impl Watch {
    /// For one resident workgroup after another of a launch, in the memory of `rest`.
    pub fn new(shared: Arc<Shared>, rest: Rest) -> Watch {
        let checks = shared.checks;
        let init = checks.init.then(|| rest.init.unwrap_or_default());
        let others = Checks { init: false, ..checks }.any();
        let sanitizer = others.then(|| Box::new(Sanitizer::new(shared.clone(), rest.lds)));
        let counting = shared.counting.is_some().then(Box::default);
        let tracer = shared.tracing.as_ref().map(|tracing| Box::new(trace::Tracer::new(tracing)));
        Watch { shared, workgroup: [0; 3], init, sanitizer, counting, tracer }
    }

    /// A workgroup begins; what was known of the one before is forgotten.
    pub fn started(&mut self, start: &Start) {
        self.workgroup = start.workgroup;
        if let Some(counting) = &mut self.counting {
            counting.started();
        }
        if let Some(init) = &mut self.init {
            init.started(start);
        }
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.started(start);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.started(start);
        }
    }

    /// `inst` is about to execute.
    #[inline]
    pub fn before(&mut self, wave: &Wave, inst: &Inst, effects: &Effects) -> Result<(), Box<Fault>> {
        if let Some(counting) = &mut self.counting {
            counting.before(inst);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.before(wave, inst);
        }
        if let Some(init) = &mut self.init {
            let mut found = Vec::new();
            init.before(wave, inst, effects, &mut found);
            if !found.is_empty() {
                self.report_uses(wave, found);
            }
        }
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.before(wave, inst, effects);
        }
        Ok(())
    }

    /// `inst`, which was announced with [`Watch::before`], is about to access memory. Some instructions do so more than once.
    pub fn accessed(&mut self, memory: &Memory, wave: &Wave, accessed: &Accessed) -> Result<(), Box<Fault>> {
        if let (Some(counting), Some(shared)) = (&mut self.counting, &self.shared.counting) {
            counting.accessed(shared, accessed);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.accessed(wave, accessed);
        }
        if let Some(init) = &mut self.init {
            let mut found = Vec::new();
            init.accessed(memory, wave, accessed, &mut found);
            if !found.is_empty() {
                self.report_uses(wave, found);
            }
        }
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.accessed(memory, wave, accessed);
        }
        Ok(())
    }

    /// `inst` has executed; the wave's pc is still at it.
    #[inline]
    pub fn after(&mut self, wave: &Wave, inst: &Inst, effects: &Effects) -> Result<(), Box<Fault>> {
        if let Some(tracer) = &mut self.tracer {
            tracer.after(wave, inst, effects);
        }
        if let Some(init) = &mut self.init {
            init.after(wave, inst);
        }
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.after(wave);
        }
        Ok(())
    }

    /// The wave has signalled the workgroup's barrier. (`before` has been told of the instruction.)
    pub fn signalled(&mut self, wave: &Wave) {
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.signalled(wave);
        }
    }

    /// The wave goes on behind the barrier that it waited for.
    pub fn passed(&mut self, wave: &Wave) {
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.passed(wave);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.passed(wave);
        }
    }

    /// The wave has ended.
    pub fn ended(&mut self, wave: &Wave) {
        if let Some(tracer) = &mut self.tracer {
            tracer.ended(wave);
        }
    }

    /// The launch is over: what was counted is added to what all workgroups share.
    pub fn finish(mut self) -> Rest {
        if let (Some(counting), Some(shared)) = (&mut self.counting, &self.shared.counting) {
            counting.finish(shared);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.finish();
        }
        if let Some(init) = &mut self.init {
            init.drop_scratch();
        }
        Rest { init: self.init, lds: self.sanitizer.map(|sanitizer| sanitizer.finish()).unwrap_or_default() }
    }

    /// Notes a defect that execution survives, at the wave's instruction.
    pub fn report(&self, class: Class, wave: &Wave, lane: Option<u32>, message: String) {
        self.shared.findings.report(Finding::new(class, wave.pc, self.workgroup, wave.index, lane, message));
    }
}
