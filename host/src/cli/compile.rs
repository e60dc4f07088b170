//! `zynfer compile`: a Hugging Face folder or a GGUF file becomes a `.zynfer` file. The reading and writing are [`crate::artifact`]'s.

use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use crate::artifact::{self, Artifact, CompileReport, LoadMode, MatrixEncoder, gguf};
use crate::calibrate::Calibration;
use crate::quant::compensate::is_compensated;
use crate::quant::{Choice, Recipe, Scheme};

use super::error::{CliError, CliResult};
use super::inspect::scheme_counts;
use super::model::tokenizer;
use super::output::{Ui, Unit, bits_per_weight, bytes};
use super::scored::{encode, read_ids};

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
    /// Encode the matrices: bf16, int8, int8:G, int4:G, int4m:G or fp8-e4m3, with groups of G = 32, 64 or 128 weights; or source: a GGUF file's blocks as they are, no value changed. A GGUF file whose tensors are not bfloat16 is refused without it
    #[arg(long, value_name = "SCHEME[:G]|source", value_parser = str::parse::<Choice>)]
    quant: Option<Choice>,
    /// Classes of matrices with a scheme (or source) of their own: embed, lm_head, attn_q, attn_k, attn_v, attn_o, gate, up, down
    #[arg(long, value_name = "CLASS=SCHEME,…", requires = "quant")]
    keep: Option<String>,
    /// Choose the codes of int4 and int4m by a text, a UTF-8 file: the model runs over it on the CPU, and each code makes up for the errors of those before it. SRC is a folder
    #[arg(long, value_name = "FILE", requires = "quant")]
    calibrate: Option<PathBuf>,
    /// The same by ids, a file of little-endian 16-bit numbers
    #[arg(long, value_name = "FILE", requires = "quant", conflicts_with = "calibrate")]
    calibrate_ids_u16: Option<PathBuf>,
    /// Print one JSON object about what was written
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let recipe = match (args.quant.map(Recipe::from), &args.keep) {
        (Some(recipe), Some(keep)) => {
            Some(recipe.keep(keep).map_err(|error| CliError::usage(format!("--keep: {error}")))?)
        }
        (recipe, _) => recipe,
    };
    let mut calibration = match &recipe {
        Some(recipe) => calibration(args, recipe, ui)?,
        None => None,
    };
    let mut progress = ui.progress("compile", Unit::Bytes);
    let update = &mut |done, total| progress.update(done, total);
    let encoder = calibration.as_mut().map(|by| by as &mut dyn MatrixEncoder);
    let report = artifact::compile_as(&args.src, &args.out, recipe.as_ref(), encoder, update)?;
    drop(progress);
    for note in &report.notes {
        ui.note(note);
    }
    if args.json {
        return ui.out_json(&json!({
            "out": report.out.to_string_lossy(),
            "name": report.name,
            "file_bytes": report.file_bytes,
            "scheme": scheme(args).to_string(),
            "keep": args.keep,
            "calibration_tokens": calibration.as_ref().map(Calibration::tokens),
            "schemes": report.schemes.iter().map(|(scheme, count)| (scheme.to_string(), (*count).into())).collect::<Map<_, _>>(),
            "source_weight_bytes": report.source_weight_bytes,
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
        "{}: {}, {}, {} tensors, {} parameters, from {} files in {:.1} s",
        report.out.display(),
        bytes(report.file_bytes),
        weights(args, &report),
        report.tensor_count,
        report.parameter_count,
        report.source_count,
        report.elapsed.as_secs_f64(),
    ));
    Ok(())
}

/// What `--calibrate` and `--calibrate-ids-u16` ask for.
fn calibration(args: &Args, recipe: &Recipe, ui: &Ui) -> CliResult<Option<Calibration>> {
    if args.calibrate.is_none() && args.calibrate_ids_u16.is_none() {
        return Ok(None);
    }
    let compensated = |choice: &Choice| matches!(choice, Choice::Scheme(scheme) if is_compensated(*scheme));
    let mut choices = recipe.keep.iter().map(|(_, choice)| choice).chain([&recipe.choice]);
    if !choices.any(compensated) {
        return Err(CliError::usage(format!(
            "--calibrate chooses codes of int4 and int4m, --quant {} has none",
            recipe.choice
        )));
    }
    let texts = (args.calibrate.as_deref(), args.calibrate_ids_u16.as_deref());
    let (artifact, ids) = calibration_ids(&args.src, texts.0, texts.1)?;
    let calibration = Calibration::new(artifact, &ids).map_err(CliError::failed)?;
    ui.say(&format!("calibrating by {} of {} tokens", calibration.tokens(), ids.len()));
    Ok(Some(calibration))
}

/// The folder at `src`, opened, and the ids of the text that its codes are to be chosen by, one of the two.
pub(super) fn calibration_ids(
    src: &Path,
    text: Option<&Path>,
    ids_u16: Option<&Path>,
) -> CliResult<(Artifact, Vec<u32>)> {
    if gguf::is_gguf(src) {
        let file = src.display();
        return Err(CliError::failed(format!(
            "{file}: only a Hugging Face folder can be calibrated, this is a GGUF file"
        )));
    }
    let artifact = Artifact::open(src, LoadMode::Mmap)?;
    let ids = read_ids(text, ids_u16, |text| {
        let none = || CliError::failed(format!("{}: no tokenizer.json, --calibrate-ids-u16 needs none", src.display()));
        encode(&tokenizer(&artifact)?.ok_or_else(none)?, text)
    })?;
    Ok((artifact, ids))
}

/// `bf16`, or the scheme with the weights' bytes before and after.
fn weights(args: &Args, report: &CompileReport) -> String {
    let kept = args.keep.as_ref().map(|keep| format!(" ({keep})")).unwrap_or_default();
    if report.weight_bytes == report.source_weight_bytes {
        return format!("{}{kept}", scheme(args));
    }
    let kept =
        if args.quant == Some(Choice::Source) { format!("{kept} ({})", scheme_counts(&report.schemes)) } else { kept };
    let (before, after) = (report.source_weight_bytes, report.weight_bytes);
    let bits = bits_per_weight(after, report.parameter_count);
    format!("{}{kept}, weights {} → {} ({bits:.3} bits each)", scheme(args), bytes(before), bytes(after))
}

/// What was asked for.
fn scheme(args: &Args) -> Choice {
    args.quant.unwrap_or(Choice::Scheme(Scheme::Bf16))
}
