//! The bytes of one file, mapped or read: the one place that maps memory. It knows nothing of what the bytes mean.

use std::{
    fs::{File, Metadata},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytemuck::{Pod, Zeroable};
use memmap2::Mmap;

use super::error::LoadError;

/// How the bytes of weights reach memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadMode {
    /// Mapped: nothing is read until it is touched, and several processes share one copy. The file must not be shortened meanwhile.
    #[default]
    Mmap,
    /// Read whole with large sequential reads into memory of our own: for slow or remote storage, and for files that may change.
    Read,
}

/// The unit of owned storage: its alignment makes every 256-aligned object as aligned in memory as in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(256))]
struct Line([u8; 256]);

enum Backing {
    Mapped(Mmap),
    Owned { lines: Box<[Line]>, len: usize },
}

/// The bytes of one regular file, all of them, unchanged while the value lives (see [`Storage::check_unchanged`]).
pub(super) struct Storage {
    path: PathBuf,
    file: File,
    len: u64,
    modified: Option<SystemTime>,
    backing: Backing,
}

/// Opens `path` if it is a regular file. The kind is looked at first: opening a pipe would wait for ever.
fn open_regular(path: &Path) -> Result<(File, Metadata), LoadError> {
    let is_file = |meta: &Metadata| match meta.is_file() {
        true => Ok(()),
        false => {
            Err(LoadError::new(path, if meta.is_dir() { "is a folder, not a file" } else { "is no regular file" }))
        }
    };
    is_file(&std::fs::metadata(path).map_err(|e| LoadError::io(path, "cannot be opened", e))?)?;
    let file = File::open(path).map_err(|e| LoadError::io(path, "cannot be opened", e))?;
    let meta = file.metadata().map_err(|e| LoadError::io(path, "cannot be looked at", e))?;
    is_file(&meta)?;
    Ok((file, meta))
}

/// Reads a small file whole; `cap` bytes at most.
pub(super) fn read_small(path: &Path, cap: u64) -> Result<Vec<u8>, LoadError> {
    let (file, meta) = open_regular(path)?;
    if meta.len() > cap {
        return Err(LoadError::new(path, "too large").numbers(format_args!("at most {cap} bytes"), meta.len()));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    file.take(cap).read_to_end(&mut bytes).map_err(|e| LoadError::io(path, "cannot be read", e))?;
    Ok(bytes)
}

impl Storage {
    pub(super) fn open(path: &Path, mode: LoadMode) -> Result<Self, LoadError> {
        let (mut file, meta) = open_regular(path)?;
        let len = meta.len();
        let size = usize::try_from(len)
            .map_err(|_| LoadError::new(path, "does not fit the address space").numbers(usize::MAX, len))?;
        let backing = match mode {
            LoadMode::Mmap if len > 0 => Backing::Mapped(map(path, &file)?),
            _ => {
                // A file may be larger than any memory, so the refusal must be an error and not an abort.
                let lines = bytemuck::allocation::try_zeroed_slice_box::<Line>(size.div_ceil(256));
                let mut lines = lines.map_err(|()| {
                    LoadError::new(path, format!("{size} bytes do not fit into memory (--load mmap needs none)"))
                })?;
                let target = &mut bytemuck::cast_slice_mut(&mut lines)[..size];
                let mut done = 0;
                while done < size {
                    match file.read(&mut target[done..]) {
                        Ok(0) => return Err(LoadError::new(path, "ended while being read").numbers(size, done)),
                        Ok(n) => done += n,
                        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(LoadError::io(path, format!("cannot be read at byte {done}"), e)),
                    }
                }
                Backing::Owned { lines, len: size }
            }
        };
        Ok(Self { path: path.to_owned(), file, len, modified: meta.modified().ok(), backing })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.backing {
            Backing::Mapped(map) => map,
            Backing::Owned { lines, len } => &bytemuck::cast_slice(lines)[..*len],
        }
    }

    /// Copies the bytes at `at` into `target`: the way to read much at once. Mapped bytes are read through the file, since a
    /// mapping that was shortened by somebody else answers with a signal, a read with an error.
    pub(super) fn copy_at(&self, at: u64, target: &mut [u8]) -> Result<(), LoadError> {
        let end = at + target.len() as u64;
        match &self.backing {
            Backing::Owned { .. } => {
                target.copy_from_slice(&self.bytes()[at as usize..end as usize]);
                Ok(())
            }
            Backing::Mapped(_) => self.file.read_exact_at(target, at).map_err(|e| {
                let problem = format!("cannot be read from byte {at} to {end} (was it shortened?)");
                LoadError::io(&self.path, problem, e)
            }),
        }
    }

    /// Whether the mapped file still has the length and time it had when opened; owned bytes cannot change. Call it after reading
    /// weights: what was read from a file that changed meanwhile must not be used.
    ///
    /// # Errors
    /// Both lengths, or that it was modified.
    pub(super) fn check_unchanged(&self) -> Result<(), LoadError> {
        if matches!(self.backing, Backing::Owned { .. }) {
            return Ok(());
        }
        let meta = self.file.metadata().map_err(|e| LoadError::io(&self.path, "cannot be looked at", e))?;
        if meta.len() != self.len {
            return Err(
                LoadError::new(&self.path, "changed its length in bytes while in use").numbers(self.len, meta.len())
            );
        }
        if meta.modified().ok() != self.modified {
            return Err(LoadError::new(&self.path, "was modified while in use"));
        }
        Ok(())
    }
}

#[allow(unsafe_code, reason = "the one mmap of the project; the argument stands at the block")]
fn map(path: &Path, file: &File) -> Result<Mmap, LoadError> {
    // SAFETY: the mapping is private to this `Storage`, read-only, and handed out only as `&[u8]` that cannot outlive it. What the
    // type system cannot promise is that no other process writes to or shortens the file: a write would change bytes under a
    // shared reference, a cut would raise SIGBUS. Weights are plain numbers for which every bit pattern is valid, everything that
    // is interpreted (headers, directory, tokenizer) is checked or copied when it is read, `check_unchanged` reports a change, our
    // own writer never touches a file in place (it renames), and `LoadMode::Read` is there for files others may rewrite.
    let map = unsafe { Mmap::map(file) };
    map.map_err(|e| LoadError::io(path, "cannot be mapped into memory", e))
}

/// Recognises the small text file that stands in for a large one where Git LFS did not fetch it.
pub(super) fn refuse_lfs_pointer(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    if !bytes.starts_with(b"version https://git-lfs") {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).into_owned();
    let size = text.lines().find_map(|line| line.strip_prefix("size ")?.trim().parse::<u64>().ok());
    let error = LoadError::new(path, "is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder");
    Err(match size {
        Some(size) => error.numbers(format_args!("{size} bytes"), bytes.len()),
        None => error,
    })
}
