//! The fast paths against the general one. With all lanes on, an instruction takes whichever short way there is for its operands and
//! addresses; with half of them it goes the general way, lane by lane. What works lane by lane must leave the same registers, LDS and
//! memory in two halves as in one whole. What exchanges lanes or writes scalars has no halves and is judged elsewhere.

use crate::opcodes::Random;
use emulator::Memory;
use emulator::isa::{self, Format, Inst, Src, Ty};
use emulator::wave::{Cx, EXEC, LaunchInfo, Lds, NULL, Registers, Wave};
use std::collections::BTreeMap;

/// First word and its free bits, per format; memory formats take their scalar address from s[4:5] or from nowhere.
const FORMATS: [(u32, u32); 12] = [
    (0x0000_0000, 0x7fff_ffff),
    (0x7e00_0000, 0x01ff_ffff),
    (0xd400_0000, 0x03ff_ffff),
    (0xd613_0000, 0x0000_80ff), // `v_fma_f32`, which has no short form
    (0xcc00_0000, 0x00ff_ffff),
    (0xc800_0000, 0x03ff_ffff),
    (0xd800_0000, 0x03fc_00ff),
    (0xd800_0000, 0x03fc_00ff), // twice: many of them do not use all fields
    (0xec00_007c, 0x003f_c000),
    (0xee00_0004, 0x003f_c000),
    (0xee00_007c, 0x003f_c000),
    (0xed00_007c, 0x003f_c000),
];
/// Bytes of the one allocation.
const BYTES: u64 = 8192;
/// Instructions of each kind that must have run to their end.
const ENOUGH: usize = 5;

/// What an instruction can change.
#[derive(Debug, PartialEq, Eq)]
struct State {
    vgpr: Box<Registers>,
    sgpr: [u32; 128],
    lds: Vec<u32>,
    scratch: Vec<u32>,
    memory: Vec<u8>,
}

/// Runs `inst` under each of `masks`, one after the other, on a wave that `seed` fills.
fn run(inst: &Inst, seed: u64, masks: &[u32]) -> Option<State> {
    let mut random = Random(seed);
    let mut memory = Memory::new(1 << 20);
    let base = memory.alloc(BYTES).expect("small");
    let bytes: Vec<u8> = (0..BYTES).map(|_| random.next() as u8).collect();
    memory.write(base, &bytes).expect("inside");
    // Most registers hold offsets that rise by a lane's bytes, or by something else, or lie anywhere at multiples of 16; some pairs are
    // whole addresses.
    let mut vgpr = Box::new(Registers([[0; 32]; 256]));
    let addresses = random.below(2) == 0;
    for (register, lanes) in vgpr.iter_mut().enumerate() {
        let stride = [0, 4, 8, 12, 16, 2, 20][random.below(7) as usize];
        let first = 4 * random.below(64) + [0, 0, 0, 1][random.below(4) as usize];
        let kind = random.below(8);
        for (lane, value) in lanes.iter_mut().enumerate() {
            let offset = if kind == 2 { 16 * random.below(32) } else { first + stride * lane as u32 };
            *value = match kind {
                0 => random.next(),
                1 => 4 * random.below(256),
                _ if addresses && register % 2 == 1 => (base >> 32) as u32,
                _ if addresses => base as u32 + offset,
                _ => offset,
            };
        }
    }
    let mut sgpr = [0; 128];
    sgpr.iter_mut().for_each(|value| *value = random.next());
    (sgpr[4], sgpr[5], sgpr[NULL as usize]) = (base as u32, (base >> 32) as u32, 0);
    let mut wave = Wave {
        pc: 0x1000,
        sgpr,
        scc: false,
        mode: 0xf0,
        vgpr,
        scratch: (0..64 * 32).map(|_| random.next()).collect(),
        scratch_bytes: 256,
        index: 0,
        executed: 0,
        signalled: false,
    };
    let mut lds = Lds { words: (0..512).map(|_| random.next()).collect(), bytes: 2048 };
    let launch = LaunchInfo { grid: [1; 3], block: [32, 1, 1], code_start: 0x1000, code_end: 0x2000 };
    for &mask in masks {
        wave.sgpr[EXEC as usize] = mask;
        let (arch, workgroup, memory) = (emulator::arch::Arch::new(), [0; 3], &memory);
        let cx = &mut Cx { wave: &mut wave, lds: &mut lds, memory, launch: &launch, workgroup, arch, watch: None };
        (inst.row.exec)(cx, inst).ok()?;
    }
    wave.sgpr[EXEC as usize] = 0;
    let mut after = vec![0; BYTES as usize];
    memory.read(base, &mut after).expect("inside");
    Some(State { vgpr: wave.vgpr, sgpr: wave.sgpr, lds: lds.words, scratch: wave.scratch, memory: after })
}

/// Whether an instruction treats each lane by itself and writes no scalar.
fn by_lane(inst: &Inst) -> bool {
    // Those of several steps, each for all lanes, have no halves where the lanes' bytes overlap.
    const EXCHANGES: [&str; 12] = [
        "lane",
        "wmma",
        "swmmac",
        "_tr_",
        "permute",
        "swizzle",
        "ds_append",
        "ds_consume",
        "v_cmp",
        "store_block",
        "store_2addr",
        "storexchg_2addr",
    ];
    let name = inst.row.name;
    let reads_exec = |half: &Inst| half.src.iter().any(|src| matches!(src, Src::Sgpr(EXEC | 127)));
    inst.dpp.is_none()
        && !reads_exec(inst)
        && !inst.second.as_deref().is_some_and(reads_exec)
        && inst.row.d != Ty::Mask
        && (inst.sdst == NULL || inst.format == Format::Vopd)
        && !EXCHANGES.iter().any(|part| name.contains(part))
        && !(name.starts_with("v_s_"))
        && !name.contains("rel")
}

fn is_float(inst: &Inst) -> bool {
    let float = |inst: &Inst| matches!(inst.row.d, Ty::F16 | Ty::Bf16 | Ty::PkF16 | Ty::PkBf16 | Ty::F32 | Ty::F64);
    float(inst) || inst.second.as_deref().is_some_and(float)
}

/// Whether both are NaN, as f32 or high half of an f64, or differ only in halves that are. Of two NaN operands either may come out.
fn both_nan(a: u32, b: u32) -> bool {
    let wide = |x: u32| x & 0x7fff_ffff > 0x7f80_0000 || x & 0x7ff0_0000 == 0x7ff0_0000;
    let half = |a: u32, b: u32| a == b || a & 0x7fff > 0x7c00 && b & 0x7fff > 0x7c00;
    wide(a) && wide(b) || half(a & 0xffff, b & 0xffff) && half(a >> 16, b >> 16)
}

#[test]
fn a_whole_wave_does_what_its_halves_do() {
    let mut random = Random(7);
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in 0..400_000u64 {
        let (base, free) = FORMATS[random.below(FORMATS.len() as u32) as usize];
        let mut words = [base | random.next() & free, random.next(), random.next(), random.next()];
        // Fields that an instruction does not use must be 0.
        if base >> 24 >= 0xec {
            let used = [0x0000_00ff, 0x7f80_0000, 0x7f80_00ff][random.below(3) as usize];
            words[1] &= used;
            words[2] &= 0x0000_3cff;
        }
        if base >> 26 == 0b110110 {
            words[0] &= !0xff00;
            words[1] &= [0xff00_00ff, 0x0000_ffff, 0x00ff_ffff, 0xff00_ffff][random.below(4) as usize];
        }
        let Ok(inst) = isa::decode(&words) else { continue };
        if !by_lane(&inst) {
            continue;
        }
        let Some(whole) = run(&inst, turn, &[u32::MAX]) else { continue };
        *met.entry(inst.row.name).or_default() += 1;
        let halves = run(&inst, turn, &[0x0000_ffff, 0xffff_0000]);
        let text = isa::text(&inst, 0);
        let halves = halves.unwrap_or_else(|| panic!("`{text}`, seed {turn}: a half faults, the whole does not"));
        for register in 0..256 {
            for lane in 0..32 {
                let (a, b) = (whole.vgpr[register][lane], halves.vgpr[register][lane]);
                let same = a == b || is_float(&inst) && both_nan(a, b);
                assert!(same, "`{text}`, seed {turn}, v{register} lane {lane}: {a:#x} whole, {b:#x} in halves");
            }
        }
        let rest = |state: State| (state.sgpr, state.lds, state.scratch, state.memory);
        assert!(rest(whole) == rest(halves), "`{text}`, seed {turn}: scalars, LDS, scratch or memory differ");
    }
    for name in [
        "v_lshlrev_b32",
        "v_fma_f32",
        "v_add_f32",
        "v_dual_fmac_f32",
        "v_cndmask_b32",
        "global_load_b128",
        "global_load_b32",
        "global_store_b128",
        "global_load_u16",
        "ds_load_b128",
        "ds_store_b128",
        "ds_store_b64",
        "ds_load_2addr_b64",
        "flat_load_b64",
        "scratch_load_b128",
    ] {
        let times = met.get(name).copied().unwrap_or(0);
        assert!(times >= ENOUGH, "{name} ran {times} times, {ENOUGH} are wanted");
    }
}
