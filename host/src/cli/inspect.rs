//! `zynfer inspect`: what is in a model, with `--verify` whether its bytes are what was written, and with `--plan` what memory it takes.

use serde_json::json;

use crate::artifact::{Artifact, counts, gguf};
use crate::quant::Scheme;

use super::error::{CliError, CliResult};
use super::inspect_plan::{self, PlanArgs};
use super::model::open_artifact;
use super::output::{Look, Ui, Unit, bits_per_weight, bytes};
use super::subject::SubjectArgs;
use super::{inspect_gguf, sampling};

/// Show what is in a model, or in a GGUF file and whether it would compile; with --plan what memory it takes
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    plan: PlanArgs,
    /// Hash every object and compare with what is recorded
    #[arg(long)]
    verify: bool,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Print one JSON object: the directory, and what was verified
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    if args.plan.is_asked() {
        return inspect_plan::run(&args.subject, &args.plan, args.json, ui);
    }
    let Some((path, load)) = args.subject.file() else {
        return Err(CliError::usage("--synthetic: a shape without a file has nothing to inspect but its --plan"));
    };
    if gguf::is_gguf(path) {
        if args.verify {
            return Err(CliError::failed("a GGUF file records no hashes to verify: compile it to a .zynfer file"));
        }
        return inspect_gguf::run(path, args.tensors, args.json, ui);
    }
    let artifact = &open_artifact(path, load, ui)?;
    let mut verified = None;
    if args.verify {
        let mut progress = ui.progress("verify", Unit::Bytes);
        verified = Some(artifact.verify(&mut |done, total| progress.update(done, total))?);
    }
    if args.json {
        let mut report = artifact.directory_json();
        report["path"] = artifact.path().to_string_lossy().into();
        report["file_bytes"] = artifact.file_bytes().into();
        report["weight_bytes"] = artifact.weight_bytes().into();
        report["parameters"] = artifact.parameter_count().into();
        report["bits_per_weight"] = bits_per_weight(artifact.weight_bytes(), artifact.parameter_count()).into();
        report["notes"] = artifact.notes().into();
        report["effective_sampling"] =
            sampling::describe(&sampling::model_defaults(artifact.generation()).resolve()).into();
        if let Some(verified) = verified {
            report["verified"] = json!({"objects": verified.objects, "bytes": verified.bytes});
        }
        return ui.out_json(&report);
    }
    for (name, value) in facts(artifact) {
        ui.out(&format!("{} {value}\n", ui.styled(Look::Bold, &format!("{name:<20}"))))?;
    }
    if args.tensors {
        for tensor in artifact.tensors() {
            let shape = tensor.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
            ui.out(&format!("{:<48} {} [{shape}] {}\n", tensor.name, tensor.scheme, bytes(tensor.bytes.len() as u64)))?;
        }
    }
    if let Some(verified) = verified {
        ui.out(&format!("verified: {} objects, {} bytes, all as written\n", verified.objects, verified.bytes))?;
    }
    Ok(())
}

/// Schemes with how many tensors have each.
pub(super) fn scheme_counts(counts: &[(Scheme, usize)]) -> String {
    counts.iter().map(|(scheme, count)| format!("{scheme} ({count})")).collect::<Vec<_>>().join(", ")
}

/// How many tensors each scheme has, in order of first use.
fn schemes(artifact: &Artifact) -> String {
    scheme_counts(&counts(artifact.tensors().map(|tensor| tensor.scheme)))
}

fn facts(artifact: &Artifact) -> Vec<(&'static str, String)> {
    let config = artifact.config();
    let yes = |there: bool| if there { "yes" } else { "no" }.to_string();
    let ids = artifact.end_ids().iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut facts = vec![
        ("name", artifact.name().to_string()),
        ("kind", if artifact.is_folder() { "Hugging Face folder" } else { ".zynfer file" }.to_string()),
        ("family", config.family.name().to_string()),
        ("size", bytes(artifact.file_bytes())),
        ("parameters", artifact.parameter_count().to_string()),
        ("tensors", format!("{}, {}", artifact.tensors().len(), bytes(artifact.weight_bytes()))),
        (
            "schemes",
            format!(
                "{}; {:.3} bits per weight",
                schemes(artifact),
                bits_per_weight(artifact.weight_bytes(), artifact.parameter_count())
            ),
        ),
        ("layers", config.num_hidden_layers.to_string()),
        ("hidden_size", config.hidden_size.to_string()),
        ("intermediate_size", config.intermediate_size.to_string()),
        (
            "attention",
            format!(
                "{} heads, {} kv heads, head_dim {}",
                config.num_attention_heads, config.num_key_value_heads, config.head_dim
            ),
        ),
        ("vocab_size", config.vocab_size.to_string()),
        ("context", format!("{} tokens, rope_theta {}", config.max_position_embeddings, config.rope_theta)),
        ("tied lm_head", yes(config.tie_word_embeddings)),
        ("end ids", if ids.is_empty() { "none".into() } else { ids }),
        ("sampling", sampling::describe(&sampling::model_defaults(artifact.generation()).resolve())),
        ("tokenizer", yes(artifact.tokenizer_json().is_some())),
        ("chat template", yes(artifact.chat_template().is_some())),
    ];
    let unused = &artifact.generation().unused;
    if !unused.is_empty() {
        facts.push(("unused settings", unused.join(", ")));
    }
    facts
}
