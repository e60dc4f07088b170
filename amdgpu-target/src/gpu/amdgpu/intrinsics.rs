//! LLVM intrinsics that `core::arch::amdgpu` does not offer. Declarations only; the wrappers beside this file say what they mean.

use super::wmma::{Acc, Fragment, IntAcc};
use crate::gpu::memory::{B64, B128};

/// Two f32 as the conversion returns them.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct Pair([f32; 2]);

impl Pair {
    /// Both, the low one first.
    #[inline(always)]
    pub fn to_array(self) -> [f32; 2] {
        // SAFETY: a vector of two f32 has the size and bytes of an array of two f32.
        unsafe { core::mem::transmute(self) }
    }
}

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
    /// The two e4m3 in the low or the high half of `x`; `high` is a literal.
    #[link_name = "llvm.amdgcn.cvt.pk.f32.fp8"]
    pub safe fn cvt_pk_f32_fp8(x: u32, high: bool) -> Pair;
    #[link_name = "llvm.amdgcn.s.wait.dscnt"]
    pub safe fn s_wait_dscnt(count: i16);
    #[link_name = "llvm.amdgcn.s.wait.storecnt"]
    pub safe fn s_wait_storecnt(count: i16);
    // Buffer access: resource, offset of the lane, offset of the wave, and cache policy, a literal. An offset past the resource's
    // size reads 0 and writes nothing.
    #[link_name = "llvm.amdgcn.raw.buffer.load.i32"]
    pub fn buffer_load_b32(resource: B128, offset: u32, base: u32, policy: u32) -> u32;
    #[link_name = "llvm.amdgcn.raw.buffer.load.v2i32"]
    pub fn buffer_load_b64(resource: B128, offset: u32, base: u32, policy: u32) -> B64;
    #[link_name = "llvm.amdgcn.raw.buffer.load.v4i32"]
    pub fn buffer_load_b128(resource: B128, offset: u32, base: u32, policy: u32) -> B128;
    #[link_name = "llvm.amdgcn.raw.buffer.store.i16"]
    pub fn buffer_store_b16(x: u16, resource: B128, offset: u32, base: u32, policy: u32);
    #[link_name = "llvm.amdgcn.raw.buffer.store.i32"]
    pub fn buffer_store_b32(x: u32, resource: B128, offset: u32, base: u32, policy: u32);
    #[link_name = "llvm.amdgcn.raw.buffer.store.v2i32"]
    pub fn buffer_store_b64(x: B64, resource: B128, offset: u32, base: u32, policy: u32);
    #[link_name = "llvm.amdgcn.raw.buffer.store.v4i32"]
    pub fn buffer_store_b128(x: B128, resource: B128, offset: u32, base: u32, policy: u32);
    #[link_name = "llvm.amdgcn.raw.buffer.atomic.add.i32"]
    pub fn buffer_atomic_add(x: u32, resource: B128, offset: u32, base: u32, policy: u32) -> u32;
    /// All lanes of the wave must be live.
    #[link_name = "llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v8i16"]
    pub fn wmma_f32_16x16x16_bf16(a: Fragment, b: Fragment, c: Acc) -> Acc;
    /// Bytes, signed where the flag before them says so; `clamp` saturates. The flags are literals. All lanes of the wave must be live.
    #[link_name = "llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v2i32"]
    pub fn wmma_i32_16x16x16_iu8(a_signed: bool, a: B64, b_signed: bool, b: B64, c: IntAcc, clamp: bool) -> IntAcc;
}
