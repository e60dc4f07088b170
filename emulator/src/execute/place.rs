//! Where bytes lie that a lane loads, stores or changes: an allocation, LDS, a lane's scratch. Bounds have been checked; which
//! registers take part is [`super::memory_ops`].

use crate::memory::Region;
use crate::wave::Lanes;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that one lane may address, after bounds were checked.
pub trait Place {
    /// A byte.
    fn load8(&self, at: u64) -> u32;
    /// Two bytes.
    fn load16(&self, at: u64) -> u32;
    /// Four bytes.
    fn load32(&self, at: u64) -> u32;
    /// N times four bytes.
    #[inline(always)]
    fn load_words<const N: usize>(&self, at: u64) -> [u32; N] {
        let mut words = [0; N];
        for (k, word) in words.iter_mut().enumerate() {
            *word = self.load32(at + 4 * k as u64);
        }
        words
    }
    /// Stores a byte.
    fn store8(&mut self, at: u64, value: u32);
    /// Stores two bytes.
    fn store16(&mut self, at: u64, value: u32);
    /// Stores four bytes.
    fn store32(&mut self, at: u64, value: u32);
    /// N registers of all lanes from 32 · N consecutive dwords, a lane's N together; false, and nothing done, where that has no short way.
    #[inline(always)]
    fn load_row<const N: usize>(&self, _at: u64, _registers: &mut [Lanes; N]) -> bool {
        false
    }
    /// The way back.
    #[inline(always)]
    fn store_row<const N: usize>(&mut self, _at: u64, _registers: &[Lanes; N]) -> bool {
        false
    }
    /// N registers of all lanes from N dwords of each.
    #[inline(always)]
    fn load_all<const N: usize>(&self, at: &[u64; 32], registers: &mut [Lanes; N]) {
        for (lane, &at) in at.iter().enumerate() {
            for (register, word) in registers.iter_mut().zip(self.load_words::<N>(at)) {
                register[lane] = word;
            }
        }
    }
    /// The way back, lanes in ascending order.
    #[inline(always)]
    fn store_all<const N: usize>(&mut self, at: &[u64; 32], registers: &[Lanes; N]) {
        for (lane, &at) in at.iter().enumerate() {
            for (k, register) in registers.iter().enumerate() {
                self.store32(at + 4 * k as u64, register[lane]);
            }
        }
    }
    /// Read-modify-write of an aligned dword; returns the old value.
    fn modify32(&mut self, at: u64, f: impl FnMut(u32) -> u32) -> u32;
    /// Read-modify-write of an aligned qword; returns the old value.
    fn modify64(&mut self, at: u64, f: impl FnOnce(u64) -> u64) -> u64;
}

/// Global memory, by offset into one allocation.
pub(super) struct Global<'a>(pub &'a Region);

impl Place for Global<'_> {
    #[inline(always)]
    fn load8(&self, at: u64) -> u32 {
        self.0.load8(at) as u32
    }
    #[inline(always)]
    fn load16(&self, at: u64) -> u32 {
        self.0.load16(at) as u32
    }
    #[inline(always)]
    fn load32(&self, at: u64) -> u32 {
        self.0.load32(at)
    }
    #[inline(always)]
    fn load_words<const N: usize>(&self, at: u64) -> [u32; N] {
        self.0.load_words(at)
    }
    #[inline(always)]
    fn load_row<const N: usize>(&self, at: u64, registers: &mut [Lanes; N]) -> bool {
        let Some(row) = self.0.row::<N>(at) else { return false };
        for lane in 0..32 {
            for k in 0..N {
                registers[k][lane] = row[lane][k].load(Relaxed);
            }
        }
        true
    }
    #[inline(always)]
    fn store_row<const N: usize>(&mut self, at: u64, registers: &[Lanes; N]) -> bool {
        let Some(row) = self.0.row::<N>(at) else { return false };
        for lane in 0..32 {
            for k in 0..N {
                row[lane][k].store(registers[k][lane], Relaxed);
            }
        }
        true
    }
    #[inline(always)]
    fn store8(&mut self, at: u64, value: u32) {
        self.0.store8(at, value as u8);
    }
    #[inline(always)]
    fn store16(&mut self, at: u64, value: u32) {
        self.0.store16(at, value as u16);
    }
    #[inline(always)]
    fn store32(&mut self, at: u64, value: u32) {
        self.0.store32(at, value);
    }
    fn modify32(&mut self, at: u64, f: impl FnMut(u32) -> u32) -> u32 {
        self.0.atomic32(at, f)
    }
    fn modify64(&mut self, at: u64, f: impl FnOnce(u64) -> u64) -> u64 {
        self.0.atomic64(at, f)
    }
}

/// Dwords of one thread: LDS (stride 1), or one lane's scratch (every 32nd dword from the lane's first).
pub(crate) struct Words<'a> {
    pub words: &'a mut [u32],
    pub stride: usize,
    pub first: usize,
}

impl Words<'_> {
    #[inline(always)]
    fn word(&self, at: u64) -> u32 {
        self.words[(at >> 2) as usize * self.stride + self.first]
    }
    #[inline(always)]
    fn word_mut(&mut self, at: u64) -> &mut u32 {
        &mut self.words[(at >> 2) as usize * self.stride + self.first]
    }
    /// Where 32 · N consecutive dwords lie, if they do.
    #[inline(always)]
    fn row<const N: usize>(&self, at: u64) -> Option<std::ops::Range<usize>> {
        let first = (at >> 2) as usize;
        (at & 3 == 0 && self.stride == 1).then_some(first..first + 32 * N)
    }
    #[inline(always)]
    fn merge(&mut self, at: u64, mask: u32, value: u32) {
        let shift = (at & 3) * 8;
        let word = self.word_mut(at);
        *word = *word & !(mask << shift) | (value & mask) << shift;
    }
}

impl Place for Words<'_> {
    #[inline(always)]
    fn load8(&self, at: u64) -> u32 {
        self.word(at) >> ((at & 3) * 8) & 0xff
    }
    #[inline(always)]
    fn load16(&self, at: u64) -> u32 {
        if at & 3 == 3 {
            return self.load8(at) | self.load8(at + 1) << 8;
        }
        self.word(at) >> ((at & 3) * 8) & 0xffff
    }
    #[inline(always)]
    fn load32(&self, at: u64) -> u32 {
        let shift = (at & 3) as u32 * 8;
        let low = self.word(at);
        if shift == 0 { low } else { low >> shift | self.word(at + 4) << (32 - shift) }
    }
    #[inline(always)]
    fn load_words<const N: usize>(&self, at: u64) -> [u32; N] {
        let mut words = [0; N];
        let first = (at >> 2) as usize;
        if at & 3 == 0
            && self.stride == 1
            && let Some(from) = self.words.get(first..first + N)
        {
            words.copy_from_slice(from);
            return words;
        }
        for (k, word) in words.iter_mut().enumerate() {
            *word = self.load32(at + 4 * k as u64);
        }
        words
    }
    #[inline(always)]
    fn load_row<const N: usize>(&self, at: u64, registers: &mut [Lanes; N]) -> bool {
        let Some(row) = self.row::<N>(at).and_then(|range| self.words.get(range)) else { return false };
        let (row, _) = row.as_chunks::<N>();
        for (lane, words) in row.iter().enumerate().take(32) {
            for k in 0..N {
                registers[k][lane] = words[k];
            }
        }
        true
    }
    #[inline(always)]
    fn store_row<const N: usize>(&mut self, at: u64, registers: &[Lanes; N]) -> bool {
        let Some(row) = self.row::<N>(at).and_then(|range| self.words.get_mut(range)) else { return false };
        let (row, _) = row.as_chunks_mut::<N>();
        for (lane, words) in row.iter_mut().enumerate().take(32) {
            for k in 0..N {
                words[k] = registers[k][lane];
            }
        }
        true
    }
    #[inline(always)]
    fn load_all<const N: usize>(&self, at: &[u64; 32], registers: &mut [Lanes; N]) {
        // A lane's dwords together first, then register by register: the second loop is shuffles.
        let mut rows = [[0; N]; 32];
        for (row, &at) in rows.iter_mut().zip(at) {
            *row = self.load_words::<N>(at);
        }
        for lane in 0..32 {
            for k in 0..N {
                registers[k][lane] = rows[lane][k];
            }
        }
    }
    #[inline(always)]
    fn store_all<const N: usize>(&mut self, at: &[u64; 32], registers: &[Lanes; N]) {
        let mut rows = [[0; N]; 32];
        for lane in 0..32 {
            for k in 0..N {
                rows[lane][k] = registers[k][lane];
            }
        }
        for (row, &at) in rows.iter().zip(at) {
            let first = (at >> 2) as usize;
            if at & 3 == 0
                && self.stride == 1
                && let Some(words) = self.words.get_mut(first..first + N)
            {
                words.copy_from_slice(row);
                continue;
            }
            for (k, &word) in row.iter().enumerate() {
                self.store32(at + 4 * k as u64, word);
            }
        }
    }
    #[inline(always)]
    fn store8(&mut self, at: u64, value: u32) {
        self.merge(at, 0xff, value);
    }
    #[inline(always)]
    fn store16(&mut self, at: u64, value: u32) {
        if at & 3 == 3 {
            self.store8(at, value);
            return self.store8(at + 1, value >> 8);
        }
        self.merge(at, 0xffff, value);
    }
    #[inline(always)]
    fn store32(&mut self, at: u64, value: u32) {
        if at & 3 == 0 {
            *self.word_mut(at) = value;
            return;
        }
        for i in 0..4 {
            self.store8(at + i, value >> (8 * i));
        }
    }
    fn modify32(&mut self, at: u64, mut f: impl FnMut(u32) -> u32) -> u32 {
        let word = self.word_mut(at);
        let old = *word;
        *word = f(old);
        old
    }
    fn modify64(&mut self, at: u64, f: impl FnOnce(u64) -> u64) -> u64 {
        let old = self.word(at) as u64 | (self.word(at + 4) as u64) << 32;
        let new = f(old);
        *self.word_mut(at) = new as u32;
        *self.word_mut(at + 4) = (new >> 32) as u32;
        old
    }
}
