//! libamdhip64's C ABI over the emulator: a program that opens AMD's library by name runs unchanged on this one, and so does the
//! very same code object. One device, `gfx1201`; every stream runs in order and at once, so a call that queues work returns when it
//! is done. It deliberately has no caches, no clock rate and no peers, and offers no more of HIP than zynfer and small tools need.
//!
//! Handles are numbers that are never dereferenced and never reused: a stale or invented one is a status, not a crash. A launch that
//! traps prints the emulator's report on stderr, returns `hipErrorLaunchFailure`, and keeps the report for
//! [`abi::module::zynferEmulatorLastReport`]. A panic never crosses the ABI: it becomes `hipErrorUnknown`. With
//! `ZYNFER_EMULATOR_STATS=1` each kernel's counters are printed on stderr when its module is unloaded.

pub mod abi;
mod launch;
mod properties;
mod runtime;
mod status;
