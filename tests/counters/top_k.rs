//! The largest logits of a row by arithmetic: the row is read once, and between the two launches and at the end pass a few keys.

use device_ops::top_k::{self, Args};
use zynfer_tests::random::Random;

use crate::machine::Machine;

/// Qwen3's.
const VOCAB: u32 = 151_936;
/// Logits that a workgroup looks at.
const SLICE: u32 = 2048;

#[test]
fn the_row_is_read_once_and_few_bytes_besides() {
    let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
    let mut random = Random(1);
    let row: Vec<f32> = (0..VOCAB).map(|_| random.word() as i32 as f32).collect();
    let logits = machine.buffer(bytemuck::cast_slice(&row));
    let slices = u64::from(VOCAB.div_ceil(SLICE));
    for k in [1u32, 20, 64] {
        let (pairs, row) = (u64::from(k), u64::from(VOCAB) * 4);
        let between = slices * pairs * 8;
        let keys = machine.memory.alloc(between).expect("room");
        let best = machine.memory.alloc(pairs * 8).expect("room");
        let args = Args::new(logits, keys, best, VOCAB, k);
        let slices_stats = machine.count_ours(top_k::NAME_SLICES, top_k::geometry_slices(VOCAB), &args);
        let merge_stats = machine.count_ours(top_k::NAME_MERGE, top_k::geometry_merge(), &args);
        let [first, second] = [&slices_stats, &merge_stats].map(|stats| stats.counters.as_deref().expect("counted"));

        // Distinct lines: the row's, and one of arguments; then the keys', and one.
        assert_eq!(first.footprint.read_128, row / 128 + 1, "k {k}");
        assert!(second.footprint.read_128 <= between / 128 + 2, "k {k}: {}", second.footprint.read_128);
        let read = first.loads.bytes + second.loads.bytes;
        // Lanes behind an end read its last once more: of the row's last slice, and of the keys' last chunk.
        let again =
            (slices * u64::from(SLICE) * 4 - row) + (slices * pairs).next_multiple_of(u64::from(SLICE)) * 8 - between;
        assert_eq!(read, row + between + again, "k {k}");
        assert!(first.loads.bytes as f64 <= 1.03 * row as f64, "k {k}: {} of {row}", first.loads.bytes);
        assert_eq!(first.loads.bytes_by_width[crate::width(4)], first.loads.bytes);
        assert_eq!((first.stores.bytes, second.stores.bytes), (between, pairs * 8), "k {k}");
        for counters in [first, second] {
            assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "k {k}: spills");
            // What conflicts are the scattered stores by rank: a share of the passes, for the loads are broadcast.
            let lds = &counters.lds;
            let share = lds.conflicts_mod32() as f64 / lds.passes_ideal as f64;
            assert!(share < 0.05, "k {k}: {share} of LDS passes conflict");
        }
        // A wave's 16 keys a lane, and its lanes' ranks among 128 maxima, two at a time: some 20 instructions for a key and 8 for two ranks;
        // what K adds is a third of that for 20, more than all of it for 64.
        let waves = slices * 4;
        let (each, least) = (slices_stats.total() / waves, 16 * 20 + 64 * 8);
        let most = if k <= 20 { 2 * least } else { 3 * least };
        assert!((least..most).contains(&each), "k {k}: {each} instructions of a wave");
    }
}
