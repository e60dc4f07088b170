//! Semantics shared by rows: arithmetic, conversions, lane exchange. Pure functions and lane loops; no opcodes.

pub mod scalar;
