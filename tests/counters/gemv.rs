//! The decode GEMV of this tree by arithmetic: every weight is read once, in whole lines, at the widest loads; the estimate for a large
//! one is its bytes over the memory's rate.

use crate::machine::Machine;
use device_ops::format::Stored;
use device_ops::linear;
use emulator::roofline::{Bound, Profile, R9700};

fn profile(n: u32, k: u32) -> Profile {
    let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
    let w = machine.memory.alloc(u64::from(n) * u64::from(k) * 2).expect("room");
    let x = machine.memory.alloc(u64::from(k) * 2).expect("room");
    let y = machine.memory.alloc(u64::from(n) * 4).expect("room");
    let args = linear::Args { w, x, y, tokens: 1, n, k, pad: 0 };
    machine.profile_ours(linear::NAME_GEMV, linear::geometry_gemv(1, n), &args)
}

#[test]
fn weights_are_read_once_in_whole_lines() {
    let (n, k) = (256u32, 1024u32);
    let profile = profile(n, k);
    let counters = &profile.counters;
    let weights = u64::from(n) * u64::from(k) * 2;
    // Distinct lines: the weights, x (2 KiB), and one line of arguments. y has 1 KiB.
    assert_eq!(counters.footprint.read_128, weights / 128 + u64::from(k) * 2 / 128 + 1);
    assert_eq!(counters.footprint.written_128, u64::from(n) * 4 / 128);
    // Each wave takes four rows and reads x once for them, so x is asked for n / 4 times.
    assert_eq!(counters.loads.bytes, weights + u64::from(n / 4) * u64::from(k) * 2);
    let b128 = counters.loads.bytes_by_width[crate::width(16)];
    assert_eq!(b128, counters.loads.bytes, "all loads are as wide as they can be");
    assert_eq!(counters.loads.coalescing(), Some(1.0));
    assert_eq!(counters.stores.bytes, u64::from(n) * 4);
    assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "no spills");
}

#[test]
fn the_estimate_of_a_large_gemv_is_its_bytes() {
    // gate or up of an 8B model has 4096 · 12288; a sixteenth of it is enough to be ruled by memory.
    let (n, k) = (768u32, 4096u32);
    let profile = profile(n, k);
    let bytes = f64::from(n) * f64::from(k) * 2.0;
    let ideal = bytes / R9700.memory_bytes_per_s;
    assert_eq!(profile.bound, Bound::Memory, "{profile}");
    let memory = profile.estimate.memory_s;
    assert!(memory >= ideal && memory < 1.01 * ideal, "{memory} s, {ideal} s for the weights alone");
    assert!((profile.estimate.total_s - memory - R9700.launch_s).abs() < 1e-12);
}

/// Every format, its bytes by hand: a code of so many bits, and per row an f32 or per group of 64 an f16, or two.
#[test]
fn quantized_weights_are_read_once_and_nothing_else_is() {
    let (n, k, group) = (256u64, 2048u64, 64u64);
    for names in linear::quantized::NAMES {
        let by_groups = 2 * n * k / group;
        // Two levels: 2 bytes for 256 elements and one for each of their groups.
        let (levels, lower) = (n * k / 256 * (2 + 256 / 32), 32);
        let (bits, scale_bytes, minimum_bytes, group) = match names.stored {
            Stored::Bf16 => unreachable!("not quantized"),
            Stored::Int8 | Stored::Fp8 => (8, 4 * n, 0, group),
            Stored::Int8Group => (8, by_groups, 0, group),
            Stored::Int4 => (4, by_groups, 0, group),
            Stored::Int4Minimum => (4, by_groups, by_groups, group),
            Stored::Int8Minimum => (8, by_groups, by_groups, group),
            Stored::Int8Levels => (8, levels, 0, lower),
            Stored::Int8MinimumLevels => (8, levels, levels, lower),
            Stored::Int4MinimumLevels => (4, levels, levels, lower),
        };
        let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
        let mut buffer = |bytes: u64| machine.memory.alloc(bytes.max(4)).expect("room");
        let codes = n * k * bits / 8;
        let args = linear::quantized::Args {
            codes: buffer(codes),
            scales: buffer(scale_bytes),
            minimums: buffer(minimum_bytes),
            x: buffer(2 * k),
            y: buffer(4 * n),
            tokens: 1,
            n: n as u32,
            k: k as u32,
            group_log2: group.ilog2(),
        };
        let profile = machine.profile_ours(names.gemv, linear::geometry_gemv(1, n as u32), &args);
        let counters = &profile.counters;
        let name = names.gemv;
        // What has to be read: codes, scales, minimums, x. One line more holds the arguments.
        let least = (codes + scale_bytes + minimum_bytes + 2 * k).div_ceil(128);
        let read = counters.footprint.read_128;
        assert!(read >= least && read as f64 <= 1.03 * least as f64, "{name}: {read} lines, {least} at least");
        // Asked for: each code once; x once by each wave of four rows; scales as often as 16 bytes of codes, each lane its own.
        let by_16 = counters.loads.bytes_by_width[crate::width(16)];
        assert_eq!(by_16, codes + n / 4 * 2 * k, "{name}: codes and x, as wide as can be");
        let loads = codes / 16;
        let by_2 = counters.loads.bytes_by_width[crate::width(2)];
        let by_1 = counters.loads.bytes_by_width[crate::width(1)];
        let (each, lower) = crate::scale_bytes(names.stored.scales());
        assert_eq!((by_2, by_1), (loads * each, loads * lower), "{name}: scales");
        assert_eq!(counters.stores.bytes, 4 * n, "{name}");
        assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{name}: no spills");
    }
}
