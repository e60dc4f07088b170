//! Whole listings: every word of `.text` in our code object and in the kernels of `tests/fixtures/kernels` decodes, and prints what
//! `llvm-objdump-22` prints.

use crate::{llvm, root};
use std::path::Path;

/// Compares one code object; returns the instructions compared.
fn compare(path: &Path, wrong: &mut Vec<String>) -> usize {
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let list = llvm::objdump(path);
    for (address, listed) in &list {
        // A branch that llvm-objdump resolves carries its target behind the dwords, which `words` has left out.
        match emulator::isa::decode(&listed.words) {
            Err(emulator::isa::DecodeError::Unknown { word: 0 }) if listed.text == "v_illegal" => {} // padding
            Err(e) => wrong.push(format!("{name} {address:#x}: `{}`: {e}", listed.text)),
            Ok(inst) => {
                let text = emulator::isa::text(&inst, *address);
                if text != listed.text {
                    wrong.push(format!("{name} {address:#x}: `{text}`, llvm-objdump-22 prints `{}`", listed.text));
                } else if inst.dwords as usize != listed.words.len() {
                    wrong.push(format!("{name} {address:#x}: {} dwords, not {}", inst.dwords, listed.words.len()));
                }
            }
        }
    }
    list.len()
}

fn report(wrong: Vec<String>, count: usize) {
    let shown = wrong.len().min(60);
    assert!(wrong.is_empty(), "{} of {count} instructions are wrong:\n{}", wrong.len(), wrong[..shown].join("\n"));
}

#[test]
fn fixtures() {
    let folder = root().join("tests/fixtures/kernels");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("tests/fixtures/kernels is a folder")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "hsaco"))
        .collect();
    files.sort();
    let mut wrong = Vec::new();
    let count: usize = files.iter().map(|file| compare(file, &mut wrong)).sum();
    assert!(count > 10_000, "{} code objects hold only {count} instructions", files.len());
    report(wrong, count);
}

#[test]
fn our_code_object() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), zynfer::gpu::code_object::IMAGE).expect("written");
    let mut wrong = Vec::new();
    let count = compare(file.path(), &mut wrong);
    assert!(count > 1_000, "our code object holds only {count} instructions");
    report(wrong, count);
}
