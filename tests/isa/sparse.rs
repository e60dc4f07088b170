//! SWMMAC against plain loops: operands are laid out element by element as AMD's matrix calculator says (element → register and lane),
//! the product is summed in integers. Rows of `.ins` cannot hold such tiles.

use crate::opcodes::Random;
use emulator::Memory;
use emulator::isa;
use emulator::wave::{Cx, LaunchInfo, Lds, Wave};

/// A wave with all registers 0 and MODE as at a launch; EXEC is 0, which matrices ignore.
fn wave() -> Wave {
    Wave {
        pc: 0x1000,
        sgpr: [0; 128],
        scc: false,
        mode: 0xf0,
        vgpr: Box::new([[0; 32]; 256]),
        scratch: Vec::new(),
        scratch_bytes: 0,
        index: 0,
        executed: 0,
        signalled: false,
    }
}

/// `v_swmmac_f32_16x16x32_f16 v[24:31], v[0:3], v[4:11], v12`, with and without `index_key:1`.
#[test]
fn f16_operands_lie_where_the_calculator_says() {
    let half = |value: i32| half::f16::from_f32(value as f32).to_bits() as u32;
    for key in [0u32, 1] {
        let mut random = Random(17 + key as u64);
        let mut wave = wave();
        let (mut a, mut b) = ([[0i32; 32]; 16], [[0i32; 16]; 32]);
        for i in 0..16 {
            for group in 0..8 {
                // Two different places of each four k, in ascending order.
                let first = random.below(3);
                let places = [first, first + 1 + random.below(3 - first)];
                let k = 4 * group;
                let (register, lane) = (2 * (k / 16) + k / 4 % 2, 16 * (k / 8 % 2) + i);
                for (n, place) in places.into_iter().enumerate() {
                    let value = random.below(9) as i32 - 4;
                    a[i][k + place as usize] = value;
                    wave.vgpr[register][lane] |= half(value) << (16 * n);
                    let bit = 8 * (k as u32 / 16) + 4 * (k as u32 / 4 % 2) + 2 * n as u32 + 16 * key;
                    wave.vgpr[12][lane] |= place << bit;
                }
            }
        }
        for (k, row) in b.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                *value = random.below(9) as i32 - 4;
                let (register, lane) = (4 + 4 * (k / 16) + k / 2 % 4, 16 * (k / 8 % 2) + j);
                wave.vgpr[register][lane] |= half(*value) << (16 * (k % 2));
            }
        }
        let c = |i: usize, j: usize| (i * 16 + j) as f32;
        for i in 0..16 {
            for j in 0..16 {
                wave.vgpr[24 + i % 8][16 * (i / 8) + j] = c(i, j).to_bits();
            }
        }
        let words = [0xcc50_4018 | key << 11, 0x1c32_0900];
        let inst = isa::decode(&words).expect("an instruction");
        assert!(isa::text(&inst, 0).starts_with("v_swmmac_f32_16x16x32_f16 v[24:31], v[0:3], v[4:11], v12"));
        let launch = LaunchInfo { grid: [1; 3], block: [32, 1, 1], code_start: 0x1000, code_end: 0x2000 };
        let (memory, mut lds) = (Memory::new(0), Lds { words: Vec::new(), bytes: 0 });
        let cx = &mut Cx {
            wave: &mut wave,
            lds: &mut lds,
            memory: &memory,
            launch: &launch,
            workgroup: [0; 3],
            arch: pulp::Arch::new(),
            watch: None,
        };
        (inst.row.exec)(cx, &inst).expect("no fault");
        for i in 0..16 {
            for j in 0..16 {
                let sum: i32 = (0..32).map(|k| a[i][k] * b[k][j]).sum();
                let got = f32::from_bits(wave.vgpr[24 + i % 8][16 * (i / 8) + j]);
                assert_eq!(got, c(i, j) + sum as f32, "D[{i}][{j}], index_key {key}");
            }
        }
    }
}
