//! Damaged code objects and arbitrary bytes: every answer is a typed error or a code object that loads, never a panic.

use crate::case::fixtures;
use emulator::code_object::CodeObjectError;
use emulator::{CodeObject, LoadedModule, Memory};
use proptest::prelude::*;

fn real(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(name)).expect("a fixture")
}

/// Parses and, if that works, loads: both must end without a panic.
fn survive(bytes: &[u8]) {
    if let Ok(object) = CodeObject::parse(bytes) {
        let mut memory = Memory::new(2 << 30);
        let module = LoadedModule::load(object, &mut memory).expect("a parsed object loads");
        module.unload(&mut memory).expect("what was loaded unloads");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert!(CodeObject::parse(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_behind_a_header_are_survived(tail in proptest::collection::vec(any::<u8>(), 0..4096)) {
        let mut bytes = real("dev2.hsaco")[..64].to_vec();
        bytes.extend(tail);
        survive(&bytes);
    }

    #[test]
    fn damaged_objects_are_survived(edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..16)) {
        let mut bytes = real("sc.hsaco");
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        survive(&bytes);
    }

    /// Edits in the headers and the note, where every byte has a meaning.
    #[test]
    fn damaged_heads_are_survived(edits in proptest::collection::vec((0usize..2048, any::<u8>()), 1..4)) {
        let mut bytes = real("sc.hsaco");
        for (at, value) in edits {
            bytes[at] = value;
        }
        survive(&bytes);
    }
}

#[test]
fn truncation_anywhere_is_an_error_or_survived() {
    let bytes = real("sc.hsaco");
    for length in 0..bytes.len() {
        if length < 512 {
            assert!(CodeObject::parse(&bytes[..length]).is_err(), "{length} bytes");
        } else {
            survive(&bytes[..length]);
        }
    }
}

fn patched(at: usize, value: &[u8]) -> CodeObjectError {
    let mut bytes = real("dev2.hsaco");
    bytes[at..at + value.len()].copy_from_slice(value);
    CodeObject::parse(&bytes).expect_err("damaged")
}

#[test]
fn header_fields_are_named() {
    let cases: [(usize, &[u8], &str); 6] = [
        (4, &[1], "not a readable ELF file"),
        (18, &62u16.to_le_bytes(), "machine is 62, 224 (AMDGPU) is needed"),
        (16, &2u16.to_le_bytes(), "object type is 2"),
        (7, &[0], "OS ABI is 0, 64 (HSA) is needed"),
        (8, &[3], "ABI version is 3, 4 (code object v6) is needed"),
        (48, &[0x48], "target is gfx1200, gfx1201 is needed"),
    ];
    for (at, value, message) in cases {
        let error = patched(at, value).to_string();
        assert!(error.contains(message), "{error} does not say {message}");
    }
}

/// Every segment header in turn: file range, size and place out of range or overlapping.
#[test]
fn segments_out_of_range_are_named() {
    let bytes = real("dev2.hsaco");
    let at = |o: usize, n: usize| bytes[o..o + n].iter().rev().fold(0u64, |v, &b| v << 8 | b as u64);
    let (table, size, count) = (at(32, 8) as usize, at(54, 2) as usize, at(56, 2) as usize);
    let loads: Vec<usize> = (0..count).map(|i| table + i * size).filter(|&p| at(p, 4) == 1).collect();
    assert_eq!(loads.len(), 3);
    for &load in &loads {
        for (field, value) in [
            (8, 1u64 << 40),
            (8, u64::MAX),
            (16, 1 << 40),
            (16, u64::MAX),
            (40, 1 << 40),
            (40, u64::MAX),
            (32, u64::MAX),
        ] {
            let error = patched(load + field, &value.to_le_bytes());
            assert!(matches!(error, CodeObjectError::Segment { .. }), "{field} {value:#x}: {error}");
        }
    }
    let error = patched(loads[1] + 16, &0u64.to_le_bytes());
    assert!(error.to_string().contains("the one before ends at"), "{error}");
}

#[test]
fn kernels_are_described() {
    let object = CodeObject::parse(&real("sc.hsaco")).expect("a fixture");
    assert_eq!(object.target(), "amdgcn-amd-amdhsa--gfx1201");
    let kernel = object.kernel("k").expect("its kernel");
    assert_eq!(kernel.symbol, "k.kd");
    assert!(kernel.uses_dynamic_stack);
    assert_eq!(kernel.args.iter().filter(|a| !a.is_hidden()).count(), 1);
    assert_eq!(kernel.explicit_bytes(), 8);
    assert_eq!(object.relocations().len(), 1);
    let (function, inside) = object.function_at(kernel.entry).expect("a symbol");
    assert_eq!((function.name.as_str(), inside), ("k", 0));
}
