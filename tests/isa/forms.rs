//! Every form of every vector row: short and long encoding, each kind of source in each place, literals, DPP16, DPP8 with and without
//! fetch-inactive, and each modifier alone. LLVM says of each whether it exists and how it reads; the sweep of random operands over the
//! whole opcode space stands in [`crate::opcodes`].

use crate::opcodes::judge;
use emulator::isa::{self, Row, Ty, flags};

/// Kinds of a source code: vector register, scalar register, VCC, integer and float constants, 1/2π, a literal.
const SOURCES: [u32; 8] = [256 + 4, 6, 106, 129, 193, 242, 248, 255];
/// Source 0 codes that a DPP dword follows, and such a dword with its register.
const EXCHANGES: [(u32, u32); 4] = [(250, 0xff00_1b04), (250, 0x3709_5304), (233, 0x0539_7704), (234, 0x0539_7704)];
/// A literal that is no inline constant of any type.
const LITERAL: u32 = 0x1234_5678;

fn padded(words: &[u32]) -> Vec<u32> {
    let mut out = words.to_vec();
    out.resize(4, LITERAL);
    out
}

/// The short encoding of a row: `word` with source 0 in its low nine bits.
fn short(word: u32, out: &mut Vec<Vec<u32>>) {
    out.extend(SOURCES.map(|source| padded(&[word | source])));
    out.extend(EXCHANGES.map(|(source, control)| padded(&[word | source, control])));
    // The DPP dword's own modifiers, each alone.
    out.extend((20..24).map(|bit| padded(&[word | 250, 0xff00_1b04 | 1 << bit])));
}

/// The long encoding of a row.
fn long(row: &Row, op: u32, out: &mut Vec<Vec<u32>>) {
    let count = row.s.iter().filter(|&&ty| ty != Ty::None).count();
    let scalar = row.flags & flags::SCALAR_D != 0 || row.d == Ty::Mask;
    let dst = if row.name.starts_with("v_cmpx") {
        126
    } else if scalar {
        10
    } else {
        2
    };
    let sd = if row.flags & flags::SD != 0 { 12 << 8 } else { 0 };
    let first = 0xd400_0000 | op << 16 | sd | dst;
    // Registers that every source takes: a mask is scalar, the rest is whatever the row's flags ask for.
    let scalars = [flags::SCALAR_0, flags::SCALAR_1, flags::SCALAR_2];
    let plain: [u32; 3] = std::array::from_fn(|i| match row.s[i] {
        Ty::None => 0,
        Ty::Mask => 14,
        _ if row.flags & scalars[i] != 0 => 6 + 2 * i as u32,
        _ => 256 + 4 * (i as u32 + 1),
    });
    let second = |codes: [u32; 3]| codes[0] | codes[1] << 9 | codes[2] << 18;
    for i in 0..count {
        for source in SOURCES {
            let mut codes = plain;
            codes[i] = source;
            out.push(padded(&[first, second(codes)]));
        }
    }
    let modifiers =
        (8..16).map(|bit| (1 << bit, 0)).chain((27..32).map(|bit| (0, 1 << bit))).chain([(0, 3 << 27), (0, 0)]);
    for (low, high) in modifiers {
        out.push(padded(&[first | low, second(plain) | high]));
        for (source, control) in EXCHANGES {
            let codes = [source, plain[1], plain[2]];
            out.push(padded(&[first | low, second(codes) | high, control]));
        }
    }
}

#[test]
fn short_and_long() {
    let mut candidates = Vec::new();
    for row in isa::vop1::ROWS {
        let op = row.op as u32;
        if row.d == Ty::None {
            candidates.push(padded(&[0x7e00_0000 | op << 9]));
        } else {
            short(0x7e00_0000 | 2 << 17 | op << 9, &mut candidates);
        }
        long(row, op + 384, &mut candidates);
    }
    judge(isa::vop1::ROWS, &candidates);
    candidates.clear();
    for row in isa::vop2::ROWS {
        let op = row.op as u32;
        short(op << 25 | 2 << 17 | 8 << 9, &mut candidates);
        long(row, op + 256, &mut candidates);
    }
    judge(isa::vop2::ROWS, &candidates);
    candidates.clear();
    for row in isa::vopc::ROWS {
        let op = row.op as u32;
        short(0x7c00_0000 | op << 17 | 8 << 9, &mut candidates);
        long(row, op, &mut candidates);
    }
    judge(isa::vopc::ROWS, &candidates);
}

#[test]
fn long_only() {
    let mut candidates = Vec::new();
    for row in isa::vop3::ROWS {
        long(row, row.op as u32, &mut candidates);
    }
    judge(isa::vop3::ROWS, &candidates);
}

/// Every pair of halves, with each kind of first source on both sides.
#[test]
fn dual() {
    let mut candidates = Vec::new();
    for x in isa::vopd::ROWS.iter().filter(|row| row.op < 16) {
        for y in isa::vopd::ROWS {
            let [vx, vy] = [(x, 8), (y, 9)].map(|(row, v)| if row.name.ends_with("mov_b32") { 0 } else { v });
            let first = 0xc800_0000 | (x.op as u32) << 22 | (y.op as u32) << 17 | vx << 9;
            let second = 3 << 24 | 4 << 17 | vy << 9;
            for (a, b) in SOURCES.into_iter().zip(SOURCES.into_iter().cycle().skip(1)) {
                candidates.push(padded(&[first | a, second | (256 + 5)]));
                candidates.push(padded(&[first | (256 + 4), second | b]));
                candidates.push(padded(&[first | a, second | a]));
            }
        }
    }
    judge(isa::vopd::ROWS, &candidates);
}
