//! `compile --quant` and `--keep`, and `--activations`: what they print, what `inspect` says of the result, that it runs, and every wrong word.

use serde_json::json;
use zynfer_tests::fixtures::fixture;

use crate::support::{fields, file, folder, tiny, zynfer};

fn validation() -> String {
    fixture("tiny-qwen3/validation.u16").to_str().expect("UTF-8").to_string()
}

#[test]
fn a_quantized_model_is_described_and_runs() {
    let folder = folder();
    let out = folder.path().join("q.zynfer").to_str().expect("UTF-8").to_string();
    let report =
        zynfer(["compile", &tiny(), "-o", &out, "--quant", "int4:64", "--keep", "lm_head=int8,down=source", "--json"])
            .json();
    // 6 layers of 7 matrices and 4 vectors, the embedding, the last norm.
    assert_eq!(report["schemes"], json!({"int8": 1, "bf16": 31, "int4:64": 36}));
    assert_eq!((&report["scheme"], &report["keep"]), (&json!("int4:64"), &json!("lm_head=int8,down=source")));
    assert!(report["weight_bytes"].as_u64() < report["source_weight_bytes"].as_u64());
    let text = zynfer(["inspect", &out, "--tensors"]).ok();
    for part in ["int8 (1)", "int4:64 (36)", "bf16 (31)", "model.layers.0.mlp.up_proj.weight"] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    let ids = zynfer(["run", &out, "--prompt", "Once upon a time", "-n", "4", "--raw", "--backend", "cpu", "--json"]);
    assert_eq!(ids.json()["tokens"].as_array().map(Vec::len), Some(4));

    // Rounded activations are others, and near.
    let nll = |more: &[&str]| {
        let base = ["perplexity", &out, "--ids-u16", &validation(), "--windows", "1", "--backend", "cpu", "--json"];
        let report = zynfer(base.into_iter().chain(more.iter().copied())).json();
        assert!(fields(&report).contains(&"mean_nll"), "{report}");
        report["mean_nll"].as_f64().expect("a number")
    };
    let (plain, rounded) = (nll(&["--activations", "f32"]), nll(&["--activations", "int8"]));
    assert_eq!(plain, nll(&[]));
    assert!(plain != rounded && (plain - rounded).abs() < 0.01, "{plain} and {rounded}");
}

#[test]
fn source_of_a_folder_is_the_folder() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (plain, source) = (path("plain.zynfer"), path("source.zynfer"));
    zynfer(["compile", &tiny(), "-o", &plain]).ok();
    let report = zynfer(["compile", &tiny(), "-o", &source, "--quant", "source", "--json"]).json();
    assert_eq!((&report["scheme"], &report["schemes"]), (&json!("source"), &json!({"bf16": 68})));
    assert!(std::fs::read(plain).expect("a file") == std::fs::read(&source).expect("a file"));
    // What it has no such weights for is the same with rounded activations: they are f32 beside bf16.
    zynfer(["logits", &source, "--ids", "1,2", "--out", &path("l"), "--backend", "cpu", "--activations", "int8"]).ok();
}

#[test]
fn wrong_words_exit_2_and_say_which_are_right() {
    let folder = folder();
    let out = folder.path().join("out.zynfer").to_str().expect("UTF-8").to_string();
    let model = tiny();
    for (arguments, parts) in [
        (
            vec!["--quant", "int5"],
            vec!["\"int5\" is no scheme: bf16, int8, int8:G, int4:G, int4m:G or fp8-e4m3", "source"],
        ),
        (vec!["--quant", "int4:48"], vec!["\"int4:48\" is no scheme", "G of 32, 64 or 128"]),
        (vec!["--quant", "int8k:16"], vec!["\"int8k:16\" is no scheme"]),
        (vec!["--quant", ""], vec!["--quant"]),
        (
            vec!["--quant", "int4", "--keep", "head=bf16"],
            vec!["--keep: \"head\" is no class", "embed, lm_head, attn_q"],
        ),
        (vec!["--quant", "int4", "--keep", "up"], vec!["--keep: \"up\": CLASS=SCHEME expected"]),
        (vec!["--quant", "int4", "--keep", ""], vec!["--keep: \"\": CLASS=SCHEME expected"]),
        (vec!["--quant", "int4", "--keep", "up=int8,up=bf16"], vec!["--keep: up: named twice"]),
        (vec!["--quant", "int4", "--keep", "up=q8_0"], vec!["--keep: \"q8_0\" is no scheme", "source"]),
        (vec!["--keep", "up=int8"], vec!["--quant"]),
    ] {
        let ended = zynfer(["compile", &model, "-o", &out].into_iter().chain(arguments.iter().copied()));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?}: {part:?} is missing: {}", ended.stderr);
        }
        assert!(!folder.path().join("out.zynfer").exists());
    }
    let run = ["run", &model, "--prompt", "a", "--backend", "cpu", "--activations", "fp8"];
    zynfer(run).failed(2, &["--activations", "fp8"]);
    let emulator = ["run", &model, "--prompt", "a", "--backend", "emulator", "--activations", "int8"];
    let note = "--activations int8: no matrix of the model is int8 with a scale per row, nothing is rounded";
    let ended = zynfer(emulator.into_iter().chain(["-n", "1", "--json"]));
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    assert_eq!(ended.json()["activations"], "as-is");
}

#[test]
fn calibration_takes_a_folder_and_a_text_of_it() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (out, model) = (path("out.zynfer"), tiny());
    let text = fixture("tiny-qwen3/validation.txt").to_str().expect("UTF-8").to_string();
    let ids = file(&folder, "ids.u16", &std::fs::read(validation()).expect("a file")[20 * 1024..23 * 1024]);
    let base = ["compile", &model, "-o", &out, "--quant", "int4:64", "--json"];
    let with = |more: &[&str]| zynfer(base.iter().chain(more).copied());
    let report = with(&["--calibrate-ids-u16", &ids]).json();
    assert_eq!(report["calibration_tokens"], 1536);
    let by_ids = std::fs::read(&out).expect("a file");
    let short = file(&folder, "text.txt", &std::fs::read(&text).expect("a file")[..20_000]);
    assert!(with(&["--calibrate", &short]).json()["calibration_tokens"].as_u64() > Some(1536));
    assert!(by_ids != std::fs::read(&out).expect("a file"));
    std::fs::remove_file(&out).expect("it was written");

    let few = file(&folder, "few.u16", &[1, 0].repeat(700));
    with(&["--calibrate-ids-u16", &few]).failed(1, &["512 tokens in windows of 512, at least 768 expected"]);
    let other = file(&folder, "other.u16", &[0, 0x20].repeat(1024));
    with(&["--calibrate-ids-u16", &other]).failed(1, &["id 8192 at 0, ids below 4096 expected"]);
    let odd = file(&folder, "odd.u16", &[0; 2049]);
    with(&["--calibrate-ids-u16", &odd]).failed(1, &["odd.u16: 2049 bytes, an even number is needed"]);
    with(&["--calibrate", &path("none.txt")]).failed(1, &["none.txt"]);
    let binary = file(&folder, "binary.txt", &[b'a', 0xff]);
    with(&["--calibrate", &binary]).failed(1, &["binary.txt: not UTF-8 from byte 1 on"]);
    let gguf = fixture("gguf/small.gguf").to_str().expect("UTF-8").to_string();
    zynfer(["compile", &gguf, "-o", &out, "--quant", "int4", "--calibrate", &text])
        .failed(1, &["small.gguf: only a Hugging Face folder can be calibrated"]);
    zynfer(["compile", &model, "-o", &out, "--quant", "int8", "--calibrate", &text])
        .failed(2, &["--calibrate chooses codes of int4 and int4m, --quant int8 has none"]);
    for wrong in [
        vec!["compile", &model, "-o", &out, "--calibrate", &text],
        vec!["compile", &model, "-o", &out, "--quant", "int4", "--calibrate", &text, "--calibrate-ids-u16", &ids],
    ] {
        assert_eq!(zynfer(wrong).code, Some(2));
    }
    assert!(!folder.path().join("out.zynfer").exists());
}
