//! Occupancy: what HIP answers from a kernel's resources.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::{Handle, exports, put};
use crate::launch::Kernel;
use crate::occupancy::{best_block, workgroups_per_multiprocessor};
use crate::runtime::{Outcome, Runtime};
use crate::status::Status;

/// # Safety
/// 1. `grid` and `block` are null or valid for writing.
unsafe fn potential(
    kernel: Outcome<Arc<Kernel>>,
    grid: *mut c_int,
    block: *mut c_int,
    lds: usize,
    limit: c_int,
) -> Outcome {
    if grid.is_null() || block.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let limit = u32::try_from(limit).map_err(|_| Status::INVALID_VALUE)?;
    let (items, groups) = best_block(&*kernel?, lds as u64, limit);
    // SAFETY: point 1.
    unsafe { put(grid, c_int::try_from(groups).unwrap_or(c_int::MAX)) }?;
    // SAFETY: point 1.
    unsafe { put(block, items as c_int) }
}

/// # Safety
/// 1. `groups` is null or valid for writing.
unsafe fn active(kernel: Outcome<Arc<Kernel>>, groups: *mut c_int, items: c_int, lds: usize) -> Outcome {
    let items = u32::try_from(items).ok().filter(|items| *items > 0).ok_or(Status::INVALID_VALUE)?;
    if groups.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let found = workgroups_per_multiprocessor(&*kernel?, items, lds as u64);
    // SAFETY: point 1.
    unsafe { put(groups, found as c_int) }
}

fn by_handle(runtime: &Runtime, function: u64) -> Outcome<Arc<Kernel>> {
    runtime.function(function).map(|(_, kernel)| kernel)
}

fn by_symbol(runtime: &mut Runtime, symbol: *const c_void) -> Outcome<Arc<Kernel>> {
    let function = runtime.any_function(symbol as u64)?;
    by_handle(runtime, function)
}

/// `hipOccupancyDefault` and CUDA's flag about caches, which changes nothing.
fn known_flags(flags: c_uint) -> Outcome {
    if flags <= 1 { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

exports! {
    /// The workgroup size with most waves resident, and how many such workgroups fill the device.
    fn hipModuleOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: Handle, lds: usize, limit: c_int,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { potential(by_handle(runtime, function), grid, block, lds, limit) }
    }

    /// The same; flags change nothing.
    fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut c_int, block: *mut c_int, function: Handle, lds: usize, limit: c_int, flags: c_uint,
    ) |runtime| {
        known_flags(flags)?;
        // SAFETY: point 1.
        unsafe { potential(by_handle(runtime, function), grid, block, lds, limit) }
    }

    /// How many workgroups of that size a workgroup processor holds.
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        groups: *mut c_int, function: Handle, items: c_int, lds: usize,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { active(by_handle(runtime, function), groups, items, lds) }
    }

    /// The same; flags change nothing.
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        groups: *mut c_int, function: Handle, items: c_int, lds: usize, flags: c_uint,
    ) |runtime| {
        known_flags(flags)?;
        // SAFETY: point 1.
        unsafe { active(by_handle(runtime, function), groups, items, lds) }
    }

    /// As the module's call, for a registered kernel.
    fn hipOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, symbol: *const c_void, lds: usize, limit: c_int,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { potential(by_symbol(runtime, symbol), grid, block, lds, limit) }
    }

    /// As the module's call, for a registered kernel.
    fn hipOccupancyMaxActiveBlocksPerMultiprocessor(
        groups: *mut c_int, symbol: *const c_void, items: c_int, lds: usize,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { active(by_symbol(runtime, symbol), groups, items, lds) }
    }

    /// The same; flags change nothing.
    fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        groups: *mut c_int, symbol: *const c_void, items: c_int, lds: usize, flags: c_uint,
    ) |runtime| {
        known_flags(flags)?;
        // SAFETY: point 1.
        unsafe { active(by_symbol(runtime, symbol), groups, items, lds) }
    }
}
