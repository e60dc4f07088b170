//! The lane exchange of `global_load_tr_b128`, as measured on a gfx1201 by others: in each group of eight lanes, an 8×8 transpose of
//! 16-bit elements. The 8-bit form's mapping has not been published, so it is not here.

use crate::wave::Lanes;

/// Lanes (and 16-bit elements per lane) of a group.
const GROUP: usize = 8;

/// Element j of lane 8g + i becomes element i of lane 8g + j; a lane's eight elements lie in four registers from `first` on.
pub fn halves(vgpr: &mut [Lanes; 256], first: u8) {
    let register = |element: usize| first.wrapping_add((element / 2) as u8) as usize;
    let mut out = [[0u32; 32]; GROUP / 2];
    for lane in 0..32 {
        for element in 0..GROUP {
            let (from, position) = (lane / GROUP * GROUP + element, lane % GROUP);
            let value = vgpr[register(position)][from] >> (16 * (position % 2)) & 0xffff;
            out[element / 2][lane] |= value << (16 * (element % 2));
        }
    }
    for (k, lanes) in out.into_iter().enumerate() {
        vgpr[first.wrapping_add(k as u8) as usize] = lanes;
    }
}
