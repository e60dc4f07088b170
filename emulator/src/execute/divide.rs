//! The steps of a correctly rounded division (`v_div_scale`, `v_div_fmas`, `v_div_fixup`). They only make sense together: scale keeps
//! the Newton steps in range, fmas takes the scale back, fixup puts in the special cases.
//!
//! The manual's pseudocode for scale tests quotients and reciprocals for being subnormal; what the hardware tests, and what makes the
//! sequence divide correctly, are differences of the operands' exponent fields. Its factors for fmas are wrong too.

use super::lanes::{self, F16, F32, F64, Out, rounding, softly};
use super::soft_float::{self, Soft};
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Step};
use half::f16;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

/// What the steps need to know of a format.
pub trait Divide: Soft {
    /// Exponent of the factor by which operands are scaled.
    const BY: i32;
    /// Difference of exponents from which on a quotient counts as close to the range's end.
    const FAR: i64;
    /// Exponent field up to which a numerator is too small for the steps.
    const TINY: i64;
}
impl Divide for f32 {
    const BY: i32 = 64;
    const FAR: i64 = 96;
    const TINY: i64 = 24;
}
impl Divide for f64 {
    const BY: i32 = 128;
    const FAR: i64 = 768;
    const TINY: i64 = 53;
}

#[inline(always)]
fn bias<T: Soft>() -> i64 {
    (1 << (T::EXPONENT - 1)) - 1
}

/// The exponent field.
#[inline(always)]
fn exponent<T: Soft>(x: T) -> i64 {
    (x.bits() >> T::FRACTION) as i64 & ((1 << T::EXPONENT) - 1)
}

#[inline(always)]
fn is_zero<T: Soft>(x: T) -> bool {
    x.bits() << (63 - T::FRACTION - T::EXPONENT) << 1 == 0
}

#[inline(always)]
fn is_negative<T: Soft>(x: T) -> bool {
    x.bits() >> (T::FRACTION + T::EXPONENT) != 0
}

/// Source 0 (which equals the denominator or the numerator), scaled where the division of `numerator` by `denominator` would leave the
/// normal range, and the flag for `div_fmas`.
pub fn scale<T: Divide>(mode: u32, value: T, denominator: T, numerator: T) -> (T, bool) {
    let [value, denominator, numerator] = [value, denominator, numerator].map(|x| soft_float::input(mode, x));
    let (d, n) = (exponent(denominator), exponent(numerator));
    let is_denominator = value.bits() == denominator.bits();
    let (by, back) = if n - d >= T::FAR {
        (if is_denominator { T::BY } else { 0 }, true)
    } else if d == 0 {
        (T::BY, false)
    } else if d >= 2 * bias::<T>() - 1 {
        // The reciprocal would be subnormal. Where the quotient is too, only the denominator goes down.
        let back = n - d <= -T::FAR;
        (if back && !is_denominator { 0 } else { -T::BY }, back)
    } else if n - d <= -T::FAR {
        (if is_denominator { 0 } else { T::BY }, true)
    } else if n <= T::TINY {
        (T::BY, false)
    } else {
        (0, false)
    };
    if is_zero(denominator) || is_zero(numerator) {
        return (soft_float::invalid(), back);
    }
    let scaled = if by == 0 && exponent(value) != 0 && !soft_float::is_nan(value) {
        value
    } else {
        soft_float::ldexp(mode, value, by)
    };
    (scaled, back)
}

/// a·b + c, scaled back by 2^±64 (f64: 2^±128) if `scaled`, up where the addend (the quotient so far) is at least 2, down otherwise;
/// rounded once. Denormal operands stay.
pub fn fmas<T: Divide>(mode: u32, a: T, b: T, c: T, scaled: bool) -> T {
    let by = if exponent(c) > bias::<T>() { T::BY } else { -T::BY };
    soft_float::scaled_fma(mode, a, b, c, if scaled { by } else { 0 })
}

/// The quotient, or what IEEE says where numerator or denominator are special. A quotient that has become infinite or, in the steps
/// after that, NaN is an overflow: no other finite operands lead there. (The manual's text tests the denominator's exponent at that
/// place, which its earlier cases have already excluded.) f16 has no test for under- and overflow.
#[inline(always)]
pub fn fixup<T: Soft>(mode: u32, quotient: T, denominator: T, numerator: T) -> T {
    let (d, n) = (soft_float::input(mode, denominator), soft_float::input(mode, numerator));
    let sign_bit = 1 << (T::FRACTION + T::EXPONENT);
    let negative = is_negative(d) != is_negative(n);
    let signed = |size: u64| T::from_encoding(if negative { sign_bit | size } else { size });
    let infinity = ((1 << T::EXPONENT) - 1) << T::FRACTION;
    let half = T::EXPONENT == 5;
    let (no_d, no_n) = (is_zero(d), is_zero(n));
    let (inf_d, inf_n) = (soft_float::is_infinite(d), soft_float::is_infinite(n));
    if soft_float::is_nan(n) {
        soft_float::quiet(n)
    } else if soft_float::is_nan(d) {
        soft_float::quiet(d)
    } else if no_d && no_n || inf_d && inf_n {
        soft_float::invalid()
    } else if no_d || inf_n {
        signed(infinity)
    } else if inf_d || no_n {
        signed(0)
    } else if !half && exponent(n) - exponent(d) < -(bias::<T>() + T::FRACTION as i64) {
        vanishing(mode, negative)
    } else if !half && quotient.bits() & !sign_bit >= infinity {
        soft_float::overflow(mode, negative)
    } else {
        signed(quotient.bits() & !sign_bit)
    }
}

macro_rules! fixup_at_launch {
    ($name:ident, $float:ty, $quiet:path, $invalid:literal, $fraction:literal, $exponents:literal, $least:literal) => {
        /// [`fixup`] in the mode of a launch, as a lane loop likes it.
        #[inline(always)]
        pub fn $name(quotient: $float, denominator: $float, numerator: $float) -> $float {
            let (q, d, n) = (quotient, denominator, numerator);
            let exponent = |x: $float| (x.to_bits() >> $fraction & $exponents) as i32;
            let negative = d.is_sign_negative() != n.is_sign_negative();
            let large = d == 0.0 || n.is_infinite() || !q.is_finite();
            let small = d.is_infinite() || n == 0.0 || exponent(n) - exponent(d) < $least;
            // Infinity over anything is one, even where the quotient of the fields would be small.
            let small = small && !(d == 0.0 || n.is_infinite());
            let size = if small {
                0.0
            } else if large {
                <$float>::INFINITY
            } else {
                q.abs()
            };
            let signed = if negative { -size } else { size };
            let undefined = d == 0.0 && n == 0.0 || d.is_infinite() && n.is_infinite();
            let result = if undefined { <$float>::from_bits($invalid) } else { signed };
            let result = if d.is_nan() { $quiet(d) } else { result };
            if n.is_nan() { $quiet(n) } else { result }
        }
    };
}
fixup_at_launch!(fixup32, f32, super::float::quiet, 0xffc0_0000, 23, 0xff, -150);
fixup_at_launch!(fixup64, f64, super::float::quiet64, 0xfff8_0000_0000_0000, 52, 0x7ff, -1075);

/// A number far below the smallest denormal, rounded.
#[cold]
fn vanishing<T: Soft>(mode: u32, negative: bool) -> T {
    let tiny = Quad::from_u128(1).value.scalbn(-4000);
    soft_float::round(mode, if negative { -tiny } else { tiny })
}

/// Whether all lanes that are on divide numbers that need no scaling.
struct Ordinary<'a, T> {
    exec: u32,
    denominator: &'a [T; 32],
    numerator: &'a [T; 32],
}

impl<T: Divide> pulp::NullaryFnOnce for Ordinary<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn call(self) -> bool {
        let mut ordinary = true;
        for lane in 0..32 {
            let (d, n) = (exponent(self.denominator[lane]), exponent(self.numerator[lane]));
            let inside =
                d > 0 && d < 2 * bias::<T>() - 1 && n > T::TINY && n <= 2 * bias::<T>() && (n - d).abs() < T::FAR;
            ordinary &= inside | (self.exec >> lane & 1 == 0);
        }
        ordinary
    }
}

/// `v_div_scale`: the scaled operand, and per lane whether the quotient must be scaled back.
fn scale_lanes<T: Divide, K: Out<V = T, Exact = T>>(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let mode = lanes::mode_of(cx, inst, true);
    let [value, denominator, numerator] = [0, 1, 2].map(|i| K::read_exact(cx.wave, inst, i));
    let ordinary = Ordinary { exec: cx.wave.exec(), denominator: &denominator, numerator: &numerator };
    if !lanes::needs_mode(cx, inst) && !inst.mods.clamp && cx.arch.dispatch(ordinary) {
        lanes::write_lane_mask(cx, inst, inst.sdst, 0);
        K::write_exact(cx, inst, &value);
        return Ok(Flow::Next);
    }
    let (mut out, mut flags) = (value, 0);
    for lane in 0..32 {
        let (scaled, back) = scale(mode, value[lane], denominator[lane], numerator[lane]);
        out[lane] = K::modify(mode, inst, scaled);
        flags |= (back as u32) << lane;
    }
    lanes::write_lane_mask(cx, inst, inst.sdst, flags);
    K::write_exact(cx, inst, &out);
    Ok(Flow::Next)
}

/// f32.
pub fn scale_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    scale_lanes::<f32, F32>(cx, inst)
}
/// f64.
pub fn scale_f64(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    scale_lanes::<f64, F64>(cx, inst)
}

/// `v_div_fmas`: VCC says which lanes are scaled back.
#[inline(always)]
fn fmas_lanes<T: Divide, K: Out<V = T, Exact = T>>(
    cx: &mut Cx<'_>,
    inst: &Inst,
    fast: impl Fn(T, T, T) -> T + Copy,
) -> Step {
    let vcc = cx.wave.vcc();
    if vcc & cx.wave.exec() == 0 {
        let soft = |mode, a, b, c| soft_float::scaled_fma(mode, a, b, c, 0);
        return rounding::<K, K, K, K>(cx, inst, fast, soft);
    }
    let mode = lanes::mode_of(cx, inst, true);
    let [a, b, c] = [0, 1, 2].map(|i| K::read_exact(cx.wave, inst, i));
    let out = std::array::from_fn(|lane| {
        let back = vcc >> lane & 1 != 0;
        K::modify(mode, inst, fmas(mode, a[lane], b[lane], c[lane], back))
    });
    K::write_exact(cx, inst, &out);
    Ok(Flow::Next)
}

/// f32.
pub fn fmas_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    fmas_lanes::<f32, F32>(cx, inst, |a, b, c| a.mul_add(b, c))
}
/// f64.
pub fn fmas_f64(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    fmas_lanes::<f64, F64>(cx, inst, |a, b, c| a.mul_add(b, c))
}

/// `v_div_fixup_f16`.
pub fn fixup_f16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    softly::<F16, F16, F16, F16>(cx, inst, fixup::<f16>)
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u32 = lanes::MODE_DEFAULT;

    /// The compiler's expansion of an f32 division (LLVM's `fdiv` for AMDGPU), step by step.
    fn divide32(n: f32, d: f32) -> f32 {
        let (ds, _) = scale(M, d, d, n);
        let (ns, flag) = scale(M, n, d, n);
        let r = crate::execute::transcendental::rcp(ds);
        let e = (-ds).mul_add(r, 1.0);
        let r = e.mul_add(r, r);
        let q = ns * r;
        let e = (-ds).mul_add(q, ns);
        let q = e.mul_add(r, q);
        let e = (-ds).mul_add(q, ns);
        fixup(M, fmas(M, e, r, q, flag), d, n)
    }

    /// The same for f64, from a reciprocal good to 2⁻²⁹.
    fn divide64(n: f64, d: f64) -> f64 {
        let (ds, _) = scale(M, d, d, n);
        let (ns, flag) = scale(M, n, d, n);
        let r = (1.0 / ds) * (1.0 + 2f64.powi(-29));
        let r = (-ds).mul_add(r, 1.0).mul_add(r, r);
        let r = (-ds).mul_add(r, 1.0).mul_add(r, r);
        let q = ns * r;
        let e = (-ds).mul_add(q, ns);
        fixup(M, fmas(M, e, r, q, flag), d, n)
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
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{n:e}/{d:e}: {got:e}, {want:e}");
            let (n, d) = (f64::from_bits(next()), f64::from_bits(next()));
            let (got, want) = (divide64(n, d), n / d);
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{n:e}/{d:e}: {got:e}, {want:e}");
        }
    }

    #[test]
    fn the_fast_fixup_is_the_other_at_launch() {
        let special =
            [0u32, 1, 0x0080_0000, 0x3f80_0000, 0x7f00_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000, 0x7f80_0001];
        let values: Vec<f32> = special.iter().flat_map(|&x| [x, x | 0x8000_0000]).map(f32::from_bits).collect();
        for &q in &values {
            for &d in &values {
                for &n in &values {
                    let (fast, slow) = (fixup32(q, d, n), fixup(M, q, d, n));
                    assert_eq!(fast.to_bits(), slow.to_bits(), "{q:e} {d:e} {n:e}");
                    let wide = |x: f32| f64::from_bits((x.to_bits() as u64) << 32);
                    let (fast, slow) = (fixup64(wide(q), wide(d), wide(n)), fixup(M, wide(q), wide(d), wide(n)));
                    assert_eq!(fast.to_bits(), slow.to_bits(), "{q:e} {d:e} {n:e} as f64");
                }
            }
        }
    }

    #[test]
    fn scaling_by_case() {
        let two = |n: i32| 2f32.powi(n);
        // Tiny numerator, both scaled alike; a subnormal denominator likewise.
        assert_eq!(scale(M, two(-110), 1.0, two(-110)), (two(-46), true));
        assert_eq!(scale(M, two(-110), two(-100), two(-110)), (two(-46), false));
        let d = f32::from_bits(1);
        assert_eq!(scale(M, d, d, 1.0e-30), (two(-85), false));
        // Far apart: only the denominator, and the quotient is scaled back.
        assert_eq!(scale(M, 1.0, 1.0, two(100)), (two(64), true));
        assert_eq!(scale(M, two(100), 1.0, two(100)), (two(100), true));
        // Passing through.
        assert_eq!(scale(M, 3.0f32, 3.0, 7.0), (3.0, false));
        assert_eq!(scale(M, 0.0f32, 0.0, 1.0).0.to_bits(), 0xffc0_0000);
        // fmas: by the exponent of the addend.
        assert_eq!(fmas(M, 0.0, 0.0, 2.0f32, true), two(65));
        assert_eq!(fmas(M, 0.0, 0.0, 1.0f32, true), two(-64));
        assert_eq!(fmas(M, 0.0, 0.0, 1.0f32, false), 1.0);
        assert_eq!(fmas(M, 0.0, 0.0, 2.0f64, true), 2f64.powi(129));
        assert_eq!(fixup(M, 5.0f32, -0.0, 1.0), f32::NEG_INFINITY);
        assert_eq!(fixup(M, 5.0f32, f32::INFINITY, -1.0).to_bits(), 0x8000_0000);
        assert_eq!(fixup(M, -5.0f32, 2.0, 10.0), 5.0);
        assert_eq!(fixup(M, 5.0f32, 0.0, -0.0).to_bits(), 0xffc0_0000);
    }
}
