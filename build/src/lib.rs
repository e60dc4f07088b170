//! build support
