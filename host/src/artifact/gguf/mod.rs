//! GGUF files: their bytes checked, their blocks decoded. It writes nothing and knows no models.
//!
//! `header` (one file: keys and tensors) → `parts` (all files of a model). `blocks` and `k_blocks` decode.

mod blocks;
mod cursor;
mod header;
mod k_blocks;
mod metadata;
mod parts;
mod types;

pub use header::{Entry, Header};
pub use metadata::{Metadata, Numbers, Texts, Value};
pub use parts::Gguf;
pub use types::{Decoder, TensorType};

use std::{io::Read, path::Path};

/// Whether the file at `path` begins as a GGUF file does.
pub fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file()); // opening a pipe would wait for ever
    regular
        && std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == header::MAGIC)
}
