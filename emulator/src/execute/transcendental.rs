//! exp2, log2, reciprocals, roots, sine and cosine of one lane. The hardware's results are within 1 ULP and not specified further;
//! these are computed in f64 and rounded once, so they are within 1 ULP too, but bits may differ from a card's. MODE's direction of
//! rounding has no say. f32 inputs and results flush subnormals whatever MODE says, sine and cosine excepted; f16 ones follow MODE.

use super::lanes::{self, F16, F32, Kind, Out};
use super::soft_float::{self, to_nearest};
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Step};
use ::half::f16;

/// Flushes an f32 subnormal to zero of its sign.
#[inline(always)]
pub fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { f32::from_bits(value.to_bits() & 0x8000_0000) } else { value }
}

/// Σ xⁱ / c with the coefficients' reciprocals given from the highest power down (written out as nested parentheses, rustfmt takes
/// minutes over it).
#[inline(always)]
fn horner<const N: usize>(x: f64, reciprocals: [f64; N]) -> f64 {
    let mut sum = 0.0;
    for c in reciprocals {
        sum = sum * x + 1.0 / c;
    }
    sum
}

/// 2ˣ in f64, relative error below 1e-12 where the result is normal in f32 or f16.
#[inline(always)]
fn exp2_wide(x: f64) -> f64 {
    // Beyond ±1000 every f32 result is 0 or infinity already.
    let x = if x > 1000.0 { 1000.0 } else { x };
    let x = if x < -1000.0 { -1000.0 } else { x };
    // NaN falls through to n = 0 and a NaN polynomial.
    let n = x.round_ties_even();
    let r = (x - n) * std::f64::consts::LN_2;
    // Taylor's series of eʳ, |r| ≤ 0.347: the first left-out term is below 2e-13.
    let series = horner(r, [3_628_800.0, 362_880.0, 40_320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0]);
    // n + 1.5·2⁵² holds n in its low bits; no conversion instruction is needed.
    let bits = (n + 6_755_399_441_055_744.0).to_bits();
    series * f64::from_bits((bits << 52).wrapping_add(1023 << 52))
}

/// log2 in f64 of a positive normal f64, relative error below 1e-13.
#[inline(always)]
fn log2_wide(x: f64) -> f64 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    // Exponent so that the significand lies in [√½, √2).
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF);
    let exponent = (shifted as i64 >> 52) as i32;
    let m = f64::from_bits((shifted & ((1 << 52) - 1)) + SQRT_HALF);
    let t = (m - 1.0) / (m + 1.0);
    let u = t * t;
    // 2·artanh(t) with |t| ≤ 0.1716: the first left-out term is below 1e-14 of the first.
    let series = horner(u, [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0]);
    exponent as f64 + 2.0 * std::f64::consts::LOG2_E * t * series
}

/// log2 with its special values.
#[inline(always)]
fn log2_any(x: f32) -> f32 {
    let value = log2_wide(x as f64) as f32;
    let value = if x == f32::INFINITY { f32::INFINITY } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    let value = if x < 0.0 { INVALID } else { value };
    super::float::quiet(if x.is_nan() { x } else { value })
}

/// What the manual's examples give for an argument without a result: the negative quiet NaN.
const INVALID: f32 = f32::from_bits(0xffc0_0000);
/// The same as an f64: converting would not have to keep the sign.
const INVALID_WIDE: f64 = f64::from_bits(0xfff8_0000_0000_0000);

/// 2ˣ.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    flush(exp2_wide(x as f64) as f32)
}
/// log2; −∞ for ±0, NaN below.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    log2_any(flush(x))
}
/// 1/x.
#[inline(always)]
pub fn rcp(x: f32) -> f32 {
    flush(1.0 / flush(x))
}
/// 1/√x; −∞ for −0.
#[inline(always)]
pub fn rsq(x: f32) -> f32 {
    let x = flush(x) as f64;
    let value = (1.0 / x.sqrt()) as f32;
    let value = if x < 0.0 { INVALID } else { value };
    flush(if x == 0.0 { (1.0 / x) as f32 } else { value })
}
/// √x; −0 for −0.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    let x = flush(x);
    if x < 0.0 { INVALID } else { x.sqrt() }
}

/// sin(2π·x): the quarter turns are taken off exactly first.
#[inline(always)]
fn sin_turns(x: f64) -> f64 {
    if !x.is_finite() {
        return if x.is_nan() { x } else { INVALID_WIDE };
    }
    let quarters = (x * 4.0).round_ties_even();
    let rest = (x - quarters / 4.0) * std::f64::consts::TAU;
    let value = match quarters.rem_euclid(4.0) as u32 {
        0 => rest.sin(),
        1 => rest.cos(),
        2 => -rest.sin(),
        _ => -rest.cos(),
    };
    // Half turns give +0, as in the manual's examples; only −0 itself gives −0.
    let value = if value == 0.0 { 0.0 } else { value };
    if x == 0.0 { x } else { value }
}

#[inline(always)]
fn cos_turns(x: f64) -> f64 {
    if !x.is_finite() {
        return if x.is_nan() { x } else { INVALID_WIDE };
    }
    let quarters = (x * 4.0).round_ties_even();
    let rest = (x - quarters / 4.0) * std::f64::consts::TAU;
    let value = match quarters.rem_euclid(4.0) as u32 {
        0 => rest.cos(),
        1 => -rest.sin(),
        2 => -rest.cos(),
        _ => rest.sin(),
    };
    value + 0.0
}

/// sin(2π·x).
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    sin_turns(x as f64) as f32
}
/// cos(2π·x).
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    cos_turns(x as f64) as f32
}

/// A pseudo-scalar: f32 in and out of scalar registers, whatever EXEC is.
#[inline(always)]
pub fn scalar(cx: &mut Cx<'_>, inst: &Inst, operation: impl Fn(f32) -> f32) -> Step {
    let x = F32::read(cx.wave, inst, 0)[0];
    let out = F32::modify(lanes::MODE_DEFAULT, inst, operation(x));
    cx.wave.set_sgpr(inst.dst, out.to_bits());
    Ok(Flow::Next)
}

/// The same for f16, given and returned as f32, without flushing.
pub mod half {
    use super::*;

    /// One of these operations on an f16 as MODE says: denormals and FP16_OVFL, which here takes hold of infinities from finite
    /// arguments too. Rounding is to nearest always.
    pub fn in_mode(mode: u32, x: f16, operation: impl Fn(f32) -> f32) -> f16 {
        let x = F16::enter(mode, x);
        let value = operation(x);
        let saturates = mode >> 23 & 1 != 0 && value.is_infinite() && x.is_finite();
        F16::leave(mode, if saturates { f32::from(f16::MAX).copysign(value) } else { value })
    }

    /// A pseudo-scalar in f16; the high half of the destination becomes 0.
    #[inline(always)]
    pub fn scalar(cx: &mut Cx<'_>, inst: &Inst, operation: impl Fn(f32) -> f32) -> Step {
        let mode = lanes::mode_of(cx, inst, true);
        let x = F16::read_exact(cx.wave, inst, 0)[0];
        let out = F16::modify(to_nearest(mode), inst, in_mode(mode, x, operation));
        cx.wave.set_sgpr(inst.dst, out.to_bits() as u32);
        Ok(Flow::Next)
    }

    /// 2ˣ.
    #[inline(always)]
    pub fn exp2(x: f32) -> f32 {
        exp2_wide(x as f64) as f32
    }
    /// log2.
    #[inline(always)]
    pub fn log2(x: f32) -> f32 {
        log2_any(x)
    }
    /// 1/x.
    #[inline(always)]
    pub fn rcp(x: f32) -> f32 {
        1.0 / x
    }
    /// 1/√x.
    #[inline(always)]
    pub fn rsq(x: f32) -> f32 {
        let value = (1.0 / (x as f64).sqrt()) as f32;
        let value = if x < 0.0 { INVALID } else { value };
        if x == 0.0 { 1.0 / x } else { value }
    }
    /// √x.
    #[inline(always)]
    pub fn sqrt(x: f32) -> f32 {
        if x < 0.0 { INVALID } else { x.sqrt() }
    }
    /// sin(2π·x).
    #[inline(always)]
    pub fn sin(x: f32) -> f32 {
        sin_turns(x as f64) as f32
    }
    /// cos(2π·x).
    #[inline(always)]
    pub fn cos(x: f32) -> f32 {
        cos_turns(x as f64) as f32
    }
}

/// A segment of 53 bits of 2/π, chosen by `segment` and the exponent of `x`, scaled to its place. What does not fit a denormal is cut off.
pub fn trig_preop(mode: u32, x: f64, segment: u32) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32;
    let mut shift = (segment & 31) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    let mut fraction = 0u64;
    for bit in shift..shift + 53 {
        fraction = fraction << 1 | two_over_pi_bit(bit);
    }
    let scale = -53 - shift + if exponent >= 1968 { 128 } else { 0 };
    soft_float::ldexp(soft_float::towards_zero(mode), fraction as f64, scale)
}

/// Bit `n` behind the binary point of 2/π; 0 past the 1201 bits that the hardware keeps.
fn two_over_pi_bit(n: i32) -> u64 {
    let n = n as usize;
    if n >= 1201 {
        return 0;
    }
    (TWO_OVER_PI[n / 24] >> (23 - n % 24) & 1) as u64
}

/// 2/π in 24-bit pieces.
const TWO_OVER_PI: [u32; 51] = [
    0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C, 0x439041, 0xFE5163, 0xABDEBB, 0xC561B7,
    0x246E3A, 0x424DD2, 0xE00649, 0x2EEA09, 0xD1921C, 0xFE1DEB, 0x1CB129, 0xA73EE8, 0x8235F5, 0x2EBB44, 0x84E99C,
    0x7026B4, 0x5F7E41, 0x3991D6, 0x398353, 0x39F49C, 0x845F8B, 0xBDF928, 0x3B1FF8, 0x97FFDE, 0x05980F, 0xEF2F11,
    0x8B5A0A, 0x6D1F6D, 0x367ECF, 0x27CB09, 0xB74F46, 0x3F669E, 0x5FEA2D, 0x7527BA, 0xC7EBE5, 0xF17B3D, 0x0739F7,
    0x8A5292, 0xEA6BFB, 0x5FB11F, 0x8D5D08, 0x560330, 0x46FC7B, 0x6BABF0,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units of the wanted value's last place.
    fn ulps(got: f32, want: f64) -> f64 {
        let place = (want as f32).next_up() as f64 - want as f32 as f64;
        (got as f64 - want).abs() / place
    }

    #[test]
    fn within_one_ulp_of_the_f64_library() {
        let mut x = -125.9f32;
        while x < 127.9 {
            assert!(ulps(exp2(x), (x as f64).exp2()) <= 0.501, "exp2({x})");
            x += 0.037;
        }
        let mut x = f32::MIN_POSITIVE;
        while x < 1e38 {
            assert!(ulps(log2(x), (x as f64).log2()) <= 0.501, "log2({x})");
            assert!(ulps(rsq(x), 1.0 / (x as f64).sqrt()) <= 0.501);
            x *= 1.0173;
        }
        for x in [0.999_999_94f32, 1.000_000_1, 1.001, 0.999] {
            assert!(ulps(log2(x), (x as f64).log2()) <= 0.501, "log2({x})");
        }
        for n in -400..400 {
            let x = n as f32 * 0.013_7;
            assert!(ulps(sin(x), (x as f64 * std::f64::consts::TAU).sin()) <= 1.0, "sin({x})");
            assert!(ulps(cos(x), (x as f64 * std::f64::consts::TAU).cos()) <= 1.0, "cos({x})");
        }
    }

    #[test]
    fn special_values() {
        assert_eq!(exp2(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp2(f32::INFINITY), f32::INFINITY);
        assert_eq!(
            (exp2(127.0), exp2(128.0), exp2(-126.0), exp2(-126.5)),
            (2f32.powi(127), f32::INFINITY, f32::MIN_POSITIVE, 0.0)
        );
        assert_eq!((exp2(0.0), exp2(-0.0)), (1.0, 1.0));
        assert!(exp2(f32::NAN).is_nan() && log2(f32::NAN).is_nan() && log2(-1.0).is_nan() && sqrt(-1.0).is_nan());
        assert_eq!((log2(0.0), log2(-0.0), log2(1e-40)), (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY));
        assert_eq!((log2(1.0), log2(8.0), log2(f32::INFINITY)), (0.0, 3.0, f32::INFINITY));
        assert_eq!((rcp(0.0), rcp(-0.0), rcp(1e-40)), (f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY));
        assert_eq!(rcp(2f32.powi(127)).to_bits(), 0);
        assert_eq!((rsq(0.0), rsq(-0.0), rsq(f32::INFINITY)), (f32::INFINITY, f32::NEG_INFINITY, 0.0));
        assert!(rsq(-1.0).is_nan());
        assert_eq!((sqrt(-0.0).to_bits(), sqrt(9.0), sqrt(1e-40)), (0x8000_0000, 3.0, 0.0));
        assert_eq!((sin(0.25), sin(0.5).abs(), cos(0.5), cos(0.25)), (1.0, 0.0, -1.0, 0.0));
        assert!(sin(f32::INFINITY).is_nan() && cos(f32::NEG_INFINITY).is_nan());
        assert_eq!((half::exp2(-24.0), half::log2(2f32.powi(-24)), half::rcp(2.0)), (2f32.powi(-24), -24.0, 0.5));
    }

    #[test]
    fn trig_preop_segments_sum_to_two_over_pi() {
        let sum = trig_preop(lanes::MODE_DEFAULT, 1.0, 0) + trig_preop(lanes::MODE_DEFAULT, 1.0, 1);
        assert_eq!(sum, std::f64::consts::FRAC_2_PI);
        assert!(trig_preop(lanes::MODE_DEFAULT, 1.0, 1) < 2f64.powi(-53));
    }
}
