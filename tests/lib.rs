//! Shared by all tests.

pub mod binary;
pub mod code_object;
pub mod fixtures;
pub mod oracle;
pub mod tolerances;
