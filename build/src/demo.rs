//! The demo: the trained tiny checkpoint becomes a `.zynfer`, then writes the same text on the CPU and through gfx1201 machine code
//! in the emulator.

use crate::{Outcome, process, root, say};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROMPT: &str = "The old woman took the golden ring and";
const TOKENS: &str = "48";
/// Where the reference's two best logits are closer than this, bf16 activations may pick the other one (docs/NUMERICS.md).
const GAP: f32 = 0.05;

/// Builds the release binary and runs both backends.
pub fn run() -> Outcome {
    let zynfer = build()?;
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
    let (Some(&mine), Some(&other)) = (a.get(same), b.get(same)) else {
        return Err("one backend stopped earlier than the other".into());
    };
    let context: Vec<u64> = prompt(&cpu)?.into_iter().chain(a[..same].iter().copied()).collect();
    let logits = logits(&zynfer, &artifact, &context)?;
    let at = |id: u64| usize::try_from(id).ok().and_then(|id| logits.get(id).copied()).ok_or("an id past the logits");
    let gap = at(mine)? - at(other)?;
    println!(
        "          there the CPU's logits of the two choices differ by {gap:.4}; bf16 activations may decide below {GAP}"
    );
    if gap < GAP { Ok(()) } else { Err(format!("cpu and emulator differ from token {same} on, by {gap:.4} in logits")) }
}

/// Builds the release binary and the emulator beside it: the binary's path.
pub(crate) fn build() -> Outcome<PathBuf> {
    say("building the release binary (minutes the first time)");
    process::run(process::cargo().args(["build", "--quiet", "--release", "-p", "zynfer", "-p", "emulator-hip"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/zynfer"))
}

/// The CPU's logits after `context`.
fn logits(zynfer: &Path, artifact: &Path, context: &[u64]) -> Outcome<Vec<f32>> {
    let out = root().join("target/demo-logits.f32");
    let ids = context.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(zynfer);
    command.arg("logits").arg(artifact).args(["--backend", "cpu", "--ids", &ids, "--out"]).arg(&out);
    process::output(&mut command)?;
    let bytes = std::fs::read(&out).map_err(|err| format!("{}: {err}", out.display()))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
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
    list(value, "tokens")
}

fn prompt(value: &Value) -> Outcome<Vec<u64>> {
    list(value, "prompt_tokens")
}

fn list(value: &Value, name: &str) -> Outcome<Vec<u64>> {
    let list = value[name].as_array().ok_or_else(|| format!("the JSON has no {name}"))?;
    list.iter().map(|id| id.as_u64().ok_or_else(|| "a token is not a number".to_owned())).collect()
}
