//! What the GGUF target does with its bytes: everything that `zynfer inspect` and `zynfer compile` do with such a file. A panic, or memory
//! beyond what the file can justify, is a defect; every refusal is right. Used by `fuzz_targets/` and by `tests/fuzz`.

use std::path::Path;

use zynfer::artifact::gguf::{Gguf, Header, refusals};
use zynfer::artifact::{Artifact, LoadMode, compile_quantized};
use zynfer::quant::{Recipe, Scheme};

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
            decoder(blocks, &mut vec![0.0; elements]);
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("fuzzed.gguf"), folder.path().join("fuzzed.zynfer"));
    std::fs::write(&file, bytes).expect("a file in it");
    if let Ok(gguf) = Gguf::open(&file, LoadMode::Read) {
        let (refused, rounded) = refusals(&gguf);
        refused.iter().chain(&rounded).for_each(|error| assert!(!error.to_string().is_empty()));
    }
    let compiled = compile_quantized(&file, &out, &Recipe::new(Scheme::Bf16), &mut |_, _| {}).is_ok();
    if compiled {
        let artifact = Artifact::open(&out, LoadMode::Mmap).expect("what was written is read");
        artifact.tensors().for_each(|tensor| assert!(tensor.as_bf16().is_some()));
    }
    Read { tensors: header.tensors.len(), compiled }
}
