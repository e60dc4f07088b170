//! Where bytes lie that a lane loads, stores or changes: an allocation, LDS, a lane's scratch. Bounds have been checked; which
//! registers take part is [`super::memory_ops`].

use crate::arch::Arch;
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
    /// Four registers of all lanes from the 16 bytes of each at `base` plus its index, all multiples of 16.
    #[inline(always)]
    fn load_spread(&self, base: u64, indices: &Lanes, registers: &mut [Lanes; 4]) {
        self.load_all(&indices.map(|index| base.wrapping_add(index as u64)), registers);
    }
    /// The way back, lanes in ascending order.
    #[inline(always)]
    fn store_spread(&mut self, base: u64, indices: &Lanes, registers: &[Lanes; 4]) {
        self.store_all(&indices.map(|index| base.wrapping_add(index as u64)), registers);
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
        // Register by register: neighbouring stores share a line of the cache, and two of them are written in a cycle.
        for k in 0..N {
            for lane in 0..32 {
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
    fn load_all<const N: usize>(&self, at: &[u64; 32], registers: &mut [Lanes; N]) {
        // As a row, eight lanes at a time.
        let (eights, _) = at.as_chunks::<8>();
        for (eight, at) in eights.iter().enumerate() {
            let Some(rows) = each_of_eight(at, |at| self.0.words_at::<N>(at)) else {
                for (lane, &at) in at.iter().enumerate() {
                    for (register, word) in registers.iter_mut().zip(self.load_words::<N>(at)) {
                        register[8 * eight + lane] = word;
                    }
                }
                continue;
            };
            for k in 0..N {
                for lane in 0..8 {
                    registers[k][8 * eight + lane] = rows[lane][k].load(Relaxed);
                }
            }
        }
    }
    #[inline(always)]
    fn load_spread(&self, base: u64, indices: &Lanes, registers: &mut [Lanes; 4]) {
        let fours = self.0.fours();
        let (eights, _) = indices.as_chunks::<8>();
        for (eight, indices) in eights.iter().enumerate() {
            let mut rows = [&fours[0]; 8];
            for (row, &index) in rows.iter_mut().zip(indices) {
                *row = &fours[(base.wrapping_add(index as u64) / 16) as usize];
            }
            for k in 0..4 {
                for lane in 0..8 {
                    registers[k][8 * eight + lane] = rows[lane][k].load(Relaxed);
                }
            }
        }
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

/// What `find` gives for each of eight addresses, if it gives something for all of them.
#[inline(always)]
fn each_of_eight<T: Copy>(at: &[u64; 8], find: impl Fn(u64) -> Option<T>) -> Option<[T; 8]> {
    let mut found = [find(at[0])?; 8];
    for lane in 1..8 {
        found[lane] = find(at[lane])?;
    }
    Some(found)
}

/// Dwords of one thread: LDS (stride 1), or one lane's scratch (every 32nd dword from the lane's first).
pub(crate) struct Words<'a> {
    pub words: &'a mut [u32],
    pub stride: usize,
    pub first: usize,
    pub arch: Arch,
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
    /// N dwords at a byte offset, where they lie side by side.
    #[inline(always)]
    fn words_at<const N: usize>(&self, at: u64) -> Option<&[u32; N]> {
        if at & 3 != 0 || self.stride != 1 {
            return None;
        }
        self.words.get((at >> 2) as usize..)?.first_chunk()
    }
    /// The same, to write.
    #[inline(always)]
    fn words_at_mut<const N: usize>(&mut self, at: u64) -> Option<&mut [u32; N]> {
        if at & 3 != 0 || self.stride != 1 {
            return None;
        }
        self.words.get_mut((at >> 2) as usize..)?.first_chunk_mut()
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
        if let Some(&words) = self.words_at::<N>(at) {
            return words;
        }
        let mut words = [0; N];
        for (k, word) in words.iter_mut().enumerate() {
            *word = self.load32(at + 4 * k as u64);
        }
        words
    }
    #[inline(always)]
    fn load_row<const N: usize>(&self, at: u64, registers: &mut [Lanes; N]) -> bool {
        let Some(row) = self.row::<N>(at).and_then(|range| self.words.get(range)) else { return false };
        if N == 4 {
            let (eights, _) = row.as_chunks::<4>().0.as_chunks::<8>();
            for (eight, rows) in eights.iter().enumerate().take(4) {
                for (register, column) in registers.iter_mut().zip(self.arch.columns(rows.each_ref())) {
                    register.as_chunks_mut::<8>().0[eight] = column;
                }
            }
            return true;
        }
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
        let (eights, _) = at.as_chunks::<8>();
        for (eight, at) in eights.iter().enumerate() {
            if N == 4
                && let Some(rows) = each_of_eight(at, |at| self.words_at::<4>(at))
            {
                for (register, column) in registers.iter_mut().zip(self.arch.columns(rows)) {
                    register.as_chunks_mut::<8>().0[eight] = column;
                }
                continue;
            }
            for (lane, &at) in at.iter().enumerate() {
                for (register, word) in registers.iter_mut().zip(self.load_words::<N>(at)) {
                    register[8 * eight + lane] = word;
                }
            }
        }
    }
    #[inline(always)]
    fn store_all<const N: usize>(&mut self, at: &[u64; 32], registers: &[Lanes; N]) {
        let (eights, _) = at.as_chunks::<8>();
        for (eight, at) in eights.iter().enumerate() {
            let mut rows = [[0; N]; 8];
            if N == 4 {
                let columns = std::array::from_fn(|k| &registers[k % N].as_chunks::<8>().0[eight]);
                for (row, four) in rows.iter_mut().zip(self.arch.rows(columns)) {
                    row.copy_from_slice(&four);
                }
            } else {
                for (lane, row) in rows.iter_mut().enumerate() {
                    *row = std::array::from_fn(|k| registers[k][8 * eight + lane]);
                }
            }
            for (row, &at) in rows.iter().zip(at) {
                if let Some(words) = self.words_at_mut::<N>(at) {
                    *words = *row;
                    continue;
                }
                for (k, &word) in row.iter().enumerate() {
                    self.store32(at + 4 * k as u64, word);
                }
            }
        }
    }
    #[inline(always)]
    fn load_spread(&self, base: u64, indices: &Lanes, registers: &mut [Lanes; 4]) {
        let (fours, _) = self.words.as_chunks::<4>();
        let (eights, _) = indices.as_chunks::<8>();
        for (eight, indices) in eights.iter().enumerate() {
            let mut rows = [&fours[0]; 8];
            for (row, &index) in rows.iter_mut().zip(indices) {
                *row = &fours[(base.wrapping_add(index as u64) / 16) as usize];
            }
            for (register, column) in registers.iter_mut().zip(self.arch.columns(rows)) {
                register.as_chunks_mut::<8>().0[eight] = column;
            }
        }
    }
    #[inline(always)]
    fn store_spread(&mut self, base: u64, indices: &Lanes, registers: &[Lanes; 4]) {
        let (fours, _) = self.words.as_chunks_mut::<4>();
        let (eights, _) = indices.as_chunks::<8>();
        for (eight, indices) in eights.iter().enumerate() {
            let columns = std::array::from_fn(|k| &registers[k].as_chunks::<8>().0[eight]);
            for (row, &index) in self.arch.rows(columns).into_iter().zip(indices) {
                fours[(base.wrapping_add(index as u64) / 16) as usize] = row;
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
