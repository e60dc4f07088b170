//! What `zynfer quant-report` tells: its rows, as a Markdown table and as JSON. How they come about is [`super::quant_measure`]'s.

use serde_json::{Value, json};

use crate::engine::compare::Comparison;
use crate::engine::perplexity::Perplexity;
use crate::quant::Activations;

use super::cost::Cost;
use super::output::{bits_per_weight, bytes, one_line};
use super::quant_plot::{self, Point};
use super::speed::Measured;

/// What holds for all rows.
pub(super) struct Report {
    /// The model's name.
    pub(super) model: String,
    /// Its file or folder.
    pub(super) source: String,
    /// Where it was evaluated.
    pub(super) backend: &'static str,
    /// How keys and values were stored there.
    pub(super) kv: String,
    /// What quantized matrices are multiplied with.
    pub(super) activations: Activations,
    /// What the windows are, from the source's evaluation.
    pub(super) scored: Perplexity,
    /// Tokens of the text that codes were chosen by.
    pub(super) calibration_tokens: Option<usize>,
    /// Context of the memory plan of a card.
    pub(super) context: usize,
    /// What ended it before the last row was filled: an error's words, or that it was interrupted.
    pub(super) ended: Option<String>,
    /// The source, then one for each scheme.
    pub(super) rows: Vec<Row>,
}

/// One way to store the matrices.
pub(super) struct Row {
    /// The scheme; of the source `bf16`, or `source` where a GGUF file's blocks are kept.
    pub(super) scheme: String,
    /// Whether a text chose the codes.
    pub(super) by_a_text: bool,
    /// None where it could not be made.
    pub(super) made: Option<Made>,
    /// None where it could not be evaluated.
    pub(super) quality: Option<Quality>,
    /// Of each test that was run.
    pub(super) speeds: Vec<Measured>,
    /// Why something is not there.
    pub(super) problem: Option<String>,
}

/// An artifact that was written.
pub(super) struct Made {
    /// Of the file.
    pub(super) file_bytes: u64,
    /// Of its weights.
    pub(super) weight_bytes: u64,
    /// How many weights.
    pub(super) parameters: u64,
    /// Bytes that the card's plan needs, or why there is none.
    pub(super) card: Result<u64, String>,
    /// Of the conversion.
    pub(super) cost: Cost,
}

/// How well a text is predicted.
pub(super) struct Quality {
    /// The row's own.
    pub(super) perplexity: f64,
    /// Against the source; the source has none.
    pub(super) against: Option<Comparison>,
}

impl Row {
    /// Nothing known but what it is.
    pub(super) fn new(scheme: String, by_a_text: bool) -> Self {
        Self { scheme, by_a_text, made: None, quality: None, speeds: Vec::new(), problem: None }
    }

    /// The scheme, and whether a text chose its codes.
    pub(super) fn name(&self) -> String {
        if self.by_a_text { format!("{} by a text", self.scheme) } else { self.scheme.clone() }
    }

    fn comparison(&self) -> Option<&Comparison> {
        self.quality.as_ref()?.against.as_ref()
    }

    fn json(&self, baseline: bool) -> Value {
        let (made, quality, against) = (self.made.as_ref(), self.quality.as_ref(), self.comparison());
        json!({
            "scheme": self.scheme,
            "by_a_text": self.by_a_text,
            "baseline": baseline,
            "problem": self.problem,
            "file_bytes": made.map(|made| made.file_bytes),
            "weight_bytes": made.map(|made| made.weight_bytes),
            "bits_per_weight": made.map(Made::bits_per_weight),
            "card_bytes": made.and_then(|made| made.card.as_ref().ok()),
            "card_problem": made.and_then(|made| made.card.as_ref().err()),
            "perplexity": quality.map(|quality| quality.perplexity),
            "perplexity_delta_percent": against.map(Comparison::perplexity_delta),
            "mean_kld": against.map(|against| against.mean_kld),
            "kld_p99": against.map(|against| against.kld_p99),
            "max_kld": against.map(|against| against.max_kld),
            "top1_agreement": against.map(Comparison::top1_agreement),
            "speeds": self.speeds.iter().map(speed).collect::<Vec<_>>(),
            "conversion": made.map(|made| json!({
                "wall_s": made.cost.wall.as_secs_f64(),
                "processor_s": made.cost.processor.as_secs_f64(),
            })),
        })
    }

    /// Cells in the order of the head; `tests` are the columns of speed.
    fn cells(&self, tests: &[&str]) -> Vec<String> {
        let (made, against) = (self.made.as_ref(), self.comparison());
        let cell = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        let mut cells = vec![
            self.name(),
            cell(made.map(|made| bytes(made.file_bytes))),
            cell(made.map(|made| format!("{:.3}", made.bits_per_weight()))),
            cell(made.and_then(|made| Some(bytes(*made.card.as_ref().ok()?)))),
        ];
        for test in tests {
            let measured = self.speeds.iter().find(|measured| measured.test == *test);
            cells.push(cell(measured.map(|m| format!("{:.1} ({:.1}–{:.1})", m.median(), m.slowest(), m.fastest()))));
        }
        cells.extend([
            cell(self.quality.as_ref().map(|quality| format!("{:.3}", quality.perplexity))),
            cell(against.map(|against| format!("{:+.2} %", against.perplexity_delta()))),
            cell(against.map(|against| format!("{:.6}", against.mean_kld))),
            cell(against.map(|against| format!("{:.2} %", 100.0 * against.top1_agreement()))),
            cell(made.map(|made| format!("{:.1} s", made.cost.wall.as_secs_f64()))),
            cell(made.map(|made| format!("{:.1} s", made.cost.processor.as_secs_f64()))),
        ]);
        cells
    }
}

fn speed(measured: &Measured) -> Value {
    json!({
        "test": measured.test,
        "tok_s": { "median": measured.median(), "min": measured.slowest(), "max": measured.fastest() },
        "runs_tok_s": measured.rates,
    })
}

impl Made {
    fn bits_per_weight(&self) -> f64 {
        bits_per_weight(self.weight_bytes, self.parameters)
    }
}

impl Report {
    /// One object.
    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().enumerate().map(|(at, row)| row.json(at == 0)).collect();
        json!({
            "model": self.model,
            "source": self.source,
            "backend": self.backend,
            "kv": self.kv,
            "activations": self.activations.to_string(),
            "window": self.scored.window,
            "windows": self.scored.window_mean_nll.len(),
            "tokens_scored": self.scored.tokens_scored,
            "ids_unused": self.scored.ids_unused,
            "calibration_tokens": self.calibration_tokens,
            "card_context": self.context,
            "interrupted": self.ended.is_some(),
            "rows": rows,
        })
    }

    /// What was measured in a line, the table, and why rows have gaps.
    pub(super) fn markdown(&self) -> String {
        let scored = &self.scored;
        let mut text = format!(
            "{}, {}, KV cache {}{}: {} tokens in {} windows of {}\n\n",
            self.name(),
            self.backend,
            self.kv,
            super::model::told(self.activations),
            scored.tokens_scored,
            scored.window_mean_nll.len(),
            scored.window
        );
        let tests = self.tests();
        let card = format!("card, context {}", self.context);
        let rates: Vec<String> = tests.iter().map(|test| format!("{test}, tok/s")).collect();
        let mut head = vec!["scheme", "file", "bits per weight", &card];
        head.extend(rates.iter().map(String::as_str));
        head.extend(["perplexity", "Δ", "mean KLD", "same top-1", "conversion", "processor"]);
        text += &format!("| {} |\n|---|{}\n", head.join(" | "), "---:|".repeat(head.len() - 1));
        for row in &self.rows {
            text += &format!("| {} |\n", row.cells(&tests).join(" | "));
        }
        let mut gaps: Vec<String> = Vec::new();
        for row in &self.rows {
            gaps.extend(row.problem.iter().map(|problem| format!("- {}: {problem}\n", row.name())));
            let card = row.made.as_ref().and_then(|made| made.card.as_ref().err());
            gaps.extend(card.map(|why| format!("- {}, card: {why}\n", row.name())));
        }
        gaps.extend(self.ended.iter().map(|ended| format!("- {ended}: what is missing was not reached\n")));
        if !gaps.is_empty() {
            text += &format!("\n{}", gaps.concat());
        }
        text
    }

    /// Bits per weight and mean divergence; `None` where no row has any.
    pub(super) fn plot(&self) -> Option<String> {
        let point = |row: &Row| {
            let (bits, kld) = (row.made.as_ref()?.bits_per_weight(), row.comparison()?.mean_kld);
            Some(Point { name: row.name(), filled: !row.by_a_text, bits, kld })
        };
        let points: Vec<Point> = self.rows.iter().filter_map(point).collect();
        let source = self.rows.first().map_or("the source", |row| &row.scheme);
        let title = format!("{}: mean KLD from {source}, {} tokens", self.name(), self.scored.tokens_scored);
        quant_plot::svg(&title, &points)
    }

    /// The model's name, which comes from a file, for one line of text.
    fn name(&self) -> String {
        one_line(&self.model)
    }

    /// Names of the tests that any row has, in order.
    fn tests(&self) -> Vec<&str> {
        let mut tests: Vec<&str> = Vec::new();
        for measured in self.rows.iter().flat_map(|row| &row.speeds) {
            if !tests.contains(&measured.test.as_str()) {
                tests.push(&measured.test);
            }
        }
        tests
    }
}
