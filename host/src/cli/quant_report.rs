//! `zynfer quant-report`: one model in every scheme – size, memory, speed, quality, and what the conversion costs. Each figure is some other
//! command's: `compile` makes the artifacts, `inspect --plan` counts the card's memory, `compare` and `perplexity` judge, `bench` times.
//! Here are its arguments, and what is done with the result; [`super::quant_measure`] measures, [`super::quant_table`] has the words.

use std::path::{Path, PathBuf};

use crate::artifact::gguf;
use crate::calibrate::Calibration;
use crate::quant::Scheme;
use crate::quant::compensate::is_compensated;

use super::compile::calibration_ids;
use super::error::{CliError, CliResult};
use super::interrupt;
use super::model::BackendArgs;
use super::output::Ui;
use super::quant_measure::{Calibrated, Plan, Work};
use super::quant_table::{Report, Row};
use super::scored::ScoredArgs;
use super::speed::SpeedArgs;

/// Tell what each quantization costs a model and what it saves
///
/// The first row is the source itself: bf16 of a folder, of a GGUF file its blocks as they are. Every other row is measured against it: perplexity, KLD and the share of tokens with the same likeliest one as `compare` has them. Speeds are taken in rounds, one run of every row after the other, so that a machine that slows down slows all of them. A row that cannot be made or computed says why.
///
/// --ctx-size is the context of the card's plan; what is evaluated takes the context that windows and speeds need. On the emulator no speeds are taken.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A Hugging Face folder or a .gguf file, as for compile
    #[arg(value_name = "MODEL")]
    src: PathBuf,
    /// Schemes, with commas between them: bf16, int8, int8:G, int4:G, int4m:G, fp8-e4m3
    #[arg(long, value_name = "SCHEME,…", value_delimiter = ',', value_parser = str::parse::<Scheme>, default_value = "int8,int8:32,fp8-e4m3,int4:32,int4:64,int4:128,int4m:32,int4m:64,int4m:128")]
    schemes: Vec<Scheme>,
    /// Give every int4 and int4m another row, its codes chosen by this text (compile --calibrate). MODEL is a folder
    #[arg(long, value_name = "FILE")]
    calibrate: Option<PathBuf>,
    /// The same by ids, a file of little-endian 16-bit numbers
    #[arg(long, value_name = "FILE", conflicts_with = "calibrate")]
    calibrate_ids_u16: Option<PathBuf>,
    /// Write report.md, report.json and plot.svg into this folder, instead of Markdown to stdout
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Where artifacts lie while they are measured; nothing of them is left [default: FOLDER of --out, else the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,
    #[command(flatten)]
    scored: ScoredArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let plans = plans(args)?;
    refuse_other_files(&args.src)?;
    if let Some(out) = &args.out {
        writable(out)?;
    }
    let backend = args.backend.decided(ui)?;
    let mut speeds = args.speed.speeds(backend.is_emulator())?;
    if backend.is_emulator() && !speeds.tests.is_empty() {
        ui.note("no speeds: what the emulator needs says nothing about a card");
        speeds.tests.clear();
    }
    let folder = args.work.clone().or_else(|| args.out.clone()).unwrap_or_else(std::env::temp_dir);
    let (src, scored, calibration) = (&args.src, &args.scored, calibration(args)?);
    let work = Work { src, scored, ui, hushed: ui.hushed(), backend, speeds, folder, calibration };
    // From here on Ctrl-C ends the measuring, and what there is is told. Hashing, reading back and a stage of a calibration are gone through first.
    let guard = interrupt::Guard::new();
    let (report, ended) = work.measure(plans)?;
    drop(guard);
    tell(args, &report, ui)?;
    ended
}

/// The rows behind the source's.
fn plans(args: &Args) -> CliResult<Vec<Plan>> {
    let by_a_text = args.calibrate.is_some() || args.calibrate_ids_u16.is_some();
    let mut plans: Vec<Plan> = Vec::new();
    for (at, &scheme) in args.schemes.iter().enumerate() {
        if args.schemes[..at].contains(&scheme) {
            return Err(CliError::usage(format!("--schemes: {scheme}: named twice")));
        }
        let plan = |by_a_text| Plan { row: Row::new(scheme.to_string(), by_a_text), scheme };
        plans.push(plan(false));
        if by_a_text && is_compensated(scheme) {
            plans.push(plan(true));
        }
    }
    if by_a_text && plans.len() == args.schemes.len() {
        return Err(CliError::usage("--calibrate chooses codes of int4 and int4m, --schemes has none"));
    }
    Ok(plans)
}

fn refuse_other_files(src: &Path) -> CliResult<()> {
    let meta = std::fs::metadata(src).map_err(|error| CliError::file(src, &error))?;
    if meta.is_dir() || gguf::is_gguf(src) {
        return Ok(());
    }
    let file = src.display();
    Err(CliError::failed(format!(
        "{file}: neither a Hugging Face folder nor a GGUF file; what is compiled already is not encoded again"
    )))
}

/// Makes the folder, and refuses one that takes no files, before anything is measured.
fn writable(folder: &Path) -> CliResult<()> {
    let failed = |error| CliError::failed(format!("--out {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    tempfile::tempfile_in(folder).map(drop).map_err(failed)
}

/// What `--calibrate` and `--calibrate-ids-u16` ask for, checked.
fn calibration(args: &Args) -> CliResult<Option<Calibrated>> {
    let (text, ids_u16) = (args.calibrate.as_deref(), args.calibrate_ids_u16.as_deref());
    if text.is_none() && ids_u16.is_none() {
        return Ok(None);
    }
    let (artifact, ids) = calibration_ids(&args.src, text, ids_u16)?;
    let tokens = Calibration::tokens_of(artifact.config(), &ids).map_err(CliError::failed)?;
    Ok(Some(Calibrated { artifact, ids, tokens }))
}

/// Writes the files, or the answer to stdout.
fn tell(args: &Args, report: &Report, ui: &Ui) -> CliResult<()> {
    if let Some(folder) = &args.out {
        let json = serde_json::to_string_pretty(&report.json()).map_err(CliError::failed)? + "\n";
        let files = [("report.md", Some(report.markdown())), ("report.json", Some(json)), ("plot.svg", report.plot())];
        for (name, text) in files {
            let path = folder.join(name);
            match text {
                Some(text) => {
                    if let Err(error) = std::fs::write(&path, text) {
                        // What was measured is not lost with the disk's room.
                        ui.out(&report.markdown())?;
                        return Err(CliError::file(&path, &error));
                    }
                }
                None => {
                    // One of an earlier report would be taken for this one's.
                    let _ = std::fs::remove_file(&path);
                    ui.note(&format!("no {name}: no row diverges from the source"));
                }
            }
        }
        ui.say(&format!("{}: the report", folder.display()));
    }
    match (args.json, &args.out) {
        (true, _) => ui.out_json(&report.json()),
        (false, None) => ui.out(&report.markdown()),
        (false, Some(_)) => Ok(()),
    }
}
