//! Events. Work is done when it is queued, so an event is reached when it is recorded; its time is this computer's, not a card's.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::c_uint;

use super::work::perform;
use super::{Handle, exports, put};
use crate::runtime::{Event, Outcome, Runtime};
use crate::status::Status;
use crate::work::Work;

/// Flags of `hipEventCreateWithFlags` that exist: blocking sync, disable timing, interprocess, and what a record releases.
const EVENT_FLAGS: c_uint = 0x1 | DISABLE_TIMING | INTERPROCESS | RELEASES;
/// No system fence, release to the device, release to the system: one at most.
const RELEASES: c_uint = 0x2000_0000 | 0x4000_0000 | 0x8000_0000;
/// `hipEventDisableTiming`.
const DISABLE_TIMING: c_uint = 2;
/// `hipEventInterprocess`, which wants no timing and which nothing here can share.
const INTERPROCESS: c_uint = 4;
/// `hipEventRecordExternal`: in a capture a node of its own.
const RECORD_EXTERNAL: c_uint = 1;

/// # Safety
/// 1. `out` is null or valid for writing a handle.
unsafe fn create(runtime: &mut Runtime, out: *mut u64, flags: c_uint) -> Outcome {
    let alone = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
    if out.is_null() || flags & !EVENT_FLAGS != 0 || (flags & RELEASES).count_ones() > 1 || alone {
        return Err(Status::INVALID_VALUE);
    }
    let handle = runtime.handle();
    runtime.events.insert(handle, Event { recorded: None, timed: flags & DISABLE_TIMING == 0, captured: None });
    // SAFETY: point 1.
    unsafe { put(out, handle) }
}

fn record(runtime: &mut Runtime, event: u64, stream: u64, flags: c_uint) -> Outcome {
    let resolved = runtime.resolve(stream)?;
    runtime.event(event)?;
    runtime.alive()?;
    if let Some(sequence) = runtime.capturing(resolved)? {
        return match flags {
            RECORD_EXTERNAL => runtime.capture_work(resolved, sequence, Work::Record(event)),
            _ => runtime.capture_record(resolved, sequence, event),
        };
    }
    if resolved == 0 {
        runtime.null_stream_is_free()?;
    }
    // SAFETY: a record has no side that is the host's.
    unsafe { perform(runtime, &Work::Record(event)) }
}

fn reached(runtime: &mut Runtime, event: u64) -> Outcome {
    runtime.may_ask_event(event)?;
    runtime.alive()
}

exports! {
    /// An event with time.
    fn hipEventCreate(out: *mut Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { create(runtime, out, 0) }
    }

    /// An event; with `hipEventDisableTiming` its time may not be asked.
    fn hipEventCreateWithFlags(out: *mut Handle, flags: c_uint) |runtime| {
        // SAFETY: point 1.
        unsafe { create(runtime, out, flags) }
    }

    /// Ends an event.
    fn hipEventDestroy(event: Handle) |runtime| {
        runtime.events.remove(&event).map(drop).ok_or(Status::INVALID_HANDLE)
    }

    /// Marks now; on a capturing stream, what it holds.
    fn hipEventRecord(event: Handle, stream: Handle) |runtime| { record(runtime, event, stream, 0) }

    /// The same; with `hipEventRecordExternal` (1) a capture makes it a node.
    fn hipEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) |runtime| {
        if flags > RECORD_EXTERNAL {
            return Err(Status::INVALID_VALUE);
        }
        record(runtime, event, stream, flags)
    }

    /// Already reached; a trap is told here, every time.
    fn hipEventSynchronize(event: Handle) |runtime| {
        reached(runtime, event)?;
        // HIP waits for the event's stream, which a capture on this thread forbids.
        runtime.may_wait()
    }

    /// Already reached.
    fn hipEventQuery(event: Handle) |runtime| { reached(runtime, event) }

    /// Milliseconds of this computer between two recorded events: time the emulator took, not a card's.
    fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) |runtime| {
        runtime.may_ask_event(start)?;
        runtime.may_ask_event(stop)?;
        let from = { let event = runtime.event(start)?; (event.timed, event.recorded) };
        let to = { let event = runtime.event(stop)?; (event.timed, event.recorded) };
        let ((true, Some(from)), (true, Some(to))) = (from, to) else { return Err(Status::INVALID_HANDLE) };
        runtime.alive()?;
        let elapsed = match to.checked_duration_since(from) {
            Some(forward) => forward.as_secs_f32(),
            None => -from.duration_since(to).as_secs_f32(),
        };
        // SAFETY: point 1.
        unsafe { put(ms, elapsed * 1e3) }
    }
}
