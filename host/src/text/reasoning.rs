//! Tells a model's thinking from its answer by the two tokens that enclose it (`<think>`, `</think>`), not by searching the text:
//! a model that writes these characters piece by piece means the characters. It renders nothing and stops nothing.

use super::{Detokenizer, Tokenizer};

/// What a piece of generated text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Between the two tokens.
    Reasoning,
    /// The answer.
    Answer,
}

/// Splits a stream of ids into reasoning and answer. White space at the edges of the reasoning belongs to neither; the answer's own
/// is never touched.
pub struct ReasoningSplit<'t> {
    detokenizer: Detokenizer<'t>,
    open: Option<u32>,
    close: Option<u32>,
    part: Part,
    /// White space at the end of the reasoning so far: shown only if more reasoning follows.
    held: String,
    /// Whether leading white space is still to be dropped.
    trims: bool,
}

impl<'t> ReasoningSplit<'t> {
    /// Begins in the answer, or in the reasoning where the last of the two tokens in `prompt` opens it.
    pub fn new(tokenizer: &'t Tokenizer, prompt: &[u32]) -> Self {
        let (open, close) = (tokenizer.added_id("<think>"), tokenizer.added_id("</think>"));
        let last = prompt.iter().rev().map(|&id| Some(id)).find(|&id| id == open || id == close);
        let is_open = open.is_some() && last == Some(open);
        ReasoningSplit {
            detokenizer: Detokenizer::new(tokenizer, true),
            open,
            close,
            part: if is_open { Part::Reasoning } else { Part::Answer },
            held: String::new(),
            trims: is_open,
        }
    }

    /// Text that is complete now that `id` has come, and what it is; may be empty.
    pub fn push(&mut self, id: u32) -> (Part, String) {
        let part = self.part;
        let next = match part {
            Part::Answer if Some(id) == self.open => Part::Reasoning,
            Part::Reasoning if Some(id) == self.close => Part::Answer,
            _ => {
                let text = self.detokenizer.push(id);
                return (part, self.trim(text));
            }
        };
        let shown = self.finish();
        self.part = next;
        self.held.clear();
        self.trims = true;
        shown
    }

    /// Ends the text.
    pub fn finish(&mut self) -> (Part, String) {
        let text = self.detokenizer.finish();
        (self.part, self.trim(text))
    }

    fn trim(&mut self, mut text: String) -> String {
        if self.trims {
            text = text.trim_start().to_string();
            self.trims = text.is_empty();
        }
        if self.part == Part::Answer {
            return text;
        }
        let whole = std::mem::take(&mut self.held) + &text;
        let shown = whole.trim_end();
        self.held = whole[shown.len()..].to_string();
        shown.to_string()
    }
}
