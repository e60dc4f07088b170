//! `zynfer run`: one prompt, one answer.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::engine::Request;
use crate::text::Special;

use super::chat_prompt::TemplateArgs;
use super::error::{CliError, CliResult};
use super::generate::{self, Generated, Show, Style, milliseconds};
use super::model::{BackendArgs, DEFAULT_ROOM, Loaded, ModelArgs};
use super::output::Ui;
use super::sampling::{self, SamplingArgs};
use super::text_input;

/// Write what follows a prompt
///
/// The prompt is used as it is (--raw), or as a user's message in the model's chat format (--chat). The answer goes to stdout,
/// everything else to stderr.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The prompt
    #[arg(short, long, value_name = "TEXT", required_unless_present = "prompt_file", conflicts_with = "prompt_file")]
    prompt: Option<String>,
    /// Read the prompt from a file, or from stdin for -; nothing is stripped
    #[arg(short = 'f', long, visible_alias = "file", value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Turn \n, \t, \r, \\, \" and \' in --prompt into the characters they name
    #[arg(long, requires = "prompt")]
    escape: bool,
    /// Take the prompt as it is; control tokens written in it count (the default)
    #[arg(long, conflicts_with = "chat")]
    raw: bool,
    /// Take the prompt as a user's message
    #[arg(long)]
    chat: bool,
    /// Instructions before the message
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    #[command(flatten)]
    template: TemplateArgs,
    /// Most new tokens; 0 evaluates the prompt only; without it the model's default or the rest of the context
    #[arg(short = 'n', long = "max-new", visible_aliases = ["max-tokens", "max-new-tokens"], value_name = "N", allow_negative_numbers = true)]
    max_new: Option<i64>,
    /// End where this text appears, which is not shown; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after the model's end-of-text tokens
    #[arg(long)]
    ignore_eos: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print the ids of the prompt and of the answer on stderr
    #[arg(long)]
    print_token_ids: bool,
    /// Print counts, times, the seed and how tokens were chosen on stderr (with --json: in the object)
    #[arg(long)]
    stats: bool,
    /// Print one JSON object instead of the text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    if args.template.is_given() && !args.chat {
        return Err(CliError::usage(
            "--think, --no-think, --chat-template-file and --chat-template-kwargs need --chat",
        ));
    }
    let model = args.model.open(ui)?;
    let sampling = args.sampling.resolve(model.artifact.generation(), ui)?;
    let tokenizer = model.tokenizer()?;
    let text = match (&args.prompt, &args.prompt_file) {
        (Some(prompt), _) if args.escape => text_input::unescape(prompt),
        (Some(prompt), _) => prompt.clone(),
        (None, Some(file)) => text_input::read_text(file)?,
        (None, None) => return Err(CliError::usage("--prompt or --prompt-file is needed")),
    };
    let prompt = if args.chat {
        let template =
            args.template.compile(model.artifact.chat_template(), &tokenizer, model.special_strings()?, ui)?;
        let mut messages: Vec<Value> =
            args.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
        messages.push(json!({"role": "user", "content": text}));
        template.encode(&tokenizer, &args.template.request(&messages)?)?.ids
    } else {
        tokenizer.encode(&text, Special::Parse)?
    };
    let max_tokens = args.max_new.or(model.artifact.generation().max_new_tokens.map(i64::from));
    let room = max_tokens.map_or(DEFAULT_ROOM, |tokens| usize::try_from(tokens).unwrap_or(0));
    let wanted = prompt.len().saturating_add(room);
    let context = model.context(&args.backend, wanted)?;
    let request = Request {
        prompt,
        max_tokens,
        sampling,
        stop: args.stop.clone(),
        stop_token_ids: Vec::new(),
        ignore_eos: args.ignore_eos,
    };
    let mut loaded = model.load(&args.backend, context, ui)?;
    let style = if args.chat { Style::Chat } else { Style::Raw };
    let show = if args.json { Show::Keep } else { Show::Stream };
    let generated = generate::generate(&mut loaded.engine, &tokenizer, &request, style, show, ui)?;

    if args.print_token_ids {
        ui.say(&format!("prompt ids: {}", generate::list(&request.prompt)));
        ui.say(&format!("new ids: {}", generate::list(&generated.outcome.tokens)));
    }
    if args.json {
        ui.out_json(&report(args, &request, &generated, &loaded))?;
    }
    ui.aside(&generate::closing_line(&generated, &loaded.engine, loaded.load));
    if args.stats && !args.json {
        for line in statistics(&request, &generated) {
            ui.say(&line);
        }
    }
    generate::check_finished(&generated.outcome)
}

/// The object of `--json`.
fn report(args: &Args, request: &Request, generated: &Generated, loaded: &Loaded) -> Value {
    let outcome = &generated.outcome;
    let timings = &outcome.timings;
    let mut report = json!({
        "prompt_tokens": request.prompt,
        "tokens": outcome.tokens,
        "text": outcome.text,
        "finish_reason": outcome.finish_reason.name(),
        "backend": loaded.engine.backend(),
        "kv": loaded.engine.kv_formats().to_string(),
        "activations": loaded.engine.activations().to_string(),
        "seed": outcome.seed,
        "timings": {
            "load_ms": milliseconds(loaded.load),
            "ttft_ms": timings.time_to_first_token.map(milliseconds),
            "prefill_tok_s": timings.prefill_tok_s(),
            "decode_tok_s": timings.decode_tok_s(),
        },
    });
    if args.chat {
        report["reasoning"] = generated.reasoning.clone().into();
    }
    if args.stats {
        report["stats"] = json!({
            "prompt_tokens": timings.prompt_tokens,
            "cached_tokens": timings.cached_tokens,
            "generated_tokens": timings.generated_tokens,
            "prefill_ms": milliseconds(timings.prefill),
            "decode_ms": milliseconds(timings.decode),
            "sampling": sampling::describe(&request.sampling),
        });
    }
    report
}

/// The lines of `--stats`: raw counts and times, so that anyone can divide.
fn statistics(request: &Request, generated: &Generated) -> Vec<String> {
    let timings = &generated.outcome.timings;
    vec![
        format!(
            "prompt tokens {}, cached {}, generated {}",
            timings.prompt_tokens, timings.cached_tokens, timings.generated_tokens
        ),
        format!("prefill {:.3} ms, decode {:.3} ms", milliseconds(timings.prefill), milliseconds(timings.decode)),
        format!("sampling: {}", sampling::describe(&request.sampling)),
        match generated.outcome.seed {
            Some(seed) => format!("seed {seed}"),
            None => "seed: none, nothing was random".into(),
        },
    ]
}
