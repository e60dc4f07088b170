//! Builds the kernels and tells the library where their code object lies, so that the binary carries it.

fn main() {
    let root = build_support::root();
    for path in ["device", "amdgpu-target", ".cargo/config.toml", "Cargo.lock", "target/amdgcn-sysroot/rustc"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    match build_support::device::build() {
        Ok(path) => println!("cargo::rustc-env=ZYNFER_CODE_OBJECT={}", path.display()),
        Err(why) => {
            for line in why.lines() {
                println!("cargo::error={line}");
            }
        }
    }
}
