//! Shared by all tests.

pub mod fixtures;

pub mod tolerances;
