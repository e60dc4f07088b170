//! GGUF files written by the format's description alone, so that a test can break each rule of it: no rule is obeyed that the caller does
//! not obey. It shares nothing with the reader.

/// A file to be written.
#[derive(Clone)]
pub struct GgufFile {
    pub magic: [u8; 4],
    pub version: u32,
    /// Counts other than there are, where a test lies.
    pub tensor_count: Option<u64>,
    pub key_count: Option<u64>,
    /// Key, type, the value's bytes.
    pub keys: Vec<(Vec<u8>, u32, Vec<u8>)>,
    pub tensors: Vec<TensorRow>,
    /// Where the data begins and each tensor stands.
    pub alignment: u64,
}

/// A tensor's row of the list, and its bytes.
#[derive(Clone)]
pub struct TensorRow {
    pub name: Vec<u8>,
    /// Innermost first.
    pub dims: Vec<u64>,
    pub dimension_count: Option<u32>,
    pub kind: u32,
    /// Another offset than the right one.
    pub offset: Option<u64>,
    pub data: Vec<u8>,
}

/// A string as the format has it.
pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// An array of strings.
pub fn texts<'a>(list: impl ExactSizeIterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = [8u32.to_le_bytes().as_slice(), &(list.len() as u64).to_le_bytes()].concat();
    list.for_each(|item| bytes.extend(text(item)));
    bytes
}

impl Default for GgufFile {
    fn default() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            keys: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
        }
    }
}

impl GgufFile {
    pub fn key(mut self, key: &str, kind: u32, value: impl AsRef<[u8]>) -> Self {
        self.keys.push((key.as_bytes().to_vec(), kind, value.as_ref().to_vec()));
        self
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.key(key, 4, value.to_le_bytes())
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.key(key, 6, value.to_le_bytes())
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.key(key, 8, text(value))
    }

    pub fn texts<'a>(self, key: &str, list: impl ExactSizeIterator<Item = &'a str>) -> Self {
        self.key(key, 9, texts(list))
    }

    pub fn i32s(self, key: &str, list: &[i32]) -> Self {
        let mut bytes = [5u32.to_le_bytes().as_slice(), &(list.len() as u64).to_le_bytes()].concat();
        list.iter().for_each(|item| bytes.extend(item.to_le_bytes()));
        self.key(key, 9, bytes)
    }

    pub fn tensor(mut self, name: &str, dims: &[u64], kind: u32, data: impl Into<Vec<u8>>) -> Self {
        self.tensors.push(TensorRow {
            name: name.as_bytes().to_vec(),
            dims: dims.to_vec(),
            dimension_count: None,
            kind,
            offset: None,
            data: data.into(),
        });
        self
    }

    /// The file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = self.magic.to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        file.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.keys {
            file.extend((key.len() as u64).to_le_bytes());
            file.extend(key);
            file.extend(kind.to_le_bytes());
            file.extend(value);
        }
        let mut data: Vec<u8> = Vec::new();
        let fill = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(self.alignment as usize), 0);
        for tensor in &self.tensors {
            file.extend((tensor.name.len() as u64).to_le_bytes());
            file.extend(&tensor.name);
            file.extend(tensor.dimension_count.unwrap_or(tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|extent| file.extend(extent.to_le_bytes()));
            file.extend(tensor.kind.to_le_bytes());
            file.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
            fill(&mut data);
        }
        fill(&mut file);
        file.extend(data);
        file
    }
}
