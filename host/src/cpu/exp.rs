//! The exponential of f32, written without branches and calls so that the compiler vectorises it. It ends at 88, short of overflow.

/// ln 2 in two parts: the first has few enough bits that its product with a whole number is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = (std::f64::consts::LN_2 - LN2_HIGH as f64) as f32;
/// Adding it to a small f32 rounds to a whole number, which then stands in the lowest bits.
const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23

/// `e^x` for `x ≤ 88`, within 3 units in the last place; 0 below −87, exactly 1 at 0, NaN of NaN. Larger arguments
/// give `e^88`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let clamped = if x < -87.0 { -87.0 } else { x };
    let clamped = if clamped > 88.0 { 88.0 } else { clamped };
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    // |r| ≤ ln 2 / 2: seven terms of the series leave less than 2^−27.
    let series = 1.0 / 5040.0;
    let series = series * r + 1.0 / 720.0;
    let series = series * r + 1.0 / 120.0;
    let series = series * r + 1.0 / 24.0;
    let series = series * r + 1.0 / 6.0;
    let series = series * r + 0.5;
    let mantissa = 1.0 + (r + r * r * series);
    let scale = f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { mantissa * scale }
}

/// [`exp`] of each element. Inline it into a function with the vector instructions switched on.
#[inline(always)]
pub fn exp_in_place(values: &mut [f32]) {
    values.iter_mut().for_each(|v| *v = exp(*v));
}

/// `x / (1 + e^−x)`, Qwen's activation, for any finite `x`.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    // Below −87 it is less than 2^−113, and e^−x would soon overflow.
    if x < -87.0 { 0.0 } else { x / (1.0 + exp(-x)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_three_units_of_the_exact_value() {
        let mut worst = 0.0f64;
        for i in 0..2_000_000 {
            let x = -86.9 + 174.0 * (i as f32 / 2e6);
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 3.0 * 2f64.powi(-24) * 2.0, "relative error {worst:e}");
    }

    #[test]
    fn ends_are_exact() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        for x in [-87.1, -1e30, f32::NEG_INFINITY] {
            assert_eq!(exp(x), 0.0);
        }
        assert!(exp(f32::NAN).is_nan() && silu(f32::NAN).is_nan());
    }

    #[test]
    fn silu_is_right_at_both_ends() {
        for x in [-3e38f32, -1e4, -100.0, -88.0, -3.5, -1e-3, 0.0, 1e-3, 2.0, 50.0, 1e4, 3e38] {
            let exact = f64::from(x) / (1.0 + (-f64::from(x)).exp());
            let error = (f64::from(silu(x)) - exact).abs();
            assert!(error <= 1e-6 * exact.abs() + 1e-34, "silu({x}) = {}", silu(x));
        }
    }
}
