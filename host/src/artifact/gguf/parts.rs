//! All files of one model: a GGUF file, or the parts `NAME-00001-of-00003.gguf` … beside each other, whichever of them was named. The
//! first part has the model's metadata, every part has tensors of its own.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{
    super::{
        error::LoadError,
        storage::{LoadMode, Storage},
        tensors::list_names,
    },
    header::{Entry, Header},
    metadata::Metadata,
};

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// One file.
struct Part {
    storage: Storage,
    header: Header,
}

/// An open, checked model: one file or all parts.
pub struct Gguf {
    parts: Vec<Part>,
}

impl Gguf {
    /// Opens the file at `path`, and the other parts where it is one of several. Checked is everything but the elements.
    ///
    /// # Errors
    /// The first claim of a file that does not hold; all parts that are missing; a tensor that stands in two parts.
    pub fn open(path: &Path, mode: LoadMode) -> Result<Self, LoadError> {
        let named = Part::open(path, mode)?;
        let count = named.count(COUNT)?.unwrap_or(1);
        if count <= 1 {
            return Ok(Self { parts: vec![named] });
        }
        let (number, paths) = part_paths(path, count)?;
        let missing: Vec<String> = paths.iter().filter(|path| !path.exists()).map(|path| file_name(path)).collect();
        if !missing.is_empty() {
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            let problem = format!("parts are missing: {} (incomplete download?)", list_names(&missing));
            return Err(
                LoadError::new(path, problem).numbers(format_args!("{count} parts"), paths.len() - missing.len())
            );
        }
        let mut parts = Vec::new();
        let mut named = Some(named);
        for (index, path) in paths.iter().enumerate() {
            let part = match named.take_if(|_| index == number) {
                Some(named) => named,
                None => Part::open(path, mode)?,
            };
            part.expect(NUMBER, index as u64)?;
            part.expect(COUNT, count)?;
            parts.push(part);
        }
        let this = Self { parts };
        this.check_tensors()?;
        Ok(this)
    }

    /// No tensor stands twice, and there are as many as the parts say.
    fn check_tensors(&self) -> Result<(), LoadError> {
        let mut home: HashMap<&str, &Path> = HashMap::new();
        for part in &self.parts {
            for tensor in &part.header.tensors {
                if let Some(first) = home.insert(&tensor.name, part.storage.path()) {
                    let problem = format!("tensor stands in two parts, also in {}", file_name(first));
                    return Err(LoadError::new(part.storage.path(), problem).object(tensor.name.as_str()));
                }
            }
        }
        self.parts.iter().try_for_each(|part| match part.count(TENSORS)? {
            None => Ok(()),
            Some(_) => part.expect(TENSORS, home.len() as u64),
        })
    }

    /// The model's metadata: the first part's.
    pub fn metadata(&self) -> &Metadata {
        &self.parts[0].header.metadata
    }

    /// The format's version of the first part.
    pub fn version(&self) -> u32 {
        self.parts[0].header.version
    }

    /// The file that has the metadata.
    pub fn path(&self) -> &Path {
        self.parts[0].storage.path()
    }

    /// The model's name: the file's, without the ending and without the part's number.
    pub fn name(&self) -> String {
        let stem = self.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let part = format!("-00001-of-{:05}", self.parts.len());
        match stem.strip_suffix(&part) {
            Some(name) if self.parts.len() > 1 => name.to_owned(),
            _ => stem,
        }
    }

    /// The files, in the parts' order.
    pub(in crate::artifact) fn into_storages(self) -> Vec<Storage> {
        self.parts.into_iter().map(|part| part.storage).collect()
    }

    /// Paths and lengths of all files, in the parts' order.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.parts.iter().map(|part| (part.storage.path(), part.storage.bytes().len() as u64))
    }

    /// Every tensor, with the number of its file.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.parts.iter().enumerate().flat_map(|(index, part)| part.header.tensors.iter().map(move |t| (index, t)))
    }

    /// The bytes of a tensor that [`Gguf::tensors`] gave with the number of its file.
    pub fn bytes(&self, (file, tensor): (usize, &Entry)) -> &[u8] {
        &self.parts[file].storage.bytes()[tensor.range.clone()]
    }
}

impl Part {
    fn open(path: &Path, mode: LoadMode) -> Result<Self, LoadError> {
        let storage = Storage::open(path, mode)?;
        let header = Header::read(path, storage.bytes())?;
        Ok(Self { storage, header })
    }

    fn count(&self, key: &str) -> Result<Option<u64>, LoadError> {
        self.header.metadata.count(self.storage.path(), key)
    }

    fn expect(&self, key: &str, wanted: u64) -> Result<(), LoadError> {
        match self.count(key)? {
            Some(found) if found == wanted => Ok(()),
            found => {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                let problem = "is not the part that its name and the other parts say";
                Err(LoadError::new(self.storage.path(), problem).object(key).numbers(wanted, found))
            }
        }
    }
}

/// The number of the part at `path`, from 0, and the paths of all parts.
fn part_paths(path: &Path, count: u64) -> Result<(usize, Vec<PathBuf>), LoadError> {
    let refuse = |expected: String| {
        LoadError::new(path, format!("is one of {count} parts, and its name does not say which"))
            .numbers(expected, file_name(path))
    };
    let pattern = || format!("NAME-00001-of-{count:05}.gguf");
    // Most parts that five digits can number.
    if count > 99_999 {
        return Err(LoadError::new(path, "too many parts").object(COUNT).numbers("at most 99999", count));
    }
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| refuse(pattern()))?;
    let end = format!("-of-{count:05}.gguf");
    let (prefix, number) = name
        .strip_suffix(&end)
        .and_then(|rest| rest.rsplit_once('-'))
        .filter(|(_, digits)| digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|(prefix, digits)| Some((prefix, digits.parse::<u64>().ok()?)))
        .filter(|(_, number)| (1..=count).contains(number))
        .ok_or_else(|| refuse(pattern()))?;
    let paths = (1..=count).map(|number| path.with_file_name(format!("{prefix}-{number:05}{end}")));
    Ok((number as usize - 1, paths.collect()))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
