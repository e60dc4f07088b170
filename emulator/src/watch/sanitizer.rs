//! The checks of one workgroup but for definedness: arguments' ends, races, missing waits, barriers inside a wave. It is told what
//! [`super::Watch`] is told, asks the judges in `race`, `wait` and `barrier`, and puts their answers into words.

use super::barrier::Barriers;
use super::finding::{Allocation, Class, Finding, Other, Place, Touched};
use super::race::{self, Races};
use super::shadow::Shade;
use super::wait::{Counter, Missing, Waits};
use super::{Accessed, Moved, Shared, Space, Start};
use crate::execute::memory_ops::lanes_of;
use crate::fault::Access;
use crate::isa::effects::Effects;
use crate::isa::{Format, Inst};
use crate::memory::Memory;
use crate::wave::Wave;
use std::ops::Range;
use std::sync::Arc;

/// One wave's part.
#[derive(Debug, Default)]
struct State {
    waits: Waits,
    barriers: Barriers,
}

/// Checks one workgroup after another of a launch.
#[derive(Debug)]
pub struct Sanitizer {
    shared: Arc<Shared>,
    workgroup: [u32; 3],
    number: u64,
    waves: Vec<State>,
    lds_bytes: u32,
    arguments: Range<u64>,
    races: Option<Races>,
    /// Memory for the shadow of LDS.
    lds: Shade,
    /// Whether barriers need a wait for stores: the waves of a workgroup may be on two compute units.
    wide: bool,
    /// Whether the instruction that executes is a load or store whose scope is wider than the compute unit.
    scoped: bool,
}

impl Sanitizer {
    /// For a launch, in the memory of `lds`.
    pub fn new(shared: Arc<Shared>, lds: Shade) -> Sanitizer {
        Sanitizer {
            shared,
            workgroup: [0; 3],
            number: 0,
            waves: Vec::new(),
            lds_bytes: 0,
            arguments: 0..0,
            races: None,
            lds,
            wide: false,
            scoped: false,
        }
    }

    /// A workgroup begins.
    pub fn started(&mut self, start: &Start) {
        self.workgroup = start.workgroup;
        self.number = start.number;
        self.lds_bytes = start.lds_bytes;
        self.wide = start.wgp_mode && start.waves > 1;
        self.arguments = start.arguments.0..start.arguments.1;
        self.waves.resize_with(start.waves as usize, State::default);
        for (index, state) in self.waves.iter_mut().enumerate() {
            let lanes = start.items.saturating_sub(32 * index as u32).min(32);
            state.waits.start();
            state.barriers.start(if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 });
        }
        // Stores that a barrier does not wait for show in the shadow, too.
        if self.shared.checks.race || self.shared.checks.wait {
            let shadow = &self.shared.shadow;
            let races = self
                .races
                .get_or_insert_with(|| Races::new(shadow.clone(), start.code_start, std::mem::take(&mut self.lds)));
            races.start(start.number, start.waves, start.lds_bytes);
        }
    }

    /// The launch is over; what is left of memory.
    pub fn finish(self) -> Shade {
        self.races.map_or(self.lds, Races::finish)
    }

    /// `inst` is about to execute.
    #[inline]
    pub fn before(&mut self, wave: &Wave, inst: &Inst, effects: &Effects) {
        if matches!(inst.format, Format::Flat | Format::Global | Format::Scratch | Format::Buffer) {
            self.scoped = inst.words[1] >> 18 & 3 != 0;
        } else {
            self.scoped = false;
        }
        if self.shared.checks.wait {
            let waits = &mut self.waves[wave.index as usize].waits;
            let (missing, early) = (waits.check(effects), waits.signals_too_early(effects));
            let stores = waits.stores();
            waits.execute(wave.pc, effects, wave.exec());
            if self.wide
                && stores > 0
                && waits.stores() == 0
                && let Some(races) = &mut self.races
            {
                races.stores_arrived(wave.index);
            }
            if let Some(missing) = missing {
                self.missing(wave, &missing);
            }
            if let Some(early) = early
                && self.waves.len() > 1
            {
                self.early(wave, early);
            }
        }
    }

    /// The instruction is about to access memory.
    pub fn accessed(&mut self, memory: &Memory, wave: &Wave, accessed: &Accessed) {
        let checks = self.shared.checks;
        if checks.memory && accessed.space == Space::Global {
            self.arguments(memory, wave, accessed);
        }
        let state = &mut self.waves[wave.index as usize];
        if accessed.space == Space::Lds {
            state.waits.touches_lds();
        }
        // A scalar load belongs to no lane.
        if checks.barrier
            && !matches!(accessed.moved, Moved::Scalar { .. })
            && let Some(back) = state.barriers.uses(accessed.mask)
        {
            self.missed(wave, back, "touches memory");
        }
        if self.races.is_some() && accessed.space != Space::Scratch && !memory.is_argument(first_address(accessed)) {
            self.race(memory, wave, accessed);
        }
    }

    /// The instruction has executed.
    #[inline]
    pub fn after(&mut self, wave: &Wave) {
        if let Some(races) = &mut self.races {
            races.executed(wave.index);
        }
    }

    /// The wave has signalled the barrier; its pc is still there.
    pub fn signalled(&mut self, wave: &Wave) {
        if let Some(races) = &mut self.races {
            let outstanding = self.wide && self.waves[wave.index as usize].waits.stores() > 0;
            races.signalled(wave.index, outstanding);
        }
        if self.shared.checks.barrier
            && let Some(back) = self.waves[wave.index as usize].barriers.signal(wave.pc, wave.exec())
        {
            self.missed(wave, back, "takes a barrier");
        }
    }

    /// The wave goes on behind the barrier.
    pub fn passed(&mut self, wave: &Wave) {
        if let Some(races) = &mut self.races {
            races.passed(wave.index);
        }
    }

    fn finding(&self, class: Class, wave: &Wave, lane: Option<u32>, message: String) -> Finding {
        Finding::new(class, wave.pc, self.workgroup, wave.index, lane, message)
    }

    fn touched(&self, memory: &Memory, accessed: &Accessed, lane: u32) -> Touched {
        let address = accessed.addresses[lane as usize & 31];
        let allocation = match accessed.space {
            Space::Global => memory.allocation(address),
            Space::Lds => Some(Allocation { base: 0, bytes: u64::from(self.lds_bytes), live: true }),
            Space::Scratch => None,
        };
        Touched { space: accessed.space, address, bytes: accessed.bytes, access: accessed.access, allocation }
    }

    /// The same wave's other instruction.
    fn own(&self, wave: &Wave, what: &'static str, pc: u64) -> Other {
        Other { what, number: self.number, workgroup: self.workgroup, wave: wave.index, place: Place::at(pc) }
    }

    #[cold]
    fn missing(&self, wave: &Wave, missing: &Missing) {
        let (class, name) = match missing.counter {
            Counter::Load => (Class::MissingWaitLoadcnt, "s_wait_loadcnt"),
            Counter::Ds => (Class::MissingWaitDscnt, "s_wait_dscnt"),
            Counter::Km => (Class::MissingWaitKmcnt, "s_wait_kmcnt"),
        };
        if self.shared.findings.again(class, wave.pc) {
            return;
        }
        let verb = if missing.overwritten { "overwritten" } else { "read" };
        let message = format!("{} is {verb} before {name} for what fills it", missing.register);
        let mut finding = self.finding(class, wave, None, message);
        finding.other = Some(self.own(wave, "filled by", missing.by));
        self.shared.findings.report(finding);
    }

    #[cold]
    fn early(&self, wave: &Wave, pc: u64) {
        if self.shared.findings.again(Class::MissingWaitDscntBeforeBarrier, wave.pc) {
            return;
        }
        let message = "the barrier is signalled with LDS operations outstanding, s_wait_dscnt 0 is missing".into();
        let mut finding = self.finding(Class::MissingWaitDscntBeforeBarrier, wave, None, message);
        finding.other = Some(self.own(wave, "outstanding since", pc));
        self.shared.findings.report(finding);
    }

    #[cold]
    fn missed(&self, wave: &Wave, (lanes, pc): (u32, u64), what: &str) {
        if self.shared.findings.again(Class::BarrierDivergence, wave.pc) {
            return;
        }
        let lane = lanes.trailing_zeros();
        let message = format!("lane {lane} {what} and has not taken the barrier that its wave took before");
        let mut finding = self.finding(Class::BarrierDivergence, wave, Some(lane), message);
        finding.other = Some(self.own(wave, "barrier taken without it", pc));
        self.shared.findings.report(finding);
    }

    /// Arguments lie in memory of the runtime, which is larger than what this launch may read of it.
    fn arguments(&self, memory: &Memory, wave: &Wave, accessed: &Accessed) {
        if !memory.is_argument(first_address(accessed)) {
            return;
        }
        let Range { start, end } = self.arguments;
        let outside = |address: u64| address < start || address.saturating_add(u64::from(accessed.bytes)) > end;
        let Some(lane) = lanes_of(accessed.mask).find(|&lane| outside(accessed.addresses[lane])) else { return };
        let message = format!("{} outside the {} bytes of arguments at {start:#x}", accessed.access, end - start);
        let mut finding = self.finding(Class::OutOfBoundsArguments, wave, Some(lane as u32), message);
        let allocation = Some(Allocation { base: start, bytes: end - start, live: true });
        finding.touched = Some(Touched { allocation, ..self.touched(memory, accessed, lane as u32) });
        self.shared.findings.report(finding);
    }

    fn race(&mut self, memory: &Memory, wave: &Wave, accessed: &Accessed) {
        let Some(races) = &mut self.races else { return };
        let found = races.accessed(wave.index, wave.pc, accessed, self.scoped);
        let checks = self.shared.checks;
        if let Some(race) = found
            && (if race.unwaited { checks.wait } else { checks.race })
        {
            self.raced(memory, wave, accessed, &race);
        }
        if let Moved::Store { store, data } = accessed.moved
            && checks.race
            && accessed.mask & accessed.mask.wrapping_sub(1) != 0
        {
            let value = |lane: usize| {
                let word = |k: u8| wave.vgpr[data.wrapping_add(k) as usize][lane];
                let bytes = store.bytes();
                if bytes < 4 {
                    let half = word(0) >> if store.high() { 16 } else { 0 };
                    return [half & ((1 << (8 * bytes)) - 1), 0, 0, 0];
                }
                [0, 1, 2, 3].map(|k| if u32::from(k) * 4 < bytes { word(k) } else { 0 })
            };
            if let Some((a, b)) = race::lanes_disagree(accessed, value) {
                let message = format!("lanes {a} and {b} store different values to the same bytes");
                let mut finding = self.finding(Class::LaneStoreConflict, wave, Some(b), message);
                finding.touched = Some(self.touched(memory, accessed, b));
                self.shared.findings.report(finding);
            }
        }
    }

    #[cold]
    fn raced(&self, memory: &Memory, wave: &Wave, accessed: &Accessed, race: &race::Race) {
        let class = match accessed.space {
            _ if race.unwaited => Class::MissingWaitStorecntBeforeBarrier,
            Space::Lds => Class::LdsRaceMissingBarrier,
            _ => Class::GlobalRace,
        };
        if self.shared.findings.again(class, wave.pc) {
            return;
        }
        let earlier = race.earlier;
        let what = match earlier.access {
            Access::Load => "load",
            Access::Store => "store",
            Access::Atomic => "atomic",
        };
        let whose = match earlier.group == self.number {
            true => format!("wave {} of the same workgroup", earlier.wave),
            false => format!("wave {} of workgroup number {}", earlier.wave, earlier.group),
        };
        let touched = self.touched(memory, accessed, race.lane);
        let between = match race.unwaited {
            true => "which signalled the barrier between without s_wait_storecnt 0",
            false => "with no barrier or atomic between",
        };
        let message =
            format!("{} of the dword at {:#x} and {what} by {whose}, {between}", accessed.access, race.address);
        let mut finding = self.finding(class, wave, Some(race.lane), message);
        finding.touched = Some(touched);
        let (number, wave, place) = (earlier.group, earlier.wave, Place::at(earlier.pc));
        finding.other = Some(Other { what, number, workgroup: self.workgroup, wave, place });
        self.shared.findings.report(finding);
    }
}

/// Address of the first lane that takes part.
fn first_address(accessed: &Accessed) -> u64 {
    accessed.addresses[accessed.mask.trailing_zeros() as usize & 31]
}
