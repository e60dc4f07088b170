//! Formats of the KV cache beside bf16: what codes and scales mean, where they lie, and how a head becomes codes. The kernels that append are in
//! [`append`] and [`prepare`], those that read in [`crate::attention::formats`]; all take the formats as arguments, equal in every lane, so that
//! keys and values are chosen apart without a kernel for each pair. The kernels of bf16 alone know nothing of this.
//!
//! A layer's keys are codes `[kv_heads, capacity, D]`, its values codes `[kv_heads, D, capacity]`, as [`crate::kv_append`] lays them out; behind
//! either's codes stand its scales, f32 `[kv_heads, capacity]`, where the format has them. A scale belongs to the D numbers of one head and position:
//! of int8 the largest magnitude times 1/127, of fp8 times 1/448. Codes are x times 127 (448) over the largest, rounded to the nearest, ties to
//! even; where that factor is not finite they are 0. A head with a number that is not finite has a scale that is not finite. It is the rule of the
//! host's `model/kv.rs`.

pub mod append;
pub mod prepare;

/// How keys, or values, are stored. The numbers are those of the kernels' arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum KvFormat {
    /// bfloat16.
    Bf16 = 0,
    /// IEEE half; what is finite and beyond ±65504 becomes ±65504.
    F16 = 1,
    /// i8 and scales.
    Int8 = 2,
    /// OCP e4m3fn and scales.
    Fp8 = 3,
}

impl KvFormat {
    /// Bytes of a number.
    pub const fn code_bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::Int8 | Self::Fp8 => 1,
        }
    }

    /// Whether there are scales.
    pub const fn has_scales(self) -> bool {
        matches!(self, Self::Int8 | Self::Fp8)
    }

    /// Bytes of the codes of one layer's keys, or values: where the scales begin. `None` if that overflows.
    pub fn scales_at(self, kv_heads: usize, capacity: usize, head_dim: usize) -> Option<usize> {
        kv_heads.checked_mul(capacity)?.checked_mul(head_dim)?.checked_mul(self.code_bytes())
    }

    /// Bytes of one layer's keys, or values, scales included. `None` if that overflows.
    pub fn bytes(self, kv_heads: usize, capacity: usize, head_dim: usize) -> Option<usize> {
        let scales = if self.has_scales() { kv_heads.checked_mul(capacity)?.checked_mul(4)? } else { 0 };
        self.scales_at(kv_heads, capacity, head_dim)?.checked_add(scales)
    }
}

// Kernels tell formats apart by their numbers: from int8 on codes are a byte and have scales.
const _: () = {
    let mut all = [KvFormat::Bf16, KvFormat::F16, KvFormat::Int8, KvFormat::Fp8].as_slice();
    while let [format, rest @ ..] = all {
        let scaled = *format as u32 >= KvFormat::Int8 as u32;
        assert!(format.has_scales() == scaled && format.code_bytes() == if scaled { 1 } else { 2 });
        all = rest;
    }
};

#[cfg(gpu)]
mod device {
    use amdgpu_target::gpu::{INTEGERS, f32_to_f16, fma, lane_idx, max, rcp, store, wave_max_u32};
    use amdgpu_target::{f32_to_bf16, number_to_fp8};

    use super::KvFormat;

    /// [`KvFormat::F16`] as an argument has it.
    pub const F16: u32 = KvFormat::F16 as u32;
    /// [`KvFormat::Int8`] likewise.
    pub const INT8: u32 = KvFormat::Int8 as u32;
    /// [`KvFormat::Fp8`] likewise.
    pub const FP8: u32 = KvFormat::Fp8 as u32;

    /// One layer's keys, or values, to write.
    #[derive(Clone, Copy)]
    pub struct Sink {
        /// The codes.
        pub codes: *mut u8,
        /// f32 `[kv_heads, capacity]`; not written where the format has none.
        pub scales: *mut f32,
        /// The format, equal in all lanes.
        pub format: u32,
        /// Positions it holds.
        pub capacity: usize,
    }

    /// Codes of a head, this lane's elements 64·p + 2·lane and the one after, and its scale where there is one.
    ///
    /// # Safety
    /// 1. All lanes are live.
    #[inline(always)]
    unsafe fn coded<const PAIRS: usize>(x: [[f32; 2]; PAIRS], format: u32) -> ([[u32; 2]; PAIRS], f32) {
        if format < INT8 {
            let code = |x: f32| u32::from(if format == F16 { f32_to_f16(x) } else { f32_to_bf16(x) });
            return (x.map(|pair| pair.map(code)), 0.0);
        }
        // As integers magnitudes order like numbers, with infinity and what is no number above all of them.
        let mut largest = 0;
        for pair in x {
            largest = pair.iter().fold(largest, |largest: u32, x| largest.max(x.to_bits() & 0x7fff_ffff));
        }
        let bits = wave_max_u32(largest);
        let largest = f32::from_bits(bits);
        let most = if format == INT8 { 127.0 } else { 448.0 };
        // A reciprocal of what is nearly infinite would be subnormal, and lost; that of what is nearly nothing, and the factor, are infinite.
        let near = bits >= 0x7e00_0000;
        let part = if near { largest * 0.25 } else { largest };
        let reciprocal = rcp(part);
        let factor = most * reciprocal;
        // The instruction's last unit: what a division would give.
        let factor = fma(fma(-factor, part, most), reciprocal, factor);
        let factor = if near { factor * 0.25 } else { factor };
        let factor = if factor < f32::INFINITY { factor } else { 0.0 };
        let scale = largest * if format == INT8 { 1.0 / 127.0 } else { 1.0 / 448.0 };
        let code = |x: f32| {
            let scaled = x * factor;
            if format == INT8 {
                (max(scaled, -127.0).min(127.0) + INTEGERS).to_bits() & 0xff
            } else {
                u32::from(number_to_fp8(scaled))
            }
        };
        (x.map(|pair| pair.map(code)), scale)
    }

    impl Sink {
        /// Stores a key of `head` at `position`: this lane's elements 64·p + 2·lane and the one after.
        ///
        /// # Safety
        /// 1. The sink describes keys of heads of 64 · `PAIRS` numbers; head and position are inside it, uniform, and no other wave's.
        /// 2. All lanes are live.
        #[inline(always)]
        pub unsafe fn key<const PAIRS: usize>(self, head: usize, position: usize, x: [[f32; 2]; PAIRS]) {
            let row = head * self.capacity + position;
            // SAFETY: point 2.
            let (codes, scale) = unsafe { coded(x, self.format) };
            for p in 0..PAIRS {
                let pair = row * (32 * PAIRS) + p * 32 + lane_idx() as usize;
                let [lo, hi] = codes[p];
                if self.format < INT8 {
                    // SAFETY: point 1: this pair of the row is inside, and this lane's alone.
                    unsafe { store(self.codes.cast::<u32>(), pair, lo | hi << 16) };
                } else {
                    // SAFETY: as above.
                    unsafe { store(self.codes.cast::<u16>(), pair, (lo | hi << 8) as u16) };
                }
            }
            // SAFETY: point 1.
            unsafe { self.scale(row, scale) };
        }

        /// Stores a value of `head` at `position`, as [`Sink::key`] a key.
        ///
        /// # Safety
        /// 1. and 2. as [`Sink::key`], for values.
        #[inline(always)]
        pub unsafe fn value<const PAIRS: usize>(self, head: usize, position: usize, x: [[f32; 2]; PAIRS]) {
            // SAFETY: point 2.
            let (codes, scale) = unsafe { coded(x, self.format) };
            for p in 0..PAIRS {
                for e in 0..2 {
                    let d = p * 64 + lane_idx() as usize * 2 + e;
                    let at = (head * 64 * PAIRS + d) * self.capacity + position;
                    if self.format < INT8 {
                        // SAFETY: point 1: row d of the head is inside, and this lane's alone.
                        unsafe { store(self.codes.cast::<u16>(), at, codes[p][e] as u16) };
                    } else {
                        // SAFETY: as above.
                        unsafe { store(self.codes, at, codes[p][e] as u8) };
                    }
                }
            }
            // SAFETY: point 1.
            unsafe { self.scale(head * self.capacity + position, scale) };
        }

        /// Stores a scale, where the format has them.
        ///
        /// # Safety
        /// 1. `row` is below kv_heads · capacity; no other wave writes it.
        #[inline(always)]
        unsafe fn scale(self, row: usize, scale: f32) {
            if self.format >= INT8 && lane_idx() == 0 {
                // SAFETY: point 1; one lane.
                unsafe { store(self.scales, row, scale) };
            }
        }
    }
}

#[cfg(gpu)]
pub(crate) use device::{F16, FP8, INT8, Sink};
