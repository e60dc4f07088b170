//! Typed graphs over the emulator's library: what is recorded is not done, a launch does all of it in order with the data that memory
//! holds then, a graph keeps what it uses, and everything a capture cannot record is refused with the stream left as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zynfer::gpu::code_object::IMAGE;
use zynfer::hip::kernels::{Kernels, LaunchError};
use zynfer::hip::{Buffer, Context, Event, Graph, HipError, Search, Span, Stream, devices};

const ELEMENTS: usize = 8;

struct Bench {
    context: Arc<Context>,
    stream: Stream,
    kernels: Kernels,
}

impl Bench {
    fn new() -> Self {
        let library = Search::emulator().open().expect("cargo builds the emulator's library with this test");
        let device = devices(&library).expect("it lists").remove(0);
        let context = Context::new(&library, device).expect("it opens");
        let stream = Stream::new(&context).expect("a stream");
        let kernels = Kernels::load(&context, IMAGE).unwrap_or_else(|error| panic!("{error}"));
        Self { context, stream, kernels }
    }

    fn span(&self, elements: usize) -> Span {
        Buffer::new(&self.context, elements * 4).expect("small").span()
    }

    fn write(&self, span: &Span, values: &[f32]) {
        self.stream.write(span, bytemuck::cast_slice(values)).expect("equal lengths");
    }

    fn read(&self, span: &Span) -> Vec<f32> {
        let mut values = vec![0.0f32; span.bytes() / 4];
        self.stream.read(span, bytemuck::cast_slice_mut(&mut values)).expect("equal lengths");
        values
    }

    /// `sum += step` twice, `copy = sum`, first half of `step` = 0.
    fn record(&self, sum: &Span, step: &Span, copy: &Span) -> Result<Graph, LaunchError> {
        self.stream.capture(|| {
            self.kernels.residual_add(&self.stream, sum, step, ELEMENTS)?;
            self.kernels.residual_add(&self.stream, sum, step, ELEMENTS)?;
            self.stream.copy(copy, sum)?;
            self.stream.fill(&step.part(0, ELEMENTS * 2).expect("inside"), 0)?;
            Ok(())
        })
    }
}

#[test]
fn a_graph_does_what_was_recorded_each_time_with_the_data_of_that_time() {
    let bench = Bench::new();
    let [sum, step, copy] = [(); 3].map(|()| bench.span(ELEMENTS));
    bench.write(&sum, &[100.0; ELEMENTS]);
    bench.write(&step, &[1.0; ELEMENTS]);
    bench.write(&copy, &[-1.0; ELEMENTS]);
    let graph = bench.record(&sum, &step, &copy).expect("it is recorded");
    assert_eq!((bench.read(&sum), bench.read(&step)), (vec![100.0; ELEMENTS], vec![1.0; ELEMENTS]), "nothing was done");
    assert_eq!(graph.kernels(), 2);
    let exec = graph.instantiate().expect("it is made executable");
    drop(graph);
    let mut expected = [100.0f32; ELEMENTS];
    for round in 0..50 {
        let steps: [f32; ELEMENTS] = std::array::from_fn(|i| (round * 10 + i) as f32);
        bench.write(&step, &steps);
        exec.launch(&bench.stream).expect("it is queued");
        for (expected, step) in expected.iter_mut().zip(steps) {
            *expected += 2.0 * step;
        }
        assert_eq!(bench.read(&sum), expected, "round {round}");
        assert_eq!(bench.read(&copy), expected, "round {round}");
        let rest = [&[0.0; ELEMENTS / 2], &steps[ELEMENTS / 2..]].concat();
        assert_eq!(bench.read(&step), rest, "round {round}");
    }
    // Launched behind itself without a wait, and on another stream.
    let other = Stream::new(&bench.context).expect("a stream");
    bench.write(&step, &[0.5; ELEMENTS]);
    for _ in 0..3 {
        exec.launch(&other).expect("it is queued");
    }
    other.synchronize().expect("nothing failed");
    let more: Vec<f32> =
        expected.iter().enumerate().map(|(i, sum)| sum + if i < ELEMENTS / 2 { 1.0 } else { 3.0 }).collect();
    assert_eq!(bench.read(&sum), more);
    // A graph of nothing is one, too.
    let nothing = bench.stream.capture(|| Ok::<(), HipError>(())).expect("an empty graph");
    assert_eq!(nothing.kernels(), 0);
    nothing.instantiate().expect("executable").launch(&bench.stream).expect("queued");
    bench.stream.synchronize().expect("nothing failed");
}

/// A dropped module, executable or allocation waits for the whole card, which HIP refuses while anything is captured, and spoils the capture.
#[test]
fn waits_for_the_card_on_other_threads_leave_captures_alone() {
    let bench = Bench::new();
    let [sum, step, copy] = [(); 3].map(|()| bench.span(ELEMENTS));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let context = Bench::new().context;
            for _ in 0..200 {
                context.synchronize().expect("no capture of another thread is in its way");
                drop(Buffer::new(&context, 4096).expect("small"));
            }
        });
        let mut graphs = 0;
        while !waits.is_finished() || graphs < 50 {
            let graph = bench.record(&sum, &step, &copy).unwrap_or_else(|error| panic!("graph {graphs}: {error}"));
            assert_eq!(graph.kernels(), 2);
            graphs += 1;
        }
        waits.join().expect("nothing refused");
    });
}

#[test]
fn one_graph_makes_executables_that_live_apart() {
    let bench = Bench::new();
    let [sum, step, copy] = [(); 3].map(|()| bench.span(ELEMENTS));
    let graph = bench.record(&sum, &step, &copy).expect("it is recorded");
    let (one, two) = (graph.instantiate().expect("executable"), graph.instantiate().expect("executable"));
    drop(one);
    bench.write(&sum, &[1.0; ELEMENTS]);
    bench.write(&step, &[2.0; ELEMENTS]);
    // On another thread, with the stream.
    let Bench { stream, .. } = &bench;
    let launched = std::thread::scope(|scope| {
        let (own, two) = (Stream::new(stream.context()), two);
        scope
            .spawn(move || {
                let own = own?;
                two.launch(&own)?;
                own.synchronize()
            })
            .join()
    });
    launched.expect("no panic").expect("launched");
    assert_eq!(bench.read(&copy), [5.0; ELEMENTS]);
}

#[test]
fn a_graph_keeps_memory_and_kernels_until_the_last_executable_goes() {
    const BYTES: usize = 1 << 30;
    let Bench { context, stream, kernels } = Bench::new();
    let buffer = Buffer::new(&context, BYTES).expect("a gigabyte of untouched pages");
    let (sum, step) = (buffer.span().part(0, 32).expect("inside"), buffer.span().part(32, 32).expect("inside"));
    let out = Buffer::new(&context, 32).expect("small").span();
    stream.fill(&sum, 0).expect("inside");
    stream.write(&step, bytemuck::cast_slice(&[0.25f32; 8])).expect("equal lengths");
    let exec = stream
        .capture(|| {
            kernels.residual_add(&stream, &sum, &step, 8)?;
            stream.copy(&out, &sum).map_err(LaunchError::from)
        })
        .and_then(|graph| Ok(graph.instantiate()?))
        .expect("executable");
    let free = || context.memory_info().expect("it tells").0;
    let before = free();
    drop((buffer, sum, step, kernels));
    assert!(free() < before + BYTES as u64 / 2, "the graph keeps it");
    for round in 1..=3 {
        exec.launch(&stream).expect("its memory and its kernel are there");
        let mut values = [0.0f32; 8];
        stream.read(&out, bytemuck::cast_slice_mut(&mut values)).expect("equal lengths");
        assert_eq!(values, [0.25 * round as f32; 8]);
    }
    drop(exec);
    assert!(free() > before + BYTES as u64 / 2, "{before} bytes free before, {} after", free());
}

#[test]
fn what_a_capture_cannot_record_is_refused_by_name_and_the_rest_is_recorded() {
    let bench = Bench::new();
    let [sum, step] = [(); 2].map(|()| bench.span(ELEMENTS));
    bench.write(&step, &[3.0; ELEMENTS]);
    bench.write(&sum, &[0.0; ELEMENTS]);
    let event = Event::new(&bench.context).expect("an event");
    let before =
        bench.stream.capture(|| Ok::<(), HipError>(())).and_then(|graph| graph.instantiate()).expect("a graph");
    let mut refused = Vec::new();
    let graph = bench
        .stream
        .capture(|| {
            refused.push(bench.stream.write(&sum, &[0; ELEMENTS * 4]));
            refused.push(bench.stream.read(&sum, &mut [0; ELEMENTS * 4]));
            refused.push(bench.stream.synchronize());
            refused.push(event.record(&bench.stream));
            refused.push(before.launch(&bench.stream));
            refused.push(bench.stream.capture(|| Ok(())).map(drop));
            bench.kernels.residual_add(&bench.stream, &sum, &step, ELEMENTS)
        })
        .expect("refused before HIP was asked, so not spoiled");
    let calls = [
        "hipMemcpyAsync",
        "hipMemcpyAsync",
        "hipStreamSynchronize",
        "hipEventRecord",
        "hipGraphLaunch",
        "hipStreamBeginCapture",
    ];
    assert_eq!(refused.len(), calls.len());
    for (result, call) in refused.into_iter().zip(calls) {
        let error = result.expect_err(call).to_string();
        assert_eq!(error, format!("{call} was not called: the stream is being captured"));
    }
    graph.instantiate().expect("executable").launch(&bench.stream).expect("queued");
    assert_eq!(bench.read(&sum), [3.0; ELEMENTS]);
}

#[test]
fn an_error_a_panic_or_a_spoiled_capture_leaves_a_stream_that_works() {
    let bench = Bench::new();
    let [sum, step, copy] = [(); 3].map(|()| bench.span(ELEMENTS));
    let works = |why: &str| {
        bench.write(&sum, &[1.0; ELEMENTS]);
        bench.write(&step, &[2.0; ELEMENTS]);
        let graph = bench.record(&sum, &step, &copy).unwrap_or_else(|error| panic!("{why}: {error}"));
        assert_eq!(bench.read(&sum), [1.0; ELEMENTS], "{why}");
        graph.instantiate().expect(why).launch(&bench.stream).expect(why);
        assert_eq!(bench.read(&copy), [5.0; ELEMENTS], "{why}");
    };
    let own = bench.stream.capture(|| {
        bench.kernels.residual_add(&bench.stream, &sum, &step, ELEMENTS)?;
        bench.kernels.residual_add(&bench.stream, &sum, &sum, ELEMENTS)
    });
    let error = own.expect_err("the second is refused").to_string();
    assert!(error.contains("residual_add") && error.contains("overlap"), "{error}");
    works("after an error");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = bench.stream.capture(|| -> Result<(), HipError> { panic!("in a capture") });
    }));
    assert!(panicked.is_err());
    works("after a panic");
    // hipErrorStreamCaptureUnsupported for the allocation; whoever ignores it meets hipErrorStreamCaptureInvalidated.
    let mut allocated = None;
    let spoiled = bench.stream.capture(|| {
        allocated = Some(Buffer::new(&bench.context, 64));
        Ok::<(), HipError>(())
    });
    let error = allocated.expect("it was tried").expect_err("no allocation in a capture");
    assert_eq!((error.call, error.status), ("hipMalloc", 900));
    let error = spoiled.expect_err("spoiled");
    assert_eq!((error.call, error.status), ("hipStreamEndCapture", 901));
    works("after a spoiled capture");
}

#[test]
fn a_graph_of_another_context_is_refused() {
    let bench = Bench::new();
    let library = Arc::clone(bench.context.library());
    let other = Context::new(&library, devices(&library).expect("it lists").remove(0)).expect("it opens");
    let stream = Stream::new(&other).expect("a stream");
    let exec = bench.stream.capture(|| Ok::<(), HipError>(())).and_then(|graph| graph.instantiate()).expect("a graph");
    let error = exec.launch(&stream).expect_err("opened apart").to_string();
    assert!(error.starts_with("hipGraphLaunch was not called: graph of") && error.contains("opened apart"), "{error}");
}
