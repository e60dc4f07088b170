//! Rates of prefill and decode, run by run: what `bench` and `quant-report` measure. The engine takes the times; which runs are taken, in
//! which order, and how they are told is the command's business.

use crate::engine::{Engine, Event, FinishReason, Flow, NoText, Request, Timings};

use super::error::{CliError, CliResult};
use super::interrupt;

/// What is measured, and how often.
#[derive(Debug, clap::Args)]
pub(super) struct SpeedArgs {
    /// Tokens of the prompt; 0 measures no prefill [default: 512, on the emulator 32]
    #[arg(short = 'p', long, value_name = "N")]
    prompt: Option<u32>,
    /// Tokens to generate; 0 measures no decode [default: 128, on the emulator 4]
    #[arg(short = 'n', long, value_name = "N")]
    tokens: Option<u32>,
    /// Tokens in the context before those that are generated; they are not timed
    #[arg(short = 'd', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    depth: u32,
    /// Measured runs of each [default: 5, on the emulator 3]
    #[arg(short = 'r', long, value_name = "R")]
    repeat: Option<u32>,
}

/// The same, decided.
pub(super) struct Speeds {
    /// Prefill, then decode; what has no tokens is left out.
    pub(super) tests: Vec<Test>,
    /// Measured runs of each, at least 1.
    pub(super) repeat: usize,
}

/// What one run does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Test {
    /// Evaluates a prompt of so many tokens.
    Prefill(usize),
    /// Generates so many behind a prompt of `depth`.
    Decode { tokens: usize, depth: usize },
}

/// What one run gave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// Tokens per second.
    pub(super) rate: f64,
    /// Wave-instructions of a token, where they are counted.
    pub(super) instructions: Option<f64>,
}

/// The runs of one test, at least one.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    /// `pp512`, `tg128`.
    pub(super) test: String,
    /// Tokens that a run is timed by.
    pub(super) tokens: usize,
    /// Tokens per second of each run, slowest first.
    pub(super) rates: Vec<f64>,
    /// Wave-instructions of a token in the last run, where they are counted.
    pub(super) instructions: Option<f64>,
}

impl SpeedArgs {
    /// What the user asks for, and the defaults.
    pub(super) fn speeds(&self, emulated: bool) -> CliResult<Speeds> {
        let or = |given: Option<u32>, usual: u32, emulator: u32| -> usize {
            given.unwrap_or(if emulated { emulator } else { usual }) as usize
        };
        let (prompt, tokens) = (or(self.prompt, 512, 32), or(self.tokens, 128, 4));
        let repeat = or(self.repeat, 5, 3);
        if repeat == 0 {
            return Err(CliError::usage("--repeat: 0 runs given, at least 1 is needed"));
        }
        let tests = [Test::Prefill(prompt), Test::Decode { tokens, depth: self.depth as usize }];
        Ok(Speeds { tests: tests.into_iter().filter(|test| test.tokens() > 0).collect(), repeat })
    }
}

impl Speeds {
    /// Tokens of context that the longest run needs.
    pub(super) fn context(&self) -> usize {
        let needed = |test: &Test| match *test {
            Test::Prefill(tokens) => tokens,
            // A decode of N tokens follows a prompt, and the token that the prompt itself gives is not counted.
            Test::Decode { tokens, depth } => depth + tokens + 1,
        };
        self.tests.iter().map(needed).max().unwrap_or(0)
    }
}

impl Test {
    /// `pp512`, `tg128`, `tg128 @ d64`.
    pub(super) fn name(self) -> String {
        match self {
            Test::Prefill(tokens) => format!("pp{tokens}"),
            Test::Decode { tokens, depth: 1 } => format!("tg{tokens}"),
            Test::Decode { tokens, depth } => format!("tg{tokens} @ d{depth}"),
        }
    }

    /// Tokens that it is timed by.
    fn tokens(self) -> usize {
        match self {
            Test::Prefill(tokens) | Test::Decode { tokens, .. } => tokens,
        }
    }

    /// Ids do not matter for the time; they only have to differ and to be in the vocabulary.
    fn request(self, vocab: usize) -> Request {
        let (prompt, generated) = match self {
            Test::Prefill(tokens) => (tokens, 0),
            Test::Decode { tokens, depth } => (depth, tokens + 1),
        };
        let prompt = (0..prompt).map(|i| (i * 7919 % vocab) as u32).collect();
        Request { prompt, max_tokens: Some(generated as i64), ignore_eos: true, ..Request::default() }
    }

    /// Tokens whose passes an instruction count covers.
    pub(super) fn passes(self) -> usize {
        match self {
            Test::Prefill(tokens) => tokens,
            Test::Decode { tokens, depth } => depth + tokens,
        }
    }

    fn rate(self, timings: &Timings) -> Option<f64> {
        match self {
            Test::Prefill(_) => timings.prefill_tok_s(),
            Test::Decode { .. } => timings.decode_tok_s(),
        }
    }

    /// Runs it once, from an empty cache. `on_tokens` gets the tokens done so far. Ctrl-C under a guard ends it.
    pub(super) fn run(self, engine: &mut Engine, on_tokens: &mut dyn FnMut(usize)) -> CliResult<Run> {
        let request = self.request(engine.vocab_size());
        let before = engine.parts().0.wave_instructions(); // this forgets the cache, too
        let outcome = engine.generate(&request, &mut NoText, &mut |event| {
            match event {
                Event::Prefill { done, .. } => on_tokens(done),
                Event::Token { index, .. } => on_tokens(index),
                Event::Tail { .. } => {}
            }
            if interrupt::asked() { Flow::Cancel } else { Flow::Continue }
        })?;
        if outcome.finish_reason == FinishReason::Cancelled {
            return Err(CliError::Interrupted);
        }
        let after = engine.parts().0.wave_instructions();
        let rate = self.rate(&outcome.timings);
        Ok(Run {
            rate: rate.ok_or_else(|| CliError::failed(format!("{}: too short to be timed", self.name())))?,
            instructions: before.zip(after).map(|(before, after)| (after - before) as f64 / self.passes() as f64),
        })
    }
}

impl Measured {
    /// Of a test whose first run gave `run`.
    pub(super) fn new(test: Test, run: Run) -> Self {
        Self { test: test.name(), tokens: test.tokens(), rates: vec![run.rate], instructions: run.instructions }
    }

    /// One run more.
    pub(super) fn add(&mut self, run: Run) {
        let at = self.rates.partition_point(|rate| *rate < run.rate);
        self.rates.insert(at, run.rate);
        self.instructions = run.instructions;
    }

    /// Of an even number of runs the mean of the two in the middle.
    pub(super) fn median(&self) -> f64 {
        let half = self.rates.len() / 2;
        if self.rates.len() % 2 == 1 { self.rates[half] } else { (self.rates[half - 1] + self.rates[half]) / 2.0 }
    }

    /// Of the slowest run.
    pub(super) fn slowest(&self) -> f64 {
        self.rates[0]
    }

    /// Of the fastest run.
    pub(super) fn fastest(&self) -> f64 {
        self.rates[self.rates.len() - 1]
    }
}
