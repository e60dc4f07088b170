//! Reading numbers and strings off the bytes of a file, each compared with what is left before it is taken. It does not know what they
//! are for.

use std::path::Path;

use super::super::error::LoadError;

/// A place in a file's bytes. What is read is named in every refusal.
pub(super) struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// A refusal about `what` at this place.
    pub(super) fn refuse(&self, what: &str, problem: impl Into<String>) -> LoadError {
        LoadError::new(self.path, problem).object(what)
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, what: &str, count: u64) -> Result<&'a [u8], LoadError> {
        if count > self.left() {
            return Err(self
                .refuse(what, format!("file ends inside it, at byte {}", self.bytes.len()))
                .numbers(format_args!("{count} bytes"), format_args!("{} left", self.left())));
        }
        let taken = &self.bytes[self.at..][..count as usize]; // not above what is in memory
        self.at += count as usize;
        Ok(taken)
    }

    /// The next `N` bytes, for a number.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], LoadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N as u64)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, LoadError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, LoadError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string: its length in 8 bytes, then UTF-8.
    pub(super) fn text(&mut self, what: &str, at_most: u64) -> Result<&'a str, LoadError> {
        let length = self.u64(what)?;
        if length > at_most {
            return Err(self
                .refuse(what, "string over the limit")
                .numbers(format_args!("at most {at_most} bytes"), length));
        }
        let at = self.at;
        let bytes = self.take(what, length)?;
        std::str::from_utf8(bytes)
            .map_err(|error| self.refuse(what, format!("is not UTF-8 at byte {}: {error}", at + error.valid_up_to())))
    }

    /// A number of things of at least `each` bytes, believed only where the bytes left could hold them.
    pub(super) fn count(&mut self, what: &str, each: u64) -> Result<usize, LoadError> {
        let count = self.u64(what)?;
        let most = self.left() / each;
        if count > most {
            return Err(self
                .refuse(what, format!("more than the {} bytes left can hold", self.left()))
                .numbers(format_args!("at most {most}"), count));
        }
        Ok(count as usize)
    }
}
