//! Matrix product for one token: streams W once, as wide as the machine reads.

use amdgpu_target::gpu::{
    B128, fma, lane_idx, load_offset, store, unpack_bf16, wave_idx, wave_sum, workgroup_x, workgroup_y,
};

const ROWS: usize = super::GEMV_ROWS as usize;
/// Elements of K one step of a wave covers: 8 per lane.
const STEP: u32 = 256;

/// Adds the products of 8 elements per lane at `i` (in units of 8 elements) for each row.
#[inline(always)]
fn accumulate(sum: &mut [f32; ROWS], w: &[B128; ROWS], x: B128) {
    let x = x.words().map(unpack_bf16);
    for row in 0..ROWS {
        let w = w[row].words().map(unpack_bf16);
        for e in 0..4 {
            sum[row] = fma(w[e][1], x[e][1], fma(w[e][0], x[e][0], sum[row]));
        }
    }
}

/// Loads 8 elements per lane of each row, `offset` bytes from its start.
///
/// # Safety
/// 1. Each of `rows` holds 8 bf16 there, 16-byte aligned.
#[inline(always)]
unsafe fn load_rows(rows: &[*const B128; ROWS], offset: u32) -> [B128; ROWS] {
    rows.map(|row| {
        // SAFETY: point 1 is the caller's.
        unsafe { load_offset(row, offset) }
    })
}

/// Matrix product, GEMV: y[t,n] = Σ_k x[t,k] · w[n,k]
///
/// Input      w `[N, K]`, x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
/// Output     y `[T, N]` f32, every element written; overlaps nothing
/// Numerics   products exact; each lane sums its elements in f32, then a fixed tree over the lanes; oracle::linear, Tolerance LINEAR
/// Workgroup  4 waves × 32 lanes; four rows per wave; grid = [ceil(N / 16), T]
/// Wave       wave32; waves past N leave; rows past N are read as row N − 1 and not stored; all lanes live at the reductions
/// LDS        0 B
/// Registers  budget 96 VGPR (16 waves per SIMD), 0 spills: ten 16-byte loads in flight, four sums
/// Memory     16 B per lane, consecutive lanes consecutive, 8 loads of W in flight; W read once; bytes = 2·N·K + 2·T·K + 4·T·N
/// Sync       none
/// Target     gfx1201; expects `global_load_b128`, `v_fma_f32` or `v_fmac_f32`, `v_permlanex16_b32`
/// Why        decode reads every weight once and computes little: bytes in flight decide. Four rows share each load of x, and even
///            N = 1024 gives 256 waves with 4 KiB in flight each, above bandwidth × latency (640 GB/s × 0.8 µs = 0.5 MiB)
///
/// # Safety
/// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry_gemv(T, N)`.
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn linear_bf16_gemv(
    w: *const u16,
    x: *const u16,
    y: *mut f32,
    _tokens: u32,
    n: u32,
    k: u32,
) {
    let first = (workgroup_x() * super::GEMV_WAVES + wave_idx()) * super::GEMV_ROWS;
    let t = workgroup_y() as usize;
    if first >= n {
        return;
    }
    let mut rows = [w.cast::<B128>(); ROWS];
    for (i, row) in rows.iter_mut().enumerate() {
        let index = (first + i as u32).min(n - 1);
        *row = row.wrapping_add(index as usize * (k as usize / 8));
    }
    let x = x.cast::<B128>().wrapping_add(t * (k as usize / 8));
    let lane = lane_idx();
    let mut sum = [0.0f32; ROWS];
    let mut i = 0;
    while i + 2 * STEP <= k {
        let at = i * 2 + lane * 16;
        // SAFETY: the step covers 2 · STEP ≤ K − i elements: point 1.
        let w0 = unsafe { load_rows(&rows, at) };
        // SAFETY: as above.
        let x0 = unsafe { load_offset(x, at) };
        // SAFETY: as above, for the second half of the step.
        let w1 = unsafe { load_rows(&rows, at + STEP * 2) };
        // SAFETY: as above.
        let x1 = unsafe { load_offset(x, at + STEP * 2) };
        accumulate(&mut sum, &w0, x0);
        accumulate(&mut sum, &w1, x1);
        i += 2 * STEP;
    }
    // What is left is less than two steps and a multiple of 64, so whole groups of 8 lanes have 8 elements or none.
    while i < k {
        if i + lane * 8 < k {
            let at = i * 2 + lane * 16;
            // SAFETY: this lane's 8 elements lie below K: point 1.
            let w0 = unsafe { load_rows(&rows, at) };
            // SAFETY: as above.
            let x0 = unsafe { load_offset(x, at) };
            accumulate(&mut sum, &w0, x0);
        }
        i += STEP;
    }
    let sum = sum.map(wave_sum);
    let mine = if lane & 1 == 0 {
        if lane & 2 == 0 { sum[0] } else { sum[2] }
    } else if lane & 2 == 0 {
        sum[1]
    } else {
        sum[3]
    };
    if lane < super::GEMV_ROWS && first + lane < n {
        // SAFETY: t < T by point 2 and first + lane < N; each element belongs to one lane.
        unsafe { store(y, t * n as usize + (first + lane) as usize, mine) };
    }
}
