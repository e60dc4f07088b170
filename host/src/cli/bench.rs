//! `zynfer bench`: prefill and decode rates, apart, each over several runs ([`super::speed`]); here they become a table. What the emulator
//! needs is this computer's wall time and is called so: it says nothing about a card.

use serde_json::{Value, json};

use crate::engine::Engine;
use crate::model::kv::KvFormats;
use crate::quant::Activations;

use super::error::{CliError, CliResult};
use super::interrupt;
use super::model::{BackendArgs, told};
use super::output::{Ui, Unit, bytes};
use super::speed::{Measured, SpeedArgs, Test};
use super::subject::SubjectArgs;

/// Measure prefill and decode rates
///
/// ppN evaluates a prompt of N tokens, tgN generates N tokens one by one, `tgN @ dD` behind a prompt of D; each runs once unmeasured and then --repeat times. Rates are
/// medians, with the slowest and the fastest run beside them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Format {
    /// Print a Markdown table, as without any of these
    #[arg(long)]
    md: bool,
    /// Print comma-separated values under a header
    #[arg(long)]
    csv: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let speeds = args.speed.speeds(args.backend.is_emulator())?;
    if speeds.tests.is_empty() {
        return Err(CliError::usage("--prompt 0 and --tokens 0: nothing is left to measure"));
    }
    let subject = args.subject.open(&args.backend, ui)?;
    let context = subject.context(&args.backend, speeds.context())?;
    let (name, parameters, weight_bytes) = (subject.name.clone(), subject.parameters, subject.weight_bytes());
    let mut engine = subject.load(&args.backend, context, ui)?;
    let (backend, kv, activations) = (engine.backend(), engine.kv_formats(), engine.activations());
    ui.aside(&format!("{backend}: KV cache {kv}{}, context {}", told(activations), engine.context_len()));
    if backend == "emulator" {
        ui.aside("emulator: times are wall time of this computer while it executes the GPU's instructions; they say nothing about a card");
    }
    let repeat = speeds.repeat;
    let measured = speeds.tests.iter().map(|&test| measure(&mut engine, test, repeat, ui));
    let results = measured.collect::<CliResult<Vec<Measured>>>()?;
    let report = Report { name, parameters, weight_bytes, backend, kv, activations, repeat, results };
    if args.format.json {
        ui.out_json(&report.json())
    } else if args.format.csv {
        ui.out(&report.csv())
    } else {
        ui.out(&report.markdown())
    }
}

/// One run unmeasured, for caches and clocks to warm up, and then `repeat`, at least one.
fn measure(engine: &mut Engine, test: Test, repeat: usize, ui: &Ui) -> CliResult<Measured> {
    let mut progress = ui.progress("bench", Unit::Tokens);
    let total = (test.passes() * (repeat + 1)) as u64;
    let _guard = interrupt::Guard::new();
    let mut run = |round: usize| {
        let done = (round * test.passes()) as u64;
        test.run(engine, &mut |tokens| progress.update(done + tokens as u64, total))
    };
    run(0)?;
    let mut measured = Measured::new(test, run(1)?);
    for round in 2..=repeat {
        measured.add(run(round)?);
    }
    Ok(measured)
}

/// Everything that is printed.
struct Report {
    name: String,
    parameters: u64,
    weight_bytes: u64,
    backend: &'static str,
    kv: KvFormats,
    activations: Activations,
    repeat: usize,
    results: Vec<Measured>,
}

impl Report {
    /// Whose time the rates are of.
    fn clock(&self) -> &'static str {
        if self.backend == "emulator" { "emulator wall time" } else { "wall time" }
    }

    fn json(&self) -> Value {
        let tests: Vec<Value> = self
            .results
            .iter()
            .map(|result| {
                json!({
                    "test": result.test,
                    "tokens": result.tokens,
                    "tok_s": { "median": result.median(), "min": result.slowest(), "max": result.fastest() },
                    "runs_tok_s": result.rates,
                    "ms_per_token": 1000.0 / result.median(),
                    "wave_instructions_per_token": result.instructions,
                })
            })
            .collect();
        json!({
            "model": self.name,
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            "backend": self.backend,
            "kv": self.kv.to_string(),
            "activations": self.activations.to_string(),
            "clock": self.clock(),
            "repeat": self.repeat,
            "tests": tests,
        })
    }

    fn csv(&self) -> String {
        let mut text =
            "model,parameters,weight_bytes,backend,clock,test,tokens,repeat,tok_s_median,tok_s_min,tok_s_max,\
            wave_instructions_per_token\n"
                .to_string();
        for result in &self.results {
            let instructions = result.instructions.map_or_else(String::new, |count| format!("{count:.0}"));
            text += &format!(
                "{},{},{},{},{},{},{},{},{:.3},{:.3},{:.3},{instructions}\n",
                quoted(&self.name),
                self.parameters,
                self.weight_bytes,
                self.backend,
                self.clock(),
                result.test,
                result.tokens,
                self.repeat,
                result.median(),
                result.slowest(),
                result.fastest(),
            );
        }
        text
    }

    fn markdown(&self) -> String {
        let counted = self.results.iter().any(|result| result.instructions.is_some());
        let rate = if self.backend == "emulator" { "tok/s, emulator wall time" } else { "tok/s" };
        let mut head = format!("| model | size | params | backend | test | {rate} | ms per token |");
        let mut rule = "|---|---:|---:|---|---|---:|---:|".to_string();
        if counted {
            head += " wave-instructions per token |";
            rule += "---:|";
        }
        let mut text = format!("{head}\n{rule}\n");
        for result in &self.results {
            text += &format!(
                "| {} | {} | {} | {} | {} | {:.2} ({:.2}–{:.2}) | {:.1} |",
                self.name.replace('|', "\\|"),
                bytes(self.weight_bytes),
                millions(self.parameters),
                self.backend,
                result.test,
                result.median(),
                result.slowest(),
                result.fastest(),
                1000.0 / result.median(),
            );
            if counted {
                text += &result.instructions.map_or_else(|| " - |".to_string(), |count| format!(" {count:.0} |"));
            }
            text.push('\n');
        }
        text
    }
}

/// `596 M`, `8.19 B`.
fn millions(parameters: u64) -> String {
    let millions = parameters as f64 / 1e6;
    if millions < 1000.0 { format!("{millions:.1} M") } else { format!("{:.2} B", millions / 1000.0) }
}

/// A field of comma-separated values.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kv::KvFormat;

    fn report(backend: &'static str, instructions: Option<f64>) -> Report {
        let measured =
            |test: &str, rates: &[f64]| Measured { test: test.into(), tokens: 8, rates: rates.to_vec(), instructions };
        Report {
            name: "a,b".into(),
            parameters: 596_049_920,
            weight_bytes: 1_192_099_840,
            backend,
            kv: KvFormats::both(KvFormat::Int8),
            activations: Activations::AsTheyAre,
            repeat: 3,
            results: vec![measured("pp8", &[1.0, 2.0, 4.0]), measured("tg8", &[10.0, 20.0])],
        }
    }

    #[test]
    fn the_emulators_figures_are_called_what_they_are() {
        let report = report("emulator", Some(62_500_000.4));
        let (markdown, csv, json) = (report.markdown(), report.csv(), report.json());
        assert!(markdown.contains("| tok/s, emulator wall time |") && markdown.contains("| 62500000 |"), "{markdown}");
        assert!(
            csv.lines()
                .nth(1)
                .is_some_and(|line| line.contains(",emulator wall time,pp8,8,3,2.000,1.000,4.000,62500000"))
        );
        assert_eq!(
            (&json["clock"], &json["tests"][1]["tok_s"]["median"]),
            (&json!("emulator wall time"), &json!(15.0))
        );
        assert_eq!((&json["tests"][0]["ms_per_token"], &json["kv"]), (&json!(500.0), &json!("int8")));
    }

    #[test]
    fn what_counts_no_instructions_has_no_column_for_them() {
        let report = report("cpu", None);
        let markdown = report.markdown();
        assert!(
            markdown.starts_with("| model | size | params | backend | test | tok/s | ms per token |\n|---|"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| a,b | 1.1 GiB | 596.0 M | cpu | pp8 | 2.00 (1.00–4.00) | 500.0 |\n"),
            "{markdown}"
        );
        assert!(
            report
                .csv()
                .lines()
                .nth(2)
                .is_some_and(|line| line.starts_with("\"a,b\",596049920,") && line.ends_with(",20.000,"))
        );
        assert_eq!(report.json()["tests"][0]["wave_instructions_per_token"], Value::Null);
    }

    #[test]
    fn sizes_and_fields_read_well() {
        assert_eq!((millions(13_910_696), millions(8_190_735_360)), ("13.9 M".into(), "8.19 B".into()));
        assert_eq!((quoted("x"), quoted("say \"a\", b")), ("x".into(), "\"say \"\"a\"\", b\"".into()));
    }
}
