//! Who am I, and what do the other lanes of my wave hold: indices, exchanges and reductions inside a wave. Nothing crosses waves.
//!
//! Exchanges are DPP `row_xmask` inside a row of 16 lanes and `v_permlanex16` between the two rows. A lane that is switched off
//! contributes an undefined value, so reductions belong where the whole wave is live.

use core::arch::amdgpu as arch;

/// This lane's place in its wave, 0 to 31. Workgroups are one-dimensional.
#[inline(always)]
pub fn lane_idx() -> u32 {
    arch::workitem_id_x() & 31
}

/// This wave's place in its workgroup, in a scalar register: branches on it are uniform.
#[inline(always)]
pub fn wave_idx() -> u32 {
    wave_uniform(arch::workitem_id_x() >> 5)
}

/// This work-item's place in its workgroup: `32 · wave_idx + lane_idx`.
#[inline(always)]
pub fn item_idx() -> u32 {
    arch::workitem_id_x()
}

/// Workgroup index along x.
#[inline(always)]
pub fn workgroup_x() -> u32 {
    arch::workgroup_id_x()
}

/// Workgroup index along y.
#[inline(always)]
pub fn workgroup_y() -> u32 {
    arch::workgroup_id_y()
}

/// Workgroup index along z.
#[inline(always)]
pub fn workgroup_z() -> u32 {
    arch::workgroup_id_z()
}

/// The first live lane's value in a scalar register: for values the author knows to be equal in all lanes.
#[inline(always)]
pub fn wave_uniform(x: u32) -> u32 {
    arch::readfirstlane_u32(x)
}

/// Lane `LANE`'s value in a scalar register; `LANE` is below 32 and live.
#[inline(always)]
pub fn lane_value<const LANE: u32>(x: u32) -> u32 {
    const { assert!(LANE < 32) };
    // SAFETY: the lane index is a constant below 32; a switched-off lane's value is unspecified, not undefined behaviour.
    unsafe { arch::readlane_u32(x, LANE) }
}

/// `x` of the lane whose index differs by `XOR` (1, 2, 4 or 8: inside a row of 16).
#[inline(always)]
fn row_xor<const CTRL: u32>(x: u32) -> u32 {
    // SAFETY: CTRL is one of row_xmask's encodings 0x161, 0x162, 0x164, 0x168, which never leave the row; bound_ctrl gives 0
    // for a switched-off source instead of an undefined value.
    unsafe { arch::update_dpp::<CTRL, 15, 15, true>(0, x) }
}

/// `x` of the lane at the same place in the other row of 16.
#[inline(always)]
pub fn other_half(x: u32) -> u32 {
    // SAFETY: the selectors name lanes 0 to 15 in order; the value of a switched-off lane is unspecified, not undefined behaviour.
    unsafe { arch::permlanex16_u32::<false, true>(0, x, 0x7654_3210, 0xfedc_ba98) }
}

/// Combines `x` of all 32 lanes in a fixed tree, so the result is the same in every lane and every run.
#[inline(always)]
pub fn reduce(x: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    let x = combine(x, row_xor::<0x161>(x));
    let x = combine(x, row_xor::<0x162>(x));
    let x = combine(x, row_xor::<0x164>(x));
    let x = combine(x, row_xor::<0x168>(x));
    combine(x, other_half(x))
}

/// Combines `x` of the `LANES` lanes (8 or 16, aligned) that this lane is one of, by the first steps of the wave's tree.
#[inline(always)]
pub fn reduce_group<const LANES: u32>(x: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    const { assert!(LANES == 8 || LANES == 16) };
    let x = combine(x, row_xor::<0x161>(x));
    let x = combine(x, row_xor::<0x162>(x));
    let x = combine(x, row_xor::<0x164>(x));
    if LANES == 16 { combine(x, row_xor::<0x168>(x)) } else { x }
}

/// Largest value of the wave, unsigned 64-bit.
#[inline(always)]
pub fn wave_max_u64(x: u64) -> u64 {
    let step = |x: u64, moved: fn(u32) -> u32| {
        let other = u64::from(moved(x as u32)) | u64::from(moved((x >> 32) as u32)) << 32;
        if other > x { other } else { x }
    };
    let x = step(x, row_xor::<0x161>);
    let x = step(x, row_xor::<0x162>);
    let x = step(x, row_xor::<0x164>);
    let x = step(x, row_xor::<0x168>);
    step(x, other_half)
}
