//! Ids to text, one token at a time, without ever showing half a character: bytes are held back until they are whole code points.
//! It stops for nothing: bad bytes become U+FFFD and the text goes on. It does not look for stop strings and hides no reasoning.

use super::Tokenizer;

/// Streams the text of one sequence of ids. The deltas, one after the other, are exactly [`Tokenizer::decode`] of all ids.
pub struct Detokenizer<'t> {
    tokenizer: &'t Tokenizer,
    skip_special: bool,
    utf8: Utf8Stream,
}

impl<'t> Detokenizer<'t> {
    /// Starts an empty text; `skip_special` hides added tokens that are marked special.
    pub fn new(tokenizer: &'t Tokenizer, skip_special: bool) -> Self {
        Detokenizer { tokenizer, skip_special, utf8: Utf8Stream::default() }
    }

    /// Text that is complete now that `id` has come; may be empty.
    pub fn push(&mut self, id: u32) -> String {
        if self.skip_special && self.tokenizer.is_special(id) {
            return String::new();
        }
        self.utf8.push(self.tokenizer.token_bytes(id).unwrap_or_default())
    }

    /// Ends the text: what is still held back becomes U+FFFD. The next `push` starts a new text.
    pub fn finish(&mut self) -> String {
        self.utf8.finish()
    }
}

/// Turns bytes that arrive in arbitrary cuts into the text `String::from_utf8_lossy` would give for all of them.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    /// The start of a code point whose rest has not come; at most three bytes.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// Text that is complete now that `bytes` have come.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).expect("from_utf8 has just found these bytes valid"));
                    rest = bad;
                    // No length: the bytes so far are the start of a code point, so wait for more.
                    let Some(length) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        self.held = rest.to_vec();
        text
    }

    /// Ends the text. Held bytes are one unfinished code point, so one U+FFFD stands for them.
    pub fn finish(&mut self) -> String {
        if self.held.is_empty() {
            return String::new();
        }
        self.held.clear();
        String::from(char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Utf8Stream;

    fn stream(cuts: &[Vec<u8>]) -> String {
        let mut utf8 = Utf8Stream::default();
        let mut text: String = cuts.iter().map(|cut| utf8.push(cut)).collect();
        text.push_str(&utf8.finish());
        text
    }

    #[test]
    fn bad_bytes_become_one_replacement_per_maximal_subpart() {
        for (bytes, expected) in [
            (&b"\xc0\x80"[..], "\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"a\xf0\x9f\x91", "a\u{fffd}"),
            (b"\xf0\x9f\x91b", "\u{fffd}b"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            let single: Vec<Vec<u8>> = bytes.iter().map(|&byte| vec![byte]).collect();
            assert_eq!(stream(&single), expected, "{bytes:x?}");
        }
    }

    /// Bytes with whole characters, cut ones and noise.
    fn text_like_bytes() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let part = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            (any::<char>(), 1usize..4).prop_map(|(c, keep)| {
                let mut bytes = c.to_string().into_bytes();
                bytes.truncate(keep);
                bytes
            }),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(part, 0..40)
    }

    proptest! {
        #[test]
        fn any_cut_of_any_bytes_equals_the_whole(cuts in text_like_bytes()) {
            let whole = cuts.concat();
            prop_assert_eq!(stream(&cuts), String::from_utf8_lossy(&whole));
        }
    }
}
