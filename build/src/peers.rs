//! Another implementation on the same file: llama.cpp, built from PyPI's source package, and `zynfer logits`, position by position
//! (`benches/peers/llama_cpp_logits.py`). It takes minutes to build, so it is no part of `./x test`.

use crate::{Outcome, demo, fixtures, packages, process, root, say};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version whose tokens are recorded in tests/fixtures/smollm2.
const LLAMA_CPP: &str = "llama-cpp-python==0.3.36";
/// The package that decodes the file for llama.cpp's exact run.
const GGUF: &str = "gguf==0.19.0";
/// How `zynfer` has the weights.
const SCHEMES: &str = "the file's own blocks (--quant source)";
/// Without the multimodal parts, which take as long as the rest.
const CMAKE_ARGS: &str = "-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF";

/// Builds llama.cpp unless it is there, runs both and writes benches/records/<date>-llama-cpp.{json,md}.
pub fn run() -> Outcome {
    let python = environment()?;
    let zynfer = demo::build()?;
    fixtures::pull_smollm2(Command::new(&zynfer))?;
    let model = compile(&zynfer)?;
    let date = process::output(Command::new("date").arg("+%Y-%m-%d"))?;
    let commit = process::output(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root()))?;
    let out = root().join(format!("benches/records/{}-llama-cpp", date.trim()));
    say("the logits of both");
    let mut compare = Command::new(python);
    compare.arg(root().join("benches/peers/llama_cpp_logits.py"));
    compare.arg("--gguf").arg(fixtures::smollm2()).arg("--model").arg(model).args(["--weights", SCHEMES]);
    compare.arg("--decoded").arg(root().join("target/peers/smollm2-f32.gguf"));
    compare.arg("--zynfer").arg(zynfer).arg("--prompts").arg(root().join("tests/fixtures/smollm2/golden.json"));
    process::run(compare.args(["--commit", commit.trim()]).arg(&out))?;
    say(&format!("{}.md", out.display()));
    Ok(())
}

/// The fetched file with no value changed.
fn compile(zynfer: &Path) -> Outcome<PathBuf> {
    let out = root().join("target/peers/smollm2.zynfer");
    let mut compile = Command::new(zynfer);
    compile.arg("compile").arg(fixtures::smollm2()).args(["--quant", "source", "-o"]).arg(&out);
    process::run(&mut compile)?;
    Ok(out)
}

/// The virtual environment's python.
fn environment() -> Outcome<PathBuf> {
    let folder = root().join("target/peers/venv");
    let (python, pip) = (folder.join("bin/python"), folder.join("bin/pip"));
    let freeze = || process::output(Command::new(&pip).args(["freeze", "--disable-pip-version-check"]));
    let has = |list: String| {
        let names: Vec<String> = list.lines().map(|line| line.trim().replace('_', "-")).collect();
        [LLAMA_CPP, GGUF].iter().all(|wanted| names.iter().any(|name| name == wanted))
    };
    if pip.exists() && freeze().is_ok_and(has) {
        return Ok(python);
    }
    packages::ensure_peers()?;
    say(&format!("building {LLAMA_CPP} in target/peers (some 10 minutes, at the lowest priority)"));
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut install = Command::new("nice");
    install.args(["-n", "19"]).arg(&pip).args(["install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-binary", "llama-cpp-python", LLAMA_CPP, GGUF, "numpy"]).env("CMAKE_ARGS", CMAKE_ARGS);
    process::run(&mut install)?;
    Ok(python)
}
