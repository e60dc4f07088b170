//! One wave's registers and what an instruction may touch while it executes. Reading and writing operands stands here once: EXEC
//! masking, constants, 64-bit pairs. It does not know any instruction.

use crate::arch::Arch;
use crate::fault::Fault;
use crate::isa::{Inst, Src};
use crate::memory::Memory;
use crate::watch::Watch;

/// One 32-bit value per lane.
pub type Lanes = [u32; 32];

/// A vector file. It starts with a line of the host's cache: else every second vector of a register would lie in two lines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(align(64))]
pub struct Registers(pub [Lanes; 256]);

impl std::ops::Deref for Registers {
    type Target = [Lanes; 256];
    #[inline(always)]
    fn deref(&self) -> &[Lanes; 256] {
        &self.0
    }
}

impl std::ops::DerefMut for Registers {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Lanes; 256] {
        &mut self.0
    }
}

/// Index of VCC_LO in the scalar file.
pub const VCC: u8 = 106;
/// Index of TTMP0.
pub const TTMP0: u8 = 108;
/// `null`: reads 0, writes vanish.
pub const NULL: u8 = 124;
/// Index of M0.
pub const M0: u8 = 125;
/// Index of EXEC_LO.
pub const EXEC: u8 = 126;
/// High half of a generic address in LDS.
pub const SHARED_APERTURE: u32 = 0x0001_0000;
/// High half of a generic address in scratch.
pub const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// What the wave does after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Goes on behind it.
    Next,
    /// Goes on at this address.
    Jump(u64),
    /// Goes on behind it, after others had their turn (`s_sleep`, spins).
    Yield,
    /// A barrier operation, which the dispatcher performs because it concerns the whole workgroup.
    Barrier(Barrier),
    /// The wave is done.
    End,
}

/// What a wave does with its workgroup's barrier (GFX12: signalling and waiting are two instructions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// Announces that the wave has arrived.
    Signal,
    /// The same, and SCC says whether the wave was the first.
    SignalIsFirst,
    /// Goes on once all live waves have signalled; stays at the instruction until then.
    Wait,
    /// Stores signal and member counts in this scalar register.
    State(u8),
}

/// Result of one instruction.
pub type Step = Result<Flow, Box<Fault>>;

/// Registers of one wave. All 256 VGPRs exist so that no index can be out of range; the dispatcher traps where an instruction names one
/// beyond those the kernel declared. Not checked: registers addressed relative to M0.
pub struct Wave {
    /// Address of the instruction being executed.
    pub pc: u64,
    /// Scalar file by operand code: 0–105, VCC, TTMP0–15, null (always 0), M0, EXEC.
    pub sgpr: [u32; 128],
    /// Scalar condition code.
    pub scc: bool,
    /// MODE register (GFX1201.md names its fields: rounding `[3:0]`, denormals `[7:4]`, …).
    pub mode: u32,
    /// Vector file.
    pub vgpr: Box<Registers>,
    /// Scratch, lane-interleaved by dword: byte b of lane l at `(b/4)·128 + l·4 + b%4`.
    pub scratch: Vec<u32>,
    /// Scratch bytes per lane.
    pub scratch_bytes: u32,
    /// Number of this wave in its workgroup.
    pub index: u32,
    /// Instructions executed.
    pub executed: u64,
    /// Whether the wave has signalled the barrier and the barrier is not complete yet.
    pub signalled: bool,
}

impl Default for Wave {
    fn default() -> Wave {
        Wave::new()
    }
}

impl Wave {
    /// A wave with everything 0.
    pub fn new() -> Wave {
        Wave {
            pc: 0,
            sgpr: [0; 128],
            scc: false,
            mode: 0,
            vgpr: Box::new(Registers([[0; 32]; 256])),
            scratch: Vec::new(),
            scratch_bytes: 0,
            index: 0,
            executed: 0,
            signalled: false,
        }
    }
    /// The low half of EXEC: which lanes are on.
    #[inline(always)]
    pub fn exec(&self) -> u32 {
        self.sgpr[EXEC as usize]
    }
    /// The low half of VCC.
    #[inline(always)]
    pub fn vcc(&self) -> u32 {
        self.sgpr[VCC as usize]
    }
    /// Writes one scalar register; a write to `null` vanishes.
    #[inline(always)]
    pub fn set_sgpr(&mut self, index: u8, value: u32) {
        if index != NULL {
            self.sgpr[(index & 127) as usize] = value;
        }
    }
    /// Writes a scalar pair; to `null` it vanishes.
    #[inline(always)]
    pub fn set_sgpr64(&mut self, index: u8, value: u64) {
        if index != NULL {
            self.sgpr[(index & 127) as usize] = value as u32;
            self.sgpr[(index.wrapping_add(1) & 127) as usize] = (value >> 32) as u32;
        }
    }
    /// A scalar pair.
    #[inline(always)]
    pub fn sgpr64(&self, index: u8) -> u64 {
        if index == NULL {
            return 0;
        }
        self.sgpr[(index & 127) as usize] as u64 | (self.sgpr[(index.wrapping_add(1) & 127) as usize] as u64) << 32
    }
    /// A scalar operand. A vector register gives lane 0, which only instructions that read one lane ask for.
    #[inline(always)]
    pub fn scalar(&self, src: Src) -> u32 {
        match src {
            Src::Sgpr(i) => self.sgpr[(i & 127) as usize],
            Src::Const(c) => c as u32,
            Src::Scc => self.scc as u32,
            Src::Vgpr(i) => self.vgpr[i as usize][0],
        }
    }
    /// A 64-bit scalar operand.
    #[inline(always)]
    pub fn scalar64(&self, src: Src) -> u64 {
        match src {
            Src::Sgpr(i) => self.sgpr64(i),
            Src::Const(c) => c,
            Src::Scc => self.scc as u64,
            Src::Vgpr(i) => self.vgpr[i as usize][0] as u64,
        }
    }
    /// A vector operand, all lanes (scalars are the same in every lane).
    #[inline(always)]
    pub fn lanes(&self, src: Src) -> Lanes {
        match src {
            Src::Vgpr(i) => self.vgpr[i as usize],
            other => [self.scalar(other); 32],
        }
    }
    /// A 64-bit vector operand as low and high halves.
    #[inline(always)]
    pub fn lanes64(&self, src: Src) -> (Lanes, Lanes) {
        match src {
            Src::Vgpr(i) => (self.vgpr[i as usize], self.vgpr[i.wrapping_add(1) as usize]),
            other => {
                let value = self.scalar64(other);
                ([value as u32; 32], [(value >> 32) as u32; 32])
            }
        }
    }
    /// Writes a vector register where `mask` has a bit.
    #[inline(always)]
    pub fn set_lanes(&mut self, index: u8, mask: u32, value: &Lanes) {
        let out = &mut self.vgpr[index as usize];
        if mask == u32::MAX {
            *out = *value;
            return;
        }
        for lane in 0..32 {
            out[lane] = if mask >> lane & 1 != 0 { value[lane] } else { out[lane] };
        }
    }
}

/// LDS of one workgroup. Its waves run on one thread, so plain dwords do.
pub struct Lds {
    /// Contents, rounded up to whole dwords.
    pub words: Vec<u32>,
    /// Exact bytes of the launch: static + dynamic.
    pub bytes: u32,
}

/// What all workgroups of a launch share.
pub struct LaunchInfo {
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items per workgroup in x, y, z.
    pub block: [u32; 3],
    /// First address of the code.
    pub code_start: u64,
    /// One past its last byte.
    pub code_end: u64,
}

/// Everything an instruction may touch.
pub struct Cx<'a> {
    /// The executing wave.
    pub wave: &'a mut Wave,
    /// Its workgroup's LDS.
    pub lds: &'a mut Lds,
    /// Global memory.
    pub memory: &'a Memory,
    /// The launch.
    pub launch: &'a LaunchInfo,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// What runs lane loops, compiled for the vectors of the machine.
    pub arch: Arch,
    /// What looks on, if anything does: every access to memory is told to it before it happens.
    pub watch: Option<&'a mut Watch>,
}

/// Executes one instruction.
pub type Exec = for<'a, 'b, 'c> fn(&'a mut Cx<'b>, &'c Inst) -> Step;
