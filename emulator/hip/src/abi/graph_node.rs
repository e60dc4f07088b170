//! Nodes of graphs as C sees them: adding each kind, and reading and changing what they do, in a graph or in an executable one.
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::copy::{Copy3D, symbol_copy};
use super::stream::HostFn;
use super::work::{check, kernel_work};
use super::{Dim3, Handle, exports, get, list, put};
use crate::launch::Request;
use crate::runtime::{Outcome, Runtime};
use crate::status::Status;
use crate::work::{Copy, Set, Work};

/// `hipKernelNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelNodeParams {
    block: Dim3,
    extra: *mut *mut c_void,
    function: u64,
    grid: Dim3,
    params: *mut *mut c_void,
    lds_bytes: c_uint,
}

/// `hipMemsetParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemsetParams {
    dst: u64,
    element: c_uint,
    height: usize,
    pitch: usize,
    value: c_uint,
    width: usize,
}

/// `hipHostNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostNodeParams {
    function: Option<HostFn>,
    data: *mut c_void,
}

impl HostNodeParams {
    fn work(&self) -> Outcome<Work> {
        let function = self.function.ok_or(Status::INVALID_VALUE)? as usize as u64;
        Ok(Work::Host(function, self.data as u64))
    }
}

impl MemsetParams {
    fn work(&self) -> Outcome<Work> {
        let MemsetParams { dst, element, height, pitch, value, width } = *self;
        if dst == 0 || width == 0 || height == 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Work::Set(Set { dst, pitch, rows: height, value, element, width, height, depth: 1 }))
    }
}

/// The work of a kernel node's parameters: checked, and with the arguments copied.
///
/// # Safety
/// 1. `params` is null or valid for reading; its arrays are as for a launch.
unsafe fn kernel(runtime: &mut Runtime, params: *const KernelNodeParams) -> Outcome<Work> {
    // SAFETY: point 1.
    let asked = unsafe { get(params) }?;
    if asked.function == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let function = runtime.any_function(asked.function)?;
    let request = Request { grid: asked.grid.array(), block: asked.block.array(), lds_bytes: asked.lds_bytes };
    // SAFETY: point 1.
    unsafe { kernel_work(runtime, function, request, asked.params, asked.extra) }
}

/// A copy of one run: of no bytes there is no node.
fn line(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int) -> Outcome<Work> {
    if dst.is_null() || src.is_null() || bytes == 0 || dst.cast_const() == src {
        return Err(Status::INVALID_VALUE);
    }
    Ok(Work::Copy(Copy::line(dst as u64, src as u64, bytes, kind)))
}

/// # Safety
/// 1. `params` is null or valid for reading.
unsafe fn boxed(params: *const Copy3D) -> Outcome<Work> {
    // SAFETY: point 1.
    Ok(Work::Copy(unsafe { get(params) }?.copy()?))
}

fn symbol(
    runtime: &mut Runtime,
    symbol: *const c_void,
    other: Result<u64, u64>,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> Outcome<Work> {
    if symbol.is_null() {
        return Err(Status::INVALID_SYMBOL);
    }
    if bytes == 0 || matches!(other, Ok(0) | Err(0)) {
        return Err(Status::INVALID_VALUE);
    }
    symbol_copy(runtime, symbol as u64, other, bytes, offset, kind).map(Work::Copy)
}

/// Adds a node after checking what it does.
///
/// # Safety
/// 1. `out` is null or valid for writing, `dependencies` null or valid for reading `count` handles.
unsafe fn add(
    runtime: &mut Runtime,
    out: *mut u64,
    graph: u64,
    dependencies: *const u64,
    count: usize,
    work: Outcome<Work>,
) -> Outcome {
    if out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    runtime.graphs.graph(graph)?;
    // SAFETY: point 1.
    let dependencies = unsafe { list(dependencies, count) }?;
    let work = work?;
    check(runtime, &work)?;
    let node = match work {
        Work::Graph(child) => runtime.graphs.add_child(&mut runtime.handles, graph, &dependencies, child),
        work => runtime.graphs.add(&mut runtime.handles, graph, &dependencies, work),
    }?;
    // A node added by hand to a graph that is being captured need not be joined.
    for sequence in runtime.sequences.values_mut().filter(|sequence| sequence.graph == graph) {
        sequence.before.push(node);
    }
    // SAFETY: point 1.
    unsafe { put(out, node) }
}

fn set(runtime: &mut Runtime, node: u64, work: Outcome<Work>) -> Outcome {
    runtime.graphs.node(node)?;
    let work = work?;
    check(runtime, &work)?;
    runtime.graphs.set_work(node, work)
}

fn set_exec(runtime: &mut Runtime, exec: u64, node: u64, work: Outcome<Work>) -> Outcome {
    runtime.graphs.exec_node(exec, node)?;
    let work = work?;
    check(runtime, &work)?;
    runtime.graphs.set_exec_work(exec, node, work)
}

fn work_of(runtime: &Runtime, node: u64) -> Outcome<Arc<Work>> {
    Ok(Arc::clone(&runtime.graphs.node(node)?.work))
}

exports! {
    /// A node that runs a kernel; its arguments are copied now.
    fn hipGraphAddKernelNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const KernelNodeParams,
    ) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { kernel(runtime, params) };
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// What a kernel node runs; the arguments are those it copied, good until the node changes or goes.
    fn hipGraphKernelNodeGetParams(node: Handle, params: *mut KernelNodeParams) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Kernel(kernel) = &*work else { return Err(Status::INVALID_VALUE) };
        let found = KernelNodeParams {
            block: kernel.request.block.into(),
            extra: std::ptr::null_mut(),
            function: kernel.function,
            grid: kernel.request.grid.into(),
            params: kernel.block.params() as *mut *mut c_void,
            lds_bytes: kernel.request.lds_bytes,
        };
        // SAFETY: point 1.
        unsafe { put(params, found) }
    }

    /// Changes what a kernel node runs.
    fn hipGraphKernelNodeSetParams(node: Handle, params: *const KernelNodeParams) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { kernel(runtime, params) };
        set(runtime, node, work)
    }

    /// Changes what a kernel node runs, in an executable graph only.
    fn hipGraphExecKernelNodeSetParams(exec: Handle, node: Handle, params: *const KernelNodeParams) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { kernel(runtime, params) };
        set_exec(runtime, exec, node, work)
    }

    /// A node that copies a box.
    fn hipGraphAddMemcpyNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const Copy3D,
    ) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { boxed(params) };
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// What a copy node copies.
    fn hipGraphMemcpyNodeGetParams(node: Handle, params: *mut Copy3D) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Copy(copy) = &*work else { return Err(Status::INVALID_VALUE) };
        // SAFETY: point 1.
        unsafe { put(params, Copy3D::from_copy(copy)) }
    }

    /// Changes what a copy node copies.
    fn hipGraphMemcpyNodeSetParams(node: Handle, params: *const Copy3D) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { boxed(params) };
        set(runtime, node, work)
    }

    /// Changes what a copy node copies, in an executable graph only; the direction stays.
    fn hipGraphExecMemcpyNodeSetParams(exec: Handle, node: Handle, params: *mut Copy3D) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { boxed(params) };
        set_exec(runtime, exec, node, work)
    }

    /// A node that copies one run of bytes.
    fn hipGraphAddMemcpyNode1D(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, dst: *mut c_void,
        src: *const c_void, bytes: usize, kind: c_int,
    ) |runtime| {
        let work = line(dst, src, bytes, kind);
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// Changes what a copy node copies.
    fn hipGraphMemcpyNodeSetParams1D(
        node: Handle, dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int,
    ) |runtime| {
        set(runtime, node, line(dst, src, bytes, kind))
    }

    /// Changes what a copy node copies, in an executable graph only; the direction stays.
    fn hipGraphExecMemcpyNodeSetParams1D(
        exec: Handle, node: Handle, dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int,
    ) |runtime| {
        set_exec(runtime, exec, node, line(dst, src, bytes, kind))
    }

    /// A node that copies from a registered variable.
    fn hipGraphAddMemcpyNodeFromSymbol(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, dst: *mut c_void,
        variable: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) |runtime| {
        let work = symbol(runtime, variable, Err(dst as u64), bytes, offset, kind);
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// Changes it.
    fn hipGraphMemcpyNodeSetParamsFromSymbol(
        node: Handle, dst: *mut c_void, variable: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) |runtime| {
        let work = symbol(runtime, variable, Err(dst as u64), bytes, offset, kind);
        set(runtime, node, work)
    }

    /// Changes it, in an executable graph only.
    fn hipGraphExecMemcpyNodeSetParamsFromSymbol(
        exec: Handle, node: Handle, dst: *mut c_void, variable: *const c_void, bytes: usize, offset: usize,
        kind: c_int,
    ) |runtime| {
        let work = symbol(runtime, variable, Err(dst as u64), bytes, offset, kind);
        set_exec(runtime, exec, node, work)
    }

    /// A node that copies to a registered variable.
    fn hipGraphAddMemcpyNodeToSymbol(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, variable: *const c_void,
        src: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) |runtime| {
        let work = symbol(runtime, variable, Ok(src as u64), bytes, offset, kind);
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// Changes it.
    fn hipGraphMemcpyNodeSetParamsToSymbol(
        node: Handle, variable: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) |runtime| {
        let work = symbol(runtime, variable, Ok(src as u64), bytes, offset, kind);
        set(runtime, node, work)
    }

    /// Changes it, in an executable graph only.
    fn hipGraphExecMemcpyNodeSetParamsToSymbol(
        exec: Handle, node: Handle, variable: *const c_void, src: *const c_void, bytes: usize, offset: usize,
        kind: c_int,
    ) |runtime| {
        let work = symbol(runtime, variable, Ok(src as u64), bytes, offset, kind);
        set_exec(runtime, exec, node, work)
    }

    /// A node that sets elements.
    fn hipGraphAddMemsetNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const MemsetParams,
    ) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { get(params) }.and_then(|params| params.work());
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// What a fill node sets.
    fn hipGraphMemsetNodeGetParams(node: Handle, params: *mut MemsetParams) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Set(Set { dst, pitch, value, element, width, height, .. }) = *work else {
            return Err(Status::INVALID_VALUE);
        };
        // SAFETY: point 1.
        unsafe { put(params, MemsetParams { dst, element, height, pitch, value, width }) }
    }

    /// Changes what a fill node sets.
    fn hipGraphMemsetNodeSetParams(node: Handle, params: *const MemsetParams) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { get(params) }.and_then(|params| params.work());
        set(runtime, node, work)
    }

    /// Changes what a fill node sets, in an executable graph only.
    fn hipGraphExecMemsetNodeSetParams(exec: Handle, node: Handle, params: *const MemsetParams) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { get(params) }.and_then(|params| params.work());
        set_exec(runtime, exec, node, work)
    }

    /// A node that calls a function of the program.
    fn hipGraphAddHostNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const HostNodeParams,
    ) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { get(params) }.and_then(|params| params.work());
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, work) }
    }

    /// What a host node calls.
    fn hipGraphHostNodeGetParams(node: Handle, params: *mut HostNodeParams) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Host(function, data) = *work else { return Err(Status::INVALID_VALUE) };
        // SAFETY: point 1; a function pointer and its number are alike on this target.
        unsafe { put(params.cast::<[u64; 2]>(), [function, data]) }
    }

    /// Changes what a host node calls.
    fn hipGraphHostNodeSetParams(node: Handle, params: *const HostNodeParams) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { get(params) }.and_then(|params| params.work());
        set(runtime, node, work)
    }

    /// Changes what a host node calls, in an executable graph only.
    fn hipGraphExecHostNodeSetParams(exec: Handle, node: Handle, params: *const HostNodeParams) |runtime| {
        // SAFETY: point 1.
        let work = unsafe { get(params) }.and_then(|params| params.work());
        set_exec(runtime, exec, node, work)
    }

    /// A node that does what a graph does now.
    fn hipGraphAddChildGraphNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, child: Handle,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, Ok(Work::Graph(child))) }
    }

    /// The graph that such a node holds; it goes with the node.
    fn hipGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Graph(child) = *work else { return Err(Status::INVALID_VALUE) };
        // SAFETY: point 1.
        unsafe { put(graph, child) }
    }

    /// Changes what such a node does, in an executable graph only, to a graph of the same shape.
    fn hipGraphExecChildGraphNodeSetParams(exec: Handle, node: Handle, child: Handle) |runtime| {
        runtime.graphs.set_exec_child(exec, node, child)
    }

    /// A node that does nothing.
    fn hipGraphAddEmptyNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, Ok(Work::Empty)) }
    }

    /// A node that records an event.
    fn hipGraphAddEventRecordNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, event: Handle,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, Ok(Work::Record(event))) }
    }

    /// The event it records.
    fn hipGraphEventRecordNodeGetEvent(node: Handle, event: *mut Handle) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Record(found) = *work else { return Err(Status::INVALID_VALUE) };
        // SAFETY: point 1.
        unsafe { put(event, found) }
    }

    /// Changes it.
    fn hipGraphEventRecordNodeSetEvent(node: Handle, event: Handle) |runtime| {
        set(runtime, node, Ok(Work::Record(event)))
    }

    /// Changes it, in an executable graph only.
    fn hipGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) |runtime| {
        set_exec(runtime, exec, node, Ok(Work::Record(event)))
    }

    /// A node that waits for an event.
    fn hipGraphAddEventWaitNode(
        out: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, event: Handle,
    ) |runtime| {
        // SAFETY: point 1.
        unsafe { add(runtime, out, graph, dependencies, count, Ok(Work::Wait(event))) }
    }

    /// The event it waits for.
    fn hipGraphEventWaitNodeGetEvent(node: Handle, event: *mut Handle) |runtime| {
        let work = work_of(runtime, node)?;
        let Work::Wait(found) = *work else { return Err(Status::INVALID_VALUE) };
        // SAFETY: point 1.
        unsafe { put(event, found) }
    }

    /// Changes it.
    fn hipGraphEventWaitNodeSetEvent(node: Handle, event: Handle) |runtime| {
        set(runtime, node, Ok(Work::Wait(event)))
    }

    /// Changes it, in an executable graph only.
    fn hipGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) |runtime| {
        set_exec(runtime, exec, node, Ok(Work::Wait(event)))
    }
}
