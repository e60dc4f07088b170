//! Reference outputs beside a checkpoint, and the comparison of a backend with them. The same code judges every backend; what
//! differs is the bar.

use std::{fs, path::Path};

use serde_json::Value;
use zynfer::{
    engine::{Engine, Flow, NoText, Request, windows::Windows},
    model::forward::forward_observed,
};
use zynfer_tests::tolerances::*;

/// One prompt and what transformers made of it in float32.
#[derive(Debug, Clone)]
pub struct Case {
    pub ids: Vec<u32>,
    pub top5: Vec<u32>,
    pub top5_logits: Vec<f32>,
    /// RMS of the last token's hidden state after 0, 1, … layers, where recorded.
    pub hidden_rms: Vec<f64>,
    pub greedy: Vec<u32>,
    /// The text of `greedy`, where recorded.
    pub text: Option<String>,
    /// All logits of the last prompt token.
    pub logits: Vec<f32>,
}

/// How close a backend must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bar {
    /// Float32 arithmetic: each logit close, greedy exact.
    Float32,
    /// bf16 inputs to matrix products: cosine, and equal choices where the reference is sure.
    Bf16,
}

/// Reads `golden.json` (a list of cases, or an object holding one) and `golden_last_logits.f32`.
pub fn read(folder: &Path, vocab_size: usize) -> (Vec<Case>, Value) {
    let golden: Value = serde_json::from_slice(&fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let list = golden.as_array().or(golden["cases"].as_array()).unwrap();
    let logits = fs::read(folder.join("golden_last_logits.f32")).unwrap();
    let logits: Vec<f32> = logits.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(logits.len(), list.len() * vocab_size, "golden_last_logits.f32");
    let ids = |v: &Value| v.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect::<Vec<_>>();
    let numbers = |v: &Value| v.as_array().into_iter().flatten().map(|n| n.as_f64().unwrap()).collect::<Vec<_>>();
    let case = |(value, logits): (&Value, &[f32])| Case {
        ids: ids(&value["ids"]),
        top5: ids(&value["top5"]),
        top5_logits: numbers(&value["top5_logits"]).into_iter().map(|n| n as f32).collect(),
        hidden_rms: numbers(&value["hidden_rms_last_token"]),
        greedy: ids(value.get("greedy48").unwrap_or(&value["greedy"])),
        text: value["text"].as_str().map(str::to_owned),
        logits: logits.to_vec(),
    };
    let cases: Vec<Case> = list.iter().zip(logits.chunks_exact(vocab_size)).map(case).collect();
    assert!(!cases.is_empty(), "no cases in {}", folder.display());
    (cases, golden)
}

/// Last logits of one prompt against the reference.
pub fn check_logits(engine: &mut Engine, case: &Case, bar: Bar) {
    let logits = engine.last_logits(&case.ids).unwrap();
    assert_eq!(logits.len(), case.logits.len());
    // The two files must describe the same thing before either judges us.
    for (id, logit) in case.top5.iter().zip(&case.top5_logits) {
        assert!((case.logits[*id as usize] - logit).abs() < 1e-4, "golden files disagree on token {id}");
    }
    match bar {
        Bar::Float32 => {
            for (id, (value, reference)) in logits.iter().zip(&case.logits).enumerate() {
                assert!(logit_close(*value, *reference), "{:?}: logit {id} is {value}, {reference} expected", case.ids);
            }
            let mut order: Vec<u32> = (0..logits.len() as u32).collect();
            order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
            assert_eq!(order[..5], case.top5, "{:?}", case.ids);
        }
        Bar::Bf16 => {
            let cosine = cosine(logits, &case.logits);
            assert!(cosine >= GPU_LOGIT_COSINE, "{:?}: cosine {cosine}", case.ids);
            let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
            if case.top5_logits[0] - case.top5_logits[1] > GPU_TOP1_GAP {
                assert_eq!(best as u32, case.top5[0], "{:?}", case.ids);
            }
        }
    }
}

/// Greedy tokens against the reference. Under [`Bar::Bf16`] they may leave its path at a step where `lead`, the reference's lead of
/// its first over its second choice after these ids, is too small.
///
/// Returns the generated ids.
pub fn check_greedy(engine: &mut Engine, case: &Case, bar: Bar, mut lead: impl FnMut(&[u32]) -> f32) -> Vec<u32> {
    let request = Request {
        prompt: case.ids.clone(),
        max_tokens: Some(case.greedy.len() as i64),
        ignore_eos: true,
        ..Default::default()
    };
    let outcome = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap();
    assert_eq!(outcome.tokens.len(), case.greedy.len());
    let Some(step) = outcome.tokens.iter().zip(&case.greedy).position(|(a, b)| a != b) else { return outcome.tokens };
    let context = [&case.ids[..], &case.greedy[..step]].concat();
    assert!(
        bar == Bar::Bf16 && lead(&context) <= GPU_TOP1_GAP,
        "{:?}: step {step}: {:?}, {:?} expected",
        case.ids,
        &outcome.tokens[step..],
        &case.greedy[step..]
    );
    outcome.tokens
}

/// Mean negative log-likelihood of the first `windows` validation windows, each and together, against the recorded ones.
pub fn check_validation(engine: &mut Engine, ids: &[u32], golden: &Value, windows: usize, bar: Bar) {
    let expected = &golden["val"];
    let window = expected["window"].as_u64().unwrap() as usize;
    let recorded: Vec<f64> =
        expected["per_window_mean_nll"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
    let asked = Windows::new(ids, window, Some(windows)).unwrap();
    let result = engine.perplexity(&asked, &mut |_| Flow::Continue).unwrap();
    assert_eq!(result.tokens_scored, windows * (window - 1));
    assert_eq!(result.window_mean_nll.len(), windows);
    // A relative error of the perplexity is an absolute one of the mean.
    let allowed = |reference: f64| match bar {
        Bar::Float32 => PERPLEXITY_REL,
        Bar::Bf16 => GPU_NLL_REL * reference,
    };
    for (index, (value, reference)) in result.window_mean_nll.iter().zip(&recorded).enumerate() {
        assert!((value - reference).abs() <= allowed(*reference), "window {index}: {value}, {reference} expected");
    }
    if windows == recorded.len() {
        assert_eq!(expected["tokens_scored"], result.tokens_scored);
        let (nll, ppl) = (expected["mean_nll"].as_f64().unwrap(), expected["ppl"].as_f64().unwrap());
        assert!((result.mean_nll - nll).abs() <= allowed(nll), "mean {}, {nll} expected", result.mean_nll);
        assert!((ppl.ln() - nll).abs() < 1e-9 && (result.perplexity.ln() - result.mean_nll).abs() < 1e-9);
    }
}

/// RMS of the last token's hidden state after each layer against the recorded ones. transformers records the last layer's state after
/// the final norm (weights `norm`, inside it `eps`), so that is computed here, in f64, from ours.
pub fn check_hidden(engine: &mut Engine, case: &Case, norm: &[f32], eps: f64) {
    let (ops, weights) = engine.parts();
    let (mut rms, mut hidden) = (Vec::new(), Vec::new());
    let root_mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0), |(sum, count), v| (sum + v * v, count + 1));
        (sum / f64::from(count)).sqrt()
    };
    forward_observed(ops, weights, &case.ids, 0, 0, &mut |_, ops| {
        ops.read_hidden(&mut hidden)?;
        rms.push(root_mean(&mut hidden.iter().map(|h| f64::from(*h))));
        Ok(())
    })
    .unwrap();
    let last = rms.last_mut().unwrap();
    let scale = (*last * *last + eps).sqrt();
    *last = root_mean(&mut hidden.iter().zip(norm).map(|(h, w)| f64::from(*h) / scale * f64::from(*w)));
    assert_eq!(rms.len(), case.hidden_rms.len());
    for (layers, (value, reference)) in rms.iter().zip(&case.hidden_rms).enumerate() {
        let off = (value - reference).abs() / reference;
        assert!(off <= HIDDEN_RMS_REL, "{:?}: after {layers} layers {value}, {reference} expected", case.ids);
    }
}
