//! Loading and compiling checkpoints: what goes in comes out byte for byte, compiling is repeatable, and every damaged, contradictory
//! or incomplete input is refused with one line that names the thing and both numbers. The `safetensors` crate, which the product does
//! not use, judges our reader and writes the checkpoints that are damaged here. No weights are multiplied with anything.

mod config;
mod folders;
mod generation;
mod gguf_families;
mod gguf_files;
mod gguf_kept;
mod gguf_models;
mod hostile;
mod quantized;
mod round_trip;
mod safetensors_files;
mod support;
mod writing;
mod zynfer_files;
