//! The decode GEMV of this tree by arithmetic: every weight is read once, in whole lines, at the widest loads; the estimate for a large
//! one is its bytes over the memory's rate.

use crate::machine::Machine;
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
