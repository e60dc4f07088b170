//! Allocation, copies and fills. Device addresses are numbers of the emulator's own: a copy looks at its live allocations, so a range
//! that leaves one, or an address of the host given for a device's, is a status.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uchar, c_ushort, c_void};

use super::{exports, host, host_mut, put};
use crate::runtime::{Outcome, Runtime, memory_status};
use crate::status::Status;

/// `hipMemcpyKind`.
const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
const DEFAULT: c_int = 4;

/// A copy of any kind.
///
/// # Safety
/// 1. On the sides that `kind` names as the host's, `dst` is valid for writing and `src` for reading `bytes` bytes, or null; with
///    [`DEFAULT`] a side is the host's when it is in no live allocation.
unsafe fn copy(runtime: &mut Runtime, dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int) -> Outcome {
    if bytes == 0 {
        return Ok(());
    }
    let kind = match kind {
        DEFAULT => match (runtime.is_device(dst as u64), runtime.is_device(src as u64)) {
            (false, false) => HOST_TO_HOST,
            (true, false) => HOST_TO_DEVICE,
            (false, true) => DEVICE_TO_HOST,
            (true, true) => DEVICE_TO_DEVICE,
        },
        other => other,
    };
    let refused = |error| memory_status(&error);
    match kind {
        HOST_TO_HOST => {
            if dst.is_null() || src.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            // SAFETY: point 1 for both sides; `copy` allows them to overlap.
            unsafe { std::ptr::copy(src.cast::<u8>(), dst.cast::<u8>(), bytes) };
            Ok(())
        }
        HOST_TO_DEVICE => {
            // SAFETY: point 1 for the source.
            let source = unsafe { host(src, bytes) }?;
            runtime.memory.write(dst as u64, source).map_err(refused)
        }
        DEVICE_TO_HOST => {
            // The range is checked before the host's side becomes a slice, so that nothing is touched when it is wrong.
            inside(runtime, src as u64, bytes)?;
            // SAFETY: point 1 for the target.
            let target = unsafe { host_mut(dst, bytes) }?;
            runtime.memory.read(src as u64, target).map_err(refused)
        }
        DEVICE_TO_DEVICE => {
            inside(runtime, dst as u64, bytes)?;
            inside(runtime, src as u64, bytes)?;
            // In pieces, forwards or backwards, so that overlapping ranges come out as memmove's do.
            const PIECE: usize = 1 << 20;
            let mut buffer = vec![0u8; bytes.min(PIECE)];
            let starts: Vec<usize> = (0..bytes).step_by(PIECE).collect();
            let backwards = (dst as u64) > (src as u64);
            for index in 0..starts.len() {
                let start = starts[if backwards { starts.len() - 1 - index } else { index }];
                let piece = &mut buffer[..PIECE.min(bytes - start)];
                runtime.memory.read(src as u64 + start as u64, piece).map_err(refused)?;
                runtime.memory.write(dst as u64 + start as u64, piece).map_err(refused)?;
            }
            Ok(())
        }
        _ => Err(Status::INVALID_MEMCPY_DIRECTION),
    }
}

/// Whether a range is inside one live allocation.
fn inside(runtime: &Runtime, address: u64, bytes: usize) -> Outcome {
    match runtime.memory.region(address) {
        Some(region) if region.contains(address, bytes as u64) => Ok(()),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Sets `count` elements of `N` bytes.
fn set<const N: usize>(runtime: &mut Runtime, dst: *mut c_void, pattern: [u8; N], count: usize) -> Outcome {
    let bytes = count.checked_mul(N).ok_or(Status::INVALID_VALUE)?;
    if bytes == 0 {
        return Ok(());
    }
    let address = dst as u64;
    if !address.is_multiple_of(N as u64) {
        return Err(Status::INVALID_VALUE);
    }
    inside(runtime, address, bytes)?;
    if pattern.iter().all(|byte| *byte == pattern[0]) {
        return runtime.memory.fill(address, bytes as u64, pattern[0]).map_err(|error| memory_status(&error));
    }
    let piece = pattern.repeat(count.min(1 << 16));
    for start in (0..bytes).step_by(piece.len()) {
        let part = &piece[..piece.len().min(bytes - start)];
        runtime.memory.write(address + start as u64, part).map_err(|error| memory_status(&error))?;
    }
    Ok(())
}

exports! {
    /// Device memory, aligned to 256 bytes; 0 bytes give a null pointer.
    fn hipMalloc(out: *mut *mut c_void, bytes: usize) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let address = if bytes == 0 {
            0
        } else {
            runtime.memory.alloc(bytes as u64).map_err(|error| memory_status(&error))?
        };
        // SAFETY: point 1.
        unsafe { put(out, address as *mut c_void) }
    }

    /// Frees an allocation by its first address; null is nothing to do, anything else that is not live is refused.
    fn hipFree(pointer: *mut c_void) |runtime| {
        if pointer.is_null() {
            return Ok(());
        }
        if runtime.modules.values().any(|module| module.base() == pointer as u64) {
            return Err(Status::INVALID_VALUE);
        }
        runtime.memory.free(pointer as u64).map_err(|error| memory_status(&error))
    }

    /// Free and total bytes.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) |runtime| {
        // SAFETY: point 1.
        unsafe { put(free, runtime.memory.free_bytes() as usize) }?;
        // SAFETY: point 1.
        unsafe { put(total, runtime.memory.total() as usize) }
    }

    /// A copy, done on return.
    fn hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int) |runtime| {
        runtime.wait(0)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, kind) }
    }

    /// A copy in order with `stream`.
    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int, stream: u64) |runtime| {
        runtime.stream(stream)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, kind) }
    }

    /// A copy in order with `stream`, done on return.
    fn hipMemcpyWithStream(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int, stream: u64) |runtime| {
        runtime.wait(stream)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, kind) }
    }

    /// Host to device.
    fn hipMemcpyHtoD(dst: *mut c_void, src: *const c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, HOST_TO_DEVICE) }
    }

    /// Device to host.
    fn hipMemcpyDtoH(dst: *mut c_void, src: *mut c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, DEVICE_TO_HOST) }
    }

    /// Device to device.
    fn hipMemcpyDtoD(dst: *mut c_void, src: *mut c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, DEVICE_TO_DEVICE) }
    }

    /// Host to device, in order with `stream`.
    fn hipMemcpyHtoDAsync(dst: *mut c_void, src: *const c_void, bytes: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, HOST_TO_DEVICE) }
    }

    /// Device to host, in order with `stream`.
    fn hipMemcpyDtoHAsync(dst: *mut c_void, src: *mut c_void, bytes: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, DEVICE_TO_HOST) }
    }

    /// Device to device, in order with `stream`.
    fn hipMemcpyDtoDAsync(dst: *mut c_void, src: *mut c_void, bytes: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, dst, src, bytes, DEVICE_TO_DEVICE) }
    }

    /// Sets bytes; of `value` the low one counts.
    fn hipMemset(dst: *mut c_void, value: c_int, bytes: usize) |runtime| {
        set(runtime, dst, [value as u8], bytes)
    }

    /// Sets bytes, in order with `stream`.
    fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        set(runtime, dst, [value as u8], bytes)
    }

    /// Sets bytes.
    fn hipMemsetD8(dst: *mut c_void, value: c_uchar, count: usize) |runtime| { set(runtime, dst, [value], count) }

    /// Sets bytes, in order with `stream`.
    fn hipMemsetD8Async(dst: *mut c_void, value: c_uchar, count: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        set(runtime, dst, [value], count)
    }

    /// Sets halves.
    fn hipMemsetD16(dst: *mut c_void, value: c_ushort, count: usize) |runtime| {
        set(runtime, dst, value.to_le_bytes(), count)
    }

    /// Sets halves, in order with `stream`.
    fn hipMemsetD16Async(dst: *mut c_void, value: c_ushort, count: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        set(runtime, dst, value.to_le_bytes(), count)
    }

    /// Sets dwords.
    fn hipMemsetD32(dst: *mut c_void, value: c_int, count: usize) |runtime| {
        set(runtime, dst, value.to_le_bytes(), count)
    }

    /// Sets dwords, in order with `stream`.
    fn hipMemsetD32Async(dst: *mut c_void, value: c_int, count: usize, stream: u64) |runtime| {
        runtime.stream(stream)?;
        set(runtime, dst, value.to_le_bytes(), count)
    }

    /// The allocation that holds `pointer`.
    fn hipMemGetAddressRange(base: *mut *mut c_void, bytes: *mut usize, pointer: *mut c_void) |runtime| {
        let region = runtime.memory.region(pointer as u64).ok_or(Status::INVALID_VALUE)?;
        if !base.is_null() {
            // SAFETY: point 1.
            unsafe { put(base, region.base() as *mut c_void) }?;
        }
        if !bytes.is_null() {
            // SAFETY: point 1.
            unsafe { put(bytes, region.len() as usize) }?;
        }
        Ok(())
    }
}
