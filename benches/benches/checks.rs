//! What the checks cost: each workload runs plain and with each check in turn, interleaved on one thread; printed are medians of the
//! ratios to the plain run beside it, and their range.

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
    println!("{:<24} {}", "cost, times plain", kinds.map(|(name, _)| format!("{name:>20}")).concat());
    for work in &WORKLOADS {
        let ready = work.ready();
        let mut ratios = kinds.map(|_| Vec::new());
        seconds(work, &ready, none);
        for _ in 0..ROUNDS {
            for ((_, checks), ratios) in kinds.iter().zip(&mut ratios) {
                let plain = seconds(work, &ready, none);
                ratios.push(seconds(work, &ready, *checks) / plain);
            }
        }
        let cells = ratios.map(|mut ratios| {
            ratios.sort_by(f64::total_cmp);
            format!("{:>20}", format!("{:.2} ({:.1}–{:.1})", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1]))
        });
        println!("{:<24} {}", work.name, cells.concat());
    }
}
