//! What the metadata says about the architecture, as the `config.json` of a Hugging Face folder would say it: one reader of those
//! ([`crate::model::config`]) then decides for both what is computed and what is refused. Keys of the architecture that are neither
//! turned into something nor known to change nothing are refused by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{super::error::LoadError, parts::Gguf};
use crate::model::family::Family;

/// Keys of an architecture that become something in config.json.
const READ: &[&str] = &[
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "vocab_size",
];

/// Keys that change nothing where they have this value; the values are numbers, strings or booleans.
const NEUTRAL: &[(&str, &[Neutral])] = &[
    ("attention.causal", &[Neutral::Flag(true)]),
    ("expert_count", &[Neutral::Number(0.0)]),
    ("expert_used_count", &[Neutral::Number(0.0)]),
    ("rope.scale_linear", &[Neutral::Number(0.0), Neutral::Number(1.0)]),
    ("rope.scaling.attn_factor", &[Neutral::Number(0.0), Neutral::Number(1.0)]),
    ("rope.scaling.factor", &[Neutral::Number(0.0), Neutral::Number(1.0)]),
    ("rope.scaling.finetuned", &[Neutral::Flag(false)]),
    ("rope.scaling.type", &[Neutral::Text("none")]),
    ("tensor_data_layout", &[Neutral::Text("Meta AI original pth")]),
    ("use_parallel_residual", &[Neutral::Flag(false)]),
];

enum Neutral {
    Number(f64),
    Flag(bool),
    Text(&'static str),
}

/// The family that `general.architecture` names; its own keys begin with the same name.
pub(super) fn family(gguf: &Gguf) -> Result<Family, LoadError> {
    let key = "general.architecture";
    let known = || Family::ALL.map(Family::name).join(", ");
    match gguf.metadata().text(gguf.path(), key)? {
        Some(name) => Family::named(name).ok_or_else(|| {
            LoadError::new(gguf.path(), "not an architecture this build computes")
                .object(key)
                .numbers(format_args!("one of {}", known()), format_args!("{name:?}"))
        }),
        None => Err(LoadError::new(gguf.path(), "absent, and it is never guessed")
            .object(key)
            .numbers(format_args!("one of {}", known()), "nothing")),
    }
}

/// The model's config.json.
///
/// # Errors
/// A key that is missing, has another type, contradicts another, or may change what is computed.
pub(super) fn config_json(gguf: &Gguf, end_ids: &BTreeSet<u32>) -> Result<Json, LoadError> {
    let family = family(gguf)?;
    let keys = Keys { gguf, prefix: family.name() };
    keys.refuse_unknown()?;
    let heads = keys.required("attention.head_count")?;
    let hidden_size = keys.required("embedding_length")?;
    let mut config = Map::new();
    let mut set = |key: &str, value: Json| drop(config.insert(key.to_owned(), value));
    set("model_type", family.name().into());
    set("architectures", json!([family.architecture()]));
    set("hidden_act", "silu".into());
    set("hidden_size", hidden_size.into());
    set("intermediate_size", keys.required("feed_forward_length")?.into());
    set("num_hidden_layers", keys.required("block_count")?.into());
    set("num_attention_heads", heads.into());
    set("num_key_value_heads", keys.count("attention.head_count_kv")?.unwrap_or(heads).into());
    set("head_dim", keys.head_dim(hidden_size, heads)?.into());
    set("vocab_size", keys.vocab_size()?.into());
    set("max_position_embeddings", keys.required("context_length")?.into());
    set("rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")?.into());
    set("rope_theta", keys.number("rope.freq_base")?.into());
    let has_head = gguf.tensors().any(|(_, tensor)| tensor.name == "output.weight");
    set("tie_word_embeddings", (!has_head).into());
    set("eos_token_id", end_ids.iter().copied().collect());
    Ok(config.into())
}

/// The architecture's own keys.
struct Keys<'a> {
    gguf: &'a Gguf,
    prefix: &'a str,
}

impl Keys<'_> {
    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    fn refuse(&self, key: &str, problem: &str) -> LoadError {
        LoadError::new(self.gguf.path(), problem).object(self.full(key))
    }

    fn count(&self, key: &str) -> Result<Option<u64>, LoadError> {
        self.gguf.metadata().count(self.gguf.path(), &self.full(key))
    }

    fn required(&self, key: &str) -> Result<u64, LoadError> {
        self.count(key)?.ok_or_else(|| self.refuse(key, "absent, and it is never guessed"))
    }

    fn number(&self, key: &str) -> Result<f64, LoadError> {
        let number = self.gguf.metadata().number(self.gguf.path(), &self.full(key))?;
        number.ok_or_else(|| self.refuse(key, "absent, and it is never guessed"))
    }

    /// Elements of a head: keys and values alike, all of them rotated.
    fn head_dim(&self, hidden_size: u64, heads: u64) -> Result<u64, LoadError> {
        let head_dim = match self.count("attention.key_length")? {
            Some(length) => length,
            None if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
            None => {
                let problem = format!("absent, and embedding_length {hidden_size} is no multiple of {heads} heads");
                return Err(self.refuse("attention.key_length", &problem));
            }
        };
        for (key, problem) in [
            ("attention.value_length", "values of another length than keys are not computed"),
            ("rope.dimension_count", "heads that are rotated in part are not computed"),
        ] {
            if let Some(other) = self.count(key)?.filter(|other| *other != head_dim) {
                return Err(self.refuse(key, problem).numbers(head_dim, other));
            }
        }
        Ok(head_dim)
    }

    /// Rows of the embedding; the metadata may say the same.
    fn vocab_size(&self) -> Result<u64, LoadError> {
        let name = "token_embd.weight";
        let found = self.gguf.tensors().find(|(_, tensor)| tensor.name == name);
        let (_, embedding) =
            found.ok_or_else(|| LoadError::new(self.gguf.path(), "the tensor is missing").object(name))?;
        let rows = embedding.shape[0] as u64;
        if embedding.shape.len() != 2 {
            return Err(LoadError::new(self.gguf.path(), "wrong shape")
                .object(name)
                .numbers("2 extents", embedding.shape.len()));
        }
        match self.count("vocab_size")?.filter(|said| *said != rows) {
            Some(said) => {
                Err(self.refuse("vocab_size", "contradicts the rows of token_embd.weight").numbers(rows, said))
            }
            None => Ok(rows),
        }
    }

    fn refuse_unknown(&self) -> Result<(), LoadError> {
        let path = self.gguf.path();
        let metadata = self.gguf.metadata();
        for (full, value) in metadata.iter() {
            let Some(key) = full.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('.')) else { continue };
            if READ.contains(&key) {
                continue;
            }
            let Some((_, allowed)) = NEUTRAL.iter().find(|(name, _)| *name == key) else {
                let problem = format!("unknown key with value {}: it may change what is computed", value.brief());
                return Err(LoadError::new(path, problem).object(full));
            };
            let neutral = allowed.iter().any(|allowed| match allowed {
                Neutral::Number(number) => metadata.number(path, full).is_ok_and(|found| found == Some(*number)),
                Neutral::Flag(flag) => metadata.flag(path, full).is_ok_and(|found| found == Some(*flag)),
                Neutral::Text(text) => metadata.text(path, full).is_ok_and(|found| found == Some(*text)),
            });
            if !neutral {
                let expected: Vec<String> = allowed.iter().map(Neutral::to_string).collect();
                return Err(LoadError::new(path, "it changes what is computed and is not supported")
                    .object(full)
                    .numbers(expected.join(" or "), value.brief()));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Neutral {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// `generation_config.json` out of `general.sampling.*`; `None` where the file says nothing of the kind.
pub(super) fn generation_json(gguf: &Gguf) -> Result<Option<Json>, LoadError> {
    const NAMES: &[(&str, &str)] = &[
        ("top_k", "top_k"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("temp", "temperature"),
        ("penalty_repeat", "repetition_penalty"),
    ];
    let mut generation = Map::new();
    for (full, value) in gguf.metadata().iter() {
        let Some(key) = full.strip_prefix("general.sampling.") else { continue };
        match NAMES.iter().find(|(name, _)| *name == key) {
            Some((_, ours)) => {
                let number = gguf.metadata().number(gguf.path(), full)?;
                drop(generation.insert((*ours).to_owned(), number.into()));
            }
            // Reported as unused, under the name it has here.
            None => drop(generation.insert(full.to_owned(), value.brief().into())),
        }
    }
    Ok((!generation.is_empty()).then(|| generation.into()))
}
