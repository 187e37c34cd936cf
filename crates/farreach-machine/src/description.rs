//! A machine description as a file and as TOML: from text to values of keys, and back.

use farreach_types::{Error, text_file};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::path::Path;
use toml::de::DeTable;

/// Most bytes of a file that describes a machine: a thousand times the usual size, so that little memory is taken by a
/// wrong file.
const MOST_BYTES: u64 = 1 << 20;
/// Most characters of a line in a message.
const SHOWN: usize = 80;

/// The text of a file that describes a machine.
pub(super) fn read(file: &str) -> Result<String, Error> {
    text_file::read(Path::new(file), MOST_BYTES).map_err(|source| Error::Io { file: file.to_owned(), source })
}

/// The contents of a description.
#[derive(Debug)]
pub(super) struct Description {
    /// One line for display.
    pub about: String,
    /// All other keys.
    pub keys: Map<String, Json>,
    pub lines: Lines,
}

/// The line of each key, from 1.
#[derive(Debug)]
pub(super) struct Lines(HashMap<String, usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let table = DeTable::parse(text).map(|table| table.into_inner()).unwrap_or_default();
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        Lines(table.keys().map(|key| (key.get_ref().to_string(), line(key.span().start))).collect())
    }

    /// An error with the line of its key in front, unless an override in `given` replaced that key: errors begin with
    /// `key = value` or with `unknown key 'key'`.
    pub fn place(&self, what: String, given: &Map<String, Json>) -> String {
        let unknown = what.strip_prefix("unknown key '").and_then(|rest| rest.split_once('\''));
        let key =
            unknown.or_else(|| what.split_once(" = ")).map(|(key, _)| key).filter(|key| !given.contains_key(*key));
        match key.and_then(|key| self.0.get(key)) {
            Some(line) => format!("line {line}: {what}"),
            None => what,
        }
    }
}

/// Reads a description. The error names line and column and shows the line.
pub(super) fn parse(text: &str) -> Result<Description, String> {
    let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| refusal(text, &e))?;
    let lines = Lines::of(text);
    let about = match table.remove("about") {
        None => String::new(),
        Some(toml::Value::String(about)) => about,
        Some(other) => {
            let what = format!("about = {other} is not allowed: about must be a text, in quotes");
            return Err(lines.place(what, &Map::new()));
        }
    };
    Ok(Description { about, keys: table.into_iter().map(|(key, value)| (key, json(value))).collect(), lines })
}

/// An error of the parser in one line: its own message repeats the whole line, which may be long.
fn refusal(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text[..(0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let place = format!("line {}, column {}", before.matches('\n').count() + 1, before[start..].chars().count() + 1);
    let line = text[start..].lines().next().unwrap_or("");
    // Control characters are replaced.
    let shown: String = line.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let rest = if line.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("TOML: {place}: {}, in '{shown}{rest}'", error.message().trim().replace('\n', ", "))
}

/// A value of TOML as JSON. A value without a JSON form stays text, so that the error that refuses it can show it.
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

/// The resolved value of a key, as TOML. This is its JSON text, except for numbers beyond those of TOML, which keys
/// accept as a text too, and for the one control character that JSON does not escape.
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
    fn refusals_are_put_on_the_line_of_their_key() {
        let lines =
            parse("# \u{e4}\n\nentries = 0\n'penalty' = inf\nabout = '''\nentries\n'''\nways = 1").unwrap().lines;
        let given = Map::from_iter([("ways".to_owned(), Json::from(0))]);
        for (what, expected) in [
            ("entries = 0 is not allowed: x", "line 3: entries = 0 is not allowed: x"),
            ("penalty = inf is not allowed", "line 4: penalty = inf is not allowed"),
            ("unknown key 'entries'; there are x = y", "line 3: unknown key 'entries'; there are x = y"),
            ("ways = 0 is not allowed", "ways = 0 is not allowed"),
            ("the key 'kind' is missing", "the key 'kind' is missing"),
        ] {
            assert_eq!(lines.place(what.to_owned(), &given), expected);
        }
    }

    #[test]
    fn about_is_a_text() {
        for value in ["inf", "nan", "-inf", "1", "2026-11-24", "true", "[]", "{ a = 1 }"] {
            let said = parse(&format!("kind = 'single'\nabout = {value}")).unwrap_err();
            assert!(said.starts_with("line 2: about = ") && said.contains("must be a text"), "{said}");
        }
        assert_eq!(parse("about = 'inf'").unwrap().about, "inf");
    }

    #[test]
    fn values_survive_being_printed() {
        let text = "a \u{7f}\u{1f}\u{e4}\n\t\"\\' b";
        for value in
            [u64::MAX.into(), (1u64 << 63).into(), (i64::MAX as u64).into(), 0.25.into(), 1e300.into(), text.into()]
        {
            let again = parse(&format!("key = {}", toml(&value))).unwrap_or_else(|e| panic!("{e}")).keys;
            let number = again["key"].as_str().and_then(|text| text.parse::<u64>().ok().map(Json::from));
            assert_eq!(number.unwrap_or_else(|| again["key"].clone()), value);
        }
    }
}
