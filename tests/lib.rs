//! Shared by all tests.

pub mod binary;
pub mod code_object;
pub mod fixtures;
pub mod gguf_model;
pub mod gguf_writer;
pub mod oracle;
pub mod ours;
pub mod random;
pub mod server;
pub mod tolerances;

/// Whether tests run on the card as well as in the emulator: `HW=1`.
pub fn card_too() -> bool {
    std::env::var_os("HW").is_some_and(|value| value == "1")
}
