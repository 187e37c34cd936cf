//! A machine description as a file and as TOML: from text to values of keys, and back.

use farreach_types::{Error, text_file};
use serde_json::{Map, Value as Json};
use std::path::Path;

/// Most bytes of a file that describes a machine: a thousand times what one needs, and little where the file is something else.
const MOST_BYTES: u64 = 1 << 20;
/// Most characters of a line in a message.
const SHOWN: usize = 80;

/// The text of a file that describes a machine.
pub(super) fn read(file: &str) -> Result<String, Error> {
    text_file::read(Path::new(file), MOST_BYTES).map_err(|source| Error::Io { file: file.to_owned(), source })
}

/// The keys of a description and their values. The error names line and column and shows the line.
pub(super) fn parse(text: &str) -> Result<Map<String, Json>, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| refusal(text, &e))?;
    Ok(table.into_iter().map(|(key, value)| (key, json(value))).collect())
}

/// In one line, whatever the file is: what the parser prints repeats the line to its end.
fn refusal(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text[..(0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let place = format!("line {}, column {}", before.matches('\n').count() + 1, before[start..].chars().count() + 1);
    let line = text[start..].lines().next().unwrap_or("");
    // What a terminal would obey is not shown.
    let shown: String = line.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let rest = if line.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("TOML: {place}: {}, in '{shown}{rest}'", error.message().trim().replace('\n', ", "))
}

/// A value of TOML. What JSON has no form for stays the text that it was, so that whoever refuses it can show it.
fn json(value: toml::Value) -> Json {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(n) => n.into(),
        toml::Value::Float(x) if x.is_finite() => x.into(),
        toml::Value::Float(x) => x.to_string().to_lowercase().into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect(),
        toml::Value::Table(table) => Json::Object(table.into_iter().map(|(key, value)| (key, json(value))).collect()),
    }
}

/// A value that a key resolved to, as TOML. That is how JSON writes it, but for numbers beyond those of TOML, which keys take as a text
/// too, and for the one control character that JSON leaves as it is.
pub(super) fn toml(value: &Json) -> String {
    match value.as_u64() {
        Some(n) if i64::try_from(n).is_err() => format!("\"{n}\""),
        _ => value.to_string().replace('\u{7f}', "\\u007F"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_short_line() {
        for (text, words) in [
            ("kind = \"single\"\nentries = = 3\n".to_owned(), "TOML: line 2, column 11: "),
            ("# \u{e4}\nm\u{e4} = 1".to_owned(), "TOML: line 2, column 2: "),
            (format!("about = {}", "[".repeat(100_000)), "TOML: line 1, column "),
            ("\0".repeat(100_000), "TOML: line 1, column "),
            ("kind = \"single".to_owned(), "TOML: line 1, column "),
            ("\u{feff}kind single".to_owned(), "TOML: line 1, column "),
            ("entries = 99999999999999999999".to_owned(), "99999999999999999999"),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.contains(words) && said.len() < 500 && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn values_survive_being_printed() {
        let text = "a \u{7f}\u{1f}\u{e4}\n\t\"\\' b";
        for value in [u64::MAX.into(), (1u64 << 63).into(), (i64::MAX as u64).into(), 0.25.into(), 1e300.into(), text.into()] {
            let again = parse(&format!("key = {}", toml(&value))).unwrap_or_else(|e| panic!("{e}"));
            let number = again["key"].as_str().and_then(|text| text.parse::<u64>().ok().map(Json::from));
            assert_eq!(number.unwrap_or_else(|| again["key"].clone()), value);
        }
    }
}
