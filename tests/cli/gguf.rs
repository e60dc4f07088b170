//! GGUF files on the command line: what `inspect` says of one, and that `compile` asks before it rounds.

use serde_json::json;
use zynfer_tests::fixtures::fixture;

use crate::support::{fields, folder, zynfer};

fn small(name: &str) -> String {
    fixture("gguf").join(name).to_str().expect("UTF-8").to_string()
}

#[test]
fn inspect_prints_metadata_types_and_refusals() {
    let text = zynfer(["inspect", &small("small.gguf"), "--tensors"]).ok();
    for part in [
        "GGUF version 3",
        "15 (BF16 1, F16 1, F32 1,",
        "k.i16                -32768",
        "k.texts              4 of [\"a\", \"\", \"Ġthe\", \"é\"]",
        "k.text               \"naïve \u{1f600}\\nline\"",
        "t.Q6_K",
        "general.architecture: not an architecture this build computes: expected one of qwen3, qwen2, llama, found \"none\"",
        "t.F32: would be rounded to bf16, as would 13 more, which is done only when asked for (--quant bf16; --quant source changes no value)",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    assert!(!text.contains("compiles"), "{text}");
}

#[test]
fn inspect_json_has_the_documented_shape() {
    // Named by its second part: all three are there.
    let report = zynfer(["inspect", &small("split-00002-of-00003.gguf"), "--json"]).json();
    assert_eq!(fields(&report), ["files", "metadata", "name", "needs_quant", "refused", "tensors", "version"]);
    assert_eq!((&report["name"], &report["version"]), (&json!("split"), &json!(3)));
    assert_eq!(report["files"].as_array().expect("files").len(), 3);
    assert_eq!(report["metadata"]["k.f32"], 0.1);
    assert_eq!(report["metadata"]["k.texts"], json!({"length": 4, "first": ["a", "", "Ġthe", "é"]}));
    let tensors = report["tensors"].as_array().expect("tensors");
    assert_eq!(tensors.len(), 15);
    assert_eq!(fields(&tensors[0]), ["bytes", "file", "name", "offset", "shape", "type"]);
    assert_eq!(report["refused"].as_array().expect("refusals").len(), 1);
}

#[test]
fn compile_and_run_say_what_they_want() {
    let folder = folder();
    let out = folder.path().join("out.zynfer").to_str().expect("UTF-8").to_string();
    let file = small("small.gguf");
    zynfer(["compile", &file, "-o", &out]).failed(1, &["small.gguf: general.architecture", "qwen3, qwen2, llama"]);
    zynfer(["compile", &file, "-o", &out, "--quant", "q3"]).failed(2, &["--quant", "q3"]);
    zynfer(["inspect", &file, "--verify"]).failed(1, &["records no hashes to verify"]);
    zynfer(["run", &file, "--prompt", "x"]).failed(1, &["is a GGUF file", "zynfer compile FILE.gguf -o OUT.zynfer"]);
}
