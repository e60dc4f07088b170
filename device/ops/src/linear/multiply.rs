//! What the stages of a tile hold and what their sums are multiplied with: bf16, or signed bytes whose exact sums over one step have a scale per
//! token. No kernel, no product.

use amdgpu_target::gpu::{
    ACC_COLUMNS, Acc, INTEGERS, IntAcc, acc_column, acc_column_of, acc_to_array, fma, int_acc_to_array, load, wave_idx,
};

/// A way to multiply stages.
pub(super) trait Multiply: Copy {
    /// Whether stages hold signed bytes, a step being the 64 of a group: then steps of 64 bytes may be odd in number.
    const BYTES: bool;
    /// What the sums of a step are multiplied with, of `FT` times 16 tokens those of which this lane holds some.
    type Factors<const FT: usize>: Copy;

    /// What the sums of `step` are multiplied with; loaded a step before it is needed.
    ///
    /// # Safety
    /// 1. What `self` points to holds this step.
    unsafe fn factors<const FT: usize>(self, step: u32) -> Self::Factors<FT>;

    /// Where the integer sums of a step begin.
    const START: i32;

    /// `acc` + the integer `sums` of a step times the factors of the `j`-th 16 tokens.
    fn scaled<const FT: usize>(sums: IntAcc, factors: Self::Factors<FT>, j: usize, acc: Acc) -> Acc;
}

/// bf16 by bf16, no factors.
#[derive(Clone, Copy)]
pub(super) struct Floats;

impl Multiply for Floats {
    const BYTES: bool = false;
    type Factors<const FT: usize> = ();
    const START: i32 = 0;

    #[inline(always)]
    unsafe fn factors<const FT: usize>(self, _step: u32) {}

    #[inline(always)]
    fn scaled<const FT: usize>(_sums: IntAcc, _factors: (), _j: usize, acc: Acc) -> Acc {
        acc
    }
}

/// Bytes by bytes: acc += scale[t] · Σ of a step.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    /// f32 `[K/64, stride]` from the tile's first token on.
    pub scales: *const f32,
    /// From a group's scales to the next one's.
    pub stride: u32,
    /// Tokens from the tile's first on, 1 at least.
    pub tokens: u32,
}

impl Multiply for Bytes {
    const BYTES: bool = true;
    type Factors<const FT: usize> = [[f32; ACC_COLUMNS]; FT];
    const START: i32 = INTEGERS.to_bits() as i32;

    #[inline(always)]
    unsafe fn factors<const FT: usize>(self, step: u32) -> Self::Factors<FT> {
        core::array::from_fn(|j| {
            core::array::from_fn(|column| {
                let token = ((wave_idx() >> 1) * FT as u32 + j as u32) * 16 + acc_column(column);
                let at = step * self.stride + token.min(self.tokens - 1);
                // SAFETY: the token is below `tokens`, the step there by point 1.
                unsafe { load(self.scales, at as usize) }
            })
        })
    }

    #[inline(always)]
    fn scaled<const FT: usize>(sums: IntAcc, factors: Self::Factors<FT>, j: usize, acc: Acc) -> Acc {
        let (sums, acc) = (int_acc_to_array(sums), acc_to_array(acc));
        Acc::new(core::array::from_fn(|e| {
            // At most 64 · 127 · 128, below 2²²: exact. A subtraction can share its cycle with another operation, a conversion cannot.
            let sum = f32::from_bits(sums[e] as u32) - INTEGERS;
            fma(sum, factors[j][acc_column_of(e)], acc[e])
        }))
    }
}
