//! The code object of this build: the kernels of `device` for gfx1201, inside the binary. It is deliberately not searched for at run time:
//! host and kernels agree on arguments because they come from one build.

/// Architectures it holds machine code for: one, by the flags it was linked with (tests/hip/packing.rs compares).
pub const ARCHITECTURES: &[&str] = &[amdgpu_target::ARCH];

/// The ELF image.
pub const IMAGE: &[u8] = include_bytes!(env!("ZYNFER_CODE_OBJECT"));
