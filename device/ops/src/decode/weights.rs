//! How the matrices of a model are stored, as the phases see it: here all alike, as bf16, one behind the other without a gap, or each as the object
//! of its format; in `mixed.rs` each in a way of its own. It multiplies, and knows no phase.

use core::marker::PhantomData;

use amdgpu_target::bf16_to_f32;
use amdgpu_target::gpu::{B64, B128, fma, lane_idx, load, load_offset, unpack_bf16};

use super::launch::Launch;
use super::stream::Rows;
use super::{CHUNK, Work};
use crate::format::{Format, Matrix, PART, Row, Scale};

/// Shape of a matrix.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Rows.
    pub n: u32,
    /// K.
    pub k: u32,
}

/// A matrix that is multiplied alone.
#[derive(Clone, Copy)]
pub enum Which {
    /// o_proj.
    O,
    /// down_proj.
    Down,
    /// lm_head, of no layer.
    Head,
}

impl Which {
    /// Its offset among the launch's numbers.
    #[inline(always)]
    fn offset(self, launch: &Launch) -> u32 {
        match self {
            Self::O => launch.o,
            Self::Down => launch.down,
            Self::Head => launch.head,
        }
    }
}

/// Which of the rows of one or more matrices are this workgroup's.
#[derive(Clone, Copy)]
pub struct Share {
    /// First.
    pub start: u32,
    /// How many.
    pub rows: u32,
}

/// A way of storing all matrices.
pub trait Weights: Copy {
    /// A workgroup's rows.
    type Rows: Rows;
    /// A row of the embedding.
    type Embedding: Copy;

    /// Makes a layer's matrices known, of `launch.layers` those of no layer: before any of them is asked for, and when nobody asks for another's.
    ///
    /// # Safety
    /// 1. All waves come here, and the launch is what `Args` says, its work memory laid out as `work`; `layer` is at most `launch.layers`.
    /// 2. Loads of the layer before are done.
    #[inline(always)]
    unsafe fn enter(_launch: &Launch, _layer: u32, _work: Work) {}

    /// Rows of one matrix of a layer.
    fn one(launch: &Launch, which: Which, layer: u32, shape: Shape, share: Share) -> Self::Rows;

    /// Rows of a layer's q, k and v as if they were one matrix: q of `shape`, two of `behind` rows each.
    fn three(launch: &Launch, layer: u32, shape: Shape, behind: u32, share: Share) -> Self::Rows;

    /// The same rows of a layer's gate and up: first all of gate, then all of up.
    fn pair(launch: &Launch, layer: u32, shape: Shape, share: Share) -> Self::Rows;

    /// Row `row` of the embedding, after its [`Weights::enter`]. Reads no memory.
    fn embedding(launch: &Launch, shape: Shape, row: u32) -> Self::Embedding;

    /// Elements 4·`quad` to 4·`quad` + 3.
    ///
    /// # Safety
    /// 1. The row is there, and these elements are below K.
    unsafe fn quad(row: Self::Embedding, quad: u32) -> [f32; 4];

    /// Element `i`.
    ///
    /// # Safety
    /// 1. The row is there, and `i` is below K.
    unsafe fn element(row: Self::Embedding, i: u32) -> f32;
}

/// All matrices are bf16.
#[derive(Clone, Copy)]
pub struct Plain;

/// Rows of bf16.
#[derive(Clone, Copy)]
pub struct PlainRows {
    /// First row.
    base: *const u8,
    /// How many.
    rows: u32,
    /// K.
    k: u32,
    /// Rows from this one on lie `jump` bytes further.
    split: u32,
    /// See `split`.
    jump: usize,
}

impl Weights for Plain {
    type Rows = PlainRows;
    type Embedding = *const u16;

    #[inline(always)]
    fn one(launch: &Launch, which: Which, layer: u32, shape: Shape, share: Share) -> PlainRows {
        PlainRows::at(launch.tensor(which.offset(launch), layer), shape, share)
    }

    #[inline(always)]
    fn three(launch: &Launch, layer: u32, shape: Shape, _: u32, share: Share) -> PlainRows {
        PlainRows::at(launch.tensor(launch.qkv, layer), shape, share)
    }

    #[inline(always)]
    fn pair(launch: &Launch, layer: u32, shape: Shape, Share { start, rows }: Share) -> PlainRows {
        let row_bytes = shape.k as usize * 2;
        let gate = launch.tensor(launch.gate, layer).wrapping_add(start as usize * row_bytes);
        let up = launch.tensor(launch.up, layer).wrapping_add(start as usize * row_bytes);
        // Row `rows` + i is row i of up.
        let jump = (up as usize).wrapping_sub(gate as usize).wrapping_sub(rows as usize * row_bytes);
        PlainRows { base: gate, rows: 2 * rows, k: shape.k, split: rows, jump }
    }

    #[inline(always)]
    fn embedding(launch: &Launch, shape: Shape, row: u32) -> *const u16 {
        launch.tensor(launch.embed, 0).wrapping_add(row as usize * (shape.k as usize * 2)).cast()
    }

    #[inline(always)]
    unsafe fn quad(row: *const u16, quad: u32) -> [f32; 4] {
        // SAFETY: point 1 is the caller's.
        let [ab, cd] = unsafe { load(row.cast::<B64>(), quad as usize) }.words().map(unpack_bf16);
        [ab[0], ab[1], cd[0], cd[1]]
    }

    #[inline(always)]
    unsafe fn element(row: *const u16, i: u32) -> f32 {
        // SAFETY: point 1 is the caller's.
        bf16_to_f32(unsafe { load(row, i as usize) })
    }
}

impl PlainRows {
    /// Rows of a matrix that begins at `base`.
    #[inline(always)]
    fn at(base: *const u8, shape: Shape, share: Share) -> Self {
        let base = base.wrapping_add(share.start as usize * (shape.k as usize * 2));
        Self { base, rows: share.rows, k: shape.k, split: u32::MAX, jump: 0 }
    }
}

impl Rows for PlainRows {
    /// 32 elements.
    type Chunk = [B128; 4];
    const LARGE: bool = false;

    #[inline(always)]
    fn nothing() -> [B128; 4] {
        [B128::ZERO; 4]
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
    unsafe fn load(&self, row: u32, start: u32) -> [B128; 4] {
        let jump = if row >= self.split { self.jump } else { 0 };
        let row = self.base.wrapping_add(row as usize * (self.k as usize * 2) + jump);
        core::array::from_fn(|i| {
            let element = start + i as u32 * 256 + lane_idx() * 8;
            let offset = if element < self.k { element * 2 } else { 0 };
            // SAFETY: the lane's 8 elements lie in the row: K is a multiple of 8.
            unsafe { load_offset(row.cast::<B128>(), offset) }
        })
    }

    #[inline(always)]
    unsafe fn multiply(chunk: [B128; 4], x: *const B128, start: u32, sum: &mut [f32; 2]) {
        for i in 0..4 {
            let place = (start / 256 + i as u32) * 32 + lane_idx();
            // SAFETY: point 1 is the caller's.
            let x = unsafe { load(x, place as usize) }.words().map(unpack_bf16);
            let w = chunk[i].words().map(unpack_bf16);
            for e in 0..4 {
                sum[0] = fma(w[e][0], x[e][0], sum[0]);
                sum[1] = fma(w[e][1], x[e][1], sum[1]);
            }
        }
    }
}

/// All matrices are stored in format `F`.
#[derive(Clone, Copy)]
pub struct Encoded<F>(PhantomData<F>);

/// Rows of up to three matrices of format `F`, counted as if they were one: first the `n` of the first, then `behind` of each other.
#[derive(Clone, Copy)]
pub struct EncodedRows<F> {
    /// The first matrix's object.
    base: *const u8,
    /// The second's, in [`PART`]s from the first; the third lies behind it.
    jump: u32,
    n: u32,
    behind: u32,
    /// The first of this workgroup's rows.
    start: u32,
    /// Where this workgroup's rows go on `skip` rows later.
    split: u32,
    skip: u32,
    rows: u32,
    k: u32,
    group_log2: u32,
    format: PhantomData<F>,
}

/// A row of a matrix whose addresses are made where it is read: they would take scalar registers through all layers.
#[derive(Clone, Copy)]
pub struct EncodedRow<F> {
    base: *const u8,
    shape: Shape,
    group_log2: u32,
    row: u32,
    format: PhantomData<F>,
}

/// What a lane loads of a step: up to two loads of codes, the scales of their groups, and the row's.
#[derive(Clone, Copy)]
pub struct EncodedChunk {
    codes: [B128; 2],
    groups: [Scale; 2],
    row: f32,
}

impl<F: Format> EncodedRows<F> {
    /// Loads of a step: 2 or 1.
    const LOADS: usize = (CHUNK / (32 * F::ELEMENTS)) as usize;

    /// Rows of one matrix that begins at `base`.
    #[inline(always)]
    fn at(launch: &Launch, base: *const u8, Shape { n, k }: Shape, Share { start, rows }: Share) -> Self {
        let group_log2 = launch.group_log2;
        let (jump, behind, split, skip) = (0, u32::MAX, u32::MAX, 0);
        Self { base, jump, n, behind, start, split, skip, rows, k, group_log2, format: PhantomData }
    }

    /// Parts of a matrix of `n` rows.
    #[inline(always)]
    fn parts(n: u32, k: u32, group_log2: u32) -> u32 {
        F::STORED.parts(n, k, group_log2)[2].div_ceil(PART) as u32
    }

    #[inline(always)]
    fn row(&self, row: u32) -> Row<F> {
        // All of it by value: a choice between two places would keep the whole of `self` in memory.
        let Self { base, jump, n, behind, start, split, skip, k, group_log2, .. } = *self;
        let row = start + row + if row >= split { skip } else { 0 };
        let first = row < n;
        let row_behind = row.wrapping_sub(n);
        let third = row_behind >= behind;
        let jump = jump + if third { Self::parts(behind, k, group_log2) } else { 0 };
        let row_behind = row_behind.wrapping_sub(if third { behind } else { 0 });
        let object = base.wrapping_add(if first { 0 } else { jump as usize * PART as usize });
        let n = if first { n } else { behind };
        Matrix::object(object, n, k, group_log2).row(if first { row } else { row_behind })
    }
}

impl<F: Format> Weights for Encoded<F> {
    type Rows = EncodedRows<F>;
    type Embedding = EncodedRow<F>;

    #[inline(always)]
    fn one(launch: &Launch, which: Which, layer: u32, shape: Shape, share: Share) -> EncodedRows<F> {
        EncodedRows::at(launch, launch.tensor(which.offset(launch), layer), shape, share)
    }

    #[inline(always)]
    fn three(launch: &Launch, layer: u32, shape: Shape, behind: u32, share: Share) -> EncodedRows<F> {
        let jump = EncodedRows::<F>::parts(shape.n, shape.k, launch.group_log2);
        EncodedRows { jump, behind, ..EncodedRows::at(launch, launch.tensor(launch.qkv, layer), shape, share) }
    }

    #[inline(always)]
    fn pair(launch: &Launch, layer: u32, shape: Shape, share: Share) -> EncodedRows<F> {
        let (gate, up) = (launch.tensor(launch.gate, layer), launch.tensor(launch.up, layer));
        // Up lies behind gate, both at multiples of a part, at most a terabyte apart.
        let jump = ((up as usize).wrapping_sub(gate as usize) / PART as usize) as u32;
        let (split, skip) = (share.rows, shape.n - share.rows);
        let gate = EncodedRows::at(launch, gate, shape, share);
        EncodedRows { jump, behind: shape.n, split, skip, rows: 2 * share.rows, ..gate }
    }

    #[inline(always)]
    fn embedding(launch: &Launch, shape: Shape, row: u32) -> EncodedRow<F> {
        let (base, group_log2) = (launch.tensor(launch.embed, 0), launch.group_log2);
        EncodedRow { base, shape, group_log2, row, format: PhantomData }
    }

    #[inline(always)]
    unsafe fn quad(EncodedRow { base, shape, group_log2, row, .. }: EncodedRow<F>, quad: u32) -> [f32; 4] {
        let row = Matrix::<F>::object(base, shape.n, shape.k, group_log2).row(row);
        // SAFETY: point 1 is the caller's; K is a multiple of 8.
        let [a, b, c, d, e, f, g, h] = unsafe { row.elements(quad / 2 * 8) };
        if quad % 2 == 0 { [a, b, c, d] } else { [e, f, g, h] }
    }

    #[inline(always)]
    unsafe fn element(row: EncodedRow<F>, i: u32) -> f32 {
        // SAFETY: point 1 is the caller's.
        let quad = unsafe { Self::quad(row, i / 4) };
        let pair = if i % 4 < 2 { [quad[0], quad[1]] } else { [quad[2], quad[3]] };
        if i % 2 == 0 { pair[0] } else { pair[1] }
    }
}

impl<F: Format> Rows for EncodedRows<F> {
    type Chunk = EncodedChunk;
    const LARGE: bool = false;

    #[inline(always)]
    fn nothing() -> EncodedChunk {
        EncodedChunk { codes: [B128::ZERO; 2], groups: [Scale::NONE; 2], row: 0.0 }
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
    unsafe fn load(&self, row: u32, start: u32) -> EncodedChunk {
        let row = self.row(row);
        let mut chunk = Self::nothing();
        for i in 0..Self::LOADS {
            let element = start + (i as u32 * 32 + lane_idx()) * F::ELEMENTS;
            let element = if element < self.k { element } else { 0 };
            // SAFETY: point 1 is the caller's; the lane's elements lie in the row: K is a multiple of 32.
            chunk.codes[i] = unsafe { row.codes(element) };
            // SAFETY: as above.
            chunk.groups[i] = unsafe { row.group(element) };
        }
        if F::ROW_SCALES {
            // SAFETY: as above.
            chunk.row = unsafe { row.scale() };
        }
        chunk
    }

    #[inline(always)]
    unsafe fn multiply(chunk: EncodedChunk, x: *const B128, start: u32, sum: &mut [f32; 2]) {
        let mut of_row = [0.0; 2];
        for i in 0..Self::LOADS {
            let place = (start + (i as u32 * 32 + lane_idx()) * F::ELEMENTS) / 8;
            let (mut products, mut all) = ([0.0; 2], 0.0);
            for piece in 0..F::PIECES {
                // SAFETY: point 1 is the caller's.
                let x = unsafe { load(x, place as usize + piece) }.words().map(unpack_bf16);
                let w = F::piece(chunk.codes[i], piece);
                for e in 0..4 {
                    products[0] = fma(w[2 * e], x[e][0], products[0]);
                    products[1] = fma(w[2 * e + 1], x[e][1], products[1]);
                    if F::MINIMUMS {
                        all += x[e][0] + x[e][1];
                    }
                }
            }
            for half in 0..2 {
                if F::GROUPS {
                    sum[half] = fma(chunk.groups[i].factor(), products[half], sum[half]);
                } else {
                    of_row[half] += products[half];
                }
            }
            if F::MINIMUMS {
                sum[0] = fma(chunk.groups[i].minimum(), all, sum[0]);
            }
        }
        if F::ROW_SCALES {
            for half in 0..2 {
                sum[half] = fma(chunk.row, of_row[half], sum[half]);
            }
        }
    }
}
