//! HIP's C ABI over `libcuda`, as far as the host of this workspace uses it, so that the host runs unchanged on an NVIDIA GPU under
//! `ZYNFER_HIP_LIBRARY`. It is a *proof vehicle* (docs/SILICON.md): it shows that the device source computes and how fast the same
//! algorithms are on a memory system that is there, and it is deliberately no backend: nothing ships it, nothing searches for it.
//!
//! The host hands its gfx1201 code object to `hipModuleLoadData`. That image is read for the layout of its kernels' arguments and
//! otherwise ignored; what runs is the PTX of the same source, a file beside this library ([`image`]). Handles are the driver's own
//! pointers, passed through; statuses are too, because HIP's numbers are CUDA's.

mod abi;
mod cuda;
mod image;
mod ptx;

pub use image::compare;
pub use ptx::{Entry, entries};
