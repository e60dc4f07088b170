//! The command line: flags in, an answer on stdout, everything else on stderr, an exit code (0 done, 1 failed, 2 wrong usage, 3 defects
//! found in a kernel, 130 interrupted). One file per command; shared are [`model`] (opening one), [`subject`] (what is measured),
//! [`scored`] (text in windows), [`speed`] (runs that are timed), [`cost`], [`sampling`], [`chat_prompt`], [`generate`] and [`output`]
//! (streams, colour, progress). Nothing is computed here.

mod bench;
mod chat;
mod chat_prompt;
mod compare;
mod compile;
mod cost;
mod devices;
mod doctor;
mod emulate;
mod error;
mod findings;
mod generate;
mod inspect;
mod inspect_gguf;
mod inspect_plan;
mod interrupt;
mod isa;
mod logits;
mod model;
mod models;
mod output;
mod perplexity;
mod profile;
mod pull;
mod quant_measure;
mod quant_plot;
mod quant_report;
mod quant_table;
mod run;
mod sampling;
mod scored;
mod speed;
mod subject;
mod template;
mod text_input;
mod tokenize;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::error::{CliError, CliResult};
use self::output::{Color, Ui};

const EXAMPLES: &str = "\
Examples:
  zynfer pull qwen3-0.6b -o models/Qwen3-0.6B
  zynfer compile models/Qwen3-0.6B -o qwen3-0.6b.zynfer
  zynfer compile Qwen3-0.6B-Q8_0.gguf --quant source -o qwen3-0.6b.zynfer
  zynfer run qwen3-0.6b.zynfer --chat --prompt 'Why is the sky blue?'
  zynfer run qwen3-0.6b.zynfer --prompt 'Once upon a time' --greedy --max-new 48 --json
  cat question.txt | zynfer run qwen3-0.6b.zynfer --chat --prompt-file -
  zynfer chat qwen3-0.6b.zynfer --system 'Answer in one sentence.'
  zynfer run qwen3-0.6b.zynfer --prompt Hi --backend emulator    # the GPU's machine code, without the GPU
  zynfer compare qwen3-0.6b.zynfer qwen3-0.6b-int4.zynfer --file text.txt
  zynfer quant-report models/Qwen3-0.6B --file text.txt -o report    # every scheme's size, speed and quality
  zynfer bench --synthetic qwen3-0.6b --backend cpu
  zynfer doctor

MODEL is a .zynfer file or a Hugging Face folder. Flags win over environment variables, these over the model's own defaults.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 defects found in a kernel, 130 interrupted.";

/// LLM inference for AMD RDNA 4 (gfx1201), in Rust from end to end.
#[derive(Debug, Parser)]
#[command(name = "zynfer", version, after_help = EXAMPLES, max_term_width = 110)]
struct Cli {
    /// Colour: on a terminal unless NO_COLOR is set or TERM is dumb; always; never
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pull(pull::Args),
    Compile(compile::Args),
    Inspect(inspect::Args),
    Run(run::Args),
    Chat(chat::Args),
    Tokenize(tokenize::Args),
    Template(template::Args),
    Logits(logits::Args),
    Perplexity(perplexity::Args),
    Compare(compare::Args),
    QuantReport(quant_report::Args),
    Bench(bench::Args),
    Models(models::Args),
    Devices(devices::Args),
    Doctor(doctor::Args),
    Isa(isa::Args),
    Emulate(emulate::Args),
    Profile(profile::Args),
}

/// Reads the process's arguments, runs the command and gives the exit code.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let color = color_before_parsing(&arguments);
    let parsed = Cli::command().color(color).try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers (0), the rest is wrong usage (2); a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let ui = Ui::new(cli.color, cli.quiet);
    interrupt::install();
    match dispatch(&cli.command, &ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(message) = error.message() {
                ui.error(message);
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(command: &Command, ui: &Ui) -> CliResult<()> {
    match command {
        Command::Pull(args) => pull::run(args, ui),
        Command::Compile(args) => compile::run(args, ui),
        Command::Inspect(args) => inspect::run(args, ui),
        Command::Run(args) => run::run(args, ui),
        Command::Chat(args) => chat::run(args, ui),
        Command::Tokenize(args) => tokenize::run(args, ui),
        Command::Template(args) => template::run(args, ui),
        Command::Logits(args) => logits::run(args, ui),
        Command::Perplexity(args) => perplexity::run(args, ui),
        Command::Compare(args) => compare::run(args, ui),
        Command::QuantReport(args) => quant_report::run(args, ui),
        Command::Bench(args) => bench::run(args, ui),
        Command::Models(args) => models::run(args, ui),
        Command::Devices(args) => devices::run(args, ui),
        Command::Doctor(args) => doctor::run(args, ui),
        Command::Isa(args) => isa::run(args, ui),
        Command::Emulate(args) => emulate::run(args, ui),
        Command::Profile(args) => profile::run(args, ui),
    }
}

/// What `--color` says, for messages about arguments that do not parse. Without the flag the environment decides.
fn color_before_parsing(arguments: &[std::ffi::OsString]) -> ColorChoice {
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--color=") {
            Some(value) => value.to_string(),
            None if argument == "--color" => arguments.next().unwrap_or_default().to_string(),
            None => continue,
        };
        match value.as_str() {
            "always" => return ColorChoice::Always,
            "never" => return ColorChoice::Never,
            _ => {}
        }
    }
    if output::terminal_is_dumb() { ColorChoice::Never } else { ColorChoice::Auto }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
