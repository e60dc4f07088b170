//! The GPU path on whole checkpoints, its machine code executed by the emulator: the comparison of golden.rs under the bar for bf16
//! matrix inputs. A part of the cases here; `./x test --all` (ZYNFER_TEST_ALL) runs every case, every greedy token and every window.

use zynfer::{
    cpu::CpuOptions,
    engine::Engine,
    gpu::{self, GpuKind, Options},
    model::weights::Weights,
};

use crate::{
    cpu,
    golden::{self, Bar, Case},
};

fn all() -> bool {
    std::env::var_os("ZYNFER_TEST_ALL").is_some()
}

fn engine(name: &str, context: usize) -> Engine {
    let artifact = cpu::artifact(name);
    let config = artifact.config();
    let weights = Weights::new(config);
    let options = Options::new(context).unwrap();
    let opened = gpu::open(GpuKind::Emulator, "auto", config, &weights, &artifact, &options).unwrap();
    Engine::new(opened.ops, weights, config, artifact.end_ids().iter().copied()).unwrap()
}

/// The reference's lead at a step, from the float32 backend that is itself judged by the same goldens.
fn lead(name: &str) -> impl FnMut(&[u32]) -> f32 {
    let mut reference = cpu::engine(&cpu::artifact(name), CpuOptions::new(256));
    move |ids| {
        let mut logits = reference.last_logits(ids).unwrap().to_vec();
        logits.sort_by(|a, b| b.total_cmp(a));
        logits[0] - logits[1]
    }
}

fn check(name: &str, cases: &[Case], tokens: usize) {
    let mut engine = engine(name, 256);
    for case in cases {
        golden::check_logits(&mut engine, case, Bar::Bf16);
        let tokens = if all() { case.greedy.len() } else { tokens };
        let case = Case { greedy: case.greedy[..tokens].to_vec(), ..case.clone() };
        golden::check_greedy(&mut engine, &case, Bar::Bf16, lead(name));
    }
}

#[test]
fn tiny_checkpoint_is_within_the_bar_of_bf16() {
    let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    check(cpu::TINY, if all() { &cases } else { &cases[..4] }, 8);
}

#[test]
fn untied_checkpoint_of_other_shapes_is_within_the_bar_of_bf16() {
    let (cases, _) = golden::read(&cpu::fixture(cpu::UNTIED), 1000);
    check(cpu::UNTIED, &cases, 3);
}

#[test]
fn validation_windows_are_within_the_bar_of_bf16() {
    let (_, golden) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    let windows = if all() { 16 } else { 1 };
    golden::check_validation(&mut engine(cpu::TINY, 512), &cpu::validation(), &golden, windows, Bar::Bf16);
}
