//! Activations rounded to 8 bits, and products of them with int8 matrices.

use device_ops::linear::{
    Tile,
    w8a8::{self, quantize},
};
use zynfer::hip::kernels::Matrix;
use zynfer::quant::Scheme;
use zynfer_tests::oracle::quantized::{self, Kind, Stored};
use zynfer_tests::oracle::w8a8::{judge_rounding, meant};
use zynfer_tests::tolerances::LINEAR;

use crate::data::{Numbers, from_bf16, to_bf16};
use crate::hip;
use crate::machine::{Machine, compare};
use crate::quantized::{object, weights};

/// Codes and scales of `x` `[T, K]`.
#[track_caller]
fn rounded(x: &[u16], k: usize) -> (Vec<i8>, Vec<f32>) {
    let tokens = x.len() / k;
    let mut machine = Machine::new();
    let (codes, scales) = (machine.output::<i8>(x.len()), machine.output::<f32>(x.len() / 64));
    let args = quantize::Args {
        x: machine.input(x),
        codes: codes.address,
        scales: scales.address,
        tokens: tokens as u32,
        k: k as u32,
    };
    machine.run(w8a8::NAME_QUANTIZE, w8a8::geometry_quantize(tokens as u32, k as u32), &args);
    (machine.read(&codes), machine.read(&scales))
}

/// The codes, of so many bytes, and the scales behind them.
fn split(all: &[u8], bytes: usize) -> (Vec<i8>, Vec<f32>) {
    (bytemuck::cast_slice(&all[..bytes]).to_vec(), bytemuck::pod_collect_to_vec(&all[bytes..]))
}

/// y of codes and scales as they are.
#[track_caller]
fn product(tile: Tile, w: &Stored, codes: &[i8], scales: &[f32]) -> Vec<f32> {
    let t = codes.len() / w.k;
    let mut machine = Machine::new();
    let y = machine.output::<f32>(t * w.n);
    let args = w8a8::Args {
        codes: machine.input(&w.codes),
        scales: machine.input(&w.scales),
        x: machine.input(codes),
        x_scales: machine.input(scales),
        y: y.address,
        tokens: t as u32,
        n: w.n as u32,
        k: w.k as u32,
        pad: 0,
    };
    machine.run(w8a8::NAMES[tile as usize], w8a8::geometry(tile, t as u32, w.n as u32), &args);
    machine.read(&y)
}

const TILES: [Tile; 2] = [Tile::N64T64, Tile::N128T64];

/// Codes of all values that a byte has, −128 too, and scales over many magnitudes.
fn activations(t: usize, k: usize, seed: u64) -> (Vec<i8>, Vec<f32>) {
    let mut numbers = Numbers::new(seed);
    let codes = (0..t * k).map(|_| (numbers.bits() >> 32) as i8).collect();
    let scales = (0..t * (k / 64)).map(|i| (0.01 + numbers.unit().abs()) * 2f32.powi(i as i32 % 9 - 4)).collect();
    (codes, scales)
}

#[test]
fn activations_are_rounded_by_groups_of_64() {
    for (t, k) in [(1, 64), (2, 128), (3, 1024), (5, 1088), (2, 3072)] {
        let mut x = Numbers::new((t * k) as u64).awkward(t * k, 1.0);
        // A group of zeros, one with a value near the end of f32, one too small to divide.
        x[..64].fill(0.0);
        if k > 64 {
            x[64] = 3e38;
            x[(t * k) - 64..].fill(1e-36);
        }
        let x = to_bf16(&x);
        let (codes, scales) = rounded(&x, k);
        judge_rounding(&from_bf16(&x), k, &codes, &scales).unwrap_or_else(|why| panic!("T {t} K {k}: {why}"));
        hip::each(|device| {
            let [bytes, more] = w8a8::bytes(t as u64, k as u64).map(|bytes| bytes as usize);
            let (input, out) = (device.buffer(&x), device.output::<u8>(bytes + more));
            device.kernels.quantize(&device.stream, &input.span, &out.span, [t, k]).expect("a right launch");
            let (codes, scales) = split(&device.read::<u8>(&out), bytes);
            let judged = judge_rounding(&from_bf16(&x), k, &codes, &scales);
            judged.unwrap_or_else(|why| panic!("{}: T {t} K {k}: {why}", device.name));
        });
    }
}

/// T around fragments, halves and tiles; N around a tile's edges; K of an odd and an even number of steps, and of one.
#[test]
fn products_of_bytes() {
    let shapes = [
        (1, 64, 64),
        (2, 65, 128),
        (16, 63, 192),
        (33, 129, 256),
        (64, 128, 64),
        (65, 70, 320),
        (129, 20, 128),
        (17, 33, 1536),
    ];
    for (t, n, k) in shapes {
        let w = weights(Kind::Int8, k, [n, k], (t * n + k) as u64);
        let (codes, scales) = activations(t, k, (t + n + k) as u64);
        let expected = quantized::linear(&w, &meant(k, &codes, &scales));
        for tile in TILES {
            compare(&format!("{tile:?} T {t} N {n} K {k}"), &product(tile, &w, &codes, &scales), &expected, LINEAR);
        }
    }
}

/// As the host asks for it: rounded, then multiplied.
#[test]
fn rounded_then_multiplied() {
    for (t, n, k) in [(2, 100, 128), (70, 130, 320), (128, 128 * 127 + 1, 64)] {
        let w = weights(Kind::Int8, k, [n, k], 5);
        let x = to_bf16(&Numbers::new(6).vector(t * k, 1.0));
        hip::each(|device| {
            let [bytes, more] = w8a8::bytes(t as u64, k as u64).map(|bytes| bytes as usize);
            let (input, eight) = (device.buffer(&x), device.output::<u8>(bytes + more));
            let (matrix, y) = (device.buffer(&object(&w)), device.output::<f32>(t * n));
            device.kernels.quantize(&device.stream, &input.span, &eight.span, [t, k]).expect("a right launch");
            let matrix = Matrix { span: &matrix.span, scheme: Scheme::Int8Row };
            let done = device.kernels.linear_w8a8(&device.stream, matrix, &eight.span, &y.span, [t, n, k]);
            done.expect("a right launch");
            // From the codes as they are there: of two that are equally near, machines choose as their reciprocals do.
            let (codes, scales) = split(&device.read::<u8>(&eight), bytes);
            let what = format!("{} T {t} N {n} K {k}", device.name);
            judge_rounding(&from_bf16(&x), k, &codes, &scales).unwrap_or_else(|why| panic!("{what}: {why}"));
            let expected = quantized::linear(&w, &meant(k, &codes, &scales));
            compare(&what, &device.read::<f32>(&y), &expected, LINEAR);
        });
    }
}

#[test]
fn routes() {
    for (t, n, tile) in [(2, 100, 0), (128, 128 * 127 + 1, 1), (64, 128 * 255 + 1, 1)] {
        let (name, geometry) = w8a8::choose(t, n);
        assert_eq!(name, w8a8::NAMES[tile], "T {t} N {n}");
        assert_eq!(geometry, w8a8::geometry(TILES[tile], t, n));
    }
}

/// Both tiles add up K in the same order, and a token's bits depend neither on the other tokens nor on how many there are.
#[test]
fn neither_shapes_nor_neighbours_matter() {
    let (n, k) = (130, 320);
    let w = weights(Kind::Int8, k, [n, k], 30);
    let (codes, scales) = activations(1, k, 31);
    let run = |tile: Tile, tokens: usize, at: usize| -> Vec<u32> {
        let (mut all, mut of) = activations(tokens, k, 32);
        all[at * k..(at + 1) * k].copy_from_slice(&codes);
        for (group, scale) in scales.iter().enumerate() {
            of[group * tokens + at] = *scale;
        }
        product(tile, &w, &all, &of)[at * n..(at + 1) * n].iter().map(|y| y.to_bits()).collect()
    };
    let alone = run(TILES[0], 1, 0);
    for tile in TILES {
        for (tokens, at) in [(1, 0), (2, 1), (70, 69)] {
            assert_eq!(run(tile, tokens, at), alone, "{tile:?}: token {at} of {tokens}");
        }
    }
}

/// Eight bits hold neither a NaN nor an infinity: the scale of their group is none, so that the token's results are none, and nobody else's.
#[test]
fn what_is_not_finite_is_not_lost() {
    let (t, n, k) = (5, 66, 192);
    let w = weights(Kind::Int8, k, [n, k], 8);
    let mut x = Numbers::new(9).vector(t * k, 1.0);
    (x[k + 3], x[4 * k + 100]) = (f32::NAN, f32::NEG_INFINITY);
    let (codes, scales) = rounded(&to_bf16(&x), k);
    for tile in TILES {
        for (i, y) in product(tile, &w, &codes, &scales).iter().enumerate() {
            let token = i / n;
            assert_eq!(y.is_finite(), token != 1 && token != 4, "{tile:?}: y[{token},{}] is {y}", i % n);
        }
    }
}
