//! The machine this project is for: gfx1201, wave32. What the kernels see of it is listed in `gpu/mod.rs`, with the same names and
//! meanings as the other implementation's.

mod grid;
mod intrinsics;
mod lane;
mod math;
mod sync;
mod wmma;

pub use grid::Shared;
pub(super) use grid::{arrive, observe, stores_done};
pub use intrinsics::{exp2, rcp, rsq, sqrt};
pub use lane::{
    item_idx, lane_idx, lane_value, other_half, wave_idx, wave_max_u64, wave_uniform, workgroup_x, workgroup_y,
    workgroup_z,
};
pub(super) use lane::{reduce, reduce_group};
pub use math::{max, pack_bf16_number, unpack_fp8};
pub(super) use sync::pause;
pub use sync::{barrier, end_wave, schedule_fence};
pub use wmma::{
    ACC_COLUMNS, ACC_RUN, Acc, Fragment, IntAcc, acc_across_rows, acc_column, acc_column_of, acc_column_sums, acc_row,
    acc_to_array, int_acc_to_array, lds_place_a, pair_chunk, pair_half_rows, pair_operand_row, pair_row, store_run,
    store_run_bf16, wmma_bf16, wmma_i8,
};
