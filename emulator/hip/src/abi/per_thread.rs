//! The same calls for programs compiled so that the default stream is each thread's own: the null stream becomes `hipStreamPerThread`, and
//! what is synchronous waits for that one alone.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use super::copy::{self, Copy3D};
use super::memory::{self, Extent, PitchedPtr};
use super::stream::{self, Callback, HostFn};
use super::{Dim3, Handle, capture, event, exports, graph, register};
use crate::runtime::{LEGACY_STREAM, Outcome, PER_THREAD_STREAM};
use crate::status::Status;

/// The stream that is meant.
fn own(stream: u64) -> u64 {
    if matches!(stream, 0 | LEGACY_STREAM) { PER_THREAD_STREAM } else { stream }
}

/// The answer of a call as an outcome.
fn done(status: c_int) -> Outcome {
    if status == 0 { Ok(()) } else { Err(Status(status)) }
}

/// What is done in order with the thread's stream is done on return.
const OWN: u64 = PER_THREAD_STREAM;

exports! {
    /// [`copy::hipMemcpy`].
    fn hipMemcpy_spt(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int) {
        // SAFETY: point 1, here and below: the call asks the same of its pointers.
        done(unsafe { copy::hipMemcpyWithStream(dst, src, bytes, kind, OWN) })
    }

    /// [`copy::hipMemcpyAsync`].
    fn hipMemcpyAsync_spt(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int, stream: Handle) {
        // SAFETY: as above.
        done(unsafe { copy::hipMemcpyAsync(dst, src, bytes, kind, own(stream)) })
    }

    /// [`copy::hipMemcpy2D`].
    fn hipMemcpy2D_spt(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize, height: usize,
        kind: c_int,
    ) {
        // SAFETY: as above.
        done(unsafe { copy::hipMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, OWN) })
    }

    /// [`copy::hipMemcpy3D`].
    fn hipMemcpy3D_spt(asked: *const Copy3D) {
        // SAFETY: as above.
        done(unsafe { copy::hipMemcpy3DAsync(asked, OWN) })
    }

    /// [`copy::hipMemcpyToSymbol`].
    fn hipMemcpyToSymbol_spt(
        symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) {
        // SAFETY: as above.
        done(unsafe { copy::hipMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, OWN) })
    }

    /// [`copy::hipMemcpyFromSymbol`].
    fn hipMemcpyFromSymbol_spt(
        dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) {
        // SAFETY: as above.
        done(unsafe { copy::hipMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind, OWN) })
    }

    /// [`memory::hipMemset`].
    fn hipMemset_spt(dst: *mut c_void, value: c_int, bytes: usize) {
        // SAFETY: as above.
        done(unsafe { memory::hipMemsetAsync(dst, value, bytes, OWN) })
    }

    /// [`memory::hipMemsetAsync`].
    fn hipMemsetAsync_spt(dst: *mut c_void, value: c_int, bytes: usize, stream: Handle) {
        // SAFETY: as above.
        done(unsafe { memory::hipMemsetAsync(dst, value, bytes, own(stream)) })
    }

    /// [`memory::hipMemset2D`].
    fn hipMemset2D_spt(dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) {
        // SAFETY: as above.
        done(unsafe { memory::hipMemset2DAsync(dst, pitch, value, width, height, OWN) })
    }

    /// [`memory::hipMemset3D`].
    fn hipMemset3D_spt(target: PitchedPtr, value: c_int, extent: Extent) {
        // SAFETY: as above.
        done(unsafe { memory::hipMemset3DAsync(target, value, extent, OWN) })
    }

    /// [`stream::hipStreamQuery`].
    fn hipStreamQuery_spt(stream: Handle) {
        // SAFETY: as above.
        done(unsafe { stream::hipStreamQuery(own(stream)) })
    }

    /// [`stream::hipStreamSynchronize`].
    fn hipStreamSynchronize_spt(stream: Handle) {
        // SAFETY: as above.
        done(unsafe { stream::hipStreamSynchronize(own(stream)) })
    }

    /// [`stream::hipStreamGetPriority`].
    fn hipStreamGetPriority_spt(stream: Handle, priority: *mut c_int) {
        // SAFETY: as above.
        done(unsafe { stream::hipStreamGetPriority(own(stream), priority) })
    }

    /// [`stream::hipStreamGetFlags`].
    fn hipStreamGetFlags_spt(stream: Handle, flags: *mut c_uint) {
        // SAFETY: as above.
        done(unsafe { stream::hipStreamGetFlags(own(stream), flags) })
    }

    /// [`stream::hipStreamWaitEvent`].
    fn hipStreamWaitEvent_spt(stream: Handle, event: Handle, flags: c_uint) {
        // SAFETY: as above.
        done(unsafe { stream::hipStreamWaitEvent(own(stream), event, flags) })
    }

    /// [`stream::hipStreamAddCallback`].
    fn hipStreamAddCallback_spt(stream: Handle, callback: Option<Callback>, data: *mut c_void, flags: c_uint) {
        // SAFETY: as above.
        done(unsafe { stream::hipStreamAddCallback(own(stream), callback, data, flags) })
    }

    /// [`stream::hipLaunchHostFunc`].
    fn hipLaunchHostFunc_spt(stream: Handle, function: Option<HostFn>, data: *mut c_void) {
        // SAFETY: as above.
        done(unsafe { stream::hipLaunchHostFunc(own(stream), function, data) })
    }

    /// [`event::hipEventRecord`].
    fn hipEventRecord_spt(event: Handle, stream: Handle) {
        // SAFETY: as above.
        done(unsafe { event::hipEventRecord(event, own(stream)) })
    }

    /// [`register::hipLaunchKernel`].
    fn hipLaunchKernel_spt(
        function: *const c_void, grid: Dim3, block: Dim3, params: *mut *mut c_void, lds_bytes: usize, stream: Handle,
    ) {
        // SAFETY: as above.
        done(unsafe { register::hipLaunchKernel(function, grid, block, params, lds_bytes, own(stream)) })
    }

    /// [`register::hipLaunchCooperativeKernel`].
    fn hipLaunchCooperativeKernel_spt(
        function: *const c_void, grid: Dim3, block: Dim3, params: *mut *mut c_void, lds_bytes: c_uint, stream: Handle,
    ) {
        // SAFETY: as above.
        done(unsafe { register::hipLaunchCooperativeKernel(function, grid, block, params, lds_bytes, own(stream)) })
    }

    /// [`capture::hipStreamBeginCapture`].
    fn hipStreamBeginCapture_spt(stream: Handle, mode: c_int) {
        // SAFETY: as above.
        done(unsafe { capture::hipStreamBeginCapture(own(stream), mode) })
    }

    /// [`capture::hipStreamEndCapture`].
    fn hipStreamEndCapture_spt(stream: Handle, graph: *mut Handle) {
        // SAFETY: as above.
        done(unsafe { capture::hipStreamEndCapture(own(stream), graph) })
    }

    /// [`capture::hipStreamIsCapturing`].
    fn hipStreamIsCapturing_spt(stream: Handle, status: *mut c_int) {
        // SAFETY: as above.
        done(unsafe { capture::hipStreamIsCapturing(own(stream), status) })
    }

    /// [`capture::hipStreamGetCaptureInfo`].
    fn hipStreamGetCaptureInfo_spt(stream: Handle, status: *mut c_int, id: *mut c_ulonglong) {
        // SAFETY: as above.
        done(unsafe { capture::hipStreamGetCaptureInfo(own(stream), status, id) })
    }

    /// [`graph::hipGraphLaunch`].
    fn hipGraphLaunch_spt(exec: Handle, stream: Handle) {
        // SAFETY: as above.
        done(unsafe { graph::hipGraphLaunch(exec, own(stream)) })
    }
}
