//! What counted work would cost on an R9700: an *estimate*, made of exact counts and of a few machine parameters that stand in one table
//! with their sources. *At best* it is a bound from each resource alone and what starting kernels and meeting at grid barriers costs:
//! no latency, no cache that forgets, no clock that sinks. A kernel can be slower for many reasons and faster for none but data left in a
//! cache. *Cautiously* it adds one latency for each phase, that is for each time that nobody may go on before others are done. It is not
//! a simulation either way.

use crate::code_object::Kernel;
use crate::launch::{Class, Launch, Stats};
use crate::watch::counters::Counters;
use std::collections::BTreeMap;
use std::fmt;

/// Parameters of a machine.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Machine {
    /// What it is.
    pub name: &'static str,
    /// Bytes per second from memory that a plain read stream reaches.
    pub memory_bytes_per_s: f64,
    /// Cycles per second of its units.
    pub clock_hz: f64,
    /// Work-group processors.
    pub wgps: u32,
    /// SIMDs of a WGP; each issues one wave32 vector instruction a cycle.
    pub simds_per_wgp: u32,
    /// Waves that a SIMD holds.
    pub waves_per_simd: u32,
    /// VGPRs of 32 lanes of a SIMD.
    pub vgprs_per_simd: u32,
    /// Steps in which VGPRs are given.
    pub vgpr_granule: u32,
    /// LDS bytes of a WGP.
    pub lds_bytes_per_wgp: u32,
    /// Steps in which LDS is given, in bytes.
    pub lds_granule: u32,
    /// Halves of a WGP's LDS, each of 32 banks of four bytes that serve one pass a cycle.
    pub lds_halves_per_wgp: u32,
    /// Workgroups of several waves that a WGP holds.
    pub workgroups_per_wgp: u32,
    /// Seconds from one kernel to the next when the card is busy.
    pub launch_s: f64,
    /// Seconds from the last workgroup's arrival at a barrier over the grid to where all of them go on.
    pub grid_barrier_s: f64,
    /// Seconds that the start of a phase exposes, after a launch or a grid barrier: activations on their way from the L2, what is made of
    /// them before the first product, the last products of the phase before, workgroups that have none.
    pub phase_s: f64,
}

/// The Radeon AI PRO R9700. Its datasheet says 640 GB/s.
///
/// | parameter | value | source |
/// |---|---|---|
/// | memory | 612 GB/s | plateau of a read probe (hipfire #488); wide streams reached 636 of 640 (ninfer-amd-r9700, performance notes) |
/// | clock | 2.92 GHz | boost (ninfer-amd-r9700); matrix-heavy work at 300 W ran at 2.44 |
/// | WGPs, SIMDs | 32, 4 each | rocminfo of an R9700: 64 CUs of two SIMD32, two CUs a WGP |
/// | waves per SIMD | 16 | RDNA 4 ISA guide |
/// | VGPRs | 1536 a SIMD in steps of 24 | LLVM's AMDGPU target description |
/// | LDS | 128 KiB a WGP in steps of 1 KiB, 64 banks in two halves | RDNA 4 ISA guide |
/// | workgroups per WGP | 32 of more than one wave | RDNA 4 ISA guide |
/// | launch | 1.5 µs | kernel boundary on a busy card 1 to 1.5 µs (ninfer-amd-r9700) |
/// | grid barrier | 1.36 µs | within a resident kernel on an R9700 (ninfer-amd-r9700, from notes on its documents); 0.85 on an H200 (EXP-0023) |
/// | phase | 2.9 µs | *not of this card*: what decode's resident kernel needs on an H200 beyond its bytes and barriers, for each phase (EXP-0026) |
/// | matrix instructions | 16 cycles f16 and bf16, 8 others | AMD matrix instruction calculator; counted as [`Counters::wmma_cycles`] |
pub const R9700: Machine = Machine {
    name: "Radeon AI PRO R9700",
    memory_bytes_per_s: 612e9,
    clock_hz: 2.92e9,
    wgps: 32,
    simds_per_wgp: 4,
    waves_per_simd: 16,
    vgprs_per_simd: 1536,
    vgpr_granule: 24,
    lds_bytes_per_wgp: 128 << 10,
    lds_granule: 1024,
    lds_halves_per_wgp: 2,
    workgroups_per_wgp: 32,
    launch_s: 1.5e-6,
    grid_barrier_s: 1.36e-6,
    phase_s: 2.9e-6,
};

/// What a workgroup takes of its WGP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Resources {
    /// VGPRs of a wave, as the compiler counted them.
    pub vgprs: u32,
    /// SGPRs of a wave. Each wave has all of them, so they limit nothing.
    pub sgprs: u32,
    /// LDS bytes, fixed and dynamic.
    pub lds_bytes: u32,
    /// Scratch bytes of a work-item.
    pub scratch_bytes: u32,
    /// Waves.
    pub waves: u32,
}

impl Resources {
    /// Those of a launch.
    pub fn of(kernel: &Kernel, launch: &Launch) -> Resources {
        let vgprs = if kernel.vgpr_count > 0 { kernel.vgpr_count } else { kernel.descriptor.vgprs() };
        Resources {
            vgprs,
            sgprs: kernel.sgpr_count,
            lds_bytes: kernel.group_segment_fixed_size + launch.dynamic_lds,
            scratch_bytes: kernel.private_segment_fixed_size,
            waves: launch.block.iter().product::<u32>().div_ceil(32).max(1),
        }
    }
}

/// How many waves can be resident, by resources alone.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Occupancy {
    /// Workgroups of a WGP.
    pub workgroups_per_wgp: u32,
    /// Waves of a SIMD, on average over the four.
    pub waves_per_simd: f64,
    /// Share of the waves that a SIMD could hold.
    pub share: f64,
    /// What sets it: `waves`, `vgprs`, `lds` or `workgroups`.
    pub limit: &'static str,
}

/// Occupancy of a WGP of `machine`: the least of what VGPRs, LDS, wave slots and workgroup slots allow, in whole workgroups.
pub fn occupancy(machine: &Machine, resources: &Resources) -> Occupancy {
    let slots = machine.simds_per_wgp * machine.waves_per_simd;
    let granted = resources.vgprs.max(1).next_multiple_of(machine.vgpr_granule);
    let by_vgprs = (machine.vgprs_per_simd / granted).min(machine.waves_per_simd) * machine.simds_per_wgp;
    let lds = resources.lds_bytes.next_multiple_of(machine.lds_granule);
    let limits = [
        ("waves", slots / resources.waves),
        ("vgprs", by_vgprs / resources.waves),
        ("lds", machine.lds_bytes_per_wgp.checked_div(lds).unwrap_or(u32::MAX)),
        ("workgroups", if resources.waves > 1 { machine.workgroups_per_wgp } else { u32::MAX }),
    ];
    // The first of equal ones: a limit is only to blame where it is less than the wave slots.
    let (limit, workgroups) = limits.into_iter().min_by_key(|(_, count)| *count).unwrap_or(("waves", 0));
    let waves_per_simd = f64::from(workgroups * resources.waves) / f64::from(machine.simds_per_wgp);
    Occupancy {
        workgroups_per_wgp: workgroups,
        waves_per_simd,
        share: waves_per_simd / f64::from(machine.waves_per_simd),
        limit,
    }
}

/// What rules an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Bytes from memory.
    Memory,
    /// Issue of vector instructions.
    Valu,
    /// Matrix instructions.
    Wmma,
    /// LDS passes.
    Lds,
    /// All of these take less than starting the kernel.
    Launch,
    /// All of these, and starting it, take less than its barriers over the grid.
    GridBarrier,
}

impl Bound {
    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Valu => "valu",
            Bound::Wmma => "wmma",
            Bound::Lds => "lds",
            Bound::Launch => "launch",
            Bound::GridBarrier => "grid_barrier",
        }
    }
}

/// Least seconds by each resource, and what follows; sums where launches were added.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// Distinct lines read and written, at the memory's rate.
    pub memory_s: f64,
    /// Vector instructions, one a cycle on each SIMD that has a wave.
    pub valu_s: f64,
    /// Matrix instructions, on the same SIMDs. They do not overlap with other vector instructions.
    pub wmma_s: f64,
    /// LDS passes with 32 banks, one a cycle on each half in use.
    pub lds_s: f64,
    /// Starting kernels.
    pub launch_s: f64,
    /// Barriers over the grid, of the workgroup that waits most often. Nothing is taken to happen meanwhile, though loads of weights do.
    pub grid_barrier_s: f64,
    /// What the starts of phases expose: as many as launches and barriers.
    pub phase_s: f64,
    /// At best: for each launch the largest of memory, VALU + WMMA and LDS, plus its start and its barriers.
    pub total_s: f64,
    /// Cautiously: that and the phases'.
    pub cautious_s: f64,
}

impl Estimate {
    /// One launch's.
    pub fn of(machine: &Machine, stats: &Stats, counters: &Counters) -> Estimate {
        let simds = u64::from(machine.wgps * machine.simds_per_wgp).min(stats.waves).max(1);
        let halves = u64::from(machine.lds_halves_per_wgp);
        let halves = (u64::from(machine.wgps) * halves).min(stats.workgroups * halves).max(1);
        let cycles = |count: u64, units: u64| count as f64 / units as f64 / machine.clock_hz;
        let waits = counters.grid_waits as f64;
        let mut estimate = Estimate {
            memory_s: counters.footprint.bytes() as f64 / machine.memory_bytes_per_s,
            valu_s: cycles(stats.count(Class::Valu) + stats.count(Class::Vopd), simds),
            wmma_s: cycles(counters.wmma_cycles, simds),
            lds_s: cycles(counters.lds.passes_mod32, halves),
            launch_s: machine.launch_s,
            grid_barrier_s: waits * machine.grid_barrier_s,
            phase_s: (1.0 + waits) * machine.phase_s,
            total_s: 0.0,
            cautious_s: 0.0,
        };
        estimate.total_s = estimate.work_s() + estimate.launch_s + estimate.grid_barrier_s;
        estimate.cautious_s = estimate.total_s + estimate.phase_s;
        estimate
    }
    fn work_s(&self) -> f64 {
        self.memory_s.max(self.valu_s + self.wmma_s).max(self.lds_s)
    }
    /// What rules it.
    pub fn bound(&self) -> Bound {
        let work = self.work_s();
        match () {
            () if work.max(self.launch_s) < self.grid_barrier_s => Bound::GridBarrier,
            () if work < self.launch_s => Bound::Launch,
            () if work == self.memory_s => Bound::Memory,
            () if work == self.lds_s => Bound::Lds,
            () if self.wmma_s > self.valu_s => Bound::Wmma,
            () => Bound::Valu,
        }
    }
    fn add(&mut self, other: &Estimate) {
        self.memory_s += other.memory_s;
        self.valu_s += other.valu_s;
        self.wmma_s += other.wmma_s;
        self.lds_s += other.lds_s;
        self.launch_s += other.launch_s;
        self.grid_barrier_s += other.grid_barrier_s;
        self.phase_s += other.phase_s;
        self.total_s += other.total_s;
        self.cautious_s += other.cautious_s;
    }
}

/// Everything counted and estimated about the launches of one kernel.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Profile {
    /// Its name.
    pub kernel: String,
    /// Launches.
    pub launches: u64,
    /// Workgroups of all launches.
    pub workgroups: u64,
    /// Waves of all launches.
    pub waves: u64,
    /// Wave-instructions of all classes; a VOPD pair counts once.
    pub instructions: u64,
    /// Wave-instructions by [`Class`].
    pub by_class: BTreeMap<&'static str, u64>,
    /// Counters.
    pub counters: Counters,
    /// Bytes asked per byte of the lines touched, of vector loads, stores and atomics.
    pub coalescing: Option<f64>,
    /// Resources of the last launch.
    pub resources: Resources,
    /// What they allow.
    pub occupancy: Occupancy,
    /// Estimate for [`R9700`].
    pub estimate: Estimate,
    /// What rules it.
    pub bound: Bound,
    /// Seconds that the emulator took, which say nothing about a card.
    pub emulated_s: f64,
}

impl Profile {
    /// Of one launch that ended; `None` if it did not count.
    pub fn of(kernel: &Kernel, launch: &Launch, stats: &Stats) -> Option<Profile> {
        let counters = stats.counters.as_deref()?.clone();
        let resources = Resources::of(kernel, launch);
        let estimate = Estimate::of(&R9700, stats, &counters);
        Some(Profile {
            kernel: kernel.name.clone(),
            launches: 1,
            workgroups: stats.workgroups,
            waves: stats.waves,
            instructions: stats.total(),
            by_class: Class::ALL.into_iter().map(|class| (class.name(), stats.count(class))).collect(),
            coalescing: counters.coalescing(),
            counters,
            occupancy: occupancy(&R9700, &resources),
            resources,
            bound: estimate.bound(),
            estimate,
            emulated_s: stats.wall.as_secs_f64(),
        })
    }
    /// Adds another launch of the same kernel.
    pub fn add(&mut self, other: &Profile) {
        self.launches += other.launches;
        self.workgroups += other.workgroups;
        self.waves += other.waves;
        self.instructions += other.instructions;
        for (class, count) in &other.by_class {
            *self.by_class.entry(class).or_default() += count;
        }
        self.counters.add(&other.counters);
        self.coalescing = self.counters.coalescing();
        self.resources = other.resources;
        self.occupancy = other.occupancy;
        self.estimate.add(&other.estimate);
        self.bound = self.estimate.bound();
        self.emulated_s += other.emulated_s;
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = self.by_class.iter().filter(|(_, count)| **count > 0);
        let classes: Vec<String> = classes.map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "instructions   {}: {}", self.instructions, classes.join(", "))?;
        let counters = &self.counters;
        for (name, traffic) in [
            ("vector loads  ", &counters.loads),
            ("vector stores ", &counters.stores),
            ("atomics       ", &counters.atomics),
            ("scalar loads  ", &counters.scalar_loads),
        ] {
            let Some(coalescing) = traffic.coalescing() else { continue };
            write!(
                f,
                "{name} {} accesses, {} bytes, {} lines of 128 B ({} of 256 B), {:.1} % used; widths",
                traffic.accesses,
                traffic.bytes,
                traffic.lines_128,
                traffic.lines_256,
                100.0 * coalescing
            )?;
            for (width, bytes) in crate::watch::counters::WIDTHS.iter().zip(traffic.bytes_by_width) {
                if bytes > 0 {
                    write!(f, " b{} {:.1} %", width * 8, 100.0 * bytes as f64 / traffic.bytes as f64)?;
                }
            }
            writeln!(f)?;
        }
        let lines = &counters.footprint;
        writeln!(
            f,
            "distinct lines {} of 128 B ({} of 256 B): {} read, {} written",
            lines.touched_128, lines.touched_256, lines.read_128, lines.written_128
        )?;
        let lds = &counters.lds;
        if lds.accesses > 0 {
            writeln!(
                f,
                "LDS            {} accesses, {} bytes, {} passes without conflicts; conflicts add {} (model: dword mod 32), {} (mod 64)",
                lds.accesses,
                lds.bytes,
                lds.passes_ideal,
                lds.conflicts_mod32(),
                lds.conflicts_mod64()
            )?;
        }
        let (load, store) = (counters.scratch_load_bytes, counters.scratch_store_bytes);
        if load + store > 0 {
            writeln!(f, "scratch        {load} bytes read, {store} written")?;
        }
        let Resources { vgprs, lds_bytes, waves, .. } = self.resources;
        writeln!(
            f,
            "occupancy      {:.1} of {} waves per SIMD by {} (VGPRs {vgprs}, LDS {lds_bytes} bytes, {waves} waves a workgroup)",
            self.occupancy.waves_per_simd, R9700.waves_per_simd, self.occupancy.limit
        )?;
        let us = |seconds: f64| 1e6 * seconds;
        let e = &self.estimate;
        write!(
            f,
            "estimate       {:.2} µs on a {} at best, {:.2} cautiously, bound by {}: memory {:.2}, VALU {:.2}, WMMA {:.2}, LDS {:.2}, \
             launch {:.2}, grid barriers {:.2}, phases {:.2}",
            us(e.total_s),
            R9700.name,
            us(e.cautious_s),
            self.bound.name(),
            us(e.memory_s),
            us(e.valu_s),
            us(e.wmma_s),
            us(e.lds_s),
            us(e.launch_s),
            us(e.grid_barrier_s),
            us(e.phase_s)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves(vgprs: u32, lds_bytes: u32, waves: u32) -> (f64, &'static str) {
        let resources = Resources { vgprs, sgprs: 100, lds_bytes, scratch_bytes: 0, waves };
        let occupancy = occupancy(&R9700, &resources);
        (occupancy.waves_per_simd, occupancy.limit)
    }

    /// Waves per SIMD by VGPRs as LLVM's remarks give them for gfx1201, at each edge.
    #[test]
    fn occupancy_by_vgprs_is_llvms() {
        for (most, expected) in [(96, 16), (120, 12), (144, 10), (168, 9), (192, 8), (216, 7), (240, 6), (256, 5)] {
            assert_eq!(waves(most, 0, 1).0, f64::from(expected), "{most} VGPRs");
        }
        for (least, expected) in [(97, 12), (121, 10), (145, 9), (169, 8), (193, 7), (217, 6), (241, 5)] {
            assert_eq!(waves(least, 0, 1), (f64::from(expected), "vgprs"), "{least} VGPRs");
        }
        assert_eq!(waves(0, 0, 1), (16.0, "waves"));
    }

    #[test]
    fn occupancy_by_lds_and_workgroups() {
        // 128 KiB: two workgroups of 64 KiB, 8 waves each, on 4 SIMDs.
        assert_eq!(waves(32, 65_536, 8), (4.0, "lds"));
        // One byte more than 32 KiB takes 33 KiB: three workgroups.
        assert_eq!(waves(32, 32_769, 4), (3.0, "lds"));
        // 32 workgroups of two waves are all 64 slots; with one wave there is no such limit.
        assert_eq!(waves(32, 0, 2), (16.0, "waves"));
        assert_eq!(waves(32, 0, 1), (16.0, "waves"));
        // 3 waves: 21 workgroups, 63 of 64 slots. 32 waves at 120 VGPRs: 48 slots hold one workgroup.
        assert_eq!(waves(32, 0, 3), (15.75, "waves"));
        assert_eq!(waves(120, 0, 32), (8.0, "vgprs"));
    }

    #[test]
    fn estimates_follow_from_the_table() {
        let mut stats = Stats { waves: 2048, workgroups: 256, ..Stats::default() };
        let mut counters = Counters::default();
        // 612 MB in lines of 128 bytes take a thousandth of a second.
        counters.footprint.read_128 = 4_000_000;
        counters.footprint.written_128 = 612_000_000 / 128 - 4_000_000;
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let memory = Estimate::of(&R9700, &stats, &counters);
        assert!(close(memory.total_s, 1e-3 + 1.5e-6), "{memory:?}");
        assert_eq!(memory.bound(), Bound::Memory);
        // 2048 FLOP a cycle and WGP: 191.4 TFLOP of 8192 a piece, 16 cycles each, take a second.
        counters.wmma_cycles = 23_360_000_000 * 16;
        let wmma = Estimate::of(&R9700, &stats, &counters);
        assert!(close(wmma.wmma_s, 1.0), "{wmma:?}");
        assert_eq!(wmma.bound(), Bound::Wmma);
        // A single wave has one SIMD.
        stats = Stats { waves: 1, workgroups: 1, ..Stats::default() };
        stats.instructions[Class::Valu as usize] = 2_920_000;
        let alone = Estimate::of(&R9700, &stats, &Counters::default());
        assert!(close(alone.valu_s, 1e-3), "{alone:?}");
        assert_eq!(alone.bound(), Bound::Valu);
        let empty = Estimate::of(&R9700, &Stats::default(), &Counters::default());
        assert_eq!((empty.total_s, empty.bound()), (1.5e-6, Bound::Launch));
        // Three barriers are 4.08 µs, four phases 11.6.
        counters = Counters { grid_waits: 3, ..Counters::default() };
        let waiting = Estimate::of(&R9700, &Stats::default(), &counters);
        assert!(close(waiting.total_s, 5.58e-6) && close(waiting.cautious_s, 17.18e-6), "{waiting:?}");
        assert_eq!(waiting.bound(), Bound::GridBarrier);
    }
}
