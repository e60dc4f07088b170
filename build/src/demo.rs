//! The demo: the trained tiny checkpoint becomes a `.zynfer`, then writes the same text on the CPU and through gfx1201 machine code
//! in the emulator.

use crate::{Outcome, process, root, say};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const PROMPT: &str = "Once upon a time there was";
const TOKENS: &str = "48";

/// Builds the release binary and runs both backends.
pub fn run() -> Outcome {
    say("building the release binary (minutes the first time)");
    process::run(process::cargo().args(["build", "--quiet", "--release", "-p", "zynfer", "-p", "emulator-hip"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let zynfer = target.join("release/zynfer");
    let artifact = root().join("target/tiny-qwen3.zynfer");
    say("compiling tests/fixtures/tiny-qwen3 to target/tiny-qwen3.zynfer");
    let source = root().join("tests/fixtures/tiny-qwen3");
    process::run(Command::new(&zynfer).arg("compile").arg(&source).arg("-o").arg(&artifact))?;

    println!("\nprompt    {PROMPT}");
    let cpu = generate(&zynfer, &artifact, "cpu")?;
    let emulator = generate(&zynfer, &artifact, "emulator")?;
    let (a, b) = (ids(&cpu)?, ids(&emulator)?);
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    if a == b {
        println!("\ntokens    equal, all {same}: the CPU's arithmetic and the GPU's machine code wrote the same text");
        return Ok(());
    }
    println!("\ntokens    equal up to {same} of {}", a.len());
    Err(format!("cpu and emulator differ from token {same} on"))
}

fn generate(zynfer: &Path, artifact: &Path, backend: &str) -> Outcome<Value> {
    say(&format!("generating {TOKENS} tokens on {backend}"));
    let mut command = Command::new(zynfer);
    command.arg("run").arg(artifact).args(["--prompt", PROMPT, "--raw", "--greedy", "--max-new", TOKENS]);
    command.args(["--backend", backend, "--json"]).stdin(Stdio::null());
    let done = command.output().map_err(|err| format!("cannot run `{}`: {err}", process::line(&command)))?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(format!("`{}` ended with {}\n{}", process::line(&command), done.status, stderr.trim_end()));
    }
    let value: Value = serde_json::from_slice(&done.stdout).map_err(|err| format!("{backend}: not JSON: {err}"))?;
    println!("\n{backend}");
    println!("text     {}", value["text"].as_str().unwrap_or_default());
    let timing = |name: &str| value["timings"][name].as_f64().map_or("-".into(), |v| format!("{v:.1}"));
    print!("load {} ms, first token {} ms", timing("load_ms"), timing("ttft_ms"));
    println!(
        ", prefill {} tokens/s, decode {} tokens/s (wall clock of this CPU)",
        timing("prefill_tok_s"),
        timing("decode_tok_s")
    );
    Ok(value)
}

fn ids(value: &Value) -> Outcome<Vec<u64>> {
    let list = value["tokens"].as_array().ok_or("the JSON has no tokens")?;
    list.iter().map(|id| id.as_u64().ok_or_else(|| "a token is not a number".to_owned())).collect()
}
