//! How a matrix's elements are stored, and what its codes mean: the one place on the device that knows, with `form.rs`, for kernels
//! that learn it at run time. A row's codes are read 16 bytes at
//! a time and come out as exact f32; scales are read apart and applied by whoever multiplies. No kernel, no product.
//!
//! The layout is that of docs/QUANTIZATION.md. 16 bytes hold whole [`Format::PIECES`] of eight consecutive elements, so that each goes with one
//! 16-byte load of bf16 activations. A group has 32 elements at least, or 16 of a byte each: what one lane loads at once has one scale.

mod form;

pub use form::Form;

/// Scales and minimums begin at multiples of this.
pub const PART: u64 = 256;
/// Elements of a row that share the upper level of scales of two levels.
pub const SUPERBLOCK: u32 = 256;

/// How elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// bf16, no scales.
    Bf16,
    /// i8, an f32 scale per row.
    Int8,
    /// i8, an f16 scale per group.
    Int8Group,
    /// Nibbles around 8, an f16 scale per group.
    Int4,
    /// Nibbles, an f16 scale and an f16 minimum per group.
    Int4Minimum,
    /// OCP e4m3fn, an f32 scale per row.
    Fp8,
    /// i8, an f16 scale and an f16 minimum per group.
    Int8Minimum,
    /// i8, scales of two levels per group.
    Int8Levels,
    /// i8, scales and minimums of two levels per group.
    Int8MinimumLevels,
    /// Nibbles, scales and minimums of two levels per group.
    Int4MinimumLevels,
}

/// What scales a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// None.
    None,
    /// One f32.
    Row,
    /// An f16 per group.
    Group,
    /// An f16 per group, and as many minimums.
    GroupMinimum,
    /// Per [`SUPERBLOCK`] elements an f16, and behind it an i8 in units of that for each of their groups.
    Levels,
    /// The same, and as many minimums.
    LevelsMinimum,
}

impl Scales {
    /// Whether groups have scales: else the whole row has one, or none.
    pub const fn groups(self) -> bool {
        !matches!(self, Self::None | Self::Row)
    }

    /// Whether groups have minimums.
    pub const fn minimums(self) -> bool {
        matches!(self, Self::GroupMinimum | Self::LevelsMinimum)
    }

    /// Whether they have two levels.
    pub const fn levels(self) -> bool {
        matches!(self, Self::Levels | Self::LevelsMinimum)
    }

    /// Bytes of the scales of a row of `k` elements; its minimums take as many. `group_log2` is log2 of a group, not used where there are none.
    #[inline(always)]
    pub const fn row_bytes(self, k: u32, group_log2: u32) -> u64 {
        match self {
            Self::None => 0,
            Self::Row => 4,
            Self::Group | Self::GroupMinimum => (k >> group_log2) as u64 * 2,
            Self::Levels | Self::LevelsMinimum => (k / SUPERBLOCK * record_bytes(group_log2)) as u64,
        }
    }
}

/// Bytes of the scales of [`SUPERBLOCK`] elements in two levels.
#[inline(always)]
const fn record_bytes(group_log2: u32) -> u32 {
    2 + (SUPERBLOCK >> group_log2)
}

impl Stored {
    /// Bits of a code.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bf16 => 16,
            Self::Int8
            | Self::Int8Group
            | Self::Fp8
            | Self::Int8Minimum
            | Self::Int8Levels
            | Self::Int8MinimumLevels => 8,
            Self::Int4 | Self::Int4Minimum | Self::Int4MinimumLevels => 4,
        }
    }

    /// Elements in 16 bytes of codes: 8, 16 or 32.
    #[inline(always)]
    pub const fn elements(self) -> u32 {
        128 / self.bits()
    }

    /// Where scales and minimums of a matrix `[n, k]` begin and where it ends, in bytes from its first code: the object that
    /// docs/QUANTIZATION.md lays out. `group_log2` is log2 of a group, not used where there are none.
    #[inline(always)]
    pub const fn parts(self, n: u32, k: u32, group_log2: u32) -> [u64; 3] {
        let codes = n as u64 * (k as u64 * self.bits() as u64 / 8);
        if matches!(self.scales(), Scales::None) {
            return [codes; 3];
        }
        let table = n as u64 * self.scales().row_bytes(k, group_log2);
        let scales = codes.next_multiple_of(PART);
        if !self.scales().minimums() {
            return [scales, scales + table, scales + table];
        }
        let minimums = (scales + table).next_multiple_of(PART);
        [scales, minimums, minimums + table]
    }

    /// What scales a row has.
    #[inline(always)]
    pub const fn scales(self) -> Scales {
        match self {
            Self::Bf16 => Scales::None,
            Self::Int8 | Self::Fp8 => Scales::Row,
            Self::Int8Group | Self::Int4 => Scales::Group,
            Self::Int4Minimum | Self::Int8Minimum => Scales::GroupMinimum,
            Self::Int8Levels => Scales::Levels,
            Self::Int8MinimumLevels | Self::Int4MinimumLevels => Scales::LevelsMinimum,
        }
    }
}

#[cfg(gpu)]
mod device {
    use core::marker::PhantomData;

    use amdgpu_target::gpu::{
        B128, bf16x8_exact, bf16x8_number, f16_to_f32, fma, load, load_offset, unpack_bf16, unpack_fp8,
    };

    use super::{SUPERBLOCK, Scales, Stored, record_bytes};

    /// A way of storing elements, as a type.
    pub trait Format: Copy {
        /// Which.
        const STORED: Stored;
        /// Elements in 16 bytes of codes.
        const ELEMENTS: u32 = Self::STORED.elements();
        /// Pieces of eight elements in 16 bytes of codes: 1, 2 or 4.
        const PIECES: usize = Self::ELEMENTS as usize / 8;
        /// Whether a row's elements have scales of their own groups; else the whole row has one, or none.
        const GROUPS: bool = Self::STORED.scales().groups();
        /// Whether the whole row has a scale.
        const ROW_SCALES: bool = matches!(Self::STORED.scales(), Scales::Row);
        /// Whether groups have minimums.
        const MINIMUMS: bool = Self::STORED.scales().minimums();

        /// Elements 8·`piece` to 8·`piece` + 7 of those in `codes`, without scale: exact. `piece` is below [`Format::PIECES`].
        fn piece(codes: B128, piece: usize) -> [f32; 8];

        /// The same elements as bf16, for a matrix instruction: with the scale of their group, each rounded once, or exact and without scale
        /// where the whole row has one.
        #[inline(always)]
        fn bf16(codes: B128, piece: usize, scale: Scale) -> B128 {
            let elements = Self::piece(codes, piece);
            if Self::GROUPS {
                bf16x8_number(meant::<Self>(elements, scale, 1.0))
            } else {
                // Eight bits of mantissa hold them: the upper half of each is all there is.
                bf16x8_exact(elements)
            }
        }
    }

    /// [`Stored::Bf16`].
    #[derive(Clone, Copy)]
    pub struct Bf16;
    /// [`Stored::Int8`].
    #[derive(Clone, Copy)]
    pub struct Int8;
    /// [`Stored::Int8Group`].
    #[derive(Clone, Copy)]
    pub struct Int8Group;
    /// [`Stored::Int4`].
    #[derive(Clone, Copy)]
    pub struct Int4;
    /// [`Stored::Int4Minimum`].
    #[derive(Clone, Copy)]
    pub struct Int4Minimum;
    /// [`Stored::Fp8`].
    #[derive(Clone, Copy)]
    pub struct Fp8;
    /// [`Stored::Int8Minimum`].
    #[derive(Clone, Copy)]
    pub struct Int8Minimum;
    /// [`Stored::Int8Levels`].
    #[derive(Clone, Copy)]
    pub struct Int8Levels;
    /// [`Stored::Int8MinimumLevels`].
    #[derive(Clone, Copy)]
    pub struct Int8MinimumLevels;
    /// [`Stored::Int4MinimumLevels`].
    #[derive(Clone, Copy)]
    pub struct Int4MinimumLevels;

    impl Format for Bf16 {
        const STORED: Stored = Stored::Bf16;
        #[inline(always)]
        fn piece(codes: B128, _piece: usize) -> [f32; 8] {
            let words = codes.words().map(unpack_bf16);
            core::array::from_fn(|e| words[e / 2][e % 2])
        }
        #[inline(always)]
        fn bf16(codes: B128, _piece: usize, _scale: Scale) -> B128 {
            codes
        }
    }
    /// Formats that share the meaning of their codes.
    macro_rules! formats {
        ($piece:ident: $($format:ident)*) => {$(
            impl Format for $format {
                const STORED: Stored = Stored::$format;
                #[inline(always)]
                fn piece(codes: B128, piece: usize) -> [f32; 8] {
                    $piece(codes, piece)
                }
            }
        )*};
    }
    formats! { signed_bytes: Int8 Int8Group Int8Minimum Int8Levels Int8MinimumLevels }
    formats! { nibbles_around_8: Int4 }
    formats! { nibbles: Int4Minimum Int4MinimumLevels }
    formats! { floats: Fp8 }

    #[inline(always)]
    fn signed_bytes(codes: B128, piece: usize) -> [f32; 8] {
        let words = codes.words();
        core::array::from_fn(|e| {
            let word = words[2 * piece + e / 4];
            ((word << (24 - 8 * (e as u32 % 4))) as i32 >> 24) as f32
        })
    }

    #[inline(always)]
    fn nibbles_around_8(codes: B128, piece: usize) -> [f32; 8] {
        // q − 8 in two's complement is q with its highest bit turned: one operation for eight codes.
        each_nibble(codes, piece, |word, shift| (((word ^ 0x8888_8888) << (28 - shift)) as i32 >> 28) as f32)
    }

    #[inline(always)]
    fn nibbles(codes: B128, piece: usize) -> [f32; 8] {
        each_nibble(codes, piece, |word, shift| ((word >> (shift & 4) & 0x0f0f_0f0f) >> (shift & 24) & 0xff) as f32)
    }

    #[inline(always)]
    fn floats(codes: B128, piece: usize) -> [f32; 8] {
        let words = codes.words();
        let [a, b] = [words[2 * piece], words[2 * piece + 1]].map(unpack_fp8);
        core::array::from_fn(|e| if e < 4 { a[e] } else { b[e - 4] })
    }

    /// `value` of a word and the shift of each nibble: elements 0 to 15 are the low ones of the 16 bytes, 16 to 31 the high ones.
    #[inline(always)]
    fn each_nibble(codes: B128, piece: usize, value: impl Fn(u32, u32) -> f32) -> [f32; 8] {
        let words = codes.words();
        core::array::from_fn(|e| {
            let word = words[2 * (piece % 2) + e / 4];
            value(word, 8 * (e as u32 % 4) + 4 * (piece as u32 / 2))
        })
    }

    /// Elements as they are meant, each rounded once: codes with the scale of their group, or of their whole row.
    #[inline(always)]
    pub fn meant<F: Format>(codes: [f32; 8], of_group: Scale, of_row: f32) -> [f32; 8] {
        match F::STORED.scales() {
            Scales::None => codes,
            Scales::Row => codes.map(|q| q * of_row),
            Scales::Group | Scales::Levels => codes.map(|q| q * of_group.factor()),
            Scales::GroupMinimum | Scales::LevelsMinimum => {
                codes.map(|q| fma(q, of_group.factor(), of_group.minimum()))
            }
        }
    }

    /// A matrix `[N, K]` where it is stored.
    #[derive(Clone, Copy)]
    pub struct Matrix<F> {
        /// Codes, 16-byte aligned.
        pub codes: *const B128,
        /// f32 `[N]`, f16 `[N, K/G]` or records `[N, K/256]`; not read where the format has none.
        pub scales: *const u16,
        /// f16 `[N, K/G]` or records `[N, K/256]`; not read where the format has none.
        pub minimums: *const u16,
        /// K, a multiple of 64 and of G, and of [`SUPERBLOCK`] where scales have two levels.
        pub k: u32,
        /// log2 G: 5, 6 or 7, of two levels 4 or 5; not used where the format has no groups.
        pub group_log2: u32,
        /// The format.
        pub format: PhantomData<F>,
    }

    /// A row of a [`Matrix`].
    #[derive(Clone, Copy)]
    pub struct Row<F> {
        codes: *const B128,
        scales: *const u16,
        minimums: *const u16,
        group_log2: u32,
        format: PhantomData<F>,
    }

    /// What the elements of a group are multiplied with, and what is added to each, as loaded: f16 in plain bits and the lower level as it is, so
    /// that a load waits for nothing.
    #[derive(Clone, Copy)]
    pub struct Scale {
        factor: Number,
        minimum: Number,
    }

    /// A number of up to two levels.
    #[derive(Clone, Copy)]
    pub(super) struct Number {
        pub(super) upper: u16,
        pub(super) lower: i8,
    }

    impl Number {
        /// Of one level: what it is multiplied with is not there.
        pub(super) const ONE: i8 = 1;
        const NONE: Self = Self { upper: 0, lower: Self::ONE };

        /// The number at byte `at` of `table` and, of two levels, with the lower one at byte `lower`.
        ///
        /// # Safety
        /// 1. They are there.
        #[inline(always)]
        unsafe fn load(table: *const u16, [at, lower]: [u32; 2], levels: bool) -> Self {
            // SAFETY: point 1 is the caller's.
            let upper = unsafe { load_offset(table, at) };
            // SAFETY: as above.
            let lower = if levels { unsafe { load_offset(table.cast::<i8>(), lower) } } else { Self::ONE };
            Self { upper, lower }
        }

        /// Exact: 11 digits times 8.
        #[inline(always)]
        pub(super) fn value(self) -> f32 {
            f16_to_f32(self.upper) * f32::from(self.lower)
        }
    }

    impl Scale {
        /// Neither.
        pub const NONE: Self = Self { factor: Number::NONE, minimum: Number::NONE };

        /// That of the group of element `at` of a row whose scales begin at byte `row` of `scales`, and its minimums there of `minimums`.
        ///
        /// # Safety
        /// 1. Both hold what [`Matrix`] says.
        #[inline(always)]
        unsafe fn load<F: Format>(
            scales: *const u16,
            minimums: *const u16,
            row: u32,
            at: u32,
            group_log2: u32,
        ) -> Self {
            let levels = F::STORED.scales().levels();
            let places = if levels {
                let record = row + at / SUPERBLOCK * record_bytes(group_log2);
                [record, record + 2 + (at % SUPERBLOCK >> group_log2)]
            } else {
                [row + (at >> group_log2) * 2, 0]
            };
            // SAFETY: point 1 is the caller's.
            let load = |table| unsafe { Number::load(table, places, levels) };
            Self {
                factor: if F::GROUPS { load(scales) } else { Number::NONE },
                minimum: if F::MINIMUMS { load(minimums) } else { Number::NONE },
            }
        }

        /// The factor.
        #[inline(always)]
        pub fn factor(self) -> f32 {
            self.factor.value()
        }

        /// What is added after it; 0 but for formats with minimums.
        #[inline(always)]
        pub fn minimum(self) -> f32 {
            self.minimum.value()
        }
    }

    impl Matrix<Bf16> {
        /// A matrix of bf16.
        #[inline(always)]
        pub fn bf16(elements: *const u16, k: u32) -> Self {
            let codes = elements.cast();
            Self { codes, scales: elements, minimums: elements, k, group_log2: 0, format: PhantomData }
        }
    }

    impl<F: Format> Matrix<F> {
        /// The matrix whose object of `n` rows begins at `object`. Reads nothing.
        #[inline(always)]
        pub fn object(object: *const u8, n: u32, k: u32, group_log2: u32) -> Self {
            let [scales, minimums, _] = F::STORED.parts(n, k, group_log2);
            let part = |at: u64| object.wrapping_add(at as usize).cast();
            Self {
                codes: object.cast(),
                scales: part(scales),
                minimums: part(minimums),
                k,
                group_log2,
                format: PhantomData,
            }
        }

        /// The matrix from row `row` on. Reads nothing.
        #[inline(always)]
        pub fn from_row(self, row: u32) -> Self {
            let Row { codes, scales, minimums, .. } = self.row(row);
            Self { codes, scales, minimums, ..self }
        }

        /// Bytes from the first code of the matrix to the first of row `row`: for rows in the first 2³² bytes.
        #[inline(always)]
        pub fn codes_offset(&self, row: u32) -> u32 {
            row * (self.k / F::ELEMENTS * 16)
        }

        /// As [`Row::group`] of row `row`, whose scales lie in the first 2³² bytes: one 32-bit offset from a base that all lanes share.
        ///
        /// # Safety
        /// 1. The matrix holds what [`Matrix`] says, the row and the element `at` among it.
        #[inline(always)]
        pub unsafe fn group(&self, row: u32, at: u32) -> Scale {
            let row = row * F::STORED.scales().row_bytes(self.k, self.group_log2) as u32;
            // SAFETY: point 1 is the caller's.
            unsafe { Scale::load::<F>(self.scales, self.minimums, row, at, self.group_log2) }
        }

        /// Row `row`. Reads nothing.
        #[inline(always)]
        pub fn row(&self, row: u32) -> Row<F> {
            let row = row as usize;
            let scales = row * F::STORED.scales().row_bytes(self.k, self.group_log2) as usize;
            Row {
                codes: self.codes.wrapping_add(row * (self.k / F::ELEMENTS) as usize),
                scales: self.scales.wrapping_byte_add(scales),
                minimums: self.minimums.wrapping_byte_add(if F::MINIMUMS { scales } else { 0 }),
                group_log2: self.group_log2,
                format: PhantomData,
            }
        }
    }

    impl<F: Format> Row<F> {
        /// The codes of elements `at` to `at` + [`Format::ELEMENTS`] − 1; `at` is a multiple of that.
        ///
        /// # Safety
        /// 1. The row is one of a matrix that holds what [`Matrix`] says, and these elements lie below K.
        #[inline(always)]
        pub unsafe fn codes(self, at: u32) -> B128 {
            // SAFETY: point 1 is the caller's; 16 bytes of codes are ELEMENTS elements.
            unsafe { load_offset(self.codes, at / F::ELEMENTS * 16) }
        }

        /// Elements `at` to `at` + 7 as they are meant; `at` is a multiple of 8.
        ///
        /// # Safety
        /// 1. The row is one of a matrix that holds what [`Matrix`] says, and these elements lie below K.
        #[inline(always)]
        pub unsafe fn elements(self, at: u32) -> [f32; 8] {
            // SAFETY: point 1 is the caller's.
            let codes = unsafe { self.codes(at / F::ELEMENTS * F::ELEMENTS) };
            let mut elements = [0.0; 8];
            for piece in 0..F::PIECES {
                // A choice among values: an index that is not known would need memory.
                let these = F::piece(codes, piece);
                if at % F::ELEMENTS / 8 == piece as u32 {
                    elements = these;
                }
            }
            // SAFETY: as above.
            let (of_group, of_row) = unsafe { (self.group(at), self.scale()) };
            meant::<F>(elements, of_group, of_row)
        }

        /// Scale and minimum of the group of element `at`; 0 where the format has none.
        ///
        /// # Safety
        /// 1. The row is one of a matrix that holds what [`Matrix`] says, and `at` lies below K.
        #[inline(always)]
        pub unsafe fn group(self, at: u32) -> Scale {
            // SAFETY: point 1 is the caller's.
            unsafe { Scale::load::<F>(self.scales, self.minimums, 0, at, self.group_log2) }
        }

        /// The scale of the whole row; 1 where groups have theirs, or elements need none.
        ///
        /// # Safety
        /// 1. The row is one of a matrix that holds what [`Matrix`] says.
        #[inline(always)]
        pub unsafe fn scale(self) -> f32 {
            match F::STORED.scales() {
                // SAFETY: point 1 is the caller's; the scale of a row is an f32, 4-byte aligned.
                Scales::Row => unsafe { load(self.scales.cast::<f32>(), 0) },
                _ => 1.0,
            }
        }
    }
}

#[cfg(gpu)]
pub use device::{
    Bf16, Format, Fp8, Int4, Int4Minimum, Int4MinimumLevels, Int8, Int8Group, Int8Levels, Int8Minimum,
    Int8MinimumLevels, Matrix, Row, Scale, meant,
};
