//! VOPD: two operations in one instruction. An [`Inst`] of its X half carries the Y half in `second`; both read their operands before
//! either writes. Rows name the half-instruction; opcodes above 15 exist in the Y half only.

use super::operand::{LITERAL, is_inline, src, src_text};
use super::{DecodeError, Format, Inst, Row, Src, Ty, row};
use crate::execute::dot::{pair_bf16, pair_f16};
use crate::execute::lanes::{B32, Kind, Nothing};
use crate::execute::plain::Bits;
use crate::execute::{float, plain, soft_float};
use crate::wave::{Cx, Exec, Flow, Lanes, Step, Wave};

/// The destination is a source as well.
const ACCUMULATES: u32 = 1;
/// `fmaak`: the constant is the third source.
const FMAAK: u32 = 2;
/// `fmamk`: the constant is the second source.
const FMAMK: u32 = 4;
/// One source only.
const MOVE: u32 = 8;

const fn half(op: u16, name: &'static str, ty: Ty, flags: u32, exec: Exec) -> Row {
    let second = if flags & MOVE != 0 { Ty::None } else { ty };
    Row { op, name, d: ty, s: [ty, second, Ty::None], flags, exec }
}

/// Its halves. Opcode: X and Y below 16, Y alone above.
pub static ROWS: &[Row] = &[
    half(0, "v_dual_fmac_f32", Ty::F32, ACCUMULATES, |cx, i| rounding::<B32>(cx, i, fma, soft_float::fma)),
    half(1, "v_dual_fmaak_f32", Ty::F32, FMAAK, |cx, i| rounding::<B32>(cx, i, fma, soft_float::fma)),
    half(2, "v_dual_fmamk_f32", Ty::F32, FMAMK, |cx, i| rounding::<B32>(cx, i, fma, soft_float::fma)),
    half(3, "v_dual_mul_f32", Ty::F32, 0, |cx, i| {
        rounding::<Nothing>(cx, i, |a, b, _| a * b, |mode, a, b, _| soft_float::mul(mode, a, b))
    }),
    half(4, "v_dual_add_f32", Ty::F32, 0, |cx, i| {
        rounding::<Nothing>(cx, i, |a, b, _| a + b, |mode, a, b, _| soft_float::add(mode, a, b))
    }),
    half(5, "v_dual_sub_f32", Ty::F32, 0, |cx, i| {
        rounding::<Nothing>(cx, i, |a, b, _| a - b, |mode, a, b, _| soft_float::sub(mode, a, b))
    }),
    half(6, "v_dual_subrev_f32", Ty::F32, 0, |cx, i| {
        rounding::<Nothing>(cx, i, |a, b, _| b - a, |mode, a, b, _| soft_float::sub(mode, b, a))
    }),
    half(7, "v_dual_mul_dx9_zero_f32", Ty::F32, 0, |cx, i| {
        rounding::<Nothing>(cx, i, |a, b, _| float::mul_dx9(a, b), |mode, a, b, _| float::soft_mul_dx9(mode, a, b))
    }),
    half(8, "v_dual_mov_b32", Ty::B32, MOVE, |cx, i| lanes::<Nothing, Nothing>(cx, i, |a, _, _| a)),
    half(9, "v_dual_cndmask_b32", Ty::B32, 0, condition),
    half(10, "v_dual_max_num_f32", Ty::F32, 0, |cx, i| selecting(cx, i, float::max_num)),
    half(11, "v_dual_min_num_f32", Ty::F32, 0, |cx, i| selecting(cx, i, float::min_num)),
    half(12, "v_dual_dot2acc_f32_f16", Ty::PkF16, ACCUMULATES, |cx, i| lanes::<B32, B32>(cx, i, pair_f16)),
    half(13, "v_dual_dot2acc_f32_bf16", Ty::PkBf16, ACCUMULATES, |cx, i| lanes::<B32, B32>(cx, i, pair_bf16)),
    half(16, "v_dual_add_nc_u32", Ty::U32, 0, |cx, i| lanes::<B32, Nothing>(cx, i, |a, b, _| a.wrapping_add(b))),
    half(17, "v_dual_lshlrev_b32", Ty::B32, 0, |cx, i| lanes::<B32, Nothing>(cx, i, |a, b, _| b << (a & 31))),
    half(18, "v_dual_and_b32", Ty::B32, 0, |cx, i| lanes::<B32, Nothing>(cx, i, |a, b, _| a & b)),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let (x, y) = (row(ROWS, (word >> 22 & 15) as u16, word)?, row(ROWS, (word >> 17 & 31) as u16, word)?);
    let Some(&high) = words.get(1) else {
        return Err(DecodeError::Truncated { word, need: 2, have: 1 });
    };
    let codes = [[word & 0x1ff, word >> 9 & 0xff], [high & 0x1ff, high >> 9 & 0xff]];
    let constant = |row: &Row| row.flags & (FMAAK | FMAMK) != 0;
    let literal = constant(x) || constant(y) || codes.iter().any(|c| c[0] as u16 == LITERAL);
    let dwords = if literal { 3 } else { 2 };
    let mut inst = Inst::new(x, Format::Vopd, dwords, words)?;
    let mut second = Inst::new(y, Format::Vopd, dwords, words)?;
    inst.dst = (high >> 24) as u8;
    // The Y destination's lowest bit is the opposite of X's.
    second.dst = (high >> 17 & 0x7f) as u8 * 2 | !inst.dst & 1;
    let value = literal.then(|| words[2]);
    for (half, [first, vector]) in [&mut inst, &mut second].into_iter().zip(codes) {
        half.src = sources(half.row, first as u16, vector as u8, half.dst, value, word)?;
    }
    inst.second = Some(Box::new(second));
    Ok(inst)
}

/// Sources of one half, in the order of its formula.
fn sources(
    row: &Row,
    first: u16,
    vector: u8,
    dst: u8,
    literal: Option<u32>,
    word: u32,
) -> Result<[Src; 3], DecodeError> {
    if row.flags & MOVE != 0 && vector != 0 {
        return Err(DecodeError::Invalid { word, reason: "a source field that it does not use is not 0".into() });
    }
    let first = both_halves(src(first, row.s[0], literal, word)?, first, row.s[0]);
    let (vector, constant) = (Src::Vgpr(vector), Src::Const(literal.unwrap_or(0) as u64));
    Ok(match row.flags {
        ACCUMULATES => [first, vector, Src::Vgpr(dst)],
        FMAAK => [first, vector, constant],
        FMAMK => [first, constant, vector],
        // Its second field is 0, which would be v0: nothing may take it for a register that is read.
        MOVE => [first, Src::Const(0), Src::Const(0)],
        _ => [first, vector, Src::Const(0)],
    })
}

/// Inline float constants of a dot product stand in both halves.
pub(super) fn both_halves(src: Src, code: u16, ty: Ty) -> Src {
    match (src, ty, code) {
        (Src::Const(value), Ty::PkF16 | Ty::PkBf16, 240..=248) => Src::Const(value | value << 16),
        (src, ..) => src,
    }
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let codes =
        [(inst.words[0] & 0x1ff, inst.words[0] >> 9 & 0xff), (inst.words[1] & 0x1ff, inst.words[1] >> 9 & 0xff)];
    let half = |half: &Inst, (first, vector): (u32, u32)| {
        let literal = inst.words[2];
        let first = match first as u16 {
            LITERAL if is_inline(literal, half.row.s[0]) => format!("lit({literal:#x})"),
            code => src_text(code, if code == 248 { Ty::F32 } else { half.row.s[0] }, literal),
        };
        match half.row.flags {
            MOVE => format!("{} v{}, {first}", half.row.name, half.dst),
            FMAAK => format!("{} v{}, {first}, v{vector}, {literal:#x}", half.row.name, half.dst),
            FMAMK => format!("{} v{}, {first}, {literal:#x}, v{vector}", half.row.name, half.dst),
            _ => format!("{} v{}, {first}, v{vector}", half.row.name, half.dst),
        }
    };
    match &inst.second {
        Some(second) => format!("{} :: {}", half(inst, codes[0]), half(second, codes[1])),
        None => half(inst, codes[1]),
    }
}

/// One half, then the other. Both read their operands before either writes: where the second reads what the first one writes, the
/// first one is not plain, and its result waits. The types are those of sources 1 and 2, [`Nothing`] where there is none.
#[inline(always)]
fn lanes<B: Kind, C: Kind>(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32, u32) -> u32 + Copy) -> Step {
    if plain::run::<B32, B32, B, C>(cx, inst, |a, b, c| f(a, b.to_bits(), c.to_bits())) {
        return match &inst.second {
            Some(second) => (second.row.exec)(cx, second),
            None => Ok(Flow::Next),
        };
    }
    general(cx, inst, f)
}

/// The way of every other half.
#[inline(never)]
fn general(cx: &mut Cx, inst: &Inst, f: impl Fn(u32, u32, u32) -> u32) -> Step {
    let result = cx.arch.dispatch_made(|| Half { wave: cx.wave, inst, f });
    finish(cx, inst, &result)
}

/// The lane loop of one half, for `pulp`: reading the operands is compiled for AVX2 with it.
struct Half<'a, F> {
    wave: &'a Wave,
    inst: &'a Inst,
    f: F,
}

impl<F: Fn(u32, u32, u32) -> u32> pulp::NullaryFnOnce for Half<'_, F> {
    type Output = Lanes;
    #[inline(always)]
    fn call(self) -> Lanes {
        let [a, b, c] = self.inst.src;
        let (a, b, c) = (self.wave.lanes(a), self.wave.lanes(b), self.wave.lanes(c));
        let mut out = [0; 32];
        for (lane, out) in out.iter_mut().enumerate() {
            *out = (self.f)(a[lane], b[lane], c[lane]);
        }
        out
    }
}

/// [`condition`] for `pulp`.
struct Chosen<'a> {
    wave: &'a Wave,
    inst: &'a Inst,
}

impl pulp::NullaryFnOnce for Chosen<'_> {
    type Output = Lanes;
    #[inline(always)]
    fn call(self) -> Lanes {
        let [a, b, _] = self.inst.src;
        let (a, b, vcc) = (self.wave.lanes(a), self.wave.lanes(b), self.wave.vcc());
        let mut out = [0; 32];
        for (lane, out) in out.iter_mut().enumerate() {
            *out = if vcc >> lane & 1 != 0 { b[lane] } else { a[lane] };
        }
        out
    }
}

fn finish(cx: &mut Cx, inst: &Inst, result: &Lanes) -> Step {
    if let Some(second) = &inst.second {
        (second.row.exec)(cx, second)?;
    }
    cx.wave.set_lanes(inst.dst, cx.wave.exec(), result);
    Ok(Flow::Next)
}

/// a·b + c.
#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// Rounding and denormals of f32, which is all that MODE has to say here.
const F32: u32 = super::flags::MODE_F32;
/// Their value at a launch.
const LAUNCHED: u32 = 0x30;

/// An operation that rounds; `soft` does it as its first argument, MODE, says. The type is that of source 2.
#[inline(always)]
fn rounding<C: Kind>(
    cx: &mut Cx,
    inst: &Inst,
    fast: impl Fn(f32, f32, f32) -> f32 + Copy,
    soft: impl Fn(u32, f32, f32, f32) -> f32,
) -> Step {
    if cx.wave.mode & F32 != LAUNCHED {
        return in_mode(cx, inst, soft);
    }
    lanes::<B32, C>(cx, inst, |a, b, c| fast(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c)).to_bits())
}

/// An operation that gives on one of its operands, as MODE lets them in.
#[inline(always)]
fn selecting(cx: &mut Cx, inst: &Inst, select: impl Fn(f32, f32) -> f32 + Copy) -> Step {
    let soft = |mode, a, b, _| select(soft_float::input(mode, a), soft_float::input(mode, b));
    rounding::<Nothing>(cx, inst, |a, b, _| select(a, b), soft)
}

#[cold]
fn in_mode(cx: &mut Cx, inst: &Inst, soft: impl Fn(u32, f32, f32, f32) -> f32) -> Step {
    let mode = cx.wave.mode;
    let [a, b, c] = inst.src.map(|src| cx.wave.lanes(src).map(f32::from_bits));
    let result = std::array::from_fn(|lane| soft(mode, a[lane], b[lane], c[lane]).to_bits());
    finish(cx, inst, &result)
}

/// Picks the second source where VCC has the lane's bit.
fn condition(cx: &mut Cx, inst: &Inst) -> Step {
    let arch = cx.arch;
    let result = arch.dispatch_made(|| Chosen { wave: cx.wave, inst });
    finish(cx, inst, &result)
}
