//! The values of the 8-bit floats, as tables: fp8 is e4m3 without infinities, bf8 is e5m2. Rounding to them is not here.

/// The 256 values of bf8 or fp8.
pub fn table(bf8: bool) -> &'static [f32; 256] {
    if bf8 { &BF8 } else { &FP8 }
}

static FP8: [f32; 256] = values(4, 3);
static BF8: [f32; 256] = values(5, 2);

const fn values(exponent_bits: u32, mantissa_bits: u32) -> [f32; 256] {
    let mut out = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        out[code as usize] = f32::from_bits(f32_bits(code, exponent_bits, mantissa_bits));
        code += 1;
    }
    out
}

const fn f32_bits(code: u32, exponent_bits: u32, mantissa_bits: u32) -> u32 {
    let sign = (code >> 7) << 31;
    let exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    let mantissa = code & ((1 << mantissa_bits) - 1);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let last = (1 << exponent_bits) - 1;
    let ieee = exponent_bits == 5; // e5m2 has infinities and NaNs as IEEE has; e4m3 has one NaN per sign
    if exponent == last && (ieee || mantissa == (1 << mantissa_bits) - 1) {
        return sign | if ieee && mantissa == 0 { 0x7f80_0000 } else { 0x7fc0_0000 };
    }
    if exponent == 0 {
        if mantissa == 0 {
            return sign;
        }
        // Subnormal: mantissa · 2^(1 − bias − mantissa_bits), normalised by its leading one.
        let top = 31 - mantissa.leading_zeros();
        return sign | (top + 1 + 127 - bias - mantissa_bits) << 23 | (mantissa ^ 1 << top) << (23 - top);
    }
    sign | (exponent + 127 - bias) << 23 | mantissa << (23 - mantissa_bits)
}
