//! Reports of the papers' tables measured again: text for a terminal, CSV, Markdown, one HTML page.

mod cells;
mod charts;
mod codes;
pub mod csv;
pub mod html;
pub mod markdown;
pub mod terminal;
