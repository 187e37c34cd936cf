//! What must be said of a format beside its name: `NAME:key=value,...`.

use std::fmt::Display;

/// Its keys and values.
pub(crate) struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    /// Takes a text apart, which may be empty.
    ///
    /// # Errors
    /// A key is not one of these, has no value, or stands twice.
    pub fn parse(text: &'a str, allowed: &[&str]) -> Result<Settings<'a>, String> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("'{part}' is not allowed: allowed is KEY=VALUE, with the keys {}", list(allowed)));
            };
            if !allowed.contains(&key) {
                return Err(format!("there is no '{key}': allowed are {}", list(allowed)));
            }
            if value.is_empty() {
                return Err(format!("{key} has no value"));
            }
            if pairs.iter().any(|&(other, _)| other == key) {
                return Err(format!("{key} stands twice"));
            }
            pairs.push((key, value));
        }
        Ok(Settings(pairs))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|&&(k, _)| k == key).map(|&(_, value)| value)
    }
}

/// Words with commas between.
pub(crate) fn list(words: &[impl Display]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
