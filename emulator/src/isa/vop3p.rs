//! VOP3P: packed 16-bit operations, mixed-precision fma, dot products, and the matrix operations (`WMMA`, `SWMMAC`). `mods.neg` and
//! `mods.abs` are the encoding's neg_lo and neg_hi; what they mean depends on the row's kind.

use super::operand::{LITERAL, is_inline, src, src_text, vgpr, vgpr_text};
use super::{DecodeError, Format, Inst, Row, Src, Ty, dpp, row};
use crate::execute::sums::{self, Bf8, Fp8};
use crate::execute::{dot, float, matrix, matrix_sums, packed, scalar, soft_float as soft};
use crate::wave::Exec;

/// Halves picked by op_sel and op_sel_hi; integers.
pub const PACKED_INT: u32 = 0;
/// The same for f16, with neg_lo and neg_hi for the low and the high result.
pub const PACKED_FLOAT: u32 = 1;
/// op_sel_hi picks f16 or f32 for each source, op_sel the half; neg and abs.
pub const MIX: u32 = 2;
/// f16 or bf16 pairs, f32 sum.
pub const DOT2: u32 = 3;
/// Integer dot products: neg_lo says which of A and B are signed.
pub const DOT_INT: u32 = 4;
/// fp8 dot products: modifiers of C only.
pub const DOT_FP8: u32 = 5;
/// Matrices of f16 or bf16: neg of halves of A and B, neg and abs of C.
pub const WMMA_FLOAT: u32 = 6;
/// Matrices of integers: neg_lo says which of A and B are signed.
pub const WMMA_INT: u32 = 7;
/// Matrices of fp8: modifiers of C only.
pub const WMMA_FP8: u32 = 8;
/// Sparse matrices: C is the destination, source 2 the index.
pub const SPARSE: u32 = 16;
/// The indices of a sparse matrix take the whole register, so op_sel cannot pick a half.
pub const WHOLE_INDEX: u32 = 32;

const fn two(op: u16, name: &'static str, ty: Ty, kind: u32, exec: Exec) -> Row {
    Row { op, name, d: ty, s: [ty, ty, Ty::None], flags: kind, exec }
}
const fn three(op: u16, name: &'static str, d: Ty, s: [Ty; 3], kind: u32, exec: Exec) -> Row {
    Row { op, name, d, s, flags: kind, exec }
}
const fn sparse(op: u16, name: &'static str, d: Ty, [a, b]: [Ty; 2], kind: u32, exec: Exec) -> Row {
    three(op, name, d, [a, b, B32], SPARSE | kind, exec)
}

use Ty::{B32, B64, B128, B256, Bf16, F16, F32, I32, PkB16, PkBf16, PkF16, U32};

const INT_3: [Ty; 3] = [PkB16, PkB16, PkB16];
const HALF_3: [Ty; 3] = [PkF16, PkF16, PkF16];
/// Each source is decoded by op_sel_hi.
const MIX_3: [Ty; 3] = [F16, F16, F16];

/// Its instructions.
pub static ROWS: &[Row] = &[
    three(0, "v_pk_mad_i16", PkB16, INT_3, PACKED_INT, |cx, i| packed::signed(cx, i, |a, b, c| a * b + c)),
    two(1, "v_pk_mul_lo_u16", PkB16, PACKED_INT, |cx, i| packed::unsigned(cx, i, |a, b, _| a * b)),
    two(2, "v_pk_add_i16", PkB16, PACKED_INT, |cx, i| packed::signed(cx, i, |a, b, _| a + b)),
    two(3, "v_pk_sub_i16", PkB16, PACKED_INT, |cx, i| packed::signed(cx, i, |a, b, _| a - b)),
    two(4, "v_pk_lshlrev_b16", PkB16, PACKED_INT, |cx, i| packed::wrapping(cx, i, |a, b| b << (a & 15))),
    two(5, "v_pk_lshrrev_b16", PkB16, PACKED_INT, |cx, i| packed::wrapping(cx, i, |a, b| b >> (a & 15))),
    two(6, "v_pk_ashrrev_i16", PkB16, PACKED_INT, |cx, i| {
        packed::wrapping(cx, i, |a, b| ((b as i16) >> (a & 15)) as u16)
    }),
    two(7, "v_pk_max_i16", PkB16, PACKED_INT, |cx, i| packed::signed(cx, i, |a, b, _| a.max(b))),
    two(8, "v_pk_min_i16", PkB16, PACKED_INT, |cx, i| packed::signed(cx, i, |a, b, _| a.min(b))),
    three(9, "v_pk_mad_u16", PkB16, INT_3, PACKED_INT, |cx, i| packed::unsigned(cx, i, |a, b, c| a * b + c)),
    two(10, "v_pk_add_u16", PkB16, PACKED_INT, |cx, i| packed::unsigned(cx, i, |a, b, _| a + b)),
    two(11, "v_pk_sub_u16", PkB16, PACKED_INT, |cx, i| packed::unsigned(cx, i, |a, b, _| a - b)),
    two(12, "v_pk_max_u16", PkB16, PACKED_INT, |cx, i| packed::unsigned(cx, i, |a, b, _| a.max(b))),
    two(13, "v_pk_min_u16", PkB16, PACKED_INT, |cx, i| packed::unsigned(cx, i, |a, b, _| a.min(b))),
    three(14, "v_pk_fma_f16", PkF16, HALF_3, PACKED_FLOAT, |cx, i| packed::float(cx, i, float::fma_f16, soft::fma)),
    two(15, "v_pk_add_f16", PkF16, PACKED_FLOAT, |cx, i| {
        packed::float(cx, i, |a, b, _| a + b, |m, a, b, _| soft::add(m, a, b))
    }),
    two(16, "v_pk_mul_f16", PkF16, PACKED_FLOAT, |cx, i| {
        packed::float(cx, i, |a, b, _| a * b, |m, a, b, _| soft::mul(m, a, b))
    }),
    three(19, "v_dot2_f32_f16", F32, [PkF16, PkF16, F32], DOT2, dot::dot2_f32_f16),
    three(22, "v_dot4_i32_iu8", I32, [B32, B32, I32], DOT_INT, |cx, i| packed::dot_int(cx, i, 8, false)),
    three(23, "v_dot4_u32_u8", U32, [B32, B32, U32], DOT_INT, |cx, i| packed::dot_int(cx, i, 8, true)),
    three(24, "v_dot8_i32_iu4", I32, [B32, B32, I32], DOT_INT, |cx, i| packed::dot_int(cx, i, 4, false)),
    three(25, "v_dot8_u32_u4", U32, [B32, B32, U32], DOT_INT, |cx, i| packed::dot_int(cx, i, 4, true)),
    three(26, "v_dot2_f32_bf16", F32, [PkBf16, PkBf16, F32], DOT2, dot::dot2_f32_bf16),
    two(27, "v_pk_min_num_f16", PkF16, PACKED_FLOAT, |cx, i| packed::select(cx, i, float::min_num, scalar::min_num)),
    two(28, "v_pk_max_num_f16", PkF16, PACKED_FLOAT, |cx, i| packed::select(cx, i, float::max_num, scalar::max_num)),
    two(29, "v_pk_minimum_f16", PkF16, PACKED_FLOAT, |cx, i| packed::select(cx, i, float::minimum, scalar::minimum)),
    two(30, "v_pk_maximum_f16", PkF16, PACKED_FLOAT, |cx, i| packed::select(cx, i, float::maximum, scalar::maximum)),
    three(32, "v_fma_mix_f32", F32, MIX_3, MIX, |cx, i| packed::mix(cx, i, packed::MixTo::Whole)),
    three(33, "v_fma_mixlo_f16", F16, MIX_3, MIX, |cx, i| packed::mix(cx, i, packed::MixTo::Low)),
    three(34, "v_fma_mixhi_f16", F16, MIX_3, MIX, |cx, i| packed::mix(cx, i, packed::MixTo::High)),
    three(36, "v_dot4_f32_fp8_bf8", F32, [B32, B32, F32], DOT_FP8, dot::dot4_fp8_bf8),
    three(37, "v_dot4_f32_bf8_fp8", F32, [B32, B32, F32], DOT_FP8, dot::dot4_bf8_fp8),
    three(38, "v_dot4_f32_fp8_fp8", F32, [B32, B32, F32], DOT_FP8, dot::dot4_fp8_fp8),
    three(39, "v_dot4_f32_bf8_bf8", F32, [B32, B32, F32], DOT_FP8, dot::dot4_bf8_bf8),
    three(64, "v_wmma_f32_16x16x16_f16", B256, [B128, B128, F32], WMMA_FLOAT, matrix::half_to_f32::<sums::F16>),
    three(65, "v_wmma_f32_16x16x16_bf16", B256, [B128, B128, F32], WMMA_FLOAT, matrix::half_to_f32::<sums::Bf16>),
    three(66, "v_wmma_f16_16x16x16_f16", B128, [B128, B128, F16], WMMA_FLOAT, matrix_sums::f16_f16),
    three(67, "v_wmma_bf16_16x16x16_bf16", B128, [B128, B128, Bf16], WMMA_FLOAT, matrix_sums::bf16_bf16),
    three(68, "v_wmma_i32_16x16x16_iu8", B256, [B64, B64, I32], WMMA_INT, matrix::i32_iu8),
    three(69, "v_wmma_i32_16x16x16_iu4", B256, [B32, B32, I32], WMMA_INT, matrix::i32_iu4),
    three(70, "v_wmma_f32_16x16x16_fp8_fp8", B256, [B64, B64, F32], WMMA_FP8, matrix::byte_to_f32::<Fp8, Fp8>),
    three(71, "v_wmma_f32_16x16x16_fp8_bf8", B256, [B64, B64, F32], WMMA_FP8, matrix::byte_to_f32::<Fp8, Bf8>),
    three(72, "v_wmma_f32_16x16x16_bf8_fp8", B256, [B64, B64, F32], WMMA_FP8, matrix::byte_to_f32::<Bf8, Fp8>),
    three(73, "v_wmma_f32_16x16x16_bf8_bf8", B256, [B64, B64, F32], WMMA_FP8, matrix::byte_to_f32::<Bf8, Bf8>),
    three(74, "v_wmma_i32_16x16x32_iu4", B256, [B64, B64, I32], WMMA_INT, matrix::i32_iu4_k32),
    sparse(80, "v_swmmac_f32_16x16x32_f16", B256, [B128, B256], WMMA_FLOAT, matrix::sparse_half_to_f32::<sums::F16>),
    sparse(81, "v_swmmac_f32_16x16x32_bf16", B256, [B128, B256], WMMA_FLOAT, matrix::sparse_half_to_f32::<sums::Bf16>),
    sparse(82, "v_swmmac_f16_16x16x32_f16", B128, [B128, B256], WMMA_FLOAT, matrix_sums::sparse_f16_f16),
    sparse(83, "v_swmmac_bf16_16x16x32_bf16", B128, [B128, B256], WMMA_FLOAT, matrix_sums::sparse_bf16_bf16),
    sparse(84, "v_swmmac_i32_16x16x32_iu8", B256, [B64, B128], WMMA_INT, matrix::sparse_i32_iu8),
    sparse(85, "v_swmmac_i32_16x16x32_iu4", B256, [B32, B64], WMMA_INT, matrix::sparse_i32_iu4),
    sparse(86, "v_swmmac_i32_16x16x64_iu4", B256, [B64, B128], WMMA_INT | WHOLE_INDEX, matrix::sparse_i32_iu4_k64),
    sparse(87, "v_swmmac_f32_16x16x32_fp8_fp8", B256, [B64, B128], WMMA_FP8, matrix::sparse_byte_to_f32::<Fp8, Fp8>),
    sparse(88, "v_swmmac_f32_16x16x32_fp8_bf8", B256, [B64, B128], WMMA_FP8, matrix::sparse_byte_to_f32::<Fp8, Bf8>),
    sparse(89, "v_swmmac_f32_16x16x32_bf8_fp8", B256, [B64, B128], WMMA_FP8, matrix::sparse_byte_to_f32::<Bf8, Fp8>),
    sparse(90, "v_swmmac_f32_16x16x32_bf8_bf8", B256, [B64, B128], WMMA_FP8, matrix::sparse_byte_to_f32::<Bf8, Bf8>),
];

fn kind(row: &Row) -> u32 {
    row.flags & 15
}

fn is_matrix(row: &Row) -> bool {
    kind(row) >= WMMA_FLOAT
}

/// What a row's C (source 2) is as registers: the accumulator of a matrix is as wide as the destination.
fn register_type(row: &Row, n: usize) -> Ty {
    if n == 2 && is_matrix(row) && row.flags & SPARSE == 0 { row.d } else { row.s[n] }
}

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 16 & 0x7f) as u16, word)?;
    let Some(&high) = words.get(1) else {
        return Err(DecodeError::Truncated { word, need: 2, have: 1 });
    };
    let invalid = |reason: &str| DecodeError::Invalid { word, reason: reason.into() };
    let codes = [high & 0x1ff, high >> 9 & 0x1ff, high >> 18 & 0x1ff].map(|code| code as u16);
    let count = if row.s[2] == Ty::None { 2 } else { 3 };
    let literal = codes[..count].contains(&LITERAL);
    let with_dpp = dpp::announced(codes[0]);
    if with_dpp && !matches!(kind(row), MIX | DOT2 | DOT_FP8) {
        return Err(invalid("it has no DPP form"));
    }
    if with_dpp && literal {
        return Err(invalid("a literal and DPP exclude each other"));
    }
    let mut inst = Inst::new(row, Format::Vop3p, if literal | with_dpp { 3 } else { 2 }, words)?;
    if word >> 23 & 1 != 0 {
        return Err(DecodeError::Unknown { word });
    }
    inst.dst = vgpr(word as u8, row.d, word)?;
    inst.mods.abs = (word >> 8 & 7) as u8;
    inst.mods.opsel = (word >> 11 & 7) as u8;
    inst.mods.opsel_hi = (word >> 12 & 4) as u8 | (high >> 27 & 3) as u8;
    inst.mods.clamp = word >> 15 & 1 != 0;
    inst.mods.neg = (high >> 29) as u8;
    if let Some(reason) = refused_modifiers(&inst, count) {
        return Err(invalid(reason));
    }
    let value = literal.then(|| words[2]);
    let mut codes = codes;
    if with_dpp {
        let control = dpp::decode(codes[0], words[2], word)?;
        if control.abs | control.neg != 0 {
            return Err(invalid("abs and neg of a DPP dword behind VOP3P"));
        }
        codes[0] = 256 + control.register as u16;
        inst.dpp = Some(control.dpp);
        let registers_only = match kind(row) {
            MIX => &codes[1..2],
            DOT_FP8 => &codes[1..3],
            _ => &[],
        };
        if registers_only.iter().any(|&code| code < 256) {
            return Err(invalid("this operand must be a vector register beside DPP"));
        }
    }
    for (n, &code) in codes[..count].iter().enumerate() {
        inst.src[n] = source(&inst, n, code, value, word)?;
    }
    Ok(inst)
}

/// Modifiers that a row does not have must be 0 (op_sel_hi: all ones), as LLVM wants them.
fn refused_modifiers(inst: &Inst, count: usize) -> Option<&'static str> {
    let m = inst.mods;
    let kind = kind(inst.row);
    let sparse = inst.row.flags & SPARSE != 0;
    if count == 2 && (m.neg | m.abs | m.opsel) & 4 != 0 {
        return Some("modifiers of a third source that it does not have");
    }
    // Bit n set: the modifier of source n is allowed.
    let (neg, abs) = match kind {
        WMMA_FLOAT if sparse => (3, 3),
        WMMA_INT => (3, 0),
        WMMA_FP8 if sparse => (0, 0),
        WMMA_FP8 | DOT_FP8 => (4, 4),
        _ => (7, 7),
    };
    if m.neg & !neg != 0 || m.abs & !abs != 0 {
        return Some("neg_lo or neg_hi of a source that has none");
    }
    let opsel = match kind {
        _ if inst.row.flags & WHOLE_INDEX != 0 => 0,
        _ if sparse => 1,
        DOT_INT | DOT_FP8 | WMMA_FLOAT | WMMA_INT | WMMA_FP8 => 0,
        _ => 7,
    };
    if m.opsel & !opsel != 0 {
        return Some("op_sel where there is none");
    }
    if m.opsel_hi != 7 && matches!(kind, DOT_FP8 | WMMA_FLOAT | WMMA_INT | WMMA_FP8) {
        return Some("op_sel_hi is not all ones");
    }
    if m.clamp && matches!(kind, DOT_FP8 | WMMA_FLOAT | WMMA_FP8) {
        return Some("clamp where there is none");
    }
    None
}

/// A source as the row's kind takes constants: integers and C as 32 bits, packed f16 in the low half, dot products in both.
fn source(inst: &Inst, n: usize, code: u16, literal: Option<u32>, word: u32) -> Result<Src, DecodeError> {
    let row = inst.row;
    let invalid = |reason: &str| DecodeError::Invalid { word, reason: reason.into() };
    if is_matrix(row) {
        let constant = n == 2 && row.flags & SPARSE == 0 && matches!(code, 128..=208 | 240..=248);
        if code < 256 && !constant {
            return Err(invalid("a matrix operand is not a vector register"));
        }
        if code >= 256 {
            return src(code, register_type(row, n), None, word);
        }
    }
    let ty = match kind(row) {
        PACKED_INT => B32,
        MIX if inst.mods.opsel_hi >> n & 1 == 0 => F32,
        _ => row.s[n],
    };
    let value = src(code, ty, literal, word)?;
    Ok(match value {
        // A 16-bit accumulator takes the constant in each of its elements.
        Src::Const(c) if is_matrix(row) && matches!(ty, F16 | Bf16) => Src::Const(c & 0xffff | (c & 0xffff) << 16),
        Src::Const(c) if kind(row) == DOT2 && (240..=248).contains(&code) && n < 2 => Src::Const(c | c << 16),
        value => value,
    })
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let row = inst.row;
    let mut codes = [inst.words[1] & 0x1ff, inst.words[1] >> 9 & 0x1ff, inst.words[1] >> 18 & 0x1ff];
    if inst.dpp.is_some() {
        codes[0] = 256 + (inst.words[2] & 0xff);
    }
    let count = if row.s[2] == Ty::None { 2 } else { 3 };
    let m = inst.mods;
    let suffix = if inst.dpp.is_some() { "_e64_dpp" } else { "" };
    let mut text = format!("{}{suffix} {}", row.name, vgpr_text(inst.dst, row.d.dwords()));
    for (n, &code) in codes[..count].iter().enumerate() {
        let operand = operand_text(inst, n, code as u16);
        let operand = match (kind(row) == MIX, m.abs >> n & 1 != 0) {
            (true, true) => format!("|{operand}|"),
            _ => operand,
        };
        let constant = matches!(code, 128..=208 | 240..=248);
        text += &match kind(row) == MIX && m.neg >> n & 1 != 0 {
            true if constant && m.abs >> n & 1 == 0 => format!(", neg({operand})"),
            true => format!(", -{operand}"),
            false => format!(", {operand}"),
        };
    }
    let list = |name: &str, bits: u8| {
        let bits: Vec<&str> = (0..count).map(|n| if bits >> n & 1 != 0 { "1" } else { "0" }).collect();
        format!(" {name}:[{}]", bits.join(","))
    };
    let all = (1 << count) - 1;
    if row.flags & SPARSE != 0 {
        if m.opsel != 0 {
            text += " index_key:1";
        }
    } else if m.opsel & all != 0 {
        text += &list("op_sel", m.opsel);
    }
    let hidden = match kind(row) {
        MIX => 0,
        DOT_INT => m.opsel_hi & all,
        _ => all,
    };
    if m.opsel_hi & all != hidden {
        text += &list("op_sel_hi", m.opsel_hi);
    }
    if kind(row) != MIX {
        for (name, bits) in [("neg_lo", m.neg), ("neg_hi", m.abs)] {
            if bits & all != 0 {
                text += &list(name, bits);
            }
        }
    }
    if m.clamp {
        text += " clamp";
    }
    if let Some(control) = inst.dpp {
        text += &dpp::text(control);
    }
    text
}

fn operand_text(inst: &Inst, n: usize, code: u16) -> String {
    let ty = register_type(inst.row, n);
    match code {
        LITERAL => {
            // LLVM takes an operand of a mixed fma for an f16, whatever op_sel_hi says.
            let (literal, ty) = match kind(inst.row) {
                PACKED_INT => (inst.words[2], B32),
                MIX => (inst.words[2] & 0xffff, F16),
                _ => (inst.words[2], inst.row.s[n]),
            };
            if is_inline(literal, ty) { format!("lit({:#x})", inst.words[2]) } else { format!("{literal:#x}") }
        }
        // LLVM prints 1 / 2π alike for all types here.
        248 => src_text(code, F32, 0),
        _ => src_text(code, ty, 0),
    }
}
