//! Writing a `.zynfer` file: streamed, checked, and under its final name only when it was read back whole. It decides nothing about
//! the contents; `source` and `directory` did.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use half::bf16;

use super::{
    Artifact, counts,
    directory::{Directory, TOKENIZER_OBJECT},
    error::LoadError,
    quantize::{self, MatrixEncoder},
    source::Source,
    storage::{LoadMode, Storage},
    target::{Pending, Target},
    zynfer_file::{DIRECTORY_CAP_BYTES, HEADER_BYTES, MAGIC, PAYLOAD_ALIGNMENT},
};
use crate::quant::{Recipe, Scheme};

/// Bytes moved at a time: large enough for any storage, small beside any model.
const STEP: usize = 4 << 20;

/// What [`compile`] wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileReport {
    /// The artifact.
    pub out: PathBuf,
    /// The model's name.
    pub name: String,
    /// Its length.
    pub file_bytes: u64,
    /// Bytes of all tensors.
    pub weight_bytes: u64,
    /// Bytes of all tensors in the source.
    pub source_weight_bytes: u64,
    /// Schemes with how many tensors have each, in order of first use.
    pub schemes: Vec<(Scheme, usize)>,
    /// Tensors stored.
    pub tensor_count: usize,
    /// Elements of all tensors.
    pub parameter_count: u64,
    /// Source files, read and hashed.
    pub source_count: usize,
    /// Whether text can be tokenized; a checkpoint without tokenizer.json can be run by ids only.
    pub has_tokenizer: bool,
    /// Whether there is a chat template.
    pub has_chat_template: bool,
    /// What a user should know beside it, one line each.
    pub notes: Vec<String>,
    /// Time spent.
    pub elapsed: Duration,
}

/// Compiles `src`, a Hugging Face folder or a GGUF file, into the artifact `out`. Nothing is ever visible under `out` but a complete,
/// verified file; what was there before stays until then. `progress` gets bytes done and bytes in all: hashing the sources, writing,
/// and reading back.
///
/// # Errors
/// Whatever opening the source refuses; `out` among its files; too little space; any failed read, write, sync or rename, with
/// bytes written and bytes needed. No file is left behind.
pub fn compile(src: &Path, out: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<CompileReport, LoadError> {
    compile_as(src, out, None, None, progress)
}

/// [`compile`], with every matrix stored as `recipe` says. A GGUF file's vectors are rounded to bfloat16, unless it says [`Choice::Source`].
///
/// [`Choice::Source`]: crate::quant::Choice::Source
///
/// # Errors
/// As [`compile`]; a matrix that its scheme does not take.
pub fn compile_quantized(
    src: &Path,
    out: &Path,
    recipe: &Recipe,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CompileReport, LoadError> {
    compile_as(src, out, Some(recipe), None, progress)
}

/// [`compile`] or, with a recipe, [`compile_quantized`]; `encoder` encodes the matrices where there is one.
///
/// # Errors
/// As [`compile_quantized`]; what the encoder refuses.
pub fn compile_as(
    src: &Path,
    out: &Path,
    recipe: Option<&Recipe>,
    encoder: Option<&mut dyn MatrixEncoder>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CompileReport, LoadError> {
    let started = Instant::now();
    let (mut report, Unnamed { file, pending }) = compile_unnamed(src, out, recipe, encoder, progress, &|| false)?;
    pending.publish(&file, out)?;
    report.elapsed = started.elapsed();
    Ok(report)
}

/// A complete, verified artifact that bears no lasting name; it is gone when this is dropped.
pub struct Unnamed {
    file: File,
    pending: Pending,
}

impl Unnamed {
    /// Where this process can open it.
    pub fn path(&self) -> PathBuf {
        self.pending.readable_path(&self.file)
    }
}

/// [`compile_as`] up to the last step: the file is written beside where `out` would be, under no name where the
/// file system can hold such a file, so that nothing is left of it even where the process is killed; else under a temporary one. `stop` is asked before every write.
///
/// # Errors
/// As [`compile_as`]; that `stop` said so.
pub fn compile_unnamed(
    src: &Path,
    out: &Path,
    recipe: Option<&Recipe>,
    encoder: Option<&mut dyn MatrixEncoder>,
    progress: &mut dyn FnMut(u64, u64),
    stop: &dyn Fn() -> bool,
) -> Result<(CompileReport, Unnamed), LoadError> {
    let started = Instant::now();
    let mut source = Source::open(src, LoadMode::Mmap, recipe)?;
    let source_weight_bytes = source.ranges.iter().map(|(_, range)| range.len() as u64).sum();
    let target = Target::check(&source, src, out)?;

    let source_bytes: u64 = source.directory.model.sources.iter().map(|file| file.bytes).sum();
    let payload_bytes = source.directory.payload_bytes;
    let mut meter = Meter { done: 0, total: source_bytes + 2 * payload_bytes, progress };
    let directory_bytes = placeholder_bytes(&mut source.directory, out)?;
    let payload_start = (HEADER_BYTES + directory_bytes).next_multiple_of(PAYLOAD_ALIGNMENT);
    let file_bytes = payload_start + payload_bytes;
    target.check_space(file_bytes)?;

    hash_sources(&mut source, &mut meter)?;
    let (file, pending) = target.create()?;
    let mut output = Output { file, path: out, position: 0, needed: file_bytes, stop };
    output.file.seek(SeekFrom::Start(payload_start)).map_err(|e| LoadError::io(out, "cannot be positioned", e))?;
    output.position = payload_start;
    write_payload(&mut source, encoder, &mut output, payload_start, &mut meter)?;
    for storage in &source.storages {
        storage.check_unchanged()?;
    }
    write_head(&source.directory, &mut output, payload_start)?;
    output.file.sync_all().map_err(|e| LoadError::io(out, output.failed("cannot be synced"), e))?;
    let path = pending.readable_path(&output.file);
    read_back(&path, out, &source.directory, &mut meter)?;

    let report = CompileReport {
        out: out.to_owned(),
        name: source.directory.model.name.clone(),
        file_bytes,
        weight_bytes: source.directory.tensors.iter().map(|t| t.bytes).sum(),
        source_weight_bytes,
        schemes: counts(source.directory.tensors.iter().map(|tensor| tensor.scheme())),
        tensor_count: source.directory.tensors.len(),
        parameter_count: source.directory.parameter_count(),
        source_count: source.directory.model.sources.len(),
        has_tokenizer: source.tokenizer_json.is_some(),
        has_chat_template: source.chat_template.is_some(),
        notes: source.notes,
        elapsed: started.elapsed(),
    };
    Ok((report, Unnamed { file: output.file, pending }))
}

/// Bytes done and in all.
struct Meter<'a> {
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Meter<'_> {
    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        (self.progress)(self.done, self.total);
    }
}

/// The open output, and how much of it stands: what every failure reports.
struct Output<'a> {
    file: File,
    path: &'a Path,
    position: u64,
    needed: u64,
    stop: &'a dyn Fn() -> bool,
}

impl Output<'_> {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        if (self.stop)() {
            return Err(LoadError::new(self.path, self.failed("stopped")));
        }
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(LoadError::new(self.path, self.failed("takes no more bytes"))),
                Ok(n) => {
                    self.position += n as u64;
                    bytes = &bytes[n..];
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(LoadError::io(self.path, self.failed("cannot be written"), e)),
            }
        }
        Ok(())
    }

    fn failed(&self, what: &str) -> String {
        format!("{what} at byte {} of {}", self.position, self.needed)
    }

    fn pad_to(&mut self, position: u64) -> Result<(), LoadError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while self.position < position {
            let bytes = (position - self.position).min(ZEROS.len() as u64) as usize;
            self.write(&ZEROS[..bytes])?;
        }
        Ok(())
    }
}

/// Fills every hash with zeros of its length, so that the directory has its final length before a byte of payload is hashed.
fn placeholder_bytes(directory: &mut Directory, out: &Path) -> Result<u64, LoadError> {
    let zeros = || Some("0".repeat(64));
    directory.model.sources.iter_mut().for_each(|source| source.blake3 = zeros());
    directory.objects.iter_mut().for_each(|object| object.blake3 = zeros());
    directory.tensors.iter_mut().for_each(|tensor| tensor.blake3 = zeros());
    let bytes = serialize(directory, out)?.len() as u64;
    if bytes > DIRECTORY_CAP_BYTES {
        return Err(LoadError::new(out, "directory over the format's limit")
            .numbers(format_args!("at most {DIRECTORY_CAP_BYTES} bytes"), bytes));
    }
    Ok(bytes)
}

fn serialize(directory: &Directory, out: &Path) -> Result<Vec<u8>, LoadError> {
    serde_json::to_vec(directory).map_err(|e| LoadError::new(out, format!("directory cannot be written as JSON: {e}")))
}

fn hash_sources(source: &mut Source, meter: &mut Meter) -> Result<(), LoadError> {
    let mut buffer = vec![0; STEP];
    for (file, path) in source.directory.model.sources.iter_mut().zip(&source.source_paths) {
        // A shard is read through the handle its tensors come from, so the hash is of those very bytes.
        let opened;
        let storage = match source.storages.iter().find(|storage| storage.path() == path) {
            Some(shard) => shard,
            None => {
                opened = Storage::open(path, LoadMode::Mmap)?;
                &opened
            }
        };
        let mut hasher = blake3::Hasher::new();
        let mut at = 0u64;
        while at < file.bytes {
            let step = (file.bytes - at).min(STEP as u64) as usize;
            storage.copy_at(at, &mut buffer[..step])?;
            hasher.update(&buffer[..step]);
            at += step as u64;
            meter.add(step as u64);
        }
        file.blake3 = Some(hasher.finalize().to_hex().to_string());
    }
    Ok(())
}

/// Writes text objects and tensors at their planned places and records their hashes.
fn write_payload(
    source: &mut Source,
    mut encoder: Option<&mut dyn MatrixEncoder>,
    output: &mut Output,
    start: u64,
    meter: &mut Meter,
) -> Result<(), LoadError> {
    for object in &mut source.directory.objects {
        let text = if object.name == TOKENIZER_OBJECT {
            source.tokenizer_json.as_deref()
        } else {
            source.chat_template.as_deref().map(str::as_bytes)
        };
        let text = text.unwrap_or_default();
        let before = output.position;
        output.pad_to(start + object.offset)?;
        output.write(text)?;
        object.blake3 = Some(blake3::hash(text).to_hex().to_string());
        meter.add(output.position - before);
    }
    let mut buffer = vec![0; STEP];
    for index in 0..source.directory.tensors.len() {
        let tensor = &source.directory.tensors[index];
        let path = source.storages[source.ranges[index].0].path();
        let padding = (start + tensor.offset).saturating_sub(output.position);
        output.pad_to(start + tensor.offset)?;
        meter.add(padding);
        let mut hasher = blake3::Hasher::new();
        let scheme = tensor.scheme();
        if scheme != Scheme::Bf16 {
            // Reborrowed: the next matrix needs it too.
            let encoder = encoder.as_mut().map(|encoder| &mut **encoder as &mut dyn MatrixEncoder);
            quantize::write(scheme, source, index, encoder, &mut |bytes| {
                hasher.update(bytes);
                meter.add(bytes.len() as u64);
                output.write(bytes)
            })?;
            source.directory.tensors[index].blake3 = Some(hasher.finalize().to_hex().to_string());
            continue;
        }
        let mut at = 0;
        while at < tensor.bytes {
            let bytes = &mut buffer[..(tensor.bytes - at).min(STEP as u64) as usize];
            let first = at as usize / 2; // STEP is a multiple of 512 bytes, so this one of 256 elements
            source.copy_bf16(index, first, bytes)?;
            check_finite(path, &tensor.name, first, bytes)?;
            hasher.update(bytes);
            output.write(bytes)?;
            at += bytes.len() as u64;
            meter.add(bytes.len() as u64);
        }
        source.directory.tensors[index].blake3 = Some(hasher.finalize().to_hex().to_string());
    }
    Ok(())
}

/// A weight that is infinite or not a number makes every logit so: training went wrong, or the file is damaged.
fn check_finite(file: &Path, name: &str, first: usize, bytes: &[u8]) -> Result<(), LoadError> {
    let value = |pair: &[u8]| bf16::from_le_bytes([pair[0], pair[1]]);
    match bytes.chunks_exact(2).position(|pair| !value(pair).is_finite()) {
        None => Ok(()),
        Some(at) => Err(not_finite(file, name, first + at, value(&bytes[2 * at..]).to_f32())),
    }
}

/// The refusal of such a weight.
pub(super) fn not_finite(file: &Path, name: &str, element: usize, value: f32) -> LoadError {
    LoadError::new(file, format!("element {element} is no finite number"))
        .object(name)
        .numbers("a finite weight", value)
}

/// Header and directory, now that every hash is known.
fn write_head(directory: &Directory, output: &mut Output, payload_start: u64) -> Result<(), LoadError> {
    let text = serialize(directory, output.path)?;
    output.file.seek(SeekFrom::Start(0)).map_err(|e| LoadError::io(output.path, "cannot be positioned", e))?;
    output.position = 0;
    output.write(&MAGIC)?;
    output.write(&(text.len() as u64).to_le_bytes())?;
    output.write(blake3::hash(&text).as_bytes())?;
    output.write(&text)?;
    output.pad_to(payload_start)
}

/// Opens what was written as any reader would, and hashes it whole.
fn read_back(path: &Path, out: &Path, written: &Directory, meter: &mut Meter) -> Result<(), LoadError> {
    let name_it = |mut error: LoadError| {
        error.file = out.to_owned();
        error.problem = format!("what was written cannot be read back: {}", error.problem);
        error
    };
    let artifact = Artifact::open(path, LoadMode::Mmap).map_err(name_it)?;
    if artifact.inner.directory != *written {
        return Err(LoadError::new(out, "what was written reads back as another directory"));
    }
    let before = meter.done;
    artifact.verify(&mut |done, _| (meter.progress)(before + done, meter.total)).map_err(name_it)?;
    Ok(())
}
