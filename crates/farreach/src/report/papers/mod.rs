//! Reports of the papers' tables measured again: text for a terminal, JSON, CSV, Markdown, one HTML page.

mod cells;
mod charts;
pub mod csv;
pub mod html;
pub mod markdown;
pub mod terminal;

use crate::study::Papers;

/// Pretty-printed JSON, schema `farreach.papers/1`, a line feed at the end.
pub fn json(papers: &Papers) -> String {
    let mut text = serde_json::to_string_pretty(papers).expect("sections have only text keys, so they are always JSON");
    text.push('\n');
    text
}
