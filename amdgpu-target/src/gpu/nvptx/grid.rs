//! Memory that other workgroups of the launch write: accesses that are strong at the GPU's scope, so that they meet in its second-level
//! cache.

use core::arch::asm;

use crate::gpu::memory::{B64, B128};

/// Memory that several workgroups of the launch read and write: 4-byte elements at byte offsets. Each access sees what other workgroups
/// wrote before the last grid barrier.
#[derive(Clone, Copy)]
pub struct Shared(u64);

impl Shared {
    /// The `bytes` from `base` on.
    ///
    /// # Safety
    /// 1. They lie in one allocation, 16-byte aligned; `base` and `bytes` are equal in all lanes.
    #[inline(always)]
    pub unsafe fn new<T>(base: *const T, _bytes: u32) -> Self {
        let address: u64;
        let generic = base.expose_provenance() as u64;
        // SAFETY: arithmetic on a register.
        unsafe {
            asm!("cvta.to.global.u64 {}, {};", out(reg64) address, in(reg64) generic, options(pure, nomem, nostack, preserves_flags));
        }
        Self(address)
    }
    /// 4 bytes.
    ///
    /// # Safety
    /// 1. `offset` is a multiple of the access and inside the memory; no other workgroup writes there before the next grid barrier.
    #[inline(always)]
    pub unsafe fn load_b32(self, offset: u32) -> u32 {
        let x: u32;
        let at = self.0 + u64::from(offset);
        // SAFETY: the caller's.
        unsafe { asm!("ld.relaxed.gpu.global.u32 {}, [{}];", out(reg32) x, in(reg64) at, options(nostack, readonly)) };
        x
    }
    /// 8 bytes.
    ///
    /// # Safety
    /// As [`Shared::load_b32`].
    #[inline(always)]
    pub unsafe fn load_b64(self, offset: u32) -> B64 {
        let (a, b): (u32, u32);
        let at = self.0 + u64::from(offset);
        // SAFETY: the caller's.
        unsafe {
            asm!("ld.relaxed.gpu.global.v2.u32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg64) at, options(nostack, readonly));
        }
        B64::new([a, b])
    }
    /// 16 bytes.
    ///
    /// # Safety
    /// As [`Shared::load_b32`].
    #[inline(always)]
    pub unsafe fn load_b128(self, offset: u32) -> B128 {
        let (a, b, c, d): (u32, u32, u32, u32);
        let at = self.0 + u64::from(offset);
        // SAFETY: the caller's.
        unsafe {
            asm!(
                "ld.relaxed.gpu.global.v4.u32 {{{}, {}, {}, {}}}, [{}];",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) at, options(nostack, readonly),
            );
        }
        B128::new([a, b, c, d])
    }

    /// 2 bytes.
    ///
    /// # Safety
    /// 1. `offset` is a multiple of the access and inside the memory; no other lane of the launch touches it before the next grid
    ///    barrier.
    #[inline(always)]
    pub unsafe fn store_b16(self, offset: u32, x: u16) {
        let at = self.0 + u64::from(offset);
        // SAFETY: the caller's.
        unsafe { asm!("st.relaxed.gpu.global.u16 [{}], {};", in(reg64) at, in(reg16) x, options(nostack)) }
    }
    /// 4 bytes.
    ///
    /// # Safety
    /// As [`Shared::store_b16`].
    #[inline(always)]
    pub unsafe fn store_b32(self, offset: u32, x: u32) {
        let at = self.0 + u64::from(offset);
        // SAFETY: the caller's.
        unsafe { asm!("st.relaxed.gpu.global.u32 [{}], {};", in(reg64) at, in(reg32) x, options(nostack)) }
    }
    /// 8 bytes.
    ///
    /// # Safety
    /// As [`Shared::store_b16`].
    #[inline(always)]
    pub unsafe fn store_b64(self, offset: u32, x: B64) {
        let at = self.0 + u64::from(offset);
        let [a, b] = x.words();
        // SAFETY: the caller's.
        unsafe {
            asm!("st.relaxed.gpu.global.v2.u32 [{}], {{{}, {}}};", in(reg64) at, in(reg32) a, in(reg32) b, options(nostack));
        }
    }
}

/// Nothing: [`arrive`] orders the whole workgroup's stores.
#[inline(always)]
pub fn stores_done() {}

/// Adds 1 to the counter and gives what it was. What the workgroup stored before its last barrier comes before it.
///
/// # Safety
/// 1. The counter is four bytes that only this function, [`observe`] and its owner's store touch. One lane calls it.
#[inline(always)]
pub unsafe fn arrive(counter: Shared) -> u32 {
    let before: u32;
    // SAFETY: point 1. The fence is an instruction of its own: a read-modify-write with release order was seen compiled without one.
    unsafe {
        asm!(
            "fence.acq_rel.gpu;",
            "atom.relaxed.gpu.global.add.u32 {}, [{}], 1;",
            out(reg32) before, in(reg64) counter.0, options(nostack),
        );
    }
    before
}

/// The counter now; what others stored before they arrived is seen after it.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn observe(counter: Shared) -> u32 {
    let x: u32;
    // SAFETY: point 1.
    unsafe { asm!("ld.acquire.gpu.global.u32 {}, [{}];", out(reg32) x, in(reg64) counter.0, options(nostack)) };
    x
}
