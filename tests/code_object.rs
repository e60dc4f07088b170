//! The facts that a code object's metadata states about each kernel. Read with the `object` and `rmpv` crates, not
//! with the readers of host or emulator, which it judges.

use object::{Object, ObjectSection};

/// One kernel's entry in the metadata note.
#[derive(Debug, Clone)]
pub struct Metadata(rmpv::Value);

impl Metadata {
    fn get(&self, key: &str) -> &rmpv::Value {
        self.0
            .as_map()
            .and_then(|map| map.iter().find(|(k, _)| k.as_str() == Some(key)))
            .map_or_else(|| panic!("metadata has no `{key}`"), |(_, v)| v)
    }
    /// A number.
    pub fn number(&self, key: &str) -> u64 {
        self.get(key).as_u64().unwrap_or_else(|| panic!("`{key}` is no number"))
    }
    /// A text.
    pub fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or_else(|| panic!("`{key}` is no text"))
    }
    /// Whether a flag is there and set.
    pub fn flag(&self, key: &str) -> bool {
        self.0.as_map().is_some_and(|map| map.iter().any(|(k, v)| k.as_str() == Some(key) && v.as_bool() == Some(true)))
    }
    /// The kernel's arguments.
    pub fn args(&self) -> Vec<Metadata> {
        self.get(".args").as_array().expect("a list").iter().cloned().map(Metadata).collect()
    }
}

/// All kernels of a code object.
pub fn kernels(image: &[u8]) -> Vec<Metadata> {
    let file = object::File::parse(image).expect("an ELF file");
    let note = file.section_by_name(".note").expect("a note section").data().expect("its bytes");
    let word = |at: usize| u32::from_le_bytes(note[at..at + 4].try_into().expect("four bytes")) as usize;
    let (name_bytes, desc_bytes) = (word(0), word(4));
    assert_eq!(&note[12..18], b"AMDGPU", "owner of the note");
    let start = 12 + name_bytes.next_multiple_of(4);
    let value = rmpv::decode::read_value(&mut &note[start..start + desc_bytes]).expect("MessagePack");
    let list = Metadata(value).get("amdhsa.kernels").clone();
    list.as_array().expect("a list").iter().cloned().map(Metadata).collect()
}
