//! How the rows of `zynfer quant-report` come about: an artifact is made, planned for a card, compared with the source and timed. The source
//! is loaded until all rows are compared with it, and one artifact beside it; while speeds are taken, one model at a time. Artifacts bear no
//! name where the file system can hold such files, so that nothing of them outlives the process; they are kept as long as their speed is to be
//! taken.

use std::path::{Path, PathBuf};

use crate::artifact::{self, Artifact, LoadMode, MatrixEncoder, Unnamed, gguf};
use crate::calibrate::Calibration;
use crate::disk;
use crate::engine::Engine;
use crate::engine::compare::{Comparison, compare};
use crate::engine::windows::Windows;
use crate::gpu::GpuKind;
use crate::model::config::ModelConfig;
use crate::quant::{Choice, Recipe, Scheme};

use super::cost::{self, Cost};
use super::error::{CliError, CliResult};
use super::inspect_plan::{self, Planned};
use super::interrupt;
use super::model::{BackendArgs, Load, Model, context};
use super::output::{Ui, Unit};
use super::quant_table::{Made, Quality, Report, Row};
use super::scored::{ScoredArgs, encode, watched};
use super::speed::{Measured, Speeds};

/// A row that is to be filled.
pub(super) struct Plan {
    /// With nothing in it but its name.
    pub(super) row: Row,
    /// How its matrices are stored.
    pub(super) scheme: Scheme,
}

/// What codes are chosen by.
pub(super) struct Calibrated {
    /// The source.
    pub(super) artifact: Artifact,
    /// The text.
    pub(super) ids: Vec<u32>,
    /// How many of them are used.
    pub(super) tokens: usize,
}

/// What every row is measured with.
pub(super) struct Work<'w> {
    /// The source.
    pub(super) src: &'w Path,
    /// The text.
    pub(super) scored: &'w ScoredArgs,
    /// For what is told once.
    pub(super) ui: &'w Ui,
    /// For what every load says again.
    pub(super) hushed: Ui,
    /// A backend by name, not auto.
    pub(super) backend: BackendArgs,
    /// No tests: no speeds.
    pub(super) speeds: Speeds,
    /// Where artifacts lie.
    pub(super) folder: PathBuf,
    /// Where there is a text to choose codes by.
    pub(super) calibration: Option<Calibrated>,
}

impl Work<'_> {
    /// The source, every row behind it, and then the speeds: what was done, the source at least, and what ended it, Ctrl-C above all.
    pub(super) fn measure(&self, plans: Vec<Plan>) -> CliResult<(Report, CliResult<()>)> {
        // What cannot be read is found before the conversion and not after it.
        self.scored.ids(|_| Ok(Vec::new()))?;
        let label = if gguf::is_gguf(self.src) { "source" } else { "bf16" };
        let mut first = Row::new(label.into(), false);
        self.ui.say(&format!("{label}: the source"));
        let source = self.make(&mut first, Choice::Source)?.map_err(CliError::failed)?;
        let model = self.open(&source)?;
        let (name, config) = (model.artifact.name().to_owned(), model.artifact.config().clone());
        let ids = self.scored.ids(|text| encode(&model.tokenizer().map_err(|e| self.about(e, &source))?, text))?;
        let windows = self.scored.windows(&ids)?;
        let evaluated = self.context(&windows, &config)?;
        self.check_space(&name, &config, &first, &plans)?;

        let mut engine = self.load(model, evaluated)?;
        let scored = complete(watched(self.ui, "perplexity", |on_event| engine.perplexity(&windows, on_event))?)?;
        first.quality = Some(Quality { perplexity: scored.perplexity, against: None });
        let mut report = Report {
            model: name,
            source: self.src.display().to_string(),
            backend: engine.backend(),
            kv: engine.kv_formats().to_string(),
            activations: self.backend.activations(),
            scored,
            calibration_tokens: self.calibration.as_ref().map(|by| by.tokens),
            context: self.card_context(&config)?,
            ended: None,
            rows: vec![first],
        };
        let ended = self.fill(&mut report, plans, source, engine, &windows, evaluated);
        report.ended = ended.as_ref().err().map(|error| error.message().unwrap_or("interrupted").to_owned());
        Ok((report, ended))
    }

    /// The rows behind the source's, then the speeds of all.
    fn fill(
        &self,
        report: &mut Report,
        plans: Vec<Plan>,
        source: Unnamed,
        mut exact: Engine,
        windows: &Windows<'_>,
        evaluated: usize,
    ) -> CliResult<()> {
        let (mut kept, count) = (Vec::new(), plans.len());
        for (at, Plan { mut row, scheme }) in plans.into_iter().enumerate() {
            self.ui.say(&format!("{}: {} of {count}", row.name(), at + 1));
            let artifact = match self.make(&mut row, Choice::Scheme(scheme))? {
                Ok(artifact) => Some(artifact),
                Err(problem) => {
                    row.problem = Some(problem);
                    None
                }
            };
            if let Some(artifact) = &artifact {
                match self.compare(&mut exact, artifact, windows, evaluated) {
                    Ok(against) => {
                        let perplexity = against.perplexities[1].perplexity;
                        row.quality = Some(Quality { perplexity, against: Some(against) });
                    }
                    Err(error) => row.problem = Some(of_the_row(error)?),
                }
            }
            kept.push(artifact.filter(|_| !self.speeds.tests.is_empty() && row.problem.is_none()));
            report.rows.push(row);
        }
        drop(exact);
        kept.insert(0, Some(source));
        if !self.speeds.tests.is_empty() {
            self.take_speeds(&mut report.rows, &kept, evaluated)?;
        }
        Ok(())
    }

    /// Rounds over all rows, so that what slows the machine for a while slows no row alone. Each run comes right after one that is not measured.
    fn take_speeds(&self, rows: &mut [Row], kept: &[Option<Unnamed>], context: usize) -> CliResult<()> {
        for round in 1..=self.speeds.repeat {
            self.ui.say(&format!("speeds: round {round} of {}", self.speeds.repeat));
            for (row, artifact) in rows.iter_mut().zip(kept) {
                let Some(artifact) = artifact.as_ref().filter(|_| row.problem.is_none()) else { continue };
                if let Err(error) = self.take_speed(row, artifact, context) {
                    row.problem = Some(of_the_row(error)?);
                }
            }
        }
        Ok(())
    }

    /// One run more of each test.
    fn take_speed(&self, row: &mut Row, artifact: &Unnamed, context: usize) -> CliResult<()> {
        let mut engine = self.load(self.open(artifact)?, context)?;
        for (at, &test) in self.speeds.tests.iter().enumerate() {
            test.run(&mut engine, &mut |_| {})?;
            let run = test.run(&mut engine, &mut |_| {})?;
            match row.speeds.get_mut(at) {
                Some(measured) => measured.add(run),
                None => row.speeds.push(Measured::new(test, run)),
            }
        }
        Ok(())
    }

    /// Makes the artifact of a row and notes what it takes; the words inside are why this row has none.
    fn make(&self, row: &mut Row, choice: Choice) -> CliResult<Result<Unnamed, String>> {
        let (result, cost) = cost::of(|| self.convert(row, choice));
        if interrupt::asked() {
            return Err(CliError::Interrupted);
        }
        let (report, artifact) = match result? {
            Ok(made) => made,
            Err(problem) => return Ok(Err(problem)),
        };
        if choice == Choice::Source {
            report.notes.iter().for_each(|note| self.ui.note(note));
        }
        row.made = Some(self.made(&report, &artifact, cost)?);
        Ok(Ok(artifact))
    }

    fn convert(&self, row: &Row, choice: Choice) -> CliResult<Result<(artifact::CompileReport, Unnamed), String>> {
        let mut calibration = match &self.calibration {
            Some(Calibrated { artifact, ids, .. }) if row.by_a_text => match Calibration::new(artifact.clone(), ids) {
                Ok(calibration) => Some(calibration),
                Err(error) => return Ok(Err(error.to_string())),
            },
            _ => None,
        };
        let encoder = calibration.as_mut().map(|by| by as &mut dyn MatrixEncoder);
        let mut progress = self.ui.progress("convert", Unit::Bytes);
        let update = &mut |done, total| progress.update(done, total);
        // The name is for messages: no file ever bears it.
        let (out, recipe) = (self.folder.join(format!("{}.zynfer", row.name())), Recipe::from(choice));
        match artifact::compile_unnamed(self.src, &out, Some(&recipe), encoder, update, &interrupt::asked) {
            Ok(made) => Ok(Ok(made)),
            // What the system refuses, it refuses the next row too.
            Err(error) if error.source.is_some() => Err(error.into()),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn made(&self, report: &artifact::CompileReport, artifact: &Unnamed, cost: Cost) -> CliResult<Made> {
        let opened = Artifact::open(&artifact.path(), LoadMode::Mmap)?;
        let context = self.card_context(opened.config())?;
        let planned = Planned::of(&opened)?;
        let fit = inspect_plan::fit(&planned, self.backend.machine(), Some(GpuKind::AmdHip), context, None);
        let card = match fit {
            Ok(fit) => Ok(fit.needed),
            Err(error) => Err(of_the_row(error)?),
        };
        let (file_bytes, weight_bytes, parameters) = (report.file_bytes, report.weight_bytes, report.parameter_count);
        Ok(Made { file_bytes, weight_bytes, parameters, card, cost })
    }

    /// The source's logits are evaluated again: those of all windows are rows of the whole vocabulary, gigabytes for a large one.
    fn compare(
        &self,
        exact: &mut Engine,
        artifact: &Unnamed,
        windows: &Windows<'_>,
        evaluated: usize,
    ) -> CliResult<Comparison> {
        let mut b = self.load(self.open(artifact)?, evaluated)?;
        complete(watched(self.ui, "compare", |on_event| compare(exact, &mut b, windows, on_event))?)
    }

    fn open(&self, artifact: &Unnamed) -> CliResult<Model> {
        Model::open(&artifact.path(), Load::Mmap, &self.hushed).map_err(|error| self.about(error, artifact))
    }

    fn load(&self, model: Model, context: usize) -> CliResult<Engine> {
        Ok(model.load(&self.backend, context, &self.hushed)?.engine)
    }

    /// An error about the source, by the name the user knows.
    fn about(&self, error: CliError, artifact: &Unnamed) -> CliError {
        let path = artifact.path().display().to_string();
        error.about(|words| words.replace(&path, &self.src.display().to_string()))
    }

    /// Context for windows and speeds, as `perplexity` would take it.
    fn context(&self, windows: &Windows<'_>, config: &ModelConfig) -> CliResult<usize> {
        let (timed, most) = (self.speeds.context(), config.max_position_embeddings);
        if timed > most {
            return Err(CliError::failed(format!(
                "{timed} tokens of context are needed for speeds, the model has {most} positions"
            )));
        }
        context(None, windows.window().max(timed), most)
    }

    /// Context of the card's plan, as `inspect --plan` would take it.
    fn card_context(&self, config: &ModelConfig) -> CliResult<usize> {
        context(self.backend.asked_context(), 0, config.max_position_embeddings)
    }

    /// Refuses before the first conversion what has no room: all artifacts where they are kept for their speeds, else the largest. A scheme that
    /// does not fit the matrices takes none.
    fn check_space(&self, name: &str, config: &ModelConfig, source: &Row, plans: &[Plan]) -> CliResult<()> {
        // Tokenizer, directory and padding.
        let beside = source.made.as_ref().map_or(0, |made| made.file_bytes - made.weight_bytes);
        let file = |plan: &Plan| {
            let planned = inspect_plan::of_shape(name.to_owned(), config.clone(), plan.scheme);
            planned.map_or(0, |planned| planned.weight_bytes() + beside)
        };
        let files = plans.iter().map(file);
        let (needed, what) = match self.speeds.tests.is_empty() {
            false => (files.sum(), "all artifacts, which are timed in turn"),
            true => (files.max().unwrap_or(0), "the largest artifact"),
        };
        match disk::free_space(&self.folder).filter(|&free| free < needed) {
            None => Ok(()),
            Some(free) => Err(CliError::failed(format!(
                "{}: {needed} bytes needed for {what}, {free} free",
                self.folder.display()
            ))),
        }
    }
}

/// What is whole; windows that Ctrl-C cut off are no row.
fn complete<T>((result, interrupted): (T, bool)) -> CliResult<T> {
    if interrupted { Err(CliError::Interrupted) } else { Ok(result) }
}

/// The words of an error that ends no more than its row.
fn of_the_row(error: CliError) -> CliResult<String> {
    match error {
        CliError::Failed(words) | CliError::Usage(words) => Ok(words),
        CliError::Found(_) | CliError::Interrupted | CliError::Closed => Err(error),
    }
}
