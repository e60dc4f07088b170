//! Initialisation, versions, the one device, and statuses by name.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::{exports, host_mut, put};
use crate::properties;
use crate::runtime::{LAST_ERROR, Outcome};
use crate::status::Status;

/// `HIP_VERSION` of the interface offered: 6.4, the first that knows gfx1201.
const VERSION: c_int = 6 * 10_000_000 + 4 * 100_000;

fn only_device(device: c_int) -> Outcome {
    if device == 0 { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

/// Copies `text` and its terminator into a caller's array of `len` bytes, cut to fit.
///
/// # Safety
/// 1. `out` is null or valid for writing `len` bytes.
unsafe fn put_string(out: *mut c_char, len: c_int, text: &CStr) -> Outcome {
    let len = usize::try_from(len).map_err(|_| Status::INVALID_VALUE)?;
    if len == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: point 1.
    let out = unsafe { host_mut(out.cast::<c_void>(), len) }?;
    let kept = text.to_bytes().len().min(len - 1);
    out[..kept].copy_from_slice(&text.to_bytes()[..kept]);
    out[kept] = 0;
    Ok(())
}

exports! {
    /// Nothing to initialise; flags other than 0 are refused.
    fn hipInit(flags: c_uint) |_| {
        if flags == 0 { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// The HIP version whose interface this is.
    fn hipRuntimeGetVersion(version: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(version, VERSION) }
    }

    /// The same: there is no driver below.
    fn hipDriverGetVersion(version: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(version, VERSION) }
    }

    /// Always one.
    fn hipGetDeviceCount(count: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(count, 1) }
    }

    /// Always device 0.
    fn hipGetDevice(device: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(device, 0) }
    }

    /// Accepts device 0.
    fn hipSetDevice(device: c_int) |_| { only_device(device) }

    /// The handle of device 0 is 0.
    fn hipDeviceGet(out: *mut c_int, ordinal: c_int) |_| {
        only_device(ordinal)?;
        // SAFETY: point 1.
        unsafe { put(out, 0) }
    }

    /// One attribute; `hipErrorInvalidValue` for a number without an answer.
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |_| {
        only_device(device)?;
        let answer = properties::attribute(attribute).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: point 1.
        unsafe { put(value, answer) }
    }

    /// The device's name, cut to `len` bytes.
    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) |_| {
        only_device(device)?;
        // SAFETY: point 1.
        unsafe { put_string(name, len, properties::NAME) }
    }

    /// The unique id, 16 bytes.
    fn hipDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) |_| {
        only_device(device)?;
        // SAFETY: point 1.
        unsafe { put(uuid, properties::UUID) }
    }

    /// The PCI address as text.
    fn hipDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) |_| {
        only_device(device)?;
        // SAFETY: point 1.
        unsafe { put_string(text, len, properties::PCI_BUS_ID) }
    }

    /// Device memory in bytes.
    fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) |runtime| {
        only_device(device)?;
        // SAFETY: point 1.
        unsafe { put(bytes, runtime.memory.total() as usize) }
    }

    /// `hipDeviceProp_tR0600`, 1472 bytes.
    fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) |runtime| {
        only_device(device)?;
        let bytes = properties::r0600(runtime.memory.total());
        // SAFETY: point 1: the caller's struct has this many bytes.
        unsafe { host_mut(properties, bytes.len()) }?.copy_from_slice(&bytes);
        Ok(())
    }

    /// The struct of ROCm 5 under its unversioned name, 792 bytes.
    fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) |runtime| {
        only_device(device)?;
        let bytes = properties::r0000(runtime.memory.total());
        // SAFETY: point 1: the caller's struct has this many bytes.
        unsafe { host_mut(properties, bytes.len()) }?.copy_from_slice(&bytes);
        Ok(())
    }

    /// Work is done when queued; a failure nobody was told of is told here.
    fn hipDeviceSynchronize() |runtime| { runtime.wait_all() }
}

/// HIP's identifier of a status; never null.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    Status(status).name().as_ptr()
}

/// What a status means; never null.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(status: c_int) -> *const c_char {
    Status(status).text().as_ptr()
}

/// This thread's last failure, which it forgets.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> c_int {
    LAST_ERROR.replace(Status::SUCCESS).0
}

/// This thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    LAST_ERROR.get().0
}
