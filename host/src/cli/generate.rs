//! One generation, printed as it happens: the answer on stdout, reasoning on stderr, and the closing line with the rates. The rates
//! are the engine's; nothing is timed here.

use std::cell::RefCell;

use crate::engine::{Detokenize, Engine, Event, FinishReason, Flow, Outcome, Request};
use crate::text::reasoning::{Part, ReasoningSplit};
use crate::text::{Detokenizer, Tokenizer};

use super::error::{CliError, CliResult};
use super::interrupt;
use super::output::{Ui, Unit};

/// Whether reasoning is told apart from the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Everything is the answer.
    Raw,
    /// `<think>…</think>` is not.
    Chat,
}

/// Where the text goes while it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// On the streams.
    Stream,
    /// Nowhere: it is printed later as JSON.
    Keep,
}

/// What was generated.
pub(super) struct Generated {
    pub(super) outcome: Outcome,
    /// The reasoning, apart from `outcome.text`.
    pub(super) reasoning: String,
}

/// The engine's detokenizer: gives the answer's text, and puts reasoning aside.
struct Split<'t, 'r> {
    stream: Stream<'t>,
    reasoning: &'r RefCell<String>,
}

enum Stream<'t> {
    Raw(Detokenizer<'t>),
    Chat(ReasoningSplit<'t>),
}

impl Split<'_, '_> {
    fn sort(&self, (part, text): (Part, String)) -> String {
        match part {
            Part::Answer => text,
            Part::Reasoning => {
                self.reasoning.borrow_mut().push_str(&text);
                String::new()
            }
        }
    }
}

impl Detokenize for Split<'_, '_> {
    fn push(&mut self, id: u32) -> String {
        match &mut self.stream {
            Stream::Raw(stream) => stream.push(id),
            Stream::Chat(stream) => {
                let part = stream.push(id);
                self.sort(part)
            }
        }
    }

    fn finish(&mut self) -> String {
        match &mut self.stream {
            Stream::Raw(stream) => stream.finish(),
            Stream::Chat(stream) => {
                let part = stream.finish();
                self.sort(part)
            }
        }
    }
}

/// Generates and shows. An answer that Ctrl-C cut short is a result too: its `finish_reason` says so.
///
/// # Errors
/// What the engine refuses; a closed stdout.
pub(super) fn generate(
    engine: &mut Engine,
    tokenizer: &Tokenizer,
    request: &Request,
    style: Style,
    show: Show,
    ui: &Ui,
) -> CliResult<Generated> {
    let reasoning = RefCell::new(String::new());
    let stream = match style {
        Style::Raw => Stream::Raw(Detokenizer::new(tokenizer, true)),
        Style::Chat => Stream::Chat(ReasoningSplit::new(tokenizer, &request.prompt)),
    };
    let mut split = Split { stream, reasoning: &reasoning };
    let mut progress = ui.progress("prefill", Unit::Tokens);
    let mut failed = None;
    let mut shown_reasoning = 0;
    let mut answer_began = false;
    let guard = interrupt::Guard::new();
    let outcome = engine.generate(request, &mut split, &mut |event| {
        let text = match event {
            Event::Prefill { done, total } => {
                progress.update(done as u64, total as u64);
                ""
            }
            Event::Token { text, .. } | Event::Tail { text } => {
                progress.finish();
                text
            }
        };
        if show == Show::Stream {
            let reasoning = reasoning.borrow();
            ui.reasoning(&reasoning[shown_reasoning..]);
            shown_reasoning = reasoning.len();
            if !text.is_empty() && !answer_began {
                answer_began = true;
                // On a terminal both streams meet: the answer begins on a line of its own.
                ui.reasoning(if reasoning.is_empty() { "" } else { "\n" });
            }
            if let Err(error) = ui.out_generated(text) {
                failed = Some(error);
                return Flow::Cancel;
            }
        }
        if interrupt::asked() { Flow::Cancel } else { Flow::Continue }
    });
    drop(guard);
    drop(progress);
    let outcome = outcome?;
    if let Some(error) = failed {
        return Err(error);
    }
    if show == Show::Stream && !outcome.text.is_empty() && !outcome.text.ends_with('\n') {
        ui.out("\n")?;
    }
    Ok(Generated { outcome, reasoning: reasoning.into_inner() })
}

/// The closing line: why it ended, and prefill and decode apart.
pub(super) fn closing_line(generated: &Generated, engine: &Engine, load: std::time::Duration) -> String {
    let timings = &generated.outcome.timings;
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_string(), |rate| format!("{rate:.1}"));
    let ttft =
        timings.time_to_first_token.map_or_else(|| "-".to_string(), |time| format!("{:.0} ms", milliseconds(time)));
    let cached = match timings.cached_tokens {
        0 => String::new(),
        cached => format!(" ({cached} cached)"),
    };
    let reason = match generated.outcome.finish_reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Cancelled => "interrupted",
    };
    // What runs on the emulator says nothing about the card's speed, so its rates are named for what they are.
    let clock = if engine.backend() == "emulator" { ", wall clock of this CPU" } else { "" };
    format!(
        "{}: {reason}, prefill {} tokens{cached} at {} tok/s, {} new at {} tok/s, first token {ttft}, load {:.0} ms, context {} of {}, KV cache {}{}{clock}",
        engine.backend(),
        timings.prompt_tokens,
        rate(timings.prefill_tok_s()),
        timings.generated_tokens,
        rate(timings.decode_tok_s()),
        milliseconds(load),
        timings.prompt_tokens + timings.generated_tokens,
        engine.context_len(),
        engine.kv_formats(),
        super::model::told(engine.activations()),
    )
}

/// Ids separated by commas.
pub(super) fn list(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A duration in milliseconds.
pub(super) fn milliseconds(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The error of an interrupted generation, if it was one.
pub(super) fn check_finished(outcome: &Outcome) -> CliResult<()> {
    if outcome.finish_reason == FinishReason::Cancelled { Err(CliError::Interrupted) } else { Ok(()) }
}
