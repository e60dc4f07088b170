//! The tree's own rules, as far as a program can see them: what every file begins with, what no file contains, that the ledger of
//! experiments is whole. It judges text, not meaning.

use crate::{Outcome, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not ours to judge.
const SKIPPED: &[&str] = &["target", ".git", "fixtures"];
/// Words no source may contain, and why. Written in halves so that this table does not find itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "unfinished code"),
    (concat!("unimple", "mented!("), "unfinished code"),
    (concat!("#[ig", "nore"), "an ignored test proves nothing"),
    (concat!("FIX", "ME"), "finish it or say it in docs"),
    (concat!("TO", "DO"), "finish it or say it in docs"),
    (concat!("XX", "X "), "finish it or say it in docs"),
];

/// Checks the whole tree and reports every finding at once.
pub fn check() -> Outcome {
    let mut files = Vec::new();
    walk(&root(), &mut files)?;
    let mut findings = Vec::new();
    for file in &files {
        let name = file.strip_prefix(root()).unwrap_or(file).display().to_string();
        let Ok(text) = fs::read_to_string(file) else { continue };
        if file.extension().is_some_and(|e| e == "rs") {
            judge_source(&name, &text, &mut findings);
        }
        for (number, line) in text.lines().enumerate() {
            if line.ends_with(' ') && !name.ends_with(".md") && !name.ends_with(".ins") {
                findings.push(format!("{name}:{}: trailing space", number + 1));
            }
        }
    }
    judge_ledger(&mut findings)?;
    judge_tracked(&mut findings);
    if findings.is_empty() { Ok(()) } else { Err(format!("tidy:\n  {}", findings.join("\n  "))) }
}

fn judge_source(name: &str, text: &str, findings: &mut Vec<String>) {
    if !text.starts_with("//!") {
        findings.push(format!("{name}: does not begin with //! saying what it is"));
    }
    for (number, line) in text.lines().enumerate() {
        for (word, why) in BANNED {
            if line.contains(word) {
                findings.push(format!("{name}:{}: {word} ({why})", number + 1));
            }
        }
    }
}

/// What a build left is never in the repository. A tree without git has nothing to be judged by.
fn judge_tracked(findings: &mut Vec<String>) {
    let mut git = std::process::Command::new("git");
    let Ok(listed) = git.args(["ls-files"]).current_dir(root()).output() else { return };
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        if name.split('/').any(|part| part == "target") {
            findings.push(format!("{name}: built, and tracked all the same"));
        }
    }
}

/// Every experiment file has a row in docs/EXPERIMENTS.md, and every row a file; numbers are not reused.
fn judge_ledger(findings: &mut Vec<String>) -> Outcome {
    let folder = root().join("docs/experiments");
    let index = fs::read_to_string(root().join("docs/EXPERIMENTS.md")).unwrap_or_default();
    let mut numbers = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("EXP-").and_then(|rest| rest.get(..4)) else {
            findings.push(format!("docs/experiments/{name}: not named EXP-nnnn-…"));
            continue;
        };
        if numbers.contains(&number.to_owned()) {
            findings.push(format!("EXP-{number} stands twice"));
        }
        if !index.contains(&name) {
            findings.push(format!("docs/EXPERIMENTS.md does not list {name}"));
        }
        numbers.push(number.to_owned());
    }
    for line in index.lines().filter(|line| line.starts_with("| EXP-") || line.starts_with("| [EXP-")) {
        let number = line.split("EXP-").nth(1).and_then(|rest| rest.get(..4)).unwrap_or_default();
        if !numbers.iter().any(|n| n == number) {
            findings.push(format!("docs/EXPERIMENTS.md lists EXP-{number}, which has no file"));
        }
    }
    Ok(())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            // Cargo marks a target folder, whatever its name, as a cache.
            if !SKIPPED.contains(&name.as_str()) && !path.join("CACHEDIR.TAG").exists() {
                walk(&path, files)?;
            }
        } else if matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "toml" | "md" | "sh" | "ins"))
            || name == "x"
        {
            files.push(path);
        }
    }
    Ok(())
}
