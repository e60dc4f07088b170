//! Marks: private-use characters that stand for the control tokens a template's own source writes out. Replacing them there, and
//! only there, tells the template's control tokens from the same characters in a message. This is a lexer of Jinja's blocks and
//! string literals, not a parser: a literal the template compares with (`'</think>' in content`) keeps its spelling, all others and
//! the text outside blocks are marked. A wrong guess changes the rendering and is seen by the caller.

use super::super::tokenizer::Span;
use super::super::{TextError, TextResult};

/// Private-use plane 16: where marks are taken from.
const FIRST: u32 = 0x10_0000;
const LAST: u32 = 0x10_fffd;

/// Methods and filters whose arguments are looked for in a value, not written.
const SEARCHING: [&str; 16] = [
    "startswith",
    "endswith",
    "split",
    "rsplit",
    "strip",
    "lstrip",
    "rstrip",
    "replace",
    "find",
    "rfind",
    "index",
    "count",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
];

/// The marks of one tokenizer's control tokens: token `i` is the character `base + i`.
#[derive(Debug, Clone)]
pub(super) struct Marks {
    tokens: Vec<String>,
    /// Places in `tokens`, longest text first: where two tokens match, the longer one is meant.
    longest_first: Vec<usize>,
    base: u32,
}

impl Marks {
    /// Chooses marks that occur in none of `texts`.
    pub(super) fn new(tokens: Vec<String>, texts: &[&str]) -> TextResult<Self> {
        let mut taken: Vec<u32> = texts
            .iter()
            .flat_map(|text| text.chars())
            .map(u32::from)
            .filter(|code| (FIRST..=LAST).contains(code))
            .collect();
        taken.sort_unstable();
        let count = tokens.len() as u32;
        let mut base = FIRST;
        for code in taken {
            if code < base + count && code >= base {
                base = code + 1;
            }
        }
        if base + count > LAST + 1 {
            return Err(TextError::Template(format!(
                "no {count} free private-use characters are left beside those in the messages"
            )));
        }
        let mut longest_first: Vec<usize> = (0..tokens.len()).collect();
        longest_first.sort_by_key(|&place| std::cmp::Reverse(tokens[place].len()));
        Ok(Marks { tokens, longest_first, base })
    }

    /// The control tokens' texts.
    pub(super) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Whether no mark occurs in `text`.
    pub(super) fn are_free_in(&self, text: &str) -> bool {
        !text.chars().any(|character| self.place(character).is_some())
    }

    /// `text` with every control token replaced by its mark.
    pub(super) fn mark_text(&self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            match self.longest_first.iter().find(|&&place| rest.starts_with(&self.tokens[place])) {
                Some(&place) => {
                    marked.push(self.mark(place));
                    rest = &rest[self.tokens[place].len()..];
                }
                None => {
                    marked.push(character);
                    rest = &rest[character.len_utf8()..];
                }
            }
        }
        marked
    }

    /// `text` with every mark replaced by its control token.
    pub(super) fn unmark(&self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        for character in text.chars() {
            match self.place(character) {
                Some(place) => plain.push_str(&self.tokens[place]),
                None => plain.push(character),
            }
        }
        plain
    }

    /// The marks of `text` as control tokens, what lies between as text.
    pub(super) fn spans<'t>(&self, text: &'t str) -> Vec<Span<'t>> {
        let mut spans = Vec::new();
        let mut start = 0;
        for (at, character) in text.char_indices() {
            if let Some(place) = self.place(character) {
                if at > start {
                    spans.push(Span::Text(&text[start..at]));
                }
                spans.push(Span::Added(place));
                start = at + character.len_utf8();
            }
        }
        if start < text.len() {
            spans.push(Span::Text(&text[start..]));
        }
        spans
    }

    /// The template's source with the control tokens it writes out replaced by marks.
    pub(super) fn mark_source(&self, source: &str) -> String {
        let mut marked = String::with_capacity(source.len());
        let mut rest = source;
        loop {
            let Some(open) = next_block(rest) else {
                marked.push_str(&self.mark_text(rest));
                return marked;
            };
            marked.push_str(&self.mark_text(&rest[..open]));
            rest = &rest[open..];
            if rest.starts_with("{#") {
                let end = rest.find("#}").map_or(rest.len(), |end| end + 2);
                marked.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            let block = Block::read(rest);
            self.mark_block(rest, &block, &mut marked);
            let is_raw = block.is_tag(rest, "raw");
            rest = &rest[block.end..];
            if is_raw {
                // Between `raw` and `endraw` nothing is a block.
                let end = rest.find("endraw").and_then(|at| rest[..at].rfind("{%")).unwrap_or(rest.len());
                marked.push_str(&self.mark_text(&rest[..end]));
                rest = &rest[end..];
            }
        }
    }

    fn mark_block(&self, block_source: &str, block: &Block, marked: &mut String) {
        let mut copied = 0;
        for (place, token) in block.tokens.iter().enumerate() {
            if token.kind == Kind::Literal && !block.is_searched_for(block_source, place) {
                marked.push_str(&block_source[copied..token.start]);
                marked.push_str(&self.mark_text(&block_source[token.start..token.end]));
                copied = token.end;
            }
        }
        marked.push_str(&block_source[copied..block.end]);
    }

    fn mark(&self, place: usize) -> char {
        char::from_u32(self.base + place as u32).expect("every code point of plane 16 up to LAST is a character")
    }

    fn place(&self, character: char) -> Option<usize> {
        let place = u32::from(character).checked_sub(self.base)? as usize;
        (place < self.tokens.len()).then_some(place)
    }
}

/// Where the next block or comment begins.
fn next_block(source: &str) -> Option<usize> {
    ["{{", "{%", "{#"].iter().filter_map(|open| source.find(open)).min()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Literal,
    Word,
    Sign,
}

/// A token of a block, as a byte range of its source.
#[derive(Debug, Clone, Copy)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

/// One `{{ … }}` or `{% … %}`.
struct Block {
    tokens: Vec<Token>,
    end: usize,
}

impl Block {
    /// Reads the block at the start of `source`, which begins with its opening.
    fn read(source: &str) -> Block {
        let close = if source.starts_with("{{") { "}}" } else { "%}" };
        let mut tokens = Vec::new();
        let mut at = 2;
        let mut braces = 0usize;
        while let Some(character) = source[at..].chars().next() {
            // `}}` ends an expression only outside of a dictionary.
            if braces == 0 && source[at..].starts_with(close) {
                return Block { tokens, end: at + 2 };
            }
            let start = at;
            let kind = if character == '\'' || character == '"' {
                at = literal_end(source, start, character);
                Kind::Literal
            } else if character.is_alphanumeric() || character == '_' {
                at += source[at..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(source.len() - at);
                Kind::Word
            } else {
                at += character.len_utf8();
                if (character == '=' || character == '!') && source[at..].starts_with('=') {
                    at += 1;
                }
                Kind::Sign
            };
            match character {
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                _ => {}
            }
            if !character.is_whitespace() {
                tokens.push(Token { kind, start, end: at });
            }
        }
        Block { tokens, end: source.len() }
    }

    /// Whether this is the tag `{% name … %}`; `source` is the text [`Block::read`] was given.
    fn is_tag(&self, source: &str, name: &str) -> bool {
        let word = self.tokens.iter().find(|token| token.kind != Kind::Sign);
        source.starts_with("{%") && word.is_some_and(|token| &source[token.start..token.end] == name)
    }

    /// Whether the literal at `place` is compared with a value or looked for in one.
    fn is_searched_for(&self, source: &str, place: usize) -> bool {
        let text = |place: usize| self.tokens.get(place).map_or("", |token| &source[token.start..token.end]);
        let before = place.checked_sub(1).map_or("", text);
        let after = text(place + 1);
        if ["==", "!=", "in"].contains(&before) || ["==", "!=", "in"].contains(&after) {
            return true;
        }
        if after == "not" && text(place + 2) == "in" {
            return true;
        }
        // Inside the brackets of a searching call, or of a list behind `in` or a comparison.
        let mut depth = 0usize;
        for open in (0..place).rev() {
            match text(open) {
                ")" | "]" => depth += 1,
                "(" | "[" if depth > 0 => depth -= 1,
                "(" | "[" => {
                    let owner = open.checked_sub(1).map_or("", text);
                    if SEARCHING.contains(&owner) || ["==", "!=", "in"].contains(&owner) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}

/// End of the string literal that begins at `start` with `quote`.
fn literal_end(source: &str, start: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in source[start + 1..].char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return start + 1 + at + 1;
        }
    }
    source.len()
}
