//! What VOP1, VOP2, VOPC and VOP3 share: the macro that makes rows, decoding of sources and modifiers, and printing. The formats' own
//! files hold the rows and the places of the fields; no opcode stands here.

use super::{DecodeError, Format, Inst, Row, Src, Ty, dpp, flags, operand};
use crate::wave::{EXEC, VCC};

/// Rows of one format: `opcode name destination (sources) [flags] { operation }`. The operation is one lane's function, alone where it
/// rounds nothing (or not as MODE says), with
///
/// - `, soft function`: what it is in any float mode, MODE as first argument ([`crate::execute::lanes::rounding`]);
/// - `, selecting`: it gives on one of its operands ([`crate::execute::lanes::selecting`]);
/// - `, saturating function`: its twin for clamp;
///
/// or `= path` of an executor of its own.
macro_rules! rows {
    ($($op:literal $name:ident $d:ident ($($s:ident)*) [$($flag:ident)*] { $($how:tt)* })*) => {
        &[$($crate::isa::Row {
            op: $op,
            name: stringify!($name),
            d: $crate::isa::Ty::$d,
            s: $crate::isa::vop::sources(&[$($crate::isa::Ty::$s),*]),
            flags: $crate::isa::flags::of(
                $crate::isa::Ty::$d,
                $crate::isa::vop::sources(&[$($crate::isa::Ty::$s),*]),
                0 $(| $crate::isa::flags::$flag)*,
            ),
            exec: $crate::isa::vop::exec!($d ($($s)*) $($how)*),
        }),*]
    };
}

/// The executor of a row.
macro_rules! exec {
    ($d:ident ($($s:ident)*) = $path:path) => { $path };
    ($d:ident ($($s:ident)*) |$($a:ident),*| $e:expr) => {
        $crate::isa::vop::exec!(map $d ($($s)*) |$($a),*| $e)
    };
    ($d:ident ($($s:ident)*) |$($a:ident),*| $e:expr, selecting) => {
        $crate::isa::vop::exec!(selecting $d ($($s)*) |$($a),*| $e)
    };
    ($d:ident ($($s:ident)*) |$($a:ident),*| $e:expr, soft $soft:expr) => {
        $crate::isa::vop::exec!(rounding $d ($($s)*) |$($a),*| $e, $soft)
    };
    ($d:ident ($($s:ident)*) |$($a:ident),*| $e:expr, saturating $f:expr) => {{
        #[inline(always)]
        fn operation($($a: <$crate::execute::lanes::$s as $crate::execute::lanes::Kind>::V),*)
            -> <$crate::execute::lanes::$d as $crate::execute::lanes::Kind>::V
        {
            $e
        }
        #[inline(always)]
        fn saturating($($a: <$crate::execute::lanes::$s as $crate::execute::lanes::Kind>::V),*)
            -> <$crate::execute::lanes::$d as $crate::execute::lanes::Kind>::V
        {
            $f
        }
        |cx: &mut $crate::wave::Cx<'_>, inst: &$crate::isa::Inst| {
            if inst.mods.clamp {
                return $crate::isa::vop::lanes!(map cx inst $d ($($s)*) saturating);
            }
            $crate::isa::vop::lanes!(map cx inst $d ($($s)*) operation)
        }
    }};
    ($how:ident $d:ident ($($s:ident)*) |$($a:ident),*| $e:expr $(, $soft:expr)?) => {{
        #[inline(always)]
        fn operation($($a: <$crate::execute::lanes::$s as $crate::execute::lanes::Kind>::V),*)
            -> <$crate::execute::lanes::$d as $crate::execute::lanes::Kind>::V
        {
            $e
        }
        |cx: &mut $crate::wave::Cx<'_>, inst: &$crate::isa::Inst| {
            $crate::isa::vop::lanes!($how cx inst $d ($($s)*) operation $(, $soft)?)
        }
    }};
}

/// A call of one of the loops of [`crate::execute::lanes`], absent sources filled in.
macro_rules! lanes {
    ($how:ident $cx:ident $inst:ident $d:ident ($a:ident) $f:ident $(, $soft:expr)?) => {
        $crate::execute::lanes::$how::<
            $crate::execute::lanes::$d,
            $crate::execute::lanes::$a,
            $crate::execute::lanes::Nothing,
            $crate::execute::lanes::Nothing,
        >($cx, $inst, |a, (), ()| $f(a) $(, |mode, a, (), ()| ($soft)(mode, a))?)
    };
    ($how:ident $cx:ident $inst:ident $d:ident ($a:ident $b:ident) $f:ident $(, $soft:expr)?) => {
        $crate::execute::lanes::$how::<
            $crate::execute::lanes::$d,
            $crate::execute::lanes::$a,
            $crate::execute::lanes::$b,
            $crate::execute::lanes::Nothing,
        >($cx, $inst, |a, b, ()| $f(a, b) $(, |mode, a, b, ()| ($soft)(mode, a, b))?)
    };
    ($how:ident $cx:ident $inst:ident $d:ident ($a:ident $b:ident $c:ident) $f:ident $(, $soft:expr)?) => {
        $crate::execute::lanes::$how::<
            $crate::execute::lanes::$d,
            $crate::execute::lanes::$a,
            $crate::execute::lanes::$b,
            $crate::execute::lanes::$c,
        >($cx, $inst, $f $(, $soft)?)
    };
}

pub(crate) use {exec, lanes, rows};

/// Up to three source types, the rest absent.
pub const fn sources(given: &[Ty]) -> [Ty; 3] {
    let mut out = [Ty::None; 3];
    let mut i = 0;
    while i < given.len() {
        out[i] = given[i];
        i += 1;
    }
    out
}

/// The fields of an encoding, before their meaning is known.
#[derive(Clone, Copy, Default)]
pub struct Fields {
    /// Source codes; VOP1, VOP2 and VOPC leave the later ones 0.
    pub codes: [u16; 3],
    /// vdst, or the scalar destination in its place.
    pub dst: u8,
}

fn invalid(word: u32, reason: impl Into<String>) -> DecodeError {
    DecodeError::Invalid { word, reason: reason.into() }
}

fn sixteen(ty: Ty) -> bool {
    matches!(ty, Ty::B16 | Ty::I16 | Ty::U16 | Ty::F16 | Ty::Bf16)
}

fn short(format: Format) -> bool {
    matches!(format, Format::Vop1 | Format::Vop2 | Format::Vopc)
}

/// Explicit sources of a row in a format: VOP2's carry and selection mask are VCC and have no field.
pub fn explicit(row: &Row, format: Format) -> usize {
    row.s.iter().filter(|&&ty| ty != Ty::None && !(short(format) && ty == Ty::Mask)).count()
}

/// Whether a row has DPP forms: operands of 64 bits do not.
fn has_dpp(row: &Row) -> bool {
    row.flags & (flags::NO_DPP | flags::CONSTANT) == 0 && row.d.dwords() < 2 && row.s.iter().all(|ty| ty.dwords() < 2)
}

/// Decodes an instruction of `row`: sources, literal, DPP, destination. Modifiers of VOP3 follow in the format's own decoder.
pub fn decode(row: &'static Row, format: Format, fields: Fields, words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let base = if short(format) { 1u8 } else { 2 };
    let count = explicit(row, format);
    let codes = &fields.codes[..count];
    let with_dpp = count > 0 && dpp::announced(codes[0]);
    let with_literal = row.flags & flags::CONSTANT != 0 || codes.contains(&operand::LITERAL);
    if with_dpp && with_literal {
        return Err(invalid(word, "a literal and DPP exclude each other"));
    }
    if with_dpp && !has_dpp(row) {
        return Err(invalid(word, format!("{} has no DPP form", row.name)));
    }
    let mut inst = Inst::new(row, format, base + (with_dpp | with_literal) as u8, words)?;
    let extra = inst.words[inst.dwords as usize - 1];
    if with_dpp {
        let control = dpp::decode(codes[0], extra, word)?;
        if control.abs | control.neg != 0 && !short(format) {
            return Err(invalid(word, "abs and neg of a DPP dword behind VOP3"));
        }
        inst.mods.abs = control.abs;
        inst.mods.neg = control.neg;
        check_source_modifiers(&inst, word)?;
        inst.dpp = Some(control.dpp);
    }
    let literal = with_literal.then_some(extra);
    for (i, &code) in codes.iter().enumerate() {
        let code = if with_dpp && i == 0 { 256 + (extra as u8 as u16) } else { code };
        inst.src[i] = source(row, format, i, code, literal, word)?;
    }
    implicit_sources(&mut inst, fields.dst);
    inst.dst = destination(row, format, fields.dst, word)?;
    if row.flags & flags::CONSTANT != 0 {
        place_constant(&mut inst, extra);
    }
    Ok(inst)
}

/// One source: register files and constants that the row allows.
fn source(row: &Row, format: Format, i: usize, code: u16, literal: Option<u32>, word: u32) -> Result<Src, DecodeError> {
    let ty = row.s[i];
    let vector = code >= 256;
    let wants_vector = (row.flags >> i) & flags::VECTOR_0 != 0 && i < 2;
    let scalar_flag = [flags::SCALAR_0, flags::SCALAR_1, flags::SCALAR_2][i];
    if wants_vector && !vector {
        return Err(invalid(word, format!("source {i} of {} must be a vector register", row.name)));
    }
    if row.flags & scalar_flag != 0 && vector {
        return Err(invalid(word, format!("source {i} of {} must be a scalar", row.name)));
    }
    if ty == Ty::B128 && !vector {
        return Err(invalid(word, format!("source {i} of {} must be vector registers", row.name)));
    }
    if ty == Ty::Mask && !matches!(code, 0..=127 | 235..=238 | 253) {
        return Err(invalid(word, format!("source {i} of {} must be a scalar register", row.name)));
    }
    if short(format) && sixteen(ty) && code >= 256 + 128 {
        return Err(invalid(word, format!("v{} as a 16-bit operand: this form reaches v0 to v127 only", code - 256)));
    }
    let mut src = operand::src(code, ty, literal, word)?;
    if let Src::Const(value) = &mut src {
        if sixteen(ty) {
            *value &= 0xffff;
        }
        if row.flags & flags::SPLAT != 0 && code != operand::LITERAL && i < 2 {
            *value = (*value & 0xffff) | (*value & 0xffff) << 16;
        }
    }
    Ok(src)
}

/// Sources that no field names: VCC in the short forms, the destination where it accumulates.
fn implicit_sources(inst: &mut Inst, dst: u8) {
    if short(inst.format) {
        for i in 0..3 {
            if inst.row.s[i] == Ty::Mask {
                inst.src[i] = Src::Sgpr(VCC);
            }
        }
        if inst.row.flags & flags::SD != 0 {
            inst.sdst = VCC;
        }
    }
    if inst.row.flags & flags::ACCUMULATES != 0 {
        inst.src[2] = Src::Vgpr(dst);
    }
}

fn destination(row: &Row, format: Format, dst: u8, word: u32) -> Result<u8, DecodeError> {
    if row.d == Ty::None {
        return Ok(0);
    }
    if row.d == Ty::Mask || row.flags & flags::SCALAR_D != 0 {
        let float = matches!(row.d, Ty::F32 | Ty::F16);
        return if dst < if float { EXEC } else { 128 } {
            operand::sgpr(dst, row.d, word)
        } else {
            Err(invalid(word, format!("scalar destination {dst}")))
        };
    }
    if short(format) && sixteen(row.d) && dst >= 128 {
        return Err(invalid(word, format!("v{dst} as a 16-bit destination: this form reaches v0 to v127 only")));
    }
    operand::vgpr(dst, row.d, word)
}

/// `fmaak` is s0·s1 + K and `fmamk` s0·K + s1: the constant goes to its place among three sources.
fn place_constant(inst: &mut Inst, constant: u32) {
    let ty = inst.row.s[0];
    let value = Src::Const(if sixteen(ty) { constant as u64 & 0xffff } else { constant as u64 });
    inst.src = match inst.row.name.contains("mk") {
        true => [inst.src[0], value, inst.src[1]],
        false => [inst.src[0], inst.src[1], value],
    };
}

/// Refuses abs and neg on sources that do not take them.
pub fn check_source_modifiers(inst: &Inst, word: u32) -> Result<(), DecodeError> {
    let allowed = (inst.row.flags / flags::MOD_0 & 7) as u8;
    if (inst.mods.abs | inst.mods.neg) & !allowed != 0 {
        return Err(invalid(word, format!("abs or neg on a source of {} that does not take it", inst.row.name)));
    }
    Ok(())
}

/// Source codes as encoded, DPP resolved.
fn codes(inst: &Inst) -> [u16; 3] {
    let (w0, w1) = (inst.words[0], inst.words[1]);
    let mut out = match inst.format {
        Format::Vop1 => [w0 & 511, 0, 0],
        Format::Vop2 | Format::Vopc => [w0 & 511, 256 + (w0 >> 9 & 255), 0],
        _ => [w1 & 511, w1 >> 9 & 511, w1 >> 18 & 511],
    };
    if inst.dpp.is_some() {
        out[0] = 256 + (inst.words[inst.dwords as usize - 1] & 255);
    }
    out.map(|code| code as u16)
}

/// `v[4:7]`, `s3`, …: destination of the row.
fn destination_text(inst: &Inst) -> String {
    if inst.row.d == Ty::Mask {
        operand::sgpr_text(inst.dst, 1)
    } else if inst.row.flags & flags::SCALAR_D != 0 {
        operand::sgpr_text(inst.dst, inst.row.d.dwords())
    } else {
        operand::vgpr_text(inst.dst, inst.row.d.dwords())
    }
}

/// A source with its modifiers.
fn source_text(inst: &Inst, i: usize, code: u16) -> String {
    let literal = inst.words[inst.dwords as usize - 1];
    let ty = if inst.row.s[i] == Ty::Mask { Ty::B32 } else { inst.row.s[i] };
    let mut plain = operand_text(code, ty, literal, short(inst.format));
    if i == 1 && short(inst.format) && inst.row.s[2] == Ty::Mask {
        // The mask belongs to the operand before it, inside that one's bars.
        plain.push_str(", vcc_lo");
    }
    let (abs, neg) = (inst.mods.abs >> i & 1 != 0, inst.mods.neg >> i & 1 != 0);
    match (neg, abs) {
        (false, false) => plain,
        (false, true) => format!("|{plain}|"),
        (true, true) => format!("-|{plain}|"),
        // A minus before a constant would read as another constant.
        (true, false) if matches!(code, 128..=208 | 240..=248 | 255) && !plain.starts_with("lit") => {
            format!("neg({plain})")
        }
        (true, false) => format!("-{plain}"),
    }
}

const INLINE_F32: [u32; 9] = [
    0x3f00_0000,
    0xbf00_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x4000_0000,
    0xc000_0000,
    0x4080_0000,
    0xc080_0000,
    0x3e22_f983,
];
const INLINE_F16: [u32; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];

const INLINE_BF16: [u32; 9] = [0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22];

/// An operand as LLVM prints it; `splat` says that constants of packed operands fill both halves. A literal whose value has an inline
/// form is marked `lit(…)`.
fn operand_text(code: u16, ty: Ty, literal: u32, splat: bool) -> String {
    let integer16 = matches!(ty, Ty::B16 | Ty::I16 | Ty::U16);
    if integer16 && (240..=248).contains(&code) {
        return format!("{:#x}", INLINE_F16[code as usize - 240]);
    }
    if code == 248 {
        return if ty.dwords() == 2 { "0.15915494309189532".into() } else { "0.15915494".into() };
    }
    if code != operand::LITERAL {
        return operand::src_text(code, ty, literal);
    }
    let small = |value: i64| (-16..=64).contains(&value);
    let (value, inline) = match ty {
        Ty::F64 => {
            // The literal is the high half; what an inline constant could say is printed as that constant.
            if let Some(n) =
                (0..8).find(|&n| (f32::from_bits(INLINE_F32[n]) as f64).to_bits() == (literal as u64) << 32)
            {
                return operand::src_text(240 + n as u16, ty, 0);
            }
            if literal == 0 {
                return "0".into();
            }
            (literal, false)
        }
        Ty::B64 | Ty::I64 | Ty::U64 => (literal, small(literal as i64)),
        _ if integer16 => {
            let inline = small(literal as i32 as i64) || INLINE_F32.contains(&literal);
            (if inline { literal } else { literal & 0xffff }, inline)
        }
        // LLVM compares the whole dword, and prints its low half (of an f16) where that finds nothing.
        Ty::F16 | Ty::Bf16 if literal >> 16 != 0 => {
            let inline = small(literal as i32 as i64) || INLINE_F32[..8].contains(&literal);
            (if inline || ty == Ty::Bf16 { literal } else { literal & 0xffff }, inline)
        }
        Ty::Bf16 => (literal, small(literal as i16 as i64) || INLINE_BF16.contains(&literal)),
        Ty::F16 => (literal, small(literal as i16 as i64) || INLINE_F16.contains(&literal)),
        Ty::PkF16 if splat => {
            let halves = literal >> 16 == literal & 0xffff && INLINE_F16.contains(&(literal & 0xffff));
            (literal, small(literal as i32 as i64) || halves)
        }
        Ty::PkF16 => (literal, small(literal as i32 as i64) || INLINE_F16.contains(&literal)),
        Ty::PkBf16 => (literal, small(literal as i32 as i64) || INLINE_BF16.contains(&literal)),
        _ => (literal, small(literal as i32 as i64) || INLINE_F32.contains(&literal)),
    };
    if inline { format!("lit({value:#x})") } else { format!("{value:#x}") }
}

/// Operands and modifiers, for a mnemonic that the format has completed with its suffix.
pub fn text(inst: &Inst, mnemonic: String) -> String {
    let row = inst.row;
    let codes = codes(inst);
    let mut operands = Vec::new();
    // `v_cmpx` writes EXEC without naming it.
    if row.d != Ty::None && !row.name.starts_with("v_cmpx") {
        operands.push(destination_text(inst));
    }
    if row.flags & flags::SD != 0 {
        operands.push(operand::sgpr_text(inst.sdst, 1));
    }
    for i in 0..explicit(row, inst.format) {
        operands.push(source_text(inst, i, codes[i]));
    }
    if row.flags & flags::CONSTANT != 0 {
        let constant = format!("{:#x}", inst.words[inst.dwords as usize - 1]);
        operands.insert(if row.name.contains("mk") { 2 } else { 3 }, constant);
    }
    let mut out = mnemonic;
    if !operands.is_empty() {
        out.push(' ');
        out.push_str(&operands.join(", "));
    }
    out.push_str(&opsel_text(inst));
    if inst.mods.clamp {
        out.push_str(" clamp");
    }
    out.push_str(["", " mul:2", " mul:4", " div:2"][inst.mods.omod as usize & 3]);
    if let Some(control) = inst.dpp {
        out.push_str(&dpp::text(control));
    }
    out
}

fn opsel_text(inst: &Inst) -> String {
    let opsel = inst.mods.opsel as u32;
    if opsel == 0 {
        return String::new();
    }
    let allowed = inst.row.flags / flags::OPSEL_0 & 15;
    if inst.row.flags & flags::BYTE_SEL != 0 {
        // Sources: the two bits are swapped. Destinations: they are bits 2 and 3.
        let byte = if allowed & 3 != 0 { (opsel & 1) << 1 | (opsel >> 1 & 1) } else { opsel >> 2 };
        return format!(" byte_sel:{byte}");
    }
    let mut bits: Vec<u32> = (0..explicit(inst.row, inst.format) as u32).map(|i| opsel >> i & 1).collect();
    if inst.row.flags & (flags::SCALAR_1 | flags::NO_DPP) == 0 || inst.row.d.dwords() == 2 {
        bits.push(opsel >> 3 & 1);
    } else {
        // The lane permutations use the first two bits for other ends.
        bits.truncate(2);
    }
    let bits: Vec<String> = bits.iter().map(u32::to_string).collect();
    format!(" op_sel:[{}]", bits.join(","))
}
