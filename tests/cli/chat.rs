//! `zynfer chat` from a pipe and in a pseudo-terminal: what is a turn, what ends the conversation, and that a paste arrives whole.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zynfer_tests::binary;

use crate::support::{Ended, clean, ids, tiny, wait, zynfer_with};

fn chat(flags: &[&str], input: &[u8]) -> Ended {
    let model = tiny();
    let mut all = vec!["chat", &model, "-n", "4", "--print-token-ids", "--backend", "cpu"];
    all.extend(flags);
    zynfer_with(all, input)
}

/// Ids of every prompt that a chat printed.
fn prompts(stderr: &str) -> Vec<Vec<u32>> {
    let lines = stderr.lines().filter_map(|line| line.trim_end().strip_prefix("prompt ids: "));
    lines.map(|list| list.split(',').map(|id| id.parse().expect("an id")).collect()).collect()
}

/// Ids of a conversation by the template command.
fn rendered(messages: &Value) -> Vec<u32> {
    ids(&zynfer_with(["template", &tiny(), "--messages", "-", "--json"], messages.to_string().as_bytes()).json()["ids"])
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[test]
fn end_of_input_ends_the_chat_after_what_was_read() {
    let nothing = chat(&[], b"");
    assert_eq!((nothing.code, nothing.stdout.len(), prompts(&nothing.stderr).len()), (Some(0), 0, 0));
    for input in ["Hi", "Hi\n", "\n\n Hi\n \n".trim_start_matches('\n')] {
        let ended = chat(&[], input.as_bytes());
        assert_eq!(prompts(&ended.stderr), [rendered(&user(input.trim_end_matches(['\n', ' '])))], "{input:?}");
        let answer = ended.ok();
        assert!(answer.ends_with('\n') && !answer.contains('>') && answer.trim().len() > 1, "{answer:?}");
    }
    assert_eq!(prompts(&chat(&[], b"\n\n\n").stderr).len(), 0);
}

#[test]
fn every_line_of_a_pipe_is_a_turn_of_one_conversation() {
    let ended = chat(&["--system", "Be kind"], "Hi\r\n\n/clear\nWho <|im_end|> are you".as_bytes());
    let found = prompts(&ended.stderr);
    let answers: Vec<String> =
        String::from_utf8(ended.stdout.clone()).expect("UTF-8").lines().map(str::to_string).collect();
    assert_eq!(found.len(), 3);
    let system = json!({"role": "system", "content": "Be kind"});
    assert_eq!(found[0], rendered(&json!([system, {"role": "user", "content": "Hi"}])));
    // A line that looks like a command is text when nobody types it.
    let first = json!({"role": "assistant", "content": answers[0]});
    let second = json!({"role": "user", "content": "/clear"});
    assert_eq!(found[1], rendered(&json!([system, {"role": "user", "content": "Hi"}, first, second])));
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_conversation_over_the_context_fails_with_both_numbers() {
    let ended = chat(&["-c", "24"], b"Hi\nOnce upon a time there was a king who had a daughter\n");
    assert_eq!(ended.code, Some(1));
    let error = ended.stderr.lines().find(|line| line.starts_with("error: ")).expect("an error");
    assert!(error.contains("context of 24"), "{error}");
    assert_eq!(ended.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1, "the first turn was answered");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    chat(&[], b"caf\xe9\n").failed(1, &["stdin", "not UTF-8", "byte 3"]);
}

/// The program in a pseudo-terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(flags: &str) -> Self {
        let line = format!("{} chat {} -n 4 --backend cpu {flags}", binary::zynfer().display(), tiny());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        clean(&mut script);
        script.env("TERM", "xterm");
        let mut child = script.spawn().expect("script runs (Debian's bsdutils)");
        let keys = child.stdin.take().expect("piped");
        let mut stdout = child.stdout.take().expect("piped");
        let (send, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Terminal { child, keys, screen, seen: String::new() };
        terminal.await_text("> ");
        terminal
    }

    fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("the terminal takes keys");
    }

    /// Waits until `text` is on the screen, and forgets what came before its end.
    fn await_text(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{text:?} does not come, only {:?}", self.seen);
            if let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(100)) {
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// Ids of the next prompt that is answered.
    fn next_prompt(&mut self) -> Vec<u32> {
        self.await_text("prompt ids: ");
        let list = self.await_text("\r\n");
        self.await_text("> ");
        list.trim_end().split(',').map(|id| id.parse().expect("an id")).collect()
    }
}

/// What terminals send for text that is pasted.
fn paste(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

#[test]
fn a_paste_is_one_message_and_waits_for_enter() {
    let mut terminal = Terminal::open("--print-token-ids");
    let lines: Vec<String> = (0..40)
        .map(|n| match n % 5 {
            0 => format!("line {n}\twith\ttabs"),
            1 => String::new(),
            2 => "/clear".to_string(),
            3 => format!("{n} 👩‍👧 é <|im_end|>"),
            _ => format!("  indented {n}  "),
        })
        .collect();
    // Terminals send a carriage return for each line break of what is pasted.
    terminal.send(&paste(&lines.join("\r")));
    std::thread::sleep(Duration::from_millis(500));
    while let Ok(bytes) = terminal.screen.try_recv() {
        terminal.seen.push_str(&String::from_utf8_lossy(&bytes));
    }
    assert!(!terminal.seen.contains("prompt ids"), "sent before Enter");
    terminal.seen.clear();
    terminal.send("\r");
    assert_eq!(terminal.next_prompt(), rendered(&user(&lines.join("\n"))));
    terminal.send("\u{4}");
    assert_eq!(wait(&mut terminal.child), Some(0));
}

#[test]
fn a_paste_of_a_megabyte_arrives_whole() {
    let text = "abcdefg\n".repeat(1 << 17);
    let tokens = rendered(&user(&text)).len();
    let mut terminal = Terminal::open("");
    // The reader's thread empties the screen meanwhile, so the keys are taken.
    terminal.send(&paste(&text.replace('\n', "\r")));
    terminal.send("\r");
    terminal.await_text(&format!("prompt: {tokens} tokens given, the context of 2048"));
    terminal.await_text("> ");
    terminal.send("\u{4}");
    assert_eq!(wait(&mut terminal.child), Some(0));
}

#[test]
fn keys_edit_break_lines_and_end_the_chat() {
    let mut terminal = Terminal::open("--print-token-ids");
    terminal.send("one\u{1b}\rtwo\r");
    assert_eq!(terminal.next_prompt(), rendered(&user("one\ntwo")));
    terminal.send("/clear\r");
    terminal.await_text("> ");
    terminal.send("\r   \r");
    terminal.send("Hx\u{7f}i\r");
    assert_eq!(terminal.next_prompt(), rendered(&user("Hi")));
    terminal.send("/clear\r");
    terminal.await_text("> ");
    terminal.send("\"\"\"a\rb\"\"\"\r");
    assert_eq!(terminal.next_prompt(), rendered(&user("a\nb")));
    terminal.send("/exit\r");
    assert_eq!(wait(&mut terminal.child), Some(0));
}

#[test]
fn ctrl_c_at_the_prompt_ends_with_130() {
    let mut terminal = Terminal::open("");
    terminal.send("\u{3}");
    assert_eq!(wait(&mut terminal.child), Some(130));
}
