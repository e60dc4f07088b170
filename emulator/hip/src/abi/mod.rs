//! The exported functions, one file per part of HIP's manual. Each turns its C arguments into safe ones, calls the runtime, and turns
//! what comes back into a status. The macro below is the only way in: it holds the lock, keeps a panic inside, remembers the status and
//! lists the signature. Names and parameter orders are the vendor's.

pub mod capture;
pub mod context;
pub mod copy;
pub mod device;
pub mod event;
pub mod graph;
pub mod graph_node;
pub mod host;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod per_thread;
pub mod pool;
pub mod procedure;
pub mod register;
pub mod stats;
pub mod stream;
mod work;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::runtime::{LAST_ERROR, Outcome, lock};
use crate::status::Status;

/// An opaque pointer of HIP: a number that is looked up and never followed.
pub type Handle = u64;

/// An exported function as C sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Its symbol.
    pub name: &'static str,
    /// Types of its parameters as Rust writes them.
    pub parameters: &'static [&'static str],
    /// Type of its result as Rust writes it.
    pub result: &'static str,
}

/// Every exported function, for who wants to compare them with a header.
pub const SIGNATURES: &[&[Signature]] = &[
    capture::SIGNATURES,
    context::SIGNATURES,
    copy::SIGNATURES,
    device::SIGNATURES,
    device::OTHER_SIGNATURES,
    event::SIGNATURES,
    graph::SIGNATURES,
    graph_node::SIGNATURES,
    host::SIGNATURES,
    memory::SIGNATURES,
    module::SIGNATURES,
    module::OTHER_SIGNATURES,
    occupancy::SIGNATURES,
    per_thread::SIGNATURES,
    pool::SIGNATURES,
    procedure::SIGNATURES,
    register::SIGNATURES,
    register::OTHER_SIGNATURES,
    stats::SIGNATURES,
    stream::SIGNATURES,
];

/// `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dim3 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl Dim3 {
    pub(crate) fn array(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

/// Runs one call: with a panic turned into `hipErrorUnknown`, and the status kept for `hipGetLastError`.
pub(crate) fn call(work: impl FnOnce() -> Outcome) -> c_int {
    // The runtime stays consistent across a panic: see `runtime::lock`.
    let status = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::UNKNOWN,
    };
    if status != Status::SUCCESS {
        LAST_ERROR.set(status);
    }
    status.0
}

/// Runs one call that holds the runtime from its start to its end.
pub(crate) fn locked(work: impl FnOnce(&mut crate::runtime::Runtime) -> Outcome) -> c_int {
    call(|| work(&mut lock()))
}

/// Writes a result where the caller asked for it; a null pointer is `hipErrorInvalidValue`.
///
/// # Safety
/// 1. `out` is null or valid for writing one `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so by point 1 valid for writing; unaligned because C callers are not held to Rust's alignment.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Writes a result where the caller asked for it, nothing where the pointer is null.
///
/// # Safety
/// 1. `out` is null or valid for writing one `T`.
pub(crate) unsafe fn put_if<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: as in `put`.
        unsafe { out.write_unaligned(value) };
    }
}

/// Reads a value the caller passes by pointer; a null pointer is `hipErrorInvalidValue`.
///
/// # Safety
/// 1. `source` is null or valid for reading one `T`, any bits of which are a `T`.
pub(crate) unsafe fn get<T: Copy>(source: *const T) -> Outcome<T> {
    if source.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so by point 1 valid for reading; unaligned as in `put`.
    Ok(unsafe { source.read_unaligned() })
}

/// An array of numbers the caller passes; null is empty where there are none, else `hipErrorInvalidValue`.
///
/// # Safety
/// 1. `source` is null or valid for reading `count` numbers.
pub(crate) unsafe fn list(source: *const u64, count: usize) -> Outcome<Vec<u64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if source.is_null() || count > isize::MAX as usize / 8 {
        return Err(Status::INVALID_VALUE);
    }
    let mut values = Vec::new();
    for index in 0..count {
        let entry = source.wrapping_add(index);
        // SAFETY: point 1: the array has this entry.
        values.push(unsafe { entry.read_unaligned() });
    }
    Ok(values)
}

/// HIP's way to give a list: without `out` only its length; else as many as there is room for, the rest of the room zeroed and the
/// length lowered where there are fewer.
///
/// # Safety
/// 1. `count` is null or valid for reading and writing a number.
/// 2. `out` is null or valid for writing as many numbers as `count` says.
pub(crate) unsafe fn put_list(values: &[u64], out: *mut u64, count: *mut usize) -> Outcome {
    // SAFETY: point 1.
    let room = unsafe { get(count) }?;
    if out.is_null() {
        // SAFETY: point 1.
        return unsafe { put(count, values.len()) };
    }
    for index in 0..room {
        let entry = out.wrapping_add(index);
        let value = values.get(index).copied().unwrap_or(0);
        // SAFETY: point 2: the array has this entry.
        unsafe { entry.write_unaligned(value) };
    }
    // SAFETY: point 1.
    unsafe { put(count, room.min(values.len())) }
}

/// Host memory of a copy as a slice.
///
/// # Safety
/// 1. `source` is null or valid for reading `bytes` bytes that nobody writes to during `'a`.
pub(crate) unsafe fn host<'a>(source: *const std::ffi::c_void, bytes: usize) -> Outcome<&'a [u8]> {
    if source.is_null() || bytes > isize::MAX as usize {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so by point 1 valid for reading, and no larger than an object may be; bytes have no alignment.
    Ok(unsafe { std::slice::from_raw_parts(source.cast(), bytes) })
}

/// Host memory of a copy as a slice to fill.
///
/// # Safety
/// 1. `target` is null or valid for writing `bytes` initialised bytes that nobody else uses during `'a`.
pub(crate) unsafe fn host_mut<'a>(target: *mut std::ffi::c_void, bytes: usize) -> Outcome<&'a mut [u8]> {
    if target.is_null() || bytes > isize::MAX as usize {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so by point 1 valid and ours alone, and no larger than an object may be; bytes have no alignment.
    Ok(unsafe { std::slice::from_raw_parts_mut(target.cast(), bytes) })
}

/// A C string as text; null or not UTF-8 is `hipErrorInvalidValue`.
///
/// # Safety
/// 1. `text` is null or points to a NUL-terminated string that nobody writes to during `'a`.
pub(crate) unsafe fn string<'a>(text: *const std::ffi::c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so by point 1 a terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    text.to_str().map_err(|_| Status::INVALID_VALUE)
}

/// Defines exported functions. `|runtime|` is the runtime under its lock, `||` says that the body takes the lock itself, as it must when
/// it calls the program back; the body is an [`Outcome`]. What they are is listed as `SIGNATURES`.
macro_rules! exports {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(|$runtime:pat_param|)? $body:block )*) => {
        /// What is exported here.
        pub const SIGNATURES: &[$crate::abi::Signature] = &[$( $crate::abi::Signature {
            name: stringify!($name), parameters: &[$(stringify!($ty)),*], result: "c_int",
        } ),*];

        /// The address of a function that is exported here.
        pub(super) fn address(name: &str) -> Option<*const std::ffi::c_void> {
            match name {
                $( stringify!($name) => Some($name as *const std::ffi::c_void), )*
                _ => None,
            }
        }
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// 1. Each pointer is null or valid for what HIP's manual says the function reads or writes through it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                $crate::abi::exports!(@call $(|$runtime|)? $body)
            }
        )*
    };
    (@call |$runtime:pat_param| $body:block) => { $crate::abi::locked(|$runtime| $body) };
    (@call $body:block) => { $crate::abi::call(|| $body) };
}
pub(crate) use exports;
