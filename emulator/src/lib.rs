//! Runs gfx1201 (RDNA 4) code objects on the CPU, instruction by instruction: code object in, memory out. It knows bytes and the
//! instruction set; it deliberately knows nothing of models, of our kernels' source, of caches or of time.
//!
//! A launch: [`code_object`] finds the kernel → [`mod@launch`] decodes it once ([`isa`]: one row per instruction is the only place where
//! an opcode stands) and spreads workgroups over threads → a [`wave::Wave`] per wave executes rows on [`wave::Cx`] → [`memory`].
//!
//! # Use
//!
//! Load a code object, give it memory, launch. Everything that a kernel can do wrong ends in a [`Trap`] with its place, everything that
//! a caller can, in a [`LaunchError`]; nothing panics. Buffers and arguments are bytes, as they are for a card.
//!
//! ```
//! use emulator::{CodeObject, Launch, LoadedModule, Memory, Options, launch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `scale`: y[i] = a · x[i] for i < n (examples/kernels.s).
//! let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels.hsaco"))?;
//! let mut memory = Memory::new(1 << 30);
//! let module = LoadedModule::load(CodeObject::parse(&bytes)?, &mut memory)?;
//!
//! let x = memory.alloc(4 * 100)?;
//! let y = memory.alloc(4 * 100)?;
//! let values: Vec<u8> = (0..100).flat_map(|i| (i as f32).to_le_bytes()).collect();
//! memory.write(x, &values)?;
//!
//! let mut kernarg = Vec::new();
//! kernarg.extend(x.to_le_bytes());
//! kernarg.extend(y.to_le_bytes());
//! kernarg.extend(2.5f32.to_le_bytes());
//! kernarg.extend(100u32.to_le_bytes());
//! let stats = launch(
//!     &memory,
//!     &module,
//!     &Launch {
//!         kernel: "scale",
//!         grid: [1, 1, 1],
//!         block: [256, 1, 1],
//!         dynamic_lds: 0,
//!         kernarg: &kernarg,
//!         options: Options { counters: true, ..Options::default() },
//!     },
//! )?;
//!
//! let mut last = [0; 4];
//! memory.read(y + 4 * 99, &mut last)?;
//! assert_eq!(f32::from_le_bytes(last), 2.5 * 99.0);
//! assert_eq!(stats.waves, 8);
//! assert_eq!(stats.counters.map(|counters| counters.loads.bytes), Some(400));
//! # Ok(())
//! # }
//! ```
//!
//! - [`Options::checks`] has a launch checked for what hardware hides; what was found is in [`Stats::findings`].
//! - [`Options::counters`] counts memory, LDS and matrix work ([`watch::counters`]); [`roofline`] estimates from that what a card would
//!   need at least.
//! - [`Options::trace`] prints one wave's instructions with what they change ([`watch::trace`]).
//! - [`Stepper`] runs one workgroup instruction by instruction, registers in view.
//! - [`isa`] decodes and disassembles words without running them.
//!
//! `examples/run.rs` shows these on one small kernel: `cargo run -p emulator --example run`.
#![forbid(unsafe_code)]
#![allow(clippy::precedence, reason = "bit fields read as the manual writes them: shift, then mask, then or")]
#![allow(clippy::needless_range_loop, reason = "a lane loop indexes several arrays by the same lane")]

pub mod arch;
pub mod code_object;
pub mod execute;
pub mod fault;
pub mod isa;
pub mod launch;
pub mod lines;
pub mod memory;
pub mod roofline;
pub mod watch;
pub mod wave;

pub use code_object::CodeObject;
pub use fault::{Fault, Trap};
pub use launch::{Launch, LaunchError, LoadedModule, Options, Program, Schedule, Stats, Stepper, launch};
pub use memory::Memory;
