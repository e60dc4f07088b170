//! Matrix products: each of the kernels of one matrix at each shape, and the choice between them. Those that do more than one product
//! are in `products.rs`.

use device_ops::linear::Tile;
use device_ops::{Geometry, linear};
use zynfer::hip::kernels::Gemm;
use zynfer_tests::oracle;
use zynfer_tests::tolerances::LINEAR;

use crate::data::{Numbers, from_bf16, to_bf16};
use crate::hip;
use crate::machine::{Machine, compare};

type Kernel = (&'static str, fn(u32, u32) -> Geometry);

const PLAIN: Kernel = (linear::NAME_PLAIN, linear::geometry_plain);
const GEMV: Kernel = (linear::NAME_GEMV, linear::geometry_gemv);
pub const WMMA: Kernel = (linear::NAME_WMMA, linear::geometry_wmma);
const N64T64: Kernel = (linear::name_tile(Tile::N64T64), |t, n| linear::geometry_tile(Tile::N64T64, t, n));
const N128T64: Kernel = (linear::name_tile(Tile::N128T64), |t, n| linear::geometry_tile(Tile::N128T64, t, n));
const N128T128: Kernel = (linear::name_tile(Tile::N128T128), |t, n| linear::geometry_tile(Tile::N128T128, t, n));
/// All that use matrix instructions.
const TILES: [Kernel; 4] = [WMMA, N64T64, N128T64, N128T128];

/// y = x·Wᵀ by `kernel`; the shape is T, N, K.
#[track_caller]
pub fn product((kernel, geometry): Kernel, w: &[u16], x: &[u16], [t, n, k]: [usize; 3]) -> Vec<f32> {
    let mut machine = Machine::new();
    let y = machine.output::<f32>(t * n);
    let (w, x, y_at) = (machine.input(w), machine.input(x), y.address);
    let args = linear::Args { w, x, y: y_at, tokens: t as u32, n: n as u32, k: k as u32, pad: 0 };
    machine.run(kernel, geometry(t as u32, n as u32), &args);
    machine.read(&y)
}

#[track_caller]
fn check(kernels: &[Kernel], t: usize, n: usize, k: usize) {
    let mut numbers = Numbers::new((t * 1_000_003 + n * 1009 + k) as u64);
    let w = to_bf16(&numbers.awkward(n * k, 0.05));
    let x = to_bf16(&numbers.awkward(t * k, 1.0));
    let want = oracle::linear::linear(&from_bf16(&w), &from_bf16(&x), n, k);
    for &kernel in kernels {
        let name = kernel.0;
        compare(&format!("{name} T {t} N {n} K {k}"), &product(kernel, &w, &x, [t, n, k]), &want, LINEAR);
        let plain = name == PLAIN.0;
        if plain || name == linear::name(t as u32, n as u32) {
            let gemm = if plain { Gemm::Plain } else { Gemm::Fast };
            hip::each(|device| {
                let (w, x, y) = (device.buffer(&w), device.buffer(&x), device.output::<f32>(t * n));
                let launched = device.kernels.linear(&device.stream, &w.span, &x.span, &y.span, [t, n, k], gemm);
                launched.expect("a right launch");
                compare(&format!("{} T {t} N {n} K {k}", device.name), &device.read::<f32>(&y), &want, LINEAR);
            });
        }
    }
}

/// N around the edges of a wave's four rows, a workgroup's sixteen and a tile's 64; N that keeps no row of y aligned.
#[test]
fn widths() {
    for n in [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100, 127, 128, 129, 1000] {
        check(&[PLAIN, GEMV], 1, n, 64);
        check(&TILES, 1, n, 64);
        check(&[PLAIN, GEMV], 3, n, 128);
        check(&TILES, 3, n, 128);
    }
}

/// K around the GEMV's steps of 256 and 512 and the tile's of 64.
#[test]
fn depths() {
    for k in [64, 128, 192, 256, 320, 448, 512, 576, 704, 768, 832, 1024, 3072] {
        check(&[PLAIN, GEMV, WMMA], 1, 20, k);
        check(&[PLAIN], 18, 70, k);
        check(&TILES, 18, 70, k);
    }
}

/// T around fragments, halves and tiles.
#[test]
fn tokens() {
    for t in [2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 97, 127, 128, 129, 193] {
        check(&TILES, t, 68, 128);
    }
    check(&[PLAIN, GEMV], 66, 33, 64);
}

#[test]
fn routes() {
    let b = linear::WMMA_FROM_TOKENS;
    for t in [b - 1, b, b + 1] {
        let (name, geometry) = if t < b { GEMV } else { N64T64 };
        assert_eq!((linear::name(t, 100), linear::geometry(t, 100)), (name, geometry(t, 100)));
        check(&[(linear::name(t, 100), linear::geometry)], t as usize, 100, 256);
    }
    // 256 workgroups of a larger tile are enough for it: rows of W around 255 tiles of 128 × 64, and of 128 × 128.
    for (t, n, (name, geometry)) in [
        (64, 128 * 255, N64T64),
        (64, 128 * 255 + 1, N128T128),
        (128, 128 * 127, N64T64),
        (128, 128 * 127 + 1, N128T64),
        (128, 128 * 255 + 1, N128T128),
    ] {
        assert_eq!((linear::name(t, n), linear::geometry(t, n)), (name, geometry(t, n)), "T {t} N {n}");
    }
}

/// A NaN or an infinity stays in its own row and column: tiles that repeat a row past the end must not leak it.
#[test]
fn what_is_not_finite_stays_in_its_place() {
    let (t, n, k) = (5, 70, 128);
    let mut w = Numbers::new(8).vector(n * k, 1.0);
    let mut x = Numbers::new(9).vector(t * k, 1.0);
    w[69 * k + 3] = f32::NAN;
    x[4 * k + 100] = f32::INFINITY;
    let (w, x) = (to_bf16(&w), to_bf16(&x));
    for kernel in [PLAIN, GEMV].into_iter().chain(TILES) {
        let name = kernel.0;
        for (i, v) in product(kernel, &w, &x, [t, n, k]).iter().enumerate() {
            let (token, row) = (i / n, i % n);
            assert_eq!(v.is_nan(), row == 69, "{name}: y[{token},{row}] is {v}");
            assert_eq!(v.is_finite(), row != 69 && token != 4, "{name}: y[{token},{row}] is {v}");
        }
    }
}

/// A token's bits depend neither on the other tokens nor on how many there are.
#[test]
fn neighbours_do_not_matter() {
    let (n, k) = (70, 192);
    let w = to_bf16(&Numbers::new(20).vector(n * k, 1.0));
    let row = Numbers::new(21).vector(k, 1.0);
    let run = |kernel: Kernel, tokens: usize, at: usize| {
        let mut x = Numbers::new(tokens as u64).vector(tokens * k, 5.0);
        x[at * k..(at + 1) * k].copy_from_slice(&row);
        product(kernel, &w, &to_bf16(&x), [tokens, n, k])[at * n..(at + 1) * n].to_vec()
    };
    for kernel in [PLAIN, GEMV].into_iter().chain(TILES) {
        let alone = run(kernel, 1, 0);
        for (tokens, at) in [(2, 1), (17, 16), (66, 3), (66, 65)] {
            assert_eq!(run(kernel, tokens, at), alone, "{}: token {at} of {tokens}", kernel.0);
        }
    }
}

/// Tiles of every shape add up K in the same order: which one is taken changes no bit.
#[test]
fn shapes_do_not_matter() {
    for (t, n, k) in [(70, 200, 64), (129, 130, 320), (33, 64, 1024)] {
        let w = to_bf16(&Numbers::new(30).awkward(n * k, 1.0));
        let x = to_bf16(&Numbers::new(31).awkward(t * k, 1.0));
        let run =
            |kernel: Kernel| -> Vec<u32> { product(kernel, &w, &x, [t, n, k]).iter().map(|y| y.to_bits()).collect() };
        let first = run(WMMA);
        for kernel in [N64T64, N128T64, N128T128] {
            assert!(run(kernel) == first, "{} against {}: T {t} N {n} K {k}", kernel.0, WMMA.0);
        }
    }
}
