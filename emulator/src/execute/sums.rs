//! Sums of products as gfx1201 makes them, to the bit: one step of two or four products and an addend, of which dot products and matrix
//! products consist. The rule is AMD's own, measured on an R9700 and published with rocjitsu (ROCm/rocm-systems, `gfx12_dot.h`); the
//! manual has none. In short: products are cut off 24 places below their factors' exponents, groups of them and the addend are aligned
//! and cut off downwards, and the result is rounded once. MODE's rounding and denormals have no say, FP16_OVFL has.
//! Registers, modifiers and the order of steps are not here.

use super::soft_float::FP16_OVFL;

/// A format of factors.
pub trait Factor {
    /// Bits of the exponent.
    const EXPONENT: u32;
    /// Bits of the fraction.
    const FRACTION: u32;
    /// Whether the largest exponent holds numbers too: no infinity, and one NaN.
    const FINITE: bool = false;

    /// Eight bits wide: all products of a step are one group, and an invalid product gives the NaN of a NaN factor.
    const BYTE: bool = Self::EXPONENT + Self::FRACTION < 8;
    /// Exponent field and fraction, all ones.
    const MAGNITUDE: u32 = (1 << (Self::EXPONENT + Self::FRACTION)) - 1;
    /// What lies above is a NaN, what is equal an infinity.
    const INFINITY: u32 =
        if Self::FINITE { Self::MAGNITUDE - 1 } else { Self::MAGNITUDE >> Self::FRACTION << Self::FRACTION };

    /// Signed significand in units of its last place, and the exponent of the place before the point.
    #[inline(always)]
    fn split(bits: u32) -> (i32, i32) {
        let field = (bits & Self::MAGNITUDE) >> Self::FRACTION;
        let fraction = bits & ((1 << Self::FRACTION) - 1);
        let size = (fraction | ((field != 0) as u32) << Self::FRACTION) as i32;
        let bias = (1 << (Self::EXPONENT - 1)) - 1;
        let negative = bits >> (Self::EXPONENT + Self::FRACTION) & 1 != 0;
        (if negative { -size } else { size }, field.max(1) as i32 - bias)
    }
    /// Infinite or no number.
    #[inline(always)]
    fn is_special(bits: u32) -> bool {
        bits & Self::MAGNITUDE >= Self::INFINITY + Self::FINITE as u32
    }
    /// No number.
    fn is_nan(bits: u32) -> bool {
        bits & Self::MAGNITUDE > Self::INFINITY
    }
}

/// IEEE's half.
pub struct F16;
/// The upper half of an f32.
pub struct Bf16;
/// E4M3 as OCP has it.
pub struct Fp8;
/// E5M2.
pub struct Bf8;

impl Factor for F16 {
    const EXPONENT: u32 = 5;
    const FRACTION: u32 = 10;
}
impl Factor for Bf16 {
    const EXPONENT: u32 = 8;
    const FRACTION: u32 = 7;
}
impl Factor for Fp8 {
    const EXPONENT: u32 = 4;
    const FRACTION: u32 = 3;
    const FINITE: bool = true;
}
impl Factor for Bf8 {
    const EXPONENT: u32 = 5;
    const FRACTION: u32 = 2;
}

/// A format of addend and result, given as bits in the low end of a word.
pub trait Sum {
    /// The addend's leading bit counts as no lower than this power of two.
    const LOWEST: i32;
    /// The addend as f32 bits; a NaN keeps its payload.
    fn widen(bits: u32) -> u32;
    /// A NaN or an infinity, given as f32 bits.
    fn special(bits: u32) -> u32;
    /// units · 2^place, rounded.
    fn round(mode: u32, units: i32, place: i32) -> u32;
}

/// f32.
pub struct ToF32;
/// f16.
pub struct ToF16;
/// bf16.
pub struct ToBf16;

impl Sum for ToF32 {
    const LOWEST: i32 = -126;
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        bits
    }
    fn special(bits: u32) -> u32 {
        bits
    }
    #[inline(always)]
    fn round(_: u32, units: i32, place: i32) -> u32 {
        // Exact as an f64, so this rounds once. A negative sum that becomes 0 becomes the positive one.
        let scale = f64::from_bits(((place + 1023) as u64) << 52);
        ((units as f64 * scale) as f32 + 0.0).to_bits()
    }
}

impl Sum for ToBf16 {
    const LOWEST: i32 = ToF32::LOWEST;
    fn widen(bits: u32) -> u32 {
        bits << 16
    }
    fn special(bits: u32) -> u32 {
        if bits == FACTOR_NAN { 0xfffd } else { bits >> 16 }
    }
    fn round(mode: u32, units: i32, place: i32) -> u32 {
        ToF32::round(mode, units, place) >> 16
    }
}

impl Sum for ToF16 {
    const LOWEST: i32 = -14;
    fn widen(bits: u32) -> u32 {
        let (sign, size) = ((bits & 0x8000) << 16, bits & 0x7fff);
        match size {
            // Infinities and NaNs.
            0x7c00.. => sign | 0x7f80_0000 | (size & 0x3ff) << 13,
            // 2^-24 is the last place of the denormals.
            ..0x400 => sign | (size as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
            _ => sign | ((size << 13) + ((127 - 15) << 23)),
        }
    }
    fn special(bits: u32) -> u32 {
        if bits == FACTOR_NAN { 0xfe3d } else { bits >> 16 & 0x8000 | 0x7c00 | bits >> 13 & 0x3ff }
    }
    fn round(mode: u32, units: i32, place: i32) -> u32 {
        let size = units.unsigned_abs();
        if size == 0 {
            return 0;
        }
        let exponent = (31 - size.leading_zeros() as i32 + place).max(Self::LOWEST);
        // Bits below the last place of a number with this exponent.
        let below = exponent - 10 - place;
        let steps = if below <= 0 {
            size << -below
        } else {
            let (whole, rest, half) = (size >> below, size & ((1 << below) - 1), 1 << (below - 1));
            whole + (rest > half || rest == half && whole & 1 != 0) as u32
        };
        // The hidden bit counts one in the exponent field, and so does a carry.
        let code = steps + (((exponent - Self::LOWEST) as u32) << 10);
        let largest = if mode & FP16_OVFL != 0 { 0x7bff } else { 0x7c00 };
        match code.min(largest) {
            0 => 0,
            code => code | ((units < 0) as u32) << 15,
        }
    }
}

/// What a factor that is no number gives, and an invalid product of 16-bit factors.
const FACTOR_NAN: u32 = 0xffc0_0a3d;
const INVALID: u32 = 0xffc0_0000;
/// Places that a product keeps below the sum of its factors' exponents, and an addend below its leading bit.
const PRODUCT_PLACES: i32 = 24;
const ADDEND_PLACES: i32 = 26;
/// A place below all others, that of a product that is 0.
const NOWHERE: i32 = -1024;

/// value · 2^-places, cut off downwards.
#[inline(always)]
fn cut(value: i32, places: i32) -> i32 {
    value >> places.min(31)
}

/// The exact sum before it is rounded, units and their place; `c` is f32 bits, no operand a NaN or infinite.
#[inline(always)]
fn sum<A: Factor, B: Factor, const N: usize>(a: [u32; N], b: [u32; N], c: u32, lowest: i32) -> (i32, i32) {
    // A product in units of its own last place has at most 26 bits, the whole sum 30.
    let below = PRODUCT_PLACES as u32 - A::FRACTION - B::FRACTION;
    let in_group = if A::BYTE { N } else { 2 };
    let (mut products, mut places, mut group_places) = ([0; N], [NOWHERE; N], [NOWHERE; N]);
    for i in 0..N {
        let ((x, x_exponent), (y, y_exponent)) = (A::split(a[i]), B::split(b[i]));
        products[i] = x * y << below;
        places[i] = if products[i] == 0 { NOWHERE } else { x_exponent + y_exponent - PRODUCT_PLACES };
        let group = &mut group_places[i / in_group];
        *group = (*group).max(places[i]);
    }
    let mut groups = [0; N];
    for i in 0..N {
        groups[i / in_group] += cut(products[i], group_places[i / in_group] - places[i]);
    }
    let field = c >> 23 & 0xff;
    let size = ((c & 0x7f_ffff | ((field != 0) as u32) << 23) << (ADDEND_PLACES - 23)) as i32;
    let exponent = field.max(1) as i32 - 127;
    let mut place = exponent.max(lowest) - ADDEND_PLACES;
    for group in group_places {
        place = place.max(group);
    }
    let lost = place - (exponent - ADDEND_PLACES);
    let kept = cut(size, lost);
    let mut total = match (c >> 31 == 0, kept == 0 && place > lowest) {
        (true, _) => kept,
        (false, true) => 0,
        (false, false) => cut(-size, lost),
    };
    for i in 0..N {
        total += cut(groups[i], place - group_places[i]);
    }
    (total, place)
}

/// Whether an operand is infinite or no number, so that [`step`] and not [`plain`] has the result; `c` is f32 bits.
#[inline(always)]
pub fn is_special<A: Factor, B: Factor, const N: usize>(a: [u32; N], b: [u32; N], c: u32) -> bool {
    let mut special = c & 0x7f80_0000 == 0x7f80_0000;
    for i in 0..N {
        special |= A::is_special(a[i]) | B::is_special(b[i]);
    }
    special
}

/// The f32 result where [`is_special`] does not hold; free of branches, for lane loops.
#[inline(always)]
pub fn plain<A: Factor, B: Factor, const N: usize>(a: [u32; N], b: [u32; N], c: u32) -> u32 {
    let (units, place) = sum::<A, B, N>(a, b, c, ToF32::LOWEST);
    ToF32::round(0, units, place)
}

/// One step: a·b summed, plus `c`, in the format of the result. N is 2 or 4.
pub fn step<A: Factor, B: Factor, R: Sum, const N: usize>(mode: u32, a: [u32; N], b: [u32; N], c: u32) -> u32 {
    let c = R::widen(c);
    if is_special::<A, B, N>(a, b, c) {
        return R::special(special::<A, B, N>(a, b, c));
    }
    let (units, place) = sum::<A, B, N>(a, b, c, R::LOWEST);
    R::round(mode, units, place)
}

/// What NaNs and infinities decide, as f32 bits: NaN factors, then invalid products, then the addend.
fn special<A: Factor, B: Factor, const N: usize>(a: [u32; N], b: [u32; N], c: u32) -> u32 {
    let invalid = if A::BYTE { FACTOR_NAN } else { INVALID };
    let (mut up, mut down, mut no_product) = (false, false, false);
    for (a, b) in a.into_iter().zip(b) {
        if A::is_nan(a) || B::is_nan(b) {
            return FACTOR_NAN;
        }
        if A::is_special(a) || B::is_special(b) {
            let negative = (a >> (A::EXPONENT + A::FRACTION) ^ b >> (B::EXPONENT + B::FRACTION)) & 1 != 0;
            no_product |= a & A::MAGNITUDE == 0 || b & B::MAGNITUDE == 0;
            up |= !negative;
            down |= negative;
        }
    }
    if no_product || up && down {
        return invalid;
    }
    if c & 0x7fff_ffff > 0x7f80_0000 {
        return c | 0x0040_0000;
    }
    up |= c == 0x7f80_0000;
    down |= c == 0xff80_0000;
    match (up, down) {
        (true, true) => invalid,
        (_, true) => 0xff80_0000,
        _ => 0x7f80_0000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(word: u32) -> [u32; 2] {
        [word & 0xffff, word >> 16]
    }

    #[test]
    fn results_measured_on_an_r9700_come_out() {
        // Of the results that AMD publishes with the rule: A, B, C, D. Cancellation, NaN payloads, denormals, negative addends below all.
        let f16 = [
            [0xc800_c200, 0x4400_4800, 0x3f80_0000, 0xc25c_0000],
            [0x3c00_3c00, 0x3c00_3c00, 0x7f81_2345, 0x7fc1_2345],
            [0x7c00_7e01, 0x0000_3c00, 0x7fc1_2345, 0xffc0_0a3d],
            [0x3c00_7c00, 0x3c00_0000, 0x7fc1_2345, 0xffc0_0000],
            [0x0000_0001, 0x3c00_8001, 0x0000_0000, 0xa780_0000],
            [0x058e_f3f3, 0x2b24_1c4a, 0xb8ee_d486, 0xc288_6106],
            [0x8495_0495, 0x3d28_3d28, 0x8000_0000, 0x0000_0000],
        ];
        for [a, b, c, d] in f16 {
            assert_eq!(step::<F16, F16, ToF32, 2>(0, halves(a), halves(b), c), d, "{a:#x}");
        }
        let bf16 = [
            [0xf9e2_d6b1, 0xe2ad_f60c, 0xeddb_846f, 0x7f80_0000],
            [0xc395_629b, 0xd963_3359, 0xdc60_025c, 0x5d50_4184],
            [0x2061_bc39, 0x96b4_0093, 0x0056_dd77, 0x0055_3463],
            [0x0364_bc8c, 0x3c46_8385, 0x807f_fffe, 0x0069_a402],
            [0x98ea_1190, 0x2720_af4c, 0x8080_0004, 0x81b7_5001],
        ];
        for [a, b, c, d] in bf16 {
            assert_eq!(step::<Bf16, Bf16, ToF32, 2>(0, halves(a), halves(b), c), d, "{a:#x}");
        }
    }

    #[test]
    fn every_half_widens_and_comes_back() {
        for bits in 0..=0xffff {
            let wide = ToF16::widen(bits);
            if bits & 0x7fff > 0x7c00 {
                assert_eq!(ToF16::special(wide), bits, "the payload stays");
                continue;
            }
            let expected = half::f16::from_bits(bits as u16).to_f32();
            assert_eq!(wide, expected.to_bits(), "{bits:#x}");
            // 0·0 + c: all but −0, which no sum is.
            let sum = step::<F16, F16, ToF16, 2>(0, [0; 2], [0; 2], bits);
            assert_eq!(sum, if bits == 0x8000 { 0 } else { bits });
        }
    }

    #[test]
    fn a_half_overflows_as_mode_says() {
        let square = |mode| step::<F16, F16, ToF16, 2>(mode, [0x5c00, 0], [0x5c00, 0], 0);
        assert_eq!([square(0), square(FP16_OVFL)], [0x7c00, 0x7bff]);
        let infinite = |mode| step::<F16, F16, ToF16, 2>(mode, [0x7c00, 0], [0x3c00, 0], 0);
        assert_eq!([infinite(0), infinite(FP16_OVFL)], [0x7c00, 0x7c00]);
    }
}
