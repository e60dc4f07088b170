//! What is measured or counted: a model from a file, or the shape of a published one with random weights. Its text does not matter.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::artifact::Artifact;
use crate::engine::Engine;
use crate::model::random::RandomModel;
use crate::model::weights::{TensorSource, TensorSpec, Weights};
use crate::model::{config::ModelConfig, registry};
use crate::quant::{Choice, Recipe, Scheme};

use super::error::{CliError, CliResult};
use super::model::{BackendArgs, Load, context, open_artifact, open_backend};
use super::output::{Ui, bytes};

/// Seed of the synthetic weights.
const SEED: u64 = 1;

/// Which one.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("subject").required(true).args(["model", "model_flag", "synthetic"]))]
pub(super) struct SubjectArgs {
    /// A .zynfer file or a Hugging Face folder
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The same as MODEL
    #[arg(short = 'm', long = "model", value_name = "MODEL", id = "model_flag")]
    model_flag: Option<PathBuf>,
    /// The shape of a published model with random weights, made in memory
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(registry::names()))]
    synthetic: Option<String>,
    /// Encode the synthetic weights' matrices first, as `compile --quant` does
    #[arg(long, value_name = "SCHEME[:G]", conflicts_with_all = ["model", "model_flag"], value_parser = str::parse::<Scheme>)]
    quant: Option<Scheme>,
    /// Of the synthetic weights, other schemes for classes of matrices, with commas between them, as `compile --keep`
    #[arg(long, value_name = "CLASS=SCHEME,…", conflicts_with_all = ["model", "model_flag"])]
    keep: Option<String>,
    /// How weights of a file reach memory
    #[arg(long, value_enum, default_value_t = Load::Mmap, value_name = "HOW", conflicts_with = "synthetic")]
    load: Load,
}

/// One that is open; its weights are not touched yet if they are a file's.
pub(super) struct Subject {
    /// The file's or the shape's.
    pub(super) name: String,
    pub(super) config: ModelConfig,
    weights: Weights,
    source: Arc<dyn TensorSource>,
    /// None where the weights are random.
    artifact: Option<Artifact>,
    pub(super) parameters: u64,
}

impl SubjectArgs {
    /// The file or folder, where it is one, and how it reaches memory.
    pub(super) fn file(&self) -> Option<(&Path, Load)> {
        self.model.as_deref().or(self.model_flag.as_deref()).map(|path| (path, self.load))
    }

    /// Name and configuration of the published shape, where it is one, and how its matrices are stored.
    pub(super) fn shape(&self) -> CliResult<Option<(&str, ModelConfig, Vec<Scheme>)>> {
        let Some(name) = self.synthetic.as_deref() else { return Ok(None) };
        let config = published(name)?;
        let mut recipe = Recipe::new(self.quant.unwrap_or(Scheme::Bf16));
        if let Some(keep) = &self.keep {
            recipe = recipe.keep(keep).map_err(|error| CliError::usage(format!("--keep: {error}")))?;
        }
        let weights = Weights::new(&config);
        let scheme = |spec: &TensorSpec| match recipe.choice_of(&spec.name, &spec.shape, config.tie_word_embeddings) {
            Choice::Scheme(scheme) => Ok(scheme),
            Choice::Source => Err(CliError::usage("--keep: source: random weights have no blocks to be kept")),
        };
        let schemes = weights.specs().iter().map(scheme).collect::<CliResult<_>>()?;
        Ok(Some((name, config, schemes)))
    }

    /// What the shape's matrices are encoded as, in words; empty where they are not.
    fn encoded(&self) -> String {
        let quant = self.quant.map(|scheme| format!(" {scheme}")).unwrap_or_default();
        let keep = self.keep.as_ref().map(|keep| format!(" {keep}")).unwrap_or_default();
        quant + &keep
    }

    /// Opens the file, or makes the weights.
    pub(super) fn open(&self, backend: &BackendArgs, ui: &Ui) -> CliResult<Subject> {
        if let Some((name, config, schemes)) = self.shape()? {
            let name = format!("{name} (random weights){}", self.encoded());
            return synthetic(name, config, &schemes, backend, ui);
        }
        let (path, load) = self.file().expect("clap demands a model or a shape");
        let artifact = open_artifact(path, load, ui)?;
        let config = artifact.config().clone();
        let weights = Weights::new(&config);
        Ok(Subject {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            parameters: RandomModel::parameters(&weights),
            config,
            weights,
            source: Arc::new(artifact.clone()),
            artifact: Some(artifact),
        })
    }
}

fn published(name: &str) -> CliResult<ModelConfig> {
    let none = || CliError::usage(format!("--synthetic: {name} is none of {}", registry::names().join(", ")));
    ModelConfig::published(name).ok_or_else(none)
}

/// Weights of a shape, its tensors stored as `schemes` says in the order of [`Weights::specs`].
fn synthetic(
    name: String,
    config: ModelConfig,
    schemes: &[Scheme],
    backend: &BackendArgs,
    ui: &Ui,
) -> CliResult<Subject> {
    let weights = Weights::new(&config);
    let parameters = RandomModel::parameters(&weights);
    // A GPU backend copies them, and the emulator's device memory is this computer's.
    let copies = if backend.is_emulator() { 2 } else { 1 };
    let (needed, available) = (2 * parameters * copies, crate::cpu::available_memory());
    if let Some(available) = available.filter(|&available| available < needed) {
        return Err(CliError::failed(format!(
            "{name}: {needed} bytes of memory needed for weights, {available} available"
        )));
    }
    ui.say(&format!("{name}: {} made in memory", bytes(2 * parameters)));
    let mut source = RandomModel::new(&weights, SEED);
    let by_name: HashMap<_, _> = weights.specs().iter().map(|spec| spec.name.as_str()).zip(schemes).collect();
    source.quantize(|name| *by_name[name]).map_err(CliError::failed)?;
    let source = Arc::new(source);
    Ok(Subject { name, config, weights, source, artifact: None, parameters })
}

impl Subject {
    /// Bytes of all weights.
    pub(super) fn weight_bytes(&self) -> u64 {
        self.weights.specs().iter().map(|spec| self.tensor_bytes(spec)).sum()
    }

    /// Bytes of weights that a pass has to read whatever its kernels are: all, but of an embedding that is not the lm_head too, where
    /// rows are gathered.
    pub(super) fn pass_bytes(&self) -> u64 {
        let (table, head) = (self.weights.embed_tokens, self.weights.lm_head);
        let gathered = if table == head { 0 } else { self.tensor_bytes(self.weights.spec(table)) };
        self.weight_bytes() - gathered
    }

    fn tensor_bytes(&self, spec: &TensorSpec) -> u64 {
        self.source.tensor(&spec.name).map_or(0, |tensor| tensor.bytes.len() as u64)
    }

    /// The context for `wanted` tokens: no more than they need, unless the user asks for more.
    pub(super) fn context(&self, backend: &BackendArgs, wanted: usize) -> CliResult<usize> {
        let most = self.config.max_position_embeddings;
        let context = match backend.asked_context() {
            None if wanted <= most => wanted,
            None => {
                return Err(CliError::failed(format!(
                    "{wanted} tokens of context are needed, the model has {most} positions"
                )));
            }
            asked => context(asked, wanted, most)?,
        };
        if context < wanted {
            return Err(CliError::failed(format!("--ctx-size: {context} tokens given, {wanted} are needed")));
        }
        Ok(context)
    }

    /// Loads it for a context of `context` tokens.
    pub(super) fn load(self, backend: &BackendArgs, context: usize, ui: &Ui) -> CliResult<Engine> {
        let ops = open_backend(backend, self.source, &self.config, &self.weights, context, ui)?;
        if let Some(artifact) = &self.artifact {
            // What was copied while loading must be what was checked.
            artifact.check_unchanged()?;
        }
        Ok(Engine::new(ops, self.weights, &self.config, [])?)
    }
}
