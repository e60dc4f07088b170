//! Graphs as C sees them: making, asking, instantiating, launching, updating. Nodes and their parameters are [`super::graph_node`].
#![allow(non_snake_case, reason = "the vendor's names")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::sync::Arc;

use super::stream::call_host;
use super::work::{perform, prepare};
use super::{Handle, exports, get, list, put, put_if, put_list};
use crate::graph::{ExecNode, Step};
use crate::runtime::{Outcome, Runtime, lock};
use crate::status::Status;
use crate::work::Work;

/// `hipGraphInstantiateParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct InstantiateParams {
    error_node: u64,
    flags: u64,
    result: c_int,
    upload_stream: u64,
}

/// `hipGraphInstantiateFlag…`: free on launch, upload, launch from the device, priorities of nodes.
const AUTO_FREE: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const NODE_PRIORITY: u64 = 8;
/// `hipGraphInstantiateError` and `hipGraphInstantiateInvalidStructure`.
const INSTANTIATE_ERROR: c_int = 1;
const INVALID_STRUCTURE: c_int = 2;
/// `hipGraphExecUpdateError`.
const UPDATE_ERROR: c_int = 1;

/// Edges as a caller gives them.
///
/// # Safety
/// 1. `from` and `to` are null or valid for reading `count` handles.
unsafe fn edges(from: *const u64, to: *const u64, count: usize) -> Outcome<Vec<(u64, u64)>> {
    // SAFETY: point 1.
    let from = unsafe { list(from, count) }?;
    // SAFETY: point 1.
    let to = unsafe { list(to, count) }?;
    Ok(from.into_iter().zip(to).collect())
}

/// What a launch performs, in order, as it is now.
fn steps(nodes: &[ExecNode], out: &mut Vec<Arc<Work>>) {
    for node in nodes.iter().filter(|node| node.enabled) {
        match &node.step {
            Step::One(work) => out.push(Arc::clone(work)),
            Step::Graph(nodes) => steps(nodes, out),
        }
    }
}

/// A graph with what an executable graph does, for a launch that is captured.
fn as_graph(runtime: &mut Runtime, works: Vec<Arc<Work>>) -> Outcome<u64> {
    let graph = runtime.graphs.create(&mut runtime.handles);
    let mut last: Vec<u64> = Vec::new();
    for work in works {
        last = vec![runtime.graphs.add(&mut runtime.handles, graph, &last, (*work).clone())?];
    }
    Ok(graph)
}

fn instantiate(runtime: &mut Runtime, graph: u64, flags: u64) -> Outcome<u64> {
    runtime.graphs.instantiate(&mut runtime.handles, graph, flags)
}

exports! {
    /// An empty graph.
    fn hipGraphCreate(out: *mut Handle, flags: c_uint) |runtime| {
        if out.is_null() || flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let graph = runtime.graphs.create(&mut runtime.handles);
        // SAFETY: point 1.
        unsafe { put(out, graph) }
    }

    /// Ends a graph and its nodes. A stale one, one that is being captured and one that belongs to a node are refused.
    fn hipGraphDestroy(graph: Handle) |runtime| {
        if graph == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let captured = runtime.sequences.values().any(|sequence| sequence.graph == graph);
        if captured || !runtime.graphs.contains(graph) {
            return Err(Status::ILLEGAL_STATE);
        }
        if runtime.graphs.graph(graph)?.embedded {
            return Err(Status::INVALID_VALUE);
        }
        runtime.graphs.destroy(graph);
        Ok(())
    }

    /// Adds edges.
    fn hipGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize) |runtime| {
        // SAFETY: point 1.
        let edges = unsafe { edges(from, to, count) }?;
        runtime.graphs.add_dependencies(graph, &edges)
    }

    /// Removes edges.
    fn hipGraphRemoveDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize) |runtime| {
        // SAFETY: point 1.
        let edges = unsafe { edges(from, to, count) }?;
        runtime.graphs.remove_dependencies(graph, &edges)
    }

    /// The edges.
    fn hipGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize) |runtime| {
        let edges = runtime.graphs.edges(graph)?;
        if from.is_null() != to.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let (starts, ends): (Vec<u64>, Vec<u64>) = edges.into_iter().unzip();
        // SAFETY: point 1.
        let mut room = unsafe { get(count) }?;
        // SAFETY: point 1; the length is a local.
        unsafe { put_list(&starts, from, &raw mut room) }?;
        // SAFETY: point 1.
        unsafe { put_list(&ends, to, count) }
    }

    /// The nodes, each after those it waits for.
    fn hipGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) |runtime| {
        let order = runtime.graphs.order(graph)?;
        // SAFETY: point 1.
        unsafe { put_list(&order, nodes, count) }
    }

    /// The nodes that wait for none.
    fn hipGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) |runtime| {
        let roots = runtime.graphs.roots(graph)?;
        // SAFETY: point 1.
        unsafe { put_list(&roots, nodes, count) }
    }

    /// The nodes that one waits for.
    fn hipGraphNodeGetDependencies(node: Handle, nodes: *mut Handle, count: *mut usize) |runtime| {
        let found = runtime.graphs.node(node)?.dependencies.clone();
        // SAFETY: point 1.
        unsafe { put_list(&found, nodes, count) }
    }

    /// The nodes that wait for one.
    fn hipGraphNodeGetDependentNodes(node: Handle, nodes: *mut Handle, count: *mut usize) |runtime| {
        let found = runtime.graphs.dependents(node)?;
        // SAFETY: point 1.
        unsafe { put_list(&found, nodes, count) }
    }

    /// What a node is, as HIP 6 counts.
    fn hipGraphNodeGetType(node: Handle, kind: *mut c_int) |runtime| {
        let found = runtime.graphs.node(node)?.work.node_type();
        // SAFETY: point 1.
        unsafe { put(kind, found) }
    }

    /// Removes a node and its edges.
    fn hipGraphDestroyNode(node: Handle) |runtime| { runtime.graphs.destroy_node(node) }

    /// A copy with nodes of its own.
    fn hipGraphClone(out: *mut Handle, graph: Handle) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let copy = runtime.graphs.clone_graph(&mut runtime.handles, graph)?;
        // SAFETY: point 1.
        unsafe { put(out, copy) }
    }

    /// The copy's node of an original's.
    fn hipGraphNodeFindInClone(out: *mut Handle, original: Handle, clone: Handle) |runtime| {
        let found = runtime.graphs.find_in_clone(original, clone)?;
        // SAFETY: point 1.
        unsafe { put(out, found) }
    }

    /// An executable copy. The log stays empty: there is one way to fail, a circle.
    fn hipGraphInstantiate(
        out: *mut Handle, graph: Handle, error_node: *mut Handle, log: *mut c_char, log_bytes: usize,
    ) |runtime| {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: point 1.
        unsafe { put_if(error_node, 0) };
        if log_bytes > 0 {
            // SAFETY: point 1.
            unsafe { put_if(log, 0) };
        }
        let exec = instantiate(runtime, graph, 0)?;
        // SAFETY: point 1.
        unsafe { put(out, exec) }
    }

    /// An executable copy, with flags.
    fn hipGraphInstantiateWithFlags(out: *mut Handle, graph: Handle, flags: c_ulonglong) |runtime| {
        if out.is_null() || !matches!(flags, 0 | AUTO_FREE | NODE_PRIORITY) {
            return Err(Status::INVALID_VALUE);
        }
        let exec = instantiate(runtime, graph, flags)?;
        // SAFETY: point 1.
        unsafe { put(out, exec) }
    }

    /// An executable copy, with a struct.
    fn hipGraphInstantiateWithParams(out: *mut Handle, graph: Handle, params: *mut InstantiateParams) |runtime| {
        // SAFETY: point 1.
        let mut asked = unsafe { get(params) }?;
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        asked.error_node = 0;
        let made = match asked.flags {
            0 | AUTO_FREE | UPLOAD | NODE_PRIORITY => instantiate(runtime, graph, asked.flags),
            DEVICE_LAUNCH => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_VALUE),
        };
        let circle = made.is_err() && runtime.graphs.contains(graph) && runtime.graphs.order(graph).is_err();
        asked.result = match &made {
            Ok(_) => 0,
            Err(_) if circle => INVALID_STRUCTURE,
            Err(_) => INSTANTIATE_ERROR,
        };
        // SAFETY: point 1.
        unsafe { put(params, asked) }?;
        // SAFETY: point 1.
        unsafe { put(out, made?) }
    }

    /// Flags an executable graph was made with.
    fn hipGraphExecGetFlags(exec: Handle, flags: *mut c_ulonglong) |runtime| {
        let found = runtime.graphs.exec(exec)?.flags;
        // SAFETY: point 1.
        unsafe { put(flags, found) }
    }

    /// Nothing to prepare.
    fn hipGraphUpload(exec: Handle, stream: Handle) |runtime| {
        runtime.resolve(stream)?;
        runtime.graphs.exec(exec).map(drop)
    }

    /// Performs an executable graph, in order with `stream`; on a capturing stream, puts it into the graph.
    fn hipGraphLaunch(exec: Handle, stream: Handle) {
        let mut works = Vec::new();
        {
            let mut runtime = lock();
            let runtime = &mut *runtime;
            steps(&runtime.graphs.exec(exec)?.nodes, &mut works);
            let resolved = runtime.resolve(stream)?;
            if let Some(sequence) = prepare(runtime, resolved, &Work::Empty)? {
                let graph = as_graph(runtime, works)?;
                let captured = runtime.capture_work(resolved, sequence, Work::Graph(graph));
                runtime.graphs.destroy(graph);
                return captured;
            }
        }
        for work in works {
            // What trapped was asynchronous, and so is what it keeps from being done.
            if lock().failure.is_some() {
                return Ok(());
            }
            match *work {
                // SAFETY: point 1: whoever made the node promised that its function may be called when the graph is launched.
                Work::Host(function, data) => unsafe { call_host(function, data) },
                _ => {
                    let mut runtime = lock();
                    // SAFETY: point 1: whoever made the node promised the same of its host memory.
                    unsafe { perform(&mut runtime, &work) }?;
                }
            }
        }
        Ok(())
    }

    /// Ends an executable graph.
    fn hipGraphExecDestroy(exec: Handle) |runtime| {
        runtime.graphs.execs.remove(&exec).map(drop).ok_or(Status::INVALID_VALUE)
    }

    /// Takes over what the nodes of a graph of the same shape do. Nothing changes when it has another.
    fn hipGraphExecUpdate(
        exec: Handle, graph: Handle, error_node: *mut Handle, result: *mut c_int,
    ) |runtime| {
        if error_node.is_null() || result.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let updated = runtime.graphs.update(exec, graph);
        let (node, number) = match &updated {
            Ok(Ok(())) => (0, 0),
            Ok(Err(error)) => (error.node, error.result),
            Err(_) => (0, UPDATE_ERROR),
        };
        // SAFETY: point 1.
        unsafe { put(error_node, node) }?;
        // SAFETY: point 1.
        unsafe { put(result, number) }?;
        updated?.map_err(|_| Status::GRAPH_EXEC_UPDATE_FAILURE)
    }

    /// Whether a launch performs a node.
    fn hipGraphNodeGetEnabled(exec: Handle, node: Handle, enabled: *mut c_uint) |runtime| {
        let found = runtime.graphs.exec_node(exec, node)?.enabled;
        // SAFETY: point 1.
        unsafe { put(enabled, c_uint::from(found)) }
    }

    /// Sets whether a launch performs a node: a kernel, a copy or a fill.
    fn hipGraphNodeSetEnabled(exec: Handle, node: Handle, enabled: c_uint) |runtime| {
        let node = runtime.graphs.exec_node(exec, node)?;
        match &node.step {
            Step::One(work) if matches!(**work, Work::Kernel(_) | Work::Copy(_) | Work::Set(_)) => {
                node.enabled = enabled != 0;
                Ok(())
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }
}
