//! The result as JSON: the contract for programs.

use serde::Serialize;

/// Pretty-printed, fields in the order of the types, a line feed at the end. For results, which have only text keys.
pub fn render(result: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(result).expect("a result has only text keys, so it is always JSON");
    text.push('\n');
    text
}
