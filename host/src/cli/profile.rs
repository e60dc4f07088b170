//! `zynfer profile`: what each kernel does for one prompt and one token after it, counted in the emulator, and what that would take on the
//! card at least. Counts are exact; times are estimates from them and are called so. It measures nothing on a card.

use serde_json::{Value, json};

use crate::gpu::GpuKind;
use crate::hip::Library;
use crate::model::forward::forward;

use super::error::{CliError, CliResult};
use super::model::{BackendArgs, context};
use super::output::{Look, Ui, bytes};
use super::subject::SubjectArgs;

/// Count what each kernel does for a prompt and for one token, in the emulator
///
/// The prompt's ids are 1, 2, 3, …: what is counted depends on their number alone. Columns: bytes that lanes ask for; distinct
/// 128-byte lines read and written, in bytes; bytes asked per byte of the lines that each access touches; LDS passes beyond the ideal
/// (model: a dword's bank is its index modulo 32); waves per SIMD that resources allow, of 16; phases, which are launches and barriers over
/// the grid within them. Times are estimates for an R9700 from these counts. At best: the largest of memory, vector, matrix and LDS work of
/// each launch, plus 1.5 µs for each and 1.36 µs for each barrier. Cautiously: 2.9 µs more for each phase. None of them was measured.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Tokens of the prompt
    #[arg(short = 'p', long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    prompt_tokens: u32,
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One counted pass.
struct Pass {
    name: &'static str,
    tokens: usize,
    /// What it has to read or write whatever its kernels are: weights ([`super::subject::Subject::pass_bytes`]), keys and values, each once.
    minimum_bytes: u64,
    report: Value,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let backend = args.backend.only_emulator("profile")?;
    let subject = args.subject.open(&backend, ui)?;
    let config = subject.config.clone();
    let prompt = args.prompt_tokens as usize;
    // As long as any user's, not as short as the prompt: values lie in rows of the context's length.
    let context = context(backend.asked_context(), prompt + 1, config.max_position_embeddings)?;
    if context < prompt + 1 {
        return Err(CliError::failed(format!(
            "{prompt} prompt tokens and one more do not fit the context of {context} tokens"
        )));
    }
    let vocabulary = config.vocab_size as u32;
    let ids: Vec<u32> = (1..=args.prompt_tokens).map(|id| id % vocabulary).collect();
    let weight_bytes = subject.pass_bytes();
    let mut engine = subject.load(&backend, context, ui)?;
    let kv = engine.kv_formats();
    let token_bytes = kv.token_bytes(&config).unwrap_or(0) as u64; // loaded, so counted
    let library = GpuKind::Emulator.library(None).map_err(CliError::failed)?;
    let (ops, weights) = engine.parts();
    if prompt > ops.max_chunk() {
        return Err(CliError::failed(format!("{prompt} prompt tokens, at most {} are one pass", ops.max_chunk())));
    }
    count(&library)?;
    forward(ops, weights, &ids, 0, 1).map_err(CliError::failed)?;
    let next = ops.argmax().map_err(CliError::failed)?;
    let prefill = Pass {
        name: "prefill",
        tokens: prompt,
        minimum_bytes: weight_bytes + token_bytes * prompt as u64,
        report: counted(&library)?,
    };
    count(&library)?;
    if ops.decode_block() > 0 {
        ops.decode_greedy(next, prompt, 1, &[]).map_err(CliError::failed)?;
    } else {
        forward(ops, weights, &[next], prompt, 1).map_err(CliError::failed)?;
        ops.argmax().map_err(CliError::failed)?;
    }
    let decode = Pass {
        name: "decode",
        tokens: 1,
        minimum_bytes: weight_bytes + token_bytes * (prompt as u64 + 1),
        report: counted(&library)?,
    };
    if args.json {
        let pass = |pass: &Pass| {
            json!({
                "tokens": pass.tokens, "minimum_bytes": pass.minimum_bytes,
                "kernels": pass.report["kernels"], "totals": pass.report["totals"],
            })
        };
        return ui.out_json(&json!({
            "backend": "emulator", "kv": kv.to_string(), "estimates_for": prefill.report["machine"],
            "prefill": pass(&prefill), "decode": pass(&decode),
        }));
    }
    ui.aside(&format!("emulator: KV cache {kv}, context {context}"));
    for pass in [prefill, decode] {
        ui.out(&text(&pass, ui))?;
    }
    Ok(())
}

fn count(library: &Library) -> CliResult<()> {
    if library.count() {
        return Ok(());
    }
    Err(CliError::failed(format!("{}: this emulator library cannot count", library.path().display())))
}

fn counted(library: &Library) -> CliResult<Value> {
    let text = library.counted().unwrap_or_default();
    serde_json::from_str(&text)
        .map_err(|error| CliError::failed(format!("{}: its counters are no JSON: {error}", library.path().display())))
}

/// A table, the kernels with the largest estimates first.
fn text(pass: &Pass, ui: &Ui) -> String {
    let mut kernels: Vec<&Value> = pass.report["kernels"].as_array().into_iter().flatten().collect();
    let estimate = |kernel: &Value| kernel["estimate"]["total_s"].as_f64().unwrap_or(0.0);
    kernels.sort_by(|a, b| estimate(b).total_cmp(&estimate(a)));
    let heading = format!(
        "{:<28} {:>8} {:>12} {:>10} {:>10} {:>6} {:>10} {:>6} {:>7} {:>10} {:>12}  {}",
        "kernel",
        "launches",
        "instructions",
        "asked",
        "lines",
        "used",
        "conflicts",
        "waves",
        "phases",
        "at best",
        "cautiously",
        "bound"
    );
    let plural = if pass.tokens == 1 { "" } else { "s" };
    let mut out = format!("{}: {} token{plural}\n{}\n", pass.name, pass.tokens, ui.styled(Look::Bold, &heading));
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    for kernel in kernels {
        let counters = &kernel["counters"];
        let asked: u64 =
            ["loads", "stores", "atomics", "scalar_loads"].iter().map(|kind| number(&counters[kind]["bytes"])).sum();
        let footprint = &counters["footprint"];
        let lines = 128 * (number(&footprint["read_128"]) + number(&footprint["written_128"]));
        let used = kernel["coalescing"].as_f64().map_or_else(String::new, |share| format!("{:.0} %", 100.0 * share));
        let lds = &counters["lds"];
        out += &format!(
            "{:<28} {:>8} {:>12} {:>10} {:>10} {used:>6} {:>10} {:>6.1} {:>7} {:>7.1} µs {:>9.1} µs  {}\n",
            kernel["kernel"].as_str().unwrap_or("?"),
            number(&kernel["launches"]),
            number(&kernel["instructions"]),
            bytes(asked),
            bytes(lines),
            number(&lds["passes_mod32"]) - number(&lds["passes_ideal"]),
            kernel["occupancy"]["waves_per_simd"].as_f64().unwrap_or(0.0),
            number(&kernel["launches"]) + number(&counters["grid_waits"]),
            1e6 * estimate(kernel),
            1e6 * kernel["estimate"]["cautious_s"].as_f64().unwrap_or(0.0),
            kernel["bound"].as_str().unwrap_or("?"),
        );
    }
    let totals = &pass.report["totals"];
    let (moved, minimum) = (number(&totals["footprint_bytes"]), pass.minimum_bytes);
    out += &format!(
        "together {} launches, {} barriers over the grid, {} wave-instructions; lines {} are {:.2} times the {} of weights and KV cache\n",
        number(&totals["launches"]),
        number(&totals["grid_waits"]),
        number(&totals["instructions"]),
        bytes(moved),
        moved as f64 / minimum as f64,
        bytes(minimum),
    );
    let second = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (best, cautious) = (second(&totals["estimate_s"]), second(&totals["cautious_s"]));
    // What weights and cache alone take at the memory's rate.
    let roof = minimum as f64 / second(&pass.report["machine"]["memory_bytes_per_s"]);
    out += &format!(
        "estimate {:.1} µs on an R9700 at best, {:.1} µs cautiously; {:.1} µs for weights and KV cache alone are {:.0} % and {:.0} % of them\n\n",
        1e6 * best,
        1e6 * cautious,
        1e6 * roof,
        100.0 * roof / best,
        100.0 * roof / cautious,
    );
    out
}
