//! Streams. Work is done when it is queued, so every stream is always idle; what the program gave to be called back is called at once, by
//! the calling thread, with nothing held.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint, c_void};

use super::work::{check, prepare};
use super::{Handle, exports, put};
use crate::runtime::{LEGACY_STREAM, Outcome, PER_THREAD_STREAM, Runtime, Stream, lock};
use crate::status::Status;
use crate::work::Work;

/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// Lowest and highest priority.
const PRIORITIES: (c_int, c_int) = (1, -1);

/// `hipHostFn_t`.
pub type HostFn = unsafe extern "C" fn(*mut c_void);
/// `hipStreamCallback_t`.
pub type Callback = unsafe extern "C" fn(u64, c_int, *mut c_void);

/// # Safety
/// 1. `out` is null or valid for writing a handle.
unsafe fn create(runtime: &mut Runtime, out: *mut u64, flags: c_uint, priority: c_int) -> Outcome {
    if out.is_null() || flags > NON_BLOCKING {
        return Err(Status::INVALID_VALUE);
    }
    let (least, greatest) = PRIORITIES;
    let handle = runtime.handle();
    runtime.streams.insert(handle, Stream { flags, priority: priority.clamp(greatest, least), capture: None });
    // SAFETY: point 1.
    unsafe { put(out, handle) }
}

/// Calls a function of the program.
///
/// # Safety
/// 1. `function` is the address of a [`HostFn`] that may be called with `data` now.
pub(super) unsafe fn call_host(function: u64, data: u64) {
    let address = function as *const c_void;
    // SAFETY: point 1: it is such a function; data and function pointers are alike on this target.
    let function = unsafe { std::mem::transmute::<*const c_void, HostFn>(address) };
    // SAFETY: point 1.
    unsafe { function(data as *mut c_void) };
}

exports! {
    /// A stream.
    fn hipStreamCreate(out: *mut Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { create(runtime, out, 0, 0) }
    }

    /// A stream, blocking (0) or not (1).
    fn hipStreamCreateWithFlags(out: *mut Handle, flags: c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { create(runtime, out, flags, 0) }
    }

    /// A stream whose priority is cut to the range and changes nothing.
    fn hipStreamCreateWithPriority(out: *mut Handle, flags: c_uint, priority: c_int) |runtime| {
        // SAFETY: point 1.
        unsafe { create(runtime, out, flags, priority) }
    }

    /// Ends a stream and what it was capturing; default streams and unknown handles are refused.
    fn hipStreamDestroy(stream: Handle) |runtime| {
        if matches!(stream, 0 | LEGACY_STREAM | PER_THREAD_STREAM) {
            return Err(Status::INVALID_HANDLE);
        }
        runtime.resolve(stream)?;
        runtime.abandon_capture(stream);
        runtime.streams.remove(&stream);
        Ok(())
    }

    /// Waits; a trap is told here, every time.
    fn hipStreamSynchronize(stream: Handle) |runtime| {
        runtime.may_wait_for(stream)?;
        runtime.alive()
    }

    /// Always ready.
    fn hipStreamQuery(stream: Handle) |runtime| {
        runtime.may_wait_for(stream)?;
        runtime.alive()
    }

    /// The flags it was created with.
    fn hipStreamGetFlags(stream: Handle, flags: *mut c_uint) |runtime| {
        let value = runtime.stream(stream)?.flags;
        // SAFETY: point 1.
        unsafe { put(flags, value) }
    }

    /// The priority it was created with, cut to the range.
    fn hipStreamGetPriority(stream: Handle, priority: *mut c_int) |runtime| {
        let value = runtime.stream(stream)?.priority;
        // SAFETY: point 1.
        unsafe { put(priority, value) }
    }

    /// Device 0.
    fn hipStreamGetDevice(stream: Handle, device: *mut c_int) |runtime| {
        runtime.resolve(stream)?;
        // SAFETY: point 1.
        unsafe { put(device, 0) }
    }

    /// Nothing to wait for outside a capture: the event was reached when it was recorded. In one, or for an event of one, the stream takes
    /// part in the capture from then on.
    fn hipStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) |runtime| {
        // 1 is `hipEventWaitExternal`, which a capture would make a node of.
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        let resolved = runtime.resolve(stream)?;
        runtime.event(event)?;
        if flags == 1 {
            let sequence = runtime.capturing(resolved)?.ok_or(Status::INVALID_VALUE)?;
            return runtime.capture_work(resolved, sequence, Work::Wait(event));
        }
        if runtime.capture_wait(resolved, event)? {
            return Ok(());
        }
        runtime.alive()
    }

    /// Calls a function of the program after what the stream holds, at once and on this thread.
    fn hipLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: *mut c_void) {
        let function = function.ok_or(Status::INVALID_VALUE)? as usize as u64;
        let work = Work::Host(function, data as u64);
        {
            let mut runtime = lock();
            let resolved = runtime.resolve(stream)?;
            check(&runtime, &work)?;
            if let Some(sequence) = prepare(&mut runtime, resolved, &work)? {
                return runtime.capture_work(resolved, sequence, work);
            }
        }
        // SAFETY: point 1: the caller gives a function that may be called with its data.
        unsafe { call_host(function, data as u64) };
        Ok(())
    }

    /// Calls a function of the program with the stream and its status, at once and on this thread; it is called also after a trap, to be
    /// told of it. Not possible in a capture.
    fn hipStreamAddCallback(stream: Handle, callback: Option<Callback>, data: *mut c_void, flags: c_uint) {
        let callback = callback.filter(|_| flags == 0).ok_or(Status::INVALID_VALUE)?;
        let status = {
            let mut runtime = lock();
            let resolved = runtime.resolve(stream)?;
            if runtime.capturing(resolved)?.is_some() {
                return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
            }
            runtime.alive().err().unwrap_or(Status::SUCCESS)
        };
        // SAFETY: point 1: the caller gives a function that may be called with its data.
        unsafe { callback(stream, status.0, data) };
        Ok(())
    }

    /// Managed memory is anybody's.
    fn hipStreamAttachMemAsync(stream: Handle, pointer: *mut c_void, _bytes: usize, flags: c_uint) |runtime| {
        runtime.resolve(stream)?;
        let managed = runtime.allocation(pointer as u64).is_some_and(|(_, found)| found.kind == crate::runtime::Kind::Managed);
        if managed && matches!(flags, 1 | 2 | 4) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
}
