//! The scales or the minimums of a stored matrix, as numbers. What they are multiplied with is the business of `decode` and of a backend.

use std::ops::Range;

use half::{f16, slice::HalfFloatSliceExt};

use super::{SUPERBLOCK, Scales, Scheme};

/// Numbers `[N, groups of a row]` where they are stored: by rows, by groups, or in two levels.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    scales: Scales,
    bytes: &'a [u8],
    row_bytes: usize,
    per_row: usize,
}

impl<'a> Table<'a> {
    /// Sees `bytes`, whole rows of a scheme's scales or minimums for `k` elements. Where they are read in place, they stand at even addresses.
    pub(super) fn new(scheme: Scheme, k: usize, bytes: &'a [u8]) -> Self {
        Self { scales: scheme.scales(), bytes, row_bytes: scheme.scale_row_bytes(k), per_row: scheme.scales_per_row(k) }
    }

    /// Whether there are no numbers in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of group `group` in row `row`; of a scheme by rows its only one.
    #[inline(always)]
    pub fn value(&self, row: usize, group: usize) -> f32 {
        let bytes = &self.bytes[row * self.row_bytes..][..self.row_bytes];
        let half = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32();
        match self.scales {
            Scales::None => 1.0,
            Scales::Rows => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Scales::Groups(_) => half(2 * group),
            Scales::Levels(size) => {
                let (in_block, record) = levels(size);
                let at = group / in_block * record;
                half(at) * f32::from(bytes[at + 2 + group % in_block] as i8)
            }
        }
    }

    /// The numbers of some groups of row `row`. In two levels they are those of whole blocks of 256 elements.
    #[inline(always)]
    pub fn read(&self, row: usize, groups: Range<usize>, out: &mut [f32]) {
        let bytes = &self.bytes[row * self.row_bytes..][..self.row_bytes];
        match self.scales {
            Scales::None | Scales::Rows => out.fill(self.value(row, 0)),
            Scales::Groups(_) => {
                let halves: &[f16] = bytemuck::cast_slice(&bytes[2 * groups.start..2 * groups.end]);
                halves.convert_to_f32_slice(out);
            }
            Scales::Levels(size) => {
                let (in_block, record) = levels(size);
                let records = bytes[groups.start / in_block * record..].chunks_exact(record);
                for (out, record) in out.chunks_exact_mut(in_block).zip(records) {
                    let upper = f16::from_le_bytes([record[0], record[1]]).to_f32();
                    out.iter_mut().zip(&record[2..]).for_each(|(out, lower)| *out = upper * f32::from(*lower as i8));
                }
            }
        }
    }

    /// Index and value of the first number that is infinite or none.
    pub fn first_not_finite(&self) -> Option<(usize, f32)> {
        let rows = self.bytes.len() / self.row_bytes.max(1);
        let all = (0..rows).flat_map(|row| (0..self.per_row).map(move |group| (row, group)));
        let mut values = all.map(|(row, group)| (row * self.per_row + group, self.value(row, group)));
        values.find(|(_, value)| !value.is_finite())
    }
}

/// Groups of `size` elements that share an upper level, and the bytes of their record.
#[inline(always)]
fn levels(size: usize) -> (usize, usize) {
    (SUPERBLOCK / size, 2 + SUPERBLOCK / size)
}
