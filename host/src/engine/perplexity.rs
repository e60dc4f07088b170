//! Perplexity over [`Windows`] of token ids. Text becomes ids elsewhere.
//!
//! A row of logits is reduced at once to its log-sum-exp in f64 and the logit of its target.

use super::{Engine, EngineError, Event, Flow, SampleError, sampler::argmax, windows::Windows};

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

impl Perplexity {
    /// From the summed negative log-likelihood of each whole window, at least one.
    pub(super) fn new(window_nll: &[f64], windows: &Windows<'_>) -> Self {
        let (count, window) = (window_nll.len(), windows.window());
        let window_mean_nll: Vec<f64> = window_nll.iter().map(|nll| nll / (window - 1) as f64).collect();
        let mean_nll = window_mean_nll.iter().sum::<f64>() / count as f64;
        Self {
            mean_nll,
            perplexity: mean_nll.exp(),
            window_mean_nll,
            window,
            tokens_scored: count * (window - 1),
            ids_unused: windows.ids().len() - count * window,
        }
    }
}

impl Engine {
    /// Scores `windows`. `on_event` sees tokens evaluated of all, and may cancel: then the whole windows done so far count, and
    /// [`EngineError::Cancelled`] comes if there are none.
    pub fn perplexity(
        &mut self,
        windows: &Windows<'_>,
        on_event: &mut dyn FnMut(Event<'_>) -> Flow,
    ) -> Result<Perplexity, EngineError> {
        let vocab_size = self.vocab_size;
        let mut window_nll = Vec::new();
        let whole = windows.evaluate(
            &mut [self],
            &mut |rows| {
                window_nll.resize(rows.window + 1, 0.0);
                for (row, &target) in rows.logits[0].chunks_exact(vocab_size).zip(rows.targets) {
                    window_nll[rows.window] += negative_log_likelihood(row, target as usize)?;
                }
                Ok(())
            },
            on_event,
        )?;
        Ok(Perplexity::new(&window_nll[..whole], windows))
    }
}

/// `log Σ exp(row) − row[target]` in f64. NaN and +∞ are errors; −∞ is probability zero.
pub fn negative_log_likelihood(row: &[f32], target: usize) -> Result<f64, SampleError> {
    Ok(log_sum_exp(row)?.1 - f64::from(row[target]))
}

/// The largest logit's id, and `log Σ exp(row)` in f64. NaN and +∞ are errors, and so is a row of −∞ alone.
pub(super) fn log_sum_exp(row: &[f32]) -> Result<(u32, f64), SampleError> {
    let best = argmax(row)?;
    let max = f64::from(row[best as usize]);
    let sum: f64 = row.iter().map(|&l| (f64::from(l) - max).exp()).sum();
    Ok((best, max + sum.ln()))
}
