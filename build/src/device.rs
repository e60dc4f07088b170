//! The code object: the kernels by cargo for their target, with launch bounds, in a target folder of its own so that a build script
//! may call it.

use crate::{KNOWN_GOOD, KNOWN_GOOD_COMMAND, Outcome, bounds, process, root, sysroot};
use std::path::PathBuf;

/// Builds the kernels; the path of their code object.
///
/// # Errors
/// The kernels do not compile.
pub fn build() -> Outcome<PathBuf> {
    sysroot::check()?;
    let target_dir = root().join("target/device");
    let table = bounds::write()?;
    let mut command = process::cargo();
    // Flags given so are added to those of .cargo/config.toml, where RUSTFLAGS would replace them.
    let flag = format!("-Cllvm-args=-forceattrs-csv-path={}", table.display());
    command.arg("--config").arg(format!("target.{}.rustflags=[{flag:?}]", sysroot::TARGET));
    command
        .args(["build", "--release", "--quiet", "-p", "device", "--target", sysroot::TARGET, "--target-dir"])
        .arg(&target_dir);
    process::output(&mut command).map_err(|err| {
        let err: Vec<&str> = err.lines().filter(|line| !line.starts_with(bounds::NOISE)).collect();
        format!(
            "the kernels do not compile: {}\nThey are known to compile with {KNOWN_GOOD}:\n  {KNOWN_GOOD_COMMAND}",
            err.join("\n")
        )
    })?;
    let elf = target_dir.join(sysroot::TARGET).join("release/device.elf");
    if elf.is_file() { Ok(elf) } else { Err(format!("{} was not made", elf.display())) }
}
