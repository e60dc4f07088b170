//! Asking for memory before it is needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the cache lines of `bytes`, and waits for nothing. Where the machine has no such instruction it does nothing.
#[inline(always)]
#[allow(
    unsafe_code,
    reason = "the instruction is reachable through an intrinsic only; the argument stands at the block"
)]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, and it neither faults nor changes anything, whatever the address; this one is of a
        // slice that is borrowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, LINE);
}
