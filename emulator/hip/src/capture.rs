//! Stream capture: what a stream is asked to do goes into a graph instead of being done. Which streams take part, which nodes come next,
//! and every refusal that HIP defines for it. All safe code; nothing is performed here.

use std::cell::Cell;
use std::thread::ThreadId;

use crate::runtime::{Outcome, Runtime};
use crate::status::Status;
use crate::work::Work;

/// `hipStreamCaptureMode`: how much other calls are kept from disturbing a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Calls that might wait for the device are refused on every thread.
    Global,
    /// On this thread.
    ThreadLocal,
    /// Nowhere.
    Relaxed,
}

impl Mode {
    /// The mode of HIP's number.
    pub fn from_number(number: i32) -> Outcome<Self> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// One capture, from begin to end.
#[derive(Debug)]
pub struct Sequence {
    /// Graph that is filled.
    pub graph: u64,
    /// Mode.
    pub mode: Mode,
    /// Stream it began on.
    pub origin: u64,
    /// Thread it began on.
    pub thread: ThreadId,
    /// Whether something forbidden ended it early; only its end remains to be called.
    pub invalid: bool,
    /// Nodes that were in the graph when it began: nobody has to join them.
    pub before: Vec<u64>,
    /// Whether the graph was the caller's and so survives a failure.
    pub borrowed: bool,
}

/// A stream's part in a capture.
#[derive(Debug, Clone)]
pub struct Member {
    /// Which.
    pub sequence: u64,
    /// Nodes that the next one on this stream waits for.
    pub last: Vec<u64>,
    /// Nodes a caller took out of that list by hand: nobody has to join them.
    pub dropped: Vec<u64>,
}

thread_local! {
    /// How strictly this thread's calls are checked against captures: 0, 1, 2 as [`Mode`].
    pub static THREAD_MODE: Cell<i32> = const { Cell::new(0) };
}

impl Runtime {
    /// The capture that `stream` takes part in; `hipErrorStreamCaptureInvalidated` where it was disturbed.
    pub fn capturing(&mut self, stream: u64) -> Outcome<Option<u64>> {
        let Some(member) = &self.stream(stream)?.capture else { return Ok(None) };
        let sequence = member.sequence;
        match self.sequences.get(&sequence) {
            Some(found) if found.invalid => Err(Status::STREAM_CAPTURE_INVALIDATED),
            Some(_) => Ok(Some(sequence)),
            None => Ok(None),
        }
    }

    fn invalidate(&mut self, disturbed: impl Fn(&Sequence) -> bool) -> bool {
        let mut any = false;
        for sequence in self.sequences.values_mut().filter(|sequence| disturbed(sequence)) {
            sequence.invalid = true;
            any = true;
        }
        any
    }

    /// For calls that might wait for the device, as an allocation: refused while a capture that this thread has to respect is under way,
    /// and the capture is spoiled.
    pub fn may_wait(&mut self) -> Outcome {
        let thread = std::thread::current().id();
        let ours = |sequence: &Sequence| sequence.thread == thread && sequence.mode != Mode::Relaxed;
        let disturbed = match THREAD_MODE.get() {
            0 => self.invalidate(|sequence| ours(sequence) || sequence.mode == Mode::Global),
            1 => self.invalidate(ours),
            _ => false,
        };
        if disturbed { Err(Status::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// For a synchronous copy or fill, which runs on the null stream: refused while anything is captured.
    pub fn may_use_null_stream(&mut self) -> Outcome {
        if self.invalidate(|_| true) { Err(Status::STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
    }

    /// For a wait on the whole device: refused while anything is captured.
    pub fn may_wait_for_device(&mut self) -> Outcome {
        if self.invalidate(|_| true) { Err(Status::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// For a wait on one stream: refused on a capturing one, and wherever a wait is.
    pub fn may_wait_for(&mut self, stream: u64) -> Outcome {
        let stream = self.resolve(stream)?;
        if stream == 0 {
            return self.null_stream_is_free();
        }
        match self.stream(stream)?.capture.as_ref().map(|member| member.sequence) {
            Some(sequence) => {
                if let Some(sequence) = self.sequences.get_mut(&sequence) {
                    sequence.invalid = true;
                }
                Err(Status::STREAM_CAPTURE_UNSUPPORTED)
            }
            None => self.may_wait(),
        }
    }

    /// For work on the null stream: refused while a stream that waits for it is capturing.
    pub fn null_stream_is_free(&mut self) -> Outcome {
        let blocking = |runtime: &Runtime, origin: u64| runtime.streams.get(&origin).is_some_and(|s| s.flags & 1 == 0);
        let disturbed: Vec<u64> = self
            .sequences
            .iter()
            .filter(|(_, sequence)| blocking(self, sequence.origin))
            .map(|(handle, _)| *handle)
            .collect();
        for handle in &disturbed {
            if let Some(sequence) = self.sequences.get_mut(handle) {
                sequence.invalid = true;
            }
        }
        if disturbed.is_empty() { Ok(()) } else { Err(Status::STREAM_CAPTURE_IMPLICIT) }
    }

    /// Status of a stream for those who ask: 0 none, 1 active, 2 invalidated; and the capture.
    pub fn capture_status(&mut self, stream: u64) -> Outcome<(i32, u64)> {
        let stream = self.resolve(stream)?;
        if stream == 0 {
            let blocked = self
                .sequences
                .values()
                .any(|sequence| self.streams.get(&sequence.origin).is_some_and(|origin| origin.flags & 1 == 0));
            return if blocked { Err(Status::STREAM_CAPTURE_IMPLICIT) } else { Ok((0, 0)) };
        }
        let member = self.stream(stream)?.capture.as_ref().map(|member| member.sequence);
        Ok(match member.and_then(|handle| self.sequences.get(&handle).map(|sequence| (handle, sequence.invalid))) {
            None => (0, 0),
            Some((handle, false)) => (1, handle),
            Some((handle, true)) => (2, handle),
        })
    }

    /// Starts a capture, into a new graph or the caller's.
    pub fn begin_capture(&mut self, stream: u64, mode: Mode, graph: Option<u64>, dependencies: &[u64]) -> Outcome {
        let stream = self.resolve(stream)?;
        if stream == 0 {
            return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.stream(stream)?.capture.is_some() {
            return Err(Status::ILLEGAL_STATE);
        }
        let before = match graph {
            Some(graph) => self.graphs.graph(graph)?.nodes.clone(),
            None => Vec::new(),
        };
        if !dependencies.iter().all(|node| before.contains(node)) {
            return Err(Status::INVALID_VALUE);
        }
        let borrowed = graph.is_some();
        let graph = graph.unwrap_or_else(|| self.graphs.create(&mut self.handles));
        let sequence = self.handle();
        let thread = std::thread::current().id();
        self.sequences
            .insert(sequence, Sequence { graph, mode, origin: stream, thread, invalid: false, before, borrowed });
        self.stream(stream)?.capture = Some(Member { sequence, last: dependencies.to_vec(), dropped: Vec::new() });
        Ok(())
    }

    /// Ends a capture on the stream it began on, and gives its graph.
    pub fn end_capture(&mut self, stream: u64) -> Outcome<u64> {
        let stream = self.resolve(stream)?;
        if stream == 0 {
            return Err(Status::ILLEGAL_STATE);
        }
        let member = self.stream(stream)?.capture.clone().ok_or(Status::ILLEGAL_STATE)?;
        let sequence = self.sequences.get(&member.sequence).ok_or(Status::ILLEGAL_STATE)?;
        if sequence.origin != stream {
            return Err(Status::STREAM_CAPTURE_UNMATCHED);
        }
        if sequence.mode != Mode::Relaxed && sequence.thread != std::thread::current().id() {
            return Err(Status::STREAM_CAPTURE_WRONG_THREAD);
        }
        let (graph, borrowed, invalid) = (sequence.graph, sequence.borrowed, sequence.invalid);
        let joined = self.graphs.ancestors(&member.last);
        let free =
            |node: &u64| joined.contains(node) || sequence.before.contains(node) || member.dropped.contains(node);
        let unjoined = self.graphs.graph(graph).is_ok_and(|graph| !graph.nodes.iter().all(free));
        self.drop_sequence(member.sequence);
        let failed = match (invalid, unjoined) {
            (true, _) => Status::STREAM_CAPTURE_INVALIDATED,
            (false, true) => Status::STREAM_CAPTURE_UNJOINED,
            (false, false) => return Ok(graph),
        };
        if !borrowed {
            self.graphs.destroy(graph);
        }
        Err(failed)
    }

    /// Forgets a capture everywhere.
    fn drop_sequence(&mut self, sequence: u64) {
        self.sequences.remove(&sequence);
        for stream in self.streams.values_mut() {
            if stream.capture.as_ref().is_some_and(|member| member.sequence == sequence) {
                stream.capture = None;
            }
        }
        for event in self.events.values_mut() {
            if event.captured.as_ref().is_some_and(|(of, _)| *of == sequence) {
                event.captured = None;
            }
        }
    }

    /// A stream goes: what it began to capture goes with it, what it had joined is spoiled.
    pub fn abandon_capture(&mut self, stream: u64) {
        let Some(member) = self.streams.get(&stream).and_then(|stream| stream.capture.clone()) else { return };
        let Some(sequence) = self.sequences.get_mut(&member.sequence) else { return };
        if sequence.origin != stream {
            sequence.invalid = true;
            return;
        }
        let (graph, borrowed) = (sequence.graph, sequence.borrowed);
        self.drop_sequence(member.sequence);
        if !borrowed {
            self.graphs.destroy(graph);
        }
    }

    /// Puts work into the graph of a capturing stream.
    pub fn capture_work(&mut self, stream: u64, sequence: u64, work: Work) -> Outcome {
        let last = self.member(stream)?.last.clone();
        let graph = self.sequences.get(&sequence).ok_or(Status::ILLEGAL_STATE)?.graph;
        let node = match work {
            Work::Graph(child) => self.graphs.add_child(&mut self.handles, graph, &last, child),
            work => self.graphs.add(&mut self.handles, graph, &last, work),
        }?;
        self.member(stream)?.last = vec![node];
        Ok(())
    }

    /// A stream's part in a capture.
    pub fn member(&mut self, stream: u64) -> Outcome<&mut Member> {
        self.stream(stream)?.capture.as_mut().ok_or(Status::ILLEGAL_STATE)
    }

    /// Records an event on a capturing stream: it stands for what the stream holds now.
    pub fn capture_record(&mut self, stream: u64, sequence: u64, event: u64) -> Outcome {
        let last = self.member(stream)?.last.clone();
        let event = self.event(event)?;
        event.captured = Some((sequence, last));
        event.recorded = None;
        Ok(())
    }

    /// Makes a stream wait for an event where one of the two is captured; whether that settled it.
    pub fn capture_wait(&mut self, stream: u64, event: u64) -> Outcome<bool> {
        let stream = self.resolve(stream)?;
        let ours = self.capturing(stream)?;
        let event = self.event(event)?;
        let (captured, recorded) = (event.captured.clone(), event.recorded.is_some());
        match (ours, captured) {
            (None, None) => Ok(false),
            // An event that was recorded outside would tie the graph to work that is not in it; one never recorded is nothing.
            (Some(ours), None) => {
                if !recorded {
                    return Ok(true);
                }
                self.spoil(ours);
                Err(Status::STREAM_CAPTURE_ISOLATION)
            }
            (ours, Some((theirs, nodes))) => {
                if self.sequences.get(&theirs).is_none_or(|sequence| sequence.invalid) {
                    return Err(Status::STREAM_CAPTURE_INVALIDATED);
                }
                match ours {
                    Some(ours) if ours != theirs => {
                        self.spoil(ours);
                        self.spoil(theirs);
                        Err(Status::STREAM_CAPTURE_MERGE)
                    }
                    Some(_) => {
                        let member = self.member(stream)?;
                        member.last.retain(|node| !nodes.contains(node));
                        member.last.extend(nodes);
                        Ok(true)
                    }
                    None if stream == 0 => {
                        self.spoil(theirs);
                        Err(Status::STREAM_CAPTURE_IMPLICIT)
                    }
                    None => {
                        let member = Member { sequence: theirs, last: nodes, dropped: Vec::new() };
                        self.stream(stream)?.capture = Some(member);
                        Ok(true)
                    }
                }
            }
        }
    }

    fn spoil(&mut self, sequence: u64) {
        if let Some(sequence) = self.sequences.get_mut(&sequence) {
            sequence.invalid = true;
        }
    }

    /// For a question about an event: refused on one that was last recorded in a capture, and the capture is spoiled.
    pub fn may_ask_event(&mut self, event: u64) -> Outcome {
        match self.event(event)?.captured.as_ref().map(|(sequence, _)| *sequence) {
            Some(sequence) => {
                self.spoil(sequence);
                Err(Status::CAPTURED_EVENT)
            }
            None => Ok(()),
        }
    }

    /// Adds to or replaces the nodes that the next one on a capturing stream waits for.
    pub fn update_capture_dependencies(&mut self, stream: u64, nodes: &[u64], replace: bool) -> Outcome {
        let sequence = self.member(stream)?.sequence;
        let graph = self.sequences.get(&sequence).ok_or(Status::ILLEGAL_STATE)?.graph;
        if !nodes.iter().all(|node| self.graphs.node(*node).is_ok_and(|node| node.graph == graph)) {
            return Err(Status::INVALID_VALUE);
        }
        let member = self.member(stream)?;
        if replace {
            let old = std::mem::take(&mut member.last);
            member.dropped.extend(old.into_iter().filter(|node| !nodes.contains(node)));
        }
        for node in nodes {
            if !member.last.contains(node) {
                member.last.push(*node);
            }
        }
        Ok(())
    }
}
