//! What the checks cost: each workload runs plain and with each check in turn, interleaved on one thread; printed are medians of the
//! ratios to the plain run beside it, and their range. Words name workloads (by a part of their name) and checks to run alone:
//! `cargo bench -p zynfer-benches --bench checks -- gemv race`.

use emulator::watch::Checks;
use emulator::{Options, Schedule};
use std::time::Instant;
use zynfer_benches::kernel_workloads::{Ready, WORKLOADS, Workload};

const ROUNDS: usize = 7;

fn seconds(work: &Workload, ready: &Ready, checks: Checks) -> f64 {
    let options = Options { schedule: Schedule::Forward, checks, ..Options::default() };
    let start = Instant::now();
    let stats = work.launch(ready, options);
    assert!(stats.findings.is_empty(), "{}: {:?}", work.name, stats.findings);
    start.elapsed().as_secs_f64()
}

fn main() {
    let none = Checks::default();
    let kinds = [
        ("memory", Checks { memory: true, ..none }),
        ("init", Checks { init: true, ..none }),
        ("race", Checks { race: true, ..none }),
        ("wait", Checks { wait: true, ..none }),
        ("barrier", Checks { barrier: true, ..none }),
        ("align", Checks { align: true, ..none }),
        ("all", Checks::ALL),
    ];
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let (checks, works): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| kinds.iter().any(|(name, _)| name == word));
    let kinds: Vec<_> = kinds.into_iter().filter(|(name, _)| checks.is_empty() || checks.contains(name)).collect();
    let named = |work: &&Workload| works.is_empty() || works.iter().any(|word| work.name.contains(word));
    println!("{:<24} {}", "cost, times plain", kinds.iter().map(|(name, _)| format!("{name:>20}")).collect::<String>());
    for work in WORKLOADS.iter().filter(named) {
        let ready = work.ready();
        let mut ratios = vec![Vec::new(); kinds.len()];
        seconds(work, &ready, none);
        for _ in 0..ROUNDS {
            for ((_, checks), ratios) in kinds.iter().zip(&mut ratios) {
                let plain = seconds(work, &ready, none);
                ratios.push(seconds(work, &ready, *checks) / plain);
            }
        }
        let cells = ratios.iter_mut().map(|ratios| {
            ratios.sort_by(f64::total_cmp);
            format!("{:>20}", format!("{:.2} ({:.1}–{:.1})", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1]))
        });
        println!("{:<24} {}", work.name, cells.collect::<String>());
    }
}
