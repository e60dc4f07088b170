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

/// What the kernels call a scheme; `None` where none reads it.
pub fn stored(scheme: Scheme) -> Option<Stored> {
    match scheme {
        Scheme::Bf16 => Some(Stored::Bf16),
        Scheme::Int8Row => Some(Stored::Int8),
        Scheme::Int8(_) => Some(Stored::Int8Group),
        Scheme::Int4(_) => Some(Stored::Int4),
        Scheme::Int4Min(_) => Some(Stored::Int4Minimum),
        Scheme::Fp8 => Some(Stored::Fp8),
        Scheme::Int8Min(_) | Scheme::Int8K(_) | Scheme::Int8MinK(_) | Scheme::Int4MinK(_) => None,
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
            stored: stored(scheme).ok_or_else(|| self.refuse(format!("{what}: no kernel reads {scheme}")))?,
            codes: span.address(),
            scales: part(layout.scales),
            minimums: part(layout.minimums),
            group_log2: scheme.group().map_or(0, usize::ilog2),
        })
    }
}
