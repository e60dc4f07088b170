//! y[t,n] = Σ_k x[t,k] · w[n,k].

use super::Expected;

/// `w` is `[n, k]`, `x` `[T, k]`.
pub fn linear(w: &[f64], x: &[f64], n: usize, k: usize) -> Vec<Expected> {
    let mut y = Vec::new();
    for t in 0..x.len() / k {
        for row in 0..n {
            let mut sum = Expected { value: 0.0, magnitude: 0.0 };
            for i in 0..k {
                let term = x[t * k + i] * w[row * k + i];
                sum.value += term;
                sum.magnitude += term.abs();
            }
            y.push(sum);
        }
    }
    y
}
