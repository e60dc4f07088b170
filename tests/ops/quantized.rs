//! Matrix products and the embedding gather with quantized weights: every scheme, every size of a group, from bytes made here, scales
//! awkward among them.

use device_ops::format::Stored as Format;
use device_ops::linear::Tile;
use device_ops::{Geometry, embed, linear};
use zynfer::hip::kernels::{Gemm, Matrix};
use zynfer::quant::Scheme;
use zynfer_tests::oracle::Expected;
use zynfer_tests::oracle::quantized::{self as oracle, Kind, Stored};
use zynfer_tests::tolerances::{EXACT, LINEAR, LINEAR_GROUPS};

use crate::data::{Numbers, from_bf16, to_bf16};
use crate::hip;
use crate::machine::{Machine, compare, compare_plain};

/// Every scheme with every group it takes for rows of `k`.
fn schemes(k: usize) -> Vec<(Kind, usize)> {
    let groups = [32, 64, 128].into_iter().filter(|group| k.is_multiple_of(*group));
    let by_groups = [Kind::Int8Group, Kind::Int4, Kind::Int4Minimum, Kind::Int8Minimum];
    let by_levels = [(Kind::Int8Levels, 16), (Kind::Int8Levels, 32), (Kind::Int8MinimumLevels, 16)];
    let by_levels = by_levels.into_iter().chain([(Kind::Int8MinimumLevels, 32), (Kind::Int4MinimumLevels, 32)]);
    let all = groups.flat_map(|group| by_groups.map(|kind| (kind, group)));
    let all = all.chain(by_levels.filter(|_| k.is_multiple_of(256)));
    all.chain([(Kind::Int8, k), (Kind::Fp8, k)]).collect()
}

/// Every scheme with every group once, for rows of `few` or, where scales have two levels, of `many`, a multiple of 256.
fn schemes_of([few, many]: [usize; 2]) -> impl Iterator<Item = (Kind, usize, usize)> {
    let of_few = schemes(few);
    let of_many = schemes(many).into_iter().filter(move |scheme| !schemes(few).contains(scheme) && scheme.1 < 64);
    let all: Vec<_> = of_few.into_iter().map(|(kind, group)| (kind, group, few)).collect();
    all.into_iter().chain(of_many.map(move |(kind, group)| (kind, group, many)))
}

fn format(kind: Kind) -> Format {
    match kind {
        Kind::Int8 => Format::Int8,
        Kind::Int8Group => Format::Int8Group,
        Kind::Int4 => Format::Int4,
        Kind::Int4Minimum => Format::Int4Minimum,
        Kind::Fp8 => Format::Fp8,
        Kind::Int8Minimum => Format::Int8Minimum,
        Kind::Int8Levels => Format::Int8Levels,
        Kind::Int8MinimumLevels => Format::Int8MinimumLevels,
        Kind::Int4MinimumLevels => Format::Int4MinimumLevels,
    }
}

fn scheme(w: &Stored) -> Scheme {
    match w.kind {
        Kind::Int8 => Scheme::Int8Row,
        Kind::Int8Group => Scheme::Int8(w.group),
        Kind::Int4 => Scheme::Int4(w.group),
        Kind::Int4Minimum => Scheme::Int4Min(w.group),
        Kind::Fp8 => Scheme::Fp8,
        Kind::Int8Minimum => Scheme::Int8Min(w.group),
        Kind::Int8Levels => Scheme::Int8K(w.group),
        Kind::Int8MinimumLevels => Scheme::Int8MinK(w.group),
        Kind::Int4MinimumLevels => Scheme::Int4MinK(w.group),
    }
}

/// Bits of the f16 scales that stand between ordinary ones: zeros of both signs, the smallest and the largest subnormal, the smallest
/// normal, the largest, a negative one, its largest.
const AWKWARD_F16: [u16; 8] = [0, 0x8000, 1, 0x3ff, 0x400, 0x7bff, 0xb0cd, 0xfbff];
/// f32 scales likewise; products with the largest stay finite.
const AWKWARD_F32: [f32; 6] = [0.0, -0.0, 1e-42, f32::MIN_POSITIVE, 1e30, -3.5];

/// A matrix of random codes, all of them possible, and scales near 2^-7.
pub fn weights(kind: Kind, group: usize, [n, k]: [usize; 2], seed: u64) -> Stored {
    let mut numbers = Numbers::new(seed);
    let mut codes = |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| (numbers.bits() >> 32) as u8).collect() };
    let codes = match kind {
        Kind::Int4 | Kind::Int4Minimum | Kind::Int4MinimumLevels => codes(n * k / 2),
        Kind::Int8 | Kind::Int8Group | Kind::Int8Minimum | Kind::Int8Levels | Kind::Int8MinimumLevels => codes(n * k),
        // The two codes that are no numbers become zeros.
        Kind::Fp8 => {
            codes(n * k).into_iter().map(|code| if code & 0x7f == 0x7f { code & 0x80 } else { code }).collect()
        }
    };
    let mut numbers = Numbers::new(seed + 1);
    let halves = |count: usize, numbers: &mut Numbers| -> Vec<u8> {
        let bits = (0..count).map(|i| match i % 11 {
            7 => AWKWARD_F16[i / 11 % AWKWARD_F16.len()],
            // An exponent of 2^-7 or 2^-8 and any mantissa, every third of them negative.
            _ => 0x1c00 + (numbers.bits() >> 32) as u16 % 0x800 + if i % 3 == 0 { 0x8000 } else { 0 },
        });
        bits.flat_map(u16::to_le_bytes).collect()
    };
    // Records of an f16 as above, 2^-6 times as large, and any lower levels, zeros and −128 among them.
    let levels = |numbers: &mut Numbers| -> Vec<u8> {
        let mut bytes = Vec::new();
        for upper in halves(n * k / 256, numbers).as_chunks::<2>().0 {
            let bits = u16::from_le_bytes(*upper);
            let bits = if matches!(bits & 0x7c00, 0x1c00 | 0x1800) { bits - 0x1800 } else { bits };
            bytes.extend(bits.to_le_bytes());
            bytes.extend((0..256 / group).map(|i| if i == 5 { 0x80 } else { (numbers.bits() >> 32) as u8 }));
        }
        bytes
    };
    let (scales, minimums) = match kind {
        Kind::Int8 | Kind::Fp8 => {
            let scale = |i: usize| match i % 5 {
                3 => AWKWARD_F32[i / 5 % AWKWARD_F32.len()],
                _ => (0.01 + numbers.unit().abs() / 64.0) * if i.is_multiple_of(3) { -1.0 } else { 1.0 },
            };
            ((0..n).map(scale).flat_map(f32::to_le_bytes).collect(), Vec::new())
        }
        Kind::Int8Group | Kind::Int4 => (halves(n * (k / group), &mut numbers), Vec::new()),
        Kind::Int4Minimum | Kind::Int8Minimum => {
            (halves(n * (k / group), &mut numbers), halves(n * (k / group), &mut numbers))
        }
        Kind::Int8Levels => (levels(&mut numbers), Vec::new()),
        Kind::Int8MinimumLevels | Kind::Int4MinimumLevels => (levels(&mut numbers), levels(&mut numbers)),
    };
    Stored { kind, n, k, group, codes, scales, minimums }
}

/// The object of docs/QUANTIZATION.md.
pub fn object(w: &Stored) -> Vec<u8> {
    let mut bytes = w.codes.clone();
    for part in [&w.scales, &w.minimums] {
        if !part.is_empty() {
            bytes.resize(bytes.len().next_multiple_of(256), 0);
            bytes.extend(part);
        }
    }
    bytes
}

/// Codes, scales, minimums, each in an allocation of its own size.
fn upload(machine: &mut Machine, w: &Stored) -> [u64; 3] {
    let minimums = if w.minimums.is_empty() { 0 } else { machine.input(&w.minimums) };
    [machine.input(&w.codes), machine.input(&w.scales), minimums]
}

fn group_log2(w: &Stored) -> u32 {
    if matches!(w.kind, Kind::Int8 | Kind::Fp8) { 0 } else { w.group.ilog2() }
}

/// A kernel of one matrix by what it is called in every format.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rung {
    Plain,
    Gemv,
    Tiles(Tile),
}
use Rung::{Gemv, Plain, Tiles};

/// All that use matrix instructions.
const TILES: [Rung; 3] = [Tiles(Tile::N64T64), Tiles(Tile::N128T64), Tiles(Tile::N128T128)];
const ALL: [Rung; 5] = [Plain, Gemv, TILES[0], TILES[1], TILES[2]];

impl Rung {
    fn kernel(self, kind: Kind, t: u32, n: u32) -> (&'static str, Geometry) {
        let names = linear::quantized::names(format(kind)).expect("a quantized format");
        match self {
            Plain => (names.plain, linear::geometry_plain(t, n)),
            Gemv => (names.gemv, linear::geometry_gemv(t, n)),
            Tiles(tile) => (names.tiles[tile as usize], linear::geometry_tile(tile, t, n)),
        }
    }
}

/// y = x·Wᵀ of `t` tokens.
#[track_caller]
fn product(rung: Rung, w: &Stored, x: &[u16]) -> Vec<f32> {
    let t = x.len() / w.k;
    let mut machine = Machine::new();
    let y = machine.output::<f32>(t * w.n);
    let [codes, scales, minimums] = upload(&mut machine, w);
    let args = linear::quantized::Args {
        codes,
        scales,
        minimums,
        x: machine.input(x),
        y: y.address,
        tokens: t as u32,
        n: w.n as u32,
        k: w.k as u32,
        group_log2: group_log2(w),
    };
    let (name, geometry) = rung.kernel(w.kind, t as u32, w.n as u32);
    machine.run(name, geometry, &args);
    machine.read(&y)
}

/// How the host is asked for what this rung is, if it takes it for this shape.
fn chosen(rung: Rung, w: &Stored, t: usize) -> Option<Gemm> {
    let names = linear::quantized::names(format(w.kind)).expect("a quantized format");
    let (t, n) = (t as u32, w.n as u32);
    match rung {
        Plain => Some(Gemm::Plain),
        Gemv | Tiles(_) => (names.choose(t, n) == rung.kernel(w.kind, t, n)).then_some(Gemm::Fast),
    }
}

/// What the kernels multiply with where the weights of groups are rounded to bf16: decoded once to f32, which no scheme but int4m rounds
/// for, and from there.
fn from_rounded(w: &Stored, x: &[f64]) -> Vec<Expected> {
    let decoded: Vec<f32> = w.decoded().into_iter().map(|value| value as f32).collect();
    zynfer_tests::oracle::linear::linear(&from_bf16(&to_bf16(&decoded)), x, w.n, w.k)
}

/// Judges what a rung made of these inputs.
#[track_caller]
fn judge(what: &str, rung: Rung, w: &Stored, x: &[u16], y: &[f32]) {
    let x = from_bf16(x);
    let by_rows = matches!(w.kind, Kind::Int8 | Kind::Fp8);
    if matches!(rung, Tiles(_)) && !by_rows {
        compare(what, y, &from_rounded(w, &x), LINEAR);
        compare(what, y, &oracle::linear(w, &x), LINEAR_GROUPS);
    } else {
        compare(what, y, &oracle::linear(w, &x), LINEAR);
    }
}

#[track_caller]
fn check(rungs: &[Rung], t: usize, n: usize, k: usize) {
    for (kind, group) in schemes(k) {
        let w = weights(kind, group, [n, k], (t * 1_000_003 + n * 1009 + k + group) as u64);
        let x = to_bf16(&Numbers::new((n + k) as u64).awkward(t * k, 1.0));
        for &rung in rungs {
            let what = format!("{rung:?} {} T {t} N {n} K {k}", scheme(&w));
            judge(&what, rung, &w, &x, &product(rung, &w, &x));
            let Some(gemm) = chosen(rung, &w, t) else { continue };
            hip::each(|device| {
                let (bytes, input, y) = (device.buffer(&object(&w)), device.buffer(&x), device.output::<f32>(t * n));
                let matrix = Matrix { span: &bytes.span, scheme: scheme(&w) };
                let launched = device.kernels.linear(&device.stream, matrix, &input.span, &y.span, [t, n, k], gemm);
                launched.expect("a right launch");
                judge(&format!("{}: {what}", device.name), rung, &w, &x, &device.read::<f32>(&y));
                assert!(device.read::<u8>(&bytes) == object(&w), "{}: {what}: changed its weights", device.name);
            });
        }
    }
}

/// N around the edges of a wave's four rows and a workgroup's sixteen.
#[test]
fn widths() {
    for n in [1, 2, 3, 4, 5, 15, 16, 17, 33] {
        check(&[Plain, Gemv], 1, n, 128);
        check(&[Gemv], 3, n, 64);
    }
}

/// K around the GEMV's steps: 512 and 1024 elements for 8 bits, 1024 and 2048 for 4.
#[test]
fn depths() {
    for k in [64, 128, 192, 448, 512, 576, 960, 1024, 1088, 1536, 2048, 2112, 3072] {
        check(&[Plain, Gemv], 1, 18, k);
    }
}

/// T around fragments, halves and tiles; N around a tile's edges; K of an odd and an even number of steps.
#[test]
fn tokens() {
    for t in [2, 17] {
        check(&[Plain, Gemv], t, 20, 128);
    }
    for (t, n, k) in
        [(1, 64, 64), (2, 65, 128), (16, 63, 192), (33, 129, 256), (64, 128, 64), (65, 70, 320), (129, 20, 128)]
    {
        check(&TILES, t, n, k);
    }
}

#[test]
fn routes() {
    let b = linear::WMMA_FROM_TOKENS;
    for names in linear::quantized::NAMES {
        for (t, n, tile) in
            [(b, 100, Tile::N64T64), (128, 128 * 127 + 1, Tile::N128T64), (64, 128 * 255 + 1, Tile::N128T128)]
        {
            let expected = (names.tiles[tile as usize], linear::geometry_tile(tile, t, n));
            assert_eq!(names.choose(t, n), expected, "T {t} N {n}");
        }
        assert_eq!(names.choose(b - 1, 100), (names.gemv, linear::geometry_gemv(b - 1, 100)));
    }
}

/// Tiles of every shape add up K in the same order: which one is taken changes no bit.
#[test]
fn shapes_do_not_matter() {
    let (t, n) = (70, 130);
    for (kind, group, k) in schemes_of([320, 768]) {
        let w = weights(kind, group, [n, k], 30);
        let x = to_bf16(&Numbers::new(31).awkward(t * k, 1.0));
        let run = |rung: Rung| -> Vec<u32> { product(rung, &w, &x).iter().map(|y| y.to_bits()).collect() };
        let first = run(TILES[0]);
        assert!(TILES[1..].iter().all(|rung| run(*rung) == first), "{}", scheme(&w));
    }
}

/// A NaN or an infinity of a token stays in its own row of y.
#[test]
fn what_is_not_finite_stays_in_its_place() {
    let (t, n) = (5, 18);
    for (kind, group, k) in schemes_of([128, 256]) {
        // Ordinary scales: each element times infinity is an infinity or, of a zero, a NaN.
        let w = weights(kind, group, [n, k], 8);
        let mut x = Numbers::new(9).vector(t * k, 1.0);
        (x[k + 3], x[4 * k + 100]) = (f32::NAN, f32::INFINITY);
        let x = to_bf16(&x);
        for rung in ALL {
            for (i, y) in product(rung, &w, &x).iter().enumerate() {
                let token = i / n;
                let what = format!("{rung:?} {}: y[{token},{}] is {y}", scheme(&w), i % n);
                assert_eq!(y.is_finite(), token != 1 && token != 4, "{what}");
                assert!(token != 1 || y.is_nan(), "{what}");
            }
        }
    }
}

/// A token's bits depend neither on the other tokens nor on how many there are.
#[test]
fn neighbours_do_not_matter() {
    let n = 18;
    for (kind, group, k) in schemes_of([192, 256]) {
        let row = Numbers::new(21).vector(k, 1.0);
        let w = weights(kind, group, [n, k], 20);
        let run = |rung: Rung, tokens: usize, at: usize| {
            let mut x = Numbers::new(tokens as u64).vector(tokens * k, 5.0);
            x[at * k..(at + 1) * k].copy_from_slice(&row);
            let y = product(rung, &w, &to_bf16(&x));
            y[at * n..(at + 1) * n].iter().map(|y| y.to_bits()).collect::<Vec<u32>>()
        };
        for rung in ALL {
            let alone = run(rung, 1, 0);
            for (tokens, at) in [(2, 1), (17, 16)] {
                assert_eq!(run(rung, tokens, at), alone, "{rung:?} {}: token {at} of {tokens}", scheme(&w));
            }
        }
    }
}

#[track_caller]
fn check_embed(w: &Stored, ids: &[u32]) {
    let (vocab, hidden) = (w.n, w.k);
    let mut machine = Machine::new();
    let out = machine.output::<f32>(ids.len() * hidden);
    let [codes, scales, minimums] = upload(&mut machine, w);
    let args = embed::quantized::Args {
        ids: machine.input(ids),
        codes,
        scales,
        minimums,
        out: out.address,
        hidden: hidden as u32,
        group_log2: group_log2(w),
    };
    let name = embed::quantized::name(format(w.kind)).expect("a quantized format");
    machine.run(name, embed::quantized::geometry(format(w.kind), ids.len() as u32, hidden as u32), &args);
    // What an element stands for is rounded once: no f64 here is longer than 53 bits.
    let decoded: Vec<f64> = w.decoded().into_iter().map(|value| f64::from(value as f32)).collect();
    let want = zynfer_tests::oracle::embed::embed(ids, &decoded, hidden);
    compare_plain(&format!("{name} [{vocab}, {hidden}]"), &machine.read(&out), &want, EXACT);
    hip::each(|device| {
        let (id_buffer, table) = (device.output::<u32>(ids.len()), device.buffer(&object(w)));
        let out = device.output::<f32>(ids.len() * hidden);
        let table = Matrix { span: &table.span, scheme: scheme(w) };
        let launched = device.kernels.embed(&device.stream, ids, &id_buffer.span, table, &out.span, [vocab, hidden]);
        launched.expect("a right launch");
        compare_plain(&format!("{}: {name}", device.name), &device.read::<f32>(&out), &want, EXACT);
    });
}

/// Rows of every length around what a workgroup writes, 2048 or 4096 elements.
#[test]
fn embeddings() {
    for (vocab, hidden, ids) in [
        (1, 64, &[0u32][..]),
        (7, 1024, &[6, 0, 6]),
        (40, 192, &[39, 0, 20, 39, 1]),
        (2, 2112, &[1]),
        (2, 4160, &[1, 0]),
    ] {
        for (kind, group) in schemes(hidden) {
            check_embed(&weights(kind, group, [vocab, hidden], 5), ids);
        }
    }
}

/// Each code at each place of 16 bytes, under an ordinary scale.
#[test]
fn every_code_is_what_it_stands_for() {
    for (kind, group, k) in schemes_of([128, 256]) {
        let n = 256;
        let mut w = weights(kind, group, [n, k], 3);
        let row_bytes = w.codes.len() / n;
        for (i, code) in w.codes.iter_mut().enumerate() {
            let value = (i / row_bytes + i % row_bytes) as u8;
            *code = if kind == Kind::Fp8 && value & 0x7f == 0x7f { 0 } else { value };
        }
        let ids: Vec<u32> = (0..n as u32).collect();
        check_embed(&w, &ids);
    }
}

/// Matrices that are too short for their scheme, or whose rows its groups do not divide.
#[test]
fn what_does_not_fit_is_refused() {
    let w = weights(Kind::Int4Minimum, 32, [4, 64], 1);
    hip::each(|device| {
        let bytes = object(&w);
        let short = device.buffer(&bytes[..bytes.len() - 1]);
        let (x, y) = (device.buffer(&[0u16; 64]), device.output::<f32>(4));
        let run = |group, shape| {
            let matrix = Matrix { span: &short.span, scheme: Scheme::Int4Min(group) };
            let refused = device.kernels.linear(&device.stream, matrix, &x.span, &y.span, shape, Gemm::Fast);
            refused.expect_err("it does not fit").to_string()
        };
        // 128 bytes of codes, 16 of scales from 256 on, 16 of minimums from 512 on.
        let text = run(32, [1, 4, 64]);
        assert!(text.contains("int4m:32") && text.contains("528") && text.contains("527"), "{text}");
        let text = run(128, [1, 4, 64]);
        assert!(text.contains("64 elements in a row, a multiple of 128"), "{text}");
    });
}
