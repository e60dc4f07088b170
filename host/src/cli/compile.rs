//! `zynfer compile`: a Hugging Face folder becomes a `.zynfer` file. The reading and writing are [`crate::artifact`]'s.

use std::path::PathBuf;

use serde_json::json;

use crate::artifact;

use super::error::CliResult;
use super::output::{Ui, Unit, bytes};

/// Compile a Hugging Face folder to a .zynfer file
///
/// The file appears under its name only when it is complete and verified.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "artifact-compile")]
pub(super) struct Args {
    /// The folder: config.json, *.safetensors, tokenizer.json, …
    #[arg(value_name = "SRC")]
    src: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT.zynfer")]
    out: PathBuf,
    /// Print one JSON object about what was written
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let mut progress = ui.progress("compile", Unit::Bytes);
    let report = artifact::compile(&args.src, &args.out, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    for note in &report.notes {
        ui.note(note);
    }
    if args.json {
        return ui.out_json(&json!({
            "out": report.out.to_string_lossy(),
            "name": report.name,
            "file_bytes": report.file_bytes,
            "weight_bytes": report.weight_bytes,
            "tensors": report.tensor_count,
            "parameters": report.parameter_count,
            "sources": report.source_count,
            "has_tokenizer": report.has_tokenizer,
            "has_chat_template": report.has_chat_template,
            "elapsed_ms": report.elapsed.as_secs_f64() * 1000.0,
        }));
    }
    ui.say(&format!(
        "{}: {}, {} tensors, {} parameters, from {} files in {:.1} s",
        report.out.display(),
        bytes(report.file_bytes),
        report.tensor_count,
        report.parameter_count,
        report.source_count,
        report.elapsed.as_secs_f64(),
    ));
    Ok(())
}
