//! The smallest code object that runs: one kernel `k` with given instructions and resources, as ELF bytes. It is written out by hand
//! so that tests can choose every field; it is no linker and knows one layout.

/// What the kernel asks for.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// VGPRs of a wave, a multiple of 8.
    pub vgprs: u32,
    /// Fixed LDS bytes of a workgroup.
    pub lds_bytes: u32,
    /// Fixed scratch bytes of a work-item.
    pub scratch_bytes: u32,
    /// Whether the metadata asks for a stack of unknown size.
    pub dynamic_stack: bool,
    /// Most work-items of a workgroup.
    pub max_items: u32,
    /// Bytes of its one explicit argument, by value.
    pub argument_bytes: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { vgprs: 24, lds_bytes: 0, scratch_bytes: 0, dynamic_stack: false, max_items: 1024, argument_bytes: 64 }
    }
}

/// File offsets, which are addresses as well.
const NOTE: usize = 256;
const DESCRIPTOR: usize = 1024;
const SYMBOLS: usize = 1088;
const STRINGS: usize = 1168;
const CODE: usize = 1280;
const NAMES: &[u8] = b"\0k\0k.kd\0";

/// ELF bytes of a kernel `k`. At its start s[0:1] holds the address of the arguments, v0 the work-item's x | y << 10 | z << 20.
pub fn code_object(words: &[u32], shape: &Shape) -> Vec<u8> {
    let code_bytes = words.len().max(1) * 4;
    let sections = CODE + code_bytes.next_multiple_of(8);
    let mut file = vec![0; sections + 3 * 64];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);

    put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1, 64, 4]);
    put(16, &[3, 0, 224, 0, 1, 0, 0, 0]); // shared object for AMDGPU, version 1
    put(32, &64u64.to_le_bytes());
    put(40, &(sections as u64).to_le_bytes());
    put(48, &0x4eu32.to_le_bytes()); // gfx1201
    for (at, half) in [(52, 64u16), (54, 56), (56, 3), (58, 64), (60, 3), (62, 2)] {
        put(at, &half.to_le_bytes());
    }
    let note = note(shape);
    assert!(NOTE + note.len() <= DESCRIPTOR, "the note fits its place");
    for (index, (kind, flags, at, bytes)) in
        [(1u32, 4u32, 0, CODE), (1, 5, CODE, code_bytes), (4, 4, NOTE, note.len())].into_iter().enumerate()
    {
        let header = 64 + 56 * index;
        put(header, &kind.to_le_bytes());
        put(header + 4, &flags.to_le_bytes());
        for (field, value) in [(8, at), (16, at), (24, at), (32, bytes), (40, bytes), (48, 4)] {
            put(header + field, &(value as u64).to_le_bytes());
        }
    }
    put(NOTE, &note);

    put(DESCRIPTOR, &shape.lds_bytes.to_le_bytes());
    put(DESCRIPTOR + 4, &shape.scratch_bytes.to_le_bytes());
    put(DESCRIPTOR + 8, &shape.argument_bytes.to_le_bytes());
    put(DESCRIPTOR + 16, &((CODE - DESCRIPTOR) as u64).to_le_bytes());
    let denormals = 0xf0 << 12;
    put(DESCRIPTOR + 48, &(denormals | (shape.vgprs.div_ceil(8).clamp(1, 32) - 1)).to_le_bytes());
    let ids = 0b111 << 7 | 2 << 11; // workgroup ids in all dimensions, three work-item ids
    let user_sgprs = 2 << 1;
    put(DESCRIPTOR + 52, &(ids | user_sgprs as u32).to_le_bytes());
    put(DESCRIPTOR + 56, &(1u16 << 3 | 1 << 10 | u16::from(shape.dynamic_stack) << 11).to_le_bytes());

    for (index, (name, kind, section, at, bytes)) in
        [(1u32, 2u8, 1u16, CODE, code_bytes), (3, 1, 1, DESCRIPTOR, 64)].into_iter().enumerate()
    {
        let symbol = SYMBOLS + 24 * (index + 1);
        put(symbol, &name.to_le_bytes());
        put(symbol + 4, &[1 << 4 | kind, 3]);
        put(symbol + 6, &section.to_le_bytes());
        put(symbol + 8, &(at as u64).to_le_bytes());
        put(symbol + 16, &(bytes as u64).to_le_bytes());
    }
    put(STRINGS, NAMES);
    for (index, word) in words.iter().enumerate() {
        put(CODE + 4 * index, &word.to_le_bytes());
    }

    // Sections: none, the dynamic symbols, their strings.
    for (index, (kind, at, bytes, link, entry)) in
        [(11u32, SYMBOLS, 72, 2u32, 24u64), (3, STRINGS, NAMES.len(), 0, 0)].into_iter().enumerate()
    {
        let header = sections + 64 * (index + 1);
        put(header + 4, &kind.to_le_bytes());
        put(header + 16, &(at as u64).to_le_bytes());
        put(header + 24, &(at as u64).to_le_bytes());
        put(header + 32, &(bytes as u64).to_le_bytes());
        put(header + 40, &link.to_le_bytes());
        put(header + 44, &1u32.to_le_bytes());
        put(header + 56, &entry.to_le_bytes());
    }
    file
}

/// The AMDGPU note: header, name, MessagePack.
fn note(shape: &Shape) -> Vec<u8> {
    let mut map = Vec::new();
    open(&mut map, 0x80, 3);
    text(&mut map, "amdhsa.version");
    open(&mut map, 0x90, 2);
    number(&mut map, 1);
    number(&mut map, 2);
    text(&mut map, "amdhsa.target");
    text(&mut map, "amdgcn-amd-amdhsa--gfx1201");
    text(&mut map, "amdhsa.kernels");
    open(&mut map, 0x90, 1);
    open(&mut map, 0x80, 10);
    for (key, value) in [
        (".kernarg_segment_size", shape.argument_bytes),
        (".group_segment_fixed_size", shape.lds_bytes),
        (".private_segment_fixed_size", shape.scratch_bytes),
        (".max_flat_workgroup_size", shape.max_items),
        (".wavefront_size", 32),
        (".vgpr_count", shape.vgprs),
    ] {
        text(&mut map, key);
        number(&mut map, value);
    }
    text(&mut map, ".name");
    text(&mut map, "k");
    text(&mut map, ".symbol");
    text(&mut map, "k.kd");
    text(&mut map, ".uses_dynamic_stack");
    map.push(0xc2 | u8::from(shape.dynamic_stack));
    text(&mut map, ".args");
    open(&mut map, 0x90, 1);
    open(&mut map, 0x80, 3);
    text(&mut map, ".offset");
    number(&mut map, 0);
    text(&mut map, ".size");
    number(&mut map, shape.argument_bytes);
    text(&mut map, ".value_kind");
    text(&mut map, "by_value");

    wrapped(&map)
}

/// MessagePack as the note that a code object carries it in.
pub fn wrapped(map: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [7, map.len() as u32, 32] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"AMDGPU\0\0");
    note.extend(map);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// A map or list of fewer than 16 entries.
fn open(out: &mut Vec<u8>, kind: u8, entries: u8) {
    out.push(kind | entries);
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend([0xd9, text.len() as u8]);
    out.extend(text.as_bytes());
}

fn number(out: &mut Vec<u8>, value: u32) {
    out.push(0xce);
    out.extend(value.to_be_bytes());
}
