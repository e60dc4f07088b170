//! Compiling ends in a complete, verified file under its name or in an error with nothing left behind (UX-61): a killed process, a
//! full disk, an output among the sources, a place that cannot be written.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use zynfer::artifact::{Artifact, LoadMode, compile};

use crate::support::{Checkpoint, assert_message, fixture, raw_safetensors};

fn compile_error(checkpoint: &Checkpoint, out: &Path) -> String {
    let error = compile(&checkpoint.folder(), out, &mut |_, _| {}).expect_err("compiled");
    checkpoint.text_of(error)
}

#[test]
fn compiling_twice_gives_the_same_bytes() {
    let checkpoint = Checkpoint::tied();
    let (first, second) = (checkpoint.compiled("a.zynfer"), checkpoint.compiled("b.zynfer"));
    assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap());
    // Nor do the place, the time and the kind of its files matter.
    let elsewhere = Checkpoint::tied();
    fs::File::open(elsewhere.path("model.safetensors"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert!(fs::read(&first).unwrap() == fs::read(elsewhere.compiled("c.zynfer")).unwrap());
    let mode = fs::metadata(&first).unwrap().permissions().mode();
    assert_eq!(mode & 0o444, 0o444, "other users cannot read it: {mode:o}");
}

#[test]
fn progress_rises_to_its_total() {
    let checkpoint = Checkpoint::untied();
    let mut seen = Vec::new();
    let report =
        compile(&checkpoint.folder(), &checkpoint.beside("a.zynfer"), &mut |done, total| seen.push((done, total)));
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 == pair[1].1), "{seen:?}");
    let (done, total) = *seen.last().unwrap();
    assert_eq!(done, total);
    let report = report.unwrap();
    assert_eq!((report.tensor_count, report.source_count), (25, 3));
    assert_eq!((report.has_tokenizer, report.has_chat_template), (false, false));
    assert_eq!(report.parameter_count * 2, report.weight_bytes);
}

#[test]
fn outputs_that_would_destroy_something_are_refused() {
    let checkpoint = Checkpoint::untied();
    let before = fs::read(checkpoint.path("model.safetensors")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        assert_message(
            &compile_error(&checkpoint, &checkpoint.path(name)),
            &format!("model/{name}: is {name} of the source folder model"),
        );
    }
    // Another name of the same file is the same file.
    let hard = checkpoint.beside("hard.zynfer");
    fs::hard_link(checkpoint.path("model.safetensors"), &hard).unwrap();
    assert_message(&compile_error(&checkpoint, &hard), "hard.zynfer: is model.safetensors of the source folder model");
    let link = checkpoint.beside("link.zynfer");
    std::os::unix::fs::symlink(checkpoint.path("config.json"), &link).unwrap();
    assert_message(&compile_error(&checkpoint, &link), "link.zynfer: is config.json of the source folder model");
    assert_message(&compile_error(&checkpoint, &checkpoint.folder()), "model: is a folder, name a file to write");
    assert_message(
        &compile_error(&checkpoint, Path::new("/dev/null")),
        "/dev/null: is no regular file and is not replaced",
    );
    assert_message(&compile_error(&checkpoint, &checkpoint.beside("..")), "..: names no file to write");
    assert_message(
        &compile_error(&checkpoint, &checkpoint.beside("no/such/place.zynfer")),
        "no/such: the output's folder cannot be opened: No such file or directory (os error 2)",
    );
    assert_message(
        &compile_error(&checkpoint, &checkpoint.beside("hard.zynfer").join("x.zynfer")),
        "hard.zynfer: is not a folder, so hard.zynfer/x.zynfer cannot lie in it",
    );
    assert!(fs::read(checkpoint.path("model.safetensors")).unwrap() == before);
    assert!(Path::new("/dev/null").metadata().is_ok_and(|meta| !meta.is_file()));
}

#[test]
fn only_a_folder_or_a_gguf_file_compiles() {
    let checkpoint = Checkpoint::untied();
    let file = checkpoint.compiled("a.zynfer");
    let error = compile(&file, &checkpoint.beside("b.zynfer"), &mut |_, _| {}).unwrap_err();
    assert_message(
        &checkpoint.text_of(error),
        "a.zynfer: is neither a folder nor a GGUF file: compile takes a Hugging Face folder or a .gguf file",
    );
    let error = compile(&checkpoint.beside("none"), &checkpoint.beside("b.zynfer"), &mut |_, _| {}).unwrap_err();
    assert_message(&checkpoint.text_of(error), "none: cannot be opened: No such file or directory (os error 2)");
    let folder = checkpoint.open().verify(&mut |_, _| {}).unwrap_err();
    assert_message(
        &checkpoint.text_of(folder),
        "model: a folder records no hashes to verify: compile it to a .zynfer file",
    );
}

/// Nearly nine terabytes of weights, as a sparse file: refused before any of it is read.
#[test]
fn free_space_is_compared_first() {
    let (hidden, vocab) = (1u64 << 17, 1u64 << 22);
    let checkpoint = Checkpoint::untied();
    checkpoint.edit("config.json", |map| {
        for (key, value) in
            [("hidden_size", hidden), ("intermediate_size", 1 << 20), ("vocab_size", vocab), ("num_hidden_layers", 8)]
        {
            map.insert(key.into(), value.into());
        }
        map.insert("layer_types".into(), serde_json::Value::Null);
    });
    let artifact_config = checkpoint.json("config.json");
    let config = zynfer::model::config::CheckpointConfig::from_json(&artifact_config).unwrap().model;
    let mut header = serde_json::Map::new();
    let mut norms = Vec::new();
    let mut at = 0u64;
    for (name, shape) in zynfer::artifact::expected_tensors(&config) {
        let bytes = 2 * shape.iter().product::<usize>() as u64;
        if name.ends_with("norm.weight") {
            norms.push((at, bytes));
        }
        header.insert(name, serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes]}));
        at += bytes;
    }
    let head = raw_safetensors(&serde_json::Value::from(header).to_string(), &[]);
    checkpoint.write("model.safetensors", &head);
    let file = fs::File::options().write(true).open(checkpoint.path("model.safetensors")).unwrap();
    file.set_len(head.len() as u64 + at).unwrap();
    for (offset, bytes) in norms {
        let ones = half::bf16::ONE.to_le_bytes().repeat(bytes as usize / 2);
        std::os::unix::fs::FileExt::write_all_at(&file, &ones, head.len() as u64 + offset).unwrap();
    }
    let out = checkpoint.beside("a.zynfer");
    let started = |_, _| panic!("work began though {at} bytes cannot fit");
    let text = checkpoint.text_of(compile(&checkpoint.folder(), &out, &mut { started }).unwrap_err());
    assert!(text.starts_with("a.zynfer: not enough free space: expected ") && text.ends_with(" bytes free"), "{text}");
    let needed: u64 = text.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(needed > at && needed < at + (1 << 20), "{text}");
    checkpoint.assert_nothing_left(&out);
}

const CHILD: &str = "ZYNFER_TEST_CHILD_OUT";

/// Runs this test again in a process of its own, under a shell's `limit`, with `out` for its work.
fn child(test: &str, limit: &str, out: &Path) -> Output {
    let command = format!("{limit} exec \"$0\" --exact {test} --nocapture --test-threads 1");
    Command::new("sh").args(["-c", &command]).arg(std::env::current_exe().unwrap()).env(CHILD, out).output().unwrap()
}

/// The child's part: where it is to write.
fn child_out() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Nothing can be cleaned up after a kill: so nothing may have a name before it is complete.
#[test]
fn a_killed_compile_leaves_nothing_and_keeps_the_old_file() {
    if let Some(out) = child_out() {
        let percent: u64 = out.extension().unwrap().to_str().unwrap().parse().unwrap();
        let _ = compile(&fixture("qwen3-d64-untied"), &out, &mut |done, total| {
            if done * 100 >= total * percent {
                std::process::abort();
            }
        });
        unreachable!("progress reaches every percentage");
    }
    for percent in [1, 40, 60, 90, 100] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join(format!("out.{percent}"));
        fs::write(&out, "an older file").unwrap();
        let output = child("writing::a_killed_compile_leaves_nothing_and_keeps_the_old_file", "", &out);
        assert!(std::os::unix::process::ExitStatusExt::signal(&output.status).is_some(), "{output:?}");
        assert_eq!(fs::read(&out).unwrap(), b"an older file");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "killed at {percent} %");
    }
}

/// A full disk, played by the limit on file sizes: at the first byte of payload, in the middle, and in the last block.
#[test]
fn a_full_disk_is_an_error_with_both_numbers() {
    if let Some(out) = child_out() {
        let error = compile(&fixture("qwen3-d64-untied"), &out, &mut |_, _| {}).expect_err("compiled over the limit");
        println!("MESSAGE {error}");
        return;
    }
    let whole = Checkpoint::untied().compiled("a.zynfer");
    assert!(!whole.exists(), "the folder is temporary");
    let needed = {
        let checkpoint = Checkpoint::untied();
        fs::rename(checkpoint.folder(), checkpoint.beside("qwen3-d64-untied")).unwrap();
        let out = checkpoint.beside("a.zynfer");
        compile(&checkpoint.beside("qwen3-d64-untied"), &out, &mut |_, _| {}).unwrap().file_bytes
    };
    for blocks in [16, 5000, needed / 512] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a.zynfer");
        // dash counts blocks of 512 bytes; with the signal ignored, a write over the limit is an error.
        let limit = format!("trap '' XFSZ; ulimit -f {blocks};");
        let output = child("writing::a_full_disk_is_an_error_with_both_numbers", &limit, &out);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let message =
            text.lines().find_map(|line| line.split_once("MESSAGE ")).unwrap_or_else(|| panic!("{output:?}")).1;
        assert_message(
            message,
            &format!(
                "{}: cannot be written at byte {} of {needed}: File too large (os error 27)",
                out.display(),
                blocks * 512
            ),
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_older_file_is_replaced_only_by_a_complete_one() {
    let checkpoint = Checkpoint::untied();
    let out = checkpoint.beside("a.zynfer");
    fs::write(&out, "half a file").unwrap();
    let good = fs::read(checkpoint.path("model.safetensors")).unwrap();
    checkpoint.write("model.safetensors", &good[..good.len() - 1]);
    compile(&checkpoint.folder(), &out, &mut |_, _| {}).unwrap_err();
    assert_eq!(fs::read(&out).unwrap(), b"half a file");
    checkpoint.write("model.safetensors", &good);
    compile(&checkpoint.folder(), &out, &mut |_, _| {}).unwrap();
    Artifact::open(&out, LoadMode::Mmap).unwrap().verify(&mut |_, _| {}).unwrap();
    assert_eq!(fs::read_dir(checkpoint.beside("")).unwrap().count(), 2);
}

/// A source that is cut while it is compiled is an error, not a signal, and not a file.
#[test]
fn a_source_cut_while_compiling_is_an_error() {
    let checkpoint = Checkpoint::untied();
    let out = checkpoint.beside("a.zynfer");
    let mut cut = false;
    let error = compile(&checkpoint.folder(), &out, &mut |_, _| {
        if !std::mem::replace(&mut cut, true) {
            fs::File::options().write(true).open(checkpoint.path("model.safetensors")).unwrap().set_len(4000).unwrap();
        }
    });
    let text = checkpoint.text_of(error.unwrap_err());
    assert!(text.starts_with("model/model.safetensors: cannot be read from byte "), "{text}");
    checkpoint.assert_nothing_left(&out);
}
