//! The memory this backend reserves at load, counted before any of it is asked for and compared with what the machine has. It
//! allocates nothing, and finds no room for weights: they are read where they lie.

use super::{
    CpuOptions, MAX_LOGITS_ROWS,
    attention::{KvCache, Shape},
    linear,
};
use crate::model::{
    config::ModelConfig,
    memory::{Fit, MemoryPlan, Weights},
    ops::BackendError,
};

/// Kept free for the program itself and the tokenizer: `zynfer tokenize` has 14 MiB resident at its peak with a vocabulary of 4 096, 165 MiB
/// with Qwen3's.
const RESERVE: usize = 192 << 20;

/// The parts of a load by `options` beside `weight_bytes` of weights; `None` where they cannot be counted.
pub fn plan(config: &ModelConfig, weight_bytes: usize, options: &CpuOptions) -> Option<MemoryPlan> {
    let context_len = options.context_len;
    let floats = |factors: &[usize]| product(factors)?.checked_mul(size_of::<f32>());
    let shape = Shape::new(config, context_len);
    // First: what is left is smaller, and cannot overflow where this does not.
    let kv_cache = shape.cache_bytes(options.kv.token_bytes(config)?)?;
    let (h, q, kv, i) = (config.hidden_size, config.q_size(), config.kv_size(), config.intermediate_size);
    let chunk = options.max_chunk.min(context_len);
    // Hidden, Normed, Proj; Query, Attn; Key, Value; Gate, Up, Mlp.
    let row = 3 * h + 2 * q + 2 * kv + 3 * i;
    let [max_in, max_out] = scratch_widths(config, chunk);
    let scratch = vec![
        ("activations", floats(&[chunk, row])?),
        ("logits", floats(&[chunk.min(MAX_LOGITS_ROWS), config.vocab_size])?),
        ("products", floats(&[linear::Scratch::elements(chunk, max_in, max_out)])?),
        ("attention", floats(&[KvCache::scratch_elements(shape, chunk)])?),
        ("decoded blocks", floats(&[threads(options), shape.buffer_elements(options.kv)])?),
        ("rotary table", floats(&[context_len, config.head_dim])?),
    ];
    let weights = Weights::InPlace(weight_bytes);
    Some(MemoryPlan { context_len, kv: options.kv, weights, kv_cache, scratch, reserve: RESERVE })
}

/// Threads there will be.
fn threads(options: &CpuOptions) -> usize {
    match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

fn product(factors: &[usize]) -> Option<usize> {
    factors.iter().try_fold(1usize, |product, factor| product.checked_mul(*factor))
}

/// Widest input and output of a matrix product per token of a full chunk. Logits are wide, but of few rows.
pub fn scratch_widths(config: &ModelConfig, chunk: usize) -> [usize; 2] {
    let widest = config.widest_input();
    let logits = (chunk.min(MAX_LOGITS_ROWS) * config.vocab_size).div_ceil(chunk.max(1));
    [widest, widest.max(config.kv_size()).max(logits)]
}

/// The plan of a load by `options` beside what is free, with the longest context that fits. The cache becomes resident only as positions are
/// written; what would be killed halfway is better refused at once.
///
/// `available` is `None` where the system does not say: then only the allocation itself can fail.
///
/// # Errors
/// A context of more bytes than can be counted.
pub fn fit(
    config: &ModelConfig,
    weight_bytes: usize,
    options: &CpuOptions,
    available: Option<u64>,
) -> Result<Fit, BackendError> {
    let CpuOptions { context_len, .. } = *options;
    let plan = |context_len| plan(config, weight_bytes, &CpuOptions { context_len, ..*options });
    let positions = config.max_position_embeddings;
    Fit::new(plan, context_len, positions, available).ok_or_else(|| {
        BackendError(format!(
            "memory: a context of {context_len} tokens of {positions} needs more bytes than can be counted"
        ))
    })
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

    fn part(plan: &MemoryPlan, name: &str) -> usize {
        plan.scratch.iter().find(|(part, _)| *part == name).map(|(_, bytes)| *bytes).expect(name)
    }

    #[test]
    fn the_06b_shape_counts_as_by_hand() {
        let options = CpuOptions::new(40_960);
        let plan_of = |options: &CpuOptions| plan(&config(), 5, options).unwrap();
        let exact = plan_of(&options);
        // 28 layers × keys and values × 8 heads × 128 × 40 960 positions × 4 bytes.
        assert_eq!(exact.kv_cache, 9_395_240_960);
        assert_eq!(part(&exact, "rotary table"), 40_960 * 128 * 4);
        assert_eq!(part(&exact, "activations"), 4 * 512 * (3 * 1024 + 2 * 2048 + 2 * 1024 + 3 * 3072));
        assert_eq!(part(&exact, "logits"), 4 * 64 * 151_936);
        assert_eq!(part(&exact, "decoded blocks"), 0);
        // Split inputs, and the results by row of w: 64 rows of logits spread over 512 tokens.
        assert!(part(&exact, "products") >= 4 * (512 * 3072 + 64 * 151_936));
        assert_eq!(exact.weights, Weights::InPlace(5));
        // A code and a quarter of a byte of scale a number of 32 bits, and what threads decode them into.
        let kv = "k=f32,v=int8".parse().unwrap();
        let coded = plan_of(&CpuOptions { kv, threads: 3, ..options });
        assert_eq!(coded.kv_cache, 28 * 8 * 40_960 * (512 + 132));
        assert_eq!(part(&coded, "decoded blocks"), 3 * 2 * 64 * 128 * 4);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers_and_a_context_that_would() {
        let options = CpuOptions::new(40_960);
        let check = |options: &CpuOptions, available| fit(&config(), 5, options, available).unwrap().check("here");
        let total = |context| plan(&config(), 5, &CpuOptions::new(context)).unwrap().needed().unwrap();
        let needed = total(40_960);
        assert!(check(&options, Some(needed)).is_ok() && check(&options, None).is_ok());
        let text = check(&options, Some(needed - 1)).unwrap_err().to_string();
        let start = format!("memory: {needed} bytes needed (KV cache (f32) for 40960 tokens 9395240960 + activations ");
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains(&format!("), {} free on here; a context of ", needed - 1)), "{text}");

        let available = 2 << 30;
        let longest = check(&options, Some(available)).unwrap_err().longest;
        assert!(total(longest) <= available && total(longest + 64) > available, "{longest}");
        assert!(check(&CpuOptions::new(longest), Some(available)).is_ok());
        assert!(check(&options, Some(1)).unwrap_err().to_string().ends_with("1 free on here; no context fits"));
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
