//! What each format of the KV cache costs the trained checkpoint on the cpu backend, beside the exact cache: perplexity of its validation
//! windows, how often the likeliest token is another one, and the divergence of the distributions (`engine::compare`, which has judges of its
//! own). `./x test --all` (ZYNFER_TEST_ALL) measures every pair of formats on 16 windows; without it int8 is judged on four.

use std::sync::Arc;

use zynfer::{
    artifact::{Artifact, LoadMode},
    cpu::{CpuBackend, CpuOptions},
    engine::{Engine, Flow, compare::compare, windows::Windows},
    model::{
        kv::{KvFormat, KvFormats},
        weights::Weights,
    },
};
use zynfer_tests::fixtures::{fixture, read};

const WINDOW: usize = 512;

fn engine(kv: KvFormats) -> Engine {
    let artifact = Artifact::open(&fixture("tiny-qwen3"), LoadMode::Mmap).unwrap();
    let (config, weights) = (artifact.config().clone(), Weights::new(artifact.config()));
    let options = CpuOptions { kv, ..CpuOptions::new(WINDOW) };
    let backend = CpuBackend::new(&config, &weights, Arc::new(artifact), options).unwrap();
    Engine::new(Box::new(backend), weights, &config, []).unwrap()
}

/// Per cent of perplexity that a pair may cost. The project has a bar for int8 alone; the others' would show a defect and not chance
/// (docs/QUANTIZATION.md: at most 0.001 of 16 bits, 0.06 of fp8).
fn bar(kv: KvFormats) -> f64 {
    let of = |format| match format {
        KvFormat::F32 | KvFormat::Bf16 | KvFormat::F16 => 0.05f64,
        KvFormat::Int8 | KvFormat::Fp8 => 0.3,
    };
    of(kv.k).max(of(kv.v))
}

#[test]
fn no_format_costs_more_than_its_bar() {
    let all = std::env::var_os("ZYNFER_TEST_ALL").is_some();
    let pairs = KvFormat::ALL.into_iter().flat_map(|k| KvFormat::ALL.map(|v| KvFormats { k, v }));
    let formats: Vec<KvFormats> = if all { pairs.collect() } else { vec![KvFormats::both(KvFormat::Int8)] };
    let ids: Vec<u32> =
        read("tiny-qwen3/validation.u16").as_chunks().0.iter().map(|id| u16::from_le_bytes(*id).into()).collect();
    let windows = Windows::new(&ids, WINDOW, Some(if all { 16 } else { 4 })).unwrap();
    let mut exact = engine(CpuOptions::KV);
    for kv in formats {
        let cost = compare(&mut exact, &mut engine(kv), &windows, &mut |_| Flow::Continue).unwrap();
        let (percent, agreement) = (cost.perplexity_delta(), cost.top1_agreement());
        println!("{kv}: {percent:+.3} %, top-1 {:.2} %, divergence {:.2e}", 100.0 * agreement, cost.mean_kld);
        if kv == CpuOptions::KV {
            assert!(percent == 0.0 && cost.max_kld == 0.0, "the same cache gives the same bits");
        }
        assert!(percent.abs() <= bar(kv), "{kv}: {percent:+.3} % of perplexity, at most {} %", bar(kv));
        // A cache that is wrong, and not merely rounded, shows here: one report's quantized keys left 10 %. Measured
        // over all 25 pairs: 98.5 % (fp8 both) to 100 %.
        assert!(agreement > 0.98, "{kv}: top-1 agreement {agreement:.3}");
    }
}

#[test]
fn nobody_gets_a_smaller_cache_without_asking() {
    assert_eq!(CpuOptions::new(64).kv, KvFormats::both(KvFormat::F32));
    assert_eq!(zynfer::gpu::plan::KV, KvFormats::both(KvFormat::Bf16));
    assert_eq!(engine(CpuOptions::KV).kv_formats(), KvFormats::both(KvFormat::F32));
}
