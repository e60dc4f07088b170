//! hip
