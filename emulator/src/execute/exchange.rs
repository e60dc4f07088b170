//! Lane exchange as the LDS hardware does it: permutes by byte addresses and swizzles by pattern. DPP and the VALU's permlanes are not
//! here.

use crate::wave::Lanes;

/// Each lane takes the value of lane (address + offset) / 4 mod 32, or 0 where that lane is not `readable`.
pub fn pull(addresses: &Lanes, offset: u32, values: &Lanes, readable: u32) -> Lanes {
    addresses.map(|address| {
        let lane = address.wrapping_add(offset) >> 2 & 31;
        if readable >> lane & 1 != 0 { values[lane as usize] } else { 0 }
    })
}

/// Each lane of `mask` gives its value to lane (address + offset) / 4 mod 32; the highest giver wins, and who gets nothing has 0.
pub fn push(addresses: &Lanes, offset: u32, values: &Lanes, mask: u32) -> Lanes {
    let mut out = [0; 32];
    for lane in 0..32 {
        if mask >> lane & 1 != 0 {
            out[(addresses[lane].wrapping_add(offset) >> 2 & 31) as usize] = values[lane];
        }
    }
    out
}

/// `ds_swizzle_b32`; a lane whose source is not in `mask` gets 0. From 0xe000 on the pattern is that of a fast Fourier transform: the
/// lane's five bits reversed, except those that its low bits keep.
pub fn swizzle(values: &Lanes, pattern: u32, mask: u32) -> Lanes {
    let source = |lane: u32| -> u32 {
        if pattern >= 0xe000 {
            let keep = pattern & 31;
            lane.reverse_bits() >> 27 >> keep.count_ones() | lane & keep
        } else if pattern >= 0xc000 {
            let (keep, by) = (pattern & 31, pattern >> 5 & 31);
            let moved = if pattern >> 10 & 1 != 0 { lane.wrapping_sub(by) } else { lane + by };
            lane & keep | moved & !keep & 31
        } else if pattern >= 0x8000 {
            lane & !3 | pattern >> (2 * (lane & 3)) & 3
        } else {
            (lane & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10 & 31
        }
    };
    std::array::from_fn(|lane| {
        let from = source(lane as u32);
        if mask >> from & 1 != 0 { values[from as usize] } else { 0 }
    })
}
