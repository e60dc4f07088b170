//! Vector instructions that are no lane-by-lane map: they read or write other lanes, scalars, several destinations, or registers found
//! through M0.

#![allow(clippy::needless_range_loop, reason = "a lane number indexes several arrays and shifts masks")]

use super::dpp;
use super::integer::msad_u8;
use super::lanes::{self, B32, I32, I64, Kind, Out, U32, U64, raw, unsupported, write_mask};
use crate::isa::{Inst, Src};
use crate::wave::{Cx, Flow, Lanes, M0, Step};

/// The number of the first active lane, 0 without any.
#[inline(always)]
fn first_lane(exec: u32) -> usize {
    if exec == 0 { 0 } else { exec.trailing_zeros() as usize }
}

/// A scalar register = source 0 of the first active lane.
pub fn read_first_lane(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let lane = first_lane(cx.wave.exec());
    let value = cx.wave.lanes(inst.src[0])[lane];
    cx.wave.set_sgpr(inst.dst, value);
    Ok(Flow::Next)
}

/// A scalar register = source 0 of the lane in source 1 (mod 32), active or not.
pub fn read_lane(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let lane = cx.wave.scalar(inst.src[1]) & 31;
    let value = cx.wave.lanes(inst.src[0])[lane as usize];
    cx.wave.set_sgpr(inst.dst, value);
    Ok(Flow::Next)
}

/// One lane (source 1 mod 32) of the destination = scalar source 0, active or not.
pub fn write_lane(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let lane = cx.wave.scalar(inst.src[1]) & 31;
    let value = cx.wave.scalar(inst.src[0]);
    cx.wave.vgpr[inst.dst as usize][lane as usize] = value;
    Ok(Flow::Next)
}

/// Gathers within rows of 16: `from(lane)` is the source lane. op_sel bit 0 fetches inactive lanes, bit 1 makes them read 0; with
/// neither, a lane with an inactive source keeps its value.
fn gather(cx: &mut Cx<'_>, inst: &Inst, from: impl Fn(usize) -> usize) -> Step {
    let (fetch, bound) = (inst.mods.opsel & 1 != 0, inst.mods.opsel & 2 != 0);
    let exec = cx.wave.exec();
    let source = cx.wave.lanes(inst.src[0]);
    let mut out = [0; 32];
    let mut mask = 0;
    for lane in 0..32 {
        let other = from(lane) & 31;
        let active = fetch || exec >> other & 1 != 0;
        out[lane] = if active { source[other] } else { 0 };
        mask |= ((active || bound) as u32) << lane;
    }
    cx.wave.set_lanes(inst.dst, mask & exec, &out);
    Ok(Flow::Next)
}

/// The 4-bit selector of each lane of a row, from two scalars.
fn selectors(cx: &Cx<'_>, inst: &Inst) -> u64 {
    cx.wave.scalar(inst.src[1]) as u64 | (cx.wave.scalar(inst.src[2]) as u64) << 32
}

/// All lanes on, selectors in scalars: the places that a row reads, of itself or of the `other` one.
fn gather_rows(cx: &mut Cx<'_>, inst: &Inst, other: usize) -> Step {
    let select = selectors(cx, inst);
    let places = std::array::from_fn(|place| (select >> (4 * place) & 15) as u8);
    let out = dpp::by_place(&cx.wave.lanes(inst.src[0]), &places, other);
    cx.wave.vgpr[inst.dst as usize] = out;
    Ok(Flow::Next)
}

/// From the same row, selectors in scalars.
pub fn permlane16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    if cx.wave.exec() == u32::MAX {
        return gather_rows(cx, inst, 0);
    }
    let select = selectors(cx, inst);
    gather(cx, inst, |lane| (lane & 16) | (select >> ((lane & 15) * 4) & 15) as usize)
}

/// From the other row, selectors in scalars.
pub fn permlanex16(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    if cx.wave.exec() == u32::MAX {
        return gather_rows(cx, inst, 1);
    }
    let select = selectors(cx, inst);
    gather(cx, inst, |lane| ((lane & 16) ^ 16) | (select >> ((lane & 15) * 4) & 15) as usize)
}

/// From the same row, a selector per lane.
pub fn permlane16_var(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let select = cx.wave.lanes(inst.src[1]);
    gather(cx, inst, |lane| (lane & 16) | (select[lane] & 15) as usize)
}

/// From the other row, a selector per lane.
pub fn permlanex16_var(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let select = cx.wave.lanes(inst.src[1]);
    gather(cx, inst, |lane| ((lane & 16) ^ 16) | (select[lane] & 15) as usize)
}

/// No effect: `v_nop`, `v_pipeflush`, and in wave32 `v_permlane64`.
pub fn nothing(_cx: &mut Cx<'_>, _inst: &Inst) -> Step {
    Ok(Flow::Next)
}

/// Vector register of a source that the decoder has checked to be one.
fn register(src: Src) -> u8 {
    match src {
        Src::Vgpr(index) => index,
        _ => 0,
    }
}

/// A vector register displaced by an index from M0.
fn displaced(inst: &Inst, register: u8, by: u32) -> Result<u8, Box<crate::Fault>> {
    u8::try_from(register as u64 + by as u64)
        .map_err(|_| unsupported(format!("{}: v{register} displaced by {by} from m0 passes v255", inst.row.name)))
}

fn exchange(cx: &mut Cx<'_>, a: u8, b: u8) {
    let exec = cx.wave.exec();
    let (old_a, old_b) = (cx.wave.vgpr[a as usize], cx.wave.vgpr[b as usize]);
    cx.wave.set_lanes(a, exec, &old_b);
    cx.wave.set_lanes(b, exec, &old_a);
}

/// Exchanges two registers.
pub fn swap(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    exchange(cx, inst.dst, register(inst.src[0]));
    Ok(Flow::Next)
}

/// Exchanges two registers displaced by M0's fields.
pub fn swap_relative(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let m0 = cx.wave.sgpr[M0 as usize];
    let a = displaced(inst, inst.dst, m0 >> 16 & 0x3ff)?;
    let b = displaced(inst, register(inst.src[0]), m0 & 0x3ff)?;
    exchange(cx, a, b);
    Ok(Flow::Next)
}

/// Copies with the destination and the source displaced.
fn move_displaced(cx: &mut Cx<'_>, inst: &Inst, destination: u32, source: u32) -> Step {
    let to = displaced(inst, inst.dst, destination)?;
    let moved = Inst { src: inst.src, second: None, ..*inst };
    let moved = if source == 0 {
        moved
    } else {
        let from = displaced(inst, register(inst.src[0]), source)?;
        Inst { src: [Src::Vgpr(from), inst.src[1], inst.src[2]], ..moved }
    };
    let value = raw(cx.wave, &moved, 0);
    let mask = write_mask(cx.wave, inst);
    cx.wave.set_lanes(to, mask, &value);
    Ok(Flow::Next)
}

/// VGPR[D + M0] = source.
pub fn movreld(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let m0 = cx.wave.sgpr[M0 as usize];
    move_displaced(cx, inst, m0, 0)
}

/// D = VGPR[source + M0].
pub fn movrels(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let m0 = cx.wave.sgpr[M0 as usize];
    move_displaced(cx, inst, 0, m0)
}

/// VGPR[D + M0] = VGPR[source + M0].
pub fn movrelsd(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let m0 = cx.wave.sgpr[M0 as usize];
    move_displaced(cx, inst, m0, m0)
}

/// `VGPR[D + M0[25:16]] = VGPR[source + M0[9:0]]`.
pub fn movrelsd_2(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let m0 = cx.wave.sgpr[M0 as usize];
    move_displaced(cx, inst, m0 >> 16 & 0x3ff, m0 & 0x3ff)
}

/// Set bits of source 0 below the lane, plus source 1.
pub fn mbcnt_lo(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let (bits, mut out) = (raw(cx.wave, inst, 0), cx.wave.lanes(inst.src[1]));
    for lane in 0..32 {
        out[lane] = out[lane].wrapping_add((bits[lane] & ((1 << lane) - 1)).count_ones());
    }
    B32::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// Source 1: no lane of wave32 has lanes 32–63 below it.
pub fn mbcnt_hi(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let out = cx.wave.lanes(inst.src[1]);
    B32::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// Sum or difference with carry in (source 2, if `carry_in`) and out. With clamp the result saturates where a carry leaves.
#[inline(always)]
fn carry(
    cx: &mut Cx<'_>,
    inst: &Inst,
    carry_in: bool,
    saturated: u32,
    op: impl Fn(u32, u32, u32) -> (u32, bool),
) -> Step {
    let incoming = if carry_in { cx.wave.scalar(inst.src[2]) } else { 0 };
    let arch = cx.arch;
    arch.dispatch_made(|| Carry { cx, inst, incoming, saturated, op });
    Ok(Flow::Next)
}

/// All of it for `pulp`, as `lanes::Map` is.
struct Carry<'x, 'c, F> {
    cx: &'x mut Cx<'c>,
    inst: &'x Inst,
    incoming: u32,
    saturated: u32,
    op: F,
}

impl<F: Fn(u32, u32, u32) -> (u32, bool)> pulp::NullaryFnOnce for Carry<'_, '_, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Carry { cx, inst, incoming, saturated, op } = self;
        let (a, b) = (U32::read(cx.wave, inst, 0), U32::read(cx.wave, inst, 1));
        let (mut out, mut carries) = ([0; 32], 0);
        for lane in 0..32 {
            let (value, carry) = op(a[lane], b[lane], incoming >> lane & 1);
            out[lane] = if inst.mods.clamp && carry { saturated } else { value };
            carries |= (carry as u32) << lane;
        }
        lanes::write_lane_mask(cx, inst, inst.sdst, carries);
        U32::write(cx, inst, &out);
    }
}

// In 32 bits: a lane of 64 would halve what a vector holds.
#[inline(always)]
fn add(a: u32, b: u32, c: u32) -> (u32, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(c);
    (sum, first | second)
}

#[inline(always)]
fn sub(a: u32, b: u32, c: u32) -> (u32, bool) {
    let (difference, first) = a.overflowing_sub(b);
    let (difference, second) = difference.overflowing_sub(c);
    (difference, first | second)
}

/// a + b + carry.
pub fn add_with_carry(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    carry(cx, inst, true, u32::MAX, add)
}
/// a − b − borrow.
pub fn sub_with_carry(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    carry(cx, inst, true, 0, sub)
}
/// b − a − borrow.
pub fn subrev_with_carry(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    carry(cx, inst, true, 0, |a, b, c| sub(b, a, c))
}
/// a + b.
pub fn add_carry_out(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    carry(cx, inst, false, u32::MAX, add)
}
/// a − b.
pub fn sub_carry_out(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    carry(cx, inst, false, 0, sub)
}
/// b − a.
pub fn subrev_carry_out(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    carry(cx, inst, false, 0, |a, b, c| sub(b, a, c))
}

/// a·b + c in 65 bits, unsigned.
pub fn mad_co_u64_u32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let (a, b, c) = (U32::read(cx.wave, inst, 0), U32::read(cx.wave, inst, 1), U64::read(cx.wave, inst, 2));
    let (mut out, mut carries) = ([0; 32], 0);
    for lane in 0..32 {
        let (sum, carry) = (a[lane] as u64 * b[lane] as u64).overflowing_add(c[lane]);
        out[lane] = if inst.mods.clamp && carry { u64::MAX } else { sum };
        carries |= (carry as u32) << lane;
    }
    lanes::write_lane_mask(cx, inst, inst.sdst, carries);
    U64::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// a·b + c in 65 bits, signed: the carry is bit 64 of the exact sum.
pub fn mad_co_i64_i32(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let (a, b, c) = (I32::read(cx.wave, inst, 0), I32::read(cx.wave, inst, 1), I64::read(cx.wave, inst, 2));
    let (mut out, mut carries) = ([0; 32], 0);
    for lane in 0..32 {
        let exact = a[lane] as i128 * b[lane] as i128 + c[lane] as i128;
        let clamped = exact.clamp(i64::MIN as i128, i64::MAX as i128);
        out[lane] = if inst.mods.clamp { clamped as i64 } else { exact as i64 };
        carries |= ((exact >> 64 & 1) as u32) << lane;
    }
    lanes::write_lane_mask(cx, inst, inst.sdst, carries);
    I64::write(cx, inst, &out);
    Ok(Flow::Next)
}

/// Four masked sums of absolute differences over bytes 0–3, 1–4, 2–5, 3–6 of source 0, each added to a dword of source 2.
pub fn mqsad_u32_u8(cx: &mut Cx<'_>, inst: &Inst) -> Step {
    let (bytes, reference) = (U64::read(cx.wave, inst, 0), U32::read(cx.wave, inst, 1));
    let clamp = inst.mods.clamp;
    // Everything is read before anything is written: source 2 may be the destination.
    let sums: [Lanes; 4] = std::array::from_fn(|slice| {
        let addend = match inst.src[2] {
            Src::Vgpr(first) => cx.wave.vgpr[first.wrapping_add(slice as u8) as usize],
            other if slice == 0 => [cx.wave.scalar(other); 32],
            _ => [0; 32],
        };
        std::array::from_fn(|lane| {
            let sum = msad_u8((bytes[lane] >> (slice * 8)) as u32, reference[lane]);
            if clamp { addend[lane].saturating_add(sum) } else { addend[lane].wrapping_add(sum) }
        })
    });
    let exec = cx.wave.exec();
    for (slice, sum) in sums.iter().enumerate() {
        cx.wave.set_lanes(inst.dst.wrapping_add(slice as u8), exec, sum);
    }
    Ok(Flow::Next)
}

/// A lane of the four 16-bit sums of `qsad` and `mqsad`.
#[inline(always)]
pub fn quad_sad(bytes: u64, reference: u32, addend: u64, sad: impl Fn(u32, u32) -> u32, clamp: bool) -> u64 {
    let mut out = 0;
    for slice in 0..4 {
        let sum = sad((bytes >> (slice * 8)) as u32, reference) as u16;
        let addend = (addend >> (slice * 16)) as u16;
        let sum = if clamp { addend.saturating_add(sum) } else { addend.wrapping_add(sum) };
        out |= (sum as u64) << (slice * 16);
    }
    out
}
