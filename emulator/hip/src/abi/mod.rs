//! The exported functions, one file per part of HIP's manual. Each turns its C arguments into safe ones, calls the runtime, and turns
//! what comes back into a status. The macro below is the only way in: it holds the lock, keeps a panic inside and remembers the status.
//! Names and parameter orders are the vendor's.

pub mod device;
pub mod memory;
pub mod module;
pub mod stream;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::runtime::{LAST_ERROR, Outcome, Runtime, lock};
use crate::status::Status;

/// Runs one call: under the lock, with a panic turned into `hipErrorUnknown`, and the status kept for `hipGetLastError`.
pub(crate) fn call(work: impl FnOnce(&mut Runtime) -> Outcome) -> c_int {
    // The runtime stays consistent across a panic: see `runtime::lock`.
    let status = match catch_unwind(AssertUnwindSafe(|| work(&mut lock()))) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::UNKNOWN,
    };
    if status != Status::SUCCESS {
        LAST_ERROR.set(status);
    }
    status.0
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

/// Defines exported functions. `|runtime|` is the runtime under its lock; the body is an [`Outcome`].
macro_rules! exports {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$runtime:pat_param| $body:block )*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// 1. Each pointer is null or valid for what HIP's manual says the function reads or writes through it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            $crate::abi::call(|$runtime| $body)
        }
    )* };
}
pub(crate) use exports;
