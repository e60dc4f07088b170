//! The built `zynfer` program as users run it: through pipes, files, signals and a pseudo-terminal. What the parts compute is judged
//! in their own tests; here stand exit codes, streams, JSON shapes and messages, and that the whole way gives the reference's tokens.

mod bench;
mod chat;
mod commands;
mod compare;
mod counters;
mod errors;
mod gguf;
mod kernels;
mod memory;
mod pull;
mod quant_report;
mod quantize;
mod streams;
mod support;
