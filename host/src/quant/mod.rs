//! Our quantization schemes: what their bytes mean, how a matrix is encoded, and how it is decoded to f32. It opens no files and computes
//! no products: [`crate::artifact`] stores what is made here, a backend multiplies with it where it lies.
//!
//! **Layout.** A quantized matrix `[N, K]` is one object: its codes, zeros up to the next multiple of 256, its scales, and where the
//! scheme has minimums zeros up to the next multiple of 256 and those. [`Scheme::layout`] has the byte positions.
//!
//! | scheme | codes | stands for | scales | minimums |
//! |---|---|---|---|---|
//! | `int8` | i8, `[N, K]` row-major | `q · scale` | f32 `[N]` | – |
//! | `int8:G` | the same | `q · scale` | f16 `[N, K/G]` | – |
//! | `int4:G` | nibbles, 16 bytes per 32 elements of a row: byte `j` has element `j` low and element `j + 16` high | `(q − 8) · scale` | f16 `[N, K/G]` | – |
//! | `int4m:G` | the same | `q · scale + minimum` | f16 `[N, K/G]` | f16 `[N, K/G]` |
//! | `fp8-e4m3` | OCP e4m3fn, `[N, K]` row-major | `value(code) · scale` | f32 `[N]` | – |
//! | `int8m:G` | as `int8` | `q · scale + minimum` | f16 `[N, K/G]` | f16 `[N, K/G]` |
//! | `int8k:G` | as `int8` | `q · scale` | two levels | – |
//! | `int8mk:G` | as `int8` | `q · scale + minimum` | two levels | two levels |
//! | `int4mk:G` | as `int4` | `q · scale + minimum` | two levels | two levels |
//!
//! `G` is 32, 64 or 128 elements of a row; everything is little-endian. Our encoders of int8 use −127 … 127; −128 is accepted, so that GGUF's
//! Q8_0 is exactly `int8:32`, Q4_0 `int4:32` and Q4_1 `int4m:32`, regrouped without a change of any bit.
//!
//! The last four are never encoded: they hold what other types of GGUF hold, and come from there alone. **Two levels**: for every 256 elements
//! of a row one record, an f16 `d` and for each of their groups (of 16 or 32, of nibbles 32) an i8 `s`; the scale is `d · s`, which f32 holds exactly.

pub mod compensate;
mod decode;
mod encode;
pub mod fp8;
mod recipe;
mod table;

use std::{fmt, ops::Range, str::FromStr};

pub use decode::Matrix;
pub use encode::{Encoded, Search, encode};
pub use recipe::{Choice, Class, Recipe};
pub use table::Table;

/// Where scales and minimums start: at multiples of this from the object's start.
const ALIGNMENT: usize = 256;
/// Elements of a row whose nibbles are interleaved.
const NIBBLES: usize = 32;
/// Sizes of a group along K, where its scale is an f16.
pub const GROUPS: [usize; 3] = [32, 64, 128];
/// Sizes of a group whose scale has two levels.
pub const LEVEL_GROUPS: [usize; 2] = [16, 32];
/// Elements of a row that share the upper level of such scales.
pub const SUPERBLOCK: usize = 256;

/// Values of an activation that share a scale, where activations are rounded to 8 bits: what a step of the GPU's products holds.
pub const ACTIVATION_GROUP: usize = 64;
const _: () = assert!(ACTIVATION_GROUP == device_ops::linear::w8a8::GROUP as usize);
// What the kernels count parts of an object in.
const _: () = assert!(ALIGNMENT as u64 == device_ops::format::PART && ALIGNMENT as u64 == device_ops::decode::UNIT);
const _: () = assert!(SUPERBLOCK == device_ops::format::SUPERBLOCK as usize);

/// What quantized matrices are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activations {
    /// Activations as they are.
    #[default]
    AsTheyAre,
    /// 8 bits with a scale per token and [`ACTIVATION_GROUP`] elements: −127 … 127 times the largest magnitude / 127.
    Int8,
}

impl fmt::Display for Activations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsTheyAre => "as-is",
            Self::Int8 => "int8",
        })
    }
}

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
    /// 8 bits from a minimum upwards, an f16 scale and an f16 minimum per group. Only kept, never encoded, as all that follow.
    Int8Min(usize),
    /// 8 bits, scales of two levels per group.
    Int8K(usize),
    /// 8 bits from a minimum upwards, scales and minimums of two levels per group.
    Int8MinK(usize),
    /// 4 bits from a minimum upwards, scales and minimums of two levels per group.
    Int4MinK(usize),
}

/// How scales, and minimums where there are some, are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scales {
    /// There are none.
    None,
    /// An f32 per row.
    Rows,
    /// An f16 per group of so many elements.
    Groups(usize),
    /// Per 256 elements an f16, and behind it an i8 in units of that for each of their groups of so many elements.
    Levels(usize),
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
    /// K is no multiple of the group, or of what groups share.
    #[error("{scheme}: {k} elements in a row, a multiple of {group} expected")]
    Group {
        /// The scheme.
        scheme: Scheme,
        /// Elements of a row.
        k: usize,
        /// Elements of a group, or of what groups share.
        group: usize,
    },
    /// There is no such group.
    #[error("{scheme}: there are no groups of this size")]
    Size {
        /// The scheme.
        scheme: Scheme,
    },
    /// A scheme that holds what a source has, and for which there is no encoder.
    #[error("{scheme}: kept as a source has it, never encoded")]
    Kept {
        /// The scheme.
        scheme: Scheme,
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
    /// Minimums; empty where the scheme has none.
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
            Self::Int8Min(_) => "int8m",
            Self::Int8K(_) => "int8k",
            Self::Int8MinK(_) => "int8mk",
            Self::Int4MinK(_) => "int4mk",
        }
    }

    /// How its scales and minimums are stored.
    pub fn scales(self) -> Scales {
        match self {
            Self::Bf16 => Scales::None,
            Self::Int8Row | Self::Fp8 => Scales::Rows,
            Self::Int8(group) | Self::Int4(group) | Self::Int4Min(group) | Self::Int8Min(group) => {
                Scales::Groups(group)
            }
            Self::Int8K(group) | Self::Int8MinK(group) | Self::Int4MinK(group) => Scales::Levels(group),
        }
    }

    /// Whether it has minimums, as many as scales.
    pub fn has_minimums(self) -> bool {
        matches!(self, Self::Int4Min(_) | Self::Int8Min(_) | Self::Int8MinK(_) | Self::Int4MinK(_))
    }

    /// Whether it only holds what a source has: there is no encoder for it.
    pub fn is_only_kept(self) -> bool {
        matches!(self, Self::Int8Min(_) | Self::Int8K(_) | Self::Int8MinK(_) | Self::Int4MinK(_))
    }

    /// How a tensor of `shape` is stored where matrices are stored as this: vectors stay bf16.
    pub fn of_tensor(self, shape: &[usize]) -> Self {
        if shape.len() == 2 { self } else { Self::Bf16 }
    }

    /// Elements of a group along K; `None` where a whole row has one scale, or none at all.
    pub fn group(self) -> Option<usize> {
        match self.scales() {
            Scales::None | Scales::Rows => None,
            Scales::Groups(group) | Scales::Levels(group) => Some(group),
        }
    }

    /// Bits of one code.
    pub fn code_bits(self) -> usize {
        match self {
            Self::Bf16 => 16,
            Self::Int4(_) | Self::Int4Min(_) | Self::Int4MinK(_) => 4,
            _ => 8,
        }
    }

    /// Scales of a row of `k` elements.
    pub fn scales_per_row(self, k: usize) -> usize {
        match self.scales() {
            Scales::None => 0,
            Scales::Rows => 1,
            Scales::Groups(group) | Scales::Levels(group) => k / group,
        }
    }

    /// Bytes of the scales of a row of `k` elements; its minimums take as many.
    pub fn scale_row_bytes(self, k: usize) -> usize {
        match self.scales() {
            Scales::None => 0,
            Scales::Rows => 4,
            Scales::Groups(group) => k / group * 2,
            Scales::Levels(group) => k / SUPERBLOCK * (2 + SUPERBLOCK / group),
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
        let (known, unit) = match self.scales() {
            Scales::None | Scales::Rows => (true, 1),
            Scales::Groups(group) => (GROUPS.contains(&group), group),
            // Nibbles are interleaved by 32, and kernels take one scale for 16 bytes.
            Scales::Levels(group) => (LEVEL_GROUPS.contains(&group) && group * self.code_bits() >= 128, SUPERBLOCK),
        };
        if !k.is_multiple_of(unit) || unit == 0 {
            return Err(SchemeError::Group { scheme: self, k, group: unit });
        }
        if !known {
            return Err(SchemeError::Size { scheme: self });
        }
        let codes = n.checked_mul(k).and_then(|elements| elements.checked_mul(self.code_bits()));
        let codes = codes.ok_or_else(refused)? / 8;
        // A row has fewer scales than bits of codes, so neither product can overflow where that of the codes did not.
        let table = n * self.scale_row_bytes(k);
        let start =
            |end: usize| end.checked_next_multiple_of(ALIGNMENT).filter(|start| start.checked_add(table).is_some());
        if table == 0 {
            return Ok(Layout { codes: 0..codes, scales: codes..codes, minimums: codes..codes, bytes: codes });
        }
        let first = start(codes).ok_or_else(refused)?;
        let scales = first..first + table;
        let minimums = if self.has_minimums() {
            let first = start(scales.end).ok_or_else(refused)?;
            first..first + table
        } else {
            scales.end..scales.end
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

    /// `SCHEME` or `SCHEME:GROUP`, of those that have an encoder; int4 and int4m alone have groups of 32, int8 alone one scale per row.
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
