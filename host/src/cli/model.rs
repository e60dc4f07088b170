//! Opening what the user calls MODEL, and the backend they ask for. A named backend that is not there is an error; `auto` says in
//! one line what it chose and why.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::artifact::{Artifact, LoadMode};
use crate::cpu::{CpuBackend, CpuOptions};
use crate::engine::Engine;
use crate::gpu::{self, GpuKind};
use crate::hip::Selector;
use crate::hip::decode::DecodePlan;
use crate::hip::system::Surroundings;
use crate::model::config::ModelConfig;
use crate::model::kv::KvFormats;
use crate::model::ops::Ops;
use crate::model::weights::{TensorSource, Weights};
use crate::quant::Activations;
use crate::text::{SpecialStrings, Tokenizer};

use super::chat_prompt::special_strings;
use super::error::{CliError, CliResult};
use super::output::Ui;
use super::text_input;

/// Context unless the user or the prompt asks for more, in tokens: a model's longest would often reserve more memory for the KV cache
/// than the weights take.
const DEFAULT_CONTEXT: usize = 4096;
/// Room for new tokens beside the prompt, where nobody says how many are wanted.
pub(super) const DEFAULT_ROOM: usize = 1024;

/// Which model.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    /// A .zynfer file or a Hugging Face folder
    #[arg(value_name = "MODEL", required_unless_present = "model_flag", conflicts_with = "model_flag")]
    model: Option<PathBuf>,
    /// The same as MODEL
    #[arg(short = 'm', long = "model", value_name = "MODEL", id = "model_flag")]
    model_flag: Option<PathBuf>,
    /// How weights reach memory
    #[arg(long, value_enum, default_value_t = Load::Mmap, value_name = "HOW")]
    load: Load,
}

/// `--load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Load {
    /// Mapped from the file.
    Mmap,
    /// Read into memory: for slow or changing storage.
    Read,
}

/// `--backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// The GPU if a supported one is there, else the CPU
    Auto,
    /// This machine's processor
    Cpu,
    /// The card, through AMD's HIP
    AmdHip,
    /// The card's machine code without the card
    Emulator,
}

impl Backend {
    /// The GPU it is, if it is one. `auto` says in one line what it chose and why.
    fn kind(self, device: &str, hip_library: Option<&OsString>, ui: &Ui) -> CliResult<Option<GpuKind>> {
        // A card that does not exist is another matter; a word that names none is wrong usage, whatever the backend.
        let selector: Selector = device.parse().map_err(CliError::usage)?;
        match self {
            Self::Cpu if selector != Selector::Auto => {
                Err(CliError::usage(format!("--device {device} names a GPU, but the backend is cpu")))
            }
            Self::Cpu => Ok(None),
            Self::AmdHip => Ok(Some(GpuKind::AmdHip)),
            Self::Emulator => Ok(Some(GpuKind::Emulator)),
            // Whoever names a card wants that card.
            Self::Auto if selector != Selector::Auto => Ok(Some(GpuKind::AmdHip)),
            Self::Auto => choose_backend(hip_library, ui),
        }
    }
}

/// `--plan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DecodeBy {
    /// Each operation a launch: the baseline
    Unfused,
    /// Two launches per layer
    Fused,
    /// The same, recorded once as a graph
    Graph,
    /// One launch for several tokens
    Persistent,
}

impl DecodeBy {
    fn plan(self) -> Option<DecodePlan> {
        match self {
            DecodeBy::Unfused => None,
            DecodeBy::Fused => Some(DecodePlan::Fused),
            DecodeBy::Graph => Some(DecodePlan::Graph),
            DecodeBy::Persistent => Some(DecodePlan::Persistent),
        }
    }
}

/// `--activations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ActivationKind {
    /// As they are
    F32,
    /// Rounded to 8 bits
    Int8,
}

/// What a line says of rounded activations, behind the cache; of others nothing.
pub(super) fn told(activations: Activations) -> &'static str {
    match activations {
        Activations::AsTheyAre => "",
        Activations::Int8 => ", activations int8",
    }
}

impl From<ActivationKind> for Activations {
    fn from(kind: ActivationKind) -> Self {
        match kind {
            ActivationKind::F32 => Self::AsTheyAre,
            ActivationKind::Int8 => Self::Int8,
        }
    }
}

/// Which machine, and what is planned on it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Machine")]
pub(super) struct MachineArgs {
    /// Where to compute
    #[arg(long, value_enum, env = "ZYNFER_BACKEND", default_value_t = Backend::Auto, hide_env_values = true, value_name = "NAME")]
    backend: Backend,
    /// Which GPU: a number, GPU-<id> or auto
    #[arg(long, env = "ZYNFER_DEVICE", hide_env_values = true, default_value = "auto", value_name = "N")]
    pub(super) device: String,
    /// Longest context in tokens, as 4096 or 4k; at most the model's [default: 4096, or more where the prompt needs it]
    #[arg(short = 'c', long, visible_alias = "context", value_name = "TOKENS", value_parser = text_input::parse_count)]
    pub(super) ctx_size: Option<usize>,
    /// How the KV cache is stored: f32 (the CPU backend alone), bf16, f16, int8 or fp8; keys and values apart as k=bf16,v=int8 [default: f32 on the CPU backend, bf16 on a GPU]
    #[arg(long, env = "ZYNFER_KV", hide_env_values = true, value_name = "FORMAT", value_parser = str::parse::<KvFormats>)]
    pub(super) kv: Option<KvFormats>,
    /// What quantized weights are multiplied with: activations as they are, or rounded to 8 bits with a scale per token and 64 elements; a GPU does so with int8 weights and several tokens
    #[arg(long, value_enum, default_value_t = ActivationKind::F32, value_name = "KIND")]
    pub(super) activations: ActivationKind,
    /// AMD's HIP library, instead of searching for it
    #[arg(long, value_name = "FILE")]
    pub(super) hip_library: Option<OsString>,
    /// Threads of the CPU backend; 0 takes every core
    #[arg(short = 't', long, default_value_t = 0, value_name = "N")]
    pub(super) threads: usize,
}

/// Where and how to compute.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Machine")]
pub(super) struct BackendArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// How a GPU decodes: operation by operation, or by fused kernels; prompts are evaluated alike by all [default: persistent on a card, unfused on the emulator and with a --kv other than bf16]
    #[arg(long, value_enum, env = "ZYNFER_PLAN", hide_env_values = true, value_name = "PLAN")]
    plan: Option<DecodeBy>,
}

/// A model whose text can be read; its weights are not touched yet.
pub(super) struct Model {
    pub(super) artifact: Artifact,
    started: Instant,
}

/// A model on a backend.
pub(super) struct Loaded {
    pub(super) engine: Engine,
    /// From the command's start to now.
    pub(super) load: Duration,
}

impl MachineArgs {
    /// The GPU that is meant, if one is ([`Backend::kind`]).
    pub(super) fn kind(&self, ui: &Ui) -> CliResult<Option<GpuKind>> {
        self.backend.kind(&self.device, self.hip_library.as_ref(), ui)
    }
}

impl BackendArgs {
    /// The emulator, for a command that needs its counters; `auto` means it too.
    pub(super) fn only_emulator(&self, command: &str) -> CliResult<Self> {
        match self.machine.backend {
            Backend::Auto | Backend::Emulator => {
                let machine = MachineArgs { backend: Backend::Emulator, ..self.machine.clone() };
                Ok(Self { machine, ..self.clone() })
            }
            Backend::Cpu | Backend::AmdHip => {
                Err(CliError::usage(format!("{command} counts machine code: only --backend emulator can do that")))
            }
        }
    }

    /// The same with `auto` decided, which is told once.
    pub(super) fn decided(&self, ui: &Ui) -> CliResult<Self> {
        let backend = match self.machine.kind(ui)? {
            None => Backend::Cpu,
            Some(GpuKind::AmdHip) => Backend::AmdHip,
            Some(GpuKind::Emulator) => Backend::Emulator,
        };
        Ok(Self { machine: MachineArgs { backend, ..self.machine.clone() }, ..self.clone() })
    }

    /// What quantized matrices are to be multiplied with.
    pub(super) fn activations(&self) -> Activations {
        self.machine.activations.into()
    }

    /// Which machine.
    pub(super) fn machine(&self) -> &MachineArgs {
        &self.machine
    }

    /// Whether the emulator was named.
    pub(super) fn is_emulator(&self) -> bool {
        self.machine.backend == Backend::Emulator
    }

    /// `--ctx-size`.
    pub(super) fn asked_context(&self) -> Option<usize> {
        self.machine.ctx_size
    }
}

impl ModelArgs {
    /// The path the user gave.
    fn path(&self) -> &Path {
        let path = self.model.as_deref().or(self.model_flag.as_deref());
        path.expect("clap demands one of the two")
    }

    /// Opens and checks it.
    pub(super) fn open(&self, ui: &Ui) -> CliResult<Model> {
        Model::open(self.path(), self.load, ui)
    }
}

/// Opens and checks a model, and says what is unusual about it.
pub(super) fn open_artifact(path: &Path, load: Load, ui: &Ui) -> CliResult<Artifact> {
    let mode = match load {
        Load::Mmap => LoadMode::Mmap,
        Load::Read => LoadMode::Read,
    };
    let artifact = Artifact::open(path, mode)?;
    if artifact.is_folder() {
        ui.say(&format!("{}: a Hugging Face folder, compiled in memory", path.display()));
    }
    for note in artifact.notes() {
        ui.note(note);
    }
    Ok(artifact)
}

/// A model's tokenizer, if it has one; it must not know more ids than the model has rows.
pub(super) fn tokenizer(artifact: &Artifact) -> CliResult<Option<Tokenizer>> {
    let Some(json) = artifact.tokenizer_json() else { return Ok(None) };
    let tokenizer = Tokenizer::from_bytes(json)?;
    let (ids, rows) = (tokenizer.vocab_size(), artifact.config().vocab_size);
    if ids > rows {
        return Err(CliError::failed(format!("tokenizer.json: {ids} ids, but the model's vocab_size is {rows}")));
    }
    Ok(Some(tokenizer))
}

/// Text was given to a model without one.
pub(super) fn no_tokenizer(artifact: &Artifact) -> CliError {
    CliError::failed(format!("{}: has no tokenizer, so text cannot be used", artifact.path().display()))
}

impl Model {
    /// Opens and checks the one at `path`.
    pub(super) fn open(path: &Path, load: Load, ui: &Ui) -> CliResult<Self> {
        let started = Instant::now();
        Ok(Self { artifact: open_artifact(path, load, ui)?, started })
    }

    /// Its tokenizer.
    pub(super) fn tokenizer(&self) -> CliResult<Tokenizer> {
        tokenizer(&self.artifact)?.ok_or_else(|| no_tokenizer(&self.artifact))
    }

    /// The context to plan for, where a command needs `wanted` tokens.
    pub(super) fn context(&self, backend: &BackendArgs, wanted: usize) -> CliResult<usize> {
        context(backend.asked_context(), wanted, self.artifact.config().max_position_embeddings)
    }

    /// Loads it for a context of `context` tokens.
    pub(super) fn load(self, backend: &BackendArgs, context: usize, ui: &Ui) -> CliResult<Loaded> {
        let config = self.artifact.config().clone();
        let weights = Weights::new(&config);
        let ops = open_backend(backend, Arc::new(self.artifact.clone()), &config, &weights, context, ui)?;
        // What was copied while loading must be what was checked.
        self.artifact.check_unchanged()?;
        let end_ids = self.artifact.end_ids().to_vec();
        let engine = Engine::new(ops, weights, &config, end_ids)?;
        Ok(Loaded { engine, load: self.started.elapsed() })
    }

    /// `bos_token`, `eos_token`, … where the model is a folder that names them.
    pub(super) fn special_strings(&self) -> CliResult<SpecialStrings> {
        let path = self.artifact.path().join("tokenizer_config.json");
        if !self.artifact.is_folder() || !path.exists() {
            return Ok(SpecialStrings::new());
        }
        let config = serde_json::from_slice(&text_input::read_bytes(&path)?)
            .map_err(|error| CliError::failed(format!("{}: not JSON: {error}", path.display())))?;
        Ok(special_strings(&config))
    }
}

/// `asked` by the user, else what is wanted but no less than [`DEFAULT_CONTEXT`]; never over `most`, the model's.
pub(super) fn context(asked: Option<usize>, wanted: usize, most: usize) -> CliResult<usize> {
    match asked {
        Some(0) => Err(CliError::usage("--ctx-size: 0 tokens given, at least 1 is needed")),
        Some(size) if size > most => {
            Err(CliError::failed(format!("--ctx-size: {size} tokens asked for, the model has {most} positions")))
        }
        Some(size) => Ok(size),
        None => Ok(wanted.max(DEFAULT_CONTEXT).min(most)),
    }
}

/// What the emulator's library would refuse at the first launch is wrong usage already here.
fn check_list() -> CliResult<()> {
    const NAME: &str = "ZYNFER_EMULATOR_CHECK";
    let Some(value) = std::env::var_os(NAME).filter(|value| !value.is_empty()) else { return Ok(()) };
    let list = value.to_string_lossy().parse::<emulator::watch::Checks>();
    list.map(drop).map_err(|error| CliError::usage(format!("{NAME}: {error}")))
}

/// Opens the backend that was asked for and loads the weights of `source`.
pub(super) fn open_backend(
    args: &BackendArgs,
    source: Arc<dyn TensorSource>,
    config: &ModelConfig,
    weights: &Weights,
    context: usize,
    ui: &Ui,
) -> CliResult<Box<dyn Ops>> {
    let machine = &args.machine;
    let activations = Activations::from(machine.activations);
    let Some(kind) = machine.kind(ui)? else {
        if let Some(plan) = args.plan.filter(|plan| *plan != DecodeBy::Unfused) {
            let name =
                clap::ValueEnum::to_possible_value(&plan).map_or_else(String::new, |name| name.get_name().into());
            return Err(CliError::usage(format!("--plan {name} is a GPU's, but the backend is cpu")));
        }
        let kv = machine.kv.unwrap_or(CpuOptions::KV);
        let options = CpuOptions { threads: machine.threads, activations, kv, ..CpuOptions::new(context) };
        let backend = CpuBackend::new(config, weights, source, options);
        return Ok(Box::new(backend.map_err(CliError::failed)?));
    };
    if kind == GpuKind::Emulator {
        check_list()?;
    }
    // A card gains most from the fewest launches; the emulator has none to save, and the operations' kernels are less to execute.
    let kv = machine.kv.unwrap_or(gpu::plan::KV);
    let schemes = gpu::schemes(weights, source.as_ref())?;
    let plan = match args.plan {
        Some(plan) => plan,
        None if kind == GpuKind::Emulator => DecodeBy::Unfused,
        None if kv != gpu::plan::KV => {
            ui.say(&format!("--plan unfused: --kv {kv}, fused decode reads a cache of bf16"));
            DecodeBy::Unfused
        }
        None => DecodeBy::Persistent,
    };
    if activations == Activations::Int8 && !gpu::rounds(weights, &schemes) {
        ui.say("--activations int8: no matrix of the model is int8 with a scale per row, nothing is rounded");
    }
    let (hip_library, decode) = (machine.hip_library.clone(), plan.plan());
    let options = gpu::Options { hip_library, decode, kv, activations, ..gpu::Options::new(context)? };
    let opened = gpu::open(kind, &machine.device, config, weights, source.as_ref(), &options)?;
    for note in &opened.notes {
        ui.aside(note);
    }
    Ok(opened.ops)
}

/// What `auto` means on this machine, told in one line. Whoever names a library wants it: one that does not open is an error.
fn choose_backend(hip_library: Option<&OsString>, ui: &Ui) -> CliResult<Option<GpuKind>> {
    let facts = gpu::devices(GpuKind::AmdHip, hip_library);
    if let (Some(_), None, Some(error)) = (hip_library, &facts.library, &facts.error) {
        return Err(CliError::failed(error));
    }
    if let Some(card) = facts.devices.iter().find(|card| card.chosen) {
        ui.say(&format!("backend amd-hip, chosen by auto: {}", card.device));
        return Ok(Some(GpuKind::AmdHip));
    }
    let why = match (&facts.library, facts.devices.first().and_then(|card| card.left_out.as_ref())) {
        (_, Some(left_out)) => left_out.clone(),
        (Some(library), None) => {
            let reason = Surroundings::here().driver().advice().map(|advice| format!(", {advice}")).unwrap_or_default();
            format!("{} sees no AMD GPU{reason}", library.display())
        }
        (None, None) => "no HIP library opens".to_string(),
    };
    ui.say(&format!("backend cpu, chosen by auto: {why} (zynfer doctor tells more)"));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_ROOM, context};

    #[test]
    fn the_context_is_small_unless_more_is_needed_or_asked_for() {
        let planned = |asked, wanted| context(asked, wanted, 40_960).expect("inside the model");
        assert_eq!(planned(None, 10), 4096);
        assert_eq!(planned(None, 4096), 4096);
        // A prompt of 4096 tokens still has room for an answer.
        assert_eq!(planned(None, 4096 + DEFAULT_ROOM), 5120);
        assert_eq!(planned(None, usize::MAX), 40_960);
        assert_eq!(planned(Some(7), 10_000), 7);
        assert_eq!(planned(Some(40_960), 1), 40_960);
        assert_eq!(context(None, 1, 2048).expect("the model's"), 2048);
        assert_eq!(context(Some(0), 1, 2048).expect_err("nothing").exit_code(), 2);
        let error = context(Some(2049), 1, 2048).expect_err("past the model");
        assert_eq!(error.message(), Some("--ctx-size: 2049 tokens asked for, the model has 2048 positions"));
    }
}
