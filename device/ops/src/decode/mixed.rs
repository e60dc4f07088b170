//! Matrices that are stored differently: how each is, a wave asks a table. It multiplies, and knows no phase.
//!
//! The table has a row for each layer and one for what belongs to none ([`super::Table`]); the row of the layer at work lies in LDS, where a wave
//! looks up the matrix of each of its rows. A load is of as many 16 bytes per lane as the format has for a step; which they are and what they mean
//! is decided by branches that all lanes take alike.

use amdgpu_target::gpu::{
    B64, B128, barrier, fma, item_idx, lane_idx, load, load_offset, store, unpack_bf16, wave_uniform,
};

use super::launch::{Launch, memory};
use super::stream::Rows;
use super::weights::{Shape, Share, Weights, Which};
use super::{CHUNK, LDS_TABLE, TABLE_ENTRY, TABLE_ROW, Table, UNIT, Work};
use crate::format::{Form, Format, Fp8, Int4, Int4Minimum, Int8, Stored};

/// Loads of a step: four of bf16, two of bytes, one of nibbles.
const LOADS: usize = (CHUNK / 256) as usize;

/// Each matrix has a format of its own.
#[derive(Clone, Copy)]
pub struct Mixed;

/// Rows of up to three matrices, counted as if they were one: first the `n` of the first, then `behind` of each other.
#[derive(Clone, Copy)]
pub struct MixedRows {
    /// All weights.
    weights: *const u8,
    /// The first matrix's entry in LDS.
    entry: u32,
    n: u32,
    behind: u32,
    /// The first of this workgroup's rows.
    start: u32,
    /// Where this workgroup's rows go on `skip` rows later.
    split: u32,
    skip: u32,
    rows: u32,
    k: u32,
}

/// A row, and how it is stored.
#[derive(Clone, Copy)]
pub struct MixedRow {
    codes: *const B128,
    scales: *const u16,
    minimums: *const u16,
    form: Form,
}

/// What a lane loads of a step: codes, and what that is. Scales stand where only bf16 has codes.
#[derive(Clone, Copy)]
pub struct MixedChunk {
    codes: [B128; LOADS],
    form: u32,
}

impl MixedRow {
    /// Row `row` of the matrix whose entry is number `entry` in LDS.
    #[inline(always)]
    fn new(weights: *const u8, entry: u32, row: u32, k: u32) -> Self {
        // SAFETY: `persistent`, which alone is made for this, enters a layer before it asks, and a barrier ended that.
        let words = unsafe { load(memory(LDS_TABLE).cast::<B128>(), entry as usize) }.words();
        let [codes, scales, minimums, form] = words.map(wave_uniform);
        let form = Form(form);
        let part = |units: u32, bytes: u32| {
            weights.wrapping_add(units as usize * UNIT as usize).wrapping_add(row as usize * bytes as usize)
        };
        let scale_bytes = form.scale_row_bytes(k);
        Self {
            codes: part(codes, form.row_bytes(k)).cast(),
            scales: part(scales, scale_bytes).cast(),
            minimums: part(minimums, scale_bytes).cast(),
            form,
        }
    }
}

impl MixedRows {
    #[inline(always)]
    fn at(launch: &Launch, entry: u32, Shape { n, k }: Shape, Share { start, rows }: Share) -> Self {
        let (behind, split, skip) = (u32::MAX, u32::MAX, 0);
        Self { weights: launch.weights, entry, n, behind, start, split, skip, rows, k }
    }

    #[inline(always)]
    fn row(&self, row: u32) -> MixedRow {
        let Self { weights, entry, n, behind, start, split, skip, k, .. } = *self;
        let row = start + row + if row >= split { skip } else { 0 };
        let row_behind = row.wrapping_sub(n);
        let third = row_behind >= behind;
        let (which, row) = if row < n {
            (0, row)
        } else if third {
            (2, row_behind - behind)
        } else {
            (1, row_behind)
        };
        MixedRow::new(weights, entry + which, row, k)
    }
}

impl Weights for Mixed {
    type Rows = MixedRows;
    type Embedding = MixedRow;

    #[inline(always)]
    unsafe fn enter(launch: &Launch, layer: u32, work: Work) {
        let words = (TABLE_ENTRY * TABLE_ROW) / 4;
        let table = launch.work.wrapping_add(work.bytes as usize).cast::<u32>();
        // A row of the table, or the one of no layer, behind the other.
        let place =
            memory(LDS_TABLE).cast::<u32>().wrapping_add(if layer == launch.layers { words as usize } else { 0 });
        let item = item_idx();
        if item < words {
            // SAFETY: the table holds `layers` + 1 rows, the layer is among them: point 1.
            let word = unsafe { load(table, (layer * words + item) as usize) };
            // SAFETY: one item each; the LDS has room for two rows.
            unsafe { store(place, item as usize, word) };
        }
        // SAFETY: all waves come here: point 1.
        unsafe { barrier() };
    }

    #[inline(always)]
    fn one(launch: &Launch, which: Which, _: u32, shape: Shape, share: Share) -> MixedRows {
        let entry = match which {
            Which::O => Table::O,
            Which::Down => Table::DOWN,
            Which::Head => TABLE_ROW + Table::HEAD,
        };
        MixedRows::at(launch, entry, shape, share)
    }

    #[inline(always)]
    fn three(launch: &Launch, _: u32, shape: Shape, behind: u32, share: Share) -> MixedRows {
        MixedRows { behind, ..MixedRows::at(launch, Table::Q, shape, share) }
    }

    #[inline(always)]
    fn pair(launch: &Launch, _: u32, shape: Shape, share: Share) -> MixedRows {
        let (split, skip) = (share.rows, shape.n - share.rows);
        let gate = MixedRows::at(launch, Table::GATE, shape, share);
        MixedRows { behind: shape.n, split, skip, rows: 2 * share.rows, ..gate }
    }

    #[inline(always)]
    fn embedding(launch: &Launch, shape: Shape, row: u32) -> MixedRow {
        MixedRow::new(launch.weights, TABLE_ROW + Table::EMBED, row, shape.k)
    }

    #[inline(always)]
    unsafe fn quad(row: MixedRow, quad: u32) -> [f32; 4] {
        let form = row.form;
        let at = quad * 4;
        if form.is_bf16() {
            // SAFETY: point 1 is the caller's.
            let [ab, cd] = unsafe { load(row.codes.cast::<B64>(), quad as usize) }.words().map(unpack_bf16);
            return [ab[0], ab[1], cd[0], cd[1]];
        }
        // One word has the codes of all four: of nibbles the low halves of its bytes or the high ones.
        let offset = if form.is_nibbles() { at / 32 * 16 + at % 16 } else { at };
        // SAFETY: as above.
        let codes = B128::new([unsafe { load_offset(row.codes.cast::<u32>(), offset) }; 4]);
        let [a, b, c, d, ..] = if form.is_nibbles() {
            let [low, high] = if form.is_around_8() {
                [0, 2].map(|p| Int4::piece(codes, p))
            } else {
                [0, 2].map(|p| Int4Minimum::piece(codes, p))
            };
            if at % 32 < 16 { low } else { high }
        } else if form.is_floats() {
            Fp8::piece(codes, 0)
        } else {
            Int8::piece(codes, 0)
        };
        // SAFETY: as above.
        let [factor, minimum] = form.scale(unsafe { form.load_scale(row.scales, row.minimums, at) });
        // What has no minimum gets a zero, which changes no bit but the sign of a zero.
        [a, b, c, d].map(|q| fma(q, factor, minimum))
    }

    #[inline(always)]
    unsafe fn element(row: MixedRow, i: u32) -> f32 {
        // SAFETY: point 1 is the caller's.
        let quad = unsafe { Self::quad(row, i / 4) };
        let pair = if i % 4 < 2 { [quad[0], quad[1]] } else { [quad[2], quad[3]] };
        if i % 2 == 0 { pair[0] } else { pair[1] }
    }
}

impl Rows for MixedRows {
    type Chunk = MixedChunk;
    const LARGE: bool = true;

    #[inline(always)]
    fn nothing() -> MixedChunk {
        MixedChunk { codes: [B128::ZERO; LOADS], form: 0 }
    }

    #[inline(always)]
    fn rows(&self) -> u32 {
        self.rows
    }

    #[inline(always)]
    fn k(&self) -> u32 {
        self.k
    }

    #[inline(always)]
    unsafe fn load(&self, row: u32, start: u32) -> MixedChunk {
        let row = self.row(row);
        let form = row.form;
        let elements_log2 = 3 + form.pieces_log2();
        // One number of the lane serves all loads: each of its own would be kept through all layers.
        let of_lane = lane_idx() << elements_log2;
        let element = |i: u32| {
            let element = start + (i * 32 << elements_log2) + of_lane;
            if element < self.k { element } else { 0 }
        };
        // SAFETY: point 1 is the caller's; the lane's elements lie in the row: K is a multiple of 32.
        let codes = |i: u32| unsafe { load_offset(row.codes, element(i) * 2 >> form.pieces_log2()) };
        // SAFETY: as above.
        let scale = |i: u32| unsafe { form.load_scale(row.scales, row.minimums, element(i)) };
        let codes = if form.is_bf16() {
            [codes(0), codes(1), codes(2), codes(3)]
        } else {
            let (first, its_scale) = (codes(0), scale(0));
            let (second, its) = if form.is_nibbles() { (B128::ZERO, B128::ZERO) } else { (codes(1), scale(1)) };
            [first, second, its_scale, its]
        };
        MixedChunk { codes, form: form.0 }
    }

    #[inline(always)]
    unsafe fn multiply(chunk: MixedChunk, x: *const B128, start: u32, sum: &mut [f32; 2]) {
        let form = Form(chunk.form);
        // SAFETY: point 1 is the caller's.
        unsafe {
            if form.is_bf16() {
                bf16_products(chunk, x, start, sum);
            } else if form.is_nibbles() {
                products::<Int4Minimum, 1>(chunk, x, start, sum);
            } else if form.is_floats() {
                products::<Fp8, 2>(chunk, x, start, sum);
            } else {
                products::<Int8, 2>(chunk, x, start, sum);
            }
        }
    }
}

/// Eight elements of x from piece `place` on.
///
/// # Safety
/// 1. They are in LDS.
#[inline(always)]
unsafe fn eight(x: *const B128, place: u32) -> [[f32; 2]; 4] {
    // SAFETY: point 1 is the caller's.
    unsafe { load(x, place as usize) }.words().map(unpack_bf16)
}

/// # Safety
/// As [`Rows::multiply`].
#[inline(always)]
unsafe fn bf16_products(chunk: MixedChunk, x: *const B128, start: u32, sum: &mut [f32; 2]) {
    for i in 0..LOADS {
        // SAFETY: point 1 is the caller's.
        let x = unsafe { eight(x, (start / 256 + i as u32) * 32 + lane_idx()) };
        let w = chunk.codes[i].words().map(unpack_bf16);
        for e in 0..4 {
            sum[0] = fma(w[e][0], x[e][0], sum[0]);
            sum[1] = fma(w[e][1], x[e][1], sum[1]);
        }
    }
}

/// The products of codes that mean what those of `F` do, of `N` loads; their scales are the chunk's.
///
/// # Safety
/// As [`Rows::multiply`].
#[inline(always)]
unsafe fn products<F: Format, const N: usize>(chunk: MixedChunk, x: *const B128, start: u32, sum: &mut [f32; 2]) {
    const { assert!(N as u32 * 32 * F::ELEMENTS == CHUNK) };
    let form = Form(chunk.form);
    for i in 0..N {
        let place = (start + (i as u32 * 32 + lane_idx()) * F::ELEMENTS) / 8;
        // What stands for 0: exact beside a code.
        let zero = if form.is_around_8() { 8.0 } else { 0.0 };
        let mut products = [0.0; 2];
        for piece in 0..F::PIECES {
            // SAFETY: point 1 is the caller's.
            let x = unsafe { eight(x, place + piece as u32) };
            let w = F::piece(chunk.codes[i], piece);
            let w = if N == 1 { w.map(|w| w - zero) } else { w };
            for e in 0..4 {
                products[0] = fma(w[2 * e], x[e][0], products[0]);
                products[1] = fma(w[2 * e + 1], x[e][1], products[1]);
            }
        }
        let [factor, minimum] = form.scale(chunk.codes[2 + i]);
        for half in 0..2 {
            sum[half] = fma(factor, products[half], sum[half]);
        }
        // Floats never have minimums.
        if F::STORED != Stored::Fp8 && form.has_minimums() {
            let mut all = [0.0; 2];
            for piece in 0..F::PIECES {
                // SAFETY: as above.
                let x = unsafe { eight(x, place + piece as u32) };
                for e in 0..4 {
                    all[0] += x[e][0];
                    all[1] += x[e][1];
                }
            }
            for half in 0..2 {
                sum[half] = fma(minimum, all[half], sum[half]);
            }
        }
    }
}
