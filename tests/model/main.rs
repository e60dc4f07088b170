//! Whole models: golden outputs of a reference implementation, and what the engine promises on real weights.

mod checkpoint;
mod cpu;
mod golden;
