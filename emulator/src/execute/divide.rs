//! The steps of a correctly rounded division (`v_div_scale`, `v_div_fmas`, `v_div_fixup`). They only make sense together: scale keeps
//! the Newton steps in range, fmas takes the scale back, fixup puts in the special cases.

use super::float::{ldexp32, ldexp64};

/// A scaled operand and whether the quotient must be scaled back.
pub type Scaled<T> = (T, bool);

macro_rules! scale {
    ($name:ident, $float:ty, $exponent:expr, $ldexp:ident, $far:literal, $by:literal, $tiny:literal) => {
        /// Source 0 (which equals the denominator or the numerator), scaled where the division of `numerator` by `denominator` would leave
        /// the normal range, and the flag for `div_fmas`.
        #[inline(always)]
        pub fn $name(value: $float, denominator: $float, numerator: $float) -> Scaled<$float> {
            let exponent = $exponent;
            let subnormal = |x: $float| x.is_subnormal();
            let up = $ldexp(value, $by);
            if numerator == 0.0 || denominator == 0.0 {
                (<$float>::NAN, false)
            } else if exponent(numerator) - exponent(denominator) >= $far {
                (if value == denominator { up } else { value }, true)
            } else if subnormal(denominator) {
                (up, false)
            } else if subnormal(1.0 / denominator) && subnormal(numerator / denominator) {
                // The manual scales the denominator up here, which would overflow it; down is what fits its reciprocal and fmas.
                (if value == denominator { $ldexp(value, -$by) } else { value }, true)
            } else if subnormal(1.0 / denominator) {
                ($ldexp(value, -$by), false)
            } else if subnormal(numerator / denominator) {
                (if value == numerator { up } else { value }, true)
            } else if exponent(numerator) <= $tiny {
                (up, false)
            } else {
                (value, false)
            }
        }
    };
}
scale!(scale32, f32, |x: f32| (x.to_bits() >> 23 & 0xff) as i32, ldexp32, 96, 64, 23);
scale!(scale64, f64, |x: f64| (x.to_bits() >> 52 & 0x7ff) as i32, ldexp64, 768, 128, 53);

/// fma, scaled back by 2^±64 if `scaled`: up where the addend (the quotient so far) is large, down otherwise. The manual's factor 2³² is
/// wrong.
#[inline(always)]
pub fn fmas32(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    let sum = a.mul_add(b, c);
    let exponent = (c.to_bits() >> 23 & 0xff) as i32;
    if scaled { ldexp32(sum, if exponent > 127 { 64 } else { -64 }) } else { sum }
}

/// The same with 2^±128.
#[inline(always)]
pub fn fmas64(a: f64, b: f64, c: f64, scaled: bool) -> f64 {
    let sum = a.mul_add(b, c);
    let exponent = (c.to_bits() >> 52 & 0x7ff) as i32;
    if scaled { ldexp64(sum, if exponent > 1023 { 128 } else { -128 }) } else { sum }
}

macro_rules! fixup {
    ($name:ident, $float:ty, $vanishes:expr, $overflows:expr) => {
        /// The quotient, or what IEEE says where numerator or denominator are special. A quotient that has become infinite or, in the
        /// steps after that, NaN is an overflow: no other finite operands lead there. (The manual's text tests the denominator's
        /// exponent at that place, which its earlier cases have already excluded.)
        #[inline(always)]
        pub fn $name(quotient: $float, denominator: $float, numerator: $float) -> $float {
            let sign = denominator.is_sign_negative() != numerator.is_sign_negative();
            let signed = |magnitude: $float| if sign { -magnitude } else { magnitude };
            let (d, n) = (denominator, numerator);
            if n.is_nan() || d.is_nan() || (d == 0.0 && n == 0.0) || (d.is_infinite() && n.is_infinite()) {
                <$float>::NAN
            } else if d == 0.0 || n.is_infinite() {
                signed(<$float>::INFINITY)
            } else if d.is_infinite() || n == 0.0 || $vanishes(n, d) {
                signed(0.0)
            } else if $overflows(quotient) {
                signed(<$float>::INFINITY)
            } else {
                signed(quotient.abs())
            }
        }
    };
}
fixup!(
    fixup32,
    f32,
    |n: f32, d: f32| { ((n.to_bits() >> 23 & 0xff) as i32) - ((d.to_bits() >> 23 & 0xff) as i32) < -150 },
    |q: f32| !q.is_finite()
);
fixup!(
    fixup64,
    f64,
    |n: f64, d: f64| { ((n.to_bits() >> 52 & 0x7ff) as i32) - ((d.to_bits() >> 52 & 0x7ff) as i32) < -1075 },
    |q: f64| !q.is_finite()
);
fixup!(fixup16, f32, |_, _| false, |_| false);

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler's expansion of an f32 division (LLVM's `fdiv` for AMDGPU), step by step.
    fn divide32(n: f32, d: f32) -> f32 {
        let (ds, _) = scale32(d, d, n);
        let (ns, flag) = scale32(n, d, n);
        let r = crate::execute::transcendental::rcp(ds);
        let e = (-ds).mul_add(r, 1.0);
        let r = e.mul_add(r, r);
        let q = ns * r;
        let e = (-ds).mul_add(q, ns);
        let q = e.mul_add(r, q);
        let e = (-ds).mul_add(q, ns);
        fixup32(fmas32(e, r, q, flag), d, n)
    }

    /// The same for f64, from a reciprocal good to 2⁻²⁹.
    fn divide64(n: f64, d: f64) -> f64 {
        let (ds, _) = scale64(d, d, n);
        let (ns, flag) = scale64(n, d, n);
        let r = (1.0 / ds) * (1.0 + 2f64.powi(-29));
        let r = (-ds).mul_add(r, 1.0).mul_add(r, r);
        let r = (-ds).mul_add(r, 1.0).mul_add(r, r);
        let q = ns * r;
        let e = (-ds).mul_add(q, ns);
        fixup64(fmas64(e, r, q, flag), d, n)
    }

    #[test]
    fn the_sequence_divides_correctly() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let special =
            [0u32, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x7e80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
        for i in 0..200_000usize {
            let (mut n, mut d) = (next() as u32, next() as u32);
            if i % 7 == 0 {
                n = special[i / 7 % special.len()] | n & 0x8000_0000;
            }
            if i % 5 == 0 {
                d = special[i / 5 % special.len()] | d & 0x8000_0000;
            }
            let (n, d) = (f32::from_bits(n), f32::from_bits(d));
            let (got, want) = (divide32(n, d), n / d);
            // A quotient that is subnormal is rounded once by fmas and once by scaling back; hardware does the same in one step, so the
            // last place may differ there only.
            let close = want.abs() < f32::MIN_POSITIVE && (got.to_bits() as i64 - want.to_bits() as i64).abs() <= 1;
            assert!(
                got.to_bits() == want.to_bits() || close || got.is_nan() && want.is_nan(),
                "{n:e}/{d:e}: {got:e}, {want:e}"
            );
            let (n, d) = (f64::from_bits(next()), f64::from_bits(next()));
            let (got, want) = (divide64(n, d), n / d);
            let close = want.abs() < f64::MIN_POSITIVE && (got.to_bits() as i128 - want.to_bits() as i128).abs() <= 1;
            assert!(
                got.to_bits() == want.to_bits() || close || got.is_nan() && want.is_nan(),
                "{n:e}/{d:e}: {got:e}, {want:e}"
            );
        }
    }

    #[test]
    fn scaling_by_case() {
        // Tiny numerator, both scaled alike; a subnormal denominator likewise.
        assert_eq!(scale32(2f32.powi(-110), 1.0, 2f32.powi(-110)), (2f32.powi(-46), false));
        let d = f32::from_bits(1);
        assert_eq!(scale32(d, d, 1.0e-30), (2f32.powi(-85), false));
        // Far apart: only the denominator, and the quotient is scaled back.
        assert_eq!(scale32(1.0, 1.0, 2f32.powi(100)), (2f32.powi(64), true));
        assert_eq!(scale32(2f32.powi(100), 1.0, 2f32.powi(100)), (2f32.powi(100), true));
        // Passing through.
        assert_eq!(scale32(3.0, 3.0, 7.0), (3.0, false));
        assert!(scale32(0.0, 0.0, 1.0).0.is_nan());
        // fmas: by the exponent of the addend.
        assert_eq!(fmas32(0.0, 0.0, 2.0, true), 2f32.powi(65));
        assert_eq!(fmas32(0.0, 0.0, 1.0, true), 2f32.powi(-64));
        assert_eq!(fmas32(0.0, 0.0, 1.0, false), 1.0);
        assert_eq!(fmas64(0.0, 0.0, 2.0, true), 2f64.powi(129));
        assert_eq!(fixup32(5.0, -0.0, 1.0), f32::NEG_INFINITY);
        assert_eq!(fixup32(5.0, f32::INFINITY, -1.0).to_bits(), 0x8000_0000);
        assert_eq!(fixup32(-5.0, 2.0, 10.0), 5.0);
    }
}
