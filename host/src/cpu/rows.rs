//! Operations on each row by itself: RMSNorm, rotary embedding, SwiGLU, additions. Small beside the matrix products, so they are
//! plain loops inside one dispatch; rows are shared over threads only when there are several.
//!
//! Each loop is the `inline(always)` method of a struct: a closure would be called from the dispatch, not inlined into it, and run
//! without the vector instructions (EXP-0001).

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::exp::silu;
use crate::model::rope::RopeTable;

/// Runs `f` on each row of `width` elements, over the current pool if there are several rows.
fn each_row(values: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if values.len() == width {
        f(0, values);
    } else {
        values.par_chunks_exact_mut(width).enumerate().for_each(|(index, row)| f(index, row));
    }
}

/// `1 / sqrt(mean(x²) + eps)`, summed in f64 in eight chains.
#[inline(always)]
fn inverse_rms(x: &[f32], eps: f64) -> f32 {
    let mut lanes = [0.0f64; 8];
    let (chunks, rest) = x.as_chunks::<8>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*value) * f64::from(*value);
        }
    }
    let sum = lanes.iter().sum::<f64>() + rest.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>();
    (1.0 / (sum / x.len() as f64 + eps).sqrt()) as f32
}

/// Declares a loop over one row as a struct that `pulp` compiles for each instruction set.
macro_rules! row_loop {
    ($name:ident { $($field:ident: $type:ty),* $(,)? } $body:block) => {
        struct $name<'a> {
            $($field: $type),*
        }
        impl<'a> WithSimd for $name<'a> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _simd: S) {
                let Self { $($field),* } = self;
                $body
            }
        }
    };
}

row_loop!(Normalise { x: &'a [f32], w: &'a [f32], eps: f64, y: &'a mut [f32] } {
    let factor = inverse_rms(x, eps);
    for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
        *y = x * factor * w;
    }
});

row_loop!(NormaliseHeads { w: &'a [f32], eps: f64, row: &'a mut [f32] } {
    for head in row.chunks_exact_mut(w.len()) {
        let factor = inverse_rms(head, eps);
        for (x, w) in head.iter_mut().zip(w) {
            *x = *x * factor * w;
        }
    }
});

row_loop!(Rotate { cos: &'a [f32], sin: &'a [f32], row: &'a mut [f32] } {
    let half = cos.len();
    for head in row.chunks_exact_mut(2 * half) {
        let (first, second) = head.split_at_mut(half);
        for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
});

row_loop!(Gated { gate: &'a [f32], up: &'a [f32], y: &'a mut [f32] } {
    for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
        *y = silu(*gate) * up;
    }
});

row_loop!(Add { x: &'a [f32], y: &'a mut [f32] } {
    for (y, x) in y.iter_mut().zip(x) {
        *y += x;
    }
});

/// `y[t,i] = x[t,i] / sqrt(mean_i(x[t,i]²) + eps) · w[i]`, rows as wide as `w`.
pub fn rmsnorm(arch: Arch, w: &[f32], eps: f64, x: &[f32], y: &mut [f32]) {
    let width = w.len();
    assert_eq!(x.len(), y.len());
    each_row(y, width, |t, y| arch.dispatch(Normalise { x: &x[t * width..][..width], w, eps, y }));
}

/// `y[t,n] += bias[n]`, rows as wide as `bias`.
pub fn bias_add(arch: Arch, bias: &[f32], y: &mut [f32]) {
    each_row(y, bias.len(), |_, y| arch.dispatch(Add { x: bias, y }));
}

/// RMSNorm of each head in place: every run of `w.len()` elements of each row of `width`.
pub fn head_norm(arch: Arch, w: &[f32], eps: f64, width: usize, x: &mut [f32]) {
    each_row(x, width, |_, row| arch.dispatch(NormaliseHeads { w, eps, row }));
}

/// Rotates each head of each row of `width` in place, rotate-half; row `t` stands at `position + t`.
pub fn rope(arch: Arch, table: &RopeTable, position: usize, width: usize, x: &mut [f32]) {
    each_row(x, width, |t, row| {
        arch.dispatch(Rotate { cos: table.cos(position + t), sin: table.sin(position + t), row });
    });
}

/// `y = silu(gate) ∘ up`, rows of `width`.
pub fn swiglu(arch: Arch, width: usize, gate: &[f32], up: &[f32], y: &mut [f32]) {
    assert!(gate.len() == y.len() && up.len() == y.len());
    each_row(y, width, |t, y| {
        arch.dispatch(Gated { gate: &gate[t * width..][..width], up: &up[t * width..][..width], y });
    });
}

/// `y += x`, rows of `width`.
pub fn add(arch: Arch, width: usize, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    each_row(y, width, |t, y| arch.dispatch(Add { x: &x[t * width..][..width], y }));
}
