//! Models on disk: a Hugging Face folder or a compiled `.zynfer` file, seen through one [`Artifact`] that borrows its weights from
//! the file and never copies them. It computes nothing and knows no backend. The format is described in docs/ARTIFACT.md.
//!
//! Way of a checkpoint: `folder` (config, tokenizer, shards) or `gguf` (the same out of one file) → `source` (both alike) → `directory` (what
//! it is, where each object will lie) → `writer` (the file) → `zynfer_file` (read back, checked).

mod directory;
mod error;
mod folder;
mod generation;
pub mod gguf;
mod json;
mod quantize;
mod safetensors;
mod source;
mod storage;
mod target;
mod tensors;
mod writer;
mod zynfer_file;

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use directory::Directory;
use storage::Storage;

pub use error::{Compared, LoadError};
pub use generation::GenerationDefaults;
pub use quantize::MatrixEncoder;
pub use storage::LoadMode;
pub use tensors::{Dtype, Tensor, expected_tensors};
pub use writer::{CompileReport, Unnamed, compile, compile_as, compile_quantized, compile_unnamed};

use crate::model::config::ModelConfig;

/// A model, opened and checked. Clones share the same bytes, and any thread may read them.
#[derive(Clone)]
pub struct Artifact {
    inner: Arc<Inner>,
}

/// What both kinds of model become.
struct Inner {
    path: PathBuf,
    is_folder: bool,
    directory: Directory,
    tokenizer_json: Option<Vec<u8>>,
    chat_template: Option<String>,
    storages: Vec<Storage>,
    /// Of each tensor of the directory: its storage and its bytes there.
    ranges: Vec<(usize, Range<usize>)>,
    by_name: HashMap<String, usize>,
    notes: Vec<String>,
}

/// What [`Artifact::verify`] read and found in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyReport {
    /// Text objects and tensors.
    pub objects: usize,
    /// Bytes hashed.
    pub bytes: u64,
}

impl Artifact {
    /// Opens a `.zynfer` file, or a Hugging Face folder (whose tensors then stay where they are, in its shards).
    ///
    /// Of a `.zynfer` file everything but the tensors' values is checked, see [`Artifact::verify`]; of a folder everything but the
    /// values of matrices.
    ///
    /// # Errors
    /// Anything missing, damaged, contradictory or not supported, with file, object and both numbers.
    pub fn open(path: &Path, mode: LoadMode) -> Result<Self, LoadError> {
        let meta = std::fs::metadata(path).map_err(|e| LoadError::io(path, "cannot be opened", e))?;
        let inner = if meta.is_dir() { open_folder(path, mode)? } else { zynfer_file::open(path, mode)? };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What was opened, as the caller named it.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether this is a Hugging Face folder, compiled in memory.
    pub fn is_folder(&self) -> bool {
        self.inner.is_folder
    }

    /// The model's name: the folder's name when it was compiled.
    pub fn name(&self) -> &str {
        &self.inner.directory.model.name
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.inner.directory.architecture
    }

    /// The checkpoint's own sampling defaults.
    pub fn generation(&self) -> &GenerationDefaults {
        &self.inner.directory.generation
    }

    /// Every id that ends a text, rising: the union of config, generation_config and the tokenizer's eos_token. May be empty.
    pub fn end_ids(&self) -> &[u32] {
        &self.inner.directory.end_ids
    }

    /// The checkpoint's `tokenizer.json`, byte for byte; `None` for a checkpoint without one, which can be run by ids only.
    pub fn tokenizer_json(&self) -> Option<&[u8]> {
        self.inner.tokenizer_json.as_deref()
    }

    /// The default chat template's source.
    pub fn chat_template(&self) -> Option<&str> {
        self.inner.chat_template.as_deref()
    }

    /// A tensor by its checkpoint name. There is no `lm_head.weight` where `tie_word_embeddings` is true: it is the embedding.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.inner.by_name.get(name).map(|index| self.tensor_at(*index))
    }

    /// All tensors, in the order of [`expected_tensors`].
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        (0..self.inner.ranges.len()).map(|index| self.tensor_at(index))
    }

    fn tensor_at(&self, index: usize) -> Tensor<'_> {
        let entry = &self.inner.directory.tensors[index];
        let (storage, range) = &self.inner.ranges[index];
        let bytes = &self.inner.storages[*storage].bytes()[range.clone()];
        Tensor { name: &entry.name, scheme: entry.scheme(), shape: &entry.shape, bytes }
    }

    /// Elements of all tensors together; a tied lm_head counts once.
    pub fn parameter_count(&self) -> u64 {
        self.inner.directory.parameter_count()
    }

    /// Bytes of all tensors together: what a backend has to hold or stream.
    pub fn weight_bytes(&self) -> u64 {
        self.inner.directory.tensors.iter().map(|t| t.bytes).sum()
    }

    /// Bytes of the file, or of a folder's shards.
    pub fn file_bytes(&self) -> u64 {
        self.inner.storages.iter().map(|storage| storage.bytes().len() as u64).sum()
    }

    /// What a user should know beside it, one line each: a folder without tokenizer, a weight file that was not read.
    pub fn notes(&self) -> &[String] {
        &self.inner.notes
    }

    /// The directory as JSON, as in docs/ARTIFACT.md. Of a folder it is the one its artifact would have, without hashes.
    pub fn directory_json(&self) -> serde_json::Value {
        // The directory came out of JSON or is built of numbers and strings: nothing in it can fail to be written.
        serde_json::to_value(&self.inner.directory).unwrap_or_default()
    }

    /// Reads a `.zynfer` file whole and compares every object with the hash in its directory. `progress` gets bytes done and
    /// bytes in all.
    ///
    /// # Errors
    /// The first object whose bytes are not what was written, with both hashes; or that this is a folder, which records none.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, LoadError> {
        if self.inner.is_folder {
            return Err(LoadError::new(
                self.path(),
                "a folder records no hashes to verify: compile it to a .zynfer file",
            ));
        }
        zynfer_file::verify(&self.inner, progress)
    }

    /// Whether the mapped files are still as they were opened. Call it after weights were read (uploaded, say): bytes that changed
    /// meanwhile must not be used.
    ///
    /// # Errors
    /// The file, and both lengths.
    pub fn check_unchanged(&self) -> Result<(), LoadError> {
        self.inner.storages.iter().try_for_each(Storage::check_unchanged)
    }
}

fn open_folder(path: &Path, mode: LoadMode) -> Result<Inner, LoadError> {
    let folder = source::Source::open_folder(path, mode)?;
    // Used in place, bf16 has to stand at even addresses; files are mapped at page starts, so the offset decides.
    for ((shard, range), tensor) in folder.ranges.iter().zip(&folder.directory.tensors) {
        if range.start % 2 != 0 {
            let problem = "bf16 at an odd place cannot be used in place: compile the folder to a .zynfer file";
            return Err(LoadError::new(folder.storages[*shard].path(), problem)
                .object(tensor.name.as_str())
                .numbers("an even byte offset", range.start));
        }
    }
    Ok(Inner {
        path: path.to_owned(),
        is_folder: true,
        by_name: index(&folder.directory),
        directory: folder.directory,
        tokenizer_json: folder.tokenizer_json,
        chat_template: folder.chat_template,
        storages: folder.storages,
        ranges: folder.ranges,
        notes: folder.notes,
    })
}

/// Tensor name to its place in the directory.
fn index(directory: &Directory) -> HashMap<String, usize> {
    directory.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.clone(), index)).collect()
}

/// Each item once with how often it stands there, in the order of their first.
pub(crate) fn counts<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for item in items {
        match counts.iter_mut().find(|(known, _)| *known == item) {
            Some((_, count)) => *count += 1,
            None => counts.push((item, 1)),
        }
    }
    counts
}
