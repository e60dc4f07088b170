//! `zynfer models`: the published models that are known by name.

use serde_json::json;

use crate::model::family::Family;
use crate::model::random::RandomModel;
use crate::model::registry::{MODELS, Model};
use crate::model::weights::Weights;

use super::error::{CliError, CliResult};
use super::output::{Look, Ui};

/// List published models: shape, family, where to get them
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    if args.json {
        let families = Family::ALL.map(|family| json!({"name": family.name(), "architecture": family.architecture()}));
        let models = MODELS.iter().map(value).collect::<CliResult<Vec<_>>>()?;
        return ui.out_json(&json!({"families": families, "models": models}));
    }
    for model in MODELS {
        ui.out(&describe(model, ui))?;
    }
    let families: Vec<String> =
        Family::ALL.iter().map(|family| format!("{} ({})", family.name(), family.architecture())).collect();
    ui.out(&format!("any other checkpoint of these families runs too: {}\n", families.join(", ")))
}

fn parameters(model: &Model) -> u64 {
    RandomModel::parameters(&Weights::new(&model.architecture))
}

fn value(model: &Model) -> CliResult<serde_json::Value> {
    let mut value = serde_json::to_value(model).map_err(CliError::failed)?;
    value["parameters"] = parameters(model).into();
    Ok(value)
}

fn describe(model: &Model, ui: &Ui) -> String {
    let config = &model.architecture;
    let mut text = format!(
        "{} {:<5} {:>5} M  {} layers, hidden {}, {}/{} heads of {}, vocabulary {}{}\n",
        ui.styled(Look::Bold, &format!("{:<13}", model.name)),
        model.family.name(),
        parameters(model) / 1_000_000,
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim,
        config.vocab_size,
        if config.tie_word_embeddings { ", tied" } else { "" },
    );
    for source in model.sources {
        text.push_str(&format!("  {source}\n"));
    }
    text
}
