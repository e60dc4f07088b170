//! The directory of a `.zynfer` file: what is written, and what a reader demands before it trusts a byte of it. Byte positions in
//! the file (magic, hash, padding) are the business of `zynfer_file` and `writer`; docs/ARTIFACT.md has the whole format.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    error::LoadError,
    generation::GenerationDefaults,
    tensors::{self, Dtype},
};
use crate::{
    model::{config::ModelConfig, family::Family, weights},
    quant::Scheme,
};

/// The format this build writes and reads.
pub(super) const FORMAT_VERSION: u32 = 2;
/// Every object of the payload starts at a multiple of this, so bf16 can be read in place with the widest loads.
pub(super) const OBJECT_ALIGNMENT: u64 = 256;
/// Name of the object that holds `tokenizer.json`.
pub(super) const TOKENIZER_OBJECT: &str = "tokenizer.json";
/// Name of the object that holds the chat template.
pub(super) const TEMPLATE_OBJECT: &str = "chat_template";

/// The directory, field for field as in the file's JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Directory {
    pub(super) format_version: u32,
    pub(super) tool: Tool,
    pub(super) model: Identity,
    pub(super) architecture: ModelConfig,
    pub(super) conventions: Conventions,
    pub(super) generation: GenerationDefaults,
    pub(super) end_ids: Vec<u32>,
    /// Bytes from the payload's start to the end of the last object.
    pub(super) payload_bytes: u64,
    pub(super) objects: Vec<ObjectEntry>,
    pub(super) tensors: Vec<TensorEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) family: Family,
    pub(super) name: String,
    pub(super) sources: Vec<SourceFile>,
}

/// A file the artifact was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceFile {
    pub(super) file: String,
    pub(super) bytes: u64,
    /// Absent in the directory of an opened folder: hashing it whole would cost more than loading it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blake3: Option<String>,
}

/// What stored numbers mean where a family could mean either.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conventions {
    pub(super) norm_weight: NormWeight,
}

/// How an RMSNorm uses its stored weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NormWeight {
    /// The stored weight is the factor itself.
    Factor,
}

/// A text object of the payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectEntry {
    pub(super) name: String,
    /// From the payload's start.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blake3: Option<String>,
}

/// A tensor of the payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    /// Elements of a group along a row, where the dtype has groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<usize>,
    pub(super) shape: Vec<usize>,
    /// From the payload's start.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blake3: Option<String>,
}

impl TensorEntry {
    /// How it is stored. A checked directory has no dtype with a group that it cannot have.
    pub(super) fn scheme(&self) -> Scheme {
        self.dtype.scheme(self.group).unwrap_or(Scheme::Bf16)
    }
}

/// Bytes of a tensor of this shape.
fn stored_bytes(file: &Path, name: &str, scheme: Scheme, shape: &[usize]) -> Result<u64, LoadError> {
    let bytes = weights::Dtype::from(scheme).stored_bytes(shape);
    Ok(bytes.map_err(|error| LoadError::new(file, error.to_string()).object(name))? as u64)
}

impl Directory {
    /// Plans the payload: text objects first, then the tensors in order of first use, each at the next multiple of 256.
    /// `texts` are name and bytes.
    pub(super) fn plan(
        model: Identity,
        architecture: ModelConfig,
        generation: GenerationDefaults,
        end_ids: Vec<u32>,
        texts: &[(&str, u64)],
    ) -> Self {
        let objects = texts.iter().map(|(name, bytes)| ObjectEntry {
            name: (*name).to_owned(),
            offset: 0,
            bytes: *bytes,
            blake3: None,
        });
        let objects = objects.collect();
        let tensors = tensors::expected_tensors(&architecture).into_iter().map(|(name, shape)| {
            // A validated config bounds every extent, so the product stays far below 2^63.
            let bytes = (shape.iter().product::<usize>() * 2) as u64;
            TensorEntry { name, dtype: Dtype::BF16, group: None, shape, offset: 0, bytes, blake3: None }
        });
        let tensors = tensors.collect();
        let mut directory = Self {
            format_version: FORMAT_VERSION,
            tool: Tool { name: "zynfer".into(), version: env!("CARGO_PKG_VERSION").into() },
            model,
            architecture,
            conventions: Conventions { norm_weight: NormWeight::Factor },
            generation,
            end_ids,
            payload_bytes: 0,
            objects,
            tensors,
        };
        directory.place();
        directory
    }

    /// Gives every object the place that the lengths of those before it leave.
    fn place(&mut self) {
        let mut end = 0u64;
        let objects = self.objects.iter_mut().map(|object| (&mut object.offset, object.bytes));
        for (offset, bytes) in objects.chain(self.tensors.iter_mut().map(|tensor| (&mut tensor.offset, tensor.bytes))) {
            *offset = end.next_multiple_of(OBJECT_ALIGNMENT);
            end = *offset + bytes;
        }
        self.payload_bytes = end;
    }

    /// Plans the payload anew, with a scheme for each tensor.
    ///
    /// # Errors
    /// A matrix whose rows are no multiple of the group, by name and with both numbers.
    pub(super) fn store_as(&mut self, file: &Path, schemes: &[Scheme]) -> Result<(), LoadError> {
        for (tensor, &scheme) in self.tensors.iter_mut().zip(schemes) {
            tensor.bytes = stored_bytes(file, &tensor.name, scheme, &tensor.shape)?;
            (tensor.dtype, tensor.group) = Dtype::of(scheme);
        }
        self.place();
        Ok(())
    }

    /// Checks everything the directory says against itself and against the payload's real length.
    ///
    /// # Errors
    /// The first claim that does not hold, with the object's name and both numbers.
    pub(super) fn check(&self, file: &Path, payload_bytes: u64) -> Result<(), LoadError> {
        let refuse = |object: &str, problem: &str| LoadError::new(file, problem).object(object);
        if self.format_version != FORMAT_VERSION {
            return Err(refuse("format_version", "not the version this build reads")
                .numbers(FORMAT_VERSION, self.format_version));
        }
        self.architecture.validate().map_err(|e| LoadError::config(file, e))?;
        self.generation.validate(file)?;
        let vocab_size = self.architecture.vocab_size;
        if let Some(id) = self.end_ids.iter().find(|id| **id as usize >= vocab_size) {
            return Err(refuse("end_ids", "not in the vocabulary").numbers(format_args!("ids below {vocab_size}"), id));
        }
        if !self.end_ids.is_sorted_by(|a, b| a < b) {
            return Err(refuse("end_ids", "not in rising order"));
        }
        self.check_places(file, payload_bytes)?;
        let known = [TOKENIZER_OBJECT, TEMPLATE_OBJECT];
        for (index, object) in self.objects.iter().enumerate() {
            if !known.contains(&object.name.as_str()) {
                return Err(refuse(&object.name, "unknown object"));
            }
            if self.objects[..index].iter().any(|earlier| earlier.name == object.name) {
                return Err(refuse(&object.name, "object listed twice"));
            }
        }
        self.check_tensors(file)
    }

    /// Lengths, alignment, overlap and gaps of all objects in payload order, and their hashes' form.
    fn check_places(&self, file: &Path, payload_bytes: u64) -> Result<(), LoadError> {
        let refuse = |object: &str, problem: &str| LoadError::new(file, problem).object(object);
        let mut end = 0u64;
        for (name, offset, bytes, blake3) in self.places() {
            if offset % OBJECT_ALIGNMENT != 0 {
                return Err(refuse(name, "badly aligned")
                    .numbers(format_args!("an offset that is a multiple of {OBJECT_ALIGNMENT}"), offset));
            }
            let next = end.checked_next_multiple_of(OBJECT_ALIGNMENT);
            if next != Some(offset) {
                let problem = if offset < end { "overlaps the object before it" } else { "leaves a gap before it" };
                return Err(refuse(name, problem).numbers(format_args!("offset {}", next.unwrap_or(u64::MAX)), offset));
            }
            end = offset.checked_add(bytes).filter(|end| *end <= self.payload_bytes).ok_or_else(|| {
                refuse(name, "ends past the payload")
                    .numbers(format_args!("at most {} bytes", self.payload_bytes.saturating_sub(offset)), bytes)
            })?;
            if !blake3.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')))
            {
                return Err(refuse(name, "its blake3 is not 64 hexadecimal digits"));
            }
        }
        if end != self.payload_bytes {
            return Err(refuse("payload_bytes", "not where the last object ends").numbers(end, self.payload_bytes));
        }
        if payload_bytes != self.payload_bytes {
            let problem =
                if payload_bytes < self.payload_bytes { "file is cut short" } else { "bytes after the last object" };
            return Err(refuse("payload", problem).numbers(format_args!("{} bytes", self.payload_bytes), payload_bytes));
        }
        Ok(())
    }

    /// The tensors are exactly those of the architecture, in order of first use, and each is as long as its shape says.
    fn check_tensors(&self, file: &Path) -> Result<(), LoadError> {
        let expected = tensors::expected_tensors(&self.architecture);
        let found = self.tensors.iter().map(|t| (t.name.as_str(), "BF16", t.shape.as_slice()));
        tensors::check(file, &expected, found)?;
        if self.tensors.len() != expected.len() {
            return Err(LoadError::new(file, "a tensor is listed twice")
                .numbers(format_args!("{} tensors", expected.len()), self.tensors.len()));
        }
        for (tensor, (name, shape)) in self.tensors.iter().zip(&expected) {
            if tensor.name != *name {
                return Err(LoadError::new(file, "tensors are not in order of first use").numbers(name, &tensor.name));
            }
            let Some(scheme) = tensor.dtype.scheme(tensor.group) else {
                let found = tensor.group.map_or_else(|| "none".to_owned(), |group| group.to_string());
                return Err(LoadError::new(file, format!("no such group for dtype {:?}", tensor.dtype))
                    .object(name.as_str())
                    .numbers("a group where the dtype has groups, none elsewhere", found));
            };
            let bytes = stored_bytes(file, name, scheme, shape)?;
            if tensor.bytes != bytes {
                return Err(LoadError::new(file, format!("{scheme} of shape {shape:?} does not fill its bytes"))
                    .object(name.as_str())
                    .numbers(format_args!("{bytes} bytes"), tensor.bytes));
            }
        }
        Ok(())
    }

    /// Elements of all tensors.
    pub(super) fn parameter_count(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.shape.iter().product::<usize>() as u64).sum()
    }

    /// Name, offset, bytes and hash of every object, text first, as they stand in the payload.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, u64, u64, Option<&str>)> {
        let objects = self.objects.iter().map(|o| (o.name.as_str(), o.offset, o.bytes, o.blake3.as_deref()));
        objects.chain(self.tensors.iter().map(|t| (t.name.as_str(), t.offset, t.bytes, t.blake3.as_deref())))
    }
}
