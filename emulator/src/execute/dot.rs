//! Dot products of two pairs of halves that end in a half (`v_dot2_f16_f16`, `v_dot2_bf16_bf16`), summed as AMD's published gfx1201
//! measurements say: the products are aligned to the larger one's exponent and cut off there, their sum and the addend are aligned to
//! each other and cut off, and the result is rounded once, an f16's to nearest even, a bf16's to f32 and then cut off. Denormals stay;
//! of MODE only FP16_OVFL has a say. Dot products that end in f32 stand in [`super::packed`].

use super::lanes::{self, B16, Kind, Out, check, raw, unsupported};
use super::{convert, soft_float};
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Step};
use half::f16;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

/// A 16-bit float's layout.
#[derive(Clone, Copy)]
struct Format {
    fraction: u32,
    bias: i32,
    infinity: u32,
}
const F16: Format = Format { fraction: 10, bias: 15, infinity: 0x7c00 };
const BF16: Format = Format { fraction: 7, bias: 127, infinity: 0x7f80 };

impl Format {
    fn is_nan(self, bits: u32) -> bool {
        bits & 0x7fff > self.infinity
    }
    fn is_infinite(self, bits: u32) -> bool {
        bits & 0x7fff == self.infinity
    }
    /// Exponent of the hidden bit's place.
    fn exponent(self, bits: u32) -> i32 {
        ((bits & 0x7fff) >> self.fraction).max(1) as i32 - self.bias
    }
    /// Signed significand in units of its last place.
    fn significand(self, bits: u32) -> i64 {
        let fraction = (bits & ((1 << self.fraction) - 1)) as i64;
        let hidden = if (bits & 0x7fff) >> self.fraction == 0 { 0 } else { 1 << self.fraction };
        if bits & 0x8000 != 0 { -(fraction | hidden) } else { fraction | hidden }
    }
}

/// A grid on which nothing lies.
const EMPTY: i32 = -1024;
/// Places that a product keeps below its hidden bit's, and an addend below its leading bit.
const PRODUCT_PLACES: i32 = 24;
const ADDEND_PLACES: i32 = 26;

/// significand · 2^exponent in units of 2^grid, cut off downwards.
fn align(significand: i64, exponent: i32, grid: i32) -> i64 {
    let shift = exponent - grid;
    if shift >= 0 { significand << shift.min(40) } else { significand >> (-shift).min(63) }
}

/// a.lo·b.lo + a.hi·b.hi + c as units and the exponent of their place; an addend in f32. `lowest` bounds the addend's alignment below.
fn sum(format: Format, a: [u32; 2], b: [u32; 2], c: u32, lowest: i32) -> (i64, i32) {
    let grid_of = |i: usize| match format.significand(a[i]) * format.significand(b[i]) {
        0 => EMPTY,
        _ => format.exponent(a[i]) + format.exponent(b[i]) - PRODUCT_PLACES,
    };
    let pair_grid = grid_of(0).max(grid_of(1));
    let product = |i: usize| {
        let exponent = format.exponent(a[i]) + format.exponent(b[i]) - 2 * format.fraction as i32;
        align(format.significand(a[i]) * format.significand(b[i]), exponent, pair_grid)
    };
    let pair = product(0) + product(1);
    let field = c >> 23 & 0xff;
    let size = (c & 0x7f_ffff | if field == 0 { 0 } else { 0x80_0000 }) as i64;
    let exponent = field.max(1) as i32 - 150;
    let leading = if size == 0 { EMPTY } else { exponent + 63 - size.leading_zeros() as i32 };
    let grid = pair_grid.max(lowest.max(leading) - ADDEND_PLACES);
    let addend = if c >> 31 != 0 { -size } else { size };
    // Far below the grid a negative addend vanishes like a positive one.
    let vanishes = grid > lowest && align(size, exponent, grid) == 0;
    let addend = if vanishes { 0 } else { align(addend, exponent, grid) };
    (addend + align(pair, pair_grid, grid), grid)
}

/// What the operands decide without arithmetic: NaN and infinities, as f32 bits.
fn special(format: Format, a: [u32; 2], b: [u32; 2], c: u32) -> Option<u32> {
    const INVALID: u32 = 0xffc0_0000;
    let (mut up, mut down) = (c == 0x7f80_0000, c == 0xff80_0000);
    let mut invalid = false;
    for (a, b) in a.into_iter().zip(b) {
        if format.is_nan(a) || format.is_nan(b) {
            return Some(INVALID);
        }
        let zero = format.significand(a) == 0 || format.significand(b) == 0;
        if format.is_infinite(a) || format.is_infinite(b) {
            invalid |= zero;
            let negative = (a ^ b) & 0x8000 != 0;
            down |= negative;
            up |= !negative;
        }
    }
    if invalid {
        return Some(INVALID);
    }
    if c & 0x7fff_ffff > 0x7f80_0000 {
        return Some(c | 0x0040_0000);
    }
    match (up, down) {
        (true, true) => Some(INVALID),
        (true, false) => Some(0x7f80_0000),
        (false, true) => Some(0xff80_0000),
        (false, false) => None,
    }
}

fn exact((units, grid): (i64, i32)) -> Quad {
    Quad::from_i128(units as i128).value.scalbn(grid)
}

fn halves(word: u32) -> [u32; 2] {
    [word & 0xffff, word >> 16]
}

/// f16 halves; `c` and the result are f16 bits.
fn in_f16(mode: u32, a: u32, b: u32, c: u32) -> u32 {
    let (a, b) = (halves(a), halves(b));
    let c = convert::f16_to_f32(c).to_bits();
    if let Some(special) = special(F16, a, b, c) {
        return convert::f32_to_f16(f32::from_bits(special));
    }
    let mode = lanes::MODE_DEFAULT | mode & 1 << 23;
    let rounded: f16 = soft_float::round(mode, exact(sum(F16, a, b, c, -14)));
    rounded.to_bits() as u32
}

/// bf16 halves; `c` and the result are bf16 bits.
fn in_bf16(a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (halves(a), halves(b), c << 16);
    if let Some(special) = special(BF16, a, b, c) {
        return special >> 16;
    }
    let rounded: f32 = soft_float::round(lanes::MODE_DEFAULT, exact(sum(BF16, a, b, c, -126)));
    rounded.to_bits() >> 16
}

fn dot2(cx: &mut Cx<'_>, inst: &Inst, operation: impl Fn(u32, u32, u32) -> u32) -> Step {
    check(cx, inst)?;
    if (inst.mods.abs | inst.mods.neg) & 3 != 0 {
        return Err(unsupported(format!("{} with abs or neg on a packed source", inst.row.name)));
    }
    let (a, b, c) = (raw(cx.wave, inst, 0), raw(cx.wave, inst, 1), B16::read(cx.wave, inst, 2));
    let out = std::array::from_fn(|lane| operation(a[lane], b[lane], c[lane] as u32) as u16);
    B16::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// f16.
pub fn dot2_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let mode = cx.wave.mode;
    dot2(cx, inst, |a, b, c| in_f16(mode, a, b, c))
}
/// bf16.
pub fn dot2_bf16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    dot2(cx, inst, in_bf16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_fit_are_exact() {
        let f16 = |x: f32| convert::f32_to_f16(x);
        let pair = |low: f32, high: f32| f16(low) | f16(high) << 16;
        assert_eq!(in_f16(0, pair(1.0, 2.0), pair(3.0, 4.0), f16(0.5)), f16(11.5));
        assert_eq!(in_f16(0, pair(-1.0, 2.0), pair(2.0, 1.0), 0x8000), 0);
        // 2⁻²⁴ + 2⁻²³: denormals.
        assert_eq!(in_f16(0, 0x0002_0001, pair(1.0, 1.0), 0), 3);
        assert_eq!(in_f16(0, pair(256.0, 0.0), pair(256.0, 0.0), 0), 0x7c00);
        assert_eq!(in_f16(1 << 23, pair(256.0, 0.0), pair(256.0, 0.0), 0), 0x7bff);
        assert_eq!(in_f16(1 << 23, pair(f32::INFINITY, 0.0), pair(1.0, 0.0), 0), 0x7c00);
        assert_eq!(in_f16(0, pair(f32::INFINITY, 0.0), pair(0.0, 0.0), 0), 0xfe00);
        // 1 + 1.5·2⁻⁸ cut off to eight digits.
        assert_eq!(in_bf16(0x3fc0_3f80, 0x3b80_3f80, 0), 0x3f80);
        assert_eq!(in_bf16(0x4000_3f80, 0x4080_4040, 0x3f00), 0x4138);
    }

    #[test]
    fn far_terms_are_cut_off_downwards() {
        let f16 = |x: f32| convert::f32_to_f16(x);
        let pair = |low: f32, high: f32| f16(low) | f16(high) << 16;
        // A product 2⁻²⁸ below the other is past the 24 places: gone if positive, a unit if negative, which here moves no tie.
        let small = 2f32.powi(-14);
        assert_eq!(in_f16(0, pair(1.0, small), pair(1.0, small), 0), f16(1.0));
        assert_eq!(in_f16(0, pair(1.0, -small), pair(1.0, small), 0), f16(1.0));
    }
}
