//! What goes wrong: one line that names the thing and both numbers, exit code 2 for wrong usage and 1 for the rest, nothing on stdout
//! and nothing half-written.

use serde_json::json;
use zynfer_tests::fixtures;

use crate::support::{command, file, finish, folder, tiny, zynfer, zynfer_with};

#[test]
fn wrong_usage_exits_2_and_names_the_word() {
    let model = tiny();
    for (arguments, parts) in [
        (vec![], vec!["Usage"]),
        (vec!["frobnicate"], vec!["frobnicate"]),
        (vec!["run"], vec!["MODEL"]),
        (vec!["run", &model], vec!["--prompt"]),
        (vec!["run", &model, "--prompt", "a", "--prompt-file", "b"], vec!["--prompt-file"]),
        (vec!["run", &model, "--prompt", "a", "--frob"], vec!["--frob"]),
        (vec!["run", &model, "--prompt", "a", "--backend", "cuda"], vec!["cuda", "auto", "cpu", "amd-hip", "emulator"]),
        (vec!["run", &model, "--prompt", "a", "--raw", "--chat"], vec!["--chat"]),
        (vec!["run", &model, "--prompt", "a", "--system", "b"], vec!["--chat"]),
        (vec!["run", &model, "--prompt", "a", "--no-think"], vec!["--chat"]),
        (vec!["run", &model, "--prompt", "a", "--max-new", "x"], vec!["--max-new", "x"]),
        (vec!["run", &model, "--prompt", "a", "--max-new", "-1"], vec!["max_tokens", "-1"]),
        (vec!["run", &model, "--prompt", "a", "--temperature", "-1"], vec!["temperature", "-1"]),
        (vec!["run", &model, "--prompt", "a", "--temperature", "nan"], vec!["temperature", "NaN"]),
        (vec!["run", &model, "--prompt", "a", "--top-p", "1.5"], vec!["top_p", "1.5"]),
        (vec!["run", &model, "--prompt", "a", "--top-k", "-2"], vec!["top_k", "-2"]),
        (vec!["run", &model, "--prompt", "a", "--seed", "18446744073709551616"], vec!["seed", "18446744073709551616"]),
        (vec!["run", &model, "--prompt", "a", "--stop", ""], vec!["stop"]),
        (vec!["run", &model, "--prompt", "a", "--greedy", "--temperature", "1"], vec!["--greedy"]),
        (vec!["run", &model, "--prompt", "a", "--ctx-size", "4.5k"], vec!["4.5k"]),
        (vec!["run", &model, "--prompt", "a", "--ctx-size", "0"], vec!["--ctx-size"]),
        (vec!["run", &model, "--prompt", "a", "--device", "first"], vec!["first"]),
        (vec!["run", &model, "--prompt", "a", "--device", "1", "--backend", "cpu"], vec!["--device 1", "cpu"]),
        (vec!["run", &model, "--prompt", "a", "--plan", "graph", "--backend", "cpu"], vec!["--plan graph", "cpu"]),
        (
            vec!["run", &model, "--prompt", "a", "--plan", "fast"],
            vec!["fast", "unfused", "fused", "graph", "persistent"],
        ),
        (vec!["run", &model, "--prompt", ""], vec!["prompt", "0 tokens"]),
        (vec!["run", &model, "--prompt", "a", "--color", "sometimes"], vec!["sometimes"]),
        (vec!["run", &model, "--prompt", "a", "--chat", "--chat-template-kwargs", "{"], vec!["--chat-template-kwargs"]),
        (vec!["logits", &model, "--ids", "1,x", "--out", "/dev/null"], vec!["x"]),
        (vec!["perplexity", &model, "--ids-u16", "/dev/null", "--window", "1"], vec!["window", "1"]),
        (vec!["compile", &model], vec!["--out"]),
        (vec!["bench"], vec!["MODEL", "--synthetic"]),
        (vec!["bench", &model, "--synthetic", "qwen3-0.6b"], vec!["--synthetic"]),
        (vec!["bench", &model, "--keep", "down=int8"], vec!["--keep"]),
        (vec!["bench", "--synthetic", "qwen3-0.6b", "--keep", "middle=int8"], vec!["--keep", "middle", "down"]),
        (
            vec!["bench", "--synthetic", "qwen3-0.6b", "--keep", "down=source"],
            vec!["--keep", "source", "random weights"],
        ),
        (vec!["bench", "--synthetic", "qwen3-32b"], vec!["qwen3-32b", "qwen3-0.6b", "qwen3-8b"]),
        (vec!["bench", &model, "--prompt", "0", "--tokens", "0"], vec!["--prompt 0", "--tokens 0"]),
        (vec!["bench", &model, "--repeat", "0"], vec!["--repeat", "0 runs"]),
        (vec!["bench", &model, "--csv", "--json"], vec!["--csv", "--json"]),
        (vec!["bench", &model, "--prompt", "x"], vec!["--prompt", "x"]),
        (vec!["tokenize", &model], vec!["--text"]),
        (vec!["emulate", "x", "--kernel", "k", "--grid", "1,2,3,4", "--block", "1"], vec!["1,2,3,4"]),
        (vec!["emulate", "x", "--kernel", "k", "--grid", "1", "--block", "1", "--arg", "u32:-1"], vec!["-1", "u32"]),
        (
            vec!["emulate", "x", "--kernel", "k", "--grid", "1", "--block", "1", "--check", "race,rase"],
            vec!["\"rase\" is no check", "all", "memory, init, race, wait, barrier, align"],
        ),
        (vec!["emulate", "x", "--kernel", "k", "--grid", "1", "--block", "1", "--limit", "0"], vec!["--limit"]),
    ] {
        let ended = zynfer(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments:?}");
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?}: {part:?} is missing: {}", ended.stderr);
        }
    }
}

#[test]
fn a_number_of_workgroups_in_the_environment_that_is_none_is_wrong_usage() {
    for (value, plan) in [("0", "fused"), ("many", "unfused"), ("1025", "persistent")] {
        let mut run = command(["run", &tiny(), "--prompt", "a", "--backend", "emulator", "-n", "1", "--plan", plan]);
        finish(run.env("ZYNFER_DECODE_WORKGROUPS", value), b"")
            .failed(2, &["ZYNFER_DECODE_WORKGROUPS", value, "1 to 1024"]);
    }
}

#[test]
fn an_unknown_backend_in_the_environment_is_wrong_usage_too() {
    let mut run = command(["run", &tiny(), "--prompt", "a"]);
    let ended = finish(run.env("ZYNFER_BACKEND", "gpu"), b"");
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("gpu") && ended.stderr.contains("emulator"), "{}", ended.stderr);
    let mut run = command(["run", &tiny(), "--prompt", "a", "--backend", "cpu", "-n", "1"]);
    finish(run.env("ZYNFER_BACKEND", "emulator"), b"").ok();
}

#[test]
fn a_prompt_over_the_context_is_refused_with_both_numbers() {
    let folder = folder();
    let long = file(&folder, "long.txt", "the king ".repeat(1500).as_bytes());
    let tokens = zynfer(["tokenize", &tiny(), "--file", &long]).ok().lines().count();
    assert!(tokens > 2048);
    let run = ["run", &tiny(), "--prompt-file", &long, "-n", "1"];
    zynfer(run).failed(1, &["prompt", &tokens.to_string(), "2048"]);
    let small = ["run", &tiny(), "--prompt", "Once upon a time there was", "-c", "7", "-n", "1"];
    zynfer(small).failed(1, &["prompt", "7 tokens", "context of 7"]);
    zynfer(["run", &tiny(), "--prompt", "Once upon a time there was", "-c", "8", "-n", "5", "-q"]).ok();
    zynfer(["run", &tiny(), "--prompt", "a", "-c", "2049"]).failed(1, &["--ctx-size", "2049", "2048"]);
    let ids = file(&folder, "ids.u16", &[0; 2 * 2050]);
    zynfer(["perplexity", &tiny(), "--ids-u16", &ids, "--window", "2050"]).failed(1, &["window: 2050", "2048", "2049"]);
    zynfer(["logits", &tiny(), "--ids", "1,4096", "--out", "/dev/null"]).failed(1, &["4096", "index 1"]);
}

#[test]
fn missing_and_wrong_files_are_named() {
    let folder = folder();
    let missing = folder.path().join("missing").to_str().expect("UTF-8").to_string();
    for arguments in [
        vec!["run", &missing, "--prompt", "a"],
        vec!["chat", &missing],
        vec!["inspect", &missing],
        vec!["compile", &missing, "-o", "x.zynfer"],
        vec!["tokenize", &missing, "--text", "a"],
        vec!["template", &missing, "--messages", "-"],
        vec!["logits", &missing, "--ids", "1", "--out", "x"],
        vec!["perplexity", &missing, "--text", "-"],
        vec!["emulate", &missing, "--kernel", "k", "--grid", "1", "--block", "1"],
    ] {
        zynfer(&arguments).failed(1, &[&missing]);
    }
    let text = file(&folder, "text.zynfer", b"this is no model");
    zynfer(["run", &text, "--prompt", "a"]).failed(1, &["text.zynfer"]);
    zynfer(["emulate", &text, "--kernel", "k", "--grid", "1", "--block", "1"]).failed(1, &["text.zynfer", "ELF"]);
    let invalid = file(&folder, "latin1.txt", b"caf\xe9");
    zynfer(["run", &tiny(), "--prompt-file", &invalid]).failed(1, &["latin1.txt", "not UTF-8", "byte 3"]);
    zynfer_with(["tokenize", &tiny(), "--file", "-"], b"\xff").failed(1, &["stdin", "byte 0"]);
    let odd = file(&folder, "odd.u16", &[0; 1025]);
    zynfer(["perplexity", &tiny(), "--ids-u16", &odd]).failed(1, &["odd.u16", "1025"]);
    let empty = folder.path().to_str().expect("UTF-8");
    zynfer(["tokenize", empty, "--text", "a"]).failed(1, &["tokenizer.json"]);
    zynfer(["run", empty, "--prompt", "a"]).failed(1, &["config.json"]);
}

#[test]
fn wrong_messages_are_refused_with_their_place() {
    for (messages, parts) in [
        ("{", vec!["not JSON"]),
        ("{\"messages\": []}", vec!["at least one message"]),
        ("[{\"role\": \"critic\", \"content\": \"a\"}]", vec!["messages[0].role", "critic"]),
        (
            "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
            vec!["messages[0].content[0]", "image_url"],
        ),
        (
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"enable_thinking\": \"no\"}",
            vec!["enable_thinking", "no"],
        ),
    ] {
        let mut parts = parts;
        parts.push("-: ");
        zynfer_with(["template", &tiny(), "--messages", "-"], messages.as_bytes()).failed(1, &parts);
    }
    let folder = folder();
    let raising = file(&folder, "raising.jinja", b"\n{{ raise_exception('roles\nmust alternate') }}");
    zynfer(["run", &tiny(), "--chat", "--prompt", "a", "--chat-template-file", &raising])
        .failed(1, &["chat template", "line 2", "roles must alternate"]);
    let broken = file(&folder, "broken.jinja", b"{% if %}");
    zynfer(["chat", &tiny(), "--chat-template-file", &broken]).failed(1, &["chat template", "line 1"]);
    let unsaid = file(&folder, "unsaid.jinja", b"{{ messages[0].content }}{{ sep_token }}");
    zynfer(["run", &tiny(), "--chat", "--prompt", "a", "--chat-template-file", &unsaid]).failed(1, &["sep_token"]);
}

#[test]
fn a_failed_command_leaves_nothing_behind() {
    let folder = folder();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("creates");
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(fixtures::fixture("tiny-qwen3").join(name), model.join(name)).expect("copies");
    }
    let weights = fixtures::read("tiny-qwen3/model.safetensors");
    std::fs::write(model.join("model.safetensors"), &weights[..weights.len() - 1]).expect("writes");
    let out = folder.path().join("out.zynfer");
    let ended = zynfer(["compile".as_ref(), model.as_os_str(), "-o".as_ref(), out.as_os_str()]);
    ended.failed(1, &["model.safetensors"]);
    assert!(!out.exists());
    let nowhere = folder.path().join("no/such/logits.f32");
    let ended = zynfer(["logits", &tiny(), "--ids", "1", "--out", nowhere.to_str().expect("UTF-8")]);
    ended.failed(1, &["logits.f32"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1);
}

#[test]
fn names_with_control_characters_do_not_reach_the_terminal() {
    let ended = zynfer(["inspect", "no\u{1b}[31m\nsuch"]);
    let message = ended.failed(1, &["such"]);
    assert!(!message.contains('\u{1b}'), "{message:?}");
    let request = json!([{"role": "\u{1b}[2J", "content": "a"}]).to_string();
    let message = zynfer_with(["template", &tiny(), "--messages", "-"], request.as_bytes()).failed(1, &["role"]);
    assert!(!message.contains('\u{1b}'), "{message:?}");
}
