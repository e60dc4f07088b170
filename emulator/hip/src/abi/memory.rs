//! Device memory: allocation, what an address is, fills. Device addresses are numbers of the emulator's own: a call looks at its live
//! allocations, so a range that leaves one, or an address of the host given for a device's, is a status.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};

use super::work::submit;
use super::{Handle, exports, get, put, put_if};
use crate::runtime::{Kind, Outcome, Runtime};
use crate::status::Status;
use crate::work::{Set, Work};

/// Rows of a pitched allocation start at multiples of this.
const PITCH_ALIGN: usize = 256;

/// `hipPitchedPtr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PitchedPtr {
    /// First byte.
    pub ptr: *mut c_void,
    /// Bytes from a row to the next.
    pub pitch: usize,
    /// Bytes of a row.
    pub xsize: usize,
    /// Rows of a slice.
    pub ysize: usize,
}

/// `hipExtent`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `hipPointerAttribute_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PointerAttributes {
    memory_type: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
    is_managed: c_int,
    allocation_flags: c_uint,
}

/// `hipMemoryType` of HIP 6: registered with nobody, host, device, managed.
const UNREGISTERED: c_int = 0;
const HOST: c_int = 1;
const DEVICE: c_int = 2;
const MANAGED: c_int = 3;

fn describe(runtime: &Runtime, address: u64) -> PointerAttributes {
    let (memory_type, device_pointer, host_pointer, flags) = match runtime.allocation(address) {
        Some((_, found)) => match found.kind {
            Kind::Device => (DEVICE, address, 0, found.flags),
            Kind::Host => (HOST, address, address, found.flags),
            Kind::Managed => (MANAGED, address, address, found.flags),
        },
        None if runtime.is_device(address) => (DEVICE, address, 0, 0),
        None => match super::host::registered(runtime, address) {
            Some((_, range)) => (HOST, 0, address, range.flags),
            None => (UNREGISTERED, 0, 0, 0),
        },
    };
    let device = if memory_type == UNREGISTERED { -2 } else { 0 };
    let is_managed = c_int::from(memory_type == MANAGED);
    PointerAttributes { memory_type, device, device_pointer, host_pointer, is_managed, allocation_flags: flags }
}

/// One thing about a pointer, as `hipPointerGetAttribute` writes it.
///
/// # Safety
/// 1. `data` is null or valid for writing what the attribute's type is.
unsafe fn attribute(runtime: &Runtime, data: *mut c_void, attribute: c_int, address: u64) -> Outcome {
    let about = describe(runtime, address);
    let known = about.memory_type != UNREGISTERED;
    let range = runtime.allocation(address).map(|(start, found)| (start, found.bytes));
    let region = || runtime.memory.region(address).map(|region| (region.base(), region.len()));
    let registered = || super::host::registered(runtime, address).map(|(start, range)| (start, range.bytes));
    let range = range.or_else(region).or_else(registered);
    let (start, bytes) = range.unwrap_or((0, 0));
    if data.is_null() || !known && attribute != 13 {
        return Err(Status::INVALID_VALUE);
    }
    match attribute {
        // SAFETY: point 1, here and in each arm: the attribute is of the type written.
        2 => unsafe { put(data.cast(), about.memory_type) },
        // SAFETY: as above.
        3 if about.device_pointer != 0 => unsafe { put(data.cast(), about.device_pointer) },
        // SAFETY: as above.
        4 if about.host_pointer != 0 => unsafe { put(data.cast(), about.host_pointer) },
        // SAFETY: as above.
        6 => unsafe { put(data.cast(), 0 as c_int) },
        // SAFETY: as above.
        7 => unsafe { put(data.cast(), start) },
        // SAFETY: as above.
        8 => unsafe { put(data.cast(), about.is_managed != 0) },
        // SAFETY: as above.
        9 => unsafe { put(data.cast(), about.device) },
        // SAFETY: as above.
        11 => unsafe { put(data.cast(), start) },
        // SAFETY: as above.
        12 => unsafe { put(data.cast(), bytes) },
        // SAFETY: as above.
        13 => unsafe { put(data.cast(), known) },
        3 | 4 => Err(Status::INVALID_VALUE),
        1 | 5 | 10 | 14..=17 => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Whether a call that may wait for the device may be made.
fn allocating(runtime: &mut Runtime) -> Outcome {
    runtime.may_wait()?;
    runtime.alive()
}

/// # Safety
/// 1. `out` and `pitch` are null or valid for writing.
unsafe fn pitched(runtime: &mut Runtime, out: *mut u64, pitch: *mut usize, extent: Extent) -> Outcome {
    allocating(runtime)?;
    if out.is_null() || pitch.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let step = extent.width.checked_next_multiple_of(PITCH_ALIGN).ok_or(Status::OUT_OF_MEMORY)?;
    let rows = extent.height.checked_mul(extent.depth).ok_or(Status::OUT_OF_MEMORY)?;
    let bytes = step.checked_mul(rows).ok_or(Status::OUT_OF_MEMORY)?;
    let address = runtime.allocate(Kind::Device, bytes as u64, 0, 0)?;
    // SAFETY: point 1.
    unsafe { put(out, address) }?;
    // SAFETY: point 1.
    unsafe { put(pitch, step) }
}

fn fill(runtime: &mut Runtime, stream: u64, set: Set) -> Outcome {
    // SAFETY: a fill has no side that is the host's.
    unsafe { submit(runtime, stream, Work::Set(set)) }
}

fn fill_now(runtime: &mut Runtime, set: Set) -> Outcome {
    runtime.may_use_null_stream()?;
    fill(runtime, 0, set)
}

/// A fill of rows of bytes; of rows that are none there is nothing to do.
fn rows(dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> Set {
    Set { pitch, height, ..Set::line(dst as u64, value as u32, 1, width) }
}

fn slices(target: PitchedPtr, value: c_int, extent: Extent) -> Set {
    let Extent { width, height, depth } = extent;
    Set { rows: target.ysize, depth, ..rows(target.ptr, target.pitch, value, width, height) }
}

exports! {
    /// Device memory, aligned to 256 bytes; 0 bytes give a null pointer.
    fn hipMalloc(out: *mut *mut c_void, bytes: usize) |runtime| {
        allocating(runtime)?;
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let address = runtime.allocate(Kind::Device, bytes as u64, 0, 0)?;
        // SAFETY: point 1.
        unsafe { put(out, address as *mut c_void) }
    }

    /// Device memory, fine-grained (1) or not (0), which is the same here; signals (2) are not there.
    fn hipExtMallocWithFlags(out: *mut *mut c_void, bytes: usize, flags: c_uint) |runtime| {
        allocating(runtime)?;
        if out.is_null() || flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        let address = runtime.allocate(Kind::Device, bytes as u64, flags, 0)?;
        // SAFETY: point 1.
        unsafe { put(out, address as *mut c_void) }
    }

    /// Rows that start at multiples of 256 bytes.
    fn hipMallocPitch(out: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { pitched(runtime, out.cast(), pitch, Extent { width, height, depth: 1 }) }
    }

    /// The same; elements are of 4, 8 or 16 bytes.
    fn hipMemAllocPitch(
        out: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize, element_bytes: c_uint,
    ) |runtime| {
        if !matches!(element_bytes, 4 | 8 | 16) {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        unsafe { pitched(runtime, out.cast(), pitch, Extent { width, height, depth: 1 }) }
    }

    /// Slices of rows that start at multiples of 256 bytes.
    fn hipMalloc3D(out: *mut PitchedPtr, extent: Extent) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let (mut address, mut pitch) = (0u64, 0usize);
        // SAFETY: both are locals.
        unsafe { pitched(runtime, &raw mut address, &raw mut pitch, extent) }?;
        let made = PitchedPtr { ptr: address as *mut c_void, pitch, xsize: extent.width, ysize: extent.height };
        // SAFETY: point 1.
        unsafe { put(out, made) }
    }

    /// Frees device or managed memory by its first address; null is nothing to do, anything else that is not live is refused.
    fn hipFree(pointer: *mut c_void) |runtime| {
        allocating(runtime)?;
        if pointer.is_null() {
            return Ok(());
        }
        runtime.release(pointer as u64, &[Kind::Device, Kind::Managed])
    }

    /// Memory that both sides reach by one pointer.
    fn hipMallocManaged(out: *mut *mut c_void, bytes: usize, flags: c_uint) |runtime| {
        allocating(runtime)?;
        if out.is_null() || bytes == 0 || !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE);
        }
        let address = runtime.allocate(Kind::Managed, bytes as u64, flags, 0)?;
        // SAFETY: point 1.
        unsafe { put(out, address as *mut c_void) }
    }

    /// Nothing to move: managed memory is where both sides reach it.
    fn hipMemPrefetchAsync(pointer: *const c_void, bytes: usize, device: c_int, stream: Handle) |runtime| {
        runtime.resolve(stream)?;
        if !matches!(device, -1 | 0) {
            return Err(Status::INVALID_DEVICE);
        }
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        runtime.inside(pointer as u64, bytes as u64)
    }

    /// Advice, 1 to 6 and AMD's 100 and 101, which changes nothing.
    fn hipMemAdvise(pointer: *const c_void, bytes: usize, advice: c_int, device: c_int) |runtime| {
        if !matches!(device, -1 | 0) {
            return Err(Status::INVALID_DEVICE);
        }
        if bytes == 0 || !matches!(advice, 1..=6 | 100 | 101) {
            return Err(Status::INVALID_VALUE);
        }
        runtime.inside(pointer as u64, bytes as u64)
    }

    /// Free and total bytes of the device.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) |runtime| {
        // SAFETY: point 1.
        unsafe { put(free, runtime.memory.free_bytes() as usize) }?;
        // SAFETY: point 1.
        unsafe { put(total, runtime.memory.total() as usize) }
    }

    /// Bytes of the allocation that starts at `pointer`.
    fn hipMemPtrGetInfo(pointer: *mut c_void, bytes: *mut usize) |runtime| {
        let found = runtime.allocations.get(&(pointer as u64)).ok_or(Status::INVALID_VALUE)?.bytes;
        // SAFETY: point 1.
        unsafe { put(bytes, found as usize) }
    }

    /// The allocation that holds `pointer`.
    fn hipMemGetAddressRange(base: *mut *mut c_void, bytes: *mut usize, pointer: *mut c_void) |runtime| {
        let address = pointer as u64;
        let found = runtime.allocation(address).map(|(start, found)| (start, found.bytes));
        let image = || runtime.memory.region(address).map(|region| (region.base(), region.len()));
        let (start, length) = found.or_else(image).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: point 1.
        unsafe { put_if(base, start as *mut c_void) };
        // SAFETY: point 1.
        unsafe { put_if(bytes, length as usize) };
        Ok(())
    }

    /// What an address is. One that nobody allocated or registered is memory of type "unregistered", as in HIP 6.
    fn hipPointerGetAttributes(out: *mut PointerAttributes, pointer: *const c_void) |runtime| {
        if pointer.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let about = describe(runtime, pointer as u64);
        // SAFETY: point 1.
        unsafe { put(out, about) }
    }

    /// One thing about an address.
    fn hipPointerGetAttribute(data: *mut c_void, which: c_int, pointer: *mut c_void) |runtime| {
        // SAFETY: point 1.
        unsafe { attribute(runtime, data, which, pointer as u64) }
    }

    /// Several things about an address; what has no answer is written as zero.
    fn hipDrvPointerGetAttributes(
        count: c_uint, which: *mut c_int, data: *mut *mut c_void, pointer: *mut c_void,
    ) |runtime| {
        if count == 0 || which.is_null() || data.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        for index in 0..count as usize {
            // SAFETY: point 1: as many numbers as `count` says.
            let number = unsafe { get(which.wrapping_add(index)) }?;
            // SAFETY: point 1: as many pointers as `count` says.
            let target = unsafe { get(data.wrapping_add(index)) }?;
            // SAFETY: point 1.
            if unsafe { attribute(runtime, target, number, pointer as u64) }.is_err() {
                match number {
                    // SAFETY: point 1: these are of 8 bytes.
                    1 | 3 | 4 | 7 | 11 | 12 | 17 => unsafe { put(target.cast(), 0u64) }?,
                    // SAFETY: point 1: these are of 4 bytes.
                    2 | 6 | 9 | 14 | 16 => unsafe { put(target.cast(), 0u32) }?,
                    // SAFETY: point 1: these are of 1 byte.
                    8 | 10 | 13 | 15 => unsafe { put(target.cast(), 0u8) }?,
                    _ => return Err(Status::INVALID_VALUE),
                }
            }
        }
        Ok(())
    }

    /// Sets bytes; of `value` the low one counts.
    fn hipMemset(dst: *mut c_void, value: c_int, bytes: usize) |runtime| {
        fill_now(runtime, Set::line(dst as u64, value as u32, 1, bytes))
    }

    /// Sets bytes, in order with `stream`.
    fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: Handle) |runtime| {
        fill(runtime, stream, Set::line(dst as u64, value as u32, 1, bytes))
    }

    /// Sets bytes.
    fn hipMemsetD8(dst: *mut c_void, value: c_uchar, count: usize) |runtime| {
        fill_now(runtime, Set::line(dst as u64, value.into(), 1, count))
    }

    /// Sets bytes, in order with `stream`.
    fn hipMemsetD8Async(dst: *mut c_void, value: c_uchar, count: usize, stream: Handle) |runtime| {
        fill(runtime, stream, Set::line(dst as u64, value.into(), 1, count))
    }

    /// Sets halves.
    fn hipMemsetD16(dst: *mut c_void, value: c_ushort, count: usize) |runtime| {
        fill_now(runtime, Set::line(dst as u64, value.into(), 2, count))
    }

    /// Sets halves, in order with `stream`.
    fn hipMemsetD16Async(dst: *mut c_void, value: c_ushort, count: usize, stream: Handle) |runtime| {
        fill(runtime, stream, Set::line(dst as u64, value.into(), 2, count))
    }

    /// Sets dwords.
    fn hipMemsetD32(dst: *mut c_void, value: c_int, count: usize) |runtime| {
        fill_now(runtime, Set::line(dst as u64, value as u32, 4, count))
    }

    /// Sets dwords, in order with `stream`.
    fn hipMemsetD32Async(dst: *mut c_void, value: c_int, count: usize, stream: Handle) |runtime| {
        fill(runtime, stream, Set::line(dst as u64, value as u32, 4, count))
    }

    /// Sets rows of bytes.
    fn hipMemset2D(dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) |runtime| {
        fill_now(runtime, rows(dst, pitch, value, width, height))
    }

    /// Sets rows of bytes, in order with `stream`.
    fn hipMemset2DAsync(
        dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle,
    ) |runtime| {
        fill(runtime, stream, rows(dst, pitch, value, width, height))
    }

    /// Sets slices of rows of bytes.
    fn hipMemset3D(target: PitchedPtr, value: c_int, extent: Extent) |runtime| {
        fill_now(runtime, slices(target, value, extent))
    }

    /// Sets slices of rows of bytes, in order with `stream`.
    fn hipMemset3DAsync(target: PitchedPtr, value: c_int, extent: Extent, stream: Handle) |runtime| {
        fill(runtime, stream, slices(target, value, extent))
    }
}
