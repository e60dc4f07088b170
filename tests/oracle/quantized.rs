//! What the bytes of a quantized matrix stand for, element by element, as docs/QUANTIZATION.md says it; and products with them.

use super::Expected;

/// The schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// i8, an f32 per row.
    Int8,
    /// i8, an f16 per group.
    Int8Group,
    /// Nibbles − 8, an f16 per group.
    Int4,
    /// Nibbles, an f16 per group and an f16 minimum.
    Int4Minimum,
    /// e4m3fn, an f32 per row.
    Fp8,
    /// i8, an f16 per group and an f16 minimum.
    Int8Minimum,
    /// i8, two levels.
    Int8Levels,
    /// i8, two levels and as many minimums.
    Int8MinimumLevels,
    /// Nibbles, two levels and as many minimums.
    Int4MinimumLevels,
}

/// A matrix `[n, k]` in the three parts of its object.
pub struct Stored {
    /// Its scheme.
    pub kind: Kind,
    /// Rows.
    pub n: usize,
    /// Elements of a row.
    pub k: usize,
    /// Elements of a group.
    pub group: usize,
    /// Codes.
    pub codes: Vec<u8>,
    /// Scales, little-endian.
    pub scales: Vec<u8>,
    /// Minimums, little-endian; empty for most.
    pub minimums: Vec<u8>,
}

/// The value of an IEEE half.
pub fn half(bits: u16) -> f64 {
    let (sign, exponent, mantissa) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => mantissa / 1024.0 * 2f64.powi(-14),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The value of an OCP e4m3fn.
pub fn e4m3(code: u8) -> f64 {
    let (sign, exponent, mantissa) = (code >> 7, i32::from(code >> 3 & 15), f64::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa / 8.0 * 2f64.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

impl Stored {
    /// Element `i` of a row as code times scale, and what is added to that.
    pub fn element(&self, row: usize, i: usize) -> (f64, f64) {
        let f32_at = |bytes: &[u8], at: usize| {
            let at = at * 4;
            f64::from(f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        let half_at = |bytes: &[u8], at: usize| half(u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]));
        let byte = |at: usize| self.codes[row * self.k + at];
        let group = || row * (self.k / self.group) + i / self.group;
        // For 256 elements of a row an f16, and behind it a signed byte for each of their groups.
        let levels = |bytes: &[u8]| {
            let record = &bytes[(row * self.k + i) / 256 * (2 + 256 / self.group)..];
            half(u16::from_le_bytes([record[0], record[1]])) * f64::from(record[2 + i % 256 / self.group] as i8)
        };
        // 32 elements are 16 bytes: byte j has element j low, element j + 16 high.
        let nibble = || {
            let block = &self.codes[(row * self.k + i) / 32 * 16..][..16];
            let within = i % 32;
            f64::from(if within < 16 { block[within] % 16 } else { block[within - 16] / 16 })
        };
        match self.kind {
            Kind::Int8 => (f64::from(byte(i) as i8) * f32_at(&self.scales, row), 0.0),
            Kind::Fp8 => (e4m3(byte(i)) * f32_at(&self.scales, row), 0.0),
            Kind::Int8Group => (f64::from(byte(i) as i8) * half_at(&self.scales, group()), 0.0),
            Kind::Int4 => ((nibble() - 8.0) * half_at(&self.scales, group()), 0.0),
            Kind::Int4Minimum => (nibble() * half_at(&self.scales, group()), half_at(&self.minimums, group())),
            Kind::Int8Minimum => {
                (f64::from(byte(i) as i8) * half_at(&self.scales, group()), half_at(&self.minimums, group()))
            }
            Kind::Int8Levels => (f64::from(byte(i) as i8) * levels(&self.scales), 0.0),
            Kind::Int8MinimumLevels => (f64::from(byte(i) as i8) * levels(&self.scales), levels(&self.minimums)),
            Kind::Int4MinimumLevels => (nibble() * levels(&self.scales), levels(&self.minimums)),
        }
    }

    /// All elements, row by row.
    pub fn decoded(&self) -> Vec<f64> {
        let elements = (0..self.n).flat_map(|row| (0..self.k).map(move |i| (row, i)));
        elements
            .map(|(row, i)| {
                let (scaled, added) = self.element(row, i);
                scaled + added
            })
            .collect()
    }
}

/// y[t,n] = Σ_k x[t,k] · w[n,k]; code times scale and minimum are terms of their own.
pub fn linear(w: &Stored, x: &[f64]) -> Vec<Expected> {
    let parts: Vec<(f64, f64)> =
        (0..w.n).flat_map(|row| (0..w.k).map(move |i| (row, i))).map(|(row, i)| w.element(row, i)).collect();
    let mut y = Vec::new();
    for t in 0..x.len() / w.k {
        for row in 0..w.n {
            let mut sum = Expected { value: 0.0, magnitude: 0.0 };
            for i in 0..w.k {
                let ((scaled, added), x) = (parts[row * w.k + i], x[t * w.k + i]);
                sum.value += x * scaled + x * added;
                sum.magnitude += (x * scaled).abs() + (x * added).abs();
            }
            y.push(sum);
        }
    }
    y
}
