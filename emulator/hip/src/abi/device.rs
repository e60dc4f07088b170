//! Initialisation, versions, the one device, and statuses by name.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::{Handle, Signature, exports, host_mut, put, put_if, string};
use crate::properties;
use crate::runtime::{LAST_ERROR, Outcome};
use crate::status::Status;

/// `HIP_VERSION` of the interface offered: 6.4, the first that knows gfx1201.
const VERSION: c_int = 6 * 10_000_000 + 4 * 100_000;

pub(super) fn only_device(device: c_int) -> Outcome {
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

/// # Safety
/// 1. `device` is null or valid for writing.
unsafe fn choose(device: *mut c_int, asked: *const c_void) -> Outcome {
    if asked.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // Also where it has less than asked: HIP names the nearest, and there is one.
    // SAFETY: point 1.
    unsafe { put(device, 0) }
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
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |runtime| {
        only_device(device)?;
        let answer = properties::attribute(attribute, runtime.memory.total()).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: point 1.
        unsafe { put(value, answer) }
    }

    /// 12.0, as the properties say.
    fn hipDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) |_| {
        only_device(device)?;
        // SAFETY: point 1.
        unsafe { put(major, 12) }?;
        // SAFETY: point 1.
        unsafe { put(minor, 0) }
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

    /// The device of a PCI address.
    fn hipDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char) |_| {
        // SAFETY: point 1.
        let text = unsafe { string(text) }?;
        if text.as_bytes() != properties::PCI_BUS_ID.to_bytes() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        unsafe { put(device, 0) }
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

    /// The struct of ROCm 5, 792 bytes, by the name that says so.
    fn hipGetDevicePropertiesR0000(properties: *mut c_void, device: c_int) |runtime| {
        only_device(device)?;
        let bytes = properties::r0000(runtime.memory.total());
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

    /// The device nearest to a properties struct of HIP 6: there is one.
    fn hipChooseDeviceR0600(device: *mut c_int, properties: *const c_void) |_| {
        // SAFETY: point 1.
        unsafe { choose(device, properties) }
    }

    /// The device nearest to a properties struct of HIP 5: there is one.
    fn hipChooseDevice(device: *mut c_int, properties: *const c_void) |_| {
        // SAFETY: point 1.
        unsafe { choose(device, properties) }
    }

    /// Nothing to wait for; a trap is told here, every time.
    fn hipDeviceSynchronize() |runtime| {
        runtime.may_wait_for_device()?;
        runtime.alive()
    }

    /// Frees everything, forgets every handle and a trap.
    fn hipDeviceReset() |runtime| {
        runtime.reset();
        crate::stats::write();
        Ok(())
    }

    /// How hosts wait, and whether host memory is mapped: remembered.
    fn hipSetDeviceFlags(flags: c_uint) |runtime| {
        // Schedules auto, spin, yield, blocking (one of them); mapped host memory; local memory kept.
        if flags & !0x1f != 0 || (flags & 0x7).count_ones() > 1 {
            return Err(Status::INVALID_VALUE);
        }
        runtime.device_flags = flags;
        Ok(())
    }

    /// What was remembered.
    fn hipGetDeviceFlags(flags: *mut c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { put(flags, runtime.device_flags) }
    }

    /// Stack, printf and heap sizes: what was set, else a default. Nothing depends on them here.
    fn hipDeviceGetLimit(value: *mut usize, limit: c_int) |runtime| {
        let known = usize::try_from(limit).ok().and_then(|limit| runtime.limits.get(limit));
        let known = *known.ok_or(Status::UNSUPPORTED_LIMIT)? as usize;
        // SAFETY: point 1.
        unsafe { put(value, known) }
    }

    /// Remembers a limit.
    fn hipDeviceSetLimit(limit: c_int, value: usize) |runtime| {
        let known = usize::try_from(limit).ok().and_then(|limit| runtime.limits.get_mut(limit));
        *known.ok_or(Status::UNSUPPORTED_LIMIT)? = value as u64;
        Ok(())
    }

    /// A preference that changes nothing, as on AMD cards.
    fn hipDeviceSetCacheConfig(config: c_int) |_| {
        if (0..=3).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// No preference.
    fn hipDeviceGetCacheConfig(config: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(config, 0) }
    }

    /// A preference that changes nothing, as on AMD cards.
    fn hipDeviceSetSharedMemConfig(config: c_int) |_| {
        if (0..=2).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Banks of four bytes.
    fn hipDeviceGetSharedMemConfig(config: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(config, 1) }
    }

    /// Lowest priority and highest.
    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put_if(least, 1) };
        // SAFETY: point 1.
        unsafe { put_if(greatest, -1) };
        Ok(())
    }

    /// A pair of devices, of which there is none.
    fn hipDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, src: c_int, dst: c_int) |_| {
        let _ = (value, attribute);
        only_device(src)?;
        only_device(dst)?;
        Err(Status::INVALID_DEVICE)
    }

    /// A status's identifier; `hipErrorInvalidValue` for a number that is none.
    fn hipDrvGetErrorName(status: c_int, text: *mut *const c_char) |_| {
        let (name, _) = Status(status).known().ok_or(Status::INVALID_VALUE)?;
        // SAFETY: point 1.
        unsafe { put(text, name.as_ptr()) }
    }

    /// A status's meaning; `hipErrorInvalidValue` for a number that is none.
    fn hipDrvGetErrorString(status: c_int, text: *mut *const c_char) |_| {
        let (_, meaning) = Status(status).known().ok_or(Status::INVALID_VALUE)?;
        // SAFETY: point 1.
        unsafe { put(text, meaning.as_ptr()) }
    }

    /// Nothing is profiled.
    fn hipProfilerStart() |_| { Err(Status::NOT_SUPPORTED) }

    /// Nothing is profiled.
    fn hipProfilerStop() |_| { Err(Status::NOT_SUPPORTED) }
}

/// The address of one of the functions below.
pub(super) fn other_address(name: &str) -> Option<*const c_void> {
    match name {
        "hipGetErrorName" => Some(hipGetErrorName as *const c_void),
        "hipGetErrorString" => Some(hipGetErrorString as *const c_void),
        "hipGetLastError" => Some(hipGetLastError as *const c_void),
        "hipExtGetLastError" => Some(hipExtGetLastError as *const c_void),
        "hipPeekAtLastError" => Some(hipPeekAtLastError as *const c_void),
        _ => None,
    }
}

/// What else is exported here.
pub const OTHER_SIGNATURES: &[Signature] = &[
    Signature { name: "hipGetErrorName", parameters: &["c_int"], result: "*const c_char" },
    Signature { name: "hipGetErrorString", parameters: &["c_int"], result: "*const c_char" },
    Signature { name: "hipGetLastError", parameters: &[], result: "c_int" },
    Signature { name: "hipExtGetLastError", parameters: &[], result: "c_int" },
    Signature { name: "hipPeekAtLastError", parameters: &[], result: "c_int" },
    Signature { name: "hipGetStreamDeviceId", parameters: &["Handle"], result: "c_int" },
];

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

/// The same by another name.
#[unsafe(no_mangle)]
pub extern "C" fn hipExtGetLastError() -> c_int {
    hipGetLastError()
}

/// This thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    LAST_ERROR.get().0
}

/// Ordinal of the device of a stream, -1 for a stream that is none.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetStreamDeviceId(stream: Handle) -> c_int {
    std::panic::catch_unwind(|| crate::runtime::lock().resolve(stream)).map_or(-1, |found| found.map_or(-1, |_| 0))
}
