//! The `tokenizer.json` that the metadata describes: byte-level BPE, whose vocabulary, merges and added tokens stand in the file, and whose
//! normalizer and pre-tokenizer stand behind the name `tokenizer.ggml.pre`. The settings below are those of the published tokenizer.json
//! of the models the names come from. It encodes nothing.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use serde_json::{Map, Value as Json, json};

use super::{
    super::error::LoadError,
    metadata::{Metadata, Texts},
    parts::Gguf,
};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const MERGES: &str = "tokenizer.ggml.merges";
const TYPES: &str = "tokenizer.ggml.token_type";
/// Keys whose token ends a text, or a turn of it.
const END_KEYS: &[&str] =
    &["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
/// Control tokens that end a text in every family that has them; the metadata often names one of several.
const END_TEXTS: &[&str] = &["<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"];
/// Types of tokens, as numbered in the file.
const NORMAL: u64 = 1;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// How a pre-tokenizer of some name splits text.
struct Pre {
    name: &'static str,
    /// Whether text is put into Unicode's composed form first.
    nfc: bool,
    split: Split,
    /// Whether a whole piece that is in the vocabulary is one token, whatever the merges say.
    ignore_merges: bool,
}

enum Split {
    /// By this expression, then bytes.
    Regex(&'static str),
    /// Each digit alone, then bytes with GPT-2's own expression.
    Digits,
}

const PRES: &[Pre] = &[
    Pre {
        name: "qwen2",
        nfc: true,
        split: Split::Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        ignore_merges: false,
    },
    Pre {
        name: "llama-bpe",
        nfc: false,
        split: Split::Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        ignore_merges: true,
    },
    Pre { name: "smollm", nfc: false, split: Split::Digits, ignore_merges: false },
];

/// What the metadata says about text.
pub(super) struct Text {
    /// tokenizer.json; `None` where the file has no tokenizer.
    pub(super) tokenizer_json: Option<Vec<u8>>,
    pub(super) chat_template: Option<String>,
    /// Tokens in the list, unused ones too.
    pub(super) token_count: usize,
    /// Ids that end a text.
    pub(super) end_ids: BTreeSet<u32>,
    /// What a user should know, one line each.
    pub(super) notes: Vec<String>,
}

impl Text {
    pub(super) fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        let (path, metadata) = (gguf.path(), gguf.metadata());
        let chat_template = metadata.text(path, "tokenizer.chat_template")?.map(str::to_owned);
        let mut notes = Vec::new();
        let vocabulary = match metadata.texts(path, TOKENS)? {
            Some(tokens) => Some(Vocabulary { path, tokens, types: token_types(path, metadata, tokens)? }),
            None => None,
        };
        let end_ids = end_ids(path, metadata, vocabulary.as_ref())?;
        let tokenizer_json = match &vocabulary {
            Some(vocabulary) => Some(tokenizer_json(path, metadata, vocabulary)?.to_string().into_bytes()),
            None => {
                notes.push("no tokenizer in the metadata: ids can be run, text cannot".to_owned());
                None
            }
        };
        for key in ["tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"] {
            if metadata.flag(path, key)? == Some(true) {
                notes.push(format!(
                    "{key} is true: a prompt has such a token only where its text or template writes it"
                ));
            }
        }
        let token_count = vocabulary.map_or(0, |vocabulary| vocabulary.tokens.len());
        Ok(Self { tokenizer_json, chat_template, token_count, end_ids, notes })
    }
}

/// The tokens and their types.
struct Vocabulary<'a> {
    path: &'a Path,
    tokens: &'a Texts,
    types: Vec<u64>,
}

fn token_types(path: &Path, metadata: &Metadata, tokens: &Texts) -> Result<Vec<u64>, LoadError> {
    let Some(types) = metadata.numbers(path, TYPES)? else { return Ok(vec![NORMAL; tokens.len()]) };
    if types.len() != tokens.len() {
        return Err(LoadError::new(path, "not as many as there are tokens")
            .object(TYPES)
            .numbers(tokens.len(), types.len()));
    }
    let mut list = Vec::with_capacity(types.len());
    for (id, kind) in types.iter().enumerate() {
        match kind.as_count() {
            Some(kind @ (NORMAL | CONTROL | USER_DEFINED | UNUSED)) => list.push(kind),
            _ => {
                return Err(LoadError::new(path, format!("token {id} is of a type that byte-level BPE does not have"))
                    .object(TYPES)
                    .numbers("1, 3, 4 or 5", kind.brief()));
            }
        }
    }
    Ok(list)
}

/// Ids that end a text: those the keys name, and control tokens with well-known texts.
fn end_ids(path: &Path, metadata: &Metadata, vocabulary: Option<&Vocabulary>) -> Result<BTreeSet<u32>, LoadError> {
    let mut ids = BTreeSet::new();
    for key in END_KEYS {
        let Some(id) = metadata.count(path, key)? else { continue };
        let most = vocabulary.map_or(u64::from(u32::MAX), |vocabulary| vocabulary.tokens.len() as u64);
        match u32::try_from(id) {
            Ok(small) if id < most => drop(ids.insert(small)),
            _ => {
                return Err(LoadError::new(path, "no token of the vocabulary")
                    .object(*key)
                    .numbers(format_args!("an id below {most}"), id));
            }
        }
    }
    if let Some(Vocabulary { tokens, types, .. }) = vocabulary {
        let control = tokens.iter().zip(types).enumerate().filter(|(_, (_, kind))| **kind == CONTROL);
        ids.extend(control.filter(|(_, (text, _))| END_TEXTS.contains(text)).map(|(id, _)| id as u32));
    }
    Ok(ids)
}

fn tokenizer_json(path: &Path, metadata: &Metadata, vocabulary: &Vocabulary) -> Result<Json, LoadError> {
    let one_of = |key: &str, found: Option<&str>, known: &str| {
        LoadError::new(path, "not a tokenizer this build knows")
            .object(key)
            .numbers(format_args!("one of {known}"), found.map_or("nothing".to_owned(), |found| format!("{found:?}")))
    };
    match metadata.text(path, MODEL)? {
        Some("gpt2") => {}
        other => return Err(one_of(MODEL, other, "gpt2 (byte-level BPE)")),
    }
    let name = metadata.text(path, PRE)?;
    let known = || PRES.iter().map(|pre| pre.name).collect::<Vec<_>>().join(", ");
    let pre = PRES.iter().find(|pre| Some(pre.name) == name).ok_or_else(|| one_of(PRE, name, &known()))?;
    if metadata.flag(path, "tokenizer.ggml.add_space_prefix")? == Some(true) {
        return Err(LoadError::new(path, "not supported")
            .object("tokenizer.ggml.add_space_prefix")
            .numbers(false, true));
    }
    let ids = vocabulary.ids()?;
    let merges = metadata.texts(path, MERGES)?.ok_or_else(|| LoadError::new(path, "absent").object(MERGES))?;
    let byte_level = |use_regex: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": use_regex,
        })
    };
    let pre_tokenizer = match pre.split {
        Split::Regex(regex) => {
            let split = json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
            [split, byte_level(false)]
        }
        Split::Digits => [json!({"type": "Digits", "individual_digits": true}), byte_level(true)],
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": vocabulary.added_tokens(),
        "normalizer": if pre.nfc { json!({"type": "NFC"}) } else { Json::Null },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizer},
        "post_processor": null,
        "decoder": byte_level(false),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": pre.ignore_merges,
            "vocab": vocabulary.vocab(),
            "merges": merge_pairs(path, merges, &ids)?,
        },
    }))
}

impl Vocabulary<'_> {
    fn kinds(&self) -> impl DoubleEndedIterator<Item = (u32, &str, u64)> + ExactSizeIterator {
        // Ids fit: a vocabulary of 2^32 strings would not fit a file that is in memory with 8 bytes for each.
        (0..self.types.len()).map(|id| (id as u32, self.tokens.get(id).unwrap_or_default(), self.types[id]))
    }

    /// Id of every token's text; unused ones are only placeholders.
    fn ids(&self) -> Result<HashMap<&str, u32>, LoadError> {
        let mut ids = HashMap::with_capacity(self.types.len());
        for (id, text, _) in self.kinds().filter(|(_, _, kind)| *kind != UNUSED) {
            let refuse = |problem: String| LoadError::new(self.path, problem).object(TOKENS);
            if text.is_empty() {
                return Err(refuse(format!("token {id} has no text")));
            }
            if let Some(first) = ids.insert(text, id) {
                return Err(refuse(format!("tokens {first} and {id} have the same text {text:?}")));
            }
        }
        Ok(ids)
    }

    /// Id from which there are only added tokens, without a gap, and behind them placeholders: those added tokens stand outside the
    /// vocabulary, as in the published files. With any other order all tokens stand in it.
    fn added_from(&self) -> u32 {
        let end = self.kinds().rev().find(|(_, _, kind)| *kind != UNUSED).map_or(0, |(id, ..)| id + 1);
        let is_added = |kind: u64| matches!(kind, CONTROL | USER_DEFINED);
        let last = self.kinds().take(end as usize).rev().find(|(_, _, kind)| !is_added(*kind));
        let from = last.map_or(0, |(id, ..)| id + 1);
        // Outside the vocabulary ids are counted on from its size, so nothing before may be left out of it.
        let gap = self.kinds().take(from as usize).any(|(_, _, kind)| kind == UNUSED);
        if gap { end } else { from }
    }

    fn vocab(&self) -> Map<String, Json> {
        let in_vocab = self.kinds().take(self.added_from() as usize).filter(|(_, _, kind)| *kind != UNUSED);
        in_vocab.map(|(id, text, _)| (text.to_owned(), id.into())).collect()
    }

    fn added_tokens(&self) -> Vec<Json> {
        let added = self.kinds().filter(|(_, _, kind)| matches!(*kind, CONTROL | USER_DEFINED));
        let token = |(id, text, kind): (u32, &str, u64)| {
            json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind == CONTROL,
            })
        };
        added.map(token).collect()
    }
}

/// Merges as pairs, each of two tokens that make a third.
fn merge_pairs(path: &Path, merges: &Texts, ids: &HashMap<&str, u32>) -> Result<Vec<Json>, LoadError> {
    let mut pairs = Vec::with_capacity(merges.len());
    let mut joined = String::new();
    for (index, merge) in merges.iter().enumerate() {
        let refuse = |problem: &str| LoadError::new(path, format!("merge {index} {problem}: {merge:?}")).object(MERGES);
        let (left, right) = merge.split_once(' ').ok_or_else(|| refuse("has no space"))?;
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        if ![left, right, &joined].iter().all(|text| ids.contains_key(text)) {
            return Err(refuse("names a token that is not in the vocabulary"));
        }
        pairs.push(json!([left, right]));
    }
    Ok(pairs)
}
