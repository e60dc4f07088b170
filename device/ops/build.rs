//! Sets `cfg(gpu)` where kernels are compiled, so that no operation names a target. The list stands in `amdgpu-target`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(gpu)");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if amdgpu_target::GPU_ARCHES.contains(&arch.as_str()) {
        println!("cargo::rustc-cfg=gpu");
    }
}
