//! How a command ends when it does not end well, and the exit code of each way. The words come from the part that failed.

use std::fmt::Display;
use std::io;

use crate::artifact::LoadError;
use crate::engine::{EngineError, RequestError};
use crate::fetch::FetchError;
use crate::gpu::OpenError;
use crate::text::TextError;

/// Why a command stopped.
#[derive(Debug)]
pub(super) enum CliError {
    /// The caller's flags or values are wrong.
    Usage(String),
    /// It could not be done.
    Failed(String),
    /// It was done, and checks found defects in what was run.
    Found(String),
    /// Ctrl-C.
    Interrupted,
    /// Whoever read the answer stopped reading: nothing to say to anyone.
    Closed,
}

/// Result of a command.
pub(super) type CliResult<T> = Result<T, CliError>;

impl CliError {
    pub(super) fn usage(message: impl Display) -> Self {
        CliError::Usage(message.to_string())
    }

    pub(super) fn failed(message: impl Display) -> Self {
        CliError::Failed(message.to_string())
    }

    /// A failed read or write of the file called `name`.
    pub(super) fn file(name: &std::path::Path, error: &io::Error) -> Self {
        CliError::Failed(format!("{}: {error}", name.display()))
    }

    /// What to tell the user, if anything.
    pub(super) fn message(&self) -> Option<&str> {
        match self {
            CliError::Usage(message) | CliError::Failed(message) | CliError::Found(message) => Some(message),
            CliError::Interrupted | CliError::Closed => None,
        }
    }

    /// The same with other words, made from its own.
    pub(super) fn about(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            CliError::Usage(message) => CliError::Usage(words(message)),
            CliError::Failed(message) => CliError::Failed(words(message)),
            CliError::Found(message) => CliError::Found(words(message)),
            CliError::Interrupted | CliError::Closed => self,
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage(_) => 2,
            CliError::Failed(_) => 1,
            CliError::Found(_) => 3,
            CliError::Interrupted => 130,
            CliError::Closed => 0,
        }
    }
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> Self {
        CliError::failed(error)
    }
}

impl From<FetchError> for CliError {
    fn from(error: FetchError) -> Self {
        CliError::failed(error)
    }
}

impl From<TextError> for CliError {
    fn from(error: TextError) -> Self {
        CliError::failed(error)
    }
}

impl From<RequestError> for CliError {
    fn from(error: RequestError) -> Self {
        match error {
            // A value out of its range is a wrong flag; a prompt or a window that does not fit is not.
            RequestError::Field { .. } => CliError::usage(error),
            RequestError::ContextLength { .. }
            | RequestError::Window { .. }
            | RequestError::Vocabularies { .. }
            | RequestError::TokenId { .. } => CliError::failed(error),
        }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Selector(_) | OpenError::Variable { .. } | OpenError::Workgroups { .. } => {
                CliError::usage(error)
            }
            other => CliError::failed(other),
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Request(error) => error.into(),
            EngineError::Cancelled => CliError::Interrupted,
            // The words of the emulator's library, whose report is all that comes through HIP's interface.
            other if other.to_string().contains(emulator::launch::CHECKS_FOUND) => CliError::Found(other.to_string()),
            other => CliError::failed(other),
        }
    }
}
