//! A machine with the hand-countable kernels loaded, or our own. It knows nothing of what they do.

use device_ops::Geometry;
use emulator::roofline::Profile;
use emulator::watch::counters::Counters;
use emulator::{CodeObject, Launch, LaunchError, LoadedModule, Memory, Options, Schedule, Stats, launch};
use zynfer_tests::ours;

/// What is asked of a launch that is counted.
fn counted() -> Options {
    Options { counters: true, ..Options::default() }
}

pub struct Machine {
    pub memory: Memory,
    pub module: LoadedModule,
}

impl Machine {
    pub fn new() -> Machine {
        let path = zynfer_tests::fixtures::root().join("emulator/examples/kernels.hsaco");
        Machine::with(&std::fs::read(path).expect("the examples' kernels"))
    }
    pub fn with(image: &[u8]) -> Machine {
        let mut memory = Memory::new(1 << 30);
        let object = CodeObject::parse(image).expect("a code object");
        let module = LoadedModule::load(object, &mut memory).expect("room");
        Machine { memory, module }
    }
    /// A buffer with these bytes.
    pub fn buffer(&mut self, bytes: &[u8]) -> u64 {
        let address = self.memory.alloc(bytes.len() as u64).expect("room");
        self.memory.write(address, bytes).expect("inside");
        address
    }
    pub fn read(&self, address: u64, bytes: u64) -> Vec<u8> {
        let mut out = vec![0; bytes as usize];
        self.memory.read(address, &mut out).expect("inside");
        out
    }
    /// Runs `groups` workgroups along x and counts.
    pub fn count(&self, kernel: &str, groups: u32, items: u32, lds: u32, kernarg: &[u8], schedule: Schedule) -> Stats {
        let options = Options { schedule, counters: true, ..Options::default() };
        launched(self, kernel, groups, items, lds, kernarg, options).expect("runs")
    }
    pub fn counters(&self, kernel: &str, groups: u32, items: u32, lds: u32, kernarg: &[u8]) -> Counters {
        *self.count(kernel, groups, items, lds, kernarg, Schedule::Forward).counters.expect("counted")
    }
    /// Runs a kernel of ours as the host launches it, and counts.
    pub fn count_ours(&self, kernel: &str, geometry: Geometry, args: &impl bytemuck::NoUninit) -> Stats {
        launch(&self.memory, &self.module, &ours::plan(kernel, geometry, args, counted())).expect("runs")
    }
    /// The same, with what is estimated of it.
    pub fn profile_ours(&self, kernel: &str, geometry: Geometry, args: &impl bytemuck::NoUninit) -> Profile {
        let plan = ours::plan(kernel, geometry, args, counted());
        let stats = launch(&self.memory, &self.module, &plan).expect("runs");
        Profile::of(self.module.kernel(kernel).expect("in the code object"), &plan, &stats).expect("counted")
    }
}

pub fn launched(
    machine: &Machine,
    kernel: &str,
    groups: u32,
    items: u32,
    dynamic_lds: u32,
    kernarg: &[u8],
    options: Options,
) -> Result<Stats, LaunchError> {
    let plan = Launch { kernel, grid: [groups, 1, 1], block: [items, 1, 1], dynamic_lds, kernarg, options };
    launch(&machine.memory, &machine.module, &plan)
}
