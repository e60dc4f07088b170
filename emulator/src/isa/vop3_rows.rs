//! The rows of VOP3 and VOP3SD that have no short form. Decoding and printing stand in [`super::vop3`].

use super::vop::rows;
use super::{Inst, Row};
use crate::execute::convert::{to_snorm16, to_unorm16};
use crate::execute::cross_lane::quad_sad;
use crate::execute::float::{max_num, maximum, min_num, minimum};
use crate::execute::integer::{i24, u24};
use crate::execute::transcendental::half;
use crate::execute::{convert, cross_lane, divide, dot, float, fp8, integer, lanes, soft_float, transcendental};
use crate::wave::{Cx, Step};
use ::half::f16;

/// The instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = rows! {
    521 v_fma_dx9_zero_f32 F32 (F32 F32 F32) [FLOAT_3 NO_DPP] { |a, b, c| float::fma_dx9(a, b, c), soft float::soft_fma_dx9 }
    522 v_mad_i32_i24 I32 (I32 I32 I32) [CLAMP] { |a, b, c| i24(a).wrapping_mul(i24(b)).wrapping_add(c), saturating saturate_i32(i24(a) as i64 * i24(b) as i64 + c as i64) }
    523 v_mad_u32_u24 U32 (U32 U32 U32) [CLAMP] { |a, b, c| u24(a).wrapping_mul(u24(b)).wrapping_add(c), saturating saturate_u32(u24(a) as u64 * u24(b) as u64 + c as u64) }
    524 v_cubeid_f32 F32 (F32 F32 F32) [FLOAT_3 EXACT] { |a, b, c| float::cube_id(a, b, c) }
    525 v_cubesc_f32 F32 (F32 F32 F32) [FLOAT_3 EXACT] { |a, b, c| float::cube_sc(a, b, c) }
    526 v_cubetc_f32 F32 (F32 F32 F32) [FLOAT_3 EXACT] { |a, b, c| float::cube_tc(a, b, c) }
    527 v_cubema_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| float::cube_ma(a, b, c), soft float::soft_cube_ma }
    528 v_bfe_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| integer::bfe_u32(a, b, c) }
    529 v_bfe_i32 I32 (I32 U32 U32) [PLAIN] { |a, b, c| integer::bfe_i32(a, b, c) }
    530 v_bfi_b32 B32 (B32 B32 B32) [PLAIN] { |a, b, c| (a & b) | (!a & c) }
    531 v_fma_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| a.mul_add(b, c), soft soft_float::fma }
    532 v_fma_f64 F64 (F64 F64 F64) [FLOAT_3] { |a, b, c| a.mul_add(b, c), soft soft_float::fma }
    533 v_lerp_u8 B32 (B32 B32 B32) [PLAIN] { |a, b, c| integer::lerp_u8(a, b, c) }
    534 v_alignbit_b32 B32 (B32 B32 B16) [HALVES_3 CLAMP] { |a, b, c| (((a as u64) << 32 | b as u64) >> (c & 31)) as u32 }
    535 v_alignbyte_b32 B32 (B32 B32 B16) [HALVES_3 CLAMP] { |a, b, c| (((a as u64) << 32 | b as u64) >> ((c & 3) * 8)) as u32 }
    536 v_mullit_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| float::mullit(a, b, c), soft float::soft_mullit }
    538 v_min3_i32 I32 (I32 I32 I32) [PLAIN] { |a, b, c| a.min(b).min(c) }
    539 v_min3_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| a.min(b).min(c) }
    541 v_max3_i32 I32 (I32 I32 I32) [PLAIN] { |a, b, c| a.max(b).max(c) }
    542 v_max3_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| a.max(b).max(c) }
    544 v_med3_i32 I32 (I32 I32 I32) [PLAIN] { |a, b, c| integer::med3(a, b, c) }
    545 v_med3_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| integer::med3(a, b, c) }
    546 v_sad_u8 U32 (U32 U32 U32) [CLAMP] { |a, b, c| c.wrapping_add(integer::sad_u8(a, b)), saturating c.saturating_add(integer::sad_u8(a, b)) }
    547 v_sad_hi_u8 U32 (U32 U32 U32) [CLAMP] { |a, b, c| c.wrapping_add(integer::sad_u8(a, b) << 16), saturating c.saturating_add(integer::sad_u8(a, b) << 16) }
    548 v_sad_u16 U32 (U32 U32 U32) [CLAMP] { |a, b, c| c.wrapping_add(integer::sad_u16(a, b)), saturating c.saturating_add(integer::sad_u16(a, b)) }
    549 v_sad_u32 U32 (U32 U32 U32) [CLAMP] { |a, b, c| c.wrapping_add(a.abs_diff(b)), saturating c.saturating_add(a.abs_diff(b)) }
    550 v_cvt_pk_u8_f32 B32 (F32 U32 U32) [MOD_0 CLAMP] { |a, b, c| convert::insert_u8(a.round_ties_even() as u8, b, c), soft |m, a, b, c| convert::insert_u8(soft_float::to_u8(m, a), b, c) }
    551 v_div_fixup_f32 F32 (F32 F32 F32) [FLOAT_3 NO_DPP] { |a, b, c| divide::fixup32(a, b, c), soft divide::fixup }
    552 v_div_fixup_f64 F64 (F64 F64 F64) [FLOAT_3] { |a, b, c| divide::fixup64(a, b, c), soft divide::fixup }
    553 v_min3_num_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| min_num(min_num(a, b), c), selecting }
    554 v_max3_num_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| max_num(max_num(a, b), c), selecting }
    555 v_min3_num_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| min_num(min_num(a, b), c), selecting }
    556 v_max3_num_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| max_num(max_num(a, b), c), selecting }
    557 v_minimum3_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| minimum(minimum(a, b), c), selecting }
    558 v_maximum3_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| maximum(maximum(a, b), c), selecting }
    559 v_minimum3_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| minimum(minimum(a, b), c), selecting }
    560 v_maximum3_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| maximum(maximum(a, b), c), selecting }
    561 v_med3_num_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| float::med3(a, b, c), selecting }
    562 v_med3_num_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| float::med3(a, b, c), selecting }
    567 v_div_fmas_f32 F32 (F32 F32 F32) [FLOAT_3 NO_DPP] { = divide::fmas_f32 }
    568 v_div_fmas_f64 F64 (F64 F64 F64) [FLOAT_3] { = divide::fmas_f64 }
    569 v_msad_u8 U32 (U32 U32 U32) [CLAMP] { |a, b, c| c.wrapping_add(integer::msad_u8(a, b)), saturating c.saturating_add(integer::msad_u8(a, b)) }
    570 v_qsad_pk_u16_u8 B64 (B64 B32 B64) [CLAMP] { |a, b, c| quad_sad(a, b, c, integer::sad_u8, false), saturating quad_sad(a, b, c, integer::sad_u8, true) }
    571 v_mqsad_pk_u16_u8 B64 (B64 B32 B64) [CLAMP] { |a, b, c| quad_sad(a, b, c, integer::msad_u8, false), saturating quad_sad(a, b, c, integer::msad_u8, true) }
    573 v_mqsad_u32_u8 B128 (B64 B32 B128) [CLAMP] { = cross_lane::mqsad_u32_u8 }
    576 v_xor3_b32 B32 (B32 B32 B32) [PLAIN] { |a, b, c| a ^ b ^ c }
    577 v_mad_u16 U16 (U16 U16 U16) [HALVES_3 CLAMP] { |a, b, c| a.wrapping_mul(b).wrapping_add(c), saturating saturate_u16(a as u64 * b as u64 + c as u64) }
    580 v_perm_b32 B32 (B32 B32 B32) [PLAIN] { |a, b, c| integer::perm(a, b, c) }
    581 v_xad_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| (a ^ b).wrapping_add(c) }
    582 v_lshl_add_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| (a << (b & 31)).wrapping_add(c) }
    583 v_add_lshl_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| a.wrapping_add(b) << (c & 31) }
    584 v_fma_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| float::fma_f16(a, b, c), soft soft_float::fma }
    586 v_min3_i16 I16 (I16 I16 I16) [HALVES_3 CLAMP] { |a, b, c| a.min(b).min(c) }
    587 v_min3_u16 U16 (U16 U16 U16) [HALVES_3 CLAMP] { |a, b, c| a.min(b).min(c) }
    589 v_max3_i16 I16 (I16 I16 I16) [HALVES_3 CLAMP] { |a, b, c| a.max(b).max(c) }
    590 v_max3_u16 U16 (U16 U16 U16) [HALVES_3 CLAMP] { |a, b, c| a.max(b).max(c) }
    592 v_med3_i16 I16 (I16 I16 I16) [HALVES_3 CLAMP] { |a, b, c| integer::med3(a, b, c) }
    593 v_med3_u16 U16 (U16 U16 U16) [HALVES_3 CLAMP] { |a, b, c| integer::med3(a, b, c) }
    595 v_mad_i16 I16 (I16 I16 I16) [HALVES_3 CLAMP] { |a, b, c| a.wrapping_mul(b).wrapping_add(c), saturating saturate_i16(a as i64 * b as i64 + c as i64) }
    596 v_div_fixup_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { = divide::fixup_f16 }
    597 v_add3_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| a.wrapping_add(b).wrapping_add(c) }
    598 v_lshl_or_b32 B32 (B32 B32 B32) [PLAIN] { |a, b, c| a << (b & 31) | c }
    599 v_and_or_b32 B32 (B32 B32 B32) [PLAIN] { |a, b, c| (a & b) | c }
    600 v_or3_b32 B32 (B32 B32 B32) [PLAIN] { |a, b, c| a | b | c }
    601 v_mad_u32_u16 U32 (U16 U16 U32) [HALVES_3 CLAMP] { |a, b, c| (a as u32 * b as u32).wrapping_add(c), saturating (a as u32 * b as u32).saturating_add(c) }
    602 v_mad_i32_i16 I32 (I16 I16 I32) [HALVES_3 CLAMP] { |a, b, c| (a as i32 * b as i32).wrapping_add(c), saturating (a as i32 * b as i32).saturating_add(c) }
    603 v_permlane16_b32 B32 (B32 B32 B32) [OPSEL_0 OPSEL_1 VECTOR_0 SCALAR_1 SCALAR_2 NO_DPP] { = cross_lane::permlane16 }
    604 v_permlanex16_b32 B32 (B32 B32 B32) [OPSEL_0 OPSEL_1 VECTOR_0 SCALAR_1 SCALAR_2 NO_DPP] { = cross_lane::permlanex16 }
    605 v_cndmask_b16 B16 (B16 B16 Mask) [MOD_0 MOD_1 EXACT] { |a, b, c| if c { b } else { a } }
    610 v_maxmin_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| a.max(b).min(c) }
    611 v_minmax_u32 U32 (U32 U32 U32) [PLAIN] { |a, b, c| a.min(b).max(c) }
    612 v_maxmin_i32 I32 (I32 I32 I32) [PLAIN] { |a, b, c| a.max(b).min(c) }
    613 v_minmax_i32 I32 (I32 I32 I32) [PLAIN] { |a, b, c| a.min(b).max(c) }
    614 v_dot2_f16_f16 F16 (PkF16 PkF16 F16) [MOD_0 MOD_1 MOD_2 OPSEL_2 OPSEL_D SPLAT] { = dot::dot2_f16 }
    615 v_dot2_bf16_bf16 Bf16 (PkBf16 PkBf16 Bf16) [MOD_0 MOD_1 MOD_2 OPSEL_2 OPSEL_D SPLAT] { = dot::dot2_bf16 }
    616 v_minmax_num_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| max_num(min_num(a, b), c), selecting }
    617 v_maxmin_num_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| min_num(max_num(a, b), c), selecting }
    618 v_minmax_num_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| max_num(min_num(a, b), c), selecting }
    619 v_maxmin_num_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| min_num(max_num(a, b), c), selecting }
    620 v_minimummaximum_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| maximum(minimum(a, b), c), selecting }
    621 v_maximumminimum_f32 F32 (F32 F32 F32) [FLOAT_3] { |a, b, c| minimum(maximum(a, b), c), selecting }
    622 v_minimummaximum_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| maximum(minimum(a, b), c), selecting }
    623 v_maximumminimum_f16 F16 (F16 F16 F16) [FLOAT_3 HALVES_3] { |a, b, c| minimum(maximum(a, b), c), selecting }
    640 v_s_exp_f32 F32 (F32) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_exp_f32 }
    641 v_s_exp_f16 F16 (F16) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_exp_f16 }
    642 v_s_log_f32 F32 (F32) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_log_f32 }
    643 v_s_log_f16 F16 (F16) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_log_f16 }
    644 v_s_rcp_f32 F32 (F32) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_rcp_f32 }
    645 v_s_rcp_f16 F16 (F16) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_rcp_f16 }
    646 v_s_rsq_f32 F32 (F32) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_rsq_f32 }
    647 v_s_rsq_f16 F16 (F16) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_rsq_f16 }
    648 v_s_sqrt_f32 F32 (F32) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_sqrt_f32 }
    649 v_s_sqrt_f16 F16 (F16) [FLOAT_1 SCALAR_0 SCALAR_D NO_DPP] { = s_sqrt_f16 }
    764 v_div_scale_f32 F32 (F32 F32 F32) [MOD_0 MOD_1 MOD_2 CLAMP OMOD SD NO_DPP] { = divide::scale_f32 }
    765 v_div_scale_f64 F64 (F64 F64 F64) [MOD_0 MOD_1 MOD_2 CLAMP OMOD SD] { = divide::scale_f64 }
    766 v_mad_co_u64_u32 U64 (U32 U32 U64) [SD CLAMP] { = cross_lane::mad_co_u64_u32 }
    767 v_mad_co_i64_i32 I64 (I32 I32 I64) [SD CLAMP] { = cross_lane::mad_co_i64_i32 }
    768 v_add_co_u32 U32 (U32 U32) [SD CLAMP] { = cross_lane::add_carry_out }
    769 v_sub_co_u32 U32 (U32 U32) [SD CLAMP] { = cross_lane::sub_carry_out }
    770 v_subrev_co_u32 U32 (U32 U32) [SD CLAMP] { = cross_lane::subrev_carry_out }
    771 v_add_nc_u16 U16 (U16 U16) [HALVES_2 CLAMP] { |a, b| a.wrapping_add(b), saturating a.saturating_add(b) }
    772 v_sub_nc_u16 U16 (U16 U16) [HALVES_2 CLAMP] { |a, b| a.wrapping_sub(b), saturating a.saturating_sub(b) }
    773 v_mul_lo_u16 U16 (U16 U16) [PLAIN] { |a, b| a.wrapping_mul(b) }
    774 v_cvt_pk_i16_f32 PkB16 (F32 F32) [COMPARE] { |a, b| convert::pack(a as i16 as u32, b as i16 as u32) }
    775 v_cvt_pk_u16_f32 PkB16 (F32 F32) [COMPARE] { |a, b| convert::pack(a as u16 as u32, b as u16 as u32) }
    777 v_max_u16 U16 (U16 U16) [PLAIN] { |a, b| a.max(b) }
    778 v_max_i16 I16 (I16 I16) [PLAIN] { |a, b| a.max(b) }
    779 v_min_u16 U16 (U16 U16) [PLAIN] { |a, b| a.min(b) }
    780 v_min_i16 I16 (I16 I16) [PLAIN] { |a, b| a.min(b) }
    781 v_add_nc_i16 I16 (I16 I16) [HALVES_2 CLAMP] { |a, b| a.wrapping_add(b), saturating a.saturating_add(b) }
    782 v_sub_nc_i16 I16 (I16 I16) [HALVES_2 CLAMP] { |a, b| a.wrapping_sub(b), saturating a.saturating_sub(b) }
    783 v_permlane16_var_b32 B32 (B32 B32) [OPSEL_0 OPSEL_1 VECTOR_0 VECTOR_1 NO_DPP] { = cross_lane::permlane16_var }
    784 v_permlanex16_var_b32 B32 (B32 B32) [OPSEL_0 OPSEL_1 VECTOR_0 VECTOR_1 NO_DPP] { = cross_lane::permlanex16_var }
    785 v_pack_b32_f16 PkF16 (F16 F16) [COMPARE HALVES_2] { = pack_f16 }
    786 v_cvt_pk_norm_i16_f16 PkB16 (F16 F16) [COMPARE HALVES_2] { |a, b| convert::pack(to_snorm16(a) as u32, to_snorm16(b) as u32) }
    787 v_cvt_pk_norm_u16_f16 PkB16 (F16 F16) [COMPARE HALVES_2] { |a, b| convert::pack(to_unorm16(a) as u32, to_unorm16(b) as u32) }
    796 v_ldexp_f32 F32 (F32 I32) [FLOAT_1] { |a, b| float::ldexp32(a, b), soft soft_float::ldexp }
    797 v_bfm_b32 B32 (B32 B32) [PLAIN] { |a, b| ((1u32 << (a & 31)) - 1) << (b & 31) }
    798 v_bcnt_u32_b32 U32 (B32 U32) [PLAIN] { |a, b| a.count_ones().wrapping_add(b) }
    799 v_mbcnt_lo_u32_b32 U32 (B32 U32) [PLAIN] { = cross_lane::mbcnt_lo }
    800 v_mbcnt_hi_u32_b32 U32 (B32 U32) [PLAIN] { = cross_lane::mbcnt_hi }
    801 v_cvt_pk_norm_i16_f32 PkB16 (F32 F32) [COMPARE] { |a, b| convert::pack(to_snorm16(a) as u32, to_snorm16(b) as u32) }
    802 v_cvt_pk_norm_u16_f32 PkB16 (F32 F32) [COMPARE] { |a, b| convert::pack(to_unorm16(a) as u32, to_unorm16(b) as u32) }
    803 v_cvt_pk_u16_u32 PkB16 (U32 U32) [PLAIN] { |a, b| convert::pack(a.min(0xffff), b.min(0xffff)) }
    804 v_cvt_pk_i16_i32 PkB16 (I32 I32) [PLAIN] { |a, b| convert::pack(a.clamp(-32768, 32767) as u32, b.clamp(-32768, 32767) as u32) }
    805 v_sub_nc_i32 I32 (I32 I32) [CLAMP] { |a, b| a.wrapping_sub(b), saturating a.saturating_sub(b) }
    806 v_add_nc_i32 I32 (I32 I32) [CLAMP] { |a, b| a.wrapping_add(b), saturating a.saturating_add(b) }
    811 v_ldexp_f64 F64 (F64 I32) [FLOAT_1] { |a, b| float::ldexp64(a, b), soft soft_float::ldexp }
    812 v_mul_lo_u32 U32 (U32 U32) [NO_DPP] { |a, b| a.wrapping_mul(b) }
    813 v_mul_hi_u32 U32 (U32 U32) [NO_DPP] { |a, b| ((a as u64 * b as u64) >> 32) as u32 }
    814 v_mul_hi_i32 I32 (I32 I32) [NO_DPP] { |a, b| ((a as i64 * b as i64) >> 32) as i32 }
    815 v_trig_preop_f64 F64 (F64 U32) [FLOAT_1] { |a, b| transcendental::trig_preop(lanes::MODE_DEFAULT, a, b), soft transcendental::trig_preop }
    824 v_lshlrev_b16 B16 (B16 B16) [PLAIN] { |a, b| b << (a & 15) }
    825 v_lshrrev_b16 B16 (B16 B16) [PLAIN] { |a, b| b >> (a & 15) }
    826 v_ashrrev_i16 I16 (B16 I16) [PLAIN] { |a, b| b >> (a & 15) }
    829 v_lshrrev_b64 B64 (B32 B64) [PLAIN] { |a, b| b >> (a & 63) }
    830 v_ashrrev_i64 I64 (B32 I64) [PLAIN] { |a, b| b >> (a & 63) }
    833 v_minimum_f64 F64 (F64 F64) [FLOAT_2] { |a, b| float::minimum64(a, b), selecting }
    834 v_maximum_f64 F64 (F64 F64) [FLOAT_2] { |a, b| float::maximum64(a, b), selecting }
    864 v_readlane_b32 B32 (B32 B32) [VECTOR_0 SCALAR_1 SCALAR_D NO_DPP] { = cross_lane::read_lane }
    865 v_writelane_b32 B32 (B32 B32) [SCALAR_0 SCALAR_1 NO_DPP] { = cross_lane::write_lane }
    866 v_and_b16 B16 (B16 B16) [PLAIN] { |a, b| a & b }
    867 v_or_b16 B16 (B16 B16) [PLAIN] { |a, b| a | b }
    868 v_xor_b16 B16 (B16 B16) [PLAIN] { |a, b| a ^ b }
    869 v_minimum_f32 F32 (F32 F32) [FLOAT_2] { |a, b| minimum(a, b), selecting }
    870 v_maximum_f32 F32 (F32 F32) [FLOAT_2] { |a, b| maximum(a, b), selecting }
    871 v_minimum_f16 F16 (F16 F16) [FLOAT_2 HALVES_2] { |a, b| minimum(a, b), selecting }
    872 v_maximum_f16 F16 (F16 F16) [FLOAT_2 HALVES_2] { |a, b| maximum(a, b), selecting }
    873 v_cvt_pk_fp8_f32 B16 (F32 F32) [MOD_0 MOD_1 OPSEL_0 OPSEL_1 OPSEL_D EXACT] { = fp8::cvt_pk_fp8_f32 }
    874 v_cvt_pk_bf8_f32 B16 (F32 F32) [MOD_0 MOD_1 OPSEL_0 OPSEL_1 OPSEL_D EXACT] { = fp8::cvt_pk_bf8_f32 }
    875 v_cvt_sr_fp8_f32 B32 (F32 U32) [MOD_0 OPSEL_2 OPSEL_D BYTE_SEL EXACT] { = fp8::cvt_sr_fp8_f32 }
    876 v_cvt_sr_bf8_f32 B32 (F32 U32) [MOD_0 OPSEL_2 OPSEL_D BYTE_SEL EXACT] { = fp8::cvt_sr_bf8_f32 }
};

fn saturate_i32(value: i64) -> i32 {
    value.clamp(i32::MIN as i64, i32::MAX as i64) as i32
}
fn saturate_u32(value: u64) -> u32 {
    value.min(u32::MAX as u64) as u32
}
fn saturate_i16(value: i64) -> i16 {
    value.clamp(i16::MIN as i64, i16::MAX as i64) as i16
}
fn saturate_u16(value: u64) -> u16 {
    value.min(u16::MAX as u64) as u16
}

/// Two halves as float operands: with their modifiers, denormals as MODE lets them in, and NaN quiet.
fn pack_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let quiet = |value: u16| (if value & 0x7fff > 0x7c00 { value | 0x0200 } else { value }) as u32;
    let flush = |value: u16| if value & 0x7c00 == 0 { value & 0x8000 } else { value };
    if soft_float::input(cx.wave.mode, f16::from_bits(1)).to_bits() == 0 {
        let operation = |a, b| convert::pack(quiet(flush(a)), quiet(flush(b)));
        return lanes::map2::<lanes::PkF16, lanes::B16, lanes::B16>(cx, inst, operation);
    }
    lanes::map2::<lanes::PkF16, lanes::B16, lanes::B16>(cx, inst, |a, b| convert::pack(quiet(a), quiet(b)))
}

macro_rules! pseudo_scalars {
    ($($name:ident $through:path, $operation:path;)*) => {$(
        fn $name(cx: &mut Cx<'_>, inst: &Inst) -> Step {
            $through(cx, inst, $operation)
        }
    )*};
}
pseudo_scalars! {
    s_exp_f32 transcendental::scalar, transcendental::exp2;
    s_exp_f16 half::scalar, half::exp2;
    s_log_f32 transcendental::scalar, transcendental::log2;
    s_log_f16 half::scalar, half::log2;
    s_rcp_f32 transcendental::scalar, transcendental::rcp;
    s_rcp_f16 half::scalar, half::rcp;
    s_rsq_f32 transcendental::scalar, transcendental::rsq;
    s_rsq_f16 half::scalar, half::rsq;
    s_sqrt_f32 transcendental::scalar, transcendental::sqrt;
    s_sqrt_f16 half::scalar, half::sqrt;
}
