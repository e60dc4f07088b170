//! Blocks of GGUF's types mean in our layouts what the package gguf dequantizes them to, bit by bit.

use zynfer::artifact::gguf::TensorType;
use zynfer::quant::{Encoded, Matrix, Scheme};
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

/// Random blocks of each type and what the package makes of them (tests/fixtures/gguf): type, its scheme, bits of an element in it.
const KEPT: [(&str, &str, f64); 12] = [
    ("Q4_0", "int4:32", 4.5),
    ("Q4_1", "int4m:32", 5.0),
    ("Q5_0", "int8:32", 8.5),
    ("Q5_1", "int8m:32", 9.0),
    ("Q8_0", "int8:32", 8.5),
    ("IQ4_NL", "int8:32", 8.5),
    ("Q2_K", "int8mk:16", 9.125),
    ("Q3_K", "int8k:16", 8.5625),
    ("Q4_K", "int4mk:32", 4.625),
    ("Q5_K", "int8mk:32", 8.625),
    ("Q6_K", "int8k:16", 8.5625),
    ("IQ4_XS", "int8k:32", 8.3125),
];

/// A matrix of one row of blocks in the layout of its type's scheme.
fn object_of(kind: TensorType, blocks: &[u8], k: usize) -> (Scheme, Encoded, Aligned) {
    let regrouped = kind.regrouped().expect("a scheme");
    let mut encoded = Encoded::default();
    (regrouped.append)(blocks, &mut encoded);
    let layout = regrouped.scheme.layout(&[1, k]).unwrap();
    let object = Aligned(encoded.object(&layout), layout.bytes);
    (regrouped.scheme, encoded, object)
}

#[test]
fn every_type_has_a_scheme_that_holds_its_values() {
    for (name, scheme, bits) in KEPT {
        let kind = TensorType::from_name(name).unwrap();
        let (size, elements) = (kind.block_bytes() as usize, kind.block_elements() as usize);
        let file = fixtures::read(&format!("gguf/blocks/{name}.bin"));
        let count = file.len() / (size + 4 * elements);
        let (blocks, values) = file.split_at(count * size);
        let values: Vec<f32> = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut finite = Vec::new();
        for (block, expected) in blocks.chunks_exact(size).zip(values.chunks_exact(elements)) {
            let (found, encoded, object) = object_of(kind, block, elements);
            assert_eq!(found.to_string(), scheme, "{name}");
            let matrix = Matrix::new(found, &[1, elements], object.bytes()).unwrap();
            let is_finite = expected.iter().all(|value| value.is_finite());
            assert_eq!(matrix.check_finite().is_ok(), is_finite, "{name}: {expected:?}");
            assert_eq!(encoded.check_finite(found, elements, 0).is_ok(), is_finite, "{name}");
            let mut row = vec![f32::NAN; elements];
            matrix.decode_row(0, &mut row);
            if is_finite {
                let same = row.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name}: {row:?}, expected {expected:?}");
                finite.push((block, expected));
            }
        }
        assert!(finite.len() * 3 >= count, "{name}: {} of {count} blocks are finite", finite.len());
        // Many blocks in a row, and how much they take without what lies between the parts.
        let row: Vec<u8> = finite.iter().flat_map(|(block, _)| block.iter().copied()).collect();
        let expected: Vec<f32> = finite.iter().flat_map(|(_, values)| values.iter().copied()).collect();
        let (found, encoded, object) = object_of(kind, &row, expected.len());
        let mut out = vec![f32::NAN; expected.len()];
        Matrix::new(found, &[1, out.len()], object.bytes()).unwrap().decode_row(0, &mut out);
        assert!(out.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
        let bytes = encoded.codes.len() + encoded.scales.len() + encoded.minimums.len();
        assert_eq!(8.0 * bytes as f64 / out.len() as f64, bits, "{name}");
    }
    let kept: Vec<&str> =
        TensorType::read_names().filter(|name| TensorType::from_name(name).unwrap().regrouped().is_some()).collect();
    assert_eq!(kept.len(), KEPT.len(), "{kept:?}");
}
