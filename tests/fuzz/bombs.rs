//! Small files that would need unbounded memory or time if their counts were believed: tables that name the same bytes over and over.
//! Each must be refused, by name, at once.

use crate::image::{self, Shape};
use emulator::CodeObject;
use std::time::{Duration, Instant};

fn refused(bytes: &[u8], message: &str) {
    let start = Instant::now();
    let error = CodeObject::parse(bytes).expect_err(message).to_string();
    assert!(error.contains(message), "{error} does not say {message}");
    assert!(start.elapsed() < Duration::from_secs(5), "{message}: {:?}", start.elapsed());
}

fn base() -> Vec<u8> {
    image::code_object(&[0xbfb0_0000], &Shape::default())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn section(bytes: &[u8], index: usize) -> Vec<u8> {
    let table = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes")) as usize;
    bytes[table + 64 * index..][..64].to_vec()
}

/// Appends section headers to the end of the file and makes the header point there.
fn with_sections(mut bytes: Vec<u8>, sections: &[Vec<u8>]) -> Vec<u8> {
    let at = bytes.len().next_multiple_of(8);
    bytes.resize(at, 0);
    put(&mut bytes, 40, &(at as u64).to_le_bytes());
    put(&mut bytes, 60, &(sections.len() as u16).to_le_bytes());
    bytes.extend(sections.iter().flatten());
    bytes
}

/// 2.6 MB that would be 120 million relocations.
#[test]
fn relocation_sections_over_the_same_bytes() {
    let mut bytes = base();
    let sections = [section(&bytes, 0), section(&bytes, 1), section(&bytes, 2)];
    let (table, entries) = (bytes.len(), 4000);
    let mut entry = vec![0; 24];
    put(&mut entry, 0, &1024u64.to_le_bytes());
    put(&mut entry, 8, &13u64.to_le_bytes());
    bytes.extend(entry.repeat(entries));
    let mut relocations = sections[0].clone();
    put(&mut relocations, 4, &4u32.to_le_bytes());
    put(&mut relocations, 24, &(table as u64).to_le_bytes());
    put(&mut relocations, 32, &(24 * entries as u64).to_le_bytes());
    put(&mut relocations, 40, &1u32.to_le_bytes());
    put(&mut relocations, 56, &24u64.to_le_bytes());
    let one = with_sections(bytes.clone(), &[&sections[..], &[relocations.clone()]].concat());
    assert_eq!(CodeObject::parse(&one).expect("one such section is in order").relocations().len(), entries);
    let all = [&sections[..], &vec![relocations; 30_000][..]].concat();
    refused(&with_sections(bytes, &all), "relocations or more, at most 1048576 are read");
}

/// 3 MB that would be 40 GB of names.
#[test]
fn symbols_that_share_a_long_name() {
    let mut bytes = base();
    let mut sections = [section(&bytes, 0), section(&bytes, 1), section(&bytes, 2)];
    let strings = bytes.len();
    bytes.extend(b"\0k\0k.kd\0");
    bytes.extend([b'x'; 1_000_000]);
    bytes.push(0);
    put(&mut sections[2], 24, &(strings as u64).to_le_bytes());
    put(&mut sections[2], 32, &((bytes.len() - strings) as u64).to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let (table, count) = (bytes.len(), 40_000);
    let mut symbol = vec![0; 24];
    put(&mut symbol, 0, &8u32.to_le_bytes());
    bytes.extend(symbol.repeat(count));
    put(&mut sections[1], 24, &(table as u64).to_le_bytes());
    put(&mut sections[1], 32, &(24 * count as u64).to_le_bytes());
    refused(&with_sections(bytes, &sections), "symbol names have more than 67108864 bytes");
}

/// Program headers that load the same bytes to many places.
#[test]
fn segments_over_the_same_bytes() {
    let many = |count: usize, file_bytes: u64| {
        let mut bytes = base();
        let at = bytes.len().next_multiple_of(8);
        bytes.resize(at, 0);
        put(&mut bytes, 32, &(at as u64).to_le_bytes());
        put(&mut bytes, 56, &(count as u16).to_le_bytes());
        for index in 0..count as u64 {
            let mut header = vec![0; 56];
            put(&mut header, 0, &1u32.to_le_bytes());
            put(&mut header, 4, &4u32.to_le_bytes());
            for (field, value) in [(16, index << 13), (32, file_bytes), (40, 1 << 13)] {
                put(&mut header, field, &value.to_le_bytes());
            }
            bytes.extend(header);
        }
        bytes
    };
    refused(&many(60_000, 1), "segment 64: there are more than the 64 that are read");
    refused(&many(40, 1280), "bytes so far, the file has");
}

/// A note of a few bytes that claims four billion entries, nests a thousand deep, or is one long list.
#[test]
fn notes_that_promise_too_much() {
    let with_note = |map: &[u8]| {
        let mut bytes = base();
        let note = image::wrapped(map);
        let at = bytes.len().next_multiple_of(8);
        bytes.resize(at, 0);
        let header = 64 + 2 * 56;
        put(&mut bytes, header + 8, &(at as u64).to_le_bytes());
        put(&mut bytes, header + 32, &(note.len() as u64).to_le_bytes());
        bytes.extend(note);
        bytes
    };
    for kind in [0xdd, 0xdf, 0xdb, 0xc6, 0xc9] {
        refused(&with_note(&[kind, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]), "metadata:");
    }
    refused(&with_note(&[0x91; 1000]), "metadata:");
    refused(&with_note(&[0xdc; 100_000]), "metadata:");
    let mut long = vec![0xdd, 0, 0x0f, 0x42, 0x40];
    long.resize(1_000_005, 0xc0);
    refused(&with_note(&long), "amdhsa.version is None");
    refused(&with_note(&vec![0; (16 << 20) + 1]), "the note has 16777217 bytes, at most 16777216 are read");
}
