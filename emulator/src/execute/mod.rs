//! Semantics shared by rows: arithmetic, conversions, lane exchange. Pure functions and lane loops; no opcodes.

pub mod atomics;
pub mod exchange;
pub mod fp8;
pub mod matrix;
pub mod memory_ops;
pub mod packed;
pub mod scalar;
pub mod transpose;
