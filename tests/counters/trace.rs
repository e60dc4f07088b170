//! What a trace prints, by lines that follow from the kernel's text; and stepping, which must agree with it.

use crate::machine::{Machine, launched};
use emulator::launch::WaveState;
use emulator::watch::trace::Trace;
use emulator::{Launch, LaunchError, Options, Schedule, Stepper};
use std::sync::{Arc, Mutex};

/// The lines of a traced launch, and how it ended.
fn traced(
    machine: &Machine,
    (kernel, groups, items, lds): (&str, u32, u32, u32),
    kernarg: &[u8],
    (workgroup, wave, limit): (u32, u32, u64),
    schedule: Schedule,
) -> (Vec<String>, Result<(), LaunchError>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let trace =
        Trace::new([workgroup, 0, 0], wave, limit, move |line| sink.lock().expect("unpoisoned").push(line.to_owned()));
    let options = Options { schedule, trace: Some(trace), ..Options::default() };
    let result = launched(machine, kernel, groups, items, lds, kernarg, options).map(drop);
    let lines = lines.lock().expect("unpoisoned").clone();
    (lines, result)
}

/// Two columns as the trace sets them.
fn row(left: &str, right: &str) -> String {
    format!("{left:<64}{right}")
}

struct Scale {
    machine: Machine,
    x: u64,
    y: u64,
    kernarg: Vec<u8>,
}

/// x[i] = i for 1000 elements, a = 0.5.
fn scale(n: u32) -> Scale {
    let mut machine = Machine::new();
    let values: Vec<u8> = (0..1000).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let (x, y) = (machine.buffer(&values), machine.buffer(&[0; 4000]));
    let kernarg = [&x.to_le_bytes()[..], &y.to_le_bytes(), &0.5f32.to_le_bytes(), &n.to_le_bytes()].concat();
    Scale { machine, x, y, kernarg }
}

/// Wave 1 of workgroup 2 holds items 544 to 575; of 560 elements it has 16.
#[test]
fn a_wave_is_told_line_by_line() {
    let Scale { machine, x, y, kernarg } = scale(560);
    let run = |schedule| traced(&machine, ("scale", 4, 256, 0), &kernarg, (2, 1, 100), schedule);
    let (lines, result) = run(Schedule::Forward);
    result.expect("runs");
    let hex = |value: u64| format!("{:#010x}", value as u32);
    let arguments: u64 = 0x6f00_0000_0000;
    let places = |base: u64| format!("{:#x} + 0x4 per lane", base + 4 * 544);
    let wanted = [
        "kernel scale, workgroup 2,0,0, wave 1: 32 lanes".to_owned(),
        // ttmp7 holds y and z of the workgroup, ttmp8 the wave from bit 25 on, ttmp9 x. The descriptor asks for no y and z.
        "starts with s0 = 0x00000000, s1 = 0x00006f00, ttmp7 = 0x00000000, ttmp8 = 0x02000000, ttmp9 = 0x00000002"
            .to_owned(),
        "            v0 = 0x20 + 0x1 per lane".to_owned(),
        row("     1  +0x0000  s_load_b128 s[4:7], s[0:1], 0x0", &format!("load of 16 bytes at {arguments:#x}")),
        row("", &format!("s4 = {}", hex(x))),
        row("", &format!("s5 = {}", hex(x >> 32))),
        row("", &format!("s6 = {}", hex(y))),
        row("", &format!("s7 = {}", hex(y >> 32))),
        row("     2  +0x0008  s_load_b64 s[8:9], s[0:1], 0x10", &format!("load of 8 bytes at {:#x}", arguments + 16)),
        row("", "s8 = 0x3f000000"),
        row("", "s9 = 0x00000230"),
        row("     3  +0x0010  v_lshl_add_u32 v0, ttmp9, 8, v0", "v0 = 0x220 + 0x1 per lane"),
        "     4  +0x0018  s_wait_kmcnt 0x0".to_owned(),
        row("     5  +0x001c  v_cmpx_gt_u32_e32 s9, v0", "exec_lo = 0x0000ffff"),
        "     6  +0x0020  s_cbranch_execz 9".to_owned(),
        row("     7  +0x0024  v_lshlrev_b32_e32 v1, 2, v0", "v1 = 0x880 + 0x4 per lane in 16 lanes (0x0000ffff)"),
        row(
            "     8  +0x0028  global_load_b32 v2, v1, s[4:5]",
            &format!("load of 4 bytes in 16 lanes (0x0000ffff) at {}", places(x)),
        ),
        // 544 to 559 as f32.
        row("", "v2 = [0] 0x44080000, [1] 0x44084000, [2] 0x44088000, [3] 0x4408c000, … in 16 lanes (0x0000ffff)"),
        "     9  +0x0034  s_wait_loadcnt 0x0".to_owned(),
        row(
            "    10  +0x0038  v_mul_f32_e32 v2, s8, v2",
            "v2 = [0] 0x43880000 (272.0), [1] 0x43884000 (272.5), [2] 0x43888000 (273.0), [3] 0x4388c000 (273.5), … in 16 lanes (0x0000ffff)",
        ),
        row(
            "    11  +0x003c  global_store_b32 v1, v2, s[6:7]",
            &format!("store of 4 bytes in 16 lanes (0x0000ffff) at {}", places(y)),
        ),
        "    12  +0x0048  s_endpgm".to_owned(),
        "the wave has ended".to_owned(),
    ];
    for (number, (got, want)) in lines.iter().zip(&wanted).enumerate() {
        // 0x44080000 and so on rise by 0x4000 a lane, which is a pattern too.
        let want = want
            .replace(
                "[0] 0x44080000, [1] 0x44084000, [2] 0x44088000, [3] 0x4408c000, …",
                "0x44080000 + 0x4000 per lane",
            )
            .replace(
                "[0] 0x43880000 (272.0), [1] 0x43884000 (272.5), [2] 0x43888000 (273.0), [3] 0x4388c000 (273.5), …",
                "0x43880000 (272.0) + 0x4000 per lane",
            );
        assert_eq!(got, &want, "line {number}");
    }
    assert_eq!(lines.len(), wanted.len());
    for schedule in [Schedule::Backward, Schedule::Random { seed: 4 }, Schedule::Parallel { threads: Some(2) }] {
        assert_eq!(run(schedule).0, lines, "{schedule:?}");
    }
}

/// A wave beyond n jumps to the end; the line says where to.
#[test]
fn a_taken_branch_says_where_it_goes() {
    let Scale { machine, kernarg, .. } = scale(100);
    let (lines, _) = traced(&machine, ("scale", 1, 256, 0), &kernarg, (0, 7, 100), Schedule::Forward);
    let branch = lines.iter().position(|l| l.contains("s_cbranch_execz")).expect("it is met");
    assert_eq!(lines[branch - 1], row("     5  +0x001c  v_cmpx_gt_u32_e32 s9, v0", "exec_lo = 0x00000000"));
    assert_eq!(lines[branch], row("     6  +0x0020  s_cbranch_execz 9", "goes on at +0x0048"));
    assert_eq!(lines[branch + 1..], ["     7  +0x0048  s_endpgm", "the wave has ended"]);
}

#[test]
fn a_trace_ends_at_its_limit() {
    let Scale { machine, kernarg, .. } = scale(1000);
    let (lines, _) = traced(&machine, ("scale", 1, 256, 0), &kernarg, (0, 0, 3), Schedule::Forward);
    let last = lines.len() - 2;
    assert_eq!(
        lines[last],
        row("     3  +0x0010  v_lshl_add_u32 v0, ttmp9, 8, v0", "v0 = 0x0 + 0x1 per lane (as before)")
    );
    assert_eq!(lines[last + 1], "… the limit of 3 instructions is reached");
    let (none, _) = traced(&machine, ("scale", 1, 256, 0), &kernarg, (1, 0, 3), Schedule::Forward);
    assert_eq!(none, [""; 0], "there is no workgroup 1");
}

/// The last line of a trace is the instruction that trapped.
#[test]
fn an_instruction_that_traps_is_shown() {
    let mut broken = scale(1000);
    broken.kernarg[..8].copy_from_slice(&64u64.to_le_bytes());
    let (lines, result) = traced(&broken.machine, ("scale", 1, 32, 0), &broken.kernarg, (0, 0, 100), Schedule::Forward);
    assert!(matches!(result, Err(LaunchError::Trap(trap)) if trap.offset == 0x28), "the load traps");
    assert_eq!(lines.last(), Some(&row("     8  +0x0028  global_load_b32 v2, v1, s[4:5]", "did not finish")));
}

#[test]
fn barriers_and_lds_are_shown() {
    let mut machine = Machine::new();
    let y = machine.buffer(&[0; 256]);
    let kernarg = [&y.to_le_bytes()[..], &8u32.to_le_bytes()].concat();
    for schedule in [Schedule::Forward, Schedule::Backward] {
        let (lines, result) = traced(&machine, ("rotate", 1, 64, 512), &kernarg, (0, 1, 100), schedule);
        result.expect("runs");
        let has =
            |text: &str| assert!(lines.iter().any(|l| l.contains(text)), "{text} is not in\n{}", lines.join("\n"));
        has("ds_store_b32 v3, v0");
        has("LDS store of 4 bytes at 0x100 + 0x8 per lane");
        has("LDS load of 4 bytes at 0x0 + 0x8 per lane");
        has("v5 = 0x0 + 0x1 per lane");
        has("all waves have signalled");
    }
}

#[test]
fn a_stepper_stops_at_every_instruction() {
    let Scale { machine, y, kernarg, .. } = scale(560);
    let plan = Launch {
        kernel: "scale",
        grid: [4, 1, 1],
        block: [256, 1, 1],
        dynamic_lds: 0,
        kernarg: &kernarg,
        options: Options::default(),
    };
    let mut stepper = Stepper::new(&machine.memory, &machine.module, &plan, [2, 0, 0]).expect("starts");
    assert_eq!(stepper.waves(), 8);
    for offset in [0, 8, 0x10, 0x18, 0x1c] {
        assert_eq!(stepper.next(1).expect("goes on").offset, offset);
        assert_eq!(stepper.step(1), Ok(WaveState::Ready));
    }
    assert_eq!(stepper.wave(1).exec(), 0xffff);
    assert_eq!(stepper.wave(1).vgpr[0][31], 544 + 31);
    assert_eq!(stepper.wave(0).executed, 0, "other waves have not moved");
    assert_eq!(stepper.next(1).map(|next| next.text), Some("s_cbranch_execz 9".into()));
    while stepper.step(1) == Ok(WaveState::Ready) {}
    assert_eq!((stepper.state(1), stepper.next(1)), (WaveState::Ended, None));
    assert_eq!(stepper.step(1), Ok(WaveState::Ended), "an ended wave stays ended");
    let written = |i: u64| f32::from_le_bytes(machine.read(y + 4 * i, 4).try_into().expect("four"));
    assert_eq!((written(544), written(559), written(512)), (272.0, 279.5, 0.0), "its elements and no others");
    stepper.run().expect("the rest");
    assert_eq!((written(512), written(543)), (256.0, 271.5));
    // Seven waves with work of 12 instructions would be 512 to 559: waves 0 and 1 have some, six jump over five of them.
    assert_eq!(stepper.stats().total(), 2 * 12 + 6 * 7);
    let outside = Stepper::new(&machine.memory, &machine.module, &plan, [4, 0, 0]).map(drop);
    assert_eq!(outside, Err(LaunchError::OutsideGrid { axis: 'x', value: 4, limit: 4 }));
}

#[test]
fn a_stepper_waits_at_barriers() {
    let mut machine = Machine::new();
    let y = machine.buffer(&[0; 256]);
    let kernarg = [&y.to_le_bytes()[..], &4u32.to_le_bytes()].concat();
    let options = Options::default();
    let plan =
        Launch { kernel: "rotate", grid: [1; 3], block: [64, 1, 1], dynamic_lds: 256, kernarg: &kernarg, options };
    let mut stepper = Stepper::new(&machine.memory, &machine.module, &plan, [0; 3]).expect("starts");
    while stepper.step(0) == Ok(WaveState::Ready) {}
    assert_eq!(stepper.state(0), WaveState::AtBarrier);
    assert_eq!(stepper.step(0), Ok(WaveState::AtBarrier));
    assert_eq!(stepper.lds()[..32], std::array::from_fn::<u32, 32, _>(|i| i as u32), "wave 0 has stored its half");
    stepper.run().expect("the rest");
    assert_eq!(machine.read(y, 4), 32u32.to_le_bytes());
}
