//! A card in use, its memory, and proven ranges of it. A [`Span`] is checked once, where it is made; whoever holds one may trust
//! its bounds. There are deliberately no typed device pointers: shapes belong to the operations.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use super::captures::CAPTURES;
use super::device::DeviceInfo;
use super::error::HipError;
use super::ffi::status;
use super::library::Library;

/// One card of one library.
#[derive(Debug)]
pub struct Context {
    pub(super) library: Arc<Library>,
    device: DeviceInfo,
}

impl Context {
    /// Takes `device` of `library` into use.
    ///
    /// # Errors
    /// The runtime cannot open the card.
    pub fn new(library: &Arc<Library>, device: DeviceInfo) -> Result<Arc<Self>, HipError> {
        let context = Arc::new(Self { library: Arc::clone(library), device });
        context.enter()?;
        Ok(context)
    }

    /// The card.
    pub fn device(&self) -> &DeviceInfo {
        &self.device
    }

    /// The library that drives it.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Free and total bytes of device memory.
    pub fn memory_info(&self) -> Result<(u64, u64), HipError> {
        self.enter()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: writes two sizes to live locals.
        let status = unsafe { (self.library.hip.hipMemGetInfo)(&raw mut free, &raw mut total) };
        self.check("hipMemGetInfo", status)?;
        Ok((free as u64, total as u64))
    }

    /// Waits until every stream of the card is idle, and before that for captures of other threads to end.
    pub fn synchronize(&self) -> Result<(), HipError> {
        self.enter()?;
        // SAFETY: takes nothing.
        let status = CAPTURES.outside(|| unsafe { (self.library.hip.hipDeviceSynchronize)() });
        self.check("hipDeviceSynchronize", status)
    }

    /// Makes this card the current one of the calling thread: HIP keeps that per thread, and values here may move between threads.
    pub(super) fn enter(&self) -> Result<(), HipError> {
        // SAFETY: takes a plain integer; an ordinal that does not exist is a status.
        let status = unsafe { (self.library.hip.hipSetDevice)(self.device.ordinal as i32) };
        self.check("hipSetDevice", status)
    }

    /// Status to result; where the emulator has a report of a trap it is the detail.
    pub(super) fn check(&self, call: &'static str, status: i32) -> Result<(), HipError> {
        self.library.check(call, status).map_err(|error| match (status, self.library.emulator_report()) {
            (status::LAUNCH_FAILURE, Some(report)) => error.about(report),
            _ => error,
        })
    }
}

/// Device memory of one allocation; freed when the last clone and the last [`Span`] of it are gone.
#[derive(Clone)]
pub struct Buffer(Arc<Allocation>);

struct Allocation {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes`, more than 0; their content is undefined.
    ///
    /// # Errors
    /// The memory is not there: the detail says how much was asked and how much is free.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, HipError> {
        context.enter()?;
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: writes one pointer to a live local; any size is allowed, one that does not fit is a status.
        let status = unsafe { (context.library.hip.hipMalloc)(&raw mut pointer, bytes) };
        context.check("hipMalloc", status).map_err(|error| {
            let free = context.memory_info().map_or_else(|_| "unknown".into(), |(free, _)| free.to_string());
            error.about(format!("{bytes} bytes asked, {free} free on {}", context.device))
        })?;
        if pointer.is_null() {
            let detail = format!("gave no address for {bytes} bytes");
            return Err(HipError { call: "hipMalloc", status, detail });
        }
        Ok(Self(Arc::new(Allocation { context: Arc::clone(context), address: pointer as u64, bytes })))
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// All of it.
    pub fn span(&self) -> Span {
        Span { allocation: Arc::clone(&self.0), offset: 0, bytes: self.0.bytes }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.context.enter().is_err() {
            return;
        }
        // SAFETY: the address came from hipMalloc and is freed once, here, when no Span can reach it. Work queued on it has ended
        // or ends first: hipFree waits for the device.
        // A failure cannot be reported from here, and leaves nothing to be done: the process's memory goes with it.
        let _ = CAPTURES.outside(|| unsafe { (self.context.library.hip.hipFree)(self.address as *mut c_void) });
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.0.address, self.0.bytes)
    }
}

/// A range of device memory that is inside its allocation, which it keeps alive.
#[derive(Clone)]
pub struct Span {
    allocation: Arc<Allocation>,
    offset: usize,
    bytes: usize,
}

/// A range that is not inside what it was to be a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("range of {bytes} bytes at {offset} is not inside {available} bytes")]
pub struct SpanError {
    /// Start.
    pub offset: usize,
    /// Length.
    pub bytes: usize,
    /// What there is.
    pub available: usize,
}

impl Span {
    /// The range `offset .. offset + bytes` of `buffer`.
    pub fn new(buffer: &Buffer, offset: usize, bytes: usize) -> Result<Self, SpanError> {
        buffer.span().part(offset, bytes)
    }

    /// The range `offset .. offset + bytes` of this one.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Self, SpanError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => {
                Ok(Self { allocation: Arc::clone(&self.allocation), offset: self.offset + offset, bytes })
            }
            _ => Err(SpanError { offset, bytes, available: self.bytes }),
        }
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Device address of its first byte, for an argument block.
    pub fn address(&self) -> u64 {
        self.allocation.address + self.offset as u64
    }

    /// Whether a byte belongs to both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.address(), other.address());
        a < b + other.bytes as u64 && b < a + self.bytes as u64
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.address() as *mut c_void
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.allocation.context
    }
}

/// Allocations that live on because recorded work will use them, each once.
#[derive(Default)]
pub(super) struct Kept(BTreeMap<u64, Arc<Allocation>>);

impl Kept {
    /// Keeps the allocation that `span` is in.
    pub(super) fn keep(&mut self, span: &Span) {
        // Live allocations have different addresses, and what is kept is live.
        self.0.entry(span.allocation.address).or_insert_with(|| Arc::clone(&span.allocation));
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({:#x}, {} bytes)", self.address(), self.bytes)
    }
}
