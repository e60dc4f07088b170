//! The checkpoint's tokenizer: text to ids, ids to bytes. The algorithm (NFC, pre-tokenizer, byte-level BPE, added tokens) is the
//! `tokenizers` crate's over the file's own settings; what is decided here is which files are accepted, and that text can be
//! encoded so that no control token comes out of it. It is not a chat template and adds no begin or end token.

use std::collections::HashMap;

use tokenizers::{DecoderWrapper, ModelWrapper, NormalizedString, Normalizer};

use super::{TextError, TextResult};

/// Ids above this are taken for damage: the largest published vocabularies have a quarter of a million entries.
const MAX_ID: u32 = 1 << 22;

/// Longest run of white space that is encoded. On one of about a million the crate's pre-tokenizer gives up without a word and leaves
/// the rest of the text unsplit, so longer runs are refused.
pub const MAX_SPACES: usize = 500_000;

/// What the text of an added token (`<|im_end|>`, `<think>`, …) means when it stands in the text to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// It is the token: for text that the engine or the operator wrote.
    Parse,
    /// It is text like any other, whether or not the file calls the token special: for text a user wrote.
    AsText,
}

/// A token that the file adds to the vocabulary and that matches as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedToken {
    /// Its id.
    pub id: u32,
    /// The text that stands for it.
    pub content: String,
    /// Whether decoding may hide it (`<|im_end|>` yes, `<think>` no).
    pub special: bool,
    /// Whether white space before it belongs to it.
    pub lstrip: bool,
    /// Whether white space after it belongs to it.
    pub rstrip: bool,
}

/// One stretch of a prompt: what [`Tokenizer::encode_spans`] encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span<'a> {
    /// Ordinary text; added tokens in it stay text.
    Text(&'a str),
    /// An added token, by its place in [`Tokenizer::added_tokens`].
    Added(usize),
}

/// A byte-level BPE tokenizer read from tokenizer.json. Immutable; may be shared between threads.
pub struct Tokenizer {
    /// With the added tokens.
    parsing: tokenizers::Tokenizer,
    /// The same vocabulary, merges, normalizer and pre-tokenizer without any added token.
    plain: tokenizers::Tokenizer,
    /// Bytes of every token, one after the other; token `i` is `offsets[i]..offsets[i + 1]`.
    bytes: Vec<u8>,
    offsets: Vec<u32>,
    known: Vec<bool>,
    added: Vec<AddedToken>,
    /// Place in `added` by id.
    added_by_id: HashMap<u32, usize>,
    /// Bytes that no token stands for: byte-level BPE drops them without a word, so text with one is refused.
    missing: Vec<u8>,
}

impl Tokenizer {
    /// Reads a tokenizer.json (merges as pairs or as "a b" strings).
    ///
    /// The file's truncation and padding are training settings and are not applied: a prompt is never cut or filled up here.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if the file is not JSON of this kind, or if it is not byte-level BPE: any other kind would lose or
    /// change bytes in ways [`super::Detokenizer`] cannot stream.
    pub fn from_bytes(json: &[u8]) -> TextResult<Self> {
        let mut parsing =
            tokenizers::Tokenizer::from_bytes(json).map_err(|error| refuse(one_line(&error.to_string())))?;
        parsing.with_padding(None);
        parsing.with_truncation(None).map_err(|error| refuse(one_line(&error.to_string())))?;
        let ModelWrapper::BPE(bpe) = parsing.get_model() else {
            return Err(refuse("the model is not BPE; only byte-level BPE is supported".into()));
        };
        if bpe.byte_fallback || bpe.dropout.is_some_and(|p| p > 0.0) {
            return Err(refuse(
                "byte_fallback and dropout are not supported; the model must be deterministic byte-level BPE".into(),
            ));
        }
        if !matches!(parsing.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return Err(refuse("the decoder is not ByteLevel; only byte-level BPE is supported".into()));
        }

        let mut plain = tokenizers::Tokenizer::new(parsing.get_model().clone());
        plain
            .with_normalizer(parsing.get_normalizer().cloned())
            .map_err(|error| refuse(one_line(&error.to_string())))?;
        plain.with_pre_tokenizer(parsing.get_pre_tokenizer().cloned());

        let mut added: Vec<AddedToken> = parsing
            .get_added_tokens_decoder()
            .into_iter()
            .map(|(id, token)| AddedToken {
                id,
                content: token.content,
                special: token.special,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
            })
            .collect();
        added.sort_by_key(|token| token.id);
        if let Some(token) = added.iter().find(|token| token.content.is_empty()) {
            return Err(refuse(format!("added token {} has no text", token.id)));
        }
        let added_by_id = added.iter().enumerate().map(|(place, token)| (token.id, place)).collect();

        let vocab = parsing.get_vocab(false);
        let table = byte_table(&vocab, &added)?;
        let tokenizer = Tokenizer {
            parsing,
            plain,
            bytes: table.bytes,
            offsets: table.offsets,
            known: table.known,
            added,
            added_by_id,
            missing: (0..=u8::MAX).filter(|byte| !vocab.contains_key(&String::from(byte_char(*byte)))).collect(),
        };
        tokenizer.check_text_stays_text()?;
        Ok(tokenizer)
    }

    /// Ids of `text`. No begin or end token is added. The file's normalizer applies, so decoding gives back the normalized text.
    ///
    /// # Errors
    /// [`TextError::Request`] for a run of white space longer than [`MAX_SPACES`] and for a byte that the vocabulary has no token for
    /// (SmolLM2's lacks six control characters and what begins code points from U+40000 on); [`TextError::Tokenizer`] if the crate
    /// refuses, which no text is known to provoke.
    pub fn encode(&self, text: &str, special: Special) -> TextResult<Vec<u32>> {
        let spaces = longest_run_of_spaces(text);
        if spaces > MAX_SPACES {
            return Err(TextError::Request(format!(
                "{spaces} white-space characters in a row are more than the limit of {MAX_SPACES}"
            )));
        }
        self.check_covered(text)?;
        let tokenizer = match special {
            Special::Parse => &self.parsing,
            Special::AsText => &self.plain,
        };
        let encoding = tokenizer.encode_fast(text, false).map_err(|error| refuse(one_line(&error.to_string())))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Ids of a prompt given in stretches: the added tokens it names, and nothing else, become control tokens.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_spans(&self, spans: &[Span<'_>]) -> TextResult<Vec<u32>> {
        let neighbour = |place: Option<&Span<'_>>| match place {
            Some(Span::Added(place)) => Some(&self.added[*place]),
            _ => None,
        };
        let mut ids = Vec::new();
        for (place, span) in spans.iter().enumerate() {
            match *span {
                Span::Added(place) => ids.push(self.added[place].id),
                Span::Text(mut text) => {
                    let before = place.checked_sub(1).and_then(|before| neighbour(spans.get(before)));
                    if before.is_some_and(|token| token.rstrip) {
                        text = text.trim_start();
                    }
                    if neighbour(spans.get(place + 1)).is_some_and(|token| token.lstrip) {
                        text = text.trim_end();
                    }
                    ids.extend(self.encode(text, Special::AsText)?);
                }
            }
        }
        Ok(ids)
    }

    /// Text of `ids`; bytes that are not UTF-8 become U+FFFD, one per maximal bad subpart. Ids outside the vocabulary are empty.
    /// Equal to what [`super::Detokenizer`] gives piece by piece.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            if !(skip_special && self.is_special(id)) {
                bytes.extend_from_slice(self.token_bytes(id).unwrap_or_default());
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    /// Bytes that token `id` stands for, or `None` if the vocabulary has no such id (a model's lm_head may be padded beyond it).
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let place = id as usize;
        if !*self.known.get(place)? {
            return None;
        }
        Some(&self.bytes[self.offsets[place] as usize..self.offsets[place + 1] as usize])
    }

    /// The token as tokenizer.json spells it (`Ġthe` for " the"): one character per byte, so nothing is lost in print.
    pub fn piece(&self, id: u32) -> Option<String> {
        self.parsing.id_to_token(id)
    }

    /// Id of an added token by its exact text.
    pub fn added_id(&self, content: &str) -> Option<u32> {
        self.added.iter().find(|token| token.content == content).map(|token| token.id)
    }

    /// The added tokens, ascending by id.
    pub fn added_tokens(&self) -> &[AddedToken] {
        &self.added
    }

    /// Whether `id` is an added token, special or not.
    pub fn is_added(&self, id: u32) -> bool {
        self.added_by_id.contains_key(&id)
    }

    /// Whether `id` is an added token that decoding may hide.
    pub fn is_special(&self, id: u32) -> bool {
        self.added_by_id.get(&id).is_some_and(|&place| self.added[place].special)
    }

    /// Whether the text of some added token stands in `text`.
    pub fn contains_added(&self, text: &str) -> bool {
        self.added.iter().any(|token| text.contains(&token.content))
    }

    /// One more than the highest id, added tokens included. A model's `vocab_size` may be larger (padding) but not smaller.
    pub fn vocab_size(&self) -> usize {
        self.known.len()
    }

    /// Refuses text that would lose a byte.
    fn check_covered(&self, text: &str) -> TextResult<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let mut text = NormalizedString::from(text);
        if let Some(normalizer) = self.parsing.get_normalizer() {
            normalizer.normalize(&mut text).map_err(|error| refuse(one_line(&error.to_string())))?;
        }
        match text.get().bytes().enumerate().find(|(_, byte)| self.missing.contains(byte)) {
            None => Ok(()),
            Some((at, byte)) => Err(TextError::Request(format!(
                "byte {at} of the text is 0x{byte:02x}, which the model's vocabulary has no token for; it would be lost"
            ))),
        }
    }

    /// The promise of [`Special::AsText`], tried on what would break it.
    fn check_text_stays_text(&self) -> TextResult<()> {
        for token in &self.added {
            let ids = self.encode(&token.content, Special::AsText)?;
            if ids.iter().any(|&id| self.is_added(id)) {
                return Err(refuse(format!(
                    "the merges can spell added token {} ({:?}) from ordinary text",
                    token.id, token.content
                )));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).field("added", &self.added.len()).finish()
    }
}

/// Bytes of every token, packed.
struct ByteTable {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
    known: Vec<bool>,
}

fn byte_table(vocab: &HashMap<String, u32>, added: &[AddedToken]) -> TextResult<ByteTable> {
    let highest = vocab.values().copied().chain(added.iter().map(|token| token.id)).max();
    let Some(highest) = highest else { return Err(refuse("the vocabulary is empty".into())) };
    if highest > MAX_ID {
        return Err(refuse(format!("id {highest} is above the limit of {MAX_ID}")));
    }
    let byte_of: HashMap<char, u8> = (0..=u8::MAX).map(|byte| (byte_char(byte), byte)).collect();
    let mut tokens: Vec<Option<Vec<u8>>> = vec![None; highest as usize + 1];
    for (piece, &id) in vocab {
        let bytes: Option<Vec<u8>> = piece.chars().map(|character| byte_of.get(&character).copied()).collect();
        let slot = &mut tokens[id as usize];
        if slot.is_some() {
            return Err(refuse(format!("id {id} stands for more than one token")));
        }
        // A piece outside the byte alphabet stands for its own text.
        *slot = Some(bytes.unwrap_or_else(|| piece.as_bytes().to_vec()));
    }
    for token in added {
        tokens[token.id as usize] = Some(token.content.as_bytes().to_vec());
    }
    let mut table = ByteTable { bytes: Vec::new(), offsets: vec![0], known: Vec::with_capacity(tokens.len()) };
    for token in &tokens {
        table.bytes.extend_from_slice(token.as_deref().unwrap_or_default());
        let end = u32::try_from(table.bytes.len()).map_err(|_| refuse("the vocabulary's text is over 4 GiB".into()))?;
        table.offsets.push(end);
        table.known.push(token.is_some());
    }
    Ok(table)
}

/// The character byte-level BPE writes for `byte`: itself where it is printable Latin-1, else the next free one from U+0100.
fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + rank).expect("U+0100 to U+0143 are characters")
}

fn longest_run_of_spaces(text: &str) -> usize {
    if text.len() <= MAX_SPACES {
        return 0;
    }
    let (mut longest, mut run) = (0, 0);
    for character in text.chars() {
        run = if character.is_whitespace() { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

fn refuse(reason: String) -> TextError {
    TextError::Tokenizer(reason)
}

/// Foreign messages may span lines; ours never do.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::byte_char;

    #[test]
    fn byte_characters_are_a_bijection_with_the_published_corners() {
        let mut all: Vec<char> = (0..=u8::MAX).map(byte_char).collect();
        assert_eq!((byte_char(b' '), byte_char(b'\n'), byte_char(0), byte_char(0xad)), ('Ġ', 'Ċ', 'Ā', 'Ń'));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 256);
    }
}
