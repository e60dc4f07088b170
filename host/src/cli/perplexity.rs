//! `zynfer perplexity`: how well the model predicts a text, window by window.

use serde_json::json;

use super::error::{CliError, CliResult};
use super::model::{BackendArgs, ModelArgs, told};
use super::output::Ui;
use super::scored::{ScoredArgs, encode, watched};

/// Measure how well the model predicts a text
///
/// Each window is evaluated from an empty context; every id in it but the first is scored.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    scored: ScoredArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let model = args.model.open(ui)?;
    let ids = args.scored.ids(|text| encode(&model.tokenizer()?, text))?;
    let windows = args.scored.windows(&ids)?;
    let context = model.context(&args.backend, windows.window())?;
    let mut engine = model.load(&args.backend, context, ui)?.engine;
    let (result, interrupted) = watched(ui, "perplexity", |on_event| engine.perplexity(&windows, on_event))?;
    let (backend, kv, activations) = (engine.backend(), engine.kv_formats(), engine.activations());
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
            "kv": kv.to_string(),
            "activations": activations.to_string(),
        }))?;
    } else {
        ui.out(&format!("perplexity {:.4}\n", result.perplexity))?;
        ui.aside(&format!(
            "{backend}, KV cache {kv}{}: mean negative log-likelihood {:.6} over {} tokens in {windows} windows of {}, {} ids unused",
            told(activations), result.mean_nll, result.tokens_scored, result.window, result.ids_unused
        ));
    }
    // What was measured before Ctrl-C is told, and said to be not all.
    if interrupted { Err(CliError::Interrupted) } else { Ok(()) }
}
