//! Host memory that the device reaches, and host memory that is only registered. The first is the emulator's own, at the host's address, so
//! that one pointer serves both sides; the second stays the program's, and kernels do not reach it.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_uint, c_void};

use super::{exports, put};
use crate::runtime::{HostRange, Kind, Outcome, Runtime};
use crate::status::Status;

/// Flags of `hipHostMalloc` that exist: portable, mapped, write-combined, and AMD's NUMA, coherent, non-coherent.
const HOST_FLAGS: c_uint = 0x1 | 0x2 | 0x4 | 0x2000_0000 | COHERENT | NON_COHERENT;
const COHERENT: c_uint = 0x4000_0000;
const NON_COHERENT: c_uint = 0x8000_0000;
/// Flags of `hipHostRegister` that exist: portable, mapped, I/O, read-only, and AMD's coarse-grained.
const REGISTER_FLAGS: c_uint = 0x1 | 0x2 | 0x4 | 0x8 | 0x10;

/// The registered range that holds `address`, and where it starts.
pub(super) fn registered(runtime: &Runtime, address: u64) -> Option<(u64, HostRange)> {
    let (start, range) = runtime.registered.range(..=address).next_back()?;
    (address - start < range.bytes).then_some((*start, *range))
}

/// # Safety
/// 1. `out` is null or valid for writing.
unsafe fn allocate(runtime: &mut Runtime, out: *mut *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    runtime.may_wait()?;
    runtime.alive()?;
    let both = COHERENT | NON_COHERENT;
    if out.is_null() || flags & !HOST_FLAGS != 0 || flags & both == both {
        return Err(Status::INVALID_VALUE);
    }
    let address = runtime.allocate(Kind::Host, bytes as u64, flags, 0)?;
    // SAFETY: point 1.
    unsafe { put(out, address as *mut c_void) }
}

fn free(runtime: &mut Runtime, pointer: *mut c_void) -> Outcome {
    runtime.may_wait()?;
    runtime.alive()?;
    if pointer.is_null() { Ok(()) } else { runtime.release(pointer as u64, &[Kind::Host]) }
}

exports! {
    /// Host memory that kernels reach under the same address, aligned to a page.
    fn hipHostMalloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { allocate(runtime, out, bytes, flags) }
    }

    /// The same by another name.
    fn hipHostAlloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { allocate(runtime, out, bytes, flags) }
    }

    /// The same without flags.
    fn hipMallocHost(out: *mut *mut c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { allocate(runtime, out, bytes, 0) }
    }

    /// The same without flags.
    fn hipMemAllocHost(out: *mut *mut c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { allocate(runtime, out, bytes, 0) }
    }

    /// Frees host memory by its first address; null is nothing to do.
    fn hipHostFree(pointer: *mut c_void) |runtime| { free(runtime, pointer) }

    /// The same by another name.
    fn hipFreeHost(pointer: *mut c_void) |runtime| { free(runtime, pointer) }

    /// The device's address of host memory: the same. Of registered memory there is none.
    fn hipHostGetDevicePointer(out: *mut *mut c_void, pointer: *mut c_void, _flags: c_uint) |runtime| {
        let found = runtime.allocation(pointer as u64).is_some_and(|(_, found)| found.kind != Kind::Device);
        if pointer.is_null() || !found {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        unsafe { put(out, pointer) }
    }

    /// Flags that host memory was made or registered with.
    fn hipHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) |runtime| {
        let address = pointer as u64;
        let made = runtime.allocation(address).filter(|(_, found)| found.kind == Kind::Host).map(|(_, found)| found.flags);
        let found = made.or_else(|| registered(runtime, address).map(|(_, range)| range.flags));
        let found = found.ok_or(Status::INVALID_VALUE)?;
        // SAFETY: point 1.
        unsafe { put(flags, found) }
    }

    /// Notes that the program will copy from and to this memory. Kernels do not reach it: it has no device address.
    fn hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) |runtime| {
        runtime.may_wait()?;
        let address = pointer as u64;
        if pointer.is_null() || bytes == 0 || flags & !REGISTER_FLAGS != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let end = address.checked_add(bytes as u64).ok_or(Status::INVALID_VALUE)?;
        let before = runtime.registered.range(..end).next_back();
        if before.is_some_and(|(start, range)| start + range.bytes > address) || runtime.is_device(address) {
            return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
        }
        runtime.registered.insert(address, HostRange { bytes: bytes as u64, flags });
        Ok(())
    }

    /// Forgets it.
    fn hipHostUnregister(pointer: *mut c_void) |runtime| {
        runtime.may_wait()?;
        runtime.registered.remove(&(pointer as u64)).map(drop).ok_or(Status::HOST_MEMORY_NOT_REGISTERED)
    }
}
