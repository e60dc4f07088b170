//! RMSNorm of rows, f32 in, bf16 out: what every matrix product of a layer reads. Norms of single heads are `head_norm`.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// First rung: one wave per row. Best where rows are many.
pub const NAME_WAVE: &str = "rmsnorm_f32_wave";
/// One workgroup per row. Best where rows are few and one wave would wait for its own loads.
pub const NAME_WORKGROUP: &str = "rmsnorm_f32_workgroup";

/// Waves of a workgroup of the first rung, so rows of a workgroup.
pub(crate) const ROWS: u32 = 4;
/// Waves that share one row in the second.
pub(crate) const WAVES: u32 = 8;
/// From this many rows on the machine is full with one wave per row (64 compute units × 4).
pub const WAVE_FROM_ROWS: u32 = 256;

args! {
    /// Arguments of both kernels.
    pub struct Args {
        /// `[T, H]` f32.
        pub x: Address,
        /// `[H]` bf16.
        pub w: Address,
        /// `[T, H]` bf16.
        pub y: Address,
        /// T.
        pub rows: u32,
        /// H, a multiple of 64.
        pub hidden: u32,
        /// Added to the mean square; positive, finite.
        pub eps: f32,
        /// 1/H: kernels do not divide.
        pub inv_hidden: f32,
    }
}

impl Args {
    /// Arguments for `rows` rows of `hidden` elements.
    pub fn new(x: Address, w: Address, y: Address, rows: u32, hidden: u32, eps: f32) -> Self {
        Self { x, w, y, rows, hidden, eps, inv_hidden: 1.0 / hidden as f32 }
    }
}

/// Which kernel takes `rows` rows.
pub const fn name(rows: u32) -> &'static str {
    if rows < WAVE_FROM_ROWS { NAME_WORKGROUP } else { NAME_WAVE }
}

/// Geometry of [`name`]`(rows)`.
pub const fn geometry(rows: u32) -> Geometry {
    if rows < WAVE_FROM_ROWS { geometry_workgroup(rows) } else { geometry_wave(rows) }
}

/// Geometry of [`NAME_WAVE`].
pub const fn geometry_wave(rows: u32) -> Geometry {
    Geometry { workgroups: [rows.div_ceil(ROWS), 1, 1], waves: ROWS, lds_bytes: 0 }
}

/// Geometry of [`NAME_WORKGROUP`].
pub const fn geometry_workgroup(rows: u32) -> Geometry {
    Geometry { workgroups: [rows, 1, 1], waves: WAVES, lds_bytes: WAVES * 4 }
}

#[cfg(gpu)]
mod kernel {
    use amdgpu_target::gpu::{
        B64, barrier, bf16x4, fma, item_idx, lane_idx, lds, load, load_f32x4, rsq, store, unpack_bf16, wave_idx,
        wave_sum, workgroup_x,
    };

    /// Sum of squares of the elements `first, first + 4·LANES, …` of a row, four at a time.
    ///
    /// # Safety
    /// 1. `x` holds `hidden` f32, 16-byte aligned; `hidden` and `first` are multiples of 4.
    #[inline(always)]
    unsafe fn sum_of_squares<const STEP: u32>(x: *const f32, first: u32, hidden: u32) -> f32 {
        let mut sum = [0.0f32; 4];
        let mut i = first;
        while i < hidden {
            // SAFETY: i < hidden and both are multiples of 4: point 1.
            let v = unsafe { load_f32x4(x, i as usize) };
            for e in 0..4 {
                sum[e] = fma(v[e], v[e], sum[e]);
            }
            i += STEP;
        }
        (sum[0] + sum[1]) + (sum[2] + sum[3])
    }

    /// y = x · scale · w over the elements `first, first + STEP, …`, four at a time.
    ///
    /// # Safety
    /// 1. `x`, `w`, `y` hold `hidden` elements, aligned to 16, 8 and 8 bytes; `hidden` and `first` are multiples of 4.
    /// 2. No other lane writes these elements of `y`.
    #[inline(always)]
    unsafe fn scale_row<const STEP: u32>(
        x: *const f32,
        w: *const u16,
        y: *mut u16,
        first: u32,
        hidden: u32,
        scale: f32,
    ) {
        let mut i = first;
        while i < hidden {
            // SAFETY: i < hidden and both are multiples of 4: point 1.
            let v = unsafe { load_f32x4(x, i as usize) };
            // SAFETY: as above.
            let [ab, cd] = unsafe { load(w.cast::<B64>(), i as usize / 4) }.words().map(unpack_bf16);
            let out = [v[0] * scale * ab[0], v[1] * scale * ab[1], v[2] * scale * cd[0], v[3] * scale * cd[1]];
            // SAFETY: as above, and point 2.
            unsafe { store(y.cast::<B64>(), i as usize / 4, bf16x4(out)) };
            i += STEP;
        }
    }

    /// RMSNorm, first rung: y[t,i] = x[t,i] / sqrt(mean_i(x[t,i]²) + eps) · w[i]
    ///
    /// Input      x `[T, H]` f32 row-major; w `[H]` bf16; eps > 0 finite; H a multiple of 64
    /// Output     y `[T, H]` bf16, every element written; must not overlap x or w
    /// Numerics   f32 sums, `v_rsq_f32`, one rounding at the store; oracle::rmsnorm, Tolerance BF16_STORE
    /// Workgroup  4 waves × 32 lanes; one wave per row; grid = ceil(T / 4)
    /// Wave       wave32; rows past T leave as a whole wave; all lanes live at the reduction
    /// LDS        0 B
    /// Registers  budget 32 VGPR, 0 spills: four partial sums, one load and its addresses
    /// Memory     16 B per lane, consecutive lanes consecutive; x read twice (the second time from cache); bytes = 6·T·H + 2·H
    /// Sync       none: no data crosses waves
    /// Target     gfx1201; expects `global_load_b128`, `v_rsq_f32`
    /// Why        nothing crosses waves, so nothing waits; for T = 1 `rmsnorm_f32_workgroup` has eight waves on the row
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry_wave(T)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn rmsnorm_f32_wave(
        x: *const f32,
        w: *const u16,
        y: *mut u16,
        rows: u32,
        hidden: u32,
        eps: f32,
        inv_hidden: f32,
    ) {
        let row = workgroup_x() * super::ROWS + wave_idx();
        if row >= rows {
            return;
        }
        let start = row as usize * hidden as usize;
        let (x, y) = (x.wrapping_add(start), y.wrapping_add(start));
        let first = lane_idx() * 4;
        // SAFETY: row < T, so point 1 makes x hold H elements from here on; H is a multiple of 64.
        let sum = unsafe { sum_of_squares::<128>(x, first, hidden) };
        let scale = rsq(fma(wave_sum(sum), inv_hidden, eps));
        // SAFETY: as above for w and y; the row belongs to this wave, each element to one lane.
        unsafe { scale_row::<128>(x, w, y, first, hidden, scale) };
    }

    /// RMSNorm, one workgroup per row: as `rmsnorm_f32_wave`
    ///
    /// Input, Output, Numerics   as `rmsnorm_f32_wave`; the sum's order differs, so bits may
    /// Workgroup  8 waves × 32 lanes share a row; grid = T
    /// Wave       wave32; uniform up to the barrier; waves past H contribute 0
    /// LDS        32 B: one partial sum per wave
    /// Registers  budget 32 VGPR, 0 spills
    /// Memory     as `rmsnorm_f32_wave`
    /// Sync       one barrier: partial sums written before, read after
    /// Target     gfx1201; expects `global_load_b128`, `s_barrier_signal`, `v_rsq_f32`
    /// Why        decode has one row: eight waves keep eight times the loads in flight
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned.  2. Launched with `geometry_workgroup(T)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn rmsnorm_f32_workgroup(
        x: *const f32,
        w: *const u16,
        y: *mut u16,
        _rows: u32,
        hidden: u32,
        eps: f32,
        inv_hidden: f32,
    ) {
        const STEP: u32 = super::WAVES * 128;
        let start = workgroup_x() as usize * hidden as usize;
        let (x, y) = (x.wrapping_add(start), y.wrapping_add(start));
        let first = item_idx() * 4;
        // SAFETY: the grid has T workgroups, so point 1 makes x hold H elements from here on; H is a multiple of 64.
        let sum = wave_sum(unsafe { sum_of_squares::<STEP>(x, first, hidden) });
        let partial = lds::<f32>();
        // All lanes of a wave hold the same sum, and one store of it is enough.
        if lane_idx() == 0 {
            // SAFETY: the launch gives WAVES f32 of workgroup memory; each wave writes its own.
            unsafe { store(partial, wave_idx() as usize, sum) };
        }
        // SAFETY: every wave of the workgroup comes here once.
        unsafe { barrier() };
        let mut total = 0.0;
        for wave in 0..super::WAVES as usize {
            // SAFETY: written before the barrier, not written after.
            total += unsafe { load(partial, wave) };
        }
        let scale = rsq(fma(total, inv_hidden, eps));
        // SAFETY: as the first, for w and y; each element belongs to one lane.
        unsafe { scale_row::<STEP>(x, w, y, first, hidden, scale) };
    }
}
