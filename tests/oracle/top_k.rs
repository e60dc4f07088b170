//! The largest logits of a row by sorting all of it.

/// Id and value of the `k` largest, or of all if there are fewer: larger first, of equal ones (both zeros are) the lower id; a NaN is above
/// every number, and one is like another.
pub fn top_k(row: &[f32], k: usize) -> Vec<(u32, f64)> {
    let mut all: Vec<(u32, f64)> = row.iter().enumerate().map(|(id, x)| (id as u32, f64::from(*x))).collect();
    // A stable sort keeps equal ones by id.
    all.sort_by(|(_, a), (_, b)| match (a.is_nan(), b.is_nan()) {
        (false, false) => b.partial_cmp(a).expect("both are numbers"),
        (a, b) => b.cmp(&a),
    });
    all.truncate(k);
    all
}
