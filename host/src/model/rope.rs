//! The rotary table: cos and sin per position, computed once at load. Its length is the context, so no position that admission lets
//! in lies past its end. It rotates nothing itself; a backend reads it.

/// cos and sin of `position · theta^(−2i / head_dim)` for every position of the context, `i < head_dim / 2`.
///
/// The frequency and the angle are rounded to f32 as the checkpoint's reference implementation does (far positions would otherwise
/// be rotated by a slightly different angle than in training); cos and sin are taken in f64 and rounded once.
#[derive(Debug, Clone)]
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// A table of `context_len` positions for heads of `head_dim` (even) elements.
    pub fn new(head_dim: usize, theta: f64, context_len: usize) -> Self {
        let half = head_dim / 2;
        let frequency: Vec<f32> = (0..half).map(|i| theta.powf(-((2 * i) as f64) / head_dim as f64) as f32).collect();
        let (mut cos, mut sin) = (Vec::with_capacity(context_len * half), Vec::with_capacity(context_len * half));
        for position in 0..context_len {
            for f in &frequency {
                let angle = f64::from(position as f32 * f);
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        Self { half, cos, sin }
    }

    /// Positions the table holds: the context length it was made for.
    pub fn context_len(&self) -> usize {
        self.cos.len() / self.half
    }

    /// cos of one position, `[head_dim / 2]`.
    ///
    /// # Panics
    /// Past [`RopeTable::context_len`]: a backend checks the pass before it rotates.
    pub fn cos(&self, position: usize) -> &[f32] {
        &self.cos[position * self.half..(position + 1) * self.half]
    }

    /// sin of one position, `[head_dim / 2]`; panics as [`RopeTable::cos`].
    pub fn sin(&self, position: usize) -> &[f32] {
        &self.sin[position * self.half..(position + 1) * self.half]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_gives_the_length() {
        for context in [1, 2, 63, 64, 65, 4096, 4097] {
            let table = RopeTable::new(128, 1e6, context);
            assert_eq!(table.context_len(), context);
            assert_eq!(table.cos(context - 1).len(), 64);
        }
    }

    #[test]
    fn angles_are_position_times_falling_frequencies() {
        let table = RopeTable::new(64, 1e4, 41);
        assert!(table.cos(0).iter().all(|&c| c == 1.0) && table.sin(0).iter().all(|&s| s == 0.0));
        for (position, i) in [(1usize, 0usize), (40, 0), (40, 1), (40, 31), (7, 16)] {
            let angle = position as f64 * 1e4f64.powf(-(2.0 * i as f64) / 64.0);
            assert!((f64::from(table.cos(position)[i]) - angle.cos()).abs() < 4e-6, "cos {position} {i}");
            assert!((f64::from(table.sin(position)[i]) - angle.sin()).abs() < 4e-6, "sin {position} {i}");
        }
    }
}
