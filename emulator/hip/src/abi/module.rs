//! Code objects, kernels and launches.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ops::Range;

use super::work::{kernel_work, perform, submit};
use super::{Dim3, Handle, Signature, exports, host, put, put_if, string};
use crate::bundle;
use crate::launch::{self, Kernel, Request};
use crate::occupancy::resident_workgroups;
use crate::properties::LDS_BYTES;
use crate::runtime::{Outcome, REFUSAL, REPORT, Runtime, lock};
use crate::status::Status;
use crate::work::Work;

/// Bytes of an ELF64 header.
const ELF_HEADER: usize = 64;
/// Longest image accepted: a broken header must not make this read gigabytes.
const MAX_IMAGE: u64 = 1 << 30;
/// `hipExtAnyOrderLaunch`.
const ANY_ORDER: c_uint = 1;

/// `hipFuncAttributes`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FuncAttributes {
    binary_version: c_int,
    cache_mode: c_int,
    const_bytes: usize,
    local_bytes: usize,
    max_dynamic_shared_bytes: c_int,
    max_threads_per_block: c_int,
    registers: c_int,
    carveout: c_int,
    ptx_version: c_int,
    shared_bytes: usize,
}

/// The bytes of the ELF image for this device, of unknown length: HIP passes none, so its own header says how far it goes. A bundle says
/// where in it the image is.
///
/// # Safety
/// 1. `image` is null or points to a whole image, at least 64 bytes, or a whole bundle, that nobody writes to during `'a`.
pub(super) unsafe fn image<'a>(image: *const c_void) -> Outcome<&'a [u8]> {
    if image.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: point 1: what is read lies in the header or in the entries it announces.
    let found = bundle::find(|at, bytes| unsafe { host(image.wrapping_byte_add(at), bytes) })?;
    if let Some(Range { start, end }) = found {
        // SAFETY: point 1: the bundle is whole, so that its entry is.
        return unsafe { host(image.wrapping_byte_add(start), end - start) };
    }
    // SAFETY: point 1: any image has at least a header.
    let header = unsafe { host(image, ELF_HEADER) }?;
    let length = launch::image_bytes(header).filter(|length| *length <= MAX_IMAGE).ok_or(Status::INVALID_IMAGE)?;
    // SAFETY: point 1: the image is whole, so it reaches the end of its last table.
    unsafe { host(image, length as usize) }
}

/// The image for this device in the bytes of a file.
fn image_of_file(bytes: &[u8]) -> Outcome<&[u8]> {
    let part = |at: usize, length: usize| bytes.get(at..at.checked_add(length)?);
    match bundle::find(|at, length| part(at, length).ok_or(Status::INVALID_IMAGE))? {
        Some(Range { start, end }) => bytes.get(start..end).ok_or(Status::INVALID_IMAGE),
        None => Ok(bytes),
    }
}

/// # Safety
/// 1. `out` is null or valid for writing a handle, `data` as for [`image`].
unsafe fn load(runtime: &mut Runtime, out: *mut u64, data: *const c_void) -> Outcome {
    if out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    runtime.alive()?;
    // SAFETY: point 1.
    let bytes = unsafe { image(data) }?;
    let handle = runtime.load(bytes)?;
    // SAFETY: point 1.
    unsafe { put(out, handle) }
}

/// LDS that a launch may ask for beyond the kernel's own.
fn dynamic_lds(kernel: &Kernel) -> i32 {
    LDS_BYTES.saturating_sub(kernel.fixed_lds_bytes()) as i32
}

fn attributes(kernel: &Kernel) -> FuncAttributes {
    FuncAttributes {
        binary_version: 120,
        cache_mode: 0,
        const_bytes: 0,
        local_bytes: kernel.scratch_bytes() as usize,
        max_dynamic_shared_bytes: dynamic_lds(kernel),
        max_threads_per_block: kernel.max_items() as c_int,
        registers: kernel.vgprs() as c_int,
        carveout: 0,
        ptx_version: 120,
        shared_bytes: kernel.fixed_lds_bytes() as usize,
    }
}

/// A launch on a stream.
///
/// # Safety
/// 1. `params` and `extra` are as for [`super::work::arguments`].
pub(super) unsafe fn launch(
    runtime: &mut Runtime,
    function: u64,
    request: Request,
    stream: u64,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    runtime.function(function)?;
    runtime.resolve(stream)?;
    // SAFETY: point 1.
    let work = unsafe { kernel_work(runtime, function, request, params, extra) }?;
    // SAFETY: a launch has no side that is the host's.
    unsafe { submit(runtime, stream, work) }
}

/// Whether all workgroups of a cooperative launch can be resident together.
pub(super) fn fits_together(kernel: &Kernel, request: &Request) -> Outcome {
    request.check(kernel)?;
    let items = request.block.iter().product();
    let groups: u64 = request.grid.iter().map(|&count| u64::from(count)).product();
    if groups > resident_workgroups(kernel, items, u64::from(request.lds_bytes)) {
        return Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

/// A launch whose grid counts work-items.
fn request_of_items(grid: Dim3, block: Dim3, lds_bytes: usize) -> Outcome<Request> {
    let (items, block) = (grid.array(), block.array());
    if block.contains(&0) {
        return Err(Status::INVALID_CONFIGURATION);
    }
    if (0..3).any(|axis| items[axis] % block[axis] != 0) {
        eprintln!("zynfer emulator: grid of {items:?} work-items is no multiple of workgroups of {block:?}");
        return Err(Status::NOT_SUPPORTED);
    }
    let grid = [0, 1, 2].map(|axis| items[axis] / block[axis]);
    let lds_bytes = u32::try_from(lds_bytes).map_err(|_| Status::INVALID_VALUE)?;
    Ok(Request { grid, block, lds_bytes })
}

/// # Safety
/// 1. As [`launch`].
pub(super) unsafe fn launch_between_events(
    runtime: &mut Runtime,
    function: u64,
    request: Request,
    stream: u64,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    events: [u64; 2],
) -> Outcome {
    for event in events.into_iter().filter(|event| *event != 0) {
        runtime.event(event)?;
    }
    let record = |runtime: &mut Runtime, event: u64| {
        if event == 0 {
            return Ok(());
        }
        let resolved = runtime.resolve(stream)?;
        match runtime.capturing(resolved)? {
            Some(sequence) => runtime.capture_work(resolved, sequence, Work::Record(event)),
            // SAFETY: a record has no side that is the host's.
            None => unsafe { perform(runtime, &Work::Record(event)) },
        }
    };
    record(runtime, events[0])?;
    // SAFETY: point 1.
    unsafe { launch(runtime, function, request, stream, params, extra) }?;
    if runtime.failure.is_some() { Ok(()) } else { record(runtime, events[1]) }
}

exports! {
    /// Loads a code object or a bundle of them from a file.
    fn hipModuleLoad(out: *mut Handle, path: *const c_char) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        runtime.alive()?;
        // SAFETY: point 1.
        let path = unsafe { string(path) }?;
        let bytes = std::fs::read(path).map_err(|_| Status::FILE_NOT_FOUND)?;
        let handle = runtime.load(image_of_file(&bytes)?)?;
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// Loads a code object or a bundle of them from memory.
    fn hipModuleLoadData(out: *mut Handle, data: *const c_void) |runtime| {
        // SAFETY: point 1.
        unsafe { load(runtime, out, data) }
    }

    /// Loads a code object from memory; options of the just-in-time linker are not looked at, there is nothing to link.
    fn hipModuleLoadDataEx(
        out: *mut Handle, data: *const c_void, _options: c_uint, _names: *mut c_int, _values: *mut *mut c_void,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { load(runtime, out, data) }
    }

    /// Unloads a module; its functions are stale from then on.
    fn hipModuleUnload(module: Handle) |runtime| { runtime.unload(module).map(drop) }

    /// A kernel by name.
    fn hipModuleGetFunction(out: *mut Handle, module: Handle, name: *const c_char) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let name = unsafe { string(name) }?;
        let handle = runtime.function_of(module, name)?;
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// An exported variable by name: its device address and bytes.
    fn hipModuleGetGlobal(
        address: *mut *mut c_void, bytes: *mut usize, module: Handle, name: *const c_char,
    ) |runtime| {
        // SAFETY: point 1.
        let name = unsafe { string(name) }?;
        if address.is_null() && bytes.is_null() || name.is_empty() {
            return Err(Status::INVALID_VALUE);
        }
        let found = runtime.modules.get(&module).ok_or(Status::INVALID_HANDLE)?.global(name);
        let (start, size) = found.ok_or(Status::NOT_FOUND)?;
        // SAFETY: point 1.
        unsafe { put_if(address, start as *mut c_void) };
        // SAFETY: point 1.
        unsafe { put_if(bytes, size as usize) };
        Ok(())
    }

    /// One fact of a kernel: most work-items (0), LDS (1), constants (2), scratch (3), vector registers (4), version (5 and 6), cache (7),
    /// LDS to ask for (8), carve-out (9).
    fn hipFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) |runtime| {
        if value.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let (_, kernel) = runtime.function(function)?;
        let facts = attributes(&kernel);
        let found = match attribute {
            0 => facts.max_threads_per_block,
            1 => facts.shared_bytes as c_int,
            2 => facts.const_bytes as c_int,
            3 => facts.local_bytes as c_int,
            4 => facts.registers,
            5 => facts.ptx_version,
            6 => facts.binary_version,
            7 => facts.cache_mode,
            8 => facts.max_dynamic_shared_bytes,
            9 => facts.carveout,
            _ => return Err(Status::INVALID_VALUE),
        };
        // SAFETY: point 1.
        unsafe { put(value, found) }
    }

    /// Facts of a kernel by its host function or handle.
    fn hipFuncGetAttributes(out: *mut FuncAttributes, function: *const c_void) |runtime| {
        let function = runtime.any_function(function as u64)?;
        let (_, kernel) = runtime.function(function)?;
        // SAFETY: point 1.
        unsafe { put(out, attributes(&kernel)) }
    }

    /// LDS to ask for (8) and carve-out (9): checked against what the kernel may have. Launches may ask for it all without.
    fn hipFuncSetAttribute(function: *const c_void, attribute: c_int, value: c_int) |runtime| {
        let function = runtime.any_function(function as u64)?;
        let (_, kernel) = runtime.function(function)?;
        match attribute {
            8 if (0..=dynamic_lds(&kernel)).contains(&value) => Ok(()),
            9 if (-1..=100).contains(&value) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// A preference that changes nothing, as on AMD cards.
    fn hipFuncSetCacheConfig(function: *const c_void, config: c_int) |runtime| {
        runtime.any_function(function as u64)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// A preference that changes nothing, as on AMD cards.
    fn hipFuncSetSharedMemConfig(function: *const c_void, config: c_int) |runtime| {
        runtime.any_function(function as u64)?;
        if (0..=2).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Runs a kernel. The grid counts workgroups. Arguments come from `params` or from the blob of `extra`, never both. A trap is not this
    /// call's error: every later call that touches the device says it.
    fn hipModuleLaunchKernel(
        function: Handle,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        lds_bytes: c_uint, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |runtime| {
        let request = Request { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], lds_bytes };
        // SAFETY: point 1 for both arrays.
        unsafe { launch(runtime, function, request, stream, params, extra) }
    }

    /// Runs a kernel whose workgroups wait for each other: refused where the card could not hold them all at once.
    fn hipModuleLaunchCooperativeKernel(
        function: Handle,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        lds_bytes: c_uint, stream: Handle, params: *mut *mut c_void,
    ) |runtime| {
        let request = Request { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], lds_bytes };
        let (_, kernel) = runtime.function(function)?;
        fits_together(&kernel, &request)?;
        // SAFETY: point 1.
        unsafe { launch(runtime, function, request, stream, params, std::ptr::null_mut()) }
    }

    /// Runs a kernel. The grid counts work-items, a multiple of the workgroup's. Events are recorded before and after.
    fn hipExtModuleLaunchKernel(
        function: Handle,
        items_x: c_uint, items_y: c_uint, items_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        lds_bytes: usize, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void,
        start: Handle, stop: Handle, flags: c_uint,
    ) |runtime| {
        if flags & !ANY_ORDER != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let grid = Dim3 { x: items_x, y: items_y, z: items_z };
        let block = Dim3 { x: block_x, y: block_y, z: block_z };
        runtime.function(function)?;
        let request = request_of_items(grid, block, lds_bytes)?;
        // SAFETY: point 1 for both arrays.
        unsafe { launch_between_events(runtime, function, request, stream, params, extra, [start, stop]) }
    }

    /// The same by its old name.
    fn hipHccModuleLaunchKernel(
        function: Handle,
        items_x: c_uint, items_y: c_uint, items_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        lds_bytes: usize, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void,
        start: Handle, stop: Handle,
    ) |runtime| {
        let grid = Dim3 { x: items_x, y: items_y, z: items_z };
        let block = Dim3 { x: block_x, y: block_y, z: block_z };
        runtime.function(function)?;
        let request = request_of_items(grid, block, lds_bytes)?;
        // SAFETY: point 1 for both arrays.
        unsafe { launch_between_events(runtime, function, request, stream, params, extra, [start, stop]) }
    }

    /// The handle of a kernel that host code registered.
    fn hipGetFuncBySymbol(out: *mut Handle, symbol: *const c_void) |runtime| {
        let function = runtime.any_function(symbol as u64)?;
        // SAFETY: point 1.
        unsafe { put(out, function) }
    }

    /// Device address of a registered variable.
    fn hipGetSymbolAddress(out: *mut *mut c_void, symbol: *const c_void) |runtime| {
        let (address, _) = runtime.symbol(symbol as u64)?;
        // SAFETY: point 1.
        unsafe { put(out, address as *mut c_void) }
    }

    /// Bytes of a registered variable.
    fn hipGetSymbolSize(out: *mut usize, symbol: *const c_void) |runtime| {
        let (_, bytes) = runtime.symbol(symbol as u64)?;
        // SAFETY: point 1.
        unsafe { put(out, bytes as usize) }
    }
}

/// What else is exported here.
pub const OTHER_SIGNATURES: &[Signature] = &[
    Signature { name: "hipKernelNameRef", parameters: &["Handle"], result: "*const c_char" },
    Signature { name: "zynferEmulatorInstructions", parameters: &[], result: "u64" },
    Signature { name: "zynferEmulatorLastReport", parameters: &[], result: "*const c_char" },
];

/// A kernel's name, good for as long as its module is loaded; null for a handle that is none.
#[unsafe(no_mangle)]
pub extern "C" fn hipKernelNameRef(function: Handle) -> *const c_char {
    let name = std::panic::catch_unwind(|| {
        // The name lives in the module, which outlives this call.
        lock().function(function).map_or(std::ptr::null(), |(_, kernel)| kernel.c_name().as_ptr())
    });
    name.unwrap_or(std::ptr::null())
}

/// Wave-instructions of all launches of this process that ended well. Wraps after 2⁶⁴.
#[unsafe(no_mangle)]
pub extern "C" fn zynferEmulatorInstructions() -> u64 {
    launch::instructions()
}

/// Why the device is lost, or why this thread's last launch was refused by the emulator; empty for neither. The text stays valid until this
/// thread asks again.
#[unsafe(no_mangle)]
pub extern "C" fn zynferEmulatorLastReport() -> *const c_char {
    let text = std::panic::catch_unwind(|| {
        let report = lock().failure.clone().unwrap_or_else(|| REFUSAL.with_borrow(String::clone));
        REPORT.set(CString::new(report.replace('\0', " ")).unwrap_or_default());
        REPORT.with_borrow(|report| report.as_ptr())
    });
    text.unwrap_or(c"".as_ptr())
}
