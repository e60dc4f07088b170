//! Matrix product, first rung: the definition, one lane per output. The baseline every faster one is compared with.

use amdgpu_target::gpu::{B128, fma, item_idx, load, store, unpack_bf16, workgroup_x, workgroup_y};

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
    _tokens: u32,
    n: u32,
    k: u32,
) {
    let row = workgroup_x() * (super::PLAIN_WAVES * 32) + item_idx();
    let t = workgroup_y() as usize;
    if row >= n {
        return;
    }
    let w = w.wrapping_add(row as usize * k as usize).cast::<B128>();
    let x = x.wrapping_add(t * k as usize).cast::<B128>();
    let mut sum = 0.0f32;
    for i in 0..k as usize / 8 {
        // SAFETY: row < N, and i counts 8 of the K elements of its row: point 1.
        let a = unsafe { load(w, i) }.words();
        // SAFETY: t < T by point 2, else as above.
        let b = unsafe { load(x, i) }.words();
        for e in 0..4 {
            let ([a0, a1], [b0, b1]) = (unpack_bf16(a[e]), unpack_bf16(b[e]));
            sum = fma(a1, b1, fma(a0, b0, sum));
        }
    }
    // SAFETY: t < T and row < N; each element belongs to one lane.
    unsafe { store(y, t * n as usize + row as usize, sum) };
}
