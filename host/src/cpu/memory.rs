//! The memory this backend reserves at load, counted before any of it is asked for and compared with what the machine has. It
//! allocates nothing, and does not count weights: they are pages of a file, which the system may drop and read again.

use std::fmt;

use super::{
    CpuOptions, MAX_LOGITS_ROWS,
    attention::{KvCache, Shape},
    linear,
};
use crate::model::{config::ModelConfig, ops::BackendError};

/// Bytes by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    context_len: usize,
    cache: usize,
    table: usize,
    activations: usize,
}

impl Needs {
    /// Counts a context of `context_len` tokens and passes of at most `max_chunk`; `None` where that cannot be counted.
    pub fn count(config: &ModelConfig, context_len: usize, max_chunk: usize) -> Option<Self> {
        let floats = |factors: &[usize]| product(factors)?.checked_mul(size_of::<f32>());
        let shape = Shape::new(config, context_len);
        // First: what is left is smaller, and cannot overflow where this does not.
        let cache = shape.cache_bytes(config.num_hidden_layers)?;
        let (h, q, kv, i) = (config.hidden_size, config.q_size(), config.kv_size(), config.intermediate_size);
        let chunk = max_chunk.min(context_len);
        // Hidden, Normed, Proj; Query, Attn; Key, Value; Gate, Up, Mlp.
        let row = 3 * h + 2 * q + 2 * kv + 3 * i;
        let [max_in, max_out] = scratch_widths(config, chunk);
        let parts = [
            floats(&[chunk, row])?,
            floats(&[chunk.min(MAX_LOGITS_ROWS), config.vocab_size])?,
            floats(&[linear::Scratch::elements(chunk, max_in, max_out)])?,
            floats(&[KvCache::scratch_elements(shape, chunk)])?,
        ];
        Some(Self {
            context_len,
            cache,
            table: floats(&[context_len, config.head_dim])?,
            activations: parts.iter().try_fold(0usize, |sum, part| sum.checked_add(*part))?,
        })
    }

    /// All together.
    pub fn total(&self) -> Option<usize> {
        self.cache.checked_add(self.table)?.checked_add(self.activations)
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context_len, cache, table, activations } = self;
        write!(f, "KV cache for {context_len} tokens {cache} + activations {activations} + rotary table {table}")
    }
}

fn product(factors: &[usize]) -> Option<usize> {
    factors.iter().try_fold(1usize, |product, factor| product.checked_mul(*factor))
}

/// Widest input and output of a matrix product per token of a full chunk. Logits are wide, but of few rows.
pub fn scratch_widths(config: &ModelConfig, chunk: usize) -> [usize; 2] {
    let widest = config.hidden_size.max(config.q_size()).max(config.intermediate_size);
    let logits = (chunk.min(MAX_LOGITS_ROWS) * config.vocab_size).div_ceil(chunk.max(1));
    [widest, widest.max(config.kv_size()).max(logits)]
}

/// Refuses what the machine cannot hold, with the longest context that it could. The cache becomes resident only as positions are
/// written; what would be killed halfway is better refused at once.
///
/// `available` is `None` where the system does not say: then only the allocation itself can fail.
pub fn check(config: &ModelConfig, options: &CpuOptions, available: Option<u64>) -> Result<(), BackendError> {
    let bytes = |context_len: usize| -> Option<(Needs, u64)> {
        let needs = Needs::count(config, context_len, options.max_chunk)?;
        Some((needs, u64::try_from(needs.total()?).ok()?))
    };
    let context_len = options.context_len;
    let Some((needs, needed)) = bytes(context_len) else {
        let positions = config.max_position_embeddings;
        let text =
            format!("memory: a context of {context_len} tokens of {positions} needs more bytes than can be counted");
        return Err(BackendError(text));
    };
    let Some(available) = available.filter(|available| *available < needed) else { return Ok(()) };
    // The need grows with the context, so the longest that fits is found by halving.
    let (mut low, mut high) = (0, context_len);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if bytes(middle).is_some_and(|(_, needed)| needed <= available) { low = middle } else { high = middle }
    }
    let advice = match low {
        0 => "no context fits".to_owned(),
        longest => format!("a context of {longest} tokens would fit"),
    };
    Err(BackendError(format!("memory: {needed} bytes needed ({needs}), {available} available; {advice}")))
}

/// Bytes the system could give without swapping.
pub fn available() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    // 0 is how an unreadable number looks.
    Some(system.available_memory()).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ModelConfig {
        ModelConfig::published("qwen3-0.6b").expect("a published shape")
    }

    #[test]
    fn the_06b_shape_counts_as_by_hand() {
        let needs = Needs::count(&config(), 40_960, 512).unwrap();
        // 28 layers × keys and values × 8 heads × 128 × 40 960 positions × 4 bytes.
        assert_eq!(needs.cache, 9_395_240_960);
        assert_eq!(needs.table, 40_960 * 128 * 4);
        // Rows of a chunk, logits, the split inputs, the results by row of w (64 rows of logits spread over 512 tokens).
        let (rows, logits) = (512 * (3 * 1024 + 2 * 2048 + 2 * 1024 + 3 * 3072), 64 * 151_936);
        assert!(needs.activations > 4 * (rows + logits + 512 * 3072 + 64 * 151_936));
        // And the attention's: nowhere near a second time all of that.
        assert!(needs.activations < 8 * (rows + logits + 512 * 3072 + 64 * 151_936));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers_and_a_context_that_would() {
        let options = CpuOptions::new(40_960);
        let total = |context| Needs::count(&config(), context, 512).unwrap().total().unwrap() as u64;
        let needed = total(40_960);
        assert!(check(&config(), &options, Some(needed)).is_ok() && check(&config(), &options, None).is_ok());
        let text = check(&config(), &options, Some(needed - 1)).unwrap_err().to_string();
        assert!(text.starts_with(&format!("memory: {needed} bytes needed (KV cache for 40960 tokens 9395240960 + ")));
        assert!(text.contains(&format!("), {} available; a context of ", needed - 1)), "{text}");

        let available = 2 << 30;
        let text = check(&config(), &options, Some(available)).unwrap_err().to_string();
        let longest = text.split("a context of ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let longest: usize = longest.parse().unwrap();
        assert!(total(longest) <= available && total(longest + 64) > available, "{text}");
        assert!(check(&config(), &CpuOptions::new(longest), Some(available)).is_ok());

        let text = check(&config(), &options, Some(1)).unwrap_err().to_string();
        assert!(text.ends_with("1 available; no context fits"), "{text}");
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
