//! Who am I, and what do the other lanes of my wave hold: indices and exchanges inside a warp. Nothing crosses warps.
//!
//! Exchanges name all 32 lanes, so they belong where the whole wave is live, as on the machine the kernels are written for.

use core::arch::nvptx as arch;

use super::intrinsics;

/// All lanes of a wave.
pub const ALL: u32 = u32::MAX;
/// The whole warp is one segment of an exchange.
const SEGMENT: u32 = 31;

/// This lane's place in its wave, 0 to 31. Workgroups are one-dimensional.
#[inline(always)]
pub fn lane_idx() -> u32 {
    item_idx() & 31
}

/// This wave's place in its workgroup.
#[inline(always)]
pub fn wave_idx() -> u32 {
    item_idx() >> 5
}

/// This work-item's place in its workgroup: `32 · wave_idx + lane_idx`.
#[inline(always)]
pub fn item_idx() -> u32 {
    // SAFETY: reads a register.
    unsafe { arch::_thread_idx_x() }
}

/// Workgroup index along x.
#[inline(always)]
pub fn workgroup_x() -> u32 {
    // SAFETY: reads a register.
    unsafe { arch::_block_idx_x() }
}

/// Workgroup index along y.
#[inline(always)]
pub fn workgroup_y() -> u32 {
    // SAFETY: reads a register.
    unsafe { arch::_block_idx_y() }
}

/// Workgroup index along z.
#[inline(always)]
pub fn workgroup_z() -> u32 {
    // SAFETY: reads a register.
    unsafe { arch::_block_idx_z() }
}

/// A value the author knows to be equal in all lanes: here nothing but itself.
#[inline(always)]
pub fn wave_uniform(x: u32) -> u32 {
    x
}

/// Lane `LANE`'s value; all lanes are live.
#[inline(always)]
pub fn lane_value<const LANE: u32>(x: u32) -> u32 {
    const { assert!(LANE < 32) };
    lane_value_at(x, LANE)
}

/// The value of the lane each lane names, below 32; all lanes are live.
#[inline(always)]
pub fn lane_value_at(x: u32, lane: u32) -> u32 {
    // SAFETY: the module's head: all lanes are live where lanes exchange; a lane that has left takes part in nothing.
    unsafe { intrinsics::shfl_idx(ALL, x, lane, SEGMENT) }
}

/// `x` of the lane whose index differs by `xor`.
#[inline(always)]
pub fn lane_xor(x: u32, xor: u32) -> u32 {
    // SAFETY: as in `lane_value_at`.
    unsafe { intrinsics::shfl_bfly(ALL, x, xor, SEGMENT) }
}

/// `x` of the lane at the same place in the other half of the wave.
#[inline(always)]
pub fn other_half(x: u32) -> u32 {
    lane_xor(x, 16)
}

/// Combines `x` of all 32 lanes in a fixed tree, so the result is the same in every lane and every run; the tree of the other machine.
#[inline(always)]
pub fn reduce(x: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    let x = combine(x, lane_xor(x, 1));
    let x = combine(x, lane_xor(x, 2));
    let x = combine(x, lane_xor(x, 4));
    let x = combine(x, lane_xor(x, 8));
    combine(x, other_half(x))
}

/// Combines `x` of the `LANES` lanes (8 or 16, aligned) that this lane is one of, by the first steps of the wave's tree.
#[inline(always)]
pub fn reduce_group<const LANES: u32>(x: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    const { assert!(LANES == 8 || LANES == 16) };
    let x = combine(x, lane_xor(x, 1));
    let x = combine(x, lane_xor(x, 2));
    let x = combine(x, lane_xor(x, 4));
    if LANES == 16 { combine(x, lane_xor(x, 8)) } else { x }
}

/// Largest value of the wave, unsigned 64-bit.
#[inline(always)]
pub fn wave_max_u64(x: u64) -> u64 {
    let step = |x: u64, xor: u32| {
        let other = u64::from(lane_xor(x as u32, xor)) | u64::from(lane_xor((x >> 32) as u32, xor)) << 32;
        if other > x { other } else { x }
    };
    step(step(step(step(step(x, 1), 2), 4), 8), 16)
}
