//! Benches and their dated records. Not tests: nothing here asserts a time.

pub mod kernel_workloads;
pub mod passes;
