//! Streams and events. Work is done when it is queued, so every stream is always idle and an event is reached when it is recorded.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint};
use std::time::Instant;

use super::{exports, put};
use crate::runtime::{Event, Outcome, Runtime, Stream};
use crate::status::Status;

/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// Flags of `hipEventCreateWithFlags` that exist: blocking sync, disable timing, interprocess, release to device or system scope.
const EVENT_FLAGS: c_uint = 0x1 | 0x2 | 0x4 | 0x2000_0000 | 0x4000_0000 | 0x8000_0000;
/// `hipEventDisableTiming`.
const DISABLE_TIMING: c_uint = 2;

/// # Safety
/// 1. `out` is null or valid for writing a handle.
unsafe fn create_stream(runtime: &mut Runtime, out: *mut u64, flags: c_uint) -> Outcome {
    if out.is_null() || flags > NON_BLOCKING {
        return Err(Status::INVALID_VALUE);
    }
    let handle = runtime.handle();
    runtime.streams.insert(handle, Stream { flags, failed: false });
    // SAFETY: point 1.
    unsafe { put(out, handle) }
}

/// # Safety
/// 1. `out` is null or valid for writing a handle.
unsafe fn create_event(runtime: &mut Runtime, out: *mut u64, flags: c_uint) -> Outcome {
    if out.is_null() || flags & !EVENT_FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let handle = runtime.handle();
    runtime.events.insert(handle, Event { recorded: None, timed: flags & DISABLE_TIMING == 0 });
    // SAFETY: point 1.
    unsafe { put(out, handle) }
}

fn event(runtime: &Runtime, handle: u64) -> Outcome<&Event> {
    runtime.events.get(&handle).ok_or(Status::INVALID_HANDLE)
}

exports! {
    /// A stream.
    fn hipStreamCreate(out: *mut u64) |runtime| {
        // SAFETY: point 1.
        unsafe { create_stream(runtime, out, 0) }
    }

    /// A stream, blocking (0) or not (1).
    fn hipStreamCreateWithFlags(out: *mut u64, flags: c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { create_stream(runtime, out, flags) }
    }

    /// A stream; there is one priority.
    fn hipStreamCreateWithPriority(out: *mut u64, flags: c_uint, _priority: c_int) |runtime| {
        // SAFETY: point 1.
        unsafe { create_stream(runtime, out, flags) }
    }

    /// Ends a stream; default streams and unknown handles are refused.
    fn hipStreamDestroy(stream: u64) |runtime| {
        if stream <= 2 {
            return Err(Status::INVALID_HANDLE);
        }
        runtime.streams.remove(&stream).map(drop).ok_or(Status::INVALID_HANDLE)
    }

    /// Waits; a failed launch nobody was told of is told here.
    fn hipStreamSynchronize(stream: u64) |runtime| { runtime.wait(stream) }

    /// Always ready.
    fn hipStreamQuery(stream: u64) |runtime| { runtime.wait(stream) }

    /// The flags it was created with.
    fn hipStreamGetFlags(stream: u64, flags: *mut c_uint) |runtime| {
        let value = runtime.stream(stream)?.flags;
        // SAFETY: point 1.
        unsafe { put(flags, value) }
    }

    /// Nothing to wait for: the event was reached when it was recorded.
    fn hipStreamWaitEvent(stream: u64, event_handle: u64, flags: c_uint) |runtime| {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        runtime.stream(stream)?;
        event(runtime, event_handle).map(drop)
    }

    /// An event with time.
    fn hipEventCreate(out: *mut u64) |runtime| {
        // SAFETY: point 1.
        unsafe { create_event(runtime, out, 0) }
    }

    /// An event; with `hipEventDisableTiming` its time may not be asked.
    fn hipEventCreateWithFlags(out: *mut u64, flags: c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { create_event(runtime, out, flags) }
    }

    /// Ends an event.
    fn hipEventDestroy(event: u64) |runtime| {
        runtime.events.remove(&event).map(drop).ok_or(Status::INVALID_HANDLE)
    }

    /// Marks now.
    fn hipEventRecord(event: u64, stream: u64) |runtime| {
        runtime.stream(stream)?;
        let event = runtime.events.get_mut(&event).ok_or(Status::INVALID_HANDLE)?;
        event.recorded = Some(Instant::now());
        Ok(())
    }

    /// Already reached.
    fn hipEventSynchronize(handle: u64) |runtime| { event(runtime, handle).map(drop) }

    /// Already reached.
    fn hipEventQuery(handle: u64) |runtime| { event(runtime, handle).map(drop) }

    /// Milliseconds of this computer between two recorded events: time the emulator took, not a card's.
    fn hipEventElapsedTime(ms: *mut f32, start: u64, stop: u64) |runtime| {
        let (start, stop) = (event(runtime, start)?, event(runtime, stop)?);
        let (true, true) = (start.timed, stop.timed) else { return Err(Status::INVALID_HANDLE) };
        let (Some(from), Some(to)) = (start.recorded, stop.recorded) else { return Err(Status::INVALID_HANDLE) };
        let elapsed = match to.checked_duration_since(from) {
            Some(forward) => forward.as_secs_f32(),
            None => -from.duration_since(to).as_secs_f32(),
        };
        // SAFETY: point 1.
        unsafe { put(ms, elapsed * 1e3) }
    }
}
