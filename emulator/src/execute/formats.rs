//! Data formats of typed buffers: how the components of an element lie in memory, and the numbers they stand for. Names list the bits of
//! the components from the top, so the last one is x. Where the manual does not say how a store rounds or what becomes of an integer that
//! does not fit, storing a value that needs it is refused, so that no result depends on a guess. Images have more formats than these.

use super::soft_float as soft;
use half::f16;

/// The unified formats by number. Number 1 is LLVM's default.
#[rustfmt::skip]
pub const NAMES: [&str; 64] = [
    "INVALID", "8_UNORM", "8_SNORM", "8_USCALED", "8_SSCALED", "8_UINT", "8_SINT", "16_UNORM", "16_SNORM", "16_USCALED",
    "16_SSCALED", "16_UINT", "16_SINT", "16_FLOAT", "8_8_UNORM", "8_8_SNORM", "8_8_USCALED", "8_8_SSCALED", "8_8_UINT",
    "8_8_SINT", "32_UINT", "32_SINT", "32_FLOAT", "16_16_UNORM", "16_16_SNORM", "16_16_USCALED", "16_16_SSCALED",
    "16_16_UINT", "16_16_SINT", "16_16_FLOAT", "10_11_11_FLOAT", "11_11_10_FLOAT", "10_10_10_2_UNORM",
    "10_10_10_2_SNORM", "10_10_10_2_UINT", "10_10_10_2_SINT", "2_10_10_10_UNORM", "2_10_10_10_SNORM",
    "2_10_10_10_USCALED", "2_10_10_10_SSCALED", "2_10_10_10_UINT", "2_10_10_10_SINT", "8_8_8_8_UNORM", "8_8_8_8_SNORM",
    "8_8_8_8_USCALED", "8_8_8_8_SSCALED", "8_8_8_8_UINT", "8_8_8_8_SINT", "32_32_UINT", "32_32_SINT", "32_32_FLOAT",
    "16_16_16_16_UNORM", "16_16_16_16_SNORM", "16_16_16_16_USCALED", "16_16_16_16_SSCALED", "16_16_16_16_UINT",
    "16_16_16_16_SINT", "16_16_16_16_FLOAT", "32_32_32_UINT", "32_32_32_SINT", "32_32_32_FLOAT", "32_32_32_32_UINT",
    "32_32_32_32_SINT", "32_32_32_32_FLOAT",
];

/// What the bits of a component mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// 0 to 1.
    Unorm,
    /// −1 to 1; the two lowest codes are both −1.
    Snorm,
    /// An unsigned integer, as a float.
    Uscaled,
    /// A signed integer, as a float.
    Sscaled,
    /// An unsigned integer.
    Uint,
    /// A signed integer.
    Sint,
    /// A float of 10, 11, 16 or 32 bits; 10 and 11 have no sign.
    Float,
}

/// One element in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    name: &'static str,
    /// Bits of each component, x first.
    widths: [u32; 4],
    /// How many components there are.
    pub components: usize,
    number: Number,
}

impl Format {
    /// The format with a number; `None` for INVALID and for numbers that buffers do not have.
    pub fn of(code: u32) -> Option<Format> {
        let name = *NAMES.get(code as usize).filter(|_| code != 0)?;
        let mut parts: Vec<&str> = name.split('_').collect();
        let number = match parts.pop()? {
            "UNORM" => Number::Unorm,
            "SNORM" => Number::Snorm,
            "USCALED" => Number::Uscaled,
            "SSCALED" => Number::Sscaled,
            "UINT" => Number::Uint,
            "SINT" => Number::Sint,
            _ => Number::Float,
        };
        let mut widths = [0; 4];
        for (width, part) in widths.iter_mut().zip(parts.iter().rev()) {
            *width = part.parse().ok()?;
        }
        Some(Format { name, widths, components: parts.len(), number })
    }

    /// Its name without a prefix.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Bytes of an element: 1, 2, 4, 8, 12 or 16.
    pub fn bytes(self) -> u32 {
        self.widths.iter().sum::<u32>() / 8
    }

    /// Bytes that an address must be a multiple of.
    pub fn alignment(self) -> u32 {
        self.bytes().min(4)
    }

    /// Whether components come to registers as integers.
    fn is_integer(self) -> bool {
        matches!(self.number, Number::Uint | Number::Sint)
    }

    /// What stands for 1 in a register, of 16 bits if `half`.
    pub fn one(self, half: bool) -> u32 {
        match (self.is_integer(), half) {
            (true, _) => 1,
            (false, true) => 0x3c00,
            (false, false) => 0x3f80_0000,
        }
    }

    /// Component n of an element's dwords.
    fn raw(self, element: &[u32; 4], n: usize) -> u32 {
        let first: u32 = self.widths[..n].iter().sum();
        let wide = element[first as usize / 32] >> (first % 32);
        if self.widths[n] == 32 { wide } else { wide & ((1 << self.widths[n]) - 1) }
    }

    /// Component n of a loaded element as it comes to a register: an f32 or an integer, or of 16 bits if `half`.
    pub fn load(self, element: &[u32; 4], n: usize, half: bool) -> Result<u32, String> {
        let (raw, width) = (self.raw(element, n), self.widths[n]);
        let signed = ((raw << (32 - width)) as i32) >> (32 - width);
        if self.is_integer() {
            let fits = match self.number {
                Number::Uint => raw <= 0xffff,
                _ => signed as i16 as i32 == signed,
            };
            return match (half, fits) {
                (true, false) => Err(format!("{raw:#x} of {} does not fit 16 bits", self.name)),
                (true, true) => Ok(raw_or(self.number, raw, signed) & 0xffff),
                (false, _) => Ok(raw_or(self.number, raw, signed)),
            };
        }
        if self.number == Number::Float {
            return Ok(match (width, half) {
                (32, false) => raw,
                // An f32 loses its low bits, whatever else rounds to nearest.
                (32, true) => narrow(soft::towards_zero(LAUNCH), f32::from_bits(raw)),
                (16, true) => raw,
                (16, false) => f16::from_bits(raw as u16).to_f32().to_bits(),
                // The small floats are f16 without their sign and their last bits.
                (_, true) => raw << (15 - width),
                (_, false) => f16::from_bits((raw << (15 - width)) as u16).to_f32().to_bits(),
            });
        }
        // Quotients of such small integers are never so near the middle of two floats that rounding through f64 would show.
        let value = match self.number {
            Number::Unorm => raw as f64 / ((1u64 << width) - 1) as f64,
            Number::Snorm => (signed as f64 / ((1u64 << (width - 1)) - 1) as f64).max(-1.0),
            Number::Uscaled => raw as f64,
            _ => signed as f64,
        };
        Ok(if half { f16::from_f64(value).to_bits() as u32 } else { (value as f32).to_bits() })
    }

    /// Puts a register's value (of 16 bits if `half`) into component n of an element.
    pub fn store(self, element: &mut [u32; 4], n: usize, value: u32, half: bool) -> Result<(), String> {
        let width = self.widths[n];
        let refused = |reason: &str| Err(format!("a store to {}: {reason}", self.name));
        let float = if half { f16::from_bits(value as u16).to_f32() } else { f32::from_bits(value) };
        let raw = match self.number {
            Number::Uint | Number::Sint => {
                let wide = match (self.number, half) {
                    (Number::Uint, true) => (value & 0xffff) as i64,
                    (Number::Uint, false) => value as i64,
                    (_, true) => value as i16 as i64,
                    (_, false) => value as i32 as i64,
                };
                let (low, high) = match self.number {
                    Number::Uint => (0, (1i64 << width) - 1),
                    _ => (-(1i64 << (width - 1)), (1i64 << (width - 1)) - 1),
                };
                if wide < low || wide > high {
                    return refused(&format!("{wide} does not fit, and what becomes of it is not defined"));
                }
                wide as u32
            }
            Number::Unorm => (clamped(float, 0.0) * ((1u64 << width) - 1) as f64).round_ties_even() as u32,
            Number::Snorm => {
                let scale = ((1u64 << (width - 1)) - 1) as f64;
                (clamped(float, -1.0) * scale).round_ties_even() as i32 as u32
            }
            Number::Float if width == 32 => float.to_bits(),
            Number::Float if width == 16 && half => value & 0xffff,
            Number::Float if width == 16 => narrow(LAUNCH, float),
            Number::Float => match small_float(width, float) {
                Some(raw) => raw,
                None => return refused(&format!("{float} has no code of its own, and how it rounds is not defined")),
            },
            Number::Uscaled | Number::Sscaled => {
                let low = if self.number == Number::Uscaled { 0.0 } else { -2f64.powi(width as i32 - 1) };
                let past = low + 2f64.powi(width as i32);
                let value = f64::from(float);
                if value.fract() != 0.0 || !(low..past).contains(&value) {
                    return refused(&format!("{float} has no code of its own, and how it rounds is not defined"));
                }
                value as i64 as u32
            }
        };
        let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
        let first: u32 = self.widths[..n].iter().sum();
        element[first as usize / 32] |= (raw & mask) << (first % 32);
        Ok(())
    }
}

/// The code of a float of 10 or 11 bits, which is an f16 without its sign and its last bits; none where bits would be lost, and for NaN.
fn small_float(width: u32, value: f32) -> Option<u32> {
    let (half, lost) = (f16::from_f32(value), 15 - width);
    let bits = u32::from(half.to_bits());
    (half.to_f32() == value && bits >> 15 == 0 && bits & ((1 << lost) - 1) == 0).then_some(bits >> lost)
}

/// MODE with rounding to nearest even and all denormals.
const LAUNCH: u32 = 0xf0;

fn raw_or(number: Number, raw: u32, signed: i32) -> u32 {
    if number == Number::Uint { raw } else { signed as u32 }
}

/// An f32 as an f16.
fn narrow(mode: u32, value: f32) -> u32 {
    let half: f16 = soft::convert(mode, value);
    half.to_bits() as u32
}

/// Between `low` and 1; NaN is 0.
fn clamped(value: f32, low: f64) -> f64 {
    if value.is_nan() { 0.0 } else { (value as f64).clamp(low, 1.0) }
}
