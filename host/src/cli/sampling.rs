//! Flags that say how tokens are chosen, and who wins: flag, then environment variable, then the model's own defaults, then the
//! engine's. The choosing itself is the engine's.

use crate::artifact::GenerationDefaults;
use crate::engine::{SamplingOverrides, SamplingParams, parse_seed};

use super::error::CliResult;
use super::output::Ui;

/// How to choose the next token.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Always take the likeliest token
    #[arg(long, conflicts_with = "temperature")]
    greedy: bool,
    /// 0 is greedy; higher is wilder
    #[arg(long, visible_alias = "temp", env = "ZYNFER_TEMPERATURE", hide_env_values = true, value_name = "T")]
    #[arg(allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Keep the K likeliest tokens; 0 keeps all
    #[arg(long, env = "ZYNFER_TOP_K", hide_env_values = true, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<i64>,
    /// Keep the likeliest tokens that together reach probability P
    #[arg(long, env = "ZYNFER_TOP_P", hide_env_values = true, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Keep tokens with at least P times the probability of the likeliest
    #[arg(long, env = "ZYNFER_MIN_P", hide_env_values = true, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f64>,
    /// Divide the logits of tokens already seen, in the prompt or after it; 1 is off
    #[arg(long, visible_alias = "repetition-penalty", env = "ZYNFER_REPEAT_PENALTY", hide_env_values = true)]
    #[arg(value_name = "R", allow_negative_numbers = true)]
    repeat_penalty: Option<f64>,
    /// Subtract from the logits of tokens already generated; 0 is off
    #[arg(
        long,
        env = "ZYNFER_PRESENCE_PENALTY",
        hide_env_values = true,
        value_name = "A",
        allow_negative_numbers = true
    )]
    presence_penalty: Option<f64>,
    /// Subtract from the logits of tokens already generated, once per occurrence; 0 is off
    #[arg(
        long,
        env = "ZYNFER_FREQUENCY_PENALTY",
        hide_env_values = true,
        value_name = "A",
        allow_negative_numbers = true
    )]
    frequency_penalty: Option<f64>,
    /// Makes sampling repeatable; drawn anew when absent and then told by --stats and --json
    #[arg(long, env = "ZYNFER_SEED", hide_env_values = true, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
}

impl SamplingArgs {
    /// The effective values for a model with these defaults, checked.
    ///
    /// # Errors
    /// The first value out of its range, by name.
    pub(super) fn resolve(&self, model: &GenerationDefaults, ui: &Ui) -> CliResult<SamplingParams> {
        let given = SamplingOverrides {
            temperature: if self.greedy { Some(0.0) } else { self.temperature },
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repeat_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            seed: self.seed.as_deref().map(parse_seed).transpose()?,
        };
        let params = given.or(model_defaults(model)).resolve();
        params.validate()?;
        let narrowing = self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some() || self.seed.is_some();
        if params.temperature == 0.0 && narrowing {
            ui.note("temperature is 0, so the likeliest token is taken and --top-k, --top-p, --min-p and --seed change nothing");
        }
        Ok(params)
    }
}

/// What a checkpoint's generation_config.json means: without `do_sample` it is greedy, whatever else it says.
pub(super) fn model_defaults(model: &GenerationDefaults) -> SamplingOverrides {
    let samples = model.do_sample == Some(true);
    SamplingOverrides {
        temperature: if samples { Some(model.temperature.unwrap_or(1.0)) } else { Some(0.0) },
        top_k: model.top_k.filter(|_| samples).map(i64::from),
        top_p: model.top_p.filter(|_| samples),
        min_p: model.min_p.filter(|_| samples),
        repetition_penalty: model.repetition_penalty,
        presence_penalty: model.presence_penalty,
        frequency_penalty: model.frequency_penalty,
        seed: None,
    }
}

/// The values in words, in the order in which they apply.
pub(super) fn describe(params: &SamplingParams) -> String {
    let mut parts = Vec::new();
    if params.repetition_penalty != 1.0 {
        parts.push(format!("repetition penalty {}", params.repetition_penalty));
    }
    if params.presence_penalty != 0.0 {
        parts.push(format!("presence penalty {}", params.presence_penalty));
    }
    if params.frequency_penalty != 0.0 {
        parts.push(format!("frequency penalty {}", params.frequency_penalty));
    }
    if params.temperature == 0.0 {
        parts.push("greedy".into());
        return parts.join(", then ");
    }
    parts.push(format!("temperature {}", params.temperature));
    if params.top_k > 0 {
        parts.push(format!("top-k {}", params.top_k));
    }
    if params.top_p < 1.0 {
        parts.push(format!("top-p {}", params.top_p));
    }
    if params.min_p > 0.0 {
        parts.push(format!("min-p {}", params.min_p));
    }
    parts.join(", then ")
}
