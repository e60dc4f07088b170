//! Matrix product for one token: streams W once, as wide as the machine reads, whatever its elements are stored as. One generic product;
//! the kernel of bf16 is here, those of quantized weights are in `quantized.rs`.

use amdgpu_target::gpu::{
    B128, fma, lane_idx, load_offset, schedule_fence, store, unpack_bf16, wave_idx, wave_sum, workgroup_x, workgroup_y,
};

use crate::format::{Bf16, Format, Matrix, Row, Scale};

const ROWS: usize = super::GEMV_ROWS as usize;

/// What one lane has of a step: the codes of [`Format::ELEMENTS`] elements of each row, their scales, and the activations.
struct Step<const PIECES: usize> {
    codes: [B128; ROWS],
    scales: [Scale; ROWS],
    x: [B128; PIECES],
}

/// Loads this lane's part of a step, from element `at` on.
///
/// # Safety
/// 1. Each of `rows`, and `x`, holds the elements there; `x` is 16-byte aligned.
#[inline(always)]
unsafe fn load<F: Format, const PIECES: usize>(rows: &[Row<F>; ROWS], x: *const B128, at: u32) -> Step<PIECES> {
    const { assert!(PIECES == F::PIECES) };
    Step {
        codes: rows.map(|row| {
            // SAFETY: point 1 is the caller's.
            unsafe { row.codes(at) }
        }),
        scales: rows.map(|row| {
            // SAFETY: as above.
            unsafe { row.group(at) }
        }),
        x: core::array::from_fn(|piece| {
            // SAFETY: as above; a piece of bf16 is 16 bytes.
            unsafe { load_offset(x, at * 2 + piece as u32 * 16) }
        }),
    }
}

/// Adds the products of a step for each row: those of a group are added up before its scale is applied.
#[inline(always)]
fn accumulate<F: Format, const PIECES: usize>(sum: &mut [f32; ROWS], step: &Step<PIECES>) {
    let mut products = if F::GROUPS { [0.0; ROWS] } else { *sum };
    let mut all = 0.0;
    for piece in 0..PIECES {
        let words = step.x[piece].words().map(unpack_bf16);
        let x: [f32; 8] = core::array::from_fn(|e| words[e / 2][e % 2]);
        if F::MINIMUMS {
            x.iter().for_each(|x| all += x);
        }
        for row in 0..ROWS {
            let w = F::piece(step.codes[row], piece);
            for e in 0..8 {
                products[row] = fma(w[e], x[e], products[row]);
            }
        }
    }
    if !F::GROUPS {
        *sum = products;
        return;
    }
    for row in 0..ROWS {
        if F::MINIMUMS {
            sum[row] = fma(step.scales[row].minimum(), all, sum[row]);
        }
        sum[row] = fma(step.scales[row].factor(), products[row], sum[row]);
    }
}

/// Four rows of W by one wave, for the token of workgroup y.
///
/// # Safety
/// 1. `w` holds what [`Matrix`] says, `n` rows; `x` `[T, K]` bf16 and `y` `[T, N]` f32 as the kernels' contracts say.
/// 2. Launched with `geometry_gemv(T, N)`; `PIECES` is the format's.
#[inline(always)]
pub(super) unsafe fn gemv<F: Format, const PIECES: usize>(
    w: Matrix<F>,
    x: *const u16,
    y: *mut f32,
    [_tokens, n]: [u32; 2],
) {
    let first = (workgroup_x() * super::GEMV_WAVES + wave_idx()) * super::GEMV_ROWS;
    let t = workgroup_y() as usize;
    if first >= n {
        return;
    }
    let rows: [Row<F>; ROWS] = core::array::from_fn(|i| w.row((first + i as u32).min(n - 1)));
    let x = x.cast::<B128>().wrapping_add(t * (w.k as usize / 8));
    let lane = lane_idx();
    // SAFETY: the row is below N: point 1.
    let row_scale = unsafe { w.row((first + lane % super::GEMV_ROWS).min(n - 1)).scale() };
    let step = 32 * F::ELEMENTS;
    let mut sum = [0.0f32; ROWS];
    let mut i = 0;
    while i + 2 * step <= w.k {
        let at = i + lane * F::ELEMENTS;
        // SAFETY: both steps lie below K: point 1.
        let now = unsafe { load::<F, PIECES>(&rows, x, at) };
        // SAFETY: as above.
        let next = unsafe { load::<F, PIECES>(&rows, x, at + step) };
        // All loads are on their way before the first is waited for.
        schedule_fence();
        accumulate::<F, PIECES>(&mut sum, &now);
        accumulate::<F, PIECES>(&mut sum, &next);
        i += 2 * step;
    }
    // What is left is less than two steps and a multiple of 64, so whole groups of lanes have all their elements or none.
    while i < w.k {
        let at = i + lane * F::ELEMENTS;
        if at < w.k {
            // SAFETY: this lane's elements lie below K: point 1.
            let last = unsafe { load::<F, PIECES>(&rows, x, at) };
            schedule_fence();
            accumulate::<F, PIECES>(&mut sum, &last);
        }
        i += step;
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
        let mine = if F::ROW_SCALES { mine * row_scale } else { mine };
        // SAFETY: t < T by point 2 and first + lane < N; each element belongs to one lane.
        unsafe { store(y, t * n as usize + (first + lane) as usize, mine) };
    }
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
    tokens: u32,
    n: u32,
    k: u32,
) {
    let w = Matrix::bf16(w, k);
    // SAFETY: points 1 and 2.
    unsafe { gemv::<Bf16, 1>(w, x, y, [tokens, n]) };
}
