//! The operations.
#![no_std]
