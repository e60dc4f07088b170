//! Greedy choice.

use device_ops::argmax;
use zynfer_tests::oracle;

use crate::data::Numbers;
use crate::hip;
use crate::machine::Machine;

#[track_caller]
fn check(what: &str, rows: &[Vec<f32>]) {
    let vocab = rows[0].len();
    let mut machine = Machine::new();
    let ids = machine.output::<u32>(rows.len());
    let logits = rows.concat();
    let args = argmax::Args { logits: machine.input(&logits), ids: ids.address, vocab: vocab as u32, pad: 0 };
    machine.run(argmax::NAME, argmax::geometry(rows.len() as u32), &args);
    let want: Vec<u32> = rows.iter().map(|row| oracle::argmax::argmax(row).unwrap_or(argmax::NAN_ID)).collect();
    assert_eq!(machine.read(&ids), want, "{what}, vocabulary {vocab}");
    hip::each(|device| {
        let (logits, ids) = (device.buffer(&logits), device.output::<u32>(rows.len()));
        let launched = device.kernels.argmax(&device.stream, &logits.span, &ids.span, [rows.len(), vocab]);
        launched.expect("a right launch");
        assert_eq!(device.read::<u32>(&ids), want, "{}: {what}, vocabulary {vocab}", device.name);
    });
}

/// Vocabularies that are a multiple of nothing, with the largest logit at each end and in the middle.
#[test]
fn places() {
    for vocab in [1, 2, 31, 32, 33, 1000, 1023, 1024, 1025, 4096, 5001] {
        let rows: Vec<Vec<f32>> = [0, vocab / 2, vocab - 1]
            .into_iter()
            .map(|at| {
                let mut row = Numbers::new(vocab as u64).vector(vocab, 1.0);
                row[at] = 40.0;
                row
            })
            .collect();
        check("largest at the start, in the middle, at the end", &rows);
    }
    check("a real vocabulary", &[Numbers::new(6).vector(151_936, 8.0)]);
}

#[test]
fn ties_take_the_lowest_id() {
    for vocab in [2, 33, 1000, 2500] {
        check("all equal", &[vec![1.5; vocab], vec![-1.5; vocab], vec![f32::NEG_INFINITY; vocab]]);
        let mut row = Numbers::new(7).vector(vocab, 1.0);
        for at in [vocab - 1, vocab / 2, vocab / 3] {
            row[at] = 9.0;
        }
        check("three equal", &[row]);
    }
    let mut zeros = vec![-1.0; 1100];
    (zeros[1050], zeros[3], zeros[900]) = (0.0, -0.0, 0.0);
    check("zeros of both signs are equal", &[zeros]);
}

#[test]
fn awkward_values() {
    let mut small = vec![-1e-40f32; 1100];
    (small[500], small[501]) = (1e-42, 1e-41);
    check("denormals are ordered", &[small]);
    let mut infinite = vec![0.0; 1100];
    (infinite[7], infinite[1040], infinite[9]) = (f32::NEG_INFINITY, f32::INFINITY, f32::MAX);
    check("infinity is largest", &[infinite]);
    for at in [0, 31, 1024, 1099] {
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
            let mut row = vec![0.5; 1100];
            row[40] = f32::INFINITY;
            row[at] = nan;
            check("a NaN is reported, and only in its row", &[vec![0.25; 1100], row, vec![0.25; 1100]]);
        }
    }
}
