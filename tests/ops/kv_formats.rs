//! A cache in formats as it is written: what is appended comes back within half a step of its code, and nothing else is touched. Codes are read by
//! the oracle's own decoding. What reads a cache is judged in attention_formats.rs.

use device_ops::kv_formats::{KvFormat, append};
use zynfer::hip::kernels::{CodedCache, KvCache, Qkv};
use zynfer_tests::oracle::kv_append::Cache;
use zynfer_tests::oracle::kv_formats::{FORMATS, Format};

use crate::data::{Numbers, to_bf16};
use crate::hip;
use crate::machine::Machine;

/// As the kernels are told.
pub fn stored(format: Format) -> KvFormat {
    match format {
        Format::Bf16 => KvFormat::Bf16,
        Format::F16 => KvFormat::F16,
        Format::Int8 => KvFormat::Int8,
        Format::Fp8 => KvFormat::Fp8,
    }
}

/// What `x` may come back as: half a step of its code, and a thousandth of one for the reciprocal that made it.
fn half_step(format: Format, x: f64, scale: f64) -> f64 {
    let binary = |x: f64, digits: i32, least: i32| {
        let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
        2f64.powi(exponent - digits)
    };
    match format {
        Format::Bf16 => binary(x, 8, -126),
        Format::F16 => binary(x, 11, -14),
        Format::Int8 => 0.501 * scale,
        // A number that was just below a power of two may have been rounded as one just above.
        Format::Fp8 => 1.001 * scale * binary(x / scale * (1.0 + 1e-6), 4, -6),
    }
}

/// Judges what one head was stored as: `bytes` after, at `place`.
#[track_caller]
fn judge(format: Format, cache: Cache, bytes: &[u8], place: impl Fn(usize) -> usize, head: &[f32], at: [usize; 2]) {
    let scale = format.scale(cache, bytes, at[0], at[1]);
    let number = |d: usize| format.number(&bytes[place(d) * format.bytes()..]) * scale;
    if let Some(most) = match format {
        Format::Int8 => Some(127.0),
        Format::Fp8 => Some(448.0),
        _ => None,
    } {
        let largest = head.iter().fold(0f64, |a, x| if x.is_nan() { f64::NAN } else { a.max(f64::from(x.abs())) });
        if !largest.is_finite() || head.iter().any(|x| x.is_nan()) {
            assert!(!scale.is_finite(), "{format:?} {at:?}: scale {scale} of a head that is not finite");
            return;
        }
        // A scale below the smallest normal f32 is a multiple of the smallest there is.
        let exact = largest / most;
        assert!((scale - exact).abs() <= 1e-6 * exact + 2f64.powi(-149), "{format:?} {at:?}: {scale}");
        // What makes codes of it is no number of f32: they are zeros.
        if largest > 0.0 && (most / largest) as f32 == f32::INFINITY {
            assert!((0..head.len()).all(|d| number(d) == 0.0), "{format:?} {at:?}: codes of nothing");
            return;
        }
    }
    for (d, &x) in head.iter().enumerate() {
        let (got, exact) = (number(d), f64::from(x));
        let exact = if format == Format::F16 && x.is_finite() { exact.clamp(-65504.0, 65504.0) } else { exact };
        let near = (got - exact).abs() <= half_step(format, exact, scale);
        // bf16 rounds to infinity what is nearer to it than to its largest number.
        let infinite = format == Format::Bf16 && exact.abs() > 3.39e38 && got == exact.signum() * f64::INFINITY;
        let same = got == exact || got.is_nan() && exact.is_nan();
        assert!(near || same || infinite, "{format:?} {at:?}: element {d} is {got}, {exact} stored, scale {scale}");
    }
}

/// Bytes of a cache before an append: none is 0.
fn before(format: Format, cache: Cache) -> Vec<u8> {
    (0..format.cache_bytes(cache)).map(|i| i as u8 | 1).collect()
}

/// Judges a whole cache: the appended heads, and that every other byte is as it was.
#[track_caller]
fn judge_all(format: Format, cache: Cache, bytes: &[u8], is_key: bool, rows: &[f32], position: usize) {
    let old = before(format, cache);
    assert_eq!(bytes.len(), old.len());
    let mut touched = vec![false; old.len()];
    for (row, head) in rows.chunks_exact(cache.head_dim).enumerate() {
        let (g, p) = (row % cache.kv_heads, position + row / cache.kv_heads);
        let place = |d| if is_key { cache.key(g, p, d) } else { cache.value(g, p, d) };
        judge(format, cache, bytes, place, head, [g, p]);
        for d in 0..cache.head_dim {
            touched[place(d) * format.bytes()..][..format.bytes()].fill(true);
        }
        if let Some(at) = format.scale_at(cache, g, p) {
            touched[at..at + 4].fill(true);
        }
    }
    for (i, touched) in touched.iter().enumerate() {
        assert!(*touched || bytes[i] == old[i], "{format:?}: byte {i} is {:#x}, was {:#x}", bytes[i], old[i]);
    }
}

/// Keys and values with heads that are all zero, nearly nothing, huge, and not finite.
fn rows(count: usize, head_dim: usize, seed: u64) -> Vec<f32> {
    let mut x = Numbers::new(seed).awkward(count * head_dim, 1.0);
    for (i, head) in x.chunks_exact_mut(head_dim).enumerate() {
        match i % 11 {
            3 => head.fill(if i % 2 == 0 { 0.0 } else { -0.0 }),
            4 => head.iter_mut().for_each(|x| *x *= 1e-30),
            5 => head.iter_mut().for_each(|x| *x *= 1e30),
            // Its reciprocal is subnormal; the largest there is; what no factor of f32 turns into a code.
            1 => head[2] = 1e38,
            2 => head[3] = -f32::MAX,
            10 => head.iter_mut().for_each(|x| *x *= 1e-39),
            6 => head[head_dim - 1] = f32::NAN,
            7 => head[1] = f32::NEG_INFINITY,
            8 => head[0] = 70_000.0,
            // Codes half way between two.
            9 => {
                head.fill(0.5);
                (head[5], head[6], head[7]) = (127.0, 1.5, -2.5);
            }
            _ => {}
        }
    }
    x
}

#[track_caller]
fn check_append(cache: Cache, [k_format, v_format]: [Format; 2], tokens: usize, position: usize) {
    let Cache { kv_heads, head_dim, capacity } = cache;
    let (k, v) = (rows(tokens * kv_heads, head_dim, 1), rows(tokens * kv_heads, head_dim, 2));
    let (keys, values) = (before(k_format, cache), before(v_format, cache));
    let mut machine = Machine::new();
    let (keys_out, values_out) = (machine.inout(&keys), machine.inout(&values));
    let codes = cache.elements() as u64;
    let args = append::Args {
        k: machine.input(&k),
        v: machine.input(&v),
        k_cache: keys_out.address,
        v_cache: values_out.address,
        k_scales: if k_format.is_scaled() { keys_out.address + codes } else { 0 },
        v_scales: if v_format.is_scaled() { values_out.address + codes } else { 0 },
        k_format: stored(k_format) as u32,
        v_format: stored(v_format) as u32,
        tokens: tokens as u32,
        kv_heads: kv_heads as u32,
        position: position as u32,
        capacity: capacity as u32,
    };
    let name = append::name(head_dim as u32).expect("64 or 128");
    machine.run(name, append::geometry(tokens as u32, kv_heads as u32), &args);
    judge_all(k_format, cache, &machine.read(&keys_out), true, &k, position);
    judge_all(v_format, cache, &machine.read(&values_out), false, &v, position);

    hip::each(|device| {
        let [k_rows, v_rows] = [&k, &v].map(|rows| device.buffer(rows));
        let [keys_out, values_out] = [&keys, &values].map(|bytes| device.buffer(bytes));
        let place = KvCache { keys: &keys_out.span, values: &values_out.span, kv_heads, head_dim, capacity };
        let coded = CodedCache { cache: place, k: stored(k_format), v: stored(v_format) };
        let (kernels, stream) = (&device.kernels, &device.stream);
        let launched = kernels.kv_append_formats(stream, &k_rows.span, &v_rows.span, &coded, tokens, position);
        launched.expect("a right launch");
        judge_all(k_format, cache, &device.read(&keys_out), true, &k, position);
        judge_all(v_format, cache, &device.read(&values_out), false, &v, position);
    });
}

#[test]
fn appended_heads_come_back() {
    for head_dim in [64, 128] {
        for (kv_heads, tokens, position, capacity) in
            [(1, 1, 0, 32), (1, 1, 31, 32), (2, 1, 95, 96), (3, 31, 1, 32), (2, 33, 30, 64), (8, 5, 32, 64)]
        {
            for formats in FORMATS.map(|format| [format; 2]) {
                check_append(Cache { kv_heads, head_dim, capacity }, formats, tokens, position);
            }
        }
        for k in FORMATS {
            for v in FORMATS {
                check_append(Cache { kv_heads: 2, head_dim, capacity: 64 }, [k, v], 12, 29);
            }
        }
    }
}

/// The last head of a cache of 2.5 GiB and more: offsets past 2³¹ elements. Only a handful of pages is touched.
#[test]
fn heads_past_four_gigabytes() {
    let cache = Cache { kv_heads: 8, head_dim: 128, capacity: 5_242_880 };
    let position = cache.capacity - 1;
    let row = Numbers::new(11).vector(cache.kv_heads * cache.head_dim, 1.0);
    for format in [Format::Int8, Format::F16] {
        let mut machine = Machine::new();
        let bytes = format.cache_bytes(cache) as u64;
        let (k_cache, v_cache) = (machine.zeroes(bytes), machine.zeroes(bytes));
        let codes = (cache.elements() * format.bytes()) as u64;
        let args = append::Args {
            k: machine.input(&row),
            v: machine.input(&row),
            k_cache,
            v_cache,
            k_scales: if format.is_scaled() { k_cache + codes } else { 0 },
            v_scales: if format.is_scaled() { v_cache + codes } else { 0 },
            k_format: stored(format) as u32,
            v_format: stored(format) as u32,
            tokens: 1,
            kv_heads: 8,
            position: position as u32,
            capacity: cache.capacity as u32,
        };
        machine.run(append::NAME_D128, append::geometry(1, 8), &args);
        for (i, &x) in row.iter().enumerate() {
            let (head, d) = (i / cache.head_dim, i % cache.head_dim);
            for (base, at) in [(k_cache, cache.key(head, position, d)), (v_cache, cache.value(head, position, d))] {
                let scale = match format.scale_at(cache, head, position) {
                    Some(at) => f64::from(machine.read_at::<f32>(base + at as u64)),
                    None => 1.0,
                };
                let first = base + (at * format.bytes()) as u64;
                let code: Vec<u8> = (0..format.bytes() as u64).map(|b| machine.read_at::<u8>(first + b)).collect();
                let got = format.number(&code) * scale;
                assert!(
                    (got - f64::from(x)).abs() <= half_step(format, x.into(), scale),
                    "{format:?} {head} {d}: {got}"
                );
            }
        }
    }
}

/// Norm, rotation and append in one launch give the bits of the three.
#[track_caller]
fn check_prepare(shape: [usize; 5], [k_format, v_format]: [Format; 2], normed: bool) {
    let [tokens, heads, kv_heads, head_dim, position] = shape;
    let mut numbers = Numbers::new((tokens * 31 + heads * 7 + head_dim + position) as u64);
    let cache = Cache { kv_heads, head_dim, capacity: (position + tokens).next_multiple_of(32) };
    let q = numbers.awkward(tokens * heads * head_dim, 4.0);
    let [k, v] = [2.0, 1.0].map(|scale| numbers.awkward(tokens * kv_heads * head_dim, scale));
    let norms = [1.0, 2.0].map(|scale| to_bf16(&numbers.vector(head_dim, scale)));
    let angles: Vec<f32> = (0..(position + tokens) * head_dim / 2).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let row = |row: &[f32]| row.iter().map(|a| a.cos()).chain(row.iter().map(|a| a.sin())).collect::<Vec<f32>>();
    let table: Vec<f32> = angles.chunks(head_dim / 2).flat_map(row).collect();

    let eps = 1e-6;
    hip::each(|device| {
        let (kernels, stream) = (&device.kernels, &device.stream);
        let [table, wq, wk] = [device.buffer(&table), device.buffer(&norms[0]), device.buffer(&norms[1])];
        let run = |whole: bool| {
            let [q, k, v] = [&q, &k, &v].map(|rows| device.buffer(rows));
            let (keys, values) = (device.buffer(&before(k_format, cache)), device.buffer(&before(v_format, cache)));
            let Cache { kv_heads, head_dim, capacity } = cache;
            let place = KvCache { keys: &keys.span, values: &values.span, kv_heads, head_dim, capacity };
            let coded = CodedCache { cache: place, k: stored(k_format), v: stored(v_format) };
            let norms = normed.then_some([&wq.span, &wk.span]);
            if whole {
                let rows = Qkv { q: &q.span, k: &k.span, v: &v.span };
                let (table, shape) = (&table.span, [tokens, heads]);
                let launched = kernels.prepare_heads_formats(stream, rows, norms, table, &coded, shape, position, eps);
                launched.expect("a right launch");
            } else {
                for (index, (x, count)) in [(&q, heads), (&k, kv_heads)].into_iter().enumerate() {
                    if let Some(norms) = norms {
                        let rows = [tokens * count, head_dim];
                        kernels.head_norm(stream, &x.span, norms[index], rows, eps).expect("a right launch");
                    }
                    let shape = [tokens, count, head_dim];
                    kernels.rope(stream, &x.span, &table.span, shape, position).expect("a right launch");
                }
                let launched = kernels.kv_append_formats(stream, &k.span, &v.span, &coded, tokens, position);
                launched.expect("a right launch");
            }
            (device.read::<u32>(&q), device.read::<u8>(&keys), device.read::<u8>(&values))
        };
        assert!(run(true) == run(false), "{}: {shape:?} {k_format:?} {v_format:?} {normed}", device.name);
    });
}

#[test]
fn prepared_heads_are_the_bits_of_the_parts() {
    for head_dim in [64, 128] {
        for (tokens, heads, kv_heads, position) in [(1, 1, 1, 0), (2, 14, 2, 5), (3, 16, 8, 29), (33, 9, 3, 7)] {
            for formats in [[Format::Int8; 2], [Format::Bf16, Format::Fp8], [Format::F16, Format::Int8]] {
                for normed in [true, false] {
                    check_prepare([tokens, heads, kv_heads, head_dim, position], formats, normed);
                }
            }
        }
    }
}

#[test]
fn scales_that_do_not_fit_are_refused() {
    hip::each(|device| {
        let rows = device.buffer(&vec![0f32; 64]);
        // 32 positions of one head of 64: 2 048 codes and 128 bytes of scales.
        let [keys, short] = [2176, 2175].map(|bytes| device.buffer(&vec![0u8; bytes]));
        let place = KvCache { keys: &keys.span, values: &short.span, kv_heads: 1, head_dim: 64, capacity: 32 };
        let coded = CodedCache { cache: place, k: KvFormat::Int8, v: KvFormat::Int8 };
        let more = device.buffer(&vec![0f32; 64]);
        let launched = device.kernels.kv_append_formats(&device.stream, &rows.span, &more.span, &coded, 1, 0);
        let text = launched.expect_err("scales that do not fit").to_string();
        assert!(text.contains("value cache") && text.contains("2176") && text.contains("2175"), "{text}");
    });
}
