//! Windows over token ids, evaluated by one engine or by several in step: the one place that walks them. A window of `W` ids starts from an
//! empty cache and has `W − 1` rows of logits, one for each id but the first. What is left after the last full window is not evaluated.
//! What a row is worth is the caller's ([`super::perplexity`], [`super::compare`]).
//!
//! Logits exist for one chunk at a time, of each engine.

use super::{Engine, EngineError, Event, Flow, RequestError};
use crate::model::ops::BackendError;

/// The first windows of a sequence of ids.
#[derive(Debug, Clone, Copy)]
pub struct Windows<'i> {
    ids: &'i [u32],
    window: usize,
    count: usize,
}

/// Rows of logits that one pass of each engine has made.
#[derive(Debug)]
pub(super) struct Rows<'r> {
    /// Which window they belong to.
    pub window: usize,
    /// Place in the window of the id that the first row predicts, at least 1.
    pub position: usize,
    /// Of each engine, `[targets.len(), vocab_size]`.
    pub logits: &'r [&'r [f32]],
    /// The ids that came.
    pub targets: &'r [u32],
}

impl<'i> Windows<'i> {
    /// At most `most` windows of `window` ids each.
    pub fn new(ids: &'i [u32], window: usize, most: Option<usize>) -> Result<Self, RequestError> {
        let field = |value: String, expected| RequestError::Field { field: "window", value, expected };
        if window < 2 {
            return Err(field(window.to_string(), "2 or more"));
        }
        let count = (ids.len() / window).min(most.unwrap_or(usize::MAX));
        if count == 0 {
            let expected = "at least one window of ids and one window asked for";
            return Err(field(format!("{window} for {} ids", ids.len()), expected));
        }
        Ok(Self { ids, window, count })
    }

    /// Ids per window.
    pub fn window(&self) -> usize {
        self.window
    }

    /// All ids, those after the last window too.
    pub fn ids(&self) -> &'i [u32] {
        self.ids
    }

    /// The ids of window `index`.
    pub fn get(&self, index: usize) -> &'i [u32] {
        &self.ids[index * self.window..][..self.window]
    }

    /// Evaluates every window by each of `engines`, at least one, and gives their rows to `score`. `on_event` sees tokens evaluated of all,
    /// and may cancel. The result is the number of whole windows; [`EngineError::Cancelled`] comes if there are none.
    pub(super) fn evaluate(
        &self,
        engines: &mut [&mut Engine],
        score: &mut dyn FnMut(Rows<'_>) -> Result<(), EngineError>,
        on_event: &mut dyn FnMut(Event<'_>) -> Flow,
    ) -> Result<usize, EngineError> {
        let chunk = self.chunk(engines)?;
        let total = self.count * (self.window - 1);
        let mut whole = 0;
        'windows: for (window, ids) in self.ids.chunks_exact(self.window).take(self.count).enumerate() {
            engines.iter_mut().for_each(|engine| engine.clear_cache());
            for (pass, part) in ids[..self.window - 1].chunks(chunk).enumerate() {
                engines.iter_mut().try_for_each(|engine| engine.rows(part))?;
                let logits: Vec<&[f32]> = engines.iter().map(|engine| &engine.logits[..]).collect();
                let position = pass * chunk + 1;
                score(Rows { window, position, logits: &logits, targets: &ids[position..][..part.len()] })?;
                let done = window * (self.window - 1) + position - 1 + part.len();
                if on_event(Event::Prefill { done, total }) == Flow::Cancel && done < total {
                    break 'windows;
                }
            }
            whole += 1;
        }
        engines.iter_mut().for_each(|engine| engine.clear_cache());
        if whole == 0 { Err(EngineError::Cancelled) } else { Ok(whole) }
    }

    /// Tokens per pass that every engine takes, after what each refuses.
    fn chunk(&self, engines: &[&mut Engine]) -> Result<usize, EngineError> {
        let window = self.window;
        let evaluated = &self.ids[..self.count * window]; // count · window ≤ ids.len()
        let mut chunk = window - 1;
        for engine in engines {
            let (context, vocab_size) = (engine.context_len(), engine.vocab_size);
            if vocab_size != engines[0].vocab_size {
                return Err(RequestError::Vocabularies { first: engines[0].vocab_size, other: vocab_size }.into());
            }
            if window - 1 > context {
                return Err(RequestError::Window { window, context }.into());
            }
            if let Some(index) = evaluated.iter().position(|&id| id as usize >= vocab_size) {
                return Err(RequestError::TokenId { id: evaluated[index], index, vocab_size }.into());
            }
            chunk = chunk.min(engine.ops.max_chunk()).min(engine.ops.max_logits_rows());
        }
        Ok(chunk)
    }
}

impl Engine {
    /// One pass after what is cached, and the logits of all its rows.
    fn rows(&mut self, ids: &[u32]) -> Result<(), EngineError> {
        self.pass(ids, ids.len())?;
        let read = self.ops.read_logits(&mut self.logits);
        self.trusted(read)?;
        // The backend has memory for so many rows, so the product can be counted.
        if self.logits.len() == ids.len() * self.vocab_size {
            return Ok(());
        }
        let text = format!("{} logits read, {} × {} expected", self.logits.len(), ids.len(), self.vocab_size);
        self.trusted(Err(BackendError(text)))
    }
}
