//! Memory that other workgroups of the launch write: buffer instructions with *device* scope, past the compute unit's own cache, which no
//! other unit's stores reach. Rust's atomics and fences would mean the whole system on this target, and a fence would empty the cache
//! of the weights as well.

use core::sync::atomic::{Ordering, compiler_fence};

use super::intrinsics;
use super::lane::wave_uniform;
use crate::gpu::memory::{B64, B128};

/// Cache policy of a buffer instruction: temporal, device scope.
const DEVICE: u32 = 16;

/// Memory that several workgroups of the launch read and write: 4-byte elements at byte offsets. Each access sees what other workgroups
/// wrote before the last grid barrier.
#[derive(Clone, Copy)]
pub struct Shared(B128);

impl Shared {
    /// The `bytes` from `base` on.
    ///
    /// # Safety
    /// 1. They lie in one allocation, 16-byte aligned; `base` and `bytes` are equal in all lanes.
    #[inline(always)]
    pub unsafe fn new<T>(base: *const T, bytes: u32) -> Self {
        let address = base.expose_provenance() as u64;
        // A raw resource: no stride, no swizzle, 32-bit elements.
        Self(B128::new([
            wave_uniform(address as u32),
            wave_uniform((address >> 32) as u32 & 0xffff),
            wave_uniform(bytes),
            0x3100_4000,
        ]))
    }

    /// 4 bytes.
    ///
    /// # Safety
    /// 1. `offset` is a multiple of the access and inside the memory; no other workgroup writes there before the next grid barrier.
    #[inline(always)]
    pub unsafe fn load_b32(self, offset: u32) -> u32 {
        // SAFETY: the resource's bounds hold whatever the offset is.
        unsafe { intrinsics::buffer_load_b32(self.0, offset, 0, DEVICE) }
    }
    /// 8 bytes.
    ///
    /// # Safety
    /// As [`Shared::load_b32`].
    #[inline(always)]
    pub unsafe fn load_b64(self, offset: u32) -> B64 {
        // SAFETY: as above.
        unsafe { intrinsics::buffer_load_b64(self.0, offset, 0, DEVICE) }
    }
    /// 16 bytes.
    ///
    /// # Safety
    /// As [`Shared::load_b32`].
    #[inline(always)]
    pub unsafe fn load_b128(self, offset: u32) -> B128 {
        // SAFETY: as above.
        unsafe { intrinsics::buffer_load_b128(self.0, offset, 0, DEVICE) }
    }
    /// 2 bytes.
    ///
    /// # Safety
    /// 1. `offset` is a multiple of the access and inside the memory; no other lane of the launch touches it before the next grid
    ///    barrier.
    #[inline(always)]
    pub unsafe fn store_b16(self, offset: u32, x: u16) {
        // SAFETY: the resource's bounds hold whatever the offset is.
        unsafe { intrinsics::buffer_store_b16(x, self.0, offset, 0, DEVICE) }
    }
    /// 4 bytes.
    ///
    /// # Safety
    /// As [`Shared::store_b16`].
    #[inline(always)]
    pub unsafe fn store_b32(self, offset: u32, x: u32) {
        // SAFETY: as above.
        unsafe { intrinsics::buffer_store_b32(x, self.0, offset, 0, DEVICE) }
    }
    /// 8 bytes.
    ///
    /// # Safety
    /// As [`Shared::store_b16`].
    #[inline(always)]
    pub unsafe fn store_b64(self, offset: u32, x: B64) {
        // SAFETY: as above.
        unsafe { intrinsics::buffer_store_b64(x, self.0, offset, 0, DEVICE) }
    }
    /// 16 bytes.
    ///
    /// # Safety
    /// As [`Shared::store_b16`].
    #[inline(always)]
    pub unsafe fn store_b128(self, offset: u32, x: B128) {
        // SAFETY: as above.
        unsafe { intrinsics::buffer_store_b128(x, self.0, offset, 0, DEVICE) }
    }
}

/// What this wave has stored is in memory.
#[inline(always)]
pub fn stores_done() {
    compiler_fence(Ordering::SeqCst);
    intrinsics::s_wait_storecnt(0);
}

/// Adds 1 to the counter and gives what it was. What the wave stored before [`stores_done`] comes before it.
///
/// # Safety
/// 1. The counter is four bytes that only this function, [`observe`] and its owner's store touch. One lane calls it.
#[inline(always)]
pub unsafe fn arrive(counter: Shared) -> u32 {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: point 1.
    let before = unsafe { intrinsics::buffer_atomic_add(1, counter.0, 0, 0, DEVICE) };
    compiler_fence(Ordering::SeqCst);
    before
}

/// The counter now.
///
/// # Safety
/// As [`arrive`]; a whole wave calls it.
#[inline(always)]
pub unsafe fn observe(counter: Shared) -> u32 {
    // Without a fence the load would be moved out of the loop that waits for another value.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: point 1.
    wave_uniform(unsafe { counter.load_b32(0) })
}
