//! The exported functions: the rows of the host's table (`host/src/hip/ffi.rs`), each one or two calls of the driver. Names and
//! parameter orders are the vendor's. What a pointer must be good for is what HIP's manual says; the driver is given it unread.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::cuda::{Cuda, Handle, Status, cuda};
use crate::image;
use crate::ptx::Entry;

const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const NO_DEVICE: Status = 100;
const INVALID_IMAGE: Status = 200;
const NOT_FOUND: Status = 500;

/// What `hipRuntimeGetVersion` says: a HIP that knows gfx1201 and whose structs are those of the host's table.
const HIP_VERSION: c_int = 60_400_000;
/// The architecture whose code object the host looks for.
const ARCH: &[u8] = b"gfx1201";
/// Behind the card's own name, so that nobody takes it for what it is not.
const SUFFIX: &str = " (proof vehicle)";
/// `hipDeviceProp_tR0600`: its size, and where name, memory and architecture lie.
const PROPERTIES_BYTES: usize = 1472;
const TOTAL_MEMORY_AT: usize = 288;
const ARCH_AT: usize = 1160;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES` and `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const FUNCTION_SHARED: c_int = 1;
const FUNCTION_MAX_DYNAMIC_SHARED: c_int = 8;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`.
const DEVICE_SHARED_OPTIN: c_int = 97;
/// `CU_JIT_ERROR_LOG_BUFFER` and its size's option.
const JIT_ERROR_LOG: c_int = 5;
const JIT_ERROR_LOG_BYTES: c_int = 6;

/// Says on stderr what a status cannot.
fn say(text: &str) {
    eprintln!("zynfer-hip-over-cuda: {text}");
}

/// A driver call, or `hipErrorNoDevice` where there is no driver, whose reason is said once.
fn driver(call: impl FnOnce(&'static Cuda) -> Status) -> Status {
    match cuda() {
        Ok(cuda) => call(cuda),
        Err(reason) => {
            static SAID: Once = Once::new();
            SAID.call_once(|| say(reason));
            NO_DEVICE
        }
    }
}

/// What a call yields where the driver writes one value to a live local: its status, or the value.
fn ask<T>(start: T, call: impl FnOnce(&'static Cuda, *mut T) -> Status) -> Result<T, Status> {
    let mut value = start;
    match driver(|cuda| call(cuda, &raw mut value)) {
        SUCCESS => Ok(value),
        status => Err(status),
    }
}

fn status(result: Result<(), Status>) -> Status {
    result.err().unwrap_or(SUCCESS)
}

/// What is known about the loaded modules and their kernels, by the driver's handles.
struct Loaded {
    modules: HashMap<usize, Vec<Entry>>,
    /// Bytes of a kernel's parameters.
    functions: HashMap<usize, usize>,
    /// Primary contexts by ordinal.
    contexts: HashMap<c_int, usize>,
}

fn loaded() -> MutexGuard<'static, Option<Loaded>> {
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    let mut guard = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_with(|| Loaded {
        modules: HashMap::new(),
        functions: HashMap::new(),
        contexts: HashMap::new(),
    });
    guard
}

macro_rules! exports {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block )*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// 1. Each pointer is null or valid for what HIP's manual says the function reads or writes through it; handles are ones this
        ///    library gave.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int $body
    )* };
}

exports! {
    /// Opens the driver.
    fn hipInit(flags: c_uint) {
        // SAFETY: takes a plain integer.
        driver(|cuda| unsafe { (cuda.cuInit)(flags) })
    }
    /// HIP's version that this stands for.
    fn hipRuntimeGetVersion(version: *mut c_int) {
        if version.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: not null; point 1.
        unsafe { version.write(HIP_VERSION) };
        SUCCESS
    }
    /// How many cards there are.
    fn hipGetDeviceCount(count: *mut c_int) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuDeviceGetCount)(count) })
    }
    /// Makes the card's primary context the current one of the calling thread.
    fn hipSetDevice(device: c_int) {
        status(context(device).and_then(|context| {
            // SAFETY: a context the driver gave, never released.
            done(driver(|cuda| unsafe { (cuda.cuCtxSetCurrent)(context as Handle) }))
        }))
    }
    /// The card's own name, marked.
    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        let room = usize::try_from(len).unwrap_or(0);
        if name.is_null() || room == 0 {
            return INVALID_VALUE;
        }
        status(marked_name(device).map(|mut text| {
            text.truncate(room - 1);
            text.push(0);
            // SAFETY: as many bytes as the caller said there is room for: point 1.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast::<u8>(), text.len()) };
        }))
    }
    /// Device memory.
    fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuDeviceTotalMem_v2)(bytes, device) })
    }
    /// The card's unique id.
    fn hipDeviceGetUuid(uuid: *mut c_void, device: c_int) {
        // SAFETY: point 1; both ids are 16 bytes.
        driver(|cuda| unsafe { (cuda.cuDeviceGetUuid_v2)(uuid, device) })
    }
    /// The attributes the host asks for.
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        // HIP's number, then CUDA's.
        let number = match attribute {
            5 => 13,  // clock rate
            10 => 95, // cooperative launch
            16 => 18, // integrated
            63 => 16, // multiprocessors
            67 => 33, // PCI bus
            68 => 34, // PCI device
            69 => 50, // PCI domain
            74 => DEVICE_SHARED_OPTIN,
            87 => 10, // lanes of a wave
            _ => return INVALID_VALUE,
        };
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuDeviceGetAttribute)(value, number, device) })
    }
    /// The three facts of the struct that the host reads: name, memory, architecture; the rest is 0.
    fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) {
        if properties.is_null() {
            return INVALID_VALUE;
        }
        status(marked_name(device).and_then(|mut name| {
            // SAFETY: writes one size to a live local.
            let memory = ask(0usize, |cuda, out| unsafe { (cuda.cuDeviceTotalMem_v2)(out, device) })?;
            let mut bytes = [0u8; PROPERTIES_BYTES];
            name.truncate(255);
            bytes[..name.len()].copy_from_slice(&name);
            bytes[TOTAL_MEMORY_AT..TOTAL_MEMORY_AT + 8].copy_from_slice(&memory.to_ne_bytes());
            bytes[ARCH_AT..ARCH_AT + ARCH.len()].copy_from_slice(ARCH);
            // SAFETY: one struct of this many bytes: point 1.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), properties.cast::<u8>(), PROPERTIES_BYTES) };
            Ok(())
        }))
    }
    /// Free and total device memory.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuMemGetInfo_v2)(free, total) })
    }
    /// Allocates device memory.
    fn hipMalloc(out: *mut *mut c_void, bytes: usize) {
        // SAFETY: point 1; a device address is 64 bits.
        driver(|cuda| unsafe { (cuda.cuMemAlloc_v2)(out.cast::<u64>(), bytes) })
    }
    /// Frees device memory once the card is idle, as HIP's does.
    fn hipFree(pointer: *mut c_void) {
        if pointer.is_null() {
            return SUCCESS;
        }
        // SAFETY: takes nothing.
        status(done(driver(|cuda| unsafe { (cuda.cuCtxSynchronize)() })).and_then(|()| {
            // SAFETY: an address that `hipMalloc` gave: point 1.
            done(driver(|cuda| unsafe { (cuda.cuMemFree_v2)(pointer as u64) }))
        }))
    }
    /// Queues a copy; the driver finds the sides by the addresses.
    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, _kind: c_int, stream: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuMemcpyAsync)(dst as u64, src as u64, bytes, stream) })
    }
    /// Queues setting each byte.
    fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: Handle) {
        // SAFETY: point 1. HIP takes the low byte too.
        driver(|cuda| unsafe { (cuda.cuMemsetD8Async)(dst as u64, value as u8, bytes, stream) })
    }
    /// A new stream; the flag's number is CUDA's.
    fn hipStreamCreateWithFlags(out: *mut Handle, flags: c_uint) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuStreamCreate)(out, flags) })
    }
    /// Ends a stream.
    fn hipStreamDestroy(stream: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuStreamDestroy_v2)(stream) })
    }
    /// Waits for a stream.
    fn hipStreamSynchronize(stream: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuStreamSynchronize)(stream) })
    }
    /// Waits for the card.
    fn hipDeviceSynchronize() {
        // SAFETY: takes nothing.
        driver(|cuda| unsafe { (cuda.cuCtxSynchronize)() })
    }
    /// A new event.
    fn hipEventCreate(out: *mut Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuEventCreate)(out, 0) })
    }
    /// Ends an event.
    fn hipEventDestroy(event: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuEventDestroy_v2)(event) })
    }
    /// Queues a mark.
    fn hipEventRecord(event: Handle, stream: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuEventRecord)(event, stream) })
    }
    /// Waits for a mark.
    fn hipEventSynchronize(event: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuEventSynchronize)(event) })
    }
    /// Time between two marks.
    fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuEventElapsedTime)(ms, start, stop) })
    }
    /// Loads the PTX in place of `image`, once both are found to have the same kernels.
    fn hipModuleLoadData(out: *mut Handle, image: *const c_void) {
        // SAFETY: point 1.
        status(unsafe { load(out, image) })
    }
    /// Unloads a module.
    fn hipModuleUnload(module: Handle) {
        if let Some(loaded) = &mut *loaded() {
            loaded.modules.remove(&(module as usize));
        }
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuModuleUnload)(module) })
    }
    /// A kernel, allowed as much dynamic shared memory as the card has.
    fn hipModuleGetFunction(out: *mut Handle, module: Handle, name: *const c_char) {
        if out.is_null() || name.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: not null, terminated: point 1.
        let text = unsafe { CStr::from_ptr(name) };
        status(function(module, text).map(|function| {
            // SAFETY: point 1.
            unsafe { out.write(function) };
        }))
    }
    /// Workgroups of a kernel that are resident on one multiprocessor at once.
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, block_size: c_int, lds_bytes: usize,
    ) {
        // SAFETY: point 1.
        driver(|cuda| unsafe {
            (cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, function, block_size, lds_bytes)
        })
    }
    /// Queues a kernel, its arguments by pointers or as one block.
    fn hipModuleLaunchKernel(
        function: Handle,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        lds_bytes: c_uint, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        // SAFETY: point 1.
        let block = match unsafe { argument_block(extra) } {
            Ok(block) => block,
            Err(status) => return status,
        };
        let known = loaded().as_ref().and_then(|loaded| loaded.functions.get(&(function as usize)).copied());
        // The host's block is rounded up to 8 bytes; the driver is told what the kernel has.
        let mut bytes = block.map_or(0, |(_, bytes)| known.unwrap_or(bytes).min(bytes));
        let pointer = block.map_or(null_mut(), |(pointer, _)| pointer);
        // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE and _END.
        let mut list =
            [without_provenance_mut(1), pointer, without_provenance_mut(2), (&raw mut bytes).cast(), null_mut()];
        let extra = if block.is_some() { list.as_mut_ptr() } else { null_mut() };
        // SAFETY: point 1; the list and what it points to live through the call, which copies.
        driver(|cuda| unsafe {
            (cuda.cuLaunchKernel)(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, lds_bytes, stream, params, extra,
            )
        })
    }
    /// Starts a capture; the modes' numbers are CUDA's.
    fn hipStreamBeginCapture(stream: Handle, mode: c_int) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuStreamBeginCapture_v2)(stream, mode) })
    }
    /// Ends a capture.
    fn hipStreamEndCapture(stream: Handle, out: *mut Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuStreamEndCapture)(stream, out) })
    }
    /// Makes a graph executable. No node and no log are reported.
    fn hipGraphInstantiate(
        out: *mut Handle, graph: Handle, _error_node: *mut Handle, _log: *mut c_char, _log_bytes: usize,
    ) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuGraphInstantiateWithFlags)(out, graph, 0) })
    }
    /// Queues a graph.
    fn hipGraphLaunch(exec: Handle, stream: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuGraphLaunch)(exec, stream) })
    }
    /// Ends a graph.
    fn hipGraphDestroy(graph: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuGraphDestroy)(graph) })
    }
    /// Ends an executable graph.
    fn hipGraphExecDestroy(exec: Handle) {
        // SAFETY: point 1.
        driver(|cuda| unsafe { (cuda.cuGraphExecDestroy)(exec) })
    }
}

/// The driver's name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    // SAFETY: writes one pointer, to a constant string, to a live local.
    ask(std::ptr::null(), |cuda, out| unsafe { (cuda.cuGetErrorName)(status, out) }).unwrap_or(match status {
        NO_DEVICE => c"no CUDA driver".as_ptr(),
        INVALID_IMAGE => c"the PTX is not the code object's".as_ptr(),
        _ => std::ptr::null(),
    })
}

fn done(status: Status) -> Result<(), Status> {
    if status == SUCCESS { Ok(()) } else { Err(status) }
}

/// The primary context of a card, retained once and never released.
fn context(device: c_int) -> Result<usize, Status> {
    let mut guard = loaded();
    let known = guard.as_ref().and_then(|loaded| loaded.contexts.get(&device).copied());
    if let Some(context) = known {
        return Ok(context);
    }
    // SAFETY: writes one number to a live local; any ordinal is allowed.
    let handle = ask(0, |cuda, out| unsafe { (cuda.cuDeviceGet)(out, device) })?;
    // SAFETY: writes one handle to a live local; the device is the driver's.
    let context = ask(null_mut(), |cuda, out| unsafe { (cuda.cuDevicePrimaryCtxRetain)(out, handle) })?;
    if let Some(loaded) = &mut *guard {
        loaded.contexts.insert(device, context as usize);
    }
    Ok(context as usize)
}

/// The card's name with the mark behind it, without a NUL.
fn marked_name(device: c_int) -> Result<Vec<u8>, Status> {
    let mut name = [0u8; 200];
    // SAFETY: writes at most the given length, with its NUL, to a live local of that length.
    done(driver(|cuda| unsafe { (cuda.cuDeviceGetName)(name.as_mut_ptr().cast(), 200, device) }))?;
    let mut text = CStr::from_bytes_until_nul(&name).map_or_else(|_| Vec::new(), |text| text.to_bytes().to_vec());
    text.extend_from_slice(SUFFIX.as_bytes());
    Ok(text)
}

/// # Safety
/// 1. `out` is null or valid for writing a handle, `image` null or a whole ELF image.
unsafe fn load(out: *mut Handle, image: *const c_void) -> Result<(), Status> {
    if out.is_null() || image.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: point 1: an image has at least its header.
    let header = unsafe { image.cast::<[u8; 64]>().read_unaligned() };
    let bytes = image::elf_bytes(&header).filter(|bytes| *bytes <= 1 << 30).ok_or(INVALID_IMAGE)?;
    // SAFETY: point 1: the image is whole, so it reaches the end of its last table.
    let object = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) };
    let found = image::find(object).map_err(|error| {
        say(&error);
        INVALID_IMAGE
    })?;
    let mut log = vec![0u8; 16 * 1024];
    let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
    // SAFETY: the image is PTX with its NUL or a cubin; two options with their values, a buffer and its size, live through the call.
    let result = ask(null_mut(), |cuda, module| unsafe {
        (cuda.cuModuleLoadDataEx)(module, found.bytes.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
    });
    let module = result.inspect_err(|status| {
        let text = CStr::from_bytes_until_nul(&log).map_or_else(|_| "".into(), CStr::to_string_lossy);
        say(&format!("cuModuleLoadDataEx failed with status {status}: {}", text.trim()));
    })?;
    if let Some(loaded) = &mut *loaded() {
        loaded.modules.insert(module as usize, found.entries);
    }
    // SAFETY: not null: point 1.
    unsafe { out.write(module) };
    Ok(())
}

fn function(module: Handle, name: &CStr) -> Result<Handle, Status> {
    // SAFETY: writes one handle to a live local; the module is one this library gave, the name terminated.
    let function = ask(null_mut(), |cuda, out| unsafe { (cuda.cuModuleGetFunction)(out, module, name.as_ptr()) })?;
    // SAFETY: writes one number to a live local.
    let own = ask(0, |cuda, out| unsafe { (cuda.cuFuncGetAttribute)(out, FUNCTION_SHARED, function) })?;
    // SAFETY: as above; card 0 stands for all, which are of one kind wherever this is run.
    let most = ask(0, |cuda, out| unsafe { (cuda.cuDeviceGetAttribute)(out, DEVICE_SHARED_OPTIN, 0) })?;
    // SAFETY: the function was given by the driver just now.
    done(driver(|cuda| unsafe { (cuda.cuFuncSetAttribute)(function, FUNCTION_MAX_DYNAMIC_SHARED, most - own) }))?;
    if let Some(loaded) = &mut *loaded() {
        let entries = loaded.modules.get(&(module as usize)).map_or(&[][..], Vec::as_slice);
        let entry = entries.iter().find(|entry| entry.name.as_bytes() == name.to_bytes()).ok_or(NOT_FOUND)?;
        loaded.functions.insert(function as usize, entry.bytes());
    }
    Ok(function)
}

/// The block behind HIP's `extra` list, with its bytes; nothing where there is no list.
///
/// # Safety
/// 1. `extra` is null or a list as HIP's manual has it.
unsafe fn argument_block(extra: *mut *mut c_void) -> Result<Option<(*mut c_void, usize)>, Status> {
    /// `HIP_LAUNCH_PARAM_END`; the other two are the number of CUDA's.
    const END: usize = 3;
    if extra.is_null() {
        return Ok(None);
    }
    let (mut pointer, mut bytes) = (null_mut(), None);
    let mut at = extra;
    loop {
        // SAFETY: point 1: the list reaches to its end.
        let kind = unsafe { at.read() } as usize;
        if kind == END {
            break;
        }
        let value = at.wrapping_add(1);
        // SAFETY: point 1: each kind has its value.
        let value = unsafe { value.read() };
        match kind {
            1 => pointer = value,
            // SAFETY: point 1: the size is given by its address.
            2 => bytes = Some(unsafe { value.cast::<usize>().read() }),
            _ => return Err(INVALID_VALUE),
        }
        at = at.wrapping_add(2);
    }
    match bytes {
        Some(bytes) if !pointer.is_null() => Ok(Some((pointer, bytes))),
        _ => Err(INVALID_VALUE),
    }
}
