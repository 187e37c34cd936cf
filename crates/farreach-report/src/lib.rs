//! Reports: pure functions of a result. Same result, same bytes.
//!
//! Owns every form in which a result is shown: text tables, JSON, CSV, HTML with its drawings, comparison of results.
//!
//! Must not know how a result comes about, and asks nobody for more than is in it: no clock, no files, no machine that
//! runs. A cost that a report shows is in the result, too.
//!
//! Charts with two axes are in `html/axes`, with lines (`html/lines`) or dots (`html/scatter`; `html/labels` places the
//! names). Where a value goes is `html/scale`.

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
