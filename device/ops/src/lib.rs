//! The operations of a forward pass, one file each: contract, kernel names, arguments, geometry, kernel. It knows shapes and dtypes,
//! no model, no buffers and no launch. In the order a token meets them: [`embed`]; per layer [`rmsnorm`], [`linear`] (q, k, v),
//! [`bias_add`] or [`head_norm`], [`rope`], [`kv_append`], [`attention`], [`linear`] (o), [`residual_add`], [`rmsnorm`], [`linear`] (gate, up),
//! [`swiglu`], [`linear`] (down), [`residual_add`]; at the end [`rmsnorm`], [`linear`] (lm_head), [`argmax`] or [`top_k`].
//! Several tokens take several of these at once: [`linear::qkv`], [`prepare_heads`] (both norms, where there are any, rotations and the append),
//! [`linear::gated`] (gate, up, SwiGLU), and products that add to the residual stream.
//! [`decode`] is all of it for one token, fused. [`format`] says what the codes of quantized weights mean.
//!
//! Dtypes: residual stream and outputs of matrix products f32; inputs of matrix products, weights and KV cache bf16; logits f32.
//! Shapes use the letters of docs/NUMERICS.md. Every pointer an argument names is aligned to 16 bytes unless its contract says less;
//! counts and products of counts that one lane multiplies are taken in 64 bits.
#![no_std]
#![cfg_attr(gpu, feature(abi_gpu_kernel))]
// A lane's few registers are arrays walked together by one index; iterators over several of them at once read worse.
#![cfg_attr(gpu, allow(clippy::needless_range_loop, reason = "one index walks several register arrays"))]

mod contract;

pub mod argmax;
pub mod attention;
pub mod bias_add;
pub mod decode;
pub mod embed;
pub mod format;
pub mod head_norm;
pub mod kv_append;
pub mod linear;
pub mod prepare_heads;
pub mod residual_add;
pub mod rmsnorm;
pub mod rope;
pub mod swiglu;
pub mod top_k;

pub use amdgpu_target::Geometry;
pub use contract::{Field, Kernel};

/// Every kernel of the code object with the layout of its arguments and the size of its workgroups.
pub const KERNELS: &[Kernel] = &[
    Kernel { name: embed::NAME, fields: embed::Args::FIELDS, waves: embed::WAVES },
    embed::quantized::kernel(0),
    embed::quantized::kernel(1),
    embed::quantized::kernel(2),
    embed::quantized::kernel(3),
    embed::quantized::kernel(4),
    Kernel { name: rmsnorm::NAME_WAVE, fields: rmsnorm::Args::FIELDS, waves: rmsnorm::ROWS },
    Kernel { name: rmsnorm::NAME_WORKGROUP, fields: rmsnorm::Args::FIELDS, waves: rmsnorm::WAVES },
    Kernel { name: linear::NAME_PLAIN, fields: linear::Args::FIELDS, waves: linear::PLAIN_WAVES },
    Kernel { name: linear::NAME_GEMV, fields: linear::Args::FIELDS, waves: linear::GEMV_WAVES },
    Kernel { name: linear::NAME_WMMA, fields: linear::Args::FIELDS, waves: linear::WMMA_WAVES },
    Kernel { name: linear::NAMES_TILE[0], fields: linear::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::NAMES_TILE[1], fields: linear::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::NAMES_TILE[2], fields: linear::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::NAMES_ADD[0], fields: linear::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::NAMES_ADD[1], fields: linear::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::NAMES_ADD[2], fields: linear::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::qkv::NAME_N128_T64, fields: linear::qkv::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::qkv::NAME_N128_T128, fields: linear::qkv::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::gated::NAME_N128_T64, fields: linear::gated::Args::FIELDS, waves: linear::TILE_WAVES },
    Kernel { name: linear::gated::NAME_N128_T128, fields: linear::gated::Args::FIELDS, waves: linear::TILE_WAVES },
    linear::quantized::plain(0),
    linear::quantized::gemv(0),
    linear::quantized::plain(1),
    linear::quantized::gemv(1),
    linear::quantized::plain(2),
    linear::quantized::gemv(2),
    linear::quantized::plain(3),
    linear::quantized::gemv(3),
    linear::quantized::plain(4),
    linear::quantized::gemv(4),
    linear::quantized::tile(0, 0),
    linear::quantized::tile(0, 1),
    linear::quantized::tile(0, 2),
    linear::quantized::tile(1, 0),
    linear::quantized::tile(1, 1),
    linear::quantized::tile(1, 2),
    linear::quantized::tile(2, 0),
    linear::quantized::tile(2, 1),
    linear::quantized::tile(2, 2),
    linear::quantized::tile(3, 0),
    linear::quantized::tile(3, 1),
    linear::quantized::tile(3, 2),
    linear::quantized::tile(4, 0),
    linear::quantized::tile(4, 1),
    linear::quantized::tile(4, 2),
    Kernel { name: bias_add::NAME, fields: bias_add::Args::FIELDS, waves: bias_add::WAVES },
    Kernel { name: head_norm::NAME_D64, fields: head_norm::Args::FIELDS, waves: head_norm::WAVES },
    Kernel { name: head_norm::NAME_D128, fields: head_norm::Args::FIELDS, waves: head_norm::WAVES },
    Kernel { name: rope::NAME_D64, fields: rope::Args::FIELDS, waves: rope::WAVES },
    Kernel { name: rope::NAME_D128, fields: rope::Args::FIELDS, waves: rope::WAVES },
    Kernel { name: kv_append::NAME, fields: kv_append::Args::FIELDS, waves: kv_append::WAVES },
    Kernel { name: prepare_heads::NAME_D64, fields: prepare_heads::Args::FIELDS, waves: prepare_heads::WAVES },
    Kernel { name: prepare_heads::NAME_D128, fields: prepare_heads::Args::FIELDS, waves: prepare_heads::WAVES },
    Kernel { name: prepare_heads::NAME_ROTATE_D64, fields: prepare_heads::Args::FIELDS, waves: prepare_heads::WAVES },
    Kernel { name: prepare_heads::NAME_ROTATE_D128, fields: prepare_heads::Args::FIELDS, waves: prepare_heads::WAVES },
    Kernel { name: attention::NAME_PLAIN_D64, fields: attention::Args::FIELDS, waves: attention::PLAIN_WAVES },
    Kernel { name: attention::NAME_PLAIN_D128, fields: attention::Args::FIELDS, waves: attention::PLAIN_WAVES },
    Kernel { name: attention::NAME_PREFILL_D64, fields: attention::Args::FIELDS, waves: attention::PREFILL_WAVES },
    Kernel { name: attention::NAME_PREFILL_D128, fields: attention::Args::FIELDS, waves: attention::PREFILL_WAVES },
    Kernel { name: attention::NAME_DECODE_D64, fields: attention::Args::FIELDS, waves: attention::DECODE_WAVES },
    Kernel { name: attention::NAME_DECODE_D128, fields: attention::Args::FIELDS, waves: attention::DECODE_WAVES },
    Kernel { name: swiglu::NAME, fields: swiglu::Args::FIELDS, waves: swiglu::WAVES },
    Kernel { name: residual_add::NAME, fields: residual_add::Args::FIELDS, waves: residual_add::WAVES },
    Kernel { name: argmax::NAME, fields: argmax::Args::FIELDS, waves: argmax::WAVES },
    Kernel { name: top_k::NAME_SLICES, fields: top_k::Args::FIELDS, waves: top_k::WAVES },
    Kernel { name: top_k::NAME_MERGE, fields: top_k::Args::FIELDS, waves: top_k::WAVES },
    Kernel { name: decode::NAME_ATTENTION_D64, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_ATTENTION_D128, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_MLP_D64, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_MLP_D128, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_HEAD_D64, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_HEAD_D128, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_PERSISTENT_D64, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_PERSISTENT_D128, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_ROTATED_ATTENTION_D64, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_ROTATED_ATTENTION_D128, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_ROTATED_PERSISTENT_D64, fields: decode::Args::FIELDS, waves: decode::WAVES },
    Kernel { name: decode::NAME_ROTATED_PERSISTENT_D128, fields: decode::Args::FIELDS, waves: decode::WAVES },
    decode::quantized(0, 0),
    decode::quantized(0, 1),
    decode::quantized(0, 2),
    decode::quantized(0, 3),
    decode::quantized(1, 0),
    decode::quantized(1, 1),
    decode::quantized(1, 2),
    decode::quantized(1, 3),
    decode::quantized(2, 0),
    decode::quantized(2, 1),
    decode::quantized(2, 2),
    decode::quantized(2, 3),
    decode::quantized(3, 0),
    decode::quantized(3, 1),
    decode::quantized(3, 2),
    decode::quantized(3, 3),
    decode::quantized(4, 0),
    decode::quantized(4, 1),
    decode::quantized(4, 2),
    decode::quantized(4, 3),
];
