//! The model: what a checkpoint's configuration means, which tensors it has, and one forward pass as straight code.
//! No unsafe, no launch geometry, no storage: those belong to the backend behind [`ops::Ops`].

pub mod config;
pub mod family;
pub mod forward;
pub mod kv;
pub mod memory;
pub mod ops;
pub mod random;
pub mod registry;
pub mod rope;
pub mod weights;
