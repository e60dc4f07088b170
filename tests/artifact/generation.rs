//! Sampling defaults, end-of-text ids and chat templates: each source is found, and they are joined as documented.

use serde_json::json;
use zynfer::artifact::{Artifact, GenerationDefaults, LoadMode};

use crate::support::{Checkpoint, assert_message};

/// A tokenizer.json with one added token and one vocabulary entry; enough to resolve an end token.
const TOKENIZER: &str = r#"{"added_tokens":[{"id":900,"content":"<|im_end|>","special":true}],
    "model":{"type":"BPE","vocab":{"a":5,"</s>":6},"merges":[]}}"#;

#[test]
fn the_trained_fixture_has_its_end_ids_template_and_defaults() {
    let checkpoint = Checkpoint::tied();
    let artifact = checkpoint.open();
    assert_eq!(artifact.end_ids(), [4070, 4072]);
    assert_eq!(artifact.generation(), &GenerationDefaults::default());
    let config = checkpoint.json("tokenizer_config.json");
    assert_eq!(artifact.chat_template(), config["chat_template"].as_str());
    assert!(artifact.chat_template().unwrap().contains("<|im_start|>"));
}

/// UX-19: scalar or list, in any of the three files, also only by the tokenizer's text.
#[test]
fn end_ids_are_the_union_of_all_three_files() {
    let checkpoint = Checkpoint::untied().config("eos_token_id", json!(7));
    checkpoint.edit("generation_config.json", |map| drop(map.insert("eos_token_id".into(), json!([9, 7, 3]))));
    checkpoint.write("tokenizer.json", TOKENIZER);
    checkpoint.write("tokenizer_config.json", r#"{"eos_token": "<|im_end|>"}"#);
    assert_eq!(checkpoint.open().end_ids(), [3, 7, 9, 900]);
    checkpoint.write("tokenizer_config.json", r#"{"eos_token": {"content": "</s>", "lstrip": false}}"#);
    assert_eq!(checkpoint.open().end_ids(), [3, 6, 7, 9]);
    let compiled = Artifact::open(&checkpoint.compiled("a.zynfer"), LoadMode::Mmap).unwrap();
    assert_eq!(compiled.end_ids(), [3, 6, 7, 9]);
    assert_eq!(compiled.directory_json()["end_ids"], json!([3, 6, 7, 9]));
    checkpoint.write("tokenizer_config.json", r#"{"eos_token": null}"#);
    assert_eq!(checkpoint.open().end_ids(), [3, 7, 9]);
    checkpoint.write("generation_config.json", "{}");
    assert_eq!(checkpoint.config("eos_token_id", json!(null)).open().end_ids(), [0u32; 0]);
}

#[test]
fn end_ids_that_cannot_be_are_refused() {
    let checkpoint = Checkpoint::untied();
    checkpoint.write("tokenizer.json", TOKENIZER.replace("900", "1000"));
    checkpoint.write("tokenizer_config.json", r#"{"eos_token": "<|im_end|>"}"#);
    assert_message(
        &checkpoint.refusal(),
        "model/tokenizer.json: <|im_end|>: end token outside the model's vocabulary: \
         expected an id below vocab_size 1000, found 1000",
    );
    checkpoint.write("tokenizer_config.json", r#"{"eos_token": "<|end|>"}"#);
    assert_message(
        &checkpoint.refusal(),
        "model/tokenizer.json: <|end|>: has no such token, but tokenizer_config.json names it as eos_token",
    );
    checkpoint.write("tokenizer_config.json", r#"{"eos_token": 5}"#);
    assert_message(
        &checkpoint.refusal(),
        "model/tokenizer_config.json: eos_token: wrong type: expected a string or a token, found 5",
    );
    std::fs::remove_file(checkpoint.path("tokenizer_config.json")).unwrap();
    checkpoint.write("generation_config.json", r#"{"eos_token_id": [0, 1000]}"#);
    assert_message(
        &checkpoint.refusal(),
        "model/generation_config.json: eos_token_id: expected an id below vocab_size 1000, found 1000",
    );
}

/// UX-30: the model's own defaults are carried, and what is not used is listed.
#[test]
fn sampling_defaults_are_carried() {
    let checkpoint = Checkpoint::untied();
    let published = json!({"bos_token_id": 1, "do_sample": true, "eos_token_id": [2, 1], "pad_token_id": 1, "temperature": 0.6,
        "top_k": 20, "top_p": 0.95, "min_p": 0.0, "repetition_penalty": 1.05, "max_new_tokens": 2048, "typical_p": 0.9,
        "num_beams": null, "transformers_version": "4.51.0"});
    checkpoint.write("generation_config.json", published.to_string());
    let expected = GenerationDefaults {
        do_sample: Some(true),
        temperature: Some(0.6),
        top_k: Some(20),
        top_p: Some(0.95),
        min_p: Some(0.0),
        repetition_penalty: Some(1.05),
        presence_penalty: None,
        frequency_penalty: None,
        max_new_tokens: Some(2048),
        unused: vec!["typical_p".into()],
    };
    assert_eq!(checkpoint.open().generation(), &expected);
    let compiled = Artifact::open(&checkpoint.compiled("a.zynfer"), LoadMode::Read).unwrap();
    assert_eq!(compiled.generation(), &expected);
    assert_eq!(compiled.directory_json()["generation"]["temperature"], json!(0.6));
}

/// Numbers of 17 digits, as a float32 widened to float64 has them, come back exactly.
#[test]
fn numbers_survive_to_the_last_digit() {
    let checkpoint = Checkpoint::small();
    for bits in (0..400u32).map(|n| 0x3c00_0000 + n * 0x3_1415) {
        let value = f64::from(f32::from_bits(bits)) / 3.0;
        checkpoint.edit("config.json", |map| drop(map.insert("rms_norm_eps".into(), json!(value / 1000.0))));
        checkpoint.write("generation_config.json", format!(r#"{{"temperature": {value:?}}}"#));
        let compiled = Artifact::open(&checkpoint.compiled("a.zynfer"), LoadMode::Mmap).unwrap();
        assert_eq!(compiled.generation().temperature.map(f64::to_bits), Some(value.to_bits()));
        assert_eq!(compiled.config().rms_norm_eps.to_bits(), (value / 1000.0).to_bits());
    }
}

#[test]
fn sampling_defaults_out_of_range_are_refused() {
    let checkpoint = Checkpoint::untied();
    for (key, value, expected) in [
        ("temperature", json!(-0.5), "a number of at least 0"),
        ("temperature", json!("hot"), "a number of at least 0"),
        ("top_p", json!(0), "a number above 0 and at most 1"),
        ("top_p", json!(1.5), "a number above 0 and at most 1"),
        ("top_k", json!(2.5), "an integer from 0 to 4294967295"),
        ("top_k", json!(-1), "an integer from 0 to 4294967295"),
        ("min_p", json!(2), "a number from 0 to 1"),
        ("repetition_penalty", json!(0), "a number above 0"),
        ("presence_penalty", json!(2.5), "a number from -2 to 2"),
        ("frequency_penalty", json!(-3), "a number from -2 to 2"),
    ] {
        checkpoint.write("generation_config.json", json!({key: value}).to_string());
        assert_message(
            &checkpoint.refusal(),
            &format!("model/generation_config.json: {key}: out of range: expected {expected}, found {value}"),
        );
    }
    checkpoint.write("generation_config.json", r#"{"do_sample": 1}"#);
    assert_message(
        &checkpoint.refusal(),
        "model/generation_config.json: do_sample: wrong type: expected true or false, found 1",
    );
    checkpoint.write("generation_config.json", "[]");
    assert_message(&checkpoint.refusal(), "model/generation_config.json: is no JSON object");
}

#[test]
fn the_chat_template_is_found_wherever_it_stands() {
    let checkpoint = Checkpoint::untied();
    assert_eq!(checkpoint.open().chat_template(), None);
    let template = |json: serde_json::Value| {
        checkpoint.write("tokenizer_config.json", json!({"chat_template": json}).to_string());
        checkpoint.open().chat_template().map(str::to_owned)
    };
    assert_eq!(template(json!("one {{ é }}")).as_deref(), Some("one {{ é }}"));
    assert_eq!(
        template(json!([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}])).as_deref(),
        Some("d")
    );
    assert_eq!(template(json!([{"name": "only", "template": "o"}])).as_deref(), Some("o"));
    assert_eq!(template(json!(null)), None);
    // A file of its own counts first, as in transformers.
    checkpoint.write("chat_template.jinja", "from the file");
    assert_eq!(template(json!("from the config")).as_deref(), Some("from the file"));
    let compiled = Artifact::open(&checkpoint.compiled("a.zynfer"), LoadMode::Mmap).unwrap();
    assert_eq!(compiled.chat_template(), Some("from the file"));

    checkpoint.write("chat_template.jinja", b"\xff\xfe");
    assert_message(
        &checkpoint.refusal(),
        "model/chat_template.jinja: is not UTF-8: expected UTF-8 text, found invalid utf-8 sequence of 1 bytes from index 0",
    );
    std::fs::remove_file(checkpoint.path("chat_template.jinja")).unwrap();
    checkpoint.write(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "a", "template": "1"}, {"name": "b", "template": "2"}]}"#,
    );
    assert_message(
        &checkpoint.refusal(),
        "model/tokenizer_config.json: chat_template: no default among the named templates: expected one named default, found [a, b]",
    );
    checkpoint.write("tokenizer_config.json", r#"{"chat_template": [{"name": "a"}]}"#);
    assert_message(
        &checkpoint.refusal(),
        "model/tokenizer_config.json: chat_template: an entry has no name or no template",
    );
}

/// A checkpoint without tokenizer can be compiled and run by ids, and says so.
#[test]
fn no_tokenizer_is_a_note_not_an_error() {
    let checkpoint = Checkpoint::untied();
    assert_eq!(checkpoint.open().notes(), ["no tokenizer.json: ids can be run, text cannot"]);
    let artifact = Artifact::open(&checkpoint.compiled("a.zynfer"), LoadMode::Mmap).unwrap();
    assert_eq!(artifact.tokenizer_json(), None);
    assert_eq!(artifact.end_ids(), [0]);
}
