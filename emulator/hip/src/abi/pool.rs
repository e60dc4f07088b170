//! Stream-ordered memory and its pools. Work is done when it is queued, so memory is there and gone at once; what a pool keeps is its
//! count. In a capture such calls are refused: a graph here has no nodes that allocate.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_void};

use super::device::only_device;
use super::{Handle, exports, get, put};
use crate::runtime::{Kind, Outcome, Pool, Runtime};
use crate::status::Status;

/// The start of `hipMemPoolProps`; the rest is for other systems and the future.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PoolProps {
    allocation_type: c_int,
    handle_types: c_int,
    location: Location,
}

/// `hipMemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

/// `hipMemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AccessDesc {
    location: Location,
    flags: c_int,
}

/// `hipMemAllocationTypePinned`, `hipMemLocationTypeDevice`, `hipMemAccessFlagsProtReadWrite`.
const PINNED: c_int = 1;
const ON_DEVICE: c_int = 1;
const READ_WRITE: c_int = 3;

fn pool(runtime: &mut Runtime, pool: u64) -> Outcome<&mut Pool> {
    runtime.pools.get_mut(&pool).ok_or(Status::INVALID_VALUE)
}

/// # Safety
/// 1. `out` is null or valid for writing.
unsafe fn allocate(runtime: &mut Runtime, out: *mut *mut c_void, bytes: usize, from: u64, stream: u64) -> Outcome {
    if out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    pool(runtime, from)?;
    ordered(runtime, stream)?;
    let address = runtime.allocate(Kind::Device, bytes as u64, 0, from)?;
    // SAFETY: point 1.
    unsafe { put(out, address as *mut c_void) }
}

/// Whether memory may come or go in order with a stream.
fn ordered(runtime: &mut Runtime, stream: u64) -> Outcome {
    runtime.resolve(stream)?;
    runtime.alive()?;
    if runtime.capturing(stream)?.is_some() {
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(())
}

exports! {
    /// Device memory, in order with `stream`.
    fn hipMallocAsync(out: *mut *mut c_void, bytes: usize, stream: Handle) |runtime| {
        let current = runtime.current_pool;
        // SAFETY: point 1.
        unsafe { allocate(runtime, out, bytes, current, stream) }
    }

    /// Device memory of a pool, in order with `stream`.
    fn hipMallocFromPoolAsync(out: *mut *mut c_void, bytes: usize, pool: Handle, stream: Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { allocate(runtime, out, bytes, pool, stream) }
    }

    /// Frees device memory, in order with `stream`.
    fn hipFreeAsync(pointer: *mut c_void, stream: Handle) |runtime| {
        ordered(runtime, stream)?;
        runtime.release(pointer as u64, &[Kind::Device, Kind::Managed])
    }

    /// The pool that is there from the start.
    fn hipDeviceGetDefaultMemPool(out: *mut Handle, device: c_int) |runtime| {
        only_device(device)?;
        let default = runtime.default_pool;
        // SAFETY: point 1.
        unsafe { put(out, default) }
    }

    /// The pool that `hipMallocAsync` takes from.
    fn hipDeviceGetMemPool(out: *mut Handle, device: c_int) |runtime| {
        only_device(device)?;
        let current = runtime.current_pool;
        // SAFETY: point 1.
        unsafe { put(out, current) }
    }

    /// Sets the pool that `hipMallocAsync` takes from.
    fn hipDeviceSetMemPool(device: c_int, handle: Handle) |runtime| {
        only_device(device)?;
        pool(runtime, handle)?;
        runtime.current_pool = handle;
        Ok(())
    }

    /// A pool on device 0 without handles to share.
    fn hipMemPoolCreate(out: *mut Handle, props: *const PoolProps) |runtime| {
        // SAFETY: point 1.
        let props = unsafe { get(props) }?;
        if props.allocation_type != PINNED || props.location.kind != ON_DEVICE || props.location.id != 0 {
            return Err(Status::INVALID_VALUE);
        }
        if props.handle_types != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let handle = runtime.handle();
        // SAFETY: point 1.
        unsafe { put(out, handle) }?;
        runtime.pools.insert(handle, Pool { reuse: [1; 3], ..Pool::default() });
        Ok(())
    }

    /// Ends a pool; memory taken from it stays. The default pool is refused.
    fn hipMemPoolDestroy(handle: Handle) |runtime| {
        if handle == runtime.default_pool {
            return Err(Status::INVALID_VALUE);
        }
        runtime.pools.remove(&handle).ok_or(Status::INVALID_VALUE)?;
        if runtime.current_pool == handle {
            runtime.current_pool = runtime.default_pool;
        }
        Ok(())
    }

    /// Nothing is held back.
    fn hipMemPoolTrimTo(handle: Handle, _bytes: usize) |runtime| { pool(runtime, handle).map(drop) }

    /// Reuse policies (1 to 3, `int`), release threshold (4, `uint64_t`); the high watermarks (6 and 8) can be reset to 0.
    fn hipMemPoolSetAttribute(handle: Handle, attribute: c_int, value: *mut c_void) |runtime| {
        let pool = pool(runtime, handle)?;
        match attribute {
            1..=3 => {
                // SAFETY: point 1: an `int`.
                pool.reuse[attribute as usize - 1] = unsafe { get(value.cast::<c_int>()) }?;
            }
            4 => {
                // SAFETY: point 1: a `uint64_t`.
                pool.threshold = unsafe { get(value.cast::<u64>()) }?;
            }
            6 | 8 => {
                // SAFETY: point 1: a `uint64_t`.
                if unsafe { get(value.cast::<u64>()) }? != 0 {
                    return Err(Status::INVALID_VALUE);
                }
                pool.high = pool.used;
            }
            _ => return Err(Status::INVALID_VALUE),
        }
        Ok(())
    }

    /// What was set, and bytes reserved and used: now (5 and 7) and at most (6 and 8).
    fn hipMemPoolGetAttribute(handle: Handle, attribute: c_int, value: *mut c_void) |runtime| {
        let pool = pool(runtime, handle)?;
        match attribute {
            // SAFETY: point 1: an `int`.
            1..=3 => unsafe { put(value.cast(), pool.reuse[attribute as usize - 1]) },
            // SAFETY: point 1: a `uint64_t`.
            4 => unsafe { put(value.cast(), pool.threshold) },
            // SAFETY: point 1: a `uint64_t`.
            5 | 7 => unsafe { put(value.cast(), pool.used) },
            // SAFETY: point 1: a `uint64_t`.
            6 | 8 => unsafe { put(value.cast(), pool.high) },
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Access of device 0, which cannot be taken away.
    fn hipMemPoolSetAccess(handle: Handle, list: *const AccessDesc, count: usize) |runtime| {
        pool(runtime, handle)?;
        if list.is_null() || count == 0 {
            return Err(Status::INVALID_VALUE);
        }
        for index in 0..count {
            // SAFETY: point 1: as many entries as `count` says.
            let entry = unsafe { get(list.wrapping_add(index)) }?;
            if entry.location.kind != ON_DEVICE || entry.flags != READ_WRITE {
                return Err(Status::INVALID_VALUE);
            }
            only_device(entry.location.id)?;
        }
        Ok(())
    }

    /// Read and write.
    fn hipMemPoolGetAccess(flags: *mut c_int, handle: Handle, location: *mut Location) |runtime| {
        pool(runtime, handle)?;
        // SAFETY: point 1.
        let location = unsafe { get(location) }?;
        if location.kind != ON_DEVICE || location.id != 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        unsafe { put(flags, READ_WRITE) }
    }
}
