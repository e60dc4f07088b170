//! The commands about the machine: devices, doctor, isa, emulate, and `run` on the emulator and on a card that is not there.

use serde_json::json;
use zynfer_tests::{binary, fixtures};

use crate::support::{command, fields, file, finish, folder, ids, tiny, zynfer};

#[test]
fn devices_lists_cpu_and_emulator() {
    let report = zynfer(["devices", "--json"]).json();
    assert_eq!(fields(&report), ["amd_hip", "cpu", "emulator"]);
    assert!(report["cpu"]["threads"].as_u64().is_some_and(|threads| threads > 0));
    assert_eq!(report["emulator"]["devices"][0]["arch"], "gfx1201");
    let text = zynfer(["devices"]).ok();
    assert!(text.starts_with("cpu ") && text.contains("\nemulator ") && text.contains("\namd-hip "), "{text}");
}

#[test]
fn doctor_gives_each_check_a_verdict() {
    let report = zynfer(["doctor", "--json"]).json();
    let checks = report["checks"].as_array().expect("checks");
    assert!(checks.len() >= 8);
    for check in checks {
        assert_eq!(fields(check), ["advice", "detail", "name", "status"]);
        assert!(["PASS", "WARN", "ERROR"].contains(&check["status"].as_str().expect("status")));
    }
    let status = |name: &str| &checks.iter().find(|check| check["name"] == name).expect("a check")["status"];
    assert_eq!(
        (status("cpu backend"), status("kernels"), status("emulator backend")),
        (&json!("PASS"), &json!("PASS"), &json!("PASS"))
    );
    let text = zynfer(["doctor"]).ok();
    assert!(text.lines().any(|line| line.starts_with("PASS  kernels: ")), "{text}");
    // A library that is named and is none is a fact to report, not a crash.
    let report = zynfer(["doctor", "--json", "--hip-library", "/no/such/libamdhip64.so"]).json();
    let hip = report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .find(|check| check["name"] == "HIP library")
        .expect("check");
    assert!(hip["detail"].as_str().expect("text").contains("/no/such/libamdhip64.so"));
}

#[test]
fn a_backend_that_is_not_there_is_an_error_and_never_another_one() {
    let run = ["run", &tiny(), "--prompt", "a", "-n", "1"];
    let missing = |extra: &[&str]| {
        let mut all = run.to_vec();
        all.extend(extra);
        zynfer(all)
    };
    missing(&["--backend", "amd-hip", "--hip-library", "/no/such.so"]).failed(1, &["amd-hip", "/no/such.so"]);
    let mut emulator = command(run);
    emulator.env("ZYNFER_BACKEND", "emulator").env("ZYNFER_EMULATOR_LIBRARY", "/no/such-emulator.so");
    finish(&mut emulator, b"").failed(1, &["emulator", "/no/such-emulator.so"]);
    missing(&["--backend", "emulator", "--device", "3"]).failed(1, &["3", "1 device"]);
    // Whoever names a card wants a card.
    missing(&["--device", "3", "--hip-library", "/no/such.so"]).failed(1, &["amd-hip", "/no/such.so"]);
    // Whoever names a library wants it, and `auto` says in one line what it chose.
    missing(&["--hip-library", "/no/such.so"]).failed(1, &["/no/such.so"]);
    let auto = missing(&[]);
    let lines: Vec<&str> = auto.stderr.lines().filter(|line| line.starts_with("backend ")).collect();
    assert_eq!(lines.len(), 1, "{}", auto.stderr);
    assert!(lines[0].contains(", chosen by auto: "), "{}", lines[0]);
}

/// On a card decode is resident unless said otherwise, with quantized weights too, and where matrices are stored in several schemes. The card here is
/// the emulator's library.
#[test]
fn matrices_of_one_scheme_and_of_several_are_decoded_by_resident_kernels() {
    let folder = folder();
    let library = binary::emulator_library().to_str().expect("UTF-8 path");
    let card = ["--backend", "amd-hip", "--hip-library", library];
    let file = |name: &str, keep: &[&str]| {
        let out = folder.path().join(name).to_str().expect("UTF-8 path").to_string();
        zynfer([&["compile", &tiny(), "-o", &out, "--quant", "int4"][..], keep].concat()).ok();
        out
    };
    let run = |file: &str, machine: &[&str]| zynfer([&["run", file, "--prompt", "a", "-n", "2"][..], machine].concat());
    let (int4, mixed) = (file("int4.zynfer", &[]), file("mixed.zynfer", &["--keep", "down=int8"]));
    for file in [&int4, &mixed] {
        let by_itself = run(file, &card);
        assert_eq!(by_itself.ok(), run(file, &["--backend", "emulator"]).ok());
        // Only resident kernels have workgroups that must run at once, and here more of them than the card runs.
        let arguments = [&["run", file, "--prompt", "a", "-n", "2"][..], &card].concat();
        let refused = finish(command(arguments).env("ZYNFER_DECODE_WORKGROUPS", "1024"), b"");
        refused.failed(1, &["1024 workgroups, the card runs"]);
    }
    for plan in ["fused", "graph"] {
        let plan = [&card[..], &["--plan", plan]].concat();
        run(&int4, &plan).failed(1, &["int4:32", "persistent and unfused read all"]);
        run(&mixed, &plan).failed(1, &["int4:32 weights", "persistent and unfused read all"]);
    }
}

#[test]
fn the_emulator_library_lies_beside_the_program() {
    assert_eq!(binary::emulator_library().parent(), binary::zynfer().parent());
}

#[test]
fn run_on_the_emulator_writes_the_references_tokens() {
    let golden = fixtures::read_json("tiny-qwen3/golden.json");
    let case = &golden["cases"][0];
    let prompt = case["prompt"].as_str().expect("prompt");
    let run = ["run", &tiny(), "--prompt", prompt, "--greedy", "--max-new", "4", "--backend", "emulator", "--json"];
    let ended = zynfer(run);
    let stderr = ended.stderr.clone();
    let report = ended.json();
    assert_eq!(report["backend"], "emulator");
    // The smallest gap on the way is at token 30; before it every backend takes the reference's tokens.
    assert_eq!(ids(&report["tokens"]), ids(&case["greedy48"])[..4]);
    assert!(stderr.contains("wall clock of this CPU"), "{stderr}");
}

#[test]
fn isa_lists_every_kernel_and_disassembles_each() {
    let report = zynfer(["isa", "--json"]).json();
    assert_eq!(report["target"], "amdgcn-amd-amdhsa--gfx1201");
    let kernels = report["kernels"].as_array().expect("kernels");
    assert!(kernels.len() >= 11, "a forward pass has at least 11 operations");
    let table = zynfer(["isa"]).ok();
    for kernel in kernels {
        let name = kernel["name"].as_str().expect("name");
        assert!(table.contains(name));
        let listing = zynfer(["isa", name, "--json"]).json();
        assert_eq!(listing["vgprs"], kernel["vgprs"]);
        let instructions = listing["instructions"].as_array().expect("instructions");
        let bytes: usize = instructions.iter().map(|line| 4 * line["words"].as_array().expect("words").len()).sum();
        assert_eq!(bytes as u64, kernel["code_bytes"].as_u64().expect("bytes"), "{name}");
        assert!(instructions.iter().any(|line| line["text"] == "s_endpgm"), "{name}");
        assert!(
            !instructions.iter().any(|line| line["text"].as_str().expect("text").starts_with(".long")),
            "{name}: a word is no instruction"
        );
    }
    let text = zynfer(["isa", kernels[0]["name"].as_str().expect("name")]).ok();
    assert!(text.contains("s_endpgm") && text.contains("// 000000: "), "{text}");
    zynfer(["isa", "no_such_kernel"]).failed(1, &["no_such_kernel", kernels[0]["name"].as_str().expect("name")]);
}

/// Path of a file of the kernel fixtures.
fn kernel_file(path: &str) -> String {
    fixtures::fixture(&format!("kernels/{path}")).to_str().expect("UTF-8").to_string()
}

#[test]
fn emulate_runs_a_foreign_kernel_on_files() {
    let folder = folder();
    let out = folder.path().join("out.bin").to_str().expect("UTF-8").to_string();
    let arguments = [
        "emulate",
        &kernel_file("hk.hsaco"),
        "--kernel",
        "collatz",
        "--grid",
        "3,1,1",
        "--block",
        "64,1,1",
        "--arg",
        &format!("buf:{}", kernel_file("collatz__a/in0.bin")),
        "--arg",
        &format!("out:{out}:1536"),
        "--arg",
        "u32:90",
    ];
    zynfer(arguments).ok();
    assert_eq!(std::fs::read(&out).expect("written"), fixtures::read("kernels/collatz__a/out1.bin"));
    let mut with_json = arguments.to_vec();
    with_json.extend(["--json", "--stats"]);
    let report = zynfer(with_json).json();
    assert_eq!(
        fields(&report),
        ["by_class", "instructions", "kernel", "machine", "outputs", "profile", "wall_ms", "waves", "workgroups"]
    );
    assert_eq!((&report["workgroups"], &report["waves"]), (&json!(3), &json!(6)));
    let sum: u64 =
        report["by_class"].as_object().expect("classes").values().map(|count| count.as_u64().expect("count")).sum();
    assert_eq!(Some(sum), report["instructions"].as_u64());
    assert_eq!(report["outputs"], json!([{"file": out, "bytes": 1536}]));
}

#[test]
fn emulate_writes_in_place_results_beside_the_input() {
    let folder = folder();
    let [a, b] = ["a.bin", "b.bin"].map(|name| folder.path().join(name).to_str().expect("UTF-8").to_string());
    let input = kernel_file("atomics_u32__a/in0.bin");
    let before = std::fs::read(&input).expect("there");
    zynfer([
        "emulate",
        &kernel_file("hk.hsaco"),
        "--kernel",
        "atomics_u32",
        "--grid",
        "3",
        "--block",
        "64",
        "--arg",
        &format!("inout:{input}:{a}"),
        "--arg",
        &format!("buf:{}", kernel_file("atomics_u32__a/in1.bin")),
        "--arg",
        &format!("out:{b}:7680"),
    ])
    .ok();
    assert_eq!(std::fs::read(&a).expect("written"), fixtures::read("kernels/atomics_u32__a/out0.bin"));
    assert_eq!(std::fs::read(&b).expect("written"), fixtures::read("kernels/atomics_u32__a/out2.bin"));
    assert_eq!(std::fs::read(&input).expect("there"), before);
}

#[test]
fn emulate_refuses_what_does_not_fit_and_traps_without_output() {
    let folder = folder();
    let out = folder.path().join("out.bin").to_str().expect("UTF-8").to_string();
    let bad = kernel_file("bad.hsaco");
    let input = format!("buf:{}", kernel_file("bad_oob_global_write/in0.bin"));
    let emulate = |kernel: &str, grid: &str, block: &str, arguments: &[&str]| {
        let mut all = vec!["emulate", &bad, "--kernel", kernel, "--grid", grid, "--block", block];
        for argument in arguments {
            all.extend(["--arg", argument]);
        }
        zynfer(all)
    };
    let output = format!("out:{out}:400");
    let good = [input.as_str(), &output, "u32:100"];
    emulate("bad_oob_global_write", "2", "64", &good)
        .failed(1, &["bad_oob_global_write", "store", "outside every allocation", "pc 0x"]);
    emulate("no_such", "1", "32", &good).failed(1, &["no_such", "bad_oob_global_write"]);
    emulate("ok_oob_global_write", "2", "64", &good[..2]).failed(1, &["3 arguments", "2 are given"]);
    emulate("ok_oob_global_write", "2", "64", &["u32:1", &output, "u32:100"])
        .failed(1, &["argument 0", "u32", "buffer"]);
    emulate("ok_oob_global_write", "2", "64", &[&input, &output, "u64:100"]).failed(1, &["argument 2", "8 bytes", "4"]);
    emulate("ok_oob_global_write", "2", "64", &[&input, &output, &input]).failed(1, &["argument 2", "4 bytes"]);
    emulate("ok_oob_global_write", "2", "2048", &good).failed(1, &["2048", "1024"]);
    emulate("ok_oob_global_write", "0", "64", &good).failed(1, &["grid x", "0"]);
    assert!(!std::path::Path::new(&out).exists(), "a launch that failed writes nothing");
    let truncated = file(&folder, "short.hsaco", &fixtures::read("kernels/bad.hsaco")[..1000]);
    zynfer(["emulate", &truncated, "--kernel", "k", "--grid", "1", "--block", "1"]).failed(1, &["short.hsaco"]);
    emulate("ok_oob_global_write", "2", "64", &good).ok();
    assert_eq!(std::fs::read(&out).expect("written"), fixtures::read("kernels/ok_oob_global_write/out1.bin"));
}

/// The defect of `bad_nowait`, with what is written about it; then what `--check` takes and what it does without a defect.
#[test]
fn emulate_checks_kernels_and_ends_with_3() {
    let folder = folder();
    let out = folder.path().join("out.bin").to_str().expect("UTF-8").to_string();
    let object = kernel_file("bad.hsaco");
    let (input, output) = (format!("buf:{}", kernel_file("bad_nowait/in0.bin")), format!("out:{out}:256"));
    let run = |kernel: &str, more: &[&str]| {
        let mut all = vec!["emulate", &object, "--kernel", kernel, "--grid", "1", "--block", "64", "--lds", "256"];
        all.extend(["--arg", &input, "--arg", &output]);
        all.extend(more);
        zynfer(all)
    };
    let good = run("ok_nowait", &["--check", "all"]);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(!good.stderr.contains("missing_wait"), "{}", good.stderr);
    std::fs::remove_file(&out).expect("a kernel that came to its end has written");
    let found = run("bad_nowait", &["--check", "memory,wait"]);
    assert_eq!(found.code, Some(3), "{}", found.stderr);
    for part in [
        "missing_wait_dscnt_before_barrier (wait): the barrier is signalled with LDS operations outstanding",
        "kernel bad_nowait +0x",
        "s_barrier_signal -1",
        "workgroup 0,0,0 wave 0",
        "outstanding since: workgroup 0,0,0 wave 0",
        "1 finding",
    ] {
        assert!(found.stderr.contains(part), "{part:?} is missing: {}", found.stderr);
    }
    // The same as an object; only what is asked for is looked for.
    let found = run("bad_nowait", &["--check", "all", "--json"]);
    assert_eq!(found.code, Some(3));
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!(report["findings"][0]["class"], "missing_wait_dscnt_before_barrier");
    assert_eq!(report["findings"].as_array().expect("a list").len(), 1);
    assert_eq!(run("bad_nowait", &["--check", "race,align"]).code, Some(0));
    assert_eq!(run("bad_nowait", &[]).code, Some(0));
}

/// A fault ends the kernel: 1 where nobody asked, 3 where it was looked for.
#[test]
fn emulate_tells_a_fault_from_a_failure() {
    let bad = kernel_file("bad.hsaco");
    let input = format!("buf:{}", kernel_file("bad_oob_global_write/in0.bin"));
    let folder = folder();
    let out = folder.path().join("out.bin").to_str().expect("UTF-8").to_string();
    let output = format!("out:{out}:400");
    let emulate = |more: &[&str]| {
        let mut all = vec!["emulate", &bad, "--kernel", "bad_oob_global_write", "--grid", "2", "--block", "64"];
        all.extend(["--arg", input.as_str(), "--arg", output.as_str(), "--arg", "u32:100"]);
        all.extend(more);
        zynfer(all)
    };
    emulate(&[]).failed(1, &["outside every allocation"]);
    let found = emulate(&["--check", "all"]);
    assert_eq!(found.code, Some(3), "{}", found.stderr);
    assert!(found.stderr.contains("out_of_bounds_global (memory): store"), "{}", found.stderr);
    let found = emulate(&["--check", "all", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!(report["findings"][0]["class"], "out_of_bounds_global");
    assert_eq!(report["findings"][0]["access"]["kind"], "store");
    assert!(!std::path::Path::new(&out).exists(), "a launch that failed writes nothing");
    // One instruction is too little for any kernel.
    let found = emulate(&["--check", "barrier", "--limit", "1"]);
    assert_eq!(found.code, Some(3), "{}", found.stderr);
    assert!(found.stderr.contains("hang"), "{}", found.stderr);
}

/// The library checks every launch of whole models; ours have no defects. A list that is none is wrong usage.
#[test]
fn run_checks_every_kernel_where_the_environment_says_so() {
    let run = ["run", &tiny(), "--prompt", "The", "--greedy", "--max-new", "2", "--backend", "emulator"];
    let mut checked = command(run);
    finish(checked.env("ZYNFER_EMULATOR_CHECK", "all"), b"").ok();
    let mut wrong = command(run);
    finish(wrong.env("ZYNFER_EMULATOR_CHECK", "rase"), b"").failed(2, &["ZYNFER_EMULATOR_CHECK", "rase", "race"]);
}
