//! How many workgroups of a kernel a workgroup processor holds, from the kernel's registers and LDS: what HIP's occupancy calls answer and
//! what bounds a cooperative launch. Counts of the card's resources, not of this computer's; nothing here is a time.

use crate::launch::Kernel;
use crate::properties::{
    LDS_BYTES, MAX_WORKGROUP_ITEMS, MULTIPROCESSOR_LDS_BYTES, MULTIPROCESSORS, RESIDENT_ITEMS, WAVE,
};

/// SIMDs of a workgroup processor.
const SIMDS: u32 = 4;
/// Waves a SIMD holds.
const WAVES_PER_SIMD: u32 = 16;
/// Vector registers of a SIMD for waves of 32 lanes.
const VGPRS_PER_SIMD: u32 = 1536;
/// In which vector registers are given to a wave.
const VGPR_GRANULE: u32 = 24;

/// Waves of a workgroup of that many work-items.
fn waves(items: u32) -> u32 {
    items.div_ceil(WAVE as u32)
}

/// Waves of this kernel that a workgroup processor has registers for.
fn resident_waves(kernel: &Kernel) -> u32 {
    let vgprs = kernel.vgprs().max(1).next_multiple_of(VGPR_GRANULE);
    SIMDS * WAVES_PER_SIMD.min(VGPRS_PER_SIMD / vgprs)
}

/// Workgroups of `items` work-items and `dynamic_lds` bytes more than the kernel's own that a workgroup processor holds at once; 0 where
/// none fits.
pub fn workgroups_per_multiprocessor(kernel: &Kernel, items: u32, dynamic_lds: u64) -> u32 {
    let lds = u64::from(kernel.fixed_lds_bytes()) + dynamic_lds;
    if items == 0 || items > MAX_WORKGROUP_ITEMS.min(kernel.max_items()) || lds > u64::from(LDS_BYTES) {
        return 0;
    }
    let by_waves = resident_waves(kernel) / waves(items);
    let by_lds = u64::from(MULTIPROCESSOR_LDS_BYTES).checked_div(lds).unwrap_or(u64::from(u32::MAX));
    let by_items = RESIDENT_ITEMS as u32 / (waves(items) * WAVE as u32);
    by_waves.min(by_items).min(u32::try_from(by_lds).unwrap_or(u32::MAX))
}

/// Workgroups that the whole device holds at once.
pub fn resident_workgroups(kernel: &Kernel, items: u32, dynamic_lds: u64) -> u64 {
    u64::from(workgroups_per_multiprocessor(kernel, items, dynamic_lds)) * MULTIPROCESSORS as u64
}

/// The workgroup size in whole waves, up to `limit` work-items (0: no limit), with which most waves are resident, the largest of equals,
/// and how many such workgroups fill the device. A limit below a wave is itself the size.
pub fn best_block(kernel: &Kernel, dynamic_lds: u64, limit: u32) -> (u32, u64) {
    let most = MAX_WORKGROUP_ITEMS.min(kernel.max_items());
    let most = if limit == 0 { most } else { most.min(limit) };
    let resident = |items: u32| workgroups_per_multiprocessor(kernel, items, dynamic_lds) * waves(items);
    let whole_waves = (1..=most / WAVE as u32).map(|count| count * WAVE as u32);
    let best = whole_waves
        .chain((1..WAVE as u32).contains(&most).then_some(most))
        .max_by_key(|&items| (resident(items), items));
    match best {
        Some(items) => (items, resident_workgroups(kernel, items, dynamic_lds)),
        None => (0, 0),
    }
}
