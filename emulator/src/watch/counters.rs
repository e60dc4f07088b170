//! Counts of what a launch asks of memory, of LDS and of the matrix units: the numbers that a roofline is made of. They are facts of the
//! executed code, exact and the same under every schedule for kernels whose control flow is; they know no cache and no clock. What they
//! would cost on a card is [`crate::roofline`]'s to estimate.
//!
//! An *access* is one instruction of one wave (LDS instructions with two addresses and flat ones that meet two spaces make two). *Bytes
//! asked* are those of all its active lanes, each lane counted, also where lanes ask for the same bytes. *Lines* of an access are the
//! distinct aligned blocks of 128 or 256 bytes that its lanes touch.

use super::{Accessed, Space};
use crate::fault::Access;
use crate::isa::{Format, Inst};
use crate::memory::Memory;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Bytes of a cache line as RDNA's L2 is usually described; the larger size that the runtime lists is twice that.
pub const LINE_BYTES: u64 = 128;

/// Widths by which [`Traffic::bytes_by_width`] counts, in bytes per lane.
pub const WIDTHS: [u32; 8] = [1, 2, 4, 8, 12, 16, 32, 64];

/// Accesses of one kind to global memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Accesses.
    pub accesses: u64,
    /// Bytes asked.
    pub bytes: u64,
    /// Sum over all accesses of the distinct 128-byte lines of each.
    pub lines_128: u64,
    /// The same with 256-byte lines.
    pub lines_256: u64,
    /// Bytes asked by bytes per lane, in the order of [`WIDTHS`]; only scalar loads are wider than 16.
    pub bytes_by_width: [u64; 8],
}

impl Traffic {
    /// Bytes asked per byte of the 128-byte lines touched: 1 for whole lines, 1/32 for a dword in each line; above 1 where lanes share
    /// bytes. `None` without accesses.
    pub fn coalescing(&self) -> Option<f64> {
        (self.lines_128 > 0).then(|| self.bytes as f64 / (self.lines_128 * LINE_BYTES) as f64)
    }
    /// Adds another's counts.
    pub fn add(&mut self, other: &Traffic) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
        self.lines_128 += other.lines_128;
        self.lines_256 += other.lines_256;
        for (sum, bytes) in self.bytes_by_width.iter_mut().zip(other.bytes_by_width) {
            *sum += bytes;
        }
    }
}

/// Accesses to LDS.
///
/// Passes are a model, because how hardware groups lanes is not published: consecutive lanes whose bytes are at most 128 together form a
/// group (32 lanes of up to 4 bytes, 16 of 8, 8 of 12 or 16); a group takes one pass for each distinct dword of its busiest bank, where
/// the bank of a dword is its index modulo 32 (a half of the banks, what a CU has) or 64 (both halves). Lanes that read or write the
/// same dword share a pass; lanes whose atomics meet in a dword do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct LdsTraffic {
    /// Accesses.
    pub accesses: u64,
    /// Bytes asked.
    pub bytes: u64,
    /// Passes without any conflict: the groups with an active lane.
    pub passes_ideal: u64,
    /// Passes with 32 banks.
    pub passes_mod32: u64,
    /// Passes with 64 banks.
    pub passes_mod64: u64,
}

impl LdsTraffic {
    /// Passes beyond the ideal, with 32 banks.
    pub fn conflicts_mod32(&self) -> u64 {
        self.passes_mod32 - self.passes_ideal
    }
    /// Passes beyond the ideal, with 64 banks.
    pub fn conflicts_mod64(&self) -> u64 {
        self.passes_mod64 - self.passes_ideal
    }
    /// Adds another's counts.
    pub fn add(&mut self, other: &LdsTraffic) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
        self.passes_ideal += other.passes_ideal;
        self.passes_mod32 += other.passes_mod32;
        self.passes_mod64 += other.passes_mod64;
    }
}

/// Distinct lines of global memory over the whole launch: what it would move with a cache that never forgets. Summed over launches it
/// is what each one would move by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Footprint {
    /// 128-byte lines read, by scalar loads and atomics too.
    pub read_128: u64,
    /// 256-byte lines read.
    pub read_256: u64,
    /// 128-byte lines written, by atomics too.
    pub written_128: u64,
    /// 256-byte lines written.
    pub written_256: u64,
    /// 128-byte lines read or written.
    pub touched_128: u64,
    /// 256-byte lines read or written.
    pub touched_256: u64,
}

impl Footprint {
    /// Bytes that have to move at least: lines read once and lines written once, of 128 bytes.
    pub fn bytes(&self) -> u64 {
        (self.read_128 + self.written_128) * LINE_BYTES
    }
    fn add(&mut self, other: &Footprint) {
        self.read_128 += other.read_128;
        self.read_256 += other.read_256;
        self.written_128 += other.written_128;
        self.written_256 += other.written_256;
        self.touched_128 += other.touched_128;
        self.touched_256 += other.touched_256;
    }
}

/// All counts of one or several launches besides those by instruction class.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Vector loads.
    pub loads: Traffic,
    /// Vector stores.
    pub stores: Traffic,
    /// Atomics.
    pub atomics: Traffic,
    /// Scalar loads.
    pub scalar_loads: Traffic,
    /// LDS.
    pub lds: LdsTraffic,
    /// Bytes read from scratch (register spills, private arrays).
    pub scratch_load_bytes: u64,
    /// Bytes written to scratch.
    pub scratch_store_bytes: u64,
    /// Cycles of a SIMD's matrix unit: 16 for f16 and bf16, 8 for 8 and 4 bits (AMD's matrix instruction calculator).
    pub wmma_cycles: u64,
    /// Times that a workgroup waits for others, the most of any in the launch: it adds to a dword of global memory and then looks at
    /// that dword. Of its looks until it adds again the first counts, so that this does not depend on how long it waits.
    pub grid_waits: u64,
    /// Distinct lines.
    pub footprint: Footprint,
}

impl Counters {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Counters) {
        self.loads.add(&other.loads);
        self.stores.add(&other.stores);
        self.atomics.add(&other.atomics);
        self.scalar_loads.add(&other.scalar_loads);
        self.lds.add(&other.lds);
        self.scratch_load_bytes += other.scratch_load_bytes;
        self.scratch_store_bytes += other.scratch_store_bytes;
        self.wmma_cycles += other.wmma_cycles;
        self.grid_waits += other.grid_waits;
        self.footprint.add(&other.footprint);
    }
    /// Bytes asked of global memory by all lanes and scalar loads.
    pub fn bytes(&self) -> u64 {
        [&self.loads, &self.stores, &self.atomics, &self.scalar_loads].into_iter().map(|traffic| traffic.bytes).sum()
    }
    /// [`Traffic::coalescing`] of loads, stores and atomics together.
    pub fn coalescing(&self) -> Option<f64> {
        let mut all = self.loads.clone();
        all.add(&self.stores);
        all.add(&self.atomics);
        all.coalescing()
    }
}

/// Which lines of one allocation were read and written: a bit each.
#[derive(Debug)]
struct Touched {
    base: u64,
    len: u64,
    /// Number of the line of the first bit; even, so that two bits are one 256-byte line.
    first_line: u64,
    read: Box<[AtomicU64]>,
    written: Box<[AtomicU64]>,
}

impl Touched {
    fn new(base: u64, len: u64) -> Touched {
        let first_line = base / (2 * LINE_BYTES) * 2;
        let lines = (base + len.max(1) - 1) / LINE_BYTES - first_line + 1;
        // Zeroed pages are mapped when they are touched.
        let bits = || bytemuck::allocation::zeroed_slice_box(lines.div_ceil(64) as usize);
        Touched { base, len, first_line, read: bits(), written: bits() }
    }
    fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.len
    }
    fn mark(bits: &[AtomicU64], bit: u64) {
        let (word, mask) = (&bits[(bit / 64) as usize], 1 << (bit % 64));
        if word.load(Relaxed) & mask == 0 {
            word.fetch_or(mask, Relaxed);
        }
    }
    fn footprint(&self) -> Footprint {
        let mut sum = Footprint::default();
        let halves = |bits: u64| u64::from(((bits | bits >> 1) & 0x5555_5555_5555_5555).count_ones());
        for (read, written) in self.read.iter().zip(&self.written) {
            let (read, written) = (read.load(Relaxed), written.load(Relaxed));
            sum.read_128 += u64::from(read.count_ones());
            sum.read_256 += halves(read);
            sum.written_128 += u64::from(written.count_ones());
            sum.written_256 += halves(written);
            sum.touched_128 += u64::from((read | written).count_ones());
            sum.touched_256 += halves(read | written);
        }
        sum
    }
}

/// What all workgroups of a launch share.
#[derive(Debug)]
pub struct Shared {
    touched: Vec<Touched>,
    sum: Mutex<Counters>,
}

impl Shared {
    /// For a launch on `memory`, whose allocations do not change while it runs.
    pub fn new(memory: &Memory) -> Shared {
        let touched = memory.regions().iter().map(|region| Touched::new(region.base(), region.len())).collect();
        Shared { touched, sum: Mutex::default() }
    }
    /// The counts of all workgroups that have finished.
    pub fn take(&self) -> Counters {
        let mut sum = std::mem::take(&mut *self.sum.lock().unwrap_or_else(PoisonError::into_inner));
        for touched in &self.touched {
            sum.footprint.add(&touched.footprint());
        }
        sum
    }
    fn region(&self, address: u64) -> Option<&Touched> {
        let index = self.touched.partition_point(|t| t.base <= address).checked_sub(1)?;
        Some(&self.touched[index]).filter(|t| t.holds(address))
    }
}

/// Counts of one workgroup after another on one thread.
#[derive(Debug, Default)]
pub struct Counting {
    counters: Counters,
    /// This workgroup's [`Counters::grid_waits`]; those of `counters` are the most of the workgroups before it.
    waits: u64,
    /// Where this workgroup's last atomic of one lane was, until it looks there.
    arrived: Option<u64>,
}

impl Counting {
    /// A workgroup begins.
    pub fn started(&mut self) {
        self.counters.grid_waits = self.counters.grid_waits.max(std::mem::take(&mut self.waits));
        self.arrived = None;
    }

    /// An instruction is about to execute.
    #[inline]
    pub fn before(&mut self, inst: &Inst) {
        if inst.format == Format::Vop3p {
            self.counters.wmma_cycles += wmma_cycles(inst.row.name);
        }
    }

    /// An access is about to happen.
    pub fn accessed(&mut self, shared: &Shared, accessed: &Accessed) {
        if accessed.space == Space::Global {
            self.meets(accessed);
        }
        let bytes = u64::from(accessed.bytes) * u64::from(accessed.mask.count_ones());
        let counters = &mut self.counters;
        match (accessed.space, accessed.access, accessed.moved) {
            (Space::Scratch, Access::Load, _) => counters.scratch_load_bytes += bytes,
            (Space::Scratch, Access::Store, _) => counters.scratch_store_bytes += bytes,
            (Space::Scratch, Access::Atomic, _) => {
                counters.scratch_load_bytes += bytes;
                counters.scratch_store_bytes += bytes;
            }
            (Space::Lds, access, _) => {
                let lds = &mut counters.lds;
                lds.accesses += 1;
                lds.bytes += bytes;
                let shared_pass = access != Access::Atomic;
                lds.passes_ideal += passes(accessed, u64::MAX, true);
                lds.passes_mod32 += passes(accessed, 32, shared_pass);
                lds.passes_mod64 += passes(accessed, 64, shared_pass);
            }
            (Space::Global, access, moved) => {
                let traffic = match (access, moved) {
                    (Access::Load, super::Moved::Scalar { .. }) => &mut counters.scalar_loads,
                    (Access::Load, _) => &mut counters.loads,
                    (Access::Store, _) => &mut counters.stores,
                    (Access::Atomic, _) => &mut counters.atomics,
                };
                traffic.accesses += 1;
                traffic.bytes += bytes;
                let width = WIDTHS.iter().position(|&w| accessed.bytes <= w).unwrap_or(WIDTHS.len() - 1);
                traffic.bytes_by_width[width] += bytes;
                let (lines_128, lines_256) = lines(shared, accessed);
                traffic.lines_128 += lines_128;
                traffic.lines_256 += lines_256;
            }
        }
    }

    /// See [`Counters::grid_waits`].
    fn meets(&mut self, accessed: &Accessed) {
        let first = accessed.addresses[accessed.mask.trailing_zeros() as usize % 32];
        match accessed.access {
            Access::Atomic if accessed.mask.count_ones() == 1 => self.arrived = Some(first),
            // A whole wave may look, each lane at the same dword.
            Access::Load if self.arrived == Some(first) => {
                self.waits += 1;
                self.arrived = None;
            }
            _ => {}
        }
    }

    /// The launch is over.
    pub fn finish(&mut self, shared: &Shared) {
        self.started();
        let mut counters = std::mem::take(&mut self.counters);
        let waits = std::mem::take(&mut counters.grid_waits);
        let mut sum = shared.sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.add(&counters);
        // Of workgroups side by side the most; `add` is for launches, one after the other.
        sum.grid_waits = sum.grid_waits.max(waits);
    }
}

/// Distinct 128- and 256-byte lines of an access; marks them in the launch's.
fn lines(shared: &Shared, accessed: &Accessed) -> (u64, u64) {
    let (reads, writes) = match accessed.access {
        Access::Load => (true, false),
        Access::Store => (false, true),
        Access::Atomic => (true, true),
    };
    // A lane has up to 64 bytes, so it touches one line or two.
    let mut seen = [0; 64];
    let mut count = 0;
    let mut count_256 = 0;
    let mut region: Option<&Touched> = None;
    for lane in (0..32).filter(|lane| accessed.mask >> lane & 1 != 0) {
        let address = accessed.addresses[lane];
        let last = address + u64::from(accessed.bytes.max(1)) - 1;
        for line in address / LINE_BYTES..=last / LINE_BYTES {
            // Neighbours mostly repeat the line before, so look from the end.
            if seen[..count].iter().rev().any(|&known| known == line) {
                continue;
            }
            if !seen[..count].iter().rev().any(|&known: &u64| known / 2 == line / 2) {
                count_256 += 1;
            }
            seen[count] = line;
            count += 1;
            if !region.is_some_and(|r| r.holds(address)) {
                region = shared.region(address);
            }
            if let Some(region) = region {
                let bit = line - region.first_line;
                if reads {
                    Touched::mark(&region.read, bit);
                }
                if writes {
                    Touched::mark(&region.written, bit);
                }
            }
        }
    }
    (count as u64, count_256)
}

/// Passes of an LDS access with `banks` banks; see [`LdsTraffic`].
fn passes(accessed: &Accessed, banks: u64, shared_pass: bool) -> u64 {
    let group = match accessed.bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let mut sum = 0;
    for first in (0..32).step_by(group) {
        let lanes = (first..first + group).filter(|lane| accessed.mask >> lane & 1 != 0);
        let mut busy = [0u8; 64];
        let mut most = 0;
        // A group has 32 dwords, and up to one more per lane where addresses are not aligned.
        let mut seen = [0; 64];
        let mut count = 0;
        let mut highest = None;
        for lane in lanes {
            let address = accessed.addresses[lane];
            for dword in address / 4..=(address + u64::from(accessed.bytes.max(1)) - 1) / 4 {
                if banks == u64::MAX {
                    most = 1;
                    continue;
                }
                if shared_pass {
                    if highest.is_some_and(|h| dword <= h) && seen[..count].contains(&dword) {
                        continue;
                    }
                    highest = highest.max(Some(dword));
                    seen[count] = dword;
                    count += 1;
                }
                let bank = &mut busy[(dword % banks) as usize];
                *bank += 1;
                most = most.max(u64::from(*bank));
            }
        }
        sum += most;
    }
    sum
}

/// Cycles that a matrix instruction holds its SIMD's unit, 0 for other instructions.
fn wmma_cycles(name: &str) -> u64 {
    let Some(rest) = name.strip_prefix("v_wmma_").or_else(|| name.strip_prefix("v_swmmac_")) else { return 0 };
    // RESULT_MxNxK_INPUT: the input type decides.
    let input = rest.splitn(3, '_').nth(2).unwrap_or(rest);
    if input.starts_with("f16") || input.starts_with("bf16") { 16 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::memory_ops::Load;
    use crate::watch::Moved;

    fn lds(bytes: u32, access: Access, address: impl Fn(u64) -> u64) -> [u64; 3] {
        let addresses = std::array::from_fn(|lane| address(lane as u64));
        let moved = Moved::Load { load: Load::B32, dst: 0 };
        let accessed = Accessed { space: Space::Lds, access, bytes, addresses: &addresses, mask: u32::MAX, moved };
        let shared = access != Access::Atomic;
        [passes(&accessed, u64::MAX, true), passes(&accessed, 32, shared), passes(&accessed, 64, shared)]
    }

    /// By hand from the model's three sentences.
    #[test]
    fn bank_conflicts_are_those_of_the_model() {
        // Dwords: stride 1 is free; stride 2 folds onto 16 of 32 banks, but fills the even 32 of 64; stride 32 is one bank of 32 and two
        // of 64; stride 33 is free again.
        assert_eq!(lds(4, Access::Load, |l| 4 * l), [1, 1, 1]);
        assert_eq!(lds(4, Access::Load, |l| 8 * l), [1, 2, 1]);
        assert_eq!(lds(4, Access::Load, |l| 128 * l), [1, 32, 16]);
        assert_eq!(lds(4, Access::Load, |l| 256 * l), [1, 32, 32]);
        assert_eq!(lds(4, Access::Load, |l| 132 * l), [1, 1, 1]);
        // All lanes on one dword share it; atomics do not.
        assert_eq!(lds(4, Access::Load, |_| 64), [1, 1, 1]);
        assert_eq!(lds(4, Access::Atomic, |_| 64), [1, 32, 32]);
        // Bytes: four lanes share a dword, so 8 dwords.
        assert_eq!(lds(1, Access::Store, |l| l), [1, 1, 1]);
        // b64 in two groups, b128 and b96 in four; consecutive ones fill all banks once.
        assert_eq!(lds(8, Access::Load, |l| 8 * l), [2, 2, 2]);
        assert_eq!(lds(16, Access::Load, |l| 16 * l), [4, 4, 4]);
        assert_eq!(lds(12, Access::Load, |l| 12 * l), [4, 4, 4]);
        // b128 at a stride of 32 bytes: a group's 8 lanes hit the banks of 8·l..8·l+4, twice around 32 and once around 64.
        assert_eq!(lds(16, Access::Load, |l| 32 * l), [4, 8, 4]);
        // Not aligned: each lane reaches two dwords; 33 distinct ones, one bank twice.
        assert_eq!(lds(4, Access::Load, |l| 4 * l + 2), [1, 2, 1]);
        // Descending addresses are as good as ascending ones, and repeated ones are found out of order too.
        assert_eq!(lds(4, Access::Load, |l| 4 * (31 - l)), [1, 1, 1]);
        assert_eq!(lds(4, Access::Load, |l| 4 * (l * 7 % 16)), [1, 1, 1]);
    }

    /// Arrives and looks, twice; looks again and elsewhere; a wave whose lanes all add is no arrival, nor is one of the workgroup before.
    #[test]
    fn a_workgroup_waits_once_for_each_arrival() {
        let shared = Shared { touched: Vec::new(), sum: Mutex::default() };
        let mut counting = Counting::default();
        let access = |counting: &mut Counting, access, address, mask| {
            let moved = Moved::Load { load: Load::B32, dst: 0 };
            let addresses = &[address; 32];
            counting.accessed(&shared, &Accessed { space: Space::Global, access, bytes: 4, addresses, mask, moved });
        };
        let (counter, other) = (0x100, 0x104);
        counting.started();
        access(&mut counting, Access::Load, counter, u32::MAX);
        for _ in 0..2 {
            access(&mut counting, Access::Atomic, counter, 1);
            access(&mut counting, Access::Load, other, u32::MAX);
            access(&mut counting, Access::Load, counter, u32::MAX);
            access(&mut counting, Access::Load, counter, u32::MAX);
        }
        access(&mut counting, Access::Atomic, counter, u32::MAX);
        access(&mut counting, Access::Load, counter, u32::MAX);
        access(&mut counting, Access::Atomic, counter, 1);
        counting.started();
        access(&mut counting, Access::Load, counter, u32::MAX);
        access(&mut counting, Access::Atomic, other, 1 << 31);
        access(&mut counting, Access::Load, other, 1 << 31);
        counting.finish(&shared);
        assert_eq!(shared.take().grid_waits, 2, "the first workgroup's two, and one of the second's");
    }

    #[test]
    fn matrix_instructions_have_the_published_cycles() {
        for (name, cycles) in [
            ("v_wmma_f32_16x16x16_f16", 16),
            ("v_wmma_f32_16x16x16_bf16", 16),
            ("v_wmma_bf16_16x16x16_bf16", 16),
            ("v_wmma_f32_16x16x16_fp8_bf8", 8),
            ("v_wmma_f32_16x16x16_bf8_bf8", 8),
            ("v_wmma_i32_16x16x16_iu8", 8),
            ("v_wmma_i32_16x16x32_iu4", 8),
            ("v_swmmac_f16_16x16x32_f16", 16),
            ("v_swmmac_i32_16x16x64_iu4", 8),
            ("v_dot2_f32_f16", 0),
            ("v_pk_fma_f16", 0),
        ] {
            assert_eq!(wmma_cycles(name), cycles, "{name}");
        }
    }
}
