//! The judge of encodings and text: `llvm-mc-22` and `llvm-objdump-22`, each called once for a whole list. A missing tool is a failed
//! test. It knows nothing of our decoder.

use std::io::Write;
use std::process::{Command, Stdio};

const TARGET: [&str; 2] = ["-triple=amdgcn", "-mcpu=gfx1201"];

fn run(tool: &str, args: &[&str], input: &[u8]) -> (String, String) {
    let mut child = Command::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{tool}: {e}; install Debian's llvm-22 package (`./x test` does)"));
    let input = input.to_vec();
    let mut pipe = child.stdin.take().expect("stdin is piped");
    // Both pipes are small: writing from here while nobody reads the output would deadlock.
    let writer = std::thread::spawn(move || pipe.write_all(&input));
    let output = child.wait_with_output().expect("the tool ends");
    let _ = writer.join();
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// One instruction as LLVM reads it: its text and the dwords it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Text without comments.
    pub text: String,
    /// Its encoding.
    pub words: Vec<u32>,
}

fn parse_encoding(line: &str) -> Option<Listed> {
    let (text, rest) = line.split_once("encoding: [")?;
    let text = text.rsplit_once(';').or_else(|| text.rsplit_once("//"))?.0.trim().to_string();
    let bytes: Vec<u8> = rest
        .trim_end()
        .trim_end_matches(']')
        .split(',')
        .map(|b| u8::from_str_radix(b.trim_start_matches("0x"), 16).ok())
        .collect::<Option<_>>()?;
    let words = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    Some(Listed { text, words })
}

/// What LLVM makes of some dwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not an instruction, or one whose operands it marks as invalid.
    Refused,
    /// An instruction.
    Listed(Listed),
    /// The tool crashed on it (it does on some reserved values): no judgement.
    Crashed,
}

/// Disassembles each list of dwords on its own.
pub fn disassemble(list: &[Vec<u32>]) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(list.len());
    while verdicts.len() < list.len() {
        verdicts.extend(disassemble_until_crash(&list[verdicts.len()..]));
        if verdicts.len() < list.len() {
            verdicts.push(Verdict::Crashed);
        }
    }
    verdicts
}

/// The verdicts as far as one run of the tool comes.
fn disassemble_until_crash(list: &[Vec<u32>]) -> Vec<Verdict> {
    // A marker instruction behind each candidate keeps the answers apart: the tool prints nothing for an invalid one.
    const MARKER: &str = "s_nop 0x7abc";
    let mut input = String::new();
    for words in list {
        input.push('[');
        for byte in words.iter().flat_map(|w| w.to_le_bytes()) {
            input.push_str(&format!("0x{byte:02x} "));
        }
        // llvm-mc 22 crashes where a block ends inside an instruction's literal, so each ends with `s_nop 0`s.
        input.push_str("0x00 0x00 0x80 0xbf 0x00 0x00 0x80 0xbf]\n[0xbc 0x7a 0x80 0xbf]\n");
    }
    let (out, _) = run("llvm-mc-22", &[TARGET[0], TARGET[1], "--disassemble", "-show-encoding"], input.as_bytes());
    let mut verdicts = Vec::with_capacity(list.len());
    let mut first: Option<Listed> = None;
    for listed in out.lines().filter_map(parse_encoding) {
        if listed.text == MARKER {
            verdicts.push(match first.take() {
                // What it prints but would not accept: `/*Invalid register …*/`, `/* Invalid dpp_ctrl value */`.
                Some(listed) if listed.text.contains("/*Invalid") || listed.text.contains("/* Invalid dpp") => {
                    Verdict::Refused
                }
                Some(listed) => Verdict::Listed(listed),
                None => Verdict::Refused,
            });
        } else if first.is_none() {
            // What follows a shorter instruction within the candidate's dwords does not count.
            first = Some(listed);
        }
    }
    verdicts
}

/// Assembles each line on its own; `Err` with LLVM's message where it refuses.
pub fn assemble(lines: &[String]) -> Vec<Result<Vec<u32>, String>> {
    let input = lines.join("\n") + "\n";
    let (out, errors) = run("llvm-mc-22", &[TARGET[0], TARGET[1], "-show-encoding"], input.as_bytes());
    let mut answers: Vec<Result<Vec<u32>, String>> = vec![Ok(Vec::new()); lines.len()];
    for error in errors.lines() {
        let mut parts = error.splitn(5, ':');
        if parts.next() == Some("<stdin>")
            && let Some(line) = parts.next().and_then(|n| n.parse::<usize>().ok())
            && parts.nth(1).is_some_and(|kind| kind.trim() == "error")
            && line <= lines.len()
        {
            answers[line - 1] = Err(parts.next().unwrap_or("refused").trim().to_string());
        }
    }
    let mut encodings = out.lines().filter_map(parse_encoding);
    for answer in answers.iter_mut().filter(|a| a.is_ok()) {
        *answer = Ok(encodings.next().expect("llvm-mc-22 shows an encoding for every accepted line").words);
    }
    answers
}

/// The listing of a code object's `.text`, in order: address and instruction.
pub fn objdump(path: &std::path::Path) -> Vec<(u64, Listed)> {
    let path = path.to_str().expect("a UTF-8 path");
    let (out, errors) = run("llvm-objdump-22", &["-d", "--mcpu=gfx1201", path], &[]);
    assert!(errors.is_empty(), "llvm-objdump-22 {path}: {errors}");
    let mut list = Vec::new();
    for line in out.lines() {
        // `\ts_nop 0   // 000000001900: BF800000`
        let Some((text, rest)) = line.split_once("// ") else { continue };
        let Some((address, words)) = rest.split_once(": ") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let words = words.split_whitespace().map_while(|w| u32::from_str_radix(w, 16).ok()).collect();
        list.push((address, Listed { text: text.trim().to_string(), words }));
    }
    list
}
