//! Code objects from the sources in `tests/fixtures/faults`, by `llvm-mc-22` and the linker of the Rust toolchain, with line tables. A
//! missing tool is a failed test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the sources are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/faults")
}

/// The linker that comes with rustc, which links our own kernels, too.
fn linker() -> PathBuf {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let word = |words: &[&str]| {
        let output = Command::new(&rustc).args(words).output().expect("rustc runs");
        assert!(output.status.success(), "rustc {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let host = word(&["--print", "host-tuple"]);
    Path::new(&word(&["--print", "sysroot"])).join("lib/rustlib").join(host).join("bin/rust-lld")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; `./x test` installs what it needs"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The code object of `name.s`, with its defect or `fixed`.
pub fn assemble(name: &str, fixed: bool) -> Vec<u8> {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let (object, linked) = (temporary.path().join("k.o"), temporary.path().join("k.hsaco"));
    let mut assembler = Command::new("llvm-mc-22");
    // By name from its own folder: that is what the line tables then say.
    assembler.current_dir(folder()).args([
        "-triple=amdgcn-amd-amdhsa",
        "-mcpu=gfx1201",
        "-filetype=obj",
        "-g",
        "-I",
        ".",
    ]);
    if fixed {
        assembler.arg("--defsym=FIXED=1");
    }
    run(assembler.arg(format!("{name}.s")).arg("-o").arg(&object));
    run(Command::new(linker()).args(["-flavor", "gnu", "-shared"]).arg(&object).arg("-o").arg(&linked));
    std::fs::read(&linked).expect("the linked object")
}
