//! What looks on while waves run: checks, counters, traces. A [`Watch`] belongs to a resident workgroup and is told of every
//! instruction before and after it executes, of every access to memory with the addresses of all lanes, and of barriers. It never
//! changes what the instruction does, and a launch that is not watched pays one test per memory instruction for it.

pub mod finding;
mod init;

use crate::execute::memory_ops::{Load, Store};
use crate::fault::{Access, Fault};
use crate::isa::Inst;
use crate::isa::effects::Effects;
use crate::memory::Memory;
use crate::wave::Wave;
use finding::{Class, Finding, Findings};
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

/// What all workgroups of a launch share.
#[derive(Debug, Default)]
pub struct Shared {
    /// What is checked.
    pub checks: Checks,
    /// What was found.
    pub findings: Findings,
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
}

/// Looks on at one workgroup.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    workgroup: [u32; 3],
    init: Option<Box<init::Init>>,
}

impl Watch {
    /// For one resident workgroup after another of a launch.
    pub fn new(shared: Arc<Shared>) -> Watch {
        let init = shared.checks.init.then(Box::default);
        Watch { shared, workgroup: [0; 3], init }
    }

    /// A workgroup begins; what was known of the one before is forgotten.
    pub fn started(&mut self, start: &Start) {
        self.workgroup = start.workgroup;
        if let Some(init) = &mut self.init {
            init.started(start);
        }
    }

    /// `inst` is about to execute.
    #[inline]
    pub fn before(&mut self, wave: &Wave, inst: &Inst, effects: &Effects) -> Result<(), Box<Fault>> {
        if let Some(init) = &mut self.init {
            let mut found = Vec::new();
            init.before(wave, inst, effects, &mut found);
            self.report_uses(wave, found);
        }
        Ok(())
    }

    /// `inst`, which was announced with [`Watch::before`], is about to access memory. Some instructions do so more than once.
    pub fn accessed(&mut self, memory: &Memory, wave: &Wave, accessed: &Accessed) -> Result<(), Box<Fault>> {
        if let Some(init) = &mut self.init {
            let mut found = Vec::new();
            init.accessed(memory, wave, accessed, &mut found);
            self.report_uses(wave, found);
        }
        Ok(())
    }

    /// `inst` has executed; the wave's pc is still at it.
    #[inline]
    pub fn after(&mut self, wave: &Wave, inst: &Inst, _effects: &Effects) -> Result<(), Box<Fault>> {
        if let Some(init) = &mut self.init {
            init.after(wave, inst);
        }
        Ok(())
    }

    /// The wave has signalled the workgroup's barrier. (`before` has been told of the instruction.)
    pub fn signalled(&mut self, _wave: &Wave) {}

    /// The wave goes on behind the barrier that it waited for.
    pub fn passed(&mut self, _wave: &Wave) {}

    /// The wave has ended.
    pub fn ended(&mut self, _wave: &Wave) {}

    /// The launch is over: what was counted is added to what all workgroups share.
    pub fn finish(&mut self) {}

    /// Notes a defect that execution survives, at the wave's instruction.
    pub fn report(&self, class: Class, wave: &Wave, lane: Option<u32>, message: String) {
        let (pc, workgroup) = (wave.pc, self.workgroup);
        self.shared.findings.report(Finding { class, pc, workgroup, wave: wave.index, lane, message });
    }
}
