//! Text that is scored in windows: what `perplexity` and `compare` have in common; and text that may be given as ids, as to `compile`, too.

use std::path::{Path, PathBuf};

use crate::engine::windows::Windows;
use crate::engine::{EngineError, Event, Flow};
use crate::text::{Special, Tokenizer};

use super::error::CliResult;
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
    window: usize,
    /// Score only the first N windows
    #[arg(long, value_name = "N")]
    windows: Option<usize>,
}

impl ScoredArgs {
    /// The ids; `encode` makes them of a text.
    pub(super) fn ids(&self, encode: impl FnOnce(&str) -> CliResult<Vec<u32>>) -> CliResult<Vec<u32>> {
        read_ids(self.text.as_deref(), self.ids_u16.as_deref(), encode)
    }

    /// The windows of `ids` that are asked for.
    pub(super) fn windows<'i>(&self, ids: &'i [u32]) -> CliResult<Windows<'i>> {
        Ok(Windows::new(ids, self.window, self.windows)?)
    }
}

/// The ids of one of the two files: `encode` makes them of a text.
pub(super) fn read_ids(
    text: Option<&Path>,
    ids_u16: Option<&Path>,
    encode: impl FnOnce(&str) -> CliResult<Vec<u32>>,
) -> CliResult<Vec<u32>> {
    match ids_u16 {
        Some(file) => text_input::read_ids_u16(file),
        None => encode(&text_input::read_text(text.expect("clap demands a text or ids"))?),
    }
}

/// Ids of a text whose control tokens count.
pub(super) fn encode(tokenizer: &Tokenizer, text: &str) -> CliResult<Vec<u32>> {
    Ok(tokenizer.encode(text, Special::Parse)?)
}

/// Runs `work` with a bar and until Ctrl-C: its result, and whether Ctrl-C was pressed.
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
