//! The code objects: the kernels by cargo for their target, with launch bounds, in a target folder of its own so that a build script
//! may call it. Two are made of one compilation: the plain one as rustc links it, and one whose atomics have agent scope, where the
//! tools for that are at hand.

use crate::{KNOWN_GOOD, KNOWN_GOOD_COMMAND, Outcome, bounds, process, root, scopes, sysroot};
use std::path::PathBuf;

/// What [`build`] made.
pub struct CodeObjects {
    /// As rustc links it: atomics and fences of system scope.
    pub plain: PathBuf,
    /// The same with agent scope; or why there is none.
    pub agent: Outcome<PathBuf>,
}

/// Builds the kernels.
///
/// # Errors
/// The kernels do not compile. That the tools for agent scope are missing is no error, but stands in the result.
pub fn build() -> Outcome<CodeObjects> {
    sysroot::check()?;
    let target_dir = root().join("target/device");
    let table = bounds::write()?;
    let mut command = process::cargo();
    // Flags given so are added to those of .cargo/config.toml, where RUSTFLAGS would replace them.
    let flag = format!("-Cllvm-args=-forceattrs-csv-path={}", table.display());
    command.arg("--config").arg(format!("target.{}.rustflags=[{flag:?}]", sysroot::TARGET));
    command
        .args(["rustc", "--release", "--quiet", "-p", "device", "--target", sysroot::TARGET, "--target-dir"])
        .arg(&target_dir)
        .args(["--", "--emit=link,llvm-bc"]);
    process::output(&mut command).map_err(|err| {
        let err: Vec<&str> = err.lines().filter(|line| !line.starts_with(bounds::NOISE)).collect();
        format!(
            "the kernels do not compile: {}\nThey are known to compile with {KNOWN_GOOD}:\n  {KNOWN_GOOD_COMMAND}",
            err.join("\n")
        )
    })?;
    let folder = target_dir.join(sysroot::TARGET).join("release");
    let (plain, bitcode) = (folder.join("device.elf"), folder.join("deps/device.bc"));
    if let Some(missing) = [&plain, &bitcode].into_iter().find(|path| !path.is_file()) {
        return Err(format!("{} was not made", missing.display()));
    }
    let agent = match scopes::tools() {
        Ok(tools) => {
            let path = folder.join("device.agent.elf");
            scopes::link(&tools, &bitcode, &path).map(|()| path)
        }
        Err(why) => Err(why),
    };
    Ok(CodeObjects { plain, agent })
}
