//! From prompt ids to generated ids: admission, prefill in chunks, decode one by one, when to stop, and what it took. It holds one
//! sequence and its place in the KV cache. Not here: the mathematics ([`crate::model::forward`]), text ([`crate::text`]) and I/O.
//!
//! Invariants: the context is one number, the backend's; `prompt + generated ≤ context` always; positions `0 .. cached.len()` of the
//! backend's cache hold the keys and values of exactly the ids in `cached`.

pub mod compare;
mod error;
pub mod perplexity;
pub mod sampler;
pub mod stop;
pub mod timing;
pub mod windows;

use std::collections::{BTreeSet, VecDeque};

pub use self::{
    error::{EngineError, RequestError, SampleError},
    sampler::{SamplingOverrides, SamplingParams, parse_seed},
    timing::{Clock, SystemClock, Timings},
};
use self::{sampler::Sampler, stop::StopMatcher};
use crate::model::{
    config::ModelConfig,
    forward::forward,
    kv::KvFormats,
    ops::{BackendError, Candidate, Ops},
    weights::Weights,
};
use crate::quant::Activations;

/// Turns ids into text as they come, holding back incomplete characters.
pub trait Detokenize {
    /// Takes the next id and gives the text that is complete now, perhaps none.
    fn push(&mut self, id: u32) -> String;
    /// The text still held back; called once, at the end.
    fn finish(&mut self) -> String;
}

impl Detokenize for crate::text::Detokenizer<'_> {
    fn push(&mut self, id: u32) -> String {
        crate::text::Detokenizer::push(self, id)
    }
    fn finish(&mut self) -> String {
        crate::text::Detokenizer::finish(self)
    }
}

/// For callers who want ids only.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoText;

impl Detokenize for NoText {
    fn push(&mut self, _id: u32) -> String {
        String::new()
    }
    fn finish(&mut self) -> String {
        String::new()
    }
}

/// What to generate.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Token ids of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to sample; 0 evaluates the prompt only; `None` is the rest of the context; negative is refused. The context
    /// binds in any case.
    pub max_tokens: Option<i64>,
    /// How to choose.
    pub sampling: SamplingParams,
    /// Stop strings; see [`stop`] for their bounds.
    pub stop: Vec<String>,
    /// Ids that end the text beside the model's own, even under `ignore_eos`.
    pub stop_token_ids: Vec<u32>,
    /// Whether the model's end ids are ordinary tokens; stop strings and `stop_token_ids` still end the text.
    pub ignore_eos: bool,
}

/// Why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// An end id or a stop string.
    Stop,
    /// `max_tokens` or the context.
    Length,
    /// The caller said so.
    Cancelled,
}

impl FinishReason {
    /// `stop`, `length` or `cancelled`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What happens, as it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A chunk of the prompt is done: `done` of `total` uncached tokens.
    Prefill {
        /// Tokens evaluated so far.
        done: usize,
        /// Tokens to evaluate.
        total: usize,
    },
    /// A token was chosen. An end token comes too, with no text of its own.
    Token {
        /// Its number, from 0.
        index: usize,
        /// Its id.
        id: u32,
        /// Text that became certain with it; pieces are append-only.
        text: &'a str,
    },
    /// Text that was held back and is certain now that the end has come.
    Tail {
        /// The text, not empty.
        text: &'a str,
    },
}

/// What the caller answers to an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// End with [`FinishReason::Cancelled`].
    Cancel,
}

/// The result of a generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Every sampled id, an end id included.
    pub tokens: Vec<u32>,
    /// The text, without stop string and what follows it; the concatenation of all events' text.
    pub text: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The stop id that ended it, if one did.
    pub stop_token: Option<u32>,
    /// Seed in use; `None` when nothing was random.
    pub seed: Option<u64>,
    /// Counts and times.
    pub timings: Timings,
}

/// A model on a backend, ready to generate one sequence at a time.
pub struct Engine {
    ops: Box<dyn Ops>,
    weights: Weights,
    vocab_size: usize,
    end_ids: BTreeSet<u32>,
    cached: Vec<u32>,
    /// Ids a backend chose beyond those that were taken: next first.
    chosen: VecDeque<u32>,
    logits: Vec<f32>,
    /// The largest logits, where a backend gives those alone.
    candidates: Vec<Candidate>,
    clock: Box<dyn Clock>,
}

impl Engine {
    /// Takes a loaded backend. `end_ids` is the union of all end-of-text ids of the checkpoint.
    pub fn new(
        ops: Box<dyn Ops>,
        weights: Weights,
        config: &ModelConfig,
        end_ids: impl IntoIterator<Item = u32>,
    ) -> Result<Self, EngineError> {
        let (context, max_position_embeddings) = (ops.context_len(), config.max_position_embeddings);
        if context > max_position_embeddings {
            return Err(EngineError::Context { context, max_position_embeddings });
        }
        Ok(Self {
            ops,
            weights,
            vocab_size: config.vocab_size,
            end_ids: end_ids.into_iter().collect(),
            cached: Vec::with_capacity(context),
            chosen: VecDeque::new(),
            logits: Vec::new(),
            candidates: Vec::new(),
            clock: Box::<SystemClock>::default(),
        })
    }

    /// The same engine with another clock.
    pub fn with_clock(mut self, clock: Box<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Name of the backend.
    pub fn backend(&self) -> &'static str {
        self.ops.name()
    }

    /// How the backend stores keys and values.
    pub fn kv_formats(&self) -> KvFormats {
        self.ops.kv_formats()
    }

    /// What the backend multiplies quantized matrices with.
    pub fn activations(&self) -> Activations {
        self.ops.activations()
    }

    /// Context in tokens: prompt and generated ones together.
    pub fn context_len(&self) -> usize {
        self.ops.context_len()
    }

    /// Rows of the embedding.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The model's end-of-text ids.
    pub fn end_ids(&self) -> &BTreeSet<u32> {
        &self.end_ids
    }

    /// Forgets the cached sequence; the next prompt is evaluated from its first token.
    pub fn clear_cache(&mut self) {
        self.cached.clear();
    }

    /// The backend and the weights, for callers that run passes of their own (tests, explanations). What the cache holds is
    /// unknown afterwards, so it is forgotten.
    pub fn parts(&mut self) -> (&mut dyn Ops, &Weights) {
        self.cached.clear();
        (self.ops.as_mut(), &self.weights)
    }

    /// Checks a request without computing: the number of tokens it may generate.
    pub fn admit(&self, request: &Request) -> Result<usize, RequestError> {
        let wanted = match request.max_tokens {
            None => usize::MAX,
            Some(n) => usize::try_from(n).map_err(|_| RequestError::Field {
                field: "max_tokens",
                value: n.to_string(),
                expected: "0 or more",
            })?,
        };
        self.check_prompt(&request.prompt, wanted.min(1))?;
        request.sampling.validate()?;
        StopMatcher::new(&request.stop)?;
        Ok(wanted.min(self.context_len() - request.prompt.len()))
    }

    fn check_prompt(&self, prompt: &[u32], reserved: usize) -> Result<(), RequestError> {
        if prompt.is_empty() {
            return Err(RequestError::Field {
                field: "prompt",
                value: "0 tokens".into(),
                expected: "at least one token",
            });
        }
        let context = self.context_len();
        let room = context.saturating_sub(reserved);
        if prompt.len() > room {
            return Err(RequestError::ContextLength { prompt: prompt.len(), context, room, reserved });
        }
        match prompt.iter().position(|&id| id as usize >= self.vocab_size) {
            Some(index) => Err(RequestError::TokenId { id: prompt[index], index, vocab_size: self.vocab_size }),
            None => Ok(()),
        }
    }

    /// Generates. `detokenize` must be fresh; `on_event` sees each step and may cancel within one decode step or prefill chunk.
    ///
    /// The longest common prefix of the prompt and the sequence in the cache is not evaluated again.
    pub fn generate(
        &mut self,
        request: &Request,
        detokenize: &mut dyn Detokenize,
        on_event: &mut dyn FnMut(Event<'_>) -> Flow,
    ) -> Result<Outcome, EngineError> {
        let budget = self.admit(request)?;
        let mut sampler = Sampler::new(request.sampling, &request.prompt)?;
        let mut stops = StopMatcher::new(&request.stop)?;
        let start = self.clock.now();
        let own_ends = self.end_ids.iter().filter(|_| !request.ignore_eos);
        let ends: Vec<u32> = own_ends.chain(&request.stop_token_ids).copied().collect();
        let cached_tokens = self.reuse(&request.prompt);
        let mut timings = Timings { prompt_tokens: request.prompt.len(), cached_tokens, ..Default::default() };
        let mut outcome = Outcome {
            tokens: Vec::new(),
            text: String::new(),
            finish_reason: FinishReason::Length,
            stop_token: None,
            seed: (request.sampling.temperature != 0.0).then(|| sampler.seed()),
            timings,
        };

        let completed = self.prefill(&request.prompt, budget.min(1), on_event)?;
        let mut first = None;
        if !completed {
            outcome.finish_reason = FinishReason::Cancelled;
        } else if budget == 0 {
            self.wait()?;
        }
        timings.cached_tokens = cached_tokens;
        while completed && outcome.tokens.len() < budget {
            let (id, ready) = self.choose(&mut sampler)?;
            let now = self.clock.now();
            let first = *first.get_or_insert_with(|| {
                timings.prefill = ready - start;
                timings.time_to_first_token = Some(now - start);
                now
            });
            timings.decode = now - first;
            let index = outcome.tokens.len();
            outcome.tokens.push(id);
            let last = ends.contains(&id);
            let (text, stopped) = if last { (String::new(), true) } else { stops.push(&detokenize.push(id)) };
            outcome.text.push_str(&text);
            let flow = on_event(Event::Token { index, id, text: &text });
            if stopped {
                outcome.finish_reason = FinishReason::Stop;
                outcome.stop_token = last.then_some(id);
                break;
            }
            if flow == Flow::Cancel {
                outcome.finish_reason = FinishReason::Cancelled;
                break;
            }
            // The last token of the budget is shown and never evaluated: nothing would read its logits.
            if outcome.tokens.len() < budget {
                self.step(id, budget - outcome.tokens.len(), &sampler, &ends)?;
            }
        }
        if first.is_none() {
            timings.prefill = self.clock.now() - start;
        }
        // A stop string ends the text where it began; otherwise what was held back belongs to it.
        if outcome.finish_reason != FinishReason::Stop || outcome.stop_token.is_some() {
            let (mut tail, stopped) = stops.push(&detokenize.finish());
            if stopped {
                outcome.finish_reason = FinishReason::Stop;
            }
            tail.push_str(&stops.finish());
            if !tail.is_empty() {
                outcome.text.push_str(&tail);
                on_event(Event::Tail { text: &tail });
            }
        }
        timings.generated_tokens = outcome.tokens.len();
        outcome.timings = timings;
        Ok(outcome)
    }

    /// Logits after the last of `ids`, `[vocab_size]`, evaluated from an empty cache.
    pub fn last_logits(&mut self, ids: &[u32]) -> Result<&[f32], EngineError> {
        self.check_prompt(ids, 0)?;
        self.cached.clear();
        self.prefill(ids, 1, &mut |_| Flow::Continue)?;
        self.read_logits()?;
        Ok(&self.logits)
    }

    /// Cuts the cached sequence to what it shares with `prompt` and gives its length. One token at least stays to be evaluated:
    /// the logits come from it.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        self.chosen.clear();
        let common = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        self.cached.truncate(common.min(prompt.len() - 1));
        self.cached.len()
    }

    /// Evaluates what of `prompt` is not cached, in chunks; the last one computes `rows` rows of logits. `false` if cancelled.
    fn prefill(
        &mut self,
        prompt: &[u32],
        rows: usize,
        on_event: &mut dyn FnMut(Event<'_>) -> Flow,
    ) -> Result<bool, EngineError> {
        let (start, chunk) = (self.cached.len(), self.ops.max_chunk());
        let total = prompt.len() - start;
        for ids in prompt[start..].chunks(chunk) {
            let last = self.cached.len() + ids.len() == prompt.len();
            self.pass(ids, if last { rows } else { 0 })?;
            if on_event(Event::Prefill { done: self.cached.len() - start, total }) == Flow::Cancel {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One forward pass after what is cached.
    fn pass(&mut self, ids: &[u32], rows: usize) -> Result<(), EngineError> {
        let position = self.cached.len();
        let done = forward(self.ops.as_mut(), &self.weights, ids, position, rows);
        self.trusted(done)?;
        self.cached.extend_from_slice(ids);
        Ok(())
    }

    /// Evaluates a chosen token, so that the next can be chosen; `remaining` will be at most. Where the backend chooses by itself it may
    /// run ahead: then the cache knows tokens that nobody has taken yet, which is no harm if nobody does.
    fn step(&mut self, id: u32, remaining: usize, sampler: &Sampler, ends: &[u32]) -> Result<(), EngineError> {
        if !self.chosen.is_empty() {
            return Ok(()); // `id` came from there: it is evaluated
        }
        let block = self.ops.decode_block();
        if block == 0 {
            return self.pass(&[id], 1);
        }
        let position = self.cached.len();
        if !sampler.params().is_plain_greedy() {
            let done = self.ops.decode_logits(id, position);
            self.trusted(done)?;
            self.cached.push(id);
            return Ok(());
        }
        let count = block.min(remaining).min(self.context_len() - position);
        let chosen = self.ops.decode_greedy(id, position, count, ends);
        let chosen = self.trusted(chosen)?;
        let Some((_, evaluated)) = chosen.split_last() else {
            return self.trusted(Err(BackendError("decode chose no token".into())));
        };
        self.cached.push(id);
        self.cached.extend_from_slice(evaluated);
        self.chosen.extend(chosen);
        Ok(())
    }

    /// The next token, and when its logits were there.
    fn choose(&mut self, sampler: &mut Sampler) -> Result<(u32, std::time::Duration), EngineError> {
        if let Some(id) = self.chosen.pop_front() {
            return Ok((id, self.clock.now()));
        }
        if sampler.params().is_plain_greedy() {
            let id = self.ops.argmax();
            let id = self.trusted(id)?;
            return Ok((id, self.clock.now()));
        }
        if let Some(k) = sampler.params().candidates() {
            let there = self.ops.top_k(k, &mut self.candidates);
            if self.trusted(there)? {
                let ready = self.clock.now();
                return Ok((sampler.sample_from(&self.candidates)?, ready));
            }
        }
        self.read_logits()?;
        let ready = self.clock.now();
        Ok((sampler.sample(&mut self.logits)?, ready))
    }

    fn read_logits(&mut self) -> Result<(), EngineError> {
        let read = self.ops.read_logits(&mut self.logits);
        self.trusted(read)?;
        if self.logits.len() == self.vocab_size {
            return Ok(());
        }
        let text = format!("{} logits read, {} expected", self.logits.len(), self.vocab_size);
        self.trusted(Err(BackendError(text)))
    }

    /// Waits until the passes so far are done.
    fn wait(&mut self) -> Result<(), EngineError> {
        let read = self.ops.read_hidden(&mut Vec::new());
        self.trusted(read)
    }

    /// After a failure nobody knows what the cache holds, so it is forgotten.
    fn trusted<T>(&mut self, result: Result<T, BackendError>) -> Result<T, EngineError> {
        result.map_err(|source| {
            self.cached.clear();
            self.chosen.clear();
            EngineError::Backend { backend: self.ops.name(), source }
        })
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
