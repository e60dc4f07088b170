//! The rules of launching and of barriers, by small programs written into a fixture's kernel.

use crate::case::fixtures;
use emulator::launch::Class;
use emulator::{CodeObject, Fault, Launch, LaunchError, LoadedModule, Memory, Options, Schedule, Stats, Trap, launch};

const NOP: u32 = 0xbf80_0000;
const END: u32 = 0xbfb0_0000;
const SLEEP: u32 = 0xbf83_0001;
const SIGNAL: u32 = 0xbe80_4ec1;
const WAIT: u32 = 0xbf94_ffff;

fn branch(distance: i16) -> u32 {
    0xbfa0_0000 | distance as u16 as u32
}

/// The fixture `bad.hsaco` with `program` at the entry of its largest kernel; name of that kernel.
fn object(program: &[u32]) -> (CodeObject, String) {
    let mut bytes = std::fs::read(fixtures().join("bad.hsaco")).expect("a fixture");
    let object = CodeObject::parse(&bytes).expect("a code object");
    let kernel = object.kernels().iter().max_by_key(|k| k.code_bytes).expect("a kernel");
    assert!(kernel.code_bytes as usize > program.len() * 4);
    let code = object.code_bytes();
    let start = bytes.windows(code.len()).position(|w| w == code).expect("the code is in the file");
    let at = start + (kernel.entry - object.code_range().start) as usize;
    for (i, word) in program.iter().enumerate() {
        bytes[at + i * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let name = kernel.name.clone();
    (CodeObject::parse(&bytes).expect("still one"), name)
}

fn run_with(program: &[u32], grid: [u32; 3], block: [u32; 3], options: Options) -> Result<Stats, LaunchError> {
    let (object, kernel) = object(program);
    let mut memory = Memory::new(1 << 20);
    let module = LoadedModule::load(object, &mut memory).expect("room");
    let kernarg = vec![0; module.kernel(&kernel).expect("there").explicit_bytes() as usize];
    launch(&memory, &module, &Launch { kernel: &kernel, grid, block, dynamic_lds: 0, kernarg: &kernarg, options })
}

fn run(program: &[u32], threads: u32) -> Result<Stats, LaunchError> {
    run_with(program, [1; 3], [threads, 1, 1], Options::default())
}

fn trap(result: Result<Stats, LaunchError>) -> Trap {
    match result {
        Err(LaunchError::Trap(trap)) => *trap,
        other => panic!("no trap but {other:?}"),
    }
}

fn barrier_fault(program: &[u32], message: &str) {
    for schedule in [Schedule::Forward, Schedule::Backward, Schedule::Random { seed: 5 }] {
        let options = Options { schedule, ..Options::default() };
        let trap = trap(run_with(program, [1; 3], [96, 1, 1], options));
        assert!(matches!(&trap.fault, Fault::Barrier(text) if text.contains(message)), "{trap}");
    }
}

#[test]
fn counts_are_exact() {
    let stats = run_with(&[NOP, SIGNAL, NOP, WAIT, END], [3, 2, 1], [33, 2, 1], Options::default()).unwrap();
    assert_eq!((stats.workgroups, stats.waves), (6, 18));
    assert_eq!(stats.count(Class::Barrier), 36);
    assert_eq!(stats.total(), 18 * 5);
}

#[test]
fn split_barriers_complete_in_every_size_of_workgroup() {
    // Between signal and wait a wave may do other work; two barriers in a row must not run into each other.
    let program = [SIGNAL, NOP, NOP, WAIT, SIGNAL, WAIT, END];
    for items in [1, 32, 33, 64, 1000, 1024] {
        for schedule in [Schedule::Forward, Schedule::Backward, Schedule::Random { seed: 9 }] {
            let options = Options { schedule, ..Options::default() };
            run_with(&program, [4, 1, 1], [items, 1, 1], options).unwrap();
        }
    }
}

#[test]
fn ended_waves_do_not_hold_a_barrier() {
    // s_bfe_u32 s8, ttmp8, 25 | 5 << 16; s_cmp_eq_u32 s8, 0; s_cbranch_scc1 to the end: wave 0 leaves before the barrier.
    let program = [0x9308_ff74, 0x0005_0019, 0xbf06_8008, 0xbfa2_0002, SIGNAL, WAIT, END];
    for schedule in [Schedule::Forward, Schedule::Backward] {
        run_with(&program, [1; 3], [128, 1, 1], Options { schedule, ..Options::default() }).unwrap();
    }
}

#[test]
fn misused_barriers_trap() {
    barrier_fault(&[SIGNAL, END], "ends after it signalled");
    barrier_fault(&[WAIT, END], "without having signalled");
    barrier_fault(&[SIGNAL, SIGNAL, WAIT, END], "second time");
    // Wave 0 meets the others at another instruction.
    barrier_fault(
        &[0x9308_ff74, 0x0005_0019, 0xbf06_8008, 0xbfa2_0003, SIGNAL, WAIT, END, SIGNAL, WAIT, END],
        "divergence",
    );
}

#[test]
fn a_one_wave_workgroup_has_no_barrier() {
    run(&[WAIT, SIGNAL, SIGNAL, END], 32).unwrap();
}

#[test]
fn leaving_the_code_traps() {
    let trap = trap(run(&[NOP, branch(0x7fff)], 32));
    assert!(matches!(trap.fault, Fault::Fetch { .. }), "{trap}");
    assert_eq!((trap.offset, trap.text.as_str()), (4, "s_branch 32767"));
}

#[test]
fn words_that_are_no_instruction_trap_only_when_executed() {
    run(&[END, 0xffff_ffff], 32).unwrap();
    let trap = trap(run(&[NOP, 0xffff_ffff], 32));
    assert_eq!((trap.fault, trap.word, trap.offset), (Fault::Unknown, 0xffff_ffff, 4));
}

/// A kernel has the registers of its descriptor: the last one works, the next one traps, as source, destination or second of a pair.
#[test]
fn registers_beyond_the_declared_ones_trap() {
    let (object, name) = object(&[END]);
    let declared = object.kernel(&name).expect("there").descriptor.vgprs();
    assert!(declared < 256);
    let mov = |to: u32, from: u32| 0x7e00_0300 | to << 17 | from; // v_mov_b32_e32
    let f64 = |to: u32| 0x7e00_0880 | to << 17; // v_cvt_f64_i32_e32 v[to:to+1], 0
    run(&[mov(declared - 1, declared - 1), f64(declared - 2), END], 32).expect("all declared");
    for (word, register) in
        [(mov(declared, 0), declared), (mov(0, declared), declared), (f64(declared - 1), declared), (mov(255, 0), 255)]
    {
        let trap = trap(run(&[NOP, word, END], 32));
        let want = Fault::Register { register: register as u16, declared: declared as u16 };
        assert_eq!((trap.offset, &trap.fault), (4, &want), "{trap}");
    }
}

#[test]
fn endless_loops_end() {
    let options = Options { wave_limit: 10_000, ..Options::default() };
    let trap = trap(run_with(&[branch(-1)], [2, 1, 1], [64, 1, 1], options));
    let Fault::Hang(text) = &trap.fault else { panic!("{trap}") };
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("one wave executed 10000 instructions"));
    assert!(lines.next().is_some_and(|line| line.contains("wave 0 runs at +0x0 (s_branch 65535)")), "{text}");
}

#[test]
fn sleeping_for_ever_is_a_hang_with_the_waves_named() {
    let options = Options { idle_limit: 1000, ..Options::default() };
    let trap = trap(run_with(&[SLEEP, branch(-2)], [3, 1, 1], [64, 1, 1], options));
    let Fault::Hang(text) = &trap.fault else { panic!("{trap}") };
    assert!(text.contains("wave 1 runs at +0x4 (s_branch 65534), exec 0xffffffff"), "{text}");
}

#[test]
fn launches_out_of_range_are_refused() {
    let check = |grid, block, dynamic_lds, extra: usize, expected: &str| {
        let (object, kernel) = object(&[END]);
        let mut memory = Memory::new(1 << 20);
        let module = LoadedModule::load(object, &mut memory).expect("room");
        let needed = module.kernel(&kernel).expect("there").kernarg_segment_size as usize;
        let kernarg = vec![0; needed + extra];
        let plan = Launch { kernel: &kernel, grid, block, dynamic_lds, kernarg: &kernarg, options: Options::default() };
        let error = launch(&memory, &module, &plan).expect_err("out of range").to_string();
        assert!(error.contains(expected), "{error} does not say {expected}");
    };
    let one = [1; 3];
    check([0, 1, 1], one, 0, 0, "grid x is 0, 1 to 2147483647 workgroups are possible");
    check([1 << 31, 1, 1], one, 0, 0, "grid x is 2147483648");
    check([1, 65_537, 1], one, 0, 0, "grid y is 65537, 1 to 65536");
    check([1, 1, 65_537], one, 0, 0, "grid z is 65537, 1 to 65536");
    check(one, [1, 0, 1], 0, 0, "block y is 0");
    check(one, [1025, 1, 1], 0, 0, "block has 1025 work-items, at most 1024");
    check(one, [u32::MAX; 3], 0, 0, "work-items, at most 1024");
    check([i32::MAX as u32, 1, 1], [3, 1, 1], 0, 0, "grid x has 6442450941 work-items, at most 4294967295");
    check(one, one, 65_537, 0, "65537 dynamic bytes, at most 65536 exist");
    check(one, one, 0, 1, "bytes of arguments are given");
    let (object, _) = object(&[END]);
    let mut memory = Memory::new(1 << 20);
    let module = LoadedModule::load(object, &mut memory).expect("room");
    let plan =
        Launch { kernel: "nothing", grid: one, block: one, dynamic_lds: 0, kernarg: &[], options: Options::default() };
    let error = launch(&memory, &module, &plan).expect_err("unknown").to_string();
    assert!(error.starts_with("kernel nothing is not in the code object, which has "), "{error}");
}

/// Eight phases, with all workgroups of the grid together between them: the first wave of each adds one to a counter in memory and sleeps
/// until 64 times the phase's number are there, the others wait at a barrier for it.
#[rustfmt::skip]
const PHASES: &[u32] = &[
    0xf400_2080, 0xf800_0000, // s_load_b64 s[2:3], s[0:1], 0x0
    0x7e00_0280, // v_mov_b32_e32 v0, 0
    0x7e02_0281, // v_mov_b32_e32 v1, 1
    0x9306_ff74, 0x0005_0019, // s_bfe_u32 s6, ttmp8, 0x50019
    0xbe84_0080, // s_mov_b32 s4, 0
    0xb005_0008, // s_movk_i32 s5, 0x8
    0xbfc7_0000, // s_wait_kmcnt 0x0
    0x8104_c004, // s_add_co_i32 s4, s4, 64
    0xbe80_4ec1, // s_barrier_signal -1
    0xbf94_ffff, // s_barrier_wait 0xffff
    0xbf07_8006, // s_cmp_lg_u32 s6, 0
    0xbfa2_000d, // s_cbranch_scc1 together
    0xbefe_0081, // s_mov_b32 exec_lo, 1
    0xee0d_4002, 0x0088_0000, 0x0000_0000, // global_atomic_add_u32 v0, v1, s[2:3] scope:SCOPE_DEV
    0xbf83_0001, // s_sleep 1
    0xee05_0002, 0x0008_0002, 0x0000_0000, // global_load_b32 v2, v0, s[2:3] scope:SCOPE_DEV
    0xbfc0_0000, // s_wait_loadcnt 0x0
    0x7e0e_0502, // v_readfirstlane_b32 s7, v2
    0xbf0a_0407, // s_cmp_lt_u32 s7, s4
    0xbfa2_fff8, // s_cbranch_scc1 spin
    0xbefe_00c1, // s_mov_b32 exec_lo, -1
    0xbe80_4ec1, // s_barrier_signal -1
    0xbf94_ffff, // s_barrier_wait 0xffff
    0x8105_c105, // s_add_co_i32 s5, s5, -1
    0xbf07_8005, // s_cmp_lg_u32 s5, 0
    0xbfa2_ffe9, // s_cbranch_scc1 phase
    0xbfb0_0000, // s_endpgm
];

/// Where [`PHASES`] sleeps.
const PHASES_SLEEP: usize = 18;
/// Where waves other than the first jump, and how far it is to where the first one begins to look at the counter.
const PHASES_TOGETHER: (usize, u32) = (13, 0xbfa2_0004);

#[test]
fn a_persistent_grid_passes_its_own_barriers() {
    let with = |changes: &[(usize, u32)]| {
        let mut program = PHASES.to_vec();
        for &(place, word) in changes {
            program[place] = word;
        }
        program
    };
    // The looks that a wave takes in a turn: one before it sleeps; without sleep the second finds all as it was.
    let sleepless = (PHASES_SLEEP, NOP);
    for (program, waves, looks) in
        [(with(&[]), 1, 1), (with(&[sleepless]), 1, 2), (with(&[sleepless, PHASES_TOGETHER]), 8, 2)]
    {
        passes_its_barriers(&program, waves, looks);
    }
}

/// Runs 64 workgroups of 8 waves through eight phases. `waves` of a workgroup look at the counter, `looks` times in a turn.
fn passes_its_barriers(program: &[u32], waves: u64, looks: u64) {
    let (object, kernel) = object(program);
    let parallel = |threads| Schedule::Parallel { threads: Some(threads) };
    for schedule in
        [parallel(1), parallel(2), parallel(5), Schedule::Forward, Schedule::Backward, Schedule::Random { seed: 3 }]
    {
        let mut memory = Memory::new(1 << 20);
        let counter = memory.alloc(4).expect("small");
        let module = LoadedModule::load(object.clone(), &mut memory).expect("room");
        let mut kernarg = vec![0; module.kernel(&kernel).expect("there").explicit_bytes() as usize];
        kernarg[..8].copy_from_slice(&counter.to_le_bytes());
        let (grid, block) = ([64, 1, 1], [256, 1, 1]);
        let options = Options { schedule, ..Options::default() };
        let plan = Launch { kernel: &kernel, grid, block, dynamic_lds: 0, kernarg: &kernarg, options };
        let stats = launch(&memory, &module, &plan).unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
        let mut arrived = [0; 4];
        memory.read(counter, &mut arrived).expect("inside");
        assert_eq!((u32::from_le_bytes(arrived), stats.count(Class::Atomic)), (8 * 64, 8 * 64), "{schedule:?}");
        // Each arrival looks at the counter at least once. Where one thread takes turns, a workgroup looks about once for each other one
        // that has yet to arrive.
        let seen = stats.count(Class::Load);
        let one_by_one = matches!(schedule, Schedule::Forward | Schedule::Backward);
        let most = if one_by_one { 8 * 64 * 64 * waves * looks } else { u64::MAX };
        assert!((8 * 64 * waves..=most).contains(&seen), "{schedule:?}: {seen} looks");
    }
}
