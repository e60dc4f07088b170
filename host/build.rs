//! Builds the kernels and tells the library where their code objects lie, so that the binary carries them.

use build_support::device::CodeObjects;

fn main() {
    let root = build_support::root();
    for path in ["device", "amdgpu-target", ".cargo/config.toml", "Cargo.lock", "target/amdgcn-sysroot/rustc"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rustc-check-cfg=cfg(agent_code_object)");
    match build_support::device::build() {
        Ok(CodeObjects { plain, agent }) => {
            println!("cargo::rustc-env=ZYNFER_PLAIN_CODE_OBJECT={}", plain.display());
            match agent {
                Ok(path) => {
                    println!("cargo::rustc-cfg=agent_code_object");
                    println!("cargo::rustc-env=ZYNFER_AGENT_CODE_OBJECT={}", path.display());
                }
                Err(why) => {
                    let why = why.lines().next().unwrap_or_default();
                    println!("cargo::warning=the kernels' atomics keep system scope: {why}");
                    println!("cargo::rustc-env=ZYNFER_NO_AGENT_CODE_OBJECT={why}");
                }
            }
        }
        Err(why) => {
            for line in why.lines() {
                println!("cargo::error={line}");
            }
        }
    }
}
