//! The lane exchanges of the transposing loads, as measured on a gfx1201 by others: `global_load_tr_b128` is an 8×8 transpose of 16-bit
//! elements in each group of eight lanes; `global_load_tr_b64` turns a 16×16 matrix of bytes, each half of whose rows one lane has
//! loaded, into the fragment of an 8-bit WMMA (two independent kernels that feed matrices so agree on it).

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

/// Byte 4t + u of lane 16h + 8b + i comes from byte i of lane 16h + 8t + 4b + u; a lane's eight bytes lie in two registers from `first`
/// on.
pub fn bytes(vgpr: &mut [Lanes; 256], first: u8) {
    let register = |byte: usize| first.wrapping_add((byte / 4) as u8) as usize;
    let mut out = [[0u32; 32]; 2];
    for lane in 0..32 {
        let (half, b, i) = (lane / 16, lane / 8 % 2, lane % 8);
        for byte in 0..8 {
            let (t, u) = (byte / 4, byte % 4);
            let value = vgpr[register(i)][16 * half + 8 * t + 4 * b + u] >> (8 * (i % 4)) & 0xff;
            out[t][lane] |= value << (8 * u);
        }
    }
    for (k, lanes) in out.into_iter().enumerate() {
        vgpr[first.wrapping_add(k as u8) as usize] = lanes;
    }
}
