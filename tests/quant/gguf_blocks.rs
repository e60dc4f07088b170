//! Blocks of GGUF's Q4_0, Q4_1 and Q8_0 mean in our layout what the package gguf dequantizes them to, bit by bit.

use zynfer::quant::{Matrix, Scheme};
use zynfer_tests::fixtures;

use crate::{Aligned, floats};

/// Blocks of 32 elements, `halves` f16 before their codes, become a matrix of `n` rows: codes, then the tables, each at a multiple of 256.
fn regrouped(blocks: &[u8], block_bytes: usize, halves: usize) -> Vec<u8> {
    let mut object: Vec<u8> = blocks.chunks(block_bytes).flat_map(|block| block[2 * halves..].to_vec()).collect();
    for half in 0..halves {
        object.resize(object.len().next_multiple_of(256), 0);
        object.extend(blocks.chunks(block_bytes).flat_map(|block| block[2 * half..2 * half + 2].to_vec()));
    }
    object
}

#[test]
fn blocks_of_gguf_are_our_groups_of_32() {
    let kinds =
        [("q4_0", Scheme::Int4(32), 18, 1), ("q4_1", Scheme::Int4Min(32), 20, 2), ("q8_0", Scheme::Int8(32), 34, 1)];
    for (name, scheme, block_bytes, halves) in kinds {
        let blocks = fixtures::read(&format!("quant/{name}.blocks"));
        let expected = floats(&format!("{name}.f32"));
        assert_eq!((blocks.len(), expected.len()), (64 * block_bytes, 64 * 32));
        for k in [32, 64, 512, 2048] {
            let n = 2048 / k;
            let object = Aligned::new(&regrouped(&blocks, block_bytes, halves));
            let matrix = Matrix::new(scheme, &[n, k], object.bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut row = vec![f32::NAN; k];
            for (index, expected) in expected.chunks(k).enumerate() {
                matrix.decode_row(index, &mut row);
                let same = row.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits() || *a == 0.0 && *b == 0.0);
                assert!(same, "{name}, {n} × {k}, row {index}");
            }
        }
    }
}
