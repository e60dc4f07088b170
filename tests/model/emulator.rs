//! The GPU path on whole checkpoints, its machine code executed by the emulator, and with `HW=1` by the card too: the comparison of
//! golden.rs under the bar for bf16 matrix inputs. In the emulator a part of the cases; `./x test --all` (ZYNFER_TEST_ALL) runs every
//! case, every greedy token and every window, as the card does always.

use zynfer::{
    cpu::CpuOptions,
    engine::Engine,
    gpu::{self, GpuKind, Options},
    model::weights::Weights,
};
use zynfer_tests::card_too;

use crate::{
    cpu,
    golden::{self, Bar, Case},
};

/// Whether `kind` goes through everything.
pub fn all(kind: GpuKind) -> bool {
    kind == GpuKind::AmdHip || std::env::var_os("ZYNFER_TEST_ALL").is_some()
}

/// What to run on.
pub fn kinds() -> Vec<GpuKind> {
    if card_too() { vec![GpuKind::Emulator, GpuKind::AmdHip] } else { vec![GpuKind::Emulator] }
}

fn engine(kind: GpuKind, name: &str, context: usize) -> Engine {
    engine_with(kind, name, &Options::new(context).unwrap())
}

pub fn engine_with(kind: GpuKind, name: &str, options: &Options) -> Engine {
    let artifact = cpu::artifact(name);
    let config = artifact.config();
    let weights = Weights::new(config);
    let opened = gpu::open(kind, "auto", config, &weights, &artifact, options).unwrap();
    Engine::new(opened.ops, weights, config, artifact.end_ids().iter().copied()).unwrap()
}

/// The reference's lead at a step, from the float32 backend that is itself judged by the same goldens.
pub fn lead(name: &str) -> impl FnMut(&[u32]) -> f32 {
    let mut reference = cpu::engine(&cpu::artifact(name), CpuOptions::new(256));
    move |ids| {
        let mut logits = reference.last_logits(ids).unwrap().to_vec();
        logits.sort_by(|a, b| b.total_cmp(a));
        logits[0] - logits[1]
    }
}

/// The first `part` cases and `tokens` greedy tokens of each, or all of both.
fn check(name: &str, vocab_size: usize, part: usize, tokens: usize) {
    let (cases, _) = golden::read(&cpu::fixture(name), vocab_size);
    for kind in kinds() {
        let mut engine = engine(kind, name, 256);
        for case in if all(kind) { &cases } else { &cases[..part] } {
            golden::check_logits(&mut engine, case, Bar::Bf16);
            let tokens = if all(kind) { case.greedy.len() } else { tokens };
            let case = Case { greedy: case.greedy[..tokens].to_vec(), ..case.clone() };
            golden::check_greedy(&mut engine, &case, Bar::Bf16, lead(name));
        }
    }
}

#[test]
fn tiny_checkpoint_is_within_the_bar_of_bf16() {
    check(cpu::TINY, 4096, 4, 8);
}

#[test]
fn untied_checkpoint_of_other_shapes_is_within_the_bar_of_bf16() {
    check(cpu::UNTIED, 1000, 5, 3);
}

#[test]
fn checkpoints_of_other_families_are_within_the_bar_of_bf16() {
    for name in cpu::OTHERS {
        check(name, cpu::OTHERS_VOCAB, 5, 3);
    }
}

#[test]
fn validation_windows_are_within_the_bar_of_bf16() {
    let (_, golden) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    for kind in kinds() {
        let windows = if all(kind) { 16 } else { 1 };
        golden::check_validation(&mut engine(kind, cpu::TINY, 512), &cpu::validation(), &golden, windows, Bar::Bf16);
    }
}
