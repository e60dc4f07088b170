//! What can go wrong while code runs. A [`Fault`] is the reason alone, raised by an instruction; the dispatcher wraps it in a
//! [`Trap`] that says where. Neither is a panic: any code object, however broken, ends in one of these.

use crate::lines::SourceLine;
use crate::watch::finding::Finding;
use std::fmt;

/// What an access wanted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Load => "load",
            Access::Store => "store",
            Access::Atomic => "atomic",
        })
    }
}

/// Why an instruction could not be executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No row of the instruction tables matches.
    #[error("unknown instruction")]
    Unknown,
    /// Known to the architecture, not executed here, or a form the manual leaves undefined.
    #[error("{0}")]
    Unsupported(String),
    /// The program counter left the code.
    #[error("program counter {pc:#x} is outside the code {start:#x}..{end:#x}")]
    Fetch {
        /// Where it pointed.
        pc: u64,
        /// First byte of the code.
        start: u64,
        /// One past its last byte.
        end: u64,
    },
    /// A vector register that the kernel has not declared.
    #[error("v{register} is used, the kernel's descriptor gives it {declared} VGPRs")]
    Register {
        /// Highest register that the instruction names.
        register: u16,
        /// Registers that the wave has.
        declared: u16,
    },
    /// A byte outside every live allocation.
    #[error("{access} of {bytes} bytes at {address:#x} by lane {lane} is outside every allocation ({nearest})")]
    OutOfBounds {
        /// What it wanted.
        access: Access,
        /// First byte.
        address: u64,
        /// Length in bytes.
        bytes: u32,
        /// Lane, 0 for scalar accesses.
        lane: u32,
        /// The nearest allocation in words.
        nearest: String,
        /// First address and bytes of the freed allocation that held it, if one did.
        freed: Option<(u64, u64)>,
    },
    /// Past the LDS of the launch, or past a wave's scratch.
    #[error("{space} {access} of {bytes} bytes at {address:#x} by lane {lane} is outside its {size} bytes")]
    LocalOutOfBounds {
        /// `LDS` or `scratch`.
        space: &'static str,
        /// What it wanted.
        access: Access,
        /// Byte address within the space.
        address: u64,
        /// Length in bytes.
        bytes: u32,
        /// Lane.
        lane: u32,
        /// Size of the space in bytes.
        size: u32,
    },
    /// An atomic or a scalar load whose address is not aligned.
    #[error("{access} of {bytes} bytes at {address:#x} by lane {lane} is not aligned")]
    Misaligned {
        /// What it wanted.
        access: Access,
        /// First byte.
        address: u64,
        /// Length in bytes.
        bytes: u32,
        /// Lane.
        lane: u32,
    },
    /// A barrier used against the rules (GFX12 split barriers): divergence, or a half too many.
    #[error("barrier: {0}")]
    Barrier(String),
    /// Nothing moved for too long.
    #[error("no progress: {0}")]
    Hang(String),
}

/// A fault with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// Kernel name.
    pub kernel: String,
    /// Byte offset from the kernel's entry.
    pub offset: i64,
    /// Address in the loaded code object.
    pub pc: u64,
    /// First word of the instruction, 0 if it could not be fetched.
    pub word: u32,
    /// Disassembly, or `?` where no row matches.
    pub text: String,
    /// Where it stands in the source, if the code object has line tables.
    pub source: Option<SourceLine>,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// Why.
    pub fault: Fault,
    /// What checks had found before.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        let source = self.source.as_ref().map_or_else(String::new, |source| format!(", {source}"));
        write!(
            f,
            "kernel {} at +{:#x} (pc {:#x}, word {:#010x}, {}{source}) in workgroup {x},{y},{z} wave {}: {}",
            self.kernel, self.offset, self.pc, self.word, self.text, self.wave, self.fault
        )
    }
}
impl std::error::Error for Trap {}
