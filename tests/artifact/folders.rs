//! Which files of a folder count: shards and their index (UX-33), links, odd names and missing files (UX-39).

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
};

use zynfer::artifact::{Artifact, LoadMode};

use crate::support::{Checkpoint, INDEX, assert_message, fixture, safetensors_bytes};

#[test]
fn missing_shards_are_all_named() {
    let checkpoint = Checkpoint::untied();
    let names = checkpoint.shard(4);
    fs::remove_file(checkpoint.path(&names[1])).unwrap();
    fs::remove_file(checkpoint.path(&names[3])).unwrap();
    assert_message(
        &checkpoint.refusal(),
        "model/model.safetensors.index.json: shards are missing: model-00002-of-00004.safetensors, \
         model-00004-of-00004.safetensors (incomplete download?): expected 4 shards, found 2",
    );
}

#[test]
fn only_the_shards_of_the_index_are_read() {
    let checkpoint = Checkpoint::untied();
    checkpoint.shard(2);
    checkpoint.write("model.safetensors", "not weights at all");
    checkpoint.write("model-00003-of-00002.safetensors", "nor this");
    let artifact = checkpoint.open();
    let expected =
        "not in model.safetensors.index.json, so not read: model-00003-of-00002.safetensors, model.safetensors";
    assert!(artifact.notes().contains(&expected.to_owned()), "{:?}", artifact.notes());
    assert_eq!(artifact.tensors().len(), 25);
}

#[test]
fn shard_names_cannot_leave_the_folder() {
    for name in [
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "..",
        "",
        "x.bin",
        "a\\b.safetensors",
        "./x.safetensors",
    ] {
        let checkpoint = Checkpoint::untied();
        checkpoint.shard(2);
        fs::copy(checkpoint.path("config.json"), checkpoint.beside("x.safetensors")).unwrap();
        checkpoint.map_weight("model.norm.weight", name);
        assert_message(
            &checkpoint.refusal(),
            &format!(
                "model/model.safetensors.index.json: weight_map: shard outside the folder, or no plain file name: \
                 expected a plain name ending in .safetensors, found {name:?}"
            ),
        );
    }
}

#[test]
fn a_link_out_of_the_folder_is_refused_and_one_inside_is_not() {
    let checkpoint = Checkpoint::untied();
    let names = checkpoint.shard(2);
    let outside = checkpoint.beside("outside.safetensors");
    fs::rename(checkpoint.path(&names[1]), &outside).unwrap();
    symlink(&outside, checkpoint.path(&names[1])).unwrap();
    let text = checkpoint.refusal();
    assert!(
        text.starts_with(&format!("model/{}: is a link out of the model's folder: expected a file in ", names[1])),
        "{text}"
    );
    assert!(text.ends_with("outside.safetensors"), "{text}");
    fs::rename(&outside, checkpoint.path("elsewhere")).unwrap();
    fs::remove_file(checkpoint.path(&names[1])).unwrap();
    symlink("elsewhere", checkpoint.path(&names[1])).unwrap();
    checkpoint.open();
    fs::remove_file(checkpoint.path("elsewhere")).unwrap(); // the link dangles
    assert!(checkpoint.refusal().contains(&format!("shards are missing: {} (incomplete download?)", names[1])));
}

/// The Hugging Face cache keeps files in `blobs` and links to them from `snapshots/REVISION`: what users have on their disks.
#[test]
fn a_hugging_face_cache_opens() {
    let root = tempfile::tempdir().unwrap();
    let repository = root.path().join("models--org--name");
    let (blobs, snapshot) = (repository.join("blobs"), repository.join("snapshots/0123abcd"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    for (blob, name) in ["config.json", "generation_config.json", "model.safetensors"].iter().enumerate() {
        fs::copy(fixture("qwen3-d64-untied").join(name), blobs.join(blob.to_string())).unwrap();
        symlink(Path::new("../../blobs").join(blob.to_string()), snapshot.join(name)).unwrap();
    }
    assert_eq!(Artifact::open(&snapshot, LoadMode::Mmap).unwrap().tensors().len(), 25);
}

#[test]
fn a_tensor_in_the_wrong_shard_or_in_two_is_refused() {
    let checkpoint = Checkpoint::untied();
    let names = checkpoint.shard(2);
    let first = checkpoint.json(INDEX)["weight_map"]["lm_head.weight"].as_str().unwrap().to_owned();
    let other = names.iter().find(|name| **name != first).unwrap();
    checkpoint.map_weight("lm_head.weight", other);
    assert_message(
        &checkpoint.refusal(),
        &format!(
            "model/{first}: lm_head.weight: tensor stands in another shard than the index says: expected {other}, found {first}"
        ),
    );
    checkpoint.map_weight("lm_head.weight", &first);
    checkpoint.map_weight("model.layers.9.x.weight", &first);
    assert_message(
        &checkpoint.refusal(),
        &format!(
            "model/{first}: model.layers.9.x.weight: lacks a tensor that model.safetensors.index.json places there"
        ),
    );

    let checkpoint = Checkpoint::untied();
    let weights = checkpoint.weights();
    let names = checkpoint.shard(2);
    let norm = weights.iter().find(|(name, ..)| name == "model.norm.weight").unwrap().clone();
    let both: Vec<_> =
        weights.iter().enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, w)| w.clone()).chain([norm]).collect();
    checkpoint.write(&names[1], safetensors_bytes(&both));
    let text = checkpoint.refusal();
    assert_message(
        &text,
        &format!("model/{}: model.norm.weight: tensor stands in two shards, also in {}", names[1], names[0]),
    );

    let checkpoint = Checkpoint::untied();
    let names = checkpoint.shard(1);
    checkpoint
        .edit(INDEX, |index| drop(index["weight_map"].as_object_mut().unwrap().remove("model.norm.weight").unwrap()));
    assert_message(
        &checkpoint.refusal(),
        &format!("model/{}: model.norm.weight: tensor is not in model.safetensors.index.json", names[0]),
    );
}

#[test]
fn damaged_indexes_are_refused() {
    let checkpoint = Checkpoint::untied();
    checkpoint.shard(1);
    checkpoint.write(INDEX, r#"{"weight_map": {}}"#);
    assert_message(&checkpoint.refusal(), "model/model.safetensors.index.json: weight_map: lists no tensor");
    for (text, part) in [
        ("", "EOF while parsing a value"),
        ("{}", "missing field `weight_map`"),
        (r#"{"weight_map": {"a": 5}}"#, "invalid type: integer `5`, expected a string"),
        (r#"{"weight_map": {"a": "x", "a": "y"}}"#, "the key `a` stands twice"),
    ] {
        checkpoint.write(INDEX, text);
        let message = checkpoint.refusal();
        assert!(message.starts_with("model/model.safetensors.index.json: cannot be read as JSON: "), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_folder_without_readable_weights_says_what_it_has() {
    let checkpoint = Checkpoint::untied();
    fs::remove_file(checkpoint.path("model.safetensors")).unwrap();
    let expected = "expected model.safetensors or model.safetensors.index.json, found";
    assert_message(&checkpoint.refusal(), &format!("model: no weights this build reads: {expected} no weights at all"));
    checkpoint.write("pytorch_model.bin", "x");
    checkpoint.write("model-Q4_K_M.gguf", "x");
    assert_message(
        &checkpoint.refusal(),
        &format!("model: no weights this build reads: {expected} model-Q4_K_M.gguf, pytorch_model.bin"),
    );
    fs::create_dir(checkpoint.path("model.safetensors")).unwrap();
    assert_message(&checkpoint.refusal(), "model/model.safetensors: is a folder, not a file");
}

#[test]
fn paths_that_are_not_there_or_not_models() {
    let checkpoint = Checkpoint::untied();
    let refused = |path: &Path| checkpoint.text_of(Artifact::open(path, LoadMode::Mmap).err().unwrap());
    assert_message(
        &refused(&checkpoint.beside("nowhere")),
        "nowhere: cannot be opened: No such file or directory (os error 2)",
    );
    assert_message(&refused(Path::new("/dev/zero")), "/dev/zero: is no regular file");
    let weights = checkpoint.path("model.safetensors");
    let start = fs::read(&weights).unwrap()[..8].escape_ascii().to_string();
    assert_message(
        &refused(&weights),
        &format!(
            "model/model.safetensors: magic: is a safetensors file, not a .zynfer file (give the folder it lies in): \
             expected \"ZYNFER\\x00\\x02\", found \"{start}\""
        ),
    );
}

#[test]
fn odd_but_legal_names_work() {
    let checkpoint = Checkpoint::untied();
    let long = "x".repeat(250);
    for name in [
        OsStr::new("модель 1 é"),
        OsStr::from_bytes(b"not \xff utf-8 \xfe"),
        OsStr::new("trailing "),
        OsStr::new(&long),
    ] {
        let folder = checkpoint.beside("").join(name);
        fs::rename(checkpoint.folder(), &folder).unwrap();
        let artifact = Artifact::open(&folder, LoadMode::Mmap).unwrap();
        assert_eq!(artifact.name(), name.to_string_lossy());
        let out = folder.join(name).with_extension("zynfer");
        // 250 bytes and the extension are over the file system's 255: an error of the system, with the path.
        match zynfer::artifact::compile(&folder, &out, &mut |_, _| {}) {
            Ok(_) => assert_eq!(Artifact::open(&out, LoadMode::Read).unwrap().tensors().len(), 25),
            Err(error) => {
                assert!(name.len() == 250, "{error}");
                assert!(error.to_string().contains("File name too long"), "{error}");
            }
        }
        fs::rename(&folder, checkpoint.folder()).unwrap();
    }
    let link = checkpoint.beside("link");
    symlink("model", &link).unwrap();
    assert_eq!(Artifact::open(&link, LoadMode::Mmap).unwrap().name(), "model");
    let dotted = checkpoint.folder().join("..").join("model").join(".");
    assert_eq!(Artifact::open(&dotted, LoadMode::Mmap).unwrap().name(), "model");
}

/// A shard that is cut while it is in use is reported with both lengths.
#[test]
fn a_file_that_changes_under_the_mapping_is_reported() {
    let checkpoint = Checkpoint::untied();
    let artifact = checkpoint.open();
    artifact.check_unchanged().unwrap();
    let file = fs::File::options().write(true).open(checkpoint.path("model.safetensors")).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 2).unwrap();
    assert_message(
        &checkpoint.text_of(artifact.check_unchanged().unwrap_err()),
        &format!(
            "model/model.safetensors: changed its length in bytes while in use: expected {length}, found {}",
            length - 2
        ),
    );
    file.set_len(length).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_message(
        &checkpoint.text_of(artifact.check_unchanged().unwrap_err()),
        "model/model.safetensors: was modified while in use",
    );
    let read = Artifact::open(&checkpoint.folder(), LoadMode::Read).unwrap();
    file.set_len(0).unwrap();
    read.check_unchanged().unwrap();
    assert_eq!(read.tensor("model.norm.weight").unwrap().as_bf16().unwrap().len(), 320);
}
