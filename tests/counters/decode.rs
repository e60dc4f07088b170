//! The decode kernels of this tree by arithmetic, at the shapes of Qwen3-0.6B on the R9700's grid, behind a context of several pieces:
//! every weight is asked for once and by 16 bytes per lane, what moves is what has to, bank conflicts are those of the contract's layout,
//! and a workgroup waits for the others as often as there are phases. Layers and vocabulary are fewer than the model's where a count
//! grows with them; each matrix has its K, and but for lm_head its N.
//!
//! How often a workgroup looks at the grid's barrier depends on the schedule: a look is a load of 4 bytes per lane, and nothing here counts
//! those. The estimate of a whole token follows from two depths.

use crate::machine::Machine;
use device_ops::Geometry;
use device_ops::decode::{self, Args, Shape, TABLE_ENTRY, TABLE_ROW, Table, UNIT, Work};
use device_ops::format::{Form, Stored};
use emulator::roofline::{Bound, Profile, R9700};

/// Two workgroups on each of the R9700's WGPs.
const GRID: u32 = 2 * R9700.wgps;
const CAPACITY: u32 = 1024;
/// Five pieces of at most 128 positions for each key/value head, the last of 18 and the token's own.
const POSITION: u32 = 530;
const PIECES: u64 = 5;
/// Layers of the persistent kernel.
const LAYERS: u32 = 2;

/// Qwen3-0.6B with a sixteenth of its vocabulary; head_dim is 128 there.
const fn shape(head_dim: u32) -> Shape {
    Shape { hidden: 1024, heads: 16, kv_heads: 8, head_dim, intermediate: 3072, vocab: 151_936 / 16 }
}

struct Model {
    machine: Machine,
    args: Args,
    geometry: Geometry,
}

impl Model {
    /// `LAYERS` layers of zeros, and a token at [`POSITION`].
    fn new(shape: &Shape) -> Model {
        Self::stored(shape, [Stored::Bf16; 7], Stored::Bf16)
    }

    /// The same with a layer's matrices (q, k, v, o, gate, up, down) and the embedding, which is lm_head too, in formats, groups of 32; the table
    /// that says so is there whoever reads it.
    fn stored(shape: &Shape, layer: [Stored; 7], head: Stored) -> Model {
        let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
        let (h, q, kv, d) = (shape.hidden, shape.q(), shape.kv(), shape.head_dim);
        let (i, v) = (shape.intermediate, shape.vocab);
        let shapes = [(q, h), (kv, h), (kv, h), (h, q), (i, h), (i, h), (h, i)];
        // Offsets in UNITs: the embedding, which is lm_head too, the first layer's tensors, the other layers, the final norm.
        let mut units = 0;
        let mut place = |bytes: u64| {
            let at = units;
            units += bytes.div_ceil(UNIT) as u32;
            at
        };
        let size = |stored, n, k| codes_and_scales(stored, n, k).iter().sum::<u64>().next_multiple_of(UNIT);
        let matrix: [u64; 7] = std::array::from_fn(|m| size(layer[m], shapes[m].0, shapes[m].1));
        let vector = |n: u32| u64::from(n) * 2;
        let embed = place(size(head, v, h));
        let three = matrix[0] + matrix[1] + matrix[2];
        let [input_norm, qkv, q_norm, k_norm, o, post_norm, gate, up, down] =
            [vector(h), three, vector(d), vector(d), matrix[3], vector(h), matrix[4], matrix[5], matrix[6]]
                .map(&mut place);
        let layer_stride = place(0) - input_norm;
        let norm = place(u64::from((LAYERS - 1) * layer_stride) * UNIT + vector(h)) + (LAYERS - 1) * layer_stride;
        let weights = u64::from(place(0)) * UNIT;
        let mut alloc = |bytes: u64| machine.memory.alloc(bytes).expect("room");
        let (geometry, lds_sums, lds_x) = shape.geometry(GRID);
        let args = Args {
            weights: alloc(weights),
            cache: alloc(u64::from(LAYERS * kv * CAPACITY) * 4),
            rope: alloc(u64::from(CAPACITY * d) * 4),
            work: alloc(u64::from(Work::new(h, q, kv, i, shape.heads).bytes) + Table::bytes(LAYERS)),
            ids: alloc(64),
            logits: alloc(u64::from(v) * 4),
            layer_stride,
            embed,
            input_norm,
            qkv,
            q_norm,
            k_norm,
            o,
            post_norm,
            gate,
            up,
            down,
            norm,
            head: embed,
            hidden: h,
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            intermediate: i,
            vocab: v,
            capacity: CAPACITY,
            layers: 0,
            tokens: 1,
            keep_logits: 0,
            grid: GRID,
            lds_sums,
            lds_x,
            eps: 1e-6,
            scale: 1.0 / (d as f32).sqrt(),
            group_log2: 5,
        };
        let entry = |at: u32, stored: Stored, (n, k): (u32, u32)| {
            // Each part from the next unit on; scales are as many bytes as minimums, where there are such.
            let [codes, tables] = codes_and_scales(stored, n, k);
            let scales = at + codes.div_ceil(UNIT) as u32;
            let behind = scales + (tables / 2).div_ceil(UNIT) as u32;
            let minimums = if stored.scales().minimums() { behind } else { scales };
            [at, scales, minimums, Form::new(stored, 5).0]
        };
        let [k_at, v_at] = [matrix[0], matrix[0] + matrix[1]].map(|bytes| qkv + (bytes / UNIT) as u32);
        let places = [qkv, k_at, v_at, o, gate, up, down];
        let mut rows = vec![[[0; (TABLE_ENTRY / 4) as usize]; TABLE_ROW as usize]; LAYERS as usize + 1];
        for (number, row) in rows[..LAYERS as usize].iter_mut().enumerate() {
            let moved = number as u32 * layer_stride;
            let order = [Table::Q, Table::Q + 1, Table::Q + 2, Table::O, Table::GATE, Table::GATE + 1, Table::DOWN];
            for (m, at) in order.into_iter().enumerate() {
                row[at as usize] = entry(places[m] + moved, layer[m], shapes[m]);
            }
        }
        for at in [Table::EMBED, Table::HEAD] {
            rows[LAYERS as usize][at as usize] = entry(embed, head, (v, h));
        }
        let table: Vec<u8> =
            rows.as_flattened().as_flattened().iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        let at = args.work + u64::from(Work::new(h, q, kv, i, shape.heads).bytes);
        machine.memory.write(at, &table).expect("inside");
        // Position, id, no ids that end it.
        let state = [POSITION, 3, 0, 0].map(u32::to_le_bytes).concat();
        machine.memory.write(args.work + u64::from(Work::STATE), &state).expect("inside");
        Model { machine, args, geometry }
    }

    fn count(&self, kernel: &str, layers: u32, tokens: u32) -> Profile {
        let args = Args { layers, tokens, ..self.args };
        self.machine.profile_ours(kernel, self.geometry, &args)
    }
}

/// Bytes of codes and of scales with minimums of a matrix, groups of 32: docs/QUANTIZATION.md's table. At these shapes each part fills its
/// 256 bytes.
fn codes_and_scales(stored: Stored, n: u32, k: u32) -> [u64; 2] {
    let (n, elements) = (u64::from(n), u64::from(n) * u64::from(k));
    match stored {
        Stored::Bf16 => [elements * 2, 0],
        Stored::Int8 | Stored::Fp8 => [elements, n * 4],
        Stored::Int8Group => [elements, elements / 32 * 2],
        Stored::Int4 => [elements / 2, elements / 32 * 2],
        Stored::Int4Minimum => [elements / 2, elements / 32 * 4],
        Stored::Int8Minimum => [elements, elements / 32 * 4],
        Stored::Int8Levels => [elements, elements / 256 * 10],
        Stored::Int8MinimumLevels => [elements, elements / 256 * 20],
        Stored::Int4MinimumLevels => [elements / 2, elements / 256 * 20],
    }
}

/// What a launch has to do, by its shapes.
#[derive(Clone, Copy, Default)]
struct Needs {
    /// Bytes of matrices.
    matrices: u64,
    /// Bytes beside them that have to move: norms, keys and values, each activation once out and once in.
    others: u64,
    /// Bytes of activations, keys and values that are asked for by 16 bytes per lane, by every workgroup that needs them.
    asked: u64,
    /// LDS passes beyond the ideal with 32 and with 64 banks.
    conflicts: [u64; 2],
    /// Times that a workgroup waits for the others.
    waits: u64,
}

impl std::ops::Add for Needs {
    type Output = Needs;

    fn add(self, other: Needs) -> Needs {
        Needs {
            matrices: self.matrices + other.matrices,
            others: self.others + other.others,
            asked: self.asked + other.asked,
            conflicts: std::array::from_fn(|banks| self.conflicts[banks] + other.conflicts[banks]),
            waits: self.waits + other.waits,
        }
    }
}

impl Needs {
    /// A layer's first half. `first`: the stream is the token's embedding, which is read by 8 bytes per lane.
    fn attention(shape: &Shape, first: bool) -> Needs {
        let [h, q, kv, d] = [shape.hidden, shape.q(), shape.kv(), shape.head_dim].map(u64::from);
        let [heads, kv_heads] = [shape.heads, shape.kv_heads].map(u64::from);
        let (grid, waves, group) = (u64::from(GRID), u64::from(decode::WAVES), heads / kv_heads);
        let positions = u64::from(POSITION);
        // The stream in and out, q, k and v out and in, and of each piece sums with their maximum and weight.
        let activations = 8 * h + 8 * (q + 2 * kv) + PIECES * 8 * (q + 2 * heads);
        let cache = 2 * kv * (positions + 1) * 2;
        let norms = 2 * (h + 2 * d);
        let rotary = 4 * d;

        let stream = if first { 0 } else { grid * h * 4 };
        // Each piece takes its queries, the last one key and value too; of head_dim 64 a lane has but 8 bytes of them.
        // A query or a key is turned by as many cosines and sines, each of them in both halves of a wave; all pieces ask for the key's.
        let turned = kv_heads * PIECES * (group + 1) * 2 * d * 4;
        let heads_asked = if d == 128 { kv_heads * (PIECES * group + 2) * d * 4 + turned } else { 0 };
        // 128 keys, the last one again where there are fewer, and 128 values.
        let cache_asked = kv_heads * PIECES * (128 + 128) * d * 2;
        // Every workgroup merges all pieces.
        let merged = grid * q * 4 * PIECES;

        // Elements of a head that a lane has side by side and stores one by one: the next lane's are so many dwords further, and so many
        // lanes meet in one of 32 banks, half of them in one of 64.
        let each = d / 32;
        let apart = [each - 1, (each / 2).max(1) - 1];
        // A load takes 256 / D keys of a wave, 4096 / D of all waves: so far apart, in dwords, are the D / 32 scores that a row of lanes
        // stores at once. All are in one bank of 32; of 64 they are in two for D = 128 and in one for D = 64.
        let scores = [each - 1, if d == 128 { 1 } else { each - 1 }];
        // b128 of lanes 32 bytes apart meet twice in 32 banks, in each of four groups of lanes, and never in 64: of each wave two loads of
        // a query and two of its weights.
        let quads = [4 * 4, 0];
        let conflicts = std::array::from_fn(|banks| {
            let piece = group * (each * apart[banks] + waves * (scores[banks] + quads[banks]));
            // The last piece: key and value into LDS, and each query times the key.
            let last = (2 + 2 * group) * each * apart[banks];
            kv_heads * (PIECES * piece + last)
        });
        Needs {
            matrices: 2 * ((q + 2 * kv) * h + h * q),
            others: norms + rotary + cache + activations,
            asked: stream + heads_asked + cache_asked + merged,
            conflicts,
            // For q, k, v, and for the pieces; a layer before this one is another matter.
            waits: 2,
        }
    }

    /// A layer's second half.
    fn mlp(shape: &Shape) -> Needs {
        let [h, i] = [shape.hidden, shape.intermediate].map(u64::from);
        let grid = u64::from(GRID);
        Needs {
            matrices: 3 * 2 * i * h,
            others: 2 * h + 8 * h + 2 * 2 * i,
            asked: grid * (4 * h + 2 * i),
            // An item makes two results that share a dword, so their four sums are loaded two dwords apart.
            conflicts: [grid * 4, 0],
            waits: 1,
        }
    }

    /// What follows the layers.
    fn head(shape: &Shape) -> Needs {
        let [h, v] = [shape.hidden, shape.vocab].map(u64::from);
        let grid = u64::from(GRID);
        // Each workgroup's best logit, out and in.
        let others = 2 * h + 4 * h + 2 * 8 * grid;
        Needs { matrices: 2 * v * h, others, asked: grid * 4 * h, conflicts: [0, 0], waits: 1 }
    }

    /// A token in one launch.
    fn persistent(shape: &Shape) -> Needs {
        let layers = (0..LAYERS).map(|layer| Needs::attention(shape, layer == 0) + Needs::mlp(shape));
        let all = layers.fold(Needs::head(shape), |sum, layer| sum + layer);
        // Between the halves, and for the layer before: of all but the first layer, and of lm_head.
        Needs { waits: all.waits + 2 * u64::from(LAYERS), ..all }
    }
}

fn check(profile: &Profile, needs: &Needs) {
    let (what, counters) = (&profile.kernel, &profile.counters);
    let least = needs.matrices + needs.others;
    let moved = counters.footprint.bytes();
    assert!(moved >= least, "{what}: {moved} bytes moved, {least} have to");
    assert!(moved as f64 <= 1.03 * least as f64, "{what}: {moved} bytes moved, {least} have to");

    let b128 = counters.loads.bytes_by_width[crate::width(16)];
    assert_eq!(b128, needs.matrices + needs.asked, "{what}: bytes by b128: weights once, activations and cache");
    assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{what}: spills");
    let lds = &counters.lds;
    assert_eq!([lds.conflicts_mod32(), lds.conflicts_mod64()], needs.conflicts, "{what}: bank conflicts");
    // On the card there are 64 banks (manual).
    let share = lds.conflicts_mod64() as f64 / lds.passes_ideal as f64;
    assert!(share < 0.05, "{what}: {share} of LDS passes for conflicts");

    assert_eq!(counters.grid_waits, needs.waits, "{what}: waits for other workgroups");
    let resident = profile.occupancy.workgroups_per_wgp;
    assert!(resident * R9700.wgps >= GRID, "{what}: {resident} workgroups a WGP, {GRID} have to run at once");
}

#[test]
fn every_weight_is_asked_for_once_and_little_else_moves() {
    for head_dim in [128, 64] {
        let shape = shape(head_dim);
        let names = decode::names(Some(Stored::Bf16), head_dim, true).expect("kernels");
        let model = Model::new(&shape);
        check(&model.count(names.attention, 1, 1), &Needs::attention(&shape, false));
        check(&model.count(names.mlp, 1, 1), &Needs::mlp(&shape));
        check(&model.count(names.head, 0, 1), &Needs::head(&shape));
        // A new one, because the head's launch has moved the token on.
        let model = Model::new(&shape);
        check(&model.count(names.persistent, LAYERS, 1), &Needs::persistent(&shape));
    }
}

/// Codes and scales are all that moves of a quantized matrix, codes by 16 bytes per lane and once; the embedding's row is read by 16 bytes, too,
/// by every workgroup for its norm and for its own rows.
#[test]
fn quantized_matrices_move_as_what_they_are_stored_as() {
    for (stored, names) in decode::NAMES_QUANTIZED {
        let row = |shape: &Shape| {
            let (grid, h) = (u64::from(GRID), u64::from(shape.hidden));
            grid * (16 * h / 4 + 16 * h.div_ceil(grid))
        };
        check_quantized(names[1], [stored; 7], stored, 0, row);
    }
}

/// The same where each matrix is stored in a way of its own, as the table says; the row of the embedding is read by its words. What the table itself
/// is read by 16 bytes is nothing: it is in LDS.
#[test]
fn matrices_of_several_formats_move_as_what_they_are_stored_as() {
    let (most, more) = (Stored::Int4MinimumLevels, Stored::Int8Levels);
    let name = decode::NAMES_MIXED[1];
    check_quantized(name, [most, most, more, most, most, most, more], more, Table::bytes(LAYERS), |_| 0);
    let rest = [Stored::Int8Minimum, Stored::Int8MinimumLevels, Stored::Int8, Stored::Int4, Stored::Fp8];
    let [a, b, c, d, e] = rest;
    check_quantized(
        name,
        [a, b, Stored::Bf16, c, d, e, Stored::Int4Minimum],
        Stored::Int8Group,
        Table::bytes(LAYERS),
        |_| 0,
    );
}

/// `own`: bytes that have to move beside the matrices; `row`: bytes of the embedding's row that are asked for by 16 per lane.
#[track_caller]
fn check_quantized(name: &str, layer: [Stored; 7], head: Stored, own: u64, row: impl Fn(&Shape) -> u64) {
    let shape = shape(128);
    let [h, q, kv, i, v] = [shape.hidden, shape.q(), shape.kv(), shape.intermediate, shape.vocab];
    let shapes = [(q, h), (kv, h), (kv, h), (h, q), (i, h), (i, h), (h, i)];
    let matrices: [[u64; 2]; 7] = std::array::from_fn(|m| codes_and_scales(layer[m], shapes[m].0, shapes[m].1));
    let of_head = codes_and_scales(head, v, h);
    let [codes, scales] =
        [0, 1].map(|part| u64::from(LAYERS) * matrices.iter().map(|matrix| matrix[part]).sum::<u64>() + of_head[part]);

    let needs = Needs::persistent(&shape);
    let profile = Model::stored(&shape, layer, head).count(name, LAYERS, 1);
    let (counters, least) = (&profile.counters, codes + scales + needs.others + own);
    let what = format!("{name}: {layer:?}");
    let moved = counters.footprint.bytes();
    assert!(moved >= least, "{what}: {moved} bytes moved, {least} have to");
    assert!(moved as f64 <= 1.03 * least as f64, "{what}: {moved} bytes moved, {least} have to");
    let b128 = counters.loads.bytes_by_width[crate::width(16)];
    let expected = codes + needs.asked + row(&shape);
    assert_eq!(b128, expected, "{what}: bytes by b128: codes once, activations, cache and the row");
    assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{what}: spills");
    assert_eq!(counters.grid_waits, needs.waits, "{what}: waits for other workgroups");
    let resident = profile.occupancy.workgroups_per_wgp;
    assert!(resident * R9700.wgps >= GRID, "{what}: {resident} workgroups a WGP, {GRID} have to run at once");
}

#[test]
fn a_second_token_waits_as_often_as_the_first() {
    let shape = shape(64);
    let persistent = decode::names(Some(Stored::Bf16), 64, true).expect("kernels").persistent;
    let two = Model::new(&shape).count(persistent, LAYERS, 2);
    assert_eq!(two.counters.grid_waits, 2 * Needs::persistent(&shape).waits);
    // For all but the first layer five times, for that four times, twice for lm_head.
    assert_eq!(Needs::persistent(&shape).waits, 5 * u64::from(LAYERS) + 1);
}

/// Qwen3-0.6B has 28 layers and sixteen times the vocabulary; what a layer more takes is the difference of two depths, and a row of lm_head
/// more its bytes. An estimate from counts, not a rate: nothing ran on a card.
#[test]
fn a_token_is_estimated_at_seven_tenths_of_its_roof_or_better() {
    let shape = shape(128);
    let persistent = decode::names(Some(Stored::Bf16), 128, true).expect("kernels").persistent;
    let [one, two] = [1, LAYERS].map(|layers| Model::new(&shape).count(persistent, layers, 1).estimate);
    for (estimate, waits) in [(one, 6.0), (two, 11.0)] {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(estimate.grid_barrier_s, waits * R9700.grid_barrier_s), "{estimate:?}");
        assert!(close(estimate.phase_s, (waits + 1.0) * R9700.phase_s), "{estimate:?}");
        let beside_memory = R9700.launch_s + estimate.grid_barrier_s;
        assert!(close(estimate.total_s, estimate.memory_s + beside_memory), "{estimate:?}");
        assert!(close(estimate.cautious_s, estimate.total_s + estimate.phase_s), "{estimate:?}");
        assert_eq!(estimate.bound(), Bound::Memory);
    }
    let (layers, vocab) = (28, 16 * u64::from(shape.vocab));
    let head = 2 * (vocab - u64::from(shape.vocab)) * u64::from(shape.hidden);
    let rest = head as f64 / R9700.memory_bytes_per_s;
    let token = |first: f64, second: f64| first + f64::from(layers - 1) * (second - first) + rest;
    // The roof is the matrices alone: 1.19 GB.
    let layer = Needs::attention(&shape, true).matrices + Needs::mlp(&shape).matrices;
    let matrices = layers as u64 * layer + 2 * vocab * u64::from(shape.hidden);
    assert_eq!(matrices, 2 * (28 * (4096 * 1024 + 2048 * 1024 + 3 * 3072 * 1024) + 151_936 * 1024));
    let roof = matrices as f64 / R9700.memory_bytes_per_s;
    let (best, cautious) = (token(one.total_s, two.total_s), token(one.cautious_s, two.cautious_s));
    assert!(roof < best && best < cautious, "{roof} {best} {cautious}");
    assert!(roof / cautious >= 0.7, "{roof} s of {cautious} s");
}
