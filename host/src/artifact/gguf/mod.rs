//! GGUF files as a source of models: their bytes checked, their blocks decoded, their metadata turned into what a Hugging Face folder
//! says, so that everything behind is the same for both. It writes nothing. docs/ARTIFACT.md says what is accepted.
//!
//! `header` (one file: keys and tensors) → `parts` (all files of a model) → `config`, `tokenizer`, `names` (as a folder says it) → `open`
//! (the source that is compiled). `blocks` and `k_blocks` decode, `regroup` keeps.

mod blocks;
mod config;
mod cursor;
mod header;
mod k_blocks;
mod metadata;
mod names;
mod open;
mod parts;
mod regroup;
mod tokenizer;
mod types;

pub use header::{Entry, Header};
pub use metadata::{Metadata, Numbers, Texts, Value};
pub(super) use names::row_in_pairs;
pub use open::{config, kind_counts, refusals};
pub use parts::Gguf;
pub use regroup::Regrouped;
pub use types::{Decoder, TensorType};

use std::{io::Read, path::Path};

/// Whether the file at `path` begins as a GGUF file does.
pub fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file()); // opening a pipe would wait for ever
    regular
        && std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == header::MAGIC)
}
