//! Quantized artifacts: what is written reads back, is as long as the scheme says, stays within its error, is verified; and directories that
//! claim another scheme, group or length are refused.

use std::{fs, path::Path};

use serde_json::{Value, json};
use zynfer::{
    artifact::{Artifact, LoadMode, compile_quantized},
    quant::{Matrix, Recipe, Scheme},
};

use crate::support::{Checkpoint, fixture};

fn compiled(folder: &Path, out: &Path, recipe: &Recipe) -> Artifact {
    compile_quantized(folder, out, recipe, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
    Artifact::open(out, LoadMode::Mmap).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_scheme_reads_back_in_its_size_and_near_its_source() {
    let folder = fixture("tiny-qwen3");
    let source = Artifact::open(&folder, LoadMode::Mmap).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    // Bits of a weight with its scales, and the relative error of a matrix (root of the mean square) that normal weights stay below.
    for (scheme, bits, bar) in [
        ("int8", 8.0, 0.012),
        ("int8:32", 8.5, 0.006),
        ("int8:64", 8.25, 0.012),
        ("int8:128", 8.125, 0.012),
        ("fp8-e4m3", 8.0, 0.03),
        ("int4:32", 4.5, 0.09),
        ("int4:64", 4.25, 0.12),
        ("int4:128", 4.125, 0.12),
        ("int4m:32", 5.0, 0.09),
        ("int4m:64", 4.5, 0.09),
        ("int4m:128", 4.25, 0.12),
    ] {
        let scheme: Scheme = scheme.parse().unwrap();
        let artifact = compiled(&folder, &scratch.path().join("a.zynfer"), &Recipe::new(scheme));
        let (mut matrices, mut bytes) = (0, 0);
        for tensor in artifact.tensors() {
            let original = source.tensor(tensor.name).unwrap();
            let [n, k] = *tensor.shape else {
                assert_eq!((tensor.scheme, tensor.bytes), (Scheme::Bf16, original.bytes), "{}", tensor.name);
                continue;
            };
            assert_eq!(tensor.scheme, scheme, "{}", tensor.name);
            let matrix = Matrix::new(scheme, tensor.shape, tensor.bytes).unwrap();
            let mut row = vec![0.0; k];
            let (mut error, mut size) = (0f64, 0f64);
            for (index, expected) in original.as_bf16().unwrap().chunks_exact(k).enumerate() {
                matrix.decode_row(index, &mut row);
                for (found, expected) in row.iter().zip(expected) {
                    let expected = f64::from(expected.to_f32());
                    error += (f64::from(*found) - expected).powi(2);
                    size += expected.powi(2);
                }
            }
            let relative = (error / size).sqrt();
            assert!(relative < bar, "{scheme} {}: {relative}", tensor.name);
            matrices += n * k;
            bytes += tensor.bytes.len();
        }
        let found = 8.0 * bytes as f64 / matrices as f64;
        assert!((found / bits - 1.0).abs() < 0.02, "{scheme}: {found} bits per weight, {bits} expected");
        let verified = artifact.verify(&mut |_, _| {}).unwrap();
        assert_eq!(verified.objects, artifact.tensors().len() + 2);
    }
}

#[test]
fn the_same_folder_gives_the_same_bytes_and_classes_are_kept_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let out = |name: &str| scratch.path().join(name);
    let folder = fixture("qwen3-d64-untied");
    let recipe = Recipe::new(Scheme::Int4(64)).keep("lm_head=bf16,down=int8:32").unwrap();
    let artifact = compiled(&folder, &out("a"), &recipe);
    compiled(&folder, &out("b"), &recipe);
    assert!(fs::read(out("a")).unwrap() == fs::read(out("b")).unwrap());
    for tensor in artifact.tensors().filter(|tensor| tensor.shape.len() == 2) {
        let expected = match tensor.name {
            "lm_head.weight" => Scheme::Bf16,
            name if name.ends_with("down_proj.weight") => Scheme::Int8(32),
            _ => Scheme::Int4(64),
        };
        assert_eq!(tensor.scheme, expected, "{}", tensor.name);
    }
}

#[test]
fn a_row_that_is_no_multiple_of_the_group_is_refused_before_anything_is_written() {
    let checkpoint = Checkpoint::untied();
    let out = checkpoint.beside("out.zynfer");
    let refused = compile_quantized(&checkpoint.folder(), &out, &Recipe::new(Scheme::Int4(128)), &mut |_, _| {});
    let text = checkpoint.text_of(refused.unwrap_err());
    assert!(
        text.ends_with("model: model.embed_tokens.weight: int4:128: 320 elements in a row, a multiple of 128 expected"),
        "{text}"
    );
    checkpoint.assert_nothing_left(&out);
}

/// A small quantized file whose directory can be changed and hashed anew, as a hostile writer would.
struct Good {
    scratch: tempfile::TempDir,
    bytes: Vec<u8>,
    end: usize,
}

impl Good {
    fn new() -> Self {
        let checkpoint = Checkpoint::small();
        let scratch = tempfile::tempdir().unwrap();
        compiled(&checkpoint.folder(), &scratch.path().join("good"), &Recipe::new(Scheme::Int4Min(32)));
        let bytes = fs::read(scratch.path().join("good")).unwrap();
        let end = 48 + u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
        Self { scratch, bytes, end }
    }

    fn directory(&self) -> Value {
        serde_json::from_slice(&self.bytes[48..self.end]).unwrap()
    }

    /// Opens the file with this directory; the error without the path.
    fn with(&self, directory: &Value, payload: &[u8]) -> Result<Artifact, String> {
        let text = directory.to_string();
        let mut file = self.bytes[..8].to_vec();
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(blake3::hash(text.as_bytes()).as_bytes());
        file.extend(text.as_bytes());
        file.resize(file.len().next_multiple_of(4096), 0);
        file.extend(payload);
        let path = self.scratch.path().join("F");
        fs::write(&path, file).unwrap();
        let shown = format!("{}: ", path.display());
        Artifact::open(&path, LoadMode::Read).map_err(|error| error.to_string().replace(&shown, ""))
    }

    fn payload(&self) -> &[u8] {
        &self.bytes[self.end.next_multiple_of(4096)..]
    }
}

#[test]
fn directories_that_claim_another_scheme_group_or_length_are_refused() {
    let good = Good::new();
    assert!(good.with(&good.directory(), good.payload()).is_ok());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut directory = good.directory();
        let tensors = directory["tensors"].as_array_mut().unwrap();
        let matrix = tensors.iter_mut().find(|t| t["name"] == "model.embed_tokens.weight").unwrap();
        change(matrix);
        good.with(&directory, good.payload()).err().expect("refused")
    };
    let name = "model.embed_tokens.weight";
    // 3 × 64 nibbles are 96 bytes; scales at 256, minimums at 512, 12 bytes each.
    assert_eq!(
        changed(&|t| t["bytes"] = json!(525)),
        format!("{name}: int4m:32 of shape [3, 64] does not fill its bytes: expected 524 bytes, found 525")
    );
    assert_eq!(
        changed(&|t| t["dtype"] = json!("I4")),
        format!("{name}: int4:32 of shape [3, 64] does not fill its bytes: expected 268 bytes, found 524")
    );
    assert_eq!(
        changed(&|t| t["group"] = json!(128)),
        format!("{name}: int4m:128: 64 elements in a row, a multiple of 128 expected")
    );
    assert_eq!(
        changed(&|t| t["group"] = json!(0)),
        format!("{name}: int4m:0: 64 elements in a row, a multiple of 0 expected")
    );
    for (dtype, scheme) in [("I4MK", "int4mk:32"), ("I8MK", "int8mk:32"), ("I8K", "int8k:32")] {
        assert_eq!(
            changed(&|t| t["dtype"] = json!(dtype)),
            format!("{name}: {scheme}: 64 elements in a row, a multiple of 256 expected")
        );
    }
    assert!(changed(&|t| t["dtype"] = json!("I5")).starts_with("directory: "));
    for dtype in ["BF16", "F8_E4M3"] {
        assert_eq!(
            changed(&|t| t["dtype"] = json!(dtype)),
            format!(
                "{name}: no such group for dtype {}: expected a group where the dtype has groups, none elsewhere, found 32",
                if dtype == "BF16" { "BF16" } else { "F8E4M3" }
            )
        );
    }
    assert!(
        changed(&|t| drop(t.as_object_mut().unwrap().shift_remove("group"))).ends_with("none elsewhere, found none")
    );
    // A vector has no scheme.
    let mut directory = good.directory();
    let tensors = directory["tensors"].as_array_mut().unwrap();
    let norm = tensors.iter_mut().find(|tensor| tensor["name"] == "model.norm.weight").unwrap();
    norm["dtype"] = json!("I8");
    let text = good.with(&directory, good.payload()).err().expect("refused");
    assert_eq!(text, "model.norm.weight: int8: shape [64] found, [N, K] expected");
}

#[test]
fn scales_that_are_no_numbers_are_found_by_verify() {
    let good = Good::new();
    let mut directory = good.directory();
    let mut payload = good.payload().to_vec();
    let tensor = directory["tensors"].as_array_mut().unwrap().iter_mut().find(|t| t["dtype"] == "I4M").unwrap();
    let (at, bytes) = (tensor["offset"].as_u64().unwrap() as usize, tensor["bytes"].as_u64().unwrap() as usize);
    // The second scale becomes infinite; the hash is of those bytes.
    payload[at + 258..at + 260].copy_from_slice(&half::f16::INFINITY.to_le_bytes());
    tensor["blake3"] = json!(blake3::hash(&payload[at..at + bytes]).to_hex().to_string());
    let opened = good.with(&directory, &payload).expect("only --verify looks at values");
    let text = opened.verify(&mut |_, _| {}).unwrap_err().to_string();
    assert!(text.ends_with("model.embed_tokens.weight: scale 1 is inf, a finite number expected"), "{text}");
}
