//! Matrix product, first rung: the definition, one lane per output. The baseline every faster one is compared with. One generic product;
//! the kernel of bf16 is here, those of quantized weights are in `quantized.rs`.

use amdgpu_target::gpu::{B128, fma, item_idx, load, store, unpack_bf16, workgroup_x, workgroup_y};

use crate::format::{Bf16, Format, Matrix};

/// One output by each lane, for the token of workgroup y.
///
/// # Safety
/// 1. `w` holds what [`Matrix`] says, `n` rows; `x` `[T, K]` bf16 and `y` `[T, N]` f32 as the kernels' contracts say.
/// 2. Launched with `geometry_plain(T, N)`; `PIECES` is the format's.
#[inline(always)]
pub(super) unsafe fn plain<F: Format, const PIECES: usize>(
    w: Matrix<F>,
    x: *const u16,
    y: *mut f32,
    [_tokens, n]: [u32; 2],
) {
    const { assert!(PIECES == F::PIECES) };
    let row = workgroup_x() * (super::PLAIN_WAVES * 32) + item_idx();
    let t = workgroup_y() as usize;
    if row >= n {
        return;
    }
    let x = x.wrapping_add(t * w.k as usize).cast::<B128>();
    let k = w.k;
    let w = w.row(row);
    let mut sum = 0.0f32;
    for at in (0..k).step_by(F::ELEMENTS as usize) {
        // SAFETY: row < N, and the elements from `at` on are of the K of its row: point 1.
        let codes = unsafe { w.codes(at) };
        let mut products = if F::GROUPS { 0.0 } else { sum };
        let mut all = 0.0;
        for piece in 0..PIECES {
            // SAFETY: t < T by point 2, else as above.
            let words = unsafe { load(x, at as usize / 8 + piece) }.words().map(unpack_bf16);
            let w = F::piece(codes, piece);
            for e in 0..8 {
                let x = words[e / 2][e % 2];
                products = fma(w[e], x, products);
                all += x;
            }
        }
        if !F::GROUPS {
            sum = products;
            continue;
        }
        // SAFETY: as the codes.
        let scale = unsafe { w.group(at) };
        if F::MINIMUMS {
            sum = fma(scale.minimum(), all, sum);
        }
        sum = fma(scale.factor(), products, sum);
    }
    if F::ROW_SCALES {
        // SAFETY: row < N: point 1.
        sum *= unsafe { w.scale() };
    }
    // SAFETY: t < T and row < N; each element belongs to one lane.
    unsafe { store(y, t * n as usize + row as usize, sum) };
}

/// Matrix product, plain: y[t,n] = Σ_k x[t,k] · w[n,k]
///
/// Input      w `[N, K]`, x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
/// Output     y `[T, N]` f32, every element written; overlaps nothing
/// Numerics   products exact, f32 sum in order of k with one rounding per step; oracle::linear, Tolerance LINEAR
/// Workgroup  4 waves × 32 lanes; one lane per (t, n); grid = [ceil(N / 128), T]
/// Wave       wave32; lanes past N leave
/// LDS        0 B
/// Registers  budget 48 VGPR, 0 spills
/// Memory     16 B per lane, but lanes lie K·2 B apart: each wave reads 32 lines at once, W again for each token
/// Sync       none
/// Target     gfx1201; expects `global_load_b128`
/// Why        it can be read at a glance; never chosen by `name`
///
/// # Safety
/// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry_plain(T, N)`.
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn linear_bf16_plain(
    w: *const u16,
    x: *const u16,
    y: *mut f32,
    tokens: u32,
    n: u32,
    k: u32,
) {
    let w = Matrix::bf16(w, k);
    // SAFETY: points 1 and 2.
    unsafe { plain::<Bf16, 1>(w, x, y, [tokens, n]) };
}
