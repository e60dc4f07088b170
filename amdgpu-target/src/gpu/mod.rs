//! The machine as kernels see it. Wrappers are safe only where no argument and no control flow can make them undefined.
//! Everything is `inline(always)`: a call that is not inlined pulls in hidden arguments and scratch.
//!
//! `machine` is one of two implementations of the same names: `amdgpu` is the machine this project is for, `nvptx` its proof
//! vehicle. Kernels name neither. What differs and shows is said by the accumulator's functions: which rows and columns a lane holds.

#[cfg_attr(target_arch = "amdgpu", path = "amdgpu/mod.rs")]
#[cfg_attr(target_arch = "nvptx64", path = "nvptx/mod.rs")]
mod machine;

mod grid;
mod lds;
mod math;
mod memory;
mod reduce;

pub use grid::GridBarrier;
pub use lds::lds;
pub use machine::{
    ACC_COLUMNS, ACC_RUN, Acc, Fragment, IntAcc, Shared, acc_across_rows, acc_column, acc_column_of, acc_column_sums,
    acc_row, acc_to_array, barrier, end_wave, int_acc_to_array, item_idx, lane_idx, lane_value, lds_place_a,
    other_half, pair_chunk, pair_half_rows, pair_operand_row, pair_row, schedule_fence, store_run, store_run_bf16,
    unpack_fp8, wave_idx, wave_max_u64, wave_uniform, wmma_bf16, wmma_i8, workgroup_x, workgroup_y, workgroup_z,
};
pub use math::{INTEGERS, LOG2_E, divide, exp2, fma, max, rcp, rsq, silu, sqrt};
pub use memory::{
    B64, B128, bf16x4, bf16x8, bf16x8_exact, bf16x8_number, f16_to_f32, f32_to_f16, load, load_f32x2, load_f32x4,
    load_offset, pack_bf16, store, store_f32x2, store_f32x4, unpack_bf16,
};
pub use reduce::{group_max_u32, group_sum, wave_max, wave_max_u32, wave_sum};
