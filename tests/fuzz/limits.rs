//! What bounds memory and time of a launch, whatever the code object asks for: `Options::launch_limit` and `Options::scratch_limit`.

use crate::image::{self, Shape};
use emulator::{CodeObject, Fault, Launch, LaunchError, LoadedModule, Memory, Options, Schedule, Stats, launch};

const END: u32 = 0xbfb0_0000;
const SLEEP: u32 = 0xbf83_0001;
/// s_branch to the instruction before it.
const BACK: u32 = 0xbfa0_fffe;

fn run(words: &[u32], shape: &Shape, grid: u32, items: u32, options: Options) -> Result<Stats, LaunchError> {
    let object = CodeObject::parse(&image::code_object(words, shape)).expect("well formed");
    let mut memory = Memory::new(1 << 20);
    let module = LoadedModule::load(object, &mut memory).expect("room");
    let plan =
        Launch { kernel: "k", grid: [grid, 1, 1], block: [items, 1, 1], dynamic_lds: 0, kernarg: &[0; 64], options };
    launch(&memory, &module, &plan)
}

fn schedules() -> [Schedule; 4] {
    [Schedule::Parallel { threads: Some(2) }, Schedule::Forward, Schedule::Backward, Schedule::Random { seed: 3 }]
}

#[test]
fn a_launch_of_two_billion_workgroups_ends_at_its_limit() {
    for schedule in schedules() {
        let options = Options { schedule, launch_limit: 10_000, ..Options::default() };
        match run(&[END], &Shape::default(), i32::MAX as u32, 1, options) {
            Err(LaunchError::Trap(trap)) => {
                assert_eq!(trap.fault, Fault::Hang("the launch executed 10000 instructions".into()));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_launch_may_use_all_of_its_limit() {
    for schedule in schedules() {
        for (launch_limit, holds) in [(3 * 100, true), (3 * 100 - 1, false)] {
            let options = Options { schedule, launch_limit, ..Options::default() };
            // Threads meet at the limit in ever other ways.
            for _ in 0..if matches!(schedule, Schedule::Parallel { .. }) { 4_000 } else { 1 } {
                let result = run(&[0xbf80_0000, 0xbf80_0000, END], &Shape::default(), 100, 32, options.clone());
                assert_eq!(result.is_ok(), holds, "{schedule:?} {launch_limit}: {result:?}");
            }
        }
    }
}

#[test]
fn scratch_beyond_the_limit_is_refused() {
    let fixed = Shape { scratch_bytes: 1 << 20, ..Shape::default() };
    let dynamic = Shape { dynamic_stack: true, ..Shape::default() };
    let check = |shape: &Shape, options: Options, bytes: u64| {
        let refusal = LaunchError::Scratch { bytes, limit: options.scratch_limit };
        assert_eq!(run(&[END], shape, 1, 64, options), Err(refusal));
    };
    let limit = |scratch_limit: u64| Options { scratch_limit, ..Options::default() };
    check(&fixed, limit((64 << 20) - 1), 64 << 20);
    run(&[END], &fixed, 3, 64, limit(64 << 20)).expect("exactly as much as there is");
    // A stack of 32 bits' worth per work-item: the products do not fit 32 bits.
    check(&dynamic, Options { stack_bytes: u32::MAX, ..Options::default() }, (1 << 32) * 64);
}

/// Workgroups that only sleep are joined by others, each with 64 MiB of scratch here; room is for two at a time, and all of them hang.
/// Two thousand side by side would need 128 GiB.
#[test]
fn no_more_workgroups_are_resident_than_scratch_allows() {
    let shape = Shape { scratch_bytes: 1 << 20, ..Shape::default() };
    for schedule in [Schedule::Forward, Schedule::Random { seed: 1 }] {
        let options = Options { schedule, idle_limit: 10, scratch_limit: 128 << 20, ..Options::default() };
        match run(&[SLEEP, BACK, END], &shape, 2000, 64, options) {
            Err(LaunchError::Trap(trap)) => {
                let Fault::Hang(text) = &trap.fault else { panic!("{trap}") };
                assert_eq!(text.matches("workgroup ").count(), 4, "two workgroups of two waves: {text}");
            }
            other => panic!("{other:?}"),
        }
    }
}
