//! The metadata of a GGUF file: keys with typed values, checked when they are read. What a key means is the business of whoever asks.

use std::{collections::HashMap, path::Path};

use super::{super::error::LoadError, cursor::Cursor};

/// Longest key, the format's own limit.
const KEY_BYTES: u64 = 65_535;
/// Most keys; real files have some fifty. It bounds the memory of keys beyond their own bytes.
const MOST_KEYS: usize = 1 << 16;
/// Length of a key, one character, type, one byte.
const SMALLEST_PAIR: u64 = 8 + 1 + 4 + 1;

/// A value. Arrays keep no more memory than they take in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// u8, u16, u32 or u64.
    Unsigned(u64),
    /// i8, i16, i32 or i64.
    Signed(i64),
    /// f32: kept so, since its shortest decimal is what the model's maker wrote.
    F32(f32),
    /// f64.
    F64(f64),
    /// A byte 0 or 1.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array of numbers or booleans.
    Numbers(Numbers),
    /// An array of strings.
    Texts(Texts),
}

/// An array of numbers, as its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Numbers {
    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind.bytes()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Each number as a value.
    pub fn iter(&self) -> impl Iterator<Item = Value> {
        self.bytes.chunks_exact(self.kind.bytes()).map(|bytes| self.kind.value(bytes))
    }
}

/// An array of strings: all of them one after the other, and where each ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Each string.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.text[std::mem::replace(&mut start, *end)..*end])
    }

    /// String number `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }
}

/// The types of single values.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    U64,
    I64,
    F64,
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

impl Kind {
    /// By its number in a file; strings (8) and arrays (9) are none.
    fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The value of exactly `bytes()` bytes, little-endian.
    fn value(self, bytes: &[u8]) -> Value {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Value::Unsigned(bits),
            Self::I8 => Value::Signed(i64::from(bits as i8)),
            Self::I16 => Value::Signed(i64::from(bits as i16)),
            Self::I32 => Value::Signed(i64::from(bits as i32)),
            Self::I64 => Value::Signed(bits as i64),
            Self::F32 => Value::F32(f32::from_bits(bits as u32)),
            Self::F64 => Value::F64(f64::from_bits(bits)),
            Self::Bool => Value::Bool(bits != 0),
        }
    }

    /// A bool is a byte 0 or 1; every other type takes all bit patterns.
    fn check(self, cursor: &Cursor, key: &str, bytes: &[u8]) -> Result<(), LoadError> {
        match bytes.iter().find(|byte| self == Self::Bool && **byte > 1) {
            None => Ok(()),
            Some(byte) => Err(cursor.refuse(key, "is no boolean").numbers("a byte 0 or 1", byte)),
        }
    }
}

impl Value {
    fn read(cursor: &mut Cursor, key: &str) -> Result<Self, LoadError> {
        match cursor.u32(key)? {
            TEXT => cursor.text(key, u64::MAX).map(|text| Self::Text(text.to_owned())),
            ARRAY => Self::read_array(cursor, key),
            number => {
                let kind = kind(cursor, key, number)?;
                let bytes = cursor.take(key, kind.bytes() as u64)?;
                kind.check(cursor, key, bytes)?;
                Ok(kind.value(bytes))
            }
        }
    }

    fn read_array(cursor: &mut Cursor, key: &str) -> Result<Self, LoadError> {
        let number = cursor.u32(key)?;
        if number == ARRAY {
            return Err(cursor.refuse(key, "is an array of arrays, which no known key is"));
        }
        if number == TEXT {
            let count = cursor.count(key, 8)?;
            let mut texts = Texts { text: String::new(), ends: Vec::with_capacity(count) }; // 8 bytes each, as in the file
            for _ in 0..count {
                texts.text.push_str(cursor.text(key, u64::MAX)?);
                texts.ends.push(texts.text.len());
            }
            return Ok(Self::Texts(texts));
        }
        let kind = kind(cursor, key, number)?;
        let count = cursor.count(key, kind.bytes() as u64)?;
        let bytes = cursor.take(key, (count * kind.bytes()) as u64)?;
        kind.check(cursor, key, bytes)?;
        Ok(Self::Numbers(Numbers { kind, bytes: bytes.to_vec() }))
    }

    /// What kind of value it is, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) | Self::Signed(_) => "an integer",
            Self::F32(_) | Self::F64(_) => "a float",
            Self::Bool(_) => "a boolean",
            Self::Text(_) => "a string",
            Self::Numbers(_) => "an array of numbers",
            Self::Texts(_) => "an array of strings",
        }
    }

    /// The value in a few words, long strings and arrays by their beginning.
    pub fn brief(&self) -> String {
        let shorten = |text: &str| {
            let short: String = text.chars().take(60).collect();
            if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
        };
        let listed = |count: usize, first: Vec<String>| {
            let more = if count > first.len() { ", …" } else { "" };
            format!("{count} of [{}{more}]", first.join(", "))
        };
        match self {
            Self::Unsigned(n) => n.to_string(),
            Self::Signed(n) => n.to_string(),
            Self::F32(n) => n.to_string(),
            Self::F64(n) => n.to_string(),
            Self::Bool(flag) => flag.to_string(),
            Self::Text(text) => shorten(text),
            Self::Numbers(numbers) => listed(numbers.len(), numbers.iter().take(6).map(|n| n.brief()).collect()),
            Self::Texts(texts) => listed(texts.len(), texts.iter().take(6).map(shorten).collect()),
        }
    }

    /// An integer of any type that is not negative.
    pub fn as_count(&self) -> Option<u64> {
        match self {
            Self::Unsigned(n) => Some(*n),
            Self::Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }
}

fn kind(cursor: &Cursor, key: &str, number: u32) -> Result<Kind, LoadError> {
    Kind::from_number(number)
        .ok_or_else(|| cursor.refuse(key, "unknown type of value").numbers("a number from 0 to 12", number))
}

/// All keys and values, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata {
    pairs: Vec<(String, Value)>,
    by_key: HashMap<String, usize>,
}

impl Metadata {
    pub(super) fn read(cursor: &mut Cursor, count: u64) -> Result<Self, LoadError> {
        let most = (cursor.left() / SMALLEST_PAIR).min(MOST_KEYS as u64);
        if count > most {
            let problem =
                format!("more metadata keys than the {} bytes left can hold, or over the limit", cursor.left());
            return Err(cursor.refuse("header", problem).numbers(format_args!("at most {most}"), count));
        }
        let mut metadata = Self::default();
        for index in 0..count {
            let key = cursor.text(&format!("key {index}"), KEY_BYTES)?;
            if key.is_empty() {
                return Err(cursor.refuse(&format!("key {index}"), "is empty"));
            }
            let value = Value::read(cursor, key)?;
            if metadata.by_key.insert(key.to_owned(), metadata.pairs.len()).is_some() {
                return Err(cursor.refuse(key, "the key stands twice"));
            }
            metadata.pairs.push((key.to_owned(), value));
        }
        Ok(metadata)
    }

    /// Keys and values in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key).map(|index| &self.pairs[*index].1)
    }

    /// The string of a key, if there is the key.
    ///
    /// # Errors
    /// The key and the value's kind, where it is no string; alike for the getters below.
    pub fn text(&self, path: &Path, key: &str) -> Result<Option<&str>, LoadError> {
        self.typed(path, key, "a string", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The boolean of a key.
    ///
    /// # Errors
    /// As [`Metadata::text`].
    pub fn flag(&self, path: &Path, key: &str) -> Result<Option<bool>, LoadError> {
        self.typed(path, key, "a boolean", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The integer of a key, of any integer type, not negative.
    ///
    /// # Errors
    /// As [`Metadata::text`].
    pub fn count(&self, path: &Path, key: &str) -> Result<Option<u64>, LoadError> {
        self.typed(path, key, "an integer that is not negative", Value::as_count)
    }

    /// The number of a key. An f32 becomes the number whose decimal is its shortest, which is the one that was meant.
    ///
    /// # Errors
    /// As [`Metadata::text`].
    pub fn number(&self, path: &Path, key: &str) -> Result<Option<f64>, LoadError> {
        self.typed(path, key, "a finite number", |value| match value {
            Value::F32(number) if number.is_finite() => number.to_string().parse().ok(),
            Value::F64(number) if number.is_finite() => Some(*number),
            Value::Unsigned(_) | Value::Signed(_) => value.as_count().map(|n| n as f64),
            _ => None,
        })
    }

    /// The strings of a key.
    ///
    /// # Errors
    /// As [`Metadata::text`].
    pub fn texts(&self, path: &Path, key: &str) -> Result<Option<&Texts>, LoadError> {
        self.typed(path, key, "an array of strings", |value| match value {
            Value::Texts(texts) => Some(texts),
            _ => None,
        })
    }

    /// The array of numbers of a key.
    ///
    /// # Errors
    /// As [`Metadata::text`].
    pub fn numbers(&self, path: &Path, key: &str) -> Result<Option<&Numbers>, LoadError> {
        self.typed(path, key, "an array of numbers", |value| match value {
            Value::Numbers(numbers) => Some(numbers),
            _ => None,
        })
    }

    fn typed<'a, T>(
        &'a self,
        path: &Path,
        key: &str,
        wanted: &str,
        get: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match get(value) {
            Some(found) => Ok(Some(found)),
            None => Err(LoadError::new(path, "wrong type or value")
                .object(key)
                .numbers(wanted, format_args!("{}, {}", value.kind(), value.brief()))),
        }
    }
}
