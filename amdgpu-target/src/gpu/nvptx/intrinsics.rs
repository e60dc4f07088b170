//! LLVM's NVPTX intrinsics that `core::arch::nvptx` does not offer, and the one instruction that has none. Declarations only; the
//! wrappers beside this file say what they mean.

use core::arch::asm;

/// Four f32 as the matrix instruction returns them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Quad(pub f32, pub f32, pub f32, pub f32);

/// Four i32, likewise.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IntQuad(pub i32, pub i32, pub i32, pub i32);

// SAFETY: names and types are those of LLVM 22's NVPTX intrinsics; a wrong one fails at instruction selection.
unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.ex2.approx.ftz.f"]
    pub safe fn exp2(x: f32) -> f32;
    #[link_name = "llvm.nvvm.rcp.approx.ftz.f"]
    pub safe fn rcp(x: f32) -> f32;
    #[link_name = "llvm.nvvm.rsqrt.approx.f"]
    pub safe fn rsq(x: f32) -> f32;
    #[link_name = "llvm.nvvm.sqrt.approx.f"]
    pub safe fn sqrt(x: f32) -> f32;
    #[link_name = "llvm.nvvm.fmax.f"]
    pub safe fn max(a: f32, b: f32) -> f32;
    /// `x` of the lane whose index is `lane` ^ `mask`; every lane that `members` names calls it together.
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub fn shfl_bfly(members: u32, x: u32, mask: u32, clamp: u32) -> u32;
    /// `x` of lane `lane`.
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub fn shfl_idx(members: u32, x: u32, lane: u32, clamp: u32) -> u32;
    /// D = A·B + C on 16×8×16, A four, B two registers of bf16 pairs; all lanes call it together.
    #[link_name = "llvm.nvvm.mma.m16n8k16.row.col.bf16"]
    #[allow(clippy::too_many_arguments, reason = "the instruction's operands")]
    pub fn mma_m16n8k16_bf16(
        a0: u32,
        a1: u32,
        a2: u32,
        a3: u32,
        b0: u32,
        b1: u32,
        c0: f32,
        c1: f32,
        c2: f32,
        c3: f32,
    ) -> Quad;
    /// D = A·B + C on 16×8×32, A four, B two registers of four signed bytes; all lanes call it together.
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.s8"]
    #[allow(clippy::too_many_arguments, reason = "the instruction's operands")]
    pub fn mma_m16n8k32_s8(
        a0: u32,
        a1: u32,
        a2: u32,
        a3: u32,
        b0: u32,
        b1: u32,
        c0: i32,
        c1: i32,
        c2: i32,
        c3: i32,
    ) -> IntQuad;
}

/// The 32-bit address, in the window of workgroup memory, of a generic address that lies there.
#[inline(always)]
pub fn shared_address(generic: u64) -> u32 {
    let address: u64;
    // SAFETY: arithmetic on a register; any input is allowed, one outside the window gives a meaningless number.
    unsafe {
        asm!("cvta.to.shared.u64 {}, {};", out(reg64) address, in(reg64) generic, options(pure, nomem, nostack, preserves_flags));
    }
    address as u32
}

/// Two f32 rounded to bf16 (nearest, ties to even) in a dword, `lo` in its low half; a NaN becomes 0x7fff.
#[inline(always)]
pub fn pack_bf16_number(lo: f32, hi: f32) -> u32 {
    let word: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "cvt.rn.bf16x2.f32 {}, {}, {};",
            out(reg32) word, in(reg32) hi.to_bits(), in(reg32) lo.to_bits(),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    word
}

/// Four 8×8 matrices of 16-bit elements, each lane giving the address of one row: lanes 8i … 8i + 7 of matrix i.
///
/// # Safety
/// 1. All lanes call it together; `address` is that of 16 bytes of workgroup memory, aligned to 16, not written meanwhile.
#[inline(always)]
pub unsafe fn ldmatrix_x4(address: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: point 1 is the caller's. Not `pure`: it must stay between the barriers it stands between.
    unsafe {
        asm!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
            options(readonly, nostack, preserves_flags),
        );
    }
    [a, b, c, d]
}
