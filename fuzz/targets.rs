//! What the fuzz targets do with their bytes: everything that a user of the emulator could do with them, under limits. A panic, memory
//! without bound or time without bound is a defect; every other answer is right. Used by `fuzz_targets/` and by `tests/fuzz`.

use emulator::isa;
use emulator::roofline::Profile;
use emulator::watch::Checks;
use emulator::watch::finding;
use emulator::watch::trace::Trace;
use emulator::{CodeObject, Launch, LaunchError, LoadedModule, Memory, Options, Schedule, launch};

#[path = "image.rs"]
pub mod image;

/// Memory of the device: more than any input can ask for in earnest.
const DEVICE_BYTES: u64 = 64 << 20;
/// Bytes of the one buffer whose address the arguments are full of.
const BUFFER_BYTES: u64 = 1 << 16;
/// Instructions of a wave.
const WAVE_LIMIT: u64 = 2048;
/// Instructions of a launch, and with them its waves: this bounds the time.
const LAUNCH_LIMIT: u64 = 1 << 13;
/// Scratch of all resident waves.
const SCRATCH_LIMIT: u64 = 2 << 20;
/// Kernels of an object that are launched.
const MOST_KERNELS: usize = 8;
/// Words of an object that are disassembled.
const MOST_WORDS: usize = 1 << 16;

/// How far an input came, so that a test can see that its inputs are not all refused at the door.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Launches that began to execute instructions.
    pub started: usize,
    /// Farthest instruction that trapped, in bytes from its kernel's entry; the largest number where a kernel ran to its end.
    pub farthest: i64,
}

/// Arbitrary bytes: parse, disassemble, load, launch every kernel, unload.
pub fn code_object(bytes: &[u8]) -> Reached {
    let Ok(object) = CodeObject::parse(bytes) else { return Reached::default() };
    let words: Vec<u32> = object
        .code_bytes()
        .chunks_exact(4)
        .take(MOST_WORDS)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    disassemble(&words);
    let schedule = bytes.last().copied().unwrap_or(0);
    run(object, schedule, 0xffc0_dead)
}

/// Arbitrary bytes as instructions. The first byte chooses the kernel's resources, the second the schedule, the next four what
/// registers hold at the start; then come the words. The kernel's first argument is the address of a buffer.
pub fn instructions(bytes: &[u8]) -> Reached {
    let [resources, schedule, f0, f1, f2, f3, program @ ..] = bytes else { return Reached::default() };
    let words: Vec<u32> =
        program.chunks_exact(4).take(4096).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    disassemble(&words);
    let shape = image::Shape {
        vgprs: [24, 96, 256, 8][usize::from(resources & 3)],
        lds_bytes: [0, 1000, 65_520, 4][usize::from(resources >> 2 & 3)],
        scratch_bytes: [0, 64, 1000, 16_384][usize::from(resources >> 4 & 3)],
        dynamic_stack: resources >> 6 & 1 != 0,
        ..image::Shape::default()
    };
    let object = CodeObject::parse(&image::code_object(&words, &shape)).expect("the image is well formed");
    run(object, *schedule, u32::from_le_bytes([*f0, *f1, *f2, *f3]))
}

/// Decodes every place and writes what it decodes to.
fn disassemble(words: &[u32]) {
    for at in 0..words.len() {
        if let Ok(inst) = isa::decode(&words[at..]) {
            assert!(!isa::text(&inst, at as u64 * 4).is_empty());
            assert!(usize::from(inst.dwords) <= words.len() - at);
        }
    }
}

fn run(object: CodeObject, schedule: u8, fill: u32) -> Reached {
    let mut reached = Reached::default();
    let mut memory = Memory::new(DEVICE_BYTES);
    // Half of all inputs run with everything that can look on.
    let watched = schedule.count_ones().is_multiple_of(2);
    if watched {
        memory.follow_writes();
    }
    let Ok(buffer) = memory.alloc(BUFFER_BYTES) else { return reached };
    let Ok(module) = LoadedModule::load(object, &mut memory) else { return reached };
    let seed = u64::from(schedule);
    let options = Options {
        schedule: match schedule % 4 {
            0 => Schedule::Forward,
            1 => Schedule::Backward,
            2 => Schedule::Random { seed },
            _ => Schedule::Parallel { threads: Some(2) },
        },
        fill,
        wave_limit: WAVE_LIMIT,
        idle_limit: 64,
        launch_limit: LAUNCH_LIMIT,
        scratch_limit: SCRATCH_LIMIT,
        stack_bytes: 512,
        checks: if watched { Checks::ALL } else { Checks::default() },
        counters: watched,
        trace: watched.then(|| Trace::new([1, 0, 0], 0, 64, |line| assert!(!line.contains('\n'), "{line}"))),
        ..Options::default()
    };
    // Rarely a grid that no time would suffice for.
    let grid = match schedule >> 2 {
        0..32 => [2, 1, 1],
        32..62 => [2, 3, 2],
        62 => [200_000, 1, 1],
        _ => [60_000_000, 1, 1],
    };
    for kernel in module.object().kernels().iter().take(MOST_KERNELS) {
        let bytes = kernel.explicit_bytes() as usize;
        let kernarg: Vec<u8> = buffer.to_le_bytes().into_iter().cycle().take(bytes).collect();
        let plan = Launch {
            kernel: &kernel.name,
            grid,
            block: [kernel.max_flat_workgroup_size.min(70), 1, 1],
            dynamic_lds: 16,
            kernarg: &kernarg,
            options: options.clone(),
        };
        // A refusal or a trap is as good as an end; what it says must be sayable.
        let result = launch(&memory, &module, &plan);
        match &result {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(stats) => {
                // What was found can be told, what was counted can be estimated and told.
                assert_eq!(finding::text(&stats.findings).is_empty(), stats.findings.is_empty());
                let profile = Profile::of(kernel, &plan, stats);
                assert_eq!(profile.is_some(), watched);
                assert!(profile.is_none_or(|profile| !profile.to_string().is_empty()));
            }
        }
        let place = match result {
            Ok(_) => i64::MAX,
            Err(LaunchError::Trap(trap)) => trap.offset,
            Err(_) => continue,
        };
        reached.started += 1;
        reached.farthest = reached.farthest.max(place);
    }
    module.unload(&mut memory).expect("what was loaded unloads");
    reached
}
