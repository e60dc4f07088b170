//! What can go wrong in the engine, split by whose fault it is. No exit codes and no HTTP statuses: those are the front ends'.

use crate::model::{ops::BackendError, weights::WeightError};

/// The caller asked for something that cannot be done; nothing was computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// A field holds a value out of its range.
    #[error("{field}: {value} given, {expected} expected")]
    Field {
        /// The field's name as users write it.
        field: &'static str,
        /// What was given.
        value: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// The prompt leaves no room in the context.
    #[error("prompt: {prompt} tokens given, the context of {context} holds {room} beside {reserved} to generate")]
    ContextLength {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the context.
        context: usize,
        /// Longest prompt that would be accepted.
        room: usize,
        /// Tokens kept free: 1 when anything is to be generated.
        reserved: usize,
    },
    /// A window of which one id more than the context would have to be evaluated.
    #[error("window: {window} ids given, the context of {context} holds windows of at most {}", context + 1)]
    Window {
        /// Ids of a window; all but the last are evaluated.
        window: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// Models whose rows of logits have not the same length.
    #[error("vocabularies of {first} and {other} ids cannot be compared")]
    Vocabularies {
        /// Rows of the first model's embedding.
        first: usize,
        /// Of another's.
        other: usize,
    },
    /// A token id outside the vocabulary.
    #[error("prompt: token id {id} at index {index}, the vocabulary holds {vocab_size}")]
    TokenId {
        /// The id given.
        id: u32,
        /// Where in the prompt.
        index: usize,
        /// Rows of the embedding.
        vocab_size: usize,
    },
}

/// The logits cannot be sampled from: a fault of the model or the backend.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// NaN or +∞ among the logits.
    #[error("logit of token {id} is {value}, a finite number expected")]
    NotFinite {
        /// Token id.
        id: usize,
        /// The offending value.
        value: f32,
    },
    /// Every logit is −∞, or there is none.
    #[error("no token can be chosen: all {count} logits are -inf")]
    Nothing {
        /// Logits given.
        count: usize,
    },
}

/// Why a generation ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The caller's fault.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Unusable logits.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The weights are not those of the configuration.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// The backend failed.
    #[error("{backend}: {source}")]
    Backend {
        /// Name of the backend.
        backend: &'static str,
        /// What it said.
        source: BackendError,
    },
    /// The caller cancelled before there was anything to give.
    #[error("cancelled before the first result")]
    Cancelled,
    /// The backend's context is longer than the model's positions.
    #[error("context: {context} tokens asked for, the model has {max_position_embeddings} positions")]
    Context {
        /// Context the backend was loaded for.
        context: usize,
        /// The checkpoint's limit.
        max_position_embeddings: usize,
    },
}
