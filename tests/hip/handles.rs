//! Owning handles over the emulator: ranges proven once, copies that cannot leave them, memory that comes back, and operations that
//! refuse what breaks a kernel's contract before anything is launched.

use std::sync::Arc;

use zynfer::gpu::code_object::IMAGE;
use zynfer::hip::kernels::{Gemm, Kernels, KvCache, LaunchError, Matrix};
use zynfer::hip::{Buffer, Context, Event, Search, Span, SpanError, Stream, devices};
use zynfer::quant::Scheme;

fn context() -> Arc<Context> {
    let library = Search::emulator().open().expect("cargo builds the emulator's library with this test");
    let device = devices(&library).expect("it lists").remove(0);
    Context::new(&library, device).expect("it opens")
}

fn span(context: &Arc<Context>, bytes: usize) -> Span {
    Buffer::new(context, bytes).expect("small").span()
}

#[test]
fn a_span_is_inside_its_buffer_or_does_not_exist() {
    let context = context();
    let buffer = Buffer::new(&context, 100).expect("small");
    assert_eq!(buffer.bytes(), 100);
    for (offset, bytes) in [(0, 100), (100, 0), (99, 1), (0, 0)] {
        let span = Span::new(&buffer, offset, bytes).expect("inside");
        assert_eq!((span.address() - buffer.span().address(), span.bytes()), (offset as u64, bytes));
    }
    for (offset, bytes) in [(0, 101), (100, 1), (101, 0), (1, usize::MAX), (usize::MAX, 1)] {
        let refused = SpanError { offset, bytes, available: 100 };
        assert_eq!(Span::new(&buffer, offset, bytes).err(), Some(refused));
    }
    let middle = Span::new(&buffer, 10, 20).expect("inside");
    assert_eq!(middle.part(5, 15).expect("inside").address(), buffer.span().address() + 15);
    assert_eq!(middle.part(5, 16).err(), Some(SpanError { offset: 5, bytes: 16, available: 20 }));
    let [a, b] = [(0, 10), (10, 10)].map(|(offset, bytes)| Span::new(&buffer, offset, bytes).expect("inside"));
    assert!(!a.overlaps(&b) && middle.overlaps(&buffer.span()) && middle.overlaps(&b));
}

#[test]
fn copies_and_fills_keep_to_their_ranges() {
    let context = context();
    let stream = Stream::new(&context).expect("a stream");
    let (a, b) = (span(&context, 64), span(&context, 64));
    let data: Vec<u8> = (0..64).collect();
    stream.write(&a, &data).expect("equal lengths");
    stream.fill(&b, 0xee).expect("inside");
    stream.copy(&b.part(8, 16).expect("inside"), &a.part(3, 16).expect("inside")).expect("apart");
    let mut back = vec![0; 64];
    stream.read(&b, &mut back).expect("equal lengths");
    let mut expected = vec![0xee; 64];
    expected[8..24].copy_from_slice(&data[3..19]);
    assert_eq!(back, expected);
    for error in [
        stream.write(&a, &data[..63]).expect_err("shorter"),
        stream.read(&a, &mut [0; 65]).expect_err("longer"),
        stream.copy(&a, &b.part(0, 63).expect("inside")).expect_err("unequal"),
    ] {
        let text = error.to_string();
        assert!(text.contains("64 bytes") && (text.contains("63") || text.contains("65")), "{text}");
    }
    let overlap = stream.copy(&a.part(0, 32).expect("inside"), &a.part(31, 32).expect("inside")).expect_err("overlap");
    assert!(overlap.to_string().contains("overlapping"), "{overlap}");
    let empty = a.part(64, 0).expect("inside");
    stream.write(&empty, &[]).expect("nothing to do");
    stream.read(&empty, &mut []).expect("nothing to do");
    stream.fill(&empty, 1).expect("nothing to do");
}

#[test]
fn memory_comes_back_with_the_last_span() {
    let context = context();
    let total = context.memory_info().expect("it tells").1;
    let too_much = Buffer::new(&context, total as usize + 1).expect_err("more than there is").to_string();
    assert!(too_much.contains("hipErrorOutOfMemory") && too_much.contains(&(total + 1).to_string()), "{too_much}");
    // Other tests of this process allocate too, so one allocation larger than all of theirs is looked for.
    const BYTES: usize = 1 << 30;
    let buffer = Buffer::new(&context, BYTES).expect("a gigabyte of untouched pages");
    let span = Span::new(&buffer, 0, 16).expect("inside");
    drop(buffer);
    let held = context.memory_info().expect("it tells").0;
    assert!(held + BYTES as u64 / 2 < total, "the span keeps it");
    drop(span);
    let freed = context.memory_info().expect("it tells").0;
    assert!(freed > held + BYTES as u64 / 2, "{held} bytes free before, {freed} after");
}

#[test]
fn memory_of_another_context_is_refused() {
    let (one, other) = (context(), context());
    let stream = Stream::new(&one).expect("a stream");
    let foreign = span(&other, 4);
    assert!(stream.write(&foreign, &[0; 4]).is_err());
    assert!(stream.fill(&foreign, 0).is_err());
    let kernels = Kernels::load(&one, IMAGE).unwrap_or_else(|error| panic!("{error}"));
    let (hidden, proj) = (span(&one, 512), span(&other, 512));
    let error = kernels.residual_add(&stream, &hidden, &proj, 128).expect_err("the other context's").to_string();
    assert!(error.contains("opened apart"), "{error}");
}

#[test]
fn events_measure_and_work_from_another_thread() {
    let context = context();
    let stream = Stream::new(&context).expect("a stream");
    let (start, stop) = (Event::new(&context).expect("an event"), Event::new(&context).expect("an event"));
    let unrecorded = stop.elapsed_ms(&start).expect_err("not recorded yet");
    assert_eq!((unrecorded.call, unrecorded.status), ("hipEventElapsedTime", 400));
    let ms = std::thread::spawn(move || {
        start.record(&stream)?;
        std::thread::sleep(std::time::Duration::from_millis(5));
        stop.record(&stream)?;
        stop.synchronize()?;
        stop.elapsed_ms(&start)
    });
    let ms = ms.join().expect("no panic").expect("both recorded");
    assert!((5.0..5000.0).contains(&ms), "{ms} ms");
}

#[test]
fn operations_refuse_what_breaks_a_contract_and_say_both_numbers() {
    let context = context();
    let stream = Stream::new(&context).expect("a stream");
    let kernels = Kernels::load(&context, IMAGE).unwrap_or_else(|error| panic!("{error}"));
    let s = |bytes| span(&context, bytes);
    let (x, w, y) = (s(2 * 64 * 4), s(64 * 2), s(2 * 64 * 2));
    let whole = s(1 << 16);
    let part = |offset, bytes| whole.part(offset, bytes).expect("inside");
    let (keys, values) = (s(32 * 64 * 2), s(32 * 64 * 2));
    let cache = KvCache { keys: &keys, values: &values, kv_heads: 1, head_dim: 64, capacity: 32 };
    let kv = s(64 * 4 * 4);
    // One row of 64 codes and, from the next multiple of 256 on, its scale.
    let row = s(260);
    let int8 = Matrix { span: &row, scheme: Scheme::Int8Row };
    let refused: Vec<(Result<(), LaunchError>, &[&str])> = vec![
        (kernels.rmsnorm(&stream, &x, &w, &y, [2, 63], 1e-6), &["hidden size", "63", "64"]),
        (kernels.rmsnorm(&stream, &x, &w, &y, [3, 64], 1e-6), &["x [3, 64]", "768", "512"]),
        (kernels.rmsnorm(&stream, &x, &w, &y, [0, 64], 1e-6), &["0 rows", "65535"]),
        (kernels.rmsnorm(&stream, &x, &w, &y, [65_536, 64], 1e-6), &["65536 rows"]),
        (kernels.rmsnorm(&stream, &x, &w, &y, [2, 64], 0.0), &["epsilon 0"]),
        (kernels.rmsnorm(&stream, &x, &w, &y, [2, 64], f32::NAN), &["epsilon NaN"]),
        (kernels.rmsnorm(&stream, &part(0, 256), &part(256, 128), &part(128, 128), [1, 64], 1e-6), &["overlap"]),
        (kernels.rmsnorm(&stream, &part(4, 256), &part(512, 128), &part(1024, 128), [1, 64], 1e-6), &["aligned to 16"]),
        (kernels.embed(&stream, &[0, 7], &s(8), &s(7 * 64 * 2), &x, [7, 64]), &["id 7 of token 1", "has 7"]),
        (kernels.embed(&stream, &[0, 1], &s(4), &s(7 * 64 * 2), &x, [7, 64]), &["ids [2]", "8", "4"]),
        (
            kernels.linear(&stream, &s(64 * 2), &s(64 * 2), &s(16), [1, 2, 64], Gemm::Fast),
            &["weight [2, 64]", "256", "128"],
        ),
        (
            kernels.linear(&stream, &s(96 * 2), &s(96 * 2), &s(16), [1, 1, 96], Gemm::Plain),
            &["K is 96", "multiple of 64"],
        ),
        (kernels.linear(&stream, &w, &w, &y, [1, usize::MAX, 64], Gemm::Fast), &["N is 18446744073709551615"]),
        (kernels.linear(&stream, &w, &w, &y, [1, 1 << 31, 1 << 31], Gemm::Fast), &["weight", "bytes"]),
        (kernels.quantize(&stream, &x, &y, [1, 96]), &["K is 96", "multiple of 64"]),
        (kernels.quantize(&stream, &x, &s(135), [2, 64]), &["8-bit activations", "136", "135"]),
        (kernels.quantize(&stream, &part(0, 256), &part(128, 256), [2, 64]), &["overlap"]),
        (kernels.linear_w8a8(&stream, (&w).into(), &x, &y, [2, 1, 64]), &["the weight is bf16, int8 is needed"]),
        (kernels.linear_w8a8(&stream, int8, &s(135), &y, [2, 1, 64]), &["8-bit activations", "136", "135"]),
        (kernels.linear_w8a8(&stream, int8, &x, &s(4), [2, 1, 64]), &["y [2, 1]", "8", "4"]),
        (kernels.linear_w8a8(&stream, int8, &x, &y, [2, 2, 64]), &["weight in int8", "264", "260"]),
        (kernels.head_norm(&stream, &x, &w, [2, 96], 1e-6), &["head_dim 96", "64 and 128"]),
        (kernels.rope(&stream, &x, &s(8 * 64 * 4), [2, 1, 64], 7), &["2 tokens from position 7", "holds 8"]),
        (kernels.rope(&stream, &x, &s(8 * 64 * 4), [1, 1, 64], usize::MAX), &["holds 8"]),
        (kernels.kv_append(&stream, &kv, &s(64 * 4 * 4), &cache, 4, 29), &["4 tokens from position 29", "holds 32"]),
        (kernels.kv_append(&stream, &kv, &kv, &cache, 4, 0), &["overlap"]),
        (
            kernels.kv_append(&stream, &kv, &s(64 * 4 * 4), &KvCache { capacity: 40, ..cache }, 4, 0),
            &["capacity is 40", "multiple of 32"],
        ),
        (
            kernels.attention(&stream, &kv, &KvCache { head_dim: 32, ..cache }, &s(512), [4, 1], 0, false),
            &["head_dim 32"],
        ),
        (kernels.attention(&stream, &kv, &cache, &s(511), [4, 1], 0, false), &["output [4, 1, 1, 64]", "512", "511"]),
        (kernels.attention(&stream, &kv, &cache, &s(512), [4, 1], 30, true), &["position 30", "holds 32"]),
        (kernels.swiglu(&stream, &x, &s(512), &y, 130), &["130 elements", "multiple of 4"]),
        (kernels.swiglu(&stream, &x, &s(512), &y, 132), &["gate [132]", "528", "512"]),
        (kernels.residual_add(&stream, &x, &x, 128), &["overlap"]),
        (kernels.residual_add(&stream, &x, &s(512), 0), &["0 elements"]),
        (kernels.argmax(&stream, &x, &s(4), [1, 129]), &["logits [1, 129]", "516", "512"]),
        (kernels.argmax(&stream, &part(2, 512), &s(4), [1, 128]), &["aligned to 4"]),
        (kernels.top_k(&stream, &x, &s(160), &s(160), 129, 20), &["logits [129]", "516", "512"]),
        (kernels.top_k(&stream, &x, &s(160), &s(160), 0, 20), &["vocabulary is 0"]),
        (kernels.top_k(&stream, &x, &s(160), &s(160), u32::MAX as usize, 20), &["vocabulary 4294967295", "4294966271"]),
        (kernels.top_k(&stream, &x, &s(160), &s(160), 128, 0), &["the 0 largest", "1 to 64"]),
        (kernels.top_k(&stream, &x, &s(160), &s(160), 128, 65), &["the 65 largest", "1 to 64"]),
        (kernels.top_k(&stream, &x, &s(152), &s(160), 128, 20), &["keys [160]", "152"]),
        (kernels.top_k(&stream, &x, &s(160), &s(159), 128, 20), &["best [160]", "159"]),
        (kernels.top_k(&stream, &x, &part(4, 160), &s(160), 128, 20), &["aligned to 8"]),
        (kernels.top_k(&stream, &part(0, 512), &s(160), &part(504, 160), 128, 20), &["overlap"]),
    ];
    for (index, (result, parts)) in refused.into_iter().enumerate() {
        let Err(LaunchError::Refused { .. }) = &result else { panic!("case {index} {parts:?}: {result:?}") };
        let text = result.expect_err("matched above").to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "case {index}: {parts:?} in {text}");
    }
    stream.synchronize().expect("nothing was launched, so nothing failed");
}
