//! Every form of every row outside the plain vector ALU: each kind of operand in each place, immediates and offsets at their ends, cache
//! hints with scopes, data formats, modifiers alone. LLVM says of each whether it exists and how it reads, and what it assembles from the
//! text must be the same instruction. The vector ALU's forms stand in [`crate::forms`], the sweep of random operands in
//! [`crate::opcodes`].

use crate::opcodes::judge;
use emulator::isa::{self, Row, Ty};

/// Scalar source codes: registers (even, for pairs), VCC, null, M0, EXEC, apertures, SCC, integers and floats at their ends, a literal.
#[rustfmt::skip]
const SCALARS: [u32; 29] = [
    4, 100, 106, 108, 124, 125, 126, 235, 236, 237, 238, 253, 128, 129, 192, 193, 208, 240, 241, 242, 243, 244, 245, 246, 247, 248, 255,
    209, 254,
];
/// Scalar destinations.
const DESTINATIONS: [u32; 6] = [4, 104, 106, 124, 125, 126];
/// Literals: none of them inline, an inline integer, an inline float.
const LITERALS: [u32; 4] = [0x1234_5678, 5, 0x3f80_0000, 0xffff_fff0];

fn padded(words: &[u32], rest: u32) -> Vec<u32> {
    let mut out = words.to_vec();
    out.resize(4, rest);
    out
}

#[test]
fn scalar() {
    let mut candidates = Vec::new();
    for row in isa::sop1::ROWS {
        let word = 0xbe80_0000 | (row.op as u32) << 8;
        // llvm-mc 22 crashes on a literal as the number of a barrier.
        let sources = SCALARS.into_iter().filter(|&source| source != 255 || !(78..=83).contains(&row.op));
        for source in sources {
            candidates.push(padded(&[word | 4 << 16 | source], LITERALS[0]));
            if source == 255 {
                candidates.extend(LITERALS.map(|literal| padded(&[word | 4 << 16 | source], literal)));
            }
        }
        candidates.extend(DESTINATIONS.map(|d| padded(&[word | d << 16 | 6], LITERALS[0])));
    }
    judge(isa::sop1::ROWS, &candidates);
    candidates.clear();
    for row in isa::sop2::ROWS {
        let word = 0x8000_0000 | (row.op as u32) << 23;
        for source in SCALARS {
            for literal in LITERALS {
                candidates.push(padded(&[word | 4 << 16 | 6 << 8 | source], literal));
                candidates.push(padded(&[word | 4 << 16 | source << 8 | 6], literal));
                candidates.push(padded(&[word | 4 << 16 | source << 8 | source], literal));
            }
        }
        candidates.extend(DESTINATIONS.map(|d| padded(&[word | d << 16 | 8 << 8 | 6], LITERALS[0])));
    }
    judge(isa::sop2::ROWS, &candidates);
    candidates.clear();
    for row in isa::sopc::ROWS {
        let word = 0xbf00_0000 | (row.op as u32) << 16;
        for source in SCALARS {
            for literal in LITERALS {
                candidates.push(padded(&[word | 6 << 8 | source], literal));
                candidates.push(padded(&[word | source << 8 | 6], literal));
            }
        }
    }
    judge(isa::sopc::ROWS, &candidates);
}

#[test]
fn scalar_immediates() {
    let ends = [0, 1, 2, 15, 16, 63, 64, 65, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xff9f, 0xfffe, 0xffff];
    let bits = (0..16).map(|bit| 1 << bit);
    let immediates: Vec<u32> = ends.into_iter().chain(bits).collect();
    let mut candidates = Vec::new();
    for row in isa::sopk::ROWS {
        let word = 0xb000_0000 | (row.op as u32) << 23;
        for &immediate in &immediates {
            candidates.extend(LITERALS.map(|literal| padded(&[word | 4 << 16 | immediate], literal)));
        }
        // Hardware registers, whole and in part.
        for id in 0..64 {
            candidates.push(padded(&[word | 4 << 16 | 31 << 11 | id], LITERALS[0]));
            candidates.push(padded(&[word | 4 << 16 | 3 << 11 | 5 << 6 | id], LITERALS[0]));
        }
        candidates.extend(DESTINATIONS.map(|d| padded(&[word | d << 16 | 5], LITERALS[0])));
    }
    judge(isa::sopk::ROWS, &candidates);
    candidates.clear();
    for row in isa::sopp::ROWS {
        let word = 0xbf80_0000 | (row.op as u32) << 16;
        candidates.extend(immediates.iter().map(|immediate| padded(&[word | immediate], LITERALS[0])));
        candidates.extend((0x80..0x88).map(|message| padded(&[word | message], LITERALS[0])));
    }
    judge(isa::sopp::ROWS, &candidates);
}

#[test]
fn scalar_memory() {
    let mut candidates = Vec::new();
    for row in isa::smem::ROWS {
        let word = 0xf400_0000 | (row.op as u32) << 13;
        let plain = word | 8 << 6 | 4;
        for offset in [0, 1, 4, 0x7f_ffff, 0x80_0000, 0xff_ffff] {
            for soffset in [124, 5, 106, 125] {
                candidates.push(padded(&[plain, soffset << 25 | offset], 0));
            }
        }
        for data in [0, 4, 6, 100, 106, 108, 124, 125, 126] {
            candidates.push(padded(&[word | data << 6 | 4, 124 << 25], 0));
        }
        for base in [0, 1, 2, 50, 53, 54, 60, 62] {
            candidates.push(padded(&[word | 8 << 6 | base, 124 << 25], 0));
        }
        candidates.extend((0..16).map(|cache| padded(&[plain | cache << 21, 124 << 25], 0)));
    }
    judge(isa::smem::ROWS, &candidates);
}

#[test]
fn local() {
    let mut candidates = Vec::new();
    for row in isa::ds::ROWS {
        let used = |ty: Ty, register: u32| if ty == Ty::None { 0 } else { register };
        let [address, data, second] = [(0, 1), (1, 16), (2, 32)].map(|(n, register)| used(row.s[n], register));
        let registers = used(row.d, 48) << 24 | second << 16 | data << 8 | address;
        let patterns = [
            0x8000, 0x80e4, 0x801b, 0xc000, 0xc020, 0xc7ff, 0xdfff, 0xe000, 0xe01f, 0x041f, 0x7c1f, 0x3c1f, 0x0018,
            0x001e, 0x5555,
        ];
        for offset in [0, 1, 4, 0xff, 0x100, 0x1234, 0xff00, 0xffff].into_iter().chain(patterns) {
            candidates.push(padded(&[0xd800_0000 | (row.op as u32) << 18 | offset, registers], 0));
        }
        // Each field alone set to the last registers.
        for field in 0..4 {
            let high = registers | 0xf0 << (8 * field);
            candidates.push(padded(&[0xd800_0000 | (row.op as u32) << 18, high], 0));
        }
    }
    judge(isa::ds::ROWS, &candidates);
}

/// Cache hint and scope, all of them.
fn hints() -> impl Iterator<Item = u32> {
    (0..32).map(|bits| bits << 18)
}

/// Offsets of 24 bits at their ends.
const OFFSETS: [u32; 6] = [0, 1, 0x1234, 0x7f_ffff, 0x80_0000, 0xff_ffff];

#[test]
fn global_flat_scratch() {
    let mut candidates = Vec::new();
    for row in isa::vflat::ROWS {
        let first = match row.name.split('_').next() {
            Some("flat") => 0xec00_0000,
            Some("scratch") => 0xed00_0000,
            _ => 0xee00_0000,
        } | (row.op as u32) << 14;
        let registers = 100 << 23 | 48;
        for saddr in [124, 4, 106, 108, 125, 126] {
            for sve in [0, 1 << 17] {
                candidates.extend(OFFSETS.map(|offset| padded(&[first | saddr, registers | sve, offset << 8 | 2], 0)));
                candidates.push(padded(&[first | saddr, sve, 0], 0));
            }
        }
        candidates.extend(hints().map(|hint| padded(&[first | 124, registers | hint, 2], 0)));
    }
    judge(isa::vflat::ROWS, &candidates);
}

#[test]
fn buffers() {
    let mut candidates = Vec::new();
    for row in isa::vbuffer::ROWS {
        let first = 0xc400_0000 | (row.op as u32) << 14;
        let resource = 4 << 9;
        let typed = row.name.starts_with("tbuffer");
        let format = if typed { 22 << 23 } else { 1 << 23 };
        for how in 0..4 {
            for soffset in [124, 5, 106, 125] {
                for offset in OFFSETS {
                    let second = how << 30 | format | resource | 48;
                    candidates.push(padded(&[first | soffset, second, offset << 8 | (2 * (how > 0) as u32)], 0));
                }
            }
        }
        candidates.extend(hints().map(|hint| padded(&[first | 124, hint | format | resource | 48, 0], 0)));
        candidates
            .extend([0, 100, 104, 106, 108, 112, 120, 124].map(|r| padded(&[first | 124, format | r << 9 | 48, 0], 0)));
        // The bit of tfe, with registers at the end of the file too.
        candidates.extend(
            [48, 251, 252, 253, 254, 255].map(|d| padded(&[first | 1 << 22 | 124, format | resource | d, 0], 0)),
        );
        if typed {
            candidates.extend((0..128).map(|code| padded(&[first | 124, code << 23 | resource | 48, 0], 0)));
        }
    }
    judge(isa::vbuffer::ROWS, &candidates);
}

/// Sources of the packed formats: vector and scalar registers, constants of either kind, 1/2π, a literal.
const SOURCES: [u32; 12] = [256 + 8, 6, 106, 125, 253, 128, 192, 193, 208, 242, 248, 255];

fn packed_forms(row: &Row, candidates: &mut Vec<Vec<u32>>) {
    let first = 0xcc00_4000 | (row.op as u32) << 16 | 64;
    let count = row.s.iter().filter(|&&ty| ty != Ty::None).count();
    let plain: [u32; 3] = std::array::from_fn(|n| if n < count { 256 + 8 + 8 * n as u32 } else { 0 });
    let second = |codes: [u32; 3]| 3 << 27 | codes[0] | codes[1] << 9 | codes[2] << 18;
    for n in 0..count {
        for source in SOURCES {
            let mut codes = plain;
            codes[n] = source;
            candidates.extend(LITERALS.map(|literal| padded(&[first, second(codes)], literal)));
        }
    }
    // Each modifier alone, and all of a kind; beside registers, DPP16 and DPP8.
    let bits = [8, 9, 10, 11, 12, 13, 15].map(|bit| (1u32 << bit, 0u32));
    let high = [29, 30, 31].map(|bit| (0, 1 << bit));
    let kinds = [(0, 0), (7 << 8, 7 << 29), (7 << 11, 0), (3 << 11, 0)];
    for (low, high) in bits.into_iter().chain(high).chain(kinds) {
        candidates.push(padded(&[first | low, second(plain) | high], LITERALS[0]));
        for (source, control) in [(250, 0xff00_1b08), (250, 0x3709_5308), (233, 0x0539_7708), (234, 0x0539_7708)] {
            candidates.push(padded(&[first | low, second([source, plain[1], plain[2]]) | high, control], LITERALS[0]));
        }
    }
    // op_sel_hi, each of its values.
    for value in 0..8u32 {
        let word = first & !0x4000 | (value >> 2) << 14;
        candidates.push(padded(&[word, second(plain) & !(3 << 27) | (value & 3) << 27], LITERALS[0]));
    }
}

#[test]
fn packed() {
    let mut candidates = Vec::new();
    for row in isa::vop3p::ROWS {
        packed_forms(row, &mut candidates);
    }
    judge(isa::vop3p::ROWS, &candidates);
}
