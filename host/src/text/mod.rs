//! Text at both ends of the engine: a request's messages become token ids, generated ids become text.
//!
//! [`tokenizer`] wraps the checkpoint's own tokenizer.json, [`template`] renders its own chat template, [`messages`] checks a chat
//! request before the template sees it, [`detokenizer`] streams text without ever cutting a character, [`reasoning`] tells what a
//! model thinks from what it answers. Nothing here knows about models, backends or sampling, and nothing here trusts the text of a
//! message: it can never become a control token.

pub mod detokenizer;
pub mod messages;
pub mod reasoning;
pub mod template;
pub mod tokenizer;

pub use detokenizer::Detokenizer;
pub use messages::ChatRequest;
pub use template::{ChatTemplate, Prompt, SpecialStrings};
pub use tokenizer::{AddedToken, Special, Tokenizer};

/// Why text could not become ids, or messages text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// tokenizer.json is damaged or of a kind this engine does not read.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
    /// The chat template does not compile or raised; the detail names its line.
    #[error("chat template: {0}")]
    Template(String),
    /// The request is wrong: the caller's fault. The text names the place, for example `messages[2].content[0]`.
    #[error("{0}")]
    Request(String),
}

/// Result of this module.
pub type TextResult<T> = Result<T, TextError>;
