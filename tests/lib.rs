//! Shared by all tests.
