//! `zynfer logits`: the last position's logits in a file, so that anyone can compare us with anything.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::engine::sampler::argmax;

use super::error::{CliError, CliResult};
use super::model::{BackendArgs, ModelArgs, told};
use super::output::Ui;

/// Write the logits after a sequence of ids
///
/// The file holds vocab_size float32 numbers, little-endian.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The ids, separated by commas
    #[arg(long, value_name = "1,2,3", value_delimiter = ',', required = true)]
    ids: Vec<u32>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object about what was written
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let model = args.model.open(ui)?;
    let context = model.context(&args.backend, args.ids.len())?;
    let mut loaded = model.load(&args.backend, context, ui)?;
    let engine = &loaded.engine;
    let (backend, kv, activations) = (engine.backend(), engine.kv_formats(), engine.activations());
    let logits = loaded.engine.last_logits(&args.ids)?;
    let likeliest = argmax(logits).map_err(CliError::failed)?;
    let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    write_whole(&args.out, &bytes)?;
    let count = logits.len();
    if args.json {
        return ui.out_json(&json!({
            "out": args.out.to_string_lossy(), "tokens": args.ids.len(), "vocab_size": count, "argmax": likeliest, "backend": backend,
            "kv": kv.to_string(), "activations": activations.to_string(),
        }));
    }
    ui.say(&format!(
        "{}: {count} logits after {} tokens on {backend} (KV cache {kv}{}), the largest is id {likeliest}",
        args.out.display(),
        args.ids.len(),
        told(activations)
    ));
    Ok(())
}

/// Writes a file that is there whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> CliResult<()> {
    let failed = |error: std::io::Error| CliError::file(path, &error);
    // A device or a pipe cannot be replaced, only written to.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, bytes).map_err(failed);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(readable()).tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// What a new file usually may: the process's mask takes away from it.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}
