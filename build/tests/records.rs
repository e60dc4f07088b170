//! The scripts that make records of what ran on the proof vehicle: their medians and ratios from made-up logs. They run on machines
//! that this test never sees, so what they need of those (a GPU, torch) is not tried here.

use build_support::root;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs a script of the repository and returns what it printed.
fn python(words: &[&str]) -> String {
    let done = Command::new("python3").args(words).current_dir(root()).output().expect("python3 is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{words:?}: {}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

#[test]
fn peers_are_recorded_by_their_medians() {
    python(&["benches/peers/peers.py", "--self-test"]);
}

#[test]
fn a_record_has_the_medians_of_its_logs() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("record");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let logs = [
        ("commit", "c0ffee\n"),
        ("steps.tsv", "facts\t0\t0.1\tnvidia-smi\nbench_pp512\t9\t2.5\t./zynfer bench -p 512\n"),
        ("facts.log", "name, driver_version\nNVIDIA X1, 1.2\n"),
        ("clocks.csv", "t, 100 MHz, 5 MHz, 1 W\nt, 300 MHz, 5 MHz, 1 W\nt, 200 MHz, 5 MHz, 1 W\n"),
        ("ops.log", "test result: ok. 3 passed; 1 failed; 0 ignored\n\ntest result: ok. 4 passed; 0 failed\n"),
        (
            "bench_pp512.log",
            "a note\n{\"tests\": [{\"test\": \"pp512\", \"tok_s\": {\"median\": 20.0, \"min\": 10.0, \"max\": 40.0},\
             \"runs_tok_s\": [10.0, 20.0, 40.0]}]}\n",
        ),
        // 8 000 bytes and 2 000 000 operations in 4 microseconds.
        (
            "kernels.log",
            "a note\n[{\"case\": \"linear\", \"micros\": [2.0, 4.0, 8.0], \"bytes\": 8000, \"operations\": 2000000}]\n",
        ),
        (
            "ptxas.log",
            "Compiling entry function 'k' for 'sm_90'\n8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
             ptxas info : Used 40 registers\n",
        ),
    ];
    for (name, text) in logs {
        fs::write(folder.join(name), text).unwrap();
    }
    let printed = python(&["silicon/record.py", folder.to_str().unwrap()]);
    let wanted = [
        "Commit c0ffee. NVIDIA X1, 1.2",
        "| bench_pp512 | 9 | 2.5 |",
        "Tests passed and failed: ops 7 and 1",
        "Clocks during the benches: {\"sm_mhz_median\": 200, \"sm_mhz_max\": 300}",
        "- bench_pp512: `./zynfer bench -p 512`",
        "| bench_pp512 | pp512 | 20.0 (10.0–40.0) | 3 |",
        "| linear | 4.00 (2.00–8.00) | 2 | 0.50 |",
        "| k | 40 | 16 |",
    ];
    for line in wanted {
        assert!(printed.lines().any(|found| found == line), "`{line}` is not in\n{printed}");
    }
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names.filter(|name| name.ends_with("-x1.json") || name.ends_with("-x1.md")).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}
