//! What attention's matrix instructions read of a cache: eight numbers at a time, as bf16. One byte's codes are bf16 exactly; a half has more digits
//! than that, and is two bf16 whose sum it is. Scales are applied elsewhere.

use amdgpu_target::gpu::{B64, B128, bf16x8_exact, f16_to_f32};

use crate::format::{Bf16, Format, Fp8, Int8};

/// A way of storing eight neighbouring numbers.
pub trait Code {
    /// Bytes of a number.
    const BYTES: u32;
    /// Whether [`Code::low`] is not all zeros.
    const SPLIT: bool = false;
    /// One code.
    type Unit: Copy;
    /// Eight codes as loaded.
    type Raw: Copy;

    /// Eight codes of 0.
    fn none() -> Self::Raw;

    /// The numbers as bf16, of halves their first digits.
    fn high(raw: Self::Raw) -> B128;

    /// What is left of halves.
    #[inline(always)]
    fn low(_raw: Self::Raw) -> B128 {
        B128::ZERO
    }
}

/// IEEE half.
pub struct F16;

impl Code for Bf16 {
    const BYTES: u32 = 2;
    type Unit = u16;
    type Raw = B128;
    #[inline(always)]
    fn none() -> B128 {
        B128::ZERO
    }
    #[inline(always)]
    fn high(raw: B128) -> B128 {
        raw
    }
}

/// Eight halves.
#[inline(always)]
fn halves(raw: B128) -> [f32; 8] {
    let words = raw.words();
    core::array::from_fn(|e| f16_to_f32((words[e / 2] >> (16 * (e as u32 % 2))) as u16))
}

impl Code for F16 {
    const BYTES: u32 = 2;
    const SPLIT: bool = true;
    type Unit = u16;
    type Raw = B128;
    #[inline(always)]
    fn none() -> B128 {
        B128::ZERO
    }
    #[inline(always)]
    fn high(raw: B128) -> B128 {
        bf16x8_exact(halves(raw))
    }
    #[inline(always)]
    fn low(raw: B128) -> B128 {
        // Of eleven digits three are left: exact in f32 and in bf16. Of an infinity nothing is left that is a number.
        bf16x8_exact(halves(raw).map(|x| x - f32::from_bits(x.to_bits() & 0xffff_0000)))
    }
}

/// Defines a format of one byte, whose codes mean what they mean as weights.
macro_rules! of_a_byte {
    ($format:ty) => {
        impl Code for $format {
            const BYTES: u32 = 1;
            type Unit = u8;
            type Raw = B64;
            #[inline(always)]
            fn none() -> B64 {
                B64::new([0; 2])
            }
            #[inline(always)]
            fn high(raw: B64) -> B128 {
                let [lo, hi] = raw.words();
                bf16x8_exact(<$format>::piece(B128::new([lo, hi, 0, 0]), 0))
            }
        }
    };
}
of_a_byte!(Int8);
of_a_byte!(Fp8);
