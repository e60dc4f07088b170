//! Matrix products with quantized weights: y = x·Wᵀ, activations bf16, codes and scales as docs/QUANTIZATION.md lays them out. The kernels'
//! bodies are those of bf16; what codes mean is in `format.rs`. No kernel here knows a whole row decoded: scales are applied to sums.

use amdgpu_target::Geometry;

use super::Tile;
use crate::contract::{Address, Kernel, args};
use crate::format::Stored;

args! {
    /// Arguments of all kernels of this file.
    pub struct Args {
        /// Codes of `[N, K]`, row-major; 16-byte aligned.
        pub codes: Address,
        /// f32 `[N]`, f16 `[N, K/G]` or records of two levels `[N, K/256]`; 4-byte aligned.
        pub scales: Address,
        /// As scales of groups, for formats with minimums; others do not read it.
        pub minimums: Address,
        /// `[T, K]` bf16, row-major.
        pub x: Address,
        /// `[T, N]` f32, row-major.
        pub y: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// N, at least 1; not a multiple of anything.
        pub n: u32,
        /// K, a multiple of 64 and of G, of 256 where scales have two levels, at least 64.
        pub k: u32,
        /// log2 G: 5, 6 or 7, of two levels 4 or 5; not used where a row has one scale.
        pub group_log2: u32,
    }
}

/// The kernels of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// The format.
    pub stored: Stored,
    /// First rung, any T: one lane per output; geometry as [`super::geometry_plain`].
    pub plain: &'static str,
    /// Any T, W once per token; geometry as [`super::geometry_gemv`].
    pub gemv: &'static str,
    /// Several tokens, by [`Tile`] in its order; geometry as [`super::geometry_tile`].
    pub tiles: [&'static str; 3],
}

/// All formats but bf16.
pub const NAMES: [Names; 9] = [
    Names {
        stored: Stored::Int8,
        plain: "linear_int8_plain",
        gemv: "linear_int8_gemv",
        tiles: ["linear_int8_n64_t64", "linear_int8_n128_t64", "linear_int8_n128_t128"],
    },
    Names {
        stored: Stored::Int8Group,
        plain: "linear_int8g_plain",
        gemv: "linear_int8g_gemv",
        tiles: ["linear_int8g_n64_t64", "linear_int8g_n128_t64", "linear_int8g_n128_t128"],
    },
    Names {
        stored: Stored::Int4,
        plain: "linear_int4_plain",
        gemv: "linear_int4_gemv",
        tiles: ["linear_int4_n64_t64", "linear_int4_n128_t64", "linear_int4_n128_t128"],
    },
    Names {
        stored: Stored::Int4Minimum,
        plain: "linear_int4m_plain",
        gemv: "linear_int4m_gemv",
        tiles: ["linear_int4m_n64_t64", "linear_int4m_n128_t64", "linear_int4m_n128_t128"],
    },
    Names {
        stored: Stored::Fp8,
        plain: "linear_fp8_plain",
        gemv: "linear_fp8_gemv",
        tiles: ["linear_fp8_n64_t64", "linear_fp8_n128_t64", "linear_fp8_n128_t128"],
    },
    Names {
        stored: Stored::Int8Minimum,
        plain: "linear_int8m_plain",
        gemv: "linear_int8m_gemv",
        tiles: ["linear_int8m_n64_t64", "linear_int8m_n128_t64", "linear_int8m_n128_t128"],
    },
    Names {
        stored: Stored::Int8Levels,
        plain: "linear_int8k_plain",
        gemv: "linear_int8k_gemv",
        tiles: ["linear_int8k_n64_t64", "linear_int8k_n128_t64", "linear_int8k_n128_t128"],
    },
    Names {
        stored: Stored::Int8MinimumLevels,
        plain: "linear_int8mk_plain",
        gemv: "linear_int8mk_gemv",
        tiles: ["linear_int8mk_n64_t64", "linear_int8mk_n128_t64", "linear_int8mk_n128_t128"],
    },
    Names {
        stored: Stored::Int4MinimumLevels,
        plain: "linear_int4mk_plain",
        gemv: "linear_int4mk_gemv",
        tiles: ["linear_int4mk_n64_t64", "linear_int4mk_n128_t64", "linear_int4mk_n128_t128"],
    },
];

/// The kernels of a format; `None` for bf16, whose arguments are others.
pub fn names(stored: Stored) -> Option<&'static Names> {
    NAMES.iter().find(|names| names.stored == stored)
}

pub(crate) const fn plain(index: usize) -> Kernel {
    Kernel::new(NAMES[index].plain, Args::FIELDS, super::PLAIN_WAVES)
}

pub(crate) const fn gemv(index: usize) -> Kernel {
    Kernel::new(NAMES[index].gemv, Args::FIELDS, super::GEMV_WAVES)
}

pub(crate) const fn tile(index: usize, tile: usize) -> Kernel {
    Kernel::new(NAMES[index].tiles[tile], Args::FIELDS, super::TILE_WAVES)
}

impl Names {
    /// The kernel that takes `tokens` tokens and a weight of `n` rows, and its geometry.
    pub const fn choose(&self, tokens: u32, n: u32) -> (&'static str, Geometry) {
        if tokens < super::WMMA_FROM_TOKENS {
            return (self.gemv, super::geometry_gemv(tokens, n));
        }
        let tile = Tile::choose(tokens, n);
        (self.tiles[tile as usize], super::geometry_tile(tile, tokens, n))
    }
}

#[cfg(gpu)]
mod kernel {
    use core::marker::PhantomData;

    use super::super::{gemv::gemv, plain::plain, tiles::tile};
    use crate::format::{
        Fp8, Int4, Int4Minimum, Int4MinimumLevels, Int8, Int8Group, Int8Levels, Int8Minimum, Int8MinimumLevels, Matrix,
    };

    /// Defines the kernels of one matrix: name, and the body with its format and numbers.
    macro_rules! kernels {
        ($($(#[$doc:meta])* $name:ident: $body:ident::<$format:ident $(, $number:literal)*>;)*) => {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned, scales 4.  2. Launched with the geometry of its name in [`super::Names`].
            #[unsafe(no_mangle)]
            pub unsafe extern "gpu-kernel" fn $name(
                codes: *const u8,
                scales: *const u16,
                minimums: *const u16,
                x: *const u16,
                y: *mut f32,
                tokens: u32,
                n: u32,
                k: u32,
                group_log2: u32,
            ) {
                let codes = codes.cast();
                let w = Matrix { codes, scales, minimums, k, group_log2, format: PhantomData };
                // SAFETY: points 1 and 2.
                unsafe { $body::<$format $(, $number)*>(w, x, y, [tokens, n]) };
            }
        )*};
    }

    kernels! {
        /// Matrix product with int8 weights, plain: y[t,n] = scale[n] · Σ_k x[t,k] · q[n,k]
        ///
        /// Input      codes `[N, K]` i8, scales `[N]` f32; x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
        /// Output     y `[T, N]` f32, every element written; overlaps nothing
        /// Numerics   codes and products exact, f32 sum in order of k, the scale once at the end; oracle::quantized, Tolerance LINEAR
        /// Workgroup, Wave, LDS, Sync   as `linear_bf16_plain`; `geometry_plain`
        /// Registers  budget 48 VGPR, 0 spills
        /// Memory     16 B per lane of codes, lanes K B apart: each wave reads 32 lines at once, W again for each token
        /// Target     gfx1201; expects `global_load_b128`
        /// Why        it can be read at a glance; the baseline
        linear_int8_plain: plain::<Int8, 2>;

        /// Matrix product with int8 weights by groups, plain: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · q[n,k]
        ///
        /// As `linear_int8_plain`; scales `[N, K/G]` f16, applied to the sum of 16 products.
        linear_int8g_plain: plain::<Int8Group, 2>;

        /// Matrix product with int4 weights, plain: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · (q[n,k] − 8)
        ///
        /// As `linear_int8_plain`; codes as nibbles, scales `[N, K/G]` f16, applied to the sum of 32 products.
        linear_int4_plain: plain::<Int4, 4>;

        /// Matrix product with int4m weights, plain: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · q[n,k] + minimum[n,g] · Σ_(k in g) x[t,k]
        ///
        /// As `linear_int4_plain`; minimums `[N, K/G]` f16.
        linear_int4m_plain: plain::<Int4Minimum, 4>;

        /// Matrix product with fp8 weights, plain: y[t,n] = scale[n] · Σ_k x[t,k] · value(code[n,k])
        ///
        /// As `linear_int8_plain`; codes OCP e4m3fn, products exact.
        linear_fp8_plain: plain::<Fp8, 2>;

        /// Matrix product with int8m weights, plain: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · q[n,k] + minimum[n,g] · Σ_(k in g) x[t,k]
        ///
        /// As `linear_int8g_plain`; minimums `[N, K/G]` f16.
        linear_int8m_plain: plain::<Int8Minimum, 2>;

        /// Matrix product with int8k weights, plain: y[t,n] = Σ_g d[n,b] · s[n,g] · Σ_(k in g) x[t,k] · q[n,k], b the 256 elements that g is of
        ///
        /// As `linear_int8g_plain`; scales records of two levels, d f16 and s i8, their product exact; K a multiple of 256, G 16 or 32.
        linear_int8k_plain: plain::<Int8Levels, 2>;

        /// Matrix product with int8mk weights, plain: as `linear_int8m_plain`, scales and minimums as those of `linear_int8k_plain`.
        linear_int8mk_plain: plain::<Int8MinimumLevels, 2>;

        /// Matrix product with int4mk weights, plain: as `linear_int4m_plain`, scales and minimums as those of `linear_int8k_plain`, G 32.
        linear_int4mk_plain: plain::<Int4MinimumLevels, 4>;

        /// Matrix product with int8 weights, GEMV: y[t,n] = scale[n] · Σ_k x[t,k] · q[n,k]
        ///
        /// Input      codes `[N, K]` i8, scales `[N]` f32; x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
        /// Output     y `[T, N]` f32, every element written; overlaps nothing
        /// Numerics   codes and products exact; each lane sums its elements in f32, then a fixed tree over the lanes, then the scale;
        ///            oracle::quantized, Tolerance LINEAR
        /// Workgroup, Wave, LDS, Sync   as `linear_bf16_gemv`; `geometry_gemv`
        /// Registers  budget 96 VGPR (16 waves per SIMD), 0 spills: 8 loads of W and 4 of x in flight
        /// Memory     16 B of codes per lane, consecutive lanes consecutive, 8 loads of W in flight, each byte read once; bytes = N·K + 4·N +
        ///            2·T·K + 4·T·N
        /// Target     gfx1201; expects `global_load_b128`, `v_permlanex16_b32`
        /// Why        half the bytes of bf16 (EXP-0032)
        linear_int8_gemv: gemv::<Int8, 2>;

        /// Matrix product with int8 weights by groups, GEMV: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · q[n,k]
        ///
        /// As `linear_int8_gemv`; scales `[N, K/G]` f16, one load beside each load of codes, applied to the sum of a lane's 16 products.
        linear_int8g_gemv: gemv::<Int8Group, 2>;

        /// Matrix product with int4 weights, GEMV: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · (q[n,k] − 8)
        ///
        /// As `linear_int8g_gemv`; codes as nibbles, a lane's 32 products before the scale; bytes = N·K/2 + 2·N·K/G + 2·T·K + 4·T·N
        ///
        /// Registers  budget 144 VGPR (10 waves per SIMD), 0 spills: 8 loads of W and 8 of x in flight
        linear_int4_gemv: gemv::<Int4, 4>;

        /// Matrix product with int4m weights, GEMV: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · q[n,k] + minimum[n,g] · Σ_(k in g) x[t,k]
        ///
        /// As `linear_int4_gemv`; minimums `[N, K/G]` f16; the sums of x are shared by the wave's four rows. Budget 120 VGPR.
        linear_int4m_gemv: gemv::<Int4Minimum, 4>;

        /// Matrix product with fp8 weights, GEMV: y[t,n] = scale[n] · Σ_k x[t,k] · value(code[n,k])
        ///
        /// As `linear_int8_gemv`; codes OCP e4m3fn; expects `v_cvt_pk_f32_fp8`.
        linear_fp8_gemv: gemv::<Fp8, 2>;

        /// Matrix product with int8m weights, GEMV: y[t,n] = Σ_g scale[n,g] · Σ_(k in g) x[t,k] · q[n,k] + minimum[n,g] · Σ_(k in g) x[t,k]
        ///
        /// As `linear_int8g_gemv`; minimums `[N, K/G]` f16; the sums of x are shared by the wave's four rows. Budget 96 VGPR.
        linear_int8m_gemv: gemv::<Int8Minimum, 2>;

        /// Matrix product with int8k weights, GEMV: y[t,n] = Σ_g d[n,b] · s[n,g] · Σ_(k in g) x[t,k] · q[n,k], b the 256 elements that g is of
        ///
        /// As `linear_int8g_gemv`; scales records of two levels, d f16 and s i8, loaded beside the codes and multiplied exactly when they are
        /// needed; K a multiple of 256, G 16 or 32; bytes = N·K + N·K/256·(2 + 256/G) + 2·T·K + 4·T·N. Budget 96 VGPR.
        linear_int8k_gemv: gemv::<Int8Levels, 2>;

        /// Matrix product with int8mk weights, GEMV: as `linear_int8m_gemv`, scales and minimums as those of `linear_int8k_gemv`. Budget 144 VGPR.
        linear_int8mk_gemv: gemv::<Int8MinimumLevels, 2>;

        /// Matrix product with int4mk weights, GEMV: as `linear_int4m_gemv`, scales and minimums as those of `linear_int8k_gemv`, G 32. Budget
        /// 144 VGPR.
        linear_int4mk_gemv: gemv::<Int4MinimumLevels, 4>;
    }

    // Numbers of a tile: FN, FT, PIECES, PW, PX, AHEAD, and that it adds to nothing.
    kernels! {
        /// Matrix product with int8 weights by tiles of 64 × 64: y[t,n] = scale[n] · Σ_k x[t,k] · q[n,k]
        ///
        /// Input      codes `[N, K]` i8, scales `[N]` f32; x `[T, K]` bf16 row-major; K a multiple of 64; N, T ≥ 1
        /// Output     y `[T, N]` f32, every element written; overlaps nothing
        /// Numerics   codes exact in bf16, products exact, f32 accumulate in an unpublished order, the scale at the end; oracle::quantized,
        ///            Tolerance LINEAR
        /// Workgroup, Wave, Sync   as `linear_bf16_n64_t64`
        /// LDS        32 768 B: two stages of 128 rows × 128 B, bf16
        /// Registers  budget 168 VGPR, 0 spills
        /// Memory     16 B of codes per lane, 4 lanes on 64 consecutive bytes; codes read ceil(T / 64) times
        /// Target     gfx1201; expects `v_wmma_f32_16x16x16_bf16`, `ds_load_b128`, `ds_store_b128`, `global_load_b128`
        /// Why        codes become bf16 on their way into LDS, once for four waves: 3 operations per element, 6 where groups have scales, 1.4 of
        ///            fp8 (EXP-0032)
        linear_int8_n64_t64: tile::<Int8, 2, 2, 8, 2, 4, 2, false>;

        /// As `linear_int8_n64_t64` by tiles of 128 × 64, otherwise as `linear_bf16_n128_t64`.
        linear_int8_n128_t64: tile::<Int8, 4, 2, 4, 2, 2, 2, false>;

        /// As `linear_int8_n64_t64` by tiles of 128 × 128, otherwise as `linear_bf16_n128_t128`.
        linear_int8_n128_t128: tile::<Int8, 4, 4, 4, 2, 4, 1, false>;

        /// As `linear_int8_n64_t64`, int8 by groups: y[t,n] = Σ_k x[t,k] · bf16(scale[n,g] · q[n,k])
        ///
        /// Numerics   each weight rounded once to bf16, then as `linear_bf16_n64_t64`; oracle::quantized, Tolerance LINEAR_GROUPS
        linear_int8g_n64_t64: tile::<Int8Group, 2, 2, 8, 2, 4, 2, false>;

        /// As `linear_int8g_n64_t64` by tiles of 128 × 64.
        linear_int8g_n128_t64: tile::<Int8Group, 4, 2, 4, 2, 2, 2, false>;

        /// As `linear_int8g_n64_t64` by tiles of 128 × 128.
        linear_int8g_n128_t128: tile::<Int8Group, 4, 4, 4, 2, 4, 1, false>;

        /// As `linear_int8g_n64_t64`, int4: y[t,n] = Σ_k x[t,k] · bf16(scale[n,g] · (q[n,k] − 8)); a lane's load is 32 elements of a row.
        linear_int4_n64_t64: tile::<Int4, 2, 2, 8, 1, 4, 2, false>;

        /// As `linear_int4_n64_t64` by tiles of 128 × 64.
        linear_int4_n128_t64: tile::<Int4, 4, 2, 4, 1, 2, 2, false>;

        /// As `linear_int4_n64_t64` by tiles of 128 × 128.
        linear_int4_n128_t128: tile::<Int4, 4, 4, 4, 1, 4, 1, false>;

        /// As `linear_int4_n64_t64`, int4m: y[t,n] = Σ_k x[t,k] · bf16(scale[n,g] · q[n,k] + minimum[n,g])
        linear_int4m_n64_t64: tile::<Int4Minimum, 2, 2, 8, 1, 4, 2, false>;

        /// As `linear_int4m_n64_t64` by tiles of 128 × 64.
        linear_int4m_n128_t64: tile::<Int4Minimum, 4, 2, 4, 1, 2, 2, false>;

        /// As `linear_int4m_n64_t64` by tiles of 128 × 128.
        linear_int4m_n128_t128: tile::<Int4Minimum, 4, 4, 4, 1, 4, 1, false>;

        /// As `linear_int8_n64_t64`, fp8: y[t,n] = scale[n] · Σ_k x[t,k] · value(code[n,k])
        linear_fp8_n64_t64: tile::<Fp8, 2, 2, 8, 2, 4, 2, false>;

        /// As `linear_fp8_n64_t64` by tiles of 128 × 64.
        linear_fp8_n128_t64: tile::<Fp8, 4, 2, 4, 2, 2, 2, false>;

        /// As `linear_fp8_n64_t64` by tiles of 128 × 128.
        linear_fp8_n128_t128: tile::<Fp8, 4, 4, 4, 2, 4, 1, false>;

        /// As `linear_int8g_n64_t64`, int8m: y[t,n] = Σ_k x[t,k] · bf16(scale[n,g] · q[n,k] + minimum[n,g])
        linear_int8m_n64_t64: tile::<Int8Minimum, 2, 2, 8, 2, 4, 2, false>;

        /// As `linear_int8m_n64_t64` by tiles of 128 × 64.
        linear_int8m_n128_t64: tile::<Int8Minimum, 4, 2, 4, 2, 2, 2, false>;

        /// As `linear_int8m_n64_t64` by tiles of 128 × 128.
        linear_int8m_n128_t128: tile::<Int8Minimum, 4, 4, 4, 2, 4, 1, false>;

        /// As `linear_int8g_n64_t64`, int8k: y[t,n] = Σ_k x[t,k] · bf16(d[n,b] · s[n,g] · q[n,k]); K a multiple of 256
        linear_int8k_n64_t64: tile::<Int8Levels, 2, 2, 8, 2, 4, 2, false>;

        /// As `linear_int8k_n64_t64` by tiles of 128 × 64.
        linear_int8k_n128_t64: tile::<Int8Levels, 4, 2, 4, 2, 2, 2, false>;

        /// As `linear_int8k_n64_t64` by tiles of 128 × 128.
        linear_int8k_n128_t128: tile::<Int8Levels, 4, 4, 4, 2, 4, 1, false>;

        /// As `linear_int8k_n64_t64`, int8mk: minimums of two levels as well
        linear_int8mk_n64_t64: tile::<Int8MinimumLevels, 2, 2, 8, 2, 4, 2, false>;

        /// As `linear_int8mk_n64_t64` by tiles of 128 × 64.
        linear_int8mk_n128_t64: tile::<Int8MinimumLevels, 4, 2, 4, 2, 2, 2, false>;

        /// As `linear_int8mk_n64_t64` by tiles of 128 × 128.
        linear_int8mk_n128_t128: tile::<Int8MinimumLevels, 4, 4, 4, 2, 4, 1, false>;

        /// As `linear_int4m_n64_t64`, int4mk: scales and minimums of two levels; K a multiple of 256
        linear_int4mk_n64_t64: tile::<Int4MinimumLevels, 2, 2, 8, 1, 4, 2, false>;

        /// As `linear_int4mk_n64_t64` by tiles of 128 × 64.
        linear_int4mk_n128_t64: tile::<Int4MinimumLevels, 4, 2, 4, 1, 2, 2, false>;

        /// As `linear_int4mk_n64_t64` by tiles of 128 × 128.
        linear_int4mk_n128_t128: tile::<Int4MinimumLevels, 4, 4, 4, 1, 4, 1, false>;
    }
}
