//! VFLAT, VGLOBAL and VSCRATCH, which share their opcodes: a line of the table names the segments that have the instruction. `src` is
//! vector address, data, scalar address (`Sgpr`, or `Const` where the form has none); `imm` the signed 24-bit offset. The cache
//! operations are no-ops here: caches are not modelled.

use super::operand::{sgpr, sgpr_text, vgpr, vgpr_text};
use super::{DecodeError, Format, Inst, Row, Src, Ty};
use crate::execute::atomics::{self as a, Op32, Op64};
use crate::execute::memory_ops::{
    self as ops, Atomic32, Atomic64, LaneOp, Load, LoadTo, LoadWords, Store, StoreFrom, StoreWords,
};
use crate::execute::transpose;
use crate::fault::Fault;
use crate::wave::{Cx, Flow, Lanes, M0, NULL, Step};

/// Segment of a row.
const FLAT: u32 = 1;
const GLOBAL: u32 = 2;
const SCRATCH: u32 = 4;
/// A cache operation without operands.
const CACHE: u32 = 8;
/// The address is the scalar one plus 4 bytes for each lane.
const ADDTID: u32 = 16;
/// An atomic: bit 0 of the hint says whether it returns the old value.
const ATOMIC: u32 = 32;
/// A block of 32 registers.
const BLOCK: u32 = 64;

/// Expands each line for every segment it names: opcode, segments, name, destination, data, further flags, what it does.
macro_rules! rows {
    ($($op:literal [$($segment:ident $prefix:literal),+] $name:literal $d:ident $data:ident $flags:expr, $exec:expr;)*) => {
        &[$($(Row {
            op: $op,
            name: concat!($prefix, $name),
            d: Ty::$d,
            s: [Ty::B64, Ty::$data, Ty::B64],
            flags: $segment | $flags,
            exec: $exec,
        },)+)*]
    };
}

/// Its instructions.
#[rustfmt::skip]
pub static ROWS: &[Row] = rows! {
    16 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_u8" B32 None 0, |cx, i| load(cx, i, Load::U8);
    17 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_i8" B32 None 0, |cx, i| load(cx, i, Load::I8);
    18 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_u16" B32 None 0, |cx, i| load(cx, i, Load::U16);
    19 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_i16" B32 None 0, |cx, i| load(cx, i, Load::I16);
    20 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_b32" B32 None 0, load_words::<1>;
    21 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_b64" B64 None 0, load_words::<2>;
    22 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_b96" B96 None 0, load_words::<3>;
    23 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_b128" B128 None 0, load_words::<4>;
    24 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_b8" None B32 0, |cx, i| store(cx, i, Store::B8);
    25 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_b16" None B32 0, |cx, i| store(cx, i, Store::B16);
    26 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_b32" None B32 0, store_words::<1>;
    27 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_b64" None B64 0, store_words::<2>;
    28 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_b96" None B96 0, store_words::<3>;
    29 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_b128" None B128 0, store_words::<4>;
    30 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_d16_u8" B32 None 0, |cx, i| load(cx, i, Load::D16_U8);
    31 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_d16_i8" B32 None 0, |cx, i| load(cx, i, Load::D16_I8);
    32 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_d16_b16" B32 None 0, |cx, i| load(cx, i, Load::D16_B16);
    33 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_d16_hi_u8" B32 None 0, |cx, i| load(cx, i, Load::D16_HI_U8);
    34 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_d16_hi_i8" B32 None 0, |cx, i| load(cx, i, Load::D16_HI_I8);
    35 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_load_d16_hi_b16" B32 None 0, |cx, i| load(cx, i, Load::D16_HI_B16);
    36 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_d16_hi_b8" None B32 0, |cx, i| store(cx, i, Store::D16_HI_B8);
    37 [FLAT "flat", GLOBAL "global", SCRATCH "scratch"] "_store_d16_hi_b16" None B32 0, |cx, i| store(cx, i, Store::D16_HI_B16);
    40 [GLOBAL "global"] "_load_addtid_b32" B32 None ADDTID, |cx, i| load(cx, i, Load::B32);
    41 [GLOBAL "global"] "_store_addtid_b32" None B32 ADDTID, |cx, i| store(cx, i, Store::B32);
    43 [GLOBAL "global"] "_inv" None None CACHE, |_, _| Ok(Flow::Next);
    44 [GLOBAL "global"] "_wb" None None CACHE, |_, _| Ok(Flow::Next);
    51 [FLAT "flat", GLOBAL "global"] "_atomic_swap_b32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::swap32);
    52 [FLAT "flat", GLOBAL "global"] "_atomic_cmpswap_b32" B32 B64 ATOMIC, |cx, i| atomic32(cx, i, a::cmpswap32);
    53 [FLAT "flat", GLOBAL "global"] "_atomic_add_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::add32);
    54 [FLAT "flat", GLOBAL "global"] "_atomic_sub_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::sub32);
    55 [FLAT "flat", GLOBAL "global"] "_atomic_sub_clamp_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::sub_clamp32);
    56 [FLAT "flat", GLOBAL "global"] "_atomic_min_i32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::min_i32);
    57 [FLAT "flat", GLOBAL "global"] "_atomic_min_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::min_u32);
    58 [FLAT "flat", GLOBAL "global"] "_atomic_max_i32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::max_i32);
    59 [FLAT "flat", GLOBAL "global"] "_atomic_max_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::max_u32);
    60 [FLAT "flat", GLOBAL "global"] "_atomic_and_b32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::and32);
    61 [FLAT "flat", GLOBAL "global"] "_atomic_or_b32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::or32);
    62 [FLAT "flat", GLOBAL "global"] "_atomic_xor_b32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::xor32);
    63 [FLAT "flat", GLOBAL "global"] "_atomic_inc_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::inc32);
    64 [FLAT "flat", GLOBAL "global"] "_atomic_dec_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::dec32);
    65 [FLAT "flat", GLOBAL "global"] "_atomic_swap_b64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::swap64);
    66 [FLAT "flat", GLOBAL "global"] "_atomic_cmpswap_b64" B64 B128 ATOMIC, |cx, i| atomic64(cx, i, a::cmpswap64);
    67 [FLAT "flat", GLOBAL "global"] "_atomic_add_u64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::add64);
    68 [FLAT "flat", GLOBAL "global"] "_atomic_sub_u64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::sub64);
    69 [FLAT "flat", GLOBAL "global"] "_atomic_min_i64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::min_i64);
    70 [FLAT "flat", GLOBAL "global"] "_atomic_min_u64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::min_u64);
    71 [FLAT "flat", GLOBAL "global"] "_atomic_max_i64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::max_i64);
    72 [FLAT "flat", GLOBAL "global"] "_atomic_max_u64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::max_u64);
    73 [FLAT "flat", GLOBAL "global"] "_atomic_and_b64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::and64);
    74 [FLAT "flat", GLOBAL "global"] "_atomic_or_b64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::or64);
    75 [FLAT "flat", GLOBAL "global"] "_atomic_xor_b64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::xor64);
    76 [FLAT "flat", GLOBAL "global"] "_atomic_inc_u64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::inc64);
    77 [FLAT "flat", GLOBAL "global"] "_atomic_dec_u64" B64 B64 ATOMIC, |cx, i| atomic64(cx, i, a::dec64);
    79 [GLOBAL "global"] "_wbinv" None None CACHE, |_, _| Ok(Flow::Next);
    80 [FLAT "flat", GLOBAL "global"] "_atomic_cond_sub_u32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::cond_sub32);
    81 [FLAT "flat", GLOBAL "global"] "_atomic_min_num_f32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::min_num_f32);
    82 [FLAT "flat", GLOBAL "global"] "_atomic_max_num_f32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::max_num_f32);
    83 [GLOBAL "global", SCRATCH "scratch"] "_load_block" Imm None BLOCK, block_load;
    84 [GLOBAL "global", SCRATCH "scratch"] "_store_block" None Imm BLOCK, block_store;
    86 [FLAT "flat", GLOBAL "global"] "_atomic_add_f32" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::add_f32);
    87 [GLOBAL "global"] "_load_tr_b128" B128 None 0, load_tr_b128;
    88 [GLOBAL "global"] "_load_tr_b64" B64 None 0, load_tr_b64;
    89 [FLAT "flat", GLOBAL "global"] "_atomic_pk_add_f16" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::pk_add_f16);
    90 [FLAT "flat", GLOBAL "global"] "_atomic_pk_add_bf16" B32 B32 ATOMIC, |cx, i| atomic32(cx, i, a::pk_add_bf16);
    115 [GLOBAL "global"] "_atomic_ordered_add_b64" B64 B64 ATOMIC, |_, i| Err(Box::new(Fault::Unsupported(format!(
        "{} wraps its ids at a register of the graphics pipeline",
        i.row.name
    ))));
};

/// Registers of a block.
const BLOCK_REGISTERS: u8 = 32;

/// Registers of an operand; `Imm` marks the blocks of 32.
fn dwords(ty: Ty) -> u8 {
    if ty == Ty::Imm { BLOCK_REGISTERS } else { ty.dwords() }
}

fn register(code: u8, ty: Ty, word: u32) -> Result<u8, DecodeError> {
    if ty == Ty::Imm && code as u16 + BLOCK_REGISTERS as u16 > 256 {
        return Err(DecodeError::Invalid { word, reason: format!("v{code} and 31 more registers pass v255") });
    }
    vgpr(code, ty, word)
}

/// Who sees an access: 0 the compute unit, 1 the shader engine, 2 the device, 3 the system.
pub fn scope(inst: &Inst) -> u32 {
    inst.words[1] >> 18 & 3
}

/// Bit 0 of an atomic's hint: the old value is returned.
pub fn returns(inst: &Inst) -> bool {
    inst.words[1] >> 20 & 1 != 0
}

/// Decodes one instruction of these formats. Fields that an instruction does not use are ignored, as LLVM does.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let invalid = |reason: &str| Err(DecodeError::Invalid { word, reason: reason.into() });
    let (segment, format) = match word >> 24 {
        0xec => (FLAT, Format::Flat),
        0xed => (SCRATCH, Format::Scratch),
        _ => (GLOBAL, Format::Global),
    };
    let op = (word >> 14 & 0xff) as u16;
    let row = ROWS.iter().find(|row| row.op == op && row.flags & segment != 0);
    let Some(row) = row else { return Err(DecodeError::Unknown { word }) };
    let mut inst = Inst::new(row, format, 3, words)?;
    if word & 0x80 != 0 {
        return invalid("the nv bit is not modelled");
    }
    let (saddr, with_vector) = ((word & 0x7f) as u8, words[1] >> 17 & 1 != 0);
    if with_vector && segment != SCRATCH {
        return invalid("bit 49 belongs to scratch instructions");
    }
    if saddr != NULL && (segment == FLAT || row.flags & CACHE != 0) {
        return invalid("the scalar address must be null");
    }
    if row.flags & CACHE != 0 {
        return Ok(inst);
    }
    inst.imm = words[2] as i32 >> 8;
    if saddr != NULL {
        let ty = if segment == SCRATCH { Ty::B32 } else { Ty::B64 };
        if ty == Ty::B64 && saddr >= 126 && row.flags & ADDTID == 0 {
            return invalid("EXEC cannot be an address");
        }
        inst.src[2] = Src::Sgpr(sgpr(saddr, ty, word)?);
    }
    let has_vector = if segment == SCRATCH { with_vector } else { row.flags & ADDTID == 0 };
    if has_vector {
        let ty = if segment == SCRATCH || saddr != NULL { Ty::B32 } else { Ty::B64 };
        inst.src[0] = Src::Vgpr(vgpr(words[2] as u8, ty, word)?);
    }
    if row.s[1] != Ty::None {
        inst.src[1] = Src::Vgpr(register((words[1] >> 23) as u8, row.s[1], word)?);
    }
    if row.d != Ty::None && (row.flags & ATOMIC == 0 || returns(&inst)) {
        inst.dst = register(words[1] as u8, row.d, word)?;
    }
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let row = inst.row;
    let mut operands = Vec::new();
    if row.flags & CACHE == 0 {
        let vector = match inst.src[0] {
            Src::Vgpr(first) => {
                let wide = inst.format != Format::Scratch && inst.src[2] == Src::Const(0);
                Some(vgpr_text(first, if wide { 2 } else { 1 }))
            }
            _ if row.flags & ADDTID != 0 => None,
            _ => Some("off".into()),
        };
        let scalar = match inst.src[2] {
            _ if inst.format == Format::Flat => None,
            Src::Sgpr(first) => Some(sgpr_text(first, if inst.format == Format::Scratch { 1 } else { 2 })),
            _ => Some("off".into()),
        };
        let data = match inst.src[1] {
            Src::Vgpr(first) => Some(vgpr_text(first, dwords(row.s[1]))),
            _ => None,
        };
        if row.d != Ty::None && (row.flags & ATOMIC == 0 || returns(inst)) {
            operands.push(vgpr_text(inst.dst, dwords(row.d)));
        }
        operands.extend([vector, data, scalar].into_iter().flatten());
    }
    let mut text = format!("{} {}", row.name, operands.join(", ")).trim_end().to_string();
    if inst.imm != 0 {
        text += &format!(" offset:{}", inst.imm);
    }
    let kind = match (row.flags & ATOMIC, row.s[1]) {
        (ATOMIC, _) => Hints::Atomic,
        (_, Ty::None) => Hints::Load,
        _ => Hints::Store,
    };
    text + &hints_text(kind, inst.words[1] >> 20 & 7, scope(inst))
}

/// Which names the temporal hint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hints {
    /// Loads and cache operations.
    Load,
    /// Stores.
    Store,
    /// Atomics.
    Atomic,
}

/// Temporal hint and scope as LLVM prints them behind the operands.
pub fn hints_text(kind: Hints, hint: u32, scope: u32) -> String {
    const SYS: u32 = 3;
    let name = match (kind, hint) {
        (_, 0) => String::new(),
        (Hints::Atomic, 4..) if scope >= 2 => {
            format!("TH_ATOMIC_CASCADE_{}", if hint & 2 != 0 { "NT" } else { "RT" })
        }
        (Hints::Atomic, 4..) => format!("TH_ATOMIC_{hint:#x}"),
        (Hints::Atomic, _) => ["", "TH_ATOMIC_RETURN", "TH_ATOMIC_NT", "TH_ATOMIC_NT_RETURN"][hint as usize & 3].into(),
        (Hints::Load, 7) => "0x7".into(),
        (_, 3) if scope == SYS => format!("TH_{}_BYPASS", if kind == Hints::Load { "LOAD" } else { "STORE" }),
        (Hints::Load, _) => {
            format!("TH_LOAD_{}", ["", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", ""][hint as usize & 7])
        }
        (Hints::Store, _) => {
            format!("TH_STORE_{}", ["", "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB"][hint as usize & 7])
        }
    };
    let hint = if name.is_empty() { name } else { format!(" th:{name}") };
    hint + ["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][scope as usize & 3]
}

/// A register operand; the decoder has seen to it that it is one.
fn number(src: Src) -> u8 {
    if let Src::Vgpr(first) = src { first } else { 0 }
}

/// Runs an operation at the lanes' addresses, whatever the segment.
#[inline(always)]
fn at<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: &O) -> Step {
    let arch = cx.arch;
    if inst.format != Format::Global {
        return elsewhere(cx, inst, op);
    }
    if O::ROW != 0 && arch.dispatch_made(|| Together { cx: &mut *cx, inst, op }) {
        return Ok(Flow::Next);
    }
    apart(cx, inst, op)
}

/// A global access of lanes that lie together, for `pulp`; false, and nothing done, where they do not.
struct Together<'x, 'c, O> {
    cx: &'x mut Cx<'c>,
    inst: &'x Inst,
    op: &'x O,
}

impl<O: LaneOp> pulp::NullaryFnOnce for Together<'_, '_, O> {
    type Output = bool;
    #[inline(always)]
    fn call(self) -> bool {
        let Together { cx, inst, op } = self;
        let Src::Vgpr(indices) = inst.src[0] else { return false };
        let base = match inst.src[2] {
            Src::Sgpr(first) => cx.wave.sgpr64(first),
            // Addresses of 64 bits with one high half are a base and indices.
            _ => match one_value(&cx.wave.vgpr[indices.wrapping_add(1) as usize]) {
                Some(high) => (high as u64) << 32,
                None => return false,
            },
        };
        let base = base.wrapping_add_signed(inst.imm as i64);
        ops::global_row(cx, base, indices, op) || ops::global_spread(cx, base, indices, op)
    }
}

/// The value of all lanes, if it is one.
#[inline(always)]
fn one_value(lanes: &Lanes) -> Option<u32> {
    let mut differences = 0;
    for lane in lanes {
        differences |= lane ^ lanes[0];
    }
    (differences == 0).then_some(lanes[0])
}

/// Any other global access.
#[inline(never)]
fn apart<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: &O) -> Step {
    let arch = cx.arch;
    arch.dispatch_made(|| Apart { cx, inst, op })
}

/// [`apart`] for `pulp`: addresses and bounds of all lanes are vector arithmetic.
struct Apart<'x, 'c, O> {
    cx: &'x mut Cx<'c>,
    inst: &'x Inst,
    op: &'x O,
}

impl<O: LaneOp> pulp::NullaryFnOnce for Apart<'_, '_, O> {
    type Output = Step;
    #[inline(always)]
    fn call(self) -> Step {
        let Apart { cx, inst, op } = self;
        let addresses = global_addresses(cx, inst);
        let mask = cx.wave.exec();
        ops::global(cx, &addresses, mask, op)?;
        Ok(Flow::Next)
    }
}

#[inline(never)]
fn elsewhere<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: &O) -> Step {
    let mask = cx.wave.exec();
    if inst.format == Format::Flat {
        let bases = pairs(cx, number(inst.src[0]));
        ops::flat(cx, &bases, inst.imm as i64, mask, op)?;
    } else {
        let addresses = scratch_addresses(cx, inst);
        ops::scratch(cx, &addresses, mask, op)?;
    }
    Ok(Flow::Next)
}

/// 64-bit values of a register pair.
fn pairs(cx: &Cx, first: u8) -> [u64; 32] {
    let (low, high) = cx.wave.lanes64(Src::Vgpr(first));
    std::array::from_fn(|lane| low[lane] as u64 | (high[lane] as u64) << 32)
}

/// vaddr + offset, or the scalar address + the zero-extended vaddr + offset.
#[inline(always)]
fn global_addresses(cx: &Cx, inst: &Inst) -> [u64; 32] {
    let offset = inst.imm as i64;
    if let Src::Sgpr(first) = inst.src[2] {
        let base = cx.wave.sgpr64(first).wrapping_add_signed(offset);
        return match inst.src[0] {
            Src::Vgpr(vector) => {
                let mut out = [0; 32];
                for (out, &index) in out.iter_mut().zip(&cx.wave.vgpr[vector as usize]) {
                    *out = base.wrapping_add(index as u64);
                }
                out
            }
            _ => std::array::from_fn(|lane| base.wrapping_add(4 * lane as u64)),
        };
    }
    match inst.src[0] {
        Src::Vgpr(vector) => {
            let low = &cx.wave.vgpr[vector as usize];
            let high = &cx.wave.vgpr[vector.wrapping_add(1) as usize];
            let mut out = [0; 32];
            for (lane, out) in out.iter_mut().enumerate() {
                *out = (low[lane] as u64 | (high[lane] as u64) << 32).wrapping_add_signed(offset);
            }
            out
        }
        _ => std::array::from_fn(|lane| (4 * lane as u64).wrapping_add_signed(offset)),
    }
}

/// Scalar and vector part, where there, plus the offset: 32 bits.
fn scratch_addresses(cx: &Cx, inst: &Inst) -> [u64; 32] {
    let scalar = if let Src::Sgpr(index) = inst.src[2] { cx.wave.scalar(Src::Sgpr(index)) } else { 0 };
    let base = scalar.wrapping_add(inst.imm as u32);
    let vector = if let Src::Vgpr(index) = inst.src[0] { cx.wave.vgpr[index as usize] } else { [0; 32] };
    vector.map(|index| base.wrapping_add(index) as u64)
}

/// Narrow loads share one copy of the code.
fn load(cx: &mut Cx, inst: &Inst, load: Load) -> Step {
    at(cx, inst, &LoadTo { load, dst: inst.dst })
}

/// Loads of whole dwords are compiled for their number.
fn load_words<const N: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    at(cx, inst, &LoadWords::<N> { dst: inst.dst })
}

fn store(cx: &mut Cx, inst: &Inst, store: Store) -> Step {
    at(cx, inst, &StoreFrom { store, data: number(inst.src[1]) })
}

fn store_words<const N: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    at(cx, inst, &StoreWords::<N> { data: number(inst.src[1]) })
}

fn atomic32(cx: &mut Cx, inst: &Inst, op: Op32) -> Step {
    let data = number(inst.src[1]);
    let second = if inst.row.s[1] == Ty::B64 { data.wrapping_add(1) } else { data };
    at(cx, inst, &Atomic32 { op, data, second, dst: returns(inst).then_some(inst.dst) })
}

fn atomic64(cx: &mut Cx, inst: &Inst, op: Op64) -> Step {
    let data = number(inst.src[1]);
    let second = if inst.row.s[1] == Ty::B128 { data.wrapping_add(2) } else { data };
    at(cx, inst, &Atomic64 { op, data, second, dst: returns(inst).then_some(inst.dst) })
}

/// M0 has a bit for each register of a block; registers whose bit is clear are left out, their place in memory is not.
fn block(cx: &mut Cx, inst: &Inst, mut each: impl FnMut(&mut Cx, &Inst, u8) -> Step) -> Step {
    let chosen = cx.wave.sgpr[M0 as usize];
    let mut part = Inst::new(inst.row, inst.format, inst.dwords, &inst.words).map_err(|_| Box::new(Fault::Unknown))?;
    part.src = inst.src;
    for k in 0..BLOCK_REGISTERS {
        if chosen >> k & 1 != 0 {
            part.imm = inst.imm + 4 * k as i32;
            each(cx, &part, k)?;
        }
    }
    Ok(Flow::Next)
}

/// The address registers may lie in the block, so they are read once: kept aside and put back around each part.
fn block_load(cx: &mut Cx, inst: &Inst) -> Step {
    let first = number(inst.src[0]);
    let kept = [first, first.wrapping_add(1)].map(|register| cx.wave.vgpr[register as usize]);
    let mut results = Vec::new();
    block(cx, inst, |cx, part, k| {
        let dst = inst.dst.wrapping_add(k);
        at(cx, part, &LoadTo { load: Load::B32, dst })?;
        results.push((dst, cx.wave.vgpr[dst as usize]));
        cx.wave.vgpr[first as usize] = kept[0];
        cx.wave.vgpr[first.wrapping_add(1) as usize] = kept[1];
        Ok(Flow::Next)
    })?;
    let mask = cx.wave.exec();
    for (dst, value) in results {
        cx.wave.set_lanes(dst, mask, &value);
    }
    Ok(Flow::Next)
}

fn block_store(cx: &mut Cx, inst: &Inst) -> Step {
    let data = number(inst.src[1]);
    block(cx, inst, |cx, part, k| at(cx, part, &StoreFrom { store: Store::B32, data: data.wrapping_add(k) }))
}

/// The transposing loads move data between lanes: without any lane they do nothing, else every lane must take part.
fn whole_wave(cx: &Cx, inst: &Inst) -> Result<bool, Box<Fault>> {
    match cx.wave.exec() {
        0 => Ok(false),
        u32::MAX => Ok(true),
        exec => {
            let reason = format!("{} with EXEC {exec:#010x}, neither 0 nor all ones", inst.row.name);
            Err(Box::new(Fault::Unsupported(reason)))
        }
    }
}

fn load_tr_b128(cx: &mut Cx, inst: &Inst) -> Step {
    if whole_wave(cx, inst)? {
        at(cx, inst, &LoadWords::<4> { dst: inst.dst })?;
        transpose::halves(&mut cx.wave.vgpr, inst.dst);
    }
    Ok(Flow::Next)
}

fn load_tr_b64(cx: &mut Cx, inst: &Inst) -> Step {
    if whole_wave(cx, inst)? {
        at(cx, inst, &LoadTo { load: Load::B64, dst: inst.dst })?;
        transpose::bytes(&mut cx.wave.vgpr, inst.dst);
    }
    Ok(Flow::Next)
}
