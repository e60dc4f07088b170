//! y[t, n] + bias[n].

/// y `[T, N]` as N elements of the bias say.
pub fn bias_add(y: &[f64], bias: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for i in 0..y.len() {
        out.push(y[i] + bias[i % bias.len()]);
    }
    out
}
