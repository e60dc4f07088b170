//! The code object: `cargo build -p device` for the kernels' target, in a target folder of its own so that a build script may call it.

use crate::{KNOWN_GOOD, KNOWN_GOOD_COMMAND, Outcome, process, root, sysroot};
use std::path::PathBuf;

/// Builds the kernels and returns the code object's path.
pub fn build() -> Outcome<PathBuf> {
    sysroot::check()?;
    let target_dir = root().join("target/device");
    let mut command = process::cargo();
    command
        .args(["build", "--release", "--quiet", "-p", "device", "--target", sysroot::TARGET, "--target-dir"])
        .arg(&target_dir);
    process::output(&mut command).map_err(|err| {
        format!(
            "the kernels do not compile: {err}\nThey are known to compile with {KNOWN_GOOD}:\n  {KNOWN_GOOD_COMMAND}"
        )
    })?;
    let path = target_dir.join(sysroot::TARGET).join("release/device.elf");
    if path.is_file() { Ok(path) } else { Err(format!("{} was not made", path.display())) }
}
