//! VBUFFER: loads, stores and atomics through a resource of four scalar registers, whose bounds make loads read 0 and stores vanish.
//! `src` is vector address, data, scalar offset; `sdst` the first resource register; `imm` the 24-bit offset. Formatted accesses convert
//! through the resource's format, typed ones through the instruction's ([`crate::execute::formats`]). `tfe` names one register more, which
//! hardware writes only when a page is missing; here a missing page is a fault, so nothing does.

use super::operand::{sgpr, sgpr_text, vgpr, vgpr_text};
use super::vflat::{Hints, hints_text};
use super::{DecodeError, Format, Inst, Row, Src, Ty, row};
use crate::execute::atomics::{self as a, Op32, Op64};
use crate::execute::formats::{self, Format as Layout};
use crate::execute::memory_ops::{self as ops, Atomic32, Atomic64, LaneOp, Load, LoadTo, Store, StoreFrom, lanes_of};
use crate::execute::place::Place;
use crate::fault::{Access, Fault};
use crate::watch::Moved;
use crate::wave::{Cx, Flow, Lanes, Step};
use std::cell::RefCell;

/// An atomic: bit 0 of the hint says whether it returns the old value.
const ATOMIC: u32 = 1;
/// A typed form: the format field is printed.
const TYPED: u32 = 2;
/// No result.
const STORE: u32 = 4;
/// Goes through a format; the number of components stands at [`COMPONENTS`].
const FORMATTED: u32 = 8;
/// Registers hold 16 bits of each component.
const D16: u32 = 16;
/// The one component is in the high half.
const HIGH: u32 = 32;
/// Shift of the number of components.
const COMPONENTS: u32 = 8;

use Ty::{B32, B64, B96, B128, None as No};

const fn load(op: u16, name: &'static str, d: Ty, exec: crate::wave::Exec) -> Row {
    Row { op, name, d, s: [No, No, No], flags: 0, exec }
}
const fn store(op: u16, name: &'static str, data: Ty, exec: crate::wave::Exec) -> Row {
    Row { op, name, d: No, s: [No, data, No], flags: STORE, exec }
}
const fn atomic(op: u16, name: &'static str, d: Ty, data: Ty, exec: crate::wave::Exec) -> Row {
    Row { op, name, d, s: [No, data, No], flags: ATOMIC, exec }
}
const fn formatted_load(op: u16, name: &'static str, d: Ty, components: u32, flags: u32) -> Row {
    let flags = FORMATTED | components << COMPONENTS | flags;
    Row { op, name, d, s: [No, No, No], flags, exec: load_format }
}
const fn formatted_store(op: u16, name: &'static str, data: Ty, components: u32, flags: u32) -> Row {
    let flags = FORMATTED | STORE | components << COMPONENTS | flags;
    Row { op, name, d: No, s: [No, data, No], flags, exec: store_format }
}

/// Its instructions.
pub static ROWS: &[Row] = &[
    formatted_load(0, "buffer_load_format_x", B32, 1, 0),
    formatted_load(1, "buffer_load_format_xy", B64, 2, 0),
    formatted_load(2, "buffer_load_format_xyz", B96, 3, 0),
    formatted_load(3, "buffer_load_format_xyzw", B128, 4, 0),
    formatted_store(4, "buffer_store_format_x", B32, 1, 0),
    formatted_store(5, "buffer_store_format_xy", B64, 2, 0),
    formatted_store(6, "buffer_store_format_xyz", B96, 3, 0),
    formatted_store(7, "buffer_store_format_xyzw", B128, 4, 0),
    formatted_load(8, "buffer_load_d16_format_x", B32, 1, D16),
    formatted_load(9, "buffer_load_d16_format_xy", B32, 2, D16),
    formatted_load(10, "buffer_load_d16_format_xyz", B64, 3, D16),
    formatted_load(11, "buffer_load_d16_format_xyzw", B64, 4, D16),
    formatted_store(12, "buffer_store_d16_format_x", B32, 1, D16),
    formatted_store(13, "buffer_store_d16_format_xy", B32, 2, D16),
    formatted_store(14, "buffer_store_d16_format_xyz", B64, 3, D16),
    formatted_store(15, "buffer_store_d16_format_xyzw", B64, 4, D16),
    load(16, "buffer_load_u8", B32, |cx, i| load_to(cx, i, Load::U8)),
    load(17, "buffer_load_i8", B32, |cx, i| load_to(cx, i, Load::I8)),
    load(18, "buffer_load_u16", B32, |cx, i| load_to(cx, i, Load::U16)),
    load(19, "buffer_load_i16", B32, |cx, i| load_to(cx, i, Load::I16)),
    load(20, "buffer_load_b32", B32, |cx, i| load_to(cx, i, Load::B32)),
    load(21, "buffer_load_b64", B64, |cx, i| load_to(cx, i, Load::B64)),
    load(22, "buffer_load_b96", B96, |cx, i| load_to(cx, i, Load::B96)),
    load(23, "buffer_load_b128", B128, |cx, i| load_to(cx, i, Load::B128)),
    store(24, "buffer_store_b8", B32, |cx, i| store_from(cx, i, Store::B8)),
    store(25, "buffer_store_b16", B32, |cx, i| store_from(cx, i, Store::B16)),
    store(26, "buffer_store_b32", B32, |cx, i| store_from(cx, i, Store::B32)),
    store(27, "buffer_store_b64", B64, |cx, i| store_from(cx, i, Store::B64)),
    store(28, "buffer_store_b96", B96, |cx, i| store_from(cx, i, Store::B96)),
    store(29, "buffer_store_b128", B128, |cx, i| store_from(cx, i, Store::B128)),
    load(30, "buffer_load_d16_u8", B32, |cx, i| load_to(cx, i, Load::D16_U8)),
    load(31, "buffer_load_d16_i8", B32, |cx, i| load_to(cx, i, Load::D16_I8)),
    load(32, "buffer_load_d16_b16", B32, |cx, i| load_to(cx, i, Load::D16_B16)),
    load(33, "buffer_load_d16_hi_u8", B32, |cx, i| load_to(cx, i, Load::D16_HI_U8)),
    load(34, "buffer_load_d16_hi_i8", B32, |cx, i| load_to(cx, i, Load::D16_HI_I8)),
    load(35, "buffer_load_d16_hi_b16", B32, |cx, i| load_to(cx, i, Load::D16_HI_B16)),
    store(36, "buffer_store_d16_hi_b8", B32, |cx, i| store_from(cx, i, Store::D16_HI_B8)),
    store(37, "buffer_store_d16_hi_b16", B32, |cx, i| store_from(cx, i, Store::D16_HI_B16)),
    formatted_load(38, "buffer_load_d16_hi_format_x", B32, 1, D16 | HIGH),
    formatted_store(39, "buffer_store_d16_hi_format_x", B32, 1, D16 | HIGH),
    atomic(51, "buffer_atomic_swap_b32", B32, B32, |cx, i| atomic32(cx, i, a::swap32)),
    atomic(52, "buffer_atomic_cmpswap_b32", B32, B64, |cx, i| atomic32(cx, i, a::cmpswap32)),
    atomic(53, "buffer_atomic_add_u32", B32, B32, |cx, i| atomic32(cx, i, a::add32)),
    atomic(54, "buffer_atomic_sub_u32", B32, B32, |cx, i| atomic32(cx, i, a::sub32)),
    atomic(55, "buffer_atomic_sub_clamp_u32", B32, B32, |cx, i| atomic32(cx, i, a::sub_clamp32)),
    atomic(56, "buffer_atomic_min_i32", B32, B32, |cx, i| atomic32(cx, i, a::min_i32)),
    atomic(57, "buffer_atomic_min_u32", B32, B32, |cx, i| atomic32(cx, i, a::min_u32)),
    atomic(58, "buffer_atomic_max_i32", B32, B32, |cx, i| atomic32(cx, i, a::max_i32)),
    atomic(59, "buffer_atomic_max_u32", B32, B32, |cx, i| atomic32(cx, i, a::max_u32)),
    atomic(60, "buffer_atomic_and_b32", B32, B32, |cx, i| atomic32(cx, i, a::and32)),
    atomic(61, "buffer_atomic_or_b32", B32, B32, |cx, i| atomic32(cx, i, a::or32)),
    atomic(62, "buffer_atomic_xor_b32", B32, B32, |cx, i| atomic32(cx, i, a::xor32)),
    atomic(63, "buffer_atomic_inc_u32", B32, B32, |cx, i| atomic32(cx, i, a::inc32)),
    atomic(64, "buffer_atomic_dec_u32", B32, B32, |cx, i| atomic32(cx, i, a::dec32)),
    atomic(65, "buffer_atomic_swap_b64", B64, B64, |cx, i| atomic64(cx, i, a::swap64)),
    atomic(66, "buffer_atomic_cmpswap_b64", B64, B128, |cx, i| atomic64(cx, i, a::cmpswap64)),
    atomic(67, "buffer_atomic_add_u64", B64, B64, |cx, i| atomic64(cx, i, a::add64)),
    atomic(68, "buffer_atomic_sub_u64", B64, B64, |cx, i| atomic64(cx, i, a::sub64)),
    atomic(69, "buffer_atomic_min_i64", B64, B64, |cx, i| atomic64(cx, i, a::min_i64)),
    atomic(70, "buffer_atomic_min_u64", B64, B64, |cx, i| atomic64(cx, i, a::min_u64)),
    atomic(71, "buffer_atomic_max_i64", B64, B64, |cx, i| atomic64(cx, i, a::max_i64)),
    atomic(72, "buffer_atomic_max_u64", B64, B64, |cx, i| atomic64(cx, i, a::max_u64)),
    atomic(73, "buffer_atomic_and_b64", B64, B64, |cx, i| atomic64(cx, i, a::and64)),
    atomic(74, "buffer_atomic_or_b64", B64, B64, |cx, i| atomic64(cx, i, a::or64)),
    atomic(75, "buffer_atomic_xor_b64", B64, B64, |cx, i| atomic64(cx, i, a::xor64)),
    atomic(76, "buffer_atomic_inc_u64", B64, B64, |cx, i| atomic64(cx, i, a::inc64)),
    atomic(77, "buffer_atomic_dec_u64", B64, B64, |cx, i| atomic64(cx, i, a::dec64)),
    atomic(80, "buffer_atomic_cond_sub_u32", B32, B32, |cx, i| atomic32(cx, i, a::cond_sub32)),
    atomic(81, "buffer_atomic_min_num_f32", B32, B32, |cx, i| atomic32(cx, i, a::min_num_f32)),
    atomic(82, "buffer_atomic_max_num_f32", B32, B32, |cx, i| atomic32(cx, i, a::max_num_f32)),
    atomic(86, "buffer_atomic_add_f32", B32, B32, |cx, i| atomic32(cx, i, a::add_f32)),
    atomic(89, "buffer_atomic_pk_add_f16", B32, B32, |cx, i| atomic32(cx, i, a::pk_add_f16)),
    atomic(90, "buffer_atomic_pk_add_bf16", B32, B32, |cx, i| atomic32(cx, i, a::pk_add_bf16)),
    formatted_load(128, "tbuffer_load_format_x", B32, 1, TYPED),
    formatted_load(129, "tbuffer_load_format_xy", B64, 2, TYPED),
    formatted_load(130, "tbuffer_load_format_xyz", B96, 3, TYPED),
    formatted_load(131, "tbuffer_load_format_xyzw", B128, 4, TYPED),
    formatted_store(132, "tbuffer_store_format_x", B32, 1, TYPED),
    formatted_store(133, "tbuffer_store_format_xy", B64, 2, TYPED),
    formatted_store(134, "tbuffer_store_format_xyz", B96, 3, TYPED),
    formatted_store(135, "tbuffer_store_format_xyzw", B128, 4, TYPED),
    formatted_load(136, "tbuffer_load_d16_format_x", B32, 1, TYPED | D16),
    formatted_load(137, "tbuffer_load_d16_format_xy", B32, 2, TYPED | D16),
    formatted_load(138, "tbuffer_load_d16_format_xyz", B64, 3, TYPED | D16),
    formatted_load(139, "tbuffer_load_d16_format_xyzw", B64, 4, TYPED | D16),
    formatted_store(140, "tbuffer_store_d16_format_x", B32, 1, TYPED | D16),
    formatted_store(141, "tbuffer_store_d16_format_xy", B32, 2, TYPED | D16),
    formatted_store(142, "tbuffer_store_d16_format_xyz", B64, 3, TYPED | D16),
    formatted_store(143, "tbuffer_store_d16_format_xyzw", B64, 4, TYPED | D16),
];

const OFFEN: u32 = 1 << 30;
const IDXEN: u32 = 1 << 31;

fn has_tfe(word: u32) -> bool {
    word >> 22 & 1 != 0
}

fn returns(inst: &Inst) -> bool {
    inst.words[1] >> 20 & 1 != 0
}

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 14 & 0xff) as u16, word)?;
    let mut inst = Inst::new(row, Format::Buffer, 3, words)?;
    let invalid = |reason: &str| Err(DecodeError::Invalid { word, reason: reason.into() });
    let tfe = has_tfe(word);
    if tfe && row.flags & (ATOMIC | STORE | TYPED) != 0 {
        return invalid("tfe belongs to loads that are not typed");
    }
    if word & 0x80 != 0 {
        return invalid("the nv bit is not modelled");
    }
    let resource = (words[1] >> 9 & 0x1ff) as u16;
    if resource > 120 || !resource.is_multiple_of(4) {
        return invalid("the resource is not four scalar registers from a multiple of 4 on");
    }
    inst.sdst = sgpr(resource as u8, B128, word)?;
    inst.src[2] = Src::Sgpr(sgpr((word & 0x7f) as u8, B32, word)?);
    inst.imm = (words[2] >> 8) as i32;
    if inst.imm >= 1 << 23 {
        return invalid("the offset is negative");
    }
    let parts = (words[1] & OFFEN != 0) as u8 + (words[1] & IDXEN != 0) as u8;
    if parts > 0 {
        inst.src[0] = Src::Vgpr(vgpr(words[2] as u8, if parts == 2 { B64 } else { B32 }, word)?);
    }
    let data = words[1] as u8;
    let registers = if row.flags & (STORE | ATOMIC) != 0 { row.s[1] } else { row.d };
    if tfe && data as u16 + registers.dwords() as u16 + 1 > 256 {
        return invalid("the register that tfe adds passes v255");
    }
    if row.flags & (STORE | ATOMIC) != 0 {
        inst.src[1] = Src::Vgpr(vgpr(data, row.s[1], word)?);
    }
    if row.d != No {
        inst.dst = vgpr(data, row.d, word)?;
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let row = inst.row;
    let data = if row.flags & (STORE | ATOMIC) != 0 { row.s[1] } else { row.d };
    let address = match inst.src[0] {
        Src::Vgpr(first) => {
            let both = inst.words[1] & OFFEN != 0 && inst.words[1] & IDXEN != 0;
            vgpr_text(first, if both { 2 } else { 1 })
        }
        _ => "off".into(),
    };
    let mut text = format!(
        "{} {}, {address}, {}, {}",
        row.name,
        vgpr_text(inst.words[1] as u8, data.dwords() + has_tfe(inst.words[0]) as u8),
        sgpr_text(inst.sdst, 4),
        sgpr_text((inst.words[0] & 0x7f) as u8, 1),
    );
    if row.flags & TYPED != 0 {
        text += &format_text(inst.words[1] >> 23 & 0x7f);
    }
    for (bit, name) in [(IDXEN, " idxen"), (OFFEN, " offen")] {
        if inst.words[1] & bit != 0 {
            text += name;
        }
    }
    if inst.imm != 0 {
        text += &format!(" offset:{}", inst.imm);
    }
    let kind = match row.flags {
        flags if flags & ATOMIC != 0 => Hints::Atomic,
        flags if flags & STORE != 0 => Hints::Store,
        _ => Hints::Load,
    };
    text += &hints_text(kind, inst.words[1] >> 20 & 7, inst.words[1] >> 18 & 3);
    if has_tfe(inst.words[0]) { text + " tfe" } else { text }
}

/// The unified format of a typed access, by name; 1 is the default and not printed.
fn format_text(format: u32) -> String {
    match format {
        1 => String::new(),
        _ => match formats::NAMES.get(format as usize) {
            Some(name) => format!(" format:[BUF_FMT_{name}]"),
            None => format!(" format:{format}"),
        },
    }
}

/// A resource: where, how long, how its records lie.
struct Resource {
    base: u64,
    stride: u64,
    records: u64,
    /// How bounds are checked: 0 by record and offset, 1 by record, 2 only against an empty buffer, 3 by bytes.
    bounds: u32,
    /// Bytes of an element and elements side by side, where records are interleaved.
    swizzle: Option<(u64, u64)>,
    /// Whether the lane counts as part of the index.
    adds_lane: bool,
    format: u32,
    /// Where each register's component comes from: 0, 1, or 4 + component.
    select: [u32; 4],
}

impl Resource {
    fn read(cx: &Cx, first: u8) -> Result<Resource, Box<Fault>> {
        let dword = |n: u8| cx.wave.sgpr[(first.wrapping_add(n) & 127) as usize];
        let refused = |reason: &str| Err(Box::new(Fault::Unsupported(format!("a buffer resource {reason}"))));
        let last = dword(3);
        if last >> 30 != 0 {
            return refused("of the type of an image");
        }
        let side_by_side = 8 << (last >> 21 & 3);
        let swizzle = match dword(1) >> 30 {
            0 => None,
            1 => Some((4, side_by_side)),
            3 => Some((16, side_by_side)),
            _ => return refused("with the reserved swizzle 2"),
        };
        let stride = (dword(1) >> 16 & 0x3fff) as u64 * [1, 4, 8, 32][(last >> 18 & 3) as usize];
        if let Some((element, _)) = swizzle
            && !stride.is_multiple_of(element)
        {
            return refused("that is swizzled and whose stride is not a multiple of its element");
        }
        if swizzle.is_some() && last >> 28 & 3 == 3 {
            return refused("that is swizzled and bounded by bytes");
        }
        Ok(Resource {
            base: dword(0) as u64 | (dword(1) as u64 & 0xffff) << 32,
            stride,
            records: dword(2) as u64,
            bounds: last >> 28 & 3,
            swizzle,
            adds_lane: last >> 23 & 1 != 0,
            format: last >> 12 & 63,
            select: [0, 3, 6, 9].map(|shift| last >> shift & 7),
        })
    }

    /// Bytes from the base to `offset` (with the scalar one, `total`) of record `index`.
    fn place(&self, index: u64, total: u64) -> u64 {
        let Some((element, side_by_side)) = self.swizzle else { return index * self.stride + total };
        let total = total & 0xffff_ffff;
        let (outer, inner) = (index / side_by_side, index % side_by_side);
        let record = outer * self.stride + total / element * element;
        record * side_by_side + inner * element + total % element
    }
}

/// Addresses of all lanes, and for each the bytes from there on that are inside the resource's bounds.
fn addresses(cx: &Cx, inst: &Inst, bytes: u32) -> Result<([u64; 32], [u64; 32]), Box<Fault>> {
    let resource = Resource::read(cx, inst.sdst)?;
    let scalar = cx.wave.scalar(inst.src[2]) as u64;
    let (idxen, offen) = (inst.words[1] & IDXEN != 0, inst.words[1] & OFFEN != 0);
    let first = if let Src::Vgpr(first) = inst.src[0] { first } else { 0 };
    let (mut at, mut left) = ([0; 32], [0; 32]);
    for lane in 0..32 {
        let index = if idxen { cx.wave.vgpr[first as usize][lane] as u64 } else { 0 };
        let index = index + if resource.adds_lane { lane as u64 } else { 0 };
        let offset = first.wrapping_add(idxen as u8);
        let offset = if offen { cx.wave.vgpr[offset as usize][lane] as u64 } else { 0 } + inst.imm as u64;
        let records = resource.records;
        left[lane] = match resource.bounds {
            0 if index < records => resource.stride.saturating_sub(offset),
            1 if index < records => u64::MAX,
            2 if records != 0 => u64::MAX,
            3 => records.saturating_sub(scalar + index * resource.stride + offset),
            _ => 0,
        };
        if let Some((element, _)) = resource.swizzle
            && (scalar + offset) % element + bytes as u64 > element
            && cx.wave.exec() >> lane & 1 != 0
        {
            let reason = format!("{bytes} bytes at {:#x} of a record pass an element of {element}", scalar + offset);
            return Err(Box::new(Fault::Unsupported(format!("{} in a swizzled buffer: {reason}", inst.row.name))));
        }
        at[lane] = resource.base.wrapping_add(resource.place(index, scalar + offset));
    }
    Ok((at, left))
}

/// Runs an operation in the lanes whose bytes are all inside; `outside` deals with the others.
fn at<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: &O) -> Result<u32, Box<Fault>> {
    let (addresses, left) = addresses(cx, inst, op.bytes())?;
    let exec = cx.wave.exec();
    let inside = lanes_of(exec).filter(|&lane| left[lane] >= op.bytes() as u64).fold(0, |mask, lane| mask | 1 << lane);
    ops::global(cx, &addresses, inside, op)?;
    Ok(exec & !inside)
}

/// Runs a wide operation as the one access that it is, if the bounds cut none of its lanes; else nothing is done and the answer is false.
/// (In a swizzled buffer a wide access must stay within an element, which the addresses see to either way.)
fn whole<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: &O) -> Result<bool, Box<Fault>> {
    let (addresses, left) = addresses(cx, inst, op.bytes())?;
    let exec = cx.wave.exec();
    let inside = lanes_of(exec).all(|lane| left[lane] >= op.bytes() as u64);
    if inside {
        ops::global(cx, &addresses, exec, op)?;
    }
    Ok(inside)
}

/// Wide accesses that the bounds cut are checked dword by dword: those outside read 0, those inside are loaded.
fn load_to(cx: &mut Cx, inst: &Inst, load: Load) -> Step {
    if load.bytes() <= 4 {
        let outside = at(cx, inst, &LoadTo { load, dst: inst.dst })?;
        for lane in lanes_of(outside) {
            let out = &mut cx.wave.vgpr[inst.dst as usize][lane];
            *out = load.extend(0, *out);
        }
        return Ok(Flow::Next);
    }
    if whole(cx, inst, &LoadTo { load, dst: inst.dst })? {
        return Ok(Flow::Next);
    }
    // The destination may hold the addresses, so all dwords are loaded before one is written.
    let first = if let Src::Vgpr(first) = inst.src[0] { first } else { 0 };
    let kept = [first, first.wrapping_add(1)].map(|register| cx.wave.vgpr[register as usize]);
    let mut part = Inst::new(inst.row, inst.format, inst.dwords, &inst.words).map_err(|_| Box::new(Fault::Unknown))?;
    (part.src, part.sdst) = (inst.src, inst.sdst);
    let mut results = Vec::new();
    for k in 0..(load.bytes() / 4) as u8 {
        let dst = inst.dst.wrapping_add(k);
        part.imm = inst.imm + 4 * k as i32;
        let outside = at(cx, &part, &LoadTo { load: Load::B32, dst })?;
        for lane in lanes_of(outside) {
            cx.wave.vgpr[dst as usize][lane] = 0;
        }
        results.push((dst, cx.wave.vgpr[dst as usize]));
        cx.wave.vgpr[first as usize] = kept[0];
        cx.wave.vgpr[first.wrapping_add(1) as usize] = kept[1];
    }
    for (dst, value) in results {
        let mask = cx.wave.exec();
        cx.wave.set_lanes(dst, mask, &value);
    }
    Ok(Flow::Next)
}

fn store_from(cx: &mut Cx, inst: &Inst, store: Store) -> Step {
    let data = if let Src::Vgpr(first) = inst.src[1] { first } else { 0 };
    if store.bytes() <= 4 {
        at(cx, inst, &StoreFrom { store, data })?;
        return Ok(Flow::Next);
    }
    if whole(cx, inst, &StoreFrom { store, data })? {
        return Ok(Flow::Next);
    }
    let mut part = Inst::new(inst.row, inst.format, inst.dwords, &inst.words).map_err(|_| Box::new(Fault::Unknown))?;
    (part.src, part.sdst) = (inst.src, inst.sdst);
    for k in 0..(store.bytes() / 4) as u8 {
        part.imm = inst.imm + 4 * k as i32;
        at(cx, &part, &StoreFrom { store: Store::B32, data: data.wrapping_add(k) })?;
    }
    Ok(Flow::Next)
}

/// An atomic outside the bounds does nothing; where it returns, it returns 0.
fn atomic32(cx: &mut Cx, inst: &Inst, op: Op32) -> Step {
    let data = inst.dst;
    let second = if inst.row.s[1] == B64 { data.wrapping_add(1) } else { data };
    let dst = returns(inst).then_some(inst.dst);
    let outside = at(cx, inst, &Atomic32 { op, data, second, dst })?;
    if let Some(dst) = dst {
        cx.wave.set_lanes(dst, outside, &[0; 32]);
    }
    Ok(Flow::Next)
}

fn atomic64(cx: &mut Cx, inst: &Inst, op: Op64) -> Step {
    let data = inst.dst;
    let second = if inst.row.s[1] == B128 { data.wrapping_add(2) } else { data };
    let dst = returns(inst).then_some(inst.dst);
    let outside = at(cx, inst, &Atomic64 { op, data, second, dst })?;
    if let Some(dst) = dst {
        cx.wave.set_lanes(dst, outside, &[0; 32]);
        cx.wave.set_lanes(dst.wrapping_add(1), outside, &[0; 32]);
    }
    Ok(Flow::Next)
}

/// Bytes of an element to or from `element`; registers stay as they are.
struct Raw {
    bytes: u32,
    /// First register that the element will go to or has come from.
    register: u8,
    element: RefCell<[[u32; 4]; 32]>,
}

/// A load of raw elements.
struct LoadRaw(Raw);
/// A store of raw elements.
struct StoreRaw(Raw);

impl LaneOp for LoadRaw {
    const ACCESS: Access = Access::Load;
    fn bytes(&self) -> u32 {
        self.0.bytes
    }
    fn moved(&self) -> Moved {
        Moved::Load { load: Load::of(self.0.bytes), dst: self.0.register }
    }
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, _: &mut [Lanes; 256]) {
        let element = &mut self.0.element.borrow_mut()[lane];
        match self.0.bytes {
            1 => element[0] = place.load8(at),
            2 => element[0] = place.load16(at),
            bytes => {
                for k in 0..bytes / 4 {
                    element[k as usize] = place.load32(at + 4 * k as u64);
                }
            }
        }
    }
}

impl LaneOp for StoreRaw {
    const ACCESS: Access = Access::Store;
    fn bytes(&self) -> u32 {
        self.0.bytes
    }
    fn moved(&self) -> Moved {
        Moved::Store { store: Store::of(self.0.bytes), data: self.0.register }
    }
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, _: &mut [Lanes; 256]) {
        let element = self.0.element.borrow()[lane];
        match self.0.bytes {
            1 => place.store8(at, element[0]),
            2 => place.store16(at, element[0]),
            bytes => {
                for k in 0..bytes / 4 {
                    place.store32(at + 4 * k as u64, element[k as usize]);
                }
            }
        }
    }
}

/// The format and, of a resource, what its registers' components select.
fn layout(cx: &Cx, inst: &Inst) -> Result<(Layout, [u32; 4]), Box<Fault>> {
    let resource = Resource::read(cx, inst.sdst)?;
    let typed = inst.row.flags & TYPED != 0;
    let code = if typed { inst.words[1] >> 23 & 0x7f } else { resource.format };
    let select = if typed { [4, 5, 6, 7] } else { resource.select };
    let Some(layout) = Layout::of(code) else {
        return Err(Box::new(Fault::Unsupported(format!("{} with format {code}, which no buffer has", inst.row.name))));
    };
    Ok((layout, select))
}

fn refuse(inst: &Inst, reason: String) -> Box<Fault> {
    Box::new(Fault::Unsupported(format!("{}: {reason}", inst.row.name)))
}

/// Elements of four bytes and more lie at multiples of four.
fn misplaced(inst: &Inst, cx: &Cx, layout: Layout, access: Access, lanes: u32) -> Result<(), Box<Fault>> {
    let (addresses, _) = addresses(cx, inst, layout.bytes())?;
    let bytes = layout.bytes();
    match lanes_of(lanes).find(|&lane| !addresses[lane].is_multiple_of(layout.alignment() as u64)) {
        None => Ok(()),
        Some(lane) => Err(Box::new(Fault::Misaligned { access, address: addresses[lane], bytes, lane: lane as u32 })),
    }
}

/// Lanes of EXEC whose element is inside, all of it: a formatted access is checked as one.
fn inside(cx: &Cx, inst: &Inst, bytes: u32) -> Result<u32, Box<Fault>> {
    let (_, left) = addresses(cx, inst, bytes)?;
    Ok(lanes_of(cx.wave.exec()).filter(|&lane| left[lane] >= bytes as u64).fold(0, |mask, lane| mask | 1 << lane))
}

/// Components that the format does not have read 0 (of a resource that asks for a missing fourth one, the manual does not say what);
/// outside the bounds all do, but for selections of 1.
fn load_format(cx: &mut Cx, inst: &Inst) -> Step {
    let (layout, select) = layout(cx, inst)?;
    let bytes = layout.bytes();
    let (half, high) = (inst.row.flags & D16 != 0, inst.row.flags & HIGH != 0);
    let inside = inside(cx, inst, bytes)?;
    misplaced(inst, cx, layout, Access::Load, inside)?;
    let op = LoadRaw(Raw { bytes, register: inst.dst, element: RefCell::new([[0; 4]; 32]) });
    at(cx, inst, &op)?;
    let elements = op.0.element.into_inner();
    let typed = inst.row.flags & TYPED != 0;
    for lane in lanes_of(cx.wave.exec()) {
        let there = inside >> lane & 1 != 0;
        for n in 0..(inst.row.flags >> COMPONENTS) as usize {
            let value = match select[n] {
                1 => layout.one(half),
                from @ 4..=7 if there && from as usize - 4 < layout.components => {
                    layout.load(&elements[lane], from as usize - 4, half).map_err(|reason| refuse(inst, reason))?
                }
                7 if there && !typed => {
                    return Err(refuse(inst, format!("{} has no fourth component to select", layout.name())));
                }
                0 | 4..=7 => 0,
                other => {
                    return Err(refuse(inst, format!("the resource selects component {other}, which is reserved")));
                }
            };
            let register = inst.dst.wrapping_add(if half { n / 2 } else { n } as u8) as usize;
            let out = &mut cx.wave.vgpr[register][lane];
            *out = match (half, high || n % 2 == 1) {
                (false, _) => value,
                (true, false) => *out & 0xffff_0000 | value,
                (true, true) => *out & 0xffff | value << 16,
            };
        }
    }
    Ok(Flow::Next)
}

/// What the registers do not have is the first component again.
fn store_format(cx: &mut Cx, inst: &Inst) -> Step {
    let (layout, select) = layout(cx, inst)?;
    let bytes = layout.bytes();
    if (0..layout.components).any(|n| select[n] != 4 + n as u32) {
        return Err(refuse(inst, "a store through a resource that reorders components".into()));
    }
    let (half, high) = (inst.row.flags & D16 != 0, inst.row.flags & HIGH != 0);
    let data = if let Src::Vgpr(first) = inst.src[1] { first } else { 0 };
    let inside = inside(cx, inst, bytes)?;
    misplaced(inst, cx, layout, Access::Store, inside)?;
    let given = (inst.row.flags >> COMPONENTS) as usize;
    let mut elements = [[0; 4]; 32];
    for lane in lanes_of(inside) {
        for n in 0..layout.components {
            let n_given = if n < given { n } else { 0 };
            let register = data.wrapping_add(if half { n_given / 2 } else { n_given } as u8) as usize;
            let value = cx.wave.vgpr[register][lane] >> if half && (high || n_given % 2 == 1) { 16 } else { 0 };
            layout.store(&mut elements[lane], n, value, half).map_err(|reason| refuse(inst, reason))?;
        }
    }
    at(cx, inst, &StoreRaw(Raw { bytes, register: data, element: RefCell::new(elements) }))?;
    Ok(Flow::Next)
}
