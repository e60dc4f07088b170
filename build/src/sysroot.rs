//! `core` for `amdgcn-amd-amdhsa`, built once into `target/amdgcn-sysroot`. A global `build-std` would break the host's own crates
//! (duplicate lang items), so the kernels get a sysroot of their own, which `.cargo/config.toml` names.

use crate::{KNOWN_GOOD, KNOWN_GOOD_COMMAND, Outcome, process, root, rust_src, say};
use std::fs;
use std::path::PathBuf;

/// The kernels' target.
pub const TARGET: &str = "amdgcn-amd-amdhsa";

/// Folder that `--sysroot` names.
pub fn folder() -> PathBuf {
    root().join("target/amdgcn-sysroot")
}

/// File that says which rustc built the sysroot.
pub fn stamp() -> PathBuf {
    folder().join("rustc")
}

/// Fails with what to run when the sysroot is missing or was built by another compiler.
pub fn check() -> Outcome {
    let now = process::output(process::rustc().arg("-vV"))?;
    match fs::read_to_string(stamp()) {
        Ok(built) if built == now => Ok(()),
        Ok(_) => Err("the kernels' sysroot was built by another rustc; run ./x setup".into()),
        Err(_) => Err("the kernels' sysroot is not built yet; run ./x setup once".into()),
    }
}

/// Builds it unless it is there and current.
pub fn ensure() -> Outcome {
    if check().is_ok() {
        return Ok(());
    }
    rust_src::ensure()?;
    say("building core for amdgcn-amd-amdhsa (once, under a minute)");
    let work = root().join("target/amdgcn-sysroot-build");
    let write = |path: &str, text: &str| {
        let path = work.join(path);
        let parent = path.parent().ok_or("no parent folder")?;
        fs::create_dir_all(parent).map_err(|err| format!("{}: {err}", parent.display()))?;
        fs::write(&path, text).map_err(|err| format!("{}: {err}", path.display()))
    };
    write(
        "Cargo.toml",
        "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[profile.release]\npanic = \"abort\"\n",
    )?;
    write("src/lib.rs", "#![no_std]\n")?;
    let mut command = process::cargo();
    command.current_dir(&work).args([
        "build",
        "--release",
        "--quiet",
        "-Zbuild-std=core",
        "--target",
        TARGET,
        "--target-dir",
        "target",
    ]);
    // RUSTFLAGS replaces the flags of the workspace's .cargo/config.toml, which name the sysroot that does not exist yet.
    command.env("RUSTFLAGS", "-Ctarget-cpu=gfx1201");
    process::run(&mut command)
        .map_err(|err| format!("{err}\nThe kernels are known to compile with {KNOWN_GOOD}:\n  {KNOWN_GOOD_COMMAND}"))?;
    let library = folder().join("lib/rustlib").join(TARGET).join("lib");
    let _ = fs::remove_dir_all(folder());
    fs::create_dir_all(&library).map_err(|err| format!("{}: {err}", library.display()))?;
    let built = work.join("target").join(TARGET).join("release/deps");
    let entries = fs::read_dir(&built).map_err(|err| format!("{}: {err}", built.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(".rlib") && (text.starts_with("libcore-") || text.starts_with("libcompiler_builtins-")) {
            fs::copy(entry.path(), library.join(&name)).map_err(|err| format!("{text}: {err}"))?;
        }
    }
    let _ = fs::remove_dir_all(&work);
    let now = process::output(process::rustc().arg("-vV"))?;
    fs::write(stamp(), now).map_err(|err| format!("{}: {err}", stamp().display()))
}
