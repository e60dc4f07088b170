//! The element types of GGUF tensors: number, name, and how many bytes a block of how many elements takes. What the bytes mean is the
//! business of `blocks` and `k_blocks`.

use super::{
    blocks, k_blocks,
    regroup::{self, Regrouped},
};
use crate::quant::{Encoded, Scheme};

/// Element type of a GGUF tensor, any that the format knows. Fewer can be read: see [`TensorType::decoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorType(usize);

/// Turns whole blocks into as many elements; both lengths must agree, see [`TensorType::decoder`].
pub type Decoder = fn(&[u8], &mut [f32]);

/// A type of the format.
struct Row {
    /// Its number in a file.
    number: u32,
    name: &'static str,
    /// Elements of a block.
    elements: u64,
    /// Bytes of a block.
    bytes: u64,
    decoder: Option<Decoder>,
    regrouped: Option<Regrouped>,
}

const fn row(number: u32, name: &'static str, elements: u64, bytes: u64, decoder: Option<Decoder>) -> Row {
    Row { number, name, elements, bytes, decoder, regrouped: None }
}

impl Row {
    /// With the scheme that holds the same values, and how the blocks get there.
    const fn kept(mut self, scheme: Scheme, append: fn(&[u8], &mut Encoded)) -> Self {
        self.regrouped = Some(Regrouped { scheme, append });
        self
    }
}

/// Every type of the format with its block: numbers and sizes as in the `gguf` package's constants.
const ROWS: &[Row] = &[
    row(0, "F32", 1, 4, Some(blocks::f32)),
    row(1, "F16", 1, 2, Some(blocks::f16)),
    row(2, "Q4_0", 32, 18, Some(blocks::q4_0)).kept(Scheme::Int4(32), regroup::scale_then_codes::<18>),
    row(3, "Q4_1", 32, 20, Some(blocks::q4_1)).kept(Scheme::Int4Min(32), regroup::q4_1),
    row(6, "Q5_0", 32, 22, Some(blocks::q5_0)).kept(Scheme::Int8(32), regroup::q5_0),
    row(7, "Q5_1", 32, 24, Some(blocks::q5_1)).kept(Scheme::Int8Min(32), regroup::q5_1),
    row(8, "Q8_0", 32, 34, Some(blocks::q8_0)).kept(Scheme::Int8(32), regroup::scale_then_codes::<34>),
    row(9, "Q8_1", 32, 40, None),
    row(10, "Q2_K", 256, 84, Some(k_blocks::q2_k)).kept(Scheme::Int8MinK(16), regroup::q2_k),
    row(11, "Q3_K", 256, 110, Some(k_blocks::q3_k)).kept(Scheme::Int8K(16), regroup::q3_k),
    row(12, "Q4_K", 256, 144, Some(k_blocks::q4_k)).kept(Scheme::Int4MinK(32), regroup::q4_k),
    row(13, "Q5_K", 256, 176, Some(k_blocks::q5_k)).kept(Scheme::Int8MinK(32), regroup::q5_k),
    row(14, "Q6_K", 256, 210, Some(k_blocks::q6_k)).kept(Scheme::Int8K(16), regroup::q6_k),
    row(15, "Q8_K", 256, 292, None),
    row(16, "IQ2_XXS", 256, 66, None),
    row(17, "IQ2_XS", 256, 74, None),
    row(18, "IQ3_XXS", 256, 98, None),
    row(19, "IQ1_S", 256, 50, None),
    row(20, "IQ4_NL", 32, 18, Some(blocks::iq4_nl)).kept(Scheme::Int8(32), regroup::iq4_nl),
    row(21, "IQ3_S", 256, 110, None),
    row(22, "IQ2_S", 256, 82, None),
    row(23, "IQ4_XS", 256, 136, Some(k_blocks::iq4_xs)).kept(Scheme::Int8K(32), regroup::iq4_xs),
    row(24, "I8", 1, 1, None),
    row(25, "I16", 1, 2, None),
    row(26, "I32", 1, 4, None),
    row(27, "I64", 1, 8, None),
    row(28, "F64", 1, 8, None),
    row(29, "IQ1_M", 256, 56, None),
    row(30, "BF16", 1, 2, Some(blocks::bf16)),
    row(34, "TQ1_0", 256, 54, None),
    row(35, "TQ2_0", 256, 66, None),
    row(39, "MXFP4", 32, 17, None),
    row(40, "NVFP4", 64, 36, None),
    row(41, "Q1_0", 128, 18, None),
];

impl TensorType {
    /// bfloat16: what an artifact stores.
    pub const BF16: Self = Self(28);

    /// The type of this number in a file.
    pub fn from_number(number: u32) -> Option<Self> {
        ROWS.iter().position(|row| row.number == number).map(Self)
    }

    /// The type of this name, spelled as in the format's description (`Q4_K`).
    pub fn from_name(name: &str) -> Option<Self> {
        ROWS.iter().position(|row| row.name == name).map(Self)
    }

    fn row(self) -> &'static Row {
        &ROWS[self.0]
    }

    /// Its name, as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Elements of a block; 1 for plain numbers. A row of a tensor is a whole number of blocks.
    pub fn block_elements(self) -> u64 {
        self.row().elements
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> u64 {
        self.row().bytes
    }

    /// What turns its blocks into f32, exactly as the `gguf` package does; `None` for a type that is not read here. The decoder wants
    /// whole blocks and a place for each of their elements, and panics at any other lengths.
    pub fn decoder(self) -> Option<Decoder> {
        self.row().decoder
    }

    /// The scheme that holds its blocks without a change of any value; `None` for plain numbers and types that are not read.
    pub fn regrouped(self) -> Option<Regrouped> {
        self.row().regrouped
    }

    /// Names of all types that are read.
    pub fn read_names() -> impl Iterator<Item = &'static str> {
        ROWS.iter().filter(|row| row.decoder.is_some()).map(|row| row.name)
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_is_the_row_it_names() {
        assert_eq!(TensorType::BF16.name(), "BF16");
    }
}
