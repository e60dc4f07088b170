//! The vector instructions of the machine that this runs on, found out at run time: AVX2 with FMA, AVX-512 for matrices, or whatever a
//! function is compiled for without asking. It decides only how lane loops are compiled, never what they compute. `pulp::Arch` is not
//! used because it has one switch for every loop in a build, and AVX-512 pays for matrices alone (EXP-0004).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m128i, __m256, __m256i};

/// Runs lane loops compiled for the best vectors there are.
#[derive(Debug, Clone, Copy)]
pub struct Arch {
    #[cfg(target_arch = "x86_64")]
    v3: Option<pulp::x86::V3>,
    #[cfg(target_arch = "x86_64")]
    v4: Option<pulp::x86::V4>,
}

impl Arch {
    /// Asks the machine.
    pub fn new() -> Arch {
        Arch {
            #[cfg(target_arch = "x86_64")]
            v3: pulp::x86::V3::try_new(),
            #[cfg(target_arch = "x86_64")]
            v4: pulp::x86::V4::try_new(),
        }
    }

    /// None of the machine's vectors, for what is not worth asking.
    pub fn portable() -> Arch {
        Arch {
            #[cfg(target_arch = "x86_64")]
            v3: None,
            #[cfg(target_arch = "x86_64")]
            v4: None,
        }
    }

    /// AVX-512, where the machine has it.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn v4(self) -> Option<pulp::x86::V4> {
        self.v4
    }

    /// What each of 16 places reads: place p reads place `places[p]`.
    #[inline(always)]
    pub fn pick(self, row: &[u32; 16], places: &[u8; 16]) -> [u32; 16] {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = self.v3 {
            let v = simd.avx2;
            let [low, high]: [__m256i; 2] = bytemuck::cast(*row);
            let [first, second]: [[u8; 8]; 2] = bytemuck::cast(*places);
            let half = |places: [u8; 8]| {
                let places: [u64; 2] = [u64::from_le_bytes(places), 0];
                let places = v._mm256_cvtepu8_epi32(bytemuck::cast(places));
                // The permutation takes an index's low three bits; bit 3, moved to the sign, picks the half.
                let (low, high) =
                    (v._mm256_permutevar8x32_epi32(low, places), v._mm256_permutevar8x32_epi32(high, places));
                let picks_high = v._mm256_slli_epi32::<28>(places);
                let [low, high, picks_high] = [low, high, picks_high].map(bytemuck::cast::<__m256i, __m256>);
                bytemuck::cast::<__m256, [u32; 8]>(simd.avx._mm256_blendv_ps(low, high, picks_high))
            };
            return bytemuck::cast([half(first), half(second)]);
        }
        places.map(|place| row[place as usize & 15])
    }

    /// Eight rows of four as four columns of eight.
    #[inline(always)]
    pub fn columns(self, rows: [&[u32; 4]; 8]) -> [[u32; 8]; 4] {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = self.v3 {
            let pair = |i: usize| {
                let [low, high] = [rows[i], rows[i + 4]].map(|row| bytemuck::cast::<[u32; 4], __m128i>(*row));
                simd.avx2._mm256_inserti128_si256::<1>(simd.avx._mm256_castsi128_si256(low), high)
            };
            return transposed(simd, [pair(0), pair(1), pair(2), pair(3)]).map(bytemuck::cast::<__m256i, [u32; 8]>);
        }
        std::array::from_fn(|k| rows.map(|row| row[k]))
    }

    /// The way back.
    #[inline(always)]
    pub fn rows(self, columns: [&[u32; 8]; 4]) -> [[u32; 4]; 8] {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = self.v3 {
            let out = transposed(simd, columns.map(|column| bytemuck::cast::<[u32; 8], __m256i>(*column)));
            let [a, b, c, d] = out.map(bytemuck::cast::<__m256i, [[u32; 4]; 2]>);
            return [a[0], b[0], c[0], d[0], a[1], b[1], c[1], d[1]];
        }
        std::array::from_fn(|i| columns.map(|column| column[i]))
    }

    /// Runs `op`, a struct whose `call` is `inline(always)`: a closure would not be inlined into the function that is compiled for AVX2
    /// (EXP-0001).
    #[inline(always)]
    pub fn dispatch<Op: pulp::NullaryFnOnce>(self, op: Op) -> Op::Output {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = self.v3 {
            return simd.vectorize(op);
        }
        otherwise(op)
    }

    /// [`Arch::dispatch`] of what `make` makes. It is made apart for each way, so that on the way to AVX2 its fields stay in registers.
    #[inline(always)]
    pub fn dispatch_made<Op: pulp::NullaryFnOnce>(self, make: impl FnOnce() -> Op) -> Op::Output {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = self.v3 {
            return simd.vectorize(make());
        }
        otherwise(make())
    }
}

impl Default for Arch {
    fn default() -> Arch {
        Arch::new()
    }
}

/// Not inlined: where it is, what it needs is set up for the loops that do not need it.
#[inline(never)]
fn otherwise<Op: pulp::NullaryFnOnce>(op: Op) -> Op::Output {
    op.call()
}

/// The transpose of four rows of four in each half.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transposed(simd: pulp::x86::V3, [a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let v = simd.avx2;
    let (low_ab, low_cd) = (v._mm256_unpacklo_epi32(a, b), v._mm256_unpacklo_epi32(c, d));
    let (high_ab, high_cd) = (v._mm256_unpackhi_epi32(a, b), v._mm256_unpackhi_epi32(c, d));
    [
        v._mm256_unpacklo_epi64(low_ab, low_cd),
        v._mm256_unpackhi_epi64(low_ab, low_cd),
        v._mm256_unpacklo_epi64(high_ab, high_cd),
        v._mm256_unpackhi_epi64(high_ab, high_cd),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_reads_the_one_it_names() {
        let row: [u32; 16] = std::array::from_fn(|i| 100 + i as u32);
        for turn in 0..64u8 {
            let places: [u8; 16] =
                std::array::from_fn(|p| (p as u8).wrapping_mul(2 * turn + 1).wrapping_add(turn) & 15);
            let want = places.map(|place| 100 + place as u32);
            for arch in [Arch::new(), Arch::portable()] {
                assert_eq!(arch.pick(&row, &places), want, "{places:?}");
            }
        }
    }

    #[test]
    fn columns_and_rows_are_each_others_way_back() {
        let rows: [[u32; 4]; 8] = std::array::from_fn(|i| std::array::from_fn(|k| (10 * i + k) as u32));
        for arch in [Arch::new(), Arch::portable()] {
            let columns = arch.columns(rows.each_ref());
            for (k, column) in columns.iter().enumerate() {
                assert_eq!(*column, std::array::from_fn(|i| (10 * i + k) as u32), "column {k}");
            }
            assert_eq!(arch.rows(columns.each_ref()), rows);
        }
    }
}
