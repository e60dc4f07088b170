//! Activations rounded to 8 bits, and products with them. As in the files beside this one, each function checks its contract and launches.

use device_ops::linear::{K_MULTIPLE, w8a8};

use super::matrix::{Matrix, Parts};
use super::{ALIGN, Kernels, LaunchError, Op, Span, Stream};
use crate::quant::Scheme;

/// Where the codes of `[tokens, k]` and their scales lie in the span that holds both.
struct Rounded {
    codes: u64,
    scales: u64,
}

impl Op {
    fn rounded(self, span: &Span, [tokens, k]: [usize; 2]) -> Result<Rounded, LaunchError> {
        let [codes, scales] = w8a8::bytes(tokens as u64, k as u64);
        self.fits_u32("scales", tokens * (k / w8a8::GROUP as usize))?;
        let bytes = usize::try_from(codes + scales).map_err(|_| self.refuse(format!("{tokens} × {k} bytes")))?;
        self.holds_aligned("8-bit activations", span, &[bytes], 1, ALIGN)?;
        Ok(Rounded { codes: span.address(), scales: span.address() + codes })
    }
}

impl Kernels {
    /// Rounds `x` `[T, K]` bf16 to 8 bits: into `out` the codes, then the scales of each token's groups ([`w8a8::bytes`]). `shape` is T, K.
    pub fn quantize(&self, stream: &Stream, x: &Span, out: &Span, [tokens, k]: [usize; 2]) -> Result<(), LaunchError> {
        let op = Op("quantize");
        let t = op.tokens(tokens)?;
        let depth = op.width("K", k, K_MULTIPLE as usize)?;
        op.holds("x", x, &[tokens, k], 2)?;
        let Rounded { codes, scales } = op.rounded(out, [tokens, k])?;
        op.apart(stream, &[x, out])?;
        let args = w8a8::quantize::Args { x: x.address(), codes, scales, tokens: t, k: depth };
        // SAFETY: 1. `Args` is this kernel's; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, w8a8::NAME_QUANTIZE, w8a8::geometry_quantize(t, depth), &args) }
    }

    /// `y[t,n] = Σ_k x[t,k] · w[n,k]` of several tokens: `w` `[N, K]` int8 with a scale per row, `x` what [`Kernels::quantize`] left of
    /// `[T, K]`, `y` `[T, N]` f32. `shape` is T, N, K.
    pub fn linear_w8a8(
        &self,
        stream: &Stream,
        w: Matrix<'_>,
        x: &Span,
        y: &Span,
        [tokens, n, k]: [usize; 3],
    ) -> Result<(), LaunchError> {
        let op = Op("linear_w8a8");
        let t = op.tokens(tokens)?;
        let rows = op.width("N", n, 1)?;
        let depth = op.width("K", k, K_MULTIPLE as usize)?;
        if w.scheme != Scheme::Int8Row {
            return Err(op.refuse(format!("the weight is {}, int8 is needed", w.scheme)));
        }
        let Parts { codes, scales, .. } = op.parts("weight", w, [n, k])?;
        let rounded = op.rounded(x, [tokens, k])?;
        op.holds("y", y, &[tokens, n], 4)?;
        op.apart(stream, &[w.span, x, y])?;
        let (x, x_scales, y) = (rounded.codes, rounded.scales, y.address());
        let args = w8a8::Args { codes, scales, x, x_scales, y, tokens: t, n: rows, k: depth, pad: 0 };
        let (name, geometry) = w8a8::choose(t, rows);
        // SAFETY: 1. `Args` is that of both kernels; 2. checked above; 3. the geometry of the same tile; 4. one stream, and Spans keep
        // memory alive.
        unsafe { self.launch(stream, name, geometry, &args) }
    }
}
