//! Two models on the same [`Windows`]: how far the second's predictions are from the first's, token by token, by the Kullback–Leibler
//! divergence. Both are evaluated in step, so that their logits exist for one chunk only. It does not ask whether an id means the same to
//! both: who opens the models does.

use rayon::prelude::*;

use super::{
    Engine, EngineError, Event, Flow, SampleError,
    perplexity::{Perplexity, log_sum_exp},
    windows::{Rows, Windows},
};

/// What one predicted token says about both models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// The window.
    pub window: usize,
    /// Place in it of the token that is predicted, `1 ..= window − 1`.
    pub position: usize,
    /// Divergence of the second model's distribution from the first's, in nats; infinite where the second rules out what the first does not.
    pub kld: f64,
    /// The token that came.
    pub target: u32,
    /// The likeliest token of each model.
    pub top1: [u32; 2],
    /// Negative log-likelihood of `target` of each model.
    nll: [f64; 2],
}

/// Result over all scored windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Of the first model, the reference, and of the second.
    pub perplexities: [Perplexity; 2],
    /// Mean divergence per scored token, in nats.
    pub mean_kld: f64,
    /// The 99th percentile by nearest rank: the smallest of all divergences that 99 % do not exceed.
    pub kld_p99: f64,
    /// The largest.
    pub max_kld: f64,
    /// Tokens for which both models hold the same token likeliest.
    pub same_top1: usize,
    /// Every scored token, largest divergence first; of equal ones the first in the text.
    pub positions: Vec<Position>,
}

impl Comparison {
    /// Per cent that the second model's perplexity is above the first's.
    pub fn perplexity_delta(&self) -> f64 {
        let [a, b] = &self.perplexities;
        100.0 * ((b.mean_nll - a.mean_nll).exp() - 1.0)
    }

    /// Share of tokens with the same likeliest token.
    pub fn top1_agreement(&self) -> f64 {
        self.same_top1 as f64 / self.positions.len() as f64
    }

    fn new(mut positions: Vec<Position>, whole: usize, windows: &Windows<'_>) -> Self {
        positions.retain(|position| position.window < whole);
        let mut window_nll = [vec![0.0; whole], vec![0.0; whole]];
        for position in &positions {
            for (sums, nll) in window_nll.iter_mut().zip(position.nll) {
                sums[position.window] += nll;
            }
        }
        let count = positions.len(); // whole · (window − 1) ≥ 1
        let mean_kld = positions.iter().map(|position| position.kld).sum::<f64>() / count as f64;
        positions.sort_by(|a, b| b.kld.total_cmp(&a.kld));
        // Rank ⌈0.99 · count⌉ of the ascending order, in whole numbers.
        let rank = (99 * count).div_ceil(100);
        Self {
            perplexities: window_nll.map(|nll| Perplexity::new(&nll, windows)),
            mean_kld,
            kld_p99: positions[count - rank].kld,
            max_kld: positions[0].kld,
            same_top1: positions.iter().filter(|position| position.top1[0] == position.top1[1]).count(),
            positions,
        }
    }
}

/// Compares `b` with `a`, the reference, over `windows`. `on_event` sees tokens evaluated of all, and may cancel: then the whole windows done
/// so far count, and [`EngineError::Cancelled`] comes if there are none.
pub fn compare(
    a: &mut Engine,
    b: &mut Engine,
    windows: &Windows<'_>,
    on_event: &mut dyn FnMut(Event<'_>) -> Flow,
) -> Result<Comparison, EngineError> {
    let vocab_size = a.vocab_size;
    let mut positions = Vec::new();
    let mut score = |rows: Rows<'_>| {
        let (a, b) = (rows.logits[0].par_chunks_exact(vocab_size), rows.logits[1].par_chunks_exact(vocab_size));
        let scored = a.zip(b).zip(rows.targets).enumerate().map(|(row, ((a, b), &target))| {
            let ((best_a, sum_a), (best_b, sum_b)) = (log_sum_exp(a)?, log_sum_exp(b)?);
            let nll = [(a, sum_a), (b, sum_b)].map(|(row, sum)| sum - f64::from(row[target as usize]));
            let (kld, top1) = (divergence((a, sum_a), (b, sum_b)), [best_a, best_b]);
            Ok(Position { window: rows.window, position: rows.position + row, kld, target, top1, nll })
        });
        positions.extend(scored.collect::<Result<Vec<Position>, SampleError>>()?);
        Ok(())
    };
    let whole = windows.evaluate(&mut [a, b], &mut score, on_event)?;
    Ok(Comparison::new(positions, whole, windows))
}

/// `Σ p · (ln p − ln q)` in nats, in f64, where `p` and `q` are the softmax of `a` and `b`, two rows of one length. NaN and +∞ are errors.
pub fn kl_divergence(a: &[f32], b: &[f32]) -> Result<f64, SampleError> {
    Ok(divergence((a, log_sum_exp(a)?.1), (b, log_sum_exp(b)?.1)))
}

/// Of two rows with their log-sum-exp. Equal rows give exactly 0; rounding below 0 is cut off.
fn divergence((a, sum_a): (&[f32], f64), (b, sum_b): (&[f32], f64)) -> f64 {
    let term = |(&a, &b): (&f32, &f32)| {
        let (ln_p, ln_q) = (f64::from(a) - sum_a, f64::from(b) - sum_b);
        let p = ln_p.exp();
        // What the first rules out adds nothing, whatever the second says: 0 · ln 0 = 0.
        if p == 0.0 { 0.0 } else { p * (ln_p - ln_q) }
    };
    a.iter().zip(b).map(term).sum::<f64>().max(0.0)
}
