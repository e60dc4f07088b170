//! Graphs: what a stream is asked to do is recorded once and then launched any number of times, as one call each. A graph keeps the
//! memory and the kernels that its work refers to, so that a launch needs no further proof. Deliberately only capture of one stream:
//! no nodes by hand, no branches, no updates; what changes between launches lies in device memory.

use std::fmt;
use std::sync::Arc;

use super::captures::CAPTURES;
use super::error::HipError;
use super::ffi::{CAPTURE_THREAD_LOCAL, hipGraph_t, hipGraphExec_t, status};
use super::memory::{Context, Kept, Span};
use super::module::Module;
use super::stream::Stream;

/// What recorded work refers to.
#[derive(Default)]
pub(super) struct Recorded {
    memory: Kept,
    modules: Vec<Arc<Module>>,
    kernels: usize,
}

/// A graph of recorded work, to be made executable.
pub struct Graph {
    context: Arc<Context>,
    handle: hipGraph_t,
    recorded: Arc<Recorded>,
}

/// A graph that can be launched; independent of the [`Graph`] it was made from.
pub struct GraphExec {
    context: Arc<Context>,
    handle: hipGraphExec_t,
    recorded: Arc<Recorded>,
}

// SAFETY: HIP allows a graph to be used from any thread, one at a time; a `Graph` owns its handle alone and enters its context on
// whichever thread calls. What it keeps is only dropped.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Send for GraphExec {}

impl Stream {
    /// Records what `work` asks of this stream into a graph; nothing of it is done now. Kernels, device copies and fills are recorded.
    /// What would wait for the card (copies from and to the host, [`Stream::synchronize`], allocations and frees on this thread) is
    /// refused; an allocation or a free spoils the capture as well.
    ///
    /// # Errors
    /// `work`'s own error; else the stream is being captured already, or HIP refused the capture or found it spoiled. The stream is
    /// as before in each case.
    pub fn capture<E: From<HipError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let capture = Capture::begin(self)?;
        work()?;
        Ok(capture.end()?)
    }

    /// For calls that a capture cannot record.
    pub(super) fn not_capturing(&self, call: &'static str) -> Result<(), HipError> {
        match &*self.recorded.borrow() {
            None => Ok(()),
            Some(_) => Err(HipError { call, status: status::SUCCESS, detail: "the stream is being captured".into() }),
        }
    }

    /// Says that the next work refers to `spans`: a capture keeps them, otherwise this does nothing.
    pub(super) fn keep(&self, spans: &[&Span]) {
        if let Some(recorded) = &mut *self.recorded.borrow_mut() {
            spans.iter().for_each(|span| recorded.memory.keep(span));
        }
    }

    /// Says that a kernel of `module` was launched: a capture keeps it.
    pub(super) fn keep_kernel(&self, module: &Arc<Module>) {
        if let Some(recorded) = &mut *self.recorded.borrow_mut() {
            recorded.kernels += 1;
            if !recorded.modules.iter().any(|kept| Arc::ptr_eq(kept, module)) {
                recorded.modules.push(Arc::clone(module));
            }
        }
    }
}

/// A capture under way; ends when it goes, however that comes about.
struct Capture<'a> {
    stream: &'a Stream,
    ended: bool,
}

impl<'a> Capture<'a> {
    fn begin(stream: &'a Stream) -> Result<Self, HipError> {
        let call = "hipStreamBeginCapture";
        stream.not_capturing(call)?;
        let context = stream.context();
        context.enter()?;
        CAPTURES.begin(stream.handle() as usize, || {
            // SAFETY: the handle is live: its owner is borrowed.
            let status = unsafe { (context.library.hip.hipStreamBeginCapture)(stream.handle(), CAPTURE_THREAD_LOCAL) };
            context.check(call, status)
        })?;
        *stream.recorded.borrow_mut() = Some(Recorded::default());
        Ok(Self { stream, ended: false })
    }

    fn end(mut self) -> Result<Graph, HipError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Graph, HipError> {
        self.ended = true;
        let recorded = Arc::new(self.stream.recorded.borrow_mut().take().unwrap_or_default());
        let context = self.stream.context();
        let mut handle: hipGraph_t = std::ptr::null_mut();
        let ended = context.enter().and_then(|()| {
            // SAFETY: writes one handle to a live local; the stream's handle is live: its owner is borrowed.
            let status = unsafe { (context.library.hip.hipStreamEndCapture)(self.stream.handle(), &raw mut handle) };
            context.check("hipStreamEndCapture", status)
        });
        CAPTURES.end(self.stream.handle() as usize);
        ended?;
        if handle.is_null() {
            let detail = "gave no graph".into();
            return Err(HipError { call: "hipStreamEndCapture", status: status::SUCCESS, detail });
        }
        Ok(Graph { context: Arc::clone(context), handle, recorded })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // The caller has an error already, or panics; the graph is of no use.
            drop(self.finish());
        }
    }
}

impl Graph {
    /// Kernels in it.
    pub fn kernels(&self) -> usize {
        self.recorded.kernels
    }

    /// Makes it executable; any number of times.
    ///
    /// # Errors
    /// HIP refuses, as when the card's memory is full.
    pub fn instantiate(&self) -> Result<GraphExec, HipError> {
        self.context.enter()?;
        let mut handle: hipGraphExec_t = std::ptr::null_mut();
        let (node, log) = (std::ptr::null_mut(), std::ptr::null_mut());
        let instantiate = self.context.library.hip.hipGraphInstantiate;
        // SAFETY: writes one handle to a live local; the graph's handle is this value's own and not destroyed; no node and no log of
        // 0 bytes are asked for.
        let status = unsafe { instantiate(&raw mut handle, self.handle, node, log, 0) };
        self.context
            .check("hipGraphInstantiate", status)
            .map_err(|error| error.about(format!("{} kernels", self.kernels())))?;
        if handle.is_null() {
            return Err(HipError { call: "hipGraphInstantiate", status, detail: "gave no executable graph".into() });
        }
        Ok(GraphExec { context: Arc::clone(&self.context), handle, recorded: Arc::clone(&self.recorded) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: the handle is this value's own, destroyed once, here; executable graphs are copies. A failure leaves nothing to
            // be done.
            let _ = unsafe { (self.context.library.hip.hipGraphDestroy)(self.handle) };
        }
    }
}

impl GraphExec {
    /// Kernels of one launch.
    pub fn kernels(&self) -> usize {
        self.recorded.kernels
    }

    /// Queues all of it on `stream`, behind what the stream holds.
    ///
    /// # Errors
    /// The stream is of another card or is being captured, HIP refuses, or earlier queued work failed.
    pub fn launch(&self, stream: &Stream) -> Result<(), HipError> {
        let call = "hipGraphLaunch";
        stream.not_capturing(call)?;
        if !Arc::ptr_eq(stream.context(), &self.context) {
            let (graph, used) = (self.context.device(), stream.context().device());
            let detail = format!("graph of {graph} on a stream of {used}, opened apart from it");
            return Err(HipError { call, status: status::SUCCESS, detail });
        }
        self.context.enter()?;
        // SAFETY: both handles are live: their owners are borrowed. What its kernels do was argued when they were recorded (points 1 to
        // 4 of `Stream::launch`): the same arguments, in the same order, in memory that `recorded` keeps.
        let status = unsafe { (self.context.library.hip.hipGraphLaunch)(self.handle, stream.handle()) };
        self.context.check(call, status).map_err(|error| error.about(format!("{} kernels", self.kernels())))
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // A launch may still be under way, and its arguments lie in the graph. If the wait fails the card is lost and nothing runs.
        let _ = self.context.synchronize();
        if self.context.enter().is_ok() {
            // SAFETY: the handle is this value's own, destroyed once, here, with nothing of it queued. A failure leaves nothing to be
            // done.
            let _ = unsafe { (self.context.library.hip.hipGraphExecDestroy)(self.handle) };
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} kernels)", self.kernels())
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphExec({} kernels)", self.kernels())
    }
}
