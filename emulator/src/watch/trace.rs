//! A wave's instructions in words, with what each changed: for people who learn the architecture or look for where a value went wrong.
//! It looks at registers before and after, so it shows what happened, not what an instruction should do. One wave is traced; the others
//! run as ever.

use super::{Accessed, Moved, Space, Start};
use crate::isa::effects::{Effects, File};
use crate::isa::{self, Inst};
use crate::wave::{EXEC, Registers, Wave};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

/// Column at which changes stand.
const CHANGES: usize = 64;
/// Lanes listed one by one where their values follow no pattern.
const LISTED: usize = 4;

/// Where lines go; called with one line, without its end.
type Line = dyn FnMut(&str) + Send;

/// What to trace. Equal only to its own clones.
#[derive(Clone)]
pub struct Trace {
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Wave within it.
    pub wave: u32,
    /// Most instructions.
    pub limit: u64,
    out: Arc<Mutex<Line>>,
}

impl Trace {
    /// A trace of the first `limit` instructions of one wave.
    pub fn new(workgroup: [u32; 3], wave: u32, limit: u64, out: impl FnMut(&str) + Send + 'static) -> Trace {
        Trace { workgroup, wave, limit, out: Arc::new(Mutex::new(out)) }
    }
    fn line(&self, text: &str) {
        (*self.out.lock().unwrap_or_else(PoisonError::into_inner))(text.trim_end());
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trace { workgroup, wave, limit, .. } = self;
        write!(f, "Trace {{ workgroup: {workgroup:?}, wave: {wave}, limit: {limit} }}")
    }
}

impl PartialEq for Trace {
    fn eq(&self, other: &Trace) -> bool {
        Arc::ptr_eq(&self.out, &other.out)
            && (self.workgroup, self.wave, self.limit) == (other.workgroup, other.wave, other.limit)
    }
}
impl Eq for Trace {}

/// A trace and what it has to know of the launch.
#[derive(Debug)]
pub struct Tracing {
    /// Which wave, where to.
    pub trace: Trace,
    /// Name of the kernel.
    pub kernel: Arc<str>,
    /// Address of its first instruction.
    pub entry: u64,
}

/// Registers of the traced wave before an instruction.
struct Snapshot {
    sgpr: [u32; 128],
    scc: bool,
    vgpr: Box<Registers>,
}

/// A line that waits for what comes next: only then it is known where a jump went.
struct Pending {
    text: String,
    notes: Vec<String>,
    next_pc: u64,
    finished: bool,
}

/// Follows the traced wave, if it is in the workgroup that runs.
pub struct Tracer {
    trace: Trace,
    kernel: Arc<str>,
    entry: u64,
    start: Option<Start>,
    steps: u64,
    before: Option<Snapshot>,
    pending: Option<Pending>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tracer({:?})", self.trace)
    }
}

impl Tracer {
    /// For one thread of a launch.
    pub fn new(tracing: &Tracing) -> Tracer {
        let Tracing { trace, kernel, entry } = tracing;
        let (trace, kernel, entry) = (trace.clone(), kernel.clone(), *entry);
        Tracer { trace, kernel, entry, start: None, steps: 0, before: None, pending: None }
    }

    /// A workgroup begins.
    pub fn started(&mut self, start: &Start) {
        self.start = (start.workgroup == self.trace.workgroup).then_some(*start);
    }

    fn follows(&self, wave: &Wave) -> bool {
        self.start.is_some() && wave.index == self.trace.wave && self.steps <= self.trace.limit
    }

    /// An instruction is about to execute.
    pub fn before(&mut self, wave: &Wave, inst: &Inst) {
        if !self.follows(wave) {
            return;
        }
        self.flush(Some(wave.pc));
        if self.steps == 0 {
            self.head(wave);
        }
        self.steps += 1;
        if self.steps > self.trace.limit {
            self.trace.line(&format!("… the limit of {} instructions is reached", self.trace.limit));
            return;
        }
        let offset = wave.pc.wrapping_sub(self.entry);
        self.pending = Some(Pending {
            text: format!("{:6}  {}  {}", self.steps, offset_text(offset), isa::text(inst, wave.pc)),
            notes: Vec::new(),
            next_pc: wave.pc + u64::from(inst.dwords) * 4,
            finished: false,
        });
        self.before = Some(Snapshot { sgpr: wave.sgpr, scc: wave.scc, vgpr: wave.vgpr.clone() });
    }

    /// It accesses memory.
    pub fn accessed(&mut self, wave: &Wave, accessed: &Accessed) {
        if !self.follows(wave) {
            return;
        }
        let Some(pending) = &mut self.pending else { return };
        let space = match accessed.space {
            Space::Global => "",
            Space::Lds => "LDS ",
            Space::Scratch => "scratch ",
        };
        let scalar = matches!(accessed.moved, Moved::Scalar { .. });
        let lanes = if scalar { String::new() } else { lanes_text(accessed.mask) };
        let places = values_text(accessed.addresses, accessed.mask, |address| format!("{address:#x}"));
        let Accessed { access, bytes, .. } = accessed;
        pending.notes.push(format!("{space}{access} of {bytes} bytes{lanes} at {places}"));
    }

    /// It has executed.
    pub fn after(&mut self, wave: &Wave, inst: &Inst, effects: &Effects) {
        if !self.follows(wave) {
            return;
        }
        let (Some(before), Some(mut pending)) = (self.before.take(), self.pending.take()) else { return };
        pending.finished = true;
        let written = |file: File, register: usize| {
            let mut spans = effects.writes.iter().filter(|span| span.file == file);
            spans.any(|span| (usize::from(span.first)..usize::from(span.end())).contains(&register))
        };
        for register in 0..128 {
            let (old, new) = (before.sgpr[register], wave.sgpr[register]);
            if old != new || written(File::Scalar, register) {
                pending.notes.push(format!("{} = {new:#010x}{}", scalar_name(register), same(old == new)));
            }
        }
        if effects.writes_scc || before.scc != wave.scc {
            pending.notes.push(format!("scc = {}{}", u8::from(wave.scc), same(before.scc == wave.scc)));
        }
        let float = gives_f32(inst.row.name);
        let exec = before.sgpr[usize::from(EXEC)];
        for register in 0..256 {
            let (old, new) = (&before.vgpr[register], &wave.vgpr[register]);
            let changed = (0..32).filter(|&lane| old[lane] != new[lane]).fold(0u32, |mask, lane| mask | 1 << lane);
            if changed == 0 && !written(File::Vector, register) {
                continue;
            }
            // Lanes that are off are shown where they changed all the same.
            let mask = exec | changed;
            if mask == 0 {
                pending.notes.push(format!("v{register} keeps its value, no lane is on"));
                continue;
            }
            let show = |bits: u32| match f32::from_bits(bits) {
                value if float && value.is_finite() => format!("{bits:#x} ({value:?})"),
                _ => format!("{bits:#x}"),
            };
            let values = values_text(new, mask, show);
            pending.notes.push(format!("v{register} = {values}{}{}", lanes_text(mask), same(changed == 0)));
        }
        self.pending = Some(pending);
    }

    /// The wave goes on behind a barrier.
    pub fn passed(&mut self, wave: &Wave) {
        if self.follows(wave)
            && let Some(pending) = &mut self.pending
        {
            pending.notes.push("all waves have signalled".into());
        }
    }

    /// The wave has ended.
    pub fn ended(&mut self, wave: &Wave) {
        if self.follows(wave) {
            self.flush(None);
            self.trace.line("the wave has ended");
        }
    }

    /// The launch is over.
    pub fn finish(&mut self) {
        self.flush(None);
    }

    /// What the wave starts with.
    fn head(&mut self, wave: &Wave) {
        let Some(start) = &self.start else { return };
        let [x, y, z] = start.workgroup;
        let kernel = &self.kernel;
        let lanes = wave.exec().count_ones();
        self.trace.line(&format!("kernel {kernel}, workgroup {x},{y},{z}, wave {}: {lanes} lanes", wave.index));
        let mut registers: Vec<usize> = (0..usize::from(start.user_sgprs)).collect();
        registers.extend([115, 116, 117]);
        let values: Vec<String> =
            registers.into_iter().map(|r| format!("{} = {:#010x}", scalar_name(r), wave.sgpr[r])).collect();
        self.trace.line(&format!("starts with {}", values.join(", ")));
        let v0 = values_text(&wave.vgpr[0], wave.exec(), |bits| format!("{bits:#x}"));
        self.trace.line(&format!("            v0 = {v0}"));
    }

    /// Writes the line that waits; `pc` is where the wave goes on.
    fn flush(&mut self, pc: Option<u64>) {
        let Some(Pending { text, mut notes, next_pc, finished }) = self.pending.take() else { return };
        if let Some(pc) = pc.filter(|&pc| pc != next_pc) {
            notes.push(format!("goes on at {}", offset_text(pc.wrapping_sub(self.entry))));
        }
        if !finished {
            notes.push("did not finish".into());
        }
        let mut notes = notes.into_iter();
        let mut line = text;
        if let Some(note) = notes.next() {
            if line.chars().count() > CHANGES - 2 {
                self.trace.line(&line);
                line.clear();
            }
            let _ = write!(line, "{:1$}{note}", "", CHANGES.saturating_sub(line.chars().count()));
        }
        self.trace.line(&line);
        for note in notes {
            self.trace.line(&format!("{:CHANGES$}{note}", ""));
        }
    }
}

/// An offset from the kernel's entry; callees may lie before it.
fn offset_text(offset: u64) -> String {
    let offset = offset as i64;
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{sign}{:#06x}", offset.unsigned_abs())
}

/// Whether the result of an instruction is f32, as far as its name tells.
fn gives_f32(name: &str) -> bool {
    match name.strip_prefix("v_cvt_") {
        Some(rest) => rest.starts_with("f32_"),
        None => name.contains("_f32") && !name.starts_with("v_cmp") && !name.contains("_i32"),
    }
}

fn same(unchanged: bool) -> &'static str {
    if unchanged { " (as before)" } else { "" }
}

fn scalar_name(register: usize) -> String {
    match register {
        0..=105 => format!("s{register}"),
        106 => "vcc_lo".into(),
        107 => "vcc_hi".into(),
        108..=123 => format!("ttmp{}", register - 108),
        125 => "m0".into(),
        126 => "exec_lo".into(),
        127 => "exec_hi".into(),
        _ => "null".into(),
    }
}

fn lanes_text(mask: u32) -> String {
    match mask {
        u32::MAX => String::new(),
        _ if mask.is_power_of_two() => format!(" in lane {}", mask.trailing_zeros()),
        _ => format!(" in {} lanes ({mask:#010x})", mask.count_ones()),
    }
}

/// The values of the lanes in `mask`, as shortly as their pattern allows: one value, a value and a step per lane, or the first few.
fn values_text<T: Copy + Into<u64> + PartialEq>(values: &[T; 32], mask: u32, show: impl Fn(T) -> String) -> String {
    let lanes: Vec<usize> = (0..32).filter(|lane| mask >> lane & 1 != 0).collect();
    let Some((&first, &last)) = lanes.first().zip(lanes.last()) else { return "nothing".into() };
    let start = values[first];
    if lanes.iter().all(|&lane| values[lane] == start) {
        return show(start);
    }
    let value = |lane: usize| -> u64 { values[lane].into() };
    let span = (last - first) as u64;
    let rise = value(last).wrapping_sub(value(first));
    if lanes.len() > LISTED && rise < u64::MAX / 2 && rise.is_multiple_of(span) {
        let step = rise / span;
        if lanes.iter().all(|&lane| value(lane) == value(first) + step * (lane - first) as u64) {
            let from = if first == 0 { String::new() } else { format!(" from lane {first} on") };
            return format!("{} + {step:#x} per lane{from}", show(start));
        }
    }
    let mut text = String::new();
    for &lane in lanes.iter().take(LISTED) {
        let _ = write!(text, "{}[{lane}] {}", if text.is_empty() { "" } else { ", " }, show(values[lane]));
    }
    if lanes.len() > LISTED {
        text += ", …";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_their_pattern() {
        let text = |value: fn(u32) -> u32, mask| {
            let values: crate::wave::Lanes = std::array::from_fn(|lane| value(lane as u32));
            values_text(&values, mask, |bits| format!("{bits:#x}"))
        };
        assert_eq!(text(|_| 7, u32::MAX), "0x7");
        assert_eq!(text(|l| 4 * l + 16, u32::MAX), "0x10 + 0x4 per lane");
        assert_eq!(text(|l| 4 * l + 16, 0xff00), "0x30 + 0x4 per lane from lane 8 on");
        assert_eq!(text(|l| l * l, u32::MAX), "[0] 0x0, [1] 0x1, [2] 0x4, [3] 0x9, …");
        assert_eq!(text(|l| 31 - l, u32::MAX), "[0] 0x1f, [1] 0x1e, [2] 0x1d, [3] 0x1c, …");
        assert_eq!(text(|l| l, 0b101), "[0] 0x0, [2] 0x2");
        assert_eq!(text(|l| l, 0), "nothing");
    }
}
