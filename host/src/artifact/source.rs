//! What a model is compiled from: a Hugging Face folder or a GGUF file, seen alike. Opening one is the business of `folder` and
//! `gguf::open`; here is what they give, and how a tensor's elements are read from it piece by piece.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use half::bf16;

use super::{
    directory::Directory,
    error::LoadError,
    gguf::{self, TensorType, row_in_pairs},
    storage::{LoadMode, Storage},
};

/// A checked source, with the directory its artifact will have (without hashes and sources' hashes).
pub(super) struct Source {
    pub(super) directory: Directory,
    pub(super) tokenizer_json: Option<Vec<u8>>,
    pub(super) chat_template: Option<String>,
    /// The files that hold tensors.
    pub(super) storages: Vec<Storage>,
    /// Of each tensor of the directory: its file and its bytes there.
    pub(super) ranges: Vec<(usize, Range<usize>)>,
    /// Of each tensor of the directory: what its bytes are.
    pub(super) stored: Vec<Stored>,
    /// Real paths of all files read, in the order of `directory.model.sources`.
    pub(super) source_paths: Vec<PathBuf>,
    /// What a user should know and nothing else says, one line each.
    pub(super) notes: Vec<String>,
}

/// How a tensor stands in its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stored {
    /// bf16, row-major.
    Bf16,
    /// Blocks of a GGUF type, row-major; with a head_dim where the rows of each head stand in pairs of the rotation.
    Blocks { kind: TensorType, rows_in_pairs: Option<usize> },
}

impl Source {
    /// Opens a folder or a GGUF file. `round` says whether tensors that are not bfloat16 may be rounded to it.
    pub(super) fn open(path: &Path, mode: LoadMode, round: bool) -> Result<Self, LoadError> {
        let meta = std::fs::metadata(path).map_err(|e| LoadError::io(path, "cannot be opened", e))?;
        if meta.is_dir() {
            return Self::open_folder(path, mode);
        }
        if gguf::is_gguf(path) {
            return Self::open_gguf(path, mode, round);
        }
        Err(LoadError::new(
            path,
            "is neither a folder nor a GGUF file: compile takes a Hugging Face folder or a .gguf file",
        ))
    }

    /// Copies elements of a tensor as bf16 bytes, from element `first` on, which is a multiple of 256. Other types are rounded to nearest.
    pub(super) fn copy_bf16(&self, index: usize, first: usize, target: &mut [u8]) -> Result<(), LoadError> {
        if self.stored[index] == Stored::Bf16 {
            let (storage, range) = &self.ranges[index];
            return self.storages[*storage].copy_at((range.start + 2 * first) as u64, target);
        }
        let mut values = vec![0f32; target.len() / 2];
        self.copy_f32(index, first, &mut values)?;
        for (pair, value) in target.chunks_exact_mut(2).zip(values) {
            pair.copy_from_slice(&bf16::from_f32(value).to_le_bytes());
        }
        Ok(())
    }

    /// Decodes elements of a tensor, from element `first` on, which is a multiple of 256; the end is one too, or the tensor's.
    pub(super) fn copy_f32(&self, index: usize, first: usize, target: &mut [f32]) -> Result<(), LoadError> {
        let (kind, head_dim) = match self.stored[index] {
            Stored::Bf16 => (TensorType::BF16, None),
            Stored::Blocks { kind, rows_in_pairs } => (kind, rows_in_pairs),
        };
        let Some(head_dim) = head_dim else { return self.decode(index, kind, first, target) };
        let columns = self.directory.tensors[index].shape.get(1).copied().unwrap_or(1);
        let (mut at, mut done) = (first, 0);
        while done < target.len() {
            let (row, column) = (at / columns, at % columns);
            let count = (columns - column).min(target.len() - done);
            let from = row_in_pairs(row, head_dim) * columns + column;
            self.decode(index, kind, from, &mut target[done..done + count])?;
            (at, done) = (at + count, done + count);
        }
        Ok(())
    }

    /// Decodes elements that stand one behind the other in the file, whole blocks of them.
    fn decode(&self, index: usize, kind: TensorType, first: usize, target: &mut [f32]) -> Result<(), LoadError> {
        let (storage, range) = &self.ranges[index];
        let storage = &self.storages[*storage];
        let decoder = kind.decoder().ok_or_else(|| LoadError::new(storage.path(), format!("{kind} is not read")))?;
        let (elements, bytes) = (kind.block_elements() as usize, kind.block_bytes() as usize);
        let mut blocks = vec![0; target.len() / elements * bytes];
        storage.copy_at((range.start + first / elements * bytes) as u64, &mut blocks)?;
        decoder(&blocks, target);
        Ok(())
    }
}
