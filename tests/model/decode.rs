//! Fused decode on whole checkpoints, by each plan, in the emulator and with `HW=1` on the card too: greedy tokens against the recorded
//! ones, and logits behind contexts long enough to be split among workgroups against the f64 oracle. In the emulator few workgroups
//! and few tokens; `./x test --all` runs more.

use zynfer::{
    engine::{Engine, Flow, NoText, Request, SamplingParams, sampler::Sampler},
    gpu::{GpuKind, Options},
    hip::decode::DecodePlan,
    model::forward::forward,
};
use zynfer_tests::card_too;
use zynfer_tests::tolerances::{GPU_LOGIT_COSINE, GPU_TOP1_GAP, cosine};

use crate::{
    cpu,
    emulator::{all, engine_with, lead},
    golden::{self, Bar, Case},
    oracle::Oracle,
};

const PLANS: [DecodePlan; 3] = [DecodePlan::Fused, DecodePlan::Graph, DecodePlan::Persistent];

/// Where, and with how many workgroups: few of them, and a number that divides nothing.
fn places() -> Vec<(GpuKind, Option<u32>)> {
    let mut places = vec![(GpuKind::Emulator, Some(3))];
    if card_too() {
        places.extend([(GpuKind::AmdHip, None), (GpuKind::AmdHip, Some(1)), (GpuKind::AmdHip, Some(7))]);
    }
    places
}

fn engine(kind: GpuKind, name: &str, context: usize, plan: DecodePlan, workgroups: Option<u32>) -> Engine {
    engine_with(kind, name, &Options { decode: Some(plan), workgroups, ..Options::new(context).unwrap() })
}

fn check(name: &str, vocab_size: usize) {
    let (cases, _) = golden::read(&cpu::fixture(name), vocab_size);
    for (kind, workgroups) in places() {
        for plan in PLANS {
            let mut engine = engine(kind, name, 256, plan, workgroups);
            for case in if all(kind) { &cases } else { &cases[..2] } {
                let tokens = if all(kind) { case.greedy.len() } else { 6 };
                let case = Case { greedy: case.greedy[..tokens].to_vec(), ..case.clone() };
                golden::check_greedy(&mut engine, &case, Bar::Bf16, lead(name));
            }
        }
    }
}

#[test]
fn greedy_tokens_of_the_tiny_checkpoint() {
    check(cpu::TINY, 4096);
}

#[test]
fn greedy_tokens_of_the_untied_checkpoint_of_other_shapes() {
    check(cpu::UNTIED, 1000);
}

#[test]
fn greedy_tokens_of_other_families() {
    for name in cpu::OTHERS {
        check(name, cpu::OTHERS_VOCAB);
    }
}

/// Behind 0, a few, 128, 256 and more positions: one piece and up to five, which is more than are merged at once; whole and begun passes
/// of 256 scores; the cache's last block.
#[test]
fn logits_behind_contexts_of_any_length() {
    let artifact = cpu::artifact(cpu::TINY);
    let oracle = Oracle::new(&artifact);
    let text = cpu::validation();
    for (kind, workgroups) in places() {
        // Eleven workgroups over two key/value heads: up to five pieces for each.
        let workgroups = if kind == GpuKind::Emulator { Some(11) } else { workgroups };
        let lengths: &[usize] =
            if all(kind) { &[0, 1, 31, 127, 128, 129, 255, 256, 257, 511, 512, 513, 700] } else { &[0, 128, 301, 530] };
        for plan in PLANS {
            let mut engine = engine(kind, cpu::TINY, 704, plan, workgroups);
            let mut cached = 0;
            for &length in lengths {
                let ids = &text[..=length];
                let (ops, weights) = engine.parts();
                let chunk = ops.max_chunk();
                for ids in ids[cached..length].chunks(chunk) {
                    forward(ops, weights, ids, cached, 0).unwrap();
                    cached += ids.len();
                }
                ops.decode_logits(ids[length], length).unwrap();
                let mut logits = Vec::new();
                ops.read_logits(&mut logits).unwrap();
                let want: Vec<f32> = oracle.last_logits(ids).iter().map(|&x| x as f32).collect();
                let cosine = cosine(&logits, &want);
                assert!(cosine >= GPU_LOGIT_COSINE, "{kind:?} {plan:?} behind {length}: cosine {cosine}");
                let best = |x: &[f32]| (0..x.len()).max_by(|&a, &b| x[a].total_cmp(&x[b])).unwrap();
                let mut sorted = want.clone();
                sorted.sort_by(|a, b| b.total_cmp(a));
                if sorted[0] - sorted[1] > GPU_TOP1_GAP {
                    assert_eq!(best(&logits), best(&want), "{kind:?} {plan:?} behind {length}");
                }
                assert_eq!(ops.argmax().unwrap() as usize, best(&logits), "{kind:?} {plan:?} behind {length}");
            }
        }
    }
}

/// A launch of several tokens ends with the first that ends the text, and the next launch goes on from anywhere.
#[test]
fn an_end_id_ends_a_launch() {
    let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    let case = &cases[0];
    for (kind, workgroups) in places() {
        let mut engine = engine(kind, cpu::TINY, 256, DecodePlan::Persistent, workgroups);
        let (ops, weights) = engine.parts();
        let (last, before) = case.ids.split_last().unwrap();
        forward(ops, weights, before, 0, 0).unwrap();
        let whole = ops.decode_greedy(*last, before.len(), 4, &[]).unwrap();
        assert_eq!(whole.len(), 4);
        let end = whole[1];
        let cut = ops.decode_greedy(*last, before.len(), 4, &[9, end]).unwrap();
        let expected = 1 + whole.iter().position(|&id| id == end).unwrap();
        assert_eq!(cut, whole[..expected]);
        let again = ops.decode_greedy(*last, before.len(), 2, &[]).unwrap();
        assert_eq!(again, whole[..2]);
        for (id, position, count) in [(4096, 3, 1), (1, 256, 1), (1, 250, 7), (1, 3, 0), (1, 3, 17)] {
            let error = ops.decode_greedy(id, position, count, &[]).unwrap_err().to_string();
            let number = if id == 4096 {
                id as usize
            } else if count == 1 {
                position
            } else {
                count
            };
            assert!(error.contains(&number.to_string()), "{error}");
        }
    }
}

/// Tokens drawn by the engine, from the largest logits, are those drawn from whole rows of the same backend.
#[test]
fn sampling_from_the_largest_is_sampling_from_the_row() {
    let (cases, _) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    let prompt = &cases[0].ids;
    const TOKENS: usize = 5;
    for (kind, workgroups) in places() {
        for plan in [None].into_iter().chain(PLANS.map(Some)) {
            let options = Options { decode: plan, workgroups, ..Options::new(256).unwrap() };
            let mut engine = engine_with(kind, cpu::TINY, &options);
            let mut texts = Vec::new();
            for seed in [1, 2] {
                let sampling = SamplingParams {
                    temperature: 1.5,
                    top_k: 20,
                    top_p: 0.95,
                    seed: Some(seed),
                    ..SamplingParams::default()
                };
                let request = Request {
                    prompt: prompt.clone(),
                    max_tokens: Some(TOKENS as i64),
                    sampling,
                    ignore_eos: true,
                    ..Request::default()
                };
                let drawn = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap().tokens;
                let mut sampler = Sampler::new(sampling, prompt).unwrap();
                let (ops, weights) = engine.parts();
                forward(ops, weights, prompt, 0, 1).unwrap();
                let mut row = Vec::new();
                for (index, &token) in drawn.iter().enumerate() {
                    ops.read_logits(&mut row).unwrap();
                    assert_eq!(sampler.sample(&mut row), Ok(token), "{kind:?} {plan:?} seed {seed}: token {index}");
                    let position = prompt.len() + index;
                    match plan {
                        None => forward(ops, weights, &[token], position, 1).unwrap(),
                        Some(_) => ops.decode_logits(token, position).unwrap(),
                    }
                }
                assert_eq!(drawn.len(), TOKENS);
                texts.push(drawn);
            }
            assert_ne!(texts[0], texts[1], "{kind:?} {plan:?}: a temperature at which seeds differ");
        }
    }
}
