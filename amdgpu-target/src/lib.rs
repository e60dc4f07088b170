//! What gfx1201 is: its limits, the geometry of a launch, lanes, workgroup memory, wide memory access, matrix fragments, number
//! formats. It knows nothing about models, and holds no kernel.
//!
//! The constants, [`Geometry`] and the number formats build everywhere, so the host plans with what the kernels run with. The
//! module `gpu` exists only where kernels are compiled; a second GPU target is one more `cfg` on it and one more implementation
//! of what it offers (`gpu/amdgpu`, and `gpu/nvptx` as the proof vehicle). `GPU_ARCHES` is where that list stands for build scripts.
#![no_std]
#![cfg_attr(
    target_arch = "amdgpu",
    feature(
        abi_unadjusted,
        core_intrinsics,
        f16,
        gpu_intrinsics,
        gpu_launch_sized_workgroup_mem,
        link_llvm_intrinsics
    ),
    feature(repr_simd, simd_ffi, stdarch_amdgpu)
)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_unadjusted, asm_experimental_arch, core_intrinsics, f16, gpu_intrinsics),
    feature(gpu_launch_sized_workgroup_mem, link_llvm_intrinsics, repr_simd, stdarch_nvptx)
)]
#![cfg_attr(
    any(target_arch = "amdgpu", target_arch = "nvptx64"),
    allow(internal_features, reason = "the machine is only reachable through intrinsics")
)]

#[cfg(any(target_arch = "amdgpu", target_arch = "nvptx64"))]
pub mod gpu;
mod launch;
mod number;

pub use launch::{Geometry, GeometryError};
pub use number::{bf16_to_f32, f32_to_bf16, fp8_to_f32, number_to_bf16, number_to_fp8};

/// Values of `CARGO_CFG_TARGET_ARCH` for which kernels exist: a build script turns them into `cfg(gpu)`.
pub const GPU_ARCHES: &[&str] = &["amdgpu", "nvptx64"];
/// The processor the kernels are compiled for, as the first part of HIP's `gcnArchName`.
pub const ARCH: &str = "gfx1201";

/// Lanes of a wave; kernels are wave32 only.
pub const LANES: u32 = 32;
/// Most waves of a workgroup: 1024 work-items.
pub const MAX_WAVES: u32 = 32;
/// Most workgroup memory (LDS) of one workgroup, in bytes; the WGP holds twice as much.
pub const MAX_LDS_BYTES: u32 = 64 * 1024;
/// Most workgroups along x, y and z that the HIP runtime launches.
pub const MAX_WORKGROUPS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// VGPRs of 32 lanes that each of the four SIMDs of a WGP has.
pub const SIMD_VGPRS: u32 = 1536;
/// A wave gets VGPRs in multiples of this.
pub const VGPR_STEP: u32 = 24;
/// Most VGPRs an instruction can name.
pub const MAX_VGPRS: u32 = 256;
/// Bytes of a cache line as the driver lists it.
pub const CACHE_LINE_BYTES: u32 = 256;
/// Rows and columns of a matrix fragment, and the depth of one 16-bit matrix instruction.
pub const TILE: u32 = 16;

/// Waves on each of a WGP's four SIMDs if the WGP holds `waves` of them.
pub const fn waves_per_simd(waves: u32) -> u32 {
    waves.div_ceil(4)
}

/// VGPRs a wave may use if a workgroup has `waves` of them (1 to [`MAX_WAVES`]): all of them are on one WGP at once, spread over its
/// four SIMDs. 256 up to 20 waves, 192 for 32.
pub const fn max_vgprs(waves: u32) -> u32 {
    let share = SIMD_VGPRS / waves_per_simd(waves) / VGPR_STEP * VGPR_STEP;
    if share > MAX_VGPRS { MAX_VGPRS } else { share }
}

#[cfg(test)]
mod tests {
    use super::max_vgprs;

    #[test]
    fn a_workgroup_shares_the_registers_of_four_simds() {
        let rows = [(1, 256), (16, 256), (20, 256), (21, 240), (24, 240), (25, 216), (28, 216), (29, 192), (32, 192)];
        for (waves, vgprs) in rows {
            assert_eq!(max_vgprs(waves), vgprs, "{waves} waves");
        }
    }
}
