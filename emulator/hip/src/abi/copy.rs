//! Copies: lines, rows and boxes, between host and device, to and from variables of code objects. Each becomes a [`Copy`]; arrays and
//! textures, which HIP's structs could also name, are refused.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint, c_void};

use super::memory::{Extent, PitchedPtr};
use super::work::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, submit};
use super::{Handle, exports, get};
use crate::runtime::{Outcome, Runtime};
use crate::status::Status;
use crate::work::{Copy, Place, Work};

/// `hipPos`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Pos {
    x: usize,
    y: usize,
    z: usize,
}

/// `hipMemcpy3DParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Copy3D {
    src_array: u64,
    src_pos: Pos,
    src: PitchedPtr,
    dst_array: u64,
    dst_pos: Pos,
    dst: PitchedPtr,
    extent: Extent,
    kind: c_int,
}

/// `hip_Memcpy2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Copy2D {
    src_x: usize,
    src_y: usize,
    src_type: c_int,
    src_host: *const c_void,
    src_device: u64,
    src_array: u64,
    src_pitch: usize,
    dst_x: usize,
    dst_y: usize,
    dst_type: c_int,
    dst_host: *mut c_void,
    dst_device: u64,
    dst_array: u64,
    dst_pitch: usize,
    width: usize,
    height: usize,
}

fn place(base: u64, pitch: usize, rows: usize, at: [usize; 3]) -> Outcome<Place> {
    let [x, y, z] = at;
    let offset = z.checked_mul(rows).and_then(|z| z.checked_add(y)?.checked_mul(pitch)?.checked_add(x));
    let address = offset.and_then(|offset| base.checked_add(offset as u64)).ok_or(Status::INVALID_VALUE)?;
    Ok(Place { address: if base == 0 { 0 } else { address }, pitch, rows })
}

impl Copy3D {
    /// The copy that it asks for.
    pub(super) fn copy(&self) -> Outcome<Copy> {
        if self.src_array != 0 || self.dst_array != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let (from, to) = (self.src_pos, self.dst_pos);
        let Extent { width, height, depth } = self.extent;
        Ok(Copy {
            dst: place(self.dst.ptr as u64, self.dst.pitch, self.dst.ysize, [to.x, to.y, to.z])?,
            src: place(self.src.ptr as u64, self.src.pitch, self.src.ysize, [from.x, from.y, from.z])?,
            width,
            height,
            depth,
            kind: self.kind,
        })
    }

    /// What asks for a copy.
    pub(super) fn from_copy(copy: &Copy) -> Self {
        let pitched = |place: Place| PitchedPtr {
            ptr: place.address as *mut c_void,
            pitch: place.pitch,
            xsize: copy.width,
            ysize: place.rows,
        };
        let origin = Pos { x: 0, y: 0, z: 0 };
        Self {
            src_array: 0,
            src_pos: origin,
            src: pitched(copy.src),
            dst_array: 0,
            dst_pos: origin,
            dst: pitched(copy.dst),
            extent: Extent { width: copy.width, height: copy.height, depth: copy.depth },
            kind: copy.kind,
        }
    }
}

impl Copy2D {
    fn copy(&self) -> Outcome<Copy> {
        // Types of both headers: host is 0 or 1, device 1 or 2; where they contradict the address decides, so only arrays are told apart.
        if self.src_array != 0 || self.dst_array != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let pick = |host: u64, device: u64| if device != 0 { device } else { host };
        let (src, dst) = (pick(self.src_host as u64, self.src_device), pick(self.dst_host as u64, self.dst_device));
        let pitch = |pitch: usize| if pitch == 0 { self.width } else { pitch };
        Ok(Copy {
            dst: place(dst, pitch(self.dst_pitch), 1, [self.dst_x, self.dst_y, 0])?,
            src: place(src, pitch(self.src_pitch), 1, [self.src_x, self.src_y, 0])?,
            width: self.width,
            height: self.height,
            depth: 1,
            kind: DEFAULT,
        })
    }
}

/// # Safety
/// 1. As [`submit`].
unsafe fn copy(runtime: &mut Runtime, stream: u64, copy: Copy) -> Outcome {
    // SAFETY: point 1.
    unsafe { submit(runtime, stream, Work::Copy(copy)) }
}

/// A copy that is done on return and waits for everything, so that nothing may be capturing.
///
/// # Safety
/// 1. As [`submit`].
unsafe fn copy_now(runtime: &mut Runtime, asked: Copy) -> Outcome {
    runtime.may_use_null_stream()?;
    // SAFETY: point 1.
    unsafe { copy(runtime, 0, asked) }
}

fn rows(dst: u64, dst_pitch: usize, src: u64, src_pitch: usize, size: [usize; 2], kind: c_int) -> Copy {
    let [width, height] = size;
    Copy {
        dst: Place { address: dst, pitch: dst_pitch, rows: 1 },
        src: Place { address: src, pitch: src_pitch, rows: 1 },
        width,
        height,
        depth: 1,
        kind,
    }
}

/// A copy to (`Ok` of the source) or from (`Err` of the target) a registered variable.
pub(super) fn symbol_copy(
    runtime: &mut Runtime,
    symbol: u64,
    other: Result<u64, u64>,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> Outcome<Copy> {
    let (address, size) = runtime.symbol(symbol)?;
    let end = offset.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
    if end as u64 > size {
        return Err(Status::INVALID_VALUE);
    }
    let variable = address + offset as u64;
    match (other, kind) {
        (Ok(src), HOST_TO_DEVICE | DEVICE_TO_DEVICE | DEFAULT) => Ok(Copy::line(variable, src, bytes, kind)),
        (Err(dst), DEVICE_TO_HOST | DEVICE_TO_DEVICE | DEFAULT) => Ok(Copy::line(dst, variable, bytes, kind)),
        _ => Err(Status::INVALID_MEMCPY_DIRECTION),
    }
}

fn only_device(device: c_int) -> Outcome {
    if device == 0 { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

exports! {
    /// A copy, done on return.
    fn hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int) |runtime| {
        // SAFETY: point 1.
        unsafe { copy_now(runtime, Copy::line(dst as u64, src as u64, bytes, kind)) }
    }

    /// A copy in order with `stream`.
    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int, stream: Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, Copy::line(dst as u64, src as u64, bytes, kind)) }
    }

    /// A copy in order with `stream`, done on return.
    fn hipMemcpyWithStream(
        dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int, stream: Handle,
    ) |runtime| {
        runtime.may_wait_for(stream)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, Copy::line(dst as u64, src as u64, bytes, kind)) }
    }

    /// Host to device.
    fn hipMemcpyHtoD(dst: *mut c_void, src: *const c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { copy_now(runtime, Copy::line(dst as u64, src as u64, bytes, HOST_TO_DEVICE)) }
    }

    /// Device to host.
    fn hipMemcpyDtoH(dst: *mut c_void, src: *mut c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { copy_now(runtime, Copy::line(dst as u64, src as u64, bytes, DEVICE_TO_HOST)) }
    }

    /// Device to device.
    fn hipMemcpyDtoD(dst: *mut c_void, src: *mut c_void, bytes: usize) |runtime| {
        // SAFETY: point 1.
        unsafe { copy_now(runtime, Copy::line(dst as u64, src as u64, bytes, DEVICE_TO_DEVICE)) }
    }

    /// Host to device, in order with `stream`.
    fn hipMemcpyHtoDAsync(dst: *mut c_void, src: *const c_void, bytes: usize, stream: Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, Copy::line(dst as u64, src as u64, bytes, HOST_TO_DEVICE)) }
    }

    /// Device to host, in order with `stream`.
    fn hipMemcpyDtoHAsync(dst: *mut c_void, src: *mut c_void, bytes: usize, stream: Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, Copy::line(dst as u64, src as u64, bytes, DEVICE_TO_HOST)) }
    }

    /// Device to device, in order with `stream`.
    fn hipMemcpyDtoDAsync(dst: *mut c_void, src: *mut c_void, bytes: usize, stream: Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, Copy::line(dst as u64, src as u64, bytes, DEVICE_TO_DEVICE)) }
    }

    /// Between devices, of which there is one.
    fn hipMemcpyPeer(
        dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize,
    ) |runtime| {
        only_device(dst_device)?;
        only_device(src_device)?;
        // SAFETY: point 1.
        unsafe { copy_now(runtime, Copy::line(dst as u64, src as u64, bytes, DEVICE_TO_DEVICE)) }
    }

    /// Between devices, of which there is one, in order with `stream`.
    fn hipMemcpyPeerAsync(
        dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: Handle,
    ) |runtime| {
        only_device(dst_device)?;
        only_device(src_device)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, Copy::line(dst as u64, src as u64, bytes, DEVICE_TO_DEVICE)) }
    }

    /// Rows of bytes.
    fn hipMemcpy2D(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize, height: usize,
        kind: c_int,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { copy_now(runtime, rows(dst as u64, dst_pitch, src as u64, src_pitch, [width, height], kind)) }
    }

    /// Rows of bytes, in order with `stream`.
    fn hipMemcpy2DAsync(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize, height: usize,
        kind: c_int, stream: Handle,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, rows(dst as u64, dst_pitch, src as u64, src_pitch, [width, height], kind)) }
    }

    /// Rows of bytes, described by a struct.
    fn hipMemcpyParam2D(asked: *const Copy2D) |runtime| {
        // SAFETY: point 1.
        let asked = unsafe { get(asked) }?.copy()?;
        // SAFETY: point 1.
        unsafe { copy_now(runtime, asked) }
    }

    /// The same: alignment makes no difference here.
    fn hipDrvMemcpy2DUnaligned(asked: *const Copy2D) |runtime| {
        // SAFETY: point 1.
        let asked = unsafe { get(asked) }?.copy()?;
        // SAFETY: point 1.
        unsafe { copy_now(runtime, asked) }
    }

    /// Rows of bytes, described by a struct, in order with `stream`.
    fn hipMemcpyParam2DAsync(asked: *const Copy2D, stream: Handle) |runtime| {
        // SAFETY: point 1.
        let asked = unsafe { get(asked) }?.copy()?;
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, asked) }
    }

    /// Slices of rows of bytes.
    fn hipMemcpy3D(asked: *const Copy3D) |runtime| {
        // SAFETY: point 1.
        let asked = unsafe { get(asked) }?.copy()?;
        // SAFETY: point 1.
        unsafe { copy_now(runtime, asked) }
    }

    /// Slices of rows of bytes, in order with `stream`.
    fn hipMemcpy3DAsync(asked: *const Copy3D, stream: Handle) |runtime| {
        // SAFETY: point 1.
        let asked = unsafe { get(asked) }?.copy()?;
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, asked) }
    }

    /// To a registered variable.
    fn hipMemcpyToSymbol(
        symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) |runtime| {
        let asked = symbol_copy(runtime, symbol as u64, Ok(src as u64), bytes, offset, kind)?;
        // SAFETY: point 1.
        unsafe { copy_now(runtime, asked) }
    }

    /// To a registered variable, in order with `stream`.
    fn hipMemcpyToSymbolAsync(
        symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_int, stream: Handle,
    ) |runtime| {
        let asked = symbol_copy(runtime, symbol as u64, Ok(src as u64), bytes, offset, kind)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, asked) }
    }

    /// From a registered variable.
    fn hipMemcpyFromSymbol(
        dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) |runtime| {
        let asked = symbol_copy(runtime, symbol as u64, Err(dst as u64), bytes, offset, kind)?;
        // SAFETY: point 1.
        unsafe { copy_now(runtime, asked) }
    }

    /// From a registered variable, in order with `stream`.
    fn hipMemcpyFromSymbolAsync(
        dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int, stream: Handle,
    ) |runtime| {
        let asked = symbol_copy(runtime, symbol as u64, Err(dst as u64), bytes, offset, kind)?;
        // SAFETY: point 1.
        unsafe { copy(runtime, stream, asked) }
    }

    /// Nobody to reach: there is one device.
    fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) |_| {
        only_device(device)?;
        only_device(peer)?;
        // SAFETY: point 1.
        unsafe { super::put(can, 0) }
    }

    /// Nobody to reach.
    fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) |_| {
        only_device(peer)?;
        if flags != 0 { Err(Status::INVALID_VALUE) } else { Err(Status::INVALID_DEVICE) }
    }

    /// Nobody was reached.
    fn hipDeviceDisablePeerAccess(peer: c_int) |_| {
        only_device(peer)?;
        Err(Status::PEER_ACCESS_NOT_ENABLED)
    }
}
