//! What a stream is asked to do, as data: a call on an idle stream performs it at once, a call on a capturing stream puts it into a graph,
//! and a graph's launch performs it later. Addresses of the host are numbers here; only `abi::work` follows them.

use std::sync::Arc;

use crate::launch::{Block, Kernel, Request};

/// One end of a copy: rows of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub address: u64,
    /// Bytes from a row to the next.
    pub pitch: usize,
    /// Rows from a slice to the next.
    pub rows: usize,
}

/// A copy of a box of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// Target.
    pub dst: Place,
    /// Source.
    pub src: Place,
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// `hipMemcpyKind`.
    pub kind: i32,
}

impl Copy {
    /// A copy of `bytes` bytes in one run.
    pub fn line(dst: u64, src: u64, bytes: usize, kind: i32) -> Self {
        let place = |address| Place { address, pitch: bytes, rows: 1 };
        Self { dst: place(dst), src: place(src), width: bytes, height: 1, depth: 1, kind }
    }
}

/// Setting a box of elements.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// First element.
    pub dst: u64,
    /// Bytes from a row to the next.
    pub pitch: usize,
    /// Rows from a slice to the next.
    pub rows: usize,
    /// The element; of it the low `element` bytes count.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

impl Set {
    /// `count` elements in one run.
    pub fn line(dst: u64, value: u32, element: u32, count: usize) -> Self {
        Self { dst, pitch: 0, rows: 1, value, element, width: count, height: 1, depth: 1 }
    }
}

/// A launch, its arguments copied.
#[derive(Debug, Clone)]
pub struct KernelWork {
    /// Handle of the function, looked up again when it runs: its module may be gone by then.
    pub function: u64,
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Geometry.
    pub request: Request,
    /// Arguments.
    pub block: Arc<Block>,
}

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Work {
    /// Run a kernel.
    Kernel(KernelWork),
    /// Copy.
    Copy(Copy),
    /// Set.
    Set(Set),
    /// Call a function of the host: its address, and what it is given.
    Host(u64, u64),
    /// Everything in the graph of that handle, which belongs to the node that does this.
    Graph(u64),
    /// Nothing.
    Empty,
    /// Wait for an event: its handle.
    Wait(u64),
    /// Record an event: its handle.
    Record(u64),
}

impl Work {
    /// `hipGraphNodeType` of HIP 6, which counts from 0.
    pub fn node_type(&self) -> i32 {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Set(_) => 2,
            Work::Host(..) => 3,
            Work::Graph(_) => 4,
            Work::Empty => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
        }
    }
}
