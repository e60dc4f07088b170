//! The SMEM format.

use super::{DecodeError, Inst, Row};

/// Its instructions.
pub static ROWS: &[Row] = &[];

/// Decodes one instruction of this format.
pub fn decode(words: &[u32]) -> Result<Inst, DecodeError> {
    Err(DecodeError::Unknown { word: words[0] })
}

/// The instruction as LLVM prints it.
pub fn text(inst: &Inst, _pc: u64) -> String {
    inst.row.name.into()
}
