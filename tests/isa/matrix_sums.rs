//! Matrix products of floats to the bit: the tiles of `matrix_sums.txt`, which `generate/products.py` computes with exact rationals by the
//! rule that AMD published. Each instruction takes sixteen lines, as rows of A and columns of B; its diagonal is compared, in every
//! mode of the group. Where elements lie is [`crate::matrix`]'s.

use crate::matrix::{A, B, C, D, FORMS, INDEX, N, Place, Sum, dense, index, kept, put, sum_place};
use crate::{execute, root, wave};
use emulator::Memory;
use emulator::isa;
use emulator::wave::{Lds, Wave};

/// A row of A, a column of B, and their element of C and D.
struct Line {
    a: Vec<u32>,
    b: Vec<u32>,
    /// Places of what A keeps of each four k; empty where A is dense.
    kept: Vec<u32>,
    c: u32,
    d: u32,
}

/// Numbers of `digits` hexadecimal digits each, with nothing between them.
fn numbers(text: &str, digits: usize) -> Vec<u32> {
    assert!(text.len().is_multiple_of(digits), "{text}");
    let at = |i| u32::from_str_radix(&text[i..i + digits], 16).unwrap_or_else(|error| panic!("{text}: {error}"));
    (0..text.len()).step_by(digits).map(at).collect()
}

fn line(text: &str, bits: usize, sparse: bool) -> Line {
    let parts: Vec<&str> = text.split(' ').collect();
    let (inputs, sums) = parts.split_at(parts.len() - 2);
    let kept = if sparse { numbers(inputs[2], 1) } else { Vec::new() };
    let [c, d] = [sums[0], sums[1]].map(|sum| numbers(sum, sum.len())[0]);
    Line { a: numbers(inputs[0], bits / 4), b: numbers(inputs[1], bits / 4), kept, c, d }
}

/// Element (n, n) of the result.
fn diagonal(wave: &Wave, sum: Sum, n: usize) -> u32 {
    let place = sum_place(sum, n);
    let word = wave.vgpr[D as usize + place.register][N * place.half + n] >> place.bit;
    if sum == Sum::F32 { word } else { word & 0xffff }
}

fn loaded(lines: &[Line], form: crate::matrix::Form) -> Wave {
    let (_, _, depth, format, _, sum, sparse) = form;
    let bits = format.bits();
    let mut wave = wave();
    for (n, line) in lines.iter().enumerate() {
        for (i, value) in line.a.iter().enumerate() {
            let at = if sparse { kept(bits, i / 2, i % 2, depth) } else { dense(bits, i, depth, false) };
            put(&mut wave, A, at, n, *value);
        }
        for (i, place) in line.kept.iter().enumerate() {
            let (half, bit) = index(bits, i / 2, depth);
            put(&mut wave, INDEX, Place { register: 0, half, bit: bit + 2 * (i % 2) }, n, *place);
        }
        for (k, value) in line.b.iter().enumerate() {
            put(&mut wave, B, dense(bits, k, depth, sparse), n, *value);
        }
        put(&mut wave, if sparse { D } else { C }, sum_place(sum, n), n, line.c);
    }
    wave
}

/// How far a fast sum of f32 may be from the machine's: both round at most once for each product, to 23 bits of what was summed so far.
fn near(line: &Line, got: u32, to_f32: impl Fn(u32) -> f64) -> bool {
    let b = |i: usize| if line.kept.is_empty() { line.b[i] } else { line.b[i / 2 * 4 + line.kept[i] as usize] };
    let products = line.a.iter().enumerate().map(|(i, a)| (to_f32(*a) * to_f32(b(i))).abs());
    let size = products.sum::<f64>() + f64::from(f32::from_bits(line.c)).abs();
    let (got, d) = (f32::from_bits(got), f32::from_bits(line.d));
    if !size.is_finite() || size > f64::from(f32::MAX) {
        return true;
    }
    let bound = (line.a.len() as f64 + 4.0) * (size * 2f64.powi(-23) + 2f64.powi(-149));
    (f64::from(got) - f64::from(d)).abs() <= bound
}

#[test]
fn every_form_is_the_machine_s_sum_to_the_bit_in_every_mode() {
    let text = std::fs::read_to_string(root().join("tests/isa/matrix_sums.txt")).expect("it lies beside this file");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let (mut compared, mut seen) = (0, std::collections::BTreeSet::new());
    for group in lines.chunks(17) {
        let (name, modes) = group[0].split_once(' ').expect("a form and its modes");
        let &form = FORMS.iter().find(|form| form.1 == name).unwrap_or_else(|| panic!("{name}"));
        let (op, _, _, format, other, sum, sparse) = form;
        assert_eq!(format.bits(), other.bits());
        let lines: Vec<Line> = group[1..].iter().map(|text| line(text, format.bits(), sparse)).collect();
        assert_eq!(lines.len(), N, "{name}");
        let third = 256 + if sparse { INDEX } else { C };
        let words = [0xcc00_4000 | op << 16 | D, 3 << 27 | third << 18 | (256 + B) << 9 | (256 + A)];
        let inst = isa::decode(&words).unwrap_or_else(|error| panic!("{name}: {error}"));
        let run = |mode: u32| {
            let (mut wave, memory) = (loaded(&lines, form), Memory::new(0));
            wave.mode = mode;
            let mut lds = Lds { words: Vec::new(), bytes: 0 };
            execute(&inst, &mut wave, &mut lds, &memory).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            wave
        };
        for mode in modes.split(',') {
            let mode = u32::from_str_radix(mode.trim_start_matches("0x"), 16).expect("hexadecimal");
            seen.insert(mode & 0xff);
            let wave = run(mode);
            for (n, line) in lines.iter().enumerate() {
                let got = diagonal(&wave, sum, n);
                assert_eq!(got, line.d, "{name} in mode {mode:#x}, {}: {got:#x}", group[n + 1]);
                compared += 1;
            }
        }
        if sum == Sum::F32 && format.bits() == 16 {
            let wave = run(0xf0);
            let to_f32 = |bits: u32| match format {
                crate::matrix::Element::F16 => half::f16::from_bits(bits as u16).to_f64(),
                _ => half::bf16::from_bits(bits as u16).to_f64(),
            };
            for (n, line) in lines.iter().enumerate() {
                let got = diagonal(&wave, sum, n);
                assert!(near(line, got, to_f32), "{name} at a launch, {}: {got:#x}", group[n + 1]);
            }
        }
    }
    assert!(compared > 2500 && seen.len() == 12, "{compared} elements in modes {seen:?}");
    let floats = FORMS.iter().filter(|form| form.5 != Sum::I32).count();
    assert_eq!(lines.len(), 3 * 17 * floats, "three groups for each form");
}
