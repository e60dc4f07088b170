//! Opening the backend: library, card, code object, memory, weights; each refusal says what it is about. Runs no operation.

use std::ffi::OsString;
use std::sync::Arc;

use crate::hip::decode::{DecodeError, DecodeModel, DecodePlan, Decoder};
use crate::hip::kernels::{Gemm, Kernels, LoadError};
use crate::hip::library::KNOWS_GFX1201;
use crate::hip::{
    Buffer, Context, DeviceError, HipError, Library, LibraryError, Search, Selector, Span, SpanError, Stream, choose,
    devices, system,
};
use crate::model::config::ModelConfig;
use crate::model::kv::KvFormats;
use crate::model::memory::{Fit, NoRoom};
use crate::model::ops::{Act, Ops, TensorId};
use crate::model::rope::RopeTable;
use crate::model::weights::{Dtype, TensorSource, TensorSpec, TensorView, WeightError, Weights};
use crate::quant::{Activations, Scheme};

use super::arena::Arena;
use super::code_object;
use super::operations::{Gpu, TopK};
use super::plan::{ACTS, KV, Plan, PlanError, TOP_K_BYTES, decode_shape, top_k_keys_bytes};

/// Which library stands behind HIP's C ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuKind {
    /// AMD's, with a card.
    AmdHip,
    /// The emulator.
    Emulator,
}

impl GpuKind {
    /// The backend's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AmdHip => "amd-hip",
            Self::Emulator => "emulator",
        }
    }

    /// The library behind a backend; opening one that is open already gives another handle to the same.
    ///
    /// # Errors
    /// [`LibraryError`]: none opens.
    pub fn library(self, hip_library: Option<&OsString>) -> Result<Arc<Library>, LibraryError> {
        self.search(hip_library).open()
    }

    pub(super) fn search(self, hip_library: Option<&OsString>) -> Search {
        match self {
            Self::AmdHip => Search::amd(hip_library.map(OsString::as_os_str)),
            Self::Emulator => Search::emulator(),
        }
    }
}

/// Which of an operation's kernels are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rung {
    /// The fast one for the shape.
    #[default]
    Fast,
    /// The first one, kept as the baseline.
    Plain,
}

impl Rung {
    /// From the environment variable `name`; see [`Rung::parse`].
    ///
    /// # Errors
    /// A value that means nothing.
    pub fn from_env(name: &'static str) -> Result<Self, OpenError> {
        let value = std::env::var_os(name);
        Self::parse(name, value.as_ref().map(|value| value.to_string_lossy()).as_deref())
    }

    /// `plain`, or `fast`, or nothing (which is `fast`); `name` is whose value it is, for the message.
    ///
    /// # Errors
    /// Any other value.
    pub fn parse(name: &'static str, value: Option<&str>) -> Result<Self, OpenError> {
        match value {
            None | Some("" | "fast") => Ok(Self::Fast),
            Some("plain") => Ok(Self::Plain),
            Some(value) => Err(OpenError::Variable { name, words: "`plain` nor `fast`", value: value.into() }),
        }
    }
}

/// Which kernels multiply, as [`Rung::parse`] with one word more: `single-stage`.
///
/// # Errors
/// Any other value.
pub fn parse_gemm(name: &'static str, value: Option<&str>) -> Result<Gemm, OpenError> {
    match value {
        None | Some("" | "fast") => Ok(Gemm::Fast),
        Some("single-stage") => Ok(Gemm::SingleStage),
        Some("plain") => Ok(Gemm::Plain),
        Some(value) => {
            Err(OpenError::Variable { name, words: "`plain`, `single-stage` nor `fast`", value: value.into() })
        }
    }
}

/// What is decided at load.
#[derive(Debug, Clone)]
pub struct Options {
    /// Longest context in tokens, at most the model's.
    pub context_len: usize,
    /// Most tokens of one pass; longer prompts go in chunks.
    pub max_chunk: usize,
    /// How keys and values are stored.
    pub kv: KvFormats,
    /// What int8 matrices with scales of rows are multiplied with in passes of several tokens; others take activations as they are.
    pub activations: Activations,
    /// Matrix products of several tokens; below [`Gemm::Fast`] each is a launch of its own, and so is what follows it.
    pub gemm: Gemm,
    /// Attention.
    pub attention: Rung,
    /// `--hip-library`.
    pub hip_library: Option<OsString>,
    /// Decode's fused kernels and how they are launched; `None` takes the operations one by one.
    pub decode: Option<DecodePlan>,
    /// Workgroups of decode's kernels; `None` takes as many as the card runs at once.
    pub workgroups: Option<u32>,
}

impl Options {
    /// Tokens of one pass unless said otherwise: enough for matrix instructions to be busy, little enough memory.
    pub const MAX_CHUNK: usize = 512;

    /// For a context of `context_len`, with kernels as `ZYNFER_GEMM` (`plain`, `single-stage` or `fast`) and `ZYNFER_ATTENTION`
    /// (`plain` or `fast`) say, decode one operation at a time, and `ZYNFER_DECODE_WORKGROUPS`.
    ///
    /// # Errors
    /// A variable with another value.
    pub fn new(context_len: usize) -> Result<Self, OpenError> {
        let value = std::env::var_os("ZYNFER_GEMM");
        let gemm = parse_gemm("ZYNFER_GEMM", value.as_ref().map(|value| value.to_string_lossy()).as_deref())?;
        let attention = Rung::from_env("ZYNFER_ATTENTION")?;
        let workgroups = match std::env::var_os(WORKGROUPS) {
            None => None,
            Some(value) => match value.to_str().map(str::parse) {
                Some(Ok(count)) if (1..=device_ops::decode::MAX_GRID).contains(&count) => Some(count),
                _ => return Err(OpenError::Workgroups { value: value.to_string_lossy().into() }),
            },
        };
        let (max_chunk, hip_library, decode) = (Self::MAX_CHUNK, None, None);
        let activations = Activations::AsTheyAre;
        Ok(Self { context_len, max_chunk, kv: KV, activations, gemm, attention, hip_library, decode, workgroups })
    }
}

/// An opened backend, and what the user should know about the choice, a line each.
pub struct Opened {
    /// The backend.
    pub ops: Box<dyn Ops>,
    /// Which library and card, which were left out and why, which variables may hide cards.
    pub notes: Vec<String>,
}

/// Why the backend could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No library.
    #[error("backend {backend}: {source}")]
    Library {
        /// `amd-hip` or `emulator`.
        backend: &'static str,
        /// Each path tried.
        source: LibraryError,
    },
    /// No card.
    #[error("backend {backend}: {source}; {hint}")]
    Device {
        /// `amd-hip` or `emulator`.
        backend: &'static str,
        /// Why none was chosen.
        source: DeviceError,
        /// What the library, the driver and the environment say to that.
        hint: String,
    },
    /// `--device` is none.
    #[error(transparent)]
    Selector(DeviceError),
    /// A variable with a value that means nothing.
    #[error("{name}=`{value}` is neither {words}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it may be.
        words: &'static str,
        /// Its value.
        value: String,
    },
    /// Another number of workgroups than decode's kernels take.
    #[error("{WORKGROUPS}=`{value}` is not a number from 1 to {}", device_ops::decode::MAX_GRID)]
    Workgroups {
        /// Its value.
        value: String,
    },
    /// A cache that fused decode does not read.
    #[error("--kv {0}: fused decode holds keys and values as bf16; --plan unfused takes the other formats")]
    Fused(KvFormats),
    /// Fused decode cannot be had.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The kernels do not fit the model's shape.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Not enough memory.
    #[error(transparent)]
    Memory(#[from] NoRoom),
    /// A tensor is missing or wrong.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// `--activations int8` with products that are there to be compared.
    #[error("--activations int8: only ZYNFER_GEMM=fast rounds activations")]
    Rung,
    /// A tensor of a type the kernels do not read.
    #[error("tensor {name}: dtype {found}, the GPU kernels read bf16 and quantized matrices")]
    Dtype {
        /// Checkpoint name.
        name: String,
        /// Its dtype.
        found: &'static str,
    },
    /// A fused plan that does not read how a matrix is stored.
    #[error("tensor {name}: {source}")]
    Unread {
        /// Checkpoint name.
        name: String,
        /// Why, and what does.
        source: DecodeError,
    },
    /// The code object was refused.
    #[error(transparent)]
    Kernels(#[from] LoadError),
    /// A HIP call failed.
    #[error(transparent)]
    Hip(#[from] HipError),
    /// A plan that does not hold what it counts.
    #[error(transparent)]
    Span(#[from] SpanError),
}

/// Overrides how many workgroups decode's kernels have, for measurements and for tests on small models.
const WORKGROUPS: &str = "ZYNFER_DECODE_WORKGROUPS";

/// Opens `kind` on `device` (`auto`, a number, or `GPU-` and an id) and loads a model onto it.
///
/// # Errors
/// [`OpenError`]: nothing falls back to anything else.
pub fn open(
    kind: GpuKind,
    device: &str,
    config: &ModelConfig,
    weights: &Weights,
    source: &dyn TensorSource,
    options: &Options,
) -> Result<Opened, OpenError> {
    let selector: Selector = device.parse().map_err(OpenError::Selector)?;
    if options.decode.is_some() && options.kv != KV {
        return Err(OpenError::Fused(options.kv));
    }
    weights.check(source)?;
    let schemes = schemes(weights, source)?;
    if let Some(plan) = options.decode {
        for (spec, scheme) in weights.specs().iter().zip(&schemes) {
            plan.check(*scheme).map_err(|source| OpenError::Unread { name: spec.name.clone(), source })?;
        }
    }
    if options.activations == Activations::Int8 && options.gemm != Gemm::Fast {
        return Err(OpenError::Rung);
    }
    let plan = Plan::new(config, weights, &schemes, options)?;
    let (context, notes) = context(kind, &selector, options.hip_library.as_ref())?;
    let (free, _) = context.memory_info()?;
    fit(config, weights, &schemes, options, Some(free))?.check(context.device())?;
    let kernels = Kernels::load(&context, code_object::IMAGE)?;
    let gpu = upload(kind, &context, kernels, config, weights, source, &schemes, plan, options)?;
    Ok(Opened { ops: Box::new(gpu), notes })
}

/// What stands behind a missing card.
fn hint(kind: GpuKind, library: &Library) -> String {
    let mut parts = vec![format!("{} is HIP {}", library.path().display(), library.version())];
    if kind == GpuKind::AmdHip {
        if !library.knows_gfx1201() {
            let (major, minor) = KNOWS_GFX1201;
            parts.push(format!("gfx1201 needs HIP {major}.{minor} or later"));
        }
        parts.extend(system::Surroundings::here().driver().advice());
        parts.extend(system::hiding_variables(|name| std::env::var_os(name)));
    }
    parts.join("; ")
}

/// The card that `selector` means, and what the user should know about the choice.
fn context(
    kind: GpuKind,
    selector: &Selector,
    hip_library: Option<&OsString>,
) -> Result<(Arc<Context>, Vec<String>), OpenError> {
    let backend = kind.name();
    let library = kind.library(hip_library).map_err(|source| OpenError::Library { backend, source })?;
    let seen = devices(&library)?;
    let choice = choose(&seen, selector, code_object::ARCHITECTURES).map_err(|source| OpenError::Device {
        backend,
        source,
        hint: hint(kind, &library),
    })?;
    let mut notes =
        vec![format!("{backend}: {} through {} (HIP {})", choice.device, library.path().display(), library.version())];
    notes.extend(choice.left_out.iter().map(|(device, why)| format!("{backend}: left out {device}: {why}")));
    if kind == GpuKind::AmdHip {
        notes.extend(system::hiding_variables(|name| std::env::var_os(name)));
    }
    Ok((Context::new(&library, choice.device)?, notes))
}

/// What a card is called and the bytes that are free on it, for a plan without a load.
///
/// # Errors
/// [`OpenError`]: no library or no card.
pub fn free_memory(kind: GpuKind, device: &str, hip_library: Option<&OsString>) -> Result<(String, u64), OpenError> {
    let (context, _) = context(kind, &device.parse().map_err(OpenError::Selector)?, hip_library)?;
    Ok((context.device().to_string(), context.memory_info()?.0))
}

/// The plan of a load by `options`, each tensor stored as `schemes` says, beside what is free, with the longest context that fits.
///
/// # Errors
/// What these kernels cannot run, whatever the memory.
pub fn fit(
    config: &ModelConfig,
    weights: &Weights,
    schemes: &[Scheme],
    options: &Options,
    free: Option<u64>,
) -> Result<Fit, PlanError> {
    let plan = |context_len| Plan::new(config, weights, schemes, &Options { context_len, ..options.clone() });
    plan(options.context_len)?;
    let counted = |context_len| plan(context_len).ok().map(|plan| plan.memory());
    Fit::new(counted, options.context_len, config.max_position_embeddings, free)
        .ok_or(PlanError::Overflow("all together"))
}

fn tensor<'a>(source: &'a dyn TensorSource, spec: &TensorSpec) -> Result<TensorView<'a>, WeightError> {
    let missing = || WeightError::Missing { name: spec.name.clone(), expected: spec.shape.clone() };
    source.tensor(&spec.name).ok_or_else(missing)
}

/// How each tensor is stored, in the order of [`Weights::specs`].
///
/// # Errors
/// A tensor that is missing, or of a type without kernels.
pub fn schemes(weights: &Weights, source: &dyn TensorSource) -> Result<Vec<Scheme>, OpenError> {
    let scheme = |spec| match tensor(source, spec)?.dtype {
        Dtype::Bf16 => Ok(Scheme::Bf16),
        Dtype::Quantized(scheme) => Ok(scheme),
        other => Err(OpenError::Dtype { name: spec.name.clone(), found: other.name() }),
    };
    weights.specs().iter().map(scheme).collect()
}

/// Whether a matrix is among these whose activations the kernels can round: int8 with a scale per row. An embedding of its own is looked up.
pub fn rounds(weights: &Weights, schemes: &[Scheme]) -> bool {
    let multiplied = |index: usize| TensorId(index) != weights.embed_tokens || weights.embed_tokens == weights.lm_head;
    schemes.iter().enumerate().any(|(index, scheme)| *scheme == Scheme::Int8Row && multiplied(index))
}

#[allow(clippy::too_many_arguments, reason = "everything a loaded model is made of, once")]
fn upload(
    kind: GpuKind,
    context: &Arc<Context>,
    kernels: Kernels,
    config: &ModelConfig,
    weights: &Weights,
    source: &dyn TensorSource,
    schemes: &[Scheme],
    plan: Plan,
    options: &Options,
) -> Result<Gpu, OpenError> {
    let stream = Stream::new(context)?;
    let allocate = |bytes: usize| -> Result<Span, HipError> { Ok(Buffer::new(context, bytes)?.span()) };
    let arena = Arena::new(weights, schemes).ok_or(PlanError::Overflow("weights"))?;
    let all = allocate(arena.bytes())?;
    let mut tensors = Vec::with_capacity(weights.specs().len());
    for (index, (spec, scheme)) in weights.specs().iter().zip(schemes).enumerate() {
        let tensor = tensor(source, spec)?;
        let span = all.part(arena.offset(TensorId(index)), tensor.bytes.len())?;
        stream.write(&span, tensor.bytes)?;
        tensors.push((span, *scheme));
    }
    let cache = allocate(plan.all_cache_bytes)?;
    // Attention reads whole blocks of positions and masks those that are not there: they must hold numbers, not noise.
    stream.fill(&cache, 0)?;
    let (keys, values) = (plan.key_bytes, plan.value_bytes);
    let caches = (0..config.num_hidden_layers)
        .map(|layer| layer * (keys + values))
        .map(|start| Ok((cache.part(start, keys)?, cache.part(start + keys, values)?)))
        .collect::<Result<Vec<_>, SpanError>>()?;
    let rope = allocate(plan.rope_bytes)?;
    stream.write(&rope, bytemuck::cast_slice(&rope_rows(config, plan.context_len)))?;
    let mut acts = Vec::with_capacity(ACTS.len());
    for act in ACTS {
        let bytes = plan.act_bytes(config, act).ok_or(PlanError::Overflow("activations"))?;
        acts.push((act, allocate(bytes)?));
    }
    let ids = allocate(plan.ids_bytes())?;
    let rounded = if plan.rounded_bytes > 0 { Some(allocate(plan.rounded_bytes)?) } else { None };
    let top_k = TopK { keys: allocate(top_k_keys_bytes(config))?, best: allocate(TOP_K_BYTES)? };
    let decoder = match options.decode {
        None => None,
        Some(how) => {
            let refused = |what: &str| DecodeError::Refused(what.into());
            let logits = acts.iter().find(|(act, _)| *act == Act::Logits).map(|(_, span)| span.clone());
            let model = DecodeModel {
                shape: decode_shape(config).ok_or_else(|| refused("the model's sizes are too large"))?,
                layers: config.num_hidden_layers,
                eps: config.rms_norm_eps as f32,
                capacity: plan.capacity,
                weights: all.clone(),
                places: arena.places(weights).ok_or_else(|| refused("layers are not alike"))?,
                cache: cache.clone(),
                rope: rope.clone(),
                logits: logits.ok_or_else(|| refused("no logits"))?,
            };
            Some(Decoder::new(&stream, &kernels, model, how, options.workgroups)?)
        }
    };
    stream.synchronize()?;
    Ok(Gpu::new(
        kind,
        stream,
        kernels,
        config.clone(),
        weights.clone(),
        tensors,
        caches,
        rope,
        acts,
        rounded,
        ids,
        top_k,
        plan,
        options,
        decoder,
    ))
}

/// The rotary table as the kernel reads it: row `p` holds the cosines of position `p`, then its sines.
fn rope_rows(config: &ModelConfig, context_len: usize) -> Vec<f32> {
    let table = RopeTable::new(config.head_dim, config.rope_theta, context_len);
    let mut rows = Vec::with_capacity(context_len * config.head_dim);
    for position in 0..context_len {
        rows.extend_from_slice(table.cos(position));
        rows.extend_from_slice(table.sin(position));
    }
    rows
}
