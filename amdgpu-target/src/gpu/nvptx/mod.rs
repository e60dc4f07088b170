//! The proof vehicle: NVIDIA's PTX from sm_80 on, compiled for sm_90 (docs/SILICON.md). Same names and meanings as the machine the
//! kernels are written for; a wave is a warp, workgroup memory is dynamic shared memory. Nothing here is tuned at its sake.

mod grid;
mod intrinsics;
mod lane;
mod math;
mod mma;
mod sync;

pub use grid::Shared;
pub(super) use grid::{arrive, observe, stores_done};
pub use intrinsics::{exp2, max, pack_bf16_number, rcp, rsq, sqrt};
pub use lane::{
    item_idx, lane_idx, lane_value, other_half, wave_idx, wave_max_u64, wave_uniform, workgroup_x, workgroup_y,
    workgroup_z,
};
pub(super) use lane::{reduce, reduce_group};
pub use math::unpack_fp8;
pub use mma::{
    ACC_COLUMNS, ACC_RUN, Acc, Fragment, IntAcc, acc_across_rows, acc_column, acc_column_of, acc_column_sums, acc_row,
    acc_to_array, int_acc_to_array, lds_place_a, pair_chunk, pair_half_rows, pair_operand_row, pair_row, store_run,
    store_run_bf16, wmma_bf16, wmma_i8,
};
pub(super) use sync::pause;
pub use sync::{barrier, end_wave, schedule_fence};
