//! One workgroup, instruction by instruction, by the same run loop that launches use: for debuggers, tests and lessons. Nothing else of
//! the launch runs, so a kernel that waits for another workgroup waits for ever.

use super::group::{Context, Group, Status, trap};
use super::setup::{self, Plan};
use super::{Class, Launch, LaunchError, LoadedModule, Stats};
use crate::arch::Arch;
use crate::fault::Fault;
use crate::isa;
use crate::memory::Memory;
use crate::wave::Wave;

/// Whether a wave can be stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaveState {
    /// It has a next instruction.
    Ready,
    /// It waits at a barrier until all other waves have signalled.
    AtBarrier,
    /// It has ended.
    Ended,
}

/// The instruction that a wave executes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextInstruction {
    /// Bytes from the kernel's entry.
    pub offset: i64,
    /// Its address.
    pub pc: u64,
    /// Disassembly, `?` where the words are no instruction.
    pub text: String,
}

/// A workgroup that goes on when it is told to.
pub struct Stepper<'a> {
    memory: &'a Memory,
    module: &'a LoadedModule,
    plan: Plan<'a>,
    group: Group,
    counts: [u64; Class::COUNT],
}

impl<'a> Stepper<'a> {
    /// Starts workgroup `workgroup` of a launch. Schedule, checks, counters and traces of its options have no say here.
    ///
    /// # Errors
    /// What [`super::launch`] refuses, and a workgroup outside the grid.
    pub fn new(
        memory: &'a Memory,
        module: &'a LoadedModule,
        launch: &Launch,
        workgroup: [u32; 3],
    ) -> Result<Stepper<'a>, LaunchError> {
        let plan = setup::plan(memory, module, launch)?;
        for ((axis, value), limit) in ['x', 'y', 'z'].into_iter().zip(workgroup).zip(launch.grid) {
            if value >= limit {
                return Err(LaunchError::OutsideGrid { axis, value, limit });
            }
        }
        let [x, y, z] = workgroup.map(u64::from);
        let [gx, gy, _] = launch.grid.map(u64::from);
        let mut group = Group::new();
        group.start(&plan, x + gx * (y + gy * z));
        Ok(Stepper { memory, module, plan, group, counts: [0; Class::COUNT] })
    }

    /// Waves of the workgroup.
    pub fn waves(&self) -> usize {
        self.group.slots.len()
    }

    /// A wave's registers.
    ///
    /// # Panics
    /// If there is no such wave.
    pub fn wave(&self, wave: usize) -> &Wave {
        &self.group.slots[wave].wave
    }

    /// Whether a wave can go on.
    ///
    /// # Panics
    /// If there is no such wave.
    pub fn state(&self, wave: usize) -> WaveState {
        match self.group.slots[wave].status {
            Status::Ready => WaveState::Ready,
            Status::Waiting => WaveState::AtBarrier,
            Status::Ended => WaveState::Ended,
        }
    }

    /// The workgroup's LDS as dwords.
    pub fn lds(&self) -> &[u32] {
        &self.group.lds.words
    }

    /// What a wave executes next; `None` once it has ended.
    ///
    /// # Panics
    /// If there is no such wave.
    pub fn next(&self, wave: usize) -> Option<NextInstruction> {
        let slot = &self.group.slots[wave];
        if slot.status == Status::Ended {
            return None;
        }
        let pc = slot.wave.pc;
        let position = self.module.code.position(pc).ok();
        let inst = position.map(|p| &self.module.code.ops[p as usize].inst).filter(|inst| inst.row.name != "?");
        let text = inst.map_or_else(|| "?".into(), |inst| isa::text(inst, pc));
        Some(NextInstruction { offset: pc.wrapping_sub(self.plan.entry) as i64, pc, text })
    }

    /// Executes one instruction of a wave; a wave that waits at a barrier or has ended stays as it is.
    ///
    /// # Errors
    /// The instruction's trap.
    ///
    /// # Panics
    /// If there is no such wave.
    pub fn step(&mut self, wave: usize) -> Result<WaveState, LaunchError> {
        if self.group.slots[wave].status == Status::Ready {
            let context = Context { memory: self.memory, module: self.module, plan: &self.plan, arch: Arch::new() };
            self.group.run(&context, wave, 1, &mut self.counts).map_err(LaunchError::Trap)?;
        }
        Ok(self.state(wave))
    }

    /// Runs all waves in turn until each has ended.
    ///
    /// # Errors
    /// A trap, or waves that all wait at a barrier.
    pub fn run(&mut self) -> Result<(), LaunchError> {
        loop {
            let mut moved = false;
            for wave in 0..self.waves() {
                if self.state(wave) == WaveState::Ready {
                    self.step(wave)?;
                    moved = true;
                }
            }
            if self.group.live == 0 {
                return Ok(());
            }
            if !moved && let Some(slot) = self.group.slots.iter().find(|slot| slot.status != Status::Ended) {
                let context = Context { memory: self.memory, module: self.module, plan: &self.plan, arch: Arch::new() };
                let fault = Fault::Barrier("all waves wait".into());
                return Err(LaunchError::Trap(Box::new(trap(&context, self.group.id, &slot.wave, fault))));
            }
        }
    }

    /// Instructions executed so far.
    pub fn stats(&self) -> Stats {
        let waves = self.waves() as u64;
        Stats { instructions: self.counts, waves, workgroups: 1, ..Stats::default() }
    }
}
