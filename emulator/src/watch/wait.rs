//! Missing waits. An instruction that fills a register later (a vector load, an LDS operation, a scalar load) leaves it outstanding
//! until an `s_wait_*` retires it; whoever reads or overwrites the register before that gets an undefined value on hardware. Loads and
//! LDS operations finish in order, so a wait for "at most n" retires all but the n youngest; scalar loads finish in any order, so only a
//! wait for 0 does. Flat operations count with both loads and LDS, and are done when both say so. Nothing here looks at memory itself.

use crate::isa::effects::{Effects, File, Set, Span};
use crate::isa::{Format, Inst, Ty};
use std::collections::VecDeque;

/// Most operations that a counter can have outstanding; hardware stalls before the next.
const COUNTER: usize = 63;

/// Counters that say when registers are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Vector loads and atomics that return.
    Load,
    /// LDS, and lane permutations through it.
    Ds,
    /// Scalar loads and messages.
    Km,
}

/// An operation that is not waited for yet.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    pc: u64,
    /// Registers that it fills, if any.
    fills: Set,
    /// Whether it has touched LDS: lane permutations do not, flat operations may.
    lds: bool,
}

/// A defect: the counter that should have been waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Which counter.
    pub counter: Counter,
    /// Address of the instruction that is outstanding.
    pub by: u64,
    /// Whether the register is only overwritten, not read.
    pub overwritten: bool,
    /// The register, as `v7` or `s3`.
    pub register: String,
}

/// What an instruction asks of the counters. Part of its [`Effects`], because its name tells and names are slow to compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the counters' names")]
pub enum Kind {
    /// Nothing.
    #[default]
    None,
    /// Counts up.
    Starts { load: bool, ds: bool, km: bool, store: bool },
    /// `s_wait_*`: how many may stay outstanding in each counter.
    Waits { load: usize, ds: usize, km: usize, store: usize },
    /// `s_barrier_signal*`.
    Signals,
}

/// One wave's counters.
#[derive(Debug, Default)]
pub struct Waits {
    load: VecDeque<Outstanding>,
    ds: VecDeque<Outstanding>,
    km: VecDeque<Outstanding>,
    store: usize,
    /// Registers that any of them fills.
    pending: Set,
    busy: bool,
}

impl Waits {
    /// Forgets everything: a wave begins.
    pub fn start(&mut self) {
        *self = Waits::default();
    }

    /// Stores to global memory or scratch that are not waited for.
    pub fn stores(&self) -> usize {
        self.store
    }

    /// The register that `effects` touches although it is outstanding, if there is one.
    #[inline]
    pub fn check(&self, effects: &Effects) -> Option<Missing> {
        if !self.busy || !(self.pending.meets(&effects.read_set) || self.pending.meets(&effects.write_set)) {
            return None;
        }
        self.touched(effects)
    }

    fn touched(&self, effects: &Effects) -> Option<Missing> {
        let read = effects.reads.iter().find_map(|&span| self.pending(span, None));
        if let Some((counter, by, register)) = read {
            return Some(Missing { counter, by, overwritten: false, register });
        }
        // What the same counter fills in order may be overwritten: the later value stays.
        let same = match effects.kind {
            Kind::Starts { ds: true, .. } => Some(Counter::Ds),
            Kind::Starts { load: true, .. } => Some(Counter::Load),
            _ => None,
        };
        let (counter, by, register) = effects.writes.iter().find_map(|&span| self.pending(span, same))?;
        Some(Missing { counter, by, overwritten: true, register })
    }

    /// The first outstanding register of a span: its counter, who fills it, its name.
    fn pending(&self, span: Span, except: Option<Counter>) -> Option<(Counter, u64, String)> {
        let register = (span.first as u16..span.end()).find(|&register| self.pending.has(span.file, register))?;
        let holds = |outstanding: &&Outstanding| outstanding.fills.has(span.file, register);
        let queues = [(Counter::Load, &self.load), (Counter::Ds, &self.ds), (Counter::Km, &self.km)];
        let mut found = queues.into_iter().filter(|(counter, _)| Some(*counter) != except);
        let (counter, by) = found.find_map(|(counter, queue)| Some((counter, queue.iter().find(holds)?.pc)))?;
        let letter = if span.file == File::Vector { 'v' } else { 's' };
        Some((counter, by, format!("{letter}{register}")))
    }

    /// The instruction executes. `exec` says whether any lane is on: without one nothing is loaded.
    #[inline]
    pub fn execute(&mut self, pc: u64, effects: &Effects, exec: u32) {
        if effects.kind != Kind::None {
            self.count(pc, effects, exec);
        }
    }

    fn count(&mut self, pc: u64, effects: &Effects, exec: u32) {
        match effects.kind {
            Kind::None | Kind::Signals => {}
            Kind::Starts { load, ds, km, store } => {
                let fills = if km || exec != 0 { effects.write_set } else { Set::default() };
                let outstanding = Outstanding { pc, fills, lds: false };
                for (queue, counts) in [(&mut self.load, load), (&mut self.ds, ds), (&mut self.km, km)] {
                    if counts {
                        queue.push_back(outstanding);
                    }
                }
                self.store += store as usize;
                if self.load.len() > COUNTER || self.ds.len() > COUNTER || self.km.len() > COUNTER {
                    self.retire(COUNTER, COUNTER, COUNTER, COUNTER);
                } else if load || ds || km {
                    self.fill(&fills);
                }
            }
            Kind::Waits { load, ds, km, store } => self.retire(load, ds, km, store),
        }
    }

    /// The instruction that was executed last has touched LDS.
    pub fn touches_lds(&mut self) {
        if let Some(last) = self.ds.back_mut() {
            last.lds = true;
        }
    }

    fn retire(&mut self, load: usize, ds: usize, km: usize, store: usize) {
        self.store = self.store.min(store);
        let before = self.load.len() + self.ds.len() + self.km.len();
        for (queue, most) in [(&mut self.load, load), (&mut self.ds, ds)] {
            queue.drain(..queue.len().saturating_sub(most));
        }
        // Out of order: one that is left may be any of them. More than hardware counts cannot be left.
        if km == 0 {
            self.km.clear();
        }
        self.km.drain(..self.km.len().saturating_sub(COUNTER));
        if self.load.len() + self.ds.len() + self.km.len() == before {
            return;
        }
        let left = self.load.iter().chain(&self.ds).chain(&self.km);
        self.pending = left.fold(Set::default(), |pending, outstanding| pending.with(&outstanding.fills));
        self.busy = self.pending != Set::default();
    }

    fn fill(&mut self, fills: &Set) {
        self.pending = self.pending.with(fills);
        self.busy |= *fills != Set::default();
    }

    /// Where the oldest operation on LDS memory is that nothing has waited for, if `inst` signals a barrier.
    #[inline]
    pub fn signals_too_early(&self, effects: &Effects) -> Option<u64> {
        if self.ds.is_empty() || effects.kind != Kind::Signals {
            return None;
        }
        self.ds.iter().find(|outstanding| outstanding.lds).map(|outstanding| outstanding.pc)
    }
}

/// What the instruction does to the counters. The names tell: rows have no field for it.
pub fn kind(inst: &Inst, effects: &Effects) -> Kind {
    let name = inst.row.name;
    let loads = effects.writes.iter().any(|span| span.file == File::Vector);
    let starts = |load: bool, ds: bool, store: bool| Kind::Starts { load, ds, km: false, store };
    match inst.format {
        Format::Sopp => wait(inst),
        Format::Sop1 if name.starts_with("s_barrier_signal") => Kind::Signals,
        Format::Sop1 if name.starts_with("s_sendmsg_rtn") || name.starts_with("s_get_barrier_state") => {
            Kind::Starts { load: false, ds: false, km: true, store: false }
        }
        // Prefetches and cache control fill no register.
        Format::Smem if inst.row.d != Ty::None => Kind::Starts { load: false, ds: false, km: true, store: false },
        Format::Ds => starts(false, true, false),
        Format::Flat => starts(loads, true, !loads),
        Format::Global if name == "global_inv" => starts(true, false, false),
        Format::Global | Format::Scratch | Format::Buffer => starts(loads, false, !loads),
        _ => Kind::None,
    }
}

fn wait(inst: &Inst) -> Kind {
    let most = usize::MAX;
    let imm = inst.imm as u16 as usize;
    let (high, low) = (imm >> 8 & 63, imm & 63);
    match inst.row.name {
        "s_wait_loadcnt" => Kind::Waits { load: low, ds: most, km: most, store: most },
        "s_wait_storecnt" => Kind::Waits { load: most, ds: most, km: most, store: low },
        "s_wait_dscnt" => Kind::Waits { load: most, ds: low, km: most, store: most },
        "s_wait_kmcnt" => Kind::Waits { load: most, ds: most, km: low, store: most },
        "s_wait_loadcnt_dscnt" => Kind::Waits { load: high, ds: low, km: most, store: most },
        "s_wait_storecnt_dscnt" => Kind::Waits { load: most, ds: low, km: most, store: high },
        "s_wait_idle" | "s_waitcnt" => Kind::Waits { load: 0, ds: 0, km: 0, store: 0 },
        _ => Kind::None,
    }
}
