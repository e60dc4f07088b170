//! Debian packages that tests use as judges, that build one, or that fetch a model from PyPI. The product needs none but pip, in `pull`.

use crate::{Outcome, process, say};
use std::path::Path;
use std::process::Command;

/// Whether a package is there already.
type There = fn() -> bool;

/// Package, and how to see that it is there.
const PACKAGES: &[(&str, There)] = &[
    ("llvm-22", || process::found("llvm-mc-22") && process::found("llvm-objdump-22")),
    ("libamdhip64-5", || Path::new("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5").exists()),
    ("libamdhip64-dev", || Path::new("/usr/include/hip/hip_runtime_api.h").exists()),
    ("gcc", || process::found("cc")),
    ("npm", || process::found("npm")),
];

/// What `zynfer pull` runs to fetch a wheel.
const PYPI: &[(&str, There)] = &[
    ("python3", || process::found("python3")),
    ("python3-pip", || process::output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok()),
];

/// What llama.cpp is built with, beside what pip brings.
const PEERS: &[(&str, There)] = &[
    ("g++", || process::found("g++")),
    ("python3-venv", || process::output(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_ok()),
];

/// Installs what tests judge by and is missing, as root or through sudo; else says which command to run.
pub fn ensure() -> Outcome {
    install("the tests judge by", PACKAGES)?;
    ensure_pypi()
}

/// The same for what fetches from PyPI.
pub fn ensure_pypi() -> Outcome {
    install("fetches from PyPI", PYPI)
}

/// The same for what builds llama.cpp.
pub fn ensure_peers() -> Outcome {
    install("llama.cpp is built with", PEERS)
}

fn install(what: &str, packages: &[(&str, There)]) -> Outcome {
    let missing: Vec<&str> = packages.iter().filter(|(_, there)| !there()).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("installing what {what}: {}", missing.join(" ")));
    let by_hand = format!("install it by hand: apt-get install --no-install-recommends {}", missing.join(" "));
    if !process::found("apt-get") {
        return Err(format!("no apt-get on this machine; {by_hand}"));
    }
    let apt = |words: &[&str]| {
        let mut command = if is_root() { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root() {
            command.args(["-n", "apt-get"]);
        }
        command.env("DEBIAN_FRONTEND", "noninteractive");
        process::output(command.args(words)).map(drop)
    };
    let install = || {
        let mut words = vec!["install", "-y", "--no-install-recommends"];
        words.extend(&missing);
        apt(&words)
    };
    apt(&["update"]).and_then(|()| install()).map_err(|err| format!("{err}\n{by_hand}"))
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
