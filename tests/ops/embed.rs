//! Embedding gather.

use device_ops::embed;
use zynfer_tests::oracle;
use zynfer_tests::tolerances::EXACT;

use crate::data::{Numbers, from_bf16, to_bf16};
use crate::hip;
use crate::machine::{Machine, compare_plain};

struct Case {
    ids: &'static [u32],
    vocab: usize,
    hidden: usize,
}

#[track_caller]
fn check(case: &Case) {
    let Case { ids, vocab, hidden } = *case;
    let mut values = Numbers::new(1).awkward(vocab * hidden, 1.0);
    values[0] = f32::INFINITY;
    values[1] = 1e-40;
    let table = to_bf16(&values);
    let mut machine = Machine::new();
    let out = machine.output::<f32>(ids.len() * hidden);
    let args = embed::Args {
        ids: machine.input(ids),
        table: machine.input(&table),
        out: out.address,
        hidden: hidden as u32,
        pad: 0,
    };
    machine.run(embed::NAME, embed::geometry(ids.len() as u32, hidden as u32), &args);
    let want = oracle::embed::embed(ids, &from_bf16(&table), hidden);
    compare_plain(embed::NAME, &machine.read(&out), &want, EXACT);
    hip::each(|device| {
        let (id_buffer, table, out) =
            (device.output::<u32>(ids.len()), device.buffer(&table), device.output::<f32>(ids.len() * hidden));
        let (stream, shape) = (&device.stream, [vocab, hidden]);
        device.kernels.embed(stream, ids, &id_buffer.span, &table.span, &out.span, shape).expect("a right launch");
        compare_plain(&device.name, &device.read::<f32>(&out), &want, EXACT);
        assert_eq!(device.read::<u32>(&id_buffer), ids, "{}", device.name);
    });
}

#[test]
fn shapes() {
    for case in [
        Case { ids: &[0], vocab: 1, hidden: 64 },
        Case { ids: &[6, 0, 6], vocab: 7, hidden: 1024 },
        Case { ids: &[3, 4], vocab: 5, hidden: 1088 },
        Case { ids: &[999, 0, 500, 999, 1], vocab: 1000, hidden: 192 },
        Case { ids: &[1], vocab: 2, hidden: 5120 },
    ] {
        check(&case);
    }
}

/// A row that starts past 2³² bytes. The table is 5 GiB of addresses of which a handful of pages is touched.
#[test]
fn rows_past_four_gigabytes() {
    let (hidden, vocab) = (1024usize, 2_621_440u32);
    let mut machine = Machine::new();
    let row = Numbers::new(2).vector(hidden, 1.0);
    let table = machine.zeroes(u64::from(vocab) * hidden as u64 * 2);
    let last = u64::from(vocab - 1);
    machine.write(table + last * hidden as u64 * 2, &to_bf16(&row));
    let out = machine.output::<f32>(hidden);
    let args = embed::Args { ids: machine.input(&[vocab - 1]), table, out: out.address, hidden: hidden as u32, pad: 0 };
    machine.run(embed::NAME, embed::geometry(1, hidden as u32), &args);
    compare_plain(embed::NAME, &machine.read(&out), &from_bf16(&to_bf16(&row)), EXACT);
}
