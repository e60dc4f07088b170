//! SMEM: scalar loads, prefetches and cache control. Loads go straight to memory: the scalar cache and its staleness are not modelled.

use super::operand::{sgpr, sgpr_text};
use super::{DecodeError, Format, Inst, Row, Src, Ty, row};
use crate::fault::{Access, Fault};
use crate::watch::{Accessed, Moved, Space};
use crate::wave::{Cx, Exec, Flow, NULL, Step};

/// `sbase` is a buffer resource of four registers.
const BUFFER: u32 = 1;
/// `sdata` is a length, nothing is loaded.
const PREFETCH: u32 = 2;
/// There is no `sbase`.
const NO_BASE: u32 = 4;
/// No operands at all.
const BARE: u32 = 8;
/// Loads a byte or a half.
const NARROW: u32 = 16;
/// `sdata` is a number, the rest prints as a load.
const PROBE: u32 = 32;

const fn r(op: u16, name: &'static str, d: Ty, flags: u32, exec: Exec) -> Row {
    Row { op, name, d, s: [Ty::B64, Ty::B32, Ty::None], flags, exec }
}

/// Low bits of an address component that a load of this width ignores on hardware; set ones are reported instead.
fn low_bits(inst: &Inst) -> u64 {
    match inst.row.name {
        name if name.ends_with('8') => 0,
        name if inst.row.flags & NARROW != 0 && name.ends_with("16") => 1,
        _ => 3,
    }
}

#[inline(always)]
fn misaligned(address: u64, bytes: u32) -> Box<Fault> {
    Box::new(Fault::Misaligned { access: Access::Load, address, bytes, lane: 0 })
}

#[inline(always)]
fn offset(cx: &Cx, inst: &Inst) -> u64 {
    cx.wave.scalar(inst.src[1]) as u64
}

/// Tells the watch of a load whose bytes exist. `dst` is the first register that it fills.
#[inline(always)]
fn tell(cx: &mut Cx, address: u64, bytes: u32, dst: u8) -> Result<(), Box<Fault>> {
    let Some(watch) = cx.watch.as_deref_mut() else { return Ok(()) };
    let moved = Moved::Scalar { dst, dwords: bytes.div_ceil(4) as u8 };
    let addresses = &[address; 32];
    let accessed = Accessed { space: Space::Global, access: Access::Load, bytes, addresses, mask: 1, moved };
    watch.accessed(cx.memory, cx.wave, &accessed)
}

#[inline(always)]
fn load<const DWORDS: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    let base = cx.wave.scalar64(inst.src[0]);
    let offset = offset(cx, inst);
    let address = base.wrapping_add(offset).wrapping_add_signed(inst.imm as i64);
    if (base | offset | inst.imm as u64) & 3 != 0 {
        return Err(misaligned(address, DWORDS as u32 * 4));
    }
    let region = cx.memory.access(Access::Load, address, DWORDS as u32 * 4, 0)?;
    if inst.dst == NULL {
        return Ok(Flow::Next);
    }
    tell(cx, address, DWORDS as u32 * 4, inst.dst)?;
    let at = address - region.base();
    let first = inst.dst as usize;
    for i in 0..DWORDS {
        cx.wave.sgpr[(first + i) & 127] = region.load_aligned(at + i as u64 * 4);
    }
    Ok(Flow::Next)
}

fn narrow(cx: &mut Cx, inst: &Inst, bytes: u32, extend: fn(u32) -> u32) -> Step {
    let base = cx.wave.scalar64(inst.src[0]);
    let offset = offset(cx, inst);
    let address = base.wrapping_add(offset).wrapping_add_signed(inst.imm as i64);
    if (base | offset | inst.imm as u64) & low_bits(inst) != 0 {
        return Err(misaligned(address, bytes));
    }
    let region = cx.memory.access(Access::Load, address, bytes, 0)?;
    let at = address - region.base();
    let value = if bytes == 1 { region.load8(at) as u32 } else { region.load16(at) as u32 };
    tell(cx, address, bytes, inst.dst)?;
    cx.wave.set_sgpr(inst.dst, extend(value));
    Ok(Flow::Next)
}

/// Base, bounds and offset of a load through a buffer resource.
fn resource(cx: &Cx, inst: &Inst) -> Result<(u64, u64, u64), Box<Fault>> {
    let Src::Sgpr(first) = inst.src[0] else { return Err(Box::new(Fault::Unknown)) };
    let low = cx.wave.sgpr64(first);
    let records = cx.wave.scalar(Src::Sgpr(first + 2)) as u64;
    let base = low & 0xffff_ffff_ffff;
    let stride = low >> 48 & 0x3fff;
    let bits = low_bits(inst);
    let offset = offset(cx, inst) + inst.imm as u64;
    if (base | offset) & bits != 0 {
        return Err(misaligned(base + offset, 4));
    }
    Ok((base, stride.max(1) * records & !bits, offset))
}

#[inline(always)]
fn buffer<const DWORDS: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    let (base, size, offset) = resource(cx, inst)?;
    let mut values = [0; DWORDS];
    for (i, value) in values.iter_mut().enumerate() {
        let at = offset + i as u64 * 4;
        if at + 4 <= size {
            let region = cx.memory.access(Access::Load, base + at, 4, 0)?;
            *value = region.load_aligned(base + at - region.base());
            tell(cx, base + at, 4, inst.dst.wrapping_add(i as u8))?;
        }
    }
    if inst.dst != NULL {
        for (i, value) in values.into_iter().enumerate() {
            cx.wave.sgpr[(inst.dst as usize + i) & 127] = value;
        }
    }
    Ok(Flow::Next)
}

fn buffer_narrow(cx: &mut Cx, inst: &Inst, bytes: u32, extend: fn(u32) -> u32) -> Step {
    let (base, size, offset) = resource(cx, inst)?;
    let mut value = 0;
    if offset + bytes as u64 <= size {
        let region = cx.memory.access(Access::Load, base + offset, bytes, 0)?;
        let at = base + offset - region.base();
        value = if bytes == 1 { region.load8(at) as u32 } else { region.load16(at) as u32 };
        tell(cx, base + offset, bytes, inst.dst)?;
    }
    cx.wave.set_sgpr(inst.dst, extend(value));
    Ok(Flow::Next)
}

fn sign8(x: u32) -> u32 {
    x as i8 as u32
}
fn sign16(x: u32) -> u32 {
    x as i16 as u32
}
fn same(x: u32) -> u32 {
    x
}
/// Prefetches and cache control: nothing is cached.
fn nop(_: &mut Cx, _: &Inst) -> Step {
    Ok(Flow::Next)
}
/// Its instructions.
pub static ROWS: &[Row] = &[
    r(0, "s_load_b32", Ty::B32, 0, load::<1>),
    r(1, "s_load_b64", Ty::B64, 0, load::<2>),
    r(2, "s_load_b128", Ty::B128, 0, load::<4>),
    r(3, "s_load_b256", Ty::B256, 0, load::<8>),
    r(4, "s_load_b512", Ty::B512, 0, load::<16>),
    r(5, "s_load_b96", Ty::B96, 0, load::<3>),
    r(8, "s_load_i8", Ty::B32, NARROW, |cx, i| narrow(cx, i, 1, sign8)),
    r(9, "s_load_u8", Ty::B32, NARROW, |cx, i| narrow(cx, i, 1, same)),
    r(10, "s_load_i16", Ty::B32, NARROW, |cx, i| narrow(cx, i, 2, sign16)),
    r(11, "s_load_u16", Ty::B32, NARROW, |cx, i| narrow(cx, i, 2, same)),
    r(16, "s_buffer_load_b32", Ty::B32, BUFFER, buffer::<1>),
    r(17, "s_buffer_load_b64", Ty::B64, BUFFER, buffer::<2>),
    r(18, "s_buffer_load_b128", Ty::B128, BUFFER, buffer::<4>),
    r(19, "s_buffer_load_b256", Ty::B256, BUFFER, buffer::<8>),
    r(20, "s_buffer_load_b512", Ty::B512, BUFFER, buffer::<16>),
    r(21, "s_buffer_load_b96", Ty::B96, BUFFER, buffer::<3>),
    r(24, "s_buffer_load_i8", Ty::B32, BUFFER | NARROW, |cx, i| buffer_narrow(cx, i, 1, sign8)),
    r(25, "s_buffer_load_u8", Ty::B32, BUFFER | NARROW, |cx, i| buffer_narrow(cx, i, 1, same)),
    r(26, "s_buffer_load_i16", Ty::B32, BUFFER | NARROW, |cx, i| buffer_narrow(cx, i, 2, sign16)),
    r(27, "s_buffer_load_u16", Ty::B32, BUFFER | NARROW, |cx, i| buffer_narrow(cx, i, 2, same)),
    r(33, "s_dcache_inv", Ty::None, BARE, nop),
    r(34, "s_atc_probe", Ty::None, PROBE, nop),
    r(35, "s_atc_probe_buffer", Ty::None, PROBE | BUFFER, nop),
    r(36, "s_prefetch_inst", Ty::None, PREFETCH, nop),
    r(37, "s_prefetch_inst_pc_rel", Ty::None, PREFETCH | NO_BASE, nop),
    r(38, "s_prefetch_data", Ty::None, PREFETCH, nop),
    r(39, "s_buffer_prefetch_data", Ty::None, PREFETCH | BUFFER, nop),
    r(40, "s_prefetch_data_pc_rel", Ty::None, PREFETCH | NO_BASE, nop),
];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 13 & 63) as u16, word)?;
    let mut inst = Inst::new(row, Format::Smem, 2, words)?;
    let invalid = |reason: String| Err(DecodeError::Invalid { word, reason });
    if row.flags & BARE != 0 {
        return Ok(inst);
    }
    inst.imm = (inst.words[1] << 8) as i32 >> 8;
    let data = (word >> 6 & 127) as u8;
    if row.flags & (PREFETCH | PROBE) == 0 {
        inst.dst = sgpr(data, row.d, word)?;
        if row.d.dwords() >= 3 && !data.is_multiple_of(4) && data != NULL {
            return invalid(format!("{} scalar registers start at {data}, not a multiple of 4", row.d.dwords()));
        }
        if row.d == Ty::B96 && (108..124).contains(&data) {
            return invalid(format!("three dwords cannot go to {}", sgpr_text(data, 3)));
        }
        if data > 123 && data != NULL {
            return invalid(format!("{} is not a destination of scalar loads", sgpr_text(data, 1)));
        }
    }
    if row.flags & (PROBE | PREFETCH) != 0 && data > 31 {
        return invalid(format!("{} has no meaning for {data}", row.name));
    }
    if row.flags & BUFFER != 0 && inst.imm < 0 {
        return invalid(format!("a buffer offset of {} is negative", inst.imm));
    }
    let base = (word & 63) as u8 * 2;
    if row.flags & NO_BASE == 0 {
        let ty = if row.flags & BUFFER != 0 { Ty::B128 } else { Ty::B64 };
        if row.flags & BUFFER != 0 && !base.is_multiple_of(4) {
            return invalid(format!("a buffer resource starts at register {base}, not a multiple of 4"));
        }
        inst.src[0] = Src::Sgpr(sgpr(base, ty, word)?);
    }
    let offset = (inst.words[1] >> 25) as u8;
    inst.src[1] = Src::Sgpr(sgpr(offset, Ty::B32, word)?);
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let (row, word) = (inst.row, inst.words[0]);
    if row.flags & BARE != 0 {
        return row.name.into();
    }
    let data = (word >> 6 & 127) as u8;
    let base = (word & 63) as u8 * 2;
    let base = sgpr_text(base, if row.flags & BUFFER != 0 { 4 } else { 2 });
    let soffset = (inst.words[1] >> 25) as u8;
    let imm = if inst.imm < 0 { format!("-{:#x}", -inst.imm) } else { format!("{:#x}", inst.imm) };
    if row.flags & PREFETCH != 0 {
        let base = if row.flags & NO_BASE != 0 { String::new() } else { format!("{base}, ") };
        return format!("{} {base}{imm}, {}, {data}", row.name, sgpr_text(soffset, 1));
    }
    let first = if row.flags & PROBE != 0 { data.to_string() } else { sgpr_text(data, row.d.dwords()) };
    let address = if soffset == NULL { imm } else { format!("{} offset:{imm}", sgpr_text(soffset, 1)) };
    let (scope, hint) = if row.flags & PROBE != 0 { (0, 0) } else { (word >> 21 & 3, word >> 23 & 3) };
    let hint = match (hint, scope) {
        (0, _) => "",
        (1, _) => " th:TH_LOAD_NT",
        (2, _) => " th:TH_LOAD_HT",
        (_, 3) => " th:TH_LOAD_BYPASS",
        _ => " th:TH_LOAD_LU",
    };
    let scope = ["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][scope as usize];
    format!("{} {first}, {base}, {address}{hint}{scope}", row.name)
}
