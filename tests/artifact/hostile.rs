//! Inputs nobody would make by accident. Whatever the bytes, the answer is an error or a model, never a panic, and never an
//! allocation out of proportion to the file.

use std::{fs, path::Path};

use proptest::prelude::*;
use zynfer::artifact::{Artifact, LoadMode, gguf::Gguf};

use crate::support::{Checkpoint, raw_safetensors};
use zynfer_tests::gguf_writer::GgufFile;

/// Opens, and where that succeeds touches all that can be touched.
fn try_all(path: &Path) {
    for mode in [LoadMode::Mmap, LoadMode::Read] {
        match Artifact::open(path, mode) {
            Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
            Ok(artifact) => {
                artifact.tensors().for_each(|tensor| assert!(tensor.as_bf16().is_some()));
                let _ = artifact.verify(&mut |_, _| {});
            }
        }
    }
}

/// Overwrites a few bytes anywhere, and perhaps cuts or extends.
fn damage(bytes: &mut Vec<u8>, changes: &[(u32, u8)], length: Option<u16>, near_start: bool) {
    let reach = if near_start { bytes.len().min(1500) } else { bytes.len() };
    for (at, value) in changes {
        let at = *at as usize % reach;
        bytes[at] = *value;
    }
    if let Some(length) = length {
        bytes.resize(bytes.len() * usize::from(length) / 60_000, 7);
    }
}

fn damages() -> impl Strategy<Value = (Vec<(u32, u8)>, Option<u16>, bool)> {
    (prop::collection::vec(any::<(u32, u8)>(), 1..6), prop::option::weighted(0.2, any::<u16>()), any::<bool>())
}

#[test]
fn damaged_artifacts_never_panic() {
    let checkpoint = Checkpoint::small();
    let out = checkpoint.compiled("a.zynfer");
    let good = fs::read(&out).unwrap();
    proptest!(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() }, |((changes, length, near) in damages())| {
        let mut bytes = good.clone();
        damage(&mut bytes, &changes, length, near);
        fs::write(&out, &bytes).unwrap();
        try_all(&out);
    });
}

/// Past the hash: the directory is damaged and hashed anew, as a hostile writer would.
#[test]
fn damaged_directories_with_a_right_hash_never_panic() {
    let checkpoint = Checkpoint::small();
    let out = checkpoint.compiled("a.zynfer");
    let good = fs::read(&out).unwrap();
    let length = u64::from_le_bytes(good[8..16].try_into().unwrap()) as usize;
    let digits: Vec<usize> = (48..48 + length).filter(|at| good[*at].is_ascii_digit()).collect();
    let strategy = (prop::collection::vec((any::<u32>(), 0..10u8), 1..4), damages(), any::<bool>());
    proptest!(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() }, |((numbers, (changes, ..), text) in strategy)| {
        let mut bytes = good.clone();
        // Other digits keep it JSON, and reach further in than other letters do.
        for (at, digit) in &numbers {
            bytes[digits[*at as usize % digits.len()]] = b'0' + digit;
        }
        if text {
            changes.iter().for_each(|(at, value)| bytes[48 + *at as usize % length] = *value);
        }
        let hash = blake3::hash(&bytes[48..48 + length]);
        bytes[16..48].copy_from_slice(hash.as_bytes());
        fs::write(&out, &bytes).unwrap();
        try_all(&out);
    });
}

#[test]
fn damaged_checkpoints_never_panic() {
    let checkpoint = Checkpoint::small();
    for name in
        ["model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
    {
        let good = fs::read(checkpoint.path(name)).unwrap();
        proptest!(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }, |((changes, length, near) in damages())| {
            let mut bytes = good.clone();
            damage(&mut bytes, &changes, length, near);
            checkpoint.write(name, &bytes);
            try_all(&checkpoint.folder());
        });
        checkpoint.write(name, &good);
    }
    checkpoint.open();
}

#[test]
fn random_bytes_never_panic() {
    let checkpoint = Checkpoint::small();
    let file = checkpoint.beside("random.zynfer");
    proptest!(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() }, |(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>())| {
        let head: &[u8] = if magic { b"ZYNFER\0\x02" } else { b"" };
        fs::write(&file, [head, &bytes].concat()).unwrap();
        try_all(&file);
        checkpoint.write("model.safetensors", &bytes);
        try_all(&checkpoint.folder());
    });
}

/// Deep nesting, long lists, huge numbers: with 300 MB of address space left over the program itself, none may be believed.
#[test]
fn claims_of_size_are_not_believed() {
    const CHILD: &str = "ZYNFER_TEST_SMALL_MEMORY";
    if std::env::var_os(CHILD).is_none() {
        let command = "ulimit -v 600000; exec \"$0\" --exact hostile::claims_of_size_are_not_believed --test-threads 1";
        let exe = std::env::current_exe().unwrap();
        let output = std::process::Command::new("sh").args(["-c", command]).arg(exe).env(CHILD, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let checkpoint = Checkpoint::small();
    let big = u64::MAX;
    for header in [
        "[".repeat(100_000),
        format!("{{\"a\":{}", "{\"b\":".repeat(100_000)),
        format!(r#"{{"a":{{"dtype":"BF16","shape":[{big},{big}],"data_offsets":[0,{big}]}}}}"#),
        format!(r#"{{"a":{{"dtype":"BF16","shape":[0,{big}],"data_offsets":[0,0]}}}}"#),
        r#"{"a":{"dtype":"BF16","shape":[4611686018427387904],"data_offsets":[0,9223372036854775808]}}"#.to_owned(),
        format!(r#"{{"a":{{"dtype":"BF16","shape":[{}1],"data_offsets":[0,2]}}}}"#, "1,".repeat(100_000)),
    ] {
        checkpoint.write("model.safetensors", raw_safetensors(&header, &[0; 2]));
        try_all(&checkpoint.folder());
    }
    for length in [100_000_000u64, 99_999_999, 1 << 40, 1 << 63] {
        checkpoint.write("model.safetensors", length.to_le_bytes());
        try_all(&checkpoint.folder());
        let file = checkpoint.beside("a.zynfer");
        fs::write(&file, [b"ZYNFER\0\x02".as_slice(), &length.to_le_bytes(), &[0; 32]].concat()).unwrap();
        try_all(&file);
    }
    let gguf = checkpoint.beside("a.gguf");
    let lie = |kind: u32, value: &[u64]| {
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        GgufFile::default().key("k", kind, bytes)
    };
    let array = |kind: u32, count: u64| {
        GgufFile::default().key("k", 9, [kind.to_le_bytes().as_slice(), &count.to_le_bytes()].concat())
    };
    for file in [
        GgufFile { key_count: Some(1 << 60), ..GgufFile::default() },
        GgufFile { tensor_count: Some(1 << 60), ..GgufFile::default() },
        lie(8, &[1 << 40]),
        array(0, 1 << 40),
        array(8, 1 << 32),
        array(12, big / 8),
    ] {
        fs::write(&gguf, file.bytes()).unwrap();
        for mode in [LoadMode::Mmap, LoadMode::Read] {
            assert!(Gguf::open(&gguf, mode).is_err());
        }
    }
    // A file of a terabyte, all hole, that is to be read into memory: refused by number, not an abort.
    let file = checkpoint.beside("hole.zynfer");
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    try_all(&file);
    let text = Artifact::open(&file, LoadMode::Read).err().unwrap().to_string();
    assert!(text.contains(&format!("{} bytes do not fit into memory", 1u64 << 40)), "{text}");
    for text in ["[".repeat(1_000_000), format!("{{\"a\":{}1", "[".repeat(1_000_000))] {
        for name in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
            let good = fs::read(checkpoint.path(name)).unwrap();
            checkpoint.write(name, &text);
            try_all(&checkpoint.folder());
            checkpoint.write(name, good);
        }
    }
}
