//! `zynfer chat`: a conversation, from a terminal or from a pipe. On a terminal a line editor reads the turns: one paste is one
//! message, whatever its lines look like, and it is sent only by Enter. From a pipe each line is a turn and nothing but the answers
//! is written to stdout.

use std::io::{self, BufRead, IsTerminal};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, Config, Editor, Helper, KeyCode, KeyEvent, Modifiers};
use serde_json::{Value, json};

use crate::engine::{FinishReason, Request, SamplingParams};
use crate::text::{ChatTemplate, Tokenizer};

use super::chat_prompt::TemplateArgs;
use super::error::{CliError, CliResult};
use super::generate::{self, Show, Style};
use super::model::{BackendArgs, Loaded, ModelArgs};
use super::output::Ui;
use super::sampling::SamplingArgs;

const HELP: &str = "\
/help   this text          /clear  forget the conversation          /exit  end it (also Ctrl-D)
Enter sends. Alt-Enter breaks the line; so does Enter inside a message that begins with \"\"\" until one ends with it.
A paste is one message and is sent by Enter. Ctrl-C stops an answer, and at an empty prompt ends the chat.";

/// Talk with a model
///
/// On a terminal: Enter sends, Alt-Enter breaks the line, a paste of several lines is one message, Ctrl-D ends. /help tells more.
/// From a pipe: every line is a turn, an empty one is none, and the end of input ends the chat.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Instructions before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    template: TemplateArgs,
    /// Most new tokens of one answer; without it the model's default or the rest of the context
    #[arg(short = 'n', long = "max-new", visible_aliases = ["max-tokens", "max-new-tokens"], value_name = "N", allow_negative_numbers = true)]
    max_new: Option<i64>,
    /// End an answer where this text appears, which is not shown; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print the ids of every prompt and answer on stderr
    #[arg(long)]
    print_token_ids: bool,
    /// Print counts and rates after every answer on stderr, also when stdin is no terminal
    #[arg(long)]
    stats: bool,
}

/// One conversation.
struct Conversation<'a> {
    args: &'a Args,
    ui: &'a Ui,
    loaded: Loaded,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    sampling: SamplingParams,
    max_tokens: Option<i64>,
    messages: Vec<Value>,
    interactive: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let model = args.model.open(ui)?;
    let sampling = args.sampling.resolve(model.artifact.generation(), ui)?;
    let max_tokens = args.max_new.or(model.artifact.generation().max_new_tokens.map(i64::from));
    let tokenizer = model.tokenizer()?;
    let template = args.template.compile(model.artifact.chat_template(), &tokenizer, model.special_strings()?, ui)?;
    let context = model.context(&args.backend, 0)?;
    let loaded = model.load(&args.backend, context, ui)?;
    let interactive = io::stdin().is_terminal();
    let mut conversation =
        Conversation { args, ui, loaded, tokenizer, template, sampling, max_tokens, messages: Vec::new(), interactive };
    conversation.clear();
    if interactive { from_terminal(&mut conversation) } else { from_pipe(&mut conversation) }
}

impl Conversation<'_> {
    fn clear(&mut self) {
        let system = self.args.system.iter();
        self.messages = system.map(|text| json!({"role": "system", "content": text})).collect();
    }

    /// Answers one message. What could not be answered is not part of the conversation.
    fn turn(&mut self, text: &str) -> CliResult<()> {
        self.messages.push(json!({"role": "user", "content": text}));
        let answered = self.answer();
        if answered.is_err() {
            self.messages.pop();
        }
        answered
    }

    fn answer(&mut self) -> CliResult<()> {
        let prompt = self.template.encode(&self.tokenizer, &self.args.template.request(&self.messages)?)?.ids;
        let request = Request {
            prompt,
            max_tokens: self.max_tokens,
            sampling: self.sampling,
            stop: self.args.stop.clone(),
            ..Request::default()
        };
        let engine = &mut self.loaded.engine;
        let generated = generate::generate(engine, &self.tokenizer, &request, Style::Chat, Show::Stream, self.ui)?;
        if self.args.print_token_ids {
            self.ui.say(&format!("prompt ids: {}", generate::list(&request.prompt)));
            self.ui.say(&format!("new ids: {}", generate::list(&generated.outcome.tokens)));
        }
        if self.interactive || self.args.stats {
            self.ui.aside(&generate::closing_line(&generated, engine, self.loaded.load));
        }
        let mut message = json!({"role": "assistant", "content": generated.outcome.text});
        if !generated.reasoning.is_empty() {
            message["reasoning_content"] = generated.reasoning.into();
        }
        self.messages.push(message);
        // On a terminal Ctrl-C ends the answer, from a pipe there is nobody to go on with.
        match generated.outcome.finish_reason {
            FinishReason::Cancelled if !self.interactive => Err(CliError::Interrupted),
            _ => Ok(()),
        }
    }
}

fn from_pipe(conversation: &mut Conversation<'_>) -> CliResult<()> {
    let mut stdin = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = stdin.read_until(b'\n', &mut line).map_err(|error| CliError::failed(format!("stdin: {error}")))?;
        if read == 0 {
            return Ok(());
        }
        let line = String::from_utf8(line).map_err(|error| {
            CliError::failed(format!("stdin: not UTF-8 at byte {} of the line", error.utf8_error().valid_up_to()))
        })?;
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.trim().is_empty() {
            conversation.turn(line)?;
        }
    }
}

fn from_terminal(conversation: &mut Conversation<'_>) -> CliResult<()> {
    let ui = conversation.ui;
    // A redirected stdout holds answers only, so the editor then talks to the terminal itself.
    let behavior = if ui.out_is_terminal() { rustyline::Behavior::Stdio } else { rustyline::Behavior::PreferTerm };
    let config = Config::builder().behavior(behavior).bracketed_paste(true).auto_add_history(true).build();
    let editor = Editor::with_config(config).map_err(|error| CliError::failed(format!("terminal: {error}")));
    let mut editor: Editor<TurnHelper, rustyline::history::DefaultHistory> = editor?;
    editor.set_helper(Some(TurnHelper));
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    ui.say("/help tells the keys; Ctrl-D ends the chat");
    loop {
        match editor.readline("> ") {
            Ok(line) => match line.as_str() {
                "/exit" | "/bye" | "/quit" => return Ok(()),
                "/clear" => conversation.clear(),
                "/help" => HELP.lines().for_each(|line| ui.say(line)),
                text if text.trim().is_empty() => {}
                text => match conversation.turn(quoted(text).unwrap_or(text)) {
                    Err(CliError::Failed(message)) => ui.error(&format!("{message} (/clear forgets the conversation)")),
                    other => other?,
                },
            },
            Err(ReadlineError::Eof) => return Ok(()),
            Err(ReadlineError::Interrupted) => return Err(CliError::Interrupted),
            Err(error) => return Err(CliError::failed(format!("terminal: {error}"))),
        }
    }
}

/// The inside of a message between two `"""`.
fn quoted(text: &str) -> Option<&str> {
    text.trim_end().strip_prefix(QUOTES)?.strip_suffix(QUOTES)
}

const QUOTES: &str = "\"\"\"";

/// Tells the editor when a message is whole; completes, hints and colours nothing.
struct TurnHelper;

impl Helper for TurnHelper {}
impl Completer for TurnHelper {
    type Candidate = String;
}
impl Hinter for TurnHelper {
    type Hint = String;
}
impl Highlighter for TurnHelper {}

impl Validator for TurnHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let open = text.starts_with(QUOTES) && quoted(text).is_none();
        Ok(if open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
