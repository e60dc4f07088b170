//! The code object: links every kernel of `device-ops` for gfx1201. It is deliberately empty of kernels itself: a package
//! that is both `cdylib` and `rlib` fails under the LTO this target needs, and the host wants the contracts as a library.
#![no_std]
#![cfg(target_arch = "amdgpu")]
#![feature(stdarch_amdgpu)]
extern crate device_ops;

/// Kernels contain no panics: should one appear, the wave ends instead of hanging. The sleep is a mark: nothing else here uses that
/// instruction, so a listing with it holds a panic (tests/resources.rs).
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::amdgpu::s_sleep::<127>();
    core::arch::amdgpu::endpgm()
}
