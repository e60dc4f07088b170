//! The state behind the ABI: one device's memory, and what handles stand for. All safe code. Streams have no queue: work is done when
//! it is asked for, so a stream remembers only what it is capturing. A kernel that traps ends the device, as on hardware: its launch was
//! asynchronous and has succeeded, every later call that touches the device says `hipErrorLaunchFailure`, until `hipDeviceReset`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use emulator::Memory;
use emulator::memory::MemoryError;

use crate::capture::{Member, Sequence};
use crate::graph::Graphs;
use crate::launch::{Kernel, Module, checks};
use crate::properties::MEMORY_BYTES;
use crate::register::Registered;
use crate::status::Status;

/// Result of an ABI call before it becomes a number.
pub type Outcome<T = ()> = Result<T, Status>;

/// `hipStreamLegacy`: the null stream by another name.
pub const LEGACY_STREAM: u64 = 1;
/// `hipStreamPerThread`.
pub const PER_THREAD_STREAM: u64 = 2;

/// A stream that was created, or a default stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Flags it was created with; 1 is `hipStreamNonBlocking`.
    pub flags: u32,
    /// Priority it was created with, cut to the range.
    pub priority: i32,
    /// Its part in a capture.
    pub capture: Option<Member>,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// When it was recorded: work is done when queued, so that is also when it was reached.
    pub recorded: Option<Instant>,
    /// Whether times may be asked.
    pub timed: bool,
    /// The capture it was last recorded in, and the nodes before it.
    pub captured: Option<(u64, Vec<u64>)>,
}

/// Whose memory an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The device's.
    Device,
    /// The host's, reached by the device.
    Host,
    /// Both sides'.
    Managed,
}

/// An allocation of the program.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// First address of the emulator's region, below or at the allocation's.
    pub region: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Whose.
    pub kind: Kind,
    /// Flags it was made with.
    pub flags: u32,
    /// The pool it came from, else 0.
    pub pool: u64,
}

/// Host memory the program registered.
#[derive(Debug, Clone, Copy)]
pub struct HostRange {
    /// Bytes.
    pub bytes: u64,
    /// Flags.
    pub flags: u32,
}

/// A pool of stream-ordered memory: numbers only, memory goes back at once.
#[derive(Debug, Default)]
pub struct Pool {
    /// Reuse policies 1 to 3, remembered.
    pub reuse: [i32; 3],
    /// Release threshold, remembered.
    pub threshold: u64,
    /// Bytes in use.
    pub used: u64,
    /// Most bytes in use since it was reset.
    pub high: u64,
}

/// Gives numbers that were never given before.
#[derive(Debug)]
pub struct Handles(u64);

impl Handles {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 += 0x10;
        self.0
    }
}

/// First handle; not an address of anything, so a library that dereferences one fails at once.
const FIRST_HANDLE: u64 = 0x5a46_0000_0000_0010;
/// Alignment of host memory: a page.
const HOST_ALIGN: u64 = 4096;

/// Everything a process has.
pub struct Runtime {
    /// Device memory.
    pub memory: Memory,
    /// What the program allocated, by address.
    pub allocations: BTreeMap<u64, Allocation>,
    /// What it registered, by address.
    pub registered: BTreeMap<u64, HostRange>,
    /// Pools; the default pool is there from the start.
    pub pools: HashMap<u64, Pool>,
    /// The device's own pool and the one in use.
    pub default_pool: u64,
    /// The pool that `hipMallocAsync` takes from.
    pub current_pool: u64,
    /// Loaded code objects.
    pub modules: HashMap<u64, Arc<Module>>,
    /// Kernels handed out, with the module that holds each.
    pub functions: HashMap<u64, (u64, Arc<Kernel>)>,
    /// Streams by handle; the null stream is handle 0.
    pub streams: HashMap<u64, Stream>,
    /// Events by handle.
    pub events: HashMap<u64, Event>,
    /// Graphs.
    pub graphs: Graphs,
    /// Captures under way.
    pub sequences: HashMap<u64, Sequence>,
    /// Contexts by handle: the flags of each. The primary one is there from the start.
    pub contexts: HashMap<u64, u32>,
    /// The primary context.
    pub primary: u64,
    /// How often it is retained.
    pub primary_retained: u32,
    /// What compiled host code registered before `main`.
    pub static_code: Registered,
    /// Limits by number: stack, printf, heap.
    pub limits: [u64; 3],
    /// Flags of `hipSetDeviceFlags`.
    pub device_flags: u32,
    /// Why the device is lost.
    pub failure: Option<String>,
    /// Numbers for handles.
    pub handles: Handles,
}

static RUNTIME: LazyLock<Mutex<Runtime>> = LazyLock::new(|| Mutex::new(Runtime::new()));

thread_local! {
    /// What `zynferEmulatorLastReport` last said on this thread: kept so that the pointer stays good until it is asked again.
    pub static REPORT: RefCell<CString> = RefCell::default();
    /// Why this thread's last launch was refused by the emulator; empty when it was not.
    pub static REFUSAL: RefCell<String> = const { RefCell::new(String::new()) };
    /// The last status of this thread that was not success.
    pub static LAST_ERROR: Cell<Status> = const { Cell::new(Status::SUCCESS) };
    /// This thread's own default stream, once it was used.
    static THREAD_STREAM: Cell<u64> = const { Cell::new(0) };
    /// This thread's contexts, the current one last.
    pub static CONTEXTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The one runtime. A panic while it was held leaves it usable: each entry is changed by whole inserts and removes.
pub fn lock() -> MutexGuard<'static, Runtime> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    fn new() -> Self {
        let mut handles = Handles(FIRST_HANDLE);
        let (pool, primary) = (handles.next(), handles.next());
        Runtime {
            memory: device_memory(),
            allocations: BTreeMap::new(),
            registered: BTreeMap::new(),
            pools: HashMap::from([(pool, Pool { reuse: [1; 3], ..Pool::default() })]),
            default_pool: pool,
            current_pool: pool,
            modules: HashMap::new(),
            functions: HashMap::new(),
            streams: HashMap::from([(0, Stream::default())]),
            events: HashMap::new(),
            graphs: Graphs::default(),
            sequences: HashMap::new(),
            contexts: HashMap::from([(primary, 0)]),
            primary,
            primary_retained: 0,
            static_code: Registered::default(),
            limits: [16 << 10, 1 << 20, 8 << 20],
            device_flags: 0,
            failure: None,
            handles,
        }
    }

    /// Frees everything and forgets a failure. What compiled host code registered stays, and is loaded again when it is next used.
    pub fn reset(&mut self) {
        let allocations = std::mem::take(&mut self.allocations);
        for allocation in allocations.values() {
            let _ = self.memory.free(allocation.region);
        }
        for module in std::mem::take(&mut self.modules).into_values() {
            let _ = self.memory.free(module.base());
        }
        self.static_code.unload();
        self.registered.clear();
        self.functions.clear();
        self.streams = HashMap::from([(0, Stream::default())]);
        self.events.clear();
        self.graphs = Graphs::default();
        self.sequences.clear();
        self.pools.retain(|pool, _| *pool == self.default_pool);
        if let Some(pool) = self.pools.get_mut(&self.default_pool) {
            *pool = Pool { reuse: [1; 3], ..Pool::default() };
        }
        self.current_pool = self.default_pool;
        self.failure = None;
    }

    /// A handle never given before.
    pub fn handle(&mut self) -> u64 {
        self.handles.next()
    }

    /// `hipErrorLaunchFailure` once a kernel has trapped.
    pub fn alive(&self) -> Outcome {
        if self.failure.is_some() { Err(Status::LAUNCH_FAILURE) } else { Ok(()) }
    }

    /// The handle under which a stream is kept: default streams have names of their own.
    pub fn resolve(&mut self, stream: u64) -> Outcome<u64> {
        match stream {
            0 | LEGACY_STREAM => Ok(0),
            PER_THREAD_STREAM => {
                let known = THREAD_STREAM.get();
                if self.streams.contains_key(&known) && known != 0 {
                    return Ok(known);
                }
                let handle = self.handles.next();
                self.streams.insert(handle, Stream::default());
                THREAD_STREAM.set(handle);
                Ok(handle)
            }
            handle if self.streams.contains_key(&handle) => Ok(handle),
            _ => Err(Status::INVALID_HANDLE),
        }
    }

    /// The stream of a handle.
    pub fn stream(&mut self, handle: u64) -> Outcome<&mut Stream> {
        let handle = self.resolve(handle)?;
        self.streams.get_mut(&handle).ok_or(Status::INVALID_HANDLE)
    }

    /// The event of a handle.
    pub fn event(&mut self, handle: u64) -> Outcome<&mut Event> {
        self.events.get_mut(&handle).ok_or(Status::INVALID_HANDLE)
    }

    /// The kernel of a function's handle, and its module.
    pub fn function(&self, handle: u64) -> Outcome<(Arc<Module>, Arc<Kernel>)> {
        let (module, kernel) = self.functions.get(&handle).ok_or(Status::INVALID_HANDLE)?;
        let module = self.modules.get(module).ok_or(Status::INVALID_HANDLE)?;
        Ok((Arc::clone(module), Arc::clone(kernel)))
    }

    /// A new allocation; no bytes give address 0.
    pub fn allocate(&mut self, kind: Kind, bytes: u64, flags: u32, pool: u64) -> Outcome<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        let (region, address) = match kind {
            Kind::Device => {
                let region = self.memory.alloc(bytes).map_err(|error| memory_status(&error))?;
                (region, region)
            }
            Kind::Host | Kind::Managed => {
                let room = bytes.checked_add(HOST_ALIGN).filter(|room| *room <= self.memory.total());
                let room = room.ok_or(Status::OUT_OF_MEMORY)?;
                let region = self.memory.alloc_host(room).map_err(|error| memory_status(&error))?;
                (region, region.next_multiple_of(HOST_ALIGN))
            }
        };
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.used += bytes;
            pool.high = pool.high.max(pool.used);
        }
        self.allocations.insert(address, Allocation { region, bytes, kind, flags, pool });
        Ok(address)
    }

    /// Frees the allocation that starts at `address`, where it is of one of `kinds`.
    pub fn release(&mut self, address: u64, kinds: &[Kind]) -> Outcome {
        let allocation = self.allocations.get(&address).filter(|found| kinds.contains(&found.kind));
        let Allocation { region, bytes, pool, .. } = *allocation.ok_or(Status::INVALID_VALUE)?;
        self.allocations.remove(&address);
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.used -= bytes;
        }
        self.memory.free(region).map_err(|error| memory_status(&error))
    }

    /// The allocation that holds `address`, and where it starts.
    pub fn allocation(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.bytes).then_some((*start, allocation))
    }

    /// Whether `address` lies in memory that the device reaches: an allocation or a module's image.
    pub fn is_device(&self, address: u64) -> bool {
        self.allocation(address).is_some() || self.memory.region(address).is_some()
    }

    /// Whether a range is inside one allocation or one module's image.
    pub fn inside(&self, address: u64, bytes: u64) -> Outcome {
        let within = match self.allocation(address) {
            Some((start, allocation)) => allocation.bytes - (address - start) >= bytes,
            None => {
                let region = self.memory.region(address).filter(|region| region.contains(address, bytes));
                region.is_some_and(|region| self.modules.values().any(|module| module.base() == region.base()))
            }
        };
        if within { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
}

/// Memory that knows what was written where launches are checked for it.
fn device_memory() -> Memory {
    let mut memory = Memory::new(device_bytes());
    if checks().as_ref().is_ok_and(|checks| checks.init) {
        memory.follow_writes();
    }
    memory
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
