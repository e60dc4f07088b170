//! The 8-bit floats: their values as tables, for the operations that read many, and the conversion instructions. What a conversion
//! does to one number stands in [`super::convert`].

use super::convert::{BF8, FP8, Float8, f8_to_f32, f32_to_f8, f32_to_f8_stochastic};
use super::lanes::{B16, B32, F32, Kind, Out, U32, raw};
use super::soft_float::FP16_OVFL;
use crate::isa::Inst;
use crate::wave::{Cx, Flow, Step};
use std::sync::LazyLock;

/// The values of e4m3 by their codes.
pub static FP8_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| values(FP8));
/// The values of e5m2 by their codes.
pub static BF8_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| values(BF8));

fn values(format: Float8) -> [f32; 256] {
    std::array::from_fn(|code| f8_to_f32(code as u32, format))
}

/// The byte that op_sel chooses for 8-bit float sources: its two bits are swapped.
fn byte_index(inst: &Inst) -> u32 {
    (inst.mods.opsel as u32 & 1) << 1 | (inst.mods.opsel as u32 >> 1 & 1)
}

fn from_float8(cx: &mut Cx<'_>, inst: &Inst, format: Float8) -> Step {
    let shift = byte_index(inst) * 8;
    let out = raw(cx.wave, inst, 0).map(|word| f8_to_f32(word >> shift & 0xff, format));
    F32::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// f32 from a byte of e4m3.
pub fn cvt_f32_fp8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    from_float8(cx, inst, FP8)
}
/// f32 from a byte of e5m2.
pub fn cvt_f32_bf8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    from_float8(cx, inst, BF8)
}

fn pair_to_float8(cx: &mut Cx<'_>, inst: &Inst, format: Float8) -> Step {
    let saturate = cx.wave.mode & FP16_OVFL != 0;
    let (a, b) = (F32::read(cx.wave, inst, 0), F32::read(cx.wave, inst, 1));
    let mut out = [0u16; 32];
    for (lane, out) in out.iter_mut().enumerate() {
        let low = f32_to_f8(a[lane], format, saturate);
        let high = f32_to_f8(b[lane], format, saturate);
        *out = (low | high << 8) as u16;
    }
    B16::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// Two e4m3 in a half.
pub fn cvt_pk_fp8_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    pair_to_float8(cx, inst, FP8)
}
/// Two e5m2 in a half.
pub fn cvt_pk_bf8_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    pair_to_float8(cx, inst, BF8)
}

/// One byte of the destination, the others kept; op_sel's bits 2 and 3 number the byte.
fn stochastic(cx: &mut Cx<'_>, inst: &Inst, format: Float8) -> Step {
    let saturate = cx.wave.mode & FP16_OVFL != 0;
    let shift = (inst.mods.opsel as u32 >> 2 & 3) * 8;
    let (a, seed) = (F32::read(cx.wave, inst, 0), U32::read(cx.wave, inst, 1));
    let mut out = cx.wave.vgpr[inst.dst as usize];
    for lane in 0..32 {
        let code = f32_to_f8_stochastic(a[lane], seed[lane], format, saturate);
        out[lane] = (out[lane] & !(0xff << shift)) | code << shift;
    }
    B32::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// One e4m3.
pub fn cvt_sr_fp8_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    stochastic(cx, inst, FP8)
}
/// One e5m2.
pub fn cvt_sr_bf8_f32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    stochastic(cx, inst, BF8)
}
