//! The values of the 8-bit floats as tables, for the operations that read many. The conversion itself stands in [`super::convert`].

use super::convert::{BF8, FP8, Float8, f8_to_f32};
use std::sync::LazyLock;

static FP8_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| values(FP8));
static BF8_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| values(BF8));

fn values(format: Float8) -> [f32; 256] {
    std::array::from_fn(|code| f8_to_f32(code as u32, format))
}

/// The 256 values of bf8 or fp8.
pub fn table(bf8: bool) -> &'static [f32; 256] {
    if bf8 { &BF8_VALUES } else { &FP8_VALUES }
}
