//! Races: two waves touch the same byte, at least one of them writes, and nothing orders the two. What orders accesses:
//!
//! - *Barriers.* A (wave i) comes before B (wave j of the same workgroup) if j has waited for more barriers before B than i had
//!   signalled before A. That is exact for split barriers: work between signal and wait is not covered.
//! - *Atomics.* An atomic on a location publishes what its wave knows there and learns what others have published, whatever its order
//!   in the source was: hardware's instruction does not say. Loads and stores with a scope wider than the compute unit count as atomic,
//!   and so do plain ones on a location whose last writer was an atomic, as an atomic load or store of a workgroup's is a plain one.
//!
//! A *segment* is a piece of a wave's run between two such events; segments are numbered in the order they begin. Every access is compared
//! with those that the shadow of its memory has ([`super::shadow`]), so a race shows under any schedule, unless the earlier access was
//! pushed out of the shadow by others. What a wave has learned from atomics (`Clock`) is exact for some hundred waves; beyond that
//! everything before the moment counts as known. Both may miss a race, neither invents one.
//!
//! A store to global memory that a wave has not waited for when it signals a barrier is behind the barrier only once the wave has waited;
//! whoever reads it before that is told apart from a race (`Race::unwaited`). Caches are not looked at.

use super::order::{Clock, Known, Segment, Segments, join, own};
use super::shadow::{AtHand, CELL_BYTES, Cells, PAGE_BYTES, Record, Shade, Shadow, Writers, covered, one_store};
use crate::execute::memory_ops::lanes_of;
use crate::fault::Access;
use crate::watch::{Accessed, Moved, Space};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// Segments whose order an instruction keeps at hand.
const ASKED: usize = 8;

/// The earlier access of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    /// What it did.
    pub access: Access,
    /// Number of its workgroup.
    pub group: u64,
    /// Its wave.
    pub wave: u32,
    /// Its instruction.
    pub pc: u64,
}

/// A race: the lane and the dword of the later access, and the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Race {
    /// Lane of the later access.
    pub lane: u32,
    /// The dword that both touch, by its first byte.
    pub address: u64,
    /// The earlier access.
    pub earlier: Earlier,
    /// A barrier lies between, but the earlier access is a store that its wave had not waited for.
    pub unwaited: bool,
}

/// A wave as far as order is concerned.
#[derive(Debug, Default)]
struct Wave {
    segment: u32,
    signals: u32,
    waits: u32,
    known: Known,
    /// Segments with stores that were outstanding at a signal, and still are.
    unwaited: Vec<u32>,
    /// Dwords whose publications are learned once the instruction has executed, with whether they are in LDS.
    learns: Vec<(bool, u64)>,
}

/// The races of one workgroup.
pub struct Races {
    shadow: Arc<Shadow>,
    code_start: u64,
    group: u64,
    waves: Vec<Wave>,
    lds: Shade,
    at_hand: AtHand,
    /// What the signals of a barrier and of the next one publish, with the barrier's number.
    barriers: [(u32, Known); 2],
    /// Segments with stores that were outstanding at a signal: how many barriers the wave had signalled when it waited for them.
    late: HashMap<u32, u32>,
}

impl fmt::Debug for Races {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Races").field("group", &self.group).field("waves", &self.waves).finish_non_exhaustive()
    }
}

/// How an access takes part that is atomic: a load by its scope.
const ATOMIC_READ: u8 = 0;
/// A store by its scope, or a read-modify-write.
const ATOMIC_WRITE: u8 = 1;

/// What else a location asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Its publication is to be learned.
    Learn,
    /// What the wave knows is to be published there.
    Publish,
}

/// The accessing wave, and what was found out about the last segment asked for.
struct Judge<'a> {
    segments: &'a Segments,
    segment: u32,
    group: u64,
    wave: u32,
    waits: u32,
    known: Option<&'a Clock>,
    /// Of stores to global memory; LDS has its own wait.
    late: Option<&'a HashMap<u32, u32>>,
    asked: [u32; ASKED],
    answers: [Order; ASKED],
    /// The first conflict: lane, address, earlier record, whether that wrote, whether it was only not waited for.
    conflict: Option<(u32, u64, Record, bool, bool)>,
}

/// Whether an earlier access comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
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
        if segment != self.asked[slot] {
            (self.asked[slot], self.answers[slot]) = (segment, self.find_out(segment));
        }
        self.answers[slot]
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
    fn load(&mut self, shade: &mut Shade, mine: Record, at: u64, address: u64, learns: &mut Vec<u64>) {
        let cell = (at / CELL_BYTES) as usize;
        let mut bytes = mine.bytes();
        let writers = shade.writers.get(4 * cell..4 * cell + 4);
        if let Some(alike) = writers.and_then(|writers| one_store(writers, bytes)) {
            if alike.bytes() != 0 {
                match self.order(alike) {
                    Order::Before => {}
                    order => {
                        let unwaited = order == Order::Unwaited;
                        self.conflict.get_or_insert((0, address, alike, true, unwaited));
                    }
                }
            }
        } else if let Some(writers) = writers {
            for (dword, writers) in writers.iter().enumerate() {
                let part = mine.bytes() >> (4 * dword) & 15;
                if part & (writers.plain.bytes() | writers.atomic.bytes()) == 0 {
                    continue;
                }
                let address = address + 4 * dword as u64;
                if writers.atomic.bytes() & part != 0 && !self.behind_barrier(writers.atomic) {
                    learns.push(address);
                    bytes &= !(15 << (4 * dword));
                } else if writers.plain.bytes() & part != 0 {
                    match self.order(writers.plain) {
                        Order::Before => {}
                        order => {
                            let unwaited = order == Order::Unwaited;
                            self.conflict.get_or_insert((0, address, writers.plain, true, unwaited));
                        }
                    }
                }
            }
        }
        let Some(readers) = shade.readers.get_mut(cell) else { return };
        if bytes == 0 {
            return;
        }
        readers.enter(mine.with_bytes(bytes));
    }

    /// The same for a plain store. Dwords that atomics are at work on are published at.
    #[inline(always)]
    fn store(&mut self, shade: &mut Shade, mine: Record, at: u64, address: u64, publishes: &mut Vec<u64>) {
        shade.written();
        let cell = (at / CELL_BYTES) as usize;
        let mut bytes = mine.bytes();
        let Some(writers) = shade.writers.get_mut(4 * cell..4 * cell + 4) else { return };
        let alike = one_store(writers, bytes);
        if let Some(alike) = alike {
            if alike.bytes() != 0 && !self.ordered(alike) {
                self.conflict(0, address, alike, true);
            }
            writers.fill(Writers { plain: mine.with_bytes(15), atomic: Record::NOBODY });
        }
        for (dword, writers) in writers.iter_mut().enumerate().take(if alike.is_some() { 0 } else { 4 }) {
            let part = mine.bytes() >> (4 * dword) & 15;
            if part == 0 {
                continue;
            }
            let address = address + 4 * dword as u64;
            if writers.atomic.bytes() & part != 0 {
                if !self.behind_barrier(writers.atomic) {
                    writers.atomic = mine.with_bytes(part).atomic();
                    publishes.push(address);
                    bytes &= !(15 << (4 * dword));
                    continue;
                }
                if !self.ordered(writers.atomic) {
                    self.conflict(0, address, writers.atomic, true);
                }
            }
            if writers.plain.bytes() & part != 0 && !self.ordered(writers.plain) {
                self.conflict(0, address, writers.plain, true);
            }
            let before = if writers.plain.is_same(mine) { writers.plain.bytes() } else { 0 };
            writers.plain = mine.with_bytes(part | before);
        }
        let Some(readers) = shade.readers.get_mut(cell) else { return };
        for reader in readers.iter_mut() {
            let both = reader.bytes() & bytes;
            if both == 0 {
                continue;
            }
            if !self.ordered(*reader) {
                self.conflict(0, address + (both.trailing_zeros() & !3) as u64, *reader, false);
            }
            // Whoever conflicts with that read conflicts with this write, too.
            let left = reader.bytes() & !bytes;
            *reader = if left == 0 { Record::NOBODY } else { reader.with_bytes(left) };
        }
    }

    /// The same for an atomic access of a dword or a part of it.
    #[inline(always)]
    fn atomic<const ACT: u8>(&mut self, shade: &mut Shade, mine: Record, at: u64, lane: u32, address: u64) -> Asks {
        let bytes = mine.bytes();
        if ACT == ATOMIC_WRITE {
            shade.written();
        }
        if let Some(writers) = shade.writers.get_mut((at / 4) as usize) {
            if writers.plain.bytes() & bytes != 0 && !self.ordered(writers.plain) {
                self.conflict(lane, address, writers.plain, true);
            }
            if ACT == ATOMIC_WRITE {
                writers.atomic = mine;
            }
        }
        if ACT == ATOMIC_WRITE { Asks::Publish } else { Asks::Learn }
    }
}

/// Publishes at a location what a wave knows; equal clocks are joined once.
struct Publisher {
    mine: Arc<Clock>,
    last: Option<(Option<Arc<Clock>>, Arc<Clock>)>,
}

impl Publisher {
    fn publish(&mut self, published: &mut HashMap<u32, Arc<Clock>>, dword: u32) {
        let there = published.get(&dword).cloned();
        let same = |a: &Option<Arc<Clock>>, b: &Option<Arc<Clock>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let joined = match &self.last {
            Some((before, joined)) if same(before, &there) => joined.clone(),
            _ => join(&there, &Some(self.mine.clone())).unwrap_or_else(|| self.mine.clone()),
        };
        self.last = Some((there, joined.clone()));
        published.insert(dword, joined);
    }
}

impl Races {
    /// For one workgroup after another of a launch whose code starts at `code_start`.
    pub fn new(shadow: Arc<Shadow>, code_start: u64) -> Races {
        Races {
            shadow,
            code_start,
            group: 0,
            waves: Vec::new(),
            lds: Shade::default(),
            at_hand: AtHand::new(),
            barriers: Default::default(),
            late: HashMap::new(),
        }
    }

    /// Workgroup `number` begins.
    pub fn start(&mut self, number: u64, waves: u32, lds_bytes: u32) {
        self.group = number;
        self.lds.start(u64::from(lds_bytes));
        self.barriers = Default::default();
        self.late.clear();
        self.waves.clear();
        for wave in 0..waves {
            let segment = self.shadow.segments.add(Segment { group: number, wave, signals: 0 });
            self.waves.push(Wave { segment, ..Wave::default() });
        }
    }

    fn next_segment(&mut self, wave: u32) {
        let state = &mut self.waves[wave as usize];
        state.segment = self.shadow.segments.add(Segment { group: self.group, wave, signals: state.signals });
    }

    /// The wave has waited for all its stores.
    pub fn stores_arrived(&mut self, wave: u32) {
        let state = &mut self.waves[wave as usize];
        for segment in state.unwaited.drain(..) {
            self.late.insert(segment, state.signals);
        }
        self.next_segment(wave);
    }

    /// The wave has signalled the barrier, with stores to global memory outstanding or not.
    pub fn signalled(&mut self, wave: u32, outstanding: bool) {
        let state = &mut self.waves[wave as usize];
        if outstanding {
            state.unwaited.push(state.segment);
            self.late.insert(state.segment, u32::MAX);
        }
        let barrier = state.signals;
        state.signals += 1;
        let slot = &mut self.barriers[barrier as usize % 2];
        // A slot is free again when the barrier after the next begins: everyone is past its old one.
        if slot.0 != barrier {
            *slot = (barrier, None);
        }
        slot.1 = join(&slot.1, &state.known);
        self.next_segment(wave);
    }

    /// The wave has waited for the barrier.
    pub fn passed(&mut self, wave: u32) {
        let state = &mut self.waves[wave as usize];
        let slot = &self.barriers[state.waits as usize % 2];
        if slot.0 == state.waits {
            state.known = join(&state.known, &slot.1);
        }
        state.waits += 1;
    }

    /// An access of `wave` by the instruction at `pc`, about to happen; `atomic` for loads and stores that are by their scope.
    pub fn accessed(&mut self, wave: u32, pc: u64, accessed: &Accessed, atomic: bool) -> Option<Race> {
        if accessed.space == Space::Scratch || self.waves.get(wave as usize).is_none_or(|w| w.segment == 0) {
            return None;
        }
        match (accessed.access, atomic) {
            (Access::Load, false) => self.plain::<false>(wave, pc, accessed),
            (Access::Load, true) => self.act::<ATOMIC_READ>(wave, pc, accessed),
            (Access::Store, false) => self.plain::<true>(wave, pc, accessed),
            (Access::Store, true) | (Access::Atomic, _) => self.act::<ATOMIC_WRITE>(wave, pc, accessed),
        }
    }

    /// Who accesses; `known` is what it knows.
    fn judge<'a>(&'a self, wave: u32, known: &'a Known, space: Space) -> Judge<'a> {
        let state = &self.waves[wave as usize];
        Judge {
            segments: &self.shadow.segments,
            segment: state.segment,
            group: self.group,
            wave,
            waits: state.waits,
            known: known.as_deref(),
            late: (space == Space::Global).then_some(&self.late),
            asked: [0; ASKED],
            answers: [Order::Before; ASKED], // of nobody's segment
            conflict: None,
        }
    }

    fn instruction(&self, pc: u64) -> u64 {
        pc.wrapping_sub(self.code_start) >> 2
    }

    /// A plain load or store: lanes that follow each other in a cell are one.
    fn plain<const STORE: bool>(&mut self, wave: u32, pc: u64, accessed: &Accessed) -> Option<Race> {
        let known = self.waves[wave as usize].known.clone();
        let mine = Record::new(self.waves[wave as usize].segment, false, self.instruction(pc));
        let (mut lds, mut pages) = (std::mem::take(&mut self.lds), std::mem::take(&mut self.at_hand));
        let mut judge = self.judge(wave, &known, accessed.space);
        let mut shared = Vec::new();
        let mut visit = |shade: &mut Shade, bytes: u32, at: u64, address: u64| match STORE {
            true => judge.store(shade, mine.with_bytes(bytes), at, address, &mut shared),
            false => judge.load(shade, mine.with_bytes(bytes), at, address, &mut shared),
        };
        let mut cells = Cells::new(accessed);
        let mut next = cells.next();
        if accessed.space == Space::Lds {
            while let Some((at, bytes)) = next {
                visit(&mut lds, bytes, at, at);
                next = cells.next();
            }
        } else {
            while let Some((at, _)) = next {
                let number = at / PAGE_BYTES;
                let page = pages.page(&self.shadow, number);
                let mut shade = page.lock().unwrap_or_else(PoisonError::into_inner);
                while let Some((at, bytes)) = next
                    && at / PAGE_BYTES == number
                {
                    visit(&mut shade, bytes, at % PAGE_BYTES, at);
                    next = cells.next();
                }
            }
        }
        let conflict = judge.conflict.map(|(_, address, earlier, wrote, unwaited)| {
            let touches = |lane: &usize| {
                accessed.addresses[*lane] < address + 4 && accessed.addresses[*lane] + accessed.bytes as u64 > address
            };
            let lane = lanes_of(accessed.mask).find(touches).unwrap_or(0);
            (lane as u32, address, earlier, wrote, unwaited)
        });
        (self.lds, self.at_hand) = (lds, pages);
        let in_lds = accessed.space == Space::Lds;
        if !STORE {
            self.waves[wave as usize].learns.extend(shared.into_iter().map(|address| (in_lds, address)));
        } else if !shared.is_empty() {
            self.publish(wave, &known, in_lds, &shared);
        }
        conflict.and_then(|found| self.race(found))
    }

    fn act<const ACT: u8>(&mut self, wave: u32, pc: u64, accessed: &Accessed) -> Option<Race> {
        let Wave { segment, waits, ref known, .. } = self.waves[wave as usize];
        let known = known.clone();
        let mine = Record::new(segment, ACT == ATOMIC_WRITE, self.instruction(pc));
        let (mut lds, mut pages) = (std::mem::take(&mut self.lds), std::mem::take(&mut self.at_hand));
        let mut learns = std::mem::take(&mut self.waves[wave as usize].learns);
        let mut judge = self.judge(wave, &known, accessed.space);
        // What comes back from an atomic may tell of what was published; without return it cannot.
        let returns = matches!(accessed.moved, Moved::Atomic { dst: Some(_), .. });
        let in_lds = accessed.space == Space::Lds;
        let mut publisher: Option<Publisher> = None;
        let mut visit = |judge: &mut Judge, shade: &mut Shade, lane: usize, at: u64, origin: u64| {
            let (start, end) =
                (accessed.addresses[lane], accessed.addresses[lane].saturating_add(accessed.bytes as u64));
            let mine = mine.with_bytes(covered(at, start, end, 4));
            let asks = judge.atomic::<ACT>(shade, mine, at - origin, lane as u32, at);
            if asks == Asks::Publish {
                let publisher = publisher.get_or_insert_with(|| {
                    let mine = own(&known, segment, self.group, wave, waits, &self.shadow.segments);
                    Publisher { mine, last: None }
                });
                publisher.publish(&mut shade.published, ((at - origin) / 4) as u32);
            }
            if asks == Asks::Learn || asks == Asks::Publish && returns {
                learns.push((in_lds, at));
            }
        };
        let mut dwords = lanes_of(accessed.mask).flat_map(|lane| {
            let (start, end) =
                (accessed.addresses[lane], accessed.addresses[lane].saturating_add(accessed.bytes as u64));
            (start & !3..end).step_by(4).map(move |at| (lane, at))
        });
        if in_lds {
            dwords.for_each(|(lane, at)| visit(&mut judge, &mut lds, lane, at, 0));
        } else {
            let mut next = dwords.next();
            while let Some((_, at)) = next {
                let number = at / PAGE_BYTES;
                let page = pages.page(&self.shadow, number);
                let mut shade = page.lock().unwrap_or_else(PoisonError::into_inner);
                while let Some((lane, at)) = next
                    && at / PAGE_BYTES == number
                {
                    visit(&mut judge, &mut shade, lane, at, number * PAGE_BYTES);
                    next = dwords.next();
                }
            }
        }
        let conflict = judge.conflict;
        let published = publisher.is_some();
        (self.lds, self.at_hand) = (lds, pages);
        self.waves[wave as usize].learns = learns;
        if published {
            self.next_segment(wave);
        }
        conflict.and_then(|found| self.race(found))
    }

    /// Publishes at these addresses what the wave knows.
    #[cold]
    fn publish(&mut self, wave: u32, known: &Known, in_lds: bool, addresses: &[u64]) {
        let Wave { segment, waits, .. } = self.waves[wave as usize];
        let mine = own(known, segment, self.group, wave, waits, &self.shadow.segments);
        let mut publisher = Publisher { mine, last: None };
        for &address in addresses {
            if in_lds {
                publisher.publish(&mut self.lds.published, (address / 4) as u32);
            } else {
                let page = self.at_hand.page(&self.shadow, address / PAGE_BYTES);
                let mut shade = page.lock().unwrap_or_else(PoisonError::into_inner);
                publisher.publish(&mut shade.published, (address % PAGE_BYTES / 4) as u32);
            }
        }
        self.next_segment(wave);
    }

    fn race(&self, (lane, address, record, wrote, unwaited): (u32, u64, Record, bool, bool)) -> Option<Race> {
        let segment = self.shadow.segments.get(record.segment())?;
        let access = match (wrote, record.is_atomic()) {
            (_, true) => Access::Atomic,
            (true, false) => Access::Store,
            (false, false) => Access::Load,
        };
        let pc = self.code_start + record.instruction() * 4;
        let earlier = Earlier { access, group: segment.group, wave: segment.wave, pc };
        Some(Race { lane, address, earlier, unwaited })
    }

    /// The wave's instruction has executed: what it has seen may tell of what was published before.
    #[inline]
    pub fn executed(&mut self, wave: u32) {
        let Some(state) = self.waves.get_mut(wave as usize) else { return };
        if !state.learns.is_empty() {
            self.learn(wave);
        }
    }

    fn learn(&mut self, wave: u32) {
        let mut learns = std::mem::take(&mut self.waves[wave as usize].learns);
        let mut known = self.waves[wave as usize].known.clone();
        for (in_lds, at) in learns.drain(..) {
            let published = if in_lds {
                self.lds.published.get(&((at >> 2) as u32)).cloned()
            } else {
                let page = self.at_hand.page(&self.shadow, at / PAGE_BYTES);
                let page = page.lock().unwrap_or_else(PoisonError::into_inner);
                page.published.get(&((at % PAGE_BYTES / 4) as u32)).cloned()
            };
            known = join(&known, &published);
        }
        let state = &mut self.waves[wave as usize];
        (state.known, state.learns) = (known, learns);
    }
}

/// Two lanes of one store that write different values to the same byte: which of them stays is not defined. `value` gives the dwords
/// that a lane stores.
pub fn lanes_disagree(accessed: &Accessed, value: impl Fn(usize) -> [u32; 4]) -> Option<(u32, u32)> {
    let (bytes, addresses) = (accessed.bytes as u64, accessed.addresses);
    // Ascending without overlap is what nearly every store does.
    let mut end = 0;
    if lanes_of(accessed.mask).all(|lane| {
        let apart = addresses[lane] >= end;
        end = addresses[lane].saturating_add(bytes);
        apart
    }) {
        return None;
    }
    let mut lanes: Vec<usize> = lanes_of(accessed.mask).collect();
    lanes.sort_by_key(|&lane| addresses[lane]);
    lanes.windows(2).find_map(|pair| {
        let [a, b] = [pair[0], pair[1]];
        let distance = addresses[b] - addresses[a];
        let agree = distance >= bytes || distance == 0 && value(a) == value(b);
        (!agree).then_some((a.min(b) as u32, a.max(b) as u32))
    })
}
