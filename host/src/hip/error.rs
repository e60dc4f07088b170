//! Errors of the HIP boundary: a status becomes a `Result` here and nowhere else. It deliberately holds no advice about cards or
//! drivers: that is [`super::system`]'s.

use std::ffi::{CStr, c_char};

use super::ffi::{Hip, hipError_t, status};

/// A HIP call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HipError {
    /// The vendor's name of the call.
    pub call: &'static str,
    /// Its status; 0 when the host refused before it called.
    pub status: hipError_t,
    /// The status's name, and where known what the call was about (both numbers, the kernel's name).
    pub detail: String,
}

impl std::fmt::Display for HipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            status::SUCCESS => write!(f, "{} was not called: {}", self.call, self.detail),
            failed => write!(f, "{} failed with status {failed}: {}", self.call, self.detail),
        }
    }
}
impl std::error::Error for HipError {}

impl HipError {
    /// The same error, with what the call was about put behind the status's name.
    pub fn about(mut self, what: impl std::fmt::Display) -> Self {
        self.detail = format!("{}: {what}", self.detail);
        self
    }
}

impl Hip {
    /// `Ok` for success, else the error with the library's own name for the status.
    pub(super) fn check(&self, call: &'static str, status: hipError_t) -> Result<(), HipError> {
        if status == status::SUCCESS {
            return Ok(());
        }
        // SAFETY: takes a plain integer, any value allowed; the signature is the row's in `ffi`.
        let name = unsafe { (self.hipGetErrorName)(status) };
        // SAFETY: the library returns null or a pointer to a constant string that it never frees.
        let detail = unsafe { text(name) }.unwrap_or_else(|| "unknown status".into());
        Err(HipError { call, status, detail })
    }
}

/// A C string as text, lossily; `None` for null.
///
/// # Safety
/// 1. `pointer` is null, or points to a NUL-terminated string that nobody writes to during the call.
pub(super) unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not null, and by point 1 a terminated string.
    let string = unsafe { CStr::from_ptr(pointer) };
    Some(string.to_string_lossy().into_owned())
}
