//! The DPP dword behind a vector instruction: decoding and printing. What it does stands in [`crate::execute::dpp`].

use super::{DecodeError, Dpp};
use std::fmt::Write;

/// Source 0 code of DPP16.
pub const DPP16: u16 = 250;
/// Source 0 code of DPP8.
pub const DPP8: u16 = 233;
/// Source 0 code of DPP8 with fetch-inactive.
pub const DPP8_FI: u16 = 234;

/// Whether a source 0 code says that a DPP dword follows.
pub fn announced(code: u16) -> bool {
    matches!(code, DPP16 | DPP8 | DPP8_FI)
}

/// A decoded DPP dword.
pub struct Word {
    /// The exchange.
    pub dpp: Dpp,
    /// Vector register of source 0.
    pub register: u8,
    /// abs of sources 0 and 1.
    pub abs: u8,
    /// neg of sources 0 and 1.
    pub neg: u8,
}

/// Decodes the dword `control` that source 0's `code` announced.
pub fn decode(code: u16, control: u32, word: u32) -> Result<Word, DecodeError> {
    let register = control as u8;
    if code != DPP16 {
        let dpp = Dpp::Eight { sel: control >> 8, fi: code == DPP8_FI };
        return Ok(Word { dpp, register, abs: 0, neg: 0 });
    }
    let ctrl = (control >> 8 & 0x1ff) as u16;
    let bit = |n: u32| control >> n & 1 != 0;
    let defined =
        matches!(ctrl, 0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x140 | 0x141 | 0x150..=0x16f);
    if !defined || bit(17) {
        return Err(DecodeError::Invalid {
            word,
            reason: format!("DPP control {:#x} is not defined", control >> 8 & 0x3ff),
        });
    }
    Ok(Word {
        dpp: Dpp::Row {
            ctrl,
            row_mask: (control >> 28) as u8,
            bank_mask: (control >> 24 & 15) as u8,
            fi: bit(18),
            bc: bit(19),
        },
        register,
        neg: bit(20) as u8 | (bit(22) as u8) << 1,
        abs: bit(21) as u8 | (bit(23) as u8) << 1,
    })
}

/// The DPP operands as LLVM prints them, with a leading blank.
pub fn text(dpp: Dpp) -> String {
    match dpp {
        Dpp::Eight { sel, fi } => {
            let lanes: Vec<String> = (0..8).map(|i| (sel >> (i * 3) & 7).to_string()).collect();
            format!(" dpp8:[{}]{}", lanes.join(","), if fi { " fi:1" } else { "" })
        }
        Dpp::Row { ctrl, row_mask, bank_mask, fi, bc } => {
            let n = ctrl & 15;
            let mut out = match ctrl >> 4 {
                0x00..=0x0f => {
                    format!(" quad_perm:[{},{},{},{}]", ctrl & 3, ctrl >> 2 & 3, ctrl >> 4 & 3, ctrl >> 6 & 3)
                }
                0x10 => format!(" row_shl:{n}"),
                0x11 => format!(" row_shr:{n}"),
                0x12 => format!(" row_ror:{n}"),
                0x14 if n == 0 => " row_mirror".into(),
                0x14 => " row_half_mirror".into(),
                0x15 => format!(" row_share:{n}"),
                _ => format!(" row_xmask:{n}"),
            };
            let _ = write!(out, " row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}");
            if bc {
                out.push_str(" bound_ctrl:1");
            }
            if fi {
                out.push_str(" fi:1");
            }
            out
        }
    }
}
