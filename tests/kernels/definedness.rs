//! Definedness on the kernels of others: what nothing wrote is reported where it decides something and nowhere else. Outputs start
//! undefined here although they hold bytes.

use crate::case::{Case, all};
use crate::large;
use emulator::watch::{Checks, finding::Class};
use emulator::{Options, Schedule};
use rayon::prelude::*;

fn options(schedule: Schedule) -> Options {
    let checks = Checks { init: true, ..Checks::default() };
    Options { schedule, checks, ..Options::default() }
}

const SCHEDULES: [Schedule; 3] =
    [Schedule::Parallel { threads: None }, Schedule::Backward, Schedule::Random { seed: 7 }];

#[test]
fn good_cases_are_silent() {
    let cases = all();
    let good: Vec<&Case> = cases.iter().filter(|c| c.must_flag.is_none() && !large(c)).collect();
    for schedule in SCHEDULES {
        let wrong: Vec<String> = good
            .par_iter()
            .filter_map(|case| {
                let outcome = case.run(options(schedule));
                if let Err(error) = case.check(&outcome) {
                    return Some(format!("{}: {error}", case.name));
                }
                let stats = outcome.result.expect("checked");
                (!stats.findings.is_empty()).then(|| format!("{}: {:#?}", case.name, stats.findings))
            })
            .collect();
        assert!(wrong.is_empty(), "{schedule:?}, {} of {}:\n{}", wrong.len(), good.len(), wrong.join("\n"));
    }
}

#[test]
fn undefined_reads_are_reported_and_nothing_else() {
    for case in all() {
        let class = match case.must_flag.as_deref() {
            Some("uninitialized_lds_read") => Class::UninitializedLdsRead,
            Some("uninitialized_register_read") => Class::UninitializedRegisterRead,
            _ => continue,
        };
        for schedule in SCHEDULES {
            let stats = case.run(options(schedule)).result.unwrap_or_else(|e| panic!("{}: {e}", case.name));
            assert!(!stats.findings.is_empty(), "{} reports nothing", case.name);
            let others: Vec<_> = stats.findings.iter().filter(|finding| finding.class != class).collect();
            assert!(others.is_empty(), "{}: {others:#?}", case.name);
        }
    }
}
