//! Numbers in plain bits: bf16, which the chip has no conversion to, so that kernels and tests of kernels do it in integers, and 8-bit floats
//! for a machine without them. No number types.

/// The f32 with the same value; exact.
#[inline(always)]
pub const fn bf16_to_f32(x: u16) -> f32 {
    f32::from_bits((x as u32) << 16)
}

/// Rounds to nearest, ties to even; overflow goes to infinity and a NaN stays a (quiet) NaN.
#[inline(always)]
pub const fn f32_to_bf16(x: f32) -> u16 {
    // A NaN whose payload is all ones would carry into the sign: set its quiet bit and cut instead.
    if x.is_nan() { (x.to_bits() >> 16) as u16 | 0x0040 } else { number_to_bf16(x) }
}

/// As [`f32_to_bf16`] for anything but a NaN, which may come out as any value; three instructions instead of six.
#[inline(always)]
pub const fn number_to_bf16(x: f32) -> u16 {
    let u = x.to_bits();
    (u.wrapping_add(0x7fff + ((u >> 16) & 1)) >> 16) as u16
}

/// The f32 of an OCP e4m3fn; exact. `0x7f` and `0xff` are no numbers.
#[inline(always)]
pub const fn fp8_to_f32(code: u8) -> f32 {
    let code = code as u32;
    // Exponents have a bias of 7 there and of 127 here. One of 0 means 2⁻⁶ · mantissa / 8: what is made first is 2⁻⁷ · (1 + mantissa / 8).
    // No subnormal f32 is made on the way: with those a CPU's products took ten times as long (EXP-0035).
    let normal = f32::from_bits(((code & 0x7f) << 20) + (120 << 23));
    let value = if code & 0x78 == 0 { 2.0 * normal - 0.015_625 } else { normal };
    // All bits set are no number either.
    let no_number = if code & 0x7f == 0x7f { u32::MAX } else { 0 };
    f32::from_bits(value.to_bits() | (code & 0x80) << 24 | no_number)
}

/// The nearest OCP e4m3fn of a number, of two as near the even one; what is larger than 448 becomes 448. A NaN may come out as any code.
#[inline(always)]
pub const fn number_to_fp8(x: f32) -> u8 {
    let sign = (x.to_bits() >> 24 & 0x80) as u8;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let most = 448f32.to_bits();
    let magnitude = if magnitude > most { most } else { magnitude };
    // Below 2^-6 codes are steps of 2^-9: added to 2^14 they stand in the lowest bits, rounded as the sum is.
    let small = (f32::from_bits(magnitude) + 16384.0).to_bits().wrapping_sub(16384f32.to_bits());
    // Above, 20 bits of mantissa go, rounded to even, and the bias goes from 127 to 7.
    let large = ((magnitude + 0x7_ffff + (magnitude >> 20 & 1)) >> 20).wrapping_sub(120 << 3);
    sign | if magnitude < 0x3c80_0000 { small } else { large } as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even_and_keeps_nan() {
        let rows = [
            (0x3f80_0000, 0x3f80),
            (0x3f80_8000, 0x3f80), // tie, even below
            (0x3f81_8000, 0x3f82), // tie, even above
            (0x3f80_8001, 0x3f81),
            (0x8000_0000, 0x8000),
            (0x0000_8001, 0x0001), // a denormal is kept
            (0x7f7f_ffff, 0x7f80), // largest finite rounds to infinity
            (0xff80_0000, 0xff80),
            (0x7fff_ffff, 0x7fff), // NaN with a full payload
            (0xff80_0001, 0xffc0), // NaN whose payload would be cut away
        ];
        for (bits, want) in rows {
            assert_eq!(f32_to_bf16(f32::from_bits(bits)), want, "{bits:#010x}");
            let nan = f32::from_bits(bits).is_nan();
            assert!(nan || number_to_bf16(f32::from_bits(bits)) == want, "{bits:#010x}");
        }
        for x in 0..=u16::MAX {
            let back = f32_to_bf16(bf16_to_f32(x));
            assert!(back == x || (bf16_to_f32(x).is_nan() && back == x | 0x40), "{x:#06x} came back as {back:#06x}");
        }
    }

    #[test]
    fn e4m3_is_its_fields() {
        for code in 0..=u8::MAX {
            let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
            let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
            let magnitude =
                if exponent == 0 { mantissa / 8.0 * power(-6) } else { (1.0 + mantissa / 8.0) * power(exponent - 7) };
            let want = if code & 0x80 == 0 { magnitude } else { -magnitude };
            let got = fp8_to_f32(code);
            if code & 0x7f == 0x7f {
                assert!(got.is_nan(), "{code:#04x}");
            } else {
                assert!(
                    f64::from(got) == want && got.is_sign_negative() == (code >= 0x80),
                    "{code:#04x}: {got}, {want}"
                );
            }
        }
    }

    /// Every code comes back from its value; between neighbours the nearer one comes, at the middle the even one.
    #[test]
    fn e4m3_rounds_to_the_nearest() {
        for code in 0..0x7e {
            let (low, high) = (fp8_to_f32(code), fp8_to_f32(code + 1));
            let middle = f32::midpoint(low, high);
            for (x, want) in [
                (low, code),
                (high, code + 1),
                (f32::from_bits(middle.to_bits() - 1), code),
                (f32::from_bits(middle.to_bits() + 1), code + 1),
                (middle, code + code % 2),
            ] {
                assert_eq!((number_to_fp8(x), number_to_fp8(-x)), (want, want | 0x80), "{x}");
            }
        }
        for x in [449.0, 1e30, f32::INFINITY] {
            assert_eq!((number_to_fp8(x), number_to_fp8(-x)), (0x7e, 0xfe));
        }
    }
}
