//! Comparisons of two models: divergences against torch's and against the formula written plainly, from logits of one position at a time.

use zynfer::{
    artifact::{Artifact, LoadMode, compile_quantized},
    cpu::CpuOptions,
    engine::{
        Engine, EngineError, Flow,
        compare::{Comparison, compare, kl_divergence},
        windows::Windows,
    },
    quant::Recipe,
};
use zynfer_tests::fixtures::{read, read_json};

use crate::cpu::{TINY, UNTIED, artifact, engine, fixture, validation};

const WINDOW: usize = 40;
const COUNT: usize = 5;

/// The trained checkpoint with 4-bit weights.
fn int4(folder: &tempfile::TempDir) -> Artifact {
    let out = folder.path().join("int4.zynfer");
    compile_quantized(&fixture(TINY), &out, &Recipe::new("int4:64".parse().unwrap()), &mut |_, _| {}).unwrap();
    Artifact::open(&out, LoadMode::Mmap).unwrap()
}

fn compared(a: &mut Engine, b: &mut Engine, ids: &[u32]) -> Comparison {
    compare(a, b, &Windows::new(ids, WINDOW, Some(COUNT)).unwrap(), &mut |_| Flow::Continue).unwrap()
}

/// softmax as the formula says, which these logits allow.
fn probabilities(logits: &[f32]) -> Vec<f64> {
    let exponentials: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|e| e / sum).collect()
}

fn largest(probabilities: &[f64]) -> usize {
    (0..probabilities.len()).fold(0, |best, id| if probabilities[id] > probabilities[best] { id } else { best })
}

#[test]
fn divergences_are_torchs() {
    let rows: Vec<f32> =
        read("tiny-qwen3/golden_last_logits.f32").as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let rows: Vec<&[f32]> = rows.chunks_exact(4096).collect();
    let golden = read_json("kld/kld.json");
    // Both are sums of 4096 terms in f64.
    let close = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-12 * (1.0 + expected), "{found}, {expected} expected")
    };
    let pairs = golden["pairs"].as_array().unwrap();
    assert_eq!((pairs.len(), rows.len()), (132, 12));
    for pair in pairs {
        let [a, b] = [0, 1].map(|place| rows[pair[place].as_u64().unwrap() as usize]);
        close(kl_divergence(a, b).unwrap(), pair[2].as_f64().unwrap());
    }
    for (row, expected) in rows.iter().zip(golden["rounded_to_bf16"].as_array().unwrap()) {
        let rounded: Vec<f32> = row.iter().map(|&logit| half::bf16::from_f32(logit).to_f32()).collect();
        close(kl_divergence(row, &rounded).unwrap(), expected.as_f64().unwrap());
        assert_eq!(kl_divergence(row, row).unwrap(), 0.0);
    }
}

#[test]
fn impossible_tokens_and_bad_logits() {
    const NO: f32 = f32::NEG_INFINITY;
    // (1/2, 1/2, 0) against (1/4, 1/4, 1/2): ln 2.
    let certain = kl_divergence(&[0.0, 0.0, NO], &[0.0, 0.0, 2f32.ln()]).unwrap();
    assert!((certain - 2f64.ln()).abs() < 1e-7, "{certain}");
    assert_eq!(kl_divergence(&[0.0, 0.0], &[0.0, NO]).unwrap(), f64::INFINITY);
    assert_eq!(kl_divergence(&[0.0, NO], &[3.0, NO]).unwrap(), 0.0);
    assert!(kl_divergence(&[0.0, f32::NAN], &[0.0, 0.0]).is_err());
    assert!(kl_divergence(&[0.0, 0.0], &[f32::INFINITY, 0.0]).is_err());
}

#[test]
fn a_comparison_is_the_formula_on_logits_of_single_positions() {
    let folder = tempfile::tempdir().unwrap();
    let (bf16, int4, ids) = (artifact(TINY), int4(&folder), validation());
    let (mut a, mut b) =
        (engine(&bf16, CpuOptions::new(64)), engine(&int4, CpuOptions { max_chunk: 7, ..CpuOptions::new(64) }));
    let found = compared(&mut a, &mut b, &ids);
    let (mut all, mut nll, mut same) = (Vec::new(), [0.0; 2], 0);
    for (window, ids) in ids.chunks_exact(WINDOW).take(COUNT).enumerate() {
        for position in 1..WINDOW {
            let [p, q] = [&mut a, &mut b].map(|engine| probabilities(engine.last_logits(&ids[..position]).unwrap()));
            let kld: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
            let target = ids[position] as usize;
            nll = [nll[0] - p[target].ln(), nll[1] - q[target].ln()];
            let top1 = [largest(&p), largest(&q)];
            same += usize::from(top1[0] == top1[1]);
            all.push((kld, window, position, target, top1));
        }
    }
    let count = COUNT * (WINDOW - 1);
    assert_eq!((all.len(), found.positions.len(), found.same_top1), (count, count, same));
    assert!(same < count, "the models differ somewhere");
    all.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
    for (expected, found) in all.iter().zip(&found.positions) {
        let (kld, window, position, target, top1) = *expected;
        assert!((found.kld - kld).abs() < 1e-10, "{found:?}, {kld} expected");
        assert_eq!((found.window, found.position, found.target as usize), (window, position, target));
        assert_eq!(found.top1.map(|id| id as usize), top1);
    }
    let mean = all.iter().map(|one| one.0).sum::<f64>() / count as f64;
    assert!((found.mean_kld - mean).abs() < 1e-10 && mean > 1e-4, "{}, {mean} expected", found.mean_kld);
    assert_eq!((found.max_kld, found.kld_p99), (found.positions[0].kld, found.positions[1].kld), "rank 194 of 195");
    for (perplexity, nll) in found.perplexities.iter().zip(nll) {
        assert!((perplexity.mean_nll - nll / count as f64).abs() < 1e-10);
    }
    let delta = 100.0 * (found.perplexities[1].perplexity / found.perplexities[0].perplexity - 1.0);
    assert!((found.perplexity_delta() - delta).abs() < 1e-9);
    // What perplexity alone measures of each.
    let windows = Windows::new(&ids, WINDOW, Some(COUNT)).unwrap();
    for (engine, perplexity) in [&mut a, &mut b].into_iter().zip(&found.perplexities) {
        let alone = engine.perplexity(&windows, &mut |_| Flow::Continue).unwrap();
        assert_eq!(&alone, perplexity);
    }
}

#[test]
fn a_model_diverges_from_itself_by_exactly_nothing() {
    let (artifact, ids) = (artifact(TINY), validation());
    let options = |threads| CpuOptions { threads, ..CpuOptions::new(WINDOW) };
    let (mut a, mut b) = (engine(&artifact, options(1)), engine(&artifact, options(2)));
    let found = compared(&mut a, &mut b, &ids);
    assert_eq!((found.mean_kld, found.kld_p99, found.max_kld, found.perplexity_delta()), (0.0, 0.0, 0.0, 0.0));
    assert_eq!((found.same_top1, found.top1_agreement()), (COUNT * (WINDOW - 1), 1.0));
    assert!(found.positions.iter().all(|position| position.kld == 0.0));
    assert_eq!(found.perplexities[0], found.perplexities[1]);
}

#[test]
fn what_cannot_be_compared_is_refused_and_what_is_cancelled_ends_with_whole_windows() {
    let (ids, tiny, other) = (validation(), artifact(TINY), artifact(UNTIED));
    let mut a = engine(&tiny, CpuOptions { max_chunk: 10, ..CpuOptions::new(WINDOW) });
    let windows = Windows::new(&ids, WINDOW, Some(COUNT)).unwrap();
    let mut small = engine(&other, CpuOptions::new(WINDOW));
    let refused = compare(&mut a, &mut small, &windows, &mut |_| Flow::Continue).unwrap_err().to_string();
    let rows = other.config().vocab_size;
    assert_eq!(refused, format!("vocabularies of 4096 and {rows} ids cannot be compared"));
    let mut short = engine(&tiny, CpuOptions::new(WINDOW - 2));
    let refused = compare(&mut a, &mut short, &windows, &mut |_| Flow::Continue).unwrap_err().to_string();
    assert_eq!(refused, "window: 40 ids given, the context of 38 holds windows of at most 39");

    // Four passes a window: the sixth ends in the second.
    let mut b = engine(&tiny, CpuOptions::new(WINDOW));
    for (passes, whole) in [(3, None), (6, Some(1))] {
        let mut left = passes;
        let result = compare(&mut a, &mut b, &windows, &mut |_| {
            left -= 1;
            if left == 0 { Flow::Cancel } else { Flow::Continue }
        });
        match whole {
            None => assert!(matches!(result, Err(EngineError::Cancelled))),
            Some(whole) => assert_eq!(result.unwrap().perplexities[1].window_mean_nll.len(), whole),
        }
    }
}
