//! A Hugging Face folder: which of its files count, what they say together, and where each tensor lies. It copies no weights and
//! writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    ops::Range,
    path::{Component, Path, PathBuf},
};

use serde_json::Value;

use super::{
    directory::{Directory, Identity, SourceFile, TEMPLATE_OBJECT, TOKENIZER_OBJECT},
    error::LoadError,
    generation::{self, GenerationDefaults, TokenizerConfig},
    json::{self, Strict, UniqueMembers},
    safetensors::SafetensorsFile,
    source::{Source, Stored},
    storage::{self, LoadMode},
    tensors::{self, EMBEDDING, LM_HEAD},
};
use crate::model::config::CheckpointConfig;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Most bytes of a text file that is read whole. The largest published tokenizer.json has some 33 MB.
const TEXT_CAP_BYTES: u64 = 256 << 20;

impl Source {
    /// Opens the folder at `path`.
    pub(super) fn open_folder(path: &Path, mode: LoadMode) -> Result<Self, LoadError> {
        let mut files = Files { folder: path, sources: Vec::new(), paths: Vec::new() };
        let config_path = path.join("config.json");
        let Some(bytes) = files.read_text("config.json")? else {
            return Err(LoadError::new(&config_path, "not there: a Hugging Face folder has a config.json"));
        };
        let Strict(json) = json::parse(&config_path, &bytes)?;
        let config = CheckpointConfig::from_json(&json).map_err(|e| LoadError::config(&config_path, e))?;
        let mut end_ids: BTreeSet<u32> = config.eos_token_ids.iter().copied().collect();

        let mut generation = GenerationDefaults::default();
        if let Some(bytes) = files.read_text("generation_config.json")? {
            let file = path.join("generation_config.json");
            let (defaults, ids) = GenerationDefaults::read(&file, &bytes, config.model.vocab_size)?;
            generation = defaults;
            end_ids.extend(ids);
        }
        let tokenizer_json = files.read_text("tokenizer.json")?;
        let mut chat_template = None;
        if let Some(bytes) = files.read_text("tokenizer_config.json")? {
            let read = TokenizerConfig::read(&path.join("tokenizer_config.json"), &bytes)?;
            chat_template = read.chat_template;
            if let (Some(token), Some(tokenizer_json)) = (read.eos_token, &tokenizer_json) {
                end_ids.insert(tokenizer_end_id(path, tokenizer_json, &token, config.model.vocab_size)?);
            }
        }
        // As in transformers, a template of its own file counts before the one inside tokenizer_config.json.
        if let Some(bytes) = files.read_text("chat_template.jinja")? {
            let text = String::from_utf8(bytes).map_err(|e| {
                LoadError::new(&path.join("chat_template.jinja"), "is not UTF-8").numbers("UTF-8 text", e.utf8_error())
            })?;
            chat_template = Some(text);
        }

        let mut notes = Vec::new();
        if tokenizer_json.is_none() {
            notes.push("no tokenizer.json: ids can be run, text cannot".to_owned());
        }
        let shards = open_shards(&mut files, mode, &mut notes)?;
        let expected = tensors::expected_tensors(&config.model);
        let ranges = place(path, &expected, &shards, config.model.tie_word_embeddings)?;
        let norms = expected.iter().zip(&ranges).filter(|((name, _), _)| tensors::is_norm(name));
        tensors::check_norms(
            path,
            config.model.family,
            norms.map(|((name, _), (shard, range))| (name.as_str(), &shards[*shard].storage.bytes()[range.clone()])),
        )?;

        let mut texts = Vec::new();
        if let Some(bytes) = &tokenizer_json {
            texts.push((TOKENIZER_OBJECT, bytes.len() as u64));
        }
        if let Some(text) = &chat_template {
            texts.push((TEMPLATE_OBJECT, text.len() as u64));
        }
        let model = Identity { family: config.model.family, name: folder_name(path), sources: files.sources };
        let end_ids = end_ids.into_iter().collect();
        let directory = Directory::plan(model, config.model, generation, end_ids, &texts);
        let storages = shards.into_iter().map(|shard| shard.storage).collect();
        let (stored, exact) = (vec![Stored::Bf16; ranges.len()], vec![false; ranges.len()]);
        Ok(Self {
            directory,
            tokenizer_json,
            chat_template,
            storages,
            ranges,
            stored,
            exact,
            source_paths: files.paths,
            notes,
        })
    }
}

/// The files of one folder, and the record of those that were read.
struct Files<'a> {
    folder: &'a Path,
    sources: Vec<SourceFile>,
    paths: Vec<PathBuf>,
}

impl Files<'_> {
    /// A text file's bytes, or `None` where there is no such file.
    fn read_text(&mut self, name: &str) -> Result<Option<Vec<u8>>, LoadError> {
        let path = self.folder.join(name);
        if matches!(path.symlink_metadata(), Err(e) if e.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let bytes = storage::read_small(&path, TEXT_CAP_BYTES)?;
        storage::refuse_lfs_pointer(&path, &bytes)?;
        self.record(name, &path, bytes.len() as u64);
        Ok(Some(bytes))
    }

    fn record(&mut self, name: &str, path: &Path, bytes: u64) {
        self.sources.push(SourceFile { file: name.to_owned(), bytes, blake3: None });
        self.paths.push(path.to_owned());
    }
}

/// The folder's own name, also of `.` and of a path that ends in `..`; lossy, since it is only shown.
fn folder_name(path: &Path) -> String {
    let full = path.canonicalize();
    let name = full.as_deref().unwrap_or(path).file_name().unwrap_or(OsStr::new("model"));
    name.to_string_lossy().into_owned()
}

fn tokenizer_end_id(folder: &Path, tokenizer_json: &[u8], token: &str, vocab_size: usize) -> Result<u32, LoadError> {
    let file = folder.join("tokenizer.json");
    match generation::token_id(&file, tokenizer_json, token)? {
        Some(id) if (id as usize) < vocab_size => Ok(id),
        Some(id) => Err(LoadError::new(&file, "end token outside the model's vocabulary")
            .object(token)
            .numbers(format_args!("an id below vocab_size {vocab_size}"), id)),
        None => {
            Err(LoadError::new(&file, "has no such token, but tokenizer_config.json names it as eos_token")
                .object(token))
        }
    }
}

/// Opens the single file or the index's shards, each checked; in the order of their names.
fn open_shards(files: &mut Files, mode: LoadMode, notes: &mut Vec<String>) -> Result<Vec<SafetensorsFile>, LoadError> {
    let index_path = files.folder.join(INDEX);
    let Some(index) = files.read_text(INDEX)? else {
        return Ok(vec![open_single(files, mode)?]);
    };
    let weight_map = read_index(&index_path, &index)?;
    let names: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
    let mut missing = Vec::new();
    for &name in &names {
        check_plain_name(&index_path, name)?;
        match files.folder.join(name).metadata() {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => missing.push(name),
            Err(e) => return Err(LoadError::io(&files.folder.join(name), "cannot be looked at", e)),
        }
    }
    if !missing.is_empty() {
        let problem = format!("shards are missing: {} (incomplete download?)", tensors::list_names(&missing));
        return Err(LoadError::new(&index_path, problem)
            .numbers(format_args!("{} shards", names.len()), names.len() - missing.len()));
    }
    let mut shards = Vec::new();
    let mut home: HashMap<String, &str> = HashMap::new();
    for &name in &names {
        let path = files.folder.join(name);
        check_inside(files.folder, &path)?;
        let shard = SafetensorsFile::open(&path, mode)?;
        files.record(name, &path, shard.storage.bytes().len() as u64);
        for tensor in &shard.tensors {
            if let Some(first) = home.insert(tensor.name.clone(), name) {
                return Err(LoadError::new(&path, format!("tensor stands in two shards, also in {first}"))
                    .object(&*tensor.name));
            }
            match weight_map.get(&tensor.name) {
                Some(listed) if listed == name => {}
                Some(listed) => {
                    return Err(LoadError::new(&path, "tensor stands in another shard than the index says")
                        .object(&*tensor.name)
                        .numbers(listed, name));
                }
                None => return Err(LoadError::new(&path, format!("tensor is not in {INDEX}")).object(&*tensor.name)),
            }
        }
        shards.push(shard);
    }
    for (tensor, shard) in &weight_map {
        if !home.contains_key(tensor) {
            return Err(LoadError::new(&files.folder.join(shard), format!("lacks a tensor that {INDEX} places there"))
                .object(tensor.as_str()));
        }
    }
    note_strays(files.folder, &names, notes);
    Ok(shards)
}

fn open_single(files: &mut Files, mode: LoadMode) -> Result<SafetensorsFile, LoadError> {
    let path = files.folder.join(SINGLE);
    if matches!(path.symlink_metadata(), Err(e) if e.kind() == std::io::ErrorKind::NotFound) {
        let others = weight_files(files.folder);
        let seen = if others.is_empty() { "no weights at all".to_owned() } else { others.join(", ") };
        return Err(LoadError::new(files.folder, "no weights this build reads")
            .numbers(format_args!("{SINGLE} or {INDEX}"), seen));
    }
    check_inside(files.folder, &path)?;
    let file = SafetensorsFile::open(&path, mode)?;
    files.record(SINGLE, &path, file.storage.bytes().len() as u64);
    Ok(file)
}

/// `weight_map` of the index: tensor to shard.
fn read_index(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, String>, LoadError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: UniqueMembers<String>,
        #[serde(default, rename = "metadata")]
        _metadata: Value,
    }
    let Index { weight_map: UniqueMembers(members), .. } = json::parse(path, bytes)?;
    if members.is_empty() {
        return Err(LoadError::new(path, "lists no tensor").object("weight_map"));
    }
    Ok(members.into_iter().collect())
}

/// A shard is named by a plain file name: no folder, no `..`, no root.
fn check_plain_name(index: &Path, name: &str) -> Result<(), LoadError> {
    let mut components = Path::new(name).components();
    let plain = matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name);
    if plain && name.ends_with(".safetensors") && !name.contains(['\\', '\0']) {
        return Ok(());
    }
    Err(LoadError::new(index, "shard outside the folder, or no plain file name")
        .object("weight_map")
        .numbers("a plain name ending in .safetensors", format_args!("{name:?}")))
}

/// Follows links: the file must lie inside the folder. The one exception is the Hugging Face cache, whose `snapshots/REV` holds
/// links into the `blobs` folder beside `snapshots`.
fn check_inside(folder: &Path, path: &Path) -> Result<(), LoadError> {
    let resolve = |path: &Path| path.canonicalize().map_err(|e| LoadError::io(path, "cannot be resolved", e));
    let (root, real) = (resolve(folder)?, resolve(path)?);
    let snapshots = root.parent().filter(|parent| parent.file_name() == Some(OsStr::new("snapshots")));
    let blobs = snapshots.and_then(Path::parent).map(|repository| repository.join("blobs"));
    if real.starts_with(&root) || blobs.is_some_and(|blobs| real.starts_with(blobs)) {
        return Ok(());
    }
    Err(LoadError::new(path, "is a link out of the model's folder")
        .numbers(format_args!("a file in {}", root.display()), real.display()))
}

/// Says which weight files were left aside: only the index decides, but a user may have meant the other file.
fn note_strays(folder: &Path, used: &BTreeSet<&str>, notes: &mut Vec<String>) {
    let strays: Vec<String> = weight_files(folder)
        .into_iter()
        .filter(|name| name.ends_with(".safetensors") && !used.contains(name.as_str()))
        .collect();
    if !strays.is_empty() {
        notes.push(format!("not in {INDEX}, so not read: {}", strays.join(", ")));
    }
}

/// Names of files that look like weights, sorted.
fn weight_files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| [".safetensors", ".bin", ".gguf", ".pt", ".pth"].iter().any(|end| name.ends_with(end)));
    names.sort();
    names
}

/// Finds each expected tensor, after checking that there are exactly those. A tied checkpoint may carry a copy of its embedding as
/// lm_head: it must be one, byte for byte, and is then left out.
fn place(
    folder: &Path,
    expected: &[(String, Vec<usize>)],
    shards: &[SafetensorsFile],
    tied: bool,
) -> Result<Vec<(usize, Range<usize>)>, LoadError> {
    let all =
        || shards.iter().enumerate().flat_map(|(shard, file)| file.tensors.iter().map(move |tensor| (shard, tensor)));
    let by_name: HashMap<&str, (usize, Range<usize>)> =
        all().map(|(shard, tensor)| (tensor.name.as_str(), (shard, tensor.range.clone()))).collect();
    if let (true, Some(lm_head), Some(embedding)) = (tied, by_name.get(LM_HEAD), by_name.get(EMBEDDING)) {
        let bytes = |(shard, range): &(usize, Range<usize>)| &shards[*shard].storage.bytes()[range.clone()];
        let (lm_head, embedding) = (bytes(lm_head), bytes(embedding));
        if lm_head != embedding {
            let at =
                lm_head.iter().zip(embedding).position(|(a, b)| a != b).unwrap_or(lm_head.len().min(embedding.len()));
            return Err(LoadError::new(
                folder,
                format!("tie_word_embeddings is true, but it differs from {EMBEDDING} at byte {at}"),
            )
            .object(LM_HEAD)
            .numbers(format_args!("{} equal bytes", embedding.len()), format_args!("{} bytes", lm_head.len())));
        }
    }
    let relevant = all().filter(|(_, tensor)| !(tied && tensor.name == LM_HEAD));
    let found = relevant.map(|(_, tensor)| (tensor.name.as_str(), tensor.dtype.as_str(), tensor.shape.as_slice()));
    tensors::check(folder, expected, found)?;
    Ok(expected.iter().map(|(name, _)| by_name[name.as_str()].clone()).collect())
}
