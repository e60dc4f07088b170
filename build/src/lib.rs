//! Everything behind `./x`, and what `host/build.rs` needs to build the kernels. It runs other programs (cargo, apt-get, npm) and
//! says so; it knows nothing of models or of the instruction set.

pub mod bounds;
pub mod demo;
pub mod demo_smollm2;
pub mod device;
pub mod fixtures;
pub mod packages;
pub mod peers;
pub mod process;
pub mod rust_src;
pub mod silicon;
pub mod sysroot;
pub mod tidy;

use std::path::{Path, PathBuf};

/// Result with a message for the person who typed the command.
pub type Outcome<T = ()> = Result<T, String>;

/// The nightly the kernels are known to compile with.
pub const KNOWN_GOOD: &str = "nightly-2026-05-20 (rustc 1.97.0-nightly of 2026-05-19, LLVM 22.1.4)";
/// How to get it.
pub const KNOWN_GOOD_COMMAND: &str = "rustup toolchain install nightly-2026-05-20 --component rust-src,rustfmt,clippy";

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Says on stderr what is being done.
pub fn say(text: &str) {
    eprintln!("x: {text}");
}
