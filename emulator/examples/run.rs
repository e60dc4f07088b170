//! Runs `scale` of kernels.s: memory in and out, counters, an estimate, a trace, and the same kernel step by step.
//!
//! ```text
//! cargo run -p emulator --example run
//! ```

use emulator::launch::WaveState;
use emulator::roofline::Profile;
use emulator::watch::trace::Trace;
use emulator::{CodeObject, Launch, LoadedModule, Memory, Options, Stepper, launch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels.hsaco"))?;
    let mut memory = Memory::new(1 << 30);
    let module = LoadedModule::load(CodeObject::parse(&bytes)?, &mut memory)?;

    // Two buffers of 1000 floats, and the arguments at the offsets that the metadata gives: x, y, a, n.
    let count = 1000;
    let (x, y) = (memory.alloc(4 * count)?, memory.alloc(4 * count)?);
    let values: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
    memory.write(x, &values)?;
    let mut kernarg = [x.to_le_bytes(), y.to_le_bytes()].concat();
    kernarg.extend(0.5f32.to_le_bytes());
    kernarg.extend((count as u32).to_le_bytes());

    // Wave 1 of workgroup 3 holds elements 800 to 831.
    println!("-- one wave, instruction by instruction");
    let trace = Trace::new([3, 0, 0], 1, 100, |line| println!("{line}"));
    let plan = Launch {
        kernel: "scale",
        grid: [4, 1, 1],
        block: [256, 1, 1],
        dynamic_lds: 0,
        kernarg: &kernarg,
        options: Options { counters: true, trace: Some(trace), ..Options::default() },
    };
    let stats = launch(&memory, &module, &plan)?;

    println!("\n-- counters");
    let kernel = module.kernel("scale").ok_or("there is no scale")?;
    println!("{}", Profile::of(kernel, &plan, &stats).ok_or("nothing was counted")?);

    println!("\n-- memory");
    let mut results = vec![0; 4 * count as usize];
    memory.read(y, &mut results)?;
    let results: Vec<f32> = results.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    println!("y[0..4] = {:?}, y[999] = {}", &results[..4], results[999]);

    println!("\n-- one workgroup by hand: v0 of wave 2 until it ends");
    let mut stepper = Stepper::new(&memory, &module, &plan, [1, 0, 0])?;
    while stepper.state(2) != WaveState::Ended {
        if let Some(next) = stepper.next(2) {
            println!("+{:#04x}  v0 lane 5 = {:4}  {}", next.offset, stepper.wave(2).vgpr[0][5], next.text);
        }
        stepper.step(2)?;
    }
    Ok(())
}
