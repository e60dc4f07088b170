//! Functions by name, for programs that ask instead of linking.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_char, c_int, c_void};

use super::{
    capture, context, copy, device, event, exports, graph, graph_node, host, memory, module, occupancy, per_thread,
    pool, put, put_if, register, stream, string,
};
use crate::status::Status;

/// `hipGetProcAddress…`: the default stream as the program was compiled, always the null stream, always the thread's own.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;
/// `HIP_GET_PROC_ADDRESS_SUCCESS` and `HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;

fn find(name: &str) -> Option<*const c_void> {
    let parts: [fn(&str) -> Option<*const c_void>; 17] = [
        capture::address,
        context::address,
        copy::address,
        device::address,
        device::other_address,
        event::address,
        graph::address,
        graph_node::address,
        host::address,
        memory::address,
        module::address,
        occupancy::address,
        per_thread::address,
        pool::address,
        address,
        register::address,
        stream::address,
    ];
    parts.into_iter().find_map(|part| part(name))
}

exports! {
    /// The address of a function by its name. Of two layouts a name without a version gets the one of the version asked for.
    fn hipGetProcAddress(
        symbol: *const c_char, out: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int,
    ) {
        // SAFETY: point 1.
        let name = unsafe { string(symbol) }?;
        if out.is_null() || flags > (LEGACY | PER_THREAD) {
            return Err(Status::INVALID_VALUE);
        }
        let versioned = match name {
            "hipGetDeviceProperties" | "hipChooseDevice" if version >= 600 => format!("{name}R0600"),
            _ if flags & PER_THREAD != 0 && find(&format!("{name}_spt")).is_some() => format!("{name}_spt"),
            _ => name.to_owned(),
        };
        let found = find(&versioned);
        // SAFETY: point 1.
        unsafe { put_if(status, if found.is_some() { FOUND } else { NOT_FOUND }) };
        // SAFETY: point 1.
        unsafe { put(out, found.map_or(std::ptr::null_mut(), <*const c_void>::cast_mut)) }?;
        found.map(drop).ok_or(Status::INVALID_VALUE)
    }
}
