//! All device memory of a loaded model, counted before the first byte is asked for: weights, KV cache, activations, tables. Nothing is
//! allocated after load. It allocates nothing itself and knows no addresses.

use device_ops::decode::Shape;
use device_ops::kv_formats::KvFormat as Stored;
use device_ops::linear::w8a8;
use device_ops::{kv_append, top_k};

use super::arena::Arena;
use super::load::{Options, rounds};
use crate::hip::decode::work_bytes;
use crate::model::config::ModelConfig;
use crate::model::kv::{KvFormat, KvFormats};
use crate::model::memory::{self, MemoryPlan};
use crate::model::ops::Act;
use crate::model::weights::Weights;
use crate::quant::{Activations, Scheme};

/// Bytes of logits held at most, so that a wide vocabulary does not make a chunk's logits larger than the model.
const LOGITS_BYTES: usize = 256 << 20;

/// Bytes that drivers may add to a buffer: they hand out pages of at most this size.
const PAGE_BYTES: usize = 2 << 20;
/// Buffers of a loaded model: weights, cache, rotary table, ids, two for the largest logits, decode's, and the activations, rounded ones too.
const BUFFERS: usize = 8 + ACTS.len();

/// The cache unless the user says otherwise: what the matrix instructions read.
pub const KV: KvFormats = KvFormats::both(KvFormat::Bf16);

/// Sizes of everything, in bytes, and the limits that follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Longest context.
    pub context_len: usize,
    /// How keys and values are stored.
    pub kv: KvFormats,
    /// Positions the cache holds: the context, rounded up to what attention reads at once.
    pub capacity: usize,
    /// Most tokens of one pass.
    pub max_chunk: usize,
    /// Most rows of logits.
    pub max_logits_rows: usize,
    /// All weights.
    pub weight_bytes: usize,
    /// Keys of one layer, scales included.
    pub key_bytes: usize,
    /// Values of one layer, likewise.
    pub value_bytes: usize,
    /// Keys and values of all layers.
    pub all_cache_bytes: usize,
    /// All activations, the ids that go in and out, and the largest logits.
    pub activation_bytes: usize,
    /// Of these what is rounded to 8 bits at a time, codes and scales; 0 where nothing is.
    pub rounded_bytes: usize,
    /// Of these the logits of [`Plan::max_logits_rows`] rows.
    pub logits_bytes: usize,
    /// The rotary table.
    pub rope_bytes: usize,
    /// What fused decode passes between its phases; 0 where its kernels have no such shape.
    pub decode_bytes: usize,
}

/// Elements of a row of an activation, and bytes of an element.
pub fn row(config: &ModelConfig, act: Act) -> (usize, usize) {
    const BF16: usize = 2;
    const F32: usize = 4;
    match act {
        Act::Hidden | Act::Proj => (config.hidden_size, F32),
        Act::Normed => (config.hidden_size, BF16),
        Act::Query => (config.q_size(), F32),
        Act::Key | Act::Value => (config.kv_size(), F32),
        Act::Attn => (config.q_size(), BF16),
        Act::Gate | Act::Up => (config.intermediate_size, F32),
        Act::Mlp => (config.intermediate_size, BF16),
        Act::Logits => (config.vocab_size, F32),
    }
}

/// Bytes of the largest logits and their ids, as many as the kernel gives.
pub const TOP_K_BYTES: usize = top_k::best_bytes(top_k::MAX);

/// Bytes that pass between its two launches.
pub fn top_k_keys_bytes(config: &ModelConfig) -> usize {
    // `Plan::new` refuses a vocabulary past i32.
    top_k::keys_bytes(config.vocab_size as u32, top_k::MAX)
}

/// Every activation, in the order of a pass.
pub const ACTS: [Act; 11] = [
    Act::Hidden,
    Act::Normed,
    Act::Query,
    Act::Key,
    Act::Value,
    Act::Attn,
    Act::Proj,
    Act::Gate,
    Act::Up,
    Act::Mlp,
    Act::Logits,
];

/// Why a model cannot be run by these kernels, whatever the memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A size the kernels were not made for.
    #[error("{what} is {found}, the GPU kernels need {needed}")]
    Shape {
        /// Name in the configuration.
        what: &'static str,
        /// The configuration's.
        found: usize,
        /// What would do.
        needed: String,
    },
    /// A format that the kernels do not hold keys or values in.
    #[error(
        "--kv {0}: the GPU kernels hold keys and values as bf16, f16, int8 or fp8; --backend cpu takes f32 as well"
    )]
    Kv(KvFormats),
    /// A product that does not fit this computer's addresses.
    #[error("the model's sizes overflow: {0}")]
    Overflow(&'static str),
}

impl Plan {
    /// Counts a model of `config`, each tensor stored as `schemes` says, loaded by `options`.
    ///
    /// # Errors
    /// [`PlanError`]: a shape or format without kernels, or sizes that overflow.
    pub fn new(
        config: &ModelConfig,
        weights: &Weights,
        schemes: &[Scheme],
        options: &Options,
    ) -> Result<Self, PlanError> {
        let &Options { context_len, max_chunk, kv, activations: rounded, .. } = options;
        check_shapes(config, context_len)?;
        let [k, v] = stored(kv).ok_or(PlanError::Kv(kv))?;
        let max_chunk = max_chunk.clamp(1, context_len).min(crate::hip::kernels::MAX_TOKENS);
        let max_logits_rows = (LOGITS_BYTES / (config.vocab_size * 4)).clamp(1, max_chunk);
        let overflow = |what| move || PlanError::Overflow(what);
        let capacity = kv_append::capacity(context_len as u32) as usize;
        let bytes = |format: Stored| format.bytes(config.num_key_value_heads, capacity, config.head_dim);
        let key_bytes = bytes(k).ok_or_else(overflow("KV cache"))?;
        let value_bytes = bytes(v).ok_or_else(overflow("KV cache"))?;
        let layer_bytes = key_bytes.checked_add(value_bytes).ok_or_else(overflow("KV cache"))?;
        let all_cache_bytes = product(&[layer_bytes, config.num_hidden_layers]).ok_or_else(overflow("KV cache"))?;
        let rope_bytes = product(&[context_len, config.head_dim, 4]).ok_or_else(overflow("rotary table"))?;
        let mut plan = Self {
            context_len,
            kv,
            capacity,
            max_chunk,
            max_logits_rows,
            weight_bytes: 0,
            key_bytes,
            value_bytes,
            all_cache_bytes,
            activation_bytes: 0,
            rounded_bytes: 0,
            logits_bytes: 0,
            rope_bytes,
            decode_bytes: decode_shape(config).map_or(0, |shape| work_bytes(&shape, config.num_hidden_layers as u32)),
        };
        plan.weight_bytes = Arena::new(weights, schemes).ok_or_else(overflow("weights"))?.bytes();
        let mut activations = plan.ids_bytes() + top_k_keys_bytes(config) + TOP_K_BYTES;
        for act in ACTS {
            let sum = plan.act_bytes(config, act).and_then(|bytes| activations.checked_add(bytes));
            activations = sum.ok_or_else(overflow("activations"))?;
        }
        if rounded == Activations::Int8 && rounds(weights, schemes) {
            let [codes, scales] = w8a8::bytes(max_chunk as u64, config.widest_input() as u64);
            plan.rounded_bytes = usize::try_from(codes + scales).map_err(|_| overflow("activations")())?;
        }
        plan.activation_bytes = activations.checked_add(plan.rounded_bytes).ok_or_else(overflow("activations"))?;
        plan.logits_bytes = plan.act_bytes(config, Act::Logits).ok_or_else(overflow("activations"))?;
        plan.memory().needed().ok_or_else(overflow("all together"))?;
        Ok(plan)
    }

    /// Bytes of one activation's buffer.
    pub fn act_bytes(&self, config: &ModelConfig, act: Act) -> Option<usize> {
        let (elements, bytes) = row(config, act);
        let rows = if act == Act::Logits { self.max_logits_rows } else { self.max_chunk };
        product(&[rows, elements, bytes])
    }

    /// Bytes of a pass's ids and of the chosen id behind them.
    pub fn ids_bytes(&self) -> usize {
        self.max_chunk * 4 + 4
    }

    /// The parts, and what is kept free beside them: the code object, and what rounding each buffer up to whole pages takes.
    pub fn memory(&self) -> MemoryPlan {
        MemoryPlan {
            context_len: self.context_len,
            kv: self.kv,
            weights: memory::Weights::Held(self.weight_bytes),
            kv_cache: self.all_cache_bytes,
            scratch: vec![
                ("activations", self.activation_bytes - self.logits_bytes),
                ("logits", self.logits_bytes),
                ("decode work", self.decode_bytes),
                ("rotary table", self.rope_bytes),
            ],
            reserve: super::code_object::IMAGE.len() + BUFFERS * PAGE_BYTES,
        }
    }
}

/// The kernels' formats of keys and of values, if they have such.
pub fn stored(kv: KvFormats) -> Option<[Stored; 2]> {
    let stored = |format| match format {
        KvFormat::F32 => None,
        KvFormat::Bf16 => Some(Stored::Bf16),
        KvFormat::F16 => Some(Stored::F16),
        KvFormat::Int8 => Some(Stored::Int8),
        KvFormat::Fp8 => Some(Stored::Fp8),
    };
    Some([stored(kv.k)?, stored(kv.v)?])
}

/// The sizes as decode's kernels count them, if they have kernels for such.
pub fn decode_shape(config: &ModelConfig) -> Option<Shape> {
    let u32 = |x: usize| u32::try_from(x).ok();
    let shape = Shape {
        hidden: u32(config.hidden_size)?,
        heads: u32(config.num_attention_heads)?,
        kv_heads: u32(config.num_key_value_heads)?,
        head_dim: u32(config.head_dim)?,
        intermediate: u32(config.intermediate_size)?,
        vocab: u32(config.vocab_size)?,
    };
    shape.limit().is_none().then_some(shape)
}

fn product(factors: &[usize]) -> Option<usize> {
    factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor))
}

fn check_shapes(config: &ModelConfig, context_len: usize) -> Result<(), PlanError> {
    let refuse = |what, found, needed: String| Err(PlanError::Shape { what, found, needed });
    if config.head_dim != 64 && config.head_dim != 128 {
        return refuse("head_dim", config.head_dim, "64 or 128".into());
    }
    for (what, found) in [("hidden_size", config.hidden_size), ("intermediate_size", config.intermediate_size)] {
        if found == 0 || !found.is_multiple_of(64) {
            return refuse(what, found, "a positive multiple of 64".into());
        }
    }
    for (what, found) in [
        ("num_hidden_layers", config.num_hidden_layers),
        ("num_key_value_heads", config.num_key_value_heads),
        ("num_attention_heads", config.num_attention_heads),
        ("vocab_size", config.vocab_size),
    ] {
        if found == 0 || i32::try_from(found).is_err() {
            return refuse(what, found, format!("1 to {}", i32::MAX));
        }
    }
    if !config.num_attention_heads.is_multiple_of(config.num_key_value_heads) {
        let needed = format!("a multiple of the {} key/value heads", config.num_key_value_heads);
        return refuse("num_attention_heads", config.num_attention_heads, needed);
    }
    if context_len == 0 || context_len > config.max_position_embeddings || i32::try_from(context_len).is_err() {
        return refuse("context length", context_len, format!("1 to {}", config.max_position_embeddings));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ModelConfig {
        ModelConfig::published("qwen3-0.6b").expect("a published shape")
    }

    fn plan(config: &ModelConfig, context: usize, chunk: usize) -> Result<Plan, PlanError> {
        plan_with(config, context, chunk, KV)
    }

    fn plan_with(config: &ModelConfig, context: usize, chunk: usize, kv: KvFormats) -> Result<Plan, PlanError> {
        let weights = Weights::new(config);
        let options =
            Options { context_len: context, max_chunk: chunk, kv, ..Options::new(context).expect("no variables") };
        Plan::new(config, &weights, &vec![Scheme::Bf16; weights.specs().len()], &options)
    }

    #[test]
    fn the_06b_shape_counts_as_by_hand() {
        let plan = plan(&config(), 40_960, 512).expect("it fits");
        // Qwen3-0.6B: 596 049 920 parameters, two bytes each.
        assert_eq!(plan.weight_bytes, 596_049_920 * 2);
        // 28 layers × keys and values × 8 heads × 128 × 40 960 positions × 2 bytes.
        assert_eq!(plan.all_cache_bytes, 28 * 2 * 8 * 128 * 40_960 * 2);
        assert_eq!(plan.rope_bytes, 40_960 * 128 * 4);
        assert_eq!(plan.max_logits_rows, 441);
        // 151 936 logits are 75 slices of 2 048, with 64 keys of 8 bytes each; then 64 pairs of 8 bytes.
        let top_k = 75 * 64 * 8 + 64 * 8;
        let per_token = 1024 * (4 + 4 + 2) + 2048 * (4 + 2) + 1024 * (4 + 4) + 3072 * (4 + 4 + 2);
        assert_eq!(plan.activation_bytes, 512 * per_token + 441 * 151_936 * 4 + 513 * 4 + top_k);
        assert_eq!(plan.logits_bytes, 441 * 151_936 * 4);
        let parts =
            plan.weight_bytes + plan.all_cache_bytes + plan.activation_bytes + plan.decode_bytes + plan.rope_bytes;
        let memory = plan.memory();
        assert_eq!(memory.needed(), Some((parts + memory.reserve) as u64));
    }

    #[test]
    fn formats_change_the_cache_alone() {
        let config = config();
        let exact = plan(&config, 1000, 512).expect("it fits");
        let kv = KvFormats { k: KvFormat::Bf16, v: KvFormat::Int8 };
        let coded = plan_with(&config, 1000, 512, kv).expect("it fits");
        // 8 heads, 1000 positions in blocks of 32; a code and a scale for every 128.
        assert_eq!((coded.key_bytes, coded.value_bytes), (8 * 1024 * 256, 8 * 1024 * 132));
        let bytes = |plan: &Plan| plan.memory().needed().expect("small") as usize - plan.all_cache_bytes;
        assert_eq!(bytes(&coded), bytes(&exact));
        let error = plan_with(&config, 1000, 512, KvFormats::both(KvFormat::F32)).expect_err("no kernels");
        assert!(error.to_string().starts_with("--kv f32: the GPU kernels hold "), "{error}");
    }

    #[test]
    fn kernels_and_commands_count_the_same_bytes_of_a_cache() {
        for (both, [k, v]) in ["bf16", "f16", "int8", "fp8", "k=int8,v=f16"].map(|text| {
            let kv: KvFormats = text.parse().expect("a format");
            (kv, stored(kv).expect("kernels"))
        }) {
            let config = config();
            let bytes = |format: Stored| format.bytes(config.num_key_value_heads, 1, config.head_dim).expect("small");
            let layers = config.num_hidden_layers;
            assert_eq!(both.token_bytes(&config), Some(layers * (bytes(k) + bytes(v))), "{both}");
        }
    }

    #[test]
    fn what_is_rounded_has_room_for_the_widest_input_where_it_is_multiplied() {
        let (tied, untied) = (config(), ModelConfig { tie_word_embeddings: false, ..config() });
        let bytes = |config: &ModelConfig, activations, int8: fn(&str) -> bool| {
            let weights = Weights::new(config);
            let scheme = |name: &str| if int8(name) { Scheme::Int8Row } else { Scheme::Bf16 };
            let schemes: Vec<Scheme> = weights.specs().iter().map(|spec| scheme(&spec.name)).collect();
            let options = Options { activations, ..Options::new(1024).expect("no variables") };
            Plan::new(config, &weights, &schemes, &options).expect("it fits").rounded_bytes
        };
        // 512 tokens of 3072 codes, a scale of four bytes for each 64.
        let all = 512 * 3072 + 512 * 48 * 4;
        let (int8, plain) = (Activations::Int8, Activations::AsTheyAre);
        assert_eq!(bytes(&tied, int8, |name| name.ends_with("up_proj.weight")), all);
        assert_eq!(bytes(&tied, plain, |name| name.ends_with("up_proj.weight")), 0);
        assert_eq!(bytes(&tied, int8, |_| false), 0);
        // A table that is looked up is not multiplied; one that is lm_head as well is.
        assert_eq!(bytes(&tied, int8, |name| name.contains("embed_tokens")), all);
        assert_eq!(bytes(&untied, int8, |name| name.contains("embed_tokens")), 0);
    }

    #[test]
    fn context_and_chunk_bound_each_other() {
        let small = plan(&config(), 33, 512).expect("it fits");
        assert_eq!((small.max_chunk, small.capacity), (33, 64));
        assert_eq!(plan(&config(), 32, 0).expect("at least one token").max_chunk, 1);
        for context in [0, 40_961] {
            let error = plan(&config(), context, 512).expect_err("outside the model").to_string();
            assert!(error.contains(&context.to_string()) && error.contains("40960"), "{error}");
        }
    }

    #[test]
    fn shapes_without_kernels_are_refused_by_name_and_number() {
        type Change = fn(&mut ModelConfig);
        let wrong: [(Change, &str); 6] = [
            (|c| c.head_dim = 96, "head_dim is 96"),
            (|c| c.hidden_size = 1000, "hidden_size is 1000"),
            (|c| c.intermediate_size = 0, "intermediate_size is 0"),
            (|c| c.num_attention_heads = 12, "num_attention_heads is 12"),
            (|c| c.num_key_value_heads = 0, "num_key_value_heads is 0"),
            (|c| c.vocab_size = 1 << 33, "vocab_size is 8589934592"),
        ];
        for (change, part) in wrong {
            let mut config = config();
            change(&mut config);
            let error = plan(&config, 1024, 512).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
