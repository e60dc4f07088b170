//! A checkpoint's `config.json`, with the checkpoint's names. Reading and refusing live here; nothing is defaulted that changes the
//! mathematics, and a key nobody here knows is refused rather than ignored. It opens no files and knows no tensors.

use std::fmt;

use serde_json::{Map, Value};

use super::family::Family;

/// Architecture of a dense decoder, names and meaning as in the checkpoint.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Which kind of layer: `model_type`. In an artifact it stands beside the architecture (`model.family`), not inside it.
    #[serde(skip)]
    pub family: Family,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP between gate/up and down.
    pub intermediate_size: usize,
    /// Decoder layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key/value heads; query head `h` reads key/value head `h / (num_attention_heads / num_key_value_heads)`.
    pub num_key_value_heads: usize,
    /// Elements per head; explicit in the checkpoint, not `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Rows of the embedding and of the lm_head.
    pub vocab_size: usize,
    /// Longest context in tokens: the one number from which RoPE table, KV cache and admission derive.
    pub max_position_embeddings: usize,
    /// Epsilon inside every RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether lm_head is the embedding.
    pub tie_word_embeddings: bool,
}

impl ModelConfig {
    /// The shape of a published model, for what needs no weights or random ones: measurements, plans, tests. One of
    /// [`super::registry::MODELS`].
    pub fn published(name: &str) -> Option<Self> {
        super::registry::find(name).map(|model| model.architecture.clone())
    }

    /// Elements of the longest row of a matrix: what a product takes in at most.
    pub fn widest_input(&self) -> usize {
        self.hidden_size.max(self.q_size()).max(self.intermediate_size)
    }

    /// Elements of one token's queries: heads × head_dim.
    pub fn q_size(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }
    /// Elements of one token's keys (or values): kv heads × head_dim.
    pub fn kv_size(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
    /// Query heads per key/value head.
    pub fn group_size(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }

    /// Refuses values the kernels cannot compute or that no real checkpoint has. The upper bounds keep every product of two sizes
    /// (and of two sizes and a dtype) far below 2⁶³, so later code may multiply them.
    ///
    /// # Errors
    /// The first offending key, what is allowed and what was found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let at_most = |key: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::numbers(key, format!("1 to {most}"), value))
            }
        };
        at_most("hidden_size", self.hidden_size, 1 << 17)?;
        at_most("intermediate_size", self.intermediate_size, 1 << 20)?;
        at_most("num_hidden_layers", self.num_hidden_layers, 1024)?;
        at_most("num_attention_heads", self.num_attention_heads, 1024)?;
        at_most("num_key_value_heads", self.num_key_value_heads, 1024)?;
        at_most("vocab_size", self.vocab_size, 1 << 22)?;
        at_most("max_position_embeddings", self.max_position_embeddings, 1 << 24)?;
        if !matches!(self.head_dim, 64 | 128) {
            return Err(ConfigError::numbers("head_dim", "64 or 128", self.head_dim));
        }
        for (key, value) in [("hidden_size", self.hidden_size), ("intermediate_size", self.intermediate_size)] {
            if value % 64 != 0 {
                return Err(ConfigError::numbers(key, "a multiple of 64", value));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return Err(ConfigError::numbers(
                "num_attention_heads",
                format!("a multiple of num_key_value_heads {}", self.num_key_value_heads),
                self.num_attention_heads,
            ));
        }
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps <= 0.1) {
            return Err(ConfigError::numbers("rms_norm_eps", "a number above 0 and at most 0.1", self.rms_norm_eps));
        }
        if !(self.rope_theta > 1.0 && self.rope_theta <= 1e12) {
            return Err(ConfigError::numbers("rope_theta", "a number above 1 and at most 1e12", self.rope_theta));
        }
        Ok(())
    }
}

/// Why a `config.json` is refused: the key and, where there are two, both values. It does not know which file the key stood in.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigError {
    /// The key, as spelled in the file (`rope_scaling.rope_type` for a nested one).
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ConfigError {
    fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
    fn numbers(key: impl Into<String>, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::new(key, format!("expected {expected}, found {found}"))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}
impl std::error::Error for ConfigError {}

/// What a `config.json` says: the architecture, and the end-of-text ids it names (the union with other files is the artifact's).
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointConfig {
    /// The architecture, already validated.
    pub model: ModelConfig,
    /// `eos_token_id`: none, one or several, each below `vocab_size`.
    pub eos_token_ids: Vec<u32>,
}

/// Keys that change nothing of what is computed here: training, bookkeeping, and defaults of other tasks. A family has more of them.
const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "attention_dropout",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "initializer_range",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "prefix",
    "problem_type",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "torchscript",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

/// Keys read below.
const READ: &[&str] = &[
    "architectures",
    "dtype",
    "eos_token_id",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
    "torch_dtype",
    "vocab_size",
];

/// Keys a transformers configuration may carry whose only value that changes nothing is the one given here (null also passes). A family
/// has more of them.
const NEUTRAL: &[(&str, Value)] = &[
    ("add_cross_attention", Value::Bool(false)),
    ("cross_attention_hidden_size", Value::Null),
    ("is_decoder", Value::Bool(false)),
    ("is_encoder_decoder", Value::Bool(false)),
    ("quantization_config", Value::Null),
    ("tie_encoder_decoder", Value::Bool(false)),
];

impl CheckpointConfig {
    /// Reads the parsed `config.json` of a checkpoint of one of the families, in the spelling of published checkpoints (`rope_theta`,
    /// `torch_dtype`) and in that of transformers 5 (`rope_parameters`, `dtype`).
    ///
    /// # Errors
    /// A missing key that changes the mathematics, a value outside what is computed here, a contradiction between two spellings,
    /// or a key nobody here knows.
    pub fn from_json(json: &Value) -> Result<Self, ConfigError> {
        let Value::Object(map) = json else {
            return Err(ConfigError::new("config", format!("expected an object, found {}", kind(json))));
        };
        // The family first: of another architecture every further complaint would mislead.
        let family = family(map)?;
        check_keys(map, family)?;
        check_dtype(map)?;
        match required(map, "hidden_act")? {
            Value::String(act) if act == "silu" => {}
            other => return Err(ConfigError::numbers("hidden_act", "\"silu\"", other)),
        }
        let num_hidden_layers = size(map, "num_hidden_layers")?;
        check_layer_types(map, num_hidden_layers)?;
        let hidden_size = size(map, "hidden_size")?;
        let num_attention_heads = size(map, "num_attention_heads")?;
        let model = ModelConfig {
            family,
            hidden_size,
            intermediate_size: size(map, "intermediate_size")?,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads: size(map, "num_key_value_heads")?,
            head_dim: head_dim(map, hidden_size, num_attention_heads)?,
            vocab_size: size(map, "vocab_size")?,
            max_position_embeddings: size(map, "max_position_embeddings")?,
            rms_norm_eps: number("rms_norm_eps", required(map, "rms_norm_eps")?)?,
            rope_theta: rope_theta(map)?,
            tie_word_embeddings: match required(map, "tie_word_embeddings")? {
                Value::Bool(tied) => *tied,
                other => return Err(ConfigError::numbers("tie_word_embeddings", "true or false", other)),
            },
        };
        model.validate()?;
        let eos_token_ids = token_ids("eos_token_id", map.get("eos_token_id"), model.vocab_size)?;
        Ok(Self { model, eos_token_ids })
    }
}

/// Reads a token id, a list of them, or null (none), and checks each against the vocabulary.
///
/// # Errors
/// Another type, or an id not below `vocab_size`.
pub fn token_ids(key: &str, value: Option<&Value>, vocab_size: usize) -> Result<Vec<u32>, ConfigError> {
    let one = |value: &Value| match value.as_u64() {
        Some(id) if id < vocab_size as u64 => {
            u32::try_from(id).map_err(|_| ConfigError::numbers(key, "a 32-bit id", id))
        }
        Some(id) => Err(ConfigError::numbers(key, format!("an id below vocab_size {vocab_size}"), id)),
        None => Err(ConfigError::numbers(key, "a token id", value)),
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(one).collect(),
        Some(other) => Ok(vec![one(other)?]),
    }
}

/// `model_type`, and that `architectures` agrees with it.
fn family(map: &Map<String, Value>) -> Result<Family, ConfigError> {
    let found = required(map, "model_type")?;
    let Some(family) = found.as_str().and_then(Family::named) else {
        let known: Vec<String> = Family::ALL.iter().map(|family| format!("\"{}\"", family.name())).collect();
        return Err(ConfigError::numbers("model_type", known.join(" or "), brief(found)));
    };
    let architecture = family.architecture();
    match present(map, "architectures") {
        None => Ok(family),
        Some(Value::Array(list)) if list.len() == 1 && list[0] == architecture => Ok(family),
        Some(other) => Err(ConfigError::numbers("architectures", format!("[\"{architecture}\"]"), brief(other))),
    }
}

fn check_keys(map: &Map<String, Value>, family: Family) -> Result<(), ConfigError> {
    for (key, value) in map {
        if let Some((_, neutral)) = NEUTRAL.iter().chain(family.neutral_keys()).find(|(name, _)| name == key) {
            if value != neutral && !value.is_null() {
                return Err(ConfigError::new(
                    key,
                    format!(
                        "expected {neutral}, found {}: it changes what is computed and is not supported",
                        brief(value)
                    ),
                ));
            }
        } else if ![READ, HARMLESS, family.harmless_keys()].iter().any(|keys| keys.contains(&key.as_str())) {
            return Err(ConfigError::new(
                key,
                format!("unknown key with value {}: it may change what is computed, so it is refused", brief(value)),
            ));
        }
    }
    Ok(())
}

fn check_dtype(map: &Map<String, Value>) -> Result<(), ConfigError> {
    let (new, old) = (present(map, "dtype"), present(map, "torch_dtype"));
    if let (Some(new), Some(old)) = (new, old)
        && new != old
    {
        return Err(ConfigError::new("dtype", format!("dtype is {new} but torch_dtype is {old}")));
    }
    match new.or(old) {
        None => Ok(()), // the tensors themselves say
        Some(Value::String(dtype)) if dtype == "bfloat16" => Ok(()),
        Some(other) => Err(ConfigError::numbers(
            if new.is_some() { "dtype" } else { "torch_dtype" },
            "\"bfloat16\"",
            format!("{other}: save the checkpoint in bfloat16 first, rounding is not done silently"),
        )),
    }
}

fn check_layer_types(map: &Map<String, Value>, layers: usize) -> Result<(), ConfigError> {
    let Some(value) = present(map, "layer_types") else { return Ok(()) };
    let Value::Array(types) = value else { return Err(ConfigError::numbers("layer_types", "a list", kind(value))) };
    if types.len() != layers {
        return Err(ConfigError::numbers("layer_types", format!("num_hidden_layers {layers} entries"), types.len()));
    }
    match types.iter().position(|t| t != "full_attention") {
        None => Ok(()),
        Some(layer) => {
            Err(ConfigError::numbers(format!("layer_types[{layer}]"), "\"full_attention\"", brief(&types[layer])))
        }
    }
}

/// Explicit `head_dim` wins; only an absent or null one is hidden_size / num_attention_heads.
fn head_dim(map: &Map<String, Value>, hidden_size: usize, heads: usize) -> Result<usize, ConfigError> {
    if present(map, "head_dim").is_some() {
        return size(map, "head_dim");
    }
    if heads == 0 || !hidden_size.is_multiple_of(heads) {
        return Err(ConfigError::new(
            "head_dim",
            format!("absent, and hidden_size {hidden_size} is no multiple of num_attention_heads {heads}"),
        ));
    }
    Ok(hidden_size / heads)
}

/// The base of the rotary frequencies from either spelling; never defaulted, and no scaling is accepted.
fn rope_theta(map: &Map<String, Value>) -> Result<f64, ConfigError> {
    let mut found: Option<(String, f64)> = None;
    let mut merge = |key: String, theta: f64| match &found {
        Some((first, value)) if *value != theta => {
            Err(ConfigError::new(key, format!("{theta} contradicts {first} {value}")))
        }
        _ => {
            found = Some((key, theta));
            Ok(())
        }
    };
    if let Some(value) = present(map, "rope_theta") {
        merge("rope_theta".into(), number("rope_theta", value)?)?;
    }
    for outer in ["rope_parameters", "rope_scaling"] {
        let Some(value) = present(map, outer) else { continue };
        let Value::Object(rope) = value else {
            return Err(ConfigError::numbers(outer, "an object or null", brief(value)));
        };
        // The type first: of a scaled rotary embedding its name says more than its first unknown number.
        for key in ["rope_type", "type"] {
            if let Some(value) = present(rope, key).filter(|value| **value != "default") {
                return Err(ConfigError::numbers(format!("{outer}.{key}"), "\"default\"", brief(value)));
            }
        }
        for (key, value) in rope {
            let full = format!("{outer}.{key}");
            match key.as_str() {
                _ if value.is_null() => {}
                "rope_type" | "type" => {}
                "rope_theta" => merge(full.clone(), number(&full, value)?)?,
                "partial_rotary_factor" if value.as_f64() == Some(1.0) => {}
                _ => {
                    return Err(ConfigError::new(
                        full,
                        format!("unsupported rotary setting with value {}", brief(value)),
                    ));
                }
            }
        }
    }
    found.map(|(_, theta)| theta).ok_or_else(|| {
        ConfigError::new(
            "rope_theta",
            "absent, also in rope_parameters: it changes every position and is never guessed",
        )
    })
}

/// The value of `key` unless absent or null.
fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

fn required<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a Value, ConfigError> {
    present(map, key).ok_or_else(|| ConfigError::new(key, "absent, and it is never guessed"))
}

fn size(map: &Map<String, Value>, key: &str) -> Result<usize, ConfigError> {
    let value = required(map, key)?;
    let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
    number.filter(|n| *n > 0).ok_or_else(|| ConfigError::numbers(key, "a positive integer", brief(value)))
}

fn number(key: &str, value: &Value) -> Result<f64, ConfigError> {
    match value.as_f64() {
        Some(number) if number.is_finite() => Ok(number),
        _ => Err(ConfigError::numbers(key, "a number", brief(value))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value for a message: short ones as they stand, long ones by their beginning.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 { text } else { text.chars().take(80).collect::<String>() + "…" }
}
