//! The 8-bit float codec against ml_dtypes: every code's value, and what numbers round to, ties and the ends of the range among them.

use zynfer::quant::fp8;
use zynfer_tests::fixtures;

use crate::floats;

#[test]
fn every_code_has_its_value() {
    let values = floats("e4m3_values.f32");
    assert_eq!(values.len(), 256);
    for (code, value) in (0..=255u8).zip(values) {
        let found = fp8::to_f32(code);
        assert!(
            found.to_bits() == value.to_bits() || found.is_nan() && value.is_nan(),
            "{code:#04x}: {found}, not {value}"
        );
    }
}

#[test]
fn numbers_round_as_the_reference_rounds_them() {
    let (numbers, codes) = (floats("e4m3_rounding.f32"), fixtures::read("quant/e4m3_rounding.codes"));
    assert!(numbers.len() == codes.len() && codes.len() > 4000);
    for (number, code) in numbers.iter().zip(codes) {
        assert_eq!(fp8::from_f32(*number), code, "{number:e}");
    }
}

/// Beyond its range the reference gives no number; weights are finite, and the nearest finite value is wanted.
#[test]
fn what_is_too_large_becomes_the_largest() {
    for number in [449.0, 464.0, 465.0, 1e9, f32::MAX, f32::INFINITY] {
        assert_eq!((fp8::from_f32(number), fp8::from_f32(-number)), (0x7e, 0xfe), "{number}");
    }
    assert_eq!(fp8::from_f32(f32::NAN), 0x7f);
}
