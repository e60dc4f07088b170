//! The engine on a scripted backend and a scripted clock: what it asks of a backend, when it stops, what it counts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{windows::Windows, *};
use crate::model::{
    family::Family,
    kv::{KvFormat, KvFormats},
    ops::{Act, OpResult, TensorId},
};

const VOCAB: usize = 10;

/// What the backend did and the time it says it took.
#[derive(Debug, Default)]
struct Log {
    now: Duration,
    /// `(position, ids, rows)` of each pass.
    passes: Vec<(usize, Vec<u32>, usize)>,
    /// How the logits were looked at: so many of the largest were asked for, or 0 for whole rows.
    looks: Vec<usize>,
    fail_at_pass: Option<usize>,
}

/// After position `p` the token `next[p]` follows, 0 where nothing is scripted. A pass takes 10 ms per token.
struct Scripted {
    log: Arc<Mutex<Log>>,
    next: BTreeMap<usize, u32>,
    logit: f32,
    context: usize,
    chunk: usize,
    logits: Vec<f32>,
}

impl Ops for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }
    fn context_len(&self) -> usize {
        self.context
    }
    fn kv_formats(&self) -> KvFormats {
        KvFormats::both(KvFormat::F32)
    }
    fn max_chunk(&self) -> usize {
        self.chunk
    }
    fn embed(&mut self, _table: TensorId, ids: &[u32], position: usize) -> OpResult {
        let mut log = self.log.lock().unwrap();
        assert!(!ids.is_empty() && ids.len() <= self.chunk && position + ids.len() <= self.context);
        log.passes.push((position, ids.to_vec(), 0));
        log.now += Duration::from_millis(10) * ids.len() as u32;
        if log.fail_at_pass == Some(log.passes.len() - 1) {
            return Err(BackendError("lost".into()));
        }
        Ok(())
    }
    fn logits(&mut self, _norm: TensorId, _lm_head: TensorId, rows: usize) -> OpResult {
        let mut log = self.log.lock().unwrap();
        let (position, ids, asked) = log.passes.last_mut().unwrap();
        assert!(rows > 0 && rows <= ids.len());
        *asked = rows;
        let end = *position + ids.len();
        self.logits = vec![0.0; rows * VOCAB];
        for (row, at) in self.logits.chunks_exact_mut(VOCAB).zip(end - rows..end) {
            row[self.next.get(&at).copied().unwrap_or(0) as usize] = self.logit;
        }
        Ok(())
    }
    fn read_logits(&mut self, out: &mut Vec<f32>) -> OpResult {
        self.log.lock().unwrap().looks.push(0);
        out.clone_from(&self.logits);
        Ok(())
    }
    /// Up to 3, of a row whose largest is the scripted token's.
    fn top_k(&mut self, k: usize, out: &mut Vec<Candidate>) -> Result<bool, BackendError> {
        self.log.lock().unwrap().looks.push(k);
        let mut row: Vec<Candidate> = self.logits.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit }).collect();
        row.sort_by(|a, b| b.logit.total_cmp(&a.logit));
        out.clear();
        out.extend(row.into_iter().take(k));
        Ok(k <= 3 && self.logit.is_finite())
    }
    fn argmax(&mut self) -> Result<u32, BackendError> {
        let row = &self.logits[self.logits.len() - VOCAB..];
        sampler::argmax(row).map_err(|e| BackendError(e.to_string()))
    }
    fn read_hidden(&mut self, _out: &mut Vec<f32>) -> OpResult {
        Ok(())
    }
    fn rmsnorm(&mut self, _w: TensorId, _x: Act, _y: Act) -> OpResult {
        Ok(())
    }
    fn linear(&mut self, _w: TensorId, _x: Act, _y: Act) -> OpResult {
        Ok(())
    }
    fn bias_add(&mut self, _b: TensorId, _y: Act) -> OpResult {
        Ok(())
    }
    fn head_norm(&mut self, _w: TensorId, _x: Act) -> OpResult {
        Ok(())
    }
    fn rope(&mut self, _x: Act) -> OpResult {
        Ok(())
    }
    fn kv_append(&mut self, _layer: usize) -> OpResult {
        Ok(())
    }
    fn attention(&mut self, _layer: usize) -> OpResult {
        Ok(())
    }
    fn swiglu(&mut self) -> OpResult {
        Ok(())
    }
    fn residual_add(&mut self) -> OpResult {
        Ok(())
    }
}

struct FakeClock(Arc<Mutex<Log>>);
impl Clock for FakeClock {
    fn now(&mut self) -> Duration {
        self.0.lock().unwrap().now
    }
}

fn test_config() -> ModelConfig {
    ModelConfig {
        family: Family::Qwen3,
        hidden_size: 2,
        intermediate_size: 2,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        num_key_value_heads: 1,
        head_dim: 2,
        vocab_size: VOCAB,
        max_position_embeddings: 100,
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        tie_word_embeddings: true,
    }
}

/// An engine whose backend says `script` after a prompt of `prompt` tokens; 8 and 9 are the model's end ids.
fn scripted(context: usize, chunk: usize, prompt: usize, script: &[u32]) -> (Engine, Arc<Mutex<Log>>) {
    let config = test_config();
    let log = Arc::new(Mutex::new(Log { now: Duration::from_secs(1000), ..Default::default() }));
    let next = script.iter().enumerate().map(|(i, id)| (prompt + i - 1, *id)).collect();
    let ops = Scripted { log: log.clone(), next, logit: 1.0, context, chunk, logits: Vec::new() };
    let engine = Engine::new(Box::new(ops), Weights::new(&config), &config, [8, 9]).unwrap();
    (engine.with_clock(Box::new(FakeClock(log.clone()))), log)
}

fn request(prompt: &[u32], max_tokens: impl Into<Option<i64>>) -> Request {
    Request { prompt: prompt.to_vec(), max_tokens: max_tokens.into(), ..Default::default() }
}

fn run(engine: &mut Engine, request: &Request) -> Outcome {
    engine.generate(request, &mut NoText, &mut |_| Flow::Continue).unwrap()
}

/// Token n is the letter n of `abcdefgh`.
struct Letters;
impl Detokenize for Letters {
    fn push(&mut self, id: u32) -> String {
        char::from(b'a' + id as u8).to_string()
    }
    fn finish(&mut self) -> String {
        String::new()
    }
}

#[test]
fn each_number_of_the_statistics_is_its_definition() {
    let (mut engine, log) = scripted(100, 4, 9, &[1, 2, 3, 4]);
    let nine = request(&[5; 9], 3);
    let t = run(&mut engine, &nine).timings;
    // Nine tokens in chunks of 4, 4, 1 at 10 ms each; then a pass for each token but the last.
    assert_eq!((t.prompt_tokens, t.cached_tokens, t.generated_tokens), (9, 0, 3));
    assert_eq!((t.prefill, t.decode), (Duration::from_millis(90), Duration::from_millis(20)));
    assert_eq!(t.time_to_first_token, Some(Duration::from_millis(90)));
    assert_eq!((t.prefill_tok_s(), t.decode_tok_s()), (Some(100.0), Some(100.0)));
    let shapes: Vec<_> = log.lock().unwrap().passes.iter().map(|(p, ids, rows)| (*p, ids.len(), *rows)).collect();
    assert_eq!(shapes, [(0, 4, 0), (4, 4, 0), (8, 1, 1), (9, 1, 1), (10, 1, 1)]);

    // The prompt again: all but its last token is cached, and only that one counts and takes time.
    let t = run(&mut engine, &nine).timings;
    assert_eq!((t.prompt_tokens, t.cached_tokens), (9, 8));
    assert_eq!((t.prefill, t.prefill_tok_s()), (Duration::from_millis(10), Some(100.0)));
}

#[test]
fn fewer_than_two_tokens_have_no_decode_rate() {
    let (mut engine, _) = scripted(100, 4, 3, &[1, 2, 3]);
    for (tokens, rate) in [(0, None), (1, None), (2, Some(100.0))] {
        engine.clear_cache();
        let outcome = run(&mut engine, &request(&[5; 3], tokens));
        assert_eq!(outcome.timings.decode_tok_s(), rate);
        assert_eq!(outcome.timings.prefill, Duration::from_millis(30));
        assert_eq!(outcome.timings.time_to_first_token, (tokens > 0).then_some(Duration::from_millis(30)));
    }
}

#[test]
fn max_tokens_means_what_it_says() {
    let script: Vec<u32> = (1..=7).collect();
    let (mut engine, log) = scripted(10, 4, 3, &script);
    for (wanted, tokens) in [(Some(0), 0), (Some(1), 1), (Some(2), 2), (None, 7), (Some(7), 7), (Some(i64::MAX), 7)] {
        engine.clear_cache();
        log.lock().unwrap().passes.clear();
        let outcome = run(&mut engine, &request(&[5; 3], wanted));
        assert_eq!((outcome.tokens.as_slice(), &outcome.finish_reason), (&script[..tokens], &FinishReason::Length));
        // The last token is never evaluated, and nothing beyond the context is.
        let evaluated: usize = log.lock().unwrap().passes.iter().map(|(_, ids, _)| ids.len()).sum();
        assert_eq!(evaluated, 3 + tokens.saturating_sub(1));
    }
    let error = engine.admit(&request(&[5; 3], -1)).unwrap_err().to_string();
    assert_eq!(error, "max_tokens: -1 given, 0 or more expected");
}

#[test]
fn admission_names_both_numbers_before_any_compute() {
    let (mut engine, log) = scripted(10, 4, 9, &[1]);
    let mut refuse =
        |request: Request| engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap_err().to_string();
    let text = "prompt: 11 tokens given, the context of 10 holds 9 beside 1 to generate";
    assert_eq!(refuse(request(&[5; 11], 1)), text);
    assert_eq!(refuse(request(&[5; 11], None)), text);
    assert!(refuse(request(&[5; 10], 1)).starts_with("prompt: 10 tokens given"));
    assert_eq!(refuse(request(&[], 1)), "prompt: 0 tokens given, at least one token expected");
    assert_eq!(refuse(request(&[5, 10], 1)), "prompt: token id 10 at index 1, the vocabulary holds 10");
    let stop = Request { stop: vec![String::new()], ..request(&[5], 1) };
    assert!(refuse(stop).starts_with("stop: an empty string"));
    let sampling = SamplingParams { top_p: 2.0, ..Default::default() };
    assert!(refuse(Request { sampling, ..request(&[5], 1) }).starts_with("top_p: 2 given"));
    assert!(log.lock().unwrap().passes.is_empty());
    let outcome = run(&mut engine, &request(&[5; 9], 10));
    assert_eq!((outcome.tokens, outcome.finish_reason), (vec![1], FinishReason::Length));
}

#[test]
fn a_context_beyond_the_models_positions_is_refused() {
    let (_, log) = scripted(100, 4, 1, &[]);
    let ops = Scripted { log, next: BTreeMap::new(), logit: 1.0, context: 101, chunk: 4, logits: Vec::new() };
    let config = test_config();
    let error = Engine::new(Box::new(ops), Weights::new(&config), &config, []).err().unwrap();
    assert_eq!(error.to_string(), "context: 101 tokens asked for, the model has 100 positions");
}

#[test]
fn the_whole_row_is_read_where_the_largest_do_not_suffice_or_are_not_there() {
    // At this temperature the scripted token is the only one that can be drawn.
    let sampled = SamplingParams { temperature: 1e-3, top_k: 2, seed: Some(1), ..Default::default() };
    for (sampling, looks) in [
        (SamplingParams::default(), [].as_slice()),
        (sampled, &[2, 2]),
        (SamplingParams { top_k: 3, top_p: 0.9, min_p: 0.1, ..sampled }, &[3, 3]),
        (SamplingParams { top_k: 4, ..sampled }, &[4, 0, 4, 0]),
        (SamplingParams { top_k: 0, ..sampled }, &[0, 0]),
        (SamplingParams { frequency_penalty: 0.1, ..sampled }, &[0, 0]),
        (SamplingParams { temperature: 0.0, presence_penalty: 0.1, ..sampled }, &[0, 0]),
    ] {
        let (mut engine, log) = scripted(100, 4, 3, &[4, 7]);
        let outcome = run(&mut engine, &Request { sampling, ..request(&[5; 3], 2) });
        assert_eq!((outcome.tokens, log.lock().unwrap().looks.as_slice()), (vec![4, 7], looks), "{sampling:?}");
    }
}

#[test]
fn every_end_id_ends_with_stop_and_without_text() {
    for (end, ids) in [(8, [].as_slice()), (9, &[]), (6, &[6])] {
        let (mut engine, _) = scripted(100, 4, 1, &[1, 2, end, 3]);
        let outcome = engine
            .generate(&Request { stop_token_ids: ids.to_vec(), ..request(&[5], 10) }, &mut Letters, &mut |_| {
                Flow::Continue
            })
            .unwrap();
        assert_eq!(outcome.tokens, [1, 2, end]);
        assert_eq!((outcome.text.as_str(), outcome.stop_token), ("bc", Some(end)));
        assert_eq!((outcome.finish_reason, outcome.timings.generated_tokens), (FinishReason::Stop, 3));
    }
}

#[test]
fn ignore_eos_ignores_end_ids_only() {
    let (mut engine, _) = scripted(100, 4, 1, &[1, 8, 9, 2, 6, 3]);
    let ignoring = Request { ignore_eos: true, ..request(&[5], 6) };
    let outcome = run(&mut engine, &ignoring);
    assert_eq!((outcome.tokens.len(), outcome.finish_reason), (6, FinishReason::Length));
    let stopping = Request { stop: vec!["c".into()], ..ignoring.clone() };
    let outcome = engine.generate(&stopping, &mut Letters, &mut |_| Flow::Continue).unwrap();
    assert_eq!((outcome.tokens.len(), outcome.finish_reason), (4, FinishReason::Stop));
    let outcome = run(&mut engine, &Request { stop_token_ids: vec![6], ..ignoring });
    assert_eq!((outcome.tokens.len(), outcome.stop_token), (5, Some(6)));
}

#[test]
fn stop_strings_cross_token_borders_and_events_add_up() {
    let (mut engine, _) = scripted(100, 4, 1, &[0, 1, 2, 3, 1, 2, 4, 0]);
    let run = |engine: &mut Engine, stop: &str, tokens: i64| {
        let request = Request { stop: vec![stop.into()], ..request(&[5], tokens) };
        let mut shown = String::new();
        let outcome = engine
            .generate(&request, &mut Letters, &mut |event| {
                match event {
                    Event::Token { text, .. } | Event::Tail { text } => shown.push_str(text),
                    Event::Prefill { done, total } => assert_eq!(done, total),
                }
                Flow::Continue
            })
            .unwrap();
        assert_eq!(shown, outcome.text);
        (outcome.text, outcome.tokens.len(), outcome.finish_reason)
    };
    assert_eq!(run(&mut engine, "bce", 8), ("abcd".into(), 7, FinishReason::Stop));
    // The budget ends inside what might have become a stop string: it was text.
    assert_eq!(run(&mut engine, "bce", 6), ("abcdbc".into(), 6, FinishReason::Length));
    assert_eq!(run(&mut engine, "xyz", 8), ("abcdbcea".into(), 8, FinishReason::Length));
}

#[test]
fn cancelling_takes_effect_within_a_step() {
    let (mut engine, log) = scripted(100, 2, 6, &[1, 2, 3, 4]);
    let outcome = engine
        .generate(&request(&[5; 6], 4), &mut NoText, &mut |event| match event {
            Event::Prefill { done: 4, total: 6 } => Flow::Cancel,
            _ => Flow::Continue,
        })
        .unwrap();
    assert_eq!((outcome.finish_reason, outcome.tokens.len()), (FinishReason::Cancelled, 0));
    assert_eq!(log.lock().unwrap().passes.len(), 2);
    // What was evaluated stays usable.
    let outcome = engine
        .generate(&request(&[5; 6], 4), &mut NoText, &mut |event| match event {
            Event::Token { index: 1, .. } => Flow::Cancel,
            _ => Flow::Continue,
        })
        .unwrap();
    assert_eq!((outcome.timings.cached_tokens, outcome.tokens.as_slice()), (4, [1, 2].as_slice()));
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
}

#[test]
fn a_failed_pass_is_reported_and_its_cache_is_not_trusted() {
    let (mut engine, log) = scripted(100, 2, 6, &[1, 2, 3]);
    log.lock().unwrap().fail_at_pass = Some(4);
    let error = engine.generate(&request(&[5; 6], 3), &mut NoText, &mut |_| Flow::Continue).unwrap_err();
    assert_eq!(error.to_string(), "scripted: lost");
    assert_eq!(run(&mut engine, &request(&[5; 6], 3)).timings.cached_tokens, 0);
}

#[test]
fn logits_that_are_no_numbers_end_the_generation() {
    let sampled = SamplingParams { temperature: 0.7, ..Default::default() };
    for sampling in [SamplingParams::default(), sampled] {
        let (_, log) = scripted(9, 2, 1, &[]);
        let ops = Scripted { log, next: [(0, 3)].into(), logit: f32::NAN, context: 9, chunk: 2, logits: Vec::new() };
        let mut engine = Engine::new(Box::new(ops), Weights::new(&test_config()), &test_config(), []).unwrap();
        let request = Request { sampling, ..request(&[1], 2) };
        let error = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue).unwrap_err().to_string();
        assert!(error.ends_with("logit of token 3 is NaN, a finite number expected"), "{error}");
    }
}

#[test]
fn perplexity_scores_all_but_the_first_id_of_each_window() {
    // Every row has one logit of 1 among zeros, for token 3 after position 0 and token 0 elsewhere.
    let ids = [7, 3, 0, 0, 7, 3, 5, 0, 1, 1];
    let right = -1.0 + (9.0 + 1f64.exp()).ln();
    for chunk in [1, 2, 3, 50] {
        let (mut engine, log) = scripted(100, chunk, 1, &[3]);
        let windows = Windows::new(&ids, 4, None).unwrap();
        let result = engine.perplexity(&windows, &mut |_| Flow::Continue).unwrap();
        assert_eq!((result.tokens_scored, result.ids_unused, result.window), (6, 2, 4));
        // One of the six targets is not the favoured token.
        let expected = [right, right + 1.0 / 3.0];
        for (value, expected) in result.window_mean_nll.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{value} for {expected}");
        }
        assert!((result.mean_nll - (right + 1.0 / 6.0)).abs() < 1e-12);
        assert!((result.perplexity - result.mean_nll.exp()).abs() < 1e-12);
        // Each window starts at position 0, and its last id is a target only.
        let evaluated: usize = log.lock().unwrap().passes.iter().map(|(_, ids, _)| ids.len()).sum();
        assert_eq!(evaluated, 6);
    }
}

#[test]
fn perplexity_refuses_what_it_cannot_score() {
    let (mut engine, _) = scripted(10, 4, 1, &[]);
    let mut refuse = |ids: &[u32], window, most| {
        let windows = Windows::new(ids, window, most).map_err(EngineError::from);
        windows.and_then(|windows| engine.perplexity(&windows, &mut |_| Flow::Continue)).unwrap_err().to_string()
    };
    assert_eq!(refuse(&[1; 9], 1, None), "window: 1 given, 2 or more expected");
    assert!(refuse(&[1; 7], 8, None).starts_with("window: 8 for 7 ids given"));
    assert!(refuse(&[1; 9], 4, Some(0)).starts_with("window: 4 for 9 ids given"));
    assert_eq!(refuse(&[1; 12], 12, None), "window: 12 ids given, the context of 10 holds windows of at most 11");
    assert_eq!(refuse(&[1, 1, 10, 1], 2, None), "prompt: token id 10 at index 2, the vocabulary holds 10");
    let cancelled = engine.perplexity(&Windows::new(&[1; 8], 4, None).unwrap(), &mut |_| Flow::Cancel);
    assert_eq!(cancelled.unwrap_err().to_string(), "cancelled before the first result");
}

#[test]
fn negative_log_likelihood_is_stable() {
    use super::perplexity::negative_log_likelihood as nll;
    assert!((nll(&[0.0; 8], 3).unwrap() - 8f64.ln()).abs() < 1e-15);
    assert!((nll(&[1e30, 0.0], 0).unwrap()).abs() < 1e-15);
    assert_eq!(nll(&[3e38, -3e38], 1).unwrap(), f64::from(3e38f32) * 2.0);
    assert_eq!(nll(&[0.0, f32::NEG_INFINITY], 1).unwrap(), f64::INFINITY);
    assert!(nll(&[0.0, f32::NAN], 0).is_err());
}
