//! Matrix product for several tokens: 64 × 64 tiles through workgroup memory and bf16 matrix instructions.
//!
//! The simple idea: for each tile of 64 rows of W and 64 tokens, for each 64 of K: bring both pieces to LDS, multiply, add.
//! What was done to it:
//! 1. W is the A operand and x the B operand, so a lane ends with eight consecutive n of one token: two 16-byte stores.
//! 2. Each wave owns a quarter of the tile, 2 × 2 fragments: four matrix instructions for four fragment loads.
//! 3. The next piece is loaded to registers while the current one is multiplied: global latency hides behind 16 matrix instructions.
//! 4. LDS rows are 16 bytes longer than their content: 16 rows read at once touch all 64 banks evenly.
//! 5. A wave whose 32 tokens all lie past T multiplies nothing.

use amdgpu_target::gpu::{
    ACC_RUN, Acc, B128, Fragment, acc_column, acc_column_of, acc_row, acc_to_array, barrier, item_idx, lane_idx, lds,
    load_offset, store, wave_idx, wmma_bf16, workgroup_x, workgroup_y,
};

use super::outputs::write_run;

/// 16-byte pieces of a tile that one lane brings: 64 rows × 8 pieces / 128 lanes.
const PIECES: usize = 4;
/// 16-byte pieces from one row to the next in LDS.
const PITCH: u32 = super::PITCH_BYTES / 16;
/// Where x's tile starts in LDS, in 16-byte pieces.
const X_TILE: u32 = super::TILE_N * PITCH;

/// This lane's pieces of one tile: offsets in bytes from the tile's first row, rows clamped to `rows`.
#[inline(always)]
fn piece_offsets(rows: u32, k: u32) -> [u32; PIECES] {
    let item = item_idx();
    [0, 1, 2, 3].map(|i: u32| {
        let row = (i * 128 + item) >> 3;
        row.min(rows - 1) * (k * 2) + (item & 7) * 16
    })
}

/// Loads this lane's pieces.
///
/// # Safety
/// 1. `base` holds a 16-byte aligned piece at each offset.
#[inline(always)]
unsafe fn load_pieces(base: *const B128, offsets: &[u32; PIECES]) -> [B128; PIECES] {
    offsets.map(|at| {
        // SAFETY: point 1 is the caller's.
        unsafe { load_offset(base, at) }
    })
}

/// Puts this lane's pieces where `piece_offsets` found them, at LDS piece `tile` on.
///
/// # Safety
/// 1. The launch gave the LDS of `geometry_wmma`; no other wave reads the tile meanwhile.
#[inline(always)]
unsafe fn store_pieces(tile: u32, pieces: &[B128; PIECES]) {
    let item = item_idx();
    for (i, &piece) in pieces.iter().enumerate() {
        let row = (i as u32 * 128 + item) >> 3;
        // SAFETY: row < 64 and the column is below 8 of PITCH pieces: inside the tile; each piece belongs to one lane.
        unsafe { store(lds::<B128>(), (tile + row * PITCH + (item & 7)) as usize, piece) };
    }
}

/// The fragment of rows `row` … `row` + 15 and the 16 values of k at step `s` of the tile at LDS piece `tile`.
///
/// # Safety
/// 1. `row` ≤ 48, `s` < 4, and the tile was stored before the last barrier.
#[inline(always)]
unsafe fn fragment(tile: u32, row: u32, s: u32) -> Fragment {
    let lane = lane_idx();
    let at = tile + (row + (lane & 15)) * PITCH + s * 2 + (lane >> 4);
    // SAFETY: point 1 keeps the index inside the tile.
    unsafe { Fragment::load_lds(lds::<B128>().wrapping_add(at as usize)) }
}

/// Matrix product by matrix instructions: y[t,n] = Σ_k x[t,k] · w[n,k]
///
/// Input      w `[N, K]`, x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
/// Output     y `[T, N]` f32, every element written; overlaps nothing
/// Numerics   products exact, f32 accumulate, 16 values of k per instruction in an unpublished order; oracle::linear, Tolerance LINEAR
/// Workgroup  4 waves × 32 lanes on a tile of 64 n × 64 t; grid = [ceil(N / 64), ceil(T / 64)]
/// Wave       wave32; all lanes live throughout, rows past N or T are read as the last one and not stored
/// LDS        18 432 B: two tiles of 64 rows × 144 B
/// Registers  budget 120 VGPR (12 waves per SIMD), 0 spills: 32 of accumulators, 32 of prefetch, 16 of fragments, addresses
/// Memory     16 B per lane, 8 lanes on 128 consecutive bytes; W read ceil(T / 64) times, x ceil(N / 64) times, from L2 where it fits
/// Sync       two barriers per 64 of K: before the tile is overwritten, after it is written
/// Target     gfx1201; expects `v_wmma_f32_16x16x16_bf16`, `ds_load_b128`, `ds_store_b128`, `global_load_b128`
/// Why        one LDS buffer with register prefetch leaves room for 7 workgroups per WGP; a second buffer would halve that
///
/// # Safety
/// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry_wmma(T, N)`.
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn linear_bf16_wmma(
    w: *const u16,
    x: *const u16,
    y: *mut f32,
    tokens: u32,
    n: u32,
    k: u32,
) {
    let (n0, t0) = (workgroup_x() * super::TILE_N, workgroup_y() * super::TILE_T);
    let row_pieces = k as usize / 8;
    let mut w = w.cast::<B128>().wrapping_add(n0 as usize * row_pieces);
    let mut x = x.cast::<B128>().wrapping_add(t0 as usize * row_pieces);
    let (w_at, x_at) = (piece_offsets(n - n0, k), piece_offsets(tokens - t0, k));
    let wave = wave_idx();
    let (wave_n, wave_t) = ((wave & 1) * 32, (wave >> 1) * 32);
    let busy = t0 + wave_t < tokens;

    let mut acc = [[Acc::zero(); 2]; 2];
    // SAFETY: n0 < N and t0 < T by point 2, offsets stay below the last row and K: point 1.
    let mut w_next = unsafe { load_pieces(w, &w_at) };
    // SAFETY: as above.
    let mut x_next = unsafe { load_pieces(x, &x_at) };
    let mut step = 0;
    loop {
        // SAFETY: the loop's count is the same for all waves; the tile is read by nobody until the second barrier.
        unsafe { barrier() };
        // SAFETY: point 2 gives the LDS; all waves have passed the barrier after their last read.
        unsafe { store_pieces(0, &w_next) };
        // SAFETY: as above.
        unsafe { store_pieces(X_TILE, &x_next) };
        step += super::TILE_K;
        if step < k {
            w = w.wrapping_add(super::TILE_K as usize / 8);
            x = x.wrapping_add(super::TILE_K as usize / 8);
            // SAFETY: as the first load, the next 64 of K.
            w_next = unsafe { load_pieces(w, &w_at) };
            // SAFETY: as above.
            x_next = unsafe { load_pieces(x, &x_at) };
        }
        // SAFETY: as the first barrier.
        unsafe { barrier() };
        if busy {
            for s in 0..4 {
                // SAFETY: rows are at most 32 + 16, s < 4, stored before the barrier.
                let a = [0, 16].map(|i| unsafe { fragment(0, wave_n + i, s) });
                // SAFETY: as above.
                let b = [0, 16].map(|j| unsafe { fragment(X_TILE, wave_t + j, s) });
                for i in 0..2 {
                    for j in 0..2 {
                        // SAFETY: no lane has left and `busy` is uniform: all 32 are live.
                        acc[i][j] = unsafe { wmma_bf16(a[i], b[j], acc[i][j]) };
                    }
                }
            }
        }
        if step >= k {
            break;
        }
    }

    for j in 0..2 {
        for i in 0..2 {
            let out = acc_to_array(acc[i][j]);
            for run in (0..8).step_by(ACC_RUN) {
                let t = t0 + wave_t + j as u32 * 16 + acc_column(acc_column_of(run));
                let row = y.wrapping_add(t as usize * n as usize);
                let at = n0 + wave_n + i as u32 * 16 + acc_row(run);
                let out = core::array::from_fn(|e| out[run + e]);
                if t < tokens {
                    // SAFETY: t < T, so the row is one of y's, 16-byte aligned where N is a multiple of 4; one lane per element.
                    unsafe { write_run(row, at, n, n.is_multiple_of(4), out) };
                }
            }
        }
    }
}
