//! Floating point as the MODE register can ask for: four rounding directions, denormals kept or flushed on either side, f16 overflow
//! to infinity or to the largest number. Values are computed exactly, or rounded to odd with more than twice the digits, and then
//! rounded once ([`round`]). Lane loops come here only where MODE differs from its value at a launch or an output modifier is set; the
//! usual case is Rust's own arithmetic and does not pass through this file.
//!
//! Two rules are the hardware's and not IEEE's: with output denormals off, a result counts as tiny if it is below the smallest normal
//! *after* rounding to full precision with an unbounded exponent; and an operation without a NaN among its operands that has no
//! result gives the negative quiet NaN. A NaN among the operands comes out quieted, the first one in source order.

use half::f16;
use rustc_apfloat::ieee::{Double, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

/// MODE's field that makes what is too large for f16 or an 8-bit format its largest number.
pub const FP16_OVFL: u32 = 1 << 23;

/// A float format of the vector and scalar units.
pub trait Soft: Copy {
    /// Digits of the significand behind the point.
    const FRACTION: u32;
    /// Bits of the exponent.
    const EXPONENT: u32;
    /// Place of the rounding field in MODE; the denormal field is four above it.
    const FIELD: u32;
    /// The encoding.
    fn bits(self) -> u64;
    /// The value of an encoding.
    fn from_encoding(bits: u64) -> Self;
    /// The value, exactly. NaN keeps its sign and becomes quiet.
    fn quad(self) -> Quad;
    /// The nearest value in a direction, and what happened on the way.
    fn nearest(value: Quad, direction: Round) -> (Self, Status);
}

macro_rules! soft {
    ($float:ty, $bits:ty, $ap:ty, $fraction:literal, $exponent:literal, $field:literal) => {
        impl Soft for $float {
            const FRACTION: u32 = $fraction;
            const EXPONENT: u32 = $exponent;
            const FIELD: u32 = $field;
            #[inline]
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            #[inline]
            fn from_encoding(bits: u64) -> $float {
                <$float>::from_bits(bits as $bits)
            }
            fn quad(self) -> Quad {
                let value: StatusAnd<Quad> = <$ap>::from_bits(self.to_bits() as u128).convert(&mut false);
                value.value
            }
            fn nearest(value: Quad, direction: Round) -> ($float, Status) {
                let rounded: StatusAnd<$ap> = value.convert_r(direction, &mut false);
                (<$float>::from_bits(rounded.value.to_bits() as $bits), rounded.status)
            }
        }
    };
}
soft!(f16, u16, Half, 10, 5, 2);
soft!(f32, u32, Single, 23, 8, 0);
soft!(f64, u64, Double, 52, 11, 2);

/// MODE with rounding to nearest even in all formats.
pub fn to_nearest(mode: u32) -> u32 {
    mode & !0xf
}

/// MODE with rounding towards zero in all formats.
pub fn towards_zero(mode: u32) -> u32 {
    mode | 0xf
}

/// MODE with output denormals flushed in all formats.
pub fn flushing_outputs(mode: u32) -> u32 {
    mode & !0xa0
}

/// MODE with denormals flushed on both sides in all formats.
pub fn flushing(mode: u32) -> u32 {
    mode & !0xf0
}

/// The direction in which results of a format are rounded.
pub fn direction<T: Soft>(mode: u32) -> Round {
    match mode >> T::FIELD & 3 {
        0 => Round::NearestTiesToEven,
        1 => Round::TowardPositive,
        2 => Round::TowardNegative,
        _ => Round::TowardZero,
    }
}

const fn sign_bit<T: Soft>() -> u64 {
    1 << (T::FRACTION + T::EXPONENT)
}

const fn infinity<T: Soft>() -> u64 {
    ((1 << T::EXPONENT) - 1) << T::FRACTION
}

fn magnitude<T: Soft>(x: T) -> u64 {
    x.bits() & !sign_bit::<T>()
}

/// Whether an encoding is a NaN.
pub fn is_nan<T: Soft>(x: T) -> bool {
    magnitude(x) > infinity::<T>()
}

/// Whether an encoding is infinite.
pub fn is_infinite<T: Soft>(x: T) -> bool {
    magnitude(x) == infinity::<T>()
}

/// A NaN as arithmetic gives it on: quiet.
pub fn quiet<T: Soft>(x: T) -> T {
    T::from_encoding(x.bits() | 1 << (T::FRACTION - 1))
}

/// The NaN of an operation without a result: negative and quiet.
pub fn invalid<T: Soft>() -> T {
    T::from_encoding(sign_bit::<T>() | infinity::<T>() | 1 << (T::FRACTION - 1))
}

/// A zero with the sign of `x`.
fn signed_zero<T: Soft>(x: T) -> T {
    T::from_encoding(x.bits() & sign_bit::<T>())
}

fn is_denormal<T: Soft>(x: T) -> bool {
    magnitude(x) != 0 && magnitude(x) >> T::FRACTION == 0
}

/// An operand as MODE lets it in: a denormal may become a zero of its sign.
pub fn input<T: Soft>(mode: u32, x: T) -> T {
    let kept = mode >> (T::FIELD + 4) & 1 != 0;
    if is_denormal(x) && !kept { signed_zero(x) } else { x }
}

/// Whether MODE lets denormal results of the format out.
fn keeps_outputs<T: Soft>(mode: u32) -> bool {
    mode >> (T::FIELD + 5) & 1 != 0
}

/// A result that needed no rounding as MODE lets it out.
pub fn output<T: Soft>(mode: u32, x: T) -> T {
    if is_denormal(x) && !keeps_outputs::<T>(mode) { signed_zero(x) } else { x }
}

/// What a result too large for the format becomes.
pub fn overflow<T: Soft>(mode: u32, negative: bool) -> T {
    let to_infinity = match direction::<T>(mode) {
        Round::TowardPositive => !negative,
        Round::TowardNegative => negative,
        Round::TowardZero => false,
        _ => true,
    };
    let saturates = T::EXPONENT == 5 && mode & FP16_OVFL != 0;
    let size = infinity::<T>() - (!to_infinity || saturates) as u64;
    T::from_encoding(if negative { sign_bit::<T>() | size } else { size })
}

/// Rounds an exact value, or one rounded to odd, as MODE says. No flushing of inputs.
pub fn round<T: Soft>(mode: u32, value: Quad) -> T {
    /// Scaling that lifts a denormal of every format among its normal numbers, without reaching infinity.
    const LIFT: i32 = 20;
    let way = direction::<T>(mode);
    let (rounded, status) = T::nearest(value, way);
    if status.contains(Status::OVERFLOW) {
        return overflow(mode, value.is_negative());
    }
    if !keeps_outputs::<T>(mode) && value.is_finite_non_zero() && magnitude(rounded) <= 1 << T::FRACTION {
        let (lifted, _) = T::nearest(value.scalbn(LIFT), way);
        let smallest_lifted = (1 + LIFT as u64) << T::FRACTION;
        if magnitude(lifted) < smallest_lifted {
            return signed_zero(rounded);
        }
    }
    rounded
}

/// The result of `operation`, which works in a given direction, rounded to odd; an exact zero has the sign that `way` gives it.
fn to_odd(way: Round, operation: impl Fn(Round) -> StatusAnd<Quad>) -> Option<Quad> {
    let StatusAnd { status, value } = operation(Round::TowardZero);
    if status.contains(Status::INVALID_OP) {
        return None;
    }
    if value.is_zero() {
        return Some(operation(way).value);
    }
    let inexact = status.contains(Status::INEXACT) && value.is_finite();
    Some(if inexact { Quad::from_bits(value.to_bits() | 1) } else { value })
}

fn rounded<T: Soft>(mode: u32, operation: impl Fn(Round) -> StatusAnd<Quad>) -> T {
    to_odd(direction::<T>(mode), operation).map_or(invalid(), |value| round(mode, value))
}

/// a + b.
pub fn add<T: Soft>(mode: u32, a: T, b: T) -> T {
    let (a, b) = (input(mode, a), input(mode, b));
    if is_nan(a) || is_nan(b) {
        return quiet(if is_nan(a) { a } else { b });
    }
    rounded(mode, |way| a.quad().add_r(b.quad(), way))
}

/// a − b.
pub fn sub<T: Soft>(mode: u32, a: T, b: T) -> T {
    let (a, b) = (input(mode, a), input(mode, b));
    if is_nan(a) || is_nan(b) {
        return quiet(if is_nan(a) { a } else { b });
    }
    rounded(mode, |way| a.quad().sub_r(b.quad(), way))
}

/// a · b.
pub fn mul<T: Soft>(mode: u32, a: T, b: T) -> T {
    let (a, b) = (input(mode, a), input(mode, b));
    if is_nan(a) || is_nan(b) {
        return quiet(if is_nan(a) { a } else { b });
    }
    rounded(mode, |way| a.quad().mul_r(b.quad(), way))
}

/// a · b + c, rounded once.
pub fn fma<T: Soft>(mode: u32, a: T, b: T, c: T) -> T {
    scaled_fma(mode, input(mode, a), input(mode, b), input(mode, c), 0)
}

/// (a · b + c) · 2ⁿ, rounded once; inputs as they are.
pub fn scaled_fma<T: Soft>(mode: u32, a: T, b: T, c: T, n: i32) -> T {
    if is_nan(a) || is_nan(b) {
        return quiet(if is_nan(a) { a } else { b });
    }
    let product = a.quad().mul_r(b.quad(), Round::TowardZero);
    if product.status.contains(Status::INVALID_OP) {
        return invalid();
    }
    if is_nan(c) {
        return quiet(c);
    }
    // The product of two numbers of 53 digits is exact in 113.
    let sum = to_odd(direction::<T>(mode), |way| product.value.add_r(c.quad(), way));
    sum.map_or(invalid(), |value| round(mode, value.scalbn(n)))
}

/// x · 2ⁿ.
pub fn ldexp<T: Soft>(mode: u32, x: T, n: i32) -> T {
    let x = input(mode, x);
    if is_nan(x) {
        return quiet(x);
    }
    // Beyond ±4000 nothing changes any more.
    round(mode, x.quad().scalbn(n.clamp(-4000, 4000)))
}

/// From one format to another; each side's own fields of MODE hold.
pub fn convert<T: Soft, U: Soft>(mode: u32, x: T) -> U {
    let x = input(mode, x);
    if is_nan(x) {
        let fraction = x.bits() & ((1 << T::FRACTION) - 1);
        let fraction = if T::FRACTION > U::FRACTION {
            fraction >> (T::FRACTION - U::FRACTION)
        } else {
            fraction << (U::FRACTION - T::FRACTION)
        };
        let sign = if x.bits() & sign_bit::<T>() != 0 { sign_bit::<U>() } else { 0 };
        return quiet(U::from_encoding(sign | infinity::<U>() | fraction));
    }
    round(mode, x.quad())
}

/// From an integer.
pub fn from_int<T: Soft>(mode: u32, x: i64) -> T {
    round(mode, Quad::from_i128(x as i128).value)
}

/// To an integer of 8 bits as MODE rounds; NaN gives 0, and what is too large or negative the nearest there is.
pub fn to_u8<T: Soft>(mode: u32, x: T) -> u8 {
    let x = input(mode, x);
    if is_nan(x) {
        return 0;
    }
    x.quad().to_u128_r(8, direction::<T>(mode), &mut false).value as u8
}

/// x − ⌊x⌋, below 1 in every direction of rounding. An integer gives +0, an infinity the negative NaN.
pub fn fract<T: Soft>(mode: u32, x: T) -> T {
    let x = input(mode, x);
    if is_nan(x) {
        return quiet(x);
    }
    if is_infinite(x) {
        return invalid();
    }
    let value = x.quad();
    let floor = value.round_to_integral(Round::TowardNegative).value;
    let Some(rest) = to_odd(Round::NearestTiesToEven, |way| value.sub_r(floor, way)) else { return invalid() };
    let one = ((1 << (T::EXPONENT - 1)) - 1) << T::FRACTION;
    let fraction: T = round(mode, rest);
    T::from_encoding(fraction.bits().min(one - 1))
}

/// The output modifier (1 ×2, 2 ×4, 3 ÷2), then clamp, of a rounded result. The modifier takes denormals for zero and makes zeros
/// positive; halving the smallest binade gives a zero of its sign. Clamp makes NaN and −0 zero.
pub fn modify<T: Soft>(mode: u32, omod: u8, clamp: bool, x: T) -> T {
    let mut x = x;
    let exponent = (magnitude(x) >> T::FRACTION) as i64;
    if omod != 0 && magnitude(x) < infinity::<T>() {
        let negative = x.bits() & sign_bit::<T>() != 0;
        let scaled = exponent + [0, 1, 2, -1][omod as usize & 3];
        let change = scaled.wrapping_sub(exponent) as u64;
        x = if exponent == 0 {
            T::from_encoding(0)
        } else if scaled <= 0 {
            signed_zero(x)
        } else if scaled as u64 >= infinity::<T>() >> T::FRACTION {
            overflow(mode, negative)
        } else {
            T::from_encoding(x.bits().wrapping_add(change << T::FRACTION))
        };
    }
    if clamp {
        let one = ((1 << (T::EXPONENT - 1)) - 1) << T::FRACTION;
        let zero = is_nan(x) || x.bits() & sign_bit::<T>() != 0;
        x = T::from_encoding(if zero { 0 } else { x.bits().min(one) });
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: u32 = 0xf0;

    struct Bits(u64);
    impl Bits {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    /// At a launch's MODE the results are those of this machine's own arithmetic, which is IEEE's.
    #[test]
    fn nearest_even_is_the_machine() {
        let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
        let same32 = |got: f32, want: f32| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        let same64 = |got: f64, want: f64| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        for _ in 0..20_000 {
            let [a, b, c] = [0; 3].map(|_| bits.next());
            let (x, y, z) = (f32::from_bits(a as u32), f32::from_bits((a >> 32) as u32), f32::from_bits(b as u32));
            // Close exponents, so that sums cancel and products meet the addend.
            let z = f32::from_bits((x * y).to_bits() ^ z.to_bits() & 0x83ff_ffff);
            assert!(same32(add(LAUNCH, x, y), x + y) && same32(sub(LAUNCH, x, z), x - z), "{x:e} {y:e} {z:e}");
            assert!(
                same32(mul(LAUNCH, x, y), x * y) && same32(fma(LAUNCH, x, y, z), x.mul_add(y, z)),
                "{x:e} {y:e} {z:e}"
            );
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let z = f64::from_bits((x * y).to_bits() ^ c & 0x801f_ffff_ffff_ffff);
            assert!(same64(add(LAUNCH, x, z), x + z) && same64(mul(LAUNCH, x, y), x * y), "{x:e} {y:e} {z:e}");
            assert!(same64(fma(LAUNCH, x, y, z), x.mul_add(y, z)), "{x:e} {y:e} {z:e}");
            assert!(same32(convert(LAUNCH, x), x as f32) && same32(from_int(LAUNCH, a as i64), a as i64 as f32));
        }
    }

    /// Up and down enclose the exact value, and towards zero is the nearer to zero of the two.
    #[test]
    fn directions_enclose() {
        let mut bits = Bits(77);
        for _ in 0..20_000 {
            let a = bits.next();
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits((a >> 32) as u32));
            let exact = x as f64 * y as f64;
            if !exact.is_finite() {
                continue;
            }
            let [even, up, down, zero] = [0, 1, 2, 3].map(|way| mul(LAUNCH | way, x, y));
            assert!(down as f64 <= exact && exact <= up as f64, "{x:e} {y:e}");
            assert!(even == up || even == down);
            assert_eq!(zero.to_bits(), if exact.is_sign_negative() { up } else { down }.to_bits());
            assert!(down == up || up == down.next_up(), "{x:e} {y:e}");
        }
    }

    #[test]
    fn tininess_is_judged_after_rounding() {
        let flush = LAUNCH & !0x20;
        let smallest = f32::MIN_POSITIVE;
        // (1 − 2⁻²⁴)(1 + 2⁻²³)·2⁻¹²⁶ is just below 2⁻¹²⁶ + 2⁻¹⁵⁰: rounded to 24 digits it is normal.
        let (a, b) = (f32::from_bits(0x3f7f_ffff), f32::from_bits(0x0080_0001));
        assert_eq!(mul(flush, a, b), smallest);
        // (1 − 2⁻²⁴)·2⁻¹²⁶ has 24 digits: tiny, although its denormal encoding would round to 2⁻¹²⁶.
        assert_eq!(mul(LAUNCH, a, smallest), smallest);
        assert_eq!(mul(flush, a, smallest).to_bits(), 0);
        assert_eq!(mul(flush, -a, smallest).to_bits(), 0x8000_0000);
        assert_eq!(mul(flush | 1, a, smallest).to_bits(), 0);
        // Inputs.
        assert_eq!(add(LAUNCH & !0x10, f32::from_bits(0x8000_0001), -0.0).to_bits(), 0x8000_0000);
        assert_eq!(mul(LAUNCH & !0x40, f16::from_bits(0x03ff), f16::from_f32(1024.0)).to_bits(), 0);
        // 2⁻²⁴ · 2¹⁰ = 2⁻¹⁴; the f32 field does not concern f16.
        assert_eq!(mul(LAUNCH & !0x10, f16::from_bits(1), f16::from_f32(1024.0)).to_bits(), 0x0400);
    }

    #[test]
    fn overflow_and_invalid() {
        let big = f16::MAX;
        assert_eq!(
            [0, 1, 2, 3].map(|way| add(LAUNCH | way << 2, big, big).to_bits()),
            [0x7c00, 0x7c00, 0x7bff, 0x7bff]
        );
        let low = f16::MIN;
        assert_eq!(
            [0, 1, 2, 3].map(|way| add(LAUNCH | way << 2, low, low).to_bits()),
            [0xfc00, 0xfbff, 0xfc00, 0xfbff]
        );
        assert_eq!(add(LAUNCH | FP16_OVFL, big, big).to_bits(), 0x7bff);
        assert_eq!(add(LAUNCH | FP16_OVFL, f16::INFINITY, big).to_bits(), 0x7c00);
        assert_eq!(sub(LAUNCH, f32::INFINITY, f32::INFINITY).to_bits(), 0xffc0_0000);
        assert_eq!(fma(LAUNCH, 0.0, f32::INFINITY, f32::NAN).to_bits(), 0xffc0_0000);
        assert_eq!(add(LAUNCH, f32::from_bits(0x7f80_0001), f32::NAN).to_bits(), 0x7fc0_0001);
        assert_eq!(sub(LAUNCH | 2, 1.0f32, 1.0).to_bits(), 0x8000_0000);
        assert_eq!(fma(LAUNCH | 2, 1.0f32, 1.0, -1.0).to_bits(), 0x8000_0000);
    }

    #[test]
    fn output_modifiers() {
        let m = |omod, x: f32| modify(LAUNCH, omod, false, x).to_bits();
        assert_eq!(m(1, -0.0), 0);
        assert_eq!(m(2, f32::from_bits(0x8040_0000)), 0);
        assert_eq!(m(3, f32::from_bits(0x8080_0001)), 0x8000_0000);
        assert_eq!([m(1, 1.5), m(2, 1.5), m(3, 1.5)], [3.0f32, 6.0, 0.75].map(f32::to_bits));
        assert_eq!(m(2, 2f32.powi(126)), 0x7f80_0000);
        assert_eq!(modify(LAUNCH | 3, 2, false, -2f32.powi(126)), f32::MIN);
        assert_eq!(modify(LAUNCH, 2, true, 0.5f32), 1.0);
        assert_eq!(modify(LAUNCH, 0, true, -0.0f32).to_bits(), 0);
        assert_eq!(modify(LAUNCH, 0, true, f32::NAN), 0.0);
    }
}
