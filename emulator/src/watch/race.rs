//! Races: two waves touch the same byte, at least one of them writes, and nothing orders the two. What orders accesses:
//!
//! - *Barriers.* A (wave i) comes before B (wave j of the same workgroup) if j has waited for more barriers before B than i had
//!   signalled before A. That is exact for split barriers: work between signal and wait is not covered.
//! - *Atomics.* An atomic on a location publishes what its wave knows there and learns what others have published, whatever its order
//!   in the source was: hardware's instruction does not say. Loads and stores with a scope wider than the compute unit count as atomic,
//!   and so do plain ones on a location whose last writer was an atomic, as an atomic load or store of a workgroup's is a plain one.
//!
//! A *segment* is a piece of a wave's run between two such events; segments are numbered in the order they begin. Memory has a shadow:
//! for each dword its last writers and two readers, each a segment, a byte mask and an instruction. Every access is compared with them,
//! so a race shows under any schedule, unless its access was pushed out of the shadow by others. What a wave has learned from atomics
//! ([`Clock`]) is exact for some hundred waves; beyond that everything before the moment counts as known. Both may miss a race, neither
//! invents one.
//!
//! A store to global memory that a wave has not waited for when it signals a barrier is behind the barrier only once the wave has waited;
//! whoever reads it before that is told apart from a race ([`Race::unwaited`]). Caches are not looked at.

use crate::execute::memory_ops::lanes_of;
use crate::fault::Access;
use crate::watch::{Accessed, Moved, Space};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Dwords of a page of the shadow.
const CELLS: usize = 1024;
/// Bytes of memory that a page stands for.
const PAGE_BYTES: u64 = 4 * CELLS as u64;
/// Locks that the pages are spread over.
const SHARDS: u64 = 64;
/// Pages that a workgroup keeps at hand.
const AT_HAND: u64 = 64;
/// Most waves that a clock tells apart.
const MOST_KNOWN: usize = 512;
/// Most segments of a launch; later accesses are not checked.
const MOST_SEGMENTS: u32 = 1 << 24;
/// Segments of the first chunk of the table.
const FIRST_CHUNK: u32 = 256;

/// Who touched a dword: segment, byte mask (0 for nobody), whether by an atomic, dword of the instruction from the start of the code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Record(u64);

impl Record {
    fn new(segment: u32, bytes: u32, atomic: bool, instruction: u64) -> Record {
        Record(segment as u64 | (bytes as u64) << 32 | (atomic as u64) << 36 | instruction << 37)
    }
    #[inline(always)]
    fn segment(self) -> u32 {
        self.0 as u32
    }
    #[inline(always)]
    fn bytes(self) -> u32 {
        (self.0 >> 32) as u32 & 15
    }
    #[inline(always)]
    fn is_atomic(self) -> bool {
        self.0 >> 36 & 1 != 0
    }
    #[inline(always)]
    fn instruction(self) -> u64 {
        self.0 >> 37
    }
    /// The record of the same access as an atomic one.
    fn atomic(self) -> Record {
        Record(self.0 | 1 << 36)
    }
    /// The record of the same access with other bytes.
    #[inline(always)]
    fn with_bytes(self, bytes: u32) -> Record {
        Record(self.0 & !(15 << 32) | (bytes as u64) << 32)
    }
}

/// The shadow of a dword: the last plain writer, the last atomic one, the first and the last reader since.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    writer: Record,
    atomic: Record,
    readers: [Record; 2],
}

/// A piece of a wave's run.
#[derive(Debug, Clone, Copy)]
struct Segment {
    /// Workgroup number.
    group: u64,
    /// Wave in the workgroup.
    wave: u32,
    /// Barriers that the wave had signalled.
    signals: u32,
}

/// All segments of a launch by number, from 1. Read without locks, in chunks that double.
struct Segments {
    next: AtomicU32,
    chunks: [OnceLock<Box<[OnceLock<Segment>]>>; 24],
}

impl Segments {
    fn new() -> Segments {
        Segments { next: AtomicU32::new(1), chunks: [const { OnceLock::new() }; 24] }
    }
    fn place(number: u32) -> (usize, usize) {
        let chunk = (number / FIRST_CHUNK + 1).ilog2();
        (chunk as usize, (number - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
    }
    /// A new one; 0 when there are too many.
    fn add(&self, segment: Segment) -> u32 {
        if self.next.load(Relaxed) >= MOST_SEGMENTS {
            return 0;
        }
        let number = self.next.fetch_add(1, Relaxed);
        let (chunk, at) = Segments::place(number);
        let room = (FIRST_CHUNK as usize) << chunk;
        let chunk = self.chunks[chunk].get_or_init(|| std::iter::repeat_with(OnceLock::new).take(room).collect());
        let _ = chunk[at].set(segment);
        number
    }
    fn get(&self, number: u32) -> Option<Segment> {
        let (chunk, at) = Segments::place(number);
        self.chunks.get(chunk)?.get()?.get(at)?.get().copied()
    }
}

/// What has been learned through atomics: for each wave its last known segment, for each workgroup how many barriers are known to be
/// behind all its waves, and a number up to which all segments count as known. Sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Clock {
    floor: u32,
    waves: Vec<(u64, u32)>,
    groups: Vec<(u64, u32)>,
}

type Known = Option<Arc<Clock>>;

fn key(group: u64, wave: u32) -> u64 {
    group << 5 | wave as u64 & 31
}

fn look_up(sorted: &[(u64, u32)], key: u64) -> u32 {
    sorted.binary_search_by_key(&key, |entry| entry.0).map_or(0, |at| sorted[at].1)
}

fn merged(a: &[(u64, u32)], b: &[(u64, u32)]) -> Vec<(u64, u32)> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    loop {
        match (a.peek().copied(), b.peek().copied()) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                out.push((x.0, x.1.max(y.1)));
                a.next();
                b.next();
            }
            (Some(x), Some(y)) if x.0 < y.0 => {
                out.push(x);
                a.next();
            }
            (_, Some(y)) => {
                out.push(y);
                b.next();
            }
            (Some(x), None) => {
                out.push(x);
                a.next();
            }
            (None, None) => return out,
        }
    }
}

/// What either knows. Where one knows it all already, that very clock, so that equal ones stay one.
fn join(a: &Known, b: &Known) -> Known {
    let (Some(x), Some(y)) = (a, b) else { return a.clone().or_else(|| b.clone()) };
    if Arc::ptr_eq(x, y) {
        return a.clone();
    }
    let clock =
        Clock { floor: x.floor.max(y.floor), waves: merged(&x.waves, &y.waves), groups: merged(&x.groups, &y.groups) };
    match () {
        () if clock == **x => a.clone(),
        () if clock == **y => b.clone(),
        () => Some(Arc::new(clock)),
    }
}

/// The shadow of some memory, and what was published at its locations, by dword.
struct Page {
    cells: Box<[Cell]>,
    published: HashMap<u32, Arc<Clock>>,
}

type SharedPage = Arc<Mutex<Page>>;

/// What all workgroups of a launch share.
pub struct Shadow {
    segments: Segments,
    shards: Vec<Mutex<HashMap<u64, SharedPage>>>,
}

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow { segments: Segments::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("segments", &self.segments.next).finish_non_exhaustive()
    }
}

impl Shadow {
    fn page(&self, number: u64) -> SharedPage {
        let mut shard = self.shards[(number % SHARDS) as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let page = || {
            let cells = vec![Cell::default(); CELLS].into_boxed_slice();
            Arc::new(Mutex::new(Page { cells, published: HashMap::new() }))
        };
        shard.entry(number).or_insert_with(page).clone()
    }
}

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
    lds: Vec<Cell>,
    lds_published: HashMap<u32, Arc<Clock>>,
    at_hand: Vec<Option<(u64, SharedPage)>>,
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

/// How an access takes part.
const READ: u8 = 0;
const WRITE: u8 = 1;
/// A load that is atomic by its scope.
const ATOMIC_READ: u8 = 2;
/// A store that is atomic by its scope, or a read-modify-write.
const ATOMIC_WRITE: u8 = 3;

/// What else a cell asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nothing,
    /// The location's publication is to be learned.
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
    asked: u32,
    answer: Order,
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
        if segment != self.asked {
            (self.asked, self.answer) = (segment, self.find_out(segment));
        }
        self.answer
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
        let learned = self.known.is_some_and(|known| {
            number <= known.floor
                || look_up(&known.waves, key(segment.group, segment.wave)) >= number
                || look_up(&known.groups, segment.group) > segment.signals
        });
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

    /// Compares an access of some bytes of a dword with its shadow, and enters it there.
    #[inline(always)]
    fn visit<const ACT: u8>(&mut self, cell: &mut Cell, mine: Record, lane: u32, address: u64) -> Asks {
        let bytes = mine.bytes();
        // A location that atomics are at work on; a barrier behind the last of them ends that.
        let shared = cell.atomic.bytes() & bytes != 0 && !self.behind_barrier(cell.atomic);
        if ACT == READ {
            if shared {
                return Asks::Learn;
            }
            if cell.writer.bytes() & bytes != 0 {
                match self.order(cell.writer) {
                    Order::Before => {}
                    Order::None => self.conflict(lane, address, cell.writer, true),
                    Order::Unwaited => {
                        self.conflict.get_or_insert((lane, address, cell.writer, true, true));
                    }
                }
            }
            let [first, second] = &mut cell.readers;
            if first.0 == 0 || first.with_bytes(0) == mine.with_bytes(0) {
                *first = mine.with_bytes(first.bytes() | bytes);
            } else {
                *second = mine;
            }
            return Asks::Nothing;
        }
        if ACT == WRITE && shared {
            cell.atomic = mine.atomic();
            return Asks::Publish;
        }
        if cell.writer.bytes() & bytes != 0 && !self.ordered(cell.writer) {
            self.conflict(lane, address, cell.writer, true);
        }
        match ACT {
            ATOMIC_READ => return Asks::Learn,
            ATOMIC_WRITE => {
                cell.atomic = mine;
                return Asks::Publish;
            }
            _ => {}
        }
        for reader in &mut cell.readers {
            if reader.bytes() & bytes != 0 {
                if !self.ordered(*reader) {
                    self.conflict.get_or_insert((lane, address, *reader, false, false));
                }
                // Whoever conflicts with that read conflicts with this write, too.
                *reader = if reader.bytes() & !bytes == 0 { Record(0) } else { *reader };
            }
        }
        if cell.atomic.bytes() & bytes != 0 && !self.ordered(cell.atomic) {
            self.conflict(lane, address, cell.atomic, true);
        }
        let same = cell.writer.with_bytes(0) == mine.with_bytes(0);
        cell.writer = if same { mine.with_bytes(bytes | cell.writer.bytes()) } else { mine };
        Asks::Nothing
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
        let at_hand = std::iter::repeat_with(|| None).take(AT_HAND as usize).collect();
        Races {
            shadow,
            code_start,
            group: 0,
            waves: Vec::new(),
            lds: Vec::new(),
            lds_published: HashMap::new(),
            at_hand,
            barriers: Default::default(),
            late: HashMap::new(),
        }
    }

    /// Workgroup `number` begins.
    pub fn start(&mut self, number: u64, waves: u32, lds_bytes: u32) {
        self.group = number;
        self.lds.clear();
        self.lds.resize(lds_bytes.div_ceil(4) as usize, Cell::default());
        self.lds_published.clear();
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
            (Access::Load, false) => self.act::<READ>(wave, pc, accessed),
            (Access::Load, true) => self.act::<ATOMIC_READ>(wave, pc, accessed),
            (Access::Store, false) => self.act::<WRITE>(wave, pc, accessed),
            (Access::Store, true) | (Access::Atomic, _) => self.act::<ATOMIC_WRITE>(wave, pc, accessed),
        }
    }

    fn act<const ACT: u8>(&mut self, wave: u32, pc: u64, accessed: &Accessed) -> Option<Race> {
        let instruction = pc.wrapping_sub(self.code_start) >> 2;
        let state = &mut self.waves[wave as usize];
        let known = state.known.clone();
        let mut judge = Judge {
            segments: &self.shadow.segments,
            segment: state.segment,
            group: self.group,
            wave,
            waits: state.waits,
            known: known.as_deref(),
            late: (accessed.space == Space::Global).then_some(&self.late),
            asked: 0,
            answer: Order::Before, // of nobody's segment
            conflict: None,
        };
        let mine = Record::new(state.segment, 0, ACT == ATOMIC_WRITE, instruction);
        // What comes back from an atomic may tell of what was published; without return it cannot.
        let returns = matches!(accessed.moved, Moved::Atomic { dst: Some(_), .. });
        let mut publisher: Option<Publisher> = None;
        let publish = |published: &mut HashMap<u32, Arc<Clock>>, publisher: &mut Option<Publisher>, dword: u32| {
            let publisher = publisher.get_or_insert_with(|| {
                let mine = own(&known, state.segment, key(self.group, wave), self.group, state.waits, &self.shadow);
                Publisher { mine, last: None }
            });
            publisher.publish(published, dword);
        };
        let mut learns = std::mem::take(&mut state.learns);
        let (bytes, addresses) = (accessed.bytes as u64, accessed.addresses);
        if accessed.space == Space::Lds {
            for lane in lanes_of(accessed.mask) {
                let (start, end) = (addresses[lane], addresses[lane] + bytes);
                let mut at = start & !3;
                while at < end {
                    let Some(cell) = self.lds.get_mut((at >> 2) as usize) else { break };
                    let mine = mine.with_bytes(covered(at, start, end));
                    let asks = judge.visit::<ACT>(cell, mine, lane as u32, at);
                    if asks == Asks::Publish {
                        publish(&mut self.lds_published, &mut publisher, (at >> 2) as u32);
                    }
                    if asks == Asks::Learn || asks == Asks::Publish && returns {
                        learns.push((true, at));
                    }
                    at += 4;
                }
            }
        } else {
            let mut lanes = lanes_of(accessed.mask);
            let mut next = lanes.next().map(|lane| (lane, addresses[lane] & !3));
            while let Some((_, at)) = next {
                let number = at / PAGE_BYTES;
                let page = at_hand(&mut self.at_hand, &self.shadow, number);
                let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
                let Page { cells, published } = &mut *page;
                while let Some((lane, mut at)) = next
                    && at / PAGE_BYTES == number
                {
                    let (start, end) = (addresses[lane], addresses[lane].saturating_add(bytes));
                    let stop = end.min((number + 1) * PAGE_BYTES);
                    while at < stop {
                        let cell = &mut cells[(at % PAGE_BYTES / 4) as usize];
                        let mine = mine.with_bytes(covered(at, start, end));
                        let asks = judge.visit::<ACT>(cell, mine, lane as u32, at);
                        if asks == Asks::Publish {
                            publish(published, &mut publisher, (at % PAGE_BYTES / 4) as u32);
                        }
                        if asks == Asks::Learn || asks == Asks::Publish && returns {
                            learns.push((false, at));
                        }
                        at += 4;
                    }
                    next =
                        if at < end { Some((lane, at)) } else { lanes.next().map(|lane| (lane, addresses[lane] & !3)) };
                }
            }
        }
        let conflict = judge.conflict;
        let published = publisher.is_some();
        drop(publisher);
        state.learns = learns;
        if published {
            self.next_segment(wave);
        }
        conflict.and_then(|found| self.race(found))
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
                self.lds_published.get(&((at >> 2) as u32)).cloned()
            } else {
                let page = at_hand(&mut self.at_hand, &self.shadow, at / PAGE_BYTES);
                let page = page.lock().unwrap_or_else(PoisonError::into_inner);
                page.published.get(&((at % PAGE_BYTES / 4) as u32)).cloned()
            };
            known = join(&known, &published);
        }
        let state = &mut self.waves[wave as usize];
        (state.known, state.learns) = (known, learns);
    }
}

/// What a wave knows together with its own past.
fn own(known: &Known, segment: u32, wave: u64, group: u64, waits: u32, shadow: &Shadow) -> Arc<Clock> {
    let mut clock = known.as_deref().cloned().unwrap_or_default();
    if clock.waves.len() >= MOST_KNOWN {
        // Too many to tell apart: all that has begun until now counts as known.
        let floor = shadow.segments.next.load(Relaxed) - 1;
        clock = Clock { floor, ..Clock::default() };
    }
    clock.waves = merged(&clock.waves, &[(wave, segment)]);
    clock.groups = merged(&clock.groups, &[(group, waits)]);
    Arc::new(clock)
}

/// Which bytes of the dword at `at` lie in `start..end`.
#[inline(always)]
fn covered(at: u64, start: u64, end: u64) -> u32 {
    let low = start.saturating_sub(at).min(4) as u32;
    let high = (end - at).min(4) as u32;
    (1u32 << high) - (1u32 << low)
}

/// A page, from those at hand where it is among them.
fn at_hand(pages: &mut [Option<(u64, SharedPage)>], shadow: &Shadow, number: u64) -> SharedPage {
    let slot = &mut pages[(number % AT_HAND) as usize];
    match slot {
        Some((there, page)) if *there == number => page.clone(),
        _ => {
            let page = shadow.page(number);
            *slot = Some((number, page.clone()));
            page
        }
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
