//! Float operations of one lane that Rust's own operators do not give: minima and maxima, classes, scaling, parts of a number. Written
//! so that lane loops vectorise. Quotients have their own file ([`super::divide`]), approximations too ([`super::transcendental`]).

use super::convert::pow2;
use super::soft_float::{self, flushing};
use super::transcendental::flush;

macro_rules! extrema {
    ($float:ty, $quiet_bit:literal, $quiet:ident, $max_num:ident, $min_num:ident, $maximum:ident, $minimum:ident, $med3:ident) => {
        /// A NaN made quiet, anything else as it is.
        #[inline(always)]
        pub fn $quiet(a: $float) -> $float {
            if a.is_nan() { <$float>::from_bits(a.to_bits() | $quiet_bit) } else { a }
        }

        /// The larger; a number wins over NaN, −0 < +0. Of two NaNs the first, quiet.
        #[inline(always)]
        pub fn $max_num(a: $float, b: $float) -> $float {
            // Equal values differ at most in a zero's sign: `and` keeps − only if both have it.
            let equal = <$float>::from_bits(a.to_bits() & b.to_bits());
            let larger = if a > b { a } else { b };
            let larger = if a == b { equal } else { larger };
            let larger = if b.is_nan() { $quiet(a) } else { larger };
            if a.is_nan() & !b.is_nan() { b } else { larger }
        }

        /// The smaller; a number wins over NaN, −0 < +0. Of two NaNs the first, quiet.
        #[inline(always)]
        pub fn $min_num(a: $float, b: $float) -> $float {
            let equal = <$float>::from_bits(a.to_bits() | b.to_bits());
            let smaller = if a < b { a } else { b };
            let smaller = if a == b { equal } else { smaller };
            let smaller = if b.is_nan() { $quiet(a) } else { smaller };
            if a.is_nan() & !b.is_nan() { b } else { smaller }
        }

        /// The larger; the first NaN wins.
        #[inline(always)]
        pub fn $maximum(a: $float, b: $float) -> $float {
            let number = $max_num(a, b);
            let number = if b.is_nan() { $quiet(b) } else { number };
            if a.is_nan() { $quiet(a) } else { number }
        }

        /// The smaller; the first NaN wins.
        #[inline(always)]
        pub fn $minimum(a: $float, b: $float) -> $float {
            let number = $min_num(a, b);
            let number = if b.is_nan() { $quiet(b) } else { number };
            if a.is_nan() { $quiet(a) } else { number }
        }

        /// The median, −0 < +0; with a NaN among them, the smallest number.
        #[inline(always)]
        pub fn $med3(a: $float, b: $float, c: $float) -> $float {
            if a.is_nan() || b.is_nan() || c.is_nan() {
                return $min_num($min_num(a, b), c);
            }
            $max_num($min_num(a, b), $min_num($max_num(a, b), c))
        }
    };
}
extrema!(f32, 0x0040_0000, quiet, max_num, min_num, maximum, minimum, med3);
extrema!(f64, 0x0008_0000_0000_0000, quiet64, max_num64, min_num64, maximum64, minimum64, med3_64);

macro_rules! class {
    ($name:ident, $bits:ty, $fraction:literal, $exponent:literal) => {
        /// Whether the number's class is among those of `mask` (bits 0–9: signalling NaN, quiet NaN, −∞, −normal, −subnormal, −0, +0,
        /// +subnormal, +normal, +∞).
        #[inline(always)]
        pub fn $name(bits: $bits, mask: u32) -> bool {
            let fraction = bits & ((1 << $fraction) - 1);
            let exponent = bits >> $fraction & ((1 << $exponent) - 1);
            let negative = bits >> ($fraction + $exponent) != 0;
            let class = if exponent == (1 << $exponent) - 1 {
                if fraction == 0 { if negative { 2 } else { 9 } } else { (fraction >> ($fraction - 1) != 0) as u32 }
            } else if exponent != 0 {
                if negative { 3 } else { 8 }
            } else if fraction != 0 {
                if negative { 4 } else { 7 }
            } else if negative {
                5
            } else {
                6
            };
            mask >> class & 1 != 0
        }
    };
}
class!(class16, u16, 10, 5);
class!(class32, u32, 23, 8);
class!(class64, u64, 52, 11);

/// a·b, where 0 times anything is +0.
#[inline(always)]
pub fn mul_dx9(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

/// [`mul_dx9`] as MODE says.
pub fn soft_mul_dx9(mode: u32, a: f32, b: f32) -> f32 {
    let zero = soft_float::input(mode, a) == 0.0 || soft_float::input(mode, b) == 0.0;
    if zero { 0.0 } else { soft_float::mul(mode, a, b) }
}

/// a·b + c with the product of [`mul_dx9`], rounded once. Denormals are zeros, whatever MODE says.
#[inline(always)]
pub fn fma_dx9(a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (flush(a), flush(b), flush(c));
    flush(if a == 0.0 || b == 0.0 { c + 0.0 } else { a.mul_add(b, c) })
}

/// [`fma_dx9`] as MODE rounds.
pub fn soft_fma_dx9(mode: u32, a: f32, b: f32, c: f32) -> f32 {
    let mode = flushing(mode);
    let zero = flush(a) == 0.0 || flush(b) == 0.0;
    if zero { soft_float::add(mode, 0.0, c) } else { soft_float::fma(mode, a, b, c) }
}

/// a·b + c of f16 values as an f32 whose rounding to f16 is the correct rounding of the exact result: the sum is rounded to odd on
/// the way, so nothing is rounded twice.
#[inline(always)]
pub fn fma_f16(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (a as f64 * b as f64, c as f64); // 22 digits: exact
    to_odd_f32(sum_to_odd(product, c))
}

/// a + b rounded to odd in f64.
#[inline(always)]
pub fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if error == 0.0 || !error.is_finite() || sum.to_bits() & 1 != 0 {
        return sum;
    }
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// f64 to f32 rounded to odd, for values in the range of normal f32 (and 0, infinities, NaN).
#[inline(always)]
pub fn to_odd_f32(value: f64) -> f32 {
    const REST: u64 = (1 << 29) - 1;
    let bits = value.to_bits();
    let odd = if bits & REST != 0 && value.is_finite() { (bits & !REST) | (REST + 1) } else { bits };
    f64::from_bits(odd) as f32
}

/// value · 2ⁿ, rounded once.
#[inline(always)]
pub fn ldexp32(value: f32, n: i32) -> f32 {
    // f64 holds every such product exactly within ±300, beyond which nothing changes any more.
    (value as f64 * pow2(n.clamp(-300, 300))) as f32
}

/// value · 2ⁿ, rounded once.
#[inline(always)]
pub fn ldexp64(value: f64, n: i32) -> f64 {
    let mut n = n.clamp(-2200, 2200);
    let mut value = value;
    // Steps down stop 53 places above the subnormals so that only the last one rounds.
    while n > 1023 {
        value *= pow2(1023);
        n -= 1023;
    }
    while n < -1022 {
        value *= pow2(-969);
        n += 969;
    }
    value * pow2(n)
}

/// The fraction in [½, 1) with the sign; 0 and infinities unchanged, NaN quiet.
#[inline(always)]
pub fn frexp_mant64(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return quiet64(value);
    }
    let normal = if value.abs() < f64::MIN_POSITIVE { value * pow2(54) } else { value };
    f64::from_bits((normal.to_bits() & 0x800f_ffff_ffff_ffff) | 1022 << 52)
}

/// The exponent that belongs to [`frexp_mant64`]; 0 for 0, infinities and NaN.
#[inline(always)]
pub fn frexp_exp64(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let (normal, shift) = if value.abs() < f64::MIN_POSITIVE { (value * pow2(54), 54) } else { (value, 0) };
    (normal.to_bits() >> 52 & 0x7ff) as i32 - 1022 - shift
}

/// value − ⌊value⌋, below 1.
#[inline(always)]
pub fn fract32(value: f32) -> f32 {
    let fraction = value - value.floor();
    if fraction >= 1.0 { f32::from_bits(0x3f7f_ffff) } else { fraction }
}

/// value − ⌊value⌋, below 1.
#[inline(always)]
pub fn fract64(value: f64) -> f64 {
    let fraction = value - value.floor();
    if fraction >= 1.0 { f64::from_bits(0x3fef_ffff_ffff_ffff) } else { fraction }
}

/// value − ⌊value⌋ of an f16, below 1 in f16.
#[inline(always)]
pub fn fract16(value: f32) -> f32 {
    let fraction = value - value.floor();
    let largest = f32::from_bits(0x3f7f_e000); // 1 − 2⁻¹¹
    if fraction > largest { largest } else { fraction }
}

/// The multiplication of lighting calculations: −largest where b or c make the result meaningless.
#[inline(always)]
pub fn mullit(a: f32, b: f32, c: f32) -> f32 {
    if meaningless(b, c) { f32::MIN } else { mul_dx9(a, b) }
}

#[inline(always)]
fn meaningless(b: f32, c: f32) -> bool {
    b == f32::MIN || b == f32::NEG_INFINITY || b.is_nan() || c <= 0.0 || c.is_nan()
}

/// [`mullit`] as MODE says.
pub fn soft_mullit(mode: u32, a: f32, b: f32, c: f32) -> f32 {
    if meaningless(b, soft_float::input(mode, c)) { f32::MIN } else { soft_mul_dx9(mode, a, b) }
}

/// Which axis a cube map's direction is nearest to: 0 x, 1 y, 2 z.
#[inline(always)]
fn axis(x: f32, y: f32, z: f32) -> u32 {
    if z.abs() >= x.abs() && z.abs() >= y.abs() { 2 } else { (y.abs() >= x.abs()) as u32 }
}

/// Number of the cube map's face. The four operations on cube maps take denormals for zeros.
#[inline(always)]
pub fn cube_id(x: f32, y: f32, z: f32) -> f32 {
    let (x, y, z) = (flush(x), flush(y), flush(z));
    let axis = axis(x, y, z);
    let along = [x, y, z][axis as usize];
    (axis * 2 + (along < 0.0) as u32) as f32
}

/// S coordinate on the face.
#[inline(always)]
pub fn cube_sc(x: f32, y: f32, z: f32) -> f32 {
    let (x, y, z) = (flush(x), flush(y), flush(z));
    match axis(x, y, z) {
        2 if z < 0.0 => -x,
        2 | 1 => x,
        _ if x < 0.0 => z,
        _ => -z,
    }
}

/// T coordinate on the face.
#[inline(always)]
pub fn cube_tc(x: f32, y: f32, z: f32) -> f32 {
    let (x, y, z) = (flush(x), flush(y), flush(z));
    match axis(x, y, z) {
        1 if y < 0.0 => -z,
        1 => z,
        _ => -y,
    }
}

/// Twice the coordinate along the major axis.
#[inline(always)]
pub fn cube_ma(x: f32, y: f32, z: f32) -> f32 {
    let (x, y, z) = (flush(x), flush(y), flush(z));
    2.0 * [x, y, z][axis(x, y, z) as usize]
}

/// [`cube_ma`] as MODE rounds what is too large.
pub fn soft_cube_ma(mode: u32, x: f32, y: f32, z: f32) -> f32 {
    let along = [x, y, z][axis(flush(x), flush(y), flush(z)) as usize];
    soft_float::mul(flushing(mode), 2.0, along)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::convert::{f16_to_f32, f32_to_f16};

    #[test]
    fn extrema_of_zeros_and_nan() {
        assert_eq!(max_num(-0.0, 0.0).to_bits(), 0);
        assert_eq!(max_num(0.0, -0.0).to_bits(), 0);
        assert_eq!(min_num(0.0, -0.0).to_bits(), 0x8000_0000);
        assert_eq!(max_num(f32::NAN, -3.0), -3.0);
        assert_eq!(min_num(-3.0, f32::NAN), -3.0);
        assert_eq!(max_num(-5.0, -5.0), -5.0);
        // Two NaNs: the first one, quiet.
        let (first, second) = (f32::from_bits(0xff80_0001), f32::from_bits(0x7fc0_0002));
        assert_eq!([max_num, min_num, maximum, minimum].map(|f| f(first, second).to_bits()), [0xffc0_0001; 4]);
        assert_eq!([maximum, minimum].map(|f| f(1.0, first).to_bits()), [0xffc0_0001; 2]);
        // The pseudocode's comparison of floats would take +0 here.
        assert_eq!(med3(-0.0, 0.0, -0.0).to_bits(), 0x8000_0000);
        assert!(maximum(f32::NAN, 1.0).is_nan() && minimum(1.0, f32::NAN).is_nan());
        assert_eq!(maximum(-0.0, 0.0).to_bits(), 0);
        assert_eq!(med3(3.0, 1.0, 2.0), 2.0);
        assert_eq!(med3(2.0, 2.0, 1.0), 2.0);
        assert_eq!(med3(f32::NAN, 7.0, 5.0), 5.0);
        assert_eq!(med3_64(9.0, -1.0, 4.0), 4.0);
    }

    #[test]
    fn classes_have_one_bit_each() {
        let cases: [(u32, u32); 10] = [
            (0x7f80_0001, 0),
            (0x7fc0_0000, 1),
            (0xff80_0000, 2),
            (0xbf80_0000, 3),
            (0x8000_0001, 4),
            (0x8000_0000, 5),
            (0, 6),
            (0x007f_ffff, 7),
            (0x0080_0000, 8),
            (0x7f80_0000, 9),
        ];
        for (bits, class) in cases {
            assert!(class32(bits, 1 << class), "{bits:#x}");
            assert!(!class32(bits, 0x3ff & !(1 << class)), "{bits:#x}");
        }
        assert!(class64(0xfff0_0000_0000_0000, 1 << 2) && class16(0x03ff, 1 << 7) && class16(0xfe00, 1 << 1));
    }

    /// Rounds an exact integer multiple of 2⁻⁴⁸ to f16, to nearest even.
    fn round_exact(value: i128) -> u32 {
        let (sign, magnitude) = (if value < 0 { 0x8000 } else { 0 }, value.unsigned_abs());
        let top = 127 - magnitude.max(1).leading_zeros() as i32; // exponent is top − 48
        let drop = (top - 10).max(24); // subnormals keep multiples of 2⁻²⁴
        let kept = magnitude >> drop;
        let rest = magnitude & ((1 << drop) - 1);
        let half = 1u128 << (drop - 1);
        let kept = kept + (rest > half || rest == half && kept & 1 == 1) as u128;
        // Codes are consecutive: exponent field drop − 24, and `kept` carries the hidden bit.
        let code = if drop == 24 { kept as u32 } else { ((drop - 24) as u32) * 1024 + kept as u32 };
        sign | code.min(0x7c00)
    }

    #[test]
    fn fma_f16_rounds_once() {
        let exact = |bits: u32| (f16_to_f32(bits) as f64 * 2f64.powi(24)) as i128;
        let mut seed = 0x1234_5678u32;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            let bits = seed & 0xffff;
            if bits & 0x7c00 == 0x7c00 { bits & !0x4000 } else { bits }
        };
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            let want = exact(a) * exact(b) + (exact(c) << 24);
            if want == 0 {
                continue;
            }
            let got = f32_to_f16(fma_f16(f16_to_f32(a), f16_to_f32(b), f16_to_f32(c)));
            assert_eq!(got, round_exact(want), "{a:#x} {b:#x} {c:#x}");
        }
        // Twice rounded this would be 1: 1 + 2⁻¹¹ is a tie that 2⁻⁴⁸ breaks.
        let got = f32_to_f16(fma_f16(f16_to_f32(1), f16_to_f32(1), 1.0 + 2f32.powi(-11)));
        assert_eq!(got, 0x3c01);
    }

    #[test]
    fn scaling_rounds_once() {
        assert_eq!(ldexp32(1.5, -149), f32::from_bits(2));
        assert_eq!(ldexp32(1.0, -150), 0.0);
        assert_eq!(ldexp32(1.0f32.next_up(), -150), f32::from_bits(1));
        assert_eq!(ldexp32(f32::from_bits(1), 276), 2f32.powi(127));
        assert_eq!(ldexp32(-1.0, i32::MAX), f32::NEG_INFINITY);
        assert_eq!(ldexp32(-1.0, i32::MIN).to_bits(), 0x8000_0000);
        assert_eq!(ldexp64(1.0, -1074), f64::from_bits(1));
        assert_eq!(ldexp64(1.5, -1074), f64::from_bits(2));
        assert_eq!(ldexp64(1.0, -1075), 0.0);
        assert_eq!(ldexp64(1.0f64.next_up(), -1075), f64::from_bits(1));
        assert_eq!(ldexp64(f64::from_bits(1), 2097), 2f64.powi(1023));
        assert_eq!(ldexp64(1.0, i32::MIN), 0.0);
        assert_eq!(ldexp64(1.0, i32::MAX), f64::INFINITY);
    }

    #[test]
    fn parts_of_numbers() {
        assert_eq!((frexp_mant64(8.0), frexp_exp64(8.0)), (0.5, 4));
        assert_eq!((frexp_mant64(-0.75), frexp_exp64(-0.75)), (-0.75, 0));
        assert_eq!((frexp_mant64(f64::from_bits(1)), frexp_exp64(f64::from_bits(1))), (0.5, -1073));
        assert_eq!((frexp_exp64(0.0), frexp_exp64(f64::INFINITY)), (0, 0));
        assert_eq!(fract32(-1e-30).to_bits(), 0x3f7f_ffff);
        assert_eq!(fract32(-1.25), 0.75);
        assert_eq!(fract64(-1e-300).to_bits(), 0x3fef_ffff_ffff_ffff);
        assert_eq!(mul_dx9(f32::INFINITY, -0.0).to_bits(), 0);
        assert_eq!((cube_id(1.0, -3.0, 2.0), cube_ma(1.0, -3.0, 2.0)), (3.0, -6.0));
        assert_eq!((cube_sc(1.0, -3.0, 2.0), cube_tc(1.0, -3.0, 2.0)), (1.0, -2.0));
    }
}
