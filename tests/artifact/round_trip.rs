//! A checkpoint's bytes survive compiling, in every family, from one file and from shards, by mapping and by reading.

use std::{fs, path::Path};

use safetensors::SafeTensors;
use zynfer::artifact::{Artifact, LoadMode, compile, expected_tensors};
use zynfer::model::family::Family;

use crate::support::{Checkpoint, fixture};

/// Every tensor equals the one the reference implementation of safetensors finds, and there is no other.
#[track_caller]
fn assert_same_weights(artifact: &Artifact, checkpoint: &Path) {
    let file = fs::read(checkpoint.join("model.safetensors")).unwrap();
    let reference = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(artifact.tensors().len(), reference.len());
    for (name, view) in reference.iter() {
        let tensor = artifact.tensor(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(tensor.shape, view.shape(), "{name}");
        assert!(tensor.bytes == view.data(), "{name} has other bytes");
        assert_eq!(tensor.as_bf16().map(<[_]>::len), Some(view.data().len() / 2), "{name}");
    }
    let order: Vec<String> = expected_tensors(artifact.config()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(artifact.tensors().map(|t| t.name.to_owned()).collect::<Vec<_>>(), order);
}

#[test]
fn fixtures_keep_every_byte_and_their_family() {
    for (name, family) in [
        ("tiny-qwen3", Family::Qwen3),
        ("qwen3-d64-untied", Family::Qwen3),
        ("qwen2-d64", Family::Qwen2),
        ("llama-d64-untied", Family::Llama),
    ] {
        let folder = fixture(name);
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("model.zynfer");
        let report = compile(&folder, &out, &mut |_, _| {}).unwrap();
        assert_eq!(report.file_bytes, fs::metadata(&out).unwrap().len());
        for mode in [LoadMode::Mmap, LoadMode::Read] {
            let opened = Artifact::open(&folder, mode).unwrap();
            assert!(opened.is_folder());
            assert_same_weights(&opened, &folder);
            let compiled = Artifact::open(&out, mode).unwrap();
            assert!(!compiled.is_folder());
            assert_same_weights(&compiled, &folder);
            assert_eq!(compiled.config(), opened.config());
            assert_eq!(compiled.config().family, family);
            assert_eq!(compiled.directory_json()["model"]["family"], family.name());
            assert_eq!(compiled.generation(), opened.generation());
            assert_eq!(compiled.end_ids(), opened.end_ids());
            assert_eq!(compiled.chat_template(), opened.chat_template());
            assert_eq!(compiled.tokenizer_json(), fs::read(folder.join("tokenizer.json")).ok().as_deref());
            assert_eq!((compiled.name(), opened.name()), (name, name));
            assert_eq!(compiled.weight_bytes(), report.weight_bytes);
            let verified = compiled.verify(&mut |_, _| {}).unwrap();
            assert_eq!(
                verified.objects,
                report.tensor_count + usize::from(report.has_tokenizer) + usize::from(report.has_chat_template)
            );
            for tensor in compiled.tensors() {
                assert_eq!(tensor.bytes.as_ptr() as usize % 256, 0, "{} is not aligned in memory", tensor.name);
            }
        }
    }
}

#[test]
fn shards_give_the_same_model_as_one_file() {
    let checkpoint = Checkpoint::untied();
    let names = checkpoint.shard(3);
    assert_same_weights(&checkpoint.open(), &fixture("qwen3-d64-untied"));
    let compiled = Artifact::open(&checkpoint.compiled("out.zynfer"), LoadMode::Mmap).unwrap();
    assert_same_weights(&compiled, &fixture("qwen3-d64-untied"));
    let sources = compiled.directory_json()["model"]["sources"].clone();
    let files: Vec<&str> = sources.as_array().unwrap().iter().map(|s| s["file"].as_str().unwrap()).collect();
    for name in &names {
        assert!(files.contains(&name.as_str()), "{files:?}");
    }
}
