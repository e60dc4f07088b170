//! Appending to the cache: every byte of it is compared, those that must not change as well.

use device_ops::kv_append;
use half::bf16;
use zynfer::hip::kernels::KvCache;
use zynfer_tests::oracle::kv_append::{Cache, kv_append as reference};

use crate::data::{Numbers, to_bf16};
use crate::hip;
use crate::machine::Machine;

#[track_caller]
fn check(cache: Cache, tokens: usize, position: usize) {
    let Cache { kv_heads, head_dim, capacity } = cache;
    let count = tokens * kv_heads * head_dim;
    let mut numbers = Numbers::new((tokens + position) as u64);
    let (mut k, v) = (numbers.awkward(count, 1.0), numbers.awkward(count, 1.0));
    // Ties to even both ways, overflow to infinity, a denormal, infinities, a NaN that must stay one.
    for (at, bits) in [0x3f80_8000, 0x3f81_8000, 0x7f7f_ffff, 0x0000_8001, 0x7f80_0000, 0xff80_0000, 0x7fff_ffff]
        .into_iter()
        .enumerate()
    {
        k[at * 5] = f32::from_bits(bits);
    }
    let before: Vec<u16> = (0..cache.elements()).map(|i| i as u16 | 1).collect();
    let (mut keys, mut values) = (before.clone(), before.clone());
    reference(cache, &to_bf16(&k), &to_bf16(&v), position, &mut keys, &mut values);

    let mut machine = Machine::new();
    let (keys_out, values_out) = (machine.inout(&before), machine.inout(&before));
    let args = kv_append::Args {
        k: machine.input(&k),
        v: machine.input(&v),
        k_cache: keys_out.address,
        v_cache: values_out.address,
        tokens: tokens as u32,
        kv_heads: kv_heads as u32,
        head_dim_log2: head_dim.ilog2(),
        position: position as u32,
        capacity: capacity as u32,
        pad: 0,
    };
    machine.run(kv_append::NAME, kv_append::geometry(tokens as u32, kv_heads as u32, head_dim as u32), &args);
    let what = format!("{cache:?}, T {tokens} at {position}");
    equal(&format!("keys of {what}"), &machine.read(&keys_out), &keys);
    equal(&format!("values of {what}"), &machine.read(&values_out), &values);

    hip::each(|device| {
        let (k, v, keys_out, values_out) =
            (device.buffer(&k), device.buffer(&v), device.buffer(&before), device.buffer(&before));
        let shape = KvCache { keys: &keys_out.span, values: &values_out.span, kv_heads, head_dim, capacity };
        device.kernels.kv_append(&device.stream, &k.span, &v.span, &shape, tokens, position).expect("a right launch");
        equal(&format!("{}: keys of {what}", device.name), &device.read(&keys_out), &keys);
        equal(&format!("{}: values of {what}", device.name), &device.read(&values_out), &values);
    });
}

/// The same bits, or NaN on both sides.
#[track_caller]
fn equal(what: &str, got: &[u16], want: &[u16]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let both_nan = bf16::from_bits(got).is_nan() && bf16::from_bits(want).is_nan();
        assert!(got == want || both_nan, "{what}: element {i} is {got:#06x}, want {want:#06x}");
    }
}

#[test]
fn shapes_and_positions() {
    for head_dim in [64, 128] {
        for (kv_heads, tokens, position, capacity) in [
            (1, 1, 0, 32),
            (1, 1, 31, 32),
            (2, 1, 32, 64),
            (8, 1, 95, 96),
            (2, 2, 31, 64),
            (3, 31, 1, 32),
            (2, 32, 0, 32),
            (2, 33, 30, 64),
            (1, 100, 28, 128),
        ] {
            check(Cache { kv_heads, head_dim, capacity }, tokens, position);
        }
    }
}

#[test]
fn capacity_is_rounded_up_to_what_attention_reads() {
    for (context_len, capacity) in [(1, 32), (31, 32), (32, 32), (33, 64), (40_960, 40_960)] {
        assert_eq!(kv_append::capacity(context_len), capacity, "{context_len}");
    }
}

/// The last head of a cache whose keys and values take 5 GiB each: offsets past 2³² bytes. Only a handful of pages is touched.
#[test]
fn heads_past_four_gigabytes() {
    let cache = Cache { kv_heads: 8, head_dim: 128, capacity: 2_621_440 };
    let position = cache.capacity - 1;
    let row = Numbers::new(11).vector(cache.kv_heads * cache.head_dim, 1.0);
    let mut machine = Machine::new();
    let bytes = cache.elements() as u64 * 2;
    let (k_cache, v_cache) = (machine.zeroes(bytes), machine.zeroes(bytes));
    let args = kv_append::Args {
        k: machine.input(&row),
        v: machine.input(&row),
        k_cache,
        v_cache,
        tokens: 1,
        kv_heads: 8,
        head_dim_log2: 7,
        position: position as u32,
        capacity: cache.capacity as u32,
        pad: 0,
    };
    machine.run(kv_append::NAME, kv_append::geometry(1, 8, 128), &args);
    let want = to_bf16(&row);
    for (i, &want) in want.iter().enumerate() {
        let (head, d) = (i / cache.head_dim, i % cache.head_dim);
        let (key, value) = (cache.key(head, position, d) as u64, cache.value(head, position, d) as u64);
        assert_eq!(machine.read_at::<u16>(k_cache + key * 2), want, "key {d} of head {head}");
        assert_eq!(machine.read_at::<u16>(v_cache + value * 2), want, "value {d} of head {head}");
    }
}
