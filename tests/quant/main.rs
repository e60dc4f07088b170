//! Quantization: layouts and codecs against GGUF's blocks and ml_dtypes' numbers, encoders against searches in f64, whole models against
//! their bars, and so the formats of the KV cache. It tests no backend's products (host/src/cpu/linear) and no file format (tests/artifact).

mod compensation;
mod encoders;
mod fp8;
mod gguf_blocks;
mod kv;
mod quality;
mod schemes;

use zynfer_tests::fixtures;

/// A fixture of little-endian f32.
fn floats(name: &str) -> Vec<f32> {
    let bytes = fixtures::read(&format!("quant/{name}"));
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// An object in memory as aligned as in a file.
struct Aligned(Vec<u32>, usize);

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let words = bytes.chunks(4).map(|part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            u32::from_ne_bytes(word)
        });
        Self(words.collect(), bytes.len())
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
}
