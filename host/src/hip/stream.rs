//! Streams and events: work in order, and marks in it. Copies between host and device wait before they return, so no borrow of host
//! memory outlives its call; that is deliberate, an engine step reads one token and nothing else.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use super::error::HipError;
use super::ffi::{
    COPY_DEVICE_TO_DEVICE, COPY_DEVICE_TO_HOST, COPY_HOST_TO_DEVICE, STREAM_NON_BLOCKING, hipEvent_t, hipStream_t,
    status,
};
use super::graph::Recorded;
use super::memory::{Context, Span};

/// A queue of work on one card, done in order.
pub struct Stream {
    context: Arc<Context>,
    handle: hipStream_t,
    /// What the capture under way refers to ([`super::graph`]); `None` when work is queued.
    pub(super) recorded: RefCell<Option<Recorded>>,
}

// SAFETY: HIP allows a stream to be used from any thread; a `Stream` enters its context on whichever thread calls, and owns its
// handle alone.
unsafe impl Send for Stream {}

impl Stream {
    /// A new queue that has no implicit order with other queues.
    pub fn new(context: &Arc<Context>) -> Result<Self, HipError> {
        context.enter()?;
        let mut handle: hipStream_t = std::ptr::null_mut();
        // SAFETY: writes one handle to a live local.
        let status = unsafe { (context.library.hip.hipStreamCreateWithFlags)(&raw mut handle, STREAM_NON_BLOCKING) };
        context.check("hipStreamCreateWithFlags", status)?;
        Ok(Self { context: Arc::clone(context), handle, recorded: RefCell::new(None) })
    }

    /// The card it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Wave-instructions executed so far in this process; `None` where only a card could know.
    pub fn emulator_instructions(&self) -> Option<u64> {
        self.context.library.emulator_instructions()
    }

    /// Waits until all queued work is done; a kernel's failure shows here at the latest.
    pub fn synchronize(&self) -> Result<(), HipError> {
        self.not_capturing("hipStreamSynchronize")?;
        self.context.enter()?;
        // SAFETY: the handle is this value's own and not destroyed.
        let status = unsafe { (self.context.library.hip.hipStreamSynchronize)(self.handle) };
        self.context.check("hipStreamSynchronize", status)
    }

    /// Copies `bytes` to `dst` in order with the queue, and waits.
    ///
    /// # Errors
    /// The lengths differ, the stream is being captured (host memory of a recorded copy would have to outlive the graph), or the copy
    /// or earlier queued work failed.
    pub fn write(&self, dst: &Span, bytes: &[u8]) -> Result<(), HipError> {
        self.not_capturing("hipMemcpyAsync")?;
        self.same_card(dst)?;
        same_length("hipMemcpyAsync", dst.bytes(), bytes.len())?;
        if !bytes.is_empty() {
            let source = bytes.as_ptr().cast::<c_void>();
            // SAFETY: `dst` is live device memory of `bytes.len()` bytes and `source` as many host bytes; both are borrowed until
            // the wait below, which comes before this returns.
            let result = unsafe { self.copy_async(dst.pointer(), source, bytes.len(), COPY_HOST_TO_DEVICE) };
            // Also after a failed start: part of the copy may have been queued, and it reads a borrow that ends here.
            let waited = self.synchronize();
            result.and(waited)?;
        }
        Ok(())
    }

    /// Copies `src` to `out` after the queued work, and waits.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn read(&self, src: &Span, out: &mut [u8]) -> Result<(), HipError> {
        self.not_capturing("hipMemcpyAsync")?;
        self.same_card(src)?;
        same_length("hipMemcpyAsync", src.bytes(), out.len())?;
        if !out.is_empty() {
            let destination = out.as_mut_ptr().cast::<c_void>();
            // SAFETY: `src` is live device memory of `out.len()` bytes and `destination` as many host bytes that nobody else sees;
            // both are borrowed until the wait below, which comes before this returns.
            let result = unsafe { self.copy_async(destination, src.pointer(), out.len(), COPY_DEVICE_TO_HOST) };
            let waited = self.synchronize();
            result.and(waited)?;
        }
        Ok(())
    }

    /// Queues a copy between device ranges of one length that do not overlap.
    ///
    /// # Errors
    /// Lengths differ, the ranges overlap, or the copy could not be queued.
    pub fn copy(&self, dst: &Span, src: &Span) -> Result<(), HipError> {
        self.same_card(dst)?;
        self.same_card(src)?;
        same_length("hipMemcpyAsync", dst.bytes(), src.bytes())?;
        if dst.bytes() == 0 {
            return Ok(());
        }
        if dst.overlaps(src) {
            let detail = format!("device copy of {} bytes between overlapping ranges", dst.bytes());
            return Err(HipError { call: "hipMemcpyAsync", status: status::SUCCESS, detail });
        }
        self.keep(&[dst, src]);
        // SAFETY: both ranges are live device memory of this length, do not overlap, and hipFree waits for the device before one of
        // them could go; a capture keeps them.
        unsafe { self.copy_async(dst.pointer(), src.pointer(), dst.bytes(), COPY_DEVICE_TO_DEVICE) }
    }

    /// Queues setting each byte of `dst`.
    pub fn fill(&self, dst: &Span, byte: u8) -> Result<(), HipError> {
        self.same_card(dst)?;
        if dst.bytes() == 0 {
            return Ok(());
        }
        self.keep(&[dst]);
        self.context.enter()?;
        // SAFETY: `dst` is live device memory of that length, and hipFree waits for the device before it could go; a capture keeps it.
        let status = unsafe {
            (self.context.library.hip.hipMemsetAsync)(dst.pointer(), i32::from(byte), dst.bytes(), self.handle)
        };
        self.context.check("hipMemsetAsync", status)
    }

    /// Queues a copy.
    ///
    /// # Safety
    /// 1. `dst` and `src` are valid for `bytes` on the sides that `kind` names, and do not overlap.
    /// 2. Both stay so until the stream is next idle.
    unsafe fn copy_async(&self, dst: *mut c_void, src: *const c_void, bytes: usize, kind: i32) -> Result<(), HipError> {
        self.context.enter()?;
        // SAFETY: points 1 and 2 are what the call asks; the handle is this value's own.
        let status = unsafe { (self.context.library.hip.hipMemcpyAsync)(dst, src, bytes, kind, self.handle) };
        self.context.check("hipMemcpyAsync", status).map_err(|error| error.about(format!("{bytes} bytes")))
    }

    fn same_card(&self, span: &Span) -> Result<(), HipError> {
        if Arc::ptr_eq(span.context(), &self.context) {
            return Ok(());
        }
        let detail = format!("memory of {} used on a stream of {}", span.context().device(), self.context.device());
        Err(HipError { call: "hipMemcpyAsync", status: status::SUCCESS, detail })
    }

    pub(super) fn handle(&self) -> hipStream_t {
        self.handle
    }
}

fn same_length(call: &'static str, device: usize, host: usize) -> Result<(), HipError> {
    if device == host {
        return Ok(());
    }
    let detail = format!("{device} bytes on one side, {host} on the other");
    Err(HipError { call, status: status::SUCCESS, detail })
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Work in flight may still use buffers: they outlive it because each hipFree waits for the device, not because of this.
        if self.context.enter().is_ok() {
            // SAFETY: the handle is this value's own, destroyed once, here. A failure leaves nothing to be done.
            let _ = unsafe { (self.context.library.hip.hipStreamDestroy)(self.handle) };
        }
    }
}

/// A mark in a stream, with a time.
pub struct Event {
    context: Arc<Context>,
    handle: hipEvent_t,
}

// SAFETY: as for `Stream`: HIP allows any thread, and the handle is this value's alone.
unsafe impl Send for Event {}

impl Event {
    /// A new mark, not yet recorded.
    pub fn new(context: &Arc<Context>) -> Result<Self, HipError> {
        context.enter()?;
        let mut handle: hipEvent_t = std::ptr::null_mut();
        // SAFETY: writes one handle to a live local.
        let status = unsafe { (context.library.hip.hipEventCreate)(&raw mut handle) };
        context.check("hipEventCreate", status)?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    /// Queues the mark behind the work `stream` holds now.
    ///
    /// # Errors
    /// The stream is being captured: a mark in a graph has no time.
    pub fn record(&self, stream: &Stream) -> Result<(), HipError> {
        stream.not_capturing("hipEventRecord")?;
        self.context.enter()?;
        // SAFETY: both handles are live: their owners are borrowed.
        let status = unsafe { (self.context.library.hip.hipEventRecord)(self.handle, stream.handle) };
        self.context.check("hipEventRecord", status)
    }

    /// Waits until the recorded mark is reached.
    pub fn synchronize(&self) -> Result<(), HipError> {
        self.context.enter()?;
        // SAFETY: the handle is live: its owner is borrowed.
        let status = unsafe { (self.context.library.hip.hipEventSynchronize)(self.handle) };
        self.context.check("hipEventSynchronize", status)
    }

    /// Milliseconds from `earlier` to this mark, both reached.
    pub fn elapsed_ms(&self, earlier: &Self) -> Result<f32, HipError> {
        self.context.enter()?;
        let mut ms = 0.0f32;
        // SAFETY: writes one float to a live local; both handles are live: their owners are borrowed.
        let status =
            unsafe { (self.context.library.hip.hipEventElapsedTime)(&raw mut ms, earlier.handle, self.handle) };
        self.context.check("hipEventElapsedTime", status)?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: the handle is this value's own, destroyed once, here. A failure leaves nothing to be done.
            let _ = unsafe { (self.context.library.hip.hipEventDestroy)(self.handle) };
        }
    }
}
