//! One safetensors file: 8 bytes of header length, a JSON header, then the tensors' bytes without gaps. Everything the header says
//! is compared with the file before anything is used. It does not know which tensors a model needs, nor about several shards.

use std::{collections::HashMap, fmt, ops::Range, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::{
    error::LoadError,
    json,
    storage::{LoadMode, Storage, refuse_lfs_pointer},
};

/// Largest header accepted, the format's own limit.
pub(super) const HEADER_CAP_BYTES: u64 = 100_000_000;

/// A tensor of one file.
pub(super) struct Entry {
    pub(super) name: String,
    /// As spelled in the header.
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    /// Where its bytes stand, counted from the start of the file.
    pub(super) range: Range<usize>,
}

/// An open, checked file.
pub(super) struct SafetensorsFile {
    pub(super) storage: Storage,
    /// In the order of their bytes.
    pub(super) tensors: Vec<Entry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl SafetensorsFile {
    /// Opens `path` and checks it whole, except for the values of the weights.
    pub(super) fn open(path: &Path, mode: LoadMode) -> Result<Self, LoadError> {
        let storage = Storage::open(path, mode)?;
        let bytes = storage.bytes();
        refuse_lfs_pointer(path, bytes)?;
        let file_bytes = bytes.len() as u64;
        let Some((length, _)) = bytes.split_first_chunk::<8>() else {
            return Err(
                LoadError::new(path, "too short for the header's length").numbers("at least 8 bytes", file_bytes)
            );
        };
        let header_bytes = u64::from_le_bytes(*length);
        if header_bytes > HEADER_CAP_BYTES {
            return Err(LoadError::new(path, "header length over the limit (no safetensors file, or damaged)")
                .numbers(format_args!("at most {HEADER_CAP_BYTES} bytes"), header_bytes));
        }
        let data_start = 8 + header_bytes; // cannot overflow below the cap
        if data_start > file_bytes {
            return Err(LoadError::new(path, "file ends inside the header")
                .numbers(format_args!("at least {data_start} bytes"), file_bytes));
        }
        let Header(members) = json::parse(path, &bytes[8..data_start as usize]).map_err(|e| e.object("header"))?;
        let tensors = place(path, members, data_start, file_bytes)?;
        Ok(Self { storage, tensors })
    }
}

/// Turns the header's claims into places in the file, or says which claim does not hold.
fn place(path: &Path, members: Vec<(String, Info)>, data_start: u64, file_bytes: u64) -> Result<Vec<Entry>, LoadError> {
    let data_bytes = file_bytes - data_start;
    let mut entries = Vec::with_capacity(members.len());
    for (name, info) in members {
        let refuse = |problem: &str| LoadError::new(path, problem).object(name.as_str());
        let [begin, end] = info.data_offsets;
        if begin > end {
            return Err(refuse("data_offsets run backwards").numbers(format_args!("an end of at least {begin}"), end));
        }
        if end > data_bytes {
            return Err(refuse("file ends before the tensor does (incomplete download?)")
                .numbers(format_args!("at least {} bytes", data_start.saturating_add(end)), file_bytes));
        }
        let element = element_bytes(&info.dtype).ok_or_else(|| refuse(&format!("unknown dtype {:?}", info.dtype)))?;
        let wanted = info.shape.iter().try_fold(element, |product, extent| product.checked_mul(*extent));
        match wanted {
            Some(wanted) if wanted == end - begin => {}
            Some(wanted) => {
                let problem = format!("shape {:?} of {} does not fill data_offsets", info.shape, info.dtype);
                return Err(refuse(&problem).numbers(format_args!("{wanted} bytes"), end - begin));
            }
            None => {
                let problem = format!("shape {:?} of {} overflows", info.shape, info.dtype);
                return Err(refuse(&problem).numbers(format_args!("at most {data_bytes} bytes"), "more than 2^64"));
            }
        }
        // Extents fit usize: their product is within the file, unless one of them is 0.
        let shape: Option<Vec<usize>> = info.shape.iter().map(|extent| usize::try_from(*extent).ok()).collect();
        let shape = shape.ok_or_else(|| refuse("an extent does not fit the address space"))?;
        let range = (data_start + begin) as usize..(data_start + end) as usize; // both at most file_bytes, which is in memory
        entries.push(Entry { name, dtype: info.dtype, shape, range });
    }
    entries.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut at = data_start as usize;
    for entry in &entries {
        if entry.range.start != at {
            let problem =
                if entry.range.start < at { "overlaps the tensor before it" } else { "leaves a gap before it" };
            return Err(LoadError::new(path, problem).object(entry.name.as_str()).numbers(
                format_args!("data_offsets to begin at {}", at as u64 - data_start),
                entry.range.start as u64 - data_start,
            ));
        }
        at = entry.range.end;
    }
    if at as u64 != file_bytes {
        return Err(LoadError::new(path, "bytes after the last tensor").numbers(format_args!("{at} bytes"), file_bytes));
    }
    Ok(entries)
}

/// Bytes of one element of a dtype of the format; sub-byte dtypes are not known here.
fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" | "C64" => 8,
        _ => return None,
    })
}

/// The header's tensors in file order; `__metadata__` is checked to be strings and dropped.
struct Header(Vec<(String, Info)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Header, A::Error> {
                let mut members = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some(name) = access.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("the tensor `{name}` stands twice")));
                    }
                    if name == "__metadata__" {
                        access.next_value::<Option<HashMap<String, String>>>()?;
                    } else {
                        let info = access.next_value::<Info>().map_err(|e| A::Error::custom(format!("{name}: {e}")))?;
                        members.push((name, info));
                    }
                }
                Ok(Header(members))
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}
