//! Whole models: golden outputs of a reference implementation, and what the engine promises on real weights.

mod compare;
mod cpu;
mod decode;
mod emulator;
mod golden;
mod kept;
mod kv;
#[path = "../oracle/model.rs"]
mod oracle;
mod quantized;
