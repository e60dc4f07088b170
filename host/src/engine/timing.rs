//! Times of one generation, taken at the engine's token steps and nowhere else, and the one definition of each rate. Not a stopwatch
//! for kernels: a pass is timed as a whole, to the moment its result was read.

use std::time::{Duration, Instant};

/// A monotonic clock; tests put a scripted one in its place.
pub trait Clock: Send {
    /// Time since an arbitrary fixed moment.
    fn now(&mut self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&mut self) -> Duration {
        self.0.elapsed()
    }
}

/// Raw counts and durations of one generation. Whoever wants another rate can divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: usize,
    /// Prompt tokens whose keys and values were already in the cache.
    pub cached_tokens: usize,
    /// Tokens sampled, an end token included.
    pub generated_tokens: usize,
    /// From the start of the generation until the prompt's last logits were there.
    pub prefill: Duration,
    /// From the start of the generation until the first token was chosen.
    pub time_to_first_token: Option<Duration>,
    /// From the first chosen token to the last, `t_last − t_first`.
    pub decode: Duration,
}

impl Timings {
    /// Uncached prompt tokens ÷ prefill seconds; `None` where no time passed.
    pub fn prefill_tok_s(&self) -> Option<f64> {
        rate(self.prompt_tokens - self.cached_tokens, self.prefill)
    }

    /// `(n − 1) ÷ (t_last − t_first)` for `n` generated tokens; `None` for fewer than two.
    pub fn decode_tok_s(&self) -> Option<f64> {
        if self.generated_tokens < 2 {
            return None;
        }
        rate(self.generated_tokens - 1, self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_their_definition() {
        let mut t = Timings {
            prompt_tokens: 2000,
            cached_tokens: 500,
            generated_tokens: 16,
            prefill: Duration::from_secs(3),
            time_to_first_token: Some(Duration::from_secs(3)),
            decode: Duration::from_millis(300),
        };
        assert_eq!(t.prefill_tok_s(), Some(500.0));
        assert_eq!(t.decode_tok_s(), Some(50.0));
        for n in [0, 1] {
            t.generated_tokens = n;
            assert_eq!(t.decode_tok_s(), None);
        }
        t.prefill = Duration::ZERO;
        assert_eq!(t.prefill_tok_s(), None);
    }
}
