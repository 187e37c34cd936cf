//! The result as JSON: the contract for programs.

use crate::counts::RunResult;

/// Pretty-printed, fields in the order of the types, a line feed at the end.
pub fn render(result: &RunResult) -> String {
    let mut text = serde_json::to_string_pretty(result).expect("a result has only text keys, so it is always JSON");
    text.push('\n');
    text
}
