//! A format as a number that a kernel is told. What codes mean is in `format.rs`; no kernel, no product.

#[cfg(gpu)]
use amdgpu_target::gpu::{B128, load_offset};

#[cfg(gpu)]
use super::{SUPERBLOCK, device::Number, record_bytes};
use super::{Scales, Stored};

/// A format and the group of its scales as one number, for kernels that learn at run time how a matrix is stored: what a wave asks of it is one
/// scalar operation.
///
/// | bits | meaning |
/// |---|---|
/// | 0–1 | log2 of the pieces of eight elements in 16 bytes: 0 bf16, 1 bytes, 2 nibbles |
/// | 2 | bytes are e4m3fn |
/// | 3 | nibbles are around 8 |
/// | 4–5 | scales: 0 none, 1 of rows, 2 of groups, 3 of two levels |
/// | 6 | groups have minimums |
/// | 8–12 | log2 of a group; 31 where the whole row has one scale |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form(pub u32);

impl Form {
    const FLOATS: u32 = 1 << 2;
    const AROUND_8: u32 = 1 << 3;
    const MINIMUMS: u32 = 1 << 6;

    /// The number of a format; `group_log2` is not used where there are no groups.
    pub const fn new(stored: Stored, group_log2: u32) -> Self {
        let scales = match stored.scales() {
            Scales::None => 0,
            Scales::Row => 1,
            Scales::Group | Scales::GroupMinimum => 2,
            Scales::Levels | Scales::LevelsMinimum => 3,
        };
        let floats = if matches!(stored, Stored::Fp8) { Self::FLOATS } else { 0 };
        let around = if matches!(stored, Stored::Int4) { Self::AROUND_8 } else { 0 };
        let minimums = if stored.scales().minimums() { Self::MINIMUMS } else { 0 };
        let group_log2 = if stored.scales().groups() { group_log2 } else { 31 };
        Self((stored.elements() / 8).ilog2() | floats | around | scales << 4 | minimums | group_log2 << 8)
    }
}

#[cfg(gpu)]
impl Form {
    /// log2 of the pieces of eight elements in 16 bytes of codes.
    #[inline(always)]
    pub fn pieces_log2(self) -> u32 {
        self.0 & 3
    }

    /// Whether elements are bf16, without scales.
    #[inline(always)]
    pub fn is_bf16(self) -> bool {
        self.pieces_log2() == 0
    }

    /// Whether codes are nibbles, else bytes.
    #[inline(always)]
    pub fn is_nibbles(self) -> bool {
        self.pieces_log2() == 2
    }

    /// Whether bytes are e4m3fn.
    #[inline(always)]
    pub fn is_floats(self) -> bool {
        self.0 & Self::FLOATS != 0
    }

    /// Whether nibbles are around 8.
    #[inline(always)]
    pub fn is_around_8(self) -> bool {
        self.0 & Self::AROUND_8 != 0
    }

    /// Whether a row has one scale.
    #[inline(always)]
    fn has_row_scales(self) -> bool {
        self.0 >> 4 & 3 == 1
    }

    /// Whether groups have minimums.
    #[inline(always)]
    pub fn has_minimums(self) -> bool {
        self.0 & Self::MINIMUMS != 0
    }

    #[inline(always)]
    fn has_levels(self) -> bool {
        self.0 >> 4 & 3 == 3
    }

    #[inline(always)]
    fn group_log2(self) -> u32 {
        self.0 >> 8 & 31
    }

    /// Bytes of the codes of a row of `k` elements.
    #[inline(always)]
    pub fn row_bytes(self, k: u32) -> u32 {
        k * 2 >> self.pieces_log2()
    }

    /// Bytes of the scales of a row of `k` elements; its minimums take as many.
    #[inline(always)]
    pub fn scale_row_bytes(self, k: u32) -> u32 {
        if self.has_row_scales() { 4 } else { (k >> self.step_log2()) * self.step_bytes() }
    }

    /// log2 of the elements after which scales go on.
    #[inline(always)]
    fn step_log2(self) -> u32 {
        if self.has_levels() { SUPERBLOCK.ilog2() } else { self.group_log2() }
    }

    /// By how many bytes they do.
    #[inline(always)]
    fn step_bytes(self) -> u32 {
        if self.has_levels() { record_bytes(self.group_log2()) } else { 2 }
    }

    /// Scale and minimum of the group of element `at` of a quantized row, or the row's scale, as loaded: what [`Form::scale`] takes. The row's
    /// scales begin at `scales`, its minimums at `minimums`. Always four loads, of the format's numbers or of others beside them, so that no
    /// branch stands between a load and who needs it: behind one, registers are moved, and that waits.
    ///
    /// # Safety
    /// 1. The row is one of a matrix that is stored so, not of bf16; `at` lies below K; `minimums` is `scales` where there are none.
    #[inline(always)]
    pub unsafe fn load_scale(self, scales: *const u16, minimums: *const u16, at: u32) -> B128 {
        let upper = (at >> self.step_log2()) * self.step_bytes();
        let [lower_mask, lower_from] = [SUPERBLOCK - 1, 2].map(|x| if self.has_levels() { x } else { 0 });
        let lower = upper + ((at & lower_mask) >> self.group_log2()) + lower_from;
        // The upper half of a row's f32 stands where a minimum would.
        let minimums = minimums.wrapping_add(usize::from(self.has_row_scales()));
        // SAFETY: point 1 is the caller's; a number of one level has its own first byte for a lower one.
        let words = unsafe {
            [
                load_offset(scales, upper).into(),
                i32::from(load_offset(scales.cast::<i8>(), lower)) as u32,
                load_offset(minimums, upper).into(),
                i32::from(load_offset(minimums.cast::<i8>(), lower)) as u32,
            ]
        };
        B128::new(words)
    }

    /// The factor and the minimum, 0 where there is none, of what [`Form::load_scale`] loaded.
    #[inline(always)]
    pub fn scale(self, words: B128) -> [f32; 2] {
        let [factor, factor_lower, minimum, minimum_lower] = words.words();
        let number = |upper: u32, lower: u32| {
            let lower = if self.has_levels() { lower as i8 } else { Number::ONE };
            Number { upper: upper as u16, lower }.value()
        };
        let of_row = f32::from_bits(factor | minimum << 16);
        let factor = if self.has_row_scales() { of_row } else { number(factor, factor_lower) };
        [factor, if self.has_minimums() { number(minimum, minimum_lower) } else { 0.0 }]
    }
}
