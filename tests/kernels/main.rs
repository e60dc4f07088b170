//! The kernels of `tests/fixtures/kernels` on the emulator: compiled code of others with inputs and independent expected outputs. What
//! the emulator's checks say about them is judged in `tests/sanitizer`.

mod case;
mod definedness;
mod launches;
mod objects;

use case::{Case, all};
use emulator::{Fault, LaunchError, Options, Schedule};
use rayon::prelude::*;

/// Runs every good case that fits in memory; all failures are reported together.
fn good_cases_hold(options: Options) {
    let cases = all();
    let good: Vec<&Case> = cases.iter().filter(|c| c.must_flag.is_none() && !large(c)).collect();
    assert_eq!(good.len(), 106, "good cases without the large buffer");
    let failures: Vec<String> = good
        .par_iter()
        .filter_map(|case| case.check(&case.run(options.clone())).err().map(|e| format!("{}: {e}", case.name)))
        .collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), good.len(), failures.join("\n"));
}

fn large(case: &Case) -> bool {
    case.needs.iter().any(|n| n == "large_buffer")
}

fn with(schedule: Schedule, fill: u32) -> Options {
    Options { schedule, fill, ..Options::default() }
}

#[test]
fn good_cases_hold_on_all_cores() {
    good_cases_hold(Options::default());
}
#[test]
fn good_cases_hold_forward_with_zeros() {
    good_cases_hold(with(Schedule::Forward, 0));
}
#[test]
fn good_cases_hold_backward_with_ones() {
    good_cases_hold(with(Schedule::Backward, u32::MAX));
}
#[test]
fn good_cases_hold_interleaved() {
    for seed in [1, 2] {
        good_cases_hold(with(Schedule::Random { seed }, 0x3f80_0001));
    }
}

/// 5.3 GB of which 128 places are touched: memory is mapped when it is touched.
#[test]
fn addresses_more_than_4_gib_apart() {
    let cases = all();
    let case = cases.iter().find(|c| large(c)).expect("the case with the large buffer");
    assert!(case.buffer_bytes() > 5_000_000_000);
    case.check(&case.run(Options::default())).unwrap();
}

/// The defects that show without a sanitizer.
#[test]
fn defects_trap() {
    for case in all() {
        let Some(class) = &case.must_flag else { continue };
        let expected: fn(&Fault) -> bool = match class.as_str() {
            "out_of_bounds_global" => |f| matches!(f, Fault::OutOfBounds { .. }),
            "out_of_bounds_lds" => |f| matches!(f, Fault::LocalOutOfBounds { space: "LDS", .. }),
            "misaligned_access" => |f| matches!(f, Fault::Misaligned { .. }),
            "barrier_divergence" => |f| matches!(f, Fault::Barrier(_)),
            _ => continue,
        };
        for schedule in [Schedule::Parallel { threads: None }, Schedule::Forward, Schedule::Backward] {
            match case.run(with(schedule, 0)).result {
                Err(LaunchError::Trap(trap)) if expected(&trap.fault) => {}
                other => panic!("{} ({class}): {other:?}", case.name),
            }
        }
    }
}
