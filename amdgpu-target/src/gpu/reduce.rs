//! Reductions over the 32 lanes of a wave, in the machine's fixed tree: the same result in every lane and every run.

use super::machine::{reduce, reduce_group};

/// Sum over the wave; every lane gets it.
#[inline(always)]
pub fn wave_sum(x: f32) -> f32 {
    f32::from_bits(reduce(x.to_bits(), |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits()))
}

/// Sum over the `LANES` lanes (8 or 16, aligned) that this lane is one of; each of them gets it.
#[inline(always)]
pub fn group_sum<const LANES: u32>(x: f32) -> f32 {
    f32::from_bits(reduce_group::<LANES>(x.to_bits(), |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits()))
}

/// Largest value among the `LANES` lanes (8 or 16, aligned) that this lane is one of; each of them gets it.
#[inline(always)]
pub fn group_max_u32<const LANES: u32>(x: u32) -> u32 {
    reduce_group::<LANES>(x, |a, b| if a > b { a } else { b })
}

/// Largest value of the wave; a NaN is passed over while another value is there.
#[inline(always)]
pub fn wave_max(x: f32) -> f32 {
    f32::from_bits(reduce(x.to_bits(), |a, b| super::max(f32::from_bits(a), f32::from_bits(b)).to_bits()))
}

/// Largest integer of the wave; every lane gets it.
#[inline(always)]
pub fn wave_max_u32(x: u32) -> u32 {
    reduce(x, |a, b| a.max(b))
}
