//! Launching a kernel: the code object becomes a [`LoadedModule`], a [`Launch`] is checked against it, and workgroups run on all cores,
//! the waves of a workgroup in turn on one thread. It models what a kernel can observe of dispatch (registers, arguments, order), not
//! time: there is no occupancy, no clock and no cache.

mod code;
mod group;
mod poll;
mod schedule;
mod setup;
mod step;

pub use code::{Class, LoadedModule, Program};
pub use schedule::Schedule;
pub use step::{NextInstruction, Stepper, WaveState};

use crate::fault::Trap;
use crate::memory::{Memory, MemoryError};
use crate::watch::counters::Counters;
use crate::watch::finding::Finding;
use crate::watch::trace::Trace;
use crate::watch::{Checks, ChecksError};
use std::time::Duration;

/// Most LDS bytes of a workgroup.
pub const MAX_LDS_BYTES: u32 = 65_536;
/// Most work-items of a workgroup.
pub const MAX_WORKGROUP: u64 = 1024;

/// One launch.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Kernel name.
    pub kernel: &'a str,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items per workgroup in x, y, z.
    pub block: [u32; 3],
    /// LDS bytes on top of the kernel's fixed ones.
    pub dynamic_lds: u32,
    /// Explicit arguments at their metadata offsets.
    pub kernarg: &'a [u8],
    /// How to run it.
    pub options: Options,
}

/// How a launch runs; the default is what a user wants, the rest serves tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Order of workgroups and waves.
    pub schedule: Schedule,
    /// What registers, LDS and scratch hold before anything is written.
    pub fill: u32,
    /// Most instructions of one wave before the launch counts as hung.
    pub wave_limit: u64,
    /// Rounds in which every resident wave only sleeps or waits before the launch counts as hung.
    pub idle_limit: u64,
    /// Most wave-instructions of the whole launch before it counts as hung. Time is bounded by this alone: a grid may have 2³¹ workgroups.
    pub launch_limit: u64,
    /// Most scratch bytes of all resident waves together. Where more would be needed, fewer workgroups run side by side; a launch whose
    /// single workgroup needs more is refused. (A wave may have 32 MiB, and the chip holds 2048 waves.)
    pub scratch_limit: u64,
    /// Scratch bytes per work-item on top of the fixed ones where a kernel uses a dynamic stack.
    pub stack_bytes: u32,
    /// Whether waves that meet at different barrier instructions are an error. Hardware only counts signals; compiled code never needs
    /// that.
    pub barrier_sites: bool,
    /// What is checked while it runs.
    pub checks: Checks,
    /// Whether memory, LDS and matrix instructions are counted, as [`Stats::counters`].
    pub counters: bool,
    /// Which wave is traced, if any.
    pub trace: Option<Trace>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            schedule: Schedule::Parallel { threads: None },
            fill: 0xffc0_dead, // a NaN: what is computed from it shows
            wave_limit: 1 << 32,
            idle_limit: 1 << 21,
            launch_limit: u64::MAX,
            scratch_limit: 4 << 30,
            stack_bytes: 16 << 10,
            barrier_sites: true,
            checks: Checks::default(),
            counters: false,
            trace: None,
        }
    }
}

/// Why a launch did not start or did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The module has no such kernel.
    #[error("kernel {name} is not in the code object, which has {known}")]
    UnknownKernel {
        /// Asked for.
        name: String,
        /// There, in words.
        known: String,
    },
    /// A grid dimension out of range.
    #[error("grid {axis} is {value}, 1 to {limit} workgroups are possible")]
    Grid {
        /// `x`, `y` or `z`.
        axis: char,
        /// Asked for.
        value: u32,
        /// Most.
        limit: u32,
    },
    /// A block dimension is 0.
    #[error("block {axis} is 0, at least 1 work-item is needed")]
    Block {
        /// `x`, `y` or `z`.
        axis: char,
    },
    /// More work-items in a workgroup than exist.
    #[error("block has {items} work-items, at most {limit} fit a workgroup")]
    Workgroup {
        /// Asked for.
        items: u64,
        /// Most.
        limit: u64,
    },
    /// More work-items in a workgroup than the kernel was compiled for.
    #[error("block has {items} work-items, the kernel was compiled for at most {limit}")]
    KernelWorkgroup {
        /// Asked for.
        items: u64,
        /// Most.
        limit: u32,
    },
    /// A workgroup to step through that the launch does not have.
    #[error("workgroup {axis} is {value}, the grid has {limit}")]
    OutsideGrid {
        /// `x`, `y` or `z`.
        axis: char,
        /// Asked for.
        value: u32,
        /// Number along the axis.
        limit: u32,
    },
    /// Work-items along an axis pass 32 bits.
    #[error("grid {axis} has {items} work-items, at most {limit} are possible")]
    GridItems {
        /// `x`, `y` or `z`.
        axis: char,
        /// Asked for.
        items: u64,
        /// Most.
        limit: u64,
    },
    /// More LDS than exists.
    #[error("LDS is {fixed} fixed + {dynamic} dynamic bytes, at most {limit} exist")]
    Lds {
        /// The kernel's.
        fixed: u32,
        /// The launch's.
        dynamic: u32,
        /// Most.
        limit: u32,
    },
    /// More scratch than is given.
    #[error("a workgroup needs {bytes} bytes of scratch, at most {limit} are given")]
    Scratch {
        /// Of all its work-items.
        bytes: u64,
        /// Most.
        limit: u64,
    },
    /// The argument blob is too short or too long.
    #[error("{given} bytes of arguments are given, the kernel takes {needed} (segment of {segment})")]
    Kernarg {
        /// Given.
        given: usize,
        /// End of the last explicit argument.
        needed: u32,
        /// Bytes of the whole segment.
        segment: u32,
    },
    /// A hidden argument that is not provided here.
    #[error("hidden argument {0} is not provided by the emulator")]
    Hidden(String),
    /// No room for the arguments.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel did something wrong.
    #[error(transparent)]
    Trap(Box<Trap>),
    /// A list of checks that is none, from the environment.
    #[error("{0}")]
    Checks(#[from] ChecksError),
    /// The kernel came to its end and checks found defects; see [`Stats::strict`].
    #[error("kernel {kernel}: {CHECKS_FOUND} {}", defects(.findings))]
    Defects {
        /// Kernel name.
        kernel: String,
        /// All of them.
        findings: Vec<Finding>,
    },
}

/// How the text of [`LaunchError::Defects`] can be told from others, where only the text is left of it.
pub const CHECKS_FOUND: &str = "checks found";

/// How many, and what the first one is.
fn defects(findings: &[Finding]) -> String {
    let first =
        findings.first().map_or_else(String::new, |first| format!(", first {} at {}", first.class, first.place));
    format!("{} defect{}{first}", findings.len(), if findings.len() == 1 { "" } else { "s" })
}

impl LaunchError {
    /// The defects of the kernel that checks found, if that is what ended the launch or came before its end: the fatal one is last.
    pub fn findings(&self) -> Vec<Finding> {
        let trap = match self {
            LaunchError::Trap(trap) => trap,
            LaunchError::Defects { findings, .. } => return findings.clone(),
            _ => return Vec::new(),
        };
        let mut findings = trap.findings.clone();
        findings.extend(Finding::of_trap(trap));
        findings
    }
}

/// What a launch did; counts, never times of the modelled machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Wave-instructions by [`Class`].
    pub instructions: [u64; Class::COUNT],
    /// Waves run.
    pub waves: u64,
    /// Workgroups run.
    pub workgroups: u64,
    /// What was counted besides, where [`Options::counters`] asked for it.
    pub counters: Option<Box<Counters>>,
    /// What the checks found.
    pub findings: Vec<Finding>,
    /// Time the emulator took.
    pub wall: Duration,
}

impl Stats {
    /// These, if no check found a defect; for callers to whom a defect is a failure.
    pub fn strict(self) -> Result<Stats, LaunchError> {
        match self.findings.first() {
            None => Ok(self),
            Some(first) => Err(LaunchError::Defects { kernel: first.kernel.clone(), findings: self.findings }),
        }
    }
    /// Wave-instructions of all classes; a VOPD pair counts once.
    pub fn total(&self) -> u64 {
        self.instructions.iter().sum()
    }
    /// Wave-instructions of one class.
    pub fn count(&self, class: Class) -> u64 {
        self.instructions[class as usize]
    }
    /// Adds another launch's counts and time.
    pub fn add(&mut self, other: &Stats) {
        for (sum, &count) in self.instructions.iter_mut().zip(&other.instructions) {
            *sum += count;
        }
        self.waves += other.waves;
        self.workgroups += other.workgroups;
        if let Some(counters) = &other.counters {
            self.counters.get_or_insert_default().add(counters);
        }
        self.findings.extend_from_slice(&other.findings);
        self.wall += other.wall;
    }
}

/// Runs a kernel to its end.
pub fn launch(memory: &Memory, module: &LoadedModule, launch: &Launch) -> Result<Stats, LaunchError> {
    let start = std::time::Instant::now();
    let plan = setup::plan(memory, module, launch)?;
    let mut stats = schedule::run(memory, module, &plan).map_err(LaunchError::Trap)?;
    stats.wall = start.elapsed();
    Ok(stats)
}
