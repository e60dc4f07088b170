//! y[t,i] = x[t,i] / sqrt(mean_i(x[t,i]²) + eps) · w[i].

/// `x` is `[T, w.len()]`.
pub fn rmsnorm(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    let mut y = Vec::new();
    for row in x.chunks(w.len()) {
        let mut squares = 0.0;
        for v in row {
            squares += v * v;
        }
        let root = (squares / w.len() as f64 + eps).sqrt();
        for i in 0..w.len() {
            y.push(row[i] / root * w[i]);
        }
    }
    y
}
