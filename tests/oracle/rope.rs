//! Rotation of the pairs (i, i + D/2) of each head by the angle position · theta^(−2i/D).

use super::Expected;

/// The row of the table for one position: D/2 cosines, then D/2 sines.
pub fn table_row(position: usize, head_dim: usize, theta: f64) -> Vec<f64> {
    let mut row = vec![0.0; head_dim];
    for i in 0..head_dim / 2 {
        let angle = position as f64 * theta.powf(-2.0 * i as f64 / head_dim as f64);
        row[i] = angle.cos();
        row[i + head_dim / 2] = angle.sin();
    }
    row
}

/// `x` is `[T, heads, head_dim]`; `table[p]` is the row of position `p`, as the kernel reads it.
pub fn rope(x: &[f64], table: &[Vec<f64>], heads: usize, head_dim: usize, position: usize) -> Vec<Expected> {
    let half = head_dim / 2;
    let mut y = vec![Expected::plain(0.0); x.len()];
    for t in 0..x.len() / (heads * head_dim) {
        let row = &table[position + t];
        for head in 0..heads {
            let start = (t * heads + head) * head_dim;
            for i in 0..half {
                let (a, b) = (x[start + i], x[start + i + half]);
                let (cos, sin) = (row[i], row[i + half]);
                let (ac, bs, bc, as_) = (a * cos, b * sin, b * cos, a * sin);
                y[start + i] = Expected { value: ac - bs, magnitude: ac.abs() + bs.abs() };
                y[start + i + half] = Expected { value: bc + as_, magnitude: bc.abs() + as_.abs() };
            }
        }
    }
    y
}
