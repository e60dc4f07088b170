//! Runs gfx1201 (RDNA 4) code objects on the CPU, instruction by instruction: code object in, memory out. It knows bytes and the
//! instruction set; it deliberately knows nothing of models, of our kernels' source, of caches or of time.
//!
//! A launch: [`code_object`] finds the kernel → [`launch`] decodes it once ([`isa`]: one row per instruction is the only place where
//! an opcode stands) and spreads workgroups over threads → a [`wave::Wave`] per wave executes rows on [`wave::Cx`] → [`memory`].
#![forbid(unsafe_code)]
#![allow(clippy::precedence, reason = "bit fields read as the manual writes them: shift, then mask, then or")]
#![allow(clippy::needless_range_loop, reason = "a lane loop indexes several arrays by the same lane")]

pub mod code_object;
pub mod execute;
pub mod fault;
pub mod isa;
pub mod launch;
pub mod lines;
pub mod memory;
pub mod watch;
pub mod wave;

pub use code_object::CodeObject;
pub use fault::{Fault, Trap};
pub use launch::{Launch, LaunchError, LoadedModule, Options, Schedule, Stats, launch};
pub use memory::Memory;
