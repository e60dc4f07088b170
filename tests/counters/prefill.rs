//! The prefill products of this tree by arithmetic: how often a tile's rows are read, how wide, what they cost in LDS, and how many
//! instructions stand beside a matrix instruction. One layer's depth of Qwen3-0.6B (K = 1024), fewer rows and tokens than it has, all of
//! them whole tiles, so that each count follows from the tile's shape.

use crate::machine::Machine;
use device_ops::Geometry;
use device_ops::format::Stored;
use device_ops::linear::{self, Tile, gated, qkv};
use emulator::Stats;
use emulator::launch::Class;

const T: u32 = 256;
const N: u32 = 384;
const K: u32 = 1024;
/// Waves of a workgroup: two along W's rows, two along tokens.
const WAVES: u64 = 4;

struct Counted {
    stats: Stats,
    geometry: Geometry,
    /// Rows of W × tokens of a tile, K of a step.
    tile: [u64; 3],
}

fn count(machine: &Machine, kernel: &str, geometry: Geometry, tile: Tile, args: &impl bytemuck::NoUninit) -> Counted {
    let stats = machine.count_ours(kernel, geometry, args);
    Counted { stats, geometry, tile: [tile.n(), tile.t(), tile.k()].map(u64::from) }
}

/// A product of `T` tokens, `rows` rows of W in all and `K`; `written` bytes of output, `read` bytes of it as well.
fn check(what: &str, counted: &Counted, rows: u64, written: u64, read: u64) {
    let Counted { stats, geometry, tile: [n, t, k] } = counted;
    let counters = stats.counters.as_deref().expect("counted");
    let workgroups = u64::from(geometry.workgroups[0]) * u64::from(geometry.workgroups[1]);
    let (tokens, depth) = (u64::from(T), u64::from(K));
    assert_eq!(workgroups, rows / n * (tokens / t), "{what}: workgroups");

    // Each tile's rows and tokens once for each tile across; nothing twice at the end of K; all of it by 16 bytes per lane.
    let brought = workgroups * (n + t) * depth * 2;
    assert_eq!(counters.loads.bytes, brought + read, "{what}: bytes asked");
    assert_eq!(counters.loads.bytes_by_width[crate::width(16)], brought + read, "{what}: bytes by b128");
    // The minimum, where a cache keeps what was read once: W, x, the old output, a line of arguments.
    let least = (rows * depth * 2 + tokens * depth * 2 + read) / 128 + 1;
    assert_eq!(counters.footprint.read_128, least, "{what}: lines read");
    assert_eq!(counters.footprint.written_128, written / 128, "{what}: lines written");
    assert_eq!(counters.stores.bytes, written, "{what}: bytes stored");
    assert_eq!(counters.stores.bytes_by_width[crate::width(16)], written, "{what}: bytes stored by b128");
    assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{what}: spills");

    // LDS: what was brought, once; and for each 16 of K of each wave its fragments of 512 bytes. Without a conflict, however many
    // banks there are.
    let fragments = (n + t) / 2 / 16;
    let read = workgroups * WAVES * depth / 16 * fragments * 512;
    assert_eq!(counters.lds.bytes, brought + read, "{what}: LDS bytes");
    assert_eq!((counters.lds.conflicts_mod32(), counters.lds.conflicts_mod64()), (0, 0), "{what}: bank conflicts");

    let wmma = rows * tokens * depth / 4096;
    assert_eq!(stats.count(Class::Wmma), wmma, "{what}: matrix instructions");
    // One barrier per step, in two halves.
    assert_eq!(stats.count(Class::Barrier), workgroups * WAVES * depth / k * 2, "{what}: barriers");
}

/// Instructions of all kinds per matrix instruction, over the whole launch.
fn per_wmma(counted: &Counted) -> f64 {
    counted.stats.total() as f64 / counted.stats.count(Class::Wmma) as f64
}

fn machine() -> (Machine, [u64; 4]) {
    let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
    let mut buffer = |bytes: u32| machine.memory.alloc(u64::from(bytes)).expect("room");
    let buffers = [buffer(N * K * 2), buffer(T * K * 2), buffer(T * N * 4), buffer(N * K * 2)];
    (machine, buffers)
}

#[test]
fn tiles_read_each_row_once_per_tile_across_and_meet_no_bank_twice() {
    let (machine, [w, x, y, _]) = machine();
    let args = linear::Args { w, x, y, tokens: T, n: N, k: K, pad: 0 };
    let bytes = u64::from(T) * u64::from(N) * 4;
    let mut each = Vec::new();
    for tile in [Tile::N64T64, Tile::N128T64, Tile::N128T128] {
        let geometry = linear::geometry_tile(tile, T, N);
        let stored = count(&machine, linear::name_tile(tile), geometry, tile, &args);
        check(linear::name_tile(tile), &stored, u64::from(N), bytes, 0);
        let added = count(&machine, linear::name_add(tile), geometry, tile, &args);
        check(linear::name_add(tile), &added, u64::from(N), bytes, bytes);
        each.push(per_wmma(&stored));
    }
    // What is not a matrix instruction is spread over more of them: LDS loads alone are 1, 3/4 and 1/2 for each.
    let single = count(&machine, linear::NAME_WMMA, linear::geometry_wmma(T, N), Tile::N64T64, &args);
    assert_eq!(single.stats.count(Class::Wmma), u64::from(T) * u64::from(N) * u64::from(K) / 4096);
    each.insert(0, per_wmma(&single));
    assert!(each.windows(2).all(|pair| pair[1] < pair[0]), "instructions per matrix instruction: {each:?}");
    // 128 × 128: beside 32 matrix instructions of a step stand 16 LDS loads, 8 LDS stores and 8 loads, each with an address and a wait at
    // most: 4 in all. A fifth is for the loop, and for the beginning and the end.
    assert!(each[3] < 5.0, "instructions per matrix instruction: {each:?}");
}

#[test]
fn three_matrices_in_one_launch_cost_what_they_cost_apart() {
    let (machine, [w, x, y, other]) = machine();
    let (n, n_kv) = (N, N / 3);
    let half = u64::from(T * n_kv * 4);
    // Keys and values share a weight and a buffer's halves with nobody: `other` has room for both outputs.
    let (key, value) = (other, other + half);
    let wk = w;
    let args = qkv::Args { wq: w, wk, wv: wk, x, q: y, key, value, tokens: T, n, n_kv, k: K };
    for tile in [Tile::N128T64, Tile::N128T128] {
        let name = qkv::name(tile).expect("a kernel");
        let counted = count(&machine, name, qkv::geometry(tile, T, n, n_kv), tile, &args);
        let counters = counted.stats.counters.as_deref().expect("counted");
        let rows = u64::from(n + 2 * n_kv);
        let tiles = rows / u64::from(tile.n()) * (u64::from(T) / u64::from(tile.t()));
        assert_eq!(counters.loads.bytes, tiles * u64::from(tile.n() + tile.t()) * u64::from(K) * 2, "{name}");
        assert_eq!(counters.loads.bytes_by_width[crate::width(16)], counters.loads.bytes, "{name}");
        assert_eq!(counters.stores.bytes, rows * u64::from(T) * 4, "{name}");
        assert_eq!((counters.lds.conflicts_mod32(), counters.lds.conflicts_mod64()), (0, 0), "{name}");
        assert_eq!(counted.stats.count(Class::Wmma), rows * u64::from(T) * u64::from(K) / 4096, "{name}");
    }
}

#[test]
fn gate_and_up_write_a_quarter_of_what_they_would_apart() {
    let (machine, [w, x, y, up]) = machine();
    let args = gated::Args { gate: w, up, x, out: y, tokens: T, n: N, k: K, pad: 0 };
    let bytes = u64::from(T) * u64::from(N) * 2;
    for tile in [Tile::N128T64, Tile::N128T128] {
        let name = gated::name(tile).expect("a kernel");
        let counted = count(&machine, name, gated::geometry(tile, T, N), tile, &args);
        check(name, &counted, 2 * u64::from(N), bytes, 0);
    }
}

/// Codes come as they are, and LDS holds bf16: bytes of W by their format, everything else as of bf16.
#[test]
fn quantized_tiles_read_codes_once_per_tile_across_and_meet_no_bank_twice() {
    let (machine, [codes, x, y, scales]) = machine();
    let [tokens, rows, depth] = [T, N, K].map(u64::from);
    for names in linear::quantized::NAMES {
        let bits = match names.stored {
            Stored::Int4 | Stored::Int4Minimum | Stored::Int4MinimumLevels => 4,
            _ => 8,
        };
        let group_log2 = if names.stored.scales().levels() { 5 } else { 6 };
        let args = linear::quantized::Args { codes, scales, minimums: scales, x, y, tokens: T, n: N, k: K, group_log2 };
        for tile in [Tile::N64T64, Tile::N128T64, Tile::N128T128] {
            let what = names.tiles[tile as usize];
            let Counted { stats, geometry, tile: [n, t, _] } =
                count(&machine, what, linear::geometry_tile(tile, T, N), tile, &args);
            let counters = stats.counters.as_deref().expect("counted");
            let workgroups = u64::from(geometry.workgroups[0]) * u64::from(geometry.workgroups[1]);
            let brought = workgroups * (n * depth * bits / 8 + t * depth * 2);
            assert_eq!(counters.loads.bytes_by_width[crate::width(16)], brought, "{what}: codes and x by b128");
            // A scale, or two numbers, beside 16 bytes of codes; those of a row once by each lane that holds an element of it.
            let by_2 = counters.loads.bytes_by_width[crate::width(2)];
            let loads = workgroups * n * depth * bits / 8 / 16;
            let by_1 = counters.loads.bytes_by_width[crate::width(1)];
            let (each, lower) = crate::scale_bytes(names.stored.scales());
            assert_eq!(by_1, lower * loads, "{what}: lower levels");
            if lower == 0 {
                assert_eq!(by_2, each * loads, "{what}: scales and minimums");
            } else {
                // Loads of neighbouring steps that share an upper level may be one.
                assert!(by_2 <= each * loads && 4 * by_2 >= each * loads, "{what}: {by_2} bytes of upper levels");
            }
            // LDS as of bf16: what was brought, in bf16, once; and the fragments. No conflict.
            let fragments = (n + t) / 2 / 16;
            let read = workgroups * WAVES * depth / 16 * fragments * 512;
            assert_eq!(counters.lds.bytes, workgroups * (n + t) * depth * 2 + read, "{what}: LDS bytes");
            assert_eq!(
                (counters.lds.conflicts_mod32(), counters.lds.conflicts_mod64()),
                (0, 0),
                "{what}: bank conflicts"
            );
            assert_eq!(stats.count(Class::Wmma), rows * tokens * depth / 4096, "{what}: matrix instructions");
            assert_eq!(counters.stores.bytes_by_width[crate::width(16)], rows * tokens * 4, "{what}: stored by b128");
            assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{what}: spills");
        }
    }
}

/// Bytes by bytes: half of what bf16 brings and keeps in LDS, half the cycles of its matrix instructions, and beside them what turns the sums of
/// each group into f32.
#[test]
fn tiles_of_bytes_take_half_of_all_that_tiles_of_bf16_take() {
    let (machine, [w, x, y, scales]) = machine();
    let [tokens, rows, depth] = [T, N, K].map(u64::from);
    // Behind the scales of W's rows those of x.
    let x_scales = scales + rows * 4;
    let args = linear::w8a8::Args { codes: w, scales, x, x_scales, y, tokens: T, n: N, k: K, pad: 0 };
    for (index, tile) in [Tile::N64T64, Tile::N128T64].into_iter().enumerate() {
        let what = linear::w8a8::NAMES[index];
        let geometry = linear::w8a8::geometry(tile, T, N);
        let profile = machine.profile_ours(what, geometry, &args);
        let Counted { stats, tile: [n, t, _], .. } = count(&machine, what, geometry, tile, &args);
        let counters = stats.counters.as_deref().expect("counted");
        let workgroups = rows / n * (tokens / t);
        let brought = workgroups * (n + t) * depth;
        assert_eq!(counters.loads.bytes_by_width[crate::width(16)], brought, "{what}: codes by b128");
        // A lane holds sums of one token of each fragment, and of eight rows; the last step's scales are asked for twice.
        let by_token = workgroups * WAVES * 32 * (t / 32) * (depth / 64 + 1) * 4;
        let by_row = workgroups * WAVES * 32 * (n / 32) * 8 * 4;
        assert_eq!(counters.loads.bytes, brought + by_token + by_row, "{what}: bytes asked");
        let fragments = (n + t) / 2 / 16;
        let read = workgroups * WAVES * depth / 32 * fragments * 512;
        assert_eq!(counters.lds.bytes, brought + read, "{what}: LDS bytes");
        assert_eq!((counters.lds.conflicts_mod32(), counters.lds.conflicts_mod64()), (0, 0), "{what}: bank conflicts");
        let wmma = rows * tokens * depth / 4096;
        assert_eq!((stats.count(Class::Wmma), counters.wmma_cycles), (wmma, 8 * wmma), "{what}: matrix instructions");
        assert_eq!(counters.stores.bytes_by_width[crate::width(16)], rows * tokens * 4, "{what}: stored by b128");
        assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{what}: spills");

        // Of a SIMD's time, what the same tile takes whose LDS holds bf16, made of the same codes or loaded.
        let names = linear::quantized::names(Stored::Int8).expect("a quantized format");
        let codes =
            linear::quantized::Args { codes: w, scales, minimums: scales, x, y, tokens: T, n: N, k: K, group_log2: 0 };
        let geometry = linear::geometry_tile(tile, T, N);
        let bf16 = linear::Args { w, x, y, tokens: T, n: N, k: K, pad: 0 };
        let cycles = |profile: &emulator::roofline::Profile| profile.estimate.valu_s + profile.estimate.wmma_s;
        let by_codes = cycles(&machine.profile_ours(names.tiles[tile as usize], geometry, &codes));
        let by_bf16 = cycles(&machine.profile_ours(linear::name_tile(tile), geometry, &bf16));
        let ratios = [by_codes, by_bf16].map(|other| cycles(&profile) / other);
        println!("{what}: {ratios:.3?} of the SIMD's cycles that codes to bf16 and bf16 take");
        assert!(ratios[0] < 0.62 && ratios[1] < 0.82, "{what}: {ratios:?}");
    }
}
