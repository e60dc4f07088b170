//! OCP 8-bit floats of the kind e4m3fn: sign, 4 bits of exponent (bias 7), 3 of mantissa. No infinity; `0x7f` and `0xff` are no numbers;
//! the largest is 448. It knows no scales.

/// Largest finite value.
pub const MAX: f32 = 448.0;

pub use amdgpu_target::fp8_to_f32 as to_f32;

/// The nearest code, of two as near the even one; what is larger than 448 becomes 448, with its sign. No number becomes `0x7f`.
#[inline(always)]
pub fn from_f32(value: f32) -> u8 {
    let sign = (value.to_bits() >> 24 & 0x80) as u8;
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return 0x7f;
    }
    let magnitude = magnitude.min(MAX);
    // Below 2^-6 steps are 2^-9: adding 2^14 leaves them in the lowest bits, rounded as the sum is.
    let small = (magnitude + 16384.0).to_bits().wrapping_sub(16384f32.to_bits());
    // Above, 20 bits of mantissa go, rounded to even; the bias goes from 127 to 7.
    let bits = magnitude.to_bits();
    let large = ((bits + 0x7_ffff + (bits >> 20 & 1)) >> 20).wrapping_sub(120 << 3);
    sign | if magnitude < 0.015625 { small as u8 } else { large as u8 }
}
