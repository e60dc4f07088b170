//! A GGUF model as a source: metadata and tensors brought into the shape of a checkpoint, checked as a folder is.

use std::{collections::BTreeMap, path::Path};

use half::bf16;

use super::{
    super::{
        counts,
        directory::{Directory, Identity, SourceFile, TEMPLATE_OBJECT, TOKENIZER_OBJECT},
        error::LoadError,
        generation::GenerationDefaults,
        source::{Source, Stored},
        storage::LoadMode,
        tensors,
    },
    config::{config_json, generation_json},
    header::Entry,
    names::{self, checkpoint_name, is_rotated},
    parts::Gguf,
    tokenizer::Text,
    types::TensorType,
};
use crate::model::config::{CheckpointConfig, ModelConfig};
use crate::quant::{Choice, Recipe, Scheme};

/// The layout of blocks that is decoded; older ones were given up before GGUF files were common.
const QUANTIZATION_VERSION: u64 = 2;

impl Source {
    /// Opens the GGUF file at `path` with its other parts.
    pub(in crate::artifact) fn open_gguf(
        path: &Path,
        mode: LoadMode,
        recipe: Option<&Recipe>,
    ) -> Result<Self, LoadError> {
        let gguf = Gguf::open(path, mode)?;
        let text = Text::read(&gguf)?;
        let config = checkpoint_config(&gguf, &text)?;
        let generation = generation(&gguf, &config.model)?;
        let expected = tensors::expected_tensors(&config.model);
        let found = find(&gguf, &expected)?;
        if let Some(problem) = unreadable(&gguf, &found).into_iter().next() {
            return Err(problem);
        }
        let rounded = match recipe {
            None => match must_round(&gguf, &rounded(&gguf, &found)) {
                Some(problem) => return Err(problem),
                None => Vec::new(),
            },
            Some(recipe) => {
                let tied = config.model.tie_word_embeddings;
                let to_bf16 = |(name, shape): &(String, Vec<usize>)| {
                    recipe.choice_of(name, shape, tied) == Choice::Scheme(Scheme::Bf16)
                };
                let found = found.iter().zip(&expected).filter(|(_, tensor)| to_bf16(tensor));
                rounded(&gguf, &found.map(|(found, _)| *found).collect::<Vec<_>>())
            }
        };
        let paired_heads = names::has_rows_in_pairs(config.model.family).then_some(config.model.head_dim);
        let stored = expected.iter().zip(&found).map(|((name, _), (_, entry))| {
            let rows_in_pairs = paired_heads.filter(|_| is_rotated(name));
            match entry.kind {
                TensorType::BF16 if rows_in_pairs.is_none() => Stored::Bf16,
                kind => Stored::Blocks { kind, rows_in_pairs },
            }
        });
        let mut notes = text.notes;
        if !rounded.is_empty() {
            let kinds = kind_counts(rounded.iter().map(|(_, entry)| entry.kind));
            notes.push(format!("rounded to bf16: {} tensors ({kinds})", rounded.len()));
        }
        let mut texts = Vec::new();
        if let Some(bytes) = &text.tokenizer_json {
            texts.push((TOKENIZER_OBJECT, bytes.len() as u64));
        }
        if let Some(template) = &text.chat_template {
            texts.push((TEMPLATE_OBJECT, template.len() as u64));
        }
        let sources = gguf.files().map(|(path, bytes)| SourceFile {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes,
            blake3: None,
        });
        let model = Identity { family: config.model.family, name: gguf.name(), sources: sources.collect() };
        let end_ids = text.end_ids.into_iter().collect();
        let source = Self {
            directory: Directory::plan(model, config.model, generation, end_ids, &texts),
            tokenizer_json: text.tokenizer_json,
            chat_template: text.chat_template,
            ranges: found.iter().map(|(file, entry)| (*file, entry.range.clone())).collect(),
            exact: vec![false; found.len()],
            stored: stored.collect(),
            source_paths: gguf.files().map(|(path, _)| path.to_owned()).collect(),
            notes,
            storages: gguf.into_storages(),
        };
        check_norms(&source)?;
        Ok(source)
    }
}

/// Configuration and tensors of the model, checked as when it is compiled but for the tensors' bytes.
///
/// # Errors
/// What compiling it would refuse, the first.
pub fn config(gguf: &Gguf) -> Result<ModelConfig, LoadError> {
    let config = checkpoint_config(gguf, &Text::read(gguf)?)?.model;
    let found = find(gguf, &tensors::expected_tensors(&config))?;
    unreadable(gguf, &found).into_iter().next().map_or(Ok(config), Err)
}

/// Everything for which the model would be refused, one line each, and how many tensors `--quant` would have to round.
///
/// It stops nowhere: what follows from an earlier refusal is left out, the rest is all there.
pub fn refusals(gguf: &Gguf) -> (Vec<LoadError>, Option<LoadError>) {
    let mut refused = Vec::new();
    let all: Vec<(usize, &Entry)> = gguf.tensors().collect();
    refused.extend(unreadable(gguf, &all));
    let checked = Text::read(gguf).and_then(|text| {
        let config = checkpoint_config(gguf, &text)?;
        generation(gguf, &config.model)?;
        find(gguf, &tensors::expected_tensors(&config.model)).map(drop)
    });
    refused.extend(checked.err());
    (refused, must_round(gguf, &rounded(gguf, &all)))
}

fn checkpoint_config(gguf: &Gguf, text: &Text) -> Result<CheckpointConfig, LoadError> {
    let key = "general.quantization_version";
    if let Some(version) = gguf.metadata().count(gguf.path(), key)?.filter(|version| *version != QUANTIZATION_VERSION) {
        return Err(LoadError::new(gguf.path(), "blocks of another layout than is read")
            .object(key)
            .numbers(QUANTIZATION_VERSION, version));
    }
    let config = CheckpointConfig::from_json(&config_json(gguf, &text.end_ids)?)
        .map_err(|e| LoadError::config(gguf.path(), e))?;
    let (rows, tokens) = (config.model.vocab_size, text.token_count);
    if tokens > rows {
        return Err(LoadError::new(gguf.path(), "more tokens than token_embd.weight has rows")
            .object("tokenizer.ggml.tokens")
            .numbers(format_args!("at most {rows}"), tokens));
    }
    Ok(config)
}

fn generation(gguf: &Gguf, model: &ModelConfig) -> Result<GenerationDefaults, LoadError> {
    match generation_json(gguf)? {
        None => Ok(GenerationDefaults::default()),
        Some(json) => {
            let (defaults, _) = GenerationDefaults::read(gguf.path(), json.to_string().as_bytes(), model.vocab_size)?;
            Ok(defaults)
        }
    }
}

/// The file's tensor for each expected one, after checking that there are exactly those.
fn find<'a>(gguf: &'a Gguf, expected: &[(String, Vec<usize>)]) -> Result<Vec<(usize, &'a Entry)>, LoadError> {
    if gguf.tensors().any(|(_, entry)| entry.name == "rope_freqs.weight") {
        return Err(LoadError::new(gguf.path(), "rotary frequencies that are scaled one by one are not computed")
            .object("rope_freqs.weight"));
    }
    let named: BTreeMap<String, (usize, &Entry)> = gguf
        .tensors()
        .map(|(file, entry)| (checkpoint_name(&entry.name).unwrap_or_else(|| entry.name.clone()), (file, entry)))
        .collect();
    // Which types are read is another question than which tensors there are.
    let found = named.iter().map(|(name, (_, entry))| (name.as_str(), "BF16", entry.shape.as_slice()));
    tensors::check(gguf.path(), expected, found)?;
    Ok(expected.iter().map(|(name, _)| named[name.as_str()]).collect())
}

/// One refusal per element type that is not read, with the first tensor of it.
fn unreadable(gguf: &Gguf, tensors: &[(usize, &Entry)]) -> Vec<LoadError> {
    let mut first: Vec<&Entry> = Vec::new();
    for (_, entry) in tensors.iter().filter(|(_, entry)| entry.kind.decoder().is_none()) {
        if first.iter().all(|earlier| earlier.kind != entry.kind) {
            first.push(entry);
        }
    }
    let refusal = |entry: &Entry| {
        let read: Vec<&str> = TensorType::read_names().collect();
        LoadError::new(gguf.path(), "element type that is not read")
            .object(entry.name.as_str())
            .numbers(format_args!("one of {}", read.join(", ")), entry.kind)
    };
    first.into_iter().map(refusal).collect()
}

/// The tensors whose elements bf16 does not hold: all of other types, but vectors of F32 whose every element it does hold.
fn rounded<'a>(gguf: &'a Gguf, tensors: &[(usize, &'a Entry)]) -> Vec<(usize, &'a Entry)> {
    let exact = |(file, entry): (usize, &Entry)| match entry.kind.name() {
        "BF16" => true,
        "F32" if entry.shape.len() == 1 => {
            let numbers =
                gguf.bytes((file, entry)).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            numbers.into_iter().all(|number| bf16::from_f32(number).to_f32() == number)
        }
        _ => false,
    };
    tensors.iter().copied().filter(|tensor| !exact(*tensor)).collect()
}

fn must_round(gguf: &Gguf, rounded: &[(usize, &Entry)]) -> Option<LoadError> {
    let (_, first) = rounded.first()?;
    let problem = match rounded.len() {
        1 => "would be rounded to bf16".to_owned(),
        n => format!("would be rounded to bf16, as would {} more", n - 1),
    };
    let problem =
        format!("{problem}, which is done only when asked for (--quant bf16; --quant source changes no value)");
    Some(LoadError::new(gguf.path(), problem).object(first.name.as_str()).numbers("BF16", first.kind))
}

/// As a folder's: the stored weight is the factor itself.
fn check_norms(source: &Source) -> Result<(), LoadError> {
    let mut norms = Vec::new();
    for (index, tensor) in source.directory.tensors.iter().enumerate() {
        if tensors::is_norm(&tensor.name) {
            let mut bytes = vec![0; tensor.bytes as usize]; // a vector that the config's limits bound
            source.copy_bf16(index, 0, &mut bytes)?;
            norms.push((tensor.name.as_str(), bytes));
        }
    }
    let family = source.directory.model.family;
    tensors::check_norms(&source.source_paths[0], family, norms.iter().map(|(name, bytes)| (*name, bytes.as_slice())))
}

/// Types with how many tensors have each, as `Q4_1 210, F32 61`, most first.
pub fn kind_counts(kinds: impl Iterator<Item = TensorType>) -> String {
    let mut counts = counts(kinds);
    counts.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), kind.name()));
    counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
}
