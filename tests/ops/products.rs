//! Matrix products with what follows them, and several in one launch: each must give the bits of its parts, which `linear.rs` and
//! `elementwise.rs` judge by the oracle. The parts run in the emulator by the plainest kernel with the same order of sums; the whole by each
//! tile, and as the host launches it.

use device_ops::linear::{self, Tile, gated, qkv};
use device_ops::swiglu;
use zynfer::hip::kernels::{Gemm, Qkv};

use crate::data::{Numbers, to_bf16};
use crate::hip;
use crate::machine::Machine;

/// T, N, K: one row, edges of fragments and tiles, rows that are not aligned, several tiles.
const SHAPES: [[usize; 3]; 8] = [
    [1, 8, 64],
    [2, 64, 128],
    [17, 24, 192],
    [64, 128, 64],
    [65, 136, 320],
    [127, 64, 64],
    [129, 264, 128],
    [193, 72, 64],
];

/// w and x of a product.
fn inputs(seed: u64, [t, n, k]: [usize; 3]) -> (Vec<u16>, Vec<u16>) {
    let w = to_bf16(&Numbers::new(seed).awkward(n * k, 0.05));
    (w, to_bf16(&Numbers::new(seed + 100).awkward(t * k, 1.0)))
}

/// y = x·Wᵀ by the kernel with one LDS stage.
#[track_caller]
fn product(w: &[u16], x: &[u16], shape: [usize; 3]) -> Vec<f32> {
    crate::linear::product(crate::linear::WMMA, w, x, shape)
}

/// silu(x·gateᵀ) · x·upᵀ by the one launch of `tile`.
#[track_caller]
fn gated_product(tile: Tile, [gate, up]: [&[u16]; 2], x: &[u16], [t, n, k]: [usize; 3]) -> Vec<u16> {
    let mut machine = Machine::new();
    let out = machine.output::<u16>(t * n);
    let args = gated::Args {
        gate: machine.input(gate),
        up: machine.input(up),
        x: machine.input(x),
        out: out.address,
        tokens: t as u32,
        n: n as u32,
        k: k as u32,
        pad: 0,
    };
    machine.run(gated::name(tile).expect("a kernel"), gated::geometry(tile, t as u32, n as u32), &args);
    machine.read(&out)
}

/// The same bits, where a NaN is a NaN.
#[track_caller]
fn same(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}");
    let differ = |(got, want): (&f32, &f32)| got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan());
    let at = got.iter().zip(want).position(differ);
    assert_eq!(at.map(|at| (at, got[at], want[at])), None, "{what}");
}

#[test]
fn added_to_the_residual_stream() {
    // N that keeps no row aligned as well: any N will do for one matrix.
    for shape in SHAPES.into_iter().chain([[3, 5, 64], [66, 131, 128]]) {
        let [t, n, k] = shape;
        let (w, x) = inputs(1, shape);
        let hidden = Numbers::new(2).awkward(t * n, 3.0);
        let want: Vec<f32> = product(&w, &x, shape).iter().zip(&hidden).map(|(product, old)| old + product).collect();
        for tile in [Tile::N64T64, Tile::N128T64, Tile::N128T128] {
            let mut machine = Machine::new();
            let y = machine.inout(&hidden);
            let (w, x, at) = (machine.input(&w), machine.input(&x), y.address);
            let args = linear::Args { w, x, y: at, tokens: t as u32, n: n as u32, k: k as u32, pad: 0 };
            machine.run(linear::name_add(tile), linear::geometry_tile(tile, t as u32, n as u32), &args);
            same(&format!("{tile:?} of {shape:?}"), &machine.read(&y), &want);
        }
        if t < linear::WMMA_FROM_TOKENS as usize {
            continue; // alone, one token goes to the GEMV, which sums in another order
        }
        hip::each(|device| {
            let (w, x, y) = (device.buffer(&w), device.buffer(&x), device.buffer(&hidden));
            let parts = device.output::<f32>(t * n);
            let (kernels, stream) = (&device.kernels, &device.stream);
            kernels.linear(stream, &w.span, &x.span, &parts.span, shape, Gemm::SingleStage).expect("a right launch");
            kernels.linear_add(stream, &w.span, &x.span, &y.span, shape).expect("a right launch");
            let want: Vec<f32> = device.read::<f32>(&parts).iter().zip(&hidden).map(|(a, b)| a + b).collect();
            same(&device.name, &device.read(&y), &want);
        });
    }
}

#[test]
fn q_k_and_v_in_one_launch() {
    // Rows of q and of k and v: each alone at the edges of a tile.
    for (t, n, n_kv, k) in
        [(1, 1, 1, 64), (3, 128, 64, 128), (65, 129, 128, 64), (130, 256, 131, 192), (64, 60, 300, 64)]
    {
        let (wq, x) = inputs(3, [t, n, k]);
        let [wk, wv] = [4, 5].map(|seed| inputs(seed, [t, n_kv, k]).0);
        let wanted = [product(&wq, &x, [t, n, k]), product(&wk, &x, [t, n_kv, k]), product(&wv, &x, [t, n_kv, k])];
        for tile in [Tile::N128T64, Tile::N128T128] {
            let mut machine = Machine::new();
            let out = [n, n_kv, n_kv].map(|n| machine.output::<f32>(t * n));
            let args = qkv::Args {
                wq: machine.input(&wq),
                wk: machine.input(&wk),
                wv: machine.input(&wv),
                x: machine.input(&x),
                q: out[0].address,
                key: out[1].address,
                value: out[2].address,
                tokens: t as u32,
                n: n as u32,
                n_kv: n_kv as u32,
                k: k as u32,
            };
            let geometry = qkv::geometry(tile, t as u32, n as u32, n_kv as u32);
            machine.run(qkv::name(tile).expect("a kernel"), geometry, &args);
            for (out, want) in out.iter().zip(&wanted) {
                same(&format!("{tile:?}, T {t} N {n} and {n_kv} K {k}"), &machine.read(out), want);
            }
        }
        if t < linear::WMMA_FROM_TOKENS as usize {
            continue; // as above
        }
        hip::each(|device| {
            let [wq, wk, wv, x] = [&wq, &wk, &wv, &x].map(|data| device.buffer(data));
            let [q, key, value] = [n, n_kv, n_kv].map(|n| device.output::<f32>(t * n));
            let (kernels, stream) = (&device.kernels, &device.stream);
            let w = Qkv { q: &wq.span, k: &wk.span, v: &wv.span };
            let y = Qkv { q: &q.span, k: &key.span, v: &value.span };
            kernels.linear_qkv(stream, w, &x.span, y, [t, n, n_kv, k]).expect("a right launch");
            for (w, out, n) in [(&wq, &q, n), (&wk, &key, n_kv), (&wv, &value, n_kv)] {
                let parts = device.output::<f32>(t * n);
                let launched = kernels.linear(stream, &w.span, &x.span, &parts.span, [t, n, k], Gemm::SingleStage);
                launched.expect("a right launch");
                same(&device.name, &device.read(out), &device.read::<f32>(&parts));
            }
        });
    }
}

#[test]
fn gate_and_up_with_swiglu() {
    for shape in SHAPES {
        let [t, n, _] = shape;
        let (gate, x) = inputs(6, shape);
        let (up, _) = inputs(7, shape);
        let parts = [product(&gate, &x, shape), product(&up, &x, shape)];
        let mut machine = Machine::new();
        let out = machine.output::<u16>(t * n);
        let [gate_at, up_at] = [0, 1].map(|i| machine.input(&parts[i]));
        let args = swiglu::Args { gate: gate_at, up: up_at, out: out.address, count: (t * n) as u64 };
        machine.run(swiglu::NAME, swiglu::geometry((t * n) as u64), &args);
        let want = machine.read(&out);
        for tile in [Tile::N128T64, Tile::N128T128] {
            assert!(gated_product(tile, [&gate, &up], &x, shape) == want, "{tile:?} of {shape:?}");
        }
        hip::each(|device| {
            let [gate, up, x] = [&gate, &up, &x].map(|data| device.buffer(data));
            let (kernels, stream) = (&device.kernels, &device.stream);
            let [g, u] = [&gate, &up].map(|w| {
                let y = device.output::<f32>(t * n);
                let launched = kernels.linear(stream, &w.span, &x.span, &y.span, shape, Gemm::SingleStage);
                launched.expect("a right launch");
                y
            });
            let [whole, parts] = [(); 2].map(|()| device.output::<u16>(t * n));
            kernels.swiglu(stream, &g.span, &u.span, &parts.span, t * n).expect("a right launch");
            let launched = kernels.linear_gated(stream, [&gate.span, &up.span], &x.span, &whole.span, shape);
            launched.expect("a right launch");
            assert!(device.read::<u16>(&whole) == device.read::<u16>(&parts), "{} of {shape:?}", device.name);
        });
    }
}

/// A NaN or an infinity stays in its own row and column, also where gate and up share a tile.
#[test]
fn what_is_not_finite_stays_in_its_place() {
    let [t, n, k] = [5, 72, 128];
    let mut gate = Numbers::new(8).vector(n * k, 1.0);
    let mut up = Numbers::new(9).vector(n * k, 1.0);
    gate[70 * k + 3] = f32::NAN;
    up[33 * k + 5] = f32::NAN;
    let mut x = Numbers::new(10).vector(t * k, 1.0);
    x[4 * k + 100] = f32::NAN;
    let [gate, up, x] = [gate, up, x].map(|data| to_bf16(&data));
    for tile in [Tile::N128T64, Tile::N128T128] {
        for (i, bits) in gated_product(tile, [&gate, &up], &x, [t, n, k]).into_iter().enumerate() {
            let (token, row) = (i / n, i % n);
            let nan = half::bf16::from_bits(bits).is_nan();
            assert_eq!(nan, token == 4 || row == 70 || row == 33, "{tile:?}: out[{token},{row}] is {bits:#06x}");
        }
    }
}

/// What breaks a contract is refused with the numbers, before anything is launched.
#[test]
fn wrong_shapes_are_refused() {
    hip::each(|device| {
        let (kernels, stream) = (&device.kernels, &device.stream);
        let [w, x, y] = [64 * 64, 4 * 64, 4 * 64].map(|count| device.buffer(&vec![0u32; count]));
        let refused = |launched: Result<(), zynfer::hip::kernels::LaunchError>, parts: [&str; 2]| {
            let text = launched.expect_err("refused").to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        let weights = [&w.span, &x.span];
        refused(kernels.linear_gated(stream, weights, &y.span, &y.span, [4, 12, 64]), ["N is 12", "multiple of 8"]);
        refused(kernels.linear_add(stream, &w.span, &x.span, &y.span, [4, 64, 96]), ["K is 96", "multiple of 64"]);
        refused(kernels.linear_add(stream, &w.span, &x.span, &y.span, [4, 65, 64]), ["y [4, 65] needs 1040", "1024"]);
        refused(kernels.linear_add(stream, &w.span, &x.span, &x.span, [4, 64, 64]), ["linear_add", "overlap"]);
        let all = Qkv { q: &w.span, k: &w.span, v: &w.span };
        let out = Qkv { q: &y.span, k: &y.span, v: &y.span };
        refused(kernels.linear_qkv(stream, all, &x.span, out, [4, 64, 64, 64]), ["linear_qkv", "overlap"]);
    });
}
