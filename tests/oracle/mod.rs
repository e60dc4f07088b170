//! What each operation means, in f64 and plain loops, from the rounded inputs the kernels read. It shares no code with anything it
//! judges, knows no kernel and is never fast.

pub mod argmax;
pub mod attention;
pub mod bias_add;
pub mod embed;
pub mod head_norm;
pub mod kv_append;
pub mod kv_formats;
pub mod linear;
pub mod quantized;
pub mod residual_add;
pub mod rmsnorm;
pub mod rope;
pub mod swiglu;
pub mod top_k;
pub mod w8a8;

/// A reference value and the sum of the absolute values of the terms it was added up from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The value.
    pub value: f64,
    /// Σ|terms|.
    pub magnitude: f64,
}

impl Expected {
    /// A value that is no sum.
    pub fn plain(value: f64) -> Self {
        Self { value, magnitude: value.abs() }
    }
}
