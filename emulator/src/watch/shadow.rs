//! The shadow of memory: for each dword its last writers, for each 16 bytes (a cell) four readers, each a segment, a byte mask and an
//! instruction, in pages that the workgroups of a launch share and lock one by one. Which accesses conflict is judged in [`super::race`].

use super::order::{Clock, Segments};
use crate::watch::Accessed;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of memory that a page of the shadow stands for.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of memory that share their readers.
pub(super) const CELL_BYTES: u64 = 16;
/// Readers that a cell remembers.
const READERS: usize = 4;
/// Locks that the pages are spread over.
const SHARDS: u64 = 64;
/// Pages that a workgroup keeps at hand.
const AT_HAND: u64 = 64;

/// Who touched a dword or a cell: segment, byte mask (0 for nobody), whether by an atomic, dword of the instruction from the start of the
/// code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Record(u64);

impl Record {
    const SEGMENT: u64 = (1 << 24) - 1;
    const BYTES: u64 = 0xffff << 24;
    const ATOMIC: u64 = 1 << 40;
    pub(super) const NOBODY: Record = Record(0);

    /// An access of no bytes yet.
    pub(super) fn new(segment: u32, atomic: bool, instruction: u64) -> Record {
        let atomic = if atomic { Record::ATOMIC } else { 0 };
        Record(segment as u64 & Record::SEGMENT | atomic | instruction.min((1 << 23) - 1) << 41)
    }
    #[inline(always)]
    pub(super) fn segment(self) -> u32 {
        (self.0 & Record::SEGMENT) as u32
    }
    #[inline(always)]
    pub(super) fn bytes(self) -> u32 {
        (self.0 >> 24) as u32 & 0xffff
    }
    #[inline(always)]
    pub(super) fn is_atomic(self) -> bool {
        self.0 & Record::ATOMIC != 0
    }
    #[inline(always)]
    pub(super) fn instruction(self) -> u64 {
        self.0 >> 41
    }
    /// The record of the same access as an atomic one.
    pub(super) fn atomic(self) -> Record {
        Record(self.0 | Record::ATOMIC)
    }
    /// The record of the same access with other bytes.
    #[inline(always)]
    pub(super) fn with_bytes(self, bytes: u32) -> Record {
        Record(self.0 & !Record::BYTES | (bytes as u64) << 24)
    }
    /// The record of both accesses, which are the same but for the bytes.
    #[inline(always)]
    fn joined(self, other: Record) -> Record {
        Record(self.0 | other.0)
    }
    /// Whether both are of the same access but for the bytes.
    #[inline(always)]
    pub(super) fn is_same(self, other: Record) -> bool {
        (self.0 ^ other.0) & !Record::BYTES == 0
    }
}

/// Other readers of a cell than its first: they take turns.
type Others = [Record; READERS - 1];

/// Bytes of a record that is of all of a cell.
const WHOLE: u32 = 0xffff;
/// Dwords of a cell.
const DWORDS: usize = CELL_BYTES as usize / 4;

/// What some cells have in common.
pub(super) struct Past {
    /// Who wrote their dwords last and plainly.
    pub(super) writer: Record,
    /// Who read them first.
    pub(super) reader: Record,
}

/// Whether all records are this one.
#[inline(always)]
fn all_are(records: &[Record], one: Record) -> bool {
    records.iter().fold(0, |bits, record| bits | (record.0 ^ one.0)) == 0
}

/// The shadow of some memory. Most of it is read by one instruction or written by one, so only the first reader has its place from the
/// start.
#[derive(Debug, Default)]
pub struct Shade {
    /// Who wrote a dword last and plainly; empty until something is written.
    plain: Vec<Record>,
    /// Which atomic wrote a dword last; empty until one does.
    atomic: Vec<Record>,
    /// Who read a cell first.
    first: Vec<Record>,
    /// Who read a cell beside its first reader; empty until somebody does.
    others: Vec<Others>,
    /// What was published at a location, by dword.
    pub(super) published: HashMap<u32, Arc<Clock>>,
}

impl Shade {
    /// Forgets everything; for `bytes` bytes.
    pub(super) fn start(&mut self, bytes: u64) {
        self.plain.clear();
        self.atomic.clear();
        self.others.clear();
        self.first.clear();
        self.first.resize(bytes.div_ceil(CELL_BYTES) as usize, Record::NOBODY);
        self.published.clear();
    }

    /// Makes room for writers.
    #[inline(always)]
    pub(super) fn written(&mut self) {
        if self.plain.is_empty() {
            self.plain.resize(self.first.len() * DWORDS, Record::NOBODY);
        }
    }

    /// Whether nothing was stored here plainly.
    #[inline(always)]
    pub(super) fn is_unwritten(&self) -> bool {
        self.plain.is_empty()
    }

    /// The last plain writers of a cell's dwords, where anything is written.
    #[inline(always)]
    pub(super) fn plain(&mut self, cell: usize) -> Option<&mut [Record; DWORDS]> {
        self.plain.as_chunks_mut().0.get_mut(cell)
    }

    /// The last plain writer of a dword.
    #[inline(always)]
    pub(super) fn plain_at(&self, dword: usize) -> Record {
        self.plain.get(dword).copied().unwrap_or(Record::NOBODY)
    }

    /// The atomic that wrote a dword last.
    #[inline(always)]
    pub(super) fn atomic_at(&self, dword: usize) -> Record {
        self.atomic.get(dword).copied().unwrap_or(Record::NOBODY)
    }

    /// Notes the atomic that writes a dword.
    #[inline]
    pub(super) fn set_atomic(&mut self, dword: usize, record: Record) {
        if self.atomic.is_empty() {
            self.atomic.resize(self.first.len() * DWORDS, Record::NOBODY);
        }
        if let Some(atomic) = self.atomic.get_mut(dword) {
            *atomic = record;
        }
    }

    /// Who wrote all of a cell plainly and last, if that is one, or nobody, and no atomic was there: the usual case of 16 bytes a lane, which
    /// one look is enough for. `bytes` are those that are asked for.
    #[inline(always)]
    pub(super) fn one_store(&self, cell: usize, bytes: u32) -> Option<Record> {
        if bytes != 0xffff {
            return None;
        }
        let plain: &[Record; DWORDS] = self.plain.as_chunks().0.get(cell)?;
        let alike = plain.iter().all(|writer| *writer == plain[0]);
        let atomic = self.atomic.as_chunks::<DWORDS>().0.get(cell);
        let no_atomic = atomic.is_none_or(|atomic| *atomic == [Record::NOBODY; DWORDS]);
        (alike && no_atomic).then_some(plain[0])
    }

    /// The past that `count` cells from `cell` on have in common: one writer of all their bytes or none, one reader or none. `written` is whether
    /// they are about to be, which other readers would have to be compared with.
    #[inline(always)]
    pub(super) fn run(&self, cell: usize, count: usize, written: bool) -> Option<Past> {
        let first = self.first.get(cell..cell + count)?;
        let reader = *first.first()?;
        let mut differ = !self.atomic.is_empty() || written && !self.others.is_empty();
        differ |= !all_are(first, reader);
        let mut writer = Record::NOBODY;
        if let Some(plain) = self.plain.get(DWORDS * cell..DWORDS * (cell + count)) {
            writer = plain[0];
            differ |= !all_are(plain, writer);
        }
        (!differ).then_some(Past { writer, reader })
    }

    /// Enters the reader, or the writer, of cells with a common past.
    #[inline(always)]
    pub(super) fn enter_run(&mut self, cell: usize, count: usize, mine: Record, written: bool) {
        let Some(first) = self.first.get_mut(cell..cell + count) else { return };
        if !written {
            return first.fill(mine);
        }
        first.fill(Record::NOBODY);
        self.written();
        if let Some(plain) = self.plain.get_mut(DWORDS * cell..DWORDS * (cell + count)) {
            plain.fill(mine.with_bytes(15));
        }
    }

    /// Enters a reader of a cell: the first one stays, the last ones take turns.
    #[inline(always)]
    pub(super) fn enter_reader(&mut self, cell: usize, mine: Record) {
        let Some(first) = self.first.get_mut(cell) else { return };
        if first.is_same(mine) {
            *first = first.joined(mine);
        } else if *first == Record::NOBODY {
            *first = mine;
        } else {
            self.enter_other(cell, mine);
        }
    }

    fn enter_other(&mut self, cell: usize, mine: Record) {
        if self.others.is_empty() {
            self.others.resize(self.first.len(), [Record::NOBODY; READERS - 1]);
        }
        let Some(others) = self.others.get_mut(cell) else { return };
        for reader in others.iter_mut() {
            if reader.is_same(mine) {
                *reader = reader.joined(mine);
                return;
            }
            if *reader == Record::NOBODY {
                *reader = mine;
                return;
            }
        }
        others[mine.segment() as usize % (READERS - 1)] = mine;
    }

    /// The first reader of a cell and the others; nobody among them where a place is free.
    #[inline(always)]
    pub(super) fn readers(&mut self, cell: usize) -> Option<(&mut Record, &mut [Record])> {
        let others = self.others.get_mut(cell).map_or(&mut [][..], |others| &mut others[..]);
        Some((self.first.get_mut(cell)?, others))
    }
}

type SharedPage = Arc<Mutex<Shade>>;

/// What all workgroups of a launch share: its segments, and the shadow of global memory.
pub struct Shadow {
    pub(super) segments: Segments,
    shards: Vec<Mutex<HashMap<u64, SharedPage>>>,
}

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow { segments: Segments::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("segments", &self.segments.newest()).finish_non_exhaustive()
    }
}

impl Shadow {
    fn page(&self, number: u64) -> SharedPage {
        let mut shard = self.shards[(number % SHARDS) as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let page = || {
            let mut shade = Shade::default();
            shade.start(PAGE_BYTES);
            Arc::new(Mutex::new(shade))
        };
        shard.entry(number).or_insert_with(page).clone()
    }
}

/// The pages that a workgroup keeps at hand, so that it seldom locks a shard; empty while they are taken.
#[derive(Default)]
pub(super) struct AtHand(Vec<Option<(u64, SharedPage)>>);

impl AtHand {
    /// None yet.
    pub(super) fn new() -> AtHand {
        AtHand(std::iter::repeat_with(|| None).take(AT_HAND as usize).collect())
    }

    /// A page, from those at hand where it is among them.
    #[inline(always)]
    pub(super) fn page(&mut self, shadow: &Shadow, number: u64) -> &Mutex<Shade> {
        let slot = &mut self.0[(number % AT_HAND) as usize];
        if slot.as_ref().is_none_or(|(there, _)| *there != number) {
            *slot = None;
        }
        &slot.get_or_insert_with(|| (number, shadow.page(number))).1
    }
}

/// Which of the `count` bytes at `at` lie in `start..end`.
#[inline(always)]
pub(super) fn covered(at: u64, start: u64, end: u64, count: u64) -> u32 {
    let low = start.saturating_sub(at).min(count) as u32;
    let high = (end - at).min(count) as u32;
    (1u32 << high) - (1u32 << low)
}

/// Walks over the cells that an access touches.
pub(super) trait Walk {
    /// The next cell's address, and the bytes that are touched there.
    fn next(&mut self) -> Option<(u64, u32)>;
    /// How many whole cells follow the last one without a gap, as far as that is known at once.
    fn following(&self) -> u64 {
        0
    }
    /// Passes over cells that follow.
    fn pass(&mut self, _cells: u64) {}
}

/// Lanes that follow one another without a gap, in whole cells.
pub(super) struct Row {
    next: u64,
    end: u64,
}

impl Row {
    /// That of an access, if it is one.
    #[inline(always)]
    pub(super) fn of(accessed: &Accessed) -> Option<Row> {
        let (bytes, start) = (u64::from(accessed.bytes), accessed.addresses[0]);
        let end = start.checked_add(32 * bytes)?;
        if accessed.mask != u32::MAX || !start.is_multiple_of(CELL_BYTES) || !end.is_multiple_of(CELL_BYTES) {
            return None;
        }
        let mut differences = 0;
        for (lane, &address) in accessed.addresses.iter().enumerate() {
            differences |= address ^ (start + lane as u64 * bytes);
        }
        (differences == 0).then_some(Row { next: start, end })
    }
}

impl Walk for Row {
    #[inline(always)]
    fn next(&mut self) -> Option<(u64, u32)> {
        let at = self.next;
        self.next = at + CELL_BYTES;
        (at < self.end).then_some((at, WHOLE))
    }
    #[inline(always)]
    fn following(&self) -> u64 {
        (self.end - self.next) / CELL_BYTES
    }
    #[inline(always)]
    fn pass(&mut self, cells: u64) {
        self.next += cells * CELL_BYTES;
    }
}

/// Lanes of a whole cell each.
pub(super) struct Lanes<'a> {
    addresses: &'a [u64; 32],
    mask: u32,
}

impl<'a> Lanes<'a> {
    /// Those of an access, if they are such.
    #[inline(always)]
    pub(super) fn of(accessed: &'a Accessed) -> Option<Lanes<'a>> {
        let bits = accessed.addresses.iter().fold(0, |bits, address| bits | address);
        let whole = u64::from(accessed.bytes) == CELL_BYTES && bits.is_multiple_of(CELL_BYTES);
        whole.then_some(Lanes { addresses: accessed.addresses, mask: accessed.mask })
    }
}

impl Walk for Lanes<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<(u64, u32)> {
        let at = *self.addresses.get(self.mask.trailing_zeros() as usize)?;
        self.mask &= self.mask - 1;
        Some((at, WHOLE))
    }
}

/// Lanes anywhere, in their order, each with its bytes of a cell; where they follow each other in one they are joined.
pub(super) struct Cells<'a> {
    addresses: &'a [u64; 32],
    bytes: u64,
    /// Lanes that are left.
    mask: u32,
    /// What is left of the current lane.
    rest: std::ops::Range<u64>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(accessed: &'a Accessed) -> Cells<'a> {
        Cells { addresses: accessed.addresses, bytes: accessed.bytes as u64, mask: accessed.mask, rest: 0..0 }
    }

    /// The next lane's part of its cell.
    #[inline(always)]
    fn part(&mut self) -> Option<(u64, u32)> {
        if self.rest.is_empty() {
            let lane = self.mask.trailing_zeros() as usize;
            let start = *self.addresses.get(lane)?;
            self.mask &= self.mask - 1;
            let within = start % CELL_BYTES;
            if within + self.bytes <= CELL_BYTES {
                return Some((start - within, ((1 << self.bytes) - 1) << within));
            }
            self.rest = start..start.saturating_add(self.bytes);
        }
        let at = self.rest.start & !(CELL_BYTES - 1);
        let bytes = covered(at, self.rest.start, self.rest.end, CELL_BYTES);
        self.rest.start = (at + CELL_BYTES).min(self.rest.end);
        Some((at, bytes))
    }
}

impl Walk for Cells<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<(u64, u32)> {
        let (at, mut bytes) = self.part()?;
        // As long as lanes stay in this cell.
        while self.rest.is_empty() {
            let Some(&start) = self.addresses.get(self.mask.trailing_zeros() as usize) else { break };
            if start & !(CELL_BYTES - 1) != at {
                break;
            }
            bytes |= self.part()?.1;
        }
        Some((at, bytes))
    }
}
