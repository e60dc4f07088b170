//! `zynfer compare`: how far one model's predictions are from another's on the same text, a quantized model's from its source's above all.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::artifact::Artifact;
use crate::engine::compare::{Comparison, Position, compare};
use crate::engine::perplexity::Perplexity;
use crate::engine::windows::Windows;
use crate::model::kv::KvFormats;
use crate::text::Tokenizer;

use super::error::{CliError, CliResult};
use super::model::{BackendArgs, Load, Model, no_tokenizer, tokenizer};
use super::output::Ui;
use super::scored::{ScoredArgs, encode, watched};

/// Positions that are told one by one.
const WORST: usize = 10;
/// Tokens of the text before such a position that are shown.
const CONTEXT: usize = 16;

/// Measure how far a model's predictions are from another's
///
/// For every scored token the Kullback–Leibler divergence of B's distribution from A's, in nats: 0 where B says the same. Each window is evaluated from an empty context by both; every id in it but the first is scored. Both models must have one vocabulary.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The reference: a .zynfer file or a Hugging Face folder
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The model that is measured against it
    #[arg(value_name = "B")]
    b: PathBuf,
    /// How weights reach memory
    #[arg(long, value_enum, default_value_t = Load::Mmap, value_name = "HOW")]
    load: Load,
    #[command(flatten)]
    scored: ScoredArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let (a, b) = (Model::open(&args.a, args.load, ui)?, Model::open(&args.b, args.load, ui)?);
    let [of_a, of_b] = [tokenizer(&a.artifact)?, tokenizer(&b.artifact)?];
    let sides = [(&a.artifact, of_a.as_ref()), (&b.artifact, of_b.as_ref())];
    one_vocabulary(sides, ui)?;
    let ids = args.scored.ids(|text| same_ids(sides, text))?;
    let windows = args.scored.windows(&ids)?;
    let load = |model: Model| {
        let context = model.context(&args.backend, windows.window())?;
        CliResult::Ok(model.load(&args.backend, context, ui)?.engine)
    };
    let (mut a, mut b) = (load(a)?, load(b)?);
    let (result, interrupted) = watched(ui, "compare", |on_event| compare(&mut a, &mut b, &windows, on_event))?;
    let (tokenizer, backend, kv) = (of_a.as_ref().or(of_b.as_ref()), a.backend(), a.kv_formats());
    let told = Told { args, windows, tokenizer, backend, kv, result: &result };
    if args.json { ui.out_json(&told.json()) } else { told.text(ui) }?;
    // What was measured before Ctrl-C is told, and said to be not all.
    if interrupted { Err(CliError::Interrupted) } else { Ok(()) }
}

/// Of each model what its ids are known by, with a tokenizer where it has one.
type Sides<'s> = [(&'s Artifact, Option<&'s Tokenizer>); 2];

/// Refuses models whose ids mean different tokens. A model without a tokenizer is known by its number of rows alone.
fn one_vocabulary(sides: Sides<'_>, ui: &Ui) -> CliResult<()> {
    let rows = sides.map(|(artifact, _)| artifact.config().vocab_size);
    if rows[0] != rows[1] {
        return Err(differ(sides, "vocab_size", rows.map(|rows| rows.to_string())));
    }
    let [(_, Some(first)), (_, Some(second))] = sides else {
        ui.note("not both models have a tokenizer: that an id is the same token to both is taken on trust");
        return Ok(());
    };
    let differs = (0..rows[0] as u32).find(|&id| first.piece(id) != second.piece(id));
    let Some(id) = differs else { return Ok(()) };
    let pieces = [first, second].map(|t| t.piece(id).map_or("no token".into(), |piece| format!("{piece:?}")));
    Err(differ(sides, &format!("tokenizer, id {id}"), pieces))
}

/// Ids of `text`, which both tokenizers must cut alike: the same vocabulary may come with other merges.
fn same_ids(sides: Sides<'_>, text: &str) -> CliResult<Vec<u32>> {
    let [a, b] = sides.map(|(artifact, tokenizer)| encode(tokenizer.ok_or_else(|| no_tokenizer(artifact))?, text));
    let ids = [a?, b?];
    let [first, second] = &ids;
    let common = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    if common == first.len().max(second.len()) {
        let [first, _] = ids;
        return Ok(first);
    }
    let there = ids.each_ref().map(|ids| ids.get(common).map_or("the end".into(), u32::to_string));
    Err(differ(sides, &format!("tokenizer, token {common} of the text"), there))
}

/// Only like can be compared.
fn differ(sides: Sides<'_>, what: &str, [of_a, of_b]: [String; 2]) -> CliError {
    let [a, b] = sides.map(|(artifact, _)| artifact.path().display());
    CliError::failed(format!("{what}: {of_a} in {a}, {of_b} in {b}; only models of one vocabulary can be compared"))
}

/// A result and what is needed to tell it.
struct Told<'t> {
    args: &'t Args,
    windows: Windows<'t>,
    tokenizer: Option<&'t Tokenizer>,
    backend: &'static str,
    kv: KvFormats,
    result: &'t Comparison,
}

impl Told<'_> {
    fn text(&self, ui: &Ui) -> CliResult<()> {
        let result = self.result;
        let [a, b] = &result.perplexities;
        let count = result.positions.len();
        ui.out(&format!(
            "KLD of B from A      mean {:.6}, 99 % within {:.6}, at most {:.6} nats\n\
             same likeliest token {:.2} % ({} of {count})\n\
             perplexity           A {:.4}, B {:.4} ({:+.3} %)\n",
            result.mean_kld,
            result.kld_p99,
            result.max_kld,
            100.0 * result.top1_agreement(),
            result.same_top1,
            a.perplexity,
            b.perplexity,
            result.perplexity_delta(),
        ))?;
        for position in self.worst() {
            let [a, b] = position.top1.map(|id| self.token(id));
            ui.out(&format!(
                "  {:.6} at window {}, position {}: A {a}, B {b}, in the text {}, after {}\n",
                position.kld,
                position.window,
                position.position,
                self.token(position.target),
                self.context(position).map_or("tokens without text".into(), |text| format!("{text:?}")),
            ))?;
        }
        ui.aside(&format!(
            "{}, KV cache {}{}: {count} tokens in {} windows of {}, {} ids unused",
            self.backend,
            self.kv,
            super::model::told(self.args.backend.activations()),
            a.window_mean_nll.len(),
            a.window,
            a.ids_unused
        ));
        Ok(())
    }

    fn json(&self) -> Value {
        let result = self.result;
        let [a, b] = &result.perplexities;
        let worst: Vec<Value> = self.worst().map(|position| self.position(position)).collect();
        json!({
            "a": side(&self.args.a, a),
            "b": side(&self.args.b, b),
            "mean_kld": result.mean_kld,
            "kld_p99": result.kld_p99,
            "max_kld": result.max_kld,
            "top1_agreement": result.top1_agreement(),
            "perplexity_delta_percent": result.perplexity_delta(),
            "worst": worst,
            "window": a.window,
            "windows": a.window_mean_nll.len(),
            "tokens_scored": a.tokens_scored,
            "ids_unused": a.ids_unused,
            "backend": self.backend,
            "kv": self.kv.to_string(),
            "activations": self.args.backend.activations().to_string(),
        })
    }

    fn position(&self, position: &Position) -> Value {
        let token = |id: u32| json!({"id": id, "text": self.tokenizer.map(|tokenizer| tokenizer.decode(&[id], false))});
        json!({
            "window": position.window,
            "position": position.position,
            "kld": position.kld,
            "a_top1": token(position.top1[0]),
            "b_top1": token(position.top1[1]),
            "target": token(position.target),
            "context": self.context(position),
        })
    }

    /// The largest divergences; where there is none there is nothing to tell.
    fn worst(&self) -> impl Iterator<Item = &Position> {
        self.result.positions.iter().take(WORST).filter(|position| position.kld > 0.0)
    }

    /// The text just before a position, within its window.
    fn context(&self, position: &Position) -> Option<String> {
        let before = &self.windows.get(position.window)[..position.position];
        self.tokenizer.map(|tokenizer| tokenizer.decode(&before[before.len().saturating_sub(CONTEXT)..], false))
    }

    /// Id and text of a token.
    fn token(&self, id: u32) -> String {
        self.tokenizer.map_or(id.to_string(), |tokenizer| format!("{:?} ({id})", tokenizer.decode(&[id], false)))
    }
}

fn side(model: &Path, perplexity: &Perplexity) -> Value {
    json!({
        "model": model.to_string_lossy(),
        "perplexity": perplexity.perplexity,
        "mean_nll": perplexity.mean_nll,
        "window_mean_nll": perplexity.window_mean_nll,
    })
}
