//! WMMA and SWMMAC, D = A·B + C, in the mode of a launch. Floats are summed here in f32 with fused steps in increasing k, starting from C
//! (products of f16, bf16 and fp8 are exact in f32), which is fast and differs from the machine in the last bits; [`super::matrix_sums`] has
//! the machine's own sums, for every other mode and for 16-bit results. Integers are exact: the sum of products is added to C once,
//! wrapping, or saturating with clamp. How registers hold tiles stands in [`super::tiles`].

use super::convert::f16_to_f32;
use super::packed::{DEFAULT_MODE, MODE_FIELDS, modified_c};
use super::sums::{Bf8, Bf16, F16, Factor, Fp8};
use super::tiles::{
    Kept, N, Operand, Tile, base_linear, base16, k_dense16, k_linear, k_sparse_b16, kept, number, operand, put32,
    read_operand, signs, tile32, write32,
};
use super::{fp8, matrix_sums};
use crate::isa::{Inst, Src};
use crate::wave::{Cx, Flow, Step};
use std::cell::RefCell;
use std::marker::PhantomData;

/// 16-bit factors.
pub trait Half: Factor {
    /// The value.
    fn to_f32(bits: u32) -> f32;
}
impl Half for F16 {
    #[inline(always)]
    fn to_f32(bits: u32) -> f32 {
        f16_to_f32(bits)
    }
}
impl Half for Bf16 {
    #[inline(always)]
    fn to_f32(bits: u32) -> f32 {
        f32::from_bits(bits << 16)
    }
}

/// 8-bit factors.
pub trait Byte: Factor {
    /// The value of each code.
    fn values() -> &'static [f32; 256];
}
impl Byte for Fp8 {
    fn values() -> &'static [f32; 256] {
        &fp8::FP8_VALUES
    }
}
impl Byte for Bf8 {
    fn values() -> &'static [f32; 256] {
        &fp8::BF8_VALUES
    }
}

/// Whether MODE is as at a launch, or the exact sums are to be made.
#[inline(always)]
fn is_launch_mode(cx: &Cx) -> bool {
    cx.wave.mode & MODE_FIELDS == DEFAULT_MODE
}

#[inline(always)]
fn operand16<H: Half, const K: usize>(
    cx: &Cx,
    inst: &Inst,
    n: usize,
    k: impl Fn(usize, usize) -> usize,
) -> Operand<f32, K> {
    let signs = signs(inst, n);
    operand(&cx.wave.vgpr, number(inst.src[n]), 16, 0.0, k, |bits, s| H::to_f32((bits ^ signs[s % 2]) & 0xffff))
}

#[inline(always)]
fn operand8<B: Byte, const K: usize>(cx: &Cx, inst: &Inst, n: usize) -> Operand<f32, K> {
    let values = B::values();
    operand(&cx.wave.vgpr, number(inst.src[n]), 8, 0.0, k_linear::<K>, |bits, _| values[(bits & 0xff) as usize])
}

#[inline(always)]
fn integers<const K: usize>(cx: &Cx, inst: &Inst, n: usize, bits: usize) -> Operand<i32, K> {
    let signed = inst.mods.neg >> n & 1 != 0;
    let unused = 32 - bits as u32;
    operand(&cx.wave.vgpr, number(inst.src[n]), bits, 0, k_linear::<K>, |raw, _| {
        if signed { (raw << unused) as i32 >> unused } else { (raw << unused >> unused) as i32 }
    })
}

/// C as f32, with the modifiers of a dense operation's third source.
#[inline(always)]
fn c_f32(cx: &Cx, inst: &Inst) -> Tile<f32> {
    let mut tile: Tile<f32> = bytemuck::cast(tile32(cx, inst.src[2]));
    if (inst.mods.abs | inst.mods.neg) & 4 != 0 {
        for value in tile.as_flattened_mut() {
            *value = modified_c(*value, inst);
        }
    }
    tile
}

#[inline(always)]
fn multiply<const K: usize>(a: &Operand<f32, K>, b: &Operand<f32, K>, c: &mut Tile<f32>) {
    // Four rows at a time share each row of B; their sums stay in registers.
    let (blocks, _) = c.as_chunks_mut::<4>();
    for (block, rows) in blocks.iter_mut().enumerate() {
        let mut sums = *rows;
        for k in 0..K {
            let from = &b[k];
            for (m, sum) in sums.iter_mut().enumerate() {
                let value = a[k][4 * block + m];
                for n in 0..N {
                    sum[n] = value.mul_add(from[n], sum[n]);
                }
            }
        }
        *rows = sums;
    }
}

#[inline(always)]
fn multiply_integers<const K: usize>(a: &Operand<i32, K>, b: &Operand<i32, K>, c: &mut Tile<u32>, clamp: bool) {
    for (m, row) in c.iter_mut().enumerate() {
        let mut sum = [0i32; N];
        for k in 0..K {
            for n in 0..N {
                sum[n] += a[k][m] * b[k][n];
            }
        }
        accumulate(row, &sum, clamp);
    }
}

/// The products and sums of a tile, for `pulp`: only an `inline(always)` method reaches the function compiled for AVX2 and FMA.
struct Multiply<'a, const K: usize> {
    a: &'a Operand<f32, K>,
    b: &'a Operand<f32, K>,
    c: &'a mut Tile<f32>,
}

impl<const K: usize> pulp::NullaryFnOnce for Multiply<'_, K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        multiply(self.a, self.b, self.c);
    }
}

/// As [`Multiply`], for integers.
struct MultiplyIntegers<'a, const K: usize> {
    a: &'a Operand<i32, K>,
    b: &'a Operand<i32, K>,
    c: &'a mut Tile<u32>,
    clamp: bool,
}

impl<const K: usize> pulp::NullaryFnOnce for MultiplyIntegers<'_, K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        multiply_integers(self.a, self.b, self.c, self.clamp);
    }
}

/// As [`Multiply`], with a sparse A.
struct MultiplySparse<'a, const S: usize, const K: usize> {
    a: &'a Operand<f32, S>,
    kept: &'a Kept<S>,
    b: &'a Operand<f32, K>,
    c: &'a mut Tile<f32>,
}

impl<const S: usize, const K: usize> pulp::NullaryFnOnce for MultiplySparse<'_, S, K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        multiply_sparse(self.a, self.kept, self.b, self.c);
    }
}

#[inline(always)]
fn accumulate(c: &mut [u32; N], sum: &[i32; N], clamp: bool) {
    for n in 0..N {
        let old = c[n] as i32;
        c[n] = (if clamp { old.saturating_add(sum[n]) } else { old.wrapping_add(sum[n]) }) as u32;
    }
}

#[inline(always)]
fn bits(tile: &Tile<f32>) -> Tile<u32> {
    bytemuck::cast(*tile)
}

/// A dense operation of 16-bit factors into f32.
#[inline(always)]
pub fn half_to_f32<H: Half>(cx: &mut Cx, inst: &Inst) -> Step {
    if !is_launch_mode(cx) {
        return matrix_sums::half_to_f32::<H>(cx, inst);
    }
    let (arch, half) = (cx.arch, PhantomData::<H>);
    OPERANDS.with_borrow_mut(|operands| {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = arch.v4() {
            return simd.vectorize(HalfToF32 { cx, inst, operands, multiplier: Wide(simd), half });
        }
        arch.dispatch(HalfToF32 { cx, inst, operands, multiplier: Blocks, half });
    });
    Ok(Flow::Next)
}

/// How a tile is multiplied: the same steps in the same order, however many at a time.
trait Multiplier {
    /// C += A·B.
    fn multiply<const K: usize>(self, a: &Operand<f32, K>, b: &Operand<f32, K>, c: &mut Tile<f32>);
}

/// As many rows at a time as AVX2 has registers for.
struct Blocks;
impl Multiplier for Blocks {
    #[inline(always)]
    fn multiply<const K: usize>(self, a: &Operand<f32, K>, b: &Operand<f32, K>, c: &mut Tile<f32>) {
        multiply(a, b, c);
    }
}

/// The whole tile at a time: a row is a register of AVX-512, and it has 32 of them.
#[cfg(target_arch = "x86_64")]
struct Wide(pulp::x86::V4);
#[cfg(target_arch = "x86_64")]
impl Multiplier for Wide {
    #[inline(always)]
    fn multiply<const K: usize>(self, a: &Operand<f32, K>, b: &Operand<f32, K>, c: &mut Tile<f32>) {
        let simd = self.0;
        let mut sums: [pulp::f32x16; N] = bytemuck::cast(*c);
        for k in 0..K {
            let row = bytemuck::cast(b[k]);
            for m in 0..N {
                sums[m] = simd.mul_add_f32x16(simd.splat_f32x16(a[k][m]), row, sums[m]);
            }
        }
        *c = bytemuck::cast(sums);
    }
}

thread_local! {
    /// Room for A and B: two kilobytes that would be cleared for every instruction if they were its own.
    static OPERANDS: RefCell<Operands> = const { RefCell::new(Operands([[[0.0; N]; 16]; 2])) };
}

/// A and B, each row in one line of the host's cache.
#[repr(align(64))]
struct Operands([Operand<f32, 16>; 2]);

/// A whole dense operation with f32 results, for `pulp`: converting the operands takes as long as multiplying them, so it is compiled
/// for AVX2 as well.
struct HalfToF32<'x, 'c, H, M> {
    cx: &'x mut Cx<'c>,
    inst: &'x Inst,
    operands: &'x mut Operands,
    multiplier: M,
    half: PhantomData<H>,
}

impl<H: Half, M: Multiplier> pulp::NullaryFnOnce for HalfToF32<'_, '_, H, M> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let (cx, inst) = (self.cx, self.inst);
        let [a, b] = &mut self.operands.0;
        for (n, operand) in [&mut *a, &mut *b].into_iter().enumerate() {
            let signs = signs(inst, n);
            let convert = |bits, s| H::to_f32((bits ^ signs[s % 2]) & 0xffff);
            read_operand(operand, &cx.wave.vgpr, number(inst.src[n]), 16, k_dense16, convert);
        }
        let mut c = c_f32(cx, inst);
        self.multiplier.multiply(a, b, &mut c);
        write32(&mut cx.wave.vgpr, inst.dst, &bits(&c));
    }
}

/// A dense operation of 8-bit factors into f32.
pub fn byte_to_f32<A: Byte, B: Byte>(cx: &mut Cx, inst: &Inst) -> Step {
    if !is_launch_mode(cx) {
        return matrix_sums::byte_to_f32::<A, B>(cx, inst);
    }
    let mut c = c_f32(cx, inst);
    let (a, b) = (operand8::<A, 16>(cx, inst, 0), operand8::<B, 16>(cx, inst, 1));
    cx.arch.dispatch(Multiply { a: &a, b: &b, c: &mut c });
    put32(cx, inst.dst, &bits(&c))
}

#[inline(always)]
fn dense_integers<const K: usize>(cx: &mut Cx, inst: &Inst, element_bits: usize) -> Step {
    let mut c = tile32(cx, inst.src[2]);
    let [a, b] = [0, 1].map(|n| integers::<K>(cx, inst, n, element_bits));
    cx.arch.dispatch(MultiplyIntegers { a: &a, b: &b, c: &mut c, clamp: inst.mods.clamp });
    put32(cx, inst.dst, &c)
}

/// `v_wmma_i32_16x16x16_iu8`.
pub fn i32_iu8(cx: &mut Cx, inst: &Inst) -> Step {
    dense_integers::<16>(cx, inst, 8)
}

/// `v_wmma_i32_16x16x16_iu4`.
pub fn i32_iu4(cx: &mut Cx, inst: &Inst) -> Step {
    dense_integers::<16>(cx, inst, 4)
}

/// `v_wmma_i32_16x16x32_iu4`.
pub fn i32_iu4_k32(cx: &mut Cx, inst: &Inst) -> Step {
    dense_integers::<32>(cx, inst, 4)
}

#[inline(always)]
fn multiply_sparse<const S: usize, const K: usize>(
    a: &Operand<f32, S>,
    kept: &Kept<S>,
    b: &Operand<f32, K>,
    c: &mut Tile<f32>,
) {
    for (m, row) in c.iter_mut().enumerate() {
        for position in 0..S {
            let (value, from) = (a[kept.slot[position]][m], &b[kept.k[position][m] as usize % K]);
            for n in 0..N {
                row[n] = value.mul_add(from[n], row[n]);
            }
        }
    }
}

/// A sparse operation of 16-bit factors into f32.
#[inline(always)]
pub fn sparse_half_to_f32<H: Half>(cx: &mut Cx, inst: &Inst) -> Step {
    if !is_launch_mode(cx) {
        return matrix_sums::sparse_half_to_f32::<H>(cx, inst);
    }
    let mut c = destination32(cx, inst);
    let kept = kept::<16>(cx, inst, base16);
    let a = operand16::<H, 16>(cx, inst, 0, k_linear::<16>);
    let b = operand16::<H, 32>(cx, inst, 1, k_sparse_b16);
    cx.arch.dispatch(MultiplySparse { a: &a, kept: &kept, b: &b, c: &mut c });
    put32(cx, inst.dst, &bits(&c))
}

/// C of a sparse operation is its destination.
fn destination32(cx: &Cx, inst: &Inst) -> Tile<f32> {
    tile32(cx, Src::Vgpr(inst.dst)).map(|row| row.map(f32::from_bits))
}

/// A sparse operation of 8-bit factors into f32.
pub fn sparse_byte_to_f32<A: Byte, B: Byte>(cx: &mut Cx, inst: &Inst) -> Step {
    if !is_launch_mode(cx) {
        return matrix_sums::sparse_byte_to_f32::<A, B>(cx, inst);
    }
    let mut c = destination32(cx, inst);
    let kept = kept::<16>(cx, inst, base_linear::<32>);
    let (a, b) = (operand8::<A, 16>(cx, inst, 0), operand8::<B, 32>(cx, inst, 1));
    cx.arch.dispatch(MultiplySparse { a: &a, kept: &kept, b: &b, c: &mut c });
    put32(cx, inst.dst, &bits(&c))
}

#[inline(always)]
fn sparse_integers<const S: usize, const K: usize>(cx: &mut Cx, inst: &Inst, element_bits: usize) -> Step {
    let mut c = tile32(cx, Src::Vgpr(inst.dst));
    let kept = kept::<S>(cx, inst, base_linear::<K>);
    let a = integers::<S>(cx, inst, 0, element_bits);
    let b = integers::<K>(cx, inst, 1, element_bits);
    for (m, row) in c.iter_mut().enumerate() {
        let mut sum = [0i32; N];
        for position in 0..S {
            let (value, from) = (a[kept.slot[position]][m], &b[kept.k[position][m] as usize % K]);
            for n in 0..N {
                sum[n] += value * from[n];
            }
        }
        accumulate(row, &sum, inst.mods.clamp);
    }
    put32(cx, inst.dst, &c)
}

/// `v_swmmac_i32_16x16x32_iu8`.
pub fn sparse_i32_iu8(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_integers::<16, 32>(cx, inst, 8)
}

/// `v_swmmac_i32_16x16x32_iu4`.
pub fn sparse_i32_iu4(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_integers::<16, 32>(cx, inst, 4)
}

/// `v_swmmac_i32_16x16x64_iu4`; its indices take the whole register.
pub fn sparse_i32_iu4_k64(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_integers::<32, 64>(cx, inst, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with AVX-512 runs no other test of the way without it.
    #[test]
    fn a_tile_has_the_same_bits_however_many_rows_at_a_time() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Finite, of exponents −32 to 31, as bf16 has its digits.
            f32::from_bits(state & 0x807f_0000 | (95 + (state >> 8 & 63)) << 23)
        };
        for _ in 0..50 {
            let mut operand = || -> Operand<f32, 16> { std::array::from_fn(|_| std::array::from_fn(|_| next())) };
            let (a, b, c) = (operand(), operand(), operand());
            let mut plain = c;
            for (m, row) in plain.iter_mut().enumerate() {
                for (n, sum) in row.iter_mut().enumerate() {
                    for k in 0..16 {
                        *sum = a[k][m].mul_add(b[k][n], *sum);
                    }
                }
            }
            let mut blocks = c;
            Blocks.multiply(&a, &b, &mut blocks);
            assert_eq!(bits(&blocks), bits(&plain));
            #[cfg(target_arch = "x86_64")]
            if let Some(simd) = crate::arch::Arch::new().v4() {
                let mut wide = c;
                Wide(simd).multiply(&a, &b, &mut wide);
                assert_eq!(bits(&wide), bits(&plain));
            }
        }
    }
}
