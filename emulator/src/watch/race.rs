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

use super::judge::{ATOMIC_READ, ATOMIC_WRITE, Asked, Asks, Judge};
use super::order::{Clock, Known, Segment, join, own};
use super::shadow::{AtHand, CELL_BYTES, Cells, Lanes, PAGE_BYTES, Record, Row, Shade, Shadow, Walk, covered};
use crate::execute::memory_ops::lanes_of;
use crate::fault::Access;
use crate::watch::{Accessed, Moved, Space};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

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
    /// For LDS, and for global memory, where a store may be outstanding.
    asked: [Asked; 2],
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
    /// For one workgroup after another of a launch whose code starts at `code_start`; LDS has its shadow in the memory of `lds`.
    pub fn new(shadow: Arc<Shadow>, code_start: u64, lds: Shade) -> Races {
        Races {
            shadow,
            code_start,
            group: 0,
            waves: Vec::new(),
            lds,
            at_hand: AtHand::new(),
            barriers: Default::default(),
            late: HashMap::new(),
        }
    }

    /// The launch is over; what is left of memory.
    pub fn finish(mut self) -> Shade {
        self.lds.start(0);
        self.lds
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
        self.waves.iter_mut().for_each(|state| state.asked = Default::default());
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
        state.asked = Default::default();
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
            asked: state.asked[usize::from(space == Space::Global)],
            conflict: None,
        }
    }

    fn instruction(&self, pc: u64) -> u64 {
        pc.wrapping_sub(self.code_start) >> 2
    }

    /// A plain load or store, by the simplest way to walk over its cells.
    fn plain<const STORE: bool>(&mut self, wave: u32, pc: u64, accessed: &Accessed) -> Option<Race> {
        if let Some(row) = Row::of(accessed) {
            self.walk::<STORE, _>(wave, pc, accessed, row)
        } else if let Some(lanes) = Lanes::of(accessed) {
            self.walk::<STORE, _>(wave, pc, accessed, lanes)
        } else {
            self.walk::<STORE, _>(wave, pc, accessed, Cells::new(accessed))
        }
    }

    fn walk<const STORE: bool, W: Walk>(
        &mut self,
        wave: u32,
        pc: u64,
        accessed: &Accessed,
        mut cells: W,
    ) -> Option<Race> {
        let known = self.waves[wave as usize].known.clone();
        let mine = Record::new(self.waves[wave as usize].segment, false, self.instruction(pc));
        let (mut lds, mut pages) = (std::mem::take(&mut self.lds), std::mem::take(&mut self.at_hand));
        let mut judge = self.judge(wave, &known, accessed.space);
        let mut shared = Vec::new();
        let in_lds = accessed.space == Space::Lds;
        let mut next = cells.next();
        while let Some((first, _)) = next {
            let mut guard;
            let (shade, origin, span) = if in_lds {
                (&mut lds, 0, u64::MAX)
            } else {
                let page = pages.page(&self.shadow, first / PAGE_BYTES);
                guard = page.lock().unwrap_or_else(PoisonError::into_inner);
                (&mut *guard, first - first % PAGE_BYTES, PAGE_BYTES)
            };
            let more = cells.following().min((span - (first - origin)) / CELL_BYTES - 1);
            if more > 0 && judge.run::<STORE>(shade, mine, first - origin, more + 1) {
                cells.pass(more);
                next = cells.next();
                continue;
            }
            while let Some((address, bytes)) = next
                && address.wrapping_sub(origin) < span
            {
                let mine = mine.with_bytes(bytes);
                match STORE {
                    true => judge.store(shade, mine, address - origin, address, &mut shared),
                    false => judge.load(shade, mine, address - origin, address, &mut shared),
                }
                next = cells.next();
            }
        }
        let asked = judge.asked;
        let conflict = judge.conflict.map(|(_, address, earlier, wrote, unwaited)| {
            let touches = |lane: &usize| {
                accessed.addresses[*lane] < address + 4 && accessed.addresses[*lane] + accessed.bytes as u64 > address
            };
            let lane = lanes_of(accessed.mask).find(touches).unwrap_or(0);
            (lane as u32, address, earlier, wrote, unwaited)
        });
        (self.lds, self.at_hand) = (lds, pages);
        self.waves[wave as usize].asked[usize::from(!in_lds)] = asked;
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
        state.asked = Default::default();
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
    // Aligned ones meet only where they are the same.
    let unaligned = addresses.iter().fold(0, |bits, address| bits | address) & (bytes - 1) != 0;
    if accessed.mask == u32::MAX && !unaligned && bytes.is_power_of_two() && all_differ(addresses) {
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

/// Whether no two are equal.
fn all_differ(addresses: &[u64; 32]) -> bool {
    (1..32).all(|apart| {
        let pairs = addresses.iter().zip(&addresses[apart..]);
        !pairs.fold(false, |same, (a, b)| same | (a == b))
    })
}
