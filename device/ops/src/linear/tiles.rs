//! Matrix products of several tokens as they are fast: large tiles, two LDS stages. One generic product, whatever W is stored as, and the
//! kernels of bf16 that store it or add it to the residual stream; `qkv.rs` and `gated.rs` hold those of several matrices, `quantized.rs`
//! those of quantized weights.
//!
//! The simple idea is that of `wmma.rs`. What was done to it:
//! 1. A wave owns up to 4 × 4 fragments: 16 matrix instructions for 8 fragment loads, where 2 × 2 has a load for each and LDS limits it.
//!    128 accumulators and what feeds them need more than 192 VGPRs: the launch bound allows them (`Kernel::waves`).
//! 2. Two LDS stages: while one is multiplied the next is written, and one or two after that are on their way from memory to registers.
//!    One barrier per step instead of two. Fragments are read one multiplication ahead, the first before the next stage is written.
//! 3. No padding: a 128-byte line of LDS holds eight 16-byte pieces, each at its place exclusive-or a number of its row. Eight lanes that
//!    store a line, and eight that read one piece of eight rows, touch all banks once.
//! 4. A wave whose tokens all lie past T multiplies nothing.
//!
//! LDS holds bf16 whatever W is stored as, or bytes where x is rounded to 8 bits too ([`super::multiply`], `w8a8.rs`). Codes travel from memory to
//! registers as they are, a quarter or half of the bytes, and are converted where they are stored in LDS, each once for all four waves. Scales of groups are multiplied in there, one rounding to bf16;
//! those of rows are applied to the sums at the end, and codes of 8 bits are exact.

use amdgpu_target::gpu::{
    Acc, B128, Fragment, IntAcc, barrier, item_idx, lane_idx, lds, lds_place_a, load_offset, store, wave_idx,
    wmma_bf16, wmma_i8, workgroup_x, workgroup_y,
};

use super::multiply::{Floats, Multiply};
use super::outputs::{add, scale_rows, write};
use super::tile::WAVES;
use crate::format::{Bf16, Format, Matrix, Scale};

const ITEMS: u32 = WAVES * 32;

/// Where piece `piece` of row `row` lies in a stage, in 16-byte pieces, if a row has `PIECES`.
#[inline(always)]
fn place<const PIECES: u32>(row: u32, piece: u32) -> u32 {
    if PIECES == 8 {
        row * 8 + (piece ^ (row & 7))
    } else {
        (row >> 1) * 8 + (((row & 1) * 4 + piece) ^ ((row >> 1) & 3))
    }
}

/// What a lane brings of one step: 16-byte loads of W's codes with the scales of their groups, and pieces of x.
#[derive(Clone, Copy)]
struct Brought<const PW: usize, const PX: usize> {
    w: [B128; PW],
    scales: [Scale; PW],
    x: [B128; PX],
}

/// The product of one workgroup's tile: element `[i][j]` of this wave is the fragment of rows `wave_n · 16·FN + 16·i` of W's tile and of
/// tokens `wave_t · 16·FT + 16·j` ([`super::outputs::each_run`] tells them), without scales of whole rows. `PIECES` pieces of eight elements of a row make a
/// step; a lane brings `PW` loads of W's codes and `PX` of x, and has those of `AHEAD` steps on their way besides the one in LDS. If `GATED`,
/// the tile's rows are 32 of the first matrix, the same 32 of the second, the next 32 of the first, and so on.
///
/// # Safety
/// 1. `w` holds what [`Matrix`] says, `n` rows of each, `x` points to `tokens` row-major rows of as many bf16, 16-byte aligned; `n` and
///    `tokens` are 1 at least.
/// 2. K is a multiple of 64, at least 64 (of 32 if [`Multiply::BYTES`], and steps are of 32).  3. The launch gave the LDS of the tile
///    and [`WAVES`] waves, which all come here together.  4. `multiplier` holds what it says for each step and token.
#[inline(always)]
pub(super) unsafe fn product<
    F: Format,
    M: Multiply,
    const FN: usize,
    const FT: usize,
    const PIECES: u32,
    const PW: usize,
    const PX: usize,
    const AHEAD: u32,
    const GATED: bool,
>(
    w: [Matrix<F>; 2],
    n: u32,
    x: *const B128,
    tokens: u32,
    multiplier: M,
) -> [[Acc; FT]; FN] {
    const {
        assert!((PIECES == 4 || PIECES == 8) && (AHEAD == 1 || AHEAD == 2));
        assert!(!M::BYTES || PIECES == 4);
        assert!(PW * F::PIECES * 4 == FN * PIECES as usize && PX as u32 * 4 == FT as u32 * PIECES);
        assert!(!GATED || (FN == 4 && PIECES == 4 && F::PIECES == 1));
    };
    let k = w[0].k;
    // Stages in pieces: W's rows, then x's.
    let x_tile = FN as u32 * 32 * PIECES;
    let stage = (FN + FT) as u32 * 32 * PIECES;
    let item = item_idx();
    let (row, piece) = (item / PIECES, item % PIECES);
    let span = ITEMS / PIECES; // rows that all lanes bring at once: a multiple of 16, so that it changes nothing of a row's order
    // The same of W, of which a lane's load holds several pieces.
    let w_lanes = PIECES / F::PIECES as u32;
    let (w_row, w_piece) = (item / w_lanes, item % w_lanes * F::PIECES as u32);
    let w_span = ITEMS / w_lanes;
    let row_of = |i: usize| (if GATED { i as u32 / 2 } else { i as u32 } * w_span + w_row).min(n - 1);
    let matrix_of = |i: usize| if GATED { w[i % 2] } else { w[0] };
    let w_at: [u32; PW] = core::array::from_fn(|i| w[0].codes_offset(row_of(i)) + w_piece / F::PIECES as u32 * 16);
    let x_at: [u32; PX] = core::array::from_fn(|i| (i as u32 * span + row).min(tokens - 1) * (k * 2) + piece * 16);
    let bring = |step: u32| {
        // The step goes into the lane's offset, not into the base: an offset that is new in each step is used as one 32-bit register,
        // one that is not is widened before the loop and costs a carry per load.
        let along = step * (PIECES / F::PIECES as u32 * 16);
        let w: [B128; PW] = core::array::from_fn(|i| {
            // SAFETY: the row is below `n`, the piece below K: points 1 and 2.
            unsafe { load_offset(matrix_of(i).codes, w_at[i] + along) }
        });
        let scales: [Scale; PW] = core::array::from_fn(|i| {
            // SAFETY: as above.
            unsafe { matrix_of(i).group(row_of(i), (step * PIECES + w_piece) * 8) }
        });
        let along = step * (PIECES * 16);
        let x: [B128; PX] = core::array::from_fn(|i| {
            // SAFETY: as above, below `tokens`.
            unsafe { load_offset(x, x_at[i] + along) }
        });
        Brought { w, scales, x }
    };
    let (mine_w, mine_x) = (place::<PIECES>(w_row, w_piece), place::<PIECES>(row, piece));
    let keep = |at: u32, brought: Brought<PW, PX>| {
        for i in 0..PW {
            for p in 0..F::PIECES {
                let bf16 = F::bf16(brought.w[i], p, brought.scales[i]);
                // Pieces of a load lie beside each other, so their places differ where their numbers do.
                let first = lds::<B128>().wrapping_add((at + (mine_w ^ p as u32)) as usize);
                // SAFETY: inside W's part of the stage at `at`; each piece belongs to one lane, and nobody reads this stage now: point 3.
                unsafe { store(first, i * ITEMS as usize * F::PIECES, bf16) };
            }
        }
        let first = lds::<B128>().wrapping_add((at + mine_x) as usize);
        for i in 0..PX {
            // SAFETY: as above, x's part.
            unsafe { store(first, x_tile as usize + i * ITEMS as usize, brought.x[i]) };
        }
    };

    let (lane, wave) = (lane_idx(), wave_idx());
    let (wave_n, wave_t) = (wave & 1, wave >> 1);
    // Where this lane's piece of a fragment lies at step 0; further steps of 16 are an exclusive-or of 2.
    let [row_a, half_a] = lds_place_a();
    let (w_first, x_first) = (place::<PIECES>(row_a, half_a), place::<PIECES>(lane & 15, lane >> 4));
    let w_rows = wave_n * FN as u32 * 16 * PIECES;
    let x_rows = x_tile + wave_t * FT as u32 * 16 * PIECES;
    let busy = wave_t * FT as u32 * 16 < tokens;

    let mut acc = [[Acc::zero(); FT]; FN];
    let steps = k / (PIECES * 8);
    let last = steps - 1;
    // Pieces on their way: those of odd steps and those of even ones, or one set for both.
    let mut even = bring(0);
    let mut odd = if AHEAD == 2 { bring(1.min(last)) } else { even };
    keep(0, even);
    even = bring(AHEAD.min(last));
    // SAFETY: there is a step 0: point 4.
    let mut factors = unsafe { multiplier.factors::<FT>(0) };
    // SAFETY: all waves are here: point 3.
    unsafe { barrier() };
    // The fragments of 16 of K, from the stage at `here`.
    let fragments = |here: u32, s: u32| {
        let w_at = lds::<B128>().wrapping_add((here + w_rows + (w_first ^ (s * 2))) as usize);
        let x_at = lds::<B128>().wrapping_add((here + x_rows + (x_first ^ (s * 2))) as usize);
        let a: [Fragment; FN] = core::array::from_fn(|i| {
            // SAFETY: a piece of the stage that was written before the last barrier; no lane has left.
            unsafe { Fragment::load_lds_a(w_at.wrapping_add(i * 16 * PIECES as usize)) }
        });
        let b: [Fragment; FT] = core::array::from_fn(|j| {
            // SAFETY: as above.
            unsafe { Fragment::load_lds(x_at.wrapping_add(j * 16 * PIECES as usize)) }
        });
        (a, b)
    };
    // What is in the stage at `$here`, of which the first fragments are read.
    macro_rules! multiply {
        ($first:expr, $here:expr, $factors:expr) => {
            if busy && M::BYTES {
                let both = [$first, fragments($here, 1)];
                for i in 0..FN {
                    // A row of fragments at a time: the sums of one wait for each other, those of several fill the time.
                    let mut sums = [IntAcc::all(M::START); FT];
                    for (a, b) in both {
                        for j in 0..FT {
                            // SAFETY: no lane has left and `busy` is uniform: all 32 are live.
                            sums[j] = unsafe { wmma_i8(a[i], b[j], sums[j]) };
                        }
                    }
                    for j in 0..FT {
                        acc[i][j] = M::scaled::<FT>(sums[j], $factors, j, acc[i][j]);
                    }
                }
            } else if busy {
                let mut now = $first;
                for s in 0..PIECES / 2 {
                    let (a, b) = now;
                    if s + 1 < PIECES / 2 {
                        now = fragments($here, s + 1);
                    }
                    for i in 0..FN {
                        for j in 0..FT {
                            // SAFETY: as above.
                            acc[i][j] = unsafe { wmma_bf16(a[i], b[j], acc[i][j]) };
                        }
                    }
                }
            }
        };
    }
    // One step: its stage, and the set that holds the next step's pieces. The first fragments are read before those pieces are stored, so
    // that the matrix unit does not wait behind the stores.
    macro_rules! step {
        ($step:expr, $here:expr, $there:expr, $next:ident) => {
            let first = fragments($here, 0);
            if $step < last {
                // The other stage was read before the last barrier.
                keep($there, $next);
            }
            if $step + AHEAD < last {
                $next = bring($step + AHEAD + 1);
            }
            let now = factors;
            // SAFETY: a step, and tokens below `tokens`: point 4.
            factors = unsafe { multiplier.factors::<FT>(($step + 1).min(last)) };
            multiply!(first, $here, now);
            if $step < last {
                // SAFETY: the steps are the same for all waves.
                unsafe { barrier() };
            }
        };
    }
    // Two steps at a time, so that stages and sets are not chosen at run time.
    let mut at = 0;
    while at < last {
        if AHEAD == 2 {
            step!(at, 0, stage, odd);
        } else {
            step!(at, 0, stage, even);
        }
        step!(at + 1, stage, 0, even);
        at += 2;
    }
    // A row's bytes are a multiple of 128 for bf16, so that of its steps only those of 128 can be odd in number.
    if (PIECES == 8 || M::BYTES) && at == last {
        multiply!(fragments(0, 0), 0, factors);
    }
    acc
}

/// The tile of workgroup (x, y) of one matrix, stored or added.
///
/// # Safety
/// 1. As the kernels below.
#[inline(always)]
pub(super) unsafe fn tile<
    F: Format,
    const FN: usize,
    const FT: usize,
    const PIECES: u32,
    const PW: usize,
    const PX: usize,
    const AHEAD: u32,
    const ADD: bool,
>(
    w: Matrix<F>,
    x: *const u16,
    y: *mut f32,
    [tokens, n]: [u32; 2],
) {
    let (n0, t0) = (workgroup_x() * FN as u32 * 32, workgroup_y() * FT as u32 * 32);
    let x = x.cast::<B128>().wrapping_add(t0 as usize * (w.k as usize / 8));
    let w = w.from_row(n0);
    // SAFETY: n0 < N and t0 < T by the grid, what is left of both is passed on: point 1.
    let mut acc =
        unsafe { product::<F, Floats, FN, FT, PIECES, PW, PX, AHEAD, false>([w, w], n - n0, x, tokens - t0, Floats) };
    if F::ROW_SCALES {
        // SAFETY: `w` has as many rows: point 1.
        unsafe { scale_rows(&mut acc, w, n - n0) };
    }
    let y = y.wrapping_add(t0 as usize * n as usize + n0 as usize);
    if ADD {
        // SAFETY: the same corner of y; tiles do not overlap.
        unsafe { add(&acc, y, tokens - t0, n - n0, n) };
    } else {
        // SAFETY: as above.
        unsafe { write(&acc, y, tokens - t0, n - n0, n) };
    }
}

/// Defines the kernels of one matrix: name, whether it adds, FN, FT, PIECES, PW, PX, AHEAD.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident: $add:literal, $fn:literal, $ft:literal, $pieces:literal, $pw:literal, $px:literal, $ahead:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry_tile(tile, T, N)` of its tile.
        #[unsafe(no_mangle)]
        pub unsafe extern "gpu-kernel" fn $name(
            w: *const u16,
            x: *const u16,
            y: *mut f32,
            tokens: u32,
            n: u32,
            k: u32,
        ) {
            // SAFETY: points 1 and 2.
            unsafe { tile::<Bf16, $fn, $ft, $pieces, $pw, $px, $ahead, $add>(Matrix::bf16(w, k), x, y, [tokens, n]) };
        }
    )*};
}

kernels! {
    /// Matrix product by tiles of 64 × 64: y[t,n] = Σ_k x[t,k] · w[n,k]
    ///
    /// Input      w `[N, K]`, x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
    /// Output     y `[T, N]` f32, every element written; overlaps nothing
    /// Numerics   products exact, f32 accumulate, 16 values of k per instruction in an unpublished order; oracle::linear, Tolerance LINEAR
    /// Workgroup  4 waves × 32 lanes, 2 × 2 fragments each; grid = [ceil(N / 64), ceil(T / 64)]
    /// Wave       wave32; all lanes live throughout, rows past N or T are read as the last one and not stored
    /// LDS        32 768 B: two stages of 128 rows × 128 B
    /// Registers  budget 168 VGPR (9 waves per SIMD, of which LDS lets 4 in), 0 spills: 32 of accumulators, 64 on their way, 32 of fragments
    /// Memory     16 B per lane, 8 lanes on 128 consecutive bytes; W read ceil(T / 64) times, x ceil(N / 64) times, from L2 where it fits
    /// Sync       one barrier per 64 of K
    /// Target     gfx1201; expects `v_wmma_f32_16x16x16_bf16`, `ds_load_b128`, `ds_store_b128`, `global_load_b128`
    /// Why        `Tile::choose`: few tokens or rows leave too few larger tiles
    linear_bf16_n64_t64: false, 2, 2, 8, 4, 4, 2;

    /// As `linear_bf16_n64_t64` by tiles of 128 × 64: a wave has 4 × 2 fragments, 6 loads for 8 matrix instructions.
    ///
    /// Workgroup  4 waves; grid = [ceil(N / 128), ceil(T / 64)]
    /// LDS        24 576 B: two stages of 192 rows × 64 B
    /// Registers  budget 192 VGPR (8 waves per SIMD, of which LDS lets 5 in), 0 spills: 64 of accumulators, 48 on their way, 48 of fragments
    /// Memory     16 B per lane, 4 lanes on 64 consecutive bytes
    /// Sync       one barrier per 32 of K
    linear_bf16_n128_t64: false, 4, 2, 4, 4, 2, 2;

    /// As `linear_bf16_n64_t64` by tiles of 128 × 128: a wave has 4 × 4 fragments, 8 loads for 16 matrix instructions.
    ///
    /// Workgroup  4 waves; grid = [ceil(N / 128), ceil(T / 128)]
    /// LDS        32 768 B: two stages of 256 rows × 64 B
    /// Registers  budget 240 VGPR (6 waves per SIMD, of which LDS lets 4 in), 0 spills: 128 of accumulators, 32 on their way, 64 of fragments
    /// Memory     16 B per lane, 4 lanes on 64 consecutive bytes
    /// Sync       one barrier per 32 of K
    linear_bf16_n128_t128: false, 4, 4, 4, 4, 4, 1;

    /// Matrix product added to the residual stream, by tiles of 64 × 64: y[t,n] += Σ_k x[t,k] · w[n,k]
    ///
    /// Input      w `[N, K]`, x `[T, K]` bf16 row-major; y `[T, N]` f32; K a multiple of 64; N, T ≥ 1
    /// Output     y, every element read once and written once; overlaps nothing
    /// Numerics   as `linear_bf16_n64_t64`, then one f32 addition: the bits of the product and `residual_add_f32`
    /// Workgroup, Wave, LDS, Registers, Memory, Sync, Target   as `linear_bf16_n64_t64`; y is read as well
    /// Why        saves a launch and 12·T·N bytes: the product is neither written nor read
    linear_add_bf16_n64_t64: true, 2, 2, 8, 4, 4, 2;

    /// As `linear_add_bf16_n64_t64` by tiles of 128 × 64, otherwise as `linear_bf16_n128_t64`.
    linear_add_bf16_n128_t64: true, 4, 2, 4, 4, 2, 2;

    /// As `linear_add_bf16_n64_t64` by tiles of 128 × 128, otherwise as `linear_bf16_n128_t128`.
    linear_add_bf16_n128_t128: true, 4, 4, 4, 4, 4, 1;
}
