//! The operations of a forward pass, one file each: contract, kernel names, arguments, geometry, kernel. It knows shapes and dtypes,
//! no model, no buffers and no launch. In the order a token meets them: [`embed`]; per layer [`rmsnorm`], [`linear`] (q, k, v),
//! [`bias_add`] or [`head_norm`], [`rope`], [`kv_append`], [`attention`], [`linear`] (o), [`residual_add`], [`rmsnorm`], [`linear`] (gate, up),
//! [`swiglu`], [`linear`] (down), [`residual_add`]; at the end [`rmsnorm`], [`linear`] (lm_head), [`argmax`] or [`top_k`].
//! Several tokens take several of these at once: [`linear::qkv`], [`prepare_heads`] (both norms, where there are any, rotations and the append),
//! [`linear::gated`] (gate, up, SwiGLU), and products that add to the residual stream.
//! [`decode`] is all of it for one token, fused. [`format`] says what the codes of quantized weights mean, [`kv_formats`] what
//! those of a KV cache do, and has the kernels that write one; [`attention::formats`] has those that read it.
//!
//! Dtypes: residual stream and outputs of matrix products f32; inputs of matrix products, weights and KV cache bf16, or codes; logits f32.
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
pub mod kv_formats;
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
    Kernel::new(embed::NAME, embed::Args::FIELDS, embed::WAVES),
    embed::quantized::kernel(0),
    embed::quantized::kernel(1),
    embed::quantized::kernel(2),
    embed::quantized::kernel(3),
    embed::quantized::kernel(4),
    embed::quantized::kernel(5),
    embed::quantized::kernel(6),
    embed::quantized::kernel(7),
    embed::quantized::kernel(8),
    Kernel::new(rmsnorm::NAME_WAVE, rmsnorm::Args::FIELDS, rmsnorm::ROWS),
    Kernel::new(rmsnorm::NAME_WORKGROUP, rmsnorm::Args::FIELDS, rmsnorm::WAVES),
    Kernel::new(linear::NAME_PLAIN, linear::Args::FIELDS, linear::PLAIN_WAVES),
    Kernel::new(linear::NAME_GEMV, linear::Args::FIELDS, linear::GEMV_WAVES),
    Kernel::new(linear::NAME_WMMA, linear::Args::FIELDS, linear::WMMA_WAVES),
    Kernel::new(linear::NAMES_TILE[0], linear::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::NAMES_TILE[1], linear::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::NAMES_TILE[2], linear::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::NAMES_ADD[0], linear::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::NAMES_ADD[1], linear::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::NAMES_ADD[2], linear::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::qkv::NAME_N128_T64, linear::qkv::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::qkv::NAME_N128_T128, linear::qkv::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::gated::NAME_N128_T64, linear::gated::Args::FIELDS, linear::TILE_WAVES),
    Kernel::new(linear::gated::NAME_N128_T128, linear::gated::Args::FIELDS, linear::TILE_WAVES),
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
    linear::quantized::plain(5),
    linear::quantized::gemv(5),
    linear::quantized::plain(6),
    linear::quantized::gemv(6),
    linear::quantized::plain(7),
    linear::quantized::gemv(7),
    linear::quantized::plain(8),
    linear::quantized::gemv(8),
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
    linear::quantized::tile(5, 0),
    linear::quantized::tile(5, 1),
    linear::quantized::tile(5, 2),
    linear::quantized::tile(6, 0),
    linear::quantized::tile(6, 1),
    linear::quantized::tile(6, 2),
    linear::quantized::tile(7, 0),
    linear::quantized::tile(7, 1),
    linear::quantized::tile(7, 2),
    linear::quantized::tile(8, 0),
    linear::quantized::tile(8, 1),
    linear::quantized::tile(8, 2),
    linear::w8a8::KERNEL_QUANTIZE,
    linear::w8a8::tile(0),
    linear::w8a8::tile(1),
    Kernel::new(bias_add::NAME, bias_add::Args::FIELDS, bias_add::WAVES),
    Kernel::new(head_norm::NAME_D64, head_norm::Args::FIELDS, head_norm::WAVES),
    Kernel::new(head_norm::NAME_D128, head_norm::Args::FIELDS, head_norm::WAVES),
    Kernel::new(rope::NAME_D64, rope::Args::FIELDS, rope::WAVES),
    Kernel::new(rope::NAME_D128, rope::Args::FIELDS, rope::WAVES),
    Kernel::new(kv_append::NAME, kv_append::Args::FIELDS, kv_append::WAVES),
    Kernel::new(prepare_heads::NAME_D64, prepare_heads::Args::FIELDS, prepare_heads::WAVES),
    Kernel::new(prepare_heads::NAME_D128, prepare_heads::Args::FIELDS, prepare_heads::WAVES),
    Kernel::new(prepare_heads::NAME_ROTATE_D64, prepare_heads::Args::FIELDS, prepare_heads::WAVES),
    Kernel::new(prepare_heads::NAME_ROTATE_D128, prepare_heads::Args::FIELDS, prepare_heads::WAVES),
    Kernel::new(attention::NAME_PLAIN_D64, attention::Args::FIELDS, attention::PLAIN_WAVES),
    Kernel::new(attention::NAME_PLAIN_D128, attention::Args::FIELDS, attention::PLAIN_WAVES),
    Kernel::new(attention::NAME_PREFILL_D64, attention::Args::FIELDS, attention::PREFILL_WAVES),
    Kernel::new(attention::NAME_PREFILL_D128, attention::Args::FIELDS, attention::PREFILL_WAVES),
    Kernel::new(attention::NAME_DECODE_D64, attention::Args::FIELDS, attention::DECODE_WAVES),
    Kernel::new(attention::NAME_DECODE_D128, attention::Args::FIELDS, attention::DECODE_WAVES),
    Kernel::new(kv_formats::append::NAME_D64, kv_formats::append::Args::FIELDS, kv_formats::append::WAVES),
    Kernel::new(kv_formats::append::NAME_D128, kv_formats::append::Args::FIELDS, kv_formats::append::WAVES),
    Kernel::new(kv_formats::prepare::NAME_D64, kv_formats::prepare::Args::FIELDS, kv_formats::prepare::WAVES),
    Kernel::new(kv_formats::prepare::NAME_D128, kv_formats::prepare::Args::FIELDS, kv_formats::prepare::WAVES),
    Kernel::new(attention::formats::NAME_PLAIN_D64, attention::formats::Args::FIELDS, attention::PLAIN_WAVES),
    Kernel::new(attention::formats::NAME_PLAIN_D128, attention::formats::Args::FIELDS, attention::PLAIN_WAVES),
    Kernel::new(attention::formats::NAME_PREFILL_D64, attention::formats::Args::FIELDS, attention::PREFILL_WAVES),
    Kernel::new(attention::formats::NAME_PREFILL_D128, attention::formats::Args::FIELDS, attention::PREFILL_WAVES),
    Kernel::new(attention::formats::NAME_DECODE_D64, attention::formats::Args::FIELDS, attention::DECODE_WAVES),
    Kernel::new(attention::formats::NAME_DECODE_D128, attention::formats::Args::FIELDS, attention::DECODE_WAVES),
    Kernel::new(swiglu::NAME, swiglu::Args::FIELDS, swiglu::WAVES),
    Kernel::new(residual_add::NAME, residual_add::Args::FIELDS, residual_add::WAVES),
    Kernel::new(argmax::NAME, argmax::Args::FIELDS, argmax::WAVES),
    Kernel::new(top_k::NAME_SLICES, top_k::Args::FIELDS, top_k::WAVES),
    Kernel::new(top_k::NAME_MERGE, top_k::Args::FIELDS, top_k::WAVES),
    decode::kernel(decode::NAME_ATTENTION_D64),
    decode::kernel(decode::NAME_ATTENTION_D128),
    decode::kernel(decode::NAME_MLP_D64),
    decode::kernel(decode::NAME_MLP_D128),
    decode::kernel(decode::NAME_HEAD_D64),
    decode::kernel(decode::NAME_HEAD_D128),
    decode::kernel(decode::NAME_PERSISTENT_D64),
    decode::kernel(decode::NAME_PERSISTENT_D128),
    decode::kernel(decode::NAME_ROTATED_ATTENTION_D64),
    decode::kernel(decode::NAME_ROTATED_ATTENTION_D128),
    decode::kernel(decode::NAME_ROTATED_PERSISTENT_D64),
    decode::kernel(decode::NAME_ROTATED_PERSISTENT_D128),
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
    decode::mixed(0),
    decode::mixed(1),
    decode::mixed(2),
    decode::mixed(3),
];
