//! `zynfer compile`: a Hugging Face folder or a GGUF file becomes a `.zynfer` file. The reading and writing are [`crate::artifact`]'s.

use std::path::PathBuf;

use serde_json::json;

use crate::artifact::{self, CompileOptions};

use super::error::CliResult;
use super::output::{Ui, Unit, bytes};

/// Compile a Hugging Face folder or a GGUF file to a .zynfer file
///
/// Of a GGUF file in parts any one may be named; architecture, tokenizer, chat template and sampling defaults come from its metadata. The file appears under its name only when it is complete and verified.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "artifact-compile")]
pub(super) struct Args {
    /// The folder (config.json, *.safetensors, tokenizer.json, …) or the .gguf file
    #[arg(value_name = "SRC")]
    src: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT.zynfer")]
    out: PathBuf,
    /// Round tensors of a GGUF file that are not bfloat16 to it; without this flag such a file is refused
    #[arg(long, value_enum, value_name = "SCHEME")]
    quant: Option<Quant>,
    /// Print one JSON object about what was written
    #[arg(long)]
    json: bool,
}

/// `--quant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Quant {
    /// Bfloat16, rounded to nearest
    Bf16,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let mut progress = ui.progress("compile", Unit::Bytes);
    let options = CompileOptions { round_to_bf16: args.quant == Some(Quant::Bf16) };
    let report = artifact::compile_with(&args.src, &args.out, options, &mut |done, total| {
        progress.update(done, total);
    })?;
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
