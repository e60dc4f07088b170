//! What comes before what: segments of waves, and the clocks that atomics carry from one wave to another. Whether two accesses conflict
//! is judged in [`super::race`].

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Most waves that a clock tells apart.
const MOST_KNOWN: usize = 512;
/// Most segments of a launch, within 24 bits with room for a few threads; later accesses are not checked.
const MOST_SEGMENTS: u32 = (1 << 24) - 4096;
/// Segments of the first chunk of the table.
const FIRST_CHUNK: u32 = 256;

/// A piece of a wave's run.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Workgroup number.
    pub group: u64,
    /// Wave in the workgroup.
    pub wave: u32,
    /// Barriers that the wave had signalled.
    pub signals: u32,
}

/// All segments of a launch by number, from 1. Read without locks, in chunks that double.
pub struct Segments {
    next: AtomicU32,
    chunks: [OnceLock<Box<[OnceLock<Segment>]>>; 24],
}

impl Segments {
    /// None yet.
    pub fn new() -> Segments {
        Segments { next: AtomicU32::new(1), chunks: [const { OnceLock::new() }; 24] }
    }
    fn place(number: u32) -> (usize, usize) {
        let chunk = (number / FIRST_CHUNK + 1).ilog2();
        (chunk as usize, (number - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
    }
    /// A new one; 0 when there are too many.
    pub fn add(&self, segment: Segment) -> u32 {
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
    /// The number of the one that began last.
    pub fn newest(&self) -> u32 {
        self.next.load(Relaxed) - 1
    }
    /// The one with this number.
    pub fn get(&self, number: u32) -> Option<Segment> {
        let (chunk, at) = Segments::place(number);
        self.chunks.get(chunk)?.get()?.get(at)?.get().copied()
    }
}

impl Default for Segments {
    fn default() -> Segments {
        Segments::new()
    }
}

/// What has been learned through atomics: for each wave its last known segment, for each workgroup how many barriers are known to be
/// behind all its waves, and a number up to which all segments count as known. Sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    floor: u32,
    waves: Vec<(u64, u32)>,
    groups: Vec<(u64, u32)>,
}

/// A clock that waves and locations may share; none knows nothing.
pub type Known = Option<Arc<Clock>>;

/// A wave of the launch.
fn key(group: u64, wave: u32) -> u64 {
    group << 5 | wave as u64 & 31
}

/// The value of a key, 0 where there is none.
fn look_up(sorted: &[(u64, u32)], key: u64) -> u32 {
    sorted.binary_search_by_key(&key, |entry| entry.0).map_or(0, |at| sorted[at].1)
}

/// The larger of both for each key.
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

impl Clock {
    /// Whether segment `number` is known to be over, as far as it matters: its accesses come before.
    pub fn covers(&self, number: u32, segment: &Segment) -> bool {
        number <= self.floor
            || look_up(&self.waves, key(segment.group, segment.wave)) >= number
            || look_up(&self.groups, segment.group) > segment.signals
    }
}

/// What either knows. Where one knows it all already, that very clock, so that equal ones stay one.
pub fn join(a: &Known, b: &Known) -> Known {
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

/// What a wave knows together with its own past.
pub fn own(known: &Known, segment: u32, group: u64, wave: u32, waits: u32, segments: &Segments) -> Arc<Clock> {
    let mut clock = known.as_deref().cloned().unwrap_or_default();
    if clock.waves.len() >= MOST_KNOWN {
        // Too many to tell apart: all that has begun until now counts as known.
        let floor = segments.newest();
        clock = Clock { floor, ..Clock::default() };
    }
    clock.waves = merged(&clock.waves, &[(key(group, wave), segment)]);
    clock.groups = merged(&clock.groups, &[(group, waits)]);
    Arc::new(clock)
}
