//! Modules, kernels and what a launch may be: every refusal of HIP's runtime stands here, before the emulator is asked to run
//! anything. All safe code; the emulator's own checks come after, and end as a trap.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use emulator::Memory;
use emulator::code_object::{CodeObject, CodeObjectError, Global};
use emulator::launch::{Class, Launch, LaunchError, LoadedModule, Options, Stats};
use emulator::roofline::Profile;
use emulator::watch::{Checks, ChecksError, finding};

use crate::properties::{LDS_BYTES, MAX_GRID_X, MAX_GRID_YZ, MAX_WORKGROUP_ITEMS};
use crate::runtime::{Outcome, memory_status};
use crate::stats;
use crate::status::Status;

/// What launches are checked for: `ZYNFER_EMULATOR_CHECK`, read once. A value that is no list of checks lets no launch run.
pub fn checks() -> &'static Result<Checks, ChecksError> {
    static CHECKS: LazyLock<Result<Checks, ChecksError>> = LazyLock::new(|| {
        let Some(value) = std::env::var_os("ZYNFER_EMULATOR_CHECK").filter(|value| !value.is_empty()) else {
            return Ok(Checks::default());
        };
        value.to_string_lossy().parse()
    });
    &CHECKS
}

/// Bytes of an ELF64 header, of a program header and of a section header.
const HEADER: u64 = 64;

/// How long an ELF64 image is, by its first 64 bytes: the end of its header tables, which linkers put last. `None` when these bytes are
/// no header, or say a length that overflows.
pub fn image_bytes(header: &[u8]) -> Option<u64> {
    let word = |at: usize, bytes: usize| -> Option<u64> {
        Some(header.get(at..at + bytes)?.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    if header.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
        return None;
    }
    let table = |start: u64, size: u64, count: u64| start.checked_add(size.checked_mul(count)?);
    let programs = table(word(32, 8)?, word(54, 2)?, word(56, 2)?)?;
    let sections = table(word(40, 8)?, word(58, 2)?, word(60, 2)?)?;
    Some(programs.max(sections).max(HEADER))
}

/// One explicit argument in the kernarg block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Offset in the block.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Kernel {
    name: String,
    c_name: CString,
    arguments: Vec<Argument>,
    explicit_bytes: usize,
    fixed_lds_bytes: u32,
    scratch_bytes: u32,
    vgprs: u32,
    max_items: u32,
}

/// The explicit arguments of one launch: the block, and for HIP's `kernelParams` a pointer to each argument in it.
#[derive(Debug)]
pub struct Block {
    bytes: Box<[u8]>,
    pointers: Box<[u64]>,
}

impl Block {
    /// The block whose bytes are these, laid out as `kernel` wants them.
    pub fn new(kernel: &Kernel, bytes: Vec<u8>) -> Self {
        let bytes = bytes.into_boxed_slice();
        let start = bytes.as_ptr().expose_provenance() as u64;
        let pointers = kernel.arguments.iter().map(|argument| start + argument.offset as u64).collect();
        Self { bytes, pointers }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Address of the array of pointers; good for as long as this block lives.
    pub fn params(&self) -> u64 {
        self.pointers.as_ptr().expose_provenance() as u64
    }
}

impl Kernel {
    /// Arguments that the caller gives, in order.
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// Where the last of them ends.
    pub fn explicit_bytes(&self) -> usize {
        self.explicit_bytes
    }

    /// An empty block for the explicit arguments; hidden ones behind it are the emulator's to fill.
    pub fn block(&self) -> Vec<u8> {
        vec![0; self.explicit_bytes]
    }

    /// Its name as C sees it.
    pub fn c_name(&self) -> &CStr {
        &self.c_name
    }

    /// LDS bytes of a workgroup that every launch has.
    pub fn fixed_lds_bytes(&self) -> u32 {
        self.fixed_lds_bytes
    }

    /// Scratch bytes of a work-item.
    pub fn scratch_bytes(&self) -> u32 {
        self.scratch_bytes
    }

    /// Vector registers of a wave.
    pub fn vgprs(&self) -> u32 {
        self.vgprs
    }

    /// Most work-items of a workgroup.
    pub fn max_items(&self) -> u32 {
        self.max_items.min(MAX_WORKGROUP_ITEMS)
    }
}

/// What one launch asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Workgroups along x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup along x, y, z.
    pub block: [u32; 3],
    /// LDS beyond the kernel's fixed part.
    pub lds_bytes: u32,
}

impl Request {
    /// The runtime's refusals, in its order.
    pub fn check(&self, kernel: &Kernel) -> Outcome {
        let [grid_x, grid_y, grid_z] = self.grid;
        if self.grid.contains(&0) || grid_x > MAX_GRID_X || grid_y > MAX_GRID_YZ || grid_z > MAX_GRID_YZ {
            return Err(Status::INVALID_VALUE);
        }
        if self.block.contains(&0) || u64::from(grid_x) * u64::from(self.block[0]) > u64::from(u32::MAX) {
            return Err(Status::INVALID_CONFIGURATION);
        }
        let items = self.block.iter().try_fold(1u32, |items, &size| items.checked_mul(size)).unwrap_or(u32::MAX);
        let lds = u64::from(self.lds_bytes) + u64::from(kernel.fixed_lds_bytes);
        if items > MAX_WORKGROUP_ITEMS || self.lds_bytes > LDS_BYTES || lds > u64::from(LDS_BYTES) {
            return Err(Status::INVALID_VALUE);
        }
        if items > kernel.max_items {
            return Err(Status::LAUNCH_FAILURE);
        }
        Ok(())
    }
}

/// Wave-instructions of all launches so far.
static INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);

/// Wave-instructions of all launches of this process that ended well.
pub fn instructions() -> u64 {
    INSTRUCTIONS.load(Relaxed)
}

/// A loaded code object.
pub struct Module {
    loaded: LoadedModule,
    kernels: Vec<Arc<Kernel>>,
    globals: Vec<Global>,
    counters: Mutex<BTreeMap<String, (u64, Stats)>>,
}

impl Module {
    /// Parses a code object and copies it to device memory.
    pub fn load(image: &[u8], memory: &mut Memory) -> Outcome<Self> {
        let object = CodeObject::parse(image).map_err(|error| {
            eprintln!("zynfer emulator: code object refused: {error}");
            match error {
                CodeObjectError::Header { .. } => Status::NO_BINARY_FOR_GPU,
                _ => Status::INVALID_IMAGE,
            }
        })?;
        let kernels = object
            .kernels()
            .iter()
            .map(|kernel| {
                let explicit = kernel.args.iter().filter(|argument| !argument.is_hidden());
                Arc::new(Kernel {
                    name: kernel.name.clone(),
                    c_name: CString::new(kernel.name.as_str()).unwrap_or_default(),
                    arguments: explicit
                        .map(|argument| Argument { offset: argument.offset as usize, size: argument.size as usize })
                        .collect(),
                    explicit_bytes: kernel.explicit_bytes() as usize,
                    fixed_lds_bytes: kernel.group_segment_fixed_size,
                    scratch_bytes: kernel.private_segment_fixed_size,
                    vgprs: kernel.vgpr_count,
                    max_items: kernel.max_flat_workgroup_size,
                })
            })
            .collect();
        let globals = object.globals().to_vec();
        let loaded = LoadedModule::load(object, memory).map_err(|error| memory_status(&error))?;
        Ok(Self { loaded, kernels, globals, counters: Mutex::default() })
    }

    /// Address of the image in device memory, which is the module's to free.
    pub fn base(&self) -> u64 {
        self.loaded.base()
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        self.kernels.iter().find(|kernel| kernel.name == name).cloned()
    }

    /// Address and bytes of the exported variable of that name.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let global = self.globals.iter().find(|global| global.name == name)?;
        Some((self.base() + global.address, global.size))
    }

    /// Runs a kernel to its end; the error is the emulator's report.
    pub fn run(&self, kernel: &Kernel, request: &Request, block: &[u8], memory: &Memory) -> Result<(), LaunchError> {
        let launch = Launch {
            kernel: &kernel.name,
            grid: request.grid,
            block: request.block,
            dynamic_lds: request.lds_bytes,
            kernarg: block,
            options: Options {
                checks: *checks().as_ref().map_err(Clone::clone)?,
                counters: stats::wanted(),
                ..Options::default()
            },
        };
        let result = emulator::launch::launch(memory, &self.loaded, &launch).and_then(Stats::strict);
        let stats = result.inspect_err(|error| eprint!("{}", finding::text(&error.findings())))?;
        let profile = self.loaded.kernel(&kernel.name).and_then(|kernel| Profile::of(kernel, &launch, &stats));
        if let Some(profile) = profile {
            stats::add(profile);
        }
        INSTRUCTIONS.fetch_add(stats.total(), Relaxed);
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let (launches, sum) = counters.entry(kernel.name.clone()).or_default();
        *launches += 1;
        sum.add(&stats);
        Ok(())
    }

    /// One line per kernel that ran: counts of the code, and how long this computer took.
    pub fn counters(&self) -> String {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (name, (launches, stats)) in counters.iter() {
            let total = stats.total();
            let classes = Class::ALL.iter().filter(|class| stats.count(**class) > 0);
            let classes: Vec<String> =
                classes.map(|class| format!("{} {}", class.name(), stats.count(*class))).collect();
            let _ = writeln!(
                text,
                "zynfer emulator: {name}: {launches} launches, {} workgroups, {} waves, {total} wave-instructions ({}), {:.3} s",
                stats.workgroups,
                stats.waves,
                classes.join(", "),
                stats.wall.as_secs_f64(),
            );
        }
        text
    }
}

/// What the runtime answers when a launch did not finish.
pub fn launch_status(error: &LaunchError) -> Status {
    match error {
        LaunchError::UnknownKernel { .. } => Status::NOT_FOUND,
        LaunchError::Grid { .. } | LaunchError::Workgroup { .. } | LaunchError::Lds { .. } => Status::INVALID_VALUE,
        LaunchError::Block { .. } | LaunchError::OutsideGrid { .. } | LaunchError::GridItems { .. } => {
            Status::INVALID_CONFIGURATION
        }
        LaunchError::Kernarg { .. } => Status::INVALID_VALUE,
        LaunchError::Hidden(_) => Status::NOT_SUPPORTED,
        LaunchError::Memory(_) | LaunchError::Scratch { .. } => Status::OUT_OF_MEMORY,
        LaunchError::KernelWorkgroup { .. } | LaunchError::Trap(_) | LaunchError::Defects { .. } => {
            Status::LAUNCH_FAILURE
        }
        LaunchError::Checks(_) => Status::INVALID_VALUE,
    }
}
