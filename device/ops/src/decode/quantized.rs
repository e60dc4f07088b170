//! Whole decode steps with quantized matrices: the resident kernels once more for each format, and once for any mixture. The launches of half a
//! layer read bf16 only.

use super::kernels::persistent;
use super::launch::{Launch, define_kernel, kernel, with_parameters};
use super::mixed::Mixed;
use super::weights::Encoded;
use crate::format::{Fp8, Int4, Int4Minimum, Int8, Int8Group};

kernel! {
    /// Whole decode steps, matrices stored as i8 with a scale per row: as `decode_persistent_d128` with their products as `linear_int8_gemv`
    /// has them, and the embedding's row as it is meant
    ///
    /// Input      [`super::Args`]; each matrix is the object of its format, codes, scales, minimums, at a multiple of 256
    /// Output, Workgroup, Wave, LDS, Sync   as `decode_persistent_d128`
    /// Numerics   codes exact; a scale is applied to the sum of what a lane loads at once of its group, or of its row; oracle::model
    /// Registers  budget 192 VGPR (168 for head_dim 64), no spill to memory: three steps of up to 32 bytes of codes and their scales in flight.
    ///            8 to 16 scalars stay in lanes of a VGPR: the places of ids and logits, read once per row of lm_head, and where matrices have
    ///            groups up to four numbers of the layout of q, k and v, read while the first steps are loaded
    /// Memory     codes 16 B per lane, consecutive lanes consecutive, each byte once; scales from the same rows; bytes per token =
    ///            bits / 8 · weights + scales
    /// Target     gfx1201; expects `global_load_b128`, `buffer_atomic_add_u32`
    /// Why        a token's time is the bytes of its weights; how 1024 elements of a row are a step stays as for bf16, so rows, parts and LDS
    ///            are the same
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int8_d128, persistent::<Encoded<Int8>, 128, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d64`, matrices in the format of `linear_int8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int8_d64, persistent::<Encoded<Int8>, 64, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d128`, matrices in the format of `linear_int8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int8_d128, persistent::<Encoded<Int8>, 128, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d64`, matrices in the format of `linear_int8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int8_d64, persistent::<Encoded<Int8>, 64, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d128`, matrices in the format of `linear_int8g_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int8g_d128, persistent::<Encoded<Int8Group>, 128, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d64`, matrices in the format of `linear_int8g_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int8g_d64, persistent::<Encoded<Int8Group>, 64, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d128`, matrices in the format of `linear_int8g_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int8g_d128, persistent::<Encoded<Int8Group>, 128, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d64`, matrices in the format of `linear_int8g_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int8g_d64, persistent::<Encoded<Int8Group>, 64, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d128`, matrices in the format of `linear_int4_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int4_d128, persistent::<Encoded<Int4>, 128, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d64`, matrices in the format of `linear_int4_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int4_d64, persistent::<Encoded<Int4>, 64, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d128`, matrices in the format of `linear_int4_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int4_d128, persistent::<Encoded<Int4>, 128, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d64`, matrices in the format of `linear_int4_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int4_d64, persistent::<Encoded<Int4>, 64, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d128`, matrices in the format of `linear_int4m_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int4m_d128, persistent::<Encoded<Int4Minimum>, 128, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d64`, matrices in the format of `linear_int4m_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_int4m_d64, persistent::<Encoded<Int4Minimum>, 64, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d128`, matrices in the format of `linear_int4m_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int4m_d128, persistent::<Encoded<Int4Minimum>, 128, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d64`, matrices in the format of `linear_int4m_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_int4m_d64, persistent::<Encoded<Int4Minimum>, 64, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d128`, matrices in the format of `linear_fp8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_fp8_d128, persistent::<Encoded<Fp8>, 128, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_persistent_d64`, matrices in the format of `linear_fp8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_fp8_d64, persistent::<Encoded<Fp8>, 64, true>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d128`, matrices in the format of `linear_fp8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_fp8_d128, persistent::<Encoded<Fp8>, 128, false>
}
kernel! {
    /// As `decode_persistent_int8_d128`, of `decode_rotated_persistent_d64`, matrices in the format of `linear_fp8_gemv`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_fp8_d64, persistent::<Encoded<Fp8>, 64, false>
}
kernel! {
    /// Whole decode steps, each matrix stored in a way of its own: as `decode_persistent_int8_d128`, bf16 among the ways
    ///
    /// Input      [`super::Args`] and [`super::Table`]; `embed`, `qkv`, `o`, `gate`, `up`, `down`, `head` and `group_log2` are not read
    /// Output, Workgroup, Wave, Sync   as `decode_persistent_d128`
    /// Numerics   as of the format, the scale of a row applied to each 16 products of a lane; a minimum times two sums of activations, behind
    ///            the products; what has no minimum of the embedding's row gets a zero
    /// LDS        as `decode_persistent_d128`, with two rows of the table
    /// Registers  budget 192 VGPR, no spill to memory: three steps of up to 64 bytes of codes and their scales in flight
    /// Memory     as of each format
    /// Target     gfx1201; expects `global_load_b128`, `buffer_atomic_add_u32`
    /// Why        a file's matrices are of two or three types, and layers of one class of several: a kernel for each mixture there cannot be
    ///
    /// # Safety
    /// As `decode_attention_d128`; the table holds what [`super::Table`] says.
    decode_persistent_mixed_d128, persistent::<Mixed, 128, true>
}
kernel! {
    /// As `decode_persistent_mixed_d128`, of `decode_persistent_d64`.
    ///
    /// # Safety
    /// As `decode_persistent_mixed_d128`.
    decode_persistent_mixed_d64, persistent::<Mixed, 64, true>
}
kernel! {
    /// As `decode_persistent_mixed_d128`, of `decode_rotated_persistent_d128`.
    ///
    /// # Safety
    /// As `decode_persistent_mixed_d128`.
    decode_rotated_persistent_mixed_d128, persistent::<Mixed, 128, false>
}
kernel! {
    /// As `decode_persistent_mixed_d128`, of `decode_rotated_persistent_d64`.
    ///
    /// # Safety
    /// As `decode_persistent_mixed_d128`.
    decode_rotated_persistent_mixed_d64, persistent::<Mixed, 64, false>
}
