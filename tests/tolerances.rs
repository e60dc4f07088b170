//! Every tolerance of the tests that judge numbers, in one place. None is fitted to what we produce: each is a bar of the project or
//! follows from the formats. Non-finite values never pass. A failing test changes the code, not the constant.

/// `cpu` against the float32 reference, per logit: `|Δ| ≤ LOGIT_ABS + LOGIT_REL · |ref|`.
pub const LOGIT_ABS: f32 = 1e-3;
/// See [`LOGIT_ABS`].
pub const LOGIT_REL: f32 = 1e-2;
/// RMS of the hidden state after each layer, relative, for `cpu`: both sides are float32 chains of some thousand roundings of 6e-8.
pub const HIDDEN_RMS_REL: f64 = 1e-4;
/// Perplexity of the validation windows, relative, for `cpu`.
pub const PERPLEXITY_REL: f64 = 1e-3;

/// GPU paths round what enters a matrix product to bf16: cosine of the logits with the reference's.
pub const GPU_LOGIT_COSINE: f64 = 0.9995;
/// GPU paths choose the reference's token wherever its lead over the second is larger than this.
pub const GPU_TOP1_GAP: f32 = 0.05;
/// Mean negative log-likelihood of the validation windows, relative, for GPU paths.
pub const GPU_NLL_REL: f64 = 5e-3;

/// Whether a logit is within the `cpu` bar.
pub fn logit_close(value: f32, reference: f32) -> bool {
    value.is_finite() && (value - reference).abs() <= LOGIT_ABS + LOGIT_REL * reference.abs()
}

/// Cosine of two vectors, in f64; NaN if either holds one.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
