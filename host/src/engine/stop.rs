//! Stop strings, found across token borders. Sees text only; end-of-text ids are the engine's.

use super::error::RequestError;

/// Most stop strings of one request.
pub const MAX_STOP_STRINGS: usize = 16;
/// Longest stop string in bytes.
pub const MAX_STOP_BYTES: usize = 256;

/// Text as it streams, minus what might still turn out to be a stop string.
///
/// Pieces it releases are append-only, and their concatenation is the text before the stop string that was complete first (of two
/// that end together, the longer one), so it does not matter how tokens cut the text. What could be the start of a stop string is
/// held until the next piece decides; [`StopMatcher::finish`] releases it when the text ends without.
#[derive(Debug, Clone, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    stopped: bool,
}

impl StopMatcher {
    /// Refuses empty strings, more than [`MAX_STOP_STRINGS`] and longer than [`MAX_STOP_BYTES`].
    pub fn new(stops: &[String]) -> Result<Self, RequestError> {
        let refuse = |value: String, expected| Err(RequestError::Field { field: "stop", value, expected });
        if stops.len() > MAX_STOP_STRINGS {
            return refuse(format!("{} strings", stops.len()), "at most 16 strings");
        }
        for (index, stop) in stops.iter().enumerate() {
            if stop.is_empty() {
                return refuse(format!("an empty string at index {index}"), "non-empty strings");
            }
            if stop.len() > MAX_STOP_BYTES {
                return refuse(format!("{} bytes at index {index}", stop.len()), "at most 256 bytes each");
            }
        }
        Ok(Self { stops: stops.to_vec(), held: String::new(), stopped: false })
    }

    /// Takes the next piece; gives what can be shown, and whether a stop string was met. Nothing follows after a stop.
    pub fn push(&mut self, piece: &str) -> (String, bool) {
        if self.stopped {
            return (String::new(), true);
        }
        self.held.push_str(piece);
        let found = |stop: &String| self.held.find(stop.as_str()).map(|start| (start + stop.len(), start));
        if let Some((_end, start)) = self.stops.iter().filter_map(found).min() {
            self.held.truncate(start);
            self.stopped = true;
            return (std::mem::take(&mut self.held), true);
        }
        let keep = self.stops.iter().map(|stop| longest_overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// The text has ended: what was held back is ordinary text after all.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes of the longest proper prefix of `stop` that ends `text`. Both are UTF-8, so such a border is one of characters too.
fn longest_overlap(text: &str, stop: &str) -> usize {
    (1..stop.len().min(text.len() + 1)).rev().find(|&n| text.as_bytes().ends_with(&stop.as_bytes()[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(&stops.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_stop_string_over_three_tokens_is_never_shown() {
        let mut m = matcher(&["</end>"]);
        assert_eq!(m.push("hi <"), ("hi ".into(), false));
        assert_eq!(m.push("/en"), ("".into(), false));
        assert_eq!(m.push("d> more"), ("".into(), true));
        assert_eq!(m.finish(), "");
        assert_eq!(m.push("later"), ("".into(), true));
    }

    #[test]
    fn a_false_start_is_released() {
        let mut m = matcher(&["\n\nUser", "é!"]);
        assert_eq!(m.push("a\n\nUs"), ("a".into(), false));
        assert_eq!(m.push("é"), ("\n\nUs".into(), false));
        assert_eq!(m.finish(), "é");
    }

    #[test]
    fn bounds_are_errors_with_numbers() {
        let text = |stops: Vec<String>| StopMatcher::new(&stops).unwrap_err().to_string();
        assert_eq!(
            text(vec!["a".into(), String::new()]),
            "stop: an empty string at index 1 given, non-empty strings expected"
        );
        assert_eq!(text(vec!["a".into(); 10_000]), "stop: 10000 strings given, at most 16 strings expected");
        assert_eq!(text(vec!["a".repeat(257)]), "stop: 257 bytes at index 0 given, at most 256 bytes each expected");
        assert!(StopMatcher::new(&vec!["a".repeat(256); 16]).is_ok());
    }

    proptest! {
        /// However the text is cut into pieces, the same text comes out: what stands before the first stop string.
        #[test]
        fn cutting_does_not_matter(text in "[ab<é]{0,40}", stops in prop::collection::vec("[ab<é]{1,4}", 0..4), cuts in prop::collection::vec(0usize..40, 0..8)) {
            let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
            let longest_at = |end: usize| stops.iter().filter(|s| text[..end].ends_with(s.as_str())).map(|s| end - s.len()).min();
            let expected = ends.into_iter().find_map(longest_at).map_or(text.as_str(), |start| &text[..start]);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&c| c <= text.len() && text.is_char_boundary(c)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut m = StopMatcher::new(&stops).unwrap();
            let mut shown = String::new();
            let mut stopped = false;
            for pair in cuts.windows(2) {
                let (piece, stop) = m.push(&text[pair[0]..pair[1]]);
                shown.push_str(&piece);
                stopped |= stop;
            }
            shown.push_str(&m.finish());
            prop_assert_eq!(stopped, stops.iter().any(|s| text.contains(s.as_str())));
            prop_assert_eq!(shown, expected);
        }
    }
}
