//! Every WMMA and SWMMAC form against plain loops: elements are laid out one by one as AMD's matrix calculator says (element → register,
//! lane and bits), and the product is summed in integers. Values are small, so that sums are exact in every format and no order of
//! summation shows. Rows of `.ins` cannot hold such tiles.

use crate::{execute, wave};
use emulator::Memory;
use emulator::isa::{self, Src};
use emulator::wave::{Lds, Wave};
use zynfer_tests::random::Random;

pub(crate) const N: usize = 16;
/// First registers: A, B, C, the index, D.
pub(crate) const A: u32 = 0;
pub(crate) const B: u32 = 16;
pub(crate) const C: u32 = 32;
pub(crate) const INDEX: u32 = 48;
pub(crate) const D: u32 = 64;

/// Format of an operand's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    I4,
}
use Element::*;

/// Format of C and D.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sum {
    F32,
    Half,
    BHalf,
    I32,
}

impl Element {
    pub(crate) fn bits(self) -> usize {
        match self {
            F16 | Bf16 => 16,
            Fp8 | Bf8 | I8 => 8,
            I4 => 4,
        }
    }

    fn encode(self, value: i32) -> u32 {
        match self {
            F16 => half::f16::from_f32(value as f32).to_bits() as u32,
            Bf16 => half::bf16::from_f32(value as f32).to_bits() as u32,
            Fp8 => [0, 0x38, 0x40, 0x44, 0x48][value.unsigned_abs() as usize] | ((value < 0) as u32) << 7,
            Bf8 => [0, 0x3c, 0x40, 0x42, 0x44][value.unsigned_abs() as usize] | ((value < 0) as u32) << 7,
            I8 => value as u32 & 0xff,
            I4 => value as u32 & 0xf,
        }
    }

    /// A random value whose encoding is exact; integers take their whole range.
    fn random(self, random: &mut Random, signed: bool, most: i32) -> i32 {
        match (self, signed) {
            (I8, true) => random.below(256) as i32 - 128,
            (I8, false) => random.below(256) as i32,
            (I4, true) => random.below(16) as i32 - 8,
            (I4, false) => random.below(16) as i32,
            _ => random.below(2 * most as usize + 1) as i32 - most,
        }
    }
}

/// A form: opcode, name, K, formats of A, B and the sums, whether A is sparse.
pub(crate) type Form = (u32, &'static str, usize, Element, Element, Sum, bool);

#[rustfmt::skip]
pub(crate) const FORMS: &[Form] = &[
    (64, "v_wmma_f32_16x16x16_f16", 16, F16, F16, Sum::F32, false),
    (65, "v_wmma_f32_16x16x16_bf16", 16, Bf16, Bf16, Sum::F32, false),
    (66, "v_wmma_f16_16x16x16_f16", 16, F16, F16, Sum::Half, false),
    (67, "v_wmma_bf16_16x16x16_bf16", 16, Bf16, Bf16, Sum::BHalf, false),
    (68, "v_wmma_i32_16x16x16_iu8", 16, I8, I8, Sum::I32, false),
    (69, "v_wmma_i32_16x16x16_iu4", 16, I4, I4, Sum::I32, false),
    (70, "v_wmma_f32_16x16x16_fp8_fp8", 16, Fp8, Fp8, Sum::F32, false),
    (71, "v_wmma_f32_16x16x16_fp8_bf8", 16, Fp8, Bf8, Sum::F32, false),
    (72, "v_wmma_f32_16x16x16_bf8_fp8", 16, Bf8, Fp8, Sum::F32, false),
    (73, "v_wmma_f32_16x16x16_bf8_bf8", 16, Bf8, Bf8, Sum::F32, false),
    (74, "v_wmma_i32_16x16x32_iu4", 32, I4, I4, Sum::I32, false),
    (80, "v_swmmac_f32_16x16x32_f16", 32, F16, F16, Sum::F32, true),
    (81, "v_swmmac_f32_16x16x32_bf16", 32, Bf16, Bf16, Sum::F32, true),
    (82, "v_swmmac_f16_16x16x32_f16", 32, F16, F16, Sum::Half, true),
    (83, "v_swmmac_bf16_16x16x32_bf16", 32, Bf16, Bf16, Sum::BHalf, true),
    (84, "v_swmmac_i32_16x16x32_iu8", 32, I8, I8, Sum::I32, true),
    (85, "v_swmmac_i32_16x16x32_iu4", 32, I4, I4, Sum::I32, true),
    (86, "v_swmmac_i32_16x16x64_iu4", 64, I4, I4, Sum::I32, true),
    (87, "v_swmmac_f32_16x16x32_fp8_fp8", 32, Fp8, Fp8, Sum::F32, true),
    (88, "v_swmmac_f32_16x16x32_fp8_bf8", 32, Fp8, Bf8, Sum::F32, true),
    (89, "v_swmmac_f32_16x16x32_bf8_fp8", 32, Bf8, Fp8, Sum::F32, true),
    (90, "v_swmmac_f32_16x16x32_bf8_bf8", 32, Bf8, Bf8, Sum::F32, true),
];

/// The mnemonics judged here.
pub fn names() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|form| form.1)
}

/// Register, half of the wave, and first bit of an element.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) register: usize,
    pub(crate) half: usize,
    pub(crate) bit: usize,
}

impl Place {
    /// The element with number `element` among those of `bits` bits that a lane of `half` holds.
    fn nth(element: usize, bits: usize, half: usize) -> Place {
        Place { register: element * bits / 32, half, bit: element * bits % 32 }
    }
}

/// Where element k of a dense operand lies, `wide` if it stands beside a sparse one.
pub(crate) fn dense(bits: usize, k: usize, depth: usize, wide: bool) -> Place {
    match (bits, wide) {
        (16, false) => Place { register: 2 * (k / 8) + k % 4 / 2, half: k / 4 % 2, bit: 16 * (k % 2) },
        (16, true) => Place { register: 4 * (k / 16) + k % 8 / 2, half: k / 8 % 2, bit: 16 * (k % 2) },
        _ => Place::nth(k % (depth / 2), bits, k / (depth / 2)),
    }
}

/// Where the n-th of the two elements kept of the four from `4 * group` on lies.
pub(crate) fn kept(bits: usize, group: usize, n: usize, depth: usize) -> Place {
    if bits == 16 {
        return Place { register: 2 * (group / 4) + group % 2, half: group / 2 % 2, bit: 16 * n };
    }
    let groups = depth / 8;
    Place::nth(group % groups * 2 + n, bits, group / groups)
}

/// Half of the wave and first bit of the four index bits of a group.
pub(crate) fn index(bits: usize, group: usize, depth: usize) -> (usize, usize) {
    if bits == 16 {
        return (group / 2 % 2, 8 * (group / 4) + 4 * (group % 2));
    }
    let groups = depth / 8;
    (group / groups, 4 * (group % groups))
}

/// Modifiers of one try.
#[derive(Clone, Copy, Debug)]
struct Tried {
    neg_lo: u32,
    neg_hi: u32,
    clamp: bool,
    key: u32,
}

pub(crate) fn put(wave: &mut Wave, first: u32, place: Place, lane: usize, bits: u32) {
    wave.vgpr[first as usize + place.register][N * place.half + lane] |= bits << place.bit;
}

/// Row i, column j of C or D.
pub(crate) fn sum_place(sum: Sum, i: usize) -> Place {
    match sum {
        Sum::F32 | Sum::I32 => Place { register: i % 8, half: i / 8, bit: 0 },
        Sum::Half | Sum::BHalf => Place { register: i % 8 / 2, half: i / 8, bit: 16 * (i % 2) },
    }
}

fn encode_sum(sum: Sum, value: i64) -> u32 {
    match sum {
        Sum::F32 => (value as f32).to_bits(),
        Sum::I32 => value as u32,
        Sum::Half => half::f16::from_f32(value as f32).to_bits() as u32,
        Sum::BHalf => half::bf16::from_f32(value as f32).to_bits() as u32,
    }
}

fn check(form: Form, tried: Tried, random: &mut Random) {
    let (op, name, depth, a_format, b_format, sum, sparse) = form;
    let integer = sum == Sum::I32;
    // bf16 sums have eight bits; others leave room.
    let most = if sum == Sum::BHalf { 1 } else { 4 };
    let halves = a_format.bits() == 16;
    let sign = |source: u32, bit: usize, value: i32| {
        let field = if bit.is_multiple_of(32) { tried.neg_lo } else { tried.neg_hi };
        if halves && field >> source & 1 != 0 { -value } else { value }
    };
    let [signed_a, signed_b] = [0, 1].map(|source| !integer || tried.neg_lo >> source & 1 != 0);
    let mut wave = wave();
    let (mut a, mut b) = (vec![[0i64; N]; depth], vec![[0i64; N]; depth]);
    for i in 0..N {
        if sparse {
            for group in 0..depth / 4 {
                let first = random.below(3);
                let places = [first, first + 1 + random.below(3 - first)];
                for (n, place) in places.into_iter().enumerate() {
                    let value = a_format.random(random, signed_a, most);
                    let at = kept(a_format.bits(), group, n, depth);
                    a[4 * group + place][i] = sign(0, at.bit, value) as i64;
                    put(&mut wave, A, at, i, a_format.encode(value));
                    let (half, bit) = index(a_format.bits(), group, depth);
                    wave.vgpr[INDEX as usize][N * half + i] |=
                        (place as u32) << (bit + 2 * n + 16 * tried.key as usize);
                }
            }
        }
        for k in 0..depth {
            if !sparse {
                let value = a_format.random(random, signed_a, most);
                let at = dense(a_format.bits(), k, depth, false);
                a[k][i] = sign(0, at.bit, value) as i64;
                put(&mut wave, A, at, i, a_format.encode(value));
            }
            let value = b_format.random(random, signed_b, most);
            let at = dense(b_format.bits(), k, depth, sparse);
            b[k][i] = sign(1, at.bit, value) as i64;
            put(&mut wave, B, at, i, b_format.encode(value));
        }
    }
    // C lies in D's registers where A is sparse.
    let first_c = if sparse { D } else { C };
    let mut expected = [[0u32; N]; N];
    for i in 0..N {
        for j in 0..N {
            let c = match sum {
                Sum::I32 => [random.word() as i32, i32::MAX, i32::MIN, 5][random.below(4)] as i64,
                Sum::BHalf => random.below(17) as i64 - 8,
                _ => random.below(401) as i64 - 200,
            };
            put(&mut wave, first_c, sum_place(sum, i), j, encode_sum(sum, c));
            let c = if !integer && tried.neg_hi & 4 != 0 { c.abs() } else { c };
            let c = if !integer && tried.neg_lo & 4 != 0 { -c } else { c };
            let products: i64 = (0..depth).map(|k| a[k][i] * b[k][j]).sum();
            let total = match (integer, tried.clamp) {
                (true, true) => (c + products).clamp(i32::MIN as i64, i32::MAX as i64),
                _ => c + products,
            };
            expected[i][j] = encode_sum(sum, total);
        }
    }
    // A zero's sign depends on the order of summation only where −0 is added to −0: C is never −0 but where it is negated.
    let source = |register: u32| 256 + register;
    let third = if sparse { INDEX } else { C };
    let clamp = (tried.clamp as u32) << 15;
    let words = [
        0xcc00_4000 | op << 16 | clamp | tried.key << 11 | tried.neg_hi << 8 | D,
        tried.neg_lo << 29 | 3 << 27 | source(third) << 18 | source(B) << 9 | source(A),
    ];
    let inst = isa::decode(&words).unwrap_or_else(|e| panic!("{name} {tried:?}: {e}"));
    assert_eq!(inst.row.name, name);
    assert_eq!(inst.src[0], Src::Vgpr(A as u8));
    let (memory, mut lds) = (Memory::new(0), Lds { words: Vec::new(), bytes: 0 });
    let before = wave.vgpr.clone();
    execute(&inst, &mut wave, &mut lds, &memory).unwrap_or_else(|fault| panic!("{name} {tried:?}: {fault}"));
    let registers = if matches!(sum, Sum::F32 | Sum::I32) { 8 } else { 4 };
    for i in 0..N {
        for j in 0..N {
            let place = sum_place(sum, i);
            let whole = wave.vgpr[D as usize + place.register][N * place.half + j];
            let got = if registers == 8 { whole } else { whole >> place.bit & 0xffff };
            let zeros = if registers == 8 { 0x8000_0000 } else { 0x8000 };
            let same = got == expected[i][j] || !integer && (got | expected[i][j]) & !zeros == 0;
            assert!(same, "{name} D[{i}][{j}] is {got:#x}, not {:#x}; {tried:?}", expected[i][j]);
        }
    }
    for (register, lanes) in wave.vgpr.iter().enumerate() {
        let written = (D as usize..D as usize + registers).contains(&register);
        assert!(written || *lanes == before[register], "{name} changes v{register}; {tried:?}");
    }
}

#[test]
fn every_form_is_the_plain_product() {
    for (number, &form) in FORMS.iter().enumerate() {
        let (_, name, depth, a_format, _, sum, sparse) = form;
        let mut random = Random(number as u64 + 1);
        let integer = sum == Sum::I32;
        // neg_lo and neg_hi of A and B: signs of halves, or signedness; of C: sign and absolute value.
        let (low, high) = match (integer, a_format.bits(), sparse) {
            (true, _, _) => (3, 0),
            (_, 16, false) => (7, 7),
            (_, 16, true) => (3, 3),
            (_, _, false) => (4, 4),
            _ => (0, 0),
        };
        let keys = if sparse && !(name.ends_with("x64_iu4") && depth == 64) { 2 } else { 1 };
        for round in 0..24 {
            let tried = Tried {
                neg_lo: if round > 0 { random.word() & low } else { 0 },
                neg_hi: if round > 0 { random.word() & high } else { 0 },
                clamp: integer && round % 2 == 1,
                key: round % keys,
            };
            check(form, tried, &mut random);
        }
    }
}
