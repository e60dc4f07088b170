//! The state behind the ABI: one device's memory, and what handles stand for. All safe code. Streams have no queue: work is done when
//! it is asked for, so what a stream remembers is only a failure nobody was told of yet.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use emulator::Memory;
use emulator::memory::MemoryError;

use crate::launch::{Kernel, Module};
use crate::properties::MEMORY_BYTES;
use crate::status::Status;

/// Result of an ABI call before it becomes a number.
pub type Outcome<T = ()> = Result<T, Status>;

/// A stream that was created, or the null stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Flags it was created with.
    pub flags: u32,
    /// A launch on it failed, and no wait has said so yet.
    pub failed: bool,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// When it was recorded: work is done when queued, so that is also when it was reached.
    pub recorded: Option<Instant>,
    /// Whether times may be asked.
    pub timed: bool,
}

/// Everything a process has.
pub struct Runtime {
    /// Device memory.
    pub memory: Memory,
    /// Loaded code objects.
    pub modules: HashMap<u64, Arc<Module>>,
    /// Kernels handed out, with the module that holds each.
    pub functions: HashMap<u64, (u64, Arc<Kernel>)>,
    /// Streams by handle; the null stream is handle 0.
    pub streams: HashMap<u64, Stream>,
    /// Events by handle.
    pub events: HashMap<u64, Event>,
    next_handle: u64,
}

/// First handle; not an address of anything, so a library that dereferences one fails at once.
const FIRST_HANDLE: u64 = 0x5a46_0000_0000_0010;

static RUNTIME: LazyLock<Mutex<Runtime>> = LazyLock::new(|| {
    Mutex::new(Runtime {
        memory: Memory::new(device_bytes()),
        modules: HashMap::new(),
        functions: HashMap::new(),
        streams: HashMap::from([(0, Stream::default())]),
        events: HashMap::new(),
        next_handle: FIRST_HANDLE,
    })
});

thread_local! {
    /// Why this thread's last launch did not finish; empty when it did. Per thread, so that a pointer to it stays good until this
    /// thread launches again, whatever others do.
    pub static REPORT: RefCell<CString> = RefCell::default();
    /// The last status of this thread that was not success.
    pub static LAST_ERROR: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// The one runtime. A panic while it was held leaves it usable: each entry is changed by whole inserts and removes.
pub fn lock() -> MutexGuard<'static, Runtime> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// A handle never given before.
    pub fn handle(&mut self) -> u64 {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// The stream of a handle. 1 and 2 are HIP's names for the legacy and the per-thread default stream.
    pub fn stream(&mut self, handle: u64) -> Outcome<&mut Stream> {
        let handle = if handle <= 2 { 0 } else { handle };
        self.streams.get_mut(&handle).ok_or(Status::INVALID_HANDLE)
    }

    /// A wait on one stream: nothing to wait for, but a failure nobody heard of is told, once.
    pub fn wait(&mut self, handle: u64) -> Outcome {
        let stream = self.stream(handle)?;
        if std::mem::take(&mut stream.failed) { Err(Status::LAUNCH_FAILURE) } else { Ok(()) }
    }

    /// A wait on all streams.
    pub fn wait_all(&mut self) -> Outcome {
        let mut outcome = Ok(());
        for stream in self.streams.values_mut() {
            if std::mem::take(&mut stream.failed) {
                outcome = Err(Status::LAUNCH_FAILURE);
            }
        }
        outcome
    }

    /// Whether `address` lies in a live allocation.
    pub fn is_device(&self, address: u64) -> bool {
        self.memory.region(address).is_some()
    }
}

/// The device's memory: what the card has, and no more than this computer could back when it was first asked.
fn device_bytes() -> u64 {
    available_host_bytes().map_or(MEMORY_BYTES, |host| MEMORY_BYTES.min(host))
}

/// `MemAvailable` of `/proc/meminfo`.
fn available_host_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// An allocation's refusal as HIP says it.
pub fn memory_status(error: &MemoryError) -> Status {
    match error {
        MemoryError::OutOfMemory { .. } => Status::OUT_OF_MEMORY,
        MemoryError::NotAllocated(_) | MemoryError::Range { .. } => Status::INVALID_VALUE,
    }
}
