//! What the bytes of a cache in formats stand for: codes by their fields, times the scale of their head and position. It decodes only: what an
//! encoder may give is judged by what comes back.

use super::kv_append::Cache;

/// How keys, or values, are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 8 bits of exponent, 7 of mantissa.
    Bf16,
    /// 5 and 10.
    F16,
    /// A signed byte and a scale.
    Int8,
    /// 4 and 3, no infinity, and a scale.
    Fp8,
}

/// All of them.
pub const FORMATS: [Format; 4] = [Format::Bf16, Format::F16, Format::Int8, Format::Fp8];

/// The value of a float of `exponent` and `mantissa` bits; `finite` says that its highest exponent is one like the others.
fn float(bits: u32, exponent: u32, mantissa: u32, finite: bool) -> f64 {
    let sign = if bits >> (exponent + mantissa) & 1 == 1 { -1.0 } else { 1.0 };
    let field = bits >> mantissa & ((1 << exponent) - 1);
    let digits = bits & ((1 << mantissa) - 1);
    let (bias, steps) = ((1i32 << (exponent - 1)) - 1, f64::from(1u32 << mantissa));
    let highest = field == (1 << exponent) - 1;
    if highest && (!finite || digits == (1 << mantissa) - 1) {
        return if digits == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    match field {
        0 => sign * 2f64.powi(1 - bias) * f64::from(digits) / steps,
        _ => sign * 2f64.powi(field as i32 - bias) * (1.0 + f64::from(digits) / steps),
    }
}

impl Format {
    /// Bytes of a code.
    pub fn bytes(self) -> usize {
        if self.is_scaled() { 1 } else { 2 }
    }

    /// Whether there are scales.
    pub fn is_scaled(self) -> bool {
        matches!(self, Self::Int8 | Self::Fp8)
    }

    /// Bytes of a cache: codes, then an f32 for each head and position where there are scales.
    pub fn cache_bytes(self, cache: Cache) -> usize {
        let scales = if self.is_scaled() { cache.kv_heads * cache.capacity * 4 } else { 0 };
        cache.elements() * self.bytes() + scales
    }

    /// The number of a code.
    pub fn number(self, code: &[u8]) -> f64 {
        let wide = || u32::from(u16::from_le_bytes([code[0], code[1]]));
        match self {
            Self::Bf16 => float(wide(), 8, 7, false),
            Self::F16 => float(wide(), 5, 10, false),
            Self::Int8 => f64::from(code[0].cast_signed()),
            Self::Fp8 => float(u32::from(code[0]), 4, 3, true),
        }
    }

    /// Where the scale of a head and position lies, if there is one.
    pub fn scale_at(self, cache: Cache, head: usize, position: usize) -> Option<usize> {
        self.is_scaled().then(|| cache.elements() + (head * cache.capacity + position) * 4)
    }

    /// That scale, 1 where there is none.
    pub fn scale(self, cache: Cache, bytes: &[u8], head: usize, position: usize) -> f64 {
        self.scale_at(cache, head, position)
            .map_or(1.0, |at| f64::from(f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])))
    }

    /// Every element of `positions` positions where a plain cache has it; others are NaN. `place` is [`Cache::key`] or [`Cache::value`].
    pub fn decode(
        self,
        cache: Cache,
        bytes: &[u8],
        place: impl Fn(usize, usize, usize) -> usize,
        positions: usize,
    ) -> Vec<f64> {
        let mut out = vec![f64::NAN; cache.elements()];
        for head in 0..cache.kv_heads {
            for position in 0..positions {
                let scale = self.scale(cache, bytes, head, position);
                for d in 0..cache.head_dim {
                    let at = place(head, position, d);
                    out[at] = self.number(&bytes[at * self.bytes()..]) * scale;
                }
            }
        }
        out
    }
}
