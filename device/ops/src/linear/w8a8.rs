//! Matrix products of several tokens with both sides in 8 bits: int8 weights with a scale per row, activations rounded to i8 with a scale per
//! token and group of 64. One kernel rounds, the tiles of `tiles.rs` multiply: exact integer sums over a group, then f32.
//!
//! Why a group of 64: a step of the tiles is 64 bytes of a row, so that a group's sums are complete where a step ends. A scale for a whole row
//! would cost nothing there, but one large value of a row takes the others' bits (EXP-0038).

use amdgpu_target::Geometry;

use super::Tile;
use crate::contract::{Address, Kernel};

/// Values of an activation that share a scale.
pub const GROUP: u32 = 64;
const _: () = assert!(super::K_MULTIPLE.is_multiple_of(GROUP));

/// Rounds activations.
pub const NAME_QUANTIZE: &str = "quantize_bf16_i8";
/// Several tokens, by [`Tile::N64T64`] and [`Tile::N128T64`]: tiles of 128 × 128 would need their sums twice, as f32 and as integers, and a
/// wave has not as many registers.
pub const NAMES: [&str; 2] = ["linear_w8a8_n64_t64", "linear_w8a8_n128_t64"];

const QUANTIZE_WAVES: u32 = 4;
/// Values that one workgroup rounds: 8 per lane.
const QUANTIZE_SPAN: u32 = QUANTIZE_WAVES * 32 * 8;

/// What the kernel that rounds is told.
pub mod quantize {
    use crate::contract::{Address, args};

    args! {
        /// Arguments of [`super::NAME_QUANTIZE`].
        pub struct Args {
            /// `[T, K]` bf16, row-major.
            pub x: Address,
            /// `[T, K]` i8, row-major.
            pub codes: Address,
            /// `[K/64, T]` f32.
            pub scales: Address,
            /// T, at least 1.
            pub tokens: u32,
            /// K, a multiple of 64, at least 64.
            pub k: u32,
        }
    }
}

crate::contract::args! {
    /// Arguments of [`NAMES`].
    pub struct Args {
        /// `[N, K]` i8, row-major; 16-byte aligned.
        pub codes: Address,
        /// `[N]` f32; 4-byte aligned.
        pub scales: Address,
        /// `[T, K]` i8, row-major; 16-byte aligned.
        pub x: Address,
        /// `[K/64, T]` f32; 4-byte aligned.
        pub x_scales: Address,
        /// `[T, N]` f32, row-major.
        pub y: Address,
        /// T, at least 1.
        pub tokens: u32,
        /// N, at least 1; not a multiple of anything.
        pub n: u32,
        /// K, a multiple of 64, at least 64.
        pub k: u32,
    }
    pad pad
}

/// Bytes of the codes of `[tokens, k]` and, from there on, of their scales.
pub const fn bytes(tokens: u64, k: u64) -> [u64; 2] {
    [tokens * k, tokens * (k / GROUP as u64) * 4]
}

/// Geometry of [`NAME_QUANTIZE`]; x carries T because it may pass 65 535.
pub const fn geometry_quantize(tokens: u32, k: u32) -> Geometry {
    Geometry { workgroups: [tokens, k.div_ceil(QUANTIZE_SPAN), 1], waves: QUANTIZE_WAVES, lds_bytes: 0 }
}

/// The kernel for `tokens` tokens and a weight of `n` rows, and its geometry.
pub const fn choose(tokens: u32, n: u32) -> (&'static str, Geometry) {
    match Tile::choose(tokens, n) {
        Tile::N64T64 => (NAMES[0], geometry(Tile::N64T64, tokens, n)),
        Tile::N128T64 | Tile::N128T128 => (NAMES[1], geometry(Tile::N128T64, tokens, n)),
    }
}

/// Geometry of the kernel of a tile, which is one of [`NAMES`]: two LDS stages of 64 bytes of each row.
pub const fn geometry(tile: Tile, tokens: u32, n: u32) -> Geometry {
    let Geometry { workgroups, waves, .. } = super::geometry_tile(tile, tokens, n);
    Geometry { workgroups, waves, lds_bytes: 2 * (tile.n() + tile.t()) * GROUP }
}

pub(crate) const KERNEL_QUANTIZE: Kernel = Kernel::new(NAME_QUANTIZE, quantize::Args::FIELDS, QUANTIZE_WAVES);

pub(crate) const fn tile(tile: usize) -> Kernel {
    Kernel::new(NAMES[tile], Args::FIELDS, super::TILE_WAVES)
}

#[cfg(gpu)]
mod kernels {
    use core::marker::PhantomData;

    use amdgpu_target::gpu::{
        B64, B128, INTEGERS, group_max_u32, item_idx, load, rcp, store, unpack_bf16, workgroup_x, workgroup_y,
    };

    use super::super::multiply::Bytes;
    use super::super::outputs::{scale_rows, write};
    use super::super::tiles::product;
    use super::{GROUP, QUANTIZE_SPAN};
    use crate::format::{Bf16, Int8, Matrix};

    /// Largest magnitude of a code: both signs have it.
    const MOST: f32 = 127.0;
    /// Groups of smaller numbers become zeros: their 127th parts are too near to the end of f32.
    const LEAST: f32 = 1e-30;

    /// Activations to 8 bits: scale[t,g] = max |x[t,g]| / 127, q[t,k] = round(x[t,k] / scale[t,g])
    ///
    /// Input      x `[T, K]` bf16 row-major; K a multiple of 64; T ≥ 1
    /// Output     codes `[T, K]` i8 in −127 … 127, scales `[K/64, T]` f32, all written; overlap nothing
    /// Numerics   q within 0.5 + 2⁻¹⁴ of x / scale; groups below 1e-30 are zeros; a NaN or an infinity makes its group's scale one; oracle::w8a8
    /// Workgroup  4 waves × 32 lanes; grid = [T, ceil(K / 1024)]
    /// Wave       wave32; 8 lanes are a group; lanes past K leave, 8 at a time
    /// LDS        0 B
    /// Registers  budget 32 VGPR, 0 spills
    /// Memory     16 B read and 8 B written per lane, consecutive; one scale per 8 lanes; bytes = 3·T·K + 4·T·K/64
    /// Sync       none
    /// Target     gfx1201; expects `global_load_b128`, `v_rcp_f32`
    /// Why        the same rounded activations serve two or three matrices, and a product of 16 384 outputs needs each of them 128 times
    ///
    /// # Safety
    /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned (scales: 4).  2. Launched with `geometry_quantize(T, K)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "gpu-kernel" fn quantize_bf16_i8(
        x: *const u16,
        codes: *mut u8,
        scales: *mut f32,
        tokens: u32,
        k: u32,
    ) {
        let (token, at) = (workgroup_x(), workgroup_y() * QUANTIZE_SPAN + item_idx() * 8);
        if at >= k {
            return;
        }
        let index = (token as usize * k as usize + at as usize) / 8;
        // SAFETY: the token is below T, at + 8 ≤ K, both multiples of 8: point 1.
        let words = unsafe { load(x.cast::<B128>(), index) }.words().map(unpack_bf16);
        let x: [f32; 8] = core::array::from_fn(|e| words[e / 2][e % 2]);
        // As whole numbers, magnitudes are in order, infinity behind all numbers and NaN behind that: neither is passed over.
        let own = x.iter().fold(0, |most, x| x.abs().to_bits().max(most));
        let most = f32::from_bits(group_max_u32::<{ GROUP / 8 }>(own));
        // By a quarter: the reciprocal of what is nearly infinite would be subnormal, and lost.
        let factor = if (LEAST..f32::INFINITY).contains(&most) { MOST * 0.25 * rcp(most * 0.25) } else { 0.0 };
        let bytes: [u32; 8] = core::array::from_fn(|e| (x[e] * factor + INTEGERS).to_bits() & 0xff);
        let word = |i: usize| bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 | bytes[i + 3] << 24;
        // SAFETY: as the load; each piece belongs to one lane.
        unsafe { store(codes.cast::<B64>(), index, B64::new([word(0), word(4)])) };
        if at % GROUP == 0 {
            let scale = (at / GROUP) as usize * tokens as usize + token as usize;
            // SAFETY: a group and a token of the table: point 1; its first lane alone writes it.
            unsafe { store(scales, scale, most * (1.0 / MOST)) };
        }
    }

    /// Defines the kernels of one matrix: name, FN, FT, PW, PX, AHEAD.
    macro_rules! kernels {
        ($($(#[$doc:meta])* $name:ident: $fn:literal, $ft:literal, $pw:literal, $px:literal, $ahead:literal;)*) => {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// 1. The pointers hold what *Input* and *Output* say, 16-byte aligned, scales 4.  2. Launched with `geometry(tile, T, N)` of its tile.
            #[unsafe(no_mangle)]
            pub unsafe extern "gpu-kernel" fn $name(
                codes: *const u8,
                scales: *const f32,
                x: *const u8,
                x_scales: *const f32,
                y: *mut f32,
                tokens: u32,
                n: u32,
                k: u32,
            ) {
                let (n0, t0) = (workgroup_x() * ($fn * 32), workgroup_y() * ($ft * 32));
                let scales = scales.cast();
                let w = Matrix::<Int8> { codes: codes.cast(), scales, minimums: scales, k, group_log2: 0, format: PhantomData };
                let w = w.from_row(n0);
                // Stages hold bytes as they are: to whoever brings them, half as many bf16.
                let raw = Matrix::<Bf16>::bf16(w.codes.cast(), k / 2);
                let x = x.cast::<B128>().wrapping_add(t0 as usize * (k as usize / 16));
                let bytes = Bytes { scales: x_scales.wrapping_add(t0 as usize), stride: tokens, tokens: tokens - t0 };
                // SAFETY: n0 < N and t0 < T by the grid, what is left of both is passed on; rows of K bytes are K/2 bf16, a multiple of 32;
                // K/64 steps have scales: points 1 and 2.
                let mut acc = unsafe {
                    product::<Bf16, Bytes, $fn, $ft, 4, $pw, $px, $ahead, false>([raw, raw], n - n0, x, tokens - t0, bytes)
                };
                // SAFETY: `w` has as many rows: point 1.
                unsafe { scale_rows(&mut acc, w, n - n0) };
                let y = y.wrapping_add(t0 as usize * n as usize + n0 as usize);
                // SAFETY: the same corner of y; tiles do not overlap.
                unsafe { write(&acc, y, tokens - t0, n - n0, n) };
            }
        )*};
    }

    kernels! {
        /// Matrix product of bytes by tiles of 64 × 64: y[t,n] = scale[n] · Σ_g scale[t,g] · Σ_(k in g) qx[t,k] · qw[n,k], g of 64
        ///
        /// Input      codes `[N, K]` i8, scales `[N]` f32; x `[T, K]` i8, x_scales `[K/64, T]` f32; K a multiple of 64; N, T ≥ 1
        /// Output     y `[T, N]` f32, every element written; overlaps nothing
        /// Numerics   sums of a group exact; one f32 FMA per group in order of k, the row's scale at the end; oracle::w8a8, Tolerance LINEAR
        /// Workgroup  4 waves × 32 lanes, 2 × 2 fragments each; grid = [ceil(N / 64), ceil(T / 64)]
        /// Wave       wave32; all lanes live throughout, rows past N or T are read as the last one and not stored
        /// LDS        16 384 B: two stages of 128 rows × 64 B
        /// Registers  budget 144 VGPR, 0 spills: 32 of accumulators, 16 of integer sums, 32 on their way, 32 of fragments
        /// Memory     16 B per lane, 4 lanes on 64 consecutive bytes; W read ceil(T / 64) times, x ceil(N / 64) times, from L2 where it fits
        /// Sync       one barrier per 64 of K
        /// Target     gfx1201; expects `v_wmma_i32_16x16x16_iu8`, `ds_load_b128`, `ds_store_b128`, `global_load_b128`
        /// Why        a matrix instruction of bytes takes half the cycles of one of bf16 and its operands half of LDS (EXP-0038)
        linear_w8a8_n64_t64: 2, 2, 2, 2, 2;

        /// As `linear_w8a8_n64_t64` by tiles of 128 × 64: a wave has 4 × 2 fragments.
        ///
        /// Workgroup  4 waves; grid = [ceil(N / 128), ceil(T / 64)]
        /// LDS        24 576 B
        /// Registers  budget 240 VGPR (6 waves per SIMD, of which LDS lets 5 in), 0 spills: 64 of accumulators, 64 of integer sums, 48 on their
        ///            way, 48 of fragments
        linear_w8a8_n128_t64: 4, 2, 4, 2, 2;
    }
}
