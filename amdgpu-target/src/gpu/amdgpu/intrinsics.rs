//! LLVM intrinsics that `core::arch::amdgpu` does not offer. Declarations only; the wrappers beside this file say what they mean.

use super::wmma::{Acc, Fragment};

#[allow(improper_ctypes, reason = "LLVM intrinsics take vectors by value; no C ABI is involved")]
// SAFETY: names and types are those of LLVM 22's AMDGPU intrinsics for gfx12; a wrong one fails at instruction selection.
unsafe extern "unadjusted" {
    #[link_name = "llvm.amdgcn.exp2.f32"]
    pub safe fn exp2(x: f32) -> f32;
    #[link_name = "llvm.amdgcn.rcp.f32"]
    pub safe fn rcp(x: f32) -> f32;
    #[link_name = "llvm.amdgcn.rsq.f32"]
    pub safe fn rsq(x: f32) -> f32;
    #[link_name = "llvm.amdgcn.sqrt.f32"]
    pub safe fn sqrt(x: f32) -> f32;
    #[link_name = "llvm.amdgcn.s.wait.dscnt"]
    pub safe fn s_wait_dscnt(count: i16);
    /// All lanes of the wave must be live.
    #[link_name = "llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v8i16"]
    pub fn wmma_f32_16x16x16_bf16(a: Fragment, b: Fragment, c: Acc) -> Acc;
}
