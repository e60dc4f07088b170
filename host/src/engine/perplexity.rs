//! Perplexity over windows of token ids. Each window of `W` ids starts from an empty cache and scores `W − 1` of them: every id but
//! the first, given the ones before it. What is left after the last full window is not scored. Text becomes ids elsewhere.
//!
//! Logits exist for one chunk at a time; a row is reduced at once to its log-sum-exp in f64 and the logit of its target.

use super::{Engine, EngineError, Event, Flow, RequestError};
use crate::model::ops::BackendError;

/// Result over all scored windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Perplexity {
    /// Mean negative log-likelihood per scored token, in nats.
    pub mean_nll: f64,
    /// `exp(mean_nll)`.
    pub perplexity: f64,
    /// Mean negative log-likelihood of each window.
    pub window_mean_nll: Vec<f64>,
    /// Ids per window.
    pub window: usize,
    /// Tokens scored: windows · (window − 1).
    pub tokens_scored: usize,
    /// Ids after the last scored window.
    pub ids_unused: usize,
}

/// How a window is cut into passes, all sizes checked, so that the memory is known before the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPlan {
    /// Tokens per pass.
    pub chunk: usize,
    /// Bytes of logits held at a time, `chunk · vocab · 4`.
    pub logits_bytes: usize,
    /// Logits a window has in all, `(window − 1) · vocab`; never held.
    pub window_logits: usize,
}

impl WindowPlan {
    /// Plans a window of `window ≥ 2` ids where a pass takes at most `chunk ≥ 1` tokens.
    pub fn new(window: usize, vocab_size: usize, chunk: usize) -> Result<Self, RequestError> {
        let too_large = || RequestError::Field {
            field: "window",
            value: format!("{window} × vocabulary {vocab_size}"),
            expected: "a product this machine can count",
        };
        let chunk = chunk.min(window - 1);
        let window_logits = (window - 1).checked_mul(vocab_size).ok_or_else(too_large)?;
        let logits_bytes = chunk.checked_mul(vocab_size).and_then(|n| n.checked_mul(4)).ok_or_else(too_large)?;
        Ok(Self { chunk, logits_bytes, window_logits })
    }
}

impl Engine {
    /// Scores at most `max_windows` windows of `window` ids each. `on_event` sees tokens evaluated of all, and may cancel: then the
    /// windows done so far count, and [`EngineError::Cancelled`] comes if there are none.
    pub fn perplexity(
        &mut self,
        ids: &[u32],
        window: usize,
        max_windows: Option<usize>,
        on_event: &mut dyn FnMut(Event<'_>) -> Flow,
    ) -> Result<Perplexity, EngineError> {
        let field = |field, value: String, expected| RequestError::Field { field, value, expected };
        if window < 2 {
            return Err(field("window", window.to_string(), "2 or more").into());
        }
        let count = (ids.len() / window).min(max_windows.unwrap_or(usize::MAX));
        if count == 0 {
            let expected = "at least one window of ids and one window asked for";
            return Err(field("window", format!("{window} for {} ids", ids.len()), expected).into());
        }
        let scored = count * window; // ≤ ids.len()
        let context = self.context_len();
        if window - 1 > context {
            return Err(RequestError::Window { window, context }.into());
        }
        if let Some(index) = ids[..scored].iter().position(|&id| id as usize >= self.vocab_size) {
            return Err(RequestError::TokenId { id: ids[index], index, vocab_size: self.vocab_size }.into());
        }
        let plan = WindowPlan::new(window, self.vocab_size, self.ops.max_chunk().min(self.ops.max_logits_rows()))?;
        let total = count * (window - 1);

        let mut window_mean_nll = Vec::with_capacity(count);
        'windows: for ids in ids[..scored].chunks_exact(window) {
            self.cached.clear();
            let mut nll = 0.0;
            for chunk in ids[..window - 1].chunks(plan.chunk) {
                let first_target = self.cached.len() + 1;
                self.pass(chunk, chunk.len())?;
                let read = self.ops.read_logits(&mut self.logits);
                self.trusted(read)?;
                if self.logits.len() != plan_rows(chunk.len(), self.vocab_size) {
                    let text =
                        format!("{} logits read, {} × {} expected", self.logits.len(), chunk.len(), self.vocab_size);
                    return self.trusted(Err(BackendError(text)));
                }
                for (row, &target) in self.logits.chunks_exact(self.vocab_size).zip(&ids[first_target..]) {
                    nll += negative_log_likelihood(row, target as usize)?;
                }
                let done = window_mean_nll.len() * (window - 1) + self.cached.len();
                if on_event(Event::Prefill { done, total }) == Flow::Cancel && done < total {
                    break 'windows;
                }
            }
            window_mean_nll.push(nll / (window - 1) as f64);
        }
        self.cached.clear();
        let done = window_mean_nll.len();
        if done == 0 {
            return Err(EngineError::Cancelled);
        }
        let mean_nll = window_mean_nll.iter().sum::<f64>() / done as f64;
        Ok(Perplexity {
            mean_nll,
            perplexity: mean_nll.exp(),
            window_mean_nll,
            window,
            tokens_scored: done * (window - 1),
            ids_unused: ids.len() - done * window,
        })
    }
}

/// Logits of `rows` rows; [`WindowPlan::new`] has shown that the product and its bytes can be counted.
fn plan_rows(rows: usize, vocab_size: usize) -> usize {
    rows * vocab_size
}

/// `log Σ exp(row) − row[target]` in f64. NaN and +∞ are errors; −∞ is probability zero.
pub fn negative_log_likelihood(row: &[f32], target: usize) -> Result<f64, super::SampleError> {
    let best = super::sampler::argmax(row)?;
    let max = f64::from(row[best as usize]);
    let sum: f64 = row.iter().map(|&l| (f64::from(l) - max).exp()).sum();
    Ok(max + sum.ln() - f64::from(row[target]))
}
