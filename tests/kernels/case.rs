//! One case of `tests/fixtures/kernels`: reading it, running it on the emulator, comparing buffers. What the fields mean stands in that
//! folder's README.

use emulator::{CodeObject, Launch, LaunchError, LoadedModule, Memory, Options, Stats, launch};
use half::{bf16, f16};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
pub struct Case {
    pub name: String,
    code_object: String,
    kernel: String,
    grid_workgroups: [u32; 3],
    block: [u32; 3],
    dynamic_lds_bytes: u32,
    args: Vec<Arg>,
    #[serde(default)]
    extra_buffers: Vec<Extra>,
    expect: Vec<Expect>,
    pub must_flag: Option<String>,
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Deserialize)]
struct Arg {
    kind: String,
    file: Option<String>,
    bytes: Option<u64>,
    fill: Option<u8>,
    role: Option<String>,
    value: Option<serde_json::Number>,
    #[serde(default)]
    pointers: Vec<Pointer>,
}

#[derive(Deserialize)]
struct Pointer {
    offset: u64,
    extra: String,
    addend: u64,
}

#[derive(Deserialize)]
struct Extra {
    id: String,
    file: String,
}

#[derive(Deserialize)]
struct Expect {
    arg: usize,
    file: String,
    dtype: String,
    compare: Compare,
    #[serde(default)]
    elem_start: usize,
    elem_step: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Compare {
    Named(String),
    Close { rel: f64, abs: f64 },
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels")
}

/// All cases, sorted by name.
pub fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = std::fs::read_dir(fixtures())
        .unwrap()
        .filter_map(|entry| {
            let folder = entry.unwrap().path();
            let text = std::fs::read_to_string(folder.join("case.json")).ok()?;
            let mut case: Case = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
            case.folder = folder;
            Some(case)
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

/// A launch that is over: its buffers by argument.
pub struct Outcome {
    pub result: Result<Stats, LaunchError>,
    buffers: HashMap<usize, Vec<u8>>,
}

impl Case {
    fn read(&self, file: &str) -> Vec<u8> {
        let path = self.folder.join(file);
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Bytes of all buffers.
    pub fn buffer_bytes(&self) -> u64 {
        self.args.iter().filter_map(|a| a.bytes).sum()
    }

    /// Runs it. Buffers that no expectation names and that are larger than a gigabyte are not read back.
    pub fn run(&self, options: Options) -> Outcome {
        let mut memory = Memory::new(16 << 30);
        if options.checks.init {
            memory.follow_writes();
        }
        let object = CodeObject::parse(&self.read(&self.code_object)).unwrap();
        let module = LoadedModule::load(object, &mut memory).unwrap();
        let extra: HashMap<&str, u64> = self
            .extra_buffers
            .iter()
            .map(|x| {
                let bytes = self.read(&x.file);
                let address = memory.alloc(bytes.len() as u64).unwrap();
                memory.write(address, &bytes).unwrap();
                (x.id.as_str(), address)
            })
            .collect();
        let kernel = module.kernel(&self.kernel).unwrap().clone();
        let mut kernarg = vec![0; kernel.explicit_bytes() as usize];
        let mut addresses = HashMap::new();
        for (index, (arg, slot)) in self.args.iter().zip(&kernel.args).enumerate() {
            let bytes = match arg.kind.as_str() {
                "buffer" => {
                    let address = self.buffer(&mut memory, arg, &extra);
                    addresses.insert(index, address);
                    address.to_le_bytes().to_vec()
                }
                kind => scalar(kind, arg.value.as_ref().unwrap()),
            };
            assert_eq!(bytes.len(), slot.size as usize, "{}: argument {index}", self.name);
            kernarg[slot.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let plan = Launch {
            kernel: &self.kernel,
            grid: self.grid_workgroups,
            block: self.block,
            dynamic_lds: self.dynamic_lds_bytes,
            kernarg: &kernarg,
            options,
        };
        let result = launch(&memory, &module, &plan);
        let mut buffers = HashMap::new();
        for (&index, &address) in &addresses {
            let bytes = self.args[index].bytes.unwrap();
            if bytes < 1 << 30 {
                let mut contents = vec![0; bytes as usize];
                memory.read(address, &mut contents).unwrap();
                buffers.insert(index, contents);
            }
        }
        Outcome { result, buffers }
    }

    fn buffer(&self, memory: &mut Memory, arg: &Arg, extra: &HashMap<&str, u64>) -> u64 {
        let bytes = arg.bytes.unwrap();
        let address = memory.alloc(bytes).unwrap();
        match &arg.file {
            Some(file) => memory.write(address, &self.read(file)).unwrap(),
            None => match arg.fill.unwrap() {
                // Fresh memory is zero; a fill would touch every page.
                0 => memory.mark_written(address, bytes).unwrap(),
                fill => {
                    memory.fill(address, bytes, fill).unwrap();
                    if arg.role.as_deref() == Some("out") {
                        // What the bytes hold is only there to be missed.
                        memory.mark_unwritten(address).unwrap();
                    }
                }
            },
        }
        for pointer in &arg.pointers {
            let value = extra[pointer.extra.as_str()] + pointer.addend;
            memory.write(address + pointer.offset, &value.to_le_bytes()).unwrap();
        }
        address
    }

    /// What is wrong with the outcome of a good case.
    pub fn check(&self, outcome: &Outcome) -> Result<(), String> {
        outcome.result.as_ref().map_err(|e| e.to_string())?;
        for (index, arg) in self.args.iter().enumerate() {
            if arg.role.as_deref() == Some("in") && arg.pointers.is_empty() {
                let before = match &arg.file {
                    Some(file) => self.read(file),
                    None => vec![arg.fill.unwrap(); arg.bytes.unwrap() as usize],
                };
                if outcome.buffers[&index] != before {
                    return Err(format!("argument {index} is an input and was changed"));
                }
            }
        }
        for expect in &self.expect {
            let got = elements(&outcome.buffers[&expect.arg], &expect.dtype);
            let want = elements(&self.read(&expect.file), &expect.dtype);
            let step = expect.elem_step.unwrap_or(1);
            let pick = |all: Vec<Element>| all.into_iter().skip(expect.elem_start).step_by(step).collect::<Vec<_>>();
            compare(expect, pick(got), pick(want))?;
        }
        Ok(())
    }
}

fn scalar(kind: &str, value: &serde_json::Number) -> Vec<u8> {
    match kind {
        "u32" => (value.as_u64().unwrap() as u32).to_le_bytes().to_vec(),
        "i32" => (value.as_i64().unwrap() as i32).to_le_bytes().to_vec(),
        "u64" => value.as_u64().unwrap().to_le_bytes().to_vec(),
        "i64" => value.as_i64().unwrap().to_le_bytes().to_vec(),
        "f32" => (value.as_f64().unwrap() as f32).to_le_bytes().to_vec(),
        other => panic!("argument kind {other}"),
    }
}

/// Bits, and the value where the type is a float.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Element {
    bits: u64,
    value: Option<f64>,
}

fn elements(bytes: &[u8], dtype: &str) -> Vec<Element> {
    let width = match dtype {
        "u8" | "i8" => 1,
        "u16" | "i16" | "f16" | "bf16" => 2,
        "u32" | "i32" | "f32" => 4,
        "u64" | "i64" | "f64" => 8,
        other => panic!("dtype {other}"),
    };
    assert_eq!(bytes.len() % width, 0);
    let element = |chunk: &[u8]| {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(chunk);
        let bits = u64::from_le_bytes(wide);
        let value = match dtype {
            "f16" => Some(f16::from_bits(bits as u16).to_f64()),
            "bf16" => Some(bf16::from_bits(bits as u16).to_f64()),
            "f32" => Some(f32::from_bits(bits as u32) as f64),
            "f64" => Some(f64::from_bits(bits)),
            _ => None,
        };
        Element { bits, value }
    };
    bytes.chunks_exact(width).map(element).collect()
}

fn compare(expect: &Expect, mut got: Vec<Element>, mut want: Vec<Element>) -> Result<(), String> {
    let sorted = matches!(&expect.compare, Compare::Named(name) if name == "exact_sorted");
    if sorted {
        got.sort_by_key(|e| e.bits);
        want.sort_by_key(|e| e.bits);
    }
    if got.len() != want.len() {
        return Err(format!("argument {}: {} elements, {} wanted", expect.arg, got.len(), want.len()));
    }
    let count = want.len();
    let wrong = got.iter().zip(&want).enumerate().filter(|(_, (got, want))| !matches(&expect.compare, got, want));
    let wrong: Vec<_> = wrong.collect();
    match wrong.first() {
        None => Ok(()),
        Some((at, (got, want))) => Err(format!(
            "argument {}: {} of {} elements differ, first {at}: {got:x?}, {want:x?} wanted",
            expect.arg,
            wrong.len(),
            count,
        )),
    }
}

fn matches(compare: &Compare, got: &Element, want: &Element) -> bool {
    match (compare, got.value, want.value) {
        (_, Some(got), Some(want)) if got.is_nan() && want.is_nan() => true,
        (Compare::Named(_), _, _) => got.bits == want.bits,
        (Compare::Close { rel, abs }, Some(got), Some(want)) => {
            got == want || (got - want).abs() <= abs + rel * want.abs() && got.is_finite() && want.is_finite()
        }
        (Compare::Close { .. }, _, _) => panic!("a tolerance for integers"),
    }
}
