//! Whether an access conflicts with those before it: one wave's access is compared with the shadow of the memory that it touches, cell
//! by cell, and entered there.

use super::order::{Clock, Segments};
use super::shadow::{CELL_BYTES, Record, Shade};
use std::collections::HashMap;

/// Segments whose order a wave keeps at hand.
const ASKED: usize = 8;

/// The order of segments that a wave has asked for. It stands until the wave waits or learns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    segments: [u32; ASKED],
    answers: [Order; ASKED],
}

impl Default for Asked {
    fn default() -> Asked {
        // Of nobody's segment.
        Asked { segments: [0; ASKED], answers: [Order::Before; ASKED] }
    }
}

/// How an access takes part that is atomic: a load by its scope.
pub(super) const ATOMIC_READ: u8 = 0;
/// A store by its scope, or a read-modify-write.
pub(super) const ATOMIC_WRITE: u8 = 1;

/// What else a location asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Its publication is to be learned.
    Learn,
    /// What the wave knows is to be published there.
    Publish,
}

/// The accessing wave, and what was found out about other segments.
pub(super) struct Judge<'a> {
    pub(super) segments: &'a Segments,
    pub(super) segment: u32,
    pub(super) group: u64,
    pub(super) wave: u32,
    pub(super) waits: u32,
    pub(super) known: Option<&'a Clock>,
    /// Of stores to global memory; LDS has its own wait.
    pub(super) late: Option<&'a HashMap<u32, u32>>,
    pub(super) asked: Asked,
    /// The first conflict: lane, address, earlier record, whether that wrote, whether it was only not waited for.
    pub(super) conflict: Option<(u32, u64, Record, bool, bool)>,
}

/// Whether an earlier access comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Before,
    /// It would, had its wave waited for its stores.
    Unwaited,
    None,
}

impl Judge<'_> {
    /// Whether everything of a record's segment comes before the wave's instruction.
    #[inline(always)]
    fn order(&mut self, record: Record) -> Order {
        let segment = record.segment();
        if segment == self.segment {
            return Order::Before;
        }
        let slot = segment as usize % ASKED;
        if segment != self.asked.segments[slot] {
            (self.asked.segments[slot], self.asked.answers[slot]) = (segment, self.find_out(segment));
        }
        self.asked.answers[slot]
    }
    #[inline(always)]
    fn ordered(&mut self, record: Record) -> bool {
        self.order(record) != Order::None
    }
    fn find_out(&self, number: u32) -> Order {
        let Some(segment) = self.segments.get(number) else { return Order::Before };
        if segment.group == self.group && segment.wave == self.wave {
            return Order::Before;
        }
        let learned = self.known.is_some_and(|known| known.covers(number, &segment));
        match segment.group == self.group && segment.signals < self.waits {
            _ if learned => Order::Before,
            true if self.late.and_then(|late| late.get(&number)).is_some_and(|&signals| signals >= self.waits) => {
                Order::Unwaited
            }
            true => Order::Before,
            false => Order::None,
        }
    }
    /// Whether a barrier lies between.
    fn behind_barrier(&self, record: Record) -> bool {
        let segment = self.segments.get(record.segment());
        segment.is_some_and(|s| s.group == self.group && s.signals < self.waits)
    }

    #[inline(always)]
    fn conflict(&mut self, lane: u32, address: u64, earlier: Record, wrote: bool) {
        self.conflict.get_or_insert((lane, address, earlier, wrote, false));
    }

    /// Compares a plain load of some bytes of the cell at `address` with its shadow, and enters it there. Dwords that atomics are at work
    /// on are learned from instead.
    #[inline(always)]
    pub(super) fn load(&mut self, shade: &mut Shade, mine: Record, at: u64, address: u64, learns: &mut Vec<u64>) {
        let cell = (at / CELL_BYTES) as usize;
        let mut bytes = mine.bytes();
        if shade.is_unwritten() {
            // Nobody to compare with.
        } else if let Some(alike) = shade.one_store(cell, bytes) {
            if alike.bytes() != 0 {
                self.read_after(alike, address);
            }
        } else {
            for dword in 0..4 {
                let part = mine.bytes() >> (4 * dword) & 15;
                let (plain, atomic) = (shade.plain_at(4 * cell + dword), shade.atomic_at(4 * cell + dword));
                let address = address + 4 * dword as u64;
                if atomic.bytes() & part != 0 && !self.behind_barrier(atomic) {
                    learns.push(address);
                    bytes &= !(15 << (4 * dword));
                } else if plain.bytes() & part != 0 {
                    self.read_after(plain, address);
                }
            }
        }
        if bytes != 0 {
            shade.enter_reader(cell, mine.with_bytes(bytes));
        }
    }

    /// A plain load of what `writer` wrote.
    #[inline(always)]
    fn read_after(&mut self, writer: Record, address: u64) {
        match self.order(writer) {
            Order::Before => {}
            order => {
                self.conflict.get_or_insert((0, address, writer, true, order == Order::Unwaited));
            }
        }
    }

    /// A plain load or store of `cells` whole cells from `at` on, where all of them have the same past: the usual case, which a few looks are
    /// enough for. False, and nothing done, where it is not that simple.
    #[inline(always)]
    pub(super) fn run<const STORE: bool>(&mut self, shade: &mut Shade, mine: Record, at: u64, cells: u64) -> bool {
        let Some(past) = shade.run((at / CELL_BYTES) as usize, cells as usize, STORE) else { return false };
        let before = |judge: &mut Judge, record: Record| record.bytes() == 0 || judge.order(record) == Order::Before;
        if !before(self, past.writer) || STORE && !before(self, past.reader) {
            return false;
        }
        let mine = mine.with_bytes(0xffff);
        if !STORE && past.reader != Record::NOBODY && past.reader != mine {
            return false;
        }
        shade.enter_run((at / CELL_BYTES) as usize, cells as usize, mine, STORE);
        true
    }

    /// The same for a plain store. Dwords that atomics are at work on are published at.
    #[inline(always)]
    pub(super) fn store(&mut self, shade: &mut Shade, mine: Record, at: u64, address: u64, publishes: &mut Vec<u64>) {
        shade.written();
        let cell = (at / CELL_BYTES) as usize;
        let mut bytes = mine.bytes();
        if let Some(alike) = shade.one_store(cell, bytes) {
            if alike.bytes() != 0 && !self.ordered(alike) {
                self.conflict(0, address, alike, true);
            }
            if let Some(plain) = shade.plain(cell) {
                *plain = [mine.with_bytes(15); 4];
            }
        } else {
            for dword in 0..4 {
                let part = mine.bytes() >> (4 * dword) & 15;
                if part == 0 {
                    continue;
                }
                let (address, place) = (address + 4 * dword as u64, 4 * cell + dword);
                let (plain, atomic) = (shade.plain_at(place), shade.atomic_at(place));
                if atomic.bytes() & part != 0 {
                    if !self.behind_barrier(atomic) {
                        shade.set_atomic(place, mine.with_bytes(part).atomic());
                        publishes.push(address);
                        bytes &= !(15 << (4 * dword));
                        continue;
                    }
                    if !self.ordered(atomic) {
                        self.conflict(0, address, atomic, true);
                    }
                }
                if plain.bytes() & part != 0 && !self.ordered(plain) {
                    self.conflict(0, address, plain, true);
                }
                let before = if plain.is_same(mine) { plain.bytes() } else { 0 };
                if let Some(plain) = shade.plain(cell) {
                    plain[dword] = mine.with_bytes(part | before);
                }
            }
        }
        let Some((first, others)) = shade.readers(cell) else { return };
        self.write_after(first, bytes, address);
        for reader in others {
            self.write_after(reader, bytes, address);
        }
    }

    /// A plain store of `bytes` of the cell at `address` that `reader` may have read. It is forgotten for those: whoever conflicts with
    /// that read conflicts with this write, too.
    #[inline(always)]
    fn write_after(&mut self, reader: &mut Record, bytes: u32, address: u64) {
        let both = reader.bytes() & bytes;
        if both == 0 {
            return;
        }
        if !self.ordered(*reader) {
            self.conflict(0, address + (both.trailing_zeros() & !3) as u64, *reader, false);
        }
        let left = reader.bytes() & !bytes;
        *reader = if left == 0 { Record::NOBODY } else { reader.with_bytes(left) };
    }

    /// The same for an atomic access of a dword or a part of it.
    #[inline(always)]
    pub(super) fn atomic<const ACT: u8>(
        &mut self,
        shade: &mut Shade,
        mine: Record,
        at: u64,
        lane: u32,
        address: u64,
    ) -> Asks {
        let bytes = mine.bytes();
        let dword = (at / 4) as usize;
        let plain = shade.plain_at(dword);
        if plain.bytes() & bytes != 0 && !self.ordered(plain) {
            self.conflict(lane, address, plain, true);
        }
        if ACT == ATOMIC_WRITE {
            shade.written();
            shade.set_atomic(dword, mine);
        }
        if ACT == ATOMIC_WRITE { Asks::Publish } else { Asks::Learn }
    }
}
