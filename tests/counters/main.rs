//! Counters, traces and stepping, on kernels short enough to count by hand (`emulator/examples/kernels.s`), and on the GEMV by the bytes
//! of its weights, prefill by its tiles, the largest logits by the bytes of a row. Expected numbers come from the kernels' text and from
//! arithmetic, never from the emulator.

mod decode;
mod gemv;
mod kv;
mod machine;
mod prefill;
mod top_k;
mod trace;

use device_ops::format::Scales;
use emulator::launch::Class;
use emulator::watch::counters::{Counters, WIDTHS};
use emulator::{Options, Schedule};
use machine::{Machine, launched};
use std::collections::BTreeSet;

/// Share of [`WIDTHS`] in which `bytes` per lane are counted.
fn width(bytes: u32) -> usize {
    WIDTHS.iter().position(|&w| w == bytes).expect("a width")
}

/// Bytes of scales and minimums that are loaded beside 16 bytes of codes: by two bytes, by one.
fn scale_bytes(scales: Scales) -> (u64, u64) {
    match scales {
        Scales::None | Scales::Row => (0, 0),
        Scales::Group => (2, 0),
        Scales::GroupMinimum => (4, 0),
        Scales::Levels => (2, 1),
        Scales::LevelsMinimum => (4, 2),
    }
}

#[test]
fn a_copy_moves_each_line_once() {
    let groups = 6;
    let bytes = u64::from(groups) * 256 * 16;
    let mut machine = Machine::new();
    let (x, y) = (machine.buffer(&vec![0x5a; bytes as usize]), machine.buffer(&vec![0; bytes as usize]));
    let kernarg = [x.to_le_bytes(), y.to_le_bytes()].concat();
    let stats = machine.count("copy", groups, 256, 0, &kernarg, Schedule::Forward);
    assert_eq!(machine.read(y, bytes), vec![0x5a; bytes as usize]);

    let counters = stats.counters.as_deref().expect("counted");
    let waves = u64::from(groups) * 8;
    for traffic in [&counters.loads, &counters.stores] {
        assert_eq!((traffic.accesses, traffic.bytes), (waves, bytes));
        assert_eq!((traffic.lines_128, traffic.lines_256), (bytes / 128, bytes / 256));
        assert_eq!(traffic.bytes_by_width[width(16)], bytes);
        assert_eq!(traffic.bytes_by_width.iter().sum::<u64>(), bytes);
        assert_eq!(traffic.coalescing(), Some(1.0));
    }
    // s_load_b128 by every wave, all from the same 16 bytes.
    let scalar = &counters.scalar_loads;
    assert_eq!((scalar.accesses, scalar.bytes, scalar.lines_128), (waves, 16 * waves, waves));
    let lines = &counters.footprint;
    assert_eq!((lines.read_128, lines.written_128, lines.touched_128), (bytes / 128 + 1, bytes / 128, bytes / 64 + 1));
    assert_eq!((lines.read_256, lines.written_256), (bytes / 256 + 1, bytes / 256));
    assert_eq!(counters.bytes(), 2 * bytes + 16 * waves);
    // s_load, v_lshl_add, v_lshlrev, s_wait, load, s_wait, store, s_endpgm.
    let classes = [(Class::Smem, 1), (Class::Valu, 2), (Class::Wait, 3), (Class::Load, 1), (Class::Store, 1)];
    for (class, each) in classes {
        assert_eq!(stats.count(class), waves * each, "{}", class.name());
    }
    assert_eq!(stats.total(), waves * 8);
}

/// Lines of 256 gathered dwords, byte by byte: sums over waves, and distinct ones.
fn gathered(base: u64, stride: u64, line: u64) -> (u64, u64) {
    let lines = |items: std::ops::Range<u64>| -> BTreeSet<u64> {
        items.flat_map(|i| (0..4).map(move |byte| (base + i * stride + byte) / line)).collect()
    };
    ((0..8).map(|wave| lines(32 * wave..32 * wave + 32).len() as u64).sum(), lines(0..256).len() as u64)
}

#[test]
fn strided_loads_touch_the_lines_of_their_bytes() {
    for stride in [0u64, 1, 4, 8, 124, 126, 127, 128, 130, 255, 256, 260, 4096] {
        let mut machine = Machine::new();
        let (x, y) = (machine.buffer(&vec![1; 255 * stride as usize + 4]), machine.buffer(&[0; 1024]));
        let kernarg = [&x.to_le_bytes()[..], &y.to_le_bytes(), &(stride as u32).to_le_bytes()].concat();
        let counters = machine.counters("gather", 1, 256, 0, &kernarg);
        let (sum_128, distinct_128) = gathered(x, stride, 128);
        let (sum_256, distinct_256) = gathered(x, stride, 256);
        let loads = &counters.loads;
        assert_eq!((loads.accesses, loads.bytes), (8, 1024), "stride {stride}");
        assert_eq!((loads.lines_128, loads.lines_256), (sum_128, sum_256), "stride {stride}");
        let lines = &counters.footprint;
        assert_eq!((lines.read_128, lines.read_256), (distinct_128 + 1, distinct_256 + 1), "stride {stride}");
        assert_eq!((lines.written_128, lines.written_256), (8, 4), "stride {stride}");
    }
    // The two ends, in words: a dword in each line uses a 32nd of it, a shared dword is asked for 32 times.
    let coalescing = |stride: u32| {
        let mut machine = Machine::new();
        let (x, y) = (machine.buffer(&[0; 1 << 15]), machine.buffer(&[0; 1024]));
        let kernarg = [&x.to_le_bytes()[..], &y.to_le_bytes(), &stride.to_le_bytes()].concat();
        machine.counters("gather", 1, 256, 0, &kernarg).loads.coalescing()
    };
    assert_eq!((coalescing(128), coalescing(4), coalescing(0)), (Some(1.0 / 32.0), Some(1.0), Some(1.0)));
}

#[test]
fn lanes_that_are_off_ask_for_nothing() {
    let mut machine = Machine::new();
    let (x, y) = (machine.buffer(&[0; 400]), machine.buffer(&[0; 400]));
    let kernarg = [&x.to_le_bytes()[..], &y.to_le_bytes(), &1f32.to_le_bytes(), &100u32.to_le_bytes()].concat();
    let counters = machine.counters("scale", 1, 256, 0, &kernarg);
    // 100 elements: three whole waves and four lanes; the other four waves jump over the load.
    for traffic in [&counters.loads, &counters.stores] {
        assert_eq!((traffic.accesses, traffic.bytes, traffic.lines_128, traffic.lines_256), (4, 400, 4, 4));
        assert_eq!(traffic.bytes_by_width[width(4)], 400);
    }
    assert_eq!((counters.footprint.read_128, counters.footprint.written_128), (5, 4));
    // Two scalar loads a wave, of 16 and of 8 bytes.
    assert_eq!((counters.scalar_loads.accesses, counters.scalar_loads.bytes), (16, 8 * 24));
}

#[test]
fn atomics_read_and_write_one_line() {
    let mut machine = Machine::new();
    let x = machine.buffer(&[0; 4]);
    let counters = machine.counters("count", 3, 256, 0, &x.to_le_bytes());
    assert_eq!(machine.read(x, 4), 768u32.to_le_bytes());
    let atomics = &counters.atomics;
    assert_eq!((atomics.accesses, atomics.bytes, atomics.lines_128), (24, 4 * 768, 24));
    assert_eq!((counters.footprint.read_128, counters.footprint.written_128), (2, 1));
    assert_eq!((&counters.loads, &counters.stores), (&Default::default(), &Default::default()));
}

/// Two waves store 32 dwords each at a stride, meet, and load 32 each: four accesses with the same banks.
#[test]
fn lds_conflicts_follow_the_stride() {
    // Stride in bytes, conflicts of one access with 32 and with 64 banks (GFX12 has 64 in two halves).
    for (stride, mod32, mod64) in
        [(4u32, 0, 0), (8, 1, 0), (16, 3, 1), (64, 15, 7), (128, 31, 15), (256, 31, 31), (132, 0, 0)]
    {
        let mut machine = Machine::new();
        let y = machine.buffer(&[0; 256]);
        let kernarg = [&y.to_le_bytes()[..], &stride.to_le_bytes()].concat();
        let stats = machine.count("rotate", 1, 64, 64 * stride, &kernarg, Schedule::Forward);
        let wanted: Vec<u8> = (0..64u32).flat_map(|i| ((i + 32) % 64).to_le_bytes()).collect();
        assert_eq!(machine.read(y, 256), wanted, "stride {stride}");
        let lds = &stats.counters.as_deref().expect("counted").lds;
        assert_eq!((lds.accesses, lds.bytes, lds.passes_ideal), (4, 512, 4), "stride {stride}");
        assert_eq!((lds.conflicts_mod32(), lds.conflicts_mod64()), (4 * mod32, 4 * mod64), "stride {stride}");
        assert_eq!(stats.count(Class::Barrier), 4);
    }
}

#[test]
fn scratch_is_counted_apart() {
    let mut machine = Machine::new();
    let y = machine.buffer(&[0; 4 * 40]);
    let counters = machine.counters("spill", 1, 40, 0, &y.to_le_bytes());
    assert_eq!((counters.scratch_store_bytes, counters.scratch_load_bytes), (160, 160));
    assert_eq!((counters.loads.bytes, counters.stores.bytes), (0, 160));
}

#[test]
fn counts_do_not_depend_on_the_schedule() {
    let run = |schedule: Schedule| -> Counters {
        let mut machine = Machine::new();
        let (x, y) = (machine.buffer(&[3; 4 * 4000]), machine.buffer(&[0; 4 * 4000]));
        let kernarg = [&x.to_le_bytes()[..], &y.to_le_bytes(), &2f32.to_le_bytes(), &4000u32.to_le_bytes()].concat();
        let stats = machine.count("scale", 16, 256, 0, &kernarg, schedule);
        *stats.counters.expect("counted")
    };
    let forward = run(Schedule::Forward);
    assert_eq!(forward.loads.bytes, 16_000);
    for schedule in [
        Schedule::Backward,
        Schedule::Random { seed: 7 },
        Schedule::Parallel { threads: Some(1) },
        Schedule::Parallel { threads: Some(3) },
    ] {
        assert_eq!(run(schedule), forward, "{schedule:?}");
    }
}

#[test]
fn nothing_is_counted_unasked() {
    let mut machine = Machine::new();
    let x = machine.buffer(&[0; 4]);
    let kernarg = x.to_le_bytes();
    let stats = launched(&machine, "count", 1, 32, 0, &kernarg, Options::default()).expect("runs");
    assert_eq!(stats.counters, None);
}
