//! Nothing panics: random words through decoder and disassembler, and what decodes through the executor on a wave full of random
//! registers.

use crate::execute;
use emulator::Memory;
use emulator::isa;
use emulator::wave::{EXEC, Lds, NULL, Registers, Wave};
use proptest::prelude::*;
use zynfer_tests::random;

fn words() -> impl Strategy<Value = Vec<u32>> {
    (0..random::FORMATS.len(), prop::collection::vec(any::<u32>(), 1..5), 0usize..4).prop_map(
        |(format, mut words, register)| {
            random::shape(&mut words, format, register);
            words
        },
    )
}

fn wave(seed: u64, base: u64) -> Wave {
    let mut random = crate::opcodes::Random(seed);
    let interesting = [0, 1, u32::MAX, 0x7fc0_0000, 0x7f80_0001, 0x8000_0000, 0x3f80_0000, 4, 64, 0x0001_0000];
    let mut value = || match random.below(4) {
        0 => interesting[random.below(interesting.len() as u32) as usize],
        1 => (base >> 32) as u32,
        2 => base as u32 + random.below(300),
        _ => random.next(),
    };
    let mut vgpr = Box::new(Registers([[0; 32]; 256]));
    for lanes in vgpr.iter_mut() {
        // One kind of value for the whole register now and then, so that address pairs are often valid.
        let same = value();
        let spread = value();
        for (lane, v) in lanes.iter_mut().enumerate() {
            *v = if spread & 1 == 0 { same } else { same.wrapping_add(lane as u32 * 4) };
        }
    }
    let mut sgpr = [0; 128];
    for v in &mut sgpr {
        *v = value();
    }
    sgpr[NULL as usize] = 0;
    if seed.is_multiple_of(2) {
        sgpr[EXEC as usize] = u32::MAX;
    }
    let mode = if seed.is_multiple_of(3) { value() } else { 0xf0 };
    Wave {
        pc: 0x1000,
        sgpr,
        scc: seed.is_multiple_of(5),
        mode,
        vgpr,
        scratch: vec![7; 64 / 4 * 32],
        scratch_bytes: 64,
        index: 0,
        executed: 0,
        signalled: seed.is_multiple_of(7),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_words_panic(words in words(), seed in any::<u64>()) {
        if let Ok(inst) = isa::decode(&words) {
            let text = isa::text(&inst, 0x1000);
            prop_assert!(!text.is_empty());
            prop_assert!(inst.dwords as usize <= words.len());
            let mut memory = Memory::new(1 << 20);
            let base = memory.alloc(1000).expect("small");
            let mut lds = Lds { words: vec![9; 64], bytes: 255 };
            let mut wave = wave(seed, base);
            // A typed fault is as good as a result.
            let _ = execute(&inst, &mut wave, &mut lds, &memory);
            prop_assert_eq!(wave.sgpr[NULL as usize], 0, "null was written by {}", text);
        }
    }
}
