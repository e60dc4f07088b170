//! The whole opcode space of every format: for each opcode a number of encodings with varied operands and modifiers. LLVM and our
//! decoder must agree whether they are instructions, and on the text; what LLVM assembles from the text must decode to the same text;
//! and every row of our tables must have been met. Of graphics only the mnemonics are compared.

use crate::llvm::{self, Verdict};
use emulator::isa::{self, Row};
use std::collections::BTreeSet;

/// Operands that LLVM knows and this emulator refuses.
const REFUSED_OPERANDS: &[&str] = &["src_lds_direct", "src_vccz", "src_execz"];
/// Forms that LLVM reads and the manual excludes, by our message.
const REFUSED_FORMS: &[&str] = &["a literal and DPP exclude each other"];
/// LLVM 22 loses the last selector of `quad_perm` in these (or refuses them for it), though it assembles them rightly; in the last it
/// prints an inline constant as the number of its code.
const MISREAD: &[&str] = &[
    "v_cvt_pk_fp8_f32_e64_dpp",
    "v_cvt_pk_bf8_f32_e64_dpp",
    "v_fma_mixlo_f16_e64_dpp",
    "v_fma_mixhi_f16_e64_dpp",
    "v_fmac_f16_e64_dpp",
];
/// Encodings tried for each opcode.
const VARIANTS: usize = 40;

/// A small generator, so that every run tries the same encodings.
pub struct Random(pub u64);

impl Random {
    /// The next 32 bits (splitmix64).
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
    }
    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
    fn one_of(&mut self, list: &[u32]) -> u32 {
        list[self.below(list.len() as u32) as usize]
    }
    /// A vector register far enough from the end for every operand type.
    fn vgpr(&mut self) -> u32 {
        self.below(200)
    }
    /// A scalar register that may start a group of up to sixteen.
    fn sgpr(&mut self) -> u32 {
        let group = self.below(5) * 16;
        self.one_of(&[0, 4, 8, 16, 32, group, 106, 108, 112])
    }
    fn sdst(&mut self) -> u32 {
        let any = self.sgpr();
        self.one_of(&[any, any, any, 124, 125, 126])
    }
    fn constant(&mut self) -> u32 {
        let integer = 128 + self.below(81);
        let float = 240 + self.below(9);
        self.one_of(&[integer, float, 128, 129, 193, 242, 248])
    }
    /// An 8-bit scalar source.
    fn ssrc(&mut self) -> u32 {
        let (any, constant) = (self.sgpr(), self.constant());
        self.one_of(&[any, any, any, constant, constant, 124, 125, 126, 235, 236, 237, 238, 253, 255])
    }
    /// A 9-bit vector source.
    fn src(&mut self) -> u32 {
        let (register, scalar) = (256 + self.vgpr(), self.ssrc());
        self.one_of(&[register, register, register, scalar, scalar])
    }
    /// Bits that are often 0.
    fn rare(&mut self, bits: u32) -> u32 {
        if self.below(3) == 0 { self.next() & ((1 << bits) - 1) } else { 0 }
    }
    /// A literal: often one that could have been an inline constant.
    fn literal(&mut self) -> u32 {
        let any = self.next();
        self.one_of(&[any, any, 5, 0x3f80_0000, 0x3c00, 0xffff_fff0, 0x3f80, 0x4000_0000, 0x3e22_f983, 0x3118, 64, 65])
    }
}

fn misread(text: &str) -> bool {
    MISREAD.iter().any(|name| text.starts_with(name))
}

type Make = fn(u32, &mut Random) -> Vec<u32>;

/// A number of encodings for each opcode.
fn encodings(opcodes: u32, make: Make) -> Vec<Vec<u32>> {
    let mut random = Random(opcodes as u64 * 7919);
    let mut candidates = Vec::new();
    for op in 0..opcodes {
        for _ in 0..VARIANTS {
            let mut words = make(op, &mut random);
            words.resize(4, random.literal());
            candidates.push(words);
        }
    }
    candidates
}

fn check(rows: &'static [Row], opcodes: u32, make: Make) {
    judge(rows, &encodings(opcodes, make));
}

/// Holds our decoder against LLVM on each candidate (four dwords each), and asks that every row was met.
pub fn judge(rows: &'static [Row], candidates: &[Vec<u32>]) {
    let verdicts = llvm::disassemble(candidates);
    let mut wrong = Vec::new();
    let mut refusals = Vec::new();
    let mut met: BTreeSet<(&str, u16)> = BTreeSet::new();
    let mut texts = BTreeSet::new();
    for (words, verdict) in candidates.iter().zip(verdicts) {
        let shown: Vec<String> = words.iter().map(|w| format!("{w:08x}")).collect();
        let shown = shown.join(" ");
        match (isa::decode(words), verdict) {
            (_, Verdict::Crashed) | (Err(_), Verdict::Refused) => {}
            (Err(error), Verdict::Listed(listed)) => {
                let error = error.to_string();
                let refused = REFUSED_OPERANDS.iter().any(|name| listed.text.contains(name))
                    || REFUSED_FORMS.iter().any(|form| error.contains(form));
                if !refused && words.starts_with(&listed.words) {
                    refusals.push((shown, listed, error));
                }
            }
            (Ok(inst), Verdict::Refused) => {
                let text = isa::text(&inst, 0);
                if !misread(&text) {
                    wrong.push(format!("{shown}: LLVM refuses it, we print `{text}`"));
                }
            }
            (Ok(inst), Verdict::Listed(listed)) => {
                met.insert((inst.row.name, inst.row.op));
                met.extend(inst.second.iter().map(|second| (second.row.name, second.row.op)));
                let text = isa::text(&inst, 0);
                if misread(&text) {
                    continue;
                }
                if text != listed.text {
                    wrong.push(format!("{shown}: LLVM prints `{}`, we print `{text}`", listed.text));
                } else if words.starts_with(&listed.words) && inst.dwords as usize != listed.words.len() {
                    // Where LLVM would encode its text otherwise, `listed.words` are not the words that it read.
                    wrong.push(format!("{shown}: `{text}` has {} dwords, not {}", listed.words.len(), inst.dwords));
                } else {
                    texts.insert(text);
                }
            }
        }
    }
    // LLVM reads past fields that an instruction does not have, and prints the instruction without them. We may refuse such words: LLVM
    // itself would encode what it prints differently, or refuse to assemble it.
    let texts_of_refusals: Vec<String> = refusals.iter().map(|(_, listed, _)| listed.text.clone()).collect();
    for ((shown, listed, error), assembled) in refusals.iter().zip(llvm::assemble(&texts_of_refusals)) {
        if assembled.is_ok_and(|words| words == listed.words) {
            wrong.push(format!("{shown}: LLVM prints `{}`, we say: {error}", listed.text));
        }
    }
    for row in rows {
        if !met.contains(&(row.name, row.op)) {
            wrong.push(format!("{} (opcode {}) was never met: LLVM does not know it there", row.name, row.op));
        }
    }
    let texts: Vec<String> = texts.into_iter().collect();
    // What LLVM prints and will not read again (reserved field values) cannot make a round trip.
    let assembled: Vec<Vec<u32>> = llvm::assemble(&texts).into_iter().flatten().collect();
    for (words, verdict) in assembled.iter().zip(llvm::disassemble(&assembled)) {
        let text = isa::decode(words).map(|inst| isa::text(&inst, 0)).unwrap_or_else(|e| e.to_string());
        match verdict {
            Verdict::Listed(listed) if listed.text != text => {
                wrong.push(format!("assembled again, LLVM prints `{}`, we print `{text}`", listed.text));
            }
            _ => {}
        }
    }
    let shown = wrong.len().min(60);
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), candidates.len(), wrong[..shown].join("\n"));
}

fn sop1_words(op: u32, r: &mut Random) -> Vec<u32> {
    let source = r.ssrc();
    // llvm-mc 22 crashes on a literal as the number of a barrier.
    let source = if (78..=83).contains(&op) && source == 255 { 193 } else { source };
    vec![0xbe80_0000 | r.sdst() << 16 | op << 8 | source]
}

#[test]
fn sop1() {
    check(isa::sop1::ROWS, 256, sop1_words);
}

fn sop2_words(op: u32, r: &mut Random) -> Vec<u32> {
    vec![0x8000_0000 | op << 23 | r.sdst() << 16 | r.ssrc() << 8 | r.ssrc()]
}

#[test]
fn sop2() {
    // Opcodes from 96 on begin SOPK, SOP1, SOPC and SOPP.
    check(isa::sop2::ROWS, 96, sop2_words);
}

fn sopc_words(op: u32, r: &mut Random) -> Vec<u32> {
    vec![0xbf00_0000 | op << 16 | r.ssrc() << 8 | r.ssrc()]
}

#[test]
fn sopc() {
    check(isa::sopc::ROWS, 128, sopc_words);
}

fn sopk_words(op: u32, r: &mut Random) -> Vec<u32> {
    vec![0xb000_0000 | op << 23 | r.sdst() << 16 | r.next() & 0xffff]
}

#[test]
fn sopk() {
    // Opcodes 29 to 31 are SOP1, SOPC and SOPP.
    check(isa::sopk::ROWS, 29, sopk_words);
}

fn sopp_words(op: u32, r: &mut Random) -> Vec<u32> {
    let any = r.next() & 0xffff;
    vec![0xbf80_0000 | op << 16 | r.one_of(&[any, any & 0xff, any & 7, 0, 0xffff])]
}

#[test]
fn sopp() {
    check(isa::sopp::ROWS, 128, sopp_words);
}

fn smem_words(op: u32, r: &mut Random) -> Vec<u32> {
    let offset = r.next() & 0xff_ffff;
    let soffset = r.one_of(&[124, 124, 5, 106, 125]);
    let cache = r.rare(4) << 21;
    vec![0xf400_0000 | cache | op << 13 | r.sdst() << 6 | r.sgpr() >> 1, soffset << 25 | r.one_of(&[0, offset, 8])]
}

#[test]
fn smem() {
    check(isa::smem::ROWS, 64, smem_words);
}

/// The dword after an instruction for a 9-bit source code: DPP16, DPP8 or anything.
fn dpp_or_source(r: &mut Random) -> (u32, Option<u32>) {
    match r.below(6) {
        0 => {
            let ctrl = r.below(0x180);
            let flags = r.next() & 0xfff0_0000 | r.rare(2) << 18;
            (250, Some(r.vgpr() | ctrl << 8 | flags & !0x00f0_0000))
        }
        1 => (r.one_of(&[233, 234]), Some(r.vgpr() | r.next() << 8)),
        _ => (r.src(), None),
    }
}

fn vop1_words(op: u32, r: &mut Random) -> Vec<u32> {
    // `v_nop` and `v_pipeflush` want all fields to be 0.
    if matches!(op, 0 | 27) {
        return vec![0x7e00_0000 | op << 9];
    }
    let (src, dpp) = dpp_or_source(r);
    [vec![0x7e00_0000 | r.vgpr() << 17 | op << 9 | src], Vec::from_iter(dpp)].concat()
}

#[test]
fn vop1() {
    check(isa::vop1::ROWS, 256, vop1_words);
}

fn vop2_words(op: u32, r: &mut Random) -> Vec<u32> {
    let (src, dpp) = dpp_or_source(r);
    [vec![op << 25 | r.vgpr() << 17 | r.vgpr() << 9 | src], Vec::from_iter(dpp)].concat()
}

#[test]
fn vop2() {
    // Opcodes 62 and 63 are VOPC and VOP1.
    check(isa::vop2::ROWS, 62, vop2_words);
}

fn vopc_words(op: u32, r: &mut Random) -> Vec<u32> {
    let (src, dpp) = dpp_or_source(r);
    [vec![0x7c00_0000 | op << 17 | r.vgpr() << 9 | src], Vec::from_iter(dpp)].concat()
}

#[test]
fn vopc() {
    check(isa::vopc::ROWS, 256, vopc_words);
}

fn vop3_words(op: u32, r: &mut Random) -> Vec<u32> {
    let op = op & 1023;
    let (src, dpp) = dpp_or_source(r);
    let modifiers = r.rare(8) << 8;
    // `v_cmpx` writes EXEC and nothing else.
    let destination = if (128..256).contains(&op) { 126 } else { r.one_of(&[4, 8, 12, 40]) };
    let first = 0xd400_0000 | op << 16 | modifiers | destination;
    // Fields of sources that an instruction does not have want to be 0.
    let sources = r.below(3);
    let src1 = if sources > 0 { r.src() } else { 0 };
    let src2 = if sources > 1 { r.src() } else { 0 };
    [vec![first, r.rare(5) << 27 | src2 << 18 | src1 << 9 | src], Vec::from_iter(dpp)].concat()
}

#[test]
fn vop3() {
    // Three rounds: some instructions take few of the operands tried.
    check(isa::vop3::ROWS, 3 * 1024, vop3_words);
}

fn vop3p_words(op: u32, r: &mut Random) -> Vec<u32> {
    let (src, dpp) = dpp_or_source(r);
    // Matrix operations take registers and the default op_sel_hi; half of the tries are such.
    let registers = r.below(2) == 0;
    let src = if registers && dpp.is_none() { 256 + r.vgpr() } else { src };
    let src1 = if registers { 256 + r.vgpr() } else { r.src() };
    let src2 = match r.below(4) {
        0 => r.constant(),
        1 => 0,
        _ => 256 + r.vgpr(),
    };
    let low = r.rare(3) << 8 | r.rare(3) << 11 | r.rare(1) << 15;
    let op_sel_hi = if r.below(3) == 0 { r.below(8) } else { 7 };
    let first = 0xcc00_0000 | op << 16 | low | (op_sel_hi >> 2) << 14 | r.vgpr();
    let high = (op_sel_hi & 3) << 27 | r.rare(3) << 29;
    [vec![first, high | src2 << 18 | src1 << 9 | src], Vec::from_iter(dpp)].concat()
}

#[test]
fn vop3p() {
    check(isa::vop3p::ROWS, 128, vop3p_words);
}

fn vopd_words(op: u32, r: &mut Random) -> Vec<u32> {
    let (opx, opy) = (op & 15, op >> 4);
    // `v_dual_mov_b32` wants its second source field to be 0.
    let [x, y] = [opx, opy].map(|op| if op == 8 { 0 } else { r.vgpr() });
    let first = 0xc800_0000 | opx << 22 | opy << 17 | x << 9 | r.src();
    vec![first, r.vgpr() << 24 | r.below(128) << 17 | y << 9 | r.src()]
}

#[test]
fn vopd() {
    check(isa::vopd::ROWS, 16 * 32, vopd_words);
}

fn ds_words(op: u32, r: &mut Random) -> Vec<u32> {
    // `ds_nop` wants all fields to be 0.
    if op == 20 {
        return vec![0xd800_0000 | op << 18, 0];
    }
    let offset = r.next() & 0xffff;
    let first = 0xd800_0000 | op << 18 | r.one_of(&[0, offset, offset, offset & 0xff, 0xff00 & offset]);
    // LLVM wants unused register fields to be 0.
    let fields = r.below(16);
    let mut field = |bit: u32| if fields >> bit & 1 != 0 { r.vgpr() } else { 0 };
    vec![first, field(0) | field(1) << 8 | field(2) << 16 | field(3) << 24]
}

#[test]
fn ds() {
    check(isa::ds::ROWS, 256, ds_words);
}

fn memory(base: u32, op: u32, r: &mut Random) -> Vec<u32> {
    let offset = r.next() & 0xff_ffff;
    let offset = r.one_of(&[0, offset, 16]);
    let pair = 2 * r.below(50);
    let saddr = if base == 0xec { 124 } else { r.one_of(&[124, 124, pair, 106]) };
    let sve = (base == 0xed) as u32 * r.below(2);
    let second = r.vgpr() | sve << 17 | r.rare(5) << 18 | r.vgpr() << 23;
    vec![base << 24 | op << 14 | saddr, second, r.vgpr() | offset << 8]
}

fn flat_words(op: u32, r: &mut Random) -> Vec<u32> {
    memory(0xec, op, r)
}

#[test]
fn flat() {
    check(&[], 256, flat_words);
}

fn global_words(op: u32, r: &mut Random) -> Vec<u32> {
    memory(0xee, op, r)
}

#[test]
fn global() {
    check(&[], 256, global_words);
}

fn scratch_words(op: u32, r: &mut Random) -> Vec<u32> {
    memory(0xed, op, r)
}

#[test]
fn scratch() {
    check(&[], 256, scratch_words);
}

fn vflat_rows_words(op: u32, r: &mut Random) -> Vec<u32> {
    memory([0xec, 0xed, 0xee][op as usize / 256], op % 256, r)
}

#[test]
fn vflat_rows() {
    check(isa::vflat::ROWS, 768, vflat_rows_words);
}

fn vbuffer_words(op: u32, r: &mut Random) -> Vec<u32> {
    let offset = r.next() & 0x7f_ffff;
    let soffset = r.one_of(&[124, 124, 5, 106, 125]);
    let format = if op >= 128 { r.below(64) << 23 } else { 0 };
    let first = 0xc400_0000 | op << 14 | soffset;
    let second = r.vgpr() | (4 * r.below(20)) << 9 | r.rare(5) << 18 | format | r.rare(2) << 30;
    vec![first, second, r.vgpr() | r.one_of(&[0, offset, 16]) << 8]
}

#[test]
fn vbuffer() {
    check(isa::vbuffer::ROWS, 256, vbuffer_words);
}

/// Encodings of all formats of graphics.
fn graphics_words() -> Vec<Vec<u32>> {
    let mut random = Random(2);
    let mut candidates = Vec::new();
    for op in 0..256 * VARIANTS as u32 {
        let op = op % 256;
        let r = &mut random;
        // The fields of an image: dmask, dimension, 16-bit addresses, 128-bit resources.
        let (mask, dim) = (r.one_of(&[1, 3, 8, 15, 15, 15]), r.one_of(&[0, 1, 2, 3, 5, 6, 7, 0x10, 0x40, 0x50]));
        let (resource, sampler) = (r.below(12) * 8, r.one_of(&[124, 0, 4, 8, 16]));
        let second = r.vgpr() | resource << 9 | sampler << 23;
        let addresses = r.next() & 0x3f3f_3f3f & r.one_of(&[0xff, 0xffff, 0xff_ffff, u32::MAX]);
        candidates.push(vec![0xd000_0000 | mask << 22 | op << 14 | dim, second & !0xff80_0000, addresses]);
        candidates.push(vec![0xe400_0000 | mask << 22 | op << 14 | dim, second, addresses]);
        candidates.push(vec![0xf800_0000 | (op & 63) << 4 | mask, r.next()]);
        let registers = (256 + r.vgpr()) | (256 + r.vgpr()) << 9 | (256 + r.vgpr()) << 18;
        candidates.push(vec![0xcd00_0000 | (op & 127) << 16 | r.vgpr(), registers]);
        candidates.push(vec![0xce00_0000 | (op & 15) << 20 | r.next() & 0xf_ffff]);
    }
    for words in &mut candidates {
        words.resize(4, 0xbf80_0000);
    }
    candidates
}

/// Graphics: each mnemonic that LLVM knows is a row of ours, at the same opcode and with the same size, and traps by that name.
#[test]
fn graphics() {
    let candidates = graphics_words();
    let mut met = BTreeSet::new();
    for (words, verdict) in candidates.iter().zip(llvm::disassemble(&candidates)) {
        let Verdict::Listed(listed) = verdict else { continue };
        // What it prints is encoded again, without fields that the instruction does not use: only its size can be compared.
        if listed.text.starts_with("s_nop") {
            continue;
        }
        let name = listed.text.split(' ').next().expect("a mnemonic");
        let inst = isa::decode(words).unwrap_or_else(|e| panic!("{words:08x?}, LLVM's `{}`: {e}", listed.text));
        assert_eq!(inst.row.name, name, "{words:08x?}");
        assert_eq!(inst.dwords as usize, listed.words.len(), "{words:08x?} {name}");
        met.insert((inst.row.name, inst.row.op));
    }
    for row in isa::graphics::ROWS {
        assert!(met.contains(&(row.name, row.op)), "{} (opcode {}) was never met", row.name, row.op);
    }
}

/// A format's name, and encodings over its opcode space.
pub fn sweeps() -> Vec<(&'static str, Vec<Vec<u32>>)> {
    let spaces: [(&str, u32, Make); 16] = [
        ("SOP1", 256, sop1_words),
        ("SOP2", 96, sop2_words),
        ("SOPC", 128, sopc_words),
        ("SOPK", 29, sopk_words),
        ("SOPP", 128, sopp_words),
        ("SMEM", 64, smem_words),
        ("VOP1", 256, vop1_words),
        ("VOP2", 62, vop2_words),
        ("VOPC", 256, vopc_words),
        ("VOP3", 3 * 1024, vop3_words),
        ("VOP3P", 128, vop3p_words),
        ("VOPD", 16 * 32, vopd_words),
        ("DS", 256, ds_words),
        ("VFLAT, VGLOBAL, VSCRATCH", 768, vflat_rows_words),
        ("VBUFFER", 256, vbuffer_words),
        ("VIMAGE, VSAMPLE, VEXPORT, VINTERP, VDSDIR", 0, sop1_words),
    ];
    spaces
        .map(|(name, opcodes, make)| (name, if opcodes == 0 { graphics_words() } else { encodings(opcodes, make) }))
        .into()
}
