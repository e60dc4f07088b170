//! Keys, or values, of all layers where they lie: written head by head in the format that [`crate::model::kv`] defines, read block by block as
//! f32 without their scales, which attention multiplies where a position is one number and not `head_dim`.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::attention::BLOCK;
use crate::model::kv::KvFormat;
use crate::quant::fp8;

/// What the largest number of a head is stored as in 8-bit integers.
const INT8_MAX: f32 = 127.0;

/// How a head's numbers lie within its block of [`BLOCK`] positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `[head_dim, BLOCK]`: keys.
    ByElement,
    /// `[BLOCK, head_dim]`: values.
    ByPosition,
}

/// The numbers or codes of all layers, `[layer · kv head, block, …]` as [`Order`] says.
enum Codes {
    F32(Box<[f32]>),
    Bf16(Box<[bf16]>),
    F16(Box<[f16]>),
    Int8(Box<[i8]>),
    Fp8(Box<[u8]>),
}

/// Keys, or values, of all layers.
pub struct Store {
    order: Order,
    head_dim: usize,
    /// Positions of a head: whole blocks.
    positions: usize,
    codes: Codes,
    /// `[layer · kv head, position]`; empty where the format has none.
    scales: Box<[f32]>,
}

fn zeroed<T: bytemuck::Zeroable>(elements: usize) -> Option<Box<[T]>> {
    bytemuck::allocation::try_zeroed_slice_box(elements).ok()
}

impl Store {
    /// For `heads` heads (of all layers) and `positions` positions, a multiple of [`BLOCK`]; `None` where the memory cannot be had.
    /// It becomes resident as positions are written.
    pub fn new(format: KvFormat, order: Order, heads: usize, positions: usize, head_dim: usize) -> Option<Self> {
        let rows = heads.checked_mul(positions)?;
        let elements = rows.checked_mul(head_dim)?;
        let codes = match format {
            KvFormat::F32 => Codes::F32(zeroed(elements)?),
            KvFormat::Bf16 => Codes::Bf16(zeroed(elements)?),
            KvFormat::F16 => Codes::F16(zeroed(elements)?),
            KvFormat::Int8 => Codes::Int8(zeroed(elements)?),
            KvFormat::Fp8 => Codes::Fp8(zeroed(elements)?),
        };
        let scales = zeroed(if format.scale_bytes() > 0 { rows } else { 0 })?;
        Some(Self { order, head_dim, positions, codes, scales })
    }

    /// Stores `x`, `[head_dim]`, of `head` (layer · kv heads + kv head) at `position`.
    pub fn put(&mut self, head: usize, position: usize, x: &[f32]) {
        let (head_dim, row) = (self.head_dim, head * self.positions + position);
        assert!(x.len() == head_dim && position < self.positions, "a head inside the cache");
        let (first, step) = match self.order {
            Order::ByElement => ((row - position % BLOCK) * head_dim + position % BLOCK, BLOCK),
            Order::ByPosition => (row * head_dim, 1),
        };
        match &mut self.codes {
            Codes::F32(all) => put(&mut all[first..], step, x, |x| x),
            Codes::Bf16(all) => put(&mut all[first..], step, x, bf16::from_f32),
            Codes::F16(all) => put(&mut all[first..], step, x, saturated),
            Codes::Int8(all) => {
                let (scale, factor) = scale(x, INT8_MAX);
                self.scales[row] = scale;
                put(&mut all[first..], step, x, |x| (x * factor).round_ties_even() as i8);
            }
            Codes::Fp8(all) => {
                let (scale, factor) = scale(x, fp8::MAX);
                self.scales[row] = scale;
                put(&mut all[first..], step, x, |x| fp8::from_f32(x * factor));
            }
        }
    }

    /// The first `positions` of the block of `head` that begins at position `block`, without scales, in their order; [`Order::ByElement`] gives
    /// all of the block. `buffer`, `BLOCK · head_dim` of them, is used where the format is not f32.
    #[inline(always)]
    pub fn block<'a>(&'a self, head: usize, block: usize, positions: usize, buffer: &'a mut [f32]) -> &'a [f32] {
        let first = (head * self.positions + block) * self.head_dim;
        let count = match self.order {
            Order::ByElement => BLOCK * self.head_dim,
            Order::ByPosition => positions * self.head_dim,
        };
        let range = first..first + count;
        let out = &mut buffer[..if self.is_coded() { count } else { 0 }];
        match &self.codes {
            Codes::F32(all) => return &all[range],
            Codes::Bf16(all) => convert(&all[range], out, |x| f32::from_bits(u32::from(x.to_bits()) << 16)),
            Codes::F16(all) => all[range].convert_to_f32_slice(out),
            Codes::Int8(all) => convert(&all[range], out, f32::from),
            Codes::Fp8(all) => convert(&all[range], out, fp8::to_f32),
        }
        out
    }

    /// The scales of that block's positions, where the format has them.
    #[inline(always)]
    pub fn scales(&self, head: usize, block: usize) -> Option<&[f32; BLOCK]> {
        self.scales.get(head * self.positions + block..)?.first_chunk()
    }

    /// Whether blocks are decoded into a buffer.
    pub fn is_coded(&self) -> bool {
        !matches!(self.codes, Codes::F32(_))
    }
}

/// Every `step`th of `out` from the first, as many as `x` has.
fn put<T>(out: &mut [T], step: usize, x: &[f32], code: impl Fn(f32) -> T) {
    out.iter_mut().step_by(step).zip(x).for_each(|(out, x)| *out = code(*x));
}

#[inline(always)]
fn convert<T: Copy>(codes: &[T], out: &mut [f32], value: impl Fn(T) -> f32) {
    out.iter_mut().zip(codes).for_each(|(out, code)| *out = value(*code));
}

/// Scale of a head whose largest number is stored as `code`, and the factor that makes codes of its numbers.
fn scale(x: &[f32], code: f32) -> (f32, f32) {
    // As integers magnitudes order like numbers, with infinity and what is no number above all of them.
    let largest = f32::from_bits(x.iter().map(|x| x.to_bits() & 0x7fff_ffff).max().unwrap_or(0));
    let factor = code / largest;
    (largest * (1.0 / code), if factor.is_finite() { factor } else { 0.0 })
}

/// The nearest half; what is finite and beyond its range becomes its largest.
fn saturated(x: f32) -> f16 {
    if x.is_finite() { f16::from_f32(x.clamp(-f16::MAX.to_f32(), f16::MAX.to_f32())) } else { f16::from_f32(x) }
}
