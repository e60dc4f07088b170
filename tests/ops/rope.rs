//! Rotary embedding.

use device_ops::rope;
use zynfer_tests::oracle;
use zynfer_tests::tolerances::F32_ROTATE;

use crate::data::{Numbers, wide};
use crate::hip;
use crate::machine::{Machine, compare};

#[track_caller]
fn check(tokens: usize, heads: usize, head_dim: usize, position: usize) {
    let x = Numbers::new(position as u64).awkward(tokens * heads * head_dim, 3.0);
    // The table ends with the last position asked for, so that a read past it leaves the allocation.
    let exact: Vec<Vec<f64>> = (0..position + tokens).map(|p| oracle::rope::table_row(p, head_dim, 1e6)).collect();
    let table: Vec<f32> = exact.iter().flatten().map(|&v| v as f32).collect();
    let rounded: Vec<Vec<f64>> = table.chunks(head_dim).map(wide).collect();
    let kernel = rope::name(head_dim as u32).expect("64 or 128");
    let mut machine = Machine::new();
    let out = machine.inout(&x);
    let args =
        rope::Args { x: out.address, table: machine.input(&table), heads: heads as u32, position: position as u32 };
    machine.run(kernel, rope::geometry(tokens as u32, heads as u32), &args);
    let want = oracle::rope::rope(&wide(&x), &rounded, heads, head_dim, position);
    compare(&format!("{kernel} T {tokens} heads {heads} at {position}"), &machine.read(&out), &want, F32_ROTATE);
    hip::each(|device| {
        let (x, table) = (device.buffer(&x), device.buffer(&table));
        let shape = [tokens, heads, head_dim];
        device.kernels.rope(&device.stream, &x.span, &table.span, shape, position).expect("a right launch");
        compare(&device.name, &device.read::<f32>(&x), &want, F32_ROTATE);
    });
}

#[test]
fn shapes_and_positions() {
    for head_dim in [64, 128] {
        for (tokens, heads, position) in
            [(1, 1, 0), (1, 16, 1), (2, 3, 0), (7, 4, 5), (3, 5, 1023), (1, 8, 1024), (2, 9, 40_958)]
        {
            check(tokens, heads, head_dim, position);
        }
    }
    assert_eq!(rope::name(80), None);
}
