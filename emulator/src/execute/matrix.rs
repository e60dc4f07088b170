//! WMMA and SWMMAC: a 16×16 tile D = A·B + C spread over the wave. Which lane and register holds which element follows AMD's matrix
//! instruction calculator; EXEC does not matter. Floats are summed here in f32 with fused steps in increasing k, starting from C (products
//! of f16, bf16 and fp8 are exact in f32), which is fast and differs from the machine in the last bits; [`super::matrix_sums`] has the
//! machine's own sums, for every mode but that of a launch and for 16-bit results. Integers are exact: the sum of products is added to C
//! once, wrapping, or saturating with clamp.

use super::convert::f16_to_f32;
use super::fp8;
use super::packed::modified_c;
use crate::isa::{Inst, Src};
use crate::wave::{Cx, Flow, Lanes, Step};
use std::cell::RefCell;
use std::marker::PhantomData;

/// Rows and columns of a tile, and lanes of half a wave.
pub(super) const N: usize = 16;

/// The vector file.
type Vgprs = [Lanes; 256];
/// One operand by k: element `[k][n]` is A's row n or B's column n.
pub(super) type Operand<T, const K: usize> = [[T; N]; K];
/// C or D by rows.
pub(super) type Tile<T> = [[T; N]; N];

pub(super) fn number(src: Src) -> u8 {
    if let Src::Vgpr(first) = src { first } else { 0 }
}

/// Reads an operand of `bits`-bit elements: a lane of half h holds, in element s from its low bits on, the k that `k(h, s)` says.
#[inline(always)]
pub(super) fn operand<T: Copy, const K: usize>(
    vgpr: &Vgprs,
    first: u8,
    bits: usize,
    zero: T,
    k: impl Fn(usize, usize) -> usize,
    convert: impl Fn(u32, usize) -> T,
) -> Operand<T, K> {
    let mut out = [[zero; N]; K];
    read_operand(&mut out, vgpr, first, bits, k, convert);
    out
}

/// [`operand`] to where there is room already.
#[inline(always)]
fn read_operand<T: Copy, const K: usize>(
    out: &mut Operand<T, K>,
    vgpr: &Vgprs,
    first: u8,
    bits: usize,
    k: impl Fn(usize, usize) -> usize,
    convert: impl Fn(u32, usize) -> T,
) {
    for s in 0..K / 2 {
        let lanes = &vgpr[first.wrapping_add((s * bits / 32) as u8) as usize];
        for half in 0..2 {
            let row = &mut out[k(half, s)];
            for n in 0..N {
                row[n] = convert(lanes[half * N + n] >> (s * bits % 32), s);
            }
        }
    }
}

// Positions of k: of a dense operand with 16-bit elements, of any other dense one, and of B beside a sparse A.
#[inline(always)]
pub(super) fn k_dense16(half: usize, s: usize) -> usize {
    8 * (s / 4) + 4 * half + s % 4
}
#[inline(always)]
pub(super) fn k_linear<const K: usize>(half: usize, s: usize) -> usize {
    K / 2 * half + s
}
#[inline(always)]
pub(super) fn k_sparse_b16(half: usize, s: usize) -> usize {
    16 * (s / 8) + 8 * half + s % 8
}

/// The sign bits of neg_lo (even elements) and neg_hi (odd ones) for 16-bit elements of source n.
#[inline(always)]
pub(super) fn signs(inst: &Inst, n: usize) -> [u32; 2] {
    [(inst.mods.neg as u32 >> n & 1) << 15, (inst.mods.abs as u32 >> n & 1) << 15]
}

/// 16-bit float formats.
trait Half {
    fn to_f32(bits: u32) -> f32;
}
struct F16;
impl Half for F16 {
    #[inline(always)]
    fn to_f32(bits: u32) -> f32 {
        f16_to_f32(bits)
    }
}
struct Bf16;
impl Half for Bf16 {
    #[inline(always)]
    fn to_f32(bits: u32) -> f32 {
        f32::from_bits(bits << 16)
    }
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
fn operand8<const K: usize>(cx: &Cx, first: u8, bf8: bool) -> Operand<f32, K> {
    let table = fp8::table(bf8);
    operand(&cx.wave.vgpr, first, 8, 0.0, k_linear::<K>, |bits, _| table[(bits & 0xff) as usize])
}

#[inline(always)]
fn integers<const K: usize>(cx: &Cx, inst: &Inst, n: usize, bits: usize) -> Operand<i32, K> {
    let signed = inst.mods.neg >> n & 1 != 0;
    let unused = 32 - bits as u32;
    operand(&cx.wave.vgpr, number(inst.src[n]), bits, 0, k_linear::<K>, |raw, _| {
        if signed { (raw << unused) as i32 >> unused } else { (raw << unused >> unused) as i32 }
    })
}

/// C or D in 32-bit elements: row 8h + e lies in register e of half h.
#[inline(always)]
pub(super) fn tile32(cx: &Cx, src: Src) -> Tile<u32> {
    let mut tile = [[0; N]; N];
    for (row, out) in tile.iter_mut().enumerate() {
        match src {
            Src::Vgpr(first) => {
                let lanes = &cx.wave.vgpr[first.wrapping_add(row as u8 % 8) as usize];
                out.copy_from_slice(&lanes[row / 8 * N..][..N]);
            }
            other => *out = [cx.wave.scalar(other); N],
        }
    }
    tile
}

#[inline(always)]
pub(super) fn put32(cx: &mut Cx, dst: u8, tile: &Tile<u32>) -> Step {
    write32(&mut cx.wave.vgpr, dst, tile);
    Ok(Flow::Next)
}

#[inline(always)]
fn write32(vgpr: &mut Vgprs, dst: u8, tile: &Tile<u32>) {
    for (row, values) in tile.iter().enumerate() {
        let lanes = &mut vgpr[dst.wrapping_add(row as u8 % 8) as usize];
        lanes[row / 8 * N..][..N].copy_from_slice(values);
    }
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

#[inline(always)]
fn half_to_f32<H: Half>(cx: &mut Cx, inst: &Inst) -> Step {
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

/// `v_wmma_f32_16x16x16_f16`.
pub fn f32_f16(cx: &mut Cx, inst: &Inst) -> Step {
    half_to_f32::<F16>(cx, inst)
}

/// `v_wmma_f32_16x16x16_bf16`.
pub fn f32_bf16(cx: &mut Cx, inst: &Inst) -> Step {
    half_to_f32::<Bf16>(cx, inst)
}

/// `v_wmma_f32_16x16x16` of fp8 (false) and bf8 (true) operands.
pub fn f32_fp8(cx: &mut Cx, inst: &Inst, bf8: [bool; 2]) -> Step {
    let mut c = c_f32(cx, inst);
    let [a, b] = [0, 1].map(|n| operand8::<16>(cx, number(inst.src[n]), bf8[n]));
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

/// One kept element of a sparse A: for each row, its value's place in the operand and the k it stands for.
pub(super) struct Kept<const S: usize> {
    /// Slot of the compressed operand, as `operand` with a linear k has them: S/2 of half 0, then S/2 of half 1.
    pub(super) slot: [usize; S],
    /// `[slot position][row]`: k.
    pub(super) k: [[u8; N]; S],
}

/// Reads the index register: of each four k, element pairs keep the two that two bits each say. `base(h, i)` is the first k of pair i of
/// a lane of half h. Slots come in increasing k.
pub(super) fn kept<const S: usize>(cx: &Cx, inst: &Inst, base: impl Fn(usize, usize) -> usize) -> Kept<S> {
    let index = &cx.wave.vgpr[number(inst.src[2]) as usize];
    let shift = if inst.mods.opsel & 1 != 0 { 16 } else { 0 };
    let mut order: Vec<(usize, usize, usize)> = (0..2)
        .flat_map(|half| (0..S / 2).map(move |s| (half, s)))
        .map(|(half, s)| (base(half, s / 2), half, s))
        .collect();
    order.sort_by_key(|&(first, _, s)| (first, s));
    let mut out = Kept { slot: [0; S], k: [[0; N]; S] };
    for (position, (first, half, s)) in order.into_iter().enumerate() {
        out.slot[position] = half * S / 2 + s;
        for n in 0..N {
            out.k[position][n] = (first as u32 + (index[half * N + n] >> (shift + 2 * s) & 3)) as u8;
        }
    }
    out
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

/// First k of pair i of half h: 16-bit elements, and the others with K in all.
pub(super) fn base16(half: usize, i: usize) -> usize {
    16 * (i / 2) + 8 * half + 4 * (i % 2)
}
pub(super) fn base_linear<const K: usize>(half: usize, i: usize) -> usize {
    K / 2 * half + 4 * i
}

#[inline(always)]
fn sparse_half<H: Half>(cx: &mut Cx, inst: &Inst) -> Step {
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

/// `v_swmmac_f32_16x16x32_f16`.
pub fn sparse_f32_f16(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_half::<F16>(cx, inst)
}

/// `v_swmmac_f32_16x16x32_bf16`.
pub fn sparse_f32_bf16(cx: &mut Cx, inst: &Inst) -> Step {
    sparse_half::<Bf16>(cx, inst)
}

/// `v_swmmac_f32_16x16x32` of fp8 (false) and bf8 (true) operands.
pub fn sparse_f32_fp8(cx: &mut Cx, inst: &Inst, bf8: [bool; 2]) -> Step {
    let mut c = destination32(cx, inst);
    let kept = kept::<16>(cx, inst, base_linear::<32>);
    let a = operand8::<16>(cx, number(inst.src[0]), bf8[0]);
    let b = operand8::<32>(cx, number(inst.src[1]), bf8[1]);
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
