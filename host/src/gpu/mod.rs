//! The GPU backend: [`crate::model::ops::Ops`] over [`crate::hip`], on a card or in the emulator by the same code. It uploads the
//! weights once, straight from where they are mapped, plans all memory at load ([`plan`]) and allocates nothing after. It deliberately
//! holds no unsafe and no geometry: each operation is one checked call of [`crate::hip::kernels`].

pub mod arena;
pub mod code_object;
mod load;
mod operations;
pub mod plan;
pub mod report;

pub use load::{GpuKind, OpenError, Opened, Options, Rung, fit, free_memory, open, parse_gemm, rounds, schemes};
pub use operations::Gpu;
pub use report::{Facts, devices, facts};
