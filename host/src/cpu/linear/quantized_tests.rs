//! Products of quantized weights against f64 sums over the codes as the scheme's definition reads them, from an unpacking written anew here.

use half::f16;
use pulp::Arch;

use super::{Scratch, quantized::linear};
use crate::quant::{Activations, Matrix, Scheme, fp8};

/// Numbers that vary in sign, size and last bits, from an integer mix.
fn number(i: usize) -> f32 {
    let mixed = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (mixed as f32 / 8_388_608.0 - 1.0) * [1.0, 0.01, 30.0][i % 3]
}

fn byte(i: usize) -> u8 {
    ((i as u64).wrapping_mul(0xD134_2543_DE82_EF95) >> 56) as u8
}

/// A matrix of any codes, its object, and its values in f64: code times scale, and what is added.
struct Case {
    scheme: Scheme,
    n: usize,
    k: usize,
    object: Vec<u32>,
    bytes: usize,
    values: Vec<[f64; 2]>,
}

impl Case {
    fn new(scheme: Scheme, n: usize, k: usize) -> Self {
        let layout = scheme.layout(&[n, k]).expect("a shape it takes");
        let mut object = vec![0u8; layout.bytes];
        for (i, code) in object[layout.codes.clone()].iter_mut().enumerate() {
            *code = byte(i);
            if scheme == Scheme::Fp8 && *code & 0x7f == 0x7f {
                *code = 1; // no number
            }
        }
        let tables = [layout.scales.clone(), layout.minimums.clone()];
        for (table, range) in tables.into_iter().enumerate() {
            let width = match scheme {
                Scheme::Int8Row | Scheme::Fp8 => 4,
                Scheme::Int8K(group) | Scheme::Int8MinK(group) | Scheme::Int4MinK(group) => 2 + 256 / group,
                _ => 2,
            };
            for (i, value) in object[range].chunks_exact_mut(width).enumerate() {
                let number = number(3 * i + table) * 0.1;
                match width {
                    2 => value.copy_from_slice(&f16::from_f32(number).to_le_bytes()),
                    4 => value.copy_from_slice(&number.to_le_bytes()),
                    _ => {
                        value[..2].copy_from_slice(&f16::from_f32(number / 64.0).to_le_bytes());
                        value[2..].iter_mut().enumerate().for_each(|(j, lower)| *lower = byte(31 * i + j + table));
                    }
                }
            }
        }
        let half = |at: usize| f64::from(f16::from_le_bytes([object[at], object[at + 1]]));
        let single = |at: usize| f64::from(f32::from_le_bytes(object[at..at + 4].try_into().expect("4 bytes")));
        let value = |i: usize| {
            let (row, column) = (i / k, i % k);
            let in_table = |group: usize| 2 * (row * (k / group) + column / group);
            let level = |start: usize, group: usize| {
                let record = start + (row * k + column) / 256 * (2 + 256 / group);
                half(record) * f64::from(object[record + 2 + column % 256 / group] as i8)
            };
            let nibble = || {
                let byte = object[(row * k + column / 32 * 32) / 2 + column % 16];
                f64::from(if column % 32 < 16 { byte & 15 } else { byte >> 4 })
            };
            let signed = || f64::from(object[i] as i8);
            let (scales, minimums) = (layout.scales.start, layout.minimums.start);
            // The code times its scale, and the minimum that is added.
            match scheme {
                Scheme::Int8Row => [signed() * single(scales + 4 * row), 0.0],
                Scheme::Int8(group) => [signed() * half(scales + in_table(group)), 0.0],
                Scheme::Int4(group) => [(nibble() - 8.0) * half(scales + in_table(group)), 0.0],
                Scheme::Int4Min(group) => [nibble() * half(scales + in_table(group)), half(minimums + in_table(group))],
                Scheme::Int8Min(group) => [signed() * half(scales + in_table(group)), half(minimums + in_table(group))],
                Scheme::Int8K(group) => [signed() * level(scales, group), 0.0],
                Scheme::Int8MinK(group) => [signed() * level(scales, group), level(minimums, group)],
                Scheme::Int4MinK(group) => [nibble() * level(scales, group), level(minimums, group)],
                Scheme::Fp8 => [f64::from(fp8::to_f32(object[i])) * single(scales + 4 * row), 0.0],
                Scheme::Bf16 => unreachable!("not quantized"),
            }
        };
        let values = (0..n * k).map(value).collect();
        let bytes = object.len();
        object.resize(bytes.next_multiple_of(4), 0);
        let object = object.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        Self { scheme, n, k, object, bytes, values }
    }

    fn product(&self, activations: Activations, x: &[f32]) -> Vec<f32> {
        let bytes = &bytemuck::cast_slice(&self.object)[..self.bytes];
        let w = Matrix::new(self.scheme, &[self.n, self.k], bytes).expect("as laid out");
        let tokens = x.len() / self.k;
        let mut y = vec![f32::NAN; tokens * self.n];
        let mut scratch = Scratch::new(tokens, self.k, self.n);
        linear(Arch::new(), &w, activations, x, &mut y, &mut scratch);
        y
    }

    /// Every output lies within the bound of any order of summation, each product and scale rounded once more.
    fn check(&self, tokens: usize) {
        let x: Vec<f32> = (0..tokens * self.k).map(|i| number(i + 77)).collect();
        let y = self.product(Activations::AsTheyAre, &x);
        self.compare(&y, &x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), tokens);
    }

    fn compare(&self, y: &[f32], x: &[f64], tokens: usize) {
        let (n, k, scheme) = (self.n, self.k, self.scheme);
        for t in 0..tokens {
            for i in 0..n {
                let (mut exact, mut size) = (0.0, 0.0);
                for j in 0..k {
                    let (x, w) = (x[t * k + j], self.values[i * k + j]);
                    exact += x * (w[0] + w[1]);
                    // With a minimum a value is the difference of two larger numbers.
                    size += x.abs() * (w[0].abs() + w[1].abs());
                }
                let error = (f64::from(y[t * n + i]) - exact).abs();
                let bound = size * 2f64.powi(-24) * (k + 4) as f64;
                assert!(error <= bound, "{scheme}: y[{t},{i}] of {tokens}×{n}×{k} off by {error} of {bound}");
            }
        }
    }
}

fn schemes(k: usize) -> impl Iterator<Item = Scheme> {
    let grouped = [32, 64, 128].into_iter().filter(move |g| k.is_multiple_of(*g));
    let grouped = grouped.flat_map(|g| [Scheme::Int8(g), Scheme::Int4(g), Scheme::Int4Min(g)]);
    let levels =
        [Scheme::Int8K(16), Scheme::Int8K(32), Scheme::Int8MinK(16), Scheme::Int8MinK(32), Scheme::Int4MinK(32)];
    let levels = levels.into_iter().filter(move |_| k.is_multiple_of(256));
    grouped.chain(levels).chain([Scheme::Int8Min(32), Scheme::Int8Row, Scheme::Fp8])
}

#[test]
fn every_route_and_its_edges_agree_with_f64() {
    for k in [32, 64, 96, 128, 160, 256, 768, 1024, 2048, 2176, 4224, 4352] {
        for scheme in schemes(k) {
            Case::new(scheme, 9, k).check(1);
            Case::new(scheme, 5, k).check(3);
        }
    }
    for scheme in schemes(256) {
        for tokens in [1, 2, 3, 15, 16, 17, 33] {
            for n in [1, 2, 3, 4, 5, 8, 31, 32, 33, 65] {
                Case::new(scheme, n, 256).check(tokens);
            }
        }
    }
}

#[test]
fn a_token_gets_the_same_bits_alone_and_among_others() {
    let (n, k) = (37, 384);
    for scheme in schemes(k) {
        for activations in [Activations::AsTheyAre, Activations::Int8] {
            let case = Case::new(scheme, n, k);
            let x: Vec<f32> = (0..19 * k).map(|i| number(i + 5)).collect();
            let together = case.product(activations, &x);
            for (x, expected) in x.chunks_exact(k).zip(together.chunks_exact(n)) {
                assert_eq!(case.product(activations, x), expected, "{scheme}");
            }
        }
    }
}

#[test]
fn activations_of_8_bits_are_rounded_by_groups_of_64() {
    let (n, k, tokens) = (7, 256, 5);
    let x: Vec<f32> = (0..tokens * k).map(|i| number(i + 11) * if i / 32 % 8 == 3 { 0.0 } else { 1.0 }).collect();
    let rounded: Vec<f64> = x
        .chunks_exact(64)
        .flat_map(|group| {
            let scale = group.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
            group.iter().map(move |x| {
                if scale == 0.0 { 0.0 } else { f64::from((x / scale).round_ties_even()) * f64::from(scale) }
            })
        })
        .collect();
    for scheme in schemes(k) {
        let case = Case::new(scheme, n, k);
        let y = case.product(Activations::Int8, &x);
        match scheme {
            // Floats are multiplied with the activations as they are.
            Scheme::Fp8 => assert_eq!(y, case.product(Activations::AsTheyAre, &x)),
            _ => case.compare(&y, &rounded, tokens),
        }
    }
}

/// A NaN or an infinity among activations spoils the products of its token, and of no other: a whole row of them, and one among numbers.
#[test]
fn activations_that_are_no_numbers_spoil_their_token_alone() {
    let (n, k) = (5, 256);
    for scheme in schemes(k) {
        let case = Case::new(scheme, n, k);
        for (spoilt, whole) in [(f32::NAN, true), (f32::NAN, false), (f32::INFINITY, true), (f32::NEG_INFINITY, false)]
        {
            let mut x: Vec<f32> = (0..3 * k).map(number).collect();
            if whole {
                x[k..2 * k].fill(spoilt)
            } else {
                x[k + 77] = spoilt
            }
            for activations in [Activations::AsTheyAre, Activations::Int8] {
                for (i, y) in case.product(activations, &x).iter().enumerate() {
                    assert_eq!(
                        y.is_finite(),
                        i / n != 1,
                        "{scheme} {activations:?} {spoilt} {whole}: y[{},{}] is {y}",
                        i / n,
                        i % n
                    );
                }
            }
        }
    }
}

/// A product with a single 1 among zeros is an element of the matrix: the bits that decoding its row gives, whatever way they are unpacked.
#[test]
fn what_is_multiplied_is_what_a_row_decodes_to() {
    let (n, k) = (5, 512);
    for scheme in schemes(k) {
        let case = Case::new(scheme, n, k);
        let bytes = &bytemuck::cast_slice(&case.object)[..case.bytes];
        let w = Matrix::new(scheme, &[n, k], bytes).expect("as laid out");
        let mut row = vec![0.0; k];
        for at in (0..k).step_by(7) {
            let mut x = vec![0.0; k];
            x[at] = 1.0;
            let y = case.product(Activations::AsTheyAre, &x);
            for (i, y) in y.iter().enumerate() {
                w.decode_row(i, &mut row);
                assert_eq!(*y, row[at], "{scheme}: element {at} of row {i}");
            }
        }
    }
}
