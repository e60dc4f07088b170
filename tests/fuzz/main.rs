//! The fuzz targets of `fuzz/` on seeded inputs: damaged code objects, random instruction streams, damaged GGUF files; the same ones on
//! every machine.
//! `ZYNFER_TEST_ALL=1` (what `./x test --all` sets) tries forty times as many. Whoever wants coverage to guide the inputs runs
//! cargo-fuzz, see `fuzz/Cargo.toml`.

#[path = "../../fuzz/targets.rs"]
mod targets;

mod bombs;
mod gguf;
mod limits;

use emulator::isa;
use rayon::prelude::*;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use targets::image;
use zynfer_tests::fixtures;
use zynfer_tests::random::{self, Random};

/// No input may take longer; the slowest take milliseconds, so a loaded machine does not fail this.
const LONGEST: Duration = Duration::from_secs(20);

/// Runs `count` seeds (more in a long run) of `make`, and names the seeds that fail. At least one input in `far` must come as far as
/// `is_far` says, or the run would prove little.
fn seeds<R>(
    name: &str,
    count: u64,
    make: impl Fn(&mut Random) -> Vec<u8> + Sync,
    target: fn(&[u8]) -> R,
    far: u64,
    is_far: fn(R) -> bool,
) {
    let long = std::env::var_os("ZYNFER_TEST_ALL").is_some();
    let count = if long { count * 40 } else { count };
    let reached = AtomicU64::new(0);
    let failed: Vec<String> = (0..count)
        .into_par_iter()
        .filter_map(|seed| {
            let bytes = make(&mut Random(seed));
            let start = Instant::now();
            let outcome = catch_unwind(|| target(&bytes));
            let took = start.elapsed();
            match outcome {
                Err(_) => Some(format!("seed {seed} panics")),
                Ok(_) if took > LONGEST => Some(format!("seed {seed} takes {took:?}")),
                Ok(end) => {
                    reached.fetch_add(u64::from(is_far(end)), Relaxed);
                    None
                }
            }
        })
        .collect();
    assert!(
        failed.is_empty(),
        "{name}: {} of {count} fail: {}",
        failed.len(),
        failed[..failed.len().min(20)].join(", ")
    );
    let reached = reached.into_inner();
    assert!(reached * far >= count, "{name}: only {reached} of {count} inputs come far");
}

fn real() -> Vec<Vec<u8>> {
    let fixtures =
        ["asm", "bad", "dev2", "ll", "rk", "sc"].map(|name| fixtures::read(&format!("kernels/{name}.hsaco")));
    let shape = image::Shape { lds_bytes: 64, scratch_bytes: 32, ..image::Shape::default() };
    let own = [image::code_object(&[0xbfb0_0000], &shape), zynfer::gpu::code_object::IMAGE.to_vec()];
    fixtures.into_iter().chain(own).collect()
}

/// Values that sizes, offsets and counts go wrong at.
const EDGES: &[u64] =
    &[0, 1, 3, 7, 8, 63, 64, 0x7f, 0x80, 0xff, 0x100, 0xfff, 0x1000, 0xffff, 0x1_0000, 0x10_0000, 0x7fff_ffff];

/// A code object with a few fields changed, mostly in its tables, where every byte has a meaning.
fn damage(random: &mut Random, objects: &[Vec<u8>]) -> Vec<u8> {
    let which = if random.one_in(12) { objects.len() - 1 } else { random.below(objects.len() - 1) };
    let mut bytes = objects[which].clone();
    for _ in 0..1 + random.below(6) {
        let sections = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"));
        let sections = usize::try_from(sections).ok().filter(|&at| at < bytes.len()).unwrap_or(0);
        let at = match random.below(4) {
            0 => random.below(bytes.len()),
            1 => random.below(bytes.len().min(2048)),
            2 => random.below(64 + 10 * 56),
            _ => sections + random.below(bytes.len() - sections),
        };
        let edge = random.one_of(EDGES);
        let value = match random.below(4) {
            0 => edge,
            1 => edge.wrapping_neg(),
            2 => bytes.len() as u64 + edge,
            _ => random.wide(),
        };
        let width = random.one_of(&[1, 1, 2, 4, 8]);
        let at = at.next_multiple_of(width).min(bytes.len() - width);
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => {
                let from = random.below(bytes.len());
                let count = (1 + random.below(64)).min(bytes.len() - from.max(at));
                bytes.copy_within(from..from + count, at);
            }
            _ => bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]),
        }
    }
    if random.one_in(16) {
        bytes.truncate(64 + random.below(bytes.len() - 63));
    }
    bytes
}

#[test]
fn damaged_code_objects_end_in_results_or_errors() {
    let objects = real();
    seeds("code objects", 6_000, |random| damage(random, &objects), targets::code_object, 5, |r| r.started > 0);
}

/// Words of one format; with few exceptions words that decode, and branches that stay near, so that a stream gets somewhere.
fn instruction(random: &mut Random) -> Vec<u32> {
    let anything = random.one_in(40);
    loop {
        let mut words: Vec<u32> = (0..3).map(|_| random.word()).collect();
        random::shape(&mut words, random.below(random::FORMATS.len()), random.below(4));
        // Addresses that hold something, now and then.
        if random.one_in(2) {
            words[1] = words[1] & 0xff00_ff00 | random.one_of(&[0x0002_0003, 0x0000_0002, 0x0003_0002, 0x0004_0004]);
            words[2] = random.one_of(&[2, 3]) | (random.below(64) as u32) << 8;
        }
        let decoded = isa::decode(&words);
        match decoded {
            Err(_) if anything => return words,
            Err(_) => {}
            Ok(inst) if inst.row.name.starts_with("s_cbranch") || inst.row.name == "s_branch" => {
                return vec![words[0] & 0xffff_0000 | random.below(5) as u32];
            }
            Ok(inst) => return words[..usize::from(inst.dwords)].to_vec(),
        }
    }
}

/// Words that begin as each format does, behind a prologue that makes addresses of the buffer and small numbers likely.
fn stream(random: &mut Random) -> Vec<u8> {
    let fill = random.one_of(&[0, 4, 64, 0x3f80_0000, 0xffc0_dead, u32::MAX]);
    let mut words = vec![
        0xf400_2100, // s_load_b64 s[4:5], s[0:1], 0x0
        0xf800_0000, //
        0xf400_2300, // s_load_b64 s[12:13], s[0:1], 0x0
        0xf800_0000,
        0xbfc7_0000, // s_wait_kmcnt 0x0
        0x3604_00ff, // v_and_b32_e32 v2, 0x3ff, v0
        0x0000_03ff,
        0x7e06_0204, // v_mov_b32_e32 v3, s4
        0x7e08_0205, // v_mov_b32_e32 v4, s5
    ];
    for _ in 0..1 + random.below(40) {
        words.extend(instruction(random));
    }
    words.push(0xbfb0_0000);
    // Mostly with all registers, or nearly every instruction would name one too many.
    let resources = if random.one_in(8) { random.word() as u8 } else { random.word() as u8 & !3 | 2 };
    let mut bytes = vec![resources, random.word() as u8];
    bytes.extend(fill.to_le_bytes());
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    bytes
}

#[test]
fn instruction_streams_end_in_results_or_traps() {
    seeds("instruction streams", 15_000, stream, targets::instructions, 3, |r| r.farthest > 36 + 16);
}

/// The prologue of [`stream`] must run, or the streams would all end in their first instruction.
#[test]
fn the_image_runs() {
    let mut bytes = vec![1, 0, 0, 0, 0, 0];
    let words = stream(&mut Random(1));
    bytes.extend(&words[6..6 + 9 * 4]);
    bytes.extend(0xbfb0_0000u32.to_le_bytes());
    targets::instructions(&bytes);
    let words: Vec<u32> = bytes[6..].chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let object =
        emulator::CodeObject::parse(&image::code_object(&words, &image::Shape::default())).expect("well formed");
    let mut memory = emulator::Memory::new(1 << 20);
    let module = emulator::LoadedModule::load(object, &mut memory).expect("room");
    let stats = emulator::launch(
        &memory,
        &module,
        &emulator::Launch {
            kernel: "k",
            grid: [1; 3],
            block: [64, 1, 1],
            dynamic_lds: 0,
            kernarg: &[0; 64],
            options: emulator::Options::default(),
        },
    );
    assert_eq!(stats.map(|s| s.total()), Ok(2 * 7));
}
