//! Workgroup memory (LDS). Only the launch-sized block exists: `core` has no static form, and a `static mut` would be global memory.

/// Start of the workgroup's memory; its length is `Geometry::lds_bytes`. Every call gives the same address, whatever `T` is;
/// `T`'s alignment decides how wide an access may be, so use 16-byte elements where `ds_*_b128` is wanted.
#[inline(always)]
pub fn lds<T>() -> *mut T {
    core::intrinsics::gpu::gpu_launch_sized_workgroup_mem::<T>()
}
