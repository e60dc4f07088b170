//! Streams and signals: escape codes only where a terminal or the user asks for them, quiet ends when a reader goes away, 130 on
//! Ctrl-C.

use std::io::Read;
use std::process::{Command, Stdio};

use zynfer_tests::{binary, fixtures};

use crate::support::{Ended, clean, command, file, finish, folder, tiny, wait, zynfer};

/// Every command with something to say, in the order of the help.
fn every_command(folder: &tempfile::TempDir) -> Vec<Vec<String>> {
    let model = tiny();
    let out = folder.path().join("out").to_str().expect("UTF-8").to_string();
    let messages = file(folder, "messages.json", b"[{\"role\": \"user\", \"content\": \"Hi\"}]");
    let text = fixtures::fixture("tiny-qwen3/validation.txt").to_str().expect("UTF-8").to_string();
    let kernels = fixtures::fixture("kernels/bad.hsaco").to_str().expect("UTF-8").to_string();
    let lines = [
        format!("compile {model} -o {out}.zynfer"),
        format!("inspect {model}"),
        format!("run {model} --prompt Hi -n 3 --stats --print-token-ids"),
        format!("run {model} --chat --prompt Hi -n 3"),
        format!("chat {model} -n 3 --stats"),
        format!("tokenize {model} --text Hi"),
        format!("template {model} --messages {messages}"),
        format!("logits {model} --ids 1 --out {out}.f32"),
        format!("perplexity {model} --text {text} --window 32 --windows 1"),
        format!("compare {model} {model} --text {text} --window 32 --windows 1"),
        format!("quant-report {model} --text {text} --window 32 --windows 1 --schemes int8 -p 2 -n 2 -r 1"),
        "models".to_string(),
        "devices".to_string(),
        "doctor".to_string(),
        "isa".to_string(),
        "isa embed_bf16".to_string(),
        format!("emulate {kernels} --kernel none --grid 1 --block 32"),
        "inspect no-such-file".to_string(),
        "run --frobnicate".to_string(),
        "--help".to_string(),
    ];
    lines.iter().map(|line| line.split(' ').map(str::to_string).collect()).collect()
}

fn holds_escape(ended: &Ended) -> bool {
    ended.stdout.contains(&0x1b) || ended.stderr.contains('\u{1b}')
}

#[test]
fn no_command_writes_escape_codes_or_carriage_returns_into_a_pipe() {
    let folder = folder();
    for arguments in every_command(&folder) {
        for environment in
            [&[][..], &[("NO_COLOR", "1")], &[("NO_COLOR", "")], &[("TERM", "dumb")], &[("TERM", "xterm-256color")]]
        {
            let mut command = command(&arguments);
            let ended = finish(command.envs(environment.iter().copied()), b"");
            assert!(
                ended.code == Some(0)
                    || ["none", "no-such-file", "--frobnicate"].iter().any(|word| arguments.iter().any(|a| a == word)),
                "{arguments:?}: {}",
                ended.stderr
            );
            assert!(!holds_escape(&ended), "{arguments:?} {environment:?}");
            assert!(!ended.stdout.contains(&b'\r') && !ended.stderr.contains('\r'), "{arguments:?} {environment:?}");
        }
    }
}

#[test]
fn colour_in_a_pipe_is_only_for_who_asks() {
    let colourful = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = command(arguments);
        holds_escape(&finish(command.envs(environment.iter().copied()), b""))
    };
    let model = tiny();
    assert!(colourful(&["inspect", &model, "--color", "always"], &[]));
    assert!(colourful(&["inspect", &model], &[("CLICOLOR_FORCE", "1")]));
    assert!(colourful(&["inspect", &model, "--color", "always"], &[("NO_COLOR", "1")]), "an explicit flag wins");
    assert!(!colourful(&["inspect", &model, "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(colourful(&["inspect", "no-such-file", "--color=always"], &[]));
    assert!(colourful(&["run", "--frobnicate", "--color", "always"], &[]));
    for arguments in
        [vec!["doctor", "--json"], vec!["isa", "--json"], vec!["devices", "--json"], vec!["inspect", &model, "--json"]]
    {
        let mut all = arguments.clone();
        all.extend(["--color", "always"]);
        let ended = zynfer(all);
        assert!(!ended.stdout.contains(&0x1b), "{arguments:?}: JSON is never coloured");
    }
}

/// Runs a command line with a pseudo-terminal for all three streams.
fn in_terminal(line: &str, environment: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    clean(&mut script);
    script.env("TERM", "xterm-256color").envs(environment.iter().copied());
    let ended = finish(&mut script, b"");
    assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    String::from_utf8(ended.stdout).expect("UTF-8")
}

#[test]
fn on_a_terminal_colour_obeys_the_environment_and_the_flag() {
    let line = format!("{} inspect {}", binary::zynfer().display(), tiny());
    assert!(in_terminal(&line, &[]).contains("\u{1b}[1m"));
    assert!(in_terminal(&line, &[("NO_COLOR", "")]).contains("\u{1b}[1m"), "empty NO_COLOR is none");
    assert!(!in_terminal(&line, &[("NO_COLOR", "1")]).contains('\u{1b}'));
    for ci in [&[("TERM", "dumb")][..], &[("TERM", "dumb"), ("CI", "true")]] {
        assert!(!in_terminal(&line, ci).contains('\u{1b}'), "{ci:?}");
    }
    assert!(in_terminal(&line, &[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")]).contains('\u{1b}'));
    assert!(!in_terminal(&format!("{line} --color never"), &[]).contains('\u{1b}'));
    // Each stream is decided for itself: stdout in a file, stderr on the terminal.
    let folder = folder();
    let out = folder.path().join("out.txt");
    in_terminal(&format!("{line} > {}", out.display()), &[]);
    assert!(!std::fs::read(&out).expect("written").contains(&0x1b));
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    for arguments in [
        vec!["run", "MODEL", "--prompt", "Once upon a time", "-n", "400", "--ignore-eos", "-q"],
        vec!["isa", "--json", "-q"],
        vec!["tokenize", "MODEL", "--file", "VALIDATION", "-q"],
    ] {
        let validation = fixtures::fixture("tiny-qwen3/validation.txt").to_str().expect("UTF-8").to_string();
        let arguments = arguments.iter().map(|&word| match word {
            "MODEL" => tiny(),
            "VALIDATION" => validation.clone(),
            other => other.to_string(),
        });
        let mut child = command(arguments.collect::<Vec<_>>()).spawn().expect("starts");
        let mut stdout = child.stdout.take().expect("piped");
        let mut first = [0];
        stdout.read_exact(&mut first).expect("the first byte comes");
        drop(stdout);
        let code = wait(&mut child);
        let mut stderr = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn ctrl_c_ends_a_generation_with_130_and_keeps_what_was_written() {
    let arguments = ["run", &tiny(), "--prompt", "Once upon a time there was", "-n", "2000", "--ignore-eos"];
    let mut child = command(arguments).spawn().expect("starts");
    let mut stdout = child.stdout.take().expect("piped");
    let mut text = vec![0; 24];
    stdout.read_exact(&mut text).expect("the text begins");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).expect("pipe");
        rest
    });
    assert_eq!(wait(&mut child), Some(130));
    text.extend(rest.join().expect("reader"));
    let text = String::from_utf8(text).expect("whole characters");
    // What was read before the signal is 24 bytes; how much more came is the scheduler's business.
    assert!(text.starts_with(" a great deal of time in") && text.ends_with('\n'), "{text:?}");
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
    assert!(stderr.contains("interrupted") && !stderr.contains("error"), "{stderr}");
}
