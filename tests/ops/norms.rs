//! RMSNorm of rows and of heads.

use device_ops::{Geometry, head_norm, rmsnorm};
use zynfer_tests::oracle;
use zynfer_tests::tolerances::{BF16_STORE, F32_NORM};

use crate::data::{Numbers, from_bf16, to_bf16, wide};
use crate::hip;
use crate::machine::{Machine, compare_plain};

const EPS: f32 = 1e-6;

/// Rows that stress the sum: plain, awkward, all zero, one outlier, tiny, large.
fn rows(count: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut numbers = Numbers::new(seed);
    (0..count)
        .flat_map(|row| match row % 6 {
            0 => numbers.vector(width, 1.0),
            1 => numbers.awkward(width, 4.0),
            2 => vec![0.0; width],
            3 => {
                let mut x = numbers.vector(width, 1e-3);
                x[width - 1] = 3e4;
                x
            }
            4 => numbers.vector(width, 1e-25),
            _ => numbers.vector(width, 1e15),
        })
        .collect()
}

#[track_caller]
fn check_rmsnorm(kernel: &str, geometry: Geometry, count: usize, hidden: usize) {
    let x = rows(count, hidden, hidden as u64);
    let w = to_bf16(&Numbers::new(3).awkward(hidden, 1.0));
    let mut machine = Machine::new();
    let y = machine.output::<u16>(count * hidden);
    let (x_at, w_at) = (machine.input(&x), machine.input(&w));
    let args = rmsnorm::Args::new(x_at, w_at, y.address, count as u32, hidden as u32, EPS);
    machine.run(kernel, geometry, &args);
    let want = oracle::rmsnorm::rmsnorm(&wide(&x), &from_bf16(&w), f64::from(EPS));
    let got: Vec<f64> = from_bf16(&machine.read(&y));
    compare_plain(&format!("{kernel} [{count}, {hidden}]"), &got, &want, BF16_STORE);
    if kernel == rmsnorm::name(count as u32) {
        hip::each(|device| {
            let (x, w, y) = (device.buffer(&x), device.buffer(&w), device.output::<u16>(count * hidden));
            let launched = device.kernels.rmsnorm(&device.stream, &x.span, &w.span, &y.span, [count, hidden], EPS);
            launched.expect("a right launch");
            compare_plain(&device.name, &from_bf16(&device.read(&y)), &want, BF16_STORE);
        });
    }
}

#[test]
fn rmsnorm_both_rungs() {
    for (count, hidden) in
        [(1, 64), (1, 128), (3, 192), (4, 256), (5, 1024), (7, 1088), (6, 2048), (6, 4096), (6, 5120), (9, 64)]
    {
        check_rmsnorm(rmsnorm::NAME_WAVE, rmsnorm::geometry_wave(count as u32), count, hidden);
        check_rmsnorm(rmsnorm::NAME_WORKGROUP, rmsnorm::geometry_workgroup(count as u32), count, hidden);
    }
}

#[test]
fn rmsnorm_around_the_route_boundary() {
    let b = rmsnorm::WAVE_FROM_ROWS;
    for count in [b - 1, b, b + 1] {
        let want = if count < b { rmsnorm::NAME_WORKGROUP } else { rmsnorm::NAME_WAVE };
        assert_eq!(rmsnorm::name(count), want, "{count} rows");
        check_rmsnorm(rmsnorm::name(count), rmsnorm::geometry(count), count as usize, 192);
    }
}

/// What is not a number stays visible.
#[test]
fn rmsnorm_keeps_nan() {
    for (kernel, geometry) in
        [(rmsnorm::NAME_WAVE, rmsnorm::geometry_wave(1)), (rmsnorm::NAME_WORKGROUP, rmsnorm::geometry_workgroup(1))]
    {
        let mut x = Numbers::new(4).vector(256, 1.0);
        x[200] = f32::from_bits(0x7fff_ffff);
        let mut machine = Machine::new();
        let y = machine.output::<u16>(256);
        let (x_at, w_at) = (machine.input(&x), machine.input(&to_bf16(&[1.0; 256])));
        let args = rmsnorm::Args::new(x_at, w_at, y.address, 1, 256, EPS);
        machine.run(kernel, geometry, &args);
        let got = from_bf16(&machine.read(&y));
        assert!(got.iter().all(|v| v.is_nan()), "{kernel}: a NaN in the row must reach every element: {got:?}");
    }
}

#[track_caller]
fn check_head_norm(count: usize, head_dim: usize) {
    let x = rows(count, head_dim, 77);
    let w = to_bf16(&Numbers::new(5).awkward(head_dim, 1.0));
    let kernel = head_norm::name(head_dim as u32).expect("64 or 128");
    let mut machine = Machine::new();
    let out = machine.inout(&x);
    let args = head_norm::Args { x: out.address, w: machine.input(&w), rows: count as u32, eps: EPS };
    machine.run(kernel, head_norm::geometry(count as u32), &args);
    let want = oracle::head_norm::head_norm(&wide(&x), &from_bf16(&w), f64::from(EPS));
    compare_plain(&format!("{kernel}, {count} rows"), &machine.read(&out), &want, F32_NORM);
    hip::each(|device| {
        let (x, w) = (device.buffer(&x), device.buffer(&w));
        let launched = device.kernels.head_norm(&device.stream, &x.span, &w.span, [count, head_dim], EPS);
        launched.expect("a right launch");
        compare_plain(&device.name, &device.read::<f32>(&x), &want, F32_NORM);
    });
}

#[test]
fn head_norm_shapes() {
    for head_dim in [64, 128] {
        for count in [1, 2, 3, 4, 5, 33] {
            check_head_norm(count, head_dim);
        }
    }
    assert_eq!(head_norm::name(96), None);
}
