//! The workgroup barrier and the end of a wave.

use core::arch::{asm, nvptx as arch};

/// All waves of the workgroup arrive before any goes on, and what each wrote to workgroup memory before is seen by all after:
/// `bar.sync` orders memory among the threads that meet at it, and the compiler moves no access over it. (A `compiler_fence` is what
/// LLVM's NVPTX backend cannot select.)
///
/// # Safety
/// 1. Every live wave of the workgroup calls it equally often, in uniform flow.
#[inline(always)]
pub unsafe fn barrier() {
    // SAFETY: point 1 is the caller's.
    unsafe { arch::_syncthreads() };
}

/// Ends this wave at once.
#[inline(always)]
pub fn end_wave() -> ! {
    // SAFETY: the thread ends here; nothing follows.
    unsafe { asm!("exit;", options(noreturn, nostack)) }
}

/// On the other machine a line the compiler moves nothing over; ptxas, which schedules here, has no such line.
#[inline(always)]
pub fn schedule_fence() {}

/// Lets other waves go first for a moment: for a loop that waits on memory.
#[inline(always)]
pub fn pause() {
    // SAFETY: a hint.
    unsafe { asm!("nanosleep.u32 20;", options(nostack, nomem)) }
}
