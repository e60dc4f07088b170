//! A matrix on the card, in whatever scheme it is stored: what its kernels are told about where its parts lie.

use device_ops::format::Stored;

use super::{LaunchError, Op, Span};
use crate::quant::Scheme;

/// A matrix `[N, K]`, one object as [`Scheme::layout`] has it. A span alone is a matrix of bf16.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Where it lies.
    pub span: &'a Span,
    /// How it is stored.
    pub scheme: Scheme,
}

impl<'a> From<&'a Span> for Matrix<'a> {
    fn from(span: &'a Span) -> Self {
        Self { span, scheme: Scheme::Bf16 }
    }
}

/// The addresses of a matrix's parts; those that the format does not have are 0.
pub(super) struct Parts {
    pub(super) stored: Stored,
    pub(super) codes: u64,
    pub(super) scales: u64,
    pub(super) minimums: u64,
    /// 0 where there are no groups.
    pub(super) group_log2: u32,
}

/// What the kernels call a scheme.
pub fn stored(scheme: Scheme) -> Stored {
    match scheme {
        Scheme::Bf16 => Stored::Bf16,
        Scheme::Int8Row => Stored::Int8,
        Scheme::Int8(_) => Stored::Int8Group,
        Scheme::Int4(_) => Stored::Int4,
        Scheme::Int4Min(_) => Stored::Int4Minimum,
        Scheme::Fp8 => Stored::Fp8,
        Scheme::Int8Min(_) => Stored::Int8Minimum,
        Scheme::Int8K(_) => Stored::Int8Levels,
        Scheme::Int8MinK(_) => Stored::Int8MinimumLevels,
        Scheme::Int4MinK(_) => Stored::Int4MinimumLevels,
    }
}

impl Op {
    /// Checks that `matrix` has room for its shape, and finds its parts.
    pub(super) fn parts(self, what: &str, matrix: Matrix<'_>, shape: [usize; 2]) -> Result<Parts, LaunchError> {
        let Matrix { span, scheme } = matrix;
        if scheme == Scheme::Bf16 {
            self.holds(what, span, &shape, 2)?;
        }
        let layout = scheme.layout(&shape).map_err(|error| self.refuse(format!("{what}: {error}")))?;
        self.holds(&format!("{what} in {scheme},"), span, &[layout.bytes], 1)?;
        let part =
            |range: std::ops::Range<usize>| if range.is_empty() { 0 } else { span.address() + range.start as u64 };
        Ok(Parts {
            stored: stored(scheme),
            codes: span.address(),
            scales: part(layout.scales),
            minimums: part(layout.minimums),
            group_log2: scheme.group().map_or(0, usize::ilog2),
        })
    }
}
