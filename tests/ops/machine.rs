//! Where the operation tests run: the code object in the emulator, each buffer an allocation of exactly its size, so that one byte
//! outside is a trap with the kernel's name and the instruction. It knows kernels only as names and arguments as bytes.

use std::marker::PhantomData;
use std::sync::OnceLock;

use bytemuck::{NoUninit, Pod};
use device_ops::Geometry;
use emulator::launch::{LoadedModule, Options, Program, Stats, launch};
use emulator::watch::{Checks, finding};
use emulator::{CodeObject, Memory};
use zynfer::gpu::code_object;
use zynfer_tests::oracle::Expected;
use zynfer_tests::ours;
use zynfer_tests::tolerances::Tolerance;

/// What an output holds before the launch: a NaN in every dtype, so that an element nobody wrote shows.
const UNWRITTEN: u8 = 0xff;

/// A device with its buffers; one per launch.
pub struct Machine {
    memory: Memory,
    module: LoadedModule,
    /// Buffers that the kernel must leave as they are.
    inputs: Vec<(u64, Vec<u8>)>,
}

/// A buffer the kernel writes.
pub struct Output<T> {
    pub address: u64,
    count: usize,
    kind: PhantomData<T>,
}

/// Decoded once for all launches.
fn program() -> Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| CodeObject::parse(code_object::IMAGE).expect("our own code object").into()).clone()
}

/// What launches are checked for: nothing, or what the variable says that the emulator's library reads too. `./x sanitize` sets it.
fn checks() -> Checks {
    let value = std::env::var("ZYNFER_EMULATOR_CHECK").unwrap_or_default();
    if value.is_empty() { Checks::default() } else { value.parse().unwrap_or_else(|error| panic!("{error}")) }
}

impl Machine {
    pub fn new() -> Self {
        let mut memory = Memory::new(1 << 35);
        if checks().init {
            memory.follow_writes();
        }
        let module = LoadedModule::load(program(), &mut memory).expect("32 GiB hold it");
        Self { memory, module, inputs: Vec::new() }
    }

    fn alloc(&mut self, bytes: u64) -> u64 {
        self.memory.alloc(bytes).expect("32 GiB are enough")
    }

    /// A buffer that holds `data` and must hold it after the launch.
    pub fn input<T: NoUninit>(&mut self, data: &[T]) -> u64 {
        let bytes = bytemuck::cast_slice(data).to_vec();
        let address = self.alloc(bytes.len() as u64);
        self.memory.write(address, &bytes).expect("just allocated");
        self.inputs.push((address, bytes));
        address
    }

    /// A buffer for `count` elements, none of them written.
    pub fn output<T: Pod>(&mut self, count: usize) -> Output<T> {
        let output = self.inout(&vec![UNWRITTEN; count * size_of::<T>()]).cast(count);
        if count > 0 {
            self.memory.mark_unwritten(output.address).expect("just allocated");
        }
        output
    }

    /// A buffer that holds `data` and is written by the kernel.
    pub fn inout<T: Pod>(&mut self, data: &[T]) -> Output<T> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let address = self.alloc(bytes.len() as u64);
        self.memory.write(address, bytes).expect("just allocated");
        Output { address, count: data.len(), kind: PhantomData }
    }

    /// `bytes` zero bytes, of which only what is touched takes memory; not compared after the launch.
    pub fn zeroes(&mut self, bytes: u64) -> u64 {
        self.alloc(bytes)
    }

    /// Writes part of a buffer of [`Machine::zeroes`].
    pub fn write<T: NoUninit>(&mut self, address: u64, data: &[T]) {
        self.memory.write(address, bytemuck::cast_slice(data)).expect("inside the buffer");
    }

    /// One element anywhere in a buffer.
    pub fn read_at<T: Pod>(&self, address: u64) -> T {
        let mut value = T::zeroed();
        self.memory.read(address, bytemuck::bytes_of_mut(&mut value)).expect("inside a buffer");
        value
    }

    /// Runs a kernel to its end.
    #[track_caller]
    pub fn run<A: Pod>(&mut self, kernel: &str, geometry: Geometry, args: &A) {
        let request = ours::plan(kernel, geometry, args, Options { checks: checks(), ..Options::default() });
        let result = launch(&self.memory, &self.module, &request).and_then(Stats::strict);
        result.unwrap_or_else(|error| panic!("{kernel}: {error}\n{}", finding::text(&error.findings())));
        for (address, before) in &self.inputs {
            let mut after = vec![0; before.len()];
            self.memory.read(*address, &mut after).expect("still allocated");
            assert!(*before == after, "{kernel}: changed an input");
        }
    }

    /// What the buffer holds now.
    pub fn read<T: Pod>(&self, output: &Output<T>) -> Vec<T> {
        let mut data = vec![T::zeroed(); output.count];
        self.memory.read(output.address, bytemuck::cast_slice_mut(&mut data)).expect("still allocated");
        data
    }
}

impl Output<u8> {
    fn cast<T>(self, count: usize) -> Output<T> {
        Output { address: self.address, count, kind: PhantomData }
    }
}

/// Every element of `got` against its reference; names the worst ones.
#[track_caller]
pub fn compare<T: Copy + Into<f64>>(what: &str, got: &[T], want: &[Expected], tolerance: Tolerance) {
    assert_eq!(got.len(), want.len(), "{what}: elements");
    let wrong: Vec<String> = got
        .iter()
        .zip(want)
        .enumerate()
        .filter(|(_, (got, want))| !tolerance.holds((**got).into(), want.value, want.magnitude))
        .map(|(i, (got, want))| {
            let got: f64 = (*got).into();
            format!(
                "  [{i}] is {got:e}, want {:e} (terms {:e}), off by {:e}",
                want.value,
                want.magnitude,
                got - want.value
            )
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{what}: {} of {} elements are wrong\n{}",
        wrong.len(),
        want.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
}

/// As [`compare`] for references that are no sums.
#[track_caller]
pub fn compare_plain<T: Copy + Into<f64>>(what: &str, got: &[T], want: &[f64], tolerance: Tolerance) {
    let want: Vec<Expected> = want.iter().map(|&value| Expected::plain(value)).collect();
    compare(what, got, &want, tolerance);
}
