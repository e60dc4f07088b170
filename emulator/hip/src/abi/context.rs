//! Contexts: names for the one device's state, current by thread. They hold nothing of their own, so that a context's end ends nothing.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint};

use super::device::only_device;
use super::{Handle, exports, put};
use crate::runtime::{CONTEXTS, Outcome, Runtime};
use crate::status::Status;

/// Version of the context interface.
const API_VERSION: c_int = 4;

fn known(runtime: &Runtime, context: u64) -> Outcome {
    if runtime.contexts.contains_key(&context) { Ok(()) } else { Err(Status::INVALID_CONTEXT) }
}

/// The current context: the primary one where this thread has set none.
fn current(runtime: &Runtime) -> u64 {
    let top = CONTEXTS.with_borrow(|stack| stack.last().copied());
    top.filter(|context| runtime.contexts.contains_key(context)).unwrap_or(runtime.primary)
}

exports! {
    /// A context, which becomes current.
    fn hipCtxCreate(out: *mut Handle, flags: c_uint, device: c_int) |runtime| {
        only_device(device)?;
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let handle = runtime.handle();
        runtime.contexts.insert(handle, flags);
        CONTEXTS.with_borrow_mut(|stack| stack.push(handle));
        // SAFETY: point 1.
        unsafe { put(out, handle) }
    }

    /// Ends a context; the primary one is refused.
    fn hipCtxDestroy(context: Handle) |runtime| {
        if context == 0 || context == runtime.primary {
            return Err(Status::INVALID_VALUE);
        }
        runtime.contexts.remove(&context).ok_or(Status::INVALID_CONTEXT)?;
        CONTEXTS.with_borrow_mut(|stack| stack.retain(|other| *other != context));
        Ok(())
    }

    /// Takes the current context off this thread.
    fn hipCtxPopCurrent(out: *mut Handle) |_| {
        let top = CONTEXTS.with_borrow_mut(Vec::pop).ok_or(Status::INVALID_CONTEXT)?;
        // SAFETY: point 1.
        unsafe { super::put_if(out, top) };
        Ok(())
    }

    /// Makes a context current, above the one that is.
    fn hipCtxPushCurrent(context: Handle) |runtime| {
        known(runtime, context)?;
        CONTEXTS.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    }

    /// Makes a context current instead of the one that is; 0 leaves none.
    fn hipCtxSetCurrent(context: Handle) |runtime| {
        if context != 0 {
            known(runtime, context)?;
        }
        CONTEXTS.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        });
        Ok(())
    }

    /// The current context.
    fn hipCtxGetCurrent(out: *mut Handle) |runtime| {
        let context = current(runtime);
        // SAFETY: point 1.
        unsafe { put(out, context) }
    }

    /// Device 0.
    fn hipCtxGetDevice(device: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(device, 0) }
    }

    /// Version of the context interface.
    fn hipCtxGetApiVersion(context: Handle, version: *mut c_int) |runtime| {
        known(runtime, if context == 0 { runtime.primary } else { context })?;
        // SAFETY: point 1.
        unsafe { put(version, API_VERSION) }
    }

    /// Flags of the current context.
    fn hipCtxGetFlags(flags: *mut c_uint) |runtime| {
        let found = runtime.contexts.get(&current(runtime)).copied().unwrap_or(0);
        // SAFETY: point 1.
        unsafe { put(flags, found) }
    }

    /// As `hipDeviceSynchronize`.
    fn hipCtxSynchronize() |runtime| {
        runtime.may_wait_for_device()?;
        runtime.alive()
    }

    /// A preference that changes nothing, as on AMD cards.
    fn hipCtxSetCacheConfig(config: c_int) |_| {
        if (0..=3).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// No preference.
    fn hipCtxGetCacheConfig(config: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(config, 0) }
    }

    /// A preference that changes nothing, as on AMD cards.
    fn hipCtxSetSharedMemConfig(config: c_int) |_| {
        if (0..=2).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Banks of four bytes.
    fn hipCtxGetSharedMemConfig(config: *mut c_int) |_| {
        // SAFETY: point 1.
        unsafe { put(config, 1) }
    }

    /// The device's own context, one more time.
    fn hipDevicePrimaryCtxRetain(out: *mut Handle, device: c_int) |runtime| {
        only_device(device)?;
        let primary = runtime.primary;
        // SAFETY: point 1.
        unsafe { put(out, primary) }?;
        runtime.primary_retained += 1;
        Ok(())
    }

    /// The device's own context, one time less.
    fn hipDevicePrimaryCtxRelease(device: c_int) |runtime| {
        only_device(device)?;
        runtime.primary_retained = runtime.primary_retained.saturating_sub(1);
        Ok(())
    }

    /// Flags of the device's own context, and whether it is in use.
    fn hipDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) |runtime| {
        only_device(device)?;
        let found = runtime.contexts.get(&runtime.primary).copied().unwrap_or(0);
        // SAFETY: point 1.
        unsafe { put(flags, found) }?;
        // SAFETY: point 1.
        unsafe { put(active, c_int::from(runtime.primary_retained > 0)) }
    }

    /// As `hipDeviceReset`.
    fn hipDevicePrimaryCtxReset(device: c_int) |runtime| {
        only_device(device)?;
        runtime.reset();
        Ok(())
    }

    /// The device's own context is always there, so that its flags cannot be set any more.
    fn hipDevicePrimaryCtxSetFlags(device: c_int, _flags: c_uint) |_| {
        only_device(device)?;
        Err(Status::CONTEXT_ALREADY_IN_USE)
    }
}
