//! From messages to a prompt, for `run --chat`, `chat` and `template`: the flags about the template and about thinking. The
//! template itself, and the rule that text stays text, are [`crate::text`]'s.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::text::{ChatRequest, ChatTemplate, SpecialStrings, Tokenizer};

use super::error::{CliError, CliResult};
use super::output::Ui;
use super::text_input;

/// Flags about the chat template.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Chat template")]
pub(super) struct TemplateArgs {
    /// Use this Jinja template instead of the model's own
    #[arg(long, value_name = "FILE")]
    chat_template_file: Option<PathBuf>,
    /// Further variables for the template, a JSON object
    #[arg(long, value_name = "JSON")]
    chat_template_kwargs: Option<String>,
    /// Let the model think before it answers
    #[arg(long, conflicts_with = "no_think")]
    think: bool,
    /// Have the model answer without thinking
    #[arg(long)]
    no_think: bool,
}

impl TemplateArgs {
    /// Whether any of the flags was given.
    pub(super) fn is_given(&self) -> bool {
        self.chat_template_file.is_some() || self.chat_template_kwargs.is_some() || self.think || self.no_think
    }

    /// Compiles the template to use: the file's, else the model's.
    pub(super) fn compile(
        &self,
        own: Option<&str>,
        tokenizer: &Tokenizer,
        special_strings: SpecialStrings,
        ui: &Ui,
    ) -> CliResult<ChatTemplate> {
        let file = self.chat_template_file.as_deref().map(text_input::read_text).transpose()?;
        let Some(source) = file.as_deref().or(own) else {
            return Err(CliError::failed(
                "the model has no chat template: give one with --chat-template-file, or use --raw",
            ));
        };
        // Undefined names print as nothing: a prompt without its end token would be wrong and look right.
        for name in SPECIAL_NAMES {
            if source.contains(name) && !special_strings.contains_key(*name) {
                return Err(CliError::failed(format!("the chat template uses {name}, which the model does not say")));
            }
        }
        let template = ChatTemplate::new(source, tokenizer, special_strings)?;
        if (self.think || self.no_think) && !template.mentions("enable_thinking") {
            ui.note("the chat template knows no enable_thinking, so --think and --no-think change nothing");
        }
        Ok(template)
    }

    /// `request` with what the flags say; a flag wins over the same thing in the request.
    pub(super) fn apply(&self, request: Value) -> CliResult<Value> {
        let Value::Object(mut request) = request else { return Ok(request) };
        if let Some(kwargs) = &self.chat_template_kwargs {
            let wrong = |why: String| CliError::usage(format!("--chat-template-kwargs: {why}"));
            let given: Value = serde_json::from_str(kwargs).map_err(|error| wrong(format!("not JSON: {error}")))?;
            let Value::Object(given) = given else { return Err(wrong("an object is needed".into())) };
            // Anything but an object is refused, with its type, where the request is checked.
            let kwargs = request.entry("chat_template_kwargs").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(kwargs) = kwargs {
                kwargs.extend(given);
            }
        }
        if self.think || self.no_think {
            request.insert("enable_thinking".into(), Value::Bool(self.think));
            if let Some(Value::Object(kwargs)) = request.get_mut("chat_template_kwargs") {
                kwargs.remove("enable_thinking");
            }
        }
        Ok(Value::Object(request))
    }

    /// The checked request for these messages; the opening of the assistant's turn is added.
    pub(super) fn request(&self, messages: &[Value]) -> CliResult<ChatRequest> {
        Ok(ChatRequest::from_json(&self.apply(json!({"messages": messages}))?)?)
    }
}

/// Names under which transformers gives a template the special tokens' texts.
const SPECIAL_NAMES: &[&str] =
    &["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// `bos_token`, `eos_token`, … of a parsed tokenizer_config.json: a string, or a token object with its content.
pub(super) fn special_strings(config: &Value) -> SpecialStrings {
    SPECIAL_NAMES
        .iter()
        .filter_map(|name| {
            let text = config[name].as_str().or_else(|| config[name]["content"].as_str())?;
            Some((name.to_string(), text.to_string()))
        })
        .collect()
}
