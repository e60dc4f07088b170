//! What compiled HIP programs call: registration of their code objects before `main`, and launches by the address of a host function.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use super::module::{fits_together, image, launch, launch_between_events};
use super::{Dim3, Handle, Signature, exports, get, put, string};
use crate::launch::Request;
use crate::runtime::{Kind, Outcome, lock};
use crate::status::Status;

/// What the compiler puts around a bundle.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FatBinary {
    magic: u32,
    version: u32,
    binary: *const c_void,
    unused: *const c_void,
}

/// `HIPF`.
const MAGIC: u32 = 0x4849_5046;

/// What `<<<…>>>` says before the arguments are there.
#[derive(Debug, Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    lds_bytes: usize,
    stream: u64,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

fn request(grid: Dim3, block: Dim3, lds_bytes: usize) -> Outcome<Request> {
    let lds_bytes = u32::try_from(lds_bytes).map_err(|_| Status::INVALID_VALUE)?;
    Ok(Request { grid: grid.array(), block: block.array(), lds_bytes })
}

exports! {
    /// Keeps a launch's geometry until its arguments are there.
    fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, lds_bytes: usize, stream: Handle) {
        CONFIGURATIONS.with_borrow_mut(|all| all.push(Configuration { grid, block, lds_bytes, stream }));
        Ok(())
    }

    /// Gives it back.
    fn __hipPopCallConfiguration(
        grid: *mut Dim3, block: *mut Dim3, lds_bytes: *mut usize, stream: *mut Handle,
    ) {
        let found = CONFIGURATIONS.with_borrow_mut(Vec::pop).ok_or(Status::MISSING_CONFIGURATION)?;
        // SAFETY: point 1.
        unsafe { put(grid, found.grid) }?;
        // SAFETY: point 1.
        unsafe { put(block, found.block) }?;
        // SAFETY: point 1.
        unsafe { put(lds_bytes, found.lds_bytes) }?;
        // SAFETY: point 1.
        unsafe { put(stream, found.stream) }
    }

    /// Runs the kernel that a host function stands for.
    fn hipLaunchKernel(
        function: *const c_void, grid: Dim3, block: Dim3, params: *mut *mut c_void, lds_bytes: usize, stream: Handle,
    ) |runtime| {
        runtime.alive()?;
        let function = runtime.any_function(function as u64)?;
        // SAFETY: point 1.
        unsafe { launch(runtime, function, request(grid, block, lds_bytes)?, stream, params, std::ptr::null_mut()) }
    }

    /// The same, with events recorded before and after.
    fn hipExtLaunchKernel(
        function: *const c_void, grid: Dim3, block: Dim3, params: *mut *mut c_void, lds_bytes: usize, stream: Handle,
        start: Handle, stop: Handle, _flags: c_int,
    ) |runtime| {
        runtime.alive()?;
        let function = runtime.any_function(function as u64)?;
        let request = request(grid, block, lds_bytes)?;
        let extra = std::ptr::null_mut();
        // SAFETY: point 1.
        unsafe { launch_between_events(runtime, function, request, stream, params, extra, [start, stop]) }
    }

    /// The same for workgroups that wait for each other: refused where the card could not hold them all at once.
    fn hipLaunchCooperativeKernel(
        function: *const c_void, grid: Dim3, block: Dim3, params: *mut *mut c_void, lds_bytes: c_uint, stream: Handle,
    ) |runtime| {
        runtime.alive()?;
        let function = runtime.any_function(function as u64)?;
        let request = request(grid, block, lds_bytes as usize)?;
        let (_, kernel) = runtime.function(function)?;
        fits_together(&kernel, &request)?;
        // SAFETY: point 1.
        unsafe { launch(runtime, function, request, stream, params, std::ptr::null_mut()) }
    }
}

/// What else is exported here.
pub const OTHER_SIGNATURES: &[Signature] = &[
    Signature { name: "__hipRegisterFatBinary", parameters: &["*const FatBinary"], result: "Handle" },
    Signature { name: "__hipUnregisterFatBinary", parameters: &["Handle"], result: "()" },
    Signature {
        name: "__hipRegisterFunction",
        parameters: &[
            "Handle",
            "*const c_void",
            "*const c_char",
            "*const c_char",
            "c_uint",
            "*mut c_void",
            "*mut c_void",
            "*mut c_void",
            "*mut c_void",
            "*mut c_int",
        ],
        result: "()",
    },
    Signature {
        name: "__hipRegisterVar",
        parameters: &["Handle", "*const c_void", "*const c_char", "*const c_char", "c_int", "usize", "c_int", "c_int"],
        result: "()",
    },
    Signature {
        name: "__hipRegisterManagedVar",
        parameters: &["Handle", "*mut *mut c_void", "*const c_void", "*const c_char", "usize", "c_uint"],
        result: "()",
    },
];

/// Registers a bundle of code objects; the handle is null for what is no such thing.
///
/// # Safety
/// 1. `data` is null or points to what the compiler makes, whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFatBinary(data: *const FatBinary) -> Handle {
    let registered = std::panic::catch_unwind(|| {
        // SAFETY: point 1.
        let wrapper = unsafe { get(data) }.ok().filter(|wrapper| wrapper.magic == MAGIC && wrapper.version == 1);
        let Some(wrapper) = wrapper else { return 0 };
        // SAFETY: point 1.
        let image = unsafe { image(wrapper.binary) }.map(<[u8]>::to_vec);
        let mut runtime = lock();
        let handle = runtime.handle();
        runtime.static_code.add(handle, image);
        handle
    });
    registered.unwrap_or(0)
}

/// Forgets it.
#[unsafe(no_mangle)]
pub extern "C" fn __hipUnregisterFatBinary(binary: Handle) {
    let _ = std::panic::catch_unwind(|| lock().unregister(binary));
}

/// Says which kernel a host function stands for.
///
/// # Safety
/// 1. `device_name` is null or a terminated string. Everything else is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFunction(
    binary: Handle,
    host_function: *const c_void,
    _device_function: *const c_char,
    device_name: *const c_char,
    _thread_limit: c_uint,
    _tid: *mut c_void,
    _bid: *mut c_void,
    _block: *mut c_void,
    _grid: *mut c_void,
    _wave: *mut c_int,
) {
    let host = host_function as u64;
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: point 1.
        if let Ok(name) = unsafe { string(device_name) } {
            lock().static_code.kernel(binary, host, name);
        }
    });
}

/// Says which variable of the device one of the host stands for.
///
/// # Safety
/// 1. `device_name` is null or a terminated string. Everything else is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterVar(
    binary: Handle,
    host_variable: *const c_void,
    _host_name: *const c_char,
    device_name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    let host = host_variable as u64;
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: point 1.
        if let Ok(name) = unsafe { string(device_name) } {
            lock().static_code.variable(binary, host, name);
        }
    });
}

/// Makes the memory of a managed variable, with its first value, and tells host and device where it is. `hipDeviceReset` frees it, and with
/// it the variable's use.
///
/// # Safety
/// 1. `pointer` is null or valid for writing, `initial` null or valid for reading `bytes` bytes, `name` null or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterManagedVar(
    binary: Handle,
    pointer: *mut *mut c_void,
    initial: *const c_void,
    name: *const c_char,
    bytes: usize,
    _align: c_uint,
) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: point 1.
        let Ok(name) = (unsafe { string(name) }) else { return };
        let mut runtime = lock();
        let Ok(address) = runtime.allocate(Kind::Managed, bytes as u64, 1, 0) else { return };
        // SAFETY: point 1.
        if let Ok(initial) = unsafe { super::host(initial, bytes) } {
            let _ = runtime.memory.write(address, initial);
        }
        runtime.static_code.managed(binary, name, address);
        // SAFETY: point 1.
        let _ = unsafe { put(pointer, address as *mut c_void) };
    });
}
