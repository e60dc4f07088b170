//! Shared by all tests.

pub mod fixtures;
