//! Counters of launches, beyond HIP: what `zynfer profile` asks for.
#![allow(non_snake_case, reason = "named as the other exports are")]

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use super::Signature;
use crate::stats;

/// What is exported here.
pub const SIGNATURES: &[Signature] = &[
    Signature { name: "zynferEmulatorCounting", parameters: &["c_int"], result: "c_int" },
    Signature { name: "zynferEmulatorCounters", parameters: &[], result: "*const c_char" },
];

thread_local! {
    /// What [`zynferEmulatorCounters`] last said on this thread.
    static COUNTERS: RefCell<CString> = RefCell::default();
}

/// Counts launches from now on (not 0) or no longer (0), and forgets what was counted. It cannot fail.
#[unsafe(no_mangle)]
pub extern "C" fn zynferEmulatorCounting(on: c_int) -> c_int {
    let _ = std::panic::catch_unwind(|| stats::ask(on != 0));
    0
}

/// What was counted since, as JSON: `machine`, `kernels`, `totals`. The text stays valid until this thread asks again.
#[unsafe(no_mangle)]
pub extern "C" fn zynferEmulatorCounters() -> *const c_char {
    let text = std::panic::catch_unwind(|| {
        COUNTERS.set(CString::new(stats::json()).unwrap_or_default());
        COUNTERS.with_borrow(|text| text.as_ptr())
    });
    text.unwrap_or(c"".as_ptr())
}
