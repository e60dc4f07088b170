//! RMSNorm over each head: the rows are T·heads, their width head_dim.

/// `x` is `[T·heads, w.len()]`.
pub fn head_norm(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    let head_dim = w.len();
    let mut y = vec![0.0; x.len()];
    for row in 0..x.len() / head_dim {
        let mut mean = 0.0;
        for i in 0..head_dim {
            mean += x[row * head_dim + i].powi(2) / head_dim as f64;
        }
        for i in 0..head_dim {
            y[row * head_dim + i] = x[row * head_dim + i] * w[i] / (mean + eps).sqrt();
        }
    }
    y
}
