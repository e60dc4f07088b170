//! The one error of loading and compiling: which file, which object in it, what is wrong, and both numbers. It is not for faults
//! of a request or of a backend.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use crate::model::config::ConfigError;

/// Why a checkpoint or artifact is refused, or could not be written. Its text is one line whatever the file's names contain.
#[derive(Debug)]
pub struct LoadError {
    /// The file (or folder) it is about.
    pub file: PathBuf,
    /// The tensor, key or region in that file, where one is to blame.
    pub object: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// Both sides, where two things were compared.
    pub compared: Option<Box<Compared>>,
    /// The operating system's answer, where it was asked.
    pub source: Option<io::Error>,
}

/// Two things that had to agree. Boxed in the error, so that every `Result` stays small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What had to be there.
    pub expected: String,
    /// What was there.
    pub found: String,
}

impl LoadError {
    pub(crate) fn new(file: &Path, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), object: None, problem: problem.into(), compared: None, source: None }
    }
    pub(crate) fn io(file: &Path, problem: impl Into<String>, source: io::Error) -> Self {
        Self { source: Some(source), ..Self::new(file, problem) }
    }
    pub(crate) fn object(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }
    pub(crate) fn numbers(mut self, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        self.compared = Some(Box::new(Compared { expected: expected.to_string(), found: found.to_string() }));
        self
    }
    pub(crate) fn config(file: &Path, error: ConfigError) -> Self {
        Self::new(file, error.problem).object(error.key)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.file.display().to_string();
        if let Some(object) = &self.object {
            text += &format!(": {object}");
        }
        text += &format!(": {}", self.problem);
        if let Some(compared) = &self.compared {
            let Compared { expected, found } = &**compared;
            text += &format!(": expected {expected}, found {found}");
        }
        if let Some(source) = &self.source {
            text += &format!(": {source}");
        }
        // Names come from the file: a line break or an escape code in one must not reach the terminal.
        for c in text.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        None // already part of the text
    }
}
