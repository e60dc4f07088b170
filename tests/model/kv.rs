//! A KV cache in formats on whole checkpoints: the GPU path, executed by the emulator and with `HW=1` by the card, beside the cpu backend with the
//! same formats, which is itself judged by what they cost (tests/quant). The difference is bf16 matrix inputs, and the codes these turn to neighbours.

use zynfer::cpu::CpuOptions;
use zynfer::gpu::{self, Options};
use zynfer::model::kv::KvFormats;
use zynfer_tests::tolerances::{GPU_TOP1_GAP, cosine, gpu_kv_logit_cosine};

use crate::{
    cpu,
    emulator::{all, engine_with, kinds},
    golden::{self, Bar},
};

/// A prompt of `length` by the prefill kernels, then `tokens` one by one, fed with the cpu backend's choice.
fn check(name: &str, vocabulary: u32, formats: &str, length: usize, tokens: usize) {
    let kv: KvFormats = formats.parse().unwrap();
    let artifact = cpu::artifact(name);
    let mut same = cpu::engine(&artifact, CpuOptions { kv, ..CpuOptions::new(128) });
    let mut exact = cpu::engine(&artifact, CpuOptions::new(128));
    for kind in kinds() {
        let mut engine = engine_with(kind, name, &Options { kv, ..Options::new(128).unwrap() });
        // What these formats are not: bf16, and where keys and values differ, one in the place of the other.
        let exchanged = KvFormats { k: kv.v, v: kv.k };
        let others: Vec<KvFormats> = [gpu::plan::KV, exchanged].into_iter().filter(|other| *other != kv).collect();
        let mut others: Vec<_> = others
            .into_iter()
            .map(|kv| engine_with(kind, name, &Options { kv, ..Options::new(128).unwrap() }))
            .collect();
        assert_eq!(engine.kv_formats(), kv);
        let mut ids: Vec<u32> = cpu::validation().into_iter().map(|id| id % vocabulary).take(length).collect();
        for step in 0..tokens {
            let what = format!("{}: {name}, {formats}, {length} ids, token {step}", kind.name());
            let want = same.last_logits(&ids).unwrap().to_vec();
            let rounding = cosine(exact.last_logits(&ids).unwrap(), &want);
            let got = engine.last_logits(&ids).unwrap();
            let (similar, bar) = (cosine(got, &want), gpu_kv_logit_cosine(rounding));
            eprintln!("{what}: cosine {similar}, {rounding} to an exact cache");
            assert!(similar >= bar, "{what}: cosine {similar}, {bar} is needed");
            if step == 0 {
                for other in &mut others {
                    let kv = other.kv_formats();
                    assert!(got != other.last_logits(&ids).unwrap(), "{what}: the logits of {kv}");
                }
            }
            let best = |row: &[f32]| (0..row.len()).fold(0, |a, b| if row[b] > row[a] { b } else { a });
            let (chosen, wanted) = (best(got), best(&want));
            let mut sorted = want.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let lead = sorted[0] - sorted[1];
            assert!(chosen == wanted || lead <= GPU_TOP1_GAP, "{what}: {chosen}, {wanted} leads by {lead}");
            ids.push(wanted as u32);
        }
    }
}

#[test]
fn int8_agrees_with_the_cpu_backend() {
    check(cpu::TINY, 4096, "int8", 40, 6);
    check(cpu::UNTIED, 1000, "int8", 33, 3);
}

#[test]
fn other_formats_agree_with_the_cpu_backend() {
    check(cpu::TINY, 4096, "f16", 17, 3);
    check(cpu::TINY, 4096, "fp8", 17, 3);
    check(cpu::UNTIED, 1000, "fp8", 17, 3);
}

#[test]
fn keys_and_values_in_formats_of_their_own_agree_with_the_cpu_backend() {
    check(cpu::TINY, 4096, "k=bf16,v=int8", 17, 3);
    check(cpu::UNTIED, 1000, "k=fp8,v=f16", 17, 2);
    // Without norms of heads, and with biases; heads of 128 and of 64.
    check(cpu::OTHERS[1], cpu::OTHERS_VOCAB as u32, "k=int8,v=f16", 18, 2);
    check(cpu::OTHERS[0], cpu::OTHERS_VOCAB as u32, "k=f16,v=fp8", 18, 2);
    check(cpu::OTHERS[2], cpu::OTHERS_VOCAB as u32, "int8", 18, 2);
}

/// Prompts by the prefill kernels: the bar of bf16 holds all of a format's cost on the trained checkpoint.
#[test]
fn validation_windows_are_within_the_bar_of_bf16() {
    let (_, golden) = golden::read(&cpu::fixture(cpu::TINY), 4096);
    for kind in kinds() {
        for formats in ["f16", "int8", "fp8", "k=int8,v=bf16", "k=bf16,v=fp8"] {
            let options = Options { kv: formats.parse().unwrap(), ..Options::new(512).unwrap() };
            let windows = if all(kind) { 16 } else { 1 };
            let mut engine = engine_with(kind, cpu::TINY, &options);
            golden::check_validation(&mut engine, &cpu::validation(), &golden, windows, Bar::Bf16);
        }
    }
}
