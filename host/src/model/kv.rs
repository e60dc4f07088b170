//! How keys and values lie in the KV cache: the formats, their names and their bytes. The arithmetic of each is a backend's, by the rules below;
//! which format is taken is the user's to say (`--kv`), and no backend takes a smaller one to make something fit.
//!
//! A *head* here is the `head_dim` numbers of one position and one key/value head: what a scale belongs to.
//!
//! | format | a number | scale | a head of 128 |
//! |---|---|---|---:|
//! | `f32` | as it is (`cpu` alone) | – | 512 B |
//! | `bf16` | rounded to bfloat16 | – | 256 B |
//! | `f16` | rounded to IEEE half; what is finite and beyond ±65504 becomes ±65504 | – | 256 B |
//! | `int8` | i8, −127 … 127, stands for `code · scale` | largest · (1/127) | 132 B |
//! | `fp8` | OCP e4m3fn, stands for `value(code) · scale` | largest · (1/448) | 132 B |
//!
//! `largest` is the largest magnitude of the head. Codes are `x · (127 / largest)`, or `x · (448 / largest)`, rounded to the nearest, ties to
//! even; where that factor is not finite (a head of zeros, or of nothing above 10⁻³⁶) every code is 0. Scales are f32: they are 3 % of the
//! cache, an f16 could overflow or lose digits, and a lane reads four bytes as quickly as two. A head with a number that is not finite gets a
//! scale that is not finite, so it reads back as what the logits' reader refuses.
//!
//! f16 saturates because a kernel has no way to refuse: an infinite key would make every later score of its head infinite or no number,
//! one at the end of the range keeps its sign and its place above all others. What was infinite stays so.

use std::fmt;
use std::str::FromStr;

use super::config::ModelConfig;

/// How one of keys and values is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// IEEE single.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half, saturating.
    F16,
    /// 8 bits and a scale per position and key/value head.
    Int8,
    /// 8-bit floats of the kind e4m3fn and such a scale.
    Fp8,
}

impl KvFormat {
    /// All of them, the most exact first.
    pub const ALL: [Self; 5] = [Self::F32, Self::Bf16, Self::F16, Self::Int8, Self::Fp8];

    /// As `--kv` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
            Self::Fp8 => "fp8",
        }
    }

    /// Bytes of one number.
    pub fn code_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Int8 | Self::Fp8 => 1,
        }
    }

    /// Bytes of a head's scale: 0 or 4.
    pub fn scale_bytes(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 | Self::F16 => 0,
            Self::Int8 | Self::Fp8 => size_of::<f32>(),
        }
    }

    /// Bytes of one position of one key/value head, its scale included; `None` where that cannot be counted.
    pub fn head_bytes(self, head_dim: usize) -> Option<usize> {
        head_dim.checked_mul(self.code_bytes())?.checked_add(self.scale_bytes())
    }
}

impl fmt::Display for KvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The formats of a cache; `Display` gives what [`FromStr`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvFormats {
    /// Of keys.
    pub k: KvFormat,
    /// Of values.
    pub v: KvFormat,
}

impl KvFormats {
    /// The same for both.
    pub const fn both(format: KvFormat) -> Self {
        Self { k: format, v: format }
    }

    /// Bytes of key and value of one position of one key/value head, scales included; `None` where that cannot be counted.
    pub fn head_bytes(self, head_dim: usize) -> Option<usize> {
        self.k.head_bytes(head_dim)?.checked_add(self.v.head_bytes(head_dim)?)
    }

    /// Bytes of keys and values of one position in all layers of a model; `None` where that cannot be counted.
    pub fn token_bytes(self, config: &ModelConfig) -> Option<usize> {
        let heads = config.num_hidden_layers.checked_mul(config.num_key_value_heads)?;
        self.head_bytes(config.head_dim)?.checked_mul(heads)
    }
}

impl fmt::Display for KvFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.k == self.v { self.k.fmt(f) } else { write!(f, "k={},v={}", self.k, self.v) }
    }
}

/// A `--kv` that says nothing that can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// No such format.
    #[error("{given:?} is no format of the KV cache: f32, bf16, f16, int8 or fp8 expected, or k=FORMAT,v=FORMAT")]
    Format {
        /// What was given.
        given: String,
    },
    /// One of the two is missing, or given twice.
    #[error("{given:?}: k=FORMAT,v=FORMAT expected, each once")]
    Parts {
        /// What was given.
        given: String,
    },
}

impl FromStr for KvFormat {
    type Err = KvError;

    fn from_str(text: &str) -> Result<Self, KvError> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| KvError::Format { given: text.into() })
    }
}

impl FromStr for KvFormats {
    type Err = KvError;

    /// `FORMAT`, or `k=FORMAT,v=FORMAT` in either order.
    fn from_str(text: &str) -> Result<Self, KvError> {
        if !text.contains(['=', ',']) {
            return text.parse().map(Self::both);
        }
        let (mut k, mut v) = (None, None);
        for part in text.split(',') {
            let earlier = match part.split_once('=') {
                Some(("k", format)) => k.replace(format.parse()?),
                Some(("v", format)) => v.replace(format.parse()?),
                _ => return Err(KvError::Parts { given: text.into() }),
            };
            if earlier.is_some() {
                return Err(KvError::Parts { given: text.into() });
            }
        }
        k.zip(v).map(|(k, v)| Self { k, v }).ok_or_else(|| KvError::Parts { given: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_what_is_read() {
        for k in KvFormat::ALL {
            for v in KvFormat::ALL {
                let formats = KvFormats { k, v };
                assert_eq!(formats.to_string().parse(), Ok(formats));
                assert_eq!(format!("v={v},k={k}").parse(), Ok(formats));
            }
        }
        assert_eq!("int8".parse(), Ok(KvFormats::both(KvFormat::Int8)));
        assert_eq!(KvFormats { k: KvFormat::Bf16, v: KvFormat::Int8 }.to_string(), "k=bf16,v=int8");
    }

    #[test]
    fn other_words_are_refused_and_named() {
        for (text, part) in [
            ("int4", "\"int4\" is no format"),
            ("", "\"\" is no format"),
            ("k=int9,v=f16", "\"int9\" is no format"),
            ("k=int8", "k=FORMAT,v=FORMAT expected"),
            ("k=int8,k=int8", "each once"),
            ("k=int8,v=f16,v=f16", "each once"),
            ("int8,f16", "\"int8,f16\""),
            ("K=int8,v=f16", "\"K=int8,v=f16\""),
        ] {
            let error = text.parse::<KvFormats>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn bytes_of_a_head_count_its_scale() {
        let bytes = |format: KvFormat| format.head_bytes(128).expect("small");
        assert_eq!(KvFormat::ALL.map(bytes), [512, 256, 256, 132, 132]);
        assert_eq!(KvFormats { k: KvFormat::Bf16, v: KvFormat::Int8 }.head_bytes(64), Some(128 + 68));
        assert_eq!(KvFormat::F32.head_bytes(usize::MAX / 2), None);
    }

    #[test]
    fn bytes_of_a_token_count_every_layer() {
        // 28 layers of 8 heads of 128.
        let config = ModelConfig::published("qwen3-0.6b").expect("a published shape");
        assert_eq!(KvFormats::both(KvFormat::F32).token_bytes(&config), Some(28 * 8 * 2 * 512));
        assert_eq!(KvFormats { k: KvFormat::Bf16, v: KvFormat::Int8 }.token_bytes(&config), Some(28 * 8 * (256 + 132)));
        let huge = ModelConfig { num_hidden_layers: usize::MAX / 1000, ..config };
        assert_eq!(KvFormats::both(KvFormat::Int8).token_bytes(&huge), None);
    }
}
