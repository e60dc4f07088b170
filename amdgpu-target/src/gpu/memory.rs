//! Wide memory access: 8 and 16 bytes per lane, and the packing of bf16 pairs in them. One base pointer from the kernel's arguments
//! plus offsets stays a `global_*` access; an integer cast to a pointer would become a `flat_*` one.

use super::machine::pack_bf16_number;
use crate::number::{bf16_to_f32, f32_to_bf16};

/// 16 bytes, one `b128` access.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct B128([u32; 4]);

/// 8 bytes, one `b64` access.
#[repr(simd)]
#[derive(Clone, Copy)]
pub struct B64([u32; 2]);

impl B128 {
    /// Zeros.
    pub const ZERO: Self = Self([0; 4]);

    /// From its four dwords, lowest address first.
    #[inline(always)]
    pub fn new(words: [u32; 4]) -> Self {
        Self(words)
    }
    /// Its four dwords, lowest address first.
    #[inline(always)]
    pub fn words(self) -> [u32; 4] {
        // SAFETY: a vector of four u32 has the size and bytes of an array of four u32.
        unsafe { core::mem::transmute(self) }
    }
}

impl B64 {
    /// From its two dwords, lowest address first.
    #[inline(always)]
    pub fn new(words: [u32; 2]) -> Self {
        Self(words)
    }
    /// Its two dwords, lowest address first.
    #[inline(always)]
    pub fn words(self) -> [u32; 2] {
        // SAFETY: a vector of two u32 has the size and bytes of an array of two u32.
        unsafe { core::mem::transmute(self) }
    }
}

/// Reads the `T` at `base + index` (in elements of `T`).
///
/// # Safety
/// 1. `base.add(index)` is inside the allocation of `base`, aligned for `T`, initialised, and not written meanwhile.
#[inline(always)]
pub unsafe fn load<T: Copy>(base: *const T, index: usize) -> T {
    let at = base.wrapping_add(index);
    // SAFETY: point 1 is the caller's.
    unsafe { *at }
}

/// Writes the `T` at `base + index` (in elements of `T`).
///
/// # Safety
/// 1. `base.add(index)` is inside the allocation of `base`, aligned for `T`, and no other lane touches it meanwhile.
#[inline(always)]
pub unsafe fn store<T: Copy>(base: *mut T, index: usize, value: T) {
    let at = base.wrapping_add(index);
    // SAFETY: point 1 is the caller's.
    unsafe { *at = value }
}

/// Reads the `T` that lies `offset` bytes past `base`. With a `base` equal in all lanes the address is one scalar pair and one
/// 32-bit register: the cheapest form there is.
///
/// # Safety
/// 1. As [`load`], for the `T` at that address.
#[inline(always)]
pub unsafe fn load_offset<T: Copy>(base: *const T, offset: u32) -> T {
    let at = base.wrapping_byte_add(offset as usize);
    // SAFETY: point 1 is the caller's.
    unsafe { *at }
}

/// Four f32 from element `index` on; `index` is a multiple of 4.
///
/// # Safety
/// 1. As [`load`], for the four elements; `base` is 16-byte aligned.
#[inline(always)]
pub unsafe fn load_f32x4(base: *const f32, index: usize) -> [f32; 4] {
    // SAFETY: point 1 is the caller's; index / 4 counts 16-byte elements.
    unsafe { load(base.cast::<B128>(), index / 4) }.words().map(f32::from_bits)
}

/// Two f32 from element `index` on; `index` is a multiple of 2.
///
/// # Safety
/// 1. As [`load`], for the two elements; `base` is 8-byte aligned.
#[inline(always)]
pub unsafe fn load_f32x2(base: *const f32, index: usize) -> [f32; 2] {
    // SAFETY: point 1 is the caller's; index / 2 counts 8-byte elements.
    unsafe { load(base.cast::<B64>(), index / 2) }.words().map(f32::from_bits)
}

/// Writes four f32 from element `index` on; `index` is a multiple of 4.
///
/// # Safety
/// 1. As [`store`], for the four elements; `base` is 16-byte aligned.
#[inline(always)]
pub unsafe fn store_f32x4(base: *mut f32, index: usize, x: [f32; 4]) {
    // SAFETY: point 1 is the caller's; index / 4 counts 16-byte elements.
    unsafe { store(base.cast::<B128>(), index / 4, B128::new(x.map(f32::to_bits))) }
}

/// Writes two f32 from element `index` on; `index` is a multiple of 2.
///
/// # Safety
/// 1. As [`store`], for the two elements; `base` is 8-byte aligned.
#[inline(always)]
pub unsafe fn store_f32x2(base: *mut f32, index: usize, x: [f32; 2]) {
    // SAFETY: point 1 is the caller's; index / 2 counts 8-byte elements.
    unsafe { store(base.cast::<B64>(), index / 2, B64::new(x.map(f32::to_bits))) }
}

/// The two f32 of a dword of bf16, low half (lower address) first.
#[inline(always)]
pub fn unpack_bf16(word: u32) -> [f32; 2] {
    [bf16_to_f32(word as u16), f32::from_bits(word & 0xffff_0000)]
}

/// The f32 with the value of an IEEE half in plain bits; exact, subnormal ones included.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    f16::from_bits(bits) as f32
}

/// The IEEE half nearest to `x`, ties to even, in plain bits; what is finite and beyond ±65504 becomes ±65504.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let half = (x as f16).to_bits();
    let overflown = half & 0x7fff == 0x7c00 && x.to_bits() & 0x7fff_ffff != 0x7f80_0000;
    if overflown { half - 1 } else { half }
}

/// A dword of two bf16, `lo` at the lower address.
#[inline(always)]
pub fn pack_bf16(lo: f32, hi: f32) -> u32 {
    u32::from(f32_to_bf16(lo)) | u32::from(f32_to_bf16(hi)) << 16
}

/// Four bf16 in 8 bytes.
#[inline(always)]
pub fn bf16x4(x: [f32; 4]) -> B64 {
    B64::new([pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3])])
}

/// Eight bf16 in 16 bytes.
#[inline(always)]
pub fn bf16x8(x: [f32; 8]) -> B128 {
    B128::new([pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7])])
}

/// As [`bf16x8`] where no value is a NaN; a NaN may come out as any value.
#[inline(always)]
pub fn bf16x8_number(x: [f32; 8]) -> B128 {
    let pair = |i: usize| pack_bf16_number(x[i], x[i + 1]);
    B128::new([pair(0), pair(2), pair(4), pair(6)])
}

/// As [`bf16x8`] where every value is one of bf16's: nothing is rounded.
#[inline(always)]
pub fn bf16x8_exact(x: [f32; 8]) -> B128 {
    let pair = |i: usize| x[i].to_bits() >> 16 | x[i + 1].to_bits() & 0xffff_0000;
    B128::new([pair(0), pair(2), pair(4), pair(6)])
}
