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
    gguf::{self, Regrouped, TensorType, row_in_pairs},
    storage::{LoadMode, Storage},
};
use crate::quant::{Choice, Recipe, Scheme};

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
    /// Of each tensor of the directory: whether no value may change on the way into the artifact.
    pub(super) exact: Vec<bool>,
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

impl Stored {
    /// How a matrix's blocks become a scheme's object without a change of any value; `None` for plain numbers and for vectors.
    pub(super) fn regrouped(self, shape: &[usize]) -> Option<Regrouped> {
        match self {
            Self::Blocks { kind, .. } if shape.len() == 2 => kind.regrouped(),
            _ => None,
        }
    }
}

impl Source {
    /// Opens a folder or a GGUF file, and plans its artifact by `recipe`; without one nothing is changed that is not bfloat16 already.
    pub(super) fn open(path: &Path, mode: LoadMode, recipe: Option<&Recipe>) -> Result<Self, LoadError> {
        let meta = std::fs::metadata(path).map_err(|e| LoadError::io(path, "cannot be opened", e))?;
        let mut source = if meta.is_dir() {
            Self::open_folder(path, mode)?
        } else if gguf::is_gguf(path) {
            Self::open_gguf(path, mode, recipe)?
        } else {
            let problem = "is neither a folder nor a GGUF file: compile takes a Hugging Face folder or a .gguf file";
            return Err(LoadError::new(path, problem));
        };
        if let Some(recipe) = recipe {
            source.choose(path, recipe)?;
        }
        Ok(source)
    }

    fn choose(&mut self, path: &Path, recipe: &Recipe) -> Result<(), LoadError> {
        let tied = self.directory.architecture.tie_word_embeddings;
        let choices = self.directory.tensors.iter().map(|t| recipe.choice_of(&t.name, &t.shape, tied));
        let choices: Vec<Choice> = choices.collect();
        self.exact = choices.iter().map(|choice| *choice == Choice::Source).collect();
        let tensors = self.directory.tensors.iter().zip(&self.stored);
        let schemes = choices.iter().zip(tensors).map(|(choice, (tensor, stored))| match choice {
            Choice::Scheme(scheme) => *scheme,
            Choice::Source => stored.regrouped(&tensor.shape).map_or(Scheme::Bf16, |regrouped| regrouped.scheme),
        });
        self.directory.store_as(path, &schemes.collect::<Vec<_>>())
    }

    /// Where a refusal about a tensor points to.
    pub(super) fn file_of(&self, index: usize) -> &Path {
        self.storages[self.ranges[index].0].path()
    }

    /// The blocks of whole rows of a matrix, as they stand in the file but in the checkpoint's order of rows.
    pub(super) fn copy_blocks(&self, index: usize, rows: Range<usize>) -> Result<Vec<u8>, LoadError> {
        let [n, _] = self.directory.tensors[index].shape[..] else { return Ok(Vec::new()) };
        let (storage, range) = &self.ranges[index];
        let row_bytes = range.len() / n;
        let mut blocks = vec![0; rows.len() * row_bytes];
        let copy = |row: usize, target: &mut [u8]| {
            self.storages[*storage].copy_at((range.start + row * row_bytes) as u64, target)
        };
        match self.stored[index] {
            Stored::Blocks { rows_in_pairs: Some(head_dim), .. } => {
                for (row, target) in rows.zip(blocks.chunks_exact_mut(row_bytes)) {
                    copy(row_in_pairs(row, head_dim), target)?;
                }
            }
            _ => copy(rows.start, &mut blocks)?,
        }
        Ok(blocks)
    }

    /// Copies elements of a tensor as bf16 bytes, from element `first` on, which is a multiple of 256. Other types are rounded to nearest,
    /// or refused where the tensor is to be [`Source::exact`] and bf16 does not hold an element.
    pub(super) fn copy_bf16(&self, index: usize, first: usize, target: &mut [u8]) -> Result<(), LoadError> {
        if self.stored[index] == Stored::Bf16 {
            let (storage, range) = &self.ranges[index];
            return self.storages[*storage].copy_at((range.start + 2 * first) as u64, target);
        }
        let mut values = vec![0f32; target.len() / 2];
        self.copy_f32(index, first, &mut values)?;
        let exact = self.exact[index];
        for (at, (pair, value)) in target.chunks_exact_mut(2).zip(values).enumerate() {
            let rounded = bf16::from_f32(value);
            if exact && value.is_finite() && rounded.to_f32() != value {
                let problem = format!("element {} would be rounded to bf16, and source changes no value", first + at);
                return Err(LoadError::new(self.file_of(index), problem)
                    .object(self.directory.tensors[index].name.as_str())
                    .numbers("a number that bf16 holds (--quant bf16 rounds)", value));
            }
            pair.copy_from_slice(&rounded.to_le_bytes());
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
