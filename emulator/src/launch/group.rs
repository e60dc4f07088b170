//! One resident workgroup: its waves, LDS and barrier. It runs waves for a slice and knows nothing of other workgroups.

use super::code::{Code, Counts, LoadedModule};
use super::poll;
use super::setup::Plan;
use crate::arch::Arch;
use crate::fault::{Fault, Trap};
use crate::isa;
use crate::memory::Memory;
use crate::watch::{Rest, Shared, Start, Watch};
use crate::wave::{Barrier, Cx, EXEC, Flow, Lanes, Lds, NULL, TTMP0, Wave};
use std::sync::Arc;

/// Lines of a wave dump.
pub(super) const DUMP_LINES: usize = 16;

/// Whether a wave can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    /// At a barrier wait; its pc is still there.
    Waiting,
    Ended,
}

/// How a slice of a wave ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slice {
    /// The wave used its instructions up.
    Used,
    /// It went to sleep, or came round a loop that waits and changes nothing.
    Slept,
    /// It waits at a barrier or ended.
    Stopped,
}

pub(super) struct Slot {
    pub wave: Wave,
    pub status: Status,
    /// The barrier completed and the wave has not waited for it yet.
    complete: bool,
    /// Where it signalled.
    site: u64,
}

pub(super) struct Group {
    pub id: [u32; 3],
    pub slots: Vec<Slot>,
    /// More than this workgroup has waves, for their memory.
    parked: Vec<Slot>,
    pub live: u32,
    pub lds: Lds,
    barrier_sites: bool,
    /// What looks on, if anything does.
    watch: Option<Box<Watch>>,
    /// Memory of what looked on before.
    rest: Rest,
}

/// What running needs besides the group.
pub(super) struct Context<'a> {
    pub memory: &'a Memory,
    pub module: &'a LoadedModule,
    pub plan: &'a Plan<'a>,
    pub arch: Arch,
}

impl Group {
    pub fn new() -> Group {
        let lds = Lds { words: Vec::new(), bytes: 0 };
        Group {
            id: [0; 3],
            slots: Vec::new(),
            parked: Vec::new(),
            live: 0,
            lds,
            barrier_sites: true,
            watch: None,
            rest: Rest::default(),
        }
    }

    /// It serves in a launch that is looked on, or not.
    pub fn enter(&mut self, watched: Option<&Arc<Shared>>) {
        self.watch = watched.map(|shared| Box::new(Watch::new(shared.clone(), std::mem::take(&mut self.rest))));
    }

    /// Gives back its scratch, which may be much more than the next launch needs.
    pub fn drop_scratch(&mut self) {
        for slot in self.slots.iter_mut().chain(&mut self.parked) {
            slot.wave.scratch = Vec::new();
        }
    }

    /// No workgroup follows in this launch.
    pub fn finish(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.rest = watch.finish();
        }
    }

    /// Makes it workgroup `number` of the launch, x fastest. Reuses what it has allocated.
    pub fn start(&mut self, plan: &Plan, number: u64) {
        let [gx, gy, _] = plan.info.grid.map(u64::from);
        self.id = [(number % gx) as u32, (number / gx % gy) as u32, (number / gx / gy) as u32];
        self.barrier_sites = plan.options.barrier_sites;
        self.live = plan.waves;
        self.lds.bytes = plan.lds_bytes;
        self.lds.words.clear();
        self.lds.words.resize(plan.lds_bytes.div_ceil(4) as usize, plan.options.fill);
        let count = plan.waves as usize;
        if self.slots.len() > count {
            self.parked.extend(self.slots.drain(count..));
        }
        while self.slots.len() < count {
            let new = || Slot { wave: Wave::new(), status: Status::Ready, complete: false, site: 0 };
            self.slots.push(self.parked.pop().unwrap_or_else(new));
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.status = Status::Ready;
            slot.complete = false;
            start_wave(&mut slot.wave, plan, self.id, index as u32);
        }
        if let Some(watch) = &mut self.watch {
            watch.started(&Start {
                workgroup: self.id,
                number,
                waves: plan.waves,
                items: plan.items,
                user_sgprs: plan.user.len() as u8,
                vgprs: plan.kernel.descriptor.vgprs().min(256) as u16,
                lds_bytes: plan.lds_bytes,
                scratch_bytes: plan.scratch_bytes,
                wgp_mode: plan.kernel.descriptor.wgp_mode(),
                code_start: plan.info.code_start,
                arguments: plan.arguments,
            });
        }
    }

    /// Runs wave `index` for at most `slice` instructions.
    pub fn run(&mut self, cx: &Context, index: usize, slice: u64, counts: &mut Counts) -> Result<Slice, Box<Trap>> {
        let code = &cx.module.code;
        let limit = cx.plan.options.wave_limit;
        let end = self.slots[index].wave.executed.saturating_add(slice).min(limit);
        let stop = loop {
            let wave = &mut self.slots[index].wave;
            let stopped = match self.watch.as_deref_mut() {
                None => run_slice::<false>(wave, &mut self.lds, cx, code, self.id, end, counts, None),
                watch => run_slice::<true>(wave, &mut self.lds, cx, code, self.id, end, counts, watch),
            };
            match stopped {
                Ok(Stop::Used) if self.slots[index].wave.executed >= limit => {
                    let mut lines = vec![format!("one wave executed {limit} instructions")];
                    self.dump(cx, &mut lines, DUMP_LINES);
                    break Err(Box::new(Fault::Hang(lines.join("\n  "))));
                }
                Ok(Stop::Used) => break Ok(Slice::Used),
                Ok(Stop::Slept) => break Ok(Slice::Slept),
                Ok(Stop::Barrier(op, bytes)) => match self.barrier(index, op, bytes) {
                    Ok(true) => {}
                    Ok(false) => break Ok(Slice::Stopped),
                    Err(fault) => break Err(fault),
                },
                Ok(Stop::Ended) => break self.end(index).map(|()| Slice::Stopped),
                Err(fault) => break Err(fault),
            }
        };
        stop.map_err(|fault| Box::new(trap(cx, self.id, &self.slots[index].wave, *fault)))
    }

    /// Performs a barrier operation at the wave's pc; whether the wave goes on.
    fn barrier(&mut self, index: usize, op: Barrier, bytes: u64) -> Result<bool, Box<Fault>> {
        let alone = self.slots.len() == 1; // a one-wave workgroup has no barrier, its operations are no-ops
        let fail = |reason: String| Err(Box::new(Fault::Barrier(reason)));
        match op {
            Barrier::Signal | Barrier::SignalIsFirst if !alone => {
                if self.slots[index].wave.signalled || self.slots[index].complete {
                    return fail("the wave signals a second time without having waited".into());
                }
                if op == Barrier::SignalIsFirst {
                    let first = !self.slots.iter().any(|s| s.wave.signalled);
                    self.slots[index].wave.scc = first;
                }
                self.slots[index].wave.signalled = true;
                if let Some(watch) = &mut self.watch {
                    watch.signalled(&self.slots[index].wave);
                }
                self.slots[index].site = self.slots[index].wave.pc;
                self.slots[index].wave.pc += bytes;
                self.complete_barrier()?;
                return Ok(true);
            }
            Barrier::Wait if !alone => {
                let slot = &mut self.slots[index];
                if slot.complete {
                    slot.complete = false;
                    if let Some(watch) = &mut self.watch {
                        watch.passed(&slot.wave);
                    }
                } else if slot.wave.signalled {
                    slot.status = Status::Waiting;
                    return Ok(false);
                } else {
                    return fail("the wave waits without having signalled".into());
                }
            }
            // Nobody comes first to the barrier of one wave.
            Barrier::SignalIsFirst => self.slots[index].wave.scc = false,
            Barrier::State(register) => {
                let signals = self.slots.iter().filter(|s| s.wave.signalled).count() as u32;
                let state = if alone { 0 } else { signals << 16 | self.live << 4 | 1 };
                if register != NULL {
                    self.slots[index].wave.set_sgpr(register, state);
                }
            }
            _ => {}
        }
        self.slots[index].wave.pc += bytes;
        Ok(true)
    }

    /// Lets everyone through if every live wave has signalled.
    fn complete_barrier(&mut self) -> Result<(), Box<Fault>> {
        let mut live = self.slots.iter().filter(|s| s.status != Status::Ended);
        if !live.clone().all(|s| s.wave.signalled) {
            return Ok(());
        }
        if let Some(first) = live.next()
            && self.barrier_sites
            && let Some(other) = live.find(|s| s.site != first.site)
        {
            let (a, b) = (first.wave.index, other.wave.index);
            return Err(Box::new(Fault::Barrier(format!(
                "divergence: wave {a} signalled at {:#x}, wave {b} at {:#x}",
                first.site, other.site
            ))));
        }
        for slot in self.slots.iter_mut().filter(|s| s.status != Status::Ended) {
            slot.wave.signalled = false;
            slot.complete = slot.status != Status::Waiting;
            if slot.status == Status::Waiting {
                slot.status = Status::Ready;
                if let Some(watch) = &mut self.watch {
                    watch.passed(&slot.wave);
                }
                slot.wave.pc += 4; // behind s_barrier_wait
            }
        }
        Ok(())
    }

    fn end(&mut self, index: usize) -> Result<(), Box<Fault>> {
        let slot = &mut self.slots[index];
        if slot.wave.signalled || slot.complete {
            return Err(Box::new(Fault::Barrier("the wave ends after it signalled, without waiting".into())));
        }
        slot.status = Status::Ended;
        if let Some(watch) = &mut self.watch {
            watch.ended(&slot.wave);
        }
        self.live -= 1;
        if self.live > 0 && self.slots.iter().any(|s| s.wave.signalled) {
            self.complete_barrier()?;
        }
        Ok(())
    }

    /// Where its live waves are, for a hang.
    pub fn dump(&self, cx: &Context, lines: &mut Vec<String>, most: usize) {
        let [x, y, z] = self.id;
        for slot in self.slots.iter().filter(|s| s.status != Status::Ended) {
            if lines.len() == most {
                return;
            }
            let at = trap(cx, self.id, &slot.wave, Fault::Unknown);
            let state = if slot.status == Status::Waiting { "waits" } else { "runs" };
            lines.push(format!(
                "workgroup {x},{y},{z} wave {} {state} at +{:#x} ({}), exec {:#010x}, {} instructions",
                slot.wave.index,
                at.offset,
                at.text,
                slot.wave.exec(),
                slot.wave.executed
            ));
        }
    }
}

fn start_wave(wave: &mut Wave, plan: &Plan, id: [u32; 3], index: u32) {
    let fill = plan.options.fill;
    let descriptor = &plan.kernel.descriptor;
    wave.pc = plan.entry;
    wave.sgpr = [fill; 128];
    wave.sgpr[NULL as usize] = 0;
    wave.sgpr[..plan.user.len()].copy_from_slice(&plan.user);
    let has_yz = descriptor.rsrc2 >> 8 & 3 != 0;
    wave.sgpr[TTMP0 as usize + 7] = id[1] | id[2] << 16;
    wave.sgpr[TTMP0 as usize + 8] = index << 25 | (has_yz as u32) << 30;
    wave.sgpr[TTMP0 as usize + 9] = id[0];
    let first = index * 32;
    let lanes = (plan.items - first).min(32);
    wave.sgpr[EXEC as usize] = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
    wave.sgpr[EXEC as usize + 1] = 0;
    wave.scc = fill & 1 != 0;
    wave.mode = descriptor.mode();
    // What lies behind is left from other waves; no instruction may name it.
    let registers = &mut wave.vgpr[..descriptor.vgprs().min(256) as usize];
    Arch::new().dispatch_made(|| Fill { registers, fill });
    let [bx, by, _] = plan.info.block;
    let dims = descriptor.workitem_dims();
    let (mut x, mut y, mut z) = (first % bx, first / bx % by, first / bx / by);
    let (y_mask, z_mask) = (if dims >= 1 { u32::MAX } else { 0 }, if dims >= 2 { u32::MAX } else { 0 });
    for lane in 0..lanes {
        wave.vgpr[0][lane as usize] = x | (y & y_mask) << 10 | (z & z_mask) << 20;
        x += 1;
        if x == bx {
            (x, y) = (0, y + 1);
        }
        if y == by {
            (y, z) = (0, z + 1);
        }
    }
    wave.scratch_bytes = plan.scratch_bytes;
    wave.scratch.clear();
    wave.scratch.resize(plan.scratch_bytes as usize / 4 * 32, fill);
    wave.index = index;
    wave.executed = 0;
    wave.signalled = false;
}

/// Filling registers, for `pulp`: a wave may have 32 KiB of them, and lives for some hundred instructions.
struct Fill<'a> {
    registers: &'a mut [Lanes],
    fill: u32,
}

impl pulp::NullaryFnOnce for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        for register in self.registers {
            *register = [self.fill; 32];
        }
    }
}

enum Stop {
    Used,
    Slept,
    Barrier(Barrier, u64),
    Ended,
}

/// The loop that executes instructions: no lookup but at jumps, no allocation, one indirect call each. It is compiled twice, so that a
/// launch that is not `WATCHED` has no test for it here.
#[allow(clippy::too_many_arguments, reason = "parts of one group, borrowed apart")]
fn run_slice<const WATCHED: bool>(
    wave: &mut Wave,
    lds: &mut Lds,
    context: &Context,
    code: &Code,
    workgroup: [u32; 3],
    end: u64,
    counts: &mut Counts,
    watch: Option<&mut Watch>,
) -> Result<Stop, Box<Fault>> {
    let mut position = code.position(wave.pc)?;
    let (memory, launch, arch) = (context.memory, &context.plan.info, context.arch);
    let mut cx = Cx { wave, lds, memory, launch, workgroup, arch, watch };
    let ops = &code.ops[..];
    let effects = if WATCHED { code.effects() } else { &[] };
    let declared = context.plan.kernel.descriptor.vgprs().min(256) as u16;
    let mut seen = None;
    while cx.wave.executed < end {
        let op = &ops[position as usize];
        let count = op.straight.count as u64;
        if !WATCHED && count > 0 && op.straight.vgprs <= declared && count <= end - cx.wave.executed {
            run_straight(&mut cx, code, position as usize, count as usize, counts)?;
            position += count as u32;
            continue;
        }
        if op.vgprs > declared {
            return Err(Box::new(Fault::Register { register: op.vgprs - 1, declared }));
        }
        cx.wave.executed += 1;
        if let Some(count) = counts.get_mut(op.class as usize) {
            *count += 1;
        }
        if WATCHED && let Some(watch) = cx.watch.as_deref_mut() {
            watch.before(cx.wave, &op.inst, &effects[position as usize])?;
        }
        let flow = (op.exec)(&mut cx, &op.inst)?;
        if WATCHED && let Some(watch) = cx.watch.as_deref_mut() {
            watch.after(cx.wave, &op.inst, &effects[position as usize])?;
        }
        match flow {
            Flow::Next => {
                cx.wave.pc += op.bytes as u64;
                position = op.next;
            }
            Flow::Jump(target) => {
                let from = cx.wave.pc;
                cx.wave.pc = target;
                let at = std::mem::replace(&mut position, code.position(target).inspect_err(|_| cx.wave.pc = from)?);
                if op.poll != 0 && poll::again(&mut seen, &code.polls, op.poll, at, cx.wave) {
                    return Ok(Stop::Slept);
                }
            }
            Flow::Yield => {
                cx.wave.pc += op.bytes as u64;
                return Ok(Stop::Slept);
            }
            Flow::Barrier(barrier) => return Ok(Stop::Barrier(barrier, op.bytes as u64)),
            Flow::End => return Ok(Stop::Ended),
        }
    }
    Ok(Stop::Used)
}

/// Executes `count` instructions from `position` on, which run through: what is kept of each (where the wave is, how many it has
/// executed, how many of each class) is kept once for all. What is only counted is stepped over.
#[inline(always)]
fn run_straight(
    cx: &mut Cx,
    code: &Code,
    position: usize,
    count: usize,
    counts: &mut Counts,
) -> Result<(), Box<Fault>> {
    let ops = &code.ops[position..position + count];
    let mut at = 0;
    let mut fault = None;
    while let Some(op) = ops.get(at) {
        match (op.exec)(cx, &op.inst) {
            Ok(flow) => debug_assert_eq!(flow, Flow::Next, "{}", op.inst.row.name),
            Err(reason) => {
                fault = Some(reason);
                break;
            }
        }
        at += op.straight.step as usize;
    }
    // A fault's instruction has been executed, and the wave is at it.
    let (passed, executed) = if fault.is_some() { (at, at + 1) } else { (count, count) };
    cx.wave.pc = code.start + code.ops.get(position + passed).map_or(0, |op| op.at as u64 * 4);
    cx.wave.executed += executed as u64;
    code.count(position, executed, counts);
    fault.map_or(Ok(()), Err)
}

/// A fault with its place.
pub(super) fn trap(cx: &Context, workgroup: [u32; 3], wave: &Wave, fault: Fault) -> Trap {
    let position = cx.module.code.position(wave.pc).ok();
    let inst = position.map(|p| &cx.module.code.ops[p as usize].inst);
    let known = inst.filter(|i| i.row.name != "?");
    Trap {
        kernel: cx.plan.kernel.name.clone(),
        offset: wave.pc.wrapping_sub(cx.plan.entry) as i64,
        pc: wave.pc,
        word: inst.map_or(0, |i| i.words[0]),
        text: known.map_or_else(|| "?".into(), |i| isa::text(i, wave.pc)),
        source: cx.module.object().lines().find(wave.pc.wrapping_sub(cx.module.base())),
        workgroup,
        wave: wave.index,
        fault,
        findings: Vec::new(),
    }
}
