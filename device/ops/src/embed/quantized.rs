//! Embedding gather from a quantized table: rows come out as their codes times their scales, in f32.

use amdgpu_target::Geometry;

use crate::contract::{Address, Kernel, args};
use crate::format::Stored;

args! {
    /// Arguments of all kernels of this file.
    pub struct Args {
        /// `[T]` u32, each below the table's rows; 4-byte aligned.
        pub ids: Address,
        /// Codes of `[V, H]`, row-major; 16-byte aligned.
        pub codes: Address,
        /// f32 `[V]`, f16 `[V, H/G]` or records of two levels `[V, H/256]`; 4-byte aligned.
        pub scales: Address,
        /// As scales of groups, for formats with minimums; others do not read it.
        pub minimums: Address,
        /// `[T, H]` f32.
        pub out: Address,
        /// H, a multiple of 64 and of G, of 256 where scales have two levels.
        pub hidden: u32,
        /// log2 G: 5, 6 or 7, of two levels 4 or 5; not used where a row has one scale.
        pub group_log2: u32,
    }
}

/// The kernel of each format but bf16.
pub const NAMES: [(Stored, &str); 9] = [
    (Stored::Int8, "embed_int8"),
    (Stored::Int8Group, "embed_int8g"),
    (Stored::Int4, "embed_int4"),
    (Stored::Int4Minimum, "embed_int4m"),
    (Stored::Fp8, "embed_fp8"),
    (Stored::Int8Minimum, "embed_int8m"),
    (Stored::Int8Levels, "embed_int8k"),
    (Stored::Int8MinimumLevels, "embed_int8mk"),
    (Stored::Int4MinimumLevels, "embed_int4mk"),
];

/// The kernel of a format; `None` for bf16, whose arguments are others.
pub fn name(stored: Stored) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == stored).map(|(_, name)| *name)
}

/// One workgroup per token and as much of its row as 128 lanes read at 16 bytes each.
pub const fn geometry(stored: Stored, tokens: u32, hidden: u32) -> Geometry {
    super::geometry_of(stored, tokens, hidden)
}

pub(crate) const fn kernel(index: usize) -> Kernel {
    Kernel::new(NAMES[index].1, Args::FIELDS, super::WAVES)
}

#[cfg(gpu)]
mod kernels {
    use core::marker::PhantomData;

    use super::super::kernel::gather;
    use crate::format::{
        Fp8, Int4, Int4Minimum, Int4MinimumLevels, Int8, Int8Group, Int8Levels, Int8Minimum, Int8MinimumLevels, Matrix,
    };

    macro_rules! kernels {
        ($($(#[$doc:meta])* $name:ident: $format:ty;)*) => {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned (ids and scales: 4), and every id is below V.
            /// 2. Launched with `geometry(format, T, H)`.
            #[unsafe(no_mangle)]
            pub unsafe extern "gpu-kernel" fn $name(
                ids: *const u32,
                codes: *const u8,
                scales: *const u16,
                minimums: *const u16,
                out: *mut f32,
                hidden: u32,
                group_log2: u32,
            ) {
                let codes = codes.cast();
                let table = Matrix::<$format> { codes, scales, minimums, k: hidden, group_log2, format: PhantomData };
                // SAFETY: points 1 and 2.
                unsafe { gather(ids, table, out) };
            }
        )*};
    }

    kernels! {
        /// Embedding gather from int8: out[t,i] = scale[ids[t]] · q[ids[t],i]
        ///
        /// Input      ids `[T]` u32 < V; codes `[V, H]` i8 row-major, scales `[V]` f32; H a multiple of 64
        /// Output     out `[T, H]` f32, every element written; overlaps nothing
        /// Numerics   one rounding: what docs/QUANTIZATION.md decodes to, in f32
        /// Workgroup  4 waves × 32 lanes; grid = [T, ceil(H / 2048)]; x carries T because it may pass 65 535
        /// Wave       wave32; lanes past H leave
        /// LDS        0 B
        /// Registers  budget 32 VGPR, 0 spills
        /// Memory     16 B read and 64 B written per lane, consecutive lanes consecutive
        /// Sync       none: no data crosses lanes
        /// Target     gfx1201; expects `global_load_b128`, `global_store_b128`
        /// Why        plain; a pass spends well under 1 % here
        embed_int8: Int8;

        /// Embedding gather from int8 by groups, as `embed_int8`; scales `[V, H/G]` f16, exact.
        embed_int8g: Int8Group;

        /// Embedding gather from int4, as `embed_int8g`; out[t,i] = scale · (q − 8), exact; a lane writes 128 B, grid =
        /// [T, ceil(H / 4096)], budget 48 VGPR.
        embed_int4: Int4;

        /// Embedding gather from int4m, as `embed_int4`; out[t,i] = scale · q + minimum, rounded once.
        embed_int4m: Int4Minimum;

        /// Embedding gather from fp8, as `embed_int8`; out[t,i] = scale[ids[t]] · value(code).
        embed_fp8: Fp8;

        /// Embedding gather from int8m, as `embed_int8g`; out[t,i] = scale · q + minimum, rounded once.
        embed_int8m: Int8Minimum;

        /// Embedding gather from int8k, as `embed_int8g`; scales records of two levels, out[t,i] = d · s · q, rounded once.
        embed_int8k: Int8Levels;

        /// Embedding gather from int8mk, as `embed_int8m`; scales and minimums as the scales of `embed_int8k`.
        embed_int8mk: Int8MinimumLevels;

        /// Embedding gather from int4mk, as `embed_int4m`; scales and minimums as the scales of `embed_int8k`.
        embed_int4mk: Int4MinimumLevels;
    }
}
