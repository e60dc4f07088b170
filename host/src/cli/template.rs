//! `zynfer template`: messages to the text and ids a model sees, and the text side of a model without its weights.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::artifact::{Artifact, LoadMode};
use crate::text::{ChatRequest, SpecialStrings, TextError, Tokenizer};

use super::chat_prompt::{TemplateArgs, special_strings};
use super::error::{CliError, CliResult};
use super::output::Ui;
use super::text_input;

/// Render messages with the model's chat template
///
/// The file holds {"messages": […], "tools": […], "add_generation_prompt": true, "chat_template_kwargs": {…}}, or the array of
/// messages alone. The text is printed as it is, without a line end of its own.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A .zynfer file, or a folder with tokenizer.json and a chat template
    #[arg(value_name = "MODEL|FOLDER")]
    model: PathBuf,
    /// The request, a JSON file, or - for stdin
    #[arg(long, value_name = "FILE")]
    messages: PathBuf,
    #[command(flatten)]
    template: TemplateArgs,
    /// Print {"text": "…", "ids": […]}
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let model = TextModel::open(&args.model)?;
    let name = args.messages.display();
    let request = text_input::read_text(&args.messages)?;
    let request: Value =
        serde_json::from_str(&request).map_err(|error| CliError::failed(format!("{name}: not JSON: {error}")))?;
    let request = if request.is_array() { json!({"messages": request}) } else { request };
    let request = args.template.apply(request)?;
    let request = ChatRequest::from_json(&request).map_err(|error| match error {
        TextError::Request(reason) => CliError::failed(format!("{name}: {reason}")),
        other => other.into(),
    })?;
    let template =
        args.template.compile(model.chat_template.as_deref(), &model.tokenizer, model.special_strings.clone(), ui)?;
    let prompt = template.encode(&model.tokenizer, &request)?;
    if args.json { ui.out_json(&json!({"text": prompt.text, "ids": prompt.ids})) } else { ui.out(&prompt.text) }
}

/// The text side of a model: a `.zynfer` file, or any folder with a tokenizer.json, whether or not there are weights in it.
pub(super) struct TextModel {
    pub(super) tokenizer: Tokenizer,
    chat_template: Option<String>,
    special_strings: SpecialStrings,
}

impl TextModel {
    pub(super) fn open(path: &Path) -> CliResult<Self> {
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let artifact = Artifact::open(path, LoadMode::Mmap)?;
        let Some(json) = artifact.tokenizer_json() else {
            return Err(CliError::failed(format!("{}: has no tokenizer", path.display())));
        };
        let tokenizer = Tokenizer::from_bytes(json)?;
        let chat_template = artifact.chat_template().map(str::to_string);
        Ok(TextModel { tokenizer, chat_template, special_strings: SpecialStrings::new() })
    }

    fn open_folder(folder: &Path) -> CliResult<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            if path.exists() { text_input::read_bytes(&path).map(Some) } else { Ok(None) }
        };
        let path = folder.join("tokenizer.json");
        let Some(json) = read("tokenizer.json")? else {
            return Err(CliError::failed(format!("{}: not there", path.display())));
        };
        let tokenizer =
            Tokenizer::from_bytes(&json).map_err(|error| CliError::failed(format!("{}: {error}", folder.display())))?;
        let mut model = TextModel { tokenizer, chat_template: None, special_strings: SpecialStrings::new() };
        if let Some(json) = read("tokenizer_config.json")? {
            let path = folder.join("tokenizer_config.json");
            let config: Value = serde_json::from_slice(&json)
                .map_err(|error| CliError::failed(format!("{}: not JSON: {error}", path.display())))?;
            model.chat_template = config["chat_template"].as_str().map(str::to_string);
            model.special_strings = special_strings(&config);
        }
        // As in transformers, a template of its own file counts before the one inside tokenizer_config.json.
        if let Some(bytes) = read("chat_template.jinja")? {
            let text = String::from_utf8(bytes).map_err(|_| {
                CliError::failed(format!("{}: not UTF-8", folder.join("chat_template.jinja").display()))
            })?;
            model.chat_template = Some(text);
        }
        Ok(model)
    }
}
