//! Norm (or none), rotation and the cache's new positions in one launch: the bits of the operations it is made of, which their own files judge by
//! the oracle. The parts run in the emulator; the whole there and as the host launches it.

use device_ops::{head_norm, kv_append, prepare_heads, rope};
use zynfer::hip::kernels::{KvCache, Qkv};

use crate::data::{Numbers, to_bf16};
use crate::hip;
use crate::machine::Machine;

const EPS: f32 = 1e-6;

struct Case {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    position: usize,
    /// Whether heads have norms.
    normed: bool,
}

/// Inputs of a case.
struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    norms: [Vec<u16>; 2],
    table: Vec<f32>,
    capacity: usize,
    /// What the caches hold before.
    caches: [Vec<u16>; 2],
}

fn inputs(case: &Case) -> Inputs {
    let &Case { tokens, heads, kv_heads, head_dim, position, .. } = case;
    let mut numbers = Numbers::new((tokens * 31 + heads * 7 + head_dim + position) as u64);
    let capacity = kv_append::capacity((position + tokens) as u32) as usize;
    let positions = position + tokens;
    let angles: Vec<f32> = (0..positions * head_dim / 2).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let table = angles
        .chunks(head_dim / 2)
        .flat_map(|row| row.iter().map(|a| a.cos()).chain(row.iter().map(|a| a.sin())).collect::<Vec<f32>>())
        .collect();
    Inputs {
        q: numbers.awkward(tokens * heads * head_dim, 4.0),
        k: numbers.awkward(tokens * kv_heads * head_dim, 2.0),
        v: numbers.awkward(tokens * kv_heads * head_dim, 1.0),
        norms: [1.0, 2.0].map(|scale| to_bf16(&numbers.vector(head_dim, scale))),
        table,
        capacity,
        caches: [3, 4].map(|seed| to_bf16(&Numbers::new(seed).vector(kv_heads * capacity * head_dim, 1.0))),
    }
}

/// q and both caches by the operations one after the other.
fn parts(case: &Case, inputs: &Inputs) -> (Vec<u32>, [Vec<u16>; 2]) {
    let &Case { tokens, heads, kv_heads, head_dim, position, normed } = case;
    let [t, d] = [tokens as u32, head_dim as u32];
    let mut rotated = Vec::new();
    for (rows, count, norm) in [(&inputs.q, heads as u32, 0), (&inputs.k, kv_heads as u32, 1)] {
        let mut machine = Machine::new();
        let x = machine.inout(rows);
        if normed {
            let w = machine.input(&inputs.norms[norm]);
            let args = head_norm::Args { x: x.address, w, rows: t * count, eps: EPS };
            machine.run(head_norm::name(d).expect("64 or 128"), head_norm::geometry(t * count), &args);
        }
        let table = machine.input(&inputs.table);
        let args = rope::Args { x: x.address, table, heads: count, position: position as u32 };
        machine.run(rope::name(d).expect("64 or 128"), rope::geometry(t, count), &args);
        rotated.push(machine.read(&x));
    }
    let mut machine = Machine::new();
    let caches = [0, 1].map(|i| machine.inout(&inputs.caches[i]));
    let args = kv_append::Args {
        k: machine.input(&rotated[1]),
        v: machine.input(&inputs.v),
        k_cache: caches[0].address,
        v_cache: caches[1].address,
        tokens: t,
        kv_heads: kv_heads as u32,
        head_dim_log2: d.ilog2(),
        position: position as u32,
        capacity: inputs.capacity as u32,
        pad: 0,
    };
    machine.run(kv_append::NAME, kv_append::geometry(t, kv_heads as u32, d), &args);
    (rotated[0].iter().map(|x| x.to_bits()).collect(), caches.map(|cache| machine.read(&cache)))
}

#[track_caller]
fn check(case: &Case) {
    let &Case { tokens, heads, kv_heads, head_dim, position, normed } = case;
    let what = format!("T {tokens}, {heads} and {kv_heads} heads of {head_dim} from {position}, norms {normed}");
    let inputs = inputs(case);
    let (q_wanted, caches_wanted) = parts(case, &inputs);
    let mut machine = Machine::new();
    let q = machine.inout(&inputs.q);
    let caches = [0, 1].map(|i| machine.inout(&inputs.caches[i]));
    let args = prepare_heads::Args {
        q: q.address,
        k: machine.input(&inputs.k),
        v: machine.input(&inputs.v),
        wq: if normed { machine.input(&inputs.norms[0]) } else { 0 },
        wk: if normed { machine.input(&inputs.norms[1]) } else { 0 },
        table: machine.input(&inputs.table),
        k_cache: caches[0].address,
        v_cache: caches[1].address,
        tokens: tokens as u32,
        heads: heads as u32,
        kv_heads: kv_heads as u32,
        position: position as u32,
        capacity: inputs.capacity as u32,
        eps: EPS,
    };
    let geometry = prepare_heads::geometry(tokens as u32, heads as u32, kv_heads as u32, head_dim as u32);
    machine.run(prepare_heads::name(head_dim as u32, normed).expect("64 or 128"), geometry, &args);
    let bits: Vec<u32> = machine.read(&q).iter().map(|x| x.to_bits()).collect();
    assert!(bits == q_wanted, "{what}: queries");
    for (name, cache, want) in [("keys", &caches[0], &caches_wanted[0]), ("values", &caches[1], &caches_wanted[1])] {
        assert!(machine.read(cache) == *want, "{what}: {name}");
    }
    hip::each(|device| {
        let (kernels, stream) = (&device.kernels, &device.stream);
        let [q, k, v, table] = [&inputs.q, &inputs.k, &inputs.v, &inputs.table].map(|data| device.buffer(data));
        let [wq, wk, keys, values] =
            [&inputs.norms[0], &inputs.norms[1], &inputs.caches[0], &inputs.caches[1]].map(|data| device.buffer(data));
        let cache = KvCache { keys: &keys.span, values: &values.span, kv_heads, head_dim, capacity: inputs.capacity };
        // The parts on the same device: another machine's square root may differ from the emulator's in the last place.
        let [q_parts, k_parts] = [&inputs.q, &inputs.k].map(|data| device.buffer(data));
        let [keys_parts, values_parts] = [0, 1].map(|i| device.buffer(&inputs.caches[i]));
        let cache_parts = KvCache { keys: &keys_parts.span, values: &values_parts.span, ..cache };
        for (x, norm, count) in [(&q_parts, &wq, heads), (&k_parts, &wk, kv_heads)] {
            let rows = [tokens * count, head_dim];
            if normed {
                kernels.head_norm(stream, &x.span, &norm.span, rows, EPS).expect("a right launch");
            }
            let shape = [tokens, count, head_dim];
            kernels.rope(stream, &x.span, &table.span, shape, position).expect("a right launch");
        }
        kernels.kv_append(stream, &k_parts.span, &v.span, &cache_parts, tokens, position).expect("a right launch");

        let rows = Qkv { q: &q.span, k: &k.span, v: &v.span };
        let norms = normed.then_some([&wq.span, &wk.span]);
        let launched = kernels.prepare_heads(stream, rows, norms, &table.span, &cache, [tokens, heads], position, EPS);
        launched.expect("a right launch");
        assert!(device.read::<u32>(&q) == device.read::<u32>(&q_parts), "{}: {what}: queries", device.name);
        assert!(device.read::<u16>(&keys) == device.read::<u16>(&keys_parts), "{}: {what}: keys", device.name);
        assert!(device.read::<u16>(&values) == device.read::<u16>(&values_parts), "{}: {what}: values", device.name);
    });
}

/// Waves that are not full, tokens around 32 lanes of values, positions in the middle of a cache.
#[test]
fn shapes_and_positions() {
    for head_dim in [64, 128] {
        for (tokens, heads, kv_heads, position) in
            [(1, 1, 1, 0), (2, 14, 2, 5), (3, 16, 8, 29), (31, 3, 2, 0), (32, 4, 4, 64), (33, 9, 3, 7), (65, 2, 1, 31)]
        {
            for normed in [true, false] {
                check(&Case { tokens, heads, kv_heads, head_dim, position, normed });
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    hip::each(|device| {
        let (kernels, stream) = (&device.kernels, &device.stream);
        let [q, k, v, table, keys, values] =
            [256, 256, 256, 2 * 64, 32 * 64, 32 * 64].map(|n| device.buffer(&vec![0f32; n]));
        let [wq, wk] = [(); 2].map(|()| device.buffer(&[0u16; 64]));
        let cache = KvCache { keys: &keys.span, values: &values.span, kv_heads: 1, head_dim: 64, capacity: 32 };
        let rows = Qkv { q: &q.span, k: &k.span, v: &v.span };
        let launch = |position: usize, heads: usize| {
            let norms = Some([&wq.span, &wk.span]);
            kernels.prepare_heads(stream, rows, norms, &table.span, &cache, [2, heads], position, EPS)
        };
        launch(0, 2).expect("a right launch");
        let text = launch(1, 2).expect_err("two rows of the table").to_string();
        assert!(text.contains("position 1") && text.contains("rotary table holds 2"), "{text}");
        let text = launch(0, 3).expect_err("queries of two heads").to_string();
        assert!(text.contains("queries [2, 3, 64]") && text.contains("1024"), "{text}");
    });
}
