//! A workgroup's rows of a matrix times one vector: every wave streams its rows, several 16-byte loads per lane ahead, the first of them
//! before the vector is there. The vector lies in LDS; what becomes of each row's sum is the caller's.

use amdgpu_target::gpu::{B128, fma, lane_idx, load as load_at, load_offset, unpack_bf16, wave_idx, wave_sum};

use super::{CHUNK, WAVES, parts_log2};

/// One step of a wave: 1024 elements of one row, 32 per lane.
type Chunk = [B128; 4];
/// Steps loaded ahead.
const AHEAD: usize = 3;

/// Rows of one or two matrices `[N, K]` bf16 that a workgroup multiplies with one vector.
#[derive(Clone, Copy)]
pub struct Rows {
    /// First row.
    pub base: *const u8,
    /// How many.
    pub rows: u32,
    /// K.
    pub k: u32,
    /// Rows from this one on lie `jump` bytes further.
    pub split: u32,
    /// See `split`.
    pub jump: usize,
}

/// One wave's share of [`Rows`]: every `2^parts_log2` waves share a row, each with every so manieth chunk.
pub struct Stream {
    rows: Rows,
    chunks: u32,
    /// Waves that share a row.
    parts: u32,
    /// log2 of it.
    pub parts_log2: u32,
    /// Which of them this is.
    pub part: u32,
    first: u32,
    /// From a row of this wave to its next.
    every: u32,
    /// Steps of this wave.
    steps: u32,
}

/// Which step.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    chunk: u32,
}

/// The first steps' weights, on their way.
pub struct Ahead {
    chunks: [Chunk; AHEAD],
    next: Place,
}

impl Stream {
    /// This wave's share, where waves may share a row.
    #[inline(always)]
    pub fn new(rows: Rows) -> Self {
        Self::with_parts(rows, parts_log2(rows.rows, rows.k))
    }

    /// This wave's share, each row one wave's.
    #[inline(always)]
    pub fn whole_rows(rows: Rows) -> Self {
        Self::with_parts(rows, 0)
    }

    #[inline(always)]
    fn with_parts(rows: Rows, parts_log2: u32) -> Self {
        let chunks = rows.k.div_ceil(CHUNK);
        let parts = 1 << parts_log2;
        let part = wave_idx() & (parts - 1);
        let first = wave_idx() >> parts_log2;
        let every = WAVES >> parts_log2;
        let own_rows =
            if first < rows.rows { (rows.rows - first + every - 1) >> (WAVES.ilog2() - parts_log2) } else { 0 };
        let own_chunks = (chunks - part + parts - 1) >> parts_log2;
        Self { rows, chunks, parts, parts_log2, part, first, every, steps: own_rows * own_chunks }
    }

    #[inline(always)]
    fn advance(&self, place: &mut Place) {
        place.chunk += self.parts;
        if place.chunk >= self.chunks {
            place.chunk = self.part;
            place.row += self.every;
        }
    }

    /// # Safety
    /// 1. `place` is one of this wave's steps, and `rows` describes memory that is there.
    #[inline(always)]
    unsafe fn load(&self, place: Place) -> Chunk {
        let jump = if place.row >= self.rows.split { self.rows.jump } else { 0 };
        let start = place.chunk * CHUNK;
        let row = self.rows.base.wrapping_add(place.row as usize * (self.rows.k as usize * 2) + jump);
        core::array::from_fn(|i| {
            // What lies past K is multiplied with zeros; in its place the row's own start is read, which is finite if the row is.
            let element = start + i as u32 * 256 + lane_idx() * 8;
            let offset = if element < self.rows.k { element * 2 } else { 0 };
            // SAFETY: the lane's 8 elements lie in the row: K is a multiple of 8.
            unsafe { load_offset(row.cast::<B128>(), offset) }
        })
    }

    /// Starts loading the first steps.
    ///
    /// # Safety
    /// 1. [`Rows`] describes memory that is there, 16-byte aligned, K a multiple of 64.
    #[inline(always)]
    pub unsafe fn prefetch(&self) -> Ahead {
        let mut next = Place { row: self.first, chunk: self.part };
        let mut chunks = [[B128::new([0; 4]); 4]; AHEAD];
        for i in 0..AHEAD {
            if (i as u32) < self.steps {
                // SAFETY: a step of this wave.
                chunks[i] = unsafe { self.load(next) };
                self.advance(&mut next);
            }
        }
        Ahead { chunks, next }
    }

    /// Calls `sink(row, sum)` for each row and part of this wave, the sum in every lane. `x` is the vector in LDS, bf16, zeros from K to a
    /// multiple of 1024.
    ///
    /// # Safety
    /// 1. As [`Stream::prefetch`], whose result on this value `ahead` is.  2. `x` holds what is said above, and nobody writes it.
    /// 3. All lanes are live.
    #[inline(always)]
    pub unsafe fn run(&self, ahead: Ahead, x: *const B128, mut sink: impl FnMut(u32, f32)) {
        let Ahead { chunks: [mut a, mut b, mut c], mut next } = ahead;
        let mut at = Place { row: self.first, chunk: self.part };
        let mut sum = [0.0f32; 2];
        let mut step = |chunk: Chunk| {
            for i in 0..4 {
                let place = (at.chunk * 4 + i as u32) * 32 + lane_idx();
                // SAFETY: point 2; `at` is a step of this wave, so the chunk is below K rounded up.
                let x = unsafe { load_at(x, place as usize) }.words().map(unpack_bf16);
                let w = chunk[i].words().map(unpack_bf16);
                for e in 0..4 {
                    sum[0] = fma(w[e][0], x[e][0], sum[0]);
                    sum[1] = fma(w[e][1], x[e][1], sum[1]);
                }
            }
            if at.chunk + self.parts >= self.chunks {
                sink(at.row, wave_sum(sum[0] + sum[1]));
                sum = [0.0; 2];
            }
            self.advance(&mut at);
        };
        let mut load = || {
            // SAFETY: called for steps of this wave only.
            let chunk = unsafe { self.load(next) };
            self.advance(&mut next);
            chunk
        };
        let mut left = self.steps;
        // Three buffers in turn, so that no register moves and two steps stay in flight while one is computed.
        while left >= 2 * AHEAD as u32 {
            step(a);
            a = load();
            step(b);
            b = load();
            step(c);
            c = load();
            left -= AHEAD as u32;
        }
        while left > 0 {
            step(a);
            a = b;
            b = c;
            if left > AHEAD as u32 {
                c = load();
            }
            left -= 1;
        }
    }
}
