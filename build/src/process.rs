//! Running other programs: one place that turns a failed or missing program into a message with its command.

use crate::Outcome;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs to the end with inherited output; an exit status other than 0 is an error.
pub fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|err| format!("cannot run `{}`: {err}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", line(command))) }
}

/// Runs to the end and returns stdout; stderr is shown only on failure.
pub fn output(command: &mut Command) -> Outcome<String> {
    let done = command.stdin(Stdio::null()).output().map_err(|err| format!("cannot run `{}`: {err}", line(command)))?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(format!("`{}` ended with {}\n{}", line(command), done.status, stderr.trim_end()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Whether a program of this name is on PATH.
pub fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The cargo that runs us, free of what an outer cargo or clippy set for its own compilation.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        command.env_remove(name);
    }
    command.current_dir(crate::root());
    command
}

/// The rustc of the same toolchain.
pub fn rustc() -> Command {
    let mut command = Command::new("rustc");
    command.current_dir(crate::root());
    command
}
