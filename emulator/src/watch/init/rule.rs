//! How undefined bits of the sources reach the result of an instruction, by kind. The kinds are read off the mnemonic; what has no
//! entry here is taken for a function in which every bit of the result depends on every bit of the sources of its lane.

use crate::isa::{Format, Inst};

/// Kind of dependence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Each bit of the result depends on at most one bit of each source, once the sources of `control` (bit n: source n) are fixed:
    /// logic, moves, shifts, permutations. Exact.
    Bits {
        /// Sources that steer.
        control: u8,
    },
    /// A bit of the result depends on the bits of the sources at and below it: sums, products.
    Upward,
    /// True or false: equal and not equal are certain where defined bits differ.
    Compare {
        /// Equal or not equal.
        equality: bool,
    },
    /// The two halves are computed apart.
    Halves,
    /// Every bit depends on every bit.
    Whole,
    /// A matrix product: element (row, column) depends on a row of A, a column of B, an element of C.
    Matrix,
    /// Registers by M0.
    Relative,
    /// One lane of the destination.
    WriteLane,
    /// Exchanges two registers.
    Swap,
}

/// The rule of an instruction that computes (memory has its own).
pub(super) fn rule(inst: &Inst) -> Rule {
    let name = inst.row.name;
    let is = |names: &[&str]| names.contains(&name);
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match inst.format {
        Format::Ds => return Rule::Bits { control: if name == "ds_swizzle_b32" { 0 } else { 1 } },
        Format::Sopc => {
            return Rule::Compare { equality: starts(&["s_cmp_eq_u", "s_cmp_lg_u", "s_cmp_eq_i", "s_cmp_lg_i"]) };
        }
        Format::Vop3p if name.contains("wmma") || name.contains("swmmac") => return Rule::Matrix,
        Format::Vop3p if name.starts_with("v_pk_") => return Rule::Halves,
        _ => {}
    }
    if starts(&["v_cmp_eq_u", "v_cmp_ne_u", "v_cmp_eq_i", "v_cmp_ne_i", "v_cmpx_eq_u", "v_cmpx_ne_u"])
        || starts(&["v_cmpx_eq_i", "v_cmpx_ne_i"])
    {
        return Rule::Compare { equality: true };
    }
    if starts(&["v_cmp"]) {
        return Rule::Compare { equality: false };
    }
    if starts(&["v_movrel", "s_movrel", "v_swaprel"]) {
        return Rule::Relative;
    }
    match name {
        "v_writelane_b32" => return Rule::WriteLane,
        "v_swap_b32" | "v_swap_b16" => return Rule::Swap,
        _ => {}
    }
    if is(&[
        "v_mov_b32",
        "v_mov_b16",
        "v_not_b32",
        "v_not_b16",
        "v_bfrev_b32",
        "v_readfirstlane_b32",
        "v_permlane64_b32",
    ]) || is(&["v_and_b32", "v_or_b32", "v_xor_b32", "v_xnor_b32", "v_and_b16", "v_or_b16", "v_xor_b16"])
        || is(&["v_and_or_b32", "v_or3_b32", "v_xor3_b32", "v_bfi_b32", "v_dual_mov_b32", "v_dual_and_b32"])
        || is(&["v_pack_b32_f16", "v_cvt_u32_u16", "v_cvt_i32_i16", "v_mbcnt_hi_u32_b32"])
        || starts(&["s_mov_b", "s_cmov_b", "s_brev_", "s_not_", "s_sext_", "s_pack_", "s_and_", "s_or_", "s_xor_"])
        || starts(&["s_nand_", "s_nor_", "s_xnor_", "s_and_not", "s_or_not", "s_wqm_", "s_bitreplicate_"])
        || starts(&["s_movk_", "s_cmovk_"])
    {
        return Rule::Bits { control: 0 };
    }
    if is(&["v_lshlrev_b32", "v_lshrrev_b32", "v_ashrrev_i32", "v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64"])
        || is(&["v_lshlrev_b16", "v_lshrrev_b16", "v_ashrrev_i16", "v_dual_lshlrev_b32"])
        || starts(&["s_bitset"])
    {
        return Rule::Bits { control: 1 };
    }
    if is(&["v_lshl_or_b32", "v_readlane_b32", "v_permlane16_var_b32", "v_permlanex16_var_b32"])
        || starts(&["s_lshl_b", "s_lshr_b", "s_ashr_i", "s_bfe_"])
    {
        return Rule::Bits { control: 2 };
    }
    if is(&["v_perm_b32", "v_alignbit_b32", "v_alignbyte_b32", "v_cndmask_b32", "v_cndmask_b16"]) {
        return Rule::Bits { control: 4 };
    }
    if is(&["v_bfe_u32", "v_bfe_i32", "v_permlane16_b32", "v_permlanex16_b32"]) {
        return Rule::Bits { control: 6 };
    }
    if name == "v_dual_cndmask_b32" || starts(&["s_cselect_b"]) {
        // What they choose by is VCC or SCC.
        return Rule::Bits { control: 0 };
    }
    let float = name.ends_with("_f16") || name.ends_with("_f32") || name.ends_with("_f64");
    let sums = [
        "v_add_nc_",
        "v_sub_nc_",
        "v_subrev_nc_",
        "v_add_co_",
        "v_sub_co_",
        "v_subrev_co_",
        "v_add3_",
        "v_mul_lo_u",
        "v_mad_co_",
        "v_lshl_add_u32",
        "v_dual_add_nc_",
        "v_xad_u32",
        "v_mul_u32_u24",
        "v_mad_u32_u24",
        "s_add_co_",
        "s_sub_co_",
        "s_add_nc_",
        "s_sub_nc_",
        "s_mul_i32",
        "s_mul_u64",
        "s_addk_",
        "s_mulk_",
    ];
    if !float && starts(&sums) && !inst.mods.clamp {
        return Rule::Upward;
    }
    Rule::Whole
}
