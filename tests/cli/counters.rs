//! Counting and tracing from the command line: `emulate --stats`, `emulate --trace`, `profile`, and `ZYNFER_EMULATOR_STATS`. Numbers are
//! counted by hand from the kernels' text and from the model's shapes.

use serde_json::{Value, json};
use zynfer_tests::fixtures;

use crate::support::{command, fields, file, finish, folder, tiny, zynfer};

fn kernels() -> String {
    fixtures::root().join("emulator/examples/kernels.hsaco").to_str().expect("UTF-8").to_string()
}

/// `scale` of 100 elements on one workgroup of 256.
fn scale(folder: &tempfile::TempDir, more: &[&str]) -> Vec<String> {
    let x = file(folder, "x.bin", &(0..100).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>());
    let y = folder.path().join("y.bin").display().to_string();
    let fixed = ["emulate", &kernels(), "--kernel", "scale", "--grid", "1", "--block", "256"].map(str::to_owned);
    let arguments = [format!("buf:{x}"), format!("out:{y}:400"), "f32:0.5".into(), "u32:100".into()];
    let arguments = arguments.into_iter().flat_map(|argument| ["--arg".to_owned(), argument]);
    fixed.into_iter().chain(arguments).chain(more.iter().map(|&word| word.to_owned())).collect()
}

#[test]
fn stats_are_counted_and_estimated() {
    let folder = folder();
    let report = zynfer(scale(&folder, &["--stats", "--json"])).json();
    let profile = &report["profile"];
    let loads = &profile["counters"]["loads"];
    assert_eq!((&loads["accesses"], &loads["bytes"], &loads["lines_128"]), (&json!(4), &json!(400), &json!(4)));
    assert_eq!(profile["coalescing"], json!(400.0 / 512.0));
    assert_eq!(
        (&profile["occupancy"]["waves_per_simd"], &profile["occupancy"]["limit"]),
        (&json!(16.0), &json!("waves"))
    );
    assert_eq!(profile["bound"], json!("launch"));
    assert_eq!(report["machine"]["memory_bytes_per_s"], json!(612e9));
    let ended = zynfer(scale(&folder, &["--stats"]));
    assert_eq!(ended.code, Some(0));
    for part in [
        "4 accesses, 400 bytes, 4 lines of 128 B",
        "b32 100.0 %",
        "occupancy      16.0 of 16",
        "estimate ",
        "bound by launch",
    ] {
        assert!(ended.stderr.contains(part), "{part} is not in {}", ended.stderr);
    }
    assert!(zynfer(scale(&folder, &["--json"])).json().get("profile").is_none(), "only if asked");
}

#[test]
fn a_trace_goes_to_stderr_or_a_file() {
    let folder = folder();
    let ended = zynfer(scale(&folder, &["--trace", "--trace-wave", "3"]));
    assert_eq!(ended.code, Some(0));
    // Elements 96 to 99 of wave 3.
    assert!(ended.stderr.contains("kernel scale, workgroup 0,0,0, wave 3: 32 lanes\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("exec_lo = 0x0000000f\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("[0] 0x42400000 (48.0), [1] 0x42420000 (48.5)"), "{}", ended.stderr);
    let path = folder.path().join("trace.txt");
    let ended = zynfer(scale(&folder, &[&format!("--trace={}", path.display()), "--trace-limit", "2"]));
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stderr.contains("s_load_b128"), "{}", ended.stderr);
    let text = std::fs::read_to_string(&path).expect("written");
    assert!(text.contains("     2  +0x0008  s_load_b64 s[8:9], s[0:1], 0x10"), "{text}");
    assert!(text.ends_with("… the limit of 2 instructions is reached\n"), "{text}");
}

#[test]
fn a_wave_that_is_not_there_is_wrong_usage() {
    let folder = folder();
    zynfer(scale(&folder, &["--trace", "--trace-wave", "8"])).failed(2, &["--trace-wave", "8"]);
    zynfer(scale(&folder, &["--trace", "--trace-workgroup", "0,1"])).failed(2, &["--trace-workgroup", "y is 1", "1"]);
    assert_eq!(zynfer(scale(&folder, &["--trace-wave", "1"])).code, Some(2), "without --trace");
    zynfer(scale(&folder, &["--trace=/no/such/folder/t"])).failed(1, &["/no/such/folder/t"]);
}

fn kernel<'a>(pass: &'a Value, name: &str) -> &'a Value {
    let kernels = pass["kernels"].as_array().expect("kernels");
    kernels.iter().find(|kernel| kernel["kernel"] == name).unwrap_or_else(|| panic!("no {name} in {pass}"))
}

/// The tiny checkpoint: H 256, Q 512, K 256, I 768, V 4096, six layers, tied embeddings.
#[test]
fn a_profile_counts_the_weights() {
    let report = zynfer(["profile", &tiny(), "--backend", "emulator", "--json"]).json();
    assert_eq!(fields(&report), ["backend", "decode", "estimates_for", "kv", "prefill"]);
    let layer: u64 = 256 * 512 + 2 * 256 * 256 + 512 * 256 + 3 * 256 * 768;
    let linear = 6 * layer + 4096 * 256;
    let norms = 6 * (2 * 256 + 2 * 128) + 256;
    for (pass, tokens, positions) in [("prefill", 16, 16), ("decode", 1, 17)] {
        let cached = 6 * 2 * 256 * positions;
        assert_eq!(report[pass]["tokens"], json!(tokens));
        assert_eq!(report[pass]["minimum_bytes"], json!(2 * (linear + norms + cached)), "{pass}");
        let moved = report[pass]["totals"]["footprint_bytes"].as_u64().expect("bytes");
        assert!(moved > 2 * linear, "{pass}: {moved} bytes moved, the matrices alone have {}", 2 * linear);
        assert!(report[pass]["totals"]["estimate_s"].as_f64().expect("seconds") > moved as f64 / 640e9);
    }
    // Seven matrices a layer and the head. A wave takes four rows of W and reads x once for them.
    let gemv = kernel(&report["decode"], device_ops::linear::NAME_GEMV);
    assert_eq!(gemv["launches"], json!(6 * 7 + 1));
    assert_eq!(gemv["counters"]["loads"]["bytes"], json!(2 * linear + linear / 4 * 2));
    let per_launch = |k: u64| k * 2 / 128 + 1;
    // Inputs: H for q, k, v, gate, up and the head, Q for o, I for down; one line of arguments each.
    let inputs = 6 * (5 * per_launch(256) + per_launch(512) + per_launch(768)) + per_launch(256);
    assert_eq!(gemv["counters"]["footprint"]["read_128"], json!(2 * linear / 128 + inputs));
    // q, k and v in one launch, gate and up in one, o and down each added to the residual stream.
    for (name, launches) in [
        (device_ops::linear::qkv::NAME_N128_T64, 6),
        (device_ops::linear::gated::NAME_N128_T64, 6),
        (device_ops::linear::NAMES_ADD[0], 12),
    ] {
        let product = kernel(&report["prefill"], name);
        assert_eq!(product["launches"], json!(launches), "{name}");
        assert!(product["by_class"]["wmma"].as_u64().expect("a count") > 0, "{name}");
    }
    assert!(report["prefill"]["kernels"].as_array().expect("kernels").len() > 5);

    let text = zynfer(["profile", &tiny(), "-p", "3"]).ok();
    for part in
        ["prefill: 3 tokens\n", "decode: 1 token\n", device_ops::linear::NAME_GEMV, "on an R9700 at best", "cautiously"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_profile_counts_quantized_weights_as_they_are_stored() {
    let folder = folder();
    let out = folder.path().join("int4.zynfer").to_str().expect("UTF-8").to_string();
    zynfer(["compile", &tiny(), "-o", &out, "--quant", "int4"]).ok();
    let stored = zynfer(["inspect", &out, "--json"]).json()["weight_bytes"].as_u64().expect("bytes");
    let report = zynfer(["profile", &out, "-p", "2", "--json"]).json();
    for (pass, positions) in [("prefill", 2), ("decode", 3)] {
        // bf16 keys and values of 6 layers of 2 heads of 128.
        let cached = 6 * 2 * (256 + 256) * positions;
        assert_eq!(report[pass]["minimum_bytes"], json!(stored + cached), "{pass}");
    }
}

/// Six layers in two launches each, with two barriers in the first half, one in the second and one at the end; or in one launch.
#[test]
fn a_profile_is_of_the_plan_that_is_asked_for() {
    // A mixture of schemes is one launch, too, of the kernel that reads a table.
    let folder = folder();
    let mixed = folder.path().join("mixed.zynfer").to_str().expect("UTF-8 path").to_string();
    zynfer(["compile", &tiny(), "-o", &mixed, "--quant", "int4", "--keep", "down=int8"]).ok();
    let report = zynfer(["profile", &mixed, "-p", "2", "--plan", "persistent", "--json"]).json();
    assert!(report.to_string().contains("\"decode_persistent_mixed_d128\""), "{report}");
    for (plan, launches, waits) in
        [("unfused", None, 0), ("fused", Some(13), 19), ("graph", Some(13), 19), ("persistent", Some(1), 31)]
    {
        let report = zynfer(["profile", &tiny(), "-p", "2", "--plan", plan, "--json"]).json();
        let totals = &report["decode"]["totals"];
        assert_eq!(totals["grid_waits"], json!(waits), "{plan}");
        let found = totals["launches"].as_u64().expect("a count");
        assert!(launches.map_or(found > 60, |launches| found == launches), "{plan}: {found} launches");
        let second = |name: &str| totals[name].as_f64().expect("seconds");
        let machine = |name: &str| report["estimates_for"][name].as_f64().expect("a parameter");
        let phases = (found + waits) as f64 * machine("phase_s");
        assert!((second("cautious_s") - second("estimate_s") - phases).abs() < 1e-12, "{plan}");
        let least = found as f64 * machine("launch_s") + waits as f64 * machine("grid_barrier_s");
        assert!(second("estimate_s") > least, "{plan}");
    }
}

#[test]
fn a_profile_needs_the_emulator() {
    zynfer(["profile", &tiny(), "--backend", "cpu"]).failed(2, &["--backend emulator"]);
    zynfer(["profile", &tiny(), "-p", "5000"]).failed(1, &["5000", "2048"]);
    assert_eq!(zynfer(["profile", &tiny(), "-p", "0"]).code, Some(2));
}

#[test]
fn the_library_writes_what_it_counted() {
    let folder = folder();
    let path = folder.path().join("stats.json");
    let out = folder.path().join("logits").display().to_string();
    let run = |value: &str| {
        let arguments = ["logits", &tiny(), "--ids", "1", "--backend", "emulator", "--out", &out];
        let ended = finish(command(arguments).env("ZYNFER_EMULATOR_STATS", value), b"");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    run(path.to_str().expect("UTF-8"));
    let report: Value = serde_json::from_slice(&std::fs::read(&path).expect("written")).expect("JSON");
    assert_eq!(fields(&report), ["kernels", "machine", "totals"]);
    assert_eq!(kernel(&report, device_ops::linear::NAME_GEMV)["launches"], json!(43));
    let stderr = run("-");
    let line = stderr.lines().find(|line| line.starts_with('{')).expect("a line of JSON");
    let same: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(same["totals"]["instructions"], report["totals"]["instructions"]);
    assert!(run("1").contains("linear_bf16_gemv: 43 launches"), "lines");
    assert!(!run("0").contains("launches"), "nothing");
}
