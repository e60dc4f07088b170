//! The DS format: LDS loads, stores and atomics, and the lane exchanges that go through LDS hardware. `src` is address, data 0, data 1;
//! `imm` the 16-bit offset, or offset0 | offset1 << 16 for the two-address forms. Ray tracing's stack traps by name. Float
//! atomics flush denormals where MODE says so. Semantics of a lane stand in `execute`.

use super::operand::{vgpr, vgpr_text};
use super::{DecodeError, Format, Inst, Row, Src, Ty, row};
use crate::execute::atomics::{self as a, Op32, Op64};
use crate::execute::exchange;
use crate::execute::memory_ops::{
    self, Atomic32, Atomic64, LaneOp, Load, LoadTo, LoadWords, Store, StoreFrom, StoreWords,
};
use crate::execute::scalar::unsupported;
use crate::wave::{Cx, Exec, Flow, M0, Step};

/// Two addresses, each with an 8-bit offset in elements.
const TWO: u32 = 1;
/// The two offsets count 64 elements.
const STRIDE64: u32 = 2;
/// The offset is a pattern of `ds_swizzle_b32`.
const SWIZZLE: u32 = 4;

use Ty::{B32, B64, B96, B128, B256, None as No};

const fn load(op: u16, name: &'static str, d: Ty, exec: Exec) -> Row {
    Row { op, name, d, s: [B32, No, No], flags: 0, exec }
}
const fn store(op: u16, name: &'static str, data: Ty, exec: Exec) -> Row {
    Row { op, name, d: No, s: [B32, data, No], flags: 0, exec }
}
const fn store2(op: u16, name: &'static str, data: Ty, flags: u32, exec: Exec) -> Row {
    Row { op, name, d: No, s: [B32, data, data], flags, exec }
}
/// An atomic without (`d` is `No`) or with return.
const fn atomic(op: u16, name: &'static str, d: Ty, data: Ty, exec: Exec) -> Row {
    Row { op, name, d, s: [B32, data, No], flags: 0, exec }
}
const fn atomic2(op: u16, name: &'static str, d: Ty, data: Ty, flags: u32, exec: Exec) -> Row {
    Row { op, name, d, s: [B32, data, data], flags, exec }
}
/// The stack of ray tracing. It also writes its address register, which no operand here says.
const fn bvh(op: u16, name: &'static str, d: Ty, nodes: Ty) -> Row {
    Row {
        op,
        name,
        d,
        s: [B32, B32, nodes],
        flags: 0,
        exec: |_, i| unsupported(format!("{} belongs to ray tracing", i.row.name)),
    }
}

/// Its instructions.
pub static ROWS: &[Row] = &[
    atomic(0, "ds_add_u32", No, B32, |cx, i| atomic32(cx, i, a::add32)),
    atomic(1, "ds_sub_u32", No, B32, |cx, i| atomic32(cx, i, a::sub32)),
    atomic(2, "ds_rsub_u32", No, B32, |cx, i| atomic32(cx, i, a::rsub32)),
    atomic(3, "ds_inc_u32", No, B32, |cx, i| atomic32(cx, i, a::inc32)),
    atomic(4, "ds_dec_u32", No, B32, |cx, i| atomic32(cx, i, a::dec32)),
    atomic(5, "ds_min_i32", No, B32, |cx, i| atomic32(cx, i, a::min_i32)),
    atomic(6, "ds_max_i32", No, B32, |cx, i| atomic32(cx, i, a::max_i32)),
    atomic(7, "ds_min_u32", No, B32, |cx, i| atomic32(cx, i, a::min_u32)),
    atomic(8, "ds_max_u32", No, B32, |cx, i| atomic32(cx, i, a::max_u32)),
    atomic(9, "ds_and_b32", No, B32, |cx, i| atomic32(cx, i, a::and32)),
    atomic(10, "ds_or_b32", No, B32, |cx, i| atomic32(cx, i, a::or32)),
    atomic(11, "ds_xor_b32", No, B32, |cx, i| atomic32(cx, i, a::xor32)),
    atomic2(12, "ds_mskor_b32", No, B32, 0, |cx, i| atomic32(cx, i, a::mskor32)),
    store(13, "ds_store_b32", B32, store_words::<1>),
    store2(14, "ds_store_2addr_b32", B32, TWO, store_two::<1>),
    store2(15, "ds_store_2addr_stride64_b32", B32, TWO | STRIDE64, store_two::<1>),
    atomic2(16, "ds_cmpstore_b32", No, B32, 0, |cx, i| atomic32(cx, i, a::cmpswap32)),
    atomic(18, "ds_min_num_f32", No, B32, |cx, i| float32(cx, i, a::lds_min_num_f32)),
    atomic(19, "ds_max_num_f32", No, B32, |cx, i| float32(cx, i, a::lds_max_num_f32)),
    atomic(21, "ds_add_f32", No, B32, |cx, i| float32(cx, i, a::lds_add_f32)),
    Row { op: 20, name: "ds_nop", d: No, s: [No, No, No], flags: 0, exec: |_, _| Ok(Flow::Next) },
    store(30, "ds_store_b8", B32, |cx, i| store_one(cx, i, Store::B8)),
    store(31, "ds_store_b16", B32, |cx, i| store_one(cx, i, Store::B16)),
    atomic(32, "ds_add_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::add32)),
    atomic(33, "ds_sub_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::sub32)),
    atomic(34, "ds_rsub_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::rsub32)),
    atomic(35, "ds_inc_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::inc32)),
    atomic(36, "ds_dec_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::dec32)),
    atomic(37, "ds_min_rtn_i32", B32, B32, |cx, i| atomic32(cx, i, a::min_i32)),
    atomic(38, "ds_max_rtn_i32", B32, B32, |cx, i| atomic32(cx, i, a::max_i32)),
    atomic(39, "ds_min_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::min_u32)),
    atomic(40, "ds_max_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::max_u32)),
    atomic(41, "ds_and_rtn_b32", B32, B32, |cx, i| atomic32(cx, i, a::and32)),
    atomic(42, "ds_or_rtn_b32", B32, B32, |cx, i| atomic32(cx, i, a::or32)),
    atomic(43, "ds_xor_rtn_b32", B32, B32, |cx, i| atomic32(cx, i, a::xor32)),
    atomic2(44, "ds_mskor_rtn_b32", B32, B32, 0, |cx, i| atomic32(cx, i, a::mskor32)),
    atomic(45, "ds_storexchg_rtn_b32", B32, B32, |cx, i| atomic32(cx, i, a::swap32)),
    atomic2(46, "ds_storexchg_2addr_rtn_b32", B64, B32, TWO, exchange_two32),
    atomic2(47, "ds_storexchg_2addr_stride64_rtn_b32", B64, B32, TWO | STRIDE64, exchange_two32),
    atomic2(48, "ds_cmpstore_rtn_b32", B32, B32, 0, |cx, i| atomic32(cx, i, a::cmpswap32)),
    atomic(50, "ds_min_num_rtn_f32", B32, B32, |cx, i| float32(cx, i, a::lds_min_num_f32)),
    atomic(51, "ds_max_num_rtn_f32", B32, B32, |cx, i| float32(cx, i, a::lds_max_num_f32)),
    Row { op: 53, name: "ds_swizzle_b32", d: B32, s: [B32, No, No], flags: SWIZZLE, exec: swizzle },
    load(54, "ds_load_b32", B32, load_words::<1>),
    Row { op: 55, name: "ds_load_2addr_b32", d: B64, s: [B32, No, No], flags: TWO, exec: load_two::<1> },
    Row {
        op: 56,
        name: "ds_load_2addr_stride64_b32",
        d: B64,
        s: [B32, No, No],
        flags: TWO | STRIDE64,
        exec: load_two::<1>,
    },
    load(57, "ds_load_i8", B32, |cx, i| load_one(cx, i, Load::I8)),
    load(58, "ds_load_u8", B32, |cx, i| load_one(cx, i, Load::U8)),
    load(59, "ds_load_i16", B32, |cx, i| load_one(cx, i, Load::I16)),
    load(60, "ds_load_u16", B32, |cx, i| load_one(cx, i, Load::U16)),
    Row { op: 61, name: "ds_consume", d: B32, s: [No, No, No], flags: 0, exec: |cx, i| count(cx, i, a::sub32) },
    Row { op: 62, name: "ds_append", d: B32, s: [No, No, No], flags: 0, exec: |cx, i| count(cx, i, a::add32) },
    atomic(64, "ds_add_u64", No, B64, |cx, i| atomic64(cx, i, a::add64)),
    atomic(65, "ds_sub_u64", No, B64, |cx, i| atomic64(cx, i, a::sub64)),
    atomic(66, "ds_rsub_u64", No, B64, |cx, i| atomic64(cx, i, a::rsub64)),
    atomic(67, "ds_inc_u64", No, B64, |cx, i| atomic64(cx, i, a::inc64)),
    atomic(68, "ds_dec_u64", No, B64, |cx, i| atomic64(cx, i, a::dec64)),
    atomic(69, "ds_min_i64", No, B64, |cx, i| atomic64(cx, i, a::min_i64)),
    atomic(70, "ds_max_i64", No, B64, |cx, i| atomic64(cx, i, a::max_i64)),
    atomic(71, "ds_min_u64", No, B64, |cx, i| atomic64(cx, i, a::min_u64)),
    atomic(72, "ds_max_u64", No, B64, |cx, i| atomic64(cx, i, a::max_u64)),
    atomic(73, "ds_and_b64", No, B64, |cx, i| atomic64(cx, i, a::and64)),
    atomic(74, "ds_or_b64", No, B64, |cx, i| atomic64(cx, i, a::or64)),
    atomic(75, "ds_xor_b64", No, B64, |cx, i| atomic64(cx, i, a::xor64)),
    atomic2(76, "ds_mskor_b64", No, B64, 0, |cx, i| atomic64(cx, i, a::mskor64)),
    store(77, "ds_store_b64", B64, store_words::<2>),
    store2(78, "ds_store_2addr_b64", B64, TWO, store_two::<2>),
    store2(79, "ds_store_2addr_stride64_b64", B64, TWO | STRIDE64, store_two::<2>),
    atomic2(80, "ds_cmpstore_b64", No, B64, 0, |cx, i| atomic64(cx, i, a::cmpswap64)),
    atomic(82, "ds_min_num_f64", No, B64, |cx, i| float64(cx, i, a::lds_min_num_f64)),
    atomic(83, "ds_max_num_f64", No, B64, |cx, i| float64(cx, i, a::lds_max_num_f64)),
    atomic(96, "ds_add_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::add64)),
    atomic(97, "ds_sub_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::sub64)),
    atomic(98, "ds_rsub_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::rsub64)),
    atomic(99, "ds_inc_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::inc64)),
    atomic(100, "ds_dec_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::dec64)),
    atomic(101, "ds_min_rtn_i64", B64, B64, |cx, i| atomic64(cx, i, a::min_i64)),
    atomic(102, "ds_max_rtn_i64", B64, B64, |cx, i| atomic64(cx, i, a::max_i64)),
    atomic(103, "ds_min_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::min_u64)),
    atomic(104, "ds_max_rtn_u64", B64, B64, |cx, i| atomic64(cx, i, a::max_u64)),
    atomic(105, "ds_and_rtn_b64", B64, B64, |cx, i| atomic64(cx, i, a::and64)),
    atomic(106, "ds_or_rtn_b64", B64, B64, |cx, i| atomic64(cx, i, a::or64)),
    atomic(107, "ds_xor_rtn_b64", B64, B64, |cx, i| atomic64(cx, i, a::xor64)),
    atomic2(108, "ds_mskor_rtn_b64", B64, B64, 0, |cx, i| atomic64(cx, i, a::mskor64)),
    atomic(109, "ds_storexchg_rtn_b64", B64, B64, |cx, i| atomic64(cx, i, a::swap64)),
    atomic2(110, "ds_storexchg_2addr_rtn_b64", B128, B64, TWO, exchange_two64),
    atomic2(111, "ds_storexchg_2addr_stride64_rtn_b64", B128, B64, TWO | STRIDE64, exchange_two64),
    atomic2(112, "ds_cmpstore_rtn_b64", B64, B64, 0, |cx, i| atomic64(cx, i, a::cmpswap64)),
    atomic(114, "ds_min_num_rtn_f64", B64, B64, |cx, i| float64(cx, i, a::lds_min_num_f64)),
    atomic(115, "ds_max_num_rtn_f64", B64, B64, |cx, i| float64(cx, i, a::lds_max_num_f64)),
    load(118, "ds_load_b64", B64, load_words::<2>),
    Row { op: 119, name: "ds_load_2addr_b64", d: B128, s: [B32, No, No], flags: TWO, exec: load_two::<2> },
    Row {
        op: 120,
        name: "ds_load_2addr_stride64_b64",
        d: B128,
        s: [B32, No, No],
        flags: TWO | STRIDE64,
        exec: load_two::<2>,
    },
    atomic(121, "ds_add_rtn_f32", B32, B32, |cx, i| float32(cx, i, a::lds_add_f32)),
    atomic(126, "ds_condxchg32_rtn_b64", B64, B64, |cx, i| atomic64(cx, i, a::condxchg)),
    atomic(152, "ds_cond_sub_u32", No, B32, |cx, i| atomic32(cx, i, a::cond_sub32)),
    atomic(153, "ds_sub_clamp_u32", No, B32, |cx, i| atomic32(cx, i, a::sub_clamp32)),
    atomic(154, "ds_pk_add_f16", No, B32, |cx, i| float32(cx, i, a::lds_pk_add_f16)),
    atomic(155, "ds_pk_add_bf16", No, B32, |cx, i| float32(cx, i, a::lds_pk_add_bf16)),
    store(160, "ds_store_b8_d16_hi", B32, |cx, i| store_one(cx, i, Store::D16_HI_B8)),
    store(161, "ds_store_b16_d16_hi", B32, |cx, i| store_one(cx, i, Store::D16_HI_B16)),
    load(162, "ds_load_u8_d16", B32, |cx, i| load_one(cx, i, Load::D16_U8)),
    load(163, "ds_load_u8_d16_hi", B32, |cx, i| load_one(cx, i, Load::D16_HI_U8)),
    load(164, "ds_load_i8_d16", B32, |cx, i| load_one(cx, i, Load::D16_I8)),
    load(165, "ds_load_i8_d16_hi", B32, |cx, i| load_one(cx, i, Load::D16_HI_I8)),
    load(166, "ds_load_u16_d16", B32, |cx, i| load_one(cx, i, Load::D16_B16)),
    load(167, "ds_load_u16_d16_hi", B32, |cx, i| load_one(cx, i, Load::D16_HI_B16)),
    atomic(168, "ds_cond_sub_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::cond_sub32)),
    atomic(169, "ds_sub_clamp_rtn_u32", B32, B32, |cx, i| atomic32(cx, i, a::sub_clamp32)),
    atomic(170, "ds_pk_add_rtn_f16", B32, B32, |cx, i| float32(cx, i, a::lds_pk_add_f16)),
    atomic(171, "ds_pk_add_rtn_bf16", B32, B32, |cx, i| float32(cx, i, a::lds_pk_add_bf16)),
    Row { op: 176, name: "ds_store_addtid_b32", d: No, s: [No, B32, No], flags: 0, exec: store_addtid },
    Row { op: 177, name: "ds_load_addtid_b32", d: B32, s: [No, No, No], flags: 0, exec: load_addtid },
    atomic(178, "ds_permute_b32", B32, B32, permute),
    atomic(179, "ds_bpermute_b32", B32, B32, |cx, i| bpermute(cx, i, false)),
    atomic(205, "ds_bpermute_fi_b32", B32, B32, |cx, i| bpermute(cx, i, true)),
    store(222, "ds_store_b96", B96, store_words::<3>),
    store(223, "ds_store_b128", B128, store_words::<4>),
    bvh(224, "ds_bvh_stack_push4_pop1_rtn_b32", B32, B128),
    bvh(225, "ds_bvh_stack_push8_pop1_rtn_b32", B32, B256),
    bvh(226, "ds_bvh_stack_push8_pop2_rtn_b64", B64, B256),
    load(254, "ds_load_b96", B96, load_words::<3>),
    load(255, "ds_load_b128", B128, load_words::<4>),
];

/// Decodes one instruction of this format. Fields that an instruction does not use must be 0, as LLVM wants them.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    let word = words[0];
    let row = row(ROWS, (word >> 18 & 0xff) as u16, word)?;
    let mut inst = Inst::new(row, Format::Ds, 2, words)?;
    let invalid = |reason: &str| Err(DecodeError::Invalid { word, reason: reason.into() });
    if word >> 16 & 3 != 0 {
        return invalid("bits 17:16 are reserved");
    }
    for (n, ty) in row.s.into_iter().enumerate() {
        let code = (words[1] >> (8 * n)) as u8;
        match ty {
            Ty::None if code != 0 => return invalid("a register field that it does not use is not 0"),
            Ty::None => {}
            ty => inst.src[n] = Src::Vgpr(vgpr(code, ty, word)?),
        }
    }
    let dst = (words[1] >> 24) as u8;
    match row.d {
        Ty::None if dst != 0 => return invalid("a register field that it does not use is not 0"),
        Ty::None => {}
        ty => inst.dst = vgpr(dst, ty, word)?,
    }
    let offset = word & 0xffff;
    if offset != 0 && row.s[0] == Ty::None && row.name == "ds_nop" {
        return invalid("ds_nop has no offset");
    }
    inst.imm = if row.flags & TWO != 0 { offset & 0xff | (offset >> 8) << 16 } else { offset } as i32;
    Ok(inst)
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    let mut operands = Vec::new();
    if inst.row.d != Ty::None {
        operands.push(vgpr_text(inst.dst, inst.row.d.dwords()));
    }
    for (src, ty) in inst.src.iter().zip(inst.row.s) {
        if let Src::Vgpr(first) = *src {
            operands.push(vgpr_text(first, ty.dwords()));
        }
    }
    let mut text = format!("{} {}", inst.row.name, operands.join(", ")).trim_end().to_string();
    if inst.row.flags & TWO != 0 {
        for (n, offset) in [inst.imm & 0xff, inst.imm >> 16].into_iter().enumerate() {
            if offset != 0 {
                text += &format!(" offset{n}:{offset}");
            }
        }
    } else if inst.imm != 0 {
        text += " offset:";
        text += &if inst.row.flags & SWIZZLE != 0 { swizzle_text(inst.imm as u32) } else { inst.imm.to_string() };
    }
    text
}

/// A swizzle pattern in LLVM's words; what has none is a number.
fn swizzle_text(pattern: u32) -> String {
    if pattern >= 0xe000 {
        return format!("swizzle(FFT,{})", pattern & 31);
    }
    if pattern >= 0xc000 {
        return format!("swizzle(ROTATE,{},{})", pattern >> 10 & 1, pattern >> 5 & 31);
    }
    if pattern >> 8 == 0x80 {
        let lane = |n: u32| pattern >> (2 * n) & 3;
        return format!("swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
    }
    if pattern >= 0x8000 {
        return pattern.to_string();
    }
    let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return format!("swizzle(SWAP,{xor})");
    }
    if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return format!("swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return format!("swizzle(BROADCAST,{group},{or})");
    }
    let (zeros, ones) = (or ^ xor, (and | or) ^ xor);
    let letters = (0..5).rev().map(|bit| match (zeros >> bit & 1, ones >> bit & 1) {
        (0, 0) => '0',
        (1, 1) => '1',
        (0, _) => 'p',
        _ => 'i',
    });
    format!("swizzle(BITMASK_PERM,\"{}\")", letters.collect::<String>())
}

/// A register operand; the decoder has seen to it that it is one.
fn register(src: Src) -> u8 {
    if let Src::Vgpr(first) = src { first } else { 0 }
}

/// LDS addresses of all lanes with `offset` bytes added.
#[inline(always)]
fn addresses(cx: &Cx, inst: &Inst, offset: u32) -> [u64; 32] {
    let mut out = [0; 32];
    for (out, &address) in out.iter_mut().zip(&cx.wave.vgpr[register(inst.src[0]) as usize]) {
        *out = address.wrapping_add(offset) as u64;
    }
    out
}

fn at<O: LaneOp>(cx: &mut Cx, addresses: &[u64; 32], op: &O) -> Step {
    let arch = cx.arch;
    arch.dispatch_made(|| AtLds { cx, addresses, op })
}

/// An access for `pulp`: bounds and words of all lanes are vector arithmetic.
struct AtLds<'x, 'c, O> {
    cx: &'x mut Cx<'c>,
    addresses: &'x [u64; 32],
    op: &'x O,
}

impl<O: LaneOp> pulp::NullaryFnOnce for AtLds<'_, '_, O> {
    type Output = Step;
    #[inline(always)]
    fn call(self) -> Step {
        let mask = self.cx.wave.exec();
        memory_ops::lds(self.cx, self.addresses, mask, self.op)?;
        Ok(Flow::Next)
    }
}

/// Byte offsets of a two-address form.
fn two_offsets(inst: &Inst, element_bytes: u32) -> [u32; 2] {
    let scale = element_bytes * if inst.row.flags & STRIDE64 != 0 { 64 } else { 1 };
    [(inst.imm as u32 & 0xff) * scale, (inst.imm as u32 >> 16) * scale]
}

fn load_one(cx: &mut Cx, inst: &Inst, load: Load) -> Step {
    let addresses = addresses(cx, inst, inst.imm as u32);
    at(cx, &addresses, &LoadTo { load, dst: inst.dst })
}

/// Loads of whole dwords are compiled for their number.
fn load_words<const N: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    words(cx, inst, LoadWords::<N> { dst: inst.dst })
}

#[inline(always)]
fn words<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: O) -> Step {
    let (arch, indices, offset) = (cx.arch, register(inst.src[0]), inst.imm as u32);
    if O::SPREAD && arch.dispatch_made(|| Spread { cx: &mut *cx, offset, indices, op: &op }) {
        return Ok(Flow::Next);
    }
    elsewhere(cx, inst, &op)
}

#[inline(never)]
fn elsewhere<O: LaneOp>(cx: &mut Cx, inst: &Inst, op: &O) -> Step {
    let addresses = addresses(cx, inst, inst.imm as u32);
    at(cx, &addresses, op)
}

/// [`memory_ops::lds_spread`] for `pulp`.
struct Spread<'x, 'c, O> {
    cx: &'x mut Cx<'c>,
    offset: u32,
    indices: u8,
    op: &'x O,
}

impl<O: LaneOp> pulp::NullaryFnOnce for Spread<'_, '_, O> {
    type Output = bool;
    #[inline(always)]
    fn call(self) -> bool {
        memory_ops::lds_spread(self.cx, self.offset, self.indices, self.op)
    }
}

/// Both addresses are read before the first destination is written: it may be the address register.
fn load_two<const N: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    let [first, second] = two_offsets(inst, 4 * N as u32).map(|offset| addresses(cx, inst, offset));
    at(cx, &first, &LoadWords::<N> { dst: inst.dst })?;
    at(cx, &second, &LoadWords::<N> { dst: inst.dst.wrapping_add(N as u8) })
}

fn store_one(cx: &mut Cx, inst: &Inst, store: Store) -> Step {
    let addresses = addresses(cx, inst, inst.imm as u32);
    at(cx, &addresses, &StoreFrom { store, data: register(inst.src[1]) })
}

fn store_words<const N: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    words(cx, inst, StoreWords::<N> { data: register(inst.src[1]) })
}

fn store_two<const N: usize>(cx: &mut Cx, inst: &Inst) -> Step {
    let [first, second] = two_offsets(inst, 4 * N as u32).map(|offset| addresses(cx, inst, offset));
    at(cx, &first, &StoreWords::<N> { data: register(inst.src[1]) })?;
    at(cx, &second, &StoreWords::<N> { data: register(inst.src[2]) })
}

fn returned(inst: &Inst) -> Option<u8> {
    (inst.row.d != Ty::None).then_some(inst.dst)
}

fn atomic32(cx: &mut Cx, inst: &Inst, op: Op32) -> Step {
    let addresses = addresses(cx, inst, inst.imm as u32);
    let (data, second) = (register(inst.src[1]), register(inst.src[2]));
    at(cx, &addresses, &Atomic32 { op, data, second, dst: returned(inst) })
}

fn atomic64(cx: &mut Cx, inst: &Inst, op: Op64) -> Step {
    let addresses = addresses(cx, inst, inst.imm as u32);
    let (data, second) = (register(inst.src[1]), register(inst.src[2]));
    at(cx, &addresses, &Atomic64 { op, data, second, dst: returned(inst) })
}

/// A float atomic: MODE's denormal fields pick the operation.
fn float32(cx: &mut Cx, inst: &Inst, op: fn(u32) -> Op32) -> Step {
    let op = op(cx.wave.mode);
    atomic32(cx, inst, op)
}

fn float64(cx: &mut Cx, inst: &Inst, op: fn(u32) -> Op64) -> Step {
    let op = op(cx.wave.mode);
    atomic64(cx, inst, op)
}

/// Exchanges at two addresses. The second's data register may be the first's destination, so it is copied aside.
fn exchange_two32(cx: &mut Cx, inst: &Inst) -> Step {
    let [first, second] = two_offsets(inst, 4).map(|offset| addresses(cx, inst, offset));
    let (data0, data1) = (register(inst.src[1]), register(inst.src[2]));
    let kept = cx.wave.vgpr[data1 as usize];
    at(cx, &first, &Atomic32 { op: a::swap32, data: data0, second: data0, dst: Some(inst.dst) })?;
    let high = inst.dst.wrapping_add(1);
    cx.wave.set_lanes(high, cx.wave.exec(), &kept);
    at(cx, &second, &Atomic32 { op: a::swap32, data: high, second: high, dst: Some(high) })
}

fn exchange_two64(cx: &mut Cx, inst: &Inst) -> Step {
    let [first, second] = two_offsets(inst, 8).map(|offset| addresses(cx, inst, offset));
    let (data0, data1) = (register(inst.src[1]), register(inst.src[2]));
    let kept = [data1, data1.wrapping_add(1)].map(|register| cx.wave.vgpr[register as usize]);
    at(cx, &first, &Atomic64 { op: a::swap64, data: data0, second: data0, dst: Some(inst.dst) })?;
    let (high, mask) = (inst.dst.wrapping_add(2), cx.wave.exec());
    cx.wave.set_lanes(high, mask, &kept[0]);
    cx.wave.set_lanes(high.wrapping_add(1), mask, &kept[1]);
    at(cx, &second, &Atomic64 { op: a::swap64, data: high, second: high, dst: Some(high) })
}

/// `ds_append`, `ds_consume`: one counter for the wave at M0's low half plus the offset, changed by the number of lanes that are on.
fn count(cx: &mut Cx, inst: &Inst, op: Op32) -> Step {
    let mask = cx.wave.exec();
    if mask == 0 {
        return Ok(Flow::Next);
    }
    let address = (cx.wave.sgpr[M0 as usize] & 0xffff).wrapping_add(inst.imm as u32) as u64;
    let one = 1 << mask.trailing_zeros();
    let lane = mask.trailing_zeros() as usize;
    cx.wave.vgpr[inst.dst as usize][lane] = mask.count_ones();
    let atomic = Atomic32 { op, data: inst.dst, second: inst.dst, dst: Some(inst.dst) };
    memory_ops::lds(cx, &[address; 32], one, &atomic)?;
    let old = cx.wave.vgpr[inst.dst as usize][lane];
    cx.wave.set_lanes(inst.dst, mask, &[old; 32]);
    Ok(Flow::Next)
}

/// Addresses of the `addtid` forms: M0's low half, the offset, and 4 bytes for each lane.
fn addtid(cx: &Cx, inst: &Inst) -> [u64; 32] {
    let base = (cx.wave.sgpr[M0 as usize] & 0xffff).wrapping_add(inst.imm as u32);
    std::array::from_fn(|lane| base.wrapping_add(4 * lane as u32) as u64)
}

fn store_addtid(cx: &mut Cx, inst: &Inst) -> Step {
    let addresses = addtid(cx, inst);
    at(cx, &addresses, &StoreFrom { store: Store::B32, data: register(inst.src[1]) })
}

fn load_addtid(cx: &mut Cx, inst: &Inst) -> Step {
    let addresses = addtid(cx, inst);
    at(cx, &addresses, &LoadTo { load: Load::B32, dst: inst.dst })
}

fn swizzle(cx: &mut Cx, inst: &Inst) -> Step {
    let mask = cx.wave.exec();
    let value = exchange::swizzle(&cx.wave.lanes(inst.src[0]), inst.imm as u32, mask);
    cx.wave.set_lanes(inst.dst, mask, &value);
    Ok(Flow::Next)
}

fn permute(cx: &mut Cx, inst: &Inst) -> Step {
    let (mask, offset) = (cx.wave.exec(), inst.imm as u32);
    let value = exchange::push(&cx.wave.lanes(inst.src[0]), offset, &cx.wave.lanes(inst.src[1]), mask);
    cx.wave.set_lanes(inst.dst, mask, &value);
    Ok(Flow::Next)
}

fn bpermute(cx: &mut Cx, inst: &Inst, inactive: bool) -> Step {
    let (mask, offset) = (cx.wave.exec(), inst.imm as u32);
    let readable = if inactive { u32::MAX } else { mask };
    let value = exchange::pull(&cx.wave.lanes(inst.src[0]), offset, &cx.wave.lanes(inst.src[1]), readable);
    cx.wave.set_lanes(inst.dst, mask, &value);
    Ok(Flow::Next)
}
