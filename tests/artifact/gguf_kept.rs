//! `--quant source`: blocks of GGUF files in artifacts, every value what the package gguf dequantizes it to, bit by bit; in the checkpoint's
//! order of rows; and what bf16 does not hold is refused and not rounded.

use half::{bf16, f16};
use zynfer::artifact::Artifact;
use zynfer::artifact::gguf::TensorType;
use zynfer::quant::{Choice, Matrix, Recipe, Scheme};
use zynfer_tests::fixtures;

use crate::gguf_families::in_pairs;
use crate::gguf_models::{Written, as_gguf};
use crate::support::{Checkpoint, assert_message};
use zynfer_tests::gguf_model::{BF16, gguf_name, with_architecture};
use zynfer_tests::gguf_writer::{GgufFile, TensorRow};

/// Number of a type in a file.
fn number(name: &str) -> u32 {
    let kind = TensorType::from_name(name).unwrap();
    (0..64).find(|number| TensorType::from_number(*number) == Some(kind)).unwrap()
}

/// `count` elements of blocks of a type, from the fixture's blocks of finite numbers over and over, and what the package makes of them.
fn blocks_of(name: &str, count: usize) -> (Vec<u8>, Vec<f32>) {
    let kind = TensorType::from_name(name).unwrap();
    let (size, elements) = (kind.block_bytes() as usize, kind.block_elements() as usize);
    let file = fixtures::read(&format!("gguf/blocks/{name}.bin"));
    let (blocks, values) = file.split_at(file.len() / (size + 4 * elements) * size);
    let values: Vec<f32> = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let finite = blocks.chunks_exact(size).zip(values.chunks_exact(elements));
    let finite: Vec<_> = finite.filter(|(_, values)| values.iter().all(|value| value.is_finite())).collect();
    let cycle = || finite.iter().cycle().take(count / elements);
    (cycle().flat_map(|(block, _)| block.to_vec()).collect(), cycle().flat_map(|(_, values)| values.to_vec()).collect())
}

fn tensor<'a>(file: &'a mut GgufFile, name: &str) -> &'a mut TensorRow {
    file.tensors.iter_mut().find(|tensor| tensor.name == name.as_bytes()).unwrap()
}

/// Rows of an artifact's matrix.
fn decoded(artifact: &Artifact, name: &str) -> (Scheme, Vec<f32>) {
    let tensor = artifact.tensor(name).unwrap();
    let matrix = Matrix::new(tensor.scheme, tensor.shape, tensor.bytes).unwrap();
    let mut values = vec![f32::NAN; tensor.shape.iter().product()];
    values.chunks_exact_mut(tensor.shape[1]).enumerate().for_each(|(row, out)| matrix.decode_row(row, out));
    (tensor.scheme, values)
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

#[test]
fn kept_matrices_have_every_value_of_the_file() {
    let types = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"];
    let parts = ["self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj", "mlp.gate_proj"];
    let checkpoint = Checkpoint::tied(); // rows of 256, 512 and 768
    let mut file = as_gguf(&checkpoint);
    let mut expected = Vec::new();
    for (index, kind) in types.into_iter().enumerate() {
        let name = format!("model.layers.{}.{}.weight", index / parts.len(), parts[index % parts.len()]);
        let tensor = tensor(&mut file, &gguf_name(&name));
        let (blocks, values) = blocks_of(kind, tensor.dims.iter().product::<u64>() as usize);
        (tensor.kind, tensor.data) = (number(kind), blocks);
        expected.push((name, kind, values));
    }
    let written = Written::new(checkpoint, &file);
    let kept = written.compile_by(Some(&Choice::Source.into())).unwrap();
    let folder = written.checkpoint.open();
    for (name, kind, values) in &expected {
        let (scheme, found) = decoded(&kept, name);
        assert_eq!(scheme, TensorType::from_name(kind).unwrap().regrouped().unwrap().scheme);
        assert!(same(&found, values), "{kind} in {name}");
    }
    let of_blocks = |name: &str| expected.iter().any(|(other, ..)| other == name);
    for tensor in kept.tensors().filter(|tensor| !of_blocks(tensor.name)) {
        assert_eq!(tensor.scheme, Scheme::Bf16, "{}", tensor.name);
        assert!(tensor.bytes == folder.tensor(tensor.name).unwrap().bytes, "{}", tensor.name);
    }
    kept.verify(&mut |_, _| {}).unwrap();

    // One class encoded, the rest kept; and the other way round.
    let recipe = Recipe::from(Choice::Source).keep("down=int8").unwrap();
    let mixed = written.compile_by(Some(&recipe)).unwrap();
    assert_eq!(mixed.tensor("model.layers.0.mlp.down_proj.weight").unwrap().scheme, Scheme::Int8Row);
    assert!(same(&decoded(&mixed, &expected[0].0).1, &expected[0].2));
    let recipe = Recipe::new(Scheme::Bf16).keep("attn_q=source").unwrap();
    let mixed = written.compile_by(Some(&recipe)).unwrap();
    assert!(same(&decoded(&mixed, &expected[0].0).1, &expected[0].2));
    let rounded: Vec<f32> = expected[2].2.iter().map(|value| bf16::from_f32(*value).to_f32()).collect();
    assert!(same(&decoded(&mixed, &expected[2].0).1, &rounded));
}

#[test]
fn rows_in_pairs_of_kept_blocks_come_in_the_checkpoints_order() {
    let checkpoint = Checkpoint::weights_of("llama-d64-untied");
    let config = checkpoint.json("config.json");
    let mut file = with_architecture(GgufFile::default(), &config, "llama");
    let mut expected = Vec::new();
    for (name, shape, bytes) in checkpoint.weights() {
        let dims: Vec<u64> = shape.iter().rev().map(|extent| *extent as u64).collect();
        if name.contains("q_proj") || name.contains("k_proj") {
            let (blocks, values) = blocks_of("Q4_0", shape.iter().product());
            file = file.tensor(&gguf_name(&name), &dims, number("Q4_0"), in_pairs(&blocks, shape[0], 64));
            expected.push((name, values));
        } else {
            file = file.tensor(&gguf_name(&name), &dims, BF16, bytes);
        }
    }
    let written = Written::new(checkpoint, &file);
    let kept = written.compile_by(Some(&Choice::Source.into())).unwrap();
    for (name, values) in &expected {
        assert!(same(&decoded(&kept, name).1, values), "{name}");
    }
}

#[test]
fn plain_numbers_are_kept_where_bf16_holds_them_and_refused_elsewhere() {
    let source = |change: &dyn Fn(&mut GgufFile)| {
        let checkpoint = Checkpoint::untied();
        let mut file = as_gguf(&checkpoint);
        change(&mut file);
        let written = Written::new(checkpoint, &file);
        let result = written.compile_by(Some(&Choice::Source.into()));
        (written, result)
    };
    let name = "blk.0.attn_q.weight";
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
    };
    // A checkpoint in bf16 that was converted to F16 or F32.
    for (kind, width) in [("F16", 2), ("F32", 4)] {
        let to_bytes = |value: &f32| match width {
            2 => f16::from_f32(*value).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        let (written, result) = source(&|file| {
            let tensor = tensor(file, name);
            // What F16 has too few exponents for becomes a number that bf16 holds as well.
            (tensor.data, tensor.kind) = (numbers(&tensor.data).iter().flat_map(to_bytes).collect(), number(kind));
        });
        let artifact = result.unwrap();
        let original =
            numbers(written.checkpoint.open().tensor("model.layers.0.self_attn.q_proj.weight").unwrap().bytes);
        let expected = original.iter().map(|value| if width == 2 { f16::from_f32(*value).to_f32() } else { *value });
        let found = numbers(artifact.tensor("model.layers.0.self_attn.q_proj.weight").unwrap().bytes);
        assert!(same(&found, &expected.collect::<Vec<_>>()), "{kind}");
    }
    let message = "would be rounded to bf16, and source changes no value: expected a number that bf16 holds (--quant bf16 rounds)";
    let (_, matrix) = source(&|file| {
        let tensor = tensor(file, name);
        let mut values = numbers(&tensor.data);
        values[1000] = 1.0 + 2f32.powi(-9); // which takes 10 bits
        (tensor.data, tensor.kind) = (values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(), 1);
    });
    assert_message(
        &matrix.err().unwrap(),
        &format!("model.layers.0.self_attn.q_proj.weight: element 1000 {message}, found 1.0019531"),
    );
    let (_, vector) = source(&|file| {
        let tensor = tensor(file, "blk.1.attn_norm.weight");
        let mut values = numbers(&tensor.data);
        values[3] = 1.0 + 2f32.powi(-9);
        (tensor.data, tensor.kind) = (values.iter().flat_map(|v| v.to_le_bytes()).collect(), 0);
    });
    assert_message(
        &vector.err().unwrap(),
        &format!("model.layers.1.input_layernorm.weight: element 3 {message}, found 1.0019531"),
    );
    // A scale that is no number.
    let (_, infinite) = source(&|file| {
        let tensor = tensor(file, name);
        let (mut blocks, _) = blocks_of("Q8_0", tensor.dims.iter().product::<u64>() as usize);
        blocks[34 * 7..34 * 7 + 2].copy_from_slice(&f16::INFINITY.to_le_bytes());
        (tensor.data, tensor.kind) = (blocks, 8);
    });
    assert_message(
        &infinite.err().unwrap(),
        "model.layers.0.self_attn.q_proj.weight: scale 7 is inf, a finite number expected",
    );
    // A folder of bf16 is what it is.
    let checkpoint = Checkpoint::untied();
    let out = checkpoint.beside("source.zynfer");
    zynfer::artifact::compile_quantized(&checkpoint.folder(), &out, &Choice::Source.into(), &mut |_, _| {}).unwrap();
    let plain = checkpoint.compiled("plain.zynfer");
    assert!(std::fs::read(out).unwrap() == std::fs::read(plain).unwrap());
}
