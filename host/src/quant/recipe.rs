//! Which matrix gets which scheme: one for all, and others for the classes of tensors that `--keep` names. Vectors stay bf16.

use std::str::FromStr;

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

/// A scheme for every matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Of every class that is not kept apart.
    pub scheme: Scheme,
    /// Classes with a scheme of their own.
    pub keep: Vec<(Class, Scheme)>,
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
    /// No such scheme.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
}

impl Recipe {
    /// All matrices by one scheme.
    pub fn new(scheme: Scheme) -> Self {
        Self { scheme, keep: Vec::new() }
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
            self.keep.push((found, Scheme::from_str(scheme)?));
        }
        Ok(self)
    }

    /// The scheme of a tensor. `tied` says that the embedding is the lm_head.
    pub fn scheme_of(&self, name: &str, shape: &[usize], tied: bool) -> Scheme {
        let Some(class) = Class::of(name).filter(|_| shape.len() == 2) else { return Scheme::Bf16 };
        let kept = |class| self.keep.iter().find(|(kept, _)| *kept == class).map(|(_, scheme)| *scheme);
        let head = if tied && class == Class::Embed { kept(Class::LmHead) } else { None };
        kept(class).or(head).unwrap_or(self.scheme)
    }
}
