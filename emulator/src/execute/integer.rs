//! Integer operations of one lane that Rust's own operators do not give.

/// The low 24 bits, unsigned.
#[inline(always)]
pub fn u24(value: u32) -> u32 {
    value & 0x00ff_ffff
}

/// The low 24 bits, signed.
#[inline(always)]
pub fn i24(value: i32) -> i32 {
    value << 8 >> 8
}

/// Bits `offset` … `offset + width − 1`, zero-extended; offset and width are taken mod 32.
#[inline(always)]
pub fn bfe_u32(value: u32, offset: u32, width: u32) -> u32 {
    value >> (offset & 31) & ((1u32 << (width & 31)).wrapping_sub(1))
}

/// Bits `offset` … `offset + width − 1`, sign-extended; width 0 gives 0. A field that passes bit 31 extends by bit 31.
#[inline(always)]
pub fn bfe_i32(value: i32, offset: u32, width: u32) -> i32 {
    let (offset, width) = (offset & 31, width & 31);
    let field = value >> offset;
    let unused = (32 - width) & 31;
    if width == 0 { 0 } else { field << unused >> unused }
}

/// Leading bits equal to the sign bit; −1 if all are.
#[inline(always)]
pub fn cls(value: i32) -> i32 {
    let changes = value ^ (value >> 31);
    if changes == 0 { -1 } else { changes.leading_zeros() as i32 }
}

/// Leading zeros; −1 for 0.
#[inline(always)]
pub fn clz(value: u32) -> i32 {
    if value == 0 { -1 } else { value.leading_zeros() as i32 }
}

/// Trailing zeros; −1 for 0.
#[inline(always)]
pub fn ctz(value: u32) -> i32 {
    if value == 0 { -1 } else { value.trailing_zeros() as i32 }
}

/// Four bytes chosen from `high`:`low` by the selector's bytes: 0–7 a byte, 8–11 the sign of byte 1, 3, 5, 7 in all bits, 12 zero,
/// above 0xff.
#[inline(always)]
pub fn perm(high: u32, low: u32, selector: u32) -> u32 {
    let both = (high as u64) << 32 | low as u64;
    let byte = |n: u32| {
        let chosen = selector >> (n * 8) & 0xff;
        let value = if chosen >= 13 {
            0xff
        } else if chosen == 12 {
            0
        } else if chosen >= 8 {
            let sign = both >> ((chosen - 8) * 16 + 15) & 1;
            0xff * sign as u32
        } else {
            (both >> (chosen * 8)) as u32 & 0xff
        };
        value << (n * 8)
    };
    byte(0) | byte(1) | byte(2) | byte(3)
}

/// The middle of three.
#[inline(always)]
pub fn med3<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

#[inline(always)]
fn byte(value: u32, n: u32) -> u32 {
    value >> (n * 8) & 0xff
}

/// Sum of the absolute differences of four bytes.
#[inline(always)]
pub fn sad_u8(a: u32, b: u32) -> u32 {
    let one = |n| byte(a, n).abs_diff(byte(b, n));
    one(0) + one(1) + one(2) + one(3)
}

/// Sum of the absolute differences of two halves.
#[inline(always)]
pub fn sad_u16(a: u32, b: u32) -> u32 {
    (a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16)
}

/// [`sad_u8`] without the bytes whose reference `b` is 0.
#[inline(always)]
pub fn msad_u8(a: u32, b: u32) -> u32 {
    let one = |n| if byte(b, n) == 0 { 0 } else { byte(a, n).abs_diff(byte(b, n)) };
    one(0) + one(1) + one(2) + one(3)
}

/// Average of four bytes; the low bit of `c`'s byte rounds up.
#[inline(always)]
pub fn lerp_u8(a: u32, b: u32, c: u32) -> u32 {
    let one = |n: u32| ((byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1) << (n * 8);
    one(0) | one(1) | one(2) | one(3)
}

/// Two signed halves, each saturated to a byte.
#[inline(always)]
pub fn sat_pk_u8_i16(value: u32) -> u16 {
    let one = |half: i16| half.clamp(0, 255) as u16;
    one(value as i16) | one((value >> 16) as i16) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_fields() {
        assert_eq!(bfe_u32(0xdead_beef, 8, 8), 0xbe);
        assert_eq!(bfe_u32(0xffff_ffff, 4, 0), 0);
        assert_eq!(bfe_u32(0xffff_ffff, 28, 8), 0xf);
        assert_eq!(bfe_u32(0xffff_ffff, 33, 33), 1);
        assert_eq!(bfe_i32(0x0000_8000, 8, 8), -128);
        assert_eq!(bfe_i32(-1, 5, 0), 0);
        assert_eq!(bfe_i32(i32::MIN, 28, 31), -8);
        assert_eq!(bfe_i32(0x7fff_ffff, 0, 31), -1);
    }

    #[test]
    fn counting() {
        assert_eq!(
            [cls(0), cls(0x4000_0000), cls(i32::MIN), cls(0x0fff_ffff), cls(-65536), cls(-2)],
            [-1, 1, 1, 4, 16, 31]
        );
        assert_eq!([clz(0), clz(1), ctz(0), ctz(8)], [-1, 31, -1, 3]);
        assert_eq!([i24(0x0080_0000), i24(0x7f7f_ffff)], [-8_388_608, 0x7f_ffff]);
    }

    #[test]
    fn perm_takes_the_first_source_as_high() {
        assert_eq!(perm(0x0011_2233, 0x4455_6677, 0x0706_0504), 0x0011_2233);
        assert_eq!(perm(0x0011_2233, 0x4455_6677, 0x0302_0100), 0x4455_6677);
        // 8 sign of byte 1 (0x66), 9 of byte 3 (0x84), 10 of byte 5 (0xf2), 11 of byte 7 (0x00).
        assert_eq!(perm(0x0011_f233, 0x8455_6677, 0x0b0a_0908), 0x00ff_ff00);
        assert_eq!(perm(0x0011_2233, 0x4455_6677, 0xff0d_0c04), 0xffff_0033);
    }

    #[test]
    fn bytes_and_halves() {
        assert_eq!(sad_u8(0x0102_03ff, 0x0201_0300), 1 + 1 + 255);
        assert_eq!(msad_u8(0x0102_03ff, 0x0201_0300), 2);
        assert_eq!(sad_u16(0xffff_0001, 0x0000_0003), 0xffff + 2);
        assert_eq!(lerp_u8(0xff00_0103, 0xff01_0102, 0x0101_0000), 0xff01_0102);
        assert_eq!(sat_pk_u8_i16(0xffff_0100), 0x00ff);
        assert_eq!(sat_pk_u8_i16(0x0042_8000), 0x4200);
        assert_eq!(med3(5, -1, 3), 3);
        assert_eq!(med3(2u16, 2, 9), 2);
    }
}
