//! Operand codes: what a source field means for a type, and how operands are printed. Formats call this; it holds no opcodes.

use super::{DecodeError, Src, Ty};
use crate::wave::{NULL, PRIVATE_APERTURE, SHARED_APERTURE};

/// Code of a literal that follows the instruction.
pub const LITERAL: u16 = 255;

/// Decodes a 9-bit source code (scalar fields pass their 8-bit or 7-bit code). `literal` is the dword behind the instruction, if one
/// follows. Pairs must be even, ranges must stay inside the scalar file; what the manual leaves undefined is refused.
pub fn src(code: u16, ty: Ty, literal: Option<u32>, word: u32) -> Result<Src, DecodeError> {
    let invalid = |reason: String| DecodeError::Invalid { word, reason };
    match code {
        0..=127 => sgpr(code as u8, ty, word).map(Src::Sgpr),
        128..=208 => Ok(Src::Const(integer(code, ty))),
        235..=238 => Ok(Src::Const(aperture(code))),
        240..=248 => Ok(Src::Const(float(code, ty))),
        253 => Ok(Src::Scc),
        LITERAL => match literal {
            Some(value) => Ok(Src::Const(expand_literal(value, ty))),
            None => Err(invalid("a literal is not allowed here".into())),
        },
        256..=511 => {
            let first = (code - 256) as u8;
            if first as u16 + ty.dwords().max(1) as u16 > 256 {
                return Err(invalid(format!("v{first} and {} more registers pass v255", ty.dwords() - 1)));
            }
            Ok(Src::Vgpr(first))
        }
        _ => Err(invalid(format!("source code {code} is not defined"))),
    }
}

/// Checks a scalar register code for a type of `ty.dwords()` registers.
pub fn sgpr(code: u8, ty: Ty, word: u32) -> Result<u8, DecodeError> {
    let count = ty.dwords().max(1);
    let invalid = |reason: String| DecodeError::Invalid { word, reason };
    if code == NULL {
        return Ok(code);
    }
    if count >= 2 && !code.is_multiple_of(2) {
        return Err(invalid(format!("scalar pair starts at odd register {code}")));
    }
    let last = code as u16 + count as u16 - 1;
    let fits = match code {
        0..=105 => last <= 105,
        106..=107 => last <= 107,
        108..=123 => last <= 123,
        125 => count == 1,
        126..=127 => last <= 127,
        _ => false,
    };
    if fits { Ok(code) } else { Err(invalid(format!("{count} scalar registers from code {code} are out of range"))) }
}

/// Checks a vector destination of `ty.dwords()` registers.
pub fn vgpr(code: u8, ty: Ty, word: u32) -> Result<u8, DecodeError> {
    src(256 + code as u16, ty, None, word).map(|_| code)
}

/// Inline integers sign-extend to the operand's width.
fn integer(code: u16, ty: Ty) -> u64 {
    let value = if code <= 192 { code as i64 - 128 } else { 192 - code as i64 };
    if ty.dwords() >= 2 { value as u64 } else { value as u32 as u64 }
}

/// Inline floats take the operand's format; packed and 16-bit ones stand in the low half.
fn float(code: u16, ty: Ty) -> u64 {
    const VALUES: [f32; 8] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0];
    let inverse = code == 248; // 1 / 2π, with its own rounding per type
    let value = if inverse { 0.0 } else { VALUES[(code - 240) as usize] };
    match ty {
        Ty::F16 | Ty::B16 | Ty::I16 | Ty::U16 | Ty::PkF16 | Ty::PkB16 => {
            if inverse {
                0x3118
            } else {
                half::f16::from_f32(value).to_bits() as u64
            }
        }
        Ty::Bf16 | Ty::PkBf16 => {
            if inverse {
                0x3e22
            } else {
                (value.to_bits() >> 16) as u64
            }
        }
        _ if ty.dwords() == 2 => {
            if inverse {
                0x3fc4_5f30_6dc9_c882
            } else {
                (value as f64).to_bits()
            }
        }
        _ => {
            if inverse {
                0x3e22_f983
            } else {
                value.to_bits() as u64
            }
        }
    }
}

/// A literal is the high half of an f64; integers extend by the operand's type.
fn expand_literal(value: u32, ty: Ty) -> u64 {
    match ty {
        Ty::F64 => (value as u64) << 32,
        Ty::I64 => value as i32 as i64 as u64,
        _ => value as u64,
    }
}

fn aperture(code: u16) -> u64 {
    match code {
        235 => (SHARED_APERTURE as u64) << 32,
        236 => (SHARED_APERTURE as u64) << 32 | 0xffff_ffff,
        237 => (PRIVATE_APERTURE as u64) << 32,
        _ => (PRIVATE_APERTURE as u64) << 32 | 0xffff_ffff,
    }
}

/// `v3`, `v[4:7]`.
pub fn vgpr_text(first: u8, dwords: u8) -> String {
    range_text("v", first as u16, dwords)
}

/// `s3`, `s[4:5]`, `vcc_lo`, `vcc`, `ttmp9`, `m0`, `null`, `exec_lo`, `exec`.
pub fn sgpr_text(code: u8, dwords: u8) -> String {
    match (code, dwords) {
        (0..=105, _) => range_text("s", code as u16, dwords),
        (106, 2) => "vcc".into(),
        (106, _) => "vcc_lo".into(),
        (107, _) => "vcc_hi".into(),
        (108..=123, _) => range_text("ttmp", code as u16 - 108, dwords),
        (124, _) => "null".into(),
        (125, _) => "m0".into(),
        (126, 2) => "exec".into(),
        (126, _) => "exec_lo".into(),
        (127, _) => "exec_hi".into(),
        _ => format!("?{code}"),
    }
}

fn range_text(letter: &str, first: u16, dwords: u8) -> String {
    if dwords <= 1 { format!("{letter}{first}") } else { format!("{letter}[{first}:{}]", first + dwords as u16 - 1) }
}

/// A source operand by its code, as LLVM prints it. `literal` is the dword behind the instruction.
pub fn src_text(code: u16, ty: Ty, literal: u32) -> String {
    match code {
        0..=127 => sgpr_text(code as u8, ty.dwords()),
        128..=192 => (code - 128).to_string(),
        193..=208 => (192 - code as i32).to_string(),
        235 => "src_shared_base".into(),
        236 => "src_shared_limit".into(),
        237 => "src_private_base".into(),
        238 => "src_private_limit".into(),
        240..=247 => ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"][(code - 240) as usize].into(),
        248 => match ty {
            Ty::F64 | Ty::B64 | Ty::I64 | Ty::U64 => "0.15915494309189532".into(),
            Ty::F16 | Ty::PkF16 | Ty::B16 | Ty::I16 | Ty::U16 | Ty::PkB16 => "0.1592".into(),
            _ => "0.15915494".into(),
        },
        253 => "src_scc".into(),
        LITERAL => format!("{literal:#x}"),
        256..=511 => vgpr_text((code - 256) as u8, ty.dwords()),
        _ => format!("?{code}"),
    }
}

/// Whether an inline constant could stand for this literal in an operand of the type; LLVM then prints `lit(…)`.
pub fn is_inline(literal: u32, ty: Ty) -> bool {
    let floats = (240..=248).any(|code| match ty {
        Ty::PkF16 | Ty::PkBf16 | Ty::F16 | Ty::Bf16 => float(code, ty) == literal as u64,
        _ => float(code, Ty::F32) == literal as u64,
    });
    let integer = if matches!(ty, Ty::F16 | Ty::Bf16) { literal as i16 as i32 } else { literal as i32 };
    floats || (-16..=64).contains(&integer)
}

/// A source of the scalar formats, as LLVM prints it: [`src_text`], `lit(…)` around literals that have an inline form, and the 32-bit
/// 1/2π whatever the type.
pub fn scalar_text(code: u16, ty: Ty, literal: u32) -> String {
    let inline = if ty.dwords() == 2 { literal <= 64 } else { is_inline(literal, ty) };
    match code {
        LITERAL if inline => format!("lit({literal:#x})"),
        LITERAL if ty == Ty::F16 => format!("{:#x}", literal as u16),
        248 if ty.dwords() == 1 => "0.15915494".into(),
        _ => src_text(code, ty, literal),
    }
}

/// A 32-bit value that is no operand code, as LLVM prints it.
pub fn value_text(value: u32) -> String {
    if let small @ -16..=64 = value as i32 {
        return small.to_string();
    }
    let code = (240..=248).find(|&code| float(code, Ty::B32) == value as u64);
    code.map_or_else(|| format!("{value:#x}"), |code| src_text(code, Ty::B32, 0))
}

/// The low 32 bits of an inline float.
pub fn constant(code: u16, ty: Ty) -> u32 {
    float(code, ty) as u32
}
