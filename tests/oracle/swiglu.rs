//! out[i] = gate[i] / (1 + e^−gate[i]) · up[i].

use super::Expected;

/// Both of one length; the magnitude is that of `up`, which scales what the gate loses.
pub fn swiglu(gate: &[f64], up: &[f64]) -> Vec<Expected> {
    let mut out = Vec::new();
    for i in 0..gate.len() {
        out.push(Expected { value: gate[i] / (1.0 + (-gate[i]).exp()) * up[i], magnitude: up[i].abs() });
    }
    out
}
