//! Code objects, kernels and launches.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use super::{exports, host, put, string};
use crate::launch::{self, Kernel, Module, Request};
use crate::runtime::{Outcome, REPORT, Runtime};
use crate::status::Status;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `HIP_LAUNCH_PARAM_BUFFER_SIZE`, `HIP_LAUNCH_PARAM_END`.
const BUFFER_POINTER: u64 = 1;
const BUFFER_SIZE: u64 = 2;
const END: u64 = 3;
/// Bytes of an ELF64 header.
const ELF_HEADER: usize = 64;
/// Longest image accepted: a broken header must not make this read gigabytes.
const MAX_IMAGE: u64 = 1 << 30;

fn insert(runtime: &mut Runtime, image: &[u8]) -> Outcome<u64> {
    let module = Module::load(image, &mut runtime.memory)?;
    let handle = runtime.handle();
    runtime.modules.insert(handle, Arc::new(module));
    Ok(handle)
}

/// The bytes of an ELF image of unknown length: HIP passes none, so its own header says how far it goes.
///
/// # Safety
/// 1. `image` is null or points to a whole image, at least 64 bytes, that nobody writes to during `'a`.
unsafe fn image<'a>(image: *const c_void) -> Outcome<&'a [u8]> {
    // SAFETY: point 1: any image has at least a header.
    let header = unsafe { host(image, ELF_HEADER) }?;
    let length = launch::image_bytes(header).filter(|length| *length <= MAX_IMAGE).ok_or(Status::INVALID_IMAGE)?;
    // SAFETY: point 1: the image is whole, so it reaches the end of its last table.
    unsafe { host(image, length as usize) }
}

/// The argument block of a launch.
///
/// # Safety
/// 1. `params` is null or an array of as many pointers as the kernel has explicit arguments, each valid for reading its size.
/// 2. `extra` is null or an array of five values as HIP's manual describes, whose blob is valid for reading its size.
unsafe fn arguments(kernel: &Kernel, params: *mut *mut c_void, extra: *mut *mut c_void) -> Outcome<Vec<u8>> {
    match (params.is_null(), extra.is_null()) {
        (false, false) => Err(Status::INVALID_VALUE),
        (true, true) if kernel.arguments().is_empty() => Ok(kernel.block()),
        (true, true) => Err(Status::INVALID_VALUE),
        (false, true) => {
            let mut block = kernel.block();
            for (index, argument) in kernel.arguments().iter().enumerate() {
                let entry = params.wrapping_add(index);
                // SAFETY: point 1: the array has this entry.
                let pointer = unsafe { entry.read_unaligned() };
                // SAFETY: point 1: the entry is valid for the argument's size.
                let bytes = unsafe { host(pointer, argument.size) }?;
                block[argument.offset..argument.offset + argument.size].copy_from_slice(bytes);
            }
            Ok(block)
        }
        (true, false) => {
            // SAFETY: point 2: five values.
            let words: [u64; 5] = unsafe { extra.cast::<[u64; 5]>().read_unaligned() };
            let [BUFFER_POINTER, blob, BUFFER_SIZE, size, END] = words else { return Err(Status::INVALID_VALUE) };
            // SAFETY: point 2: the fourth value points to a size.
            let size = unsafe { host(size as *const c_void, size_of::<usize>()) }?;
            let size = size.iter().rev().fold(0usize, |value, &byte| value << 8 | usize::from(byte));
            if size < kernel.explicit_bytes() {
                return Err(Status::INVALID_VALUE);
            }
            let mut block = kernel.block();
            if kernel.explicit_bytes() > 0 {
                // SAFETY: point 2: the blob has `size` bytes, and this many are not more.
                let blob = unsafe { host(blob as *const c_void, kernel.explicit_bytes()) }?;
                for argument in kernel.arguments() {
                    let range = argument.offset..argument.offset + argument.size;
                    block[range.clone()].copy_from_slice(&blob[range]);
                }
            }
            Ok(block)
        }
    }
}

exports! {
    /// Loads a code object from a file.
    fn hipModuleLoad(out: *mut u64, path: *const c_char) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let path = unsafe { string(path) }?;
        let bytes = std::fs::read(path).map_err(|_| Status::FILE_NOT_FOUND)?;
        let handle = insert(runtime, &bytes)?;
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// Loads a code object from memory.
    fn hipModuleLoadData(out: *mut u64, data: *const c_void) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let bytes = unsafe { image(data) }?;
        let handle = insert(runtime, bytes)?;
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// Loads a code object from memory; options of the just-in-time linker are not looked at, there is nothing to link.
    fn hipModuleLoadDataEx(
        out: *mut u64, data: *const c_void, _options: c_uint, _names: *mut c_int, _values: *mut *mut c_void,
    ) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let bytes = unsafe { image(data) }?;
        let handle = insert(runtime, bytes)?;
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// Unloads a module; its functions are stale from then on.
    fn hipModuleUnload(module: u64) |runtime| {
        let unloaded = runtime.modules.remove(&module).ok_or(Status::INVALID_HANDLE)?;
        runtime.functions.retain(|_, (owner, _)| *owner != module);
        // Its image was allocated by its load, and `hipFree` refuses it, so this cannot fail.
        let _ = runtime.memory.free(unloaded.base());
        if std::env::var_os("ZYNFER_EMULATOR_STATS").is_some_and(|value| value == "1") {
            eprint!("{}", unloaded.counters());
        }
        Ok(())
    }

    /// A kernel by name.
    fn hipModuleGetFunction(out: *mut u64, module: u64, name: *const c_char) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        let name = unsafe { string(name) }?;
        let kernel = runtime.modules.get(&module).ok_or(Status::INVALID_HANDLE)?.kernel(name).ok_or(Status::NOT_FOUND)?;
        let known = runtime.functions.iter().find(|(_, (owner, held))| *owner == module && Arc::ptr_eq(held, &kernel));
        let handle = match known {
            Some((handle, _)) => *handle,
            None => {
                let handle = runtime.handle();
                runtime.functions.insert(handle, (module, kernel));
                handle
            }
        };
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// Runs a kernel to its end. The grid counts workgroups. Arguments come from `params` or from the blob of `extra`, never both.
    fn hipModuleLaunchKernel(
        function: u64,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        lds_bytes: c_uint, stream: u64, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |runtime| {
        REPORT.set(CString::default());
        let (module, kernel) = runtime.functions.get(&function).cloned().ok_or(Status::INVALID_HANDLE)?;
        let module = runtime.modules.get(&module).cloned().ok_or(Status::INVALID_HANDLE)?;
        runtime.stream(stream)?;
        let request = Request { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], lds_bytes };
        request.check(&kernel)?;
        // SAFETY: point 1 for both arrays.
        let block = unsafe { arguments(&kernel, params, extra) }?;
        if let Err(error) = module.run(&kernel, &request, &block, &runtime.memory) {
            let report = error.to_string();
            eprintln!("zynfer emulator: {report}");
            REPORT.set(CString::new(report.replace('\0', " ")).unwrap_or_default());
            runtime.stream(stream)?.failed = true;
            return Err(launch::launch_status(&error));
        }
        Ok(())
    }
}

/// Why this thread's last launch did not finish, empty when it did; the text stays valid until this thread launches again.
#[unsafe(no_mangle)]
pub extern "C" fn zynferEmulatorLastReport() -> *const c_char {
    REPORT.with_borrow(|report| report.as_ptr())
}
