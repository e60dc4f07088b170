//! Clang's offload bundles: where in one the code object for this device lies. Bytes come through a reader, because HIP passes a bundle
//! without its length. Compressed bundles are refused by name.

use std::ops::Range;

use crate::properties::ARCH;
use crate::runtime::Outcome;
use crate::status::Status;

/// First bytes of a bundle.
pub const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
/// First bytes of a compressed one.
const COMPRESSED: &[u8; 4] = b"CCOB";
/// Most entries and longest name that are looked at: a broken bundle must not make this read gigabytes.
const MAX_ENTRIES: u64 = 1024;
const MAX_NAME: u64 = 1024;

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Whether an entry of that name is code for this device.
fn is_ours(name: &[u8]) -> bool {
    let Some(name) = std::str::from_utf8(name).ok() else { return false };
    let Some((_, target)) = name.split_once("amdgcn-amd-amdhsa-") else { return false };
    target.trim_start_matches('-').split(':').next().is_some_and(|arch| arch.as_bytes() == ARCH.to_bytes())
}

/// Where the code object for this device lies in what `read(offset, length)` reads: everything from 0 for a plain code object (`None`), a
/// part of a bundle, or `hipErrorNoBinaryForGpu` where a bundle has none.
pub fn find<'a>(mut read: impl FnMut(usize, usize) -> Outcome<&'a [u8]>) -> Outcome<Option<Range<usize>>> {
    let start = read(0, 4)?;
    if start == COMPRESSED {
        eprintln!("zynfer emulator: a compressed offload bundle is given; compile with --no-offload-compress");
        return Err(Status::INVALID_IMAGE);
    }
    if start != &MAGIC[..4] || read(0, MAGIC.len())? != MAGIC {
        return Ok(None);
    }
    let entries = word(read(MAGIC.len(), 8)?);
    let mut at = MAGIC.len() + 8;
    for _ in 0..entries.min(MAX_ENTRIES) {
        let header = read(at, 24)?;
        let (offset, bytes, name) = (word(&header[..8]), word(&header[8..16]), word(&header[16..]));
        if name > MAX_NAME {
            return Err(Status::INVALID_IMAGE);
        }
        if is_ours(read(at + 24, name as usize)?) {
            let end = offset.checked_add(bytes).filter(|end| *end <= 1 << 32).ok_or(Status::INVALID_IMAGE)?;
            return Ok(Some(offset as usize..end as usize));
        }
        at += 24 + name as usize;
    }
    eprintln!("zynfer emulator: none of the {entries} entries of the offload bundle is for {}", ARCH.to_string_lossy());
    Err(Status::NO_BINARY_FOR_GPU)
}
