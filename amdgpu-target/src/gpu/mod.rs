//! The machine as kernels see it. Wrappers are safe only where no argument and no control flow can make them undefined.
//! Everything is `inline(always)`: a call that is not inlined pulls in hidden arguments and scratch.

mod intrinsics;
mod lane;
mod lds;
mod math;
mod memory;
mod sync;
mod wmma;

pub use lane::{
    item_idx, lane_idx, lane_value, other_half, wave_idx, wave_max, wave_max_u64, wave_sum, wave_uniform, workgroup_x,
    workgroup_y, workgroup_z,
};
pub use lds::lds;
pub use math::{LOG2_E, divide, exp2, fma, max, rcp, rsq, silu, sqrt};
pub use memory::{
    B64, B128, bf16x4, bf16x8, bf16x8_number, load, load_f32x2, load_f32x4, load_offset, pack_bf16, store, store_f32x2,
    store_f32x4, unpack_bf16,
};
pub use sync::{barrier, end_wave, schedule_fence};
pub use wmma::{Acc, Fragment, acc_to_array, wmma_bf16};
