//! The workgroup barrier and the end of a wave. Nothing here passes global memory between waves: in WGP mode that needs more than
//! a barrier; `grid` has it.

use core::arch::amdgpu as arch;
use core::sync::atomic::{Ordering, compiler_fence};

use super::intrinsics;

/// All waves of the workgroup arrive before any goes on, and what each wrote to workgroup memory before is seen by all after.
/// `s_barrier` alone waits for nothing: LDS stores may still be in flight, hence the wait, and the compiler may move accesses over
/// it, hence the fences.
///
/// # Safety
/// 1. Every live wave of the workgroup calls it equally often, in uniform flow.
#[inline(always)]
pub unsafe fn barrier() {
    compiler_fence(Ordering::SeqCst);
    intrinsics::s_wait_dscnt(0);
    arch::s_barrier();
    compiler_fence(Ordering::SeqCst);
}

/// Ends this wave at once.
#[inline(always)]
pub fn end_wave() -> ! {
    arch::endpgm()
}

/// The compiler moves no instruction over this line: keeps loads from being hoisted until registers run out. No instruction itself.
#[inline(always)]
pub fn schedule_fence() {
    // SAFETY: it only limits the scheduler; 0 lets nothing pass.
    unsafe { arch::sched_barrier::<0>() };
}

/// Lets other waves go first for about 64 cycles: for a loop that waits on memory.
#[inline(always)]
pub fn pause() {
    arch::s_sleep::<1>();
}
