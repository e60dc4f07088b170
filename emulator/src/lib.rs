//! emulator
#![forbid(unsafe_code)]
