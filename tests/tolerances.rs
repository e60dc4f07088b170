//! Every tolerance of the tests that judge numbers, in one place. None is fitted to what we produce: each is a bar of the project or
//! follows from the formats. A value that is not finite passes only where an operation's reference is the same one. A failing test
//! changes the code, not the constant. docs/NUMERICS.md gives the reasons at length.

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

/// The same with a KV cache in the same format on both sides, whose rounding turns the logits of the `cpu` backend from those of its exact cache
/// to a cosine of `rounding`. Numbers that differ by a rounding to bf16 get the same code or neighbours, so the two caches are roundings of nearly
/// the same numbers that agree in part. 1 − cosine is half the square of an angle: it adds up where directions have nothing to do with each
/// other. Codes that agreed in nothing would put twice a rounding's part beside that of bf16, which is the bar; near 1 the rest is small.
pub fn gpu_kv_logit_cosine(rounding: f64) -> f64 {
    GPU_LOGIT_COSINE - 2.0 * (1.0 - rounding)
}

/// Whether a logit is within the `cpu` bar.
pub fn logit_close(value: f32, reference: f32) -> bool {
    value.is_finite() && (value - reference).abs() <= LOGIT_ABS + LOGIT_REL * reference.abs()
}

/// Cosine of two vectors, in f64; NaN if either holds one.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// How far a value may lie from its reference: `absolute + relative · |reference| + magnitude · m`, where `m` is the sum of the absolute
/// values of the reference's terms: what cancels still rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// In the value's unit.
    pub absolute: f64,
    /// Of the reference.
    pub relative: f64,
    /// Of the sum of absolute terms.
    pub magnitude: f64,
}

/// 2⁻⁸: half a unit in the last place of bf16, relative.
const BF16: f64 = 1.0 / 256.0;
/// 2⁻²⁴: half a unit in the last place of f32, relative.
const F32: f64 = 1.0 / 16_777_216.0;
/// Smallest normal number of f32 and bf16: exponentials below it become 0.
const SMALLEST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// The same bits.
pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0, magnitude: 0.0 };
/// Computed in f32 to a few units, rounded once to bf16: half a unit, and 1 % of it for the computation's own error moving a tie.
pub const BF16_STORE: Tolerance = Tolerance { absolute: SMALLEST_NORMAL, relative: 1.01 * BF16, magnitude: 0.0 };
/// SwiGLU: as [`BF16_STORE`], but where e^−gate passes 2¹²⁶ its reciprocal may become 0, and |gate| ≤ 89 times it is lost; `m` is |up|.
pub const SWIGLU: Tolerance = Tolerance { magnitude: 89.0 * SMALLEST_NORMAL, ..BF16_STORE };
/// A norm in f32: the sum of up to 128 squares, `v_rsq_f32` (1 unit) and two products.
pub const F32_NORM: Tolerance = Tolerance { absolute: SMALLEST_NORMAL, relative: 12.0 * F32, magnitude: 0.0 };
/// A rotation in f32: two products and a sum, each rounded once or less.
pub const F32_ROTATE: Tolerance = Tolerance { absolute: SMALLEST_NORMAL, relative: 0.0, magnitude: 2.0 * F32 };
/// A dot product of exact bf16 products summed in f32 in any order: √K · 2⁻²⁴ is what rounding adds up to for K ≤ 4096 terms of one
/// sign, the matrix instruction's unpublished inner precision has the rest.
pub const LINEAR: Tolerance = Tolerance { absolute: SMALLEST_NORMAL, relative: 0.0, magnitude: 64.0 * F32 };
/// As [`LINEAR`], each weight rounded to bf16 before it is multiplied: half a unit of each term.
pub const LINEAR_GROUPS: Tolerance = Tolerance { magnitude: 1.01 * BF16 + LINEAR.magnitude, ..LINEAR };
/// Attention in f32 with one rounding to bf16 at the end.
pub const ATTENTION_F32: Tolerance =
    Tolerance { absolute: SMALLEST_NORMAL, relative: 1.01 * BF16, magnitude: 256.0 * F32 };
/// Attention whose probabilities are rounded to bf16 before they meet the values, and one rounding at the end. Judged from the
/// rounded queries, so their rounding does not count here.
pub const ATTENTION_BF16: Tolerance =
    Tolerance { absolute: SMALLEST_NORMAL, relative: 1.01 * BF16, magnitude: 1.01 * BF16 };

impl Tolerance {
    /// Whether `got` is close enough to `want`; a value that is not finite must be the same one.
    pub fn holds(&self, got: f64, want: f64, magnitude: f64) -> bool {
        if !want.is_finite() || !got.is_finite() {
            return got == want || (got.is_nan() && want.is_nan());
        }
        (got - want).abs() <= self.absolute + self.relative * want.abs() + self.magnitude * magnitude
    }
}
