//! GGUF files of the `gguf` package read as it reads them, its blocks decoded as it decodes them, split files, and headers that lie
//! (UX-31 to UX-34): one line each, with the name and both numbers.

use std::{fs, path::Path};

use serde_json::Value as Json;
use zynfer::artifact::{
    LoadMode,
    gguf::{Gguf, Header, TensorType, Value},
};
use zynfer_tests::fixtures::{fixture, read, read_json};

use crate::support::assert_message;
use zynfer_tests::gguf_writer::{GgufFile, text};

/// Types the package decoded for us.
const TYPES: [&str; 15] = [
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS",
];

fn decoded(kind: TensorType, blocks: &[u8]) -> Vec<f32> {
    let mut out = vec![0f32; blocks.len() / kind.block_bytes() as usize * kind.block_elements() as usize];
    kind.decoder().expect("a type that is read")(blocks, &mut out);
    out
}

#[test]
fn blocks_decode_to_the_bits_of_the_gguf_package() {
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    assert_eq!(
        sorted(TensorType::read_names().collect()),
        sorted(TYPES.to_vec()),
        "types read and types with a fixture"
    );
    for name in TYPES {
        let kind = TensorType::from_name(name).unwrap();
        let (bytes, elements) = (kind.block_bytes() as usize, kind.block_elements() as usize);
        let file = read(&format!("gguf/blocks/{name}.bin"));
        let count = file.len() / (bytes + 4 * elements);
        assert_eq!(count * (bytes + 4 * elements), file.len(), "{name}");
        let (blocks, expected) = file.split_at(count * bytes);
        let found = decoded(kind, blocks);
        let mut numbers = 0;
        for (at, (value, bits)) in found.iter().zip(expected.chunks_exact(4)).enumerate() {
            let expected = f32::from_le_bytes(bits.try_into().unwrap());
            // What no number is made of does not say which one.
            let same = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
            assert!(same, "{name} block {} element {}: {value} not {expected}", at / elements, at % elements);
            numbers += usize::from(expected.is_finite());
        }
        assert!(numbers * 3 > found.len(), "{name}: only {numbers} of {} are numbers", found.len());
    }
}

fn as_json(value: &Value) -> Json {
    match value {
        Value::Unsigned(n) => (*n).into(),
        Value::Signed(n) => (*n).into(),
        Value::F32(n) => f64::from(*n).into(),
        Value::F64(n) => (*n).into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Numbers(list) => list.iter().map(|value| as_json(&value)).collect(),
        Value::Texts(list) => list.iter().collect(),
    }
}

/// What the package read out of its own file is what we read, in one file and in parts.
#[test]
fn files_of_the_gguf_package_are_read_as_it_reads_them() {
    let golden = read_json("gguf/small.json");
    let parts = ["small", "split-00001-of-00003", "split-00002-of-00003", "split-00003-of-00003"];
    for name in parts {
        let path = fixture(&format!("gguf/{name}.gguf"));
        for mode in [LoadMode::Mmap, LoadMode::Read] {
            let gguf = Gguf::open(&path, mode).unwrap_or_else(|error| panic!("{error}"));
            let split = name != "small";
            assert_eq!((gguf.version(), gguf.files().count()), (3, if split { 3 } else { 1 }));
            assert_eq!(gguf.name(), if split { "split" } else { "small" });
            let golden_metadata = golden["metadata"].as_object().unwrap();
            for (key, value) in golden_metadata {
                let found = gguf.metadata().get(key).unwrap_or_else(|| panic!("{key} is missing"));
                assert_eq!(as_json(found), value["value"], "{key}");
            }
            let others = gguf.metadata().iter().filter(|(key, _)| !golden_metadata.contains_key(*key));
            assert!(others.into_iter().all(|(key, _)| key.starts_with("split.")));
            let tensors: Vec<_> = gguf.tensors().collect();
            let expected = golden["tensors"].as_array().unwrap();
            assert_eq!(tensors.len(), expected.len());
            for expected in expected {
                let (file, tensor) = *tensors.iter().find(|(_, tensor)| tensor.name == expected["name"]).unwrap();
                assert_eq!(
                    (tensor.kind.name(), &serde_json::json!(tensor.shape)),
                    (expected["type"].as_str().unwrap(), &expected["shape"])
                );
                let bits: Json = decoded(tensor.kind, gguf.bytes((file, tensor))).iter().map(|v| v.to_bits()).collect();
                assert_eq!(bits, expected["bits"], "{}", tensor.name);
            }
        }
    }
}

#[track_caller]
fn refused(file: &[u8], message: &str) {
    let error = Header::read(Path::new("m.gguf"), file).expect_err("accepted");
    let text = error.to_string();
    assert!(!text.contains('\n'));
    assert_message(&text, &format!("m.gguf: {message}"));
}

fn small() -> GgufFile {
    GgufFile::default().text("general.architecture", "qwen3").tensor("a", &[32, 2], 2, [1; 36]).tensor(
        "b",
        &[4],
        0,
        [0; 16],
    )
}

#[test]
fn a_plain_file_is_read_in_both_versions() {
    for version in [2, 3] {
        let file = GgufFile { version, ..small() };
        let header = Header::read(Path::new("m.gguf"), &file.bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((header.version, header.tensors.len()), (version, 2));
        assert_eq!((header.tensors[0].shape.as_slice(), header.tensors[0].range.len()), ([2, 32].as_slice(), 36));
        assert_eq!(header.tensors[1].range.start, header.tensors[0].range.start + 64);
    }
}

#[test]
fn short_files_pointers_and_other_formats() {
    for length in 0..4 {
        refused(
            &b"GGUF"[..length],
            &format!("magic: file ends inside it, at byte {length}: expected 4 bytes, found {length} left"),
        );
    }
    refused(&[0xff; 8], r#"magic: is no GGUF file: expected "GGUF", found "\xff\xff\xff\xff""#);
    refused(b"GGUF", "version: file ends inside it, at byte 4: expected 4 bytes, found 0 left");
    refused(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 1503300328\n",
        "is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder: expected 1503300328 bytes, found 75",
    );
    let version = |version| GgufFile { version, ..small() }.bytes();
    refused(&version(1), "version: not a version that is read: expected 2 or 3, found 1");
    refused(&version(4), "version: not a version that is read: expected 2 or 3, found 4");
    refused(
        &version(3u32.swap_bytes()),
        "version: is a big-endian GGUF file, only little-endian ones are read: expected 2 or 3, found 3 with its bytes swapped",
    );
}

#[test]
fn every_truncation_is_refused() {
    let whole = small().bytes();
    // The last tensor's padding may be missing, nothing else.
    let end = whole.len() - 16;
    for length in 0..end {
        let error = Header::read(Path::new("m.gguf"), &whole[..length]).expect_err("accepted").to_string();
        assert!(error.contains("file ends") || error.contains("left can hold"), "{length}: {error}");
    }
    assert!(Header::read(Path::new("m.gguf"), &whole[..end]).is_ok());
    refused(
        &whole[..end - 1],
        &format!(
            "b: file ends before the tensor does (incomplete download?): expected at least {end} bytes, found {}",
            end - 1
        ),
    );
    let longer = [whole.as_slice(), &[0]].concat();
    refused(
        &longer,
        &format!("bytes after the last tensor: expected at most {} bytes, found {}", whole.len(), longer.len()),
    );
}

#[test]
fn absurd_counts_and_lengths() {
    let left = small().bytes().len() - 24;
    refused(
        &GgufFile { key_count: Some(1 << 60), ..small() }.bytes(),
        &format!(
            "header: more metadata keys than the {left} bytes left can hold, or over the limit: expected at most {}, found {}",
            left / 14,
            1u64 << 60
        ),
    );
    let file = GgufFile { tensor_count: Some(1 << 60), ..small() }.bytes();
    let left = left - 8 - 20 - 4 - 8 - 5;
    refused(
        &file,
        &format!(
            "header: more tensors than the {left} bytes left can hold, or over the limit: expected at most {}, found {}",
            left / 33,
            1u64 << 60
        ),
    );
    let lie = |length: u64| GgufFile::default().key("k", 8, length.to_le_bytes()).bytes();
    let left = lie(0).len() - 24 - 8 - 1 - 4 - 8;
    refused(
        &lie(1 << 40),
        &format!("k: file ends inside it, at byte {}: expected {} bytes, found {left} left", lie(0).len(), 1u64 << 40),
    );
    let key = GgufFile::default().key(&"k".repeat(65_536), 0, [0]).bytes();
    refused(&key, "key 0: string over the limit: expected at most 65535 bytes, found 65536");
    for (kind, each) in [(0u32, 1u64), (8, 8), (12, 8)] {
        let array = [kind.to_le_bytes().as_slice(), &(1u64 << 40).to_le_bytes()].concat();
        let file = GgufFile::default().key("k", 9, array).bytes();
        let left = file.len() as u64 - 24 - 8 - 1 - 4 - 12;
        refused(
            &file,
            &format!(
                "k: more than the {left} bytes left can hold: expected at most {}, found {}",
                left / each,
                1u64 << 40
            ),
        );
    }
}

#[test]
fn metadata_that_breaks_a_rule() {
    let one = |key: &str, kind, value: &[u8]| GgufFile::default().key(key, kind, value).bytes();
    refused(&one("", 0, &[0]), "key 0: is empty");
    refused(&one("k", 7, &[7]), "k: is no boolean: expected a byte 0 or 1, found 7");
    refused(&one("k", 13, &[0; 8]), "k: unknown type of value: expected a number from 0 to 12, found 13");
    let array =
        |kind: u32, count: u64, data: &[u8]| [&kind.to_le_bytes(), count.to_le_bytes().as_slice(), data].concat();
    refused(&one("k", 9, &array(9, 1, &array(0, 1, &[0]))), "k: is an array of arrays, which no known key is");
    refused(&one("k", 9, &array(7, 3, &[1, 0, 2])), "k: is no boolean: expected a byte 0 or 1, found 2");
    refused(&one("k", 9, &array(99, 1, &[0; 8])), "k: unknown type of value: expected a number from 0 to 12, found 99");
    let twice = GgufFile::default().u32("k", 1).u32("l", 1).u32("k", 1).bytes();
    refused(&twice, "k: the key stands twice");
    let mut bad = text("ab");
    bad[9] = 0xff;
    let error = Header::read(Path::new("m.gguf"), &one("k", 8, &bad)).unwrap_err().to_string();
    assert!(error.starts_with("m.gguf: k: is not UTF-8 at byte 46: "), "{error}");
    for alignment in [0u32, 3, 4, 1 << 21, 1 << 30] {
        refused(
            &small().u32("general.alignment", alignment).bytes(),
            &format!(
                "general.alignment: no alignment that is read: expected a power of two from 8 to 1048576, found {alignment}"
            ),
        );
    }
    refused(
        &small().text("general.alignment", "32").bytes(),
        r#"general.alignment: wrong type or value: expected an integer that is not negative, found a string, "32""#,
    );
    for alignment in [8u32, 64, 1 << 20] {
        let file = GgufFile { alignment: alignment.into(), ..small().u32("general.alignment", alignment) };
        assert!(Header::read(Path::new("m.gguf"), &file.bytes()).is_ok());
    }
}

#[test]
fn tensors_that_break_a_rule() {
    let with = |change: &dyn Fn(&mut GgufFile)| {
        let mut file = small();
        change(&mut file);
        file.bytes()
    };
    let max = u64::MAX;
    refused(
        &with(&|file| file.tensors[1].dims = vec![max, 2]),
        &format!("b: extents [{max}, 2] of F32 overflow: expected below 2^64, found more"),
    );
    refused(
        &with(&|file| file.tensors[1].dims = vec![1 << 62]),
        &format!("b: extents [{}] of F32 overflow: expected below 2^64, found more", 1u64 << 62),
    );
    for (count, dims) in [(9, vec![1; 9]), (5, vec![1; 5]), (0, vec![]), (u32::MAX, vec![1])] {
        refused(
            &with(&|file| {
                file.tensors[1].dims = dims.clone();
                file.tensors[1].dimension_count = Some(count);
            }),
            &format!("b: wrong number of dimensions: expected 1 to 4, found {count}"),
        );
    }
    refused(
        &with(&|file| file.tensors[1].dims = vec![4, 0]),
        "b: an extent of [4, 0] is 0: expected at least 1, found 0",
    );
    refused(
        &with(&|file| file.tensors[0].dims = vec![33, 2]),
        "a: a row of Q4_0 is no whole number of blocks: expected a multiple of 32 elements, found 33",
    );
    refused(&with(&|file| file.tensors[1].name = b"a".to_vec()), "a: the tensor stands twice");
    refused(&with(&|file| file.tensors[1].name = Vec::new()), "name of tensor 1: is empty");
    refused(
        &with(&|file| file.tensors[1].name = vec![b'x'; 65]),
        "name of tensor 1: string over the limit: expected at most 64 bytes, found 65",
    );
    for number in [4, 5, 31, 42, u32::MAX] {
        refused(
            &with(&|file| file.tensors[1].kind = number),
            &format!("b: unknown element type: expected a type of the format, found {number}"),
        );
    }
    refused(&with(&|file| file.tensors[1].offset = Some(36)), "b: badly aligned: expected a multiple of 32, found 36");
    refused(
        &with(&|file| file.tensors[1].offset = Some(32)),
        "b: overlaps the tensor before it: expected offset 64, found 32",
    );
    refused(
        &with(&|file| file.tensors[1].offset = Some(0)),
        "b: overlaps the tensor before it: expected offset 64, found 0",
    );
    refused(
        &with(&|file| file.tensors[1].offset = Some(96)),
        "b: leaves a gap before it: expected offset 64, found 96",
    );
    let length = small().bytes().len();
    refused(
        &with(&|file| file.tensors[1].dims = vec![400]),
        &format!(
            "b: file ends before the tensor does (incomplete download?): expected at least {} bytes, found {length}",
            length + 1600 - 32
        ),
    );
}

/// Copies the three parts, and lets a test change the folder.
fn parts(change: impl FnOnce(&Path)) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=3 {
        let name = format!("split-{number:05}-of-00003.gguf");
        fs::copy(fixture("gguf").join(&name), folder.path().join(&name)).unwrap();
    }
    change(folder.path());
    let first = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    let text = match Gguf::open(&first, LoadMode::Mmap) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string().replace(&format!("{}/", folder.path().display()), ""),
    };
    (folder, text)
}

fn part(number: usize) -> String {
    format!("split-{number:05}-of-00003.gguf")
}

#[test]
fn parts_that_do_not_belong_together() {
    assert_eq!(parts(|_| {}).1, "accepted");
    let gone = parts(|folder| [2, 3].iter().for_each(|n| fs::remove_file(folder.join(part(*n))).unwrap())).1;
    assert_message(
        &gone,
        "split-00001-of-00003.gguf: parts are missing: split-00002-of-00003.gguf, split-00003-of-00003.gguf \
         (incomplete download?): expected 3 parts, found 1",
    );
    let renamed = parts(|folder| {
        (1..=3).for_each(|n| fs::rename(folder.join(part(n)), folder.join(format!("part{n}.gguf"))).unwrap());
    });
    assert_message(
        &renamed.1,
        "part1.gguf: is one of 3 parts, and its name does not say which: expected NAME-00001-of-00003.gguf, found part1.gguf",
    );
    let swapped = parts(|folder| {
        fs::rename(folder.join(part(2)), folder.join("x")).unwrap();
        fs::rename(folder.join(part(3)), folder.join(part(2))).unwrap();
        fs::rename(folder.join("x"), folder.join(part(3))).unwrap();
    });
    assert_message(
        &swapped.1,
        "split-00002-of-00003.gguf: split.no: is not the part that its name and the other parts say: expected 1, found 2",
    );
    let of_another = |no: u16, count: u16, tensors: i32, name: &str| {
        GgufFile::default()
            .key("split.no", 2, no.to_le_bytes())
            .key("split.count", 2, count.to_le_bytes())
            .key("split.tensors.count", 5, tensors.to_le_bytes())
            .tensor(name, &[1], 0, [0; 4])
            .bytes()
    };
    let message = parts(|folder| fs::write(folder.join(part(3)), of_another(2, 4, 15, "x")).unwrap()).1;
    assert_message(
        &message,
        "split-00003-of-00003.gguf: split.count: is not the part that its name and the other parts say: expected 3, found 4",
    );
    let message = parts(|folder| fs::write(folder.join(part(3)), of_another(2, 3, 15, "t.F32")).unwrap()).1;
    assert_message(
        &message,
        "split-00003-of-00003.gguf: t.F32: tensor stands in two parts, also in split-00001-of-00003.gguf",
    );
    let message = parts(|folder| fs::write(folder.join(part(3)), of_another(2, 3, 15, "x")).unwrap()).1;
    assert_message(
        &message,
        "split-00001-of-00003.gguf: split.tensors.count: is not the part that its name and the other parts say: \
         expected 11, found 15",
    );
}
