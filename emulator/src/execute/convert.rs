//! Conversions between number formats, each on one lane. Branch-free where lane loops use them. Rounding is to nearest even unless a
//! name says otherwise.

use super::soft_float::{self, towards_zero};
use half::f16;

/// f16 bits (low half) to f32, exact.
#[inline(always)]
pub fn f16_to_f32(bits: u32) -> f32 {
    // Sign and magnitude at their places: an arithmetic shift from the top, without the copies of the sign.
    let moved = ((bits << 16) as i32 >> 3) as u32 & 0x8fff_e000;
    // The exponent bias differs by 112; multiplying by 2¹¹² is exact for normal and subnormal inputs alike.
    let finite = (f32::from_bits(moved) * f32::from_bits(0x7780_0000)).to_bits();
    let special = moved | 0x7f80_0000;
    f32::from_bits(if bits & 0x7c00 == 0x7c00 { special } else { finite })
}

/// f32 to f16 bits, to nearest even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = (magnitude.wrapping_add(0xfff + (magnitude >> 13 & 1)).wrapping_sub(0x3800_0000)) >> 13;
    // Adding ½ leaves the subnormal f16's 2⁻²⁴ as the last bit, so the addition does the rounding.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    let out = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let out = if magnitude >= 0x477f_f000 { 0x7c00 } else { out };
    let out = if magnitude > 0x7f80_0000 { nan } else { out };
    out | (bits >> 16 & 0x8000)
}

/// f32 to f16 bits, towards zero: what is too large becomes the largest finite number.
#[inline(always)]
pub fn f32_to_f16_rtz(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(0x3800_0000) >> 13;
    let subnormal = (f32::from_bits(magnitude) * 16_777_216.0) as u32;
    let out = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let out = if magnitude >= 0x4780_0000 { 0x7bff } else { out };
    let out = if magnitude == 0x7f80_0000 { 0x7c00 } else { out };
    let out = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13 & 0x3ff) } else { out };
    out | (bits >> 16 & 0x8000)
}

/// Two f32 as f16 halves of a word, towards zero, denormals as MODE says; FP16_OVFL has nothing to say as nothing overflows.
pub fn soft_pack_rtz(mode: u32, low: f32, high: f32) -> u32 {
    let half = |value| {
        let half: f16 = soft_float::convert(towards_zero(mode), value);
        half.to_bits() as u32
    };
    pack(half(low), half(high))
}

/// f32 to i32, ⌊x + ½⌋ without rounding in between. A NaN gives the bound of its sign.
#[inline(always)]
pub fn nearest_i32(value: f32) -> i32 {
    by_sign_if_nan(value, (value as f64 + 0.5).floor() as i32)
}

/// f32 to i32, downwards. A NaN gives the bound of its sign.
#[inline(always)]
pub fn floor_i32(value: f32) -> i32 {
    by_sign_if_nan(value, value.floor() as i32)
}

#[inline(always)]
fn by_sign_if_nan(value: f32, number: i32) -> i32 {
    let bound = if value.is_sign_negative() { i32::MIN } else { i32::MAX };
    if value.is_nan() { bound } else { number }
}

/// A byte in place of byte `index` (mod 4) of `word`.
#[inline(always)]
pub fn insert_u8(byte: u8, index: u32, word: u32) -> u32 {
    let shift = (index & 3) * 8;
    (word & !(0xff << shift)) | (byte as u32) << shift
}

/// f32 to bf16 bits, to nearest even.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() { bits >> 16 | 0x40 } else { rounded }
}

/// Layout of an 8-bit float.
#[derive(Clone, Copy)]
pub struct Float8 {
    /// Bits of the fraction.
    fraction: u32,
    /// Bias of the exponent.
    bias: i32,
    /// Largest finite magnitude's code.
    largest: u32,
    /// Code that an overflow gives: NaN where the format has no infinity.
    overflow: u32,
    /// Code of a NaN, whatever its sign was.
    nan: u32,
}

/// e4m3: no infinities, 0x7f is NaN, largest 448.
pub const FP8: Float8 = Float8 { fraction: 3, bias: 7, largest: 0x7e, overflow: 0x7f, nan: 0xff };
/// e5m2: infinities at 0x7c, largest 57 344.
pub const BF8: Float8 = Float8 { fraction: 2, bias: 15, largest: 0x7b, overflow: 0x7c, nan: 0xfe };

/// 8-bit float to f32, exact.
#[inline(always)]
pub fn f8_to_f32(code: u32, format: Float8) -> f32 {
    let magnitude = code & 0x7f;
    let sign = (code & 0x80) << 24;
    let exponent = magnitude >> format.fraction;
    let fraction = magnitude & ((1 << format.fraction) - 1);
    // fraction · 2^(1 − bias − digits) for subnormals, with the hidden bit for the rest; both exact in f32.
    let scale = |exponent: u32| {
        f32::from_bits((exponent as i32 - format.bias - format.fraction as i32 + 127) as u32 * (1 << 23))
    };
    let value = if exponent == 0 {
        fraction as f32 * scale(1)
    } else {
        (fraction | 1 << format.fraction) as f32 * scale(exponent)
    };
    // Every NaN becomes the negative quiet one.
    let nan = f32::from_bits(0xffc0_0000);
    let value = if magnitude > format.largest {
        if magnitude == 0x7c && format.fraction == 2 { f32::INFINITY } else { nan }
    } else {
        value
    };
    f32::from_bits(value.to_bits() | sign)
}

/// f32 to an 8-bit float, to nearest even, with subnormals. Too large gives NaN (fp8) or infinity (bf8), or, with `saturate`
/// (FP16_OVFL) and a finite value, the largest finite number.
#[inline(always)]
pub fn f32_to_f8(value: f32, format: Float8, saturate: bool) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 24 & 0x80;
    if value.is_nan() {
        return format.nan;
    }
    if value.is_infinite() {
        return sign | format.overflow;
    }
    let magnitude = f64::from(value.abs());
    // The unit in the last place: that of the value's exponent, not below the subnormals'. Powers of two, so scaling is exact.
    let exponent = ((bits >> 23 & 0xff) as i32 - 127).max(1 - format.bias);
    let units = magnitude * pow2(format.fraction as i32 - exponent);
    let steps = units.round_ties_even() as u32;
    // `steps` counts from 2^(exponent − fraction); a carry into the next exponent is the next code, as codes are consecutive.
    let code = (((exponent + format.bias - 1) as u32) << format.fraction).saturating_add(steps);
    if code <= format.largest {
        return sign | code;
    }
    sign | if saturate { format.largest } else { format.overflow }
}

/// 2ⁿ for normal results.
#[inline(always)]
pub fn pow2(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// To an 8-bit float by stochastic rounding: the seed's upper bits are added below the last kept bit, then the rest is cut off. A value
/// on its way to the subnormals is first cut to the digits that it would have as a normal number.
pub fn f32_to_f8_stochastic(value: f32, seed: u32, format: Float8, saturate: bool) -> u32 {
    let bits = value.to_bits();
    if !value.is_finite() {
        return f32_to_f8(value, format, saturate);
    }
    let sign = bits >> 24 & 0x80;
    let exponent = ((bits >> 23 & 0xff) as i32).max(1) - 127;
    let hidden = if bits >> 23 & 0xff == 0 { 0 } else { 1 << 23 };
    let dropped = 23 - format.fraction;
    let below = (1 - format.bias - exponent).clamp(0, 31) as u32;
    let significand = ((bits & 0x7f_ffff) | hidden) >> below;
    let steps = (significand + (seed >> (32 - dropped))) >> dropped;
    // Codes are consecutive, so a carry out of the significand is the next exponent.
    let first = exponent.max(1 - format.bias);
    let code = (((first + format.bias - 1) as u32) << format.fraction) + steps;
    if code <= format.largest {
        return sign | code;
    }
    sign | if saturate { format.largest } else { format.overflow }
}

/// A signed fraction of 15 bits from [−1, 1], to nearest even.
#[inline(always)]
pub fn to_snorm16(value: f32) -> i16 {
    (value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16
}

/// An unsigned fraction of 16 bits from [0, 1], to nearest even.
#[inline(always)]
pub fn to_unorm16(value: f32) -> u16 {
    (value.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16
}

/// Two halves as one word.
#[inline(always)]
pub fn pack(low: u32, high: u32) -> u32 {
    (low & 0xffff) | high << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of f16 bits by definition.
    fn f16_value(bits: u16) -> f64 {
        let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, f64::from(bits & 1023));
        let value = match exponent {
            0 => fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            e => (1024.0 + fraction) * 2f64.powi(e as i32 - 25),
        };
        if sign == 1 { -value } else { value }
    }

    #[test]
    fn every_f16_reads_as_its_value_and_writes_back() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits as u32);
            let want = f16_value(bits);
            if want.is_nan() {
                assert!(value.is_nan());
                assert!(f16_value(f32_to_f16(value) as u16).is_nan());
                continue;
            }
            assert_eq!((value as f64).to_bits(), want.to_bits(), "{bits:#x}");
            assert_eq!(f32_to_f16(value), bits as u32);
            assert_eq!(f32_to_f16_rtz(value), bits as u32);
        }
    }

    #[test]
    fn f16_rounding_between_neighbours() {
        for low in (0..0x7bffu16).step_by(7).chain([0, 1, 0x3ff, 0x400, 0x7bfe]) {
            let (a, b) = (f16_value(low), f16_value(low + 1));
            let middle = ((a + b) / 2.0) as f32; // 12 digits: exact
            let even = if low % 2 == 0 { low } else { low + 1 };
            assert_eq!(f32_to_f16(middle), even as u32, "tie above {low:#x}");
            assert_eq!(f32_to_f16(middle.next_down()), low as u32);
            assert_eq!(f32_to_f16(middle.next_up()), low as u32 + 1);
            assert_eq!(f32_to_f16(-middle.next_up()), 0x8000 | (low as u32 + 1));
            assert_eq!(f32_to_f16_rtz(middle.next_up()), low as u32);
            assert_eq!(f32_to_f16_rtz(-(b as f32).next_down()), 0x8000 | low as u32);
        }
        assert_eq!(f32_to_f16(65519.996), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_f16_rtz(65520.0), 0x7bff);
        assert_eq!(f32_to_f16_rtz(1e30), 0x7bff);
        assert_eq!(f32_to_f16_rtz(f32::INFINITY), 0x7c00);
        assert_eq!(f32_to_f16(2f32.powi(-25)), 0);
        assert_eq!(f32_to_f16(2f32.powi(-25).next_up()), 1);
    }

    /// The value of an 8-bit float by definition (OCP 8-bit formats); none for NaN and infinity.
    fn f8_value(code: u32, format: Float8) -> Option<f64> {
        let magnitude = code & 0x7f;
        if magnitude > format.largest {
            return None;
        }
        let (exponent, fraction) = (magnitude >> format.fraction, magnitude % (1 << format.fraction));
        let unit = 2f64.powi(exponent.max(1) as i32 - format.bias - format.fraction as i32);
        Some((fraction + if exponent > 0 { 1 << format.fraction } else { 0 }) as f64 * unit)
    }

    #[test]
    fn float8_codes_round_trip_and_ties_go_to_even() {
        for format in [FP8, BF8] {
            for code in 0..=format.largest {
                let value = f8_value(code, format).unwrap();
                assert_eq!(f8_to_f32(code, format) as f64, value);
                assert_eq!(f8_to_f32(code | 0x80, format).to_bits(), (-value as f32).to_bits());
                assert_eq!(f32_to_f8(value as f32, format, false), code);
                if code < format.largest {
                    let middle = ((value + f8_value(code + 1, format).unwrap()) / 2.0) as f32;
                    assert_eq!(f32_to_f8(middle, format, false), if code % 2 == 0 { code } else { code + 1 });
                    assert_eq!(f32_to_f8(middle.next_down(), format, false), code);
                    assert_eq!(f32_to_f8(-middle.next_up(), format, false), 0x80 | (code + 1));
                }
            }
        }
        assert_eq!(FP8.largest, 0x7e);
        assert_eq!(f8_to_f32(0x7e, FP8), 448.0);
        assert_eq!(f8_to_f32(0x7b, BF8), 57344.0);
        assert!(f8_to_f32(0x7f, FP8).is_nan() && f8_to_f32(0x7d, BF8).is_nan());
        assert_eq!(f8_to_f32(0xfc, BF8), f32::NEG_INFINITY);
        // Overflow: 464 is the tie between 448 and what would be 480.
        assert_eq!(f32_to_f8(464.0, FP8, false), 0x7e);
        assert_eq!(f32_to_f8(464.1, FP8, false), 0x7f);
        assert_eq!(f32_to_f8(464.1, FP8, true), 0x7e);
        assert_eq!(f32_to_f8(61440.0, BF8, false), 0x7c);
        assert_eq!(f32_to_f8(-1e30, BF8, true), 0xfb);
        assert_eq!(f32_to_f8(f32::INFINITY, FP8, false), 0x7f);
        assert_eq!(f32_to_f8(f32::NEG_INFINITY, BF8, false), 0xfc);
    }

    #[test]
    fn stochastic_rounding_cuts_after_adding_the_seed() {
        // 1 + 1/16 lies halfway between the fp8 neighbours 1 (0x38) and 1.125 (0x39).
        let middle = 1.0625;
        assert_eq!(f32_to_f8_stochastic(middle, 0, FP8, false), 0x38);
        assert_eq!(f32_to_f8_stochastic(middle, 0x7fff_ffff, FP8, false), 0x38);
        assert_eq!(f32_to_f8_stochastic(middle, 0x8000_0000, FP8, false), 0x39);
        assert_eq!(f32_to_f8_stochastic(1.0, u32::MAX, FP8, false), 0x38);
        assert_eq!(f32_to_f8_stochastic(-middle, u32::MAX, FP8, false), 0xb9);
        assert_eq!(f32_to_f8_stochastic(0.0, u32::MAX, BF8, false), 0);
    }
}
