//! Where work is done: at once for an idle stream, into a graph for a capturing one. The only place that follows the host's side of a copy.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use super::{host, host_mut};
use crate::launch::{self, Block, Kernel, Request};
use crate::runtime::{Outcome, REFUSAL, Runtime, memory_status};
use crate::status::Status;
use crate::work::{Copy, KernelWork, Set, Work};

/// `hipMemcpyKind`.
pub(super) const HOST_TO_HOST: i32 = 0;
pub(super) const HOST_TO_DEVICE: i32 = 1;
pub(super) const DEVICE_TO_HOST: i32 = 2;
pub(super) const DEVICE_TO_DEVICE: i32 = 3;
pub(super) const DEFAULT: i32 = 4;
/// Device to device without a kernel of the runtime's: HIP 6's number for it.
const DEVICE_TO_DEVICE_NO_CU: i32 = 1024;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `HIP_LAUNCH_PARAM_BUFFER_SIZE`, `HIP_LAUNCH_PARAM_END`.
const BUFFER_POINTER: u64 = 1;
const BUFFER_SIZE: u64 = 2;
const END: u64 = 3;

/// Bytes of an array at once in a copy between device ranges.
const PIECE: usize = 1 << 20;

/// The argument block of a launch.
///
/// # Safety
/// 1. `params` is null or an array of as many pointers as the kernel has explicit arguments, each valid for reading its size.
/// 2. `extra` is null or an array of five values as HIP's manual describes, whose blob is valid for reading its size.
pub(super) unsafe fn arguments(kernel: &Kernel, params: *mut *mut c_void, extra: *mut *mut c_void) -> Outcome<Block> {
    match (params.is_null(), extra.is_null()) {
        (false, false) => Err(Status::INVALID_VALUE),
        (true, true) if kernel.arguments().is_empty() => Ok(Block::new(kernel, kernel.block())),
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
            Ok(Block::new(kernel, block))
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
            Ok(Block::new(kernel, block))
        }
    }
}

/// A launch, checked and with its arguments copied.
///
/// # Safety
/// 1. As [`arguments`], for the kernel that `function` is.
pub(super) unsafe fn kernel_work(
    runtime: &Runtime,
    function: u64,
    request: Request,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome<Work> {
    let (_, kernel) = runtime.function(function)?;
    request.check(&kernel)?;
    // SAFETY: point 1.
    let block = unsafe { arguments(&kernel, params, extra) }?;
    Ok(Work::Kernel(KernelWork { function, kernel, request, block: Arc::new(block) }))
}

/// Does work on a stream, or puts it into the graph that the stream is capturing.
///
/// # Safety
/// 1. What the host's side of a copy is, is valid for what the copy reads or writes: now, and whenever a graph made of it is launched.
pub(super) unsafe fn submit(runtime: &mut Runtime, stream: u64, work: Work) -> Outcome {
    match prepare(runtime, stream, &work)? {
        Some(sequence) => runtime.capture_work(stream, sequence, work),
        // SAFETY: point 1.
        None => unsafe { perform(runtime, &work) },
    }
}

/// Whether a stream captures, after the refusals that both answers share.
pub(super) fn prepare(runtime: &mut Runtime, stream: u64, work: &Work) -> Outcome<Option<u64>> {
    let resolved = runtime.resolve(stream)?;
    runtime.alive()?;
    let sequence = runtime.capturing(resolved)?;
    if sequence.is_some() {
        check(runtime, work)?;
    } else if resolved == 0 {
        runtime.null_stream_is_free()?;
    }
    Ok(sequence)
}

/// What can be said about work before it is done.
pub(super) fn check(runtime: &Runtime, work: &Work) -> Outcome {
    match work {
        Work::Kernel(kernel) => {
            runtime.function(kernel.function)?;
            kernel.request.check(&kernel.kernel)
        }
        Work::Copy(copy) => copy_kind(runtime, copy).map(drop),
        Work::Set(set) => check_set(runtime, set),
        Work::Graph(graph) => runtime.graphs.graph(*graph).map(drop),
        Work::Wait(event) | Work::Record(event) => {
            if runtime.events.contains_key(event) {
                Ok(())
            } else {
                Err(Status::INVALID_HANDLE)
            }
        }
        Work::Host(function, _) => {
            if *function == 0 {
                Err(Status::INVALID_VALUE)
            } else {
                Ok(())
            }
        }
        Work::Empty => Ok(()),
    }
}

/// Does work that needs nobody else: neither a function of the host nor a graph.
///
/// # Safety
/// 1. What the host's side of a copy is, is valid for what the copy reads or writes.
pub(super) unsafe fn perform(runtime: &mut Runtime, work: &Work) -> Outcome {
    runtime.alive()?;
    match work {
        Work::Kernel(kernel) => run(runtime, kernel),
        // SAFETY: point 1.
        Work::Copy(copy) => unsafe { perform_copy(runtime, copy) },
        Work::Set(set) => perform_set(runtime, set),
        Work::Record(event) => {
            let event = runtime.event(*event)?;
            event.recorded = Some(Instant::now());
            event.captured = None;
            Ok(())
        }
        Work::Wait(event) => runtime.event(*event).map(drop),
        Work::Empty => Ok(()),
        Work::Host(..) | Work::Graph(_) => Err(Status::NOT_SUPPORTED),
    }
}

/// Runs a kernel to its end. A trap, or a defect where checks look for them, is the device's end, not this call's error: the launch was asynchronous.
fn run(runtime: &mut Runtime, work: &KernelWork) -> Outcome {
    REFUSAL.with_borrow_mut(String::clear);
    let (module, kernel) = runtime.function(work.function)?;
    work.request.check(&kernel)?;
    let Err(error) = module.run(&kernel, &work.request, work.block.bytes(), &runtime.memory) else { return Ok(()) };
    let report = error.to_string();
    eprintln!("zynfer emulator: {report}");
    if matches!(error, emulator::LaunchError::Trap(_) | emulator::LaunchError::Defects { .. }) {
        runtime.failure = Some(report);
        return Ok(());
    }
    REFUSAL.set(report);
    Err(launch::launch_status(&error))
}

/// Bytes that a box reaches over, from its first to its last.
fn extent(pitch: usize, rows: usize, width: usize, height: usize, depth: usize) -> Outcome<u64> {
    let slice = pitch.checked_mul(rows).ok_or(Status::INVALID_VALUE)?;
    let slices = slice.checked_mul(depth - 1);
    let lines = pitch.checked_mul(height - 1);
    let bytes = slices.zip(lines).and_then(|(slices, lines)| slices.checked_add(lines)?.checked_add(width));
    bytes.filter(|bytes| *bytes <= isize::MAX as usize).map(|bytes| bytes as u64).ok_or(Status::INVALID_VALUE)
}

/// The direction of a copy, its pitches and the device's side of it checked. `None` where there is nothing to copy.
fn copy_kind(runtime: &Runtime, copy: &Copy) -> Outcome<Option<i32>> {
    if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
        return Ok(None);
    }
    let Copy { dst, src, width, height, depth, kind } = *copy;
    let kind = match kind {
        DEFAULT => match (runtime.is_device(dst.address), runtime.is_device(src.address)) {
            (false, false) => HOST_TO_HOST,
            (true, false) => HOST_TO_DEVICE,
            (false, true) => DEVICE_TO_HOST,
            (true, true) => DEVICE_TO_DEVICE,
        },
        DEVICE_TO_DEVICE_NO_CU => DEVICE_TO_DEVICE,
        HOST_TO_HOST..=DEVICE_TO_DEVICE => kind,
        _ => return Err(Status::INVALID_MEMCPY_DIRECTION),
    };
    if (height > 1 || depth > 1) && (dst.pitch < width || src.pitch < width) {
        return Err(Status::INVALID_PITCH_VALUE);
    }
    if depth > 1 && (dst.rows < height || src.rows < height) {
        return Err(Status::INVALID_VALUE);
    }
    for (place, on_device) in [
        (dst, matches!(kind, HOST_TO_DEVICE | DEVICE_TO_DEVICE)),
        (src, matches!(kind, DEVICE_TO_HOST | DEVICE_TO_DEVICE)),
    ] {
        let bytes = extent(place.pitch, place.rows, width, height, depth)?;
        if on_device {
            runtime.inside(place.address, bytes)?;
        } else if place.address == 0 || runtime.memory.is_ours(place.address) {
            // Null, or the device's where the host's is named, perhaps freed: following it would end the process.
            return Err(Status::INVALID_VALUE);
        }
    }
    Ok(Some(kind))
}

/// A copy of any kind.
///
/// # Safety
/// 1. On the sides that the copy's kind names as the host's, each row of `dst` is valid for writing and of `src` for reading, or the
///    address is null; with [`DEFAULT`] a side is the host's when it is in no live allocation.
unsafe fn perform_copy(runtime: &mut Runtime, copy: &Copy) -> Outcome {
    let Some(kind) = copy_kind(runtime, copy)? else { return Ok(()) };
    let Copy { dst, src, width, height, depth, .. } = *copy;
    let rows = (0..depth).flat_map(|slice| (0..height).map(move |row| (slice, row)));
    let mut offsets: Vec<(u64, u64)> = rows
        .map(|(slice, row)| {
            let at = |pitch: usize, rows: usize| (pitch * (rows * slice + row)) as u64;
            (at(dst.pitch, dst.rows), at(src.pitch, src.rows))
        })
        .collect();
    // From the end where ranges may overlap that way round, so that they come out as memmove's do.
    if dst.address > src.address {
        offsets.reverse();
    }
    for (to, from) in offsets {
        // SAFETY: point 1: this is a row of both.
        unsafe { copy_row(runtime, dst.address + to, src.address + from, width, kind) }?;
    }
    Ok(())
}

/// Copies one row.
///
/// # Safety
/// 1. On the sides that `kind` names as the host's, `dst` is valid for writing and `src` for reading `bytes` bytes, or null.
unsafe fn copy_row(runtime: &mut Runtime, dst: u64, src: u64, bytes: usize, kind: i32) -> Outcome {
    let refused = |error| memory_status(&error);
    match kind {
        HOST_TO_HOST => {
            // SAFETY: point 1 for both sides; `copy` allows them to overlap.
            unsafe { std::ptr::copy(src as *const u8, dst as *mut u8, bytes) };
            Ok(())
        }
        HOST_TO_DEVICE => {
            // SAFETY: point 1 for the source.
            let source = unsafe { host(src as *const c_void, bytes) }?;
            runtime.memory.write(dst, source).map_err(refused)
        }
        DEVICE_TO_HOST => {
            // SAFETY: point 1 for the target.
            let target = unsafe { host_mut(dst as *mut c_void, bytes) }?;
            runtime.memory.read(src, target).map_err(refused)
        }
        _ => {
            let mut buffer = vec![0u8; bytes.min(PIECE)];
            let pieces = bytes.div_ceil(PIECE);
            for index in 0..pieces {
                let start = PIECE * if dst > src { pieces - 1 - index } else { index };
                let piece = &mut buffer[..PIECE.min(bytes - start)];
                runtime.memory.read(src + start as u64, piece).map_err(refused)?;
                runtime.memory.write(dst + start as u64, piece).map_err(refused)?;
            }
            Ok(())
        }
    }
}

fn check_set(runtime: &Runtime, set: &Set) -> Outcome {
    let Set { dst, pitch, rows, element, width, height, depth, .. } = *set;
    if !matches!(element, 1 | 2 | 4) {
        return Err(Status::INVALID_VALUE);
    }
    let bytes = width.checked_mul(element as usize).ok_or(Status::INVALID_VALUE)?;
    if bytes == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    if (height > 1 || depth > 1) && pitch < bytes || depth > 1 && rows < height {
        return Err(Status::INVALID_VALUE);
    }
    if !dst.is_multiple_of(u64::from(element)) || (height > 1 || depth > 1) && !pitch.is_multiple_of(element as usize) {
        return Err(Status::INVALID_VALUE);
    }
    runtime.inside(dst, extent(pitch, rows, bytes, height, depth)?)
}

fn perform_set(runtime: &mut Runtime, set: &Set) -> Outcome {
    check_set(runtime, set)?;
    let Set { dst, pitch, rows, value, element, width, height, depth } = *set;
    let bytes = width * element as usize;
    let pattern = &value.to_le_bytes()[..element as usize];
    let uniform = pattern.iter().all(|byte| *byte == pattern[0]);
    let piece = if uniform { Vec::new() } else { pattern.repeat(width.min(PIECE / 4)) };
    for (slice, row) in (0..depth).flat_map(|slice| (0..height).map(move |row| (slice, row))) {
        if bytes == 0 {
            break;
        }
        let address = dst + (pitch * (rows * slice + row)) as u64;
        if uniform {
            runtime.memory.fill(address, bytes as u64, pattern[0]).map_err(|error| memory_status(&error))?;
            continue;
        }
        for start in (0..bytes).step_by(piece.len()) {
            let part = &piece[..piece.len().min(bytes - start)];
            runtime.memory.write(address + start as u64, part).map_err(|error| memory_status(&error))?;
        }
    }
    Ok(())
}
