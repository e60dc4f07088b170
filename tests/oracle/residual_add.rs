//! hidden[i] + proj[i].

/// Both of one length.
pub fn residual_add(hidden: &[f64], proj: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for i in 0..hidden.len() {
        out.push(hidden[i] + proj[i]);
    }
    out
}
