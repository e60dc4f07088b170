//! Running the program with a clean environment and a time limit, and what every error looks like.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use zynfer_tests::{binary, fixtures};

/// Nothing here takes longer; what does hangs.
const LIMIT: Duration = Duration::from_secs(240);

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// The answer of a run that went well.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "stderr: {}", self.stderr);
        String::from_utf8(self.stdout).expect("UTF-8 on stdout")
    }

    /// The JSON answer, one line, of a run that went well.
    pub fn json(self) -> Value {
        let text = self.ok();
        assert!(text.ends_with('\n') && text.trim_end().lines().count() == 1, "{text}");
        serde_json::from_str(&text).expect("JSON on stdout")
    }

    /// The message of a run that failed with `code`: one line on stderr that holds all of `parts`, and nothing on stdout.
    pub fn failed(self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "stderr: {}", self.stderr);
        assert!(self.stdout.is_empty(), "stdout: {}", String::from_utf8_lossy(&self.stdout));
        let errors: Vec<&str> = self.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        let [error] = errors[..] else { panic!("not one error line: {}", self.stderr) };
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for part in parts {
            assert!(error.contains(part), "{part:?} is missing: {error}");
        }
        error.to_string()
    }
}

/// The program with these arguments, in an environment without anything that changes its behaviour.
pub fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(binary::zynfer());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    clean(&mut command);
    command
}

/// Removes from `command`'s environment what the program reads.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ZYNFER_") || ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "CI"].contains(&&*text) {
            command.env_remove(&name);
        }
    }
}

/// Runs to the end.
pub fn finish(command: &mut Command, input: &[u8]) -> Ended {
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().expect("the program starts");
    let writer = child.stdin.take().map(|mut stdin| {
        let input = input.to_vec();
        // A program that ends early closes its end; that is for the test to judge by its exit code.
        std::thread::spawn(move || drop(stdin.write_all(&input)))
    });
    let stdout = read_all(child.stdout.take().expect("piped"));
    let stderr = read_all(child.stderr.take().expect("piped"));
    let code = wait(&mut child);
    if let Some(writer) = writer {
        writer.join().expect("writer");
    }
    Ended {
        code,
        stdout: stdout.join().expect("reader"),
        stderr: String::from_utf8(stderr.join().expect("reader")).expect("UTF-8 on stderr"),
    }
}

fn read_all(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("pipe");
        bytes
    })
}

/// Waits for the end within the limit.
pub fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("waits") {
            return status.code();
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("kills");
            panic!("no end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs with empty stdin.
pub fn zynfer<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    finish(&mut command(arguments), b"")
}

/// Runs with `input` on stdin.
pub fn zynfer_with<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, input: &[u8]) -> Ended {
    let mut command = command(arguments);
    command.stdin(Stdio::piped());
    finish(&mut command, input)
}

/// The tiny checkpoint's folder.
pub fn tiny() -> String {
    fixtures::fixture("tiny-qwen3").to_str().expect("UTF-8 path").to_string()
}

/// A folder of this test's own, removed with it.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A file in `folder`.
pub fn file(folder: &tempfile::TempDir, name: &str, contents: &[u8]) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, contents).expect("writes");
    path.to_str().expect("UTF-8 path").to_string()
}

/// Names of the fields of an object, sorted.
pub fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Ids of a JSON array.
pub fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("an array").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}
