//! Semantics shared by rows: arithmetic, conversions, lane exchange. Pure functions and lane loops; no opcodes.

pub mod atomics;
pub mod convert;
pub mod cross_lane;
pub mod divide;
pub mod dot;
pub mod dpp;
pub mod exchange;
pub mod float;
pub mod formats;
pub mod fp8;
pub mod integer;
pub mod lanes;
pub mod matrix;
pub mod matrix_sums;
pub mod memory_ops;
pub mod packed;
pub mod place;
pub mod plain;
pub mod scalar;
pub mod soft_float;
pub mod sums;
pub mod tiles;
pub mod transcendental;
pub mod transpose;
