//! Header, metadata and tensor list of one GGUF file of version 2 or 3, little-endian. Everything it claims is compared with the file
//! before it is used. It knows neither models nor split files.
//!
//! ```text
//! "GGUF", version u32, tensors u64, keys u64
//! keys:     name, type u32, value
//! tensors:  name, dimensions u32, extents u64 (innermost first), type u32, offset u64
//! padding to the alignment; then the tensors' bytes, each at a multiple of the alignment from there
//! ```

use std::{collections::HashSet, ops::Range, path::Path};

use super::{
    super::{error::LoadError, storage::refuse_lfs_pointer},
    cursor::Cursor,
    metadata::Metadata,
    types::TensorType,
};

/// First bytes of a file.
pub(super) const MAGIC: [u8; 4] = *b"GGUF";
/// Where tensors start, unless `general.alignment` says otherwise.
const ALIGNMENT: u64 = 32;
/// Alignments accepted: powers of two from here to there.
const ALIGNMENTS: (u64, u64) = (8, 1 << 20);
/// Longest name of a tensor, the format's own limit.
const NAME_BYTES: u64 = 64;
/// Most tensors of a file; the largest published models have some thousands. It bounds the memory of the list.
const MOST_TENSORS: u64 = 1 << 16;
/// Length of a name, one character, dimensions, one extent, type, offset.
const SMALLEST_TENSOR: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// As in the file, `blk.0.attn_q.weight`.
    pub name: String,
    /// Element type.
    pub kind: TensorType,
    /// Extents, outermost first (the file has them the other way round).
    pub shape: Vec<usize>,
    /// Where its bytes stand, counted from the start of the file.
    pub range: Range<usize>,
}

/// What stands before the tensors' bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// 2 or 3; they differ in nothing that is read here.
    pub version: u32,
    /// Keys and values.
    pub metadata: Metadata,
    /// The tensors, in the order of their bytes.
    pub tensors: Vec<Entry>,
}

impl Header {
    /// Reads the header off a whole file's bytes; `path` is for messages.
    ///
    /// # Errors
    /// The first claim that does not hold, with both numbers.
    pub fn read(path: &Path, bytes: &[u8]) -> Result<Self, LoadError> {
        refuse_lfs_pointer(path, bytes)?;
        let mut cursor = Cursor::new(path, bytes);
        let cursor = &mut cursor;
        let magic: [u8; 4] = cursor.array("magic")?;
        if magic != MAGIC {
            return Err(cursor
                .refuse("magic", "is no GGUF file")
                .numbers("\"GGUF\"", format_args!("\"{}\"", magic.escape_ascii())));
        }
        let version = cursor.u32("version")?;
        if matches!(version.swap_bytes(), 1..=255) {
            return Err(cursor
                .refuse("version", "is a big-endian GGUF file, only little-endian ones are read")
                .numbers("2 or 3", format_args!("{} with its bytes swapped", version.swap_bytes())));
        }
        if !matches!(version, 2 | 3) {
            return Err(cursor.refuse("version", "not a version that is read").numbers("2 or 3", version));
        }
        let tensor_count = cursor.u64("number of tensors")?;
        let key_count = cursor.u64("number of keys")?;
        let metadata = Metadata::read(cursor, key_count)?;
        let alignment = alignment(path, &metadata)?;
        let most = (cursor.left() / SMALLEST_TENSOR).min(MOST_TENSORS);
        if tensor_count > most {
            let problem = format!("more tensors than the {} bytes left can hold, or over the limit", cursor.left());
            return Err(cursor.refuse("header", problem).numbers(format_args!("at most {most}"), tensor_count));
        }
        let mut claims = Vec::new();
        let mut seen = HashSet::new();
        for index in 0..tensor_count {
            let claim = Claim::read(cursor, index)?;
            if !seen.insert(claim.name.clone()) {
                return Err(cursor.refuse(&claim.name, "the tensor stands twice"));
            }
            claims.push(claim);
        }
        let tensors = place(path, claims, cursor.position() as u64, alignment, bytes.len() as u64)?;
        Ok(Self { version, metadata, tensors })
    }
}

fn alignment(path: &Path, metadata: &Metadata) -> Result<u64, LoadError> {
    let key = "general.alignment";
    let (least, most) = ALIGNMENTS;
    match metadata.count(path, key)? {
        None => Ok(ALIGNMENT),
        Some(alignment) if alignment.is_power_of_two() && (least..=most).contains(&alignment) => Ok(alignment),
        Some(other) => Err(LoadError::new(path, "no alignment that is read")
            .object(key)
            .numbers(format_args!("a power of two from {least} to {most}"), other)),
    }
}

/// What the list says of a tensor.
struct Claim {
    name: String,
    kind: TensorType,
    shape: Vec<usize>,
    /// From the start of the tensors' bytes.
    offset: u64,
    bytes: u64,
}

impl Claim {
    fn read(cursor: &mut Cursor, index: u64) -> Result<Self, LoadError> {
        let name = cursor.text(&format!("name of tensor {index}"), NAME_BYTES)?;
        if name.is_empty() {
            return Err(cursor.refuse(&format!("name of tensor {index}"), "is empty"));
        }
        let dimensions = cursor.u32(name)?;
        if !matches!(dimensions, 1..=4) {
            return Err(cursor.refuse(name, "wrong number of dimensions").numbers("1 to 4", dimensions));
        }
        let mut extents = Vec::with_capacity(4);
        for _ in 0..dimensions {
            extents.push(cursor.u64(name)?);
        }
        let number = cursor.u32(name)?;
        let offset = cursor.u64(name)?;
        let refuse = |problem: String| cursor.refuse(name, problem);
        if extents.contains(&0) {
            return Err(refuse(format!("an extent of {extents:?} is 0")).numbers("at least 1", 0));
        }
        let kind = TensorType::from_number(number)
            .ok_or_else(|| refuse("unknown element type".into()).numbers("a type of the format", number))?;
        let (elements, bytes) = (kind.block_elements(), kind.block_bytes());
        if !extents[0].is_multiple_of(elements) {
            return Err(refuse(format!("a row of {kind} is no whole number of blocks"))
                .numbers(format_args!("a multiple of {elements} elements"), extents[0]));
        }
        let blocks = extents.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
        let Some(bytes) = blocks.and_then(|product| (product / elements).checked_mul(bytes)) else {
            return Err(refuse(format!("extents {extents:?} of {kind} overflow")).numbers("below 2^64", "more"));
        };
        let shape: Option<Vec<usize>> = extents.iter().rev().map(|extent| usize::try_from(*extent).ok()).collect();
        let shape = shape.ok_or_else(|| refuse("an extent does not fit the address space".into()))?;
        Ok(Self { name: name.to_owned(), kind, shape, offset, bytes })
    }
}

/// Turns the list's claims into places in the file. Tensors stand one behind the other, each at the next multiple of the alignment.
fn place(
    path: &Path,
    mut claims: Vec<Claim>,
    header_end: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<Vec<Entry>, LoadError> {
    let data_start = header_end.next_multiple_of(alignment); // both are far below 2^63
    claims.sort_by_key(|claim| claim.offset);
    let mut entries = Vec::with_capacity(claims.len());
    let mut end = 0u64;
    for Claim { name, kind, shape, offset, bytes } in claims {
        let refuse = |problem: &str| LoadError::new(path, problem).object(name.as_str());
        if !offset.is_multiple_of(alignment) {
            return Err(refuse("badly aligned").numbers(format_args!("a multiple of {alignment}"), offset));
        }
        let next = end.next_multiple_of(alignment);
        if offset != next {
            let problem = if offset < end { "overlaps the tensor before it" } else { "leaves a gap before it" };
            return Err(refuse(problem).numbers(format_args!("offset {next}"), offset));
        }
        let wanted = data_start.checked_add(offset).and_then(|start| start.checked_add(bytes));
        match wanted {
            Some(wanted) if wanted <= file_bytes => {}
            _ => {
                let wanted = wanted.map_or("more than 2^64".to_owned(), |wanted| wanted.to_string());
                return Err(refuse("file ends before the tensor does (incomplete download?)")
                    .numbers(format_args!("at least {wanted} bytes"), file_bytes));
            }
        }
        end = offset + bytes;
        let start = (data_start + offset) as usize; // inside the file, which is in memory
        entries.push(Entry { name, kind, shape, range: start..start + bytes as usize });
    }
    // Writers fill up to the alignment behind the last tensor, or leave it.
    let most = (data_start + end).next_multiple_of(alignment);
    if file_bytes > most {
        return Err(LoadError::new(path, "bytes after the last tensor")
            .numbers(format_args!("at most {most} bytes"), file_bytes));
    }
    Ok(entries)
}
