//! `zynfer compare`: what it prints and its JSON, against `zynfer perplexity` of each side, and what it refuses to compare. The divergences
//! themselves are judged in tests/model/compare.rs.

use serde_json::{Value, json};
use zynfer_tests::fixtures;

use crate::support::{fields, file, folder, tiny, zynfer};

const WINDOWS: [&str; 4] = ["--window", "64", "--windows", "4"];

fn validation(name: &str) -> String {
    fixtures::fixture(&format!("tiny-qwen3/{name}")).to_str().expect("UTF-8").to_string()
}

/// The trained checkpoint with 4-bit weights.
fn int4(folder: &tempfile::TempDir) -> String {
    let out = folder.path().join("int4.zynfer").to_str().expect("UTF-8").to_string();
    zynfer(["compile", &tiny(), "-o", &out, "--quant", "int4:64"]).ok();
    out
}

fn compare(a: &str, b: &str, more: &[&str]) -> crate::support::Ended {
    zynfer([&["compare", a, b], &WINDOWS[..], more].concat())
}

#[test]
fn json_has_the_documented_shape_and_the_perplexities_of_both() {
    let folder = folder();
    let (a, b, text) = (tiny(), int4(&folder), validation("validation.txt"));
    let report = compare(&a, &b, &["--file", &text, "--json"]).json();
    assert_eq!(
        fields(&report),
        [
            "a",
            "activations",
            "b",
            "backend",
            "ids_unused",
            "kld_p99",
            "kv",
            "max_kld",
            "mean_kld",
            "perplexity_delta_percent",
            "tokens_scored",
            "top1_agreement",
            "window",
            "windows",
            "worst"
        ]
    );
    assert_eq!((&report["window"], &report["windows"], &report["tokens_scored"]), (&json!(64), &json!(4), &json!(252)));
    for (side, model) in [("a", &a), ("b", &b)] {
        let alone = zynfer([&["perplexity", model, "--text", &text, "--json"], &WINDOWS[..]].concat()).json();
        assert_eq!(fields(&report[side]), ["mean_nll", "model", "perplexity", "window_mean_nll"]);
        assert_eq!(&report[side]["model"], model);
        for field in ["mean_nll", "perplexity", "window_mean_nll"] {
            assert_eq!(report[side][field], alone[field], "{side}: {field}");
        }
    }
    let number = |field: &str| report[field].as_f64().expect("a number");
    assert!(
        0.0 < number("mean_kld") && number("mean_kld") < number("kld_p99") && number("kld_p99") < number("max_kld")
    );
    assert!((0.5..1.0).contains(&number("top1_agreement")), "{report}");

    let worst = report["worst"].as_array().expect("a list");
    assert_eq!(worst.len(), 10);
    assert_eq!(worst[0]["kld"], report["max_kld"]);
    assert!(worst.is_sorted_by(|a, b| a["kld"].as_f64() >= b["kld"].as_f64()));
    let whole = std::fs::read_to_string(&text).expect("the text");
    for position in worst {
        assert_eq!(fields(position), ["a_top1", "b_top1", "context", "kld", "position", "target", "window"]);
        // What stands in the text before the place, and what comes there.
        let text = |value: &Value| value.as_str().expect("a text").to_string();
        let passage = text(&position["context"]) + &text(&position["target"]["text"]);
        assert!(whole.contains(&passage), "{passage:?}");
        assert!((1..64).contains(&position["position"].as_u64().expect("a number")));
    }
    let by_ids = compare(&a, &b, &["--ids-u16", &validation("validation.u16"), "--json"]).json();
    assert_eq!(by_ids["worst"], report["worst"]);
}

#[test]
fn a_model_and_its_compiled_file_do_not_diverge() {
    let folder = folder();
    let out = folder.path().join("tiny.zynfer").to_str().expect("UTF-8").to_string();
    zynfer(["compile", &tiny(), "-o", &out]).ok();
    let report = compare(&tiny(), &out, &["--file", &validation("validation.txt"), "--json"]).json();
    for field in ["mean_kld", "kld_p99", "max_kld", "perplexity_delta_percent"] {
        assert_eq!(report[field], 0.0, "{field}");
    }
    assert_eq!((&report["top1_agreement"], &report["worst"]), (&json!(1.0), &json!([])));
}

#[test]
fn text_says_the_same_in_words() {
    let folder = folder();
    let ended = compare(&tiny(), &int4(&folder), &["--file", &validation("validation.txt"), "--backend", "cpu"]);
    assert!(ended.stderr.contains("cpu, KV cache f32: 252 tokens in 4 windows of 64, "), "{}", ended.stderr);
    let text = ended.ok();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3 + 10, "{text}");
    assert!(lines[0].starts_with("KLD of B from A      mean 0.") && lines[1].ends_with(" of 252)"), "{text}");
    assert!(lines[2].starts_with("perplexity           A ") && lines[2].ends_with(" %)"), "{text}");
    assert!(lines[3].contains(" at window ") && lines[3].contains(", in the text \""), "{text}");
}

#[test]
fn models_of_other_vocabularies_are_refused_by_both_names() {
    let ids = validation("validation.u16");
    let other = fixtures::fixture("qwen2-d64").to_str().expect("UTF-8").to_string();
    compare(&tiny(), &other, &["--ids-u16", &ids])
        .failed(1, &["vocab_size: 4096 in ", "tiny-qwen3, 300 in ", "qwen2-d64"]);
    let folder = folder();
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let copy = folder.path().join(name);
        std::fs::create_dir(&copy).expect("a folder");
        for file in
            ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
        {
            std::fs::copy(fixtures::fixture("tiny-qwen3").join(file), copy.join(file)).expect("copies");
        }
        let mut tokenizer = fixtures::read_json("tiny-qwen3/tokenizer.json");
        change(&mut tokenizer);
        std::fs::write(copy.join("tokenizer.json"), tokenizer.to_string()).expect("writes");
        copy.to_str().expect("UTF-8").to_string()
    };
    // Two tokens swapped: the same number of ids.
    let swapped = changed("swapped", &|tokenizer| {
        let vocabulary = tokenizer["model"]["vocab"].as_object_mut().expect("a vocabulary");
        let (a, b) = (vocabulary["a"].clone(), vocabulary["b"].clone());
        vocabulary["a"] = b;
        vocabulary["b"] = a;
    });
    let message =
        compare(&tiny(), &swapped, &["--ids-u16", &ids]).failed(1, &["tokenizer, id ", "tiny-qwen3, \"", "swapped"]);
    assert!(message.contains("\"a\" in") && message.contains("\"b\" in"), "{message}");
    // The same tokens, and merges that do not come to the same.
    let merges = changed("merges", &|tokenizer| {
        tokenizer["model"]["merges"].as_array_mut().expect("merges").truncate(10);
    });
    let text = file(&folder, "text.txt", "the golden ring and the king ".repeat(20).as_bytes());
    compare(&tiny(), &merges, &["--file", &text])
        .failed(1, &["tokenizer, token ", " of the text: ", "tiny-qwen3, ", "merges"]);
    // A model without a tokenizer is trusted with ids, and cannot be given text.
    std::fs::remove_file(folder.path().join("merges/tokenizer.json")).expect("removes");
    let trusted = compare(&tiny(), &merges, &["--ids-u16", &ids]);
    assert!(trusted.stderr.contains("not both models have a tokenizer"), "{}", trusted.stderr);
    trusted.ok();
    compare(&tiny(), &merges, &["--file", &text]).failed(1, &["merges", "has no tokenizer"]);
}

#[test]
fn bad_input_is_one_line() {
    let (model, ids) = (tiny(), validation("validation.u16"));
    let odd = folder();
    let odd_file = file(&odd, "odd.u16", &[0; 3]);
    compare(&model, &model, &["--ids-u16", &odd_file]).failed(1, &["odd.u16: 3 bytes", "even"]);
    compare(&model, "no/such", &["--ids-u16", &ids]).failed(1, &["no/such"]);
    let short = file(&odd, "short.u16", &[0; 100]);
    compare(&model, &model, &["--ids-u16", &short]).failed(2, &["window: 64 for 50 ids"]);
    let large = file(&odd, "large.u16", &u16::MAX.to_le_bytes().repeat(64));
    compare(&model, &model, &["--ids-u16", &large]).failed(1, &["token id 65535 at index 0", "4096"]);
    zynfer(["compare", &model, &model, "--ids-u16", &ids, "--window", "2050"]).failed(1, &["window: 2050", "2048"]);
    for (arguments, part) in [
        (vec!["compare", &model, &model], "--text"),
        (vec!["compare", &model], "B"),
        (vec!["compare", &model, &model, "--file", &ids, "--ids-u16", &ids], "--ids-u16"),
    ] {
        let ended = zynfer(&arguments);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
