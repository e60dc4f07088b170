//! What the GGUF target does with its bytes: everything that `zynfer inspect` and `zynfer compile` do with such a file. A panic, or memory
//! beyond what the file can justify, is a defect; every refusal is right. Used by `fuzz_targets/` and by `tests/fuzz`.

use std::path::Path;

use zynfer::artifact::gguf::{Gguf, Header, Regrouped, refusals};
use zynfer::artifact::{Artifact, LoadMode, compile_quantized};
use zynfer::quant::{Choice, Encoded, Matrix, Recipe, Scheme};

/// How far an input came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Tensors of an accepted header.
    pub tensors: usize,
    /// Whether the whole file became an artifact.
    pub compiled: bool,
}

/// Arbitrary bytes as a GGUF file.
pub fn gguf(bytes: &[u8]) -> Read {
    let header = match Header::read(Path::new("fuzzed.gguf"), bytes) {
        Ok(header) => header,
        Err(error) => {
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            return Read::default();
        }
    };
    for tensor in &header.tensors {
        let blocks = &bytes[tensor.range.clone()];
        let elements = tensor.shape.iter().product::<usize>();
        assert_eq!(blocks.len() as u64, elements as u64 / tensor.kind.block_elements() * tensor.kind.block_bytes());
        if let Some(decoder) = tensor.kind.decoder() {
            let mut values = vec![0.0; elements];
            decoder(blocks, &mut values);
            if let (Some(kept), &[n, k]) = (tensor.kind.regrouped(), tensor.shape.as_slice()) {
                same_values(kept, blocks, [n, k], &values);
            }
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("fuzzed.gguf"), folder.path().join("fuzzed.zynfer"));
    std::fs::write(&file, bytes).expect("a file in it");
    if let Ok(gguf) = Gguf::open(&file, LoadMode::Read) {
        let (refused, rounded) = refusals(&gguf);
        refused.iter().chain(&rounded).for_each(|error| assert!(!error.to_string().is_empty()));
    }
    let kept = compile_quantized(&file, &out, &Choice::Source.into(), &mut |_, _| {}).is_ok();
    if kept {
        let artifact = Artifact::open(&out, LoadMode::Mmap).expect("what was written is read");
        artifact.verify(&mut |_, _| {}).expect("as written");
    }
    let compiled = compile_quantized(&file, &out, &Recipe::new(Scheme::Bf16), &mut |_, _| {}).is_ok();
    assert!(compiled || !kept, "what can be kept can be rounded");
    if compiled {
        let artifact = Artifact::open(&out, LoadMode::Mmap).expect("what was written is read");
        artifact.tensors().for_each(|tensor| assert!(tensor.as_bf16().is_some()));
    }
    Read { tensors: header.tensors.len(), compiled }
}

/// Kept blocks mean what they were, as far as that is numbers.
fn same_values(kept: Regrouped, blocks: &[u8], shape: [usize; 2], values: &[f32]) {
    let Ok(layout) = kept.scheme.layout(&shape) else { return };
    let mut parts = Encoded::default();
    (kept.append)(blocks, &mut parts);
    let object = parts.object(&layout);
    let bytes = &bytemuck::cast_slice(&object)[..layout.bytes];
    let matrix = Matrix::new(kept.scheme, &shape, bytes).expect("as laid out");
    let mut row = vec![0f32; shape[1]];
    for (index, values) in values.chunks_exact(shape[1]).enumerate() {
        matrix.decode_row(index, &mut row);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || !b.is_finite() && !a.is_finite();
        assert!(row.iter().zip(values).all(same), "{}, row {index}", kept.scheme);
    }
}
