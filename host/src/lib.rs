//! zynfer: an LLM inference engine for AMD RDNA 4 (`gfx1201`). This is the host's library: it reads checkpoints, plans memory,
//! runs prefill and decode on a backend, and turns ids into text. It is not a general tensor library: it holds what the models of
//! the registry need, and names it as their checkpoints do.
//!
//! The way of a token: [`text`] (ids) → [`engine`] (prefill, decode) → [`model`] (the forward pass over [`model::ops::Ops`]) →
//! [`cpu`] or [`gpu`] (which launches through [`hip`]) → [`engine`] (sampler, stop) → [`text`].
#![deny(unsafe_code)]

pub mod artifact;
pub mod calibrate;
pub mod cli;
pub mod cpu;
mod disk;
pub mod engine;
pub mod fetch;
pub mod gpu;
pub mod hip;
pub mod model;
pub mod quant;
pub mod text;
