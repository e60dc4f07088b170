//! The emulator's checks, proven by kernels with one defect each and their twins without it: the foreign ones of
//! `tests/fixtures/kernels` and the seeded ones of `tests/fixtures/faults`. A defect must be reported as its class and no other, under
//! every schedule; a kernel without one must not be reported at all.

mod assemble;
#[path = "../kernels/case.rs"]
#[allow(dead_code, reason = "shared with the tests of kernels, which use more of it")]
mod case;
mod faults;

use emulator::watch::finding::{Class, Finding};
use emulator::{LaunchError, Options, Schedule, Stats, watch::Checks};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Schedules that every kernel runs under.
const SCHEDULES: [Schedule; 5] = [
    Schedule::Parallel { threads: None },
    Schedule::Forward,
    Schedule::Backward,
    Schedule::Random { seed: 3 },
    Schedule::Random { seed: 4 },
];

fn findings(result: &Result<Stats, LaunchError>) -> Vec<Finding> {
    match result {
        Ok(stats) => stats.findings.clone(),
        Err(error) => error.findings(),
    }
}

/// Names of the classes that were found.
fn classes(result: &Result<Stats, LaunchError>) -> BTreeSet<&'static str> {
    findings(result).iter().map(|finding| finding.class.name()).collect()
}

fn checked(schedule: Schedule) -> Options {
    Options { schedule, checks: Checks::ALL, ..Options::default() }
}

/// All foreign kernels: the good ones keep their results and say nothing, the bad ones say what they are.
fn foreign_kernels(schedule: Schedule) {
    let cases = case::all();
    let small: Vec<_> = cases.iter().filter(|case| !case.needs.iter().any(|need| need == "large_buffer")).collect();
    assert_eq!(small.len(), 114);
    let wrong: Vec<String> = small
        .par_iter()
        .filter_map(|case| {
            let outcome = case.run(checked(schedule));
            let found = findings(&outcome.result);
            match &case.must_flag {
                Some(class) if classes(&outcome.result) == BTreeSet::from([class.as_str()]) => None,
                None if found.is_empty() => case.check(&outcome).err().map(|why| format!("{}: {why}", case.name)),
                expected => Some(format!(
                    "{} ({schedule:?}): {expected:?} expected\n{}",
                    case.name,
                    emulator::watch::finding::text(&found)
                )),
            }
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), small.len(), wrong.join("\n"));
}

#[test]
fn foreign_kernels_on_all_cores() {
    foreign_kernels(SCHEDULES[0]);
}
#[test]
fn foreign_kernels_forward() {
    foreign_kernels(SCHEDULES[1]);
}
#[test]
fn foreign_kernels_backward() {
    foreign_kernels(SCHEDULES[2]);
}
#[test]
fn foreign_kernels_interleaved() {
    foreign_kernels(SCHEDULES[3]);
    foreign_kernels(SCHEDULES[4]);
}

/// The kernel whose buffer has 5.3 GB: shadows are as lazy as memory is.
#[test]
fn foreign_kernel_with_a_large_buffer() {
    let cases = case::all();
    let case = cases.iter().find(|case| case.needs.iter().any(|need| need == "large_buffer")).expect("there is one");
    let outcome = case.run(checked(Schedule::Parallel { threads: None }));
    case.check(&outcome).expect("its results");
    assert_eq!(findings(&outcome.result), []);
}

/// What a report says, down to the source line.
#[test]
fn reports_name_everything() {
    let faults = faults::all();
    let report = |name: &str| {
        let fault = faults.iter().find(|fault| fault.name == name).unwrap_or_else(|| panic!("no {name}.s"));
        emulator::watch::finding::text(&findings(&fault.run(false, checked(Schedule::Forward))))
    };
    let says = |name: &str, parts: &[&str]| {
        let text = report(name);
        for part in parts {
            assert!(text.contains(part), "{name} does not say {part:?}:\n{text}");
        }
    };
    says(
        "race_between_workgroups",
        &[
            "global_race (race): store of the dword at 0x7000",
            "and store by wave 0 of workgroup number 0, with no barrier or atomic between",
            "kernel k +0x1c (pc 0x7000",
            "global_store_b32 v1, v0, s[4:5] at ",
            "race_between_workgroups.s:10",
            "workgroup 1,0,0 wave 0 lane 0",
            "byte 0 of the live allocation of 1024 bytes at 0x7000",
            "store: workgroup 0,0,0 wave 0 +0x1c",
        ],
    );
    says(
        "use_after_free",
        &["use_after_free (memory)", "byte 0 of the freed allocation of 1024 bytes", "use_after_free.s:9"],
    );
    says("global_load_past_end", &["lane 6", "0 bytes past the end of the 1024 at"]);
    says("lds_past_end", &["lane 31", "LDS byte 0x80, 0 bytes past the end of the live allocation of 128 bytes"]);
    says(
        "no_loadcnt",
        &["v2 is read before s_wait_loadcnt for what fills it", "filled by: workgroup 0,0,0 wave 0", "no_loadcnt.s:5"],
    );
    says("overwritten_while_loading", &["v3 is overwritten before s_wait_loadcnt"]);
    says("lanes_store_differently", &["lanes 0 and 1 store different values to the same bytes", "lane 1"]);
    says("spin_for_ever", &["hang (barrier): no progress", "wave 0 runs at +0x"]);
}

/// Line tables with any byte damaged give a line or none, and never end the process.
#[test]
fn damaged_line_tables_are_survived() {
    let whole = assemble::assemble("no_loadcnt", false);
    let lines = |bytes: &[u8]| {
        let object = emulator::CodeObject::parse(bytes).ok()?;
        let code = object.code_range();
        let found: Vec<_> = (code.start..code.end).step_by(4).map(|address| object.lines().find(address)).collect();
        Some(found)
    };
    let good = lines(&whole).expect("a code object");
    assert!(good.iter().flatten().any(|line| line.file.ends_with("no_loadcnt.s") && line.line == 5), "{good:?}");
    let mut changed = 0;
    for at in (0..whole.len()).step_by(3) {
        for flip in [0xff, 0x80, 0x01] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            changed += lines(&damaged).is_some_and(|found| found != good) as usize;
        }
    }
    assert!(changed > 50, "{changed} damaged objects have other lines");
}

/// Every class that a kernel can show has one.
#[test]
fn every_class_is_seeded() {
    let seeded: BTreeSet<String> = faults::all().into_iter().map(|fault| fault.class).collect();
    for class in Class::ALL {
        assert!(seeded.contains(class.name()), "no kernel in tests/fixtures/faults shows {class}");
    }
}

#[test]
fn seeded_defects_are_found_and_their_twins_are_not() {
    let faults = faults::all();
    assert!(faults.len() >= 40, "{} kernels", faults.len());
    let wrong: Vec<String> = faults
        .par_iter()
        .flat_map(|fault| {
            SCHEDULES.par_iter().flat_map(move |&schedule| [(fault, schedule, false), (fault, schedule, true)])
        })
        .filter_map(|(fault, schedule, fixed)| {
            let result = fault.run(fixed, checked(schedule));
            let expected = if fixed { BTreeSet::new() } else { BTreeSet::from([fault.class.as_str()]) };
            let ended_well = !fixed || result.is_ok();
            (classes(&result) != expected || !ended_well).then(|| {
                format!(
                    "{} ({schedule:?}, fixed {fixed}): {expected:?} expected, {:?}\n{}",
                    fault.name,
                    result.as_ref().err().map(ToString::to_string),
                    emulator::watch::finding::text(&findings(&result))
                )
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A single check reports its own classes only.
#[test]
fn each_check_is_on_its_own() {
    for fault in faults::all() {
        let Some(class) = Class::ALL.into_iter().find(|class| class.name() == fault.class) else {
            panic!("{}: no class {}", fault.name, fault.class)
        };
        let only: Checks = class.check().parse().expect("its own check");
        let result = fault.run(false, Options { checks: only, ..checked(Schedule::Forward) });
        assert_eq!(classes(&result), BTreeSet::from([class.name()]), "{} with {}", fault.name, class.check());
    }
}

/// Without checks a launch collects nothing.
#[test]
fn unchecked_launches_find_nothing() {
    for fault in faults::all() {
        let result = fault.run(false, Options { checks: Checks::default(), ..checked(Schedule::Forward) });
        if let Ok(stats) = result {
            assert!(stats.findings.is_empty(), "{}", fault.name);
        }
    }
}
