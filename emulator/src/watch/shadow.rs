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
    /// Whether both are of the same access but for the bytes.
    #[inline(always)]
    pub(super) fn is_same(self, other: Record) -> bool {
        (self.0 ^ other.0) & !Record::BYTES == 0
    }
}

/// Who wrote a dword last: plainly, and by an atomic.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Writers {
    pub(super) plain: Record,
    pub(super) atomic: Record,
}

/// Who wrote all of a cell plainly and last, if that is one, or nobody, and no atomic was there: the usual case of 16 bytes a lane, which one
/// look is enough for. `bytes` are those that are asked for.
#[inline(always)]
pub(super) fn one_store(writers: &[Writers], bytes: u32) -> Option<Record> {
    let first = writers.first()?.plain;
    let alike = writers.iter().all(|writers| writers.plain == first && writers.atomic == Record::NOBODY);
    (bytes == 0xffff && alike).then_some(first)
}

/// Who read a cell: the first reader stays, the last ones take turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readers([Record; READERS]);

impl Readers {
    const NOBODY: Readers = Readers([Record::NOBODY; READERS]);

    /// Enters one.
    #[inline(always)]
    pub(super) fn enter(&mut self, mine: Record) {
        for reader in self.0.iter_mut() {
            if reader.is_same(mine) {
                *reader = Record(reader.0 | mine.0);
                return;
            }
            if *reader == Record::NOBODY {
                *reader = mine;
                return;
            }
        }
        self.0[1 + mine.segment() as usize % (READERS - 1)] = mine;
    }

    #[inline(always)]
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Record> {
        self.0.iter_mut()
    }
}

/// The shadow of some memory.
#[derive(Debug, Default)]
pub(super) struct Shade {
    /// By dword; empty until something is written.
    pub(super) writers: Vec<Writers>,
    /// By cell.
    pub(super) readers: Vec<Readers>,
    /// What was published at a location, by dword.
    pub(super) published: HashMap<u32, Arc<Clock>>,
}

impl Shade {
    /// Forgets everything; for `bytes` bytes.
    pub(super) fn start(&mut self, bytes: u64) {
        self.writers.clear();
        self.readers.clear();
        self.readers.resize(bytes.div_ceil(CELL_BYTES) as usize, Readers::NOBODY);
        self.published.clear();
    }

    /// Makes room for writers.
    #[inline(always)]
    pub(super) fn written(&mut self) {
        if self.writers.is_empty() {
            self.writers.resize(self.readers.len() * (CELL_BYTES / 4) as usize, Writers::default());
        }
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
    pub(super) fn page(&mut self, shadow: &Shadow, number: u64) -> SharedPage {
        let slot = &mut self.0[(number % AT_HAND) as usize];
        match slot {
            Some((there, page)) if *there == number => page.clone(),
            _ => {
                let page = shadow.page(number);
                *slot = Some((number, page.clone()));
                page
            }
        }
    }
}

/// Which of the `count` bytes at `at` lie in `start..end`.
#[inline(always)]
pub(super) fn covered(at: u64, start: u64, end: u64, count: u64) -> u32 {
    let low = start.saturating_sub(at).min(count) as u32;
    let high = (end - at).min(count) as u32;
    (1u32 << high) - (1u32 << low)
}

/// The cells that an access touches, in the order of lanes, each with its bytes; cells that follow each other are joined.
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
            self.rest = start..start.saturating_add(self.bytes);
        }
        let at = self.rest.start & !(CELL_BYTES - 1);
        let bytes = covered(at, self.rest.start, self.rest.end, CELL_BYTES);
        self.rest.start = (at + CELL_BYTES).min(self.rest.end);
        Some((at, bytes))
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(u64, u32)> {
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
