//! Reports: a result as a table for people, as JSON, as CSV and as a page. Same result, same bytes.
//!
//! | owns | must not know |
//! |---|---|
//! | how numbers are written for people ([`format`]) | how a number was counted, or what it costs |
//! | tables at a terminal, CSV, Markdown | files, options of commands, terminals |
//! | pages that are complete in themselves ([`html`], [`papers`]), and their charts | which claims there are, and whether they hold |
//!
//! Charts with two axes are `html/axes`, with lines (`html/lines`) or dots (`html/scatter`, whose labels `html/labels` places); where a
//! value goes is `html/scale`. Results are data of `farreach-types`; whatever is shown is in them.

pub mod compaction;
mod contiguity;
pub mod csv;
pub mod format;
pub mod grid;
pub mod html;
pub mod json;
pub mod pagesize;
pub mod papers;
mod prices;
mod systems;
pub mod table;
mod view;

use farreach_types::counts::{ContiguityResult, PageSizeResult, RunResult};
use farreach_types::papers::Papers;

/// A result in every form.
pub trait Report {
    /// For people at a terminal that is so many characters wide; [`usize::MAX`] for whatever has no width.
    fn table(&self, width: usize) -> String;
    /// For programs.
    fn json(&self) -> String;
    /// For spreadsheets.
    fn csv(&self) -> String;
    /// A page complete in itself.
    fn html(&self) -> String;
}

impl Report for RunResult {
    fn table(&self, width: usize) -> String {
        table::render(self, width)
    }
    fn json(&self) -> String {
        json::render(self)
    }
    fn csv(&self) -> String {
        csv::render(self)
    }
    fn html(&self) -> String {
        html::render(self)
    }
}

impl Report for PageSizeResult {
    fn table(&self, width: usize) -> String {
        pagesize::table(self, width)
    }
    fn json(&self) -> String {
        json::render(self)
    }
    fn csv(&self) -> String {
        pagesize::csv(self)
    }
    fn html(&self) -> String {
        html::pagesize::render(self)
    }
}

impl Report for ContiguityResult {
    fn table(&self, width: usize) -> String {
        contiguity::table(self, width)
    }
    fn json(&self) -> String {
        json::render(self)
    }
    fn csv(&self) -> String {
        contiguity::csv(self)
    }
    fn html(&self) -> String {
        html::contiguity::render(self)
    }
}

impl Report for Papers {
    fn table(&self, width: usize) -> String {
        papers::terminal::render(self, width)
    }
    fn json(&self) -> String {
        json::render(self)
    }
    fn csv(&self) -> String {
        papers::csv::render(self)
    }
    fn html(&self) -> String {
        papers::html::render(self)
    }
}
