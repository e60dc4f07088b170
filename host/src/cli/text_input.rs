//! Text a command is given: on the command line, in a file, or on stdin where the user asks for it by `-`. What is read is what is
//! used, byte for byte: nothing is trimmed, and `\n` typed as two characters becomes a line break only with `--escape`.

use std::io::Read;
use std::path::Path;

use super::error::{CliError, CliResult};

/// Bytes of a file, or of stdin for `-`.
pub(super) fn read_bytes(path: &Path) -> CliResult<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| CliError::failed(format!("stdin: {error}")))?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|error| CliError::file(path, &error))
}

/// Text of a file, or of stdin for `-`.
pub(super) fn read_text(path: &Path) -> CliResult<String> {
    let name = if path.as_os_str() == "-" { "stdin".into() } else { path.display().to_string() };
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        CliError::failed(format!("{name}: not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    })
}

/// Ids of a file of little-endian 16-bit numbers.
pub(super) fn read_ids_u16(path: &Path) -> CliResult<Vec<u32>> {
    let bytes = read_bytes(path)?;
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        let length = bytes.len();
        return Err(CliError::failed(format!("{}: {length} bytes, an even number is needed", path.display())));
    }
    Ok(pairs.iter().map(|pair| u32::from(u16::from_le_bytes(*pair))).collect())
}

/// `\n`, `\r`, `\t`, `\\`, `\"`, `\'` and `\0` as the characters they name; any other backslash stays.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let named = match (character, characters.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', Some('0')) => '\0',
            ('\\', Some(&same @ ('\\' | '"' | '\''))) => same,
            _ => {
                plain.push(character);
                continue;
            }
        };
        characters.next();
        plain.push(named);
    }
    plain
}

/// A size as users write it: `34359738368` bytes, or `32GiB`, `512MiB`, `64KiB`.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size above 0 such as 32GiB, 512MiB or 34359738368");
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = units.iter().find_map(|(name, factor)| Some((text.strip_suffix(name)?, *factor)));
    let (digits, factor) = unit.unwrap_or((text, 1));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let size = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    size.filter(|size| *size > 0).ok_or_else(wrong)
}

/// A token count as users write it: `4096`, `4k` (1024 each), `1m` (1024 k).
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    let wrong = || format!("{text:?} is not a count such as 4096 or 4k");
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    digits.parse::<usize>().ok().and_then(|count| count.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::{parse_count, unescape};

    #[test]
    fn escapes_are_only_the_named_ones() {
        assert_eq!(unescape(r#"a\nb\tc\\n\"\q\"#), "a\nb\tc\\n\"\\q\\");
    }

    #[test]
    fn counts_may_be_short() {
        assert_eq!(parse_count("32k"), Ok(32_768));
        assert_eq!(parse_count("1M"), Ok(1 << 20));
        assert_eq!(parse_count("4096"), Ok(4096));
        for wrong in ["", "k", "-1", "4.5k", "4 k", "1e3", "99999999999999999999", "99999999999999999m", "é"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }
}
