//! The largest logits.

use device_ops::top_k::{self, MAX, MAX_SLICES};
use zynfer_tests::oracle;

use crate::data::Numbers;
use crate::hip;
use crate::machine::Machine;

/// What the kernel leaves where it writes nothing.
const UNWRITTEN: [u32; 2] = [u32::MAX; 2];
/// Logits of a slice, as long as slices do not get longer instead of more.
const SLICE: usize = 2048;

/// Bits of an f32 and an id, against the oracle's; a NaN of any bits is a NaN, and a zero of any sign a zero.
#[track_caller]
fn compare(what: &str, got: &[[u32; 2]], want: &[(u32, f64)]) {
    for (rank, (&[bits, id], &(want_id, want))) in got.iter().zip(want).enumerate() {
        let value = f64::from(f32::from_bits(bits));
        let same = value == want || value.is_nan() && want.is_nan();
        assert!(same && id == want_id, "{what}: rank {rank} is token {id} with {value}, want {want_id} with {want}");
    }
    let rest = &got[want.len()..];
    assert!(rest.iter().all(|&pair| pair == UNWRITTEN), "{what}: written behind {} tokens: {rest:?}", want.len());
}

#[track_caller]
fn check(what: &str, row: &[f32], k: usize) {
    let what = &format!("{what}, vocabulary {}, k {k}", row.len());
    let (vocab, want) = (row.len() as u32, oracle::top_k::top_k(row, k));
    let mut machine = Machine::new();
    let best = machine.output::<[u32; 2]>(k);
    let keys = machine.output::<u64>(top_k::slices(vocab) as usize * k);
    let args = top_k::Args::new(machine.input(row), keys.address, best.address, vocab, k as u32);
    machine.run(top_k::NAME_SLICES, top_k::geometry_slices(vocab), &args);
    machine.run(top_k::NAME_MERGE, top_k::geometry_merge(), &args);
    compare(what, &machine.read(&best), &want);
    hip::each(|device| {
        let (logits, best) = (device.buffer(row), device.output::<[u32; 2]>(k));
        let keys = device.output::<u8>(top_k::keys_bytes(vocab, k as u32));
        let launched = device.kernels.top_k(&device.stream, &logits.span, &keys.span, &best.span, row.len(), k);
        launched.expect("a right launch");
        compare(&format!("{}: {what}", device.name), &device.read::<[u32; 2]>(&best), &want);
    });
}

#[test]
fn slices_cover_a_vocabulary_without_an_empty_one() {
    let most = u32::MAX - 1024;
    let edge = MAX_SLICES * SLICE as u32;
    for vocab in [1, 2047, 2048, 2049, 151_936, edge - 1, edge, edge + 1, 2 * edge, 2 * edge + 1, most - 1, most] {
        let (slice, slices) = (top_k::slice(vocab), top_k::slices(vocab));
        assert!(slices <= MAX_SLICES && slice.is_multiple_of(SLICE as u32), "{vocab}: {slices} of {slice}");
        let (before, all) = (u64::from(slices - 1) * u64::from(slice), u64::from(slices) * u64::from(slice));
        assert!(before < u64::from(vocab) && all >= u64::from(vocab), "{vocab}: {slices} of {slice}");
        assert_eq!(top_k::geometry_slices(vocab).workgroups, [slices, 1, 1]);
    }
    assert_eq!((top_k::slice(edge), top_k::slice(edge + 1)), (2048, 4096));
}

/// Vocabularies that are a multiple of nothing, fewer than k, around lanes, workgroups and slices.
#[test]
fn any_vocabulary_and_any_k() {
    for vocab in [1, 2, 19, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 2047, 2048, 2049, 2060, 4096, 5001] {
        let row = Numbers::new(vocab as u64).vector(vocab, 8.0);
        for k in [1, 2, 3, 20, 63, 64] {
            check("random", &row, k);
        }
    }
}

#[test]
fn a_real_vocabulary() {
    let row = Numbers::new(6).vector(151_936, 8.0);
    for k in [1, 20, 64] {
        check("random", &row, k);
    }
}

/// More logits than the slices hold at once: a workgroup looks at several chunks, the largest in the first, the last, or all of them.
#[test]
fn slices_of_several_chunks() {
    let vocab = MAX_SLICES as usize * SLICE + 4097;
    let row = Numbers::new(8).vector(vocab, 8.0);
    check("random", &row, 64);
    let rising: Vec<f32> = (0..vocab).map(|i| i as f32).collect();
    check("rising", &rising, 64);
    let falling: Vec<f32> = (0..vocab).map(|i| -(i as f32)).collect();
    check("falling", &falling, 20);
    let mut few = vec![f32::NEG_INFINITY; vocab];
    for at in [1, 2050, 4095, 4096, 9000, vocab - 1] {
        few[at] = at as f32;
    }
    check("few above minus infinity", &few, 64);
}

/// Where the largest lie: the cases that a bound by the lanes' maxima is worst at.
#[test]
fn places() {
    for vocab in [2048, 5001, MAX_SLICES as usize * SLICE + 3000] {
        let noise = Numbers::new(9).vector(vocab, 1.0);
        let with = |lift: &dyn Fn(usize) -> f32| -> Vec<f32> { (0..vocab).map(|i| noise[i] + lift(i)).collect() };
        for k in [20, 64] {
            check("all in one lane", &with(&|i| if i % 128 == 77 { 50.0 } else { 0.0 }), k);
            check("all in one lane of every second workgroup", &with(&|i| if i % 4096 == 5 { 50.0 } else { 0.0 }), k);
            check("one behind the other", &with(&|i| if i / 100 == 19 { 50.0 } else { 0.0 }), k);
            // K − 1 lanes hold everything, and one more the floor, so that nearly all they hold is a candidate.
            let lanes = |i: usize| match (i % 128).cmp(&(k - 1)) {
                std::cmp::Ordering::Less => 100.0,
                std::cmp::Ordering::Equal => 50.0,
                std::cmp::Ordering::Greater => 0.0,
            };
            check("as many candidates as there can be", &with(&lanes), k);
        }
    }
}

#[test]
fn ties_take_the_lowest_ids() {
    for vocab in [40, 2500, 5001] {
        for k in [1, 20, 64] {
            for value in [1.5, -1.5, 0.0, f32::MAX, f32::NEG_INFINITY] {
                check("all equal", &vec![value; vocab], k);
            }
            let mut numbers = Numbers::new(10);
            let steps: Vec<f32> = (0..vocab).map(|_| (numbers.bits() % 5) as f32).collect();
            check("five values", &steps, k);
            let zeros: Vec<f32> =
                (0..vocab).map(|_| if numbers.bits().is_multiple_of(2) { 0.0 } else { -0.0 }).collect();
            check("zeros of both signs are equal", &zeros, k);
        }
    }
}

#[test]
fn awkward_values() {
    let mut numbers = Numbers::new(11);
    for vocab in [70, 5001] {
        let small: Vec<f32> = (0..vocab).map(|_| f32::from_bits(numbers.bits() as u32 & 0x807f_ffff)).collect();
        check("denormals are ordered", &small, 64);
        let any: Vec<f32> = (0..vocab).map(|_| f32::from_bits(numbers.bits() as u32 & 0xff7f_ffff)).collect();
        check("numbers of every size", &any, 64);
        let mut holes = numbers.vector(vocab, 8.0);
        for (i, x) in holes.iter_mut().enumerate() {
            if i % 3 != 1 {
                *x = f32::NEG_INFINITY;
            }
        }
        check("minus infinity between numbers", &holes, 64);
        for at in [0, 31, vocab - 1] {
            let mut row = numbers.vector(vocab, 8.0);
            row[at] = f32::INFINITY;
            check("infinity is largest", &row, 20);
            row[vocab / 2] = f32::INFINITY;
            for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
                let mut row = row.clone();
                row[at] = nan;
                check("a NaN is above all", &row, 20);
            }
        }
    }
    check("nothing but NaN", &[f32::NAN; 3000], MAX as usize);
}
