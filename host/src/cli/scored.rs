//! Text that is scored in windows: what `perplexity` and `compare` have in common.

use std::path::PathBuf;

use crate::engine::windows::Windows;
use crate::engine::{EngineError, Event, Flow};
use crate::text::{Special, Tokenizer};

use super::error::{CliError, CliResult};
use super::interrupt;
use super::output::{Ui, Unit};
use super::text_input;

/// Which text, and how much of it.
#[derive(Debug, clap::Args)]
pub(super) struct ScoredArgs {
    /// The text, a UTF-8 file, or - for stdin; control tokens in it count
    #[arg(
        long,
        visible_alias = "file",
        value_name = "FILE",
        required_unless_present = "ids_u16",
        conflicts_with = "ids_u16"
    )]
    text: Option<PathBuf>,
    /// The ids, a file of little-endian 16-bit numbers
    #[arg(long, value_name = "FILE")]
    ids_u16: Option<PathBuf>,
    /// Ids per window
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(super) window: usize,
    /// Score only the first N windows
    #[arg(long, value_name = "N")]
    pub(super) windows: Option<usize>,
}

impl ScoredArgs {
    /// The ids; `encode` makes them of a text.
    pub(super) fn ids(&self, encode: impl FnOnce(&str) -> CliResult<Vec<u32>>) -> CliResult<Vec<u32>> {
        match (&self.text, &self.ids_u16) {
            (_, Some(file)) => text_input::read_ids_u16(file),
            (Some(file), None) => encode(&text_input::read_text(file)?),
            (None, None) => Err(CliError::usage("--text or --ids-u16 is needed")),
        }
    }

    /// The windows of `ids` that are asked for.
    pub(super) fn windows<'i>(&self, ids: &'i [u32]) -> CliResult<Windows<'i>> {
        Ok(Windows::new(ids, self.window, self.windows)?)
    }
}

/// Ids of a text whose control tokens count.
pub(super) fn encode(tokenizer: &Tokenizer, text: &str) -> CliResult<Vec<u32>> {
    Ok(tokenizer.encode(text, Special::Parse)?)
}

/// Runs `work` with a bar and until Ctrl-C: its result, and whether there would have been more.
pub(super) fn watched<T>(
    ui: &Ui,
    what: &'static str,
    work: impl FnOnce(&mut dyn FnMut(Event<'_>) -> Flow) -> Result<T, EngineError>,
) -> CliResult<(T, bool)> {
    let mut progress = ui.progress(what, Unit::Tokens);
    let guard = interrupt::Guard::new();
    let result = work(&mut |event| {
        if let Event::Prefill { done, total } = event {
            progress.update(done as u64, total as u64);
        }
        if interrupt::asked() { Flow::Cancel } else { Flow::Continue }
    });
    let interrupted = interrupt::asked();
    drop(guard);
    drop(progress);
    Ok((result?, interrupted))
}
