//! What becomes of a tile's product: which elements a lane holds of it, and how they are scaled, stored, or added to what is there. No kernel,
//! no product.

use amdgpu_target::gpu::{
    ACC_RUN, Acc, acc_column, acc_column_of, acc_row, acc_to_array, load, load_f32x2, load_f32x4, store, store_run,
    wave_idx,
};

use crate::format::{Format, Matrix};

/// The token and the row of W, both inside the tile, of element `e` of this lane's fragment `[i][j]`.
#[inline(always)]
fn place_of<const FN: usize, const FT: usize>(i: usize, j: usize, e: usize) -> (u32, u32) {
    let wave = wave_idx();
    let t = ((wave >> 1) * FT as u32 + j as u32) * 16 + acc_column(acc_column_of(e));
    let n = ((wave & 1) * FN as u32 + i as u32) * 16 + acc_row(e);
    (t, n)
}

/// Calls `put` with the token and the row of W, both inside the tile, and the fragment `[i][j]` and first element, of each run of
/// consecutive rows that this lane holds.
#[inline(always)]
pub(super) fn each_run<const FN: usize, const FT: usize>(mut put: impl FnMut(u32, u32, [usize; 3])) {
    for j in 0..FT {
        for i in 0..FN {
            for run in (0..8).step_by(ACC_RUN) {
                let (t, n) = place_of::<FN, FT>(i, j, run);
                put(t, n, [i, j, run]);
            }
        }
    }
}

/// Has `$put` take fragments `[..][j]` and `j` for each column of tiles. Written out: as a loop LLVM leaves columns rolled up, with the accumulators
/// in memory; and no function of a closure, after which ptxas gives a kernel of the proof vehicle fewer registers than it needs (EXP-0038).
macro_rules! each_column {
    ($acc:ident, $put:ident::<FN, FT>($($rest:expr),*)) => {
        const { assert!(FT == 2 || FT == 4) };
        let column = |j: usize| core::array::from_fn(|i| $acc[i][j]);
        // SAFETY: points 1 and 2 are the caller's.
        unsafe { $put::<FN, FT>(column(0), 0, $($rest),*) };
        // SAFETY: as above.
        unsafe { $put::<FN, FT>(column(1), 1, $($rest),*) };
        if FT == 4 {
            // SAFETY: as above.
            unsafe { $put::<FN, FT>(column(2 % FT), 2, $($rest),*) };
            // SAFETY: as above.
            unsafe { $put::<FN, FT>(column(3 % FT), 3, $($rest),*) };
        }
    };
}

/// A run of a fragment's elements.
#[inline(always)]
pub(super) fn run_of(acc: Acc, run: usize) -> [f32; ACC_RUN] {
    let all = acc_to_array(acc);
    core::array::from_fn(|e| all[run + e])
}

/// Reads a run of f32 from `base + index` on.
///
/// # Safety
/// 1. As `load`, for the elements, `index` a multiple of [`ACC_RUN`]; `base` is 16-byte aligned.
#[inline(always)]
unsafe fn load_run(base: *const f32, index: usize) -> [f32; ACC_RUN] {
    let parts: [[f32; 4]; ACC_RUN.div_ceil(4)] = core::array::from_fn(|i| {
        if ACC_RUN.is_multiple_of(4) {
            // SAFETY: point 1 is the caller's.
            unsafe { load_f32x4(base, index + 4 * i) }
        } else {
            // SAFETY: as above; the run has two elements.
            let [a, b] = unsafe { load_f32x2(base, index) };
            [a, b, 0.0, 0.0]
        }
    });
    core::array::from_fn(|e| parts[e / 4][e % 4])
}

/// Stores a run of a row of `n` numbers from `at` on, or what of it the row holds.
///
/// # Safety
/// 1. `row` holds `n` f32, and is 16-byte aligned if `aligned`.  2. No other lane touches the run.
#[inline(always)]
pub(super) unsafe fn write_run(row: *mut f32, at: u32, n: u32, aligned: bool, run: [f32; ACC_RUN]) {
    if aligned && at + ACC_RUN as u32 <= n {
        // SAFETY: the run ends below `n`: point 1; point 2.
        unsafe { store_run(row, at as usize, run) };
    } else {
        for (e, &value) in run.iter().enumerate() {
            if at + (e as u32) < n {
                // SAFETY: the element is below `n`: point 1; point 2.
                unsafe { store(row, at as usize + e, value) };
            }
        }
    }
}

/// Multiplies each element of a tile's product with the scale of its row of W.
///
/// # Safety
/// 1. `w` holds what [`Matrix`] says, `n` rows, 1 at least.
#[inline(always)]
pub(super) unsafe fn scale_rows<F: Format, const FN: usize, const FT: usize>(
    acc: &mut [[Acc; FT]; FN],
    w: Matrix<F>,
    n: u32,
) {
    for i in 0..FN {
        let scales: [f32; 8] = core::array::from_fn(|e| {
            let (_, row) = place_of::<FN, FT>(i, 0, e);
            // SAFETY: the row is below `n`: point 1.
            unsafe { w.row(row.min(n - 1)).scale() }
        });
        for j in 0..FT {
            let sums = acc_to_array(acc[i][j]);
            acc[i][j] = Acc::new(core::array::from_fn(|e| sums[e] * scales[e]));
        }
    }
}

/// Stores a tile's product as `y`.
///
/// # Safety
/// 1. `y` is `[tokens, stride]` f32 from the tile's corner on, 16-byte aligned where `stride` is a multiple of 4; `n` of a row are this
///    tile's and what is right of it.  2. No other lane touches them.
#[inline(always)]
pub(super) unsafe fn write<const FN: usize, const FT: usize>(
    acc: &[[Acc; FT]; FN],
    y: *mut f32,
    tokens: u32,
    n: u32,
    stride: u32,
) {
    each_column!(acc, write_column::<FN, FT>(y, [tokens, n, stride]));
}

/// Stores fragments `[..][j]`.
///
/// # Safety
/// 1. As [`write`].
#[inline(always)]
unsafe fn write_column<const FN: usize, const FT: usize>(
    acc: [Acc; FN],
    j: usize,
    y: *mut f32,
    [tokens, n, stride]: [u32; 3],
) {
    for i in 0..FN {
        for run in (0..8).step_by(ACC_RUN) {
            let (t, at) = place_of::<FN, FT>(i, j, run);
            let row = y.wrapping_add(t as usize * stride as usize);
            if t < tokens {
                // SAFETY: t < T, so the row is one of y's, 16-byte aligned where `stride` is a multiple of 4, one lane per element: point 1.
                unsafe { write_run(row, at, n, stride.is_multiple_of(4), run_of(acc[i], run)) };
            }
        }
    }
}

/// Adds a tile's product to `y`.
///
/// # Safety
/// 1. As [`write`], and `y` is initialised.
#[inline(always)]
pub(super) unsafe fn add<const FN: usize, const FT: usize>(
    acc: &[[Acc; FT]; FN],
    y: *mut f32,
    tokens: u32,
    n: u32,
    stride: u32,
) {
    each_column!(acc, add_column::<FN, FT>(y, [tokens, n, stride]));
}

/// Adds fragments `[..][j]`.
///
/// # Safety
/// 1. As [`add`].
#[inline(always)]
unsafe fn add_column<const FN: usize, const FT: usize>(
    acc: [Acc; FN],
    j: usize,
    y: *mut f32,
    [tokens, n, stride]: [u32; 3],
) {
    let whole = |t: u32, at: u32| t < tokens && stride.is_multiple_of(4) && at + ACC_RUN as u32 <= n;
    // All of the column is read before any of it is stored: a store between would hold each load back (EXP-0019).
    let old: [[[f32; ACC_RUN]; 8 / ACC_RUN]; FN] = core::array::from_fn(|i| {
        core::array::from_fn(|r| {
            let (t, at) = place_of::<FN, FT>(i, j, r * ACC_RUN);
            if whole(t, at) {
                let row = y.wrapping_add(t as usize * stride as usize);
                // SAFETY: t < T, the run ends below N, and a stride of a multiple of 4 keeps the row 16-byte aligned: point 1.
                unsafe { load_run(row, at as usize) }
            } else {
                [0.0; ACC_RUN]
            }
        })
    });
    for i in 0..FN {
        for r in 0..8 / ACC_RUN {
            let (t, at) = place_of::<FN, FT>(i, j, r * ACC_RUN);
            let out = run_of(acc[i], r * ACC_RUN);
            let row = y.wrapping_add(t as usize * stride as usize);
            if whole(t, at) {
                // SAFETY: as the load; one lane per element: point 1.
                unsafe { store_run(row, at as usize, core::array::from_fn(|e| old[i][r][e] + out[e])) };
            } else if t < tokens {
                for (e, &value) in out.iter().enumerate() {
                    if at + (e as u32) < n {
                        let at = at as usize + e;
                        // SAFETY: t < T and the column is below N: point 1.
                        let old = unsafe { load(row.cast_const(), at) };
                        // SAFETY: as above; one lane per element.
                        unsafe { store(row, at, old + value) };
                    }
                }
            }
        }
    }
}
