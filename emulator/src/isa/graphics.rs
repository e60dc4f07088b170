//! Formats of graphics: images, sampling, exports, interpolation, parameter loads, and ray tracing's intersections. They are known by
//! name so that a trap can say what was met; operands are neither decoded nor printed, and nothing here is executed.

use super::{DecodeError, Format, Inst, Row, Ty};
use crate::execute::scalar::unsupported;
use crate::wave::{Cx, Step};

/// Encodings, as [`Row::flags`].
const IMAGE: u32 = 0;
const SAMPLE: u32 = 1;
const EXPORT: u32 = 2;
const INTERPOLATE: u32 = 3;
const DIRECT: u32 = 4;

fn named(_: &mut Cx, inst: &Inst) -> Step {
    unsupported(format!("{} belongs to graphics, which is not executed", inst.row.name))
}

const fn r(flags: u32, op: u16, name: &'static str) -> Row {
    Row { op, name, d: Ty::None, s: [Ty::None; 3], flags, exec: named }
}

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    r(IMAGE, 0, "image_load"),
    r(IMAGE, 1, "image_load_mip"),
    r(IMAGE, 2, "image_load_pck"),
    r(IMAGE, 3, "image_load_pck_sgn"),
    r(IMAGE, 4, "image_load_mip_pck"),
    r(IMAGE, 5, "image_load_mip_pck_sgn"),
    r(IMAGE, 6, "image_store"),
    r(IMAGE, 7, "image_store_mip"),
    r(IMAGE, 8, "image_store_pck"),
    r(IMAGE, 9, "image_store_mip_pck"),
    r(IMAGE, 10, "image_atomic_swap"),
    r(IMAGE, 11, "image_atomic_cmpswap"),
    r(IMAGE, 12, "image_atomic_add_uint"),
    r(IMAGE, 13, "image_atomic_sub_uint"),
    r(IMAGE, 14, "image_atomic_min_int"),
    r(IMAGE, 15, "image_atomic_min_uint"),
    r(IMAGE, 16, "image_atomic_max_int"),
    r(IMAGE, 17, "image_atomic_max_uint"),
    r(IMAGE, 18, "image_atomic_and"),
    r(IMAGE, 19, "image_atomic_or"),
    r(IMAGE, 20, "image_atomic_xor"),
    r(IMAGE, 21, "image_atomic_inc_uint"),
    r(IMAGE, 22, "image_atomic_dec_uint"),
    r(IMAGE, 23, "image_get_resinfo"),
    r(IMAGE, 25, "image_bvh_intersect_ray"),
    r(IMAGE, 26, "image_bvh64_intersect_ray"),
    r(IMAGE, 128, "image_bvh_dual_intersect_ray"),
    r(IMAGE, 129, "image_bvh8_intersect_ray"),
    r(IMAGE, 131, "image_atomic_add_flt"),
    r(IMAGE, 132, "image_atomic_min_flt"),
    r(IMAGE, 133, "image_atomic_max_flt"),
    r(IMAGE, 134, "image_atomic_pk_add_f16"),
    r(IMAGE, 135, "image_atomic_pk_add_bf16"),
    r(SAMPLE, 24, "image_msaa_load"),
    r(SAMPLE, 27, "image_sample"),
    r(SAMPLE, 28, "image_sample_d"),
    r(SAMPLE, 29, "image_sample_l"),
    r(SAMPLE, 30, "image_sample_b"),
    r(SAMPLE, 31, "image_sample_lz"),
    r(SAMPLE, 32, "image_sample_c"),
    r(SAMPLE, 33, "image_sample_c_d"),
    r(SAMPLE, 34, "image_sample_c_l"),
    r(SAMPLE, 35, "image_sample_c_b"),
    r(SAMPLE, 36, "image_sample_c_lz"),
    r(SAMPLE, 37, "image_sample_o"),
    r(SAMPLE, 38, "image_sample_d_o"),
    r(SAMPLE, 39, "image_sample_l_o"),
    r(SAMPLE, 40, "image_sample_b_o"),
    r(SAMPLE, 41, "image_sample_lz_o"),
    r(SAMPLE, 42, "image_sample_c_o"),
    r(SAMPLE, 43, "image_sample_c_d_o"),
    r(SAMPLE, 44, "image_sample_c_l_o"),
    r(SAMPLE, 45, "image_sample_c_b_o"),
    r(SAMPLE, 46, "image_sample_c_lz_o"),
    r(SAMPLE, 47, "image_gather4"),
    r(SAMPLE, 48, "image_gather4_l"),
    r(SAMPLE, 49, "image_gather4_b"),
    r(SAMPLE, 50, "image_gather4_lz"),
    r(SAMPLE, 51, "image_gather4_c"),
    r(SAMPLE, 52, "image_gather4_c_lz"),
    r(SAMPLE, 53, "image_gather4_o"),
    r(SAMPLE, 54, "image_gather4_lz_o"),
    r(SAMPLE, 55, "image_gather4_c_lz_o"),
    r(SAMPLE, 56, "image_get_lod"),
    r(SAMPLE, 57, "image_sample_d_g16"),
    r(SAMPLE, 58, "image_sample_c_d_g16"),
    r(SAMPLE, 59, "image_sample_d_o_g16"),
    r(SAMPLE, 60, "image_sample_c_d_o_g16"),
    r(SAMPLE, 64, "image_sample_cl"),
    r(SAMPLE, 65, "image_sample_d_cl"),
    r(SAMPLE, 66, "image_sample_b_cl"),
    r(SAMPLE, 67, "image_sample_c_cl"),
    r(SAMPLE, 68, "image_sample_c_d_cl"),
    r(SAMPLE, 69, "image_sample_c_b_cl"),
    r(SAMPLE, 70, "image_sample_cl_o"),
    r(SAMPLE, 71, "image_sample_d_cl_o"),
    r(SAMPLE, 72, "image_sample_b_cl_o"),
    r(SAMPLE, 73, "image_sample_c_cl_o"),
    r(SAMPLE, 74, "image_sample_c_d_cl_o"),
    r(SAMPLE, 75, "image_sample_c_b_cl_o"),
    r(SAMPLE, 84, "image_sample_c_d_cl_g16"),
    r(SAMPLE, 85, "image_sample_d_cl_o_g16"),
    r(SAMPLE, 86, "image_sample_c_d_cl_o_g16"),
    r(SAMPLE, 95, "image_sample_d_cl_g16"),
    r(SAMPLE, 96, "image_gather4_cl"),
    r(SAMPLE, 97, "image_gather4_b_cl"),
    r(SAMPLE, 98, "image_gather4_c_cl"),
    r(SAMPLE, 99, "image_gather4_c_l"),
    r(SAMPLE, 100, "image_gather4_c_b"),
    r(SAMPLE, 101, "image_gather4_c_b_cl"),
    r(SAMPLE, 144, "image_gather4h"),
    // The target is a field, not an opcode.
    r(EXPORT, 0, "export"),
    r(INTERPOLATE, 0, "v_interp_p10_f32"),
    r(INTERPOLATE, 1, "v_interp_p2_f32"),
    r(INTERPOLATE, 2, "v_interp_p10_f16_f32"),
    r(INTERPOLATE, 3, "v_interp_p2_f16_f32"),
    r(INTERPOLATE, 4, "v_interp_p10_rtz_f16_f32"),
    r(INTERPOLATE, 5, "v_interp_p2_rtz_f16_f32"),
    r(DIRECT, 0, "ds_param_load"),
    r(DIRECT, 1, "ds_direct_load"),
];

/// Encoding, opcode and dwords of a word of these formats; `None` for any other.
fn encoding(word: u32) -> Option<(u32, u16, u8)> {
    match word >> 24 {
        0xcd => return Some((INTERPOLATE, (word >> 16 & 0x1f) as u16, 2)),
        0xce => return Some((DIRECT, (word >> 20 & 7) as u16, 1)),
        _ => {}
    }
    match word >> 26 {
        0b110100 => Some((IMAGE, (word >> 14 & 0xff) as u16, 3)),
        0b111001 => Some((SAMPLE, (word >> 14 & 0xff) as u16, 3)),
        0b111110 => Some((EXPORT, 0, 2)),
        _ => None,
    }
}

/// Whether a first word belongs to these formats.
pub fn is_graphics(word: u32) -> bool {
    encoding(word).is_some()
}

/// Decodes the name and the size.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let Some((flags, op, dwords)) = encoding(word) else { return Err(DecodeError::Unknown { word }) };
    let row = ROWS.iter().find(|row| row.op == op && row.flags == flags).ok_or(DecodeError::Unknown { word })?;
    Inst::new(row, Format::Graphics, dwords, words)
}

/// The mnemonic alone.
pub fn text(inst: &Inst, _pc: u64) -> String {
    inst.row.name.into()
}
