//! libamdhip64's C ABI over the emulator: a program that opens AMD's library by name runs unchanged on this one, and so does the
//! very same code object. One device, `gfx1201`, of HIP 6.4, whose numbers are used where headers of 5 and 6 contradict each other. Every
//! stream runs in order and at once, so a call that queues work returns when it is done; what is captured is kept and done when its graph
//! is launched. It deliberately has no caches, no clock rate, no images and no peers: docs/EMULATOR.md lists what is not exported.
//!
//! Handles are numbers that are never dereferenced and never reused: a stale or invented one is a status, not a crash. A launch that
//! traps has succeeded, as it is asynchronous; it prints the emulator's report on stderr and ends the device: every later call that
//! touches it says `hipErrorLaunchFailure` until `hipDeviceReset`, and [`abi::module::zynferEmulatorLastReport`] says why. A panic never
//! crosses the ABI: it becomes `hipErrorUnknown`.
//!
//! With `ZYNFER_EMULATOR_CHECK=all`, or a list of memory, init, race, wait, barrier, align, every launch is checked for those defects;
//! one that has some is treated as one that traps. With `ZYNFER_EMULATOR_STATS=1` each kernel's counts of
//! instructions are printed on stderr when its module is unloaded; with `-` or a file's name all counters and estimates are written
//! as JSON, to stderr when the process ends or to the file whenever a module is unloaded, the device is reset, and at the end.

pub mod abi;
mod bundle;
mod capture;
mod graph;
mod launch;
mod occupancy;
pub mod properties;
mod register;
mod runtime;
mod stats;
mod status;
mod work;
