//! `--kv` and the memory plan: what is printed is what a load checks, formats are taken only by name, and nothing else is guessed.

use serde_json::{Value, json};
use zynfer_tests::binary;
use zynfer_tests::fixtures::fixture;

use crate::support::{command, fields, finish, folder, tiny, zynfer};

/// Keys and values of a token of the tiny checkpoint: 6 layers of 2 kv heads of 128 numbers.
const HEADS: u64 = 6 * 2;

fn plan(arguments: &[&str]) -> Value {
    let model = tiny();
    let mut all = vec!["inspect", &model, "--plan", "--json"];
    all.extend(arguments);
    zynfer(all).json()
}

fn number(plan: &Value, field: &str) -> u64 {
    plan[field].as_u64().unwrap_or_else(|| panic!("{field}: {plan}"))
}

#[test]
fn the_plan_has_the_documented_shape_and_its_parts_add_up() {
    for (backend, in_place, kv, head) in [("cpu", true, "f32", 2 * 512), ("emulator", false, "bf16", 2 * 256)] {
        let plan = plan(&["--backend", backend, "--context", "100"]);
        let top = [
            "backend",
            "context",
            "fits",
            "free_bytes",
            "free_is_assumed",
            "free_of",
            "kv",
            "kv_bytes_per_token",
            "kv_cache_bytes",
            "longest_context",
            "model",
            "model_context",
            "needed_bytes",
            "reserve_bytes",
            "scratch_bytes",
            "weights_bytes",
            "weights_in_place",
        ];
        assert_eq!(fields(&plan), top);
        assert_eq!((&plan["backend"], &plan["kv"]), (&json!(backend), &json!(kv)));
        assert_eq!((&plan["fits"], &plan["weights_in_place"]), (&json!(true), &json!(in_place)));
        assert_eq!((number(&plan, "context"), number(&plan, "model_context")), (100, 2048));
        assert_eq!((number(&plan, "longest_context"), &plan["free_is_assumed"]), (2048, &json!(false)));
        // 100 positions are 128 in blocks of 32 or of 64.
        assert_eq!(number(&plan, "kv_bytes_per_token"), HEADS * head);
        assert_eq!(number(&plan, "kv_cache_bytes"), HEADS * head * 128);
        let scratch: u64 = plan["scratch_bytes"].as_object().expect("parts").values().filter_map(Value::as_u64).sum();
        let weights = if in_place { 0 } else { number(&plan, "weights_bytes") };
        let parts = weights + number(&plan, "kv_cache_bytes") + scratch + number(&plan, "reserve_bytes");
        assert_eq!(number(&plan, "needed_bytes"), parts);
    }
}

#[test]
fn formats_change_the_cache_alone_and_are_as_large_as_their_codes_and_scales() {
    let bytes = |kv: &str| number(&plan(&["--backend", "cpu", "-c", "64", "--kv", kv]), "kv_cache_bytes");
    for (kv, head) in
        [("f32", 1024), ("bf16", 512), ("f16", 512), ("int8", 264), ("fp8", 264), ("v=int8,k=bf16", 256 + 132)]
    {
        assert_eq!(bytes(kv), 64 * HEADS * head, "{kv}");
    }
    let on_a_gpu = |kv: &str| plan(&["--backend", "emulator", "-c", "64", "--kv", kv]);
    let rest = |plan: &Value| number(plan, "needed_bytes") - number(plan, "kv_cache_bytes");
    for (kv, head) in [("bf16", 512), ("f16", 512), ("int8", 264), ("fp8", 264), ("v=int8,k=bf16", 256 + 132)] {
        let plan = on_a_gpu(kv);
        assert_eq!(
            (number(&plan, "kv_cache_bytes"), rest(&plan)),
            (64 * HEADS * head, rest(&on_a_gpu("bf16"))),
            "{kv}"
        );
    }
    let mut from_environment = command(["inspect", &tiny(), "--plan", "--backend", "cpu", "--json"]);
    let plan = finish(from_environment.env("ZYNFER_KV", "k=f16,v=fp8"), b"").json();
    assert_eq!(plan["kv"], "k=f16,v=fp8");
}

#[test]
fn people_read_the_same_numbers() {
    let text = zynfer(["inspect", &tiny(), "--plan", "--backend", "cpu", "--kv", "int8", "--memory", "1GiB"]).ok();
    let int8 = plan(&["--backend", "cpu", "--kv", "int8", "--memory", "1GiB"]);
    for part in [
        "2048 of 2048 tokens".to_owned(),
        "read where they lie".into(),
        format!(", int8, {} bytes per token", HEADS * 264),
        format!("({} bytes)", number(&int8, "needed_bytes")),
        "1.0 GiB (1073741824 bytes), memory as --memory assumes it".into(),
        "yes".into(),
    ] {
        assert!(text.contains(&part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn what_does_not_fit_says_what_would() {
    let with = |memory: u64, context: &str| {
        let memory = format!("--memory={memory}");
        plan(&["--backend", "emulator", &memory, "--context", context])
    };
    let needed = |plan: &Value| number(plan, "needed_bytes");
    // One byte less than the longest context takes, and three quarters of what its cache does.
    let most = with(1 << 30, "2k");
    let quarter = number(&most, "kv_cache_bytes") / 4;
    for memory in [needed(&most) - 1, needed(&most) - quarter] {
        let whole = with(memory, "2k");
        let longest = number(&whole, "longest_context");
        assert_eq!((&whole["fits"], &whole["free_is_assumed"]), (&json!(false), &json!(true)));
        assert!(longest > 1000 && longest < 2048, "{whole}");
        let (last, first) = (with(memory, &longest.to_string()), with(memory, &(longest + 1).to_string()));
        assert!(needed(&last) <= memory && needed(&first) > memory, "{last} {first}");
        assert_eq!((&last["fits"], &first["fits"]), (&json!(true), &json!(false)));
        let (size, model) = (memory.to_string(), tiny());
        let text = ["inspect", &model, "--plan", "--backend", "emulator", "--memory", &size, "-c", "2k"];
        let text = zynfer(text).ok();
        assert!(text.contains(&format!("no: a context of {longest} tokens would fit")), "{text}");
    }
    let nothing = zynfer(["inspect", &tiny(), "--plan", "--backend", "cpu", "--memory", "1KiB"]).ok();
    assert!(nothing.contains("no: no context fits"), "{nothing}");
}

#[test]
fn shapes_and_quantized_artifacts_have_plans_too() {
    let shape = |more: &[&str]| {
        let mut all = vec!["inspect", "--synthetic", "qwen3-0.6b", "--plan", "--json", "--memory", "32GiB"];
        all.extend(more);
        zynfer(all).json()
    };
    let card = shape(&["--backend", "amd-hip", "--context", "40960"]);
    assert_eq!((number(&card, "weights_bytes"), &card["fits"]), (596_049_920 * 2, &json!(true)));
    assert_eq!(number(&card, "kv_cache_bytes"), 28 * 2 * 8 * 128 * 40_960 * 2);
    let int4 = shape(&["--backend", "cpu", "--quant", "int4:32"]);
    // down_proj is 28 · 1024 · 3072 weights, a byte each and an f32 per row, where the others take 4.5 bits.
    let mixed = shape(&["--backend", "cpu", "--quant", "int4:32", "--keep", "down=int8"]);
    let down = 28 * 1024 * 3072;
    let more = down + 28 * 1024 * 4 - down * 9 / 16;
    assert_eq!(number(&mixed, "weights_bytes"), number(&int4, "weights_bytes") + more);
    let folder = folder();
    let out = folder.path().join("int4.zynfer").to_str().expect("UTF-8").to_string();
    zynfer(["compile", &tiny(), "-o", &out, "--quant", "int4:32"]).ok();
    let tiny = zynfer(["inspect", &out, "--plan", "--json", "--backend", "cpu"]).json();
    let whole = zynfer(["inspect", &out, "--json"]).json();
    assert_eq!(tiny["weights_bytes"], whole["weight_bytes"]);
    // 4.5 bits of 16, and vectors as they are.
    let share = number(&int4, "weights_bytes") as f64 / number(&card, "weights_bytes") as f64;
    assert!((share - 4.5 / 16.0).abs() < 1e-3, "{share}");
}

#[test]
fn wrong_formats_sizes_and_places_are_refused_by_name() {
    let model = tiny();
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let ended = zynfer(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty() && !ended.stderr.contains("panicked"), "{arguments:?}: {}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?}: {part:?} is missing: {}", ended.stderr);
        }
    };
    let run = ["run", &model, "--prompt", "a", "-n", "1", "--backend"];
    refused(&[&run[..], &["cpu", "--kv", "int4"]].concat(), 2, &["--kv", "int4", "f32, bf16, f16, int8 or fp8"]);
    refused(&[&run[..], &["cpu", "--kv", "k=int8"]].concat(), 2, &["k=int8", "k=FORMAT,v=FORMAT"]);
    refused(
        &[&run[..], &["emulator", "--kv", "f32"]].concat(),
        1,
        &["--kv f32", "bf16, f16, int8 or fp8", "--backend cpu"],
    );
    for plan in ["fused", "graph", "persistent"] {
        let fused = ["emulator", "--kv", "k=bf16,v=int8", "--plan", plan];
        refused(&[&run[..], &fused].concat(), 1, &["--kv k=bf16,v=int8", "fused decode", "--plan unfused"]);
    }
    let inspect = ["inspect", &model];
    refused(&[&inspect[..], &["--memory", "1GiB"]].concat(), 2, &["--plan"]);
    for of_plan in [["--context", "64"], ["--threads", "1"], ["--hip-library", "libamdhip64.so"]] {
        refused(&[&inspect[..], &of_plan].concat(), 2, &["--plan"]);
    }
    refused(&[&inspect[..], &["--plan", "--verify"]].concat(), 2, &["--plan", "--verify"]);
    for size in ["32GB", "0", "-1", "18446744073709551615GiB", "GiB"] {
        refused(&[&inspect[..], &["--plan", &format!("--memory={size}")]].concat(), 2, &["--memory", size]);
    }
    refused(&[&inspect[..], &["--plan", "--context", "0"]].concat(), 2, &["--ctx-size", "0 tokens"]);
    refused(&[&inspect[..], &["--plan", "--context", "2049"]].concat(), 1, &["--ctx-size: 2049", "2048"]);
    refused(&[&inspect[..], &["--plan", "--backend", "cpu", "--device", "1"]].concat(), 2, &["--device 1", "cpu"]);
    refused(&["inspect", "--synthetic", "qwen3-0.6b"], 2, &["--synthetic", "--plan"]);
    refused(&["inspect", "--synthetic", "qwen3-32b", "--plan"], 2, &["qwen3-32b", "qwen3-0.6b"]);
    let gguf = fixture("gguf").join("small.gguf").to_str().expect("UTF-8").to_string();
    refused(&["inspect", &gguf, "--plan"], 1, &["small.gguf: general.architecture", "qwen3, qwen2, llama"]);
    let mut nowhere = command(["inspect", &model, "--plan", "--backend", "amd-hip"]);
    nowhere.args(["--hip-library", "/nowhere/libamdhip64.so"]);
    finish(&mut nowhere, b"").failed(1, &["amd-hip", "/nowhere/libamdhip64.so", "--memory 32GiB"]);
    let mut variable = command([&run[..], &["cpu"]].concat());
    let ended = finish(variable.env("ZYNFER_KV", "best"), b"");
    assert!(ended.code == Some(2) && ended.stderr.contains("\"best\" is no format"), "{}", ended.stderr);
}

#[test]
fn every_command_that_computes_takes_the_format_and_tells_it() {
    let folder = folder();
    let out = folder.path().join("logits.f32").to_str().expect("UTF-8").to_string();
    let ids = fixture("tiny-qwen3").join("validation.u16").to_str().expect("UTF-8").to_string();
    let model = tiny();
    let kv = ["--backend", "cpu", "--kv", "k=bf16,v=int8"];
    let commands: [&[&str]; 5] = [
        &["run", &model, "--prompt", "Once upon a time", "-n", "2", "--json"],
        &["logits", &model, "--ids", "1,2,3", "--out", &out, "--json"],
        &["perplexity", &model, "--ids-u16", &ids, "--window", "16", "--windows", "1", "--json"],
        &["compare", &model, &model, "--ids-u16", &ids, "--window", "16", "--windows", "1", "--json"],
        &["bench", &model, "-p", "4", "-n", "2", "-r", "1", "--json"],
    ];
    for command in commands {
        assert_eq!(zynfer([command, &kv].concat()).json()["kv"], "k=bf16,v=int8", "{command:?}");
    }
    let run = zynfer([&["run", &model, "--prompt", "Once upon a time", "-n", "2"][..], &kv].concat());
    assert!(run.stderr.contains("KV cache k=bf16,v=int8"), "{}", run.stderr);
    let unasked = zynfer(["run", &model, "--prompt", "a", "-n", "1", "--backend", "cpu"]);
    assert!(unasked.stderr.contains("KV cache f32"), "{}", unasked.stderr);
}

/// A card would be decoded on by one launch, which reads a cache of bf16: the plan that can is taken and told. The emulator stands in for it.
#[test]
fn a_card_decodes_unfused_where_the_cache_is_in_another_format() {
    let library = binary::emulator_library().to_str().expect("UTF-8 path");
    let model = tiny();
    let card =
        ["run", &model, "--prompt", "Once", "-n", "2", "--backend", "amd-hip", "--hip-library", library, "--json"];
    let run = |kv: &str| zynfer([&card[..], &["--kv", kv]].concat());
    let coded = run("k=f16,v=fp8");
    let why = "--plan unfused: --kv k=f16,v=fp8, fused decode reads a cache of bf16";
    assert!(coded.stderr.lines().any(|line| line == why), "{}", coded.stderr);
    assert_eq!(coded.json()["kv"], "k=f16,v=fp8");
    assert!(!run("bf16").stderr.contains("--plan unfused"));
}
