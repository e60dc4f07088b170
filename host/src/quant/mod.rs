//! Our quantization schemes: what their bytes mean, how a matrix is encoded, and how it is decoded to f32. It opens no files and computes
//! no products: [`crate::artifact`] stores what is made here, a backend multiplies with it where it lies.
//!
//! **Layout.** A quantized matrix `[N, K]` is one object: its codes, zeros up to the next multiple of 256, its scales, and with
//! [`Scheme::Int4Min`] zeros up to the next multiple of 256 and its minimums. [`Scheme::layout`] has the byte positions.
//!
//! | scheme | codes | stands for | scales | minimums |
//! |---|---|---|---|---|
//! | `int8` | i8, `[N, K]` row-major | `q · scale` | f32 `[N]` | – |
//! | `int8:G` | the same | `q · scale` | f16 `[N, K/G]` | – |
//! | `int4:G` | nibbles, 16 bytes per 32 elements of a row: byte `j` has element `j` low and element `j + 16` high | `(q − 8) · scale` | f16 `[N, K/G]` | – |
//! | `int4m:G` | the same | `q · scale + minimum` | f16 `[N, K/G]` | f16 `[N, K/G]` |
//! | `fp8-e4m3` | OCP e4m3fn, `[N, K]` row-major | `value(code) · scale` | f32 `[N]` | – |
//!
//! `G` is 32, 64 or 128 elements of a row; everything is little-endian. Our encoders of int8 use −127 … 127; −128 is accepted, so that GGUF's
//! Q8_0 is exactly `int8:32`, Q4_0 `int4:32` and Q4_1 `int4m:32`, regrouped without a change of any bit.

mod decode;
mod encode;
pub mod fp8;
mod recipe;

use std::{fmt, ops::Range, str::FromStr};

pub use decode::Matrix;
pub use encode::{Encoded, Search, encode};
pub use recipe::{Class, Recipe};

/// Where scales and minimums start: at multiples of this from the object's start.
const ALIGNMENT: usize = 256;
/// Elements of a row whose nibbles are interleaved.
const NIBBLES: usize = 32;
/// Sizes of a group along K.
pub const GROUPS: [usize; 3] = [32, 64, 128];

/// How the elements of a matrix are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// As it was trained: bfloat16.
    Bf16,
    /// 8 bits, one f32 scale per row.
    Int8Row,
    /// 8 bits, an f16 scale per group of so many elements.
    Int8(usize),
    /// 4 bits around zero, an f16 scale per group.
    Int4(usize),
    /// 4 bits from a minimum upwards, an f16 scale and an f16 minimum per group.
    Int4Min(usize),
    /// 8-bit floats of 4 exponent and 3 mantissa bits, one f32 scale per row.
    Fp8,
}

/// Why a matrix cannot be stored so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No such scheme or group.
    #[error(
        "{given:?} is no scheme: bf16, int8, int8:G, int4:G, int4m:G or fp8-e4m3 expected, with G of 32, 64 or 128"
    )]
    Name {
        /// What was given.
        given: String,
    },
    /// K is no multiple of the group.
    #[error("{scheme}: {k} elements in a row, a multiple of {group} expected")]
    Group {
        /// The scheme.
        scheme: Scheme,
        /// Elements of a row.
        k: usize,
        /// Elements of a group.
        group: usize,
    },
    /// Not two extents above 0, or more elements than can be counted.
    #[error("{scheme}: shape {shape:?} found, [N, K] expected")]
    Shape {
        /// The scheme.
        scheme: Scheme,
        /// The shape.
        shape: Vec<usize>,
    },
    /// Another length than the layout's.
    #[error("{scheme} {shape:?}: {found} bytes found, {expected} expected")]
    Bytes {
        /// The scheme.
        scheme: Scheme,
        /// The shape.
        shape: Vec<usize>,
        /// Bytes there.
        found: usize,
        /// Bytes the layout has.
        expected: usize,
    },
    /// Bytes that cannot be read in place.
    #[error("{scheme} {shape:?}: not at a multiple of 4 in memory")]
    Alignment {
        /// The scheme.
        scheme: Scheme,
        /// The shape.
        shape: Vec<usize>,
    },
    /// An element or a scale that is infinite or no number, or a scale too large for its type.
    #[error("{what} {index} is {value}, a finite number expected")]
    NotFinite {
        /// `element`, `scale` or `minimum`.
        what: &'static str,
        /// Its index in the matrix or in the scales.
        index: usize,
        /// What it is.
        value: String,
    },
}

/// Byte positions inside one stored matrix; the codes start at 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Codes.
    pub codes: Range<usize>,
    /// Scales.
    pub scales: Range<usize>,
    /// Minimums; empty but for [`Scheme::Int4Min`].
    pub minimums: Range<usize>,
    /// All bytes, from the first code to the last scale or minimum.
    pub bytes: usize,
}

impl Scheme {
    /// The scheme's word, without its group.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Int8Row | Self::Int8(_) => "int8",
            Self::Int4(_) => "int4",
            Self::Int4Min(_) => "int4m",
            Self::Fp8 => "fp8-e4m3",
        }
    }

    /// Elements of a group along K; `None` where a whole row has one scale, or none at all.
    pub fn group(self) -> Option<usize> {
        match self {
            Self::Bf16 | Self::Int8Row | Self::Fp8 => None,
            Self::Int8(group) | Self::Int4(group) | Self::Int4Min(group) => Some(group),
        }
    }

    /// Bits of one code.
    pub fn code_bits(self) -> usize {
        match self {
            Self::Bf16 => 16,
            Self::Int8Row | Self::Int8(_) | Self::Fp8 => 8,
            Self::Int4(_) | Self::Int4Min(_) => 4,
        }
    }

    /// Scales of a row of `k` elements.
    pub fn scales_per_row(self, k: usize) -> usize {
        match self {
            Self::Bf16 => 0,
            Self::Int8Row | Self::Fp8 => 1,
            Self::Int8(group) | Self::Int4(group) | Self::Int4Min(group) => k / group,
        }
    }

    /// Bytes of one scale.
    pub fn scale_bytes(self) -> usize {
        match self {
            Self::Bf16 => 0,
            Self::Int8Row | Self::Fp8 => 4,
            Self::Int8(_) | Self::Int4(_) | Self::Int4Min(_) => 2,
        }
    }

    /// Bytes of the codes of one row of `k` elements.
    pub fn row_bytes(self, k: usize) -> usize {
        k * self.code_bits() / 8
    }

    /// Where the parts of a matrix of this shape lie.
    ///
    /// # Errors
    /// A shape that is not `[N, K]`, a K that is no multiple of the group, more bytes than can be counted.
    pub fn layout(self, shape: &[usize]) -> Result<Layout, SchemeError> {
        let refused = || SchemeError::Shape { scheme: self, shape: shape.to_vec() };
        let &[n, k] = shape else { return Err(refused()) };
        if n == 0 || k == 0 {
            return Err(refused());
        }
        if let Some(group) = self.group()
            && !(GROUPS.contains(&group) && k.is_multiple_of(group))
        {
            return Err(SchemeError::Group { scheme: self, k, group });
        }
        let codes = n.checked_mul(k).and_then(|elements| elements.checked_mul(self.code_bits()));
        let codes = codes.ok_or_else(refused)? / 8;
        // A row has fewer scales than bits of codes, so neither product can overflow where that of the codes did not.
        let table = n * self.scales_per_row(k) * self.scale_bytes();
        let start =
            |end: usize| end.checked_next_multiple_of(ALIGNMENT).filter(|start| start.checked_add(table).is_some());
        if table == 0 {
            return Ok(Layout { codes: 0..codes, scales: codes..codes, minimums: codes..codes, bytes: codes });
        }
        let first = start(codes).ok_or_else(refused)?;
        let scales = first..first + table;
        let minimums = match self {
            Self::Int4Min(_) => {
                let first = start(scales.end).ok_or_else(refused)?;
                first..first + table
            }
            _ => scales.end..scales.end,
        };
        let bytes = minimums.end;
        Ok(Layout { codes: 0..codes, scales, minimums, bytes })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group() {
            Some(group) => write!(f, "{}:{group}", self.word()),
            None => f.write_str(self.word()),
        }
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    /// `SCHEME` or `SCHEME:GROUP`; int4 and int4m alone have groups of 32, int8 alone one scale per row.
    fn from_str(text: &str) -> Result<Self, SchemeError> {
        let refused = || SchemeError::Name { given: text.to_owned() };
        let (word, group) = match text.split_once(':') {
            Some((word, group)) => {
                let group = GROUPS.into_iter().find(|known| known.to_string() == group);
                (word, Some(group.ok_or_else(refused)?))
            }
            None => (text, None),
        };
        match (word, group) {
            ("bf16", None) => Ok(Self::Bf16),
            ("int8", None) => Ok(Self::Int8Row),
            ("int8", Some(group)) => Ok(Self::Int8(group)),
            ("int4", group) => Ok(Self::Int4(group.unwrap_or(GROUPS[0]))),
            ("int4m", group) => Ok(Self::Int4Min(group.unwrap_or(GROUPS[0]))),
            ("fp8-e4m3", None) => Ok(Self::Fp8),
            _ => Err(refused()),
        }
    }
}
