//! Codes chosen one column after the other, each with the error in mind that the columns before it leave in a layer's outputs: GPTQ, written
//! as feedback. Where the moments come from is the business of [`crate::calibrate`].
//!
//! A row `w` of a matrix becomes `w − e`; over inputs `x` its outputs err by `Σ (e·x)² = e H eᵀ`, with the second moments `H = Σ xᵀx`. Let
//! `H = M D Mᵀ` with `D` diagonal and `M` unit upper triangular. Then `e H eᵀ = Σ_k D_k (e_k + Σ_{i<k} e_i M_ik)²`: going through the columns in
//! order, the best that column `k` can do is to round `w_k + Σ_{i<k} e_i M_ik`. Columns go by falling moment, so that those that count most have
//! the fewest errors to make up for; scales and minimums are those of [`super::encode`], from the weights alone.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{Encoded, NIBBLES, Scheme, Table};
use crate::cpu::arch;

/// Columns that are eliminated together: their rows stay in the second-level cache.
const PANEL: usize = 32;
/// Rows of a matrix that go through the columns together, so that each row of the factor is read once for all of them.
const ROWS: usize = 8;
/// Rows of the moments that go through the inputs together.
const MOMENT_ROWS: usize = 8;
/// Independent sums of a dot product.
const LANES: usize = 16;

/// A moment that is infinite or no number: so were some of the inputs, and nothing can be chosen by it.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the second moment of column {column} is {value}, a finite number expected")]
pub struct MomentNotFinite {
    /// The first such column.
    pub column: usize,
    /// Its moment.
    pub value: f64,
}

/// Second moments `Σ xᵀx` of the inputs of a matrix, `[K, K]`.
#[derive(Debug, Clone)]
pub struct Moments {
    k: usize,
    /// The upper triangle; below it nothing is kept up to date.
    sums: Vec<f64>,
}

impl Moments {
    /// Of no inputs.
    pub fn new(k: usize) -> Self {
        Self { k, sums: vec![0.0; k * k] }
    }

    /// Adds rows of inputs, `[T, K]`, on the current rayon pool: f32 within a call, f64 between calls.
    pub fn add(&mut self, inputs: &[f32]) {
        let k = self.k;
        assert!(inputs.len().is_multiple_of(k), "whole rows");
        let tasks = self.sums.par_chunks_mut(MOMENT_ROWS * k).enumerate();
        tasks.for_each(|(task, sums)| arch().dispatch(AddMoments { inputs, k, first: task * MOMENT_ROWS, sums }));
    }

    /// The factor that compensates by them. `damping`, above 0, is added to the diagonal as a part of its mean: the less it is, the more is
    /// believed of what the inputs say about how columns go together.
    ///
    /// # Errors
    /// A column whose moment is not finite. No product of two columns is larger than the larger of theirs.
    pub fn factor(&self, damping: f64) -> Result<Factor, MomentNotFinite> {
        let k = self.k;
        let diagonal = |i: usize| self.sums[i * k + i];
        if let Some(column) = (0..k).find(|i| !diagonal(*i).is_finite()) {
            return Err(MomentNotFinite { column, value: diagonal(column) });
        }
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|a, b| diagonal(*b).total_cmp(&diagonal(*a)).then(a.cmp(b)));
        let mean = (0..k).map(diagonal).sum::<f64>() / k as f64;
        // An input that is always 0 asks for nothing; what is added keeps it a number.
        let added = (damping * mean).max(f64::MIN_POSITIVE.sqrt());
        let mut rows = vec![0.0; k * k];
        rows.par_chunks_exact_mut(k).enumerate().for_each(|(i, row)| {
            for (j, cell) in row[..=i].iter_mut().enumerate() {
                let (a, b) = (order[i].min(order[j]), order[i].max(order[j]));
                *cell = self.sums[a * k + b];
            }
            row[i] += added;
        });
        eliminate(&mut rows, k);
        Ok(Factor { order, rows })
    }
}

struct AddMoments<'a> {
    inputs: &'a [f32],
    k: usize,
    first: usize,
    sums: &'a mut [f64],
}

impl WithSimd for AddMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { inputs, k, first, sums } = self;
        let rows = sums.len() / k;
        let mut parts = vec![0f32; sums.len()];
        for x in inputs.chunks_exact(k) {
            for (row, part) in parts.chunks_exact_mut(k).enumerate() {
                let factor = x[first + row];
                part[first..].iter_mut().zip(&x[first..]).for_each(|(sum, x)| *sum = factor.mul_add(*x, *sum));
            }
        }
        for row in 0..rows {
            let (sums, parts) = (&mut sums[row * k..][..k], &parts[row * k..][..k]);
            sums[first..].iter_mut().zip(&parts[first..]).for_each(|(sum, part)| *sum += f64::from(*part));
        }
    }
}

/// `M` of the head of this file, of damped and ordered moments.
#[derive(Debug, Clone)]
pub struct Factor {
    /// Column of the matrix by its turn.
    order: Vec<usize>,
    /// Row `k` has `M_ik` for every `i` before it; the rest of it is of no use.
    rows: Vec<f64>,
}

/// `H = M D Mᵀ` from the last column to the first: the lower triangle of `rows` has H before, and Mᵀ below its diagonal after.
fn eliminate(rows: &mut [f64], k: usize) {
    for first in (0..k.div_ceil(PANEL)).rev().map(|panel| panel * PANEL) {
        let last = (first + PANEL).min(k);
        let (above, panel) = rows[..last * k].split_at_mut(first * k);
        for pivot in (0..last - first).rev() {
            let (others, row) = panel.split_at_mut(pivot * k);
            arch().dispatch(Eliminate { rows: others, k, first, pivots: &row[..k], last: first + pivot });
        }
        let panel = &*panel;
        above.par_chunks_mut(ROWS * k).enumerate().for_each(|(task, rows)| {
            arch().dispatch(Eliminate { rows, k, first: task * ROWS, pivots: panel, last: last - 1 });
        });
        // Only now, when nobody needs the products any more.
        let panel = &mut rows[first * k..last * k];
        for (pivot, row) in panel.chunks_exact_mut(k).enumerate() {
            let (columns, diagonal) = row[..=first + pivot].split_at_mut(first + pivot);
            columns.iter_mut().for_each(|cell| *cell /= diagonal[0]);
        }
    }
}

/// Takes the columns whose rows are `pivots`, of which the last is column `last`, out of `rows`, of which the first is row `first`; the last
/// pivot first.
struct Eliminate<'a> {
    rows: &'a mut [f64],
    k: usize,
    first: usize,
    pivots: &'a [f64],
    last: usize,
}

impl WithSimd for Eliminate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { rows, k, first, pivots, last } = self;
        for (back, pivot) in pivots.chunks_exact(k).rev().enumerate() {
            let diagonal = pivot[last - back];
            for (index, row) in rows.chunks_exact_mut(k).enumerate() {
                let i = first + index;
                let part = pivot[i] / diagonal;
                row[..=i].iter_mut().zip(&pivot[..=i]).for_each(|(cell, pivot)| *cell = (-part).mul_add(*pivot, *cell));
            }
        }
    }
}

/// Chooses the codes of `encoded` anew, which [`super::encode`] made of `rows`; its scales and minimums stay. On the current rayon pool; a row
/// gets the same bytes wherever it stands.
///
/// # Panics
/// At another scheme than int4 and int4m: finer codes gain nothing.
pub fn compensate(scheme: Scheme, factor: &Factor, rows: &[f32], encoded: &mut Encoded) {
    assert!(is_compensated(scheme), "{scheme} is not compensated");
    let k = factor.order.len();
    let row_bytes = scheme.row_bytes(k);
    let Encoded { codes, scales, minimums } = encoded;
    let (scales, minimums) = (Table::new(scheme, k, scales), Table::new(scheme, k, minimums));
    let tasks = codes.par_chunks_mut(ROWS * row_bytes).zip(rows.par_chunks(ROWS * k)).enumerate();
    tasks.for_each(|(task, (codes, rows))| {
        arch().dispatch(Rows { scheme, factor, first: task * ROWS, rows, scales, minimums, codes });
    });
}

/// Whether [`compensate`] takes it.
pub fn is_compensated(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Int4(_) | Scheme::Int4Min(_))
}

/// At most [`ROWS`] rows of a matrix.
struct Rows<'a> {
    scheme: Scheme,
    factor: &'a Factor,
    first: usize,
    rows: &'a [f32],
    scales: Table<'a>,
    minimums: Table<'a>,
    codes: &'a mut [u8],
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { scheme, factor, first, rows, scales, minimums, codes } = self;
        let k = factor.order.len();
        let (count, row_bytes) = (rows.len() / k, scheme.row_bytes(k));
        let group = scheme.group().unwrap_or(k);
        // Of int4, code 8 stands for 0.
        let bias = if scheme.has_minimums() { 0.0 } else { 8.0 };
        let mut errors = vec![0f64; count * k];
        codes.fill(0);
        for (turn, &column) in factor.order.iter().enumerate() {
            let feedback = &factor.rows[turn * k..][..turn];
            for row in 0..count {
                let errors = &mut errors[row * k..][..k];
                let weight = f64::from(rows[row * k + column]);
                let target = weight + dot(feedback, &errors[..turn]);
                let scale = f64::from(scales.value(first + row, column / group));
                let offset =
                    if minimums.is_empty() { 0.0 } else { f64::from(minimums.value(first + row, column / group)) };
                let steps = if scale == 0.0 { 0.0 } else { (target - offset) / scale };
                let code = (steps + bias).round_ties_even().clamp(0.0, 15.0);
                errors[turn] = weight - ((code - bias) * scale + offset);
                let byte = row * row_bytes + column / NIBBLES * 16 + column % 16;
                codes[byte] |= (code as u8) << (column % NIBBLES / 16 * 4);
            }
        }
    }
}

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0f64; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum = a.mul_add(*b, *sum));
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}
