//! The source of `core`, which the kernels' target has no prebuilt form of: from rustup, else from Debian's package, else an error
//! that says what to do. Writes only into the toolchain's own `lib/rustlib/src/rust` and the workspace's `target`.

use crate::{Outcome, process, root, say};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's suite, package and version that were tried with the known-good nightly.
const SUITE: &str = "trixie-backports";
const VERSION: &str = "1.97.1";

/// Folder where cargo looks for the library source.
pub fn folder() -> Outcome<PathBuf> {
    let sysroot = process::output(process::rustc().args(["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library"))
}

/// Makes sure the source is there.
pub fn ensure() -> Outcome {
    let folder = folder()?;
    if folder.join("core/src/lib.rs").is_file() {
        return Ok(());
    }
    say("the toolchain has no rust-src; trying rustup");
    let rustup = from_rustup();
    if rustup.is_ok() && folder.join("core/src/lib.rs").is_file() {
        return Ok(());
    }
    say(&format!("rustup could not bring it; trying Debian's package rust-src {VERSION} of {SUITE}"));
    let debian = from_debian(&folder);
    if debian.is_ok() && folder.join("core/src/lib.rs").is_file() {
        return Ok(());
    }
    let why = |outcome: Outcome| outcome.err().unwrap_or_else(|| "nothing arrived".into());
    Err(format!(
        "no source of `core` for the kernels' target in {}\n  rustup: {}\n  Debian: {}\nWith network access run `rustup component add \
         rust-src`, or unpack the `library` folder of Rust {VERSION}'s source there.",
        folder.display(),
        why(rustup),
        why(debian)
    ))
}

fn from_rustup() -> Outcome {
    let mut command = Command::new("rustup");
    command.args(["component", "add", "rust-src"]).current_dir(root());
    process::output(&mut command).map(drop)
}

/// Downloads the package with lists and caches of our own under `target`, so that the system's package sources stay as they are.
fn from_debian(folder: &Path) -> Outcome {
    for program in ["apt-get", "dpkg-deb"] {
        if !process::found(program) {
            return Err(format!("no {program} on this machine"));
        }
    }
    let work = root().join("target/rust-src-debian");
    let _ = fs::remove_dir_all(&work);
    let make = |path: &Path| fs::create_dir_all(path).map_err(|err| format!("{}: {err}", path.display()));
    make(&work.join("lists/partial"))?;
    make(&work.join("cache/archives/partial"))?;
    let list = work.join("sources.list");
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let text = format!("deb [signed-by={keyring}] {} {SUITE} main\n", mirror()?);
    fs::write(&list, text).map_err(|err| format!("{}: {err}", list.display()))?;
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(&work).env("LC_ALL", "C");
        for option in [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=/dev/null".into(),
            format!("Dir::State::lists={}", work.join("lists").display()),
            format!("Dir::Cache={}", work.join("cache").display()),
            "Debug::NoLocking=1".into(),
            "APT::Sandbox::User=".into(),
        ] {
            command.args(["-o", &option]);
        }
        process::output(command.args(words)).map(drop)
    };
    apt(&["update"])?;
    apt(&["download", "rust-src"])?;
    let entries = fs::read_dir(&work).map_err(|err| format!("{}: {err}", work.display()))?;
    let package = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "deb"));
    let package = package.ok_or("apt-get downloaded no package")?;
    let unpacked = work.join("unpacked");
    process::output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked))?;
    let source = unpacked.join(format!("usr/src/rustc-{VERSION}/library"));
    let source = if source.is_dir() { source } else { any_library(&unpacked)? };
    let parent = folder.parent().ok_or("the toolchain has no source folder")?;
    make(parent)?;
    say(&format!("copying it to {}", folder.display()));
    let temporary = parent.join("library.partial");
    let _ = fs::remove_dir_all(&temporary);
    process::output(Command::new("cp").arg("-r").arg(&source).arg(&temporary))?;
    let _ = fs::remove_dir_all(folder);
    fs::rename(&temporary, folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

/// The Debian mirror that this machine's own sources name.
fn mirror() -> Outcome<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let words = texts.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let mut mirrors = words.filter(|word| word.starts_with("http") && word.trim_end_matches('/').ends_with("/debian"));
    let none = || "no source under /etc/apt names a Debian mirror".to_owned();
    mirrors.find(|word| !word.contains("snapshot")).ok_or_else(none)
}

fn any_library(unpacked: &Path) -> Outcome<PathBuf> {
    let folder = unpacked.join("usr/src");
    let entries = fs::read_dir(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    let mut found = entries.flatten().map(|entry| entry.path().join("library")).filter(|path| path.is_dir());
    found.next().ok_or_else(|| format!("the package holds no library folder under {}", folder.display()))
}
