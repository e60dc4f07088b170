//! SwiGLU, the residual addition and that of a bias.

use device_ops::{bias_add, residual_add, swiglu};
use zynfer_tests::oracle;
use zynfer_tests::tolerances::{EXACT, SWIGLU};

use crate::data::{Numbers, from_bf16, to_bf16, wide};
use crate::hip;
use crate::machine::{Machine, compare, compare_plain};

/// Counts around a lane's four elements and a workgroup's 1024.
const COUNTS: [usize; 8] = [4, 64, 1020, 1024, 1028, 2048, 3072, 5 * 3072];

#[track_caller]
fn check_swiglu(gate: &[f32], up: &[f32]) {
    let mut machine = Machine::new();
    let out = machine.output::<u16>(gate.len());
    let args =
        swiglu::Args { gate: machine.input(gate), up: machine.input(up), out: out.address, count: gate.len() as u64 };
    machine.run(swiglu::NAME, swiglu::geometry(gate.len() as u64), &args);
    let want = oracle::swiglu::swiglu(&wide(gate), &wide(up));
    let got: Vec<f64> = from_bf16(&machine.read(&out));
    compare(&format!("{}, {} elements", swiglu::NAME, gate.len()), &got, &want, SWIGLU);
    hip::each(|device| {
        let (gate_in, up_in, out) = (device.buffer(gate), device.buffer(up), device.output::<u16>(gate.len()));
        let launched = device.kernels.swiglu(&device.stream, &gate_in.span, &up_in.span, &out.span, gate.len());
        launched.expect("a right launch");
        compare(&device.name, &from_bf16(&device.read(&out)), &want, SWIGLU);
    });
}

#[test]
fn swiglu_counts() {
    for count in COUNTS {
        let mut numbers = Numbers::new(count as u64);
        check_swiglu(&numbers.awkward(count, 2.0), &numbers.awkward(count, 1.0));
    }
}

/// The whole range of the exponential: where it is 0, where it is infinite, and the steps between.
#[test]
fn swiglu_range() {
    let gate: Vec<f32> = (0..4096).map(|i| (i as f32 - 2048.0) / 16.0).collect();
    let up: Vec<f32> = (0..4096).map(|i| if i % 2 == 0 { 1.5 } else { -0.75 }).collect();
    check_swiglu(&gate, &up);
    let gate = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, 1e-40, 3e38, -3e38];
    check_swiglu(&gate, &[1.0; 8]);
    check_swiglu(&[1.0; 8], &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, 1e-30, 3e38, -3e38]);
}

#[test]
fn residual_add_counts() {
    for count in COUNTS {
        let mut numbers = Numbers::new(count as u64);
        let (hidden, proj) = (numbers.awkward(count, 10.0), numbers.awkward(count, 1e-3));
        let mut machine = Machine::new();
        let out = machine.inout(&hidden);
        let args = residual_add::Args { hidden: out.address, proj: machine.input(&proj), count: count as u64 };
        machine.run(residual_add::NAME, residual_add::geometry(count as u64), &args);
        // The sum of two f32 in f64, rounded to f32, is the f32 sum: 53 bits are more than twice 24 and two.
        let want: Vec<f64> = oracle::residual_add::residual_add(&wide(&hidden), &wide(&proj))
            .into_iter()
            .map(|v| f64::from(v as f32))
            .collect();
        compare_plain(&format!("{}, {count} elements", residual_add::NAME), &machine.read(&out), &want, EXACT);
        hip::each(|device| {
            let (hidden, proj) = (device.buffer(&hidden), device.buffer(&proj));
            let launched = device.kernels.residual_add(&device.stream, &hidden.span, &proj.span, count);
            launched.expect("a right launch");
            compare_plain(&device.name, &device.read::<f32>(&hidden), &want, EXACT);
        });
    }
}

/// Rows around a lane's four elements and a workgroup's 512; one token and several.
#[test]
fn bias_add_shapes() {
    for (tokens, n) in [(1, 4), (1, 192), (3, 508), (2, 512), (5, 516), (33, 64), (2, 3584)] {
        let mut numbers = Numbers::new((tokens * 7 + n) as u64);
        let (y, bias) = (numbers.awkward(tokens * n, 2.0), to_bf16(&numbers.awkward(n, 1.0)));
        let mut machine = Machine::new();
        let out = machine.inout(&y);
        let args = bias_add::Args { y: out.address, bias: machine.input(&bias), n: n as u32, pad: 0 };
        machine.run(bias_add::NAME, bias_add::geometry(tokens as u32, n as u32), &args);
        // As above: a sum in f64 rounded to f32 is the f32 sum.
        let want: Vec<f64> =
            oracle::bias_add::bias_add(&wide(&y), &from_bf16(&bias)).into_iter().map(|v| f64::from(v as f32)).collect();
        compare_plain(&format!("{}, {tokens} × {n}", bias_add::NAME), &machine.read(&out), &want, EXACT);
        hip::each(|device| {
            let (y, bias) = (device.buffer(&y), device.buffer(&bias));
            let launched = device.kernels.bias_add(&device.stream, &y.span, &bias.span, [tokens, n]);
            launched.expect("a right launch");
            compare_plain(&device.name, &device.read::<f32>(&y), &want, EXACT);
        });
    }
    hip::each(|device| {
        let (y, bias) = (device.buffer(&[0f32; 8]), device.buffer(&[0u16; 4]));
        let launch = |tokens, n| device.kernels.bias_add(&device.stream, &y.span, &bias.span, [tokens, n]);
        let refusals =
            [launch(3, 4), launch(1, 8), launch(1, 6)].map(|result| result.expect_err("refused").to_string());
        assert!(refusals[0].contains("y [3, 4] needs 48 bytes") && refusals[0].contains("32"), "{}", refusals[0]);
        assert!(refusals[1].contains("bias [8] needs 16 bytes") && refusals[1].contains('8'), "{}", refusals[1]);
        assert!(refusals[2].contains("N is 6") && refusals[2].contains("multiple of 4"), "{}", refusals[2]);
    });
}
