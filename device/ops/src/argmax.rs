//! Greedy choice: the id of the largest logit of each row. No sampling here; that is the host's.

use amdgpu_target::Geometry;

use crate::contract::{Address, args};

/// f32 logits to u32 ids.
pub const NAME: &str = "argmax_f32";
/// What a row with a NaN gives instead of an id.
pub const NAN_ID: u32 = u32::MAX;

pub(crate) const WAVES: u32 = 32;

args! {
    /// Arguments of [`NAME`].
    pub struct Args {
        /// `[rows, V]` f32; 4-byte aligned.
        pub logits: Address,
        /// `[rows]` u32; 4-byte aligned.
        pub ids: Address,
        /// V, at least 1, below 2³² − 1024; not a multiple of anything.
        pub vocab: u32,
    }
    pad pad
}

/// One workgroup per row.
pub const fn geometry(rows: u32) -> Geometry {
    Geometry { workgroups: [rows, 1, 1], waves: WAVES, lds_bytes: WAVES * 8 }
}

/// Orders like the logits: larger value first, of equal ones the lower id, NaN above all. ±0 are equal.
#[cfg(gpu)]
#[inline(always)]
pub(crate) fn key(value: f32, id: u32) -> u64 {
    let bits = (value + 0.0).to_bits();
    let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
    let order = if value.is_nan() { u32::MAX } else { bits ^ flip };
    u64::from(order) << 32 | u64::from(!id)
}

/// What [`key`] was made of, but that every NaN is one and −0 is +0.
#[cfg(gpu)]
#[inline(always)]
pub(crate) fn value(key: u64) -> (f32, u32) {
    let order = (key >> 32) as u32;
    let flip = if order >> 31 == 1 { 1 << 31 } else { u32::MAX };
    (f32::from_bits(order ^ flip), !(key as u32))
}

#[cfg(gpu)]
mod kernel {
    use super::key;
    use amdgpu_target::gpu::{barrier, item_idx, lane_idx, lds, load, store, wave_idx, wave_max_u64, workgroup_x};

    /// Argmax: ids[r] = the lowest i with logits[r,i] = max_i logits[r,i]; 2³² − 1 if the row holds a NaN
    ///
    /// Input      logits `[rows, V]` f32, V ≥ 1, infinities allowed
    /// Output     ids `[rows]` u32, every element written; must not overlap logits
    /// Numerics   exact: comparison only; against oracle::argmax
    /// Workgroup  32 waves × 32 lanes share a row; grid = rows
    /// Wave       wave32; uniform up to the barrier; lanes past V contribute nothing
    /// LDS        256 B: one key per wave
    /// Registers  budget 24 VGPR, 0 spills: a 64-bit key, an address, a value
    /// Memory     4 B per lane, consecutive; V need not be a multiple of 4, so rows are not 16-byte aligned; bytes = 4·rows·V
    /// Sync       one barrier: keys written before, read after
    /// Target     gfx1201; expects `s_barrier_signal`, `v_permlanex16_b32`
    /// Why        value and id in one integer make every tie rule one comparison, whatever the order of reduction
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 4-byte aligned.  2. Launched with `geometry(rows)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn argmax_f32(logits: *const f32, ids: *mut u32, vocab: u32) {
        let row = workgroup_x() as usize;
        let logits = logits.wrapping_add(row * vocab as usize);
        let mut best = 0u64;
        let mut i = item_idx();
        while i < vocab {
            // SAFETY: row < rows by point 2 and i < V: point 1.
            let candidate = key(unsafe { load(logits, i as usize) }, i);
            if candidate > best {
                best = candidate;
            }
            i += super::WAVES * 32;
        }
        let best = wave_max_u64(best);
        let keys = lds::<u64>();
        if lane_idx() == 0 {
            // SAFETY: the launch gives one u64 per wave; each wave writes its own.
            unsafe { store(keys, wave_idx() as usize, best) };
        }
        // SAFETY: every wave of the workgroup comes here once.
        unsafe { barrier() };
        // SAFETY: WAVES is 32: each lane reads one key, all written before the barrier.
        let best = wave_max_u64(unsafe { load(keys, lane_idx() as usize) });
        if item_idx() == 0 {
            let id = if best >> 32 == u64::from(u32::MAX) { super::NAN_ID } else { !(best as u32) };
            // SAFETY: row < rows; one lane of the workgroup writes it.
            unsafe { store(ids, row, id) };
        }
    }
}
