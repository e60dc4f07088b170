//! `zynfer tokenize`: text to ids, to compare with any other tool.

use std::path::PathBuf;

use serde_json::json;

use crate::text::Special;

use super::error::CliResult;
use super::output::Ui;
use super::template::TextModel;
use super::text_input;

/// Show the tokens of a text
///
/// Prints one token per line: id, tab, and the token as tokenizer.json spells it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A .zynfer file, or a folder with tokenizer.json
    #[arg(value_name = "MODEL|FOLDER")]
    model: PathBuf,
    /// The text
    #[arg(long, value_name = "TEXT", required_unless_present = "file", conflicts_with = "file")]
    text: Option<String>,
    /// Read the text from a file, or from stdin for -; nothing is stripped
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Turn \n, \t, \r, \\, \" and \' in --text into the characters they name
    #[arg(long, requires = "text")]
    escape: bool,
    /// Take control tokens such as <|im_end|> for ordinary text, as in a user's message
    #[arg(long)]
    no_special: bool,
    /// Print {"ids": […], "pieces": […]}
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let model = TextModel::open(&args.model)?;
    let text = match (&args.text, &args.file) {
        (Some(text), _) if args.escape => text_input::unescape(text),
        (Some(text), _) => text.clone(),
        (None, Some(file)) => text_input::read_text(file)?,
        (None, None) => return Err(super::CliError::usage("--text or --file is needed")),
    };
    let special = if args.no_special { Special::AsText } else { Special::Parse };
    let ids = model.tokenizer.encode(&text, special)?;
    let pieces: Vec<String> = ids.iter().map(|&id| model.tokenizer.piece(id).unwrap_or_default()).collect();
    if args.json {
        return ui.out_json(&json!({"ids": ids, "pieces": pieces}));
    }
    let lines: Vec<String> = ids.iter().zip(&pieces).map(|(id, piece)| format!("{id}\t{piece}\n")).collect();
    ui.out(&lines.concat())
}
