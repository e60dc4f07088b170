//! A workgroup's rows of a matrix times one vector: every wave streams its rows, several 16-byte loads per lane ahead, the first of them
//! before the vector is there. The vector lies in LDS; what becomes of each row's sum is the caller's.

use amdgpu_target::gpu::{B128, wave_idx, wave_sum};

use super::{CHUNK, WAVES, parts_log2};

/// Steps loaded ahead.
const AHEAD: usize = 3;

/// Rows of one or more matrices that a workgroup multiplies with one vector. A step of a wave is [`CHUNK`] elements of one row.
pub trait Rows: Copy {
    /// What a lane loads of a step.
    type Chunk: Copy;
    /// Whether a step is so much code that the last ones shall be the loop's as well, at a branch per step.
    const LARGE: bool;

    /// A step that is never multiplied.
    fn nothing() -> Self::Chunk;

    /// How many.
    fn rows(&self) -> u32;

    /// K.
    fn k(&self) -> u32;

    /// Loads this lane's part of `row` from element `start` on. What lies past K is multiplied with zeros; in its place elements of the row are
    /// read, which are finite if the row is.
    ///
    /// # Safety
    /// 1. The matrices are there, 16-byte aligned, quantized ones as docs/QUANTIZATION.md lays out an object, K a multiple of 64; row and start
    ///    are below what there is.
    unsafe fn load(&self, row: u32, start: u32) -> Self::Chunk;

    /// Adds the products of a step with elements from `start` on of `x`.
    ///
    /// # Safety
    /// 1. `x` is bf16 in LDS, zeros from K to a multiple of [`CHUNK`].
    unsafe fn multiply(chunk: Self::Chunk, x: *const B128, start: u32, sum: &mut [f32; 2]);
}

/// One wave's share of [`Rows`]: every `2^parts_log2` waves share a row, each with every so manieth chunk.
#[derive(Clone, Copy)]
pub struct Stream<R> {
    rows: R,
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
pub struct Ahead<C> {
    chunks: [C; AHEAD],
    next: Place,
}

impl<R: Rows> Stream<R> {
    /// This wave's share, where waves may share a row.
    #[inline(always)]
    pub fn new(rows: R) -> Self {
        Self::with_parts(rows, parts_log2(rows.rows(), rows.k()))
    }

    /// This wave's share, each row one wave's.
    #[inline(always)]
    pub fn whole_rows(rows: R) -> Self {
        Self::with_parts(rows, 0)
    }

    #[inline(always)]
    fn with_parts(rows: R, parts_log2: u32) -> Self {
        let chunks = rows.k().div_ceil(CHUNK);
        let parts = 1 << parts_log2;
        let part = wave_idx() & (parts - 1);
        let first = wave_idx() >> parts_log2;
        let every = WAVES >> parts_log2;
        let own_rows =
            if first < rows.rows() { (rows.rows() - first + every - 1) >> (WAVES.ilog2() - parts_log2) } else { 0 };
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
    /// 1. `place` is one of this wave's steps, and as [`Rows::load`].
    #[inline(always)]
    unsafe fn load(&self, place: Place) -> R::Chunk {
        // SAFETY: point 1 is the caller's.
        unsafe { self.rows.load(place.row, place.chunk * CHUNK) }
    }

    /// Starts loading the first steps.
    ///
    /// # Safety
    /// 1. As [`Rows::load`].
    #[inline(always)]
    pub unsafe fn prefetch(&self) -> Ahead<R::Chunk> {
        let mut next = Place { row: self.first, chunk: self.part };
        let mut chunks = [R::nothing(); AHEAD];
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
    pub unsafe fn run(&self, ahead: Ahead<R::Chunk>, x: *const B128, mut sink: impl FnMut(u32, f32)) {
        if R::LARGE {
            // SAFETY: the caller's.
            return unsafe { self.run_large(ahead, x, sink) };
        }
        let Ahead { chunks: [mut a, mut b, mut c], mut next } = ahead;
        // The closures have everything by value: what they refer to would stay in memory.
        let this = *self;
        let mut at = Place { row: self.first, chunk: self.part };
        let mut sum = [0.0f32; 2];
        let mut step = move |chunk: R::Chunk| {
            // SAFETY: point 2; `at` is a step of this wave, so the chunk is below K rounded up.
            unsafe { R::multiply(chunk, x, at.chunk * CHUNK, &mut sum) };
            if at.chunk + this.parts >= this.chunks {
                sink(at.row, wave_sum(sum[0] + sum[1]));
                sum = [0.0; 2];
            }
            this.advance(&mut at);
        };
        let mut load = move || {
            // SAFETY: called for steps of this wave only.
            let chunk = unsafe { this.load(next) };
            this.advance(&mut next);
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

    /// As [`Stream::run`], the code of a step there three times and not four: its last ones are the loop's as well, at a branch per step. No closures:
    /// what a large one refers to would stay in memory.
    ///
    /// # Safety
    /// As [`Stream::run`].
    #[inline(always)]
    unsafe fn run_large(&self, ahead: Ahead<R::Chunk>, x: *const B128, mut sink: impl FnMut(u32, f32)) {
        let Ahead { chunks: [mut a, mut b, mut c], mut next } = ahead;
        let mut at = Place { row: self.first, chunk: self.part };
        let mut sum = [0.0f32; 2];
        let mut left = self.steps;
        macro_rules! step {
            ($chunk:ident) => {
                if left == 0 {
                    return;
                }
                // SAFETY: point 2; `at` is a step of this wave, so the chunk is below K rounded up.
                unsafe { R::multiply($chunk, x, at.chunk * CHUNK, &mut sum) };
                if at.chunk + self.parts >= self.chunks {
                    sink(at.row, wave_sum(sum[0] + sum[1]));
                    sum = [0.0; 2];
                }
                self.advance(&mut at);
                if left > AHEAD as u32 {
                    // SAFETY: a step of this wave.
                    $chunk = unsafe { self.load(next) };
                    self.advance(&mut next);
                }
                left -= 1;
            };
        }
        loop {
            step!(a);
            step!(b);
            step!(c);
        }
    }
}
