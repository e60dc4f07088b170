//! Stream capture as C sees it; what it does stands in [`crate::capture`].
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use super::{Handle, exports, get, list, put, put_if};
use crate::capture::{Mode, THREAD_MODE};
use crate::status::Status;

exports! {
    /// Starts to put what `stream` is asked to do into a new graph.
    fn hipStreamBeginCapture(stream: Handle, mode: c_int) |runtime| {
        runtime.resolve(stream)?;
        runtime.begin_capture(stream, Mode::from_number(mode)?, None, &[])
    }

    /// The same, into a graph that is there, after nodes of it.
    fn hipStreamBeginCaptureToGraph(
        stream: Handle, graph: Handle, dependencies: *const Handle, data: *const c_void, count: usize, mode: c_int,
    ) |runtime| {
        if !data.is_null() {
            return Err(Status::NOT_SUPPORTED);
        }
        if dependencies.is_null() != (count == 0) {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let dependencies = unsafe { list(dependencies, count) }?;
        runtime.begin_capture(stream, Mode::from_number(mode)?, Some(graph), &dependencies)
    }

    /// Ends a capture and gives its graph; none where it failed.
    fn hipStreamEndCapture(stream: Handle, graph: *mut Handle) |runtime| {
        // SAFETY: point 1.
        unsafe { put(graph, 0) }?;
        let made = runtime.end_capture(stream)?;
        // SAFETY: point 1.
        unsafe { put(graph, made) }
    }

    /// Whether a stream is capturing: 0 no, 1 yes, 2 spoiled.
    fn hipStreamIsCapturing(stream: Handle, status: *mut c_int) |runtime| {
        if status.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let (found, _) = runtime.capture_status(stream)?;
        // SAFETY: point 1.
        unsafe { put(status, found) }
    }

    /// The same, with a number of the capture.
    fn hipStreamGetCaptureInfo(stream: Handle, status: *mut c_int, id: *mut c_ulonglong) |runtime| {
        if status.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let (found, sequence) = runtime.capture_status(stream)?;
        // SAFETY: point 1.
        unsafe { put(status, found) }?;
        if found == 1 {
            // SAFETY: point 1.
            unsafe { put_if(id, sequence) };
        }
        Ok(())
    }

    /// The same, with the graph and the nodes that the next one waits for; that list is good until the stream is used again.
    fn hipStreamGetCaptureInfo_v2(
        stream: Handle, status: *mut c_int, id: *mut c_ulonglong, graph: *mut Handle,
        dependencies: *mut *const Handle, count: *mut usize,
    ) |runtime| {
        if status.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let (found, sequence) = runtime.capture_status(stream)?;
        // SAFETY: point 1.
        unsafe { put(status, found) }?;
        if found != 1 {
            return Ok(());
        }
        let filled = runtime.sequences.get(&sequence).map_or(0, |sequence| sequence.graph);
        let last = &runtime.member(stream)?.last;
        // SAFETY: point 1.
        unsafe { put_if(id, sequence) };
        // SAFETY: point 1.
        unsafe { put_if(graph, filled) };
        // SAFETY: point 1.
        unsafe { put_if(dependencies, last.as_ptr()) };
        // SAFETY: point 1.
        unsafe { put_if(count, last.len()) };
        Ok(())
    }

    /// Adds to (0) or replaces (1) the nodes that the next one on a capturing stream waits for.
    fn hipStreamUpdateCaptureDependencies(
        stream: Handle, dependencies: *mut Handle, count: usize, flags: c_uint,
    ) |runtime| {
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let nodes = unsafe { list(dependencies, count) }?;
        runtime.update_capture_dependencies(stream, &nodes, flags == 1)
    }

    /// Exchanges how strictly this thread's calls are checked against captures.
    fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) |_| {
        // SAFETY: point 1.
        let asked = unsafe { get(mode) }?;
        Mode::from_number(asked)?;
        // SAFETY: point 1.
        unsafe { put(mode, THREAD_MODE.replace(asked)) }
    }
}
