//! The `zynfer` program and the emulator's library for tests that run them: built once per test process, in the profile of that
//! process, beside each other as a user has them. It runs nothing but cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

struct Built {
    zynfer: PathBuf,
    emulator: PathBuf,
}

/// The program.
pub fn zynfer() -> &'static Path {
    &built().zynfer
}

/// The emulator's HIP library, which lies beside the program.
pub fn emulator_library() -> &'static Path {
    &built().emulator
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // A test runs from <target>/<profile>/deps.
        let test = std::env::current_exe().expect("a test knows its own path");
        let folder = test.ancestors().nth(2).expect("<target>/<profile>/deps/<test>").to_path_buf();
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") => "dev",
            Some(profile) => profile,
            None => panic!("{}: no profile in this path", test.display()),
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        // All default members, not these two alone: the same selection as `cargo test` gives the same features, so nothing is
        // compiled twice.
        command.current_dir(crate::fixtures::root()).args(["build", "--quiet", "--profile", profile]);
        command.env("CARGO_TARGET_DIR", folder.parent().expect("<target>"));
        let done = command.output().expect("cargo runs");
        assert!(done.status.success(), "building zynfer failed:\n{}", String::from_utf8_lossy(&done.stderr));
        let built = Built { zynfer: folder.join("zynfer"), emulator: folder.join("libamdhip64_emulator.so") };
        for path in [&built.zynfer, &built.emulator] {
            assert!(path.is_file(), "cargo build made no {}", path.display());
        }
        built
    })
}
