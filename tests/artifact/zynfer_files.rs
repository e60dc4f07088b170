//! Damaged `.zynfer` files: each byte region, each claim of the directory, each length. A damaged byte of the header, directory,
//! padding or text is refused when the file is opened, one of a weight by `verify`.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde_json::{Value, json};
use zynfer::artifact::{Artifact, LoadMode};

use crate::support::{Checkpoint, assert_message};

/// A compiled file with tokenizer, template and weights, its path, and where its parts lie by the documented format.
struct Good {
    bytes: Vec<u8>,
    directory: Value,
    directory_range: Range<usize>,
    payload_start: usize,
    scratch: tempfile::TempDir,
}

fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let checkpoint = Checkpoint::untied();
        checkpoint.write("tokenizer.json", r#"{"added_tokens":[],"model":{"vocab":{"a":0}}}"#);
        checkpoint.write("chat_template.jinja", "{{ messages }}");
        Good::of(&checkpoint)
    })
}

impl Good {
    fn of(checkpoint: &Checkpoint) -> Self {
        let bytes = fs::read(checkpoint.compiled("good.zynfer")).unwrap();
        let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
        let directory_range = 48..48 + length;
        Good {
            directory: serde_json::from_slice(&bytes[directory_range.clone()]).unwrap(),
            payload_start: directory_range.end.next_multiple_of(4096),
            directory_range,
            bytes,
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    /// A file of these bytes, of its own name so that tests may run at once.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.scratch.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn text(&self, path: &Path, error: zynfer::artifact::LoadError) -> String {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text.replace(&path.display().to_string(), "F")
    }

    /// What opening these bytes says, which must be the same mapped and read.
    fn refusal(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.file(name, bytes);
        let open =
            |mode| self.text(&path, Artifact::open(&path, mode).err().unwrap_or_else(|| panic!("{name} was accepted")));
        let (mapped, read) = (open(LoadMode::Mmap), open(LoadMode::Read));
        assert_eq!(mapped, read);
        fs::remove_file(path).unwrap();
        mapped
    }

    /// The file with another directory, correctly hashed and padded: what a faulty or hostile writer could make.
    fn with_directory(&self, text: &[u8]) -> Vec<u8> {
        let mut file = self.bytes[..8].to_vec();
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(blake3::hash(text).as_bytes());
        file.extend(text);
        file.resize(file.len().next_multiple_of(4096), 0);
        file.extend(&self.bytes[self.payload_start..]);
        file
    }

    /// What is said about a directory changed by `change`.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Value)) -> String {
        let mut directory = self.directory.clone();
        change(&mut directory);
        assert_ne!(directory, self.directory, "nothing was changed");
        self.refusal(name, &self.with_directory(directory.to_string().as_bytes()))
    }
}

#[test]
fn the_good_file_is_laid_out_as_documented() {
    let good = good();
    let d = &good.directory;
    assert_eq!(&good.bytes[..8], b"ZYNFER\0\x02");
    assert_eq!(&good.bytes[16..48], blake3::hash(&good.bytes[good.directory_range.clone()]).as_bytes());
    assert!(good.bytes[good.directory_range.end..good.payload_start].iter().all(|byte| *byte == 0));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(d),
        "format_version tool model architecture conventions generation end_ids payload_bytes objects tensors"
    );
    assert_eq!(keys(&d["tool"]) + " " + &keys(&d["model"]), "name version family name sources");
    assert_eq!(keys(&d["tensors"][0]), "name dtype shape offset bytes blake3");
    assert_eq!(d["format_version"], 2);
    assert_eq!(d["model"]["family"], "qwen3");
    assert_eq!(d["model"]["name"], "model");
    assert_eq!(d["conventions"], json!({"norm_weight": "factor"}));
    let sources: Vec<&str> =
        d["model"]["sources"].as_array().unwrap().iter().map(|s| s["file"].as_str().unwrap()).collect();
    assert_eq!(
        sources,
        ["config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"]
    );
    let weights = fs::read(crate::support::fixture("qwen3-d64-untied").join("model.safetensors")).unwrap();
    assert_eq!(d["model"]["sources"][4]["blake3"], blake3::hash(&weights).to_hex().as_str());
    let mut end = 0;
    for object in d["objects"].as_array().unwrap().iter().chain(d["tensors"].as_array().unwrap()) {
        let (offset, bytes) = (object["offset"].as_u64().unwrap() as usize, object["bytes"].as_u64().unwrap() as usize);
        assert_eq!(offset, usize::next_multiple_of(end, 256), "{object}");
        let at = good.payload_start + offset;
        assert_eq!(object["blake3"], blake3::hash(&good.bytes[at..at + bytes]).to_hex().as_str());
        assert!(good.bytes[good.payload_start + end..at].iter().all(|byte| *byte == 0));
        end = offset + bytes;
    }
    assert_eq!(d["payload_bytes"], end);
    assert_eq!(good.bytes.len(), good.payload_start + end);
    let path = good.file("layout", &good.bytes);
    let artifact = Artifact::open(&path, LoadMode::Mmap).unwrap();
    assert_eq!(artifact.directory_json(), *d);
    let mut seen = (0, 0);
    let report = artifact.verify(&mut |done, total| {
        assert!(seen.0 <= done && done <= total);
        seen = (done, total);
    });
    assert_eq!(seen, (end as u64, end as u64));
    assert_eq!(report.unwrap().objects, 2 + 25);
}

/// Not one byte before the payload can change unnoticed.
#[test]
fn every_byte_of_header_directory_and_padding_is_guarded() {
    let good = Good::of(&Checkpoint::small());
    let mut bytes = good.bytes.clone();
    for at in 0..good.payload_start {
        bytes[at] ^= 0x20;
        let text = good.refusal("head", &bytes);
        let (part, numbers) = match at {
            0..7 => ("F: magic: is not a .zynfer file: ", format!("found \"{}\"", bytes[..8].escape_ascii())),
            7 => (
                "F: magic: another version of the format than this build reads: compile the model anew: ",
                "expected 2, found 34".into(),
            ),
            8..16 => ("F: ", "found".into()),
            _ if at < good.directory_range.end => {
                ("F: directory: damaged: its blake3 is not the one in the header: ", "expected".into())
            }
            _ => ("F: padding: damaged at byte ", format!("{at}: expected 0, found 32")),
        };
        assert!(text.starts_with(part) && text.contains(&numbers), "byte {at}: {text}");
        bytes[at] ^= 0x20;
    }
}

#[test]
fn every_length_but_the_right_one_is_refused() {
    let good = good();
    let full = good.bytes.len();
    let end = good.directory_range.end;
    let directory = "F: file ends inside the directory: expected at least";
    for (length, message) in [
        (0, "F: magic: is not a .zynfer file: expected \"ZYNFER\\x00\\x02\", found an empty file".to_owned()),
        (7, "F: magic: is not a .zynfer file: expected \"ZYNFER\\x00\\x02\", found \"ZYNFER\\x00\"".to_owned()),
        (8, "F: file ends inside the header: expected at least 48 bytes, found 8".to_owned()),
        (47, "F: file ends inside the header: expected at least 48 bytes, found 47".to_owned()),
        (48, format!("{directory} {end} bytes, found 48")),
        (end - 1, format!("{directory} {end} bytes, found {}", end - 1)),
        (
            end,
            format!(
                "F: file ends inside the padding after the directory: expected at least {} bytes, found {end}",
                good.payload_start
            ),
        ),
        (
            good.payload_start,
            format!("F: payload: file is cut short: expected {} bytes, found 0", full - good.payload_start),
        ),
        (
            full - 1,
            format!(
                "F: payload: file is cut short: expected {} bytes, found {}",
                full - good.payload_start,
                full - good.payload_start - 1
            ),
        ),
    ] {
        assert_message(&good.refusal("length", &good.bytes[..length]), &message);
    }
    let longer = [good.bytes.as_slice(), &[0]].concat();
    let payload = full - good.payload_start;
    assert_message(
        &good.refusal("length", &longer),
        &format!("F: payload: bytes after the last object: expected {payload} bytes, found {}", payload + 1),
    );
    let mut absurd = good.bytes.clone();
    absurd[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_message(
        &good.refusal("length", &absurd),
        "F: directory length: over the limit: expected at most 100000000 bytes, found 18446744073709551615",
    );
}

#[test]
fn damaged_text_is_refused_when_opened() {
    let good = good();
    for object in good.directory["objects"].as_array().unwrap() {
        let mut bytes = good.bytes.clone();
        let at = good.payload_start + object["offset"].as_u64().unwrap() as usize;
        let length = object["bytes"].as_u64().unwrap() as usize;
        bytes[at + length - 1] ^= 1;
        assert_message(
            &good.refusal("text", &bytes),
            &format!(
                "F: {}: damaged: its blake3 is not the one in the directory: expected {}, found {}",
                object["name"].as_str().unwrap(),
                object["blake3"].as_str().unwrap(),
                blake3::hash(&bytes[at..at + length]).to_hex()
            ),
        );
    }
}

/// First, middle and last byte of every tensor, and every padding byte between objects.
#[test]
fn damaged_weights_and_padding_are_found_by_verify() {
    let good = good();
    let mut bytes = good.bytes.clone();
    let mut end = good.payload_start;
    let mut damage = |at: usize, expected: &str| {
        bytes[at] ^= 4;
        let path = good.file("weights", &bytes);
        for mode in [LoadMode::Mmap, LoadMode::Read] {
            let error = Artifact::open(&path, mode).unwrap().verify(&mut |_, _| {}).expect_err("verified");
            let text = good.text(&path, error);
            assert!(text.starts_with(expected), "byte {at}: {text}");
        }
        bytes[at] ^= 4;
    };
    let objects = good.directory["objects"].as_array().unwrap();
    for (index, object) in objects.iter().chain(good.directory["tensors"].as_array().unwrap()).enumerate() {
        let name = object["name"].as_str().unwrap();
        let at = good.payload_start + object["offset"].as_u64().unwrap() as usize;
        let length = object["bytes"].as_u64().unwrap() as usize;
        for padding in [end, at.wrapping_sub(1)] {
            if (end..at).contains(&padding) {
                damage(padding, &format!("F: padding before {name}: damaged at byte {padding}: expected 0, found 4"));
            }
        }
        if index >= objects.len() {
            for byte in [at, at + length / 2, at + length - 1] {
                let expected = object["blake3"].as_str().unwrap();
                damage(
                    byte,
                    &format!(
                        "F: {name}: damaged: its blake3 is not the one in the directory: expected {expected}, found "
                    ),
                );
            }
        }
        end = at + length;
    }
}

#[test]
fn directories_of_other_versions_families_or_with_unknown_keys_are_refused() {
    let good = good();
    assert_message(
        &good.changed("version", |d| {
            d["format_version"] = json!(1);
            d["layers"] = json!([]);
        }),
        "F: format_version: not the version this build reads: expected 2, found 1",
    );
    for (place, key) in [
        ("", "quantization"),
        ("/model", "owner"),
        ("/architecture", "softcap"),
        ("/tensors/3", "scheme"),
        ("/objects/0", "mime"),
        ("/generation", "typical_p"),
        ("/conventions", "rope"),
        ("/tool", "commit"),
    ] {
        let text = good.changed("unknown", |d| {
            d.pointer_mut(place).unwrap()[key] = json!(1);
        });
        let part = format!("F: directory: cannot be read as JSON: unknown field `{key}`");
        assert!(text.starts_with(&part), "{text}");
    }
    for (place, value) in
        [("/model/family", "qwen4"), ("/conventions/norm_weight", "one_plus"), ("/tensors/0/dtype", "F8_E5M2")]
    {
        let text = good.changed("unknown", |d| *d.pointer_mut(place).unwrap() = json!(value));
        assert!(
            text.starts_with(&format!("F: directory: cannot be read as JSON: unknown variant `{value}`")),
            "{text}"
        );
    }
    let text = good.changed("missing", |d| drop(d.as_object_mut().unwrap().remove("end_ids")));
    assert!(text.starts_with("F: directory: cannot be read as JSON: missing field `end_ids`"), "{text}");
    let twice = good.directory.to_string().replacen("\"end_ids\":", "\"end_ids\":[1],\"end_ids\":", 1);
    let text = good.refusal("twice", &good.with_directory(twice.as_bytes()));
    assert!(text.starts_with("F: directory: cannot be read as JSON: duplicate field `end_ids`"), "{text}");
    let spelling = "F: directory: is not spelled as this format spells it";
    assert_message(&good.changed("null", |d| drop(d["generation"].as_object_mut().unwrap().remove("top_k"))), spelling);
    let spaced = good.directory.to_string().replacen(':', ": ", 1);
    assert_message(&good.refusal("spaced", &good.with_directory(spaced.as_bytes())), spelling);
    let text = good.refusal("utf8", &good.with_directory(b"{\"format_version\": \xff}"));
    assert!(text.starts_with("F: directory: cannot be read as JSON: "), "{text}");
    assert_message(
        &good.refusal("empty", &good.with_directory(b"")),
        "F: directory: cannot be read as JSON: EOF while parsing a value at line 1 column 0",
    );
}

#[test]
fn directories_that_contradict_themselves_or_the_file_are_refused() {
    let good = good();
    let number = |place: &str| good.directory.pointer(place).unwrap().as_u64().unwrap();
    let second = number("/tensors/1/offset");
    let name = "model.layers.0.input_layernorm.weight";
    let set = |place: &'static str, value: Value| move |d: &mut Value| *d.pointer_mut(place).unwrap() = value;
    let payload = number("/payload_bytes");
    for (change, message) in [
        (
            set("/tensors/1/offset", json!(second + 2)),
            format!("F: {name}: badly aligned: expected an offset that is a multiple of 256, found {}", second + 2),
        ),
        (
            set("/tensors/1/offset", json!(second - 256)),
            format!("F: {name}: overlaps the object before it: expected offset {second}, found {}", second - 256),
        ),
        (
            set("/tensors/1/offset", json!(second + 256)),
            format!("F: {name}: leaves a gap before it: expected offset {second}, found {}", second + 256),
        ),
        (
            set("/tensors/1/offset", json!(u64::MAX - 255)),
            format!("F: {name}: leaves a gap before it: expected offset {second}, found {}", u64::MAX - 255),
        ),
        (
            set("/tensors/1/bytes", json!(u64::MAX)),
            format!("F: {name}: ends past the payload: expected at most {} bytes, found {}", payload - second, u64::MAX),
        ),
        (
            set("/tensors/24/bytes", json!(639_998)),
            format!("F: payload_bytes: not where the last object ends: expected {}, found {payload}", payload - 2),
        ),
        (
            set("/payload_bytes", json!(payload + 256)),
            format!("F: payload_bytes: not where the last object ends: expected {payload}, found {}", payload + 256),
        ),
        (
            set("/tensors/1/blake3", json!("AB")),
            format!("F: {name}: its blake3 is not 64 hexadecimal digits"),
        ),
        (
            set("/tensors/1/name", json!("model.layers.7.input_layernorm.weight")),
            format!(
                "F: tensors do not match the config (missing: {name}; not part of this architecture: \
                 model.layers.7.input_layernorm.weight): expected 25 tensors, found 25"
            ),
        ),
        (set("/tensors/1/shape", json!([160, 2])), format!("F: {name}: wrong shape: expected [320], found [160, 2]")),
        (
            set("/tensors/1/shape", json!([u64::MAX])),
            format!("F: {name}: wrong shape: expected [320], found [{}]", u64::MAX),
        ),
        (set("/objects/1/name", json!("tokenizer.json")), "F: tokenizer.json: object listed twice".into()),
        (set("/objects/1/name", json!("vocab.txt")), "F: vocab.txt: unknown object".into()),
        (set("/end_ids", json!([1000])), "F: end_ids: not in the vocabulary: expected ids below 1000, found 1000".into()),
        (set("/end_ids", json!([5, 5])), "F: end_ids: not in rising order".into()),
        (set("/generation/top_p", json!(1.5)), "F: generation.top_p: out of range: expected a number above 0 and at most 1, found 1.5".into()),
        (set("/architecture/head_dim", json!(32)), "F: head_dim: expected 64 or 128, found 32".into()),
        (
            set("/architecture/hidden_size", json!(u64::MAX)),
            format!("F: hidden_size: expected 1 to 131072, found {}", u64::MAX),
        ),
        (
            set("/architecture/tie_word_embeddings", json!(true)),
            "F: tensors do not match the config (not part of this architecture: lm_head.weight): expected 24 tensors, found 25".into(),
        ),
    ] {
        assert_message(&good.changed("claims", change), &message);
    }
    // Two tensors of one shape change places: their bytes would be read as each other's.
    assert_message(
        &good.changed("claims", |d| {
            let (k, v) = (d["tensors"][3]["name"].clone(), d["tensors"][4]["name"].clone());
            d["tensors"][3]["name"] = v;
            d["tensors"][4]["name"] = k;
        }),
        "F: tensors are not in order of first use: expected model.layers.0.self_attn.k_proj.weight, \
         found model.layers.0.self_attn.v_proj.weight",
    );
    assert_message(
        &good.changed("claims", |d| {
            let last = d["tensors"].as_array_mut().unwrap().pop().unwrap();
            d["payload_bytes"] = json!(last["offset"].as_u64().unwrap() - 128);
        }),
        &format!(
            "F: payload: bytes after the last object: expected {} bytes, found {payload}",
            number("/tensors/23/offset") + number("/tensors/23/bytes")
        ),
    );
}

#[test]
fn other_formats_are_recognised() {
    let good = good();
    assert_message(
        &good.refusal("gguf", b"GGUF\x03\0\0\0abcdefgh"),
        "F: magic: is a GGUF file, not a .zynfer file (compile it: zynfer compile FILE.gguf -o OUT.zynfer): \
         expected \"ZYNFER\\x00\\x02\", found \"GGUF\\x03\\x00\\x00\\x00\"",
    );
    assert_message(
        &good.refusal("lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 99\n"),
        "F: is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder: expected 99 bytes, found 64",
    );
}

/// A file shortened while it is verified ends in an error, not in a signal.
#[test]
fn a_file_cut_during_verify_is_an_error() {
    let good = good();
    let path = good.file("cut", &good.bytes);
    let artifact = Artifact::open(&path, LoadMode::Mmap).unwrap();
    let mut cut = false;
    let error = artifact.verify(&mut |_, _| {
        if !std::mem::replace(&mut cut, true) {
            fs::File::options().write(true).open(&path).unwrap().set_len(good.payload_start as u64).unwrap();
        }
    });
    let text = good.text(&path, error.expect_err("verified"));
    assert!(text.starts_with("F: cannot be read from byte "), "{text}");
    assert!(text.contains("(was it shortened?)"), "{text}");
}
