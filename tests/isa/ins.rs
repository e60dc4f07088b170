//! Instruction rows: what one instruction does to a wave. Expected values come from exact integer or IEEE reasoning, never from this
//! emulator. A file is `tests/isa/<format>.ins`; every `.ins` file in the folder runs.
//!
//! One row:
//!
//! ```text
//! # a comment; empty lines separate nothing
//! 060a0501 | v_add_f32_e32 v5, s1, v2 | s1=1.0f v2=[0.5f, -0.0f] => v5=[1.5f, 1.0f]
//! ```
//!
//! - *bytes*: the dwords in hexadecimal, as `llvm-objdump` shows them. *text*: what it prints for them; `llvm-mc` must make the bytes
//!   of it. *state*: assignments before `=>`, and after it what changed. **Everything not named after `=>` must be unchanged**
//!   (registers, SCC, EXEC, MODE, LDS, memory, scratch), so a row also says what an instruction leaves alone.
//! - A row goes on over the next lines as long as they are indented.
//! - Places: `v3` (all lanes), `v3.5` (lane 5), `s7`, `vcc` `exec` (32 bits), `ttmp9`, `m0`, `mode`, `scc`, `lds[8]` `mem[8]` (the dword
//!   at a byte offset), `scratch[8].5` (the dword at a byte offset of lane 5). Pairs take one 64-bit value: `v[2:3]`, `s[4:5]`.
//!   `lds.bytes`, `mem.bytes`, `scratch.bytes` set sizes (256, 256 and 64 unless said). After `=>` also `pc` (bytes from the
//!   instruction, where it jumps) and `flow` (`yield`, `signal`, `first`, `wait`, `state5` into s5, `end`).
//! - Values: `17`, `-1`, `0xff`; `1.5f` f32, `1.5h` f16, `1.5b` bf16, `1.5d` f64, where `inf` and `nan` may stand for the number
//!   (`nanf` after `=>` matches any NaN); `&mem+16` an address in the memory, `&lds+16` and `&scratch+16` flat addresses;
//!   `(hi, lo)` two 16-bit values; `[a, b, c]` lanes 0, 1, 2…, the last value in all further lanes.
//! - `=> fault words` expects a fault whose message contains the words.
//! - Before: EXEC is all ones, MODE as at a launch; everything else holds a pattern that differs by register and lane.

use emulator::Memory;
use emulator::wave::{Barrier, EXEC, Flow, Lds, M0, Registers, TTMP0, VCC, Wave};

/// One row of a file.
pub struct Row {
    /// File and line.
    pub place: String,
    /// Its dwords.
    pub words: Vec<u32>,
    /// Its text.
    pub text: String,
    before: String,
    after: String,
}

/// Rounding to nearest even, denormals kept: MODE at a launch.
const MODE: u32 = 0xf0;

impl Row {
    /// Whether it expects a fault.
    pub fn faults(&self) -> bool {
        self.after.starts_with("fault")
    }
}

/// The rows of one file.
pub fn parse(name: &str, content: &str) -> Vec<Row> {
    let mut logical: Vec<(usize, String)> = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(code, _)| code);
        if line.trim().is_empty() {
            continue;
        }
        match logical.last_mut() {
            Some((_, row)) if line.starts_with(char::is_whitespace) => {
                row.push(' ');
                row.push_str(line.trim());
            }
            _ => logical.push((number + 1, line.trim().to_string())),
        }
    }
    logical.into_iter().map(|(number, line)| row(format!("{name}:{number}"), &line)).collect()
}

fn row(place: String, line: &str) -> Row {
    let parts: Vec<&str> = line.splitn(3, " | ").map(str::trim).collect();
    let [bytes, text, state] = parts[..] else { panic!("{place}: a row is `bytes | text | state`") };
    let (before, after) = state.split_once("=>").unwrap_or_else(|| panic!("{place}: no `=>`"));
    let words = bytes
        .split_whitespace()
        .map(|w| u32::from_str_radix(w, 16).unwrap_or_else(|_| panic!("{place}: {w} is not a hexadecimal dword")))
        .collect();
    Row { place, words, text: text.into(), before: before.trim().into(), after: after.trim().into() }
}

/// A wave with everything an instruction may touch.
struct Machine {
    wave: Wave,
    lds: Lds,
    memory: Memory,
    base: u64,
    mem_bytes: u64,
}

/// A value that differs by register and lane, so that reading a wrong one shows.
fn pattern(kind: u32, index: u32, lane: u32) -> u32 {
    (kind << 28 | index << 8 | lane).wrapping_mul(0x9e37_79b1) | 1
}

impl Machine {
    fn new(mem_bytes: u64, lds_bytes: u32, scratch_bytes: u32) -> Machine {
        let mut memory = Memory::new(1 << 30);
        let base = memory.alloc(mem_bytes).expect("a small allocation");
        for at in (0..mem_bytes / 4 * 4).step_by(4) {
            memory.write(base + at, &pattern(1, at as u32, 0).to_le_bytes()).expect("inside");
        }
        let mut vgpr = Box::new(Registers([[0; 32]; 256]));
        for (index, lanes) in vgpr.iter_mut().enumerate() {
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = pattern(2, index as u32, lane as u32);
            }
        }
        let mut sgpr = [0; 128];
        for (index, value) in sgpr.iter_mut().enumerate() {
            *value = pattern(3, index as u32, 0);
        }
        sgpr[EXEC as usize] = u32::MAX;
        sgpr[EXEC as usize + 1] = 0;
        sgpr[emulator::wave::NULL as usize] = 0;
        let words = lds_bytes.div_ceil(4);
        Machine {
            wave: Wave {
                pc: CODE,
                sgpr,
                scc: false,
                mode: MODE,
                vgpr,
                scratch: (0..scratch_bytes / 4 * 32).map(|i| pattern(4, i, 0)).collect(),
                scratch_bytes,
                index: 0,
                executed: 0,
                signalled: false,
            },
            lds: Lds { words: (0..words).map(|i| pattern(5, i, 0)).collect(), bytes: lds_bytes },
            memory,
            base,
            mem_bytes,
        }
    }

    /// What differs from the machine that was expected: place, value, and the expected value.
    fn differences(&self, expected: &Machine) -> Vec<String> {
        let mut list = Vec::new();
        let mut compare = |got: &[u32], want: &[u32], place: &dyn Fn(usize) -> String| {
            if got != want {
                let pairs = got.iter().zip(want).enumerate().filter(|(_, (got, want))| got != want);
                list.extend(pairs.map(|(i, (got, want))| format!("{} is {got:#010x}, not {want:#010x}", place(i))));
            }
        };
        for (i, (got, want)) in self.wave.vgpr.iter().zip(expected.wave.vgpr.iter()).enumerate() {
            compare(got, want, &|lane| format!("v{i}.{lane}"));
        }
        let sgpr = |i: usize| emulator::isa::operand::sgpr_text(i as u8, 1);
        compare(&self.wave.sgpr, &expected.wave.sgpr, &sgpr);
        compare(&[self.wave.scc as u32], &[expected.wave.scc as u32], &|_| "scc".into());
        compare(&[self.wave.mode], &[expected.wave.mode], &|_| "mode".into());
        compare(&self.lds.words, &expected.lds.words, &|i| format!("lds[{}]", i * 4));
        compare(&self.dwords(), &expected.dwords(), &|i| format!("mem[{}]", i * 4));
        compare(&self.wave.scratch, &expected.wave.scratch, &|i| format!("scratch[{}].{}", i / 32 * 4, i % 32));
        list
    }

    /// The memory.
    fn dwords(&self) -> Vec<u32> {
        let mut bytes = vec![0; self.mem_bytes as usize / 4 * 4];
        self.memory.read(self.base, &mut bytes).expect("inside");
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// A value of `dwords` dwords; `None` stands for any NaN of the format.
    fn value(&self, text: &str) -> Result<Value, String> {
        let float = |digits: &str| digits.parse::<f64>().map_err(|_| format!("{text} is not a number"));
        if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            let (hi, lo) = inner.split_once(',').ok_or("a pair of halves is (hi, lo)")?;
            let (hi, lo) = (self.value(hi.trim())?, self.value(lo.trim())?);
            return Ok(Value { bits: (hi.bits & 0xffff) << 16 | lo.bits & 0xffff, nan: None });
        }
        for (name, base) in [
            ("&mem", self.base),
            ("&lds", (emulator::wave::SHARED_APERTURE as u64) << 32),
            ("&scratch", (emulator::wave::PRIVATE_APERTURE as u64) << 32),
        ] {
            if let Some(rest) = text.strip_prefix(name) {
                let offset =
                    if rest.is_empty() { 0 } else { rest.parse::<i64>().map_err(|_| format!("offset {rest}"))? };
                return Ok(Value { bits: base.wrapping_add_signed(offset), nan: None });
            }
        }
        let (digits, negative) = text.strip_prefix('-').map_or((text, false), |t| (t, true));
        if let Some(hex) = digits.strip_prefix("0x") {
            let bits =
                u64::from_str_radix(&hex.replace('_', ""), 16).map_err(|_| format!("{text} is not hexadecimal"))?;
            return Ok(Value { bits: if negative { bits.wrapping_neg() } else { bits }, nan: None });
        }
        if let Ok(integer) = text.parse::<i128>() {
            return Ok(Value { bits: integer as u64, nan: None });
        }
        let (number, format) = text.split_at(text.len().saturating_sub(1));
        let is_nan = number.trim_start_matches('-') == "nan";
        let (bits, nan) = match format {
            "f" => (((float(number)? as f32).to_bits()) as u64, 0x7f80_0000),
            "h" => (half::f16::from_f64(float(number)?).to_bits() as u64, 0x7c00),
            "b" => (half::bf16::from_f64(float(number)?).to_bits() as u64, 0x7f80),
            "d" => (float(number)?.to_bits(), 0x7ff0_0000_0000_0000),
            _ => return Err(format!("{text} is not a value")),
        };
        Ok(Value { bits, nan: is_nan.then_some(nan) })
    }

    /// Sets one place.
    fn set(&mut self, place: &str, lane: Option<usize>, dword: u32) -> Result<(), String> {
        let index = |t: &str| t.parse::<usize>().map_err(|_| format!("{place} is not a place"));
        if let Some(at) = bracketed(place, "lds") {
            *self.lds.words.get_mut(index(at)? / 4).ok_or("outside lds.bytes")? = dword;
        } else if let Some(at) = bracketed(place, "mem") {
            let at = index(at)? as u64;
            self.memory.write(self.base + at, &dword.to_le_bytes()).map_err(|e| e.to_string())?;
        } else if let Some(at) = bracketed(place, "scratch") {
            let at = index(at)? / 4 * 32;
            for l in 0..32 {
                if lane.is_none_or(|lane| lane == l) {
                    *self.wave.scratch.get_mut(at + l).ok_or("outside scratch.bytes")? = dword;
                }
            }
        } else if let Some(register) = place.strip_prefix('v').filter(|t| t.starts_with(|c: char| c.is_ascii_digit())) {
            let lanes = self.wave.vgpr.get_mut(index(register)?).ok_or("no such register")?;
            for (l, value) in lanes.iter_mut().enumerate() {
                if lane.is_none_or(|lane| lane == l) {
                    *value = dword;
                }
            }
        } else if place == "scc" {
            self.wave.scc = dword != 0;
        } else if place == "mode" {
            self.wave.mode = dword;
        } else {
            let register = scalar(place).ok_or_else(|| format!("{place} is not a place"))?;
            self.wave.sgpr[register] = dword;
        }
        Ok(())
    }

    /// Applies `place=value` assignments. Places whose value is any NaN are returned with the format's infinity.
    fn assign(&mut self, text: &str) -> Result<Vec<(String, Option<usize>, u64)>, String> {
        let mut any_nan = Vec::new();
        for (place, value) in assignments(text)? {
            let values: Vec<Value> = match value.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                Some(inner) => split(inner).into_iter().map(|v| self.value(&v)).collect::<Result<_, _>>()?,
                None => vec![self.value(&value)?],
            };
            let (place, lane) = match place.rsplit_once('.') {
                Some((place, lane)) => {
                    (place.to_string(), Some(lane.parse::<usize>().map_err(|_| format!("lane {lane}"))?))
                }
                None => (place, None),
            };
            let registers = pair(&place).unwrap_or_else(|| vec![place.clone()]);
            for lane in if values.len() > 1 { (0..32).map(Some).collect() } else { vec![lane] } {
                let value = values[lane.unwrap_or(0).min(values.len() - 1)];
                for (i, register) in registers.iter().enumerate() {
                    self.set(register, lane, (value.bits >> (32 * i)) as u32)?;
                }
                if let Some(infinity) = value.nan {
                    any_nan.push((registers[registers.len() - 1].clone(), lane, infinity));
                }
            }
        }
        Ok(any_nan)
    }
}

#[derive(Clone, Copy)]
struct Value {
    bits: u64,
    nan: Option<u64>,
}

/// `v[2:3]` as its registers.
fn pair(place: &str) -> Option<Vec<String>> {
    for letter in ["v", "s"] {
        if let Some((first, last)) = bracketed(place, letter).and_then(|t| t.split_once(':')) {
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            return Some((first..=last).map(|i| format!("{letter}{i}")).collect());
        }
    }
    None
}

fn bracketed<'a>(place: &'a str, name: &str) -> Option<&'a str> {
    place.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')
}

fn scalar(place: &str) -> Option<usize> {
    match place {
        "vcc" | "vcc_lo" => Some(VCC as usize),
        "vcc_hi" => Some(VCC as usize + 1),
        "exec" | "exec_lo" => Some(EXEC as usize),
        "exec_hi" => Some(EXEC as usize + 1),
        "m0" => Some(M0 as usize),
        _ => match place.strip_prefix("ttmp") {
            Some(t) => t.parse::<usize>().ok().filter(|&i| i < 16).map(|i| TTMP0 as usize + i),
            None => place.strip_prefix('s')?.parse::<usize>().ok().filter(|&i| i < 106),
        },
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    parts.iter().map(|p| p.trim().to_string()).collect()
}

/// `a=1 b=[1, 2]` as pairs; blanks inside brackets and parentheses do not separate.
fn assignments(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut words = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            c if c.is_whitespace() => {
                if depth == 0 {
                    words.push(String::new());
                }
                continue;
            }
            _ => {}
        }
        words.last_mut().expect("never empty").push(c);
    }
    let words = words.into_iter().filter(|w| !w.is_empty());
    words
        .map(|w| {
            let pair = w.split_once('=').map(|(a, b)| (a.to_string(), b.to_string()));
            pair.ok_or_else(|| format!("`{w}` is not place=value"))
        })
        .collect()
}

/// Takes the assignments to `names` out of `text`.
fn take(text: &str, names: &[&str]) -> Result<(Vec<Option<String>>, String), String> {
    let mut found = vec![None; names.len()];
    let mut rest = Vec::new();
    for (place, value) in assignments(text)? {
        match names.iter().position(|n| *n == place) {
            Some(i) => found[i] = Some(value),
            None => rest.push(format!("{place}={value}")),
        }
    }
    Ok((found, rest.join(" ")))
}

/// Where the instruction stands.
const CODE: u64 = 0x1_0000;

/// Runs one row; `Err` says what differs.
pub fn check(row: &Row) -> Result<(), String> {
    let inst = emulator::isa::decode(&row.words).map_err(|e| e.to_string())?;
    if inst.dwords as usize != row.words.len() {
        return Err(format!("{} dwords decoded, {} given", inst.dwords, row.words.len()));
    }
    let text = emulator::isa::text(&inst, CODE);
    if text != row.text {
        return Err(format!("prints `{text}`, the row says `{}`", row.text));
    }
    let (sizes, before) = take(&row.before, &["mem.bytes", "lds.bytes", "scratch.bytes"])?;
    let size = |i: usize, default: u64| match &sizes[i] {
        Some(text) => text.parse::<u64>().map_err(|_| format!("{text} is not a size")),
        None => Ok(default),
    };
    let (mem, lds, scratch) = (size(0, 256)?, size(1, 256)? as u32, size(2, 64)? as u32);
    let mut machine = Machine::new(mem, lds, scratch);
    machine.assign(&before)?;
    let mut expected = Machine::new(mem, lds, scratch);
    expected.assign(&before)?;

    let step = crate::execute(&inst, &mut machine.wave, &mut machine.lds, &machine.memory);
    if let Some(words) = row.after.strip_prefix("fault") {
        return match step {
            Ok(flow) => Err(format!("no fault but {flow:?}")),
            Err(fault) if fault.to_string().contains(words.trim()) => Ok(()),
            Err(fault) => Err(format!("faults with `{fault}`, not `{}`", words.trim())),
        };
    }
    let flow = step.map_err(|fault| format!("faults: {fault}"))?;
    let (ends, after) = take(&row.after, &["pc", "flow"])?;
    let wanted = match (&ends[0], ends[1].as_deref()) {
        (Some(pc), _) => Flow::Jump(CODE.wrapping_add_signed(pc.parse::<i64>().map_err(|_| format!("pc {pc}"))?)),
        (None, Some("yield")) => Flow::Yield,
        (None, Some("signal")) => Flow::Barrier(Barrier::Signal),
        (None, Some("first")) => Flow::Barrier(Barrier::SignalIsFirst),
        (None, Some("wait")) => Flow::Barrier(Barrier::Wait),
        (None, Some(state)) if state.starts_with("state") => {
            Flow::Barrier(Barrier::State(state[5..].parse().map_err(|_| format!("flow {state}"))?))
        }
        (None, Some("end")) => Flow::End,
        (None, Some(other)) => return Err(format!("flow {other}")),
        (None, None) => Flow::Next,
    };
    if flow != wanted {
        return Err(format!("{flow:?}, not {wanted:?}"));
    }
    let any_nan = expected.assign(&after)?;
    for (place, lane, infinity) in any_nan {
        accept_nan(&machine, &mut expected, &place, lane, infinity)?;
    }
    let wrong = machine.differences(&expected);
    match wrong.len() {
        0 => Ok(()),
        n => Err(format!("{n} places differ: {}", wrong[..n.min(6)].join("; "))),
    }
}

/// Where any NaN is expected and one stands, takes over its bits.
fn accept_nan(
    machine: &Machine,
    expected: &mut Machine,
    place: &str,
    lane: Option<usize>,
    infinity: u64,
) -> Result<(), String> {
    let infinity = if infinity > u32::MAX as u64 { (infinity >> 32) as u32 } else { infinity as u32 };
    let register = place.strip_prefix('v').and_then(|t| t.parse::<usize>().ok());
    let Some(register) = register else { return Err(format!("`nan` after => is for vector registers, not {place}")) };
    for l in 0..32 {
        let got = machine.wave.vgpr[register][l];
        if lane.is_none_or(|lane| lane == l) && got & 0x7fff_ffff > infinity {
            expected.wave.vgpr[register][l] = got;
            // The low half of an f64's NaN is free as well.
            if infinity == 0x7ff0_0000 && register > 0 {
                expected.wave.vgpr[register - 1][l] = machine.wave.vgpr[register - 1][l];
            }
        }
    }
    Ok(())
}
