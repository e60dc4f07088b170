//! What is demanded of a checkpoint's tensors. Which there are says [`crate::model::weights`]; it opens no files.

use std::{collections::HashMap, path::Path};

use half::bf16;

use super::error::LoadError;
use crate::{
    model::{config::ModelConfig, family::Family, weights::Weights},
    quant::Scheme,
};

/// Element type of a tensor, as the directory spells it; with the group beside it, it is a [`Scheme`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Dtype {
    /// bfloat16: the upper half of a float32, 2 bytes, little-endian.
    BF16,
    /// `int8`, by rows or with a group.
    I8,
    /// `int4`, with a group.
    I4,
    /// `int4m`, with a group.
    I4M,
    /// `fp8-e4m3`, by rows.
    #[serde(rename = "F8_E4M3")]
    F8E4M3,
    /// `int8m`, with a group.
    I8M,
    /// `int8k`, with a group.
    I8K,
    /// `int8mk`, with a group.
    I8MK,
    /// `int4mk`, with a group.
    I4MK,
}

impl Dtype {
    /// Element type and group of a scheme.
    pub fn of(scheme: Scheme) -> (Self, Option<usize>) {
        let dtype = match scheme {
            Scheme::Bf16 => Self::BF16,
            Scheme::Int8Row | Scheme::Int8(_) => Self::I8,
            Scheme::Int4(_) => Self::I4,
            Scheme::Int4Min(_) => Self::I4M,
            Scheme::Fp8 => Self::F8E4M3,
            Scheme::Int8Min(_) => Self::I8M,
            Scheme::Int8K(_) => Self::I8K,
            Scheme::Int8MinK(_) => Self::I8MK,
            Scheme::Int4MinK(_) => Self::I4MK,
        };
        (dtype, scheme.group())
    }

    /// The scheme of an element type and a group; `None` where one has no such group, or needs one. Which groups there are says
    /// [`Scheme::layout`].
    pub fn scheme(self, group: Option<usize>) -> Option<Scheme> {
        match (self, group) {
            (Self::BF16, None) => Some(Scheme::Bf16),
            (Self::I8, None) => Some(Scheme::Int8Row),
            (Self::I8, Some(group)) => Some(Scheme::Int8(group)),
            (Self::I4, Some(group)) => Some(Scheme::Int4(group)),
            (Self::I4M, Some(group)) => Some(Scheme::Int4Min(group)),
            (Self::F8E4M3, None) => Some(Scheme::Fp8),
            (Self::I8M, Some(group)) => Some(Scheme::Int8Min(group)),
            (Self::I8K, Some(group)) => Some(Scheme::Int8K(group)),
            (Self::I8MK, Some(group)) => Some(Scheme::Int8MinK(group)),
            (Self::I4MK, Some(group)) => Some(Scheme::Int4MinK(group)),
            _ => None,
        }
    }
}

/// One weight, borrowed from the artifact: nothing is copied.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// Name as in the checkpoint, `model.layers.0.self_attn.q_proj.weight`.
    pub name: &'a str,
    /// How it is stored; vectors are always bf16.
    pub scheme: Scheme,
    /// Extents, outermost first; a linear layer is `[out, in]`.
    pub shape: &'a [usize],
    /// The elements, row-major, little-endian, at a multiple of the element's size; of a quantized matrix all of [`Scheme::layout`].
    pub bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// The elements, where they are bf16. The artifact guarantees length and alignment when it is opened.
    pub fn as_bf16(&self) -> Option<&'a [bf16]> {
        match self.scheme {
            Scheme::Bf16 => bytemuck::try_cast_slice(self.bytes).ok(),
            _ => None,
        }
    }
}

/// Name and shape of every tensor of a checkpoint, in the order a forward pass first uses them: [`Weights`] has the list. A
/// tied lm_head is the embedding and is not listed.
///
/// Expects a config that passed [`ModelConfig::validate`], so no product overflows.
pub fn expected_tensors(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    Weights::new(config).specs().iter().map(|spec| (spec.name.clone(), spec.shape.clone())).collect()
}

pub(super) const LM_HEAD: &str = "lm_head.weight";
pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";

/// Compares the tensors found (name, dtype as spelled, shape) with the expected ones: first what is missing and what is too much,
/// all at once, then every wrong shape, then the first other dtype.
///
/// # Errors
/// Names, and for shapes both.
pub(super) fn check<'a>(
    file: &Path,
    expected: &[(String, Vec<usize>)],
    found: impl Iterator<Item = (&'a str, &'a str, &'a [usize])>,
) -> Result<(), LoadError> {
    let mut found: HashMap<&str, (&str, &[usize])> = found.map(|(name, dtype, shape)| (name, (dtype, shape))).collect();
    let found_count = found.len();
    let mut missing = Vec::new();
    let mut wrong = Vec::new();
    let mut other_dtype = None;
    for (name, shape) in expected {
        match found.remove(name.as_str()) {
            None => missing.push(name.as_str()),
            Some((_, other)) if other != shape => wrong.push((name.as_str(), shape, other)),
            Some((dtype, _)) if dtype != "BF16" => other_dtype = other_dtype.or(Some((name, dtype))),
            Some(_) => {}
        }
    }
    let mut extra: Vec<&str> = found.into_keys().collect();
    extra.sort_unstable();
    if !missing.is_empty() || !extra.is_empty() {
        let mut parts = Vec::new();
        for (what, names) in [("missing", &missing), ("not part of this architecture", &extra)] {
            if !names.is_empty() {
                parts.push(format!("{what}: {}", list_names(names)));
            }
        }
        return Err(LoadError::new(file, format!("tensors do not match the config ({})", parts.join("; ")))
            .numbers(format_args!("{} tensors", expected.len()), found_count));
    }
    if let Some((name, shape, other)) = wrong.first() {
        let also: Vec<String> =
            wrong[1..].iter().map(|(name, shape, other)| format!("{name} {shape:?} not {other:?}")).collect();
        let problem = match also.as_slice() {
            [] => "wrong shape".to_owned(),
            also => format!("wrong shape, as are {}", list_names(&also.iter().map(String::as_str).collect::<Vec<_>>())),
        };
        return Err(LoadError::new(file, problem)
            .object(*name)
            .numbers(format_args!("{shape:?}"), format_args!("{other:?}")));
    }
    if let Some((name, dtype)) = other_dtype {
        return Err(LoadError::new(
            file,
            "wrong dtype (weights are kept as they were trained, in bfloat16; save them so first)",
        )
        .object(name)
        .numbers("BF16", dtype));
    }
    Ok(())
}

/// Up to eight names, and how many more there are.
pub(super) fn list_names(names: &[&str]) -> String {
    match names.len() {
        0..=8 => names.join(", "),
        n => format!("{} and {} more", names[..8].join(", "), n - 8),
    }
}

/// Whether a tensor is an RMSNorm's weight vector.
pub(super) fn is_norm(name: &str) -> bool {
    name.ends_with("norm.weight")
}

/// Checks the norm vectors against the families' convention: the stored weight is the factor itself, around 1. A family that stores
/// zero-centred weights (and multiplies by 1 + w) has the same names and shapes, and computes noise here.
///
/// A vector contradicts where its mean is nearer to 0 than to 1 and its entries lie on both sides of 0 (factors of a trained model
/// may be small, but they are positive); the whole checkpoint contradicts where half of its vectors have a mean below 0.25.
///
/// Only finite numbers are demanded of the Llama shape: no zero-centred family shares its `model_type`, and its trained factors fail such
/// rules (SmolLM2-135M's first vector has a mean of 0.001 with both signs, half of its 61 means lie below 0.26).
///
/// # Errors
/// The tensor's name, the convention and its mean; or a weight that is not finite.
pub(super) fn check_norms<'a>(
    file: &Path,
    family: Family,
    norms: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), LoadError> {
    let (mut means, mut contradictions) = (Vec::new(), Vec::new());
    for (name, bytes) in norms {
        let (mut sum, mut negative, mut count) = (0f64, 0usize, 0usize);
        for pair in bytes.chunks_exact(2) {
            let value = f64::from(bf16::from_le_bytes([pair[0], pair[1]]));
            if !value.is_finite() {
                return Err(LoadError::new(file, format!("element {count} is {value}")).object(name));
            }
            sum += value;
            negative += usize::from(value < 0.0);
            count += 1;
        }
        let mean = sum / count.max(1) as f64;
        if mean <= 0.0 || (mean < 0.5 && negative * 4 >= count) {
            contradictions.push((name, mean, format!("{negative} of {count} entries are negative")));
        }
        means.push((mean, name));
    }
    if family == Family::Llama {
        return Ok(());
    }
    if let Some((name, mean, detail)) = contradictions.first() {
        return Err(contradiction(file, family, name, *mean, detail));
    }
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    match means.get(means.len() / 2) {
        Some(&(mean, name)) if mean < 0.25 => Err(contradiction(
            file,
            family,
            name,
            mean,
            &format!("half of all {} norm vectors lie there or lower", means.len()),
        )),
        _ => Ok(()),
    }
}

fn contradiction(file: &Path, family: Family, name: &str, mean: f64, detail: &str) -> LoadError {
    let family = family.name();
    LoadError::new(
        file,
        format!("norm weights of {family} are the factor itself, these are centred on zero ({detail})"),
    )
    .object(name)
    .numbers("a mean near 1", format_args!("a mean of {mean:.4}"))
}
