//! Reading a `.zynfer` file: the byte positions of its parts, and the order in which they are checked before they are trusted. What
//! the directory may say is the business of `directory`.

use std::path::Path;

use super::{
    Inner, VerifyReport,
    directory::{Directory, FORMAT_VERSION, OBJECT_ALIGNMENT, TEMPLATE_OBJECT, TOKENIZER_OBJECT},
    error::LoadError,
    index, json,
    storage::{LoadMode, Storage, refuse_lfs_pointer},
};
use crate::quant::{Matrix, Scheme};

/// Bytes 0–7; the last one is the format's version.
pub(super) const MAGIC: [u8; 8] = *b"ZYNFER\0\x02";
/// Magic, the directory's length, and its blake3.
pub(super) const HEADER_BYTES: u64 = 48;
/// The payload starts at the first multiple of this behind the directory.
pub(super) const PAYLOAD_ALIGNMENT: u64 = 4096;
/// Largest directory accepted; the largest model allowed has some 4 MB.
pub(super) const DIRECTORY_CAP_BYTES: u64 = 100_000_000;
/// Bytes hashed between two reports of progress.
const STEP: usize = 8 << 20;

/// Opens and checks everything but the tensors' values.
pub(super) fn open(path: &Path, mode: LoadMode) -> Result<Inner, LoadError> {
    let storage = Storage::open(path, mode)?;
    let bytes = storage.bytes();
    let (directory, payload_start) = read_directory(path, bytes)?;
    let text = |name: &str| -> Result<Option<Vec<u8>>, LoadError> {
        let Some(object) = directory.objects.iter().find(|object| object.name == name) else { return Ok(None) };
        // Copied before it is hashed: what is interpreted later is what was checked, whatever happens to the file.
        let copy = bytes[payload_start + object.offset as usize..][..object.bytes as usize].to_vec();
        check_hash(path, name, object.blake3.as_deref(), blake3::hash(&copy))?;
        Ok(Some(copy))
    };
    let tokenizer_json = text(TOKENIZER_OBJECT)?;
    let chat_template =
        match text(TEMPLATE_OBJECT)? {
            None => None,
            Some(bytes) => Some(String::from_utf8(bytes).map_err(|e| {
                LoadError::new(path, format!("is not UTF-8: {}", e.utf8_error())).object(TEMPLATE_OBJECT)
            })?),
        };
    let ranges = directory.tensors.iter().map(|tensor| {
        let start = payload_start + tensor.offset as usize;
        (0, start..start + tensor.bytes as usize)
    });
    Ok(Inner {
        path: path.to_owned(),
        is_folder: false,
        ranges: ranges.collect(),
        by_name: index(&directory),
        directory,
        tokenizer_json,
        chat_template,
        storages: vec![storage],
        notes: Vec::new(),
    })
}

/// Header, directory and padding; gives the directory, whose places all lie inside the file, and the payload's start.
fn read_directory(path: &Path, bytes: &[u8]) -> Result<(Directory, usize), LoadError> {
    refuse_lfs_pointer(path, bytes)?;
    let file_bytes = bytes.len() as u64;
    let magic = &bytes[..bytes.len().min(8)];
    if magic.len() == 8 && magic[..7] == MAGIC[..7] && magic[7] != MAGIC[7] {
        return Err(LoadError::new(
            path,
            "another version of the format than this build reads: compile the model anew",
        )
        .object("magic")
        .numbers(MAGIC[7], magic[7]));
    }
    if magic != MAGIC {
        let what = match magic {
            [b'G', b'G', b'U', b'F', ..] => {
                "is a GGUF file, not a .zynfer file (compile it: zynfer compile FILE.gguf -o OUT.zynfer)"
            }
            [_, _, _, _, _, _, _, 0] if bytes.get(8) == Some(&b'{') => {
                "is a safetensors file, not a .zynfer file (give the folder it lies in)"
            }
            _ => "is not a .zynfer file",
        };
        let found = if magic.is_empty() { "an empty file".to_owned() } else { format!("\"{}\"", magic.escape_ascii()) };
        return Err(LoadError::new(path, what)
            .object("magic")
            .numbers(format_args!("\"{}\"", MAGIC.escape_ascii()), found));
    }
    let short = |wanted: u64, where_: &str| {
        LoadError::new(path, format!("file ends inside the {where_}"))
            .numbers(format_args!("at least {wanted} bytes"), file_bytes)
    };
    let Some((header, _)) = bytes.split_first_chunk::<{ HEADER_BYTES as usize }>() else {
        return Err(short(HEADER_BYTES, "header"));
    };
    let mut length = [0; 8];
    length.copy_from_slice(&header[8..16]);
    let directory_bytes = u64::from_le_bytes(length);
    if directory_bytes > DIRECTORY_CAP_BYTES {
        return Err(LoadError::new(path, "over the limit")
            .object("directory length")
            .numbers(format_args!("at most {DIRECTORY_CAP_BYTES} bytes"), directory_bytes));
    }
    let end = HEADER_BYTES + directory_bytes;
    let payload_start = end.next_multiple_of(PAYLOAD_ALIGNMENT);
    if end > file_bytes {
        return Err(short(end, "directory"));
    }
    // The copy is what is hashed and parsed, so a file that changes under the mapping cannot slip something in between.
    let text = bytes[HEADER_BYTES as usize..end as usize].to_vec();
    let (hash, recorded) = (blake3::hash(&text), &header[16..48]);
    if hash.as_bytes() != recorded {
        let recorded: String = recorded.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(LoadError::new(path, "damaged: its blake3 is not the one in the header")
            .object("directory")
            .numbers(recorded, hash));
    }
    if payload_start > file_bytes {
        return Err(short(payload_start, "padding after the directory"));
    }
    if let Some(at) = bytes[end as usize..payload_start as usize].iter().position(|byte| *byte != 0) {
        let at = end as usize + at;
        return Err(LoadError::new(path, format!("damaged at byte {at}")).object("padding").numbers(0, bytes[at]));
    }
    // The version first: a directory of another version may well have other keys.
    let VersionOnly { format_version } = json::parse(path, &text).map_err(|e| e.object("directory"))?;
    if format_version != u64::from(FORMAT_VERSION) {
        return Err(LoadError::new(path, "not the version this build reads")
            .object("format_version")
            .numbers(FORMAT_VERSION, format_version));
    }
    let mut directory: Directory = json::parse(path, &text).map_err(|e| e.object("directory"))?;
    // One directory has one spelling. This also refuses a key left out where `null` stands for nothing.
    if serde_json::to_vec(&directory).ok().as_deref() != Some(&text) {
        return Err(LoadError::new(path, "is not spelled as this format spells it").object("directory"));
    }
    // The file has it once, in `model`.
    directory.architecture.family = directory.model.family;
    directory.check(path, file_bytes - payload_start)?;
    Ok((directory, payload_start as usize))
}

#[derive(serde::Deserialize)]
struct VersionOnly {
    format_version: u64,
}

fn check_hash(path: &Path, name: &str, recorded: Option<&str>, found: blake3::Hash) -> Result<(), LoadError> {
    let recorded = recorded.unwrap_or("none");
    let found = found.to_hex();
    if recorded == found.as_str() {
        return Ok(());
    }
    Err(LoadError::new(path, "damaged: its blake3 is not the one in the directory")
        .object(name)
        .numbers(recorded, found))
}

/// Hashes every object and looks at every padding byte of the payload.
pub(super) fn verify(inner: &Inner, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, LoadError> {
    let path = inner.path.as_path();
    let storage = &inner.storages[0];
    let directory = &inner.directory;
    let total = directory.payload_bytes;
    // The payload is the end of the file, checked when it was opened.
    let payload_start = storage.bytes().len() as u64 - total;
    let mut report = VerifyReport { objects: 0, bytes: 0 };
    let mut buffer = vec![0; STEP.min(total as usize).max(OBJECT_ALIGNMENT as usize)];
    let mut end = 0u64;
    for (name, offset, bytes, blake3) in directory.places() {
        let padding = &mut buffer[..(offset - end) as usize]; // shorter than the alignment: there are no gaps
        storage.copy_at(payload_start + end, padding)?;
        if let Some(at) = padding.iter().position(|byte| *byte != 0) {
            return Err(LoadError::new(path, format!("damaged at byte {}", payload_start + end + at as u64))
                .object(format!("padding before {name}"))
                .numbers(0, padding[at]));
        }
        let mut hasher = blake3::Hasher::new();
        let mut at = offset;
        end = offset + bytes;
        while at < end {
            let step = (end - at).min(buffer.len() as u64) as usize;
            storage.copy_at(payload_start + at, &mut buffer[..step])?;
            hasher.update(&buffer[..step]);
            at += step as u64;
            report.bytes += step as u64;
            progress(at, total);
        }
        check_hash(path, name, blake3, hasher.finalize())?;
        report.objects += 1;
    }
    // What was written may have come from a file whose scales were no numbers.
    for (tensor, (_, range)) in directory.tensors.iter().zip(&inner.ranges) {
        let scheme = tensor.scheme();
        if scheme != Scheme::Bf16 {
            let matrix = Matrix::new(scheme, &tensor.shape, &storage.bytes()[range.clone()]);
            let finite = matrix.and_then(|matrix| matrix.check_finite());
            finite.map_err(|error| LoadError::new(path, error.to_string()).object(tensor.name.as_str()))?;
        }
    }
    storage.check_unchanged()?;
    progress(total, total);
    Ok(report)
}
