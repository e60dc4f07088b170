//! `zynfer quant-report`: every figure is what the command it comes from prints for an artifact made apart; the shape of its answers, what it
//! refuses, and that nothing of it is left. Whether a figure is good is not for a test to say, nor how fast anything is.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use half::f16;
use serde_json::{Value, json};
use zynfer_tests::fixtures::{fixture, read, read_json};

use crate::support::{Ended, command, fields, file, folder, tiny, wait, zynfer};
use zynfer_tests::gguf_writer::GgufFile;

const WINDOWS: [&str; 4] = ["--window", "48", "--windows", "2"];
const NO_SPEED: [&str; 4] = ["-p", "0", "-n", "0"];

fn validation() -> String {
    fixture("tiny-qwen3/validation.u16").to_str().expect("UTF-8").to_string()
}

/// Ids of a small checkpoint of 1000 tokens, and its folder.
fn small(folder: &tempfile::TempDir) -> (String, String) {
    let ids: Vec<u8> = (0..96u32).flat_map(|i| ((i * i * 31 % 1000) as u16).to_le_bytes()).collect();
    (fixture("qwen3-d64-untied").to_str().expect("UTF-8").to_string(), file(folder, "small.u16", &ids))
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_string()
}

fn report(model: &str, ids: &str, more: &[&str]) -> Ended {
    zynfer([&["quant-report", model, "--ids-u16", ids, "--backend", "cpu"], &WINDOWS[..], more].concat())
}

fn left(folder: &tempfile::TempDir) -> usize {
    std::fs::read_dir(folder.path()).expect("a folder").count()
}

/// Every figure of `row` that does not hang on the clock, against the commands for `artifact`, which is compiled anew as `how` says from
/// `model`; what it is compared with is `source`.
fn assert_as_the_commands(row: &Value, (model, how): (&str, &[&str]), source: &str, artifact: &str, ids: &str) {
    let compiled = zynfer([&["compile", model, "-o", artifact, "--json"], how].concat()).json();
    assert_eq!(row["weight_bytes"], compiled["weight_bytes"], "{row}");
    let bytes = std::fs::metadata(artifact).expect("an artifact").len();
    assert_eq!(row["file_bytes"], json!(bytes), "{row}");
    let plan = ["inspect", artifact, "--plan", "--backend", "amd-hip", "--memory", "32GiB", "-c", "100", "--json"];
    assert_eq!(row["card_bytes"], zynfer(plan).json()["needed_bytes"], "{row}");
    let judged = |command: &[&str]| {
        zynfer([command, &["--ids-u16", ids, "--backend", "cpu", "--json"], &WINDOWS[..]].concat()).json()
    };
    assert_eq!(row["perplexity"], judged(&["perplexity", artifact])["perplexity"], "{row}");
    if row["baseline"] == json!(true) {
        assert_eq!((&row["mean_kld"], &row["perplexity_delta_percent"]), (&Value::Null, &Value::Null));
        return;
    }
    let compared = judged(&["compare", source, artifact]);
    for field in ["mean_kld", "kld_p99", "max_kld", "top1_agreement", "perplexity_delta_percent"] {
        assert!(row[field].is_f64() && row[field] == compared[field], "{field}: {row}\n{compared}");
    }
}

#[test]
fn every_figure_is_the_one_that_its_command_prints() {
    let (made, work) = (folder(), folder());
    let text = file(&made, "text.u16", &std::fs::read(validation()).expect("ids")[20 * 1024..22 * 1024]);
    let more = ["--schemes", "int8,int4:64", "--calibrate-ids-u16", &text, "--work", &path(&work, ""), "-c", "100"];
    let speed = ["-p", "5", "-n", "3", "-r", "2", "--json"];
    let report = report(&tiny(), &validation(), &[&more[..], &speed].concat()).json();
    let top = [
        "activations",
        "backend",
        "calibration_tokens",
        "card_context",
        "ids_unused",
        "interrupted",
        "kv",
        "model",
        "rows",
        "source",
        "tokens_scored",
        "window",
        "windows",
    ];
    assert_eq!(fields(&report), top);
    assert_eq!(
        (&report["model"], &report["backend"], &report["kv"]),
        (&json!("tiny-qwen3"), &json!("cpu"), &json!("f32"))
    );
    assert_eq!(
        (&report["tokens_scored"], &report["windows"], &report["card_context"]),
        (&json!(94), &json!(2), &json!(100))
    );
    assert_eq!((&report["calibration_tokens"], &report["interrupted"]), (&json!(1024), &json!(false)));

    let (out, source) = (path(&made, "out.zynfer"), tiny());
    let rows = report["rows"].as_array().expect("rows");
    let wanted = [("bf16", false), ("int8", false), ("int4:64", false), ("int4:64", true)];
    assert_eq!(rows.len(), wanted.len());
    for (at, (row, (scheme, by_a_text))) in rows.iter().zip(wanted).enumerate() {
        assert_eq!(
            (&row["scheme"], &row["by_a_text"], &row["baseline"]),
            (&json!(scheme), &json!(by_a_text), &json!(at == 0))
        );
        assert_eq!((&row["problem"], &row["card_problem"]), (&Value::Null, &Value::Null));
        let calibrated = if by_a_text { vec!["--calibrate-ids-u16", &text] } else { vec![] };
        let how = [&["--quant", scheme], &calibrated[..]].concat();
        assert_as_the_commands(row, (&source, &how), &source, &out, &validation());
        let speeds: Vec<&Value> = row["speeds"].as_array().expect("speeds").iter().collect();
        assert_eq!(speeds.iter().map(|speed| &speed["test"]).collect::<Vec<_>>(), ["pp5", "tg3"]);
        for speed in speeds {
            let rates: Vec<f64> =
                speed["runs_tok_s"].as_array().expect("runs").iter().filter_map(Value::as_f64).collect();
            assert!(rates.len() == 2 && rates.is_sorted() && rates[0] > 0.0, "{speed}");
            assert_eq!(
                speed["tok_s"],
                json!({"median": (rates[0] + rates[1]) / 2.0, "min": rates[0], "max": rates[1]})
            );
        }
        assert_eq!(fields(&row["conversion"]), ["processor_s", "wall_s"]);
        assert!(row["conversion"]["wall_s"].as_f64() > Some(0.0));
    }
    // A text that codes are chosen by moves them.
    assert!(rows[2]["mean_kld"] != rows[3]["mean_kld"] && rows[2]["file_bytes"] == rows[3]["file_bytes"]);
    let bits = 8.0 * rows[1]["weight_bytes"].as_f64().expect("bytes")
        / (rows[0]["weight_bytes"].as_f64().expect("bytes") / 2.0);
    assert_eq!((&rows[0]["bits_per_weight"], &rows[1]["bits_per_weight"]), (&json!(16.0), &json!(bits)));
    assert_eq!(left(&work), 0);
}

#[test]
fn a_row_that_cannot_be_made_says_why_and_the_others_stand() {
    let folder = folder();
    let (model, ids) = small(&folder);
    let out = path(&folder, "out/of/it");
    let more = ["--schemes", "int4:128,int4:64", "--out", &out];
    let ended = report(&model, &ids, &[&more[..], &NO_SPEED].concat());
    assert_eq!((ended.code, ended.stdout.as_slice()), (Some(0), b"".as_slice()), "{}", ended.stderr);
    let read = |name: &str| std::fs::read_to_string(format!("{out}/{name}")).expect("a file");
    let report: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    let (refused, made) = (&report["rows"][1], &report["rows"][2]);
    let problem = refused["problem"].as_str().expect("a problem");
    assert!(problem.contains("int4:128: 320 elements in a row, a multiple of 128 expected"), "{problem}");
    for field in ["file_bytes", "card_bytes", "perplexity", "mean_kld", "conversion", "bits_per_weight"] {
        assert_eq!(refused[field], Value::Null, "{field}");
        assert!(!made[field].is_null(), "{field}");
    }
    let table = read("report.md");
    let cells = |line: &str| line.split('|').count();
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert!(lines.len() == 5 && lines.iter().all(|line| cells(line) == cells(lines[0])), "{table}");
    assert!(
        lines[3].starts_with("| int4:128 | – |") && table.contains(&format!("\n- int4:128: {problem}\n")),
        "{table}"
    );
    assert!(!table.contains("tok/s"), "{table}");
    // The files, and nothing that was measured.
    let mut names: Vec<_> =
        std::fs::read_dir(&out).expect("a folder").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["plot.svg", "report.json", "report.md"]);
}

#[test]
fn the_plot_is_xml_with_a_label_for_every_scheme() {
    let folder = folder();
    let (model, ids) = small(&folder);
    let out = path(&folder, "out");
    let schemes = "int8,fp8-e4m3,int4:32,int4m:32,bf16";
    report(&model, &ids, &[&["--schemes", schemes, "--out", &out], &NO_SPEED[..]].concat()).ok();
    let script = "import sys, xml.dom.minidom as dom\n\
        picture = dom.parse(sys.argv[1])\n\
        assert picture.documentElement.tagName == 'svg'\n\
        print(len(picture.getElementsByTagName('circle')))\n\
        for text in picture.getElementsByTagName('text'): print(''.join(node.data for node in text.childNodes).strip())";
    let python =
        Command::new("python3").args(["-c", script, &format!("{out}/plot.svg")]).output().expect("python3 runs");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let text = String::from_utf8(python.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    // Each mark has a white ground.
    assert_eq!(lines[0], "8", "{text}");
    for scheme in ["int8", "fp8-e4m3", "int4:32", "int4m:32"] {
        assert_eq!(lines.iter().filter(|line| **line == scheme).count(), 1, "{scheme}: {text}");
    }
    // The same weights again: no divergence, which a logarithm does not have.
    assert!(lines.contains(&"not on a logarithmic scale: bf16 (KLD 0)"), "{text}");
}

/// A GGUF file of the small checkpoint, its gate_proj as Q8_0: blocks of an f16 scale and 32 codes.
fn small_gguf(folder: &tempfile::TempDir) -> String {
    let config = read_json("qwen3-d64-untied/config.json");
    let number = |key: &str| u32::try_from(config[key].as_u64().expect(key)).expect("small");
    let mut gguf = GgufFile::default().text("general.architecture", "qwen3").text("general.name", "small");
    for (key, field) in [
        ("block_count", "num_hidden_layers"),
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("attention.value_length", "head_dim"),
    ] {
        gguf = gguf.u32(&format!("qwen3.{key}"), number(field));
    }
    let theta = config["rope_parameters"]["rope_theta"].as_f64().or(config["rope_theta"].as_f64()).expect("theta");
    gguf = gguf.f32("qwen3.rope.freq_base", theta as f32);
    gguf = gguf.f32("qwen3.attention.layer_norm_rms_epsilon", config["rms_norm_eps"].as_f64().expect("eps") as f32);
    let weights = read("qwen3-d64-untied/model.safetensors");
    for (name, tensor) in safetensors::SafeTensors::deserialize(&weights).expect("weights").tensors() {
        let renamed = [
            ("model.layers.", "blk."),
            ("model.embed_tokens.", "token_embd."),
            ("model.norm.", "output_norm."),
            ("lm_head.", "output."),
            ("self_attn.o_proj.", "attn_output."),
            ("self_attn.", "attn_"),
            ("input_layernorm.", "attn_norm."),
            ("post_attention_layernorm.", "ffn_norm."),
            ("mlp.", "ffn_"),
            ("_proj.", "."),
        ];
        let renamed = renamed.iter().fold(name.clone(), |name, (from, to)| name.replace(from, to));
        let dims: Vec<u64> = tensor.shape().iter().rev().map(|&extent| extent as u64).collect();
        gguf = match name.contains("gate_proj") {
            true => gguf.tensor(&renamed, &dims, 8, q8_0(tensor.data())),
            false => gguf.tensor(&renamed, &dims, 30, tensor.data()),
        };
    }
    file(folder, "small.gguf", &gguf.bytes())
}

fn q8_0(words: &[u8]) -> Vec<u8> {
    let values: Vec<f32> = words.as_chunks().0.iter().map(|word| half::bf16::from_le_bytes(*word).to_f32()).collect();
    let block = |block: &[f32]| {
        let scale = f16::from_f32(block.iter().fold(0.0f32, |most, value| most.max(value.abs())) / 127.0);
        let codes = block.iter().map(|value| (value / scale.to_f32()).round().clamp(-127.0, 127.0) as i8 as u8);
        scale.to_le_bytes().into_iter().chain(codes).collect::<Vec<u8>>()
    };
    values.chunks_exact(32).flat_map(block).collect()
}

#[test]
fn a_gguf_file_is_measured_by_its_own_blocks() {
    let folder = folder();
    let (_, ids) = small(&folder);
    let model = small_gguf(&folder);
    let report =
        report(&model, &ids, &[&["--schemes", "bf16,int8:32", "-c", "100", "--json"], &NO_SPEED[..]].concat()).json();
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["scheme"]).collect::<Vec<_>>(), ["source", "bf16", "int8:32"]);
    let (source, out) = (path(&folder, "source.zynfer"), path(&folder, "out.zynfer"));
    assert_as_the_commands(&rows[0], (&model, &["--quant", "source"]), &source, &source, &ids);
    for (row, scheme) in rows[1..].iter().zip(["bf16", "int8:32"]) {
        assert_as_the_commands(row, (&model, &["--quant", scheme]), &source, &out, &ids);
    }
    // Products of two roundings are not what bf16 holds.
    assert!(rows[1]["mean_kld"].as_f64() > Some(0.0), "{}", rows[1]);
}

#[test]
fn the_emulator_has_no_speeds() {
    let folder = folder();
    let (model, ids) = small(&folder);
    let arguments = ["quant-report", &model, "--ids-u16", &ids, "--window", "8", "--windows", "1", "--schemes", "int8"];
    let ended = zynfer(arguments.iter().chain(&["--backend", "emulator"]));
    assert!(ended.stderr.contains("no speeds: what the emulator needs says nothing about a card"), "{}", ended.stderr);
    let table = ended.ok();
    assert!(table.contains(", emulator, KV cache bf16: 7 tokens in 1 windows of 8\n"), "{table}");
    assert!(table.contains("\n| int8 | ") && !table.contains("tok/s"), "{table}");
}

#[test]
fn ctrl_c_tells_the_rows_that_are_done() {
    let (text, work) = (folder(), folder());
    // Some seconds a scheme, so that the second is not over before the signal.
    let ids = file(&text, "ids.u16", &std::fs::read(validation()).expect("ids"));
    let arguments = ["quant-report", &tiny(), "--ids-u16", &ids, "--window", "256", "--windows", "12"];
    let more = ["--backend", "cpu", "--schemes", "bf16,int8,int4:32", "--work", &path(&work, "")];
    let mut child = command(arguments.iter().chain(&more)).stdout(Stdio::piped()).spawn().expect("starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("int8: 2 of 3") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("UTF-8") > 0, "the second scheme is begun");
    }
    assert_eq!(left(&work), 0, "artifacts bear no name");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs").success());
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).expect("UTF-8");
        rest
    });
    assert_eq!(wait(&mut child), Some(130));
    let mut table = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut table).expect("UTF-8");
    assert_eq!(table.lines().filter(|line| line.starts_with("| bf16 | ")).count(), 2, "{table}");
    assert!(
        !table.contains("int8") && table.ends_with("\n- interrupted: what is missing was not reached\n"),
        "{table}"
    );
    assert!(!rest.join().expect("reader").contains("error"));
    assert_eq!(left(&work), 0);
}

#[test]
fn bad_input_is_one_line() {
    let folder = folder();
    let (model, ids) = small(&folder);
    let quick = ["--schemes", "int4:32", "-p", "0", "-n", "0"];
    let with = |more: &[&str]| report(&model, &ids, &[&quick, more].concat());
    let artifact = path(&folder, "model.zynfer");
    zynfer(["compile", &model, "-o", &artifact]).ok();
    report(&artifact, &ids, &quick).failed(1, &["model.zynfer: neither a Hugging Face folder nor a GGUF file"]);
    report("no/such", &ids, &quick).failed(1, &["no/such: "]);
    report(&model, &ids, &["--schemes", "int5"]).failed(2, &["\"int5\" is no scheme", "int8:G"]);
    report(&model, &ids, &["--schemes", "int4,int8,int4:32"]).failed(2, &["--schemes: int4:32: named twice"]);
    report(&model, &ids, &["--schemes", "int8", "--calibrate-ids-u16", &ids])
        .failed(2, &["--calibrate chooses codes of int4 and int4m, --schemes has none"]);
    with(&["--calibrate-ids-u16", &ids]).failed(1, &["calibration: 0 tokens in windows of 512, at least 832 expected"]);
    let gguf = small_gguf(&folder);
    report(&gguf, &ids, &[&quick[..], &["--calibrate-ids-u16", &ids]].concat())
        .failed(1, &["small.gguf: only a Hugging Face folder can be calibrated"]);
    with(&["--out", &ids]).failed(1, &["--out ", "small.u16: "]);
    with(&["--out", "/proc/no/such"]).failed(1, &["--out /proc/no/such: "]);
    with(&["--work", &path(&folder, "none")]).failed(1, &["none: ", "folder cannot be opened"]);
    with(&["--work", "/proc"]).failed(1, &["not enough free space: expected ", " bytes, found 0 bytes free"]);
    with(&["-c", "50000"]).failed(1, &["--ctx-size: 50000", "40960"]);
    report(&model, &ids, &["--schemes", "int8", "-n", "0", "-p", "50000"]).failed(1, &["50000", "40960 positions"]);
    report(&model, &ids, &["--schemes", "int8", "-r", "0"]).failed(2, &["--repeat: 0 runs given"]);
    report(&model, &file(&folder, "odd.u16", &[1]), &quick).failed(1, &["odd.u16: 1 bytes"]);
    // A text for a model without a tokenizer, by the name that the user knows.
    let text = file(&folder, "text.txt", b"Hi");
    zynfer(["quant-report", &model, "--file", &text, "--backend", "cpu"])
        .failed(1, &["qwen3-d64-untied: has no tokenizer"]);
    assert_eq!(zynfer(["quant-report", &model, "--backend", "cpu"]).code, Some(2));
}
