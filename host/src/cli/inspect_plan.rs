//! `zynfer inspect --plan`: what a model takes in memory, part by part, what is free, and the longest context that fits. The plan is the
//! backend's own, the one it checks before it loads; nothing is loaded here.

use serde_json::{Map, json};

use crate::artifact::{Artifact, LoadMode, gguf};
use crate::cpu::{self, CpuOptions};
use crate::gpu::{self, GpuKind};
use crate::model::config::ModelConfig;
use crate::model::memory::{self, Fit};
use crate::model::weights::{Dtype, TensorSpec, Weights};
use crate::quant::Scheme;

use super::error::{CliError, CliResult};
use super::model::{MachineArgs, context, open_artifact};
use super::output::{Look, Ui, bytes};
use super::subject::SubjectArgs;
use super::text_input;

/// `--plan` and what it is made for. Without `--plan` a flag that only a plan takes is refused; of those that a variable may give, too,
/// clap's derive does not tell which it was.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Memory plan")]
#[command(mut_args(of_plan))]
pub(super) struct PlanArgs {
    /// Print what the model takes in memory, what is free, and the longest context that fits
    #[arg(long = "plan", id = "memory_plan", conflicts_with_all = ["verify", "tensors"])]
    asked: bool,
    /// Assume so much free memory, as 32GiB, instead of asking the machine: for a card that is not there
    #[arg(long, value_name = "SIZE", value_parser = text_input::parse_size, requires = "memory_plan")]
    memory: Option<u64>,
    #[command(flatten)]
    machine: MachineArgs,
}

fn of_plan(arg: clap::Arg) -> clap::Arg {
    if ["ctx_size", "hip_library", "threads", "activations"].contains(&arg.get_id().as_str()) {
        arg.requires("memory_plan")
    } else {
        arg
    }
}

impl PlanArgs {
    /// Whether `--plan` was given.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }
}

/// What is planned for.
pub(super) struct Planned {
    name: String,
    config: ModelConfig,
    weight_bytes: usize,
    /// How each tensor is stored, in the order of [`Weights::specs`].
    schemes: Vec<Scheme>,
}

pub(super) fn run(subject: &SubjectArgs, args: &PlanArgs, as_json: bool, ui: &Ui) -> CliResult<()> {
    let planned = planned(subject, ui)?;
    let config = &planned.config;
    let machine = &args.machine;
    let context = context(machine.ctx_size, 0, config.max_position_embeddings)?;
    let kind = machine.kind(ui)?;
    let (place, free) = match (args.memory, kind) {
        (Some(memory), _) => ("memory as --memory assumes it".to_owned(), Some(memory)),
        (None, None) => ("this computer".to_owned(), cpu::available_memory()),
        (None, Some(kind)) => {
            let found = gpu::free_memory(kind, &machine.device, machine.hip_library.as_ref());
            let (device, free) = found.map_err(|error| {
                CliError::from(error)
                    .about(|message| format!("{message}; --memory 32GiB plans for a card of that size"))
            })?;
            (device, Some(free))
        }
    };
    let fit = fit(&planned, machine, kind, context, free)?;
    if as_json {
        return ui.out_json(&describe(&planned, args, kind, &place, &fit));
    }
    for (name, value) in lines(&planned, kind, &place, &fit) {
        ui.out(&format!("{} {value}\n", ui.styled(Look::Bold, &format!("{name:<20}"))))?;
    }
    Ok(())
}

/// Opens what is planned for, as far as a plan needs.
fn planned(subject: &SubjectArgs, ui: &Ui) -> CliResult<Planned> {
    if let Some((name, config, schemes)) = subject.shape()? {
        return of_schemes(name.to_owned(), config, schemes);
    }
    let (path, load) = subject.file().expect("clap demands a model or a shape");
    if gguf::is_gguf(path) {
        let file = gguf::Gguf::open(path, LoadMode::Mmap)?;
        let planned = of_shape(file.name(), gguf::config(&file)?, Scheme::Bf16)?;
        let path = path.display();
        ui.note(&format!("{path}: planned as `zynfer compile --quant bf16` writes it (--quant source takes less)"));
        return Ok(planned);
    }
    Planned::of(&open_artifact(path, load, ui)?)
}

impl Planned {
    /// An opened model, its tensors stored as they are.
    pub(super) fn of(artifact: &Artifact) -> CliResult<Self> {
        let path = artifact.path().display();
        let scheme = |spec: &TensorSpec| {
            let tensor = artifact.tensor(&spec.name);
            tensor
                .map(|tensor| tensor.scheme)
                .ok_or_else(|| CliError::failed(format!("{path}: {}: not there", spec.name)))
        };
        Ok(Planned {
            name: artifact.name().to_owned(),
            config: artifact.config().clone(),
            weight_bytes: artifact.weight_bytes() as usize,
            schemes: Weights::new(artifact.config()).specs().iter().map(scheme).collect::<CliResult<_>>()?,
        })
    }

    /// Bytes of all its weights.
    pub(super) fn weight_bytes(&self) -> u64 {
        self.weight_bytes as u64
    }
}

/// A model of this shape whose matrices are stored as `scheme`.
pub(super) fn of_shape(name: String, config: ModelConfig, scheme: Scheme) -> CliResult<Planned> {
    let schemes = Weights::new(&config).specs().iter().map(|spec| scheme.of_tensor(&spec.shape)).collect();
    of_schemes(name, config, schemes)
}

/// A model of this shape whose tensors are stored as `schemes` says, in the order of [`Weights::specs`].
fn of_schemes(name: String, config: ModelConfig, schemes: Vec<Scheme>) -> CliResult<Planned> {
    let mut weight_bytes = 0;
    for (spec, scheme) in Weights::new(&config).specs().iter().zip(&schemes) {
        weight_bytes += Dtype::from(*scheme).stored_bytes(&spec.shape).map_err(CliError::failed)?;
    }
    Ok(Planned { name, config, weight_bytes, schemes })
}

/// The backend's plan for it.
pub(super) fn fit(
    planned: &Planned,
    args: &MachineArgs,
    kind: Option<GpuKind>,
    context: usize,
    free: Option<u64>,
) -> CliResult<Fit> {
    let config = &planned.config;
    if kind.is_none() {
        let kv = args.kv.unwrap_or(CpuOptions::KV);
        let options = CpuOptions { threads: args.threads, kv, ..CpuOptions::new(context) };
        return cpu::fit(config, planned.weight_bytes, &options, free).map_err(CliError::failed);
    }
    let weights = Weights::new(config);
    let (kv, activations) = (args.kv.unwrap_or(gpu::plan::KV), args.activations.into());
    let options = gpu::Options { kv, activations, ..gpu::Options::new(context)? };
    gpu::fit(config, &weights, &planned.schemes, &options, free).map_err(CliError::failed)
}

fn backend(kind: Option<GpuKind>) -> &'static str {
    kind.map_or("cpu", GpuKind::name)
}

/// Bytes of keys and values of one token, in all layers.
fn token_bytes(planned: &Planned, fit: &Fit) -> usize {
    fit.plan.kv.token_bytes(&planned.config).unwrap_or(0) // the plan has counted more
}

fn lines(planned: &Planned, kind: Option<GpuKind>, place: &str, fit: &Fit) -> Vec<(String, String)> {
    let plan = &fit.plan;
    let both = |count: u64| format!("{} ({count} bytes)", bytes(count));
    let mut lines = vec![
        ("model".to_owned(), planned.name.clone()),
        ("backend".into(), backend(kind).into()),
        ("context".into(), format!("{} of {} tokens", plan.context_len, planned.config.max_position_embeddings)),
        (
            "weights".into(),
            match plan.weights {
                memory::Weights::Held(count) => bytes(count as u64),
                memory::Weights::InPlace(count) => {
                    format!("{}, read where they lie: no part of the sum", bytes(count as u64))
                }
            },
        ),
        (
            "KV cache".into(),
            format!("{}, {}, {} bytes per token", bytes(plan.kv_cache as u64), plan.kv, token_bytes(planned, fit)),
        ),
    ];
    lines.extend(plan.scratch.iter().map(|(name, count)| ((*name).to_owned(), bytes(*count as u64))));
    lines.push(("reserve".into(), bytes(plan.reserve as u64)));
    lines.push(("needed".into(), both(fit.needed)));
    lines.push((
        "free".into(),
        fit.free.map_or_else(|| "unknown".to_owned(), |free| format!("{}, {place}", both(free))),
    ));
    if let Some(longest) = fit.longest {
        lines.push(("fits".into(), if fit.fits() { "yes".into() } else { format!("no: {}", memory::advice(longest)) }));
        lines.push(("longest context".into(), format!("{longest} tokens")));
    }
    lines
}

fn describe(planned: &Planned, args: &PlanArgs, kind: Option<GpuKind>, place: &str, fit: &Fit) -> serde_json::Value {
    let plan = &fit.plan;
    let scratch: Map<String, serde_json::Value> =
        plan.scratch.iter().map(|(name, count)| (name.replace(' ', "_"), (*count).into())).collect();
    json!({
        "model": planned.name,
        "backend": backend(kind),
        "context": plan.context_len,
        "model_context": planned.config.max_position_embeddings,
        "kv": plan.kv.to_string(),
        "kv_bytes_per_token": token_bytes(planned, fit),
        "weights_bytes": plan.weights.bytes(),
        "weights_in_place": matches!(plan.weights, memory::Weights::InPlace(_)),
        "kv_cache_bytes": plan.kv_cache,
        "scratch_bytes": scratch,
        "reserve_bytes": plan.reserve,
        "needed_bytes": fit.needed,
        "free_bytes": fit.free,
        "free_of": place,
        "free_is_assumed": args.memory.is_some(),
        "fits": fit.free.map(|_| fit.fits()),
        "longest_context": fit.longest,
    })
}
