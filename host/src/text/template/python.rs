//! What templates expect from Python: how values print, `json.dumps`, `str.strip`, `strftime`. Only what differs from minijinja and
//! its `pycompat`; the bar is the text transformers gives.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::{Kwargs, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, Output, State};

/// A JSON value as a template value, order of keys kept.
pub(super) fn from_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), _, _) => Value::from(value),
            (_, Some(value), _) => Value::from(value),
            (_, _, value) => Value::from(value.unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<_>>()),
        serde_json::Value::Object(fields) => {
            Value::from_pairs(fields.iter().map(|(key, value)| (Value::from(key.as_str()), from_json(value))))
        }
    }
}

/// Prints a value as `str()` does: strings as they are, `True`, `None`, lists and dictionaries by `repr`.
pub(super) fn write_value(out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    let failed = |error: std::fmt::Error| Error::new(ErrorKind::WriteFailure, error.to_string());
    if let Some(text) = value.as_str() {
        return out.write_str(text).map_err(failed);
    }
    let mut text = String::new();
    write_repr(&mut text, value)?;
    out.write_str(&text).map_err(failed)
}

fn write_repr(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)?),
        ValueKind::String => write_string_repr(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            for (place, item) in value.try_iter()?.enumerate() {
                out.push_str(if place == 0 { "" } else { ", " });
                write_repr(out, &item)?;
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (place, key) in value.try_iter()?.enumerate() {
                out.push_str(if place == 0 { "" } else { ", " });
                write_repr(out, &key)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// `repr` of a string: single quotes unless only they occur, control characters escaped.
fn write_string_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x100 && c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// The filter `tojson` of transformers: `json.dumps(value, ensure_ascii=False, indent=…, separators=…, sort_keys=…)`.
pub(super) fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<String, Error> {
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let indent = match indent {
        Some(indent) if !indent.is_none() => Some(usize::try_from(indent)?),
        _ => None,
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(other) => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: separators needs 2 strings, found {}", other.len()),
            ));
        }
    };
    let style =
        JsonStyle { ensure_ascii: ensure_ascii == Some(true), indent, item, key, sort_keys: sort_keys == Some(true) };
    let mut json = String::new();
    style.write(&mut json, value, 0)?;
    Ok(json)
}

struct JsonStyle {
    ensure_ascii: bool,
    indent: Option<usize>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl JsonStyle {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)?.replace("nan", "NaN").replace("inf", "Infinity")),
            ValueKind::String => self.write_string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_all(out, "[]", items.len(), depth, |out, place| self.write(out, &items[place], depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_all(out, "{}", keys.len(), depth, |out, place| {
                    let key = &keys[place];
                    match key.as_str() {
                        Some(text) => self.write_string(out, text),
                        None => {
                            let mut text = String::new();
                            self.write(&mut text, key, depth)?;
                            self.write_string(out, &text);
                        }
                    }
                    out.push_str(&self.key);
                    self.write(out, &value.get_item(key)?, depth + 1)
                })?;
            }
            other => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("a value of type {other} is not JSON serializable"),
                ));
            }
        }
        Ok(())
    }

    fn write_all(
        &self,
        out: &mut String,
        brackets: &str,
        count: usize,
        depth: usize,
        mut write: impl FnMut(&mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, depth: usize| {
            if let Some(indent) = self.indent {
                out.push('\n');
                out.push_str(&" ".repeat(indent * depth));
            }
        };
        out.push_str(&brackets[..1]);
        for place in 0..count {
            if place > 0 {
                out.push_str(&self.item);
            }
            line(out, depth + 1);
            write(out, place)?;
        }
        if count > 0 {
            line(out, depth);
        }
        out.push_str(&brackets[1..]);
        Ok(())
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c if self.ensure_ascii && c > '\u{7e}' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A number as `repr` writes it.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    Ok(float(f64::try_from(value.clone())?))
}

/// `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".into()
        } else if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("LowerExp always writes an exponent");
    let exponent: i32 = exponent.parse().expect("LowerExp writes a decimal exponent");
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// Methods of Python's types: `strip` and its kin by Python's idea of white space, the rest from `pycompat`.
pub(super) fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (Some(text), "strip" | "lstrip" | "rstrip") = (value.as_str(), name) else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args);
    };
    let (characters,): (Option<&str>,) = from_args(args)?;
    let strip = |c: char| characters.map_or_else(|| is_space(c), |characters| characters.contains(c));
    Ok(Value::from(match name {
        "lstrip" => text.trim_start_matches(strip),
        "rstrip" => text.trim_end_matches(strip),
        _ => text.trim_matches(strip),
    }))
}

/// `str.isspace` of one character: Unicode's white space and the four information separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// `strftime_now(format)`: the time now, in UTC.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    strftime(format, seconds)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

fn strftime(format: &str, seconds: u64) -> Result<String, Error> {
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[((days + 4) % 7) as usize];
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => text.push_str(&year.to_string()),
            Some('y') => text.push_str(&format!("{:02}", year % 100)),
            Some('m') => text.push_str(&format!("{month:02}")),
            Some('d') => text.push_str(&format!("{day:02}")),
            Some('B') => text.push_str(month_name),
            Some('b') => text.push_str(&month_name[..3]),
            Some('A') => text.push_str(day_name),
            Some('a') => text.push_str(&day_name[..3]),
            Some('H') => text.push_str(&format!("{hour:02}")),
            Some('I') => text.push_str(&format!("{:02}", (hour + 11) % 12 + 1)),
            Some('p') => text.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('M') => text.push_str(&format!("{minute:02}")),
            Some('S') => text.push_str(&format!("{second:02}")),
            Some('%') => text.push('%'),
            other => {
                let directive = other.map_or_else(String::new, String::from);
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("strftime_now: unknown directive %{directive}"),
                ));
            }
        }
    }
    Ok(text)
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian calendar).
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::{float, strftime, tojson};
    use minijinja::value::{Kwargs, Value};

    #[test]
    fn floats_print_as_python_prints_them() {
        // Each right side is CPython's repr.
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789.125, "123456789.125"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn dates_are_right_at_the_corners() {
        for (seconds, expected) in [
            (0, "Thursday 01 Jan 1970 00:00:00 12 AM"),
            (951_782_400, "Tuesday 29 Feb 2000 00:00:00 12 AM"),
            (1_735_689_599, "Tuesday 31 Dec 2024 23:59:59 11 PM"),
            (4_107_542_400, "Monday 01 Mar 2100 00:00:00 12 AM"),
        ] {
            assert_eq!(strftime("%A %d %b %Y %H:%M:%S %I %p", seconds).expect("known directives"), expected);
        }
        assert!(strftime("%Q", 0).is_err());
    }

    #[test]
    fn json_is_python_json() {
        let none = || Kwargs::from_iter(std::iter::empty::<(String, Value)>());
        let value = super::from_json(
            &serde_json::json!({"b": [1, 2.0, null, true], "a": {}, "s": "<é>\"\n\u{1}\u{7f}'&", "e": []}),
        );
        let one_line = "{\"b\": [1, 2.0, null, true], \"a\": {}, \"s\": \"<é>\\\"\\n\\u0001\u{7f}'&\", \"e\": []}";
        assert_eq!(tojson(&value, None, none()).expect("serializable"), one_line);
        let small = super::from_json(&serde_json::json!({"a": [1, {"b": 2}]}));
        let indented = "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ]\n}";
        assert_eq!(tojson(&small, Some(Value::from(2)), none()).expect("serializable"), indented);
        assert!(tojson(&Value::UNDEFINED, None, none()).is_err());
    }
}
