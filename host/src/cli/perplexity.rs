//! `zynfer perplexity`: how well the model predicts a text, window by window.

use std::path::PathBuf;

use serde_json::json;

use crate::engine::{Event, Flow};
use crate::text::Special;

use super::error::{CliError, CliResult};
use super::interrupt;
use super::model::{BackendArgs, ModelArgs};
use super::output::{Ui, Unit};
use super::text_input;

/// Measure how well the model predicts a text
///
/// Each window is evaluated from an empty context; every id in it but the first is scored.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The text, a UTF-8 file, or - for stdin; control tokens in it count
    #[arg(long, value_name = "FILE", required_unless_present = "ids_u16", conflicts_with = "ids_u16")]
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
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let model = args.model.open(ui)?;
    let ids = match (&args.text, &args.ids_u16) {
        (_, Some(file)) => text_input::read_ids_u16(file)?,
        (Some(file), None) => model.tokenizer()?.encode(&text_input::read_text(file)?, Special::Parse)?,
        (None, None) => return Err(CliError::usage("--text or --ids-u16 is needed")),
    };
    let context = model.context(&args.backend, args.window)?;
    let mut loaded = model.load(&args.backend, context, ui)?;
    let mut progress = ui.progress("perplexity", Unit::Tokens);
    let guard = interrupt::Guard::new();
    let result = loaded.engine.perplexity(&ids, args.window, args.windows, &mut |event| {
        if let Event::Prefill { done, total } = event {
            progress.update(done as u64, total as u64);
        }
        if interrupt::asked() { Flow::Cancel } else { Flow::Continue }
    });
    let interrupted = interrupt::asked();
    drop(guard);
    drop(progress);
    let result = result?;
    let backend = loaded.engine.backend();
    let windows = result.window_mean_nll.len();
    if args.json {
        ui.out_json(&json!({
            "perplexity": result.perplexity,
            "mean_nll": result.mean_nll,
            "window": result.window,
            "windows": windows,
            "tokens_scored": result.tokens_scored,
            "ids_unused": result.ids_unused,
            "window_mean_nll": result.window_mean_nll,
            "backend": backend,
        }))?;
    } else {
        ui.out(&format!("perplexity {:.4}\n", result.perplexity))?;
        ui.aside(&format!(
            "{backend}: mean negative log-likelihood {:.6} over {} tokens in {windows} windows of {}, {} ids unused",
            result.mean_nll, result.tokens_scored, result.window, result.ids_unused
        ));
    }
    // What was measured before Ctrl-C is told, and said to be not all.
    if interrupted { Err(CliError::Interrupted) } else { Ok(()) }
}
