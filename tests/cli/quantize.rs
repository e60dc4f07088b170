//! `compile --quant` and `--keep`, and `--activations`: what they print, what `inspect` says of the result, that it runs, and every wrong word.

use serde_json::json;
use zynfer_tests::fixtures::fixture;

use crate::support::{fields, folder, tiny, zynfer};

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
    zynfer(emulator).failed(2, &["--activations int8 is the cpu backend's"]);
}
