//! How a wave's registers hold the tiles of WMMA and SWMMAC, 16×16 elements of C and D and 16 by K of A and B: which lane, register and
//! place in it has which row and k, and which products a sparse A keeps. It follows AMD's matrix instruction calculator; EXEC does not
//! matter. Nothing is multiplied here.

use crate::isa::{Inst, Src};
use crate::wave::{Cx, Flow, Lanes, Step};

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
pub(super) fn read_operand<T: Copy, const K: usize>(
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
pub(super) fn write32(vgpr: &mut Vgprs, dst: u8, tile: &Tile<u32>) {
    for (row, values) in tile.iter().enumerate() {
        let lanes = &mut vgpr[dst.wrapping_add(row as u8 % 8) as usize];
        lanes[row / 8 * N..][..N].copy_from_slice(values);
    }
}

/// C or D in 16-bit elements: rows 8h + 2v and 8h + 2v + 1 lie in register v of half h.
pub(super) fn tile16(cx: &Cx, src: Src) -> Tile<u32> {
    std::array::from_fn(|row| {
        let lanes = match src {
            Src::Vgpr(first) => cx.wave.vgpr[first.wrapping_add((row % 8 / 2) as u8) as usize],
            other => [cx.wave.scalar(other); 32],
        };
        std::array::from_fn(|n| lanes[row / 8 * N + n] >> (16 * (row % 2)) & 0xffff)
    })
}

pub(super) fn put16(cx: &mut Cx, dst: u8, tile: &Tile<u32>) -> Step {
    for v in 0..4 {
        let lanes = &mut cx.wave.vgpr[dst.wrapping_add(v as u8) as usize];
        for (lane, out) in lanes.iter_mut().enumerate() {
            let row = 8 * (lane / N) + 2 * v;
            *out = tile[row][lane % N] | tile[row + 1][lane % N] << 16;
        }
    }
    Ok(Flow::Next)
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

/// First k of pair i of half h: 16-bit elements, and the others with K in all.
pub(super) fn base16(half: usize, i: usize) -> usize {
    16 * (i / 2) + 8 * half + 4 * (i % 2)
}
pub(super) fn base_linear<const K: usize>(half: usize, i: usize) -> usize {
    K / 2 * half + 4 * i
}
