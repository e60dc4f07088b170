//! `zynfer bench`: what is counted and how it is called. Whether a rate is good is not for a test to say.

use serde_json::{Value, json};

use crate::support::{fields, tiny, zynfer};

/// The two tests of a report, each with a rate that its runs bear out.
fn tests(report: &Value, names: [&str; 2], runs: usize) {
    let list = report["tests"].as_array().expect("tests");
    assert_eq!(list.iter().map(|test| &test["test"]).collect::<Vec<_>>(), names);
    for test in list {
        let rates: Vec<f64> =
            test["runs_tok_s"].as_array().expect("runs").iter().map(|r| r.as_f64().unwrap()).collect();
        assert_eq!(rates.len(), runs, "{test}");
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0) && rates.is_sorted(), "{test}");
        let [median, min, max] = ["median", "min", "max"].map(|name| test["tok_s"][name].as_f64().expect("a rate"));
        assert_eq!((min, max), (rates[0], rates[runs - 1]));
        assert!(min <= median && median <= max, "{test}");
        let ms = test["ms_per_token"].as_f64().expect("a time");
        assert!((ms * median / 1000.0 - 1.0).abs() < 1e-9, "{test}");
    }
}

#[test]
fn the_cpu_report_has_the_documented_shape() {
    let report = zynfer(["bench", &tiny(), "-p", "5", "-n", "3", "-r", "4", "--backend", "cpu", "--json"]).json();
    assert_eq!(
        fields(&report),
        ["activations", "backend", "clock", "kv", "model", "parameters", "repeat", "tests", "weight_bytes"]
    );
    tests(&report, ["pp5", "tg3"], 4);
    assert_eq!(
        (&report["backend"], &report["clock"], &report["repeat"]),
        (&json!("cpu"), &json!("wall time"), &json!(4))
    );
    assert_eq!(report["model"], "tiny-qwen3");
    let parameters = report["parameters"].as_u64().expect("a count");
    assert_eq!(report["weight_bytes"], json!(2 * parameters));
    assert_eq!(report["tests"][0]["wave_instructions_per_token"], Value::Null);
}

#[test]
fn the_emulators_report_counts_instructions_and_names_its_clock() {
    let run = ["bench", &tiny(), "-p", "4", "-n", "2", "-r", "2", "--backend", "emulator", "--json"];
    let report = zynfer(run).json();
    tests(&report, ["pp4", "tg2"], 2);
    assert_eq!(report["clock"], "emulator wall time");
    let count = |test: usize| report["tests"][test]["wave_instructions_per_token"].as_f64().expect("a count");
    // At least one instruction for each 256 weights, which is what a wave's widest load brings; four tokens share their loads.
    let parameters = report["parameters"].as_f64().expect("a count");
    assert!(count(1) > parameters / 256.0 && count(0) > parameters / 256.0 / 4.0, "{report}");
    assert!(count(1) < parameters, "{report}");
    // The same work every time.
    assert_eq!(
        zynfer(run).json()["tests"][1]["wave_instructions_per_token"],
        report["tests"][1]["wave_instructions_per_token"]
    );

    let ended = zynfer(["bench", &tiny(), "-p", "0", "-n", "1", "-r", "1", "--backend", "emulator"]);
    assert!(ended.stderr.contains("say nothing about a card"), "{}", ended.stderr);
    let table = ended.ok();
    assert!(
        table.contains("| tok/s, emulator wall time |") && table.contains("| tg1 |") && !table.contains("| pp"),
        "{table}"
    );
}

#[test]
fn a_depth_is_named_and_takes_context() {
    let model = tiny();
    let run = ["bench", &model, "-p", "0", "-n", "2", "-d", "7", "-r", "1", "--backend", "cpu", "--csv"];
    assert!(zynfer(run).ok().contains(",tg2 @ d7,2,1,"));
    zynfer(["bench", &model, "-p", "0", "-n", "2", "-d", "7", "-c", "9", "--backend", "cpu"]).failed(1, &["9", "10"]);
    zynfer(["bench", &model, "-d", "0", "--backend", "cpu"]).failed(2, &["--depth"]);
}

#[test]
fn tables_have_a_header_and_a_row_for_each_test() {
    let run =
        |format: &str| zynfer(["bench", &tiny(), "-p", "2", "-n", "2", "-r", "1", "--backend", "cpu", format]).ok();
    let csv = run("--csv");
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 3, "{csv}");
    assert!(rows[0].starts_with("model,parameters,") && rows[1].contains(",cpu,wall time,pp2,2,1,"), "{csv}");
    assert_eq!(rows[0].split(',').count(), rows[2].split(',').count());
    let table = run("--md");
    assert!(table.starts_with("| model |") && table.lines().count() == 4 && table.contains("| tg2 |"), "{table}");
}

#[test]
fn what_does_not_fit_is_refused_with_both_numbers() {
    let model = tiny();
    zynfer(["bench", &model, "-p", "100000", "--backend", "cpu"]).failed(1, &["100000", "2048 positions"]);
    zynfer(["bench", &model, "-p", "100", "-n", "0", "-c", "64", "--backend", "cpu"]).failed(1, &["64", "100"]);
    zynfer(["bench", "/nowhere/model", "--backend", "cpu"]).failed(1, &["/nowhere/model"]);
}
