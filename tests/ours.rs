//! Kernels of this tree as the host launches them, for the emulator.

use bytemuck::NoUninit;
use device_ops::{Geometry, KERNELS};
use emulator::{Launch, Options};

/// A launch of `kernel` with `args`, whose padding is left out as HIP leaves it out.
///
/// # Panics
/// The geometry is none, or not of the waves that the kernel is bound to.
#[track_caller]
pub fn plan<'a, A: NoUninit>(kernel: &'a str, geometry: Geometry, args: &'a A, options: Options) -> Launch<'a> {
    geometry.check().unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let contract = KERNELS.iter().find(|known| known.name == kernel).expect("in KERNELS");
    assert_eq!(geometry.waves, contract.waves, "{kernel}: waves of its geometry against its launch bound");
    Launch {
        kernel,
        grid: geometry.workgroups,
        block: [geometry.workgroup_size(), 1, 1],
        dynamic_lds: geometry.lds_bytes,
        kernarg: &bytemuck::bytes_of(args)[..contract.args_bytes()],
        options,
    }
}
