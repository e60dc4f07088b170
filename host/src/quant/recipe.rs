//! How each matrix is to be stored: one choice for all, and others for the classes of tensors that `--keep` names. Vectors stay bf16.

use std::{fmt, str::FromStr};

use super::{Scheme, SchemeError};

/// Matrices that are treated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The embedding; of a tied checkpoint the lm_head as well.
    Embed,
    /// An lm_head of its own.
    LmHead,
    /// q_proj.
    AttnQ,
    /// k_proj.
    AttnK,
    /// v_proj.
    AttnV,
    /// o_proj.
    AttnO,
    /// gate_proj.
    Gate,
    /// up_proj.
    Up,
    /// down_proj.
    Down,
}

/// Class, the name a user gives it, and how its tensors' names end.
const CLASSES: [(Class, &str, &str); 9] = [
    (Class::Embed, "embed", "embed_tokens.weight"),
    (Class::LmHead, "lm_head", "lm_head.weight"),
    (Class::AttnQ, "attn_q", "q_proj.weight"),
    (Class::AttnK, "attn_k", "k_proj.weight"),
    (Class::AttnV, "attn_v", "v_proj.weight"),
    (Class::AttnO, "attn_o", "o_proj.weight"),
    (Class::Gate, "gate", "gate_proj.weight"),
    (Class::Up, "up", "up_proj.weight"),
    (Class::Down, "down", "down_proj.weight"),
];

impl Class {
    /// The class of a matrix by its checkpoint name; `None` for what has none.
    pub fn of(name: &str) -> Option<Self> {
        CLASSES.iter().find(|(.., end)| name.ends_with(end)).map(|(class, ..)| *class)
    }
}

/// How a tensor is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Encoded by this scheme.
    Scheme(Scheme),
    /// As the source has it, without a change of any value: in the scheme that holds the source's blocks.
    Source,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) => scheme.fmt(f),
            Self::Source => f.write_str(SOURCE),
        }
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;

    /// `source`, or a scheme.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        if text == SOURCE { Ok(Self::Source) } else { Ok(Self::Scheme(text.parse()?)) }
    }
}

/// Neither a scheme nor `source`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; or source, which changes no value")]
pub struct ChoiceError(#[from] SchemeError);

/// [`Choice::Source`] by name.
const SOURCE: &str = "source";

/// A choice for every tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Of every class that is not kept apart.
    pub choice: Choice,
    /// Classes with a choice of their own.
    pub keep: Vec<(Class, Choice)>,
}

/// One part of `--keep` that says nothing that can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// Not `CLASS=SCHEME`.
    #[error("{given:?}: CLASS=SCHEME expected")]
    Form {
        /// What was given.
        given: String,
    },
    /// No such class.
    #[error("{given:?} is no class of matrices: {known} expected")]
    Class {
        /// What was given.
        given: String,
        /// All names.
        known: String,
    },
    /// Named twice.
    #[error("{given}: named twice")]
    Twice {
        /// The class.
        given: String,
    },
    /// No such choice.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
}

impl Recipe {
    /// All matrices encoded by one scheme.
    pub fn new(scheme: Scheme) -> Self {
        Choice::Scheme(scheme).into()
    }

    /// Adds what `--keep` says: `CLASS=SCHEME`, several with commas between them. In a tied checkpoint `lm_head` is the embedding: it
    /// means both, unless `embed` is named.
    ///
    /// # Errors
    /// The part that is none.
    pub fn keep(mut self, text: &str) -> Result<Self, KeepError> {
        for part in text.split(',') {
            let (class, scheme) = part.split_once('=').ok_or_else(|| KeepError::Form { given: part.to_owned() })?;
            let found = CLASSES.iter().find(|(_, name, _)| *name == class).map(|(class, ..)| *class);
            let Some(found) = found else {
                let known = CLASSES.map(|(_, name, _)| name).join(", ");
                return Err(KeepError::Class { given: class.to_owned(), known });
            };
            if self.keep.iter().any(|(earlier, _)| *earlier == found) {
                return Err(KeepError::Twice { given: class.to_owned() });
            }
            self.keep.push((found, scheme.parse()?));
        }
        Ok(self)
    }

    /// What is done with a tensor. `tied` says that the embedding is the lm_head.
    pub fn choice_of(&self, name: &str, shape: &[usize], tied: bool) -> Choice {
        let Some(class) = Class::of(name).filter(|_| shape.len() == 2) else { return self.of_vectors() };
        let kept = |class| self.keep.iter().find(|(kept, _)| *kept == class).map(|(_, choice)| *choice);
        let head = if tied && class == Class::Embed { kept(Class::LmHead) } else { None };
        kept(class).or(head).unwrap_or(self.choice)
    }

    fn of_vectors(&self) -> Choice {
        if self.choice == Choice::Source { Choice::Source } else { Choice::Scheme(Scheme::Bf16) }
    }
}

impl From<Choice> for Recipe {
    fn from(choice: Choice) -> Self {
        Self { choice, keep: Vec::new() }
    }
}
