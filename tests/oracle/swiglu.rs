//! out[i] = gate[i] / (1 + e^−gate[i]) · up[i].

/// Both of one length.
pub fn swiglu(gate: &[f64], up: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for i in 0..gate.len() {
        out.push(gate[i] / (1.0 + (-gate[i]).exp()) * up[i]);
    }
    out
}
