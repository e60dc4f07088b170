//! Which wave runs when. The default takes workgroups in ascending order, as many threads as cores, each thread one workgroup at a
//! time; a thread whose workgroups only spin takes a further one beside them, so that workgroups may wait for one another. The other
//! schedules run everything on one thread in a fixed order, for tests.

use super::Stats;
use super::code::LoadedModule;
use super::group::{Context, DUMP_LINES, Group, Slice, Status, trap};
use super::setup::Plan;
use crate::arch::Arch;
use crate::fault::{Fault, Trap};
use crate::memory::Memory;
use crate::watch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Order of workgroups and waves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Workgroups on several threads, `None` for all cores.
    Parallel {
        /// Number of threads.
        threads: Option<usize>,
    },
    /// One thread, waves in ascending order.
    Forward,
    /// One thread, waves in descending order.
    Backward,
    /// One thread, all workgroups (as far as the chip holds them) interleaved by a few instructions at a time.
    Random {
        /// Of the generator.
        seed: u64,
    },
}

/// Instructions a wave runs before another of its workgroup gets a turn.
const SLICE: u64 = 1 << 14;
/// Slices without a barrier or an end after which a workgroup is taken for spinning.
const SPIN_SLICES: u64 = 256;
/// Waves that the chip holds; no more are resident here.
const MAX_WAVES: usize = 2048;
/// A hang needs this much time without progress besides the rounds.
const HANG_TIME: Duration = Duration::from_secs(2);

struct Shared<'a> {
    cx: Context<'a>,
    /// There if anything looks on.
    watch: Option<Arc<watch::Shared>>,
    next: AtomicU64,
    /// Counts barriers, ends and used-up slices of all threads.
    progress: AtomicU64,
    stop: AtomicBool,
    trap: Mutex<Option<Box<Trap>>>,
    stats: Mutex<Stats>,
    most_groups: usize,
    /// Instructions executed, counted only where [`super::Options::launch_limit`] asks for it.
    executed: AtomicU64,
}

/// Runs all workgroups of a plan.
pub(super) fn run(memory: &Memory, module: &LoadedModule, plan: &Plan) -> Result<Stats, Box<Trap>> {
    let threads = match plan.options.schedule {
        Schedule::Parallel { threads } => threads.unwrap_or_else(rayon::current_num_threads).max(1),
        _ => 1,
    };
    let threads = threads.min(usize::try_from(plan.groups).unwrap_or(usize::MAX));
    // How many workgroups' scratch there is room for; at least one, or the plan would have been refused.
    let group_scratch = u64::from(plan.scratch_bytes) * 32 * u64::from(plan.waves);
    let scratch_groups = plan.options.scratch_limit.checked_div(group_scratch).unwrap_or(u64::MAX);
    let scratch_groups = usize::try_from(scratch_groups).unwrap_or(usize::MAX).max(1);
    let threads = threads.min(scratch_groups);
    let super::Options { checks, counters, .. } = plan.options;
    let tracing = plan.options.trace.clone().map(|trace| watch::trace::Tracing {
        trace,
        kernel: plan.kernel.name.as_str().into(),
        entry: plan.entry,
    });
    let counting = counters.then(|| watch::counters::Shared::new(memory));
    let watched = checks.any() || counters || tracing.is_some();
    let watch = watched.then(|| Arc::new(watch::Shared { checks, counting, tracing, ..Default::default() }));
    let shared = Shared {
        watch,
        cx: Context { memory, module, plan, arch: Arch::new() },
        next: AtomicU64::new(0),
        progress: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        trap: Mutex::new(None),
        stats: Mutex::new(Stats::default()),
        most_groups: (MAX_WAVES / threads / plan.waves as usize).min(scratch_groups / threads).max(1),
        executed: AtomicU64::new(0),
    };
    if threads == 1 {
        work(&shared);
    } else {
        rayon::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|_| work(&shared));
            }
        });
    }
    let counted = shared.watch.as_ref().and_then(|watch| watch.counting.as_ref()).map(|counting| counting.take());
    let mut findings = shared.watch.map_or_else(Vec::new, |watch| watch.findings.take());
    for finding in &mut findings {
        finding.complete(module, plan.kernel, plan.info.grid);
    }
    match shared.trap.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(mut trap) => {
            trap.findings = findings;
            Err(trap)
        }
        None => {
            let mut stats = shared.stats.into_inner().unwrap_or_else(PoisonError::into_inner);
            stats.findings = findings;
            stats.counters = counted.map(Box::new);
            Ok(stats)
        }
    }
}

fn work(shared: &Shared) {
    let mut worker =
        Worker { shared, resident: Vec::new(), spare: Vec::new(), stats: Stats::default(), idle: Idle::new() };
    let result = match shared.cx.plan.options.schedule {
        Schedule::Random { seed } => worker.random(seed),
        _ => worker.in_order(),
    };
    if let Err(trap) = result {
        shared.stop.store(true, Relaxed);
        shared.trap.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trap);
    }
    let resident = worker.resident.into_iter().map(|resident| resident.group);
    for mut group in worker.spare.into_iter().chain(resident) {
        group.finish();
        group.drop_scratch();
        shared.cx.module.keep_spare(group);
    }
    shared.stats.lock().unwrap_or_else(PoisonError::into_inner).add(&worker.stats);
}

impl Shared<'_> {
    /// Runs a wave for at most `slice` instructions, within the launch's limit.
    #[inline]
    fn run(&self, group: &mut Group, wave: usize, slice: u64, stats: &mut Stats) -> Result<Slice, Box<Trap>> {
        let limit = self.cx.plan.options.launch_limit;
        if limit == u64::MAX {
            return group.run(&self.cx, wave, slice, &mut stats.instructions);
        }
        let before = group.slots[wave].wave.executed;
        let left = limit.saturating_sub(self.executed.load(Relaxed));
        let hang = |group: &Group| {
            let fault = Fault::Hang(format!("the launch executed {limit} instructions"));
            Err(Box::new(trap(&self.cx, group.id, &group.slots[wave].wave, fault)))
        };
        if left == 0 {
            return hang(group);
        }
        let stopped = group.run(&self.cx, wave, slice.min(left), &mut stats.instructions)?;
        let done = group.slots[wave].wave.executed - before;
        // Other threads may have used what was left meanwhile: together they pass the limit by a slice each at most, and one of them sees it.
        if self.executed.fetch_add(done, Relaxed) + done > limit {
            return hang(group);
        }
        Ok(stopped)
    }
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    resident: Vec<Resident>,
    spare: Vec<Group>,
    stats: Stats,
    idle: Idle,
}

struct Resident {
    group: Group,
    /// Slices used up since a barrier or an end.
    slices: u64,
}

/// Rounds without any progress in the whole launch.
struct Idle {
    rounds: u64,
    progress: u64,
    since: Instant,
}

impl Idle {
    fn new() -> Idle {
        Idle { rounds: 0, progress: 0, since: Instant::now() }
    }
    /// Notes a round; whether it has been too many.
    fn round(&mut self, progress: u64, limit: u64) -> bool {
        if progress != self.progress {
            *self = Idle { rounds: 0, progress, since: Instant::now() };
        }
        self.rounds += 1;
        self.rounds >= limit && self.since.elapsed() >= HANG_TIME
    }
}

impl Worker<'_> {
    /// Makes the next workgroup resident, if there is one.
    fn take(&mut self) -> bool {
        let plan = self.shared.cx.plan;
        if self.shared.next.load(Relaxed) >= plan.groups {
            return false;
        }
        let number = self.shared.next.fetch_add(1, Relaxed);
        if number >= plan.groups {
            return false;
        }
        let mut group = self.spare.pop().unwrap_or_else(|| {
            let mut group = self.shared.cx.module.take_spare().unwrap_or_else(Group::new);
            group.enter(self.shared.watch.as_ref());
            group
        });
        group.start(plan, number);
        self.stats.workgroups += 1;
        self.stats.waves += plan.waves as u64;
        self.resident.push(Resident { group, slices: 0 });
        true
    }

    fn in_order(&mut self) -> Result<(), Box<Trap>> {
        let backward = self.shared.cx.plan.options.schedule == Schedule::Backward;
        loop {
            if self.resident.is_empty() && !self.take() {
                return Ok(());
            }
            let mut spinning = true;
            let mut index = 0;
            while index < self.resident.len() {
                if self.shared.stop.load(Relaxed) {
                    return Ok(());
                }
                spinning &= self.round(index, backward)?;
                if self.resident[index].group.live == 0 {
                    self.spare.push(self.resident.remove(index).group);
                } else {
                    index += 1;
                }
            }
            if spinning && !self.resident.is_empty() {
                self.spin()?;
            }
        }
    }

    /// One turn of every wave of a workgroup; whether the workgroup seems to wait for others.
    fn round(&mut self, index: usize, backward: bool) -> Result<bool, Box<Trap>> {
        let resident = &mut self.resident[index];
        let count = resident.group.slots.len();
        let live = resident.group.live;
        let (mut used, mut slept) = (0, 0);
        for turn in 0..count {
            let wave = if backward { count - 1 - turn } else { turn };
            if resident.group.slots[wave].status != Status::Ready {
                continue;
            }
            match self.shared.run(&mut resident.group, wave, SLICE, &mut self.stats)? {
                Slice::Used => used += 1,
                Slice::Slept => slept += 1,
                Slice::Stopped => {}
            }
        }
        // A wave that stopped at a barrier is progress unless all that is left are sleepers, round after round.
        let moved =
            resident.group.live != live || resident.group.slots.iter().any(|s| s.status == Status::Ready) && slept == 0;
        if used > 0 || moved {
            self.shared.progress.fetch_add(1, Relaxed);
        }
        resident.slices = if used > 0 && resident.group.live == live { resident.slices + used } else { 0 };
        Ok(used == 0 && slept > 0 && resident.group.live == live || resident.slices >= SPIN_SLICES)
    }

    /// All resident workgroups only spin: start another beside them, or let other threads run; too long is a hang.
    fn spin(&mut self) -> Result<(), Box<Trap>> {
        if self.resident.len() < self.shared.most_groups && self.take() {
            self.shared.progress.fetch_add(1, Relaxed);
            return Ok(());
        }
        for resident in &mut self.resident {
            resident.slices = 0;
        }
        let progress = self.shared.progress.load(Relaxed);
        if self.idle.round(progress, self.shared.cx.plan.options.idle_limit) {
            return Err(self.hang());
        }
        std::thread::yield_now();
        Ok(())
    }

    fn hang(&self) -> Box<Trap> {
        let mut lines = Vec::new();
        for resident in &self.resident {
            resident.group.dump(&self.shared.cx, &mut lines, DUMP_LINES);
        }
        let running = self.resident.iter().flat_map(|r| r.group.slots.iter().map(move |s| (r, s)));
        let mut live = running.filter(|(_, s)| s.status != Status::Ended);
        let fault = Fault::Hang(format!("all waves only wait or sleep\n  {}", lines.join("\n  ")));
        match live.next() {
            Some((resident, slot)) => Box::new(trap(&self.shared.cx, resident.group.id, &slot.wave, fault)),
            None => unreachable!("a hang has live waves"),
        }
    }

    fn random(&mut self, seed: u64) -> Result<(), Box<Trap>> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut below = move |n: usize| {
            // splitmix64: every seed gives another order, the same on every machine.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ z >> 31) % n.max(1) as u64) as usize
        };
        loop {
            while self.resident.len() < self.shared.most_groups && self.take() {}
            if self.resident.is_empty() {
                return Ok(());
            }
            let index = below(self.resident.len());
            let group = &mut self.resident[index].group;
            let wave = below(group.slots.len());
            if group.slots[wave].status != Status::Ready {
                continue;
            }
            let live = group.live;
            let slice = 1 + below(8) as u64;
            let stopped = self.shared.run(group, wave, slice, &mut self.stats)?;
            if stopped == Slice::Stopped || group.live != live {
                self.shared.progress.fetch_add(1, Relaxed);
            }
            if group.live == 0 {
                self.spare.push(self.resident.remove(index).group);
            } else if stopped == Slice::Slept {
                let progress = self.shared.progress.load(Relaxed);
                if self.idle.round(progress, self.shared.cx.plan.options.idle_limit) {
                    return Err(self.hang());
                }
            }
        }
    }
}
