//! Launch bounds. rustc has no attribute for them, so LLVM assumes workgroups of 1024 work-items and gives a wave no more than 192
//! VGPRs; told a workgroup's real size alone, it would give a wave that shares its SIMD with another workgroup's what it can have by itself.
//! LLVM's own pass that forces function attributes from a table runs inside rustc: the table is written from the one contract
//! (`device_ops::KERNELS`), and no other tool is needed. That it took effect is read in the code object: the workgroup's size by
//! whoever loads it (`zynfer::hip::metadata`), registers by tests/resources.rs.

use crate::{Outcome, root};
use device_ops::KERNELS;
use std::fs;
use std::path::PathBuf;

/// What LLVM says on stderr for each row in each crate that does not hold the kernel; no news.
pub const NOISE: &str = "Function in CSV file at line ";

/// A row for each kernel: its name, and its workgroup's size as LLVM wants it. A second one where several workgroups share a WGP: their waves on
/// each of its four SIMDs.
pub fn table() -> String {
    let mut table = String::new();
    for kernel in KERNELS {
        let (name, waves) = (kernel.name, kernel.waves);
        table += &format!("{name},amdgpu-flat-work-group-size=1,{}\n", waves * amdgpu_target::LANES);
        let workgroups = kernel.workgroups_per_wgp;
        if workgroups > 1 {
            table += &format!("{name},amdgpu-waves-per-eu={}\n", amdgpu_target::waves_per_simd(waves * workgroups));
        }
    }
    table
}

/// Writes the table and returns its path, which changes with its content: cargo sees another flag and compiles again.
///
/// # Errors
/// The folder cannot be written.
pub fn write() -> Outcome<PathBuf> {
    let table = table();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in table.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let folder = root().join("target/device");
    let path = folder.join(format!("launch-bounds-{hash:016x}.csv"));
    fs::create_dir_all(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    fs::write(&path, table).map_err(|err| format!("{}: {err}", path.display()))?;
    Ok(path)
}
