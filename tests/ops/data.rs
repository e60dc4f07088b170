//! Inputs of the operation tests: numbers from a fixed generator, awkward ones among them, and bf16 by the `half` crate (not by the
//! conversion under test).

use half::bf16;

/// A fixed sequence of numbers for each seed.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Uniform in −1 … 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
    /// `count` numbers, mostly below 1, sum of three uniforms times `scale`.
    pub fn vector(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| (self.unit() + self.unit() + self.unit()) * scale).collect()
    }
    /// As [`Numbers::vector`] with an outlier, zeros of both signs and small numbers at fixed places.
    pub fn awkward(&mut self, count: usize, scale: f32) -> Vec<f32> {
        let mut x = self.vector(count, scale);
        for (i, v) in x.iter_mut().enumerate() {
            match i % 61 {
                7 => *v *= 300.0,
                11 => *v = 0.0,
                13 => *v = -0.0,
                17 => *v *= 1e-20,
                _ => {}
            }
        }
        x
    }
}

/// bf16 bits of `x`, rounded to nearest even.
pub fn to_bf16(x: &[f32]) -> Vec<u16> {
    x.iter().map(|&x| bf16::from_f32(x).to_bits()).collect()
}

/// The values of bf16 bits.
pub fn from_bf16(x: &[u16]) -> Vec<f64> {
    x.iter().map(|&x| bf16::from_bits(x).to_f64()).collect()
}

/// `x` rounded to bf16, as f32: inputs that a kernel's own rounding leaves alone.
pub fn rounded(x: &[f32]) -> Vec<f32> {
    x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()
}

/// Widened.
pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}
