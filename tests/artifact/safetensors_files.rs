//! Damaged, hostile and merely odd safetensors files: one line each, with the tensor and both numbers (UX-31, UX-60).

use std::fs;

use half::bf16;
use serde_json::json;
use zynfer::artifact::{Artifact, LoadMode};

use crate::support::{Checkpoint, assert_message, raw_safetensors};

/// A folder whose model.safetensors is `bytes`.
fn with_file(bytes: &[u8]) -> Checkpoint {
    let checkpoint = Checkpoint::untied();
    checkpoint.write("model.safetensors", bytes);
    checkpoint
}

#[track_caller]
fn file_refused(bytes: &[u8], message: &str) {
    assert_message(&with_file(bytes).refusal(), &format!("model/model.safetensors: {message}"));
}

#[track_caller]
fn header_refused(header: &str, data: &[u8], message: &str) {
    file_refused(&raw_safetensors(header, data), message);
}

#[test]
fn short_files_and_absurd_header_lengths() {
    for length in 0..8 {
        file_refused(
            &vec![0x10; length],
            &format!("too short for the header's length: expected at least 8 bytes, found {length}"),
        );
    }
    let limit = "header length over the limit (no safetensors file, or damaged): expected at most 100000000 bytes";
    file_refused(&[0xff; 8], &format!("{limit}, found 18446744073709551615"));
    file_refused(&100_000_001u64.to_le_bytes(), &format!("{limit}, found 100000001"));
    let inside = "file ends inside the header: expected at least";
    file_refused(&100_000_000u64.to_le_bytes(), &format!("{inside} 100000008 bytes, found 8"));
    file_refused(&raw_safetensors("{}", &[])[..9], &format!("{inside} 10 bytes, found 9"));
    file_refused(&[0; 8], "header: cannot be read as JSON: EOF while parsing a value at line 1 column 0");
    header_refused(
        "[]",
        &[],
        "header: cannot be read as JSON: invalid type: sequence, expected an object of tensors at line 1 column 0",
    );
}

#[test]
fn every_truncation_of_a_good_file_is_refused() {
    let checkpoint = Checkpoint::untied();
    let whole = fs::read(checkpoint.path("model.safetensors")).unwrap();
    let last = checkpoint.weights().len();
    assert_eq!(last, 25);
    checkpoint.write("model.safetensors", &whole[..whole.len() - 1]);
    assert_message(
        &checkpoint.refusal(),
        &format!(
            "model/model.safetensors: model.norm.weight: file ends before the tensor does (incomplete download?): \
             expected at least {} bytes, found {}",
            whole.len(),
            whole.len() - 1
        ),
    );
    // Cut anywhere, the answer is a refusal that has the file's real length.
    for part in 0..64 {
        let length = whole.len() * part / 64;
        checkpoint.write("model.safetensors", &whole[..length]);
        let message = checkpoint.refusal();
        assert!(message.ends_with(&format!(", found {length}")), "{message}");
    }
    let longer = [whole.as_slice(), &[0]].concat();
    file_refused(
        &longer,
        &format!("bytes after the last tensor: expected {} bytes, found {}", whole.len(), longer.len()),
    );
}

#[test]
fn a_git_lfs_pointer_is_recognised() {
    file_refused(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 1503300328\n",
        "is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder: expected 1503300328 bytes, found 75",
    );
}

#[test]
fn headers_that_contradict_the_file() {
    let tensor = |shape: &str, begin: u64, end: u64| {
        format!(r#"{{"a":{{"dtype":"BF16","shape":{shape},"data_offsets":[{begin},{end}]}}}}"#)
    };
    header_refused(
        &tensor("[2]", 4, 0),
        &[0; 4],
        "a: data_offsets run backwards: expected an end of at least 4, found 0",
    );
    header_refused(
        &tensor("[3]", 0, 4),
        &[0; 4],
        "a: shape [3] of BF16 does not fill data_offsets: expected 6 bytes, found 4",
    );
    header_refused(
        &tensor("[4294967296, 4294967296]", 0, 4),
        &[0; 4],
        "a: shape [4294967296, 4294967296] of BF16 overflows: expected at most 4 bytes, found more than 2^64",
    );
    header_refused(
        &tensor("[2]", 2, 6),
        &[0; 6],
        "a: leaves a gap before it: expected data_offsets to begin at 0, found 2",
    );
    let past = tensor("[2]", u64::MAX - 4, u64::MAX);
    header_refused(
        &past,
        &[0; 4],
        &format!(
            "a: file ends before the tensor does (incomplete download?): expected at least {} bytes, found {}",
            u64::MAX,
            8 + past.len() + 4
        ),
    );
    let two = |first: [u64; 2], second: [u64; 2]| {
        format!(
            r#"{{"a":{{"dtype":"BF16","shape":[2],"data_offsets":{first:?}}},"b":{{"dtype":"BF16","shape":[2],"data_offsets":{second:?}}}}}"#
        )
    };
    header_refused(
        &two([0, 4], [2, 6]),
        &[0; 6],
        "b: overlaps the tensor before it: expected data_offsets to begin at 4, found 2",
    );
    header_refused(
        &two([0, 4], [6, 10]),
        &[0; 10],
        "b: leaves a gap before it: expected data_offsets to begin at 4, found 6",
    );
    header_refused(r#"{"a":{"dtype":"Q7","shape":[2],"data_offsets":[0,4]}}"#, &[0; 4], "a: unknown dtype \"Q7\"");
    let twice = r#"{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"a":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}}"#;
    let text = with_file(&raw_safetensors(twice, &[0; 4])).refusal();
    assert!(text.contains("the tensor `a` stands twice"), "{text}");
    let extra = r#"{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2],"scale":2}}"#;
    let text = with_file(&raw_safetensors(extra, &[0; 2])).refusal();
    assert!(text.contains("unknown field `scale`"), "{text}");
    let name = "a\\n\\u001b[31mred";
    let text = with_file(&raw_safetensors(&tensor("[3]", 0, 4).replace('a', name), &[0; 4])).refusal();
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[test]
fn missing_extra_and_foreign_tensors_are_all_named() {
    let checkpoint = Checkpoint::untied();
    checkpoint.edit_weights(|weights| {
        weights.retain(|(name, ..)| !name.contains("layers.1.mlp"));
        weights.push(("model.layers.0.self_attn.q_proj.bias".into(), vec![2], vec![0; 4]));
    });
    assert_message(
        &checkpoint.refusal(),
        "model: tensors do not match the config (missing: model.layers.1.mlp.gate_proj.weight, \
         model.layers.1.mlp.up_proj.weight, model.layers.1.mlp.down_proj.weight; \
         not part of this architecture: model.layers.0.self_attn.q_proj.bias): expected 25 tensors, found 23",
    );
}

#[test]
fn a_transposed_matrix_is_refused() {
    let checkpoint = Checkpoint::untied();
    checkpoint.edit_weights(|weights| {
        let (_, shape, _) = weights.iter_mut().find(|(name, ..)| name.ends_with("1.mlp.down_proj.weight")).unwrap();
        shape.reverse();
    });
    assert_message(
        &checkpoint.refusal(),
        "model: model.layers.1.mlp.down_proj.weight: wrong shape: expected [320, 832], found [832, 320]",
    );
}

#[test]
fn other_dtypes_are_refused_not_rounded() {
    for (dtype, bytes) in [("F32", 4), ("F16", 2)] {
        let checkpoint = Checkpoint::untied();
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        for (name, shape, bf16) in checkpoint.weights() {
            let begin = data.len();
            let wide = name == "model.norm.weight";
            data.resize(begin + if wide { bf16.len() / 2 * bytes } else { bf16.len() }, 0);
            let dtype = if wide { dtype } else { "BF16" };
            header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]}));
        }
        checkpoint.write("model.safetensors", raw_safetensors(&serde_json::Value::from(header).to_string(), &data));
        assert_message(
            &checkpoint.refusal(),
            &format!(
                "model: model.norm.weight: wrong dtype (weights are kept as they were trained, in bfloat16; save them so first): \
                 expected BF16, found {dtype}"
            ),
        );
    }
}

/// The format asks for no alignment: compiling heals what cannot be used in place.
#[test]
fn bf16_at_an_odd_place_compiles_but_is_not_used_in_place() {
    let checkpoint = Checkpoint::untied();
    let before = checkpoint.weights();
    let file = fs::read(checkpoint.path("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&file[8..8 + length]).unwrap().trim_end().to_owned();
    let odd = if header.len().is_multiple_of(2) { header + " " } else { header };
    checkpoint.write("model.safetensors", raw_safetensors(&odd, &file[8 + length..]));
    assert_eq!(checkpoint.weights(), before);
    let start = 8 + odd.len();
    let first = "lm_head.weight"; // file order is by name
    let text = checkpoint.text_of(Artifact::open(&checkpoint.folder(), LoadMode::Mmap).err().unwrap());
    assert!(
        text.starts_with(
            "model/model.safetensors: model.embed_tokens.weight: bf16 at an odd place cannot be used in place"
        ),
        "{text}"
    );
    let embedding = start + before.iter().find(|(name, ..)| name == first).unwrap().2.len();
    assert!(text.ends_with(&format!("expected an even byte offset, found {embedding}")), "{text}");
    let artifact = Artifact::open(&checkpoint.compiled("a.zynfer"), LoadMode::Mmap).unwrap();
    for (name, _, bytes) in &before {
        assert!(artifact.tensor(name).unwrap().bytes == bytes, "{name}");
    }
}

#[test]
fn a_tied_copy_of_the_embedding_is_stored_once_and_must_be_a_copy() {
    let plain = Checkpoint::tied();
    let parameters = plain.open().parameter_count();
    let copy = Checkpoint::tied();
    let embedding = |weights: &[(String, Vec<usize>, Vec<u8>)]| {
        weights.iter().find(|(name, ..)| name == "model.embed_tokens.weight").unwrap().clone()
    };
    copy.edit_weights(|weights| {
        let (_, shape, bytes) = embedding(weights);
        weights.push(("lm_head.weight".into(), shape, bytes));
    });
    let artifact = Artifact::open(&copy.compiled("a.zynfer"), LoadMode::Mmap).unwrap();
    assert_eq!(artifact.parameter_count(), parameters);
    assert!(artifact.tensor("lm_head.weight").is_none());
    let size = |path| fs::metadata(path).unwrap().len();
    assert_eq!(size(copy.beside("a.zynfer")), size(plain.compiled("b.zynfer")));
    copy.edit_weights(|weights| {
        let lm_head = weights.iter_mut().find(|(name, ..)| name == "lm_head.weight").unwrap();
        lm_head.2[1234] ^= 1;
    });
    assert_message(
        &copy.refusal(),
        "model: lm_head.weight: tie_word_embeddings is true, but it differs from model.embed_tokens.weight at byte 1234: \
         expected 2097152 equal bytes, found 2097152 bytes",
    );
}

/// Adds `shift` to every element of the norm vectors that `which` selects.
fn shift_norms(checkpoint: &Checkpoint, shift: f32, which: impl Fn(&str) -> bool) {
    checkpoint.edit_weights(|weights| {
        for (name, _, bytes) in weights.iter_mut().filter(|(name, ..)| name.ends_with("norm.weight") && which(name)) {
            assert!(!name.is_empty());
            for pair in bytes.chunks_exact_mut(2) {
                let value = bf16::from_le_bytes([pair[0], pair[1]]).to_f32() + shift;
                pair.copy_from_slice(&bf16::from_f32(value).to_le_bytes());
            }
        }
    });
}

/// UX-60: zero-centred norm weights have the right names and shapes and would compute noise.
#[test]
fn zero_centred_norm_weights_are_refused() {
    for (fixture, which) in [
        (Checkpoint::untied as fn() -> Checkpoint, None),
        (Checkpoint::tied, None),
        (Checkpoint::untied, Some("model.layers.1.self_attn.k_norm.weight")),
        (Checkpoint::untied, Some("model.norm.weight")),
    ] {
        let checkpoint = fixture();
        shift_norms(&checkpoint, -1.0, |name| which.is_none_or(|which| name == which));
        let text = checkpoint.refusal();
        let tensor = which.unwrap_or("norm.weight");
        assert!(
            text.contains(&format!("{tensor}: norm weights of qwen3 are the factor itself, these are centred on zero")),
            "{text}"
        );
        assert!(text.contains(": expected a mean near 1, found a mean of "), "{text}");
    }
}

/// Trained factors of the Llama shape lie around zero with both signs, SmolLM2's for one; only what is not finite is refused.
#[test]
fn norm_vectors_of_the_llama_shape_may_be_centred_on_zero() {
    let checkpoint = Checkpoint::weights_of("llama-d64-untied");
    shift_norms(&checkpoint, -1.0, |_| true);
    checkpoint.open();
    shift_norms(&checkpoint, f32::INFINITY, |name| name == "model.norm.weight");
    let text = checkpoint.refusal();
    assert!(text.contains("model.norm.weight: element 0 is inf"), "{text}");
}

/// Small factors are not a contradiction: trained models have them, all positive. Nor are large ones.
#[test]
fn small_and_large_norm_factors_are_accepted() {
    let checkpoint = Checkpoint::untied();
    checkpoint.edit_weights(|weights| {
        for (name, _, bytes) in weights.iter_mut() {
            let factor = match name.as_str() {
                "model.layers.0.input_layernorm.weight" => 0.03,
                "model.norm.weight" => 6.5,
                _ => continue,
            };
            for pair in bytes.chunks_exact_mut(2) {
                let value = bf16::from_le_bytes([pair[0], pair[1]]).to_f32() * factor;
                pair.copy_from_slice(&bf16::from_f32(value).to_le_bytes());
            }
        }
    });
    checkpoint.open();
    checkpoint.compiled("a.zynfer");
}

#[test]
fn weights_that_are_not_finite_are_refused_when_compiled() {
    for (name, element, value) in [
        ("model.layers.1.mlp.up_proj.weight", 4321, bf16::NAN),
        ("lm_head.weight", 0, bf16::INFINITY),
        ("model.embed_tokens.weight", 319_999, bf16::NEG_INFINITY),
    ] {
        let checkpoint = Checkpoint::untied();
        checkpoint.edit_weights(|weights| {
            let (_, _, bytes) = weights.iter_mut().find(|(other, ..)| other == name).unwrap();
            bytes[2 * element..2 * element + 2].copy_from_slice(&value.to_le_bytes());
        });
        let out = checkpoint.beside("a.zynfer");
        let error = zynfer::artifact::compile(&checkpoint.folder(), &out, &mut |_, _| {}).unwrap_err();
        assert_message(
            &checkpoint.text_of(error),
            &format!(
                "model/model.safetensors: {name}: element {element} is no finite number: expected a finite weight, found {value}"
            ),
        );
        checkpoint.assert_nothing_left(&out);
    }
}
