//! The lowest id of the largest logit; nothing if one is NaN.

/// Of one row.
pub fn argmax(row: &[f32]) -> Option<u32> {
    let mut best = 0;
    for (i, v) in row.iter().enumerate() {
        if v.is_nan() {
            return None;
        }
        if *v > row[best] {
            best = i;
        }
    }
    Some(best as u32)
}
