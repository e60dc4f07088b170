//! What a checkpoint says about generating: sampling defaults of `generation_config.json`, end-of-text ids of every file that names
//! some, and the chat template. It samples nothing and renders nothing.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    error::LoadError,
    json::{self, Strict},
};
use crate::model::config::token_ids;

/// Sampling defaults as the checkpoint states them; `None` where it states nothing (a request, a flag or the engine decides).
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationDefaults {
    /// Whether to sample at all; false is greedy.
    pub do_sample: Option<bool>,
    /// Divisor of the logits, ≥ 0.
    pub temperature: Option<f64>,
    /// Keep the k largest logits; 0 keeps all.
    pub top_k: Option<u32>,
    /// Keep the smallest set whose probability reaches this, 0 < p ≤ 1.
    pub top_p: Option<f64>,
    /// Keep what has at least this share of the largest probability, 0 ≤ p ≤ 1.
    pub min_p: Option<f64>,
    /// Divides (or multiplies, below zero) the logits of ids already seen, > 0; 1 changes nothing.
    pub repetition_penalty: Option<f64>,
    /// Subtracted from the logits of ids already generated.
    pub presence_penalty: Option<f64>,
    /// Subtracted from the logits of ids already generated, once per occurrence.
    pub frequency_penalty: Option<f64>,
    /// New tokens at most.
    pub max_new_tokens: Option<u32>,
    /// Keys of `generation_config.json` that this engine does not use, in the order of the file: shown, never silently dropped.
    pub unused: Vec<String>,
}

/// Keys that say nothing about how a token is chosen.
const SILENT: &[&str] = &[
    "_from_model_config",
    "bos_token_id",
    "eos_token_id",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "return_dict_in_generate",
    "transformers_version",
    "use_cache",
];

/// What a number may be, in words and as a test; the same as the sampler accepts, but that a share of nothing is no default.
type Range = (&'static str, fn(f64) -> bool);
const NOT_NEGATIVE: Range = ("a number of at least 0", |n| n >= 0.0);
const SHARE: Range = ("a number above 0 and at most 1", |n| n > 0.0 && n <= 1.0);
const FRACTION: Range = ("a number from 0 to 1", |n| (0.0..=1.0).contains(&n));
const FACTOR: Range = ("a number above 0", |n| n > 0.0);
const PENALTY: Range = ("a number from -2 to 2", |n| n.abs() <= 2.0);

impl GenerationDefaults {
    /// Reads `generation_config.json`: the defaults, and its end-of-text ids.
    pub(super) fn read(file: &Path, bytes: &[u8], vocab_size: usize) -> Result<(Self, Vec<u32>), LoadError> {
        let Strict(value) = json::parse(file, bytes)?;
        let Value::Object(map) = value else { return Err(LoadError::new(file, "is no JSON object")) };
        let number = |key: &str, (allowed, ok): Range| match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if ok(number) => Ok(Some(number)),
                _ => Err(LoadError::new(file, "out of range").object(key).numbers(allowed, value)),
            },
        };
        let count = |key: &str| {
            let allowed = |n: f64| n >= 0.0 && n <= f64::from(u32::MAX) && n.fract() == 0.0;
            let value = number(key, ("an integer from 0 to 4294967295", allowed))?;
            Ok::<_, LoadError>(value.map(|n| n as u32)) // exact: checked just above
        };
        let do_sample = match map.get("do_sample") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(other) => {
                return Err(LoadError::new(file, "wrong type").object("do_sample").numbers("true or false", other));
            }
        };
        let defaults = Self {
            do_sample,
            temperature: number("temperature", NOT_NEGATIVE)?,
            top_k: count("top_k")?,
            top_p: number("top_p", SHARE)?,
            min_p: number("min_p", FRACTION)?,
            repetition_penalty: number("repetition_penalty", FACTOR)?,
            presence_penalty: number("presence_penalty", PENALTY)?,
            frequency_penalty: number("frequency_penalty", PENALTY)?,
            max_new_tokens: count("max_new_tokens")?,
            unused: unused(&map),
        };
        let eos =
            token_ids("eos_token_id", map.get("eos_token_id"), vocab_size).map_err(|e| LoadError::config(file, e))?;
        Ok((defaults, eos))
    }

    /// The same checks for defaults that come out of a directory.
    pub(super) fn validate(&self, file: &Path) -> Result<(), LoadError> {
        let check = |key: &str, value: Option<f64>, (allowed, ok): Range| match value {
            Some(number) if !ok(number) => {
                Err(LoadError::new(file, "out of range").object(format!("generation.{key}")).numbers(allowed, number))
            }
            _ => Ok(()),
        };
        check("temperature", self.temperature, NOT_NEGATIVE)?;
        check("top_p", self.top_p, SHARE)?;
        check("min_p", self.min_p, FRACTION)?;
        check("repetition_penalty", self.repetition_penalty, FACTOR)?;
        check("presence_penalty", self.presence_penalty, PENALTY)?;
        check("frequency_penalty", self.frequency_penalty, PENALTY)
    }
}

/// Keys that are neither read nor silent, with a value that is set.
fn unused(map: &Map<String, Value>) -> Vec<String> {
    const USED: &[&str] = &[
        "do_sample",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "max_new_tokens",
    ];
    let known = |key: &str| USED.contains(&key) || SILENT.contains(&key);
    map.iter().filter(|(key, value)| !known(key) && !value.is_null()).map(|(key, _)| key.clone()).collect()
}

/// What is taken from `tokenizer_config.json`.
pub(super) struct TokenizerConfig {
    /// The end token's text.
    pub(super) eos_token: Option<String>,
    /// The default chat template.
    pub(super) chat_template: Option<String>,
}

impl TokenizerConfig {
    pub(super) fn read(file: &Path, bytes: &[u8]) -> Result<Self, LoadError> {
        let Strict(value) = json::parse(file, bytes)?;
        let eos_token = match value.get("eos_token") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Object(token)) if token.get("content").is_some_and(Value::is_string) => {
                token["content"].as_str().map(str::to_owned)
            }
            Some(other) => {
                return Err(LoadError::new(file, "wrong type")
                    .object("eos_token")
                    .numbers("a string or a token", other));
            }
        };
        let chat_template = match value.get("chat_template") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Array(list)) => Some(default_template(file, list)?),
            Some(_) => {
                return Err(LoadError::new(file, "wrong type")
                    .object("chat_template")
                    .numbers("a string or a list of named templates", "another type"));
            }
        };
        Ok(Self { eos_token, chat_template })
    }
}

/// Of several named templates the one called `default`, or the only one.
fn default_template(file: &Path, list: &[Value]) -> Result<String, LoadError> {
    let mut named = Vec::new();
    for entry in list {
        match (entry.get("name").and_then(Value::as_str), entry.get("template").and_then(Value::as_str)) {
            (Some(name), Some(template)) => named.push((name, template)),
            _ => return Err(LoadError::new(file, "an entry has no name or no template").object("chat_template")),
        }
    }
    match named.as_slice() {
        [(_, only)] => Ok((*only).to_owned()),
        several => {
            several.iter().find(|(name, _)| *name == "default").map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
                let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
                LoadError::new(file, "no default among the named templates")
                    .object("chat_template")
                    .numbers("one named default", format_args!("[{}]", names.join(", ")))
            })
        }
    }
}

/// The id of `token` in a `tokenizer.json`: among the added tokens, else in the vocabulary.
pub(super) fn token_id(file: &Path, tokenizer_json: &[u8], token: &str) -> Result<Option<u32>, LoadError> {
    #[derive(Deserialize)]
    struct Added {
        id: u32,
        content: String,
    }
    #[derive(Deserialize)]
    struct AddedTokens {
        #[serde(default)]
        added_tokens: Vec<Added>,
    }
    #[derive(Deserialize)]
    struct WithModel {
        model: WithVocab,
    }
    #[derive(Deserialize)]
    struct WithVocab {
        #[serde(default)]
        vocab: Value, // a map for BPE; a list for kinds of tokenizer that these families do not have
    }
    let AddedTokens { added_tokens } = json::parse(file, tokenizer_json)?;
    if let Some(added) = added_tokens.iter().find(|added| added.content == token) {
        return Ok(Some(added.id));
    }
    // The vocabulary is a hundred times larger, so it is only parsed where it is needed.
    let WithModel { model } = json::parse(file, tokenizer_json)?;
    Ok(model.vocab.get(token).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()))
}
