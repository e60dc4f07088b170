//! What the phases of a token stand on: a launch's numbers, work memory and grid barrier, the residual stream, norms, and products of
//! this workgroup's rows. Rows of a product belong to the same workgroup in every layer, so its part of the residual stream stays in its
//! LDS; memory has a copy for the others. No phase is here.

use core::marker::PhantomData;

use amdgpu_target::gpu::{
    B64, B128, GridBarrier, Shared, barrier, bf16x4, fma, item_idx, lane_idx, lds, load, load_f32x4, rcp, rsq, store,
    unpack_bf16, wave_idx, wave_sum, wave_uniform, workgroup_x,
};

use super::launch::{Launch, memory};
use super::stream::{Ahead, Rows, Stream};
use super::weights::{Shape, Weights};
use super::{CHUNK, ITEMS, LDS_OWN, LDS_WAVES, WAVES, Work, ceil};

/// Quads of the residual stream that an item holds at most.
const QUADS: usize = (super::MAX_HIDDEN / ITEMS / 4) as usize;

/// Where a norm finds its row.
#[derive(Clone, Copy)]
pub enum Row<E> {
    /// The embedding of a token.
    Embedding(E),
    /// The residual stream in memory.
    Stream,
}

/// A launch at work. `W` is how matrices are stored, `D` head_dim, `NORMED` whether heads have norms.
pub struct Step<W, const D: usize, const NORMED: bool> {
    /// Its arguments.
    pub launch: Launch,
    /// Where what lies in the work memory.
    pub at: Work,
    /// The work memory.
    pub work: Shared,
    /// Between phases.
    pub grid: GridBarrier,
    weights: PhantomData<W>,
}

/// This workgroup's rows of `n`, `each` to a workgroup.
#[inline(always)]
pub fn share(n: u32, each: u32) -> (u32, u32) {
    let start = (workgroup_x() * each).min(n);
    (start, (n - start).min(each))
}

impl<W: Weights, const D: usize, const NORMED: bool> Step<W, D, NORMED> {
    /// # Safety
    /// 1. The launch's pointers and numbers are what `Args` says.
    #[inline(always)]
    pub unsafe fn new(launch: Launch) -> Self {
        if item_idx() == 0 {
            // SAFETY: one item.
            unsafe { launch.leave() };
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
        let at = Self::places(&launch);
        // SAFETY: the work memory is one allocation.
        let work = unsafe { Shared::new(launch.work, at.bytes) };
        // SAFETY: the counter is the barrier's alone and 0; the host launches no more workgroups than run at once.
        let grid = unsafe { GridBarrier::new(work, launch.grid) };
        Self { launch, at, work, grid, weights: PhantomData }
    }

    /// Where what lies in the work memory.
    #[inline(always)]
    fn places(launch: &Launch) -> Work {
        let (q, kv) = (launch.heads * D as u32, launch.kv_heads * D as u32);
        Work::new(launch.hidden, q, kv, launch.intermediate, launch.heads)
    }

    /// Begins a phase: see [`Launch::again`].
    ///
    /// # Safety
    /// 1. All waves come here.
    #[inline(always)]
    pub unsafe fn refresh(&mut self) {
        // SAFETY: `new` left the numbers and passed a barrier.
        self.launch = unsafe { self.launch.again() };
        self.at = Self::places(&self.launch);
    }

    /// The activation in LDS.
    #[inline(always)]
    pub fn x(&self) -> *mut B128 {
        lds::<B128>().wrapping_byte_add(self.launch.lds_x as usize)
    }

    /// A number of each wave's, to all: the LDS is read after a barrier.
    ///
    /// # Safety
    /// 1. All waves come here.
    #[inline(always)]
    unsafe fn sum_of_waves(&self, x: f32) -> f32 {
        let waves = memory(LDS_WAVES);
        if lane_idx() == 0 {
            // SAFETY: each wave its own.
            unsafe { store(waves, wave_idx() as usize, x) };
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
        let mut total = 0.0;
        for quad in 0..WAVES as usize / 4 {
            // SAFETY: written before the barrier.
            let x = unsafe { load_f32x4(waves, quad * 4) };
            total += (x[0] + x[1]) + (x[2] + x[3]);
        }
        total
    }

    /// This item's norm weights, before anybody is waited for.
    ///
    /// # Safety
    /// 1. `w` holds H bf16.
    #[inline(always)]
    pub unsafe fn norm_weights(&self, w: *const u8) -> [B64; QUADS] {
        core::array::from_fn(|j| {
            let quad = item_idx() + j as u32 * ITEMS;
            if quad * 4 < self.launch.hidden {
                // SAFETY: below H.
                unsafe { load(w.cast::<B64>(), quad as usize) }
            } else {
                B64::new([0; 2])
            }
        })
    }

    /// x in LDS = bf16(row / sqrt(mean(row²) + eps) · w), zeros up to a multiple of [`CHUNK`]. Ends with a barrier.
    ///
    /// # Safety
    /// 1. All waves come here; nobody reads x any more.  2. `row` is there: for the stream, after the grid's wait.
    #[inline(always)]
    pub unsafe fn normalise(&self, row: Row<W::Embedding>, w: [B64; QUADS]) {
        let hidden = self.launch.hidden;
        let mut values = [[0.0f32; 4]; QUADS];
        for j in 0..QUADS {
            let quad = item_idx() + j as u32 * ITEMS;
            if quad * 4 < hidden {
                values[j] = match row {
                    // SAFETY: below H.
                    Row::Stream => unsafe { self.work.load_f32x4(self.at.hidden + quad * 16) },
                    // SAFETY: below H.
                    Row::Embedding(row) => unsafe { W::quad(row, quad) },
                };
            }
        }
        let mut sum = [0.0f32; 4];
        for j in 0..QUADS {
            for e in 0..4 {
                sum[e] = fma(values[j][e], values[j][e], sum[e]);
            }
        }
        let sum = wave_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
        // SAFETY: all waves come here.
        let total = unsafe { self.sum_of_waves(sum) };
        let scale = rsq(fma(total, rcp(hidden as f32), self.launch.eps));
        for j in 0..QUADS {
            let value = values[j];
            let quad = item_idx() + j as u32 * ITEMS;
            if quad * 4 < hidden.next_multiple_of(CHUNK) {
                let [ab, cd] = w[j].words().map(unpack_bf16);
                let y = [
                    value[0] * scale * ab[0],
                    value[1] * scale * ab[1],
                    value[2] * scale * cd[0],
                    value[3] * scale * cd[1],
                ];
                // SAFETY: the launch gives x for H rounded up; past H value and weight are 0.
                unsafe { store(self.x().cast::<B64>(), quad as usize, bf16x4(y)) };
            }
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// Streams `stream` over x into the sums in LDS. Ends with a barrier.
    ///
    /// # Safety
    /// 1. All waves come here; x is there; `ahead` is this stream's.
    #[inline(always)]
    pub unsafe fn multiply<R: Rows>(&self, stream: &Stream<R>, ahead: Ahead<R::Chunk>) {
        let sums = memory(self.launch.lds_sums);
        let (log2, part) = (stream.parts_log2, stream.part);
        // SAFETY: the caller's.
        unsafe {
            stream.run(ahead, self.x(), |row, sum| {
                if lane_idx() == 0 {
                    store(sums, ((row << log2) + part) as usize, sum);
                }
            });
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// The sum of a row's parts.
    ///
    /// # Safety
    /// 1. After [`Step::multiply`]; the row was one of its.
    #[inline(always)]
    pub unsafe fn row_sum(&self, row: u32, parts_log2: u32) -> f32 {
        let sums = memory(self.launch.lds_sums);
        let mut total = 0.0;
        let mut part = 0;
        while part < 1 << parts_log2 {
            // SAFETY: written before the barrier.
            total += unsafe { load(sums, ((row << parts_log2) + part) as usize) };
            part += 1;
        }
        total
    }

    /// This workgroup's rows of the residual stream.
    #[inline(always)]
    pub fn own_rows(&self) -> (u32, u32) {
        share(self.launch.hidden, ceil(self.launch.hidden, self.launch.grid))
    }

    /// Fetches this workgroup's part of the residual stream into LDS.
    ///
    /// # Safety
    /// 1. All waves come here; `row` is there.
    #[inline(always)]
    pub unsafe fn fetch_own(&self, row: Row<W::Embedding>) {
        let (start, rows) = self.own_rows();
        let mut i = item_idx();
        while i < rows {
            let value = match row {
                // SAFETY: below H.
                Row::Stream => f32::from_bits(unsafe { self.work.load_b32(self.at.hidden + (start + i) * 4) }),
                // SAFETY: below H.
                Row::Embedding(row) => unsafe { W::element(row, start + i) },
            };
            // SAFETY: the launch gives a number per row.
            unsafe { store(memory(LDS_OWN), i as usize, value) };
            i += ITEMS;
        }
    }

    /// A state's word, as it was when the launch began.
    ///
    /// # Safety
    /// 1. `word` is one of the state's, and nobody writes it meanwhile.
    #[inline(always)]
    pub unsafe fn state(&self, word: u32) -> u32 {
        let state = self.launch.work.wrapping_add(Work::STATE as usize).cast::<u32>();
        // SAFETY: the caller's.
        wave_uniform(unsafe { load(state, word as usize) })
    }

    /// Where the next token stands, and which it is.
    ///
    /// # Safety
    /// 1. One item of the launch calls it, after all have read the state.
    #[inline(always)]
    pub unsafe fn set_state(&self, position: u32, id: u32) {
        let state = self.launch.work.wrapping_add(Work::STATE as usize).cast::<u32>();
        // SAFETY: the caller's.
        unsafe {
            store(state, 0, position);
            store(state, 1, id);
        }
    }

    /// The row of the embedding.
    #[inline(always)]
    pub fn embedding(&self, id: u32) -> Row<W::Embedding> {
        let shape = Shape { n: self.launch.vocab, k: self.launch.hidden };
        Row::Embedding(W::embedding(&self.launch, shape, id))
    }
}
