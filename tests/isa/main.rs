//! The instruction set against LLVM and against rows: every instruction's encoding and text as `llvm-mc-22` and `llvm-objdump-22` have
//! them, and what each does to a wave (`ins`). Whole kernels are judged elsewhere.
#![allow(clippy::needless_range_loop, reason = "matrix loops read as the formula does")]

mod coverage;
mod encodings;
mod forms;
mod halves;
mod ins;
mod listings;
mod llvm;
mod matrix;
mod matrix_sums;
mod opcodes;
mod random;

use emulator::Memory;
use emulator::isa::Inst;
use emulator::wave::{Cx, LaunchInfo, Lds, Step, Wave};
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_path_buf()
}

/// The rows of every `.ins` file here, in the files' order.
fn all_rows() -> Vec<ins::Row> {
    let folder = root().join("tests/isa");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("tests/isa is a folder")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ins"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .ins file in {}", folder.display());
    let mut rows = Vec::new();
    for file in &files {
        let content = std::fs::read_to_string(file).expect("a text file");
        let name = file.file_name().expect("a file name").to_string_lossy().into_owned();
        let parsed = ins::parse(&name, &content);
        assert!(!parsed.is_empty(), "{name} has no row");
        rows.extend(parsed);
    }
    rows
}

/// A wave at a launch's MODE with everything else 0.
pub fn wave() -> Wave {
    Wave { pc: 0x1000, mode: 0xf0, ..Wave::new() }
}

/// Executes one instruction as the run loop does.
pub fn execute(inst: &Inst, wave: &mut Wave, lds: &mut Lds, memory: &Memory) -> Step {
    let launch = LaunchInfo { grid: [1; 3], block: [32, 1, 1], code_start: wave.pc, code_end: wave.pc + 0x1000 };
    let arch = emulator::arch::Arch::new();
    (inst.row.exec)(&mut Cx { wave, lds, memory, launch: &launch, workgroup: [0; 3], arch, watch: None }, inst)
}

#[test]
fn rows() {
    let rows = all_rows();
    let texts: Vec<String> = rows.iter().map(|row| row.text.clone()).collect();
    let mut wrong = Vec::new();
    for (row, assembled) in rows.iter().zip(llvm::assemble(&texts)) {
        match assembled {
            Err(message) => wrong.push(format!("{}: llvm-mc-22 refuses `{}`: {message}", row.place, row.text)),
            Ok(words) if words != row.words => {
                let words: Vec<String> = words.iter().map(|w| format!("{w:08x}")).collect();
                wrong.push(format!("{}: llvm-mc-22 encodes `{}` as {}", row.place, row.text, words.join(" ")));
            }
            Ok(_) => {}
        }
        if let Err(reason) = ins::check(row) {
            wrong.push(format!("{}: {}: {reason}", row.place, row.text));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
